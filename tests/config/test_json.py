"""The JSON reader held against Python's: both accept and understand the same, or both refuse. Python's is made as strict as
ours is meant to be: no duplicate keys, no NaN, no lone surrogates, no NUL, at most 64 levels, numbers of at most 60
characters."""

import decimal
import json
import random
import re

import batch

DEPTH_MAX, NUMBER_MAX = 64, 60


class Refused(Exception):
    pass


def pairs(items):
    if len({key for key, _ in items}) != len(items):
        raise Refused("duplicate key")
    return dict(items)


def number(text):
    if len(text) > NUMBER_MAX:
        raise Refused("a long number")
    exact = decimal.Decimal(text)
    # Beyond this no whole number fits 64 bits, and Decimal would write it out.
    if exact.adjusted() < 30 and exact == exact.to_integral_value() and -2**63 <= exact < 2**64:
        return int(exact)
    return "~" if float(text) in (float("inf"), float("-inf")) else float(text)


def constant(name):
    raise Refused(name)


def check(value, depth=0):
    if isinstance(value, str):
        if re.search("[\0\ud800-\udfff]", value):
            raise Refused("a NUL or half of a surrogate pair")
    elif isinstance(value, (list, dict)):
        if depth == DEPTH_MAX:
            raise Refused("deep")
        for item in value:
            check(item, depth + 1)
            if isinstance(value, dict):
                check(value[item], depth + 1)


def reference(data):
    """-> (accepted, value or reason)"""
    try:
        value = json.loads(data.decode("utf-8", "strict"), object_pairs_hook=pairs, parse_int=number, parse_float=number,
                           parse_constant=constant)
        check(value)
        return True, value
    except (Refused, ValueError, RecursionError) as reason:
        return False, reason


def compare(texts):
    counts = [0, 0]
    for text, (accepted, answer) in zip(texts, batch.run("jsonecho", [], texts)):
        wanted, value = reference(text)
        assert accepted == wanted, (text, answer, value)
        counts[accepted] += 1
        if accepted:
            assert json.loads(answer) == value, (text, answer)
        else:
            assert re.match(rb"line \d+, column \d+: .", answer), answer
    return counts


SEEDS = [
    b'{"code": "print(1)\\n", "timeout_ms": 1000, "files": [{"name": "a.txt", "content": "\\u00e4\\ud83d\\ude00"}], "env": {}}',
    b'[0, -0, 1.5, -1e3, 1E+2, 10e-1, 9007199254740993, 18446744073709551615, -9223372036854775808, 1e400, 1.0]',
    b' [ true , false , null , "" , "\\"\\\\\\/\\b\\f\\n\\r\\t" ] ',
    '{"\u00e4": "\u20ac\U0001f600", "a": {"a": {"b": []}}}'.encode(),
    b"[" * 63 + b"{}" + b"]" * 63,
    b"-1.25", b'"x"', b"null",
]
PIECES = [b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\\u0000", b"\\ud800", b"\\udc00", b"\\u0061", b"0", b"1", b"-", b".", b"e", b"E5", b"+",
          b"null", b"true", b"NaN", b" ", b"\n", b"\x00", b"\x1f", b"\x7f", b"\x80", b"\xff", b"\xc3\xa4", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\x0b",
          b'"a":1,', b"00", b"//", b"'", b"1" * 58, b"0.1"]


def mutate(rng, text):
    text = bytearray(text)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(text) + 1)
        end = min(len(text), at + rng.choice((1, 1, 2, 6)))
        how = rng.randrange(4)
        if how == 0:
            del text[at:end]
        elif how == 1:
            text[at:at] = rng.choice(PIECES)
        elif how == 2:
            text[at:end] = rng.choice(PIECES)
        else:
            text[at:at] = text[at:end]
    return bytes(text)


def test_seeds():
    assert compare(SEEDS) == [0, len(SEEDS)]


def test_mutations():
    rng = random.Random(19990101)
    refused, accepted = compare([mutate(rng, rng.choice(SEEDS)) for _ in range(20000)])
    assert refused > 5000 and accepted > 3000


def test_numbers():
    rng = random.Random(3)
    texts = []
    for _ in range(5000):
        digits = "".join(rng.choice("0123456789") for _ in range(rng.randrange(1, 22)))
        text = rng.choice(("", "-")) + (digits.lstrip("0") or "0")
        if rng.randrange(2):
            text += "." + "".join(rng.choice("0123456789000") for _ in range(rng.randrange(1, 22)))
        if rng.randrange(2):
            text += rng.choice("eE") + rng.choice(("", "+", "-")) + str(rng.randrange(25))
        texts.append(text.encode())
    assert compare(texts)[1] == len(texts)
