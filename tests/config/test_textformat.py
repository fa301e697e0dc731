"""The text format reader held against protoc: both accept and give the same bytes, or both refuse."""

import concurrent.futures
import os
import random
import re
import shutil
import subprocess

import batch
import corpus
import pytest
from batch import ROOT

EVERYTHING = ("everything.Everything", "tests/config/everything.proto")

pytestmark = pytest.mark.skipif(not shutil.which("protoc"), reason="protoc is not installed")


def ours(texts, message=EVERYTHING[0]):
    """-> [(accepted, packed bytes or the error's text)]"""
    return batch.run("textproto2bin", ["--batch", message], texts)


def protoc(text, message=EVERYTHING[0], proto=EVERYTHING[1]):
    """-> (accepted, packed bytes or the errors)"""
    done = subprocess.run(["protoc", f"--encode={message}", proto], input=text, capture_output=True, timeout=60, cwd=ROOT)
    return done.returncode == 0, done.stdout if done.returncode == 0 else done.stderr


def each_by_protoc(texts):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(protoc, texts))


def test_the_corpus_is_large():
    assert len(set(corpus.VALID)) > 150
    assert len(set(corpus.BROKEN)) > 150


def test_both_accept_and_give_the_same_bytes():
    for text, mine, reference in zip(corpus.VALID, ours(corpus.VALID), each_by_protoc(corpus.VALID)):
        assert reference[0], (text, reference[1])
        assert mine == reference, text


def test_both_refuse():
    for text, mine, reference in zip(corpus.BROKEN, ours(corpus.BROKEN), each_by_protoc(corpus.BROKEN)):
        assert not reference[0], text
        assert not mine[0], text
        assert re.match(rb"input:\d+:\d+: [^\n]+$", mine[1]), mine[1]


@pytest.mark.parametrize("text,says,why", corpus.STRICTER, ids=[entry[1] + f" {i}" for i, entry in enumerate(corpus.STRICTER)])
def test_stricter_on_purpose(text, says, why):
    assert protoc(text)[0], f"protoc refuses it too; no reason to list it ({why})"
    (accepted, error), = ours([text])
    assert not accepted and says.encode() in error, error


PIECES = [b"{", b"}", b"<", b">", b"[", b"]", b":", b",", b";", b"-", b" ", b"\n", b"#", b'"', b"'", b"\\", b"0", b"1", b"9", b"0x", b".", b"e", b"f",
          b"nan", b"inf", b"true", b"RED", b"int32", b"leaf", b"r_int32", b"choice", b"string", b"int32: 1 ", b"r_leaf {}", b"leaf {} ", b"\\x", b"\\u12",
          b"\\0", b"\\777", b"\x80", b"\0", b"strict {}", b"double: ", b"bool: t ", b"colour: ", b"18446744073709551616", b"_"]


def mutate(rng, text):
    text = bytearray(text)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(len(text) + 1)
        end = min(len(text), at + rng.choice((1, 1, 2, 5)))
        how = rng.randrange(5)
        if how == 0:
            del text[at:end]
        elif how == 1:
            text[at:at] = rng.choice(PIECES)
        elif how == 2:
            text[at:end] = rng.choice(PIECES)
        elif how == 3:
            text[at:at] = text[at:end]
        else:
            tokens = re.findall(rb"\s+|\w+|.", bytes(text), re.DOTALL)
            if len(tokens) > 1:
                i, j = rng.sample(range(len(tokens)), 2)
                tokens[i], tokens[j] = tokens[j], tokens[i]
            text = bytearray(b"".join(tokens))
    return bytes(text)


ONLY_WE_REFUSE = re.compile(rb"required field|must not hold a NUL|nested more than|has no field \"gone\"")


