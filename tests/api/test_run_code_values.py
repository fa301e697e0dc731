"""POST /run-code: values on their way in and out. Whatever it is, it comes back as it was, or is refused by name."""

import datetime
import json
import math
import random
import shutil

import pytest
from harness import Server
from run_code import UNDEFINED, BigInt, Bytes, Client, FunctionServer, Map, Set, encode

pytestmark = pytest.mark.skipif(not shutil.which("node"), reason="no Node")

EPOCH = datetime.datetime(1970, 1, 1)
VIEWS = {"Int8Array": 1, "Uint8Array": 1, "Uint8ClampedArray": 1, "Int16Array": 2, "Uint16Array": 2, "Int32Array": 4, "Uint32Array": 4,
         "Float32Array": 4, "Float64Array": 8, "BigInt64Array": 8, "BigUint64Array": 8, "DataView": 1, "ArrayBuffer": 1}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    place = tmp_path_factory.mktemp("values")
    with FunctionServer() as callbacks, Server(place / "log", SANDBOX_EXECUTOR_CALLBACK_URLS=callbacks.url) as server:
        yield Client(server, callbacks)


def same(a, b):
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a):
        return math.isnan(b)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, float) or isinstance(b, float):
        return not isinstance(b, BigInt) and a == b and math.copysign(1, a) == math.copysign(1, b)
    return type(a) is type(b) and a == b