def test_mutations():
    """Broken and unbroken variations of the corpus. What we accept goes to protoc as items of one file, the rest one by one."""
    rng = random.Random(20240229)
    seeds = [text for text in corpus.VALID if len(text) < 300]
    texts = sorted({mutate(rng, rng.choice(seeds)) for _ in range(4000)})
    answers = ours(texts)
    accepted = [(text, answer[1]) for text, answer in zip(texts, answers) if answer[0]]
    refused = [(text, answer[1]) for text, answer in zip(texts, answers) if not answer[0]]
    assert len(accepted) > 500 and len(refused) > 500

    mine, = ours([b"".join(b"r_nested {%s\n}\n" % text for text, _ in accepted)])
    reference = protoc(b"".join(b"r_nested {%s\n}\n" % text for text, _ in accepted))
    if mine != reference:
        for text, packed in accepted:
            assert protoc(text) == (True, packed), text
    assert mine == reference

    refused = rng.sample(refused, 1000)
    for (text, error), (protoc_accepts, _) in zip(refused, each_by_protoc([text for text, _ in refused])):
        assert not protoc_accepts or ONLY_WE_REFUSE.search(error), (text, error)


AMOUNTS = [(b"size_bytes: 512MiB", b"size_bytes: 536870912"), (b'size_bytes: "1GiB"', b"size_bytes: 1073741824"), (b"wait_ms: 30s", b"wait_ms: 30000"),
           (b"wait_ms: '5m'", b"wait_ms: 300000"), (b"r_wait_ms: [1h, 1]", b"r_wait_ms: [3600000, 1]"), (b'wait_ms: "7"', b"wait_ms: 7")]


@pytest.mark.parametrize("text,number", AMOUNTS, ids=[text.decode() for text, _ in AMOUNTS])
def test_units_are_our_addition(text, number):
    assert not protoc(text)[0]
    assert ours([text]) == [protoc(number)]


@pytest.mark.parametrize("path,message", [
    ("config/server.textproto", "immure.Server"),
    *((f"config/policies/{path.name}", "immure.Policy") for path in sorted((ROOT / "config/policies").glob("*.textproto"))),
    *((f"config/policies/parts/{path.name}", "immure.Policy") for path in sorted((ROOT / "config/policies/parts").glob("*.textproto"))),
])
def test_shipped_files(path, message):
    """They have no units: whatever reads protobuf reads them."""
    text = (ROOT / path).read_bytes()
    proto = "config/server/server.proto" if message == "immure.Server" else "config/policy/policy.proto"
    reference = protoc(text, message, proto)
    assert reference[0], reference[1]
    assert ours([text], message) == [reference]


@pytest.mark.parametrize("text,error", [
    (b"int32: 5\n  int33: 6", b"input:2:3: Everything has no field \"int33\"; did you mean int32?"),
    (b"r_nested { leaf { } }\nr_nested { leaf { numbr: 1 } }",
     b"input:2:19: r_nested[1].leaf: Leaf has no field \"numbr\"; did you mean number?"),
    (b"r_colour: [RED,\n GREN]", b"input:2:2: r_colour[1]: Colour has no value GREN; did you mean GREEN?"),
    (b"colour: blue", b"input:1:9: colour: Colour has no value blue; did you mean BLUE?"),
    ("string: '\u00e4\u00f6' int32: x".encode(), b"input:1:21: int32: expected a whole number, got 'x'"),
    (b"strict {\n must: 1\n}", b"input:3:1: strict: required field \"name\" is missing"),
    (b"choice { number: 1\n text: 'a' }",
     b"input:2:2: choice: field \"text\" cannot stand beside \"number\": only one of them may be given"),
    (b"leaf { number: 1\n number: 2 }", b"input:2:2: leaf: field \"number\" is given twice"),
    (b"leaf { text: 'a\n", b"input:1:16: a string must end on the line it began on"),
    (b"uint32: 4294967296", b"input:1:9: uint32: 4294967296 is out of range"),
    (b"leaf {", b"input:1:7: leaf: expected the name of a field, got the end of the file"),
])
def test_messages(text, error):
    assert ours([text]) == [(False, error)]