VALUES = {
    "null": None, "true": True, "a number": 1.5, "a large number": 1.7976931348623157e308, "a small number": 5e-324, "the largest whole": 2 ** 53 - 1,
    "minus zero": -0.0, "NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf, "undefined": UNDEFINED, "an empty string": "",
    "a string": "é🙂\u2028\"\\\n\x7f", "bigints": [BigInt(0), BigInt(-1), BigInt(2 ** 200)], "dates": [EPOCH, EPOCH.replace(year=2262, microsecond=1000)],
    "arrays": [[], [[]], [1, [2, [None]]]], "objects": {"a": {}, "": 1, "b c": {"d": [1]}, "constructor": 1, "toString": 2, "length": 3},
    "$type as a key": {"$type": "map", "entries": 1}, "$type deeper": {"a": [{"$type": {"$type": UNDEFINED}}]},
    "maps": Map([(1, "a"), ("1", "b"), (UNDEFINED, UNDEFINED), (Map(), Set())]), "sets": Set([1, "1", math.nan, {}, []]),
    **{name: Bytes(name, bytes(range(size * 3))) for name, size in VIEWS.items()}, "no bytes": Bytes("Uint8Array", b""),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_survive(client, name):
    value = VALUES[name]
    assert same(client.value("export default (a) => a", args=[value]), value)
    assert same(client.value("import {a} from 'p'; export default a", imports={"p": {"a": value}}), value)
    assert same(client.value("export default g", globals={"g": value}), value)


def test_all_of_them_at_once_by_every_way(client):
    heard = []
    def f(value):
        heard.append(value)
        return value
    reply = client.start("console.log(...list); await report(list); export default await f(list)", report=heard.append,
                         globals={"list": list(VALUES.values()), "f": f}).wait()
    expected = list(VALUES.values())
    assert reply["status"] == "success", reply
    assert same(heard[0], expected) and same(heard[1], expected)
    assert reply["result"] == reply["reports"][0] == reply["logs"][0]["args"] == encode(expected, {})


def any_value(random_, depth=4):
    simple = [
        lambda: None, lambda: random_.random() < 0.5, lambda: UNDEFINED, lambda: random_.uniform(-1e6, 1e6), lambda: random_.randint(-2 ** 53, 2 ** 53),
        lambda: random_.choice([math.nan, math.inf, -math.inf, -0.0]), lambda: BigInt(random_.randint(-2 ** 100, 2 ** 100)),
        lambda: "".join(chr(random_.choice([random_.randint(1, 127), random_.randint(128, 0xd7ff), random_.randint(0x10000, 0x10ffff)]))
                        for _ in range(random_.randint(0, 6))),
        lambda: EPOCH + datetime.timedelta(milliseconds=random_.randint(-10 ** 12, 10 ** 13)),
        lambda: (lambda name: Bytes(name, random_.randbytes(VIEWS[name] * random_.randint(0, 4))))(random_.choice(list(VIEWS))),
    ]
    if depth == 0 or random_.random() < 0.4:
        return random_.choice(simple)()
    some = [any_value(random_, depth - 1) for _ in range(random_.randint(0, 4))]
    # What JavaScript itself has in another order, or once: keys that look like indices, and members of sets and keys of maps.
    keys = list(dict.fromkeys(random_.choice(["a", "b", "$type", "__proto__", "constructor", "é", "", "then "]) for _ in some))
    return random_.choice([lambda: some, lambda: dict(zip(keys, some)), lambda: Map((f"k{i}", value) for i, value in enumerate(some)),
                           lambda: Set([[value] for value in some])])()


@pytest.mark.parametrize("seed", range(8))
def test_any_value_survives(client, seed):
    """Forty of them in a run, in and out."""
    random_ = random.Random(seed)
    values = [any_value(random_) for _ in range(40)]
    assert same(client.value("export default async (...list) => { const out = []; for (const v of list) out.push(await f(v)); return out }",
                             args=values, globals={"f": lambda value: value}), values)


def test_what_a_value_is_inside(client):
    assert client.value("""
const is = (value, type) => Object.getPrototypeOf(value) === type.prototype
export default (date, map, set, bytes, buffer, view, object, list) => [is(date, Date), is(map, Map), is(set, Set), is(bytes, Uint8Array),
  is(buffer, ArrayBuffer), is(view, DataView), is(object, Object), is(list, Array), Object.hasOwn(object, '__proto__')]
""", language="javascript", args=[EPOCH, Map(), Set(), Bytes("Uint8Array", b"a"), Bytes("ArrayBuffer", b"a"), Bytes("DataView", b"a"), {"__proto__": 1}, []]) == [True] * 9


def test_no_reference_is_shared(client):
    assert client.value("const a = {}; export default [a, a]") == [{}, {}]
    assert client.value("export default (x, y) => [x === y, (x.a = 1, y.a)]", args=[{"a": 0}, {"a": 0}]) == [False, 0]


# What it is: (an expression, a word of the refusal).
REFUSED = {
    "a function": ("() => () => 1", "a function"), "a symbol": ("() => Symbol('s')", "a symbol"), "a WeakMap": ("new WeakMap()", "WeakMap"),
    "a WeakSet": ("new WeakSet()", "WeakSet"), "a WeakRef": ("new WeakRef({})", "WeakRef"), "a promise inside": ("[Promise.resolve(1)]", "Promise"),
    "a class's instance": ("new (class Point { x = 1 })()", "Point"), "an anonymous class's instance": ("new (class {})()", "a class"),
    "a subclass of Array": ("new (class List extends Array {})()", "List"), "a subclass of Map": ("new (class Table extends Map {})()", "Table"),
    "an error": ("new TypeError('x')", "TypeError"), "a regular expression": ("/x/", "RegExp"), "a boxed number": ("Object(1)", "Number"),
    "a proxy": ("new Proxy({}, {})", "a Proxy"), "a proxy of an array": ("new Proxy([], {})", "a Proxy"),
    "a generator": ("(function* () {})()", "GeneratorObject"),
    "itself": ("(() => { const a = {}; a.a = a; return a })()", "holds itself"), "itself in a map": ("(() => { const m = new Map(); m.set(1, [m]); return m })()", "holds itself"),
    "half a character": ("'\\ud800'", "surrogate"), "half a character in a key": ("({'\\udc00x': 1})", "surrogate"),
    "many levels": ("(() => { let a = []; for (let i = 0; i < 1000; i++) a = [a]; return a })()", "levels"),
    "very many levels": ("(() => { let a = []; for (let i = 0; i < 1e6; i++) a = [a]; return a })()", "levels"),
    "a large string": ("'x'.repeat(1e7)", "larger"), "large bytes": ("new Uint8Array(1e7)", "larger"), "a long array": ("new Array(4e9)", "larger"),
    "a large tree": ("(() => { let a = ['x']; for (let i = 0; i < 40; i++) a = [a, a]; return a })()", "larger"),
    "a disguised promise": ("[Object.setPrototypeOf(Promise.resolve(), Object.prototype)]", "Promise"),
    "a disguised WeakMap": ("Object.setPrototypeOf(new WeakMap(), null)", "WeakMap"),
    "a map that is none": ("Object.create(Map.prototype)", "Map"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_cross_is_refused_by_name(client, name):
    source, word = REFUSED[name]
    for code in (f"export default {source}", f"export default async () => {{ await f({source.replace('() => ', '', 1) if name in ('a function', 'a symbol') else source}) }}"):
        reply = client.run(code, language="javascript", globals={"f": lambda *_: None})
        assert (reply["status"], reply["error"]["name"]) == ("error", "SerializationError"), reply
        assert word in reply["error"]["message"]


LEVELS = {"a map's value": ("new Map([[1, a]])", "Map"), "a map's key": ("new Map([[a, 1]])", "Map"), "a set": ("new Set([a])", "Set"),
          "$type as a key": ("({$type: a})", "Object"), "an object": ("({a})", "Object"), "an array": ("[a]", "Array")}


@pytest.mark.parametrize("name", LEVELS)
def test_as_many_levels_as_may_be(client, name):
    """By every way out of the evaluator, each with a frame of its own around it."""
    level, word = LEVELS[name]
    client.callbacks.raw = {"data": "7"}
    try:
        reply = client.run(f"""
const deep = (n) => {{ let a = 1n; for (let i = 0; i < n; i++) a = {level}; return a }}
const caught = []
console.log(deep(200), deep(201))
for (const way of [report, f]) {{ try {{ await way(deep(201)) }} catch (e) {{ caught.push(e.name) }} }}
report(deep(200))
export default [await f(deep(199)), caught, deep(199)]
""", language="javascript", report=True, globals={"f": lambda _: None})
    finally:
        client.callbacks.raw = None
    assert reply["status"] == "success", reply
    value, [logged, refused] = reply["reports"][0], reply["logs"][0]["args"]
    assert reply["result"][:2] == [7, ["SerializationError"] * 2] and logged == value and refused == f"[{word}]"
    assert json.dumps(value).count("[") + json.dumps(value).count("{") > 200 and json.dumps(reply["result"][2]) in json.dumps(value)


@pytest.mark.parametrize(("source", "value"), [
    ("({get a() { return 1 }})", {"a": 1}), ("Object.create(null, {a: {value: 1, enumerable: true}})", {"a": 1}),
    ("({[Symbol('s')]: 1, a: 1})", {"a": 1}), ("Object.defineProperty({}, 'a', {value: 1})", {}), ("'abc'.match(/b/)", ["b"]),
    ("[, 1]", [UNDEFINED, 1]), ("({toJSON() { return 1 }}).x", UNDEFINED), ("Object.freeze({a: [1]})", {"a": [1]}), ("new Date(NaN)", None),
])
def test_plain_objects_of_other_kinds(client, source, value):
    assert same(client.value(f"export default {source}", language="javascript"), value)


@pytest.mark.parametrize("source", ["({get a() { throw new RangeError('mine') }})", "({toJSON: 1, get b() { throw new RangeError('mine') }})"])
def test_getters_may_throw(client, source):
    error = client.run(f"export default {source}", language="javascript")["error"]
    assert (error["name"], error["message"]) == ("RangeError", "mine")


def test_answers_that_are_no_values(client):
    for answer in ("nothing", '{"$type": "nothing"}', '{"$type": "bigint", "value": "x"}', '{"$type": "bytes", "ctor": "Uint16Array", "data": "AA=="}', "[1"):
        client.callbacks.raw = {"data": answer}
        try:
            reply = client.run("export default f()", globals={"f": lambda: None})
        finally:
            client.callbacks.raw = None
        assert (reply["status"], reply["error"]["name"]) == ("error", "TypeError")


def test_strings_of_requests_have_no_nul(client):
    reply = client.server.request("POST", "/run-code", json.dumps({"source": "1", "options": {"globals": {"a": "\0"}}}))
    assert reply.status == 400
    assert client.value("export default 'a\\0b'") == "a\0b"
