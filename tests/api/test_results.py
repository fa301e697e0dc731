"""`results` of POST /execute: what a program shows beside what it prints."""

import base64
import json
import re
import subprocess

import pytest
from harness import ROOT, call, wait_for
from test_mcp import run as run_tool
from test_streaming import Events

DATA_PACKAGES = "numpy, pandas, matplotlib"
HAS_DEBIANS = subprocess.run(["/usr/bin/python3", "-c", f"import {DATA_PACKAGES}"], capture_output=True).returncode == 0
needs_debian = pytest.mark.skipif(not HAS_DEBIANS, reason="Debian's python3-numpy, python3-pandas, python3-matplotlib are not there")
COLD = {"env": {"PYTHONHASHSEED": "1"}}  # an interpreter of its own
SECONDS = 60
SHOWN_MAX, SHOWN_BYTES_MAX = 100, 4 << 20
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(params=["warm", "cold", "kernel"])
def show(server, request):
    """show(code, **fields) -> the verdict of a job in one of the ways in which Python's programs start"""
    fields = {"warm": {"results": True}, "cold": {"results": True, **COLD},
              "kernel": {"policy": "python-kernel", "session_id": "results"}}[request.param]
    yield lambda code, **more: server.execute(code, timeout=SECONDS, **{**fields, **more})
    if request.param == "kernel":
        assert call(server, "DELETE", "/workspace/results").status == 204


def shown(verdict, status="success"):
    """-> the bundles of a job that has ended so"""
    assert verdict["status"] == status, verdict
    assert verdict["results_truncated"] is False, verdict
    return verdict["results"]


def value(text, **more):
    return {"type": "execute_result", "data": {"text/plain": text, **more}}


def display(text, **more):
    return {"type": "display", "data": {"text/plain": text, **more}}


# ---- Python's values ----

def test_the_value_of_the_last_expression(show):
    verdict = show("x = 20\nprint('hello')\nx + 22")
    assert shown(verdict) == [value("42")]
    assert (verdict["stdout"], verdict["stderr"], verdict["output"]) == ("hello\n", "", "")


@pytest.mark.parametrize("code", ["x = 1", "None", "print(1)", "1 + 1;", "(1 +\n 1)  ;  # nothing", "def f(): 1", "if True: 1", "# 1",
                                  "for x in [1]: x"])
def test_programs_that_end_with_no_value(show, code):
    assert shown(show(code)) == []


def test_the_order_of_what_is_shown(show):
    assert shown(show("display(1, 'a')\nfor x in 'bc': display(x)\n'd'")) == [
        display("1"), display("'a'"), display("'b'"), display("'c'"), value("'d'")]


def test_what_an_object_says_of_itself(show):
    code = """
class All:
    def _repr_html_(self): return '<b>h\\u00e9</b>'
    def _repr_markdown_(self): return '*m*', {'meta': 1}
    def _repr_svg_(self): return '<svg/>'
    def _repr_png_(self): return b'png'
    def _repr_jpeg_(self): return 'anBn\\nanBn'
    def _repr_pdf_(self): return bytearray(b'pdf')
    def _repr_latex_(self): return '$l$'
    def _repr_json_(self): return {'a': [1, None, 'b']}
    def _repr_javascript_(self): return None
    def __repr__(self): return 'all'

class Bundle:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {'text/html': 'from the bundle', 'text/plain': 'plain', 'application/vnd.x+json': [1]}, {}
    def _repr_html_(self): return 'not asked'

class Own:
    def _ipython_display_(self): display('another')

display(All())
display(Bundle(), Own(), All)
"""
    everything, bundle, another, of_class = shown(show(code))
    assert everything["data"] == {
        "text/plain": "all", "text/html": "<b>h\u00e9</b>", "text/markdown": "*m*", "image/svg+xml": "<svg/>",
        "image/png": base64.b64encode(b"png").decode(), "image/jpeg": "anBnanBn", "application/pdf": base64.b64encode(b"pdf").decode(),
        "text/latex": "$l$", "application/json": {"a": [1, None, "b"]}}
    assert bundle["data"] == {"text/html": "from the bundle", "text/plain": "plain", "application/vnd.x+json": [1]}
    assert another == display("'another'")
    assert list(of_class["data"]) == ["text/plain"]


def test_texts_that_json_has_no_room_for(show):
    assert shown(show(r"class A:" "\n" r"  def __repr__(self): return 'a\0b\ud800\x1b\"' + chr(0x1f600)" "\nA()")) == [value('a\ufffdb?\x1b"\U0001f600')]


HOSTILE = {
    "raises": ("def __repr__(self): raise ValueError('mine')", "<unprintable A object>", "ValueError: mine"),
    "recurses": ("def __repr__(self): return repr(self)", "<unprintable A object>", "RecursionError"),
    "another type": ("def __repr__(self): return 5", "<unprintable A object>", "TypeError"),
    "has everything": ("def __getattr__(self, name): return lambda *a, **k: 'any'\n  def __repr__(self): return 'r'", "r", ""),
    "raises for any": ("def __getattribute__(self, name): raise OSError(name)\n  def __repr__(self): return 'r'", "r", ""),
    "prints": ("def __repr__(self): print('printed'); return 'r'", "r", ""),
    "is of other types": ("_repr_html_ = lambda self: 5\n  _repr_png_ = lambda self: {}\n  _repr_json_ = lambda self: {1, 2}\n"
                          "  _repr_svg_ = 7\n  _repr_latex_ = lambda self: None\n  def __repr__(self): return 'r'", "r", "TypeError"),
    "html raises": ("def _repr_html_(self): 1/0\n  def __repr__(self): return 'r'", "r", "ZeroDivisionError"),
    "is not implemented": ("def _repr_html_(self): raise NotImplementedError\n  def __repr__(self): return 'r'", "r", ""),
    "deep json": ("def _repr_json_(self):\n    x = []\n    for i in range(300): x = [x]\n    return x\n  def __repr__(self): return 'r'", "r", ""),
    "a bundle that is none": ("def _repr_mimebundle_(self, **k): return 3\n  def __repr__(self): return 'r'", "r", ""),
    "a str that is none": ("def __repr__(self):\n    class S(str):\n      def __str__(self): 1/0\n      def __len__(self): return 1 << 70\n"
                           "      def encode(self, *a): 1/0\n    return S('r')", "r", None),
}


@pytest.mark.parametrize("which", HOSTILE)
def test_hostile_objects(show, which):
    body, text, complaint = HOSTILE[which]
    verdict = show(f"class A:\n  {body}\nA()")
    assert shown(verdict) == [value(text)], verdict
    assert complaint in verdict["stderr"] if complaint else complaint is None or verdict["stderr"] == "", verdict
    assert (verdict["stdout"] == "printed\n") is (which == "prints")
    assert "/immure-results.py" not in verdict["stderr"].split("Error: maximum")[0][:400], verdict


def test_base64_that_is_none(show):
    verdict = show("class A:\n  def _repr_png_(self): return '\"}]<b>'\n  def __repr__(self): return 'r'\nA()")
    assert (verdict["results"], verdict["results_truncated"]) == ([value("r")], True)


def test_an_object_of_a_hundred_megabytes(show):
    verdict = show("class A:\n  def __repr__(self): return 'r' * (100 << 20)\n  def _repr_html_(self): return 'h' * (5 << 20)\nA()")
    assert verdict["status"] == "success" and verdict["results_truncated"] is True, verdict["stderr"]
    [only] = verdict["results"]
    assert list(only["data"]) == ["text/plain"] and re.fullmatch(r"r{65536}\.\.\. \[cut\]", only["data"]["text/plain"])


def test_thousands_of_displays(show):
    verdict = show("class A:\n  made = 0\n  def __repr__(self): A.made += 1; return str(A.made)\n"
                   "for i in range(5000): display(A())\nprint(A.made)")
    assert verdict["results"] == [display(str(i + 1)) for i in range(SHOWN_MAX)]
    assert verdict["results_truncated"] is True
    assert verdict["stdout"] == f"{SHOWN_MAX}\n"  # no more have been made


def test_bytes_in_all(show):
    verdict = show("class A:\n  def _repr_html_(self): return 'h' * (3 << 20)\n  def __repr__(self): return 'r'\nfor i in range(4): display(A())")
    assert [sorted(one["data"]) for one in verdict["results"]] == [["text/html", "text/plain"]] * 2 + [["text/plain"]] * 2
    assert verdict["results_truncated"] is True


# ---- How programs end ----

def test_an_exception(show):
    verdict = show("display(1)\ndef f():\n    raise KeyError('k\u00e9y')\nf()")
    first, error = shown(verdict, "execution_error")
    assert first == display("1") and verdict["exit_code"] == 1
    assert (error["type"], error["name"], error["value"]) == ("error", "KeyError", "'k\u00e9y'")
    assert error["traceback"] == verdict["stderr"]
    lines = [int(line) for line in re.findall(r'File "[^"]*", line (\d+), in', verdict["stderr"])]
    assert lines == [4, 3], verdict["stderr"]


@pytest.mark.parametrize("code", ["x = (1 +", "x = 1\nreturn 5", "await x", "x = 1\n\nyield 1", "\tx = 1\n y", "from __future__ import x\n1"])
def test_what_does_not_compile(server, code):
    plain = server.execute(code)
    for fields in {}, COLD:
        verdict = server.execute(code, results=True, **fields)
        assert (verdict["stderr"], verdict["exit_code"]) == (plain["stderr"], plain["exit_code"])
        assert [one["type"] for one in verdict["results"]] in (["error"], [])


SAME = {
    "exit": "import sys\nprint(1)\nsys.exit(3)",
    "exit with words": "raise SystemExit('words')",
    "exception": "def f(n):\n    return 1 / n\n\nf(0)",
    "chained": "try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise ValueError('x') from e",
    "interrupt": "raise KeyboardInterrupt",
    "hook": "import sys\nsys.excepthook = lambda t, e, tb: print('hook', t.__name__, e, tb.tb_lineno)\n\n1/0",
    "atexit": "import atexit\natexit.register(print, 'last')\nprint('first')\n1/0",
    "future": "'''The text.'''\nfrom __future__ import annotations\ndef f(x: nothing): pass\nprint(__doc__, f.__annotations__)",
    "names": "print(__name__, __file__, __spec__, sorted(n for n in globals() if n.startswith('__')))",
    "main": "import __main__\nx = 5\nprint(__main__.x)",
    "argv": "import sys\nprint(sys.argv[1:], sys.path[0])",
    "stdin": "print(input())",
    "text alone": "'''Only this.'''",
    "async": "import asyncio\nasync def f(): return 5\nprint(asyncio.run(f()))",
    "threads": "import threading\nt = threading.Thread(target=print, args=('thread',))\nt.start()",
    "fork": "import os\nif os.fork() == 0:\n    print('child', flush=True)\n    os._exit(0)\nos.wait()\nprint('parent')",
    "environment": "import os\nprint(sorted(n for n in os.environ if 'IMMURE' in n))",
    "trace": "import sys\nseen = []\nsys.settrace(lambda f, e, a: seen.append(e))\ndef f(): pass\nf()\nsys.settrace(None)\nprint(seen)",
    "warnings": "import warnings\nwarnings.warn('careful')",
}


@pytest.mark.parametrize("which", SAME)
def test_everything_else_is_as_without(server, which):
    def told(**fields):
        verdict = server.execute(SAME[which], stdin="line\n", args=["a"], **fields)
        return {key: verdict[key] for key in ("stdout", "stderr", "exit_code", "signal", "status", "output")}

    assert told(results=True) == told(results=False)
    assert told(results=True, **COLD) == told(**COLD)


def test_nothing_of_it_is_there_where_it_is_not_asked_for(server):
    code = "import os, sys\nprint('display' in dir(__builtins__), 'IMMURE_RESULTS' in os.environ)\n1 + 1"
    for fields in {}, {"results": False}, {"results": None}, COLD:
        verdict = server.execute(code, **fields)
        assert verdict["stdout"] == "False False\n"
        assert "results" not in verdict and "results_truncated" not in verdict


def test_calls_files_and_a_result_beside_it(show):
    code = "open('a.txt', 'w').write('file')\ndisplay('d')\nset_result({'r': 1}, files=['a.txt'])\ndisplay('e')\n'v'"
    verdict = show(code, outputs=["a.*"])
    assert shown(verdict) == [display("'d'"), display("'e'"), value("'v'")]
    assert json.loads(verdict["output"]) == {"r": 1}
    assert [(file["name"], base64.b64decode(file["data"])) for file in verdict["files"]] == [("a.txt", b"file")]


def test_a_program_without_a_bridge(server):
    """It has closed what it would be told over."""
    verdict = server.execute("import os\nos.close(3); os.close(4)\ndisplay(1)\nprint('goes on')\n2", results=True)
    assert (verdict["status"], verdict["stdout"], verdict["results"]) == ("success", "goes on\n", []), verdict


@pytest.mark.parametrize("frame", [
    b'{"id":0,"op":"show","type":"display","data":{"text/plain":"x"},"x":1', b'{"id":0,"op":"show"}', b'{"id":0,"op":"show","type":5,"data":{}}',
    b'{"id":0,"op":"show","type":"display","data":"}]}"}', b'{"op":"show","type":"display","data":{}}',
    b'{"id":0,"op":"show","type":"display","data":{"image/png":"\\"}],\\"exit_code\\":7","a\\"b/c":"d","application/json":"1]}"}}'])
def test_forged_results(server, frame):
    code = f"import os\nframe = {frame!r}\nos.write(4, len(frame).to_bytes(4, 'big') + frame)\nprint('printed')"
    for fields in {}, {"results": True}:
        verdict = server.execute(code, **fields)
        assert (verdict["status"], verdict["exit_code"], verdict["stdout"]) == ("success", 0, "printed\n")
        assert verdict.get("results", []) == []
    assert shown(server.execute("1", results=True)) == [value("1")]


# ---- Kernels, streams, other doors ----

def test_calls_of_a_kernel(server):
    def ask(code, **fields):
        return server.execute(code, policy="python-kernel", session_id="calls", **fields)

    assert shown(ask("x = 1\nx")) == [value("1")]
    assert shown(ask("x + 1", results=False)) == [value("2")]
    assert shown(ask("display(x)", results=True)) == [display("1")]
    for _ in range(2):  # the limits are those of one call
        assert ask("for i in range(101): display(i)")["results_truncated"] is True
    assert shown(ask("1/0"), "execution_error")[0]["name"] == "ZeroDivisionError"
    [error] = shown(ask("x +* 1"), "execution_error")
    assert error["name"] == "SyntaxError" and "immure" not in error["traceback"]
    assert shown(ask("x")) == [value("1")]
    assert call(server, "DELETE", "/workspace/calls").status == 204


def test_events(server, wire):
    events = Events(wire(server), server, "display(1)\nassert input() == 'go'\nprint('printed')\n'é'", results=True, stdin="go\n")
    assert events.head() == 200
    told = events.rest()
    assert [data for event, data in told if event == "display"] == [display("1"), value("'\u00e9'")]
    event, reply = told[-1]
    assert event == "result" and reply["results"] == [display("1"), value("'\u00e9'")]


def test_events_come_as_they_happen(server, wire):
    code = "display('early')\nwhile True: pass"
    events = Events(wire(server), server, code, results=True, timeout_ms=50000)
    assert events.head() == 200
    while (event := events.next())[0] != "display":
        pass
    assert event[1] == display("'early'")  # and the job runs on; it ends with this connection


def test_jobs_that_are_asked_for_later(server):
    accepted = call(server, "POST", "/execute?wait=false", {"code": "5", "results": True})
    assert accepted.status == 202, accepted.body
    path = f"/jobs/{accepted.json['job_id']}"
    wait_for(lambda: call(server, "GET", path).json["status"] != "running", "the job's end")
    assert shown(call(server, "GET", path).json["reply"]) == [value("5")]


def test_the_mcp_tool(server):
    plain = run_tool(server, code="1 + 1")
    assert plain["content"] == [{"type": "text", "text": "(No output)"}]
    png = base64.b64encode(PNG + b"picture").decode()
    code = f"class A:\n  def _repr_png_(self): return {png!r}\nprint('printed')\ndisplay(A())\ndisplay('d')\n40 + 2"
    result = run_tool(server, code=code, results=True)
    assert result["content"] == [{"type": "text", "text": "printed\n"}, {"type": "image", "data": png, "mimeType": "image/png"},
                                 {"type": "text", "text": "'d'"}, {"type": "text", "text": "42"}]
    assert "results" not in result["structuredContent"]
    no_picture = run_tool(server, code="class A:\n  def _repr_png_(self): return b'<html>'\n  def __repr__(self): return 'r'\nA()", results=True)
    assert no_picture["content"] == [{"type": "text", "text": "r"}]
    many = run_tool(server, code="for i in range(30): display(i)", results=True)["content"]
    assert [block["text"] for block in many] == [*map(str, range(16)), "(More was shown than there is room for.)"]


def test_runtimes_that_show_nothing(server):
    reply = call(server, "POST", "/execute", {"code": "echo 1", "language": "bash", "results": True})
    assert (reply.status, reply.json["field"]) == (400, "results") and "bash" in reply.json["error"]
    assert call(server, "POST", "/execute", {"code": "echo 1", "language": "bash", "results": False}).status == 200
    reply = call(server, "POST", "/execute", {"code": "1", "results": 1})
    assert (reply.status, reply.json["error"]) == (400, "results: must be true or false, not a number")


# ---- Tables and pictures ----

def data_runtime():
    """The one that stands in the shipped configuration as a comment."""
    text = (ROOT / "config/server.textproto").read_text()
    commented = text[text.index("# runtime {"):]
    return re.sub(r"^# ", "", commented, flags=re.M)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    from conftest import IMMURE
    from harness import Server
    path = tmp_path_factory.mktemp("data")
    kernel = data_runtime().replace('"python-data"', '"kernel"').replace("template:", 'kernel: "/immure/immure-kernel.py" template:')
    kernel = kernel.replace("  prelude", '  prelude { path: "/immure/immure-kernel.py" file: "python/immure-kernel.py" }\n  prelude', 1)
    (path / "policies").mkdir()
    shipped = subprocess.run([IMMURE, "policy", "show", "--flat", "python-data"], check=True, capture_output=True, text=True, timeout=60).stdout
    (path / "policies" / "kernel.textproto").write_text(shipped.replace('name: "python-data"', 'name: "kernel" state: KERNEL'))
    (path / "server.textproto").write_text(f'environment: "test" policy_path: "{path / "policies"}"\n{data_runtime()}{kernel}')
    with Server(path / "log", immure=IMMURE, SANDBOX_EXECUTOR_CONFIG=str(path / "server.textproto")) as server:
        yield server


@pytest.fixture(params=["warm", "cold", "kernel"])
def plot(data, request):
    fields = {"warm": {"language": "python-data", "results": True}, "cold": {"language": "python-data", "results": True, **COLD},
              "kernel": {"language": "kernel", "session_id": "plot"}}[request.param]
    yield lambda code, **more: data.execute(code, timeout=SECONDS, **{**fields, **more})
    if request.param == "kernel":
        assert call(data, "DELETE", "/workspace/plot").status == 204


DRAW = """
import matplotlib.pyplot as plt
fig, ax = plt.subplots(figsize=(3, 2))
ax.plot([1, 3, 2], color='red'); ax.set_title('A title')
fig.savefig('saved.png')
"""
COMPARE = """
import matplotlib.image, numpy
a, b = (matplotlib.image.imread(name) for name in ('a.png', 'b.png'))
print(a.shape, numpy.array_equal(a, b), len(numpy.unique(a.reshape(-1, a.shape[2]), axis=0)) > 10)
"""


@needs_debian
@pytest.mark.parametrize("end", ["", "plt.show()", "plt.show(block=False)\nplt.gcf().number\nplt.close()", "fig", "display(fig)"])
def test_the_picture_is_the_right_one(data, plot, end):
    verdict = plot(DRAW + end, outputs=["saved.png"])
    pictures = [one["data"]["image/png"] for one in shown(verdict) if "image/png" in one["data"]]
    assert len(pictures) == 1 and base64.b64decode(pictures[0]).startswith(PNG), verdict["results"]
    [saved] = [file["data"] for file in verdict["files"]]
    compared = data.execute(COMPARE, language="python-data", timeout=SECONDS,
                            files=[{"name": "a.png", "data": pictures[0]}, {"name": "b.png", "data": saved}])
    assert compared["stdout"] == "(200, 300, 4) True True\n", compared
    assert "Traceback" not in verdict["stderr"]


@needs_debian
def test_figures_are_closed_when_they_are_shown(plot):
    code = "import matplotlib.pyplot as plt\nfor i in range(3):\n    plt.plot([i])\n    plt.show()\n    print(plt.get_fignums())\nplt.figure(); plt.figure()"
    verdict = plot(code)
    kinds = [(one["type"], "image/png" in one["data"]) for one in shown(verdict)]
    assert verdict["stdout"] == "[]\n" * 3
    # The last figure is the value of the last expression, and shown as that; the other at the end.
    assert kinds == [("display", True)] * 3 + [("execute_result", True), ("display", True)]


@needs_debian
def test_a_table(plot):
    verdict = plot("import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', '<y>']})")
    [table] = shown(verdict)
    assert table["type"] == "execute_result"
    assert "<table" in table["data"]["text/html"] and "&lt;y&gt;" in table["data"]["text/html"]
    assert table["data"]["text/plain"].split() == ["a", "b", "0", "1", "x", "1", "2", "<y>"]


@needs_debian
def test_pictures_after_an_exception(plot):
    picture, error = shown(plot("import matplotlib.pyplot as plt\nplt.plot([1])\n1/0"), "execution_error")
    assert "image/png" in picture["data"] and error["name"] == "ZeroDivisionError"


# ---- Node ----

@pytest.fixture(params=["program", "kernel"])
def show_node(server, request):
    fields = {"program": {"results": True}, "kernel": {"policy": "node-kernel", "session_id": "node-results"}}[request.param]
    yield lambda code, **more: server.execute(code, language="node", timeout=SECONDS, **{**fields, **more})
    if request.param == "kernel":
        assert call(server, "DELETE", "/workspace/node-results").status == 204


def json_value(value, text):
    return {"type": "execute_result", "data": {"text/plain": text, "application/json": value}}


@pytest.mark.parametrize("code, expected", [
    ("var x = 1; x + 1", json_value(2, "2")),
    ("var a = [1, {b: 'c'}]\na // that\n", json_value([1, {"b": "c"}], "[ 1, { b: 'c' } ]")),
    ("[1, 2]\n  .map((x) => x * 2)\n  .join('-');\n", json_value("2-4", "'2-4'")),
    ("new Map([[1, 2]])", value("Map(1) { 1 => 2 }")),
    ("new Date(0)", value("1970-01-01T00:00:00.000Z")),
    ("Promise.resolve({v: null})", json_value({"v": None}, "{ v: null }")),
    ("(async () => 7)()", json_value(7, "7")),
    ("({u: undefined})", value("{ u: undefined }")),
    ("NaN", value("NaN")),
    ("console.log(1)", None),
    ("void 0", None),
])
def test_values_of_node(show_node, code, expected):
    assert shown(show_node(code)) == ([expected] if expected else [])


@pytest.mark.parametrize("code, expected", [
    ("const x = await Promise.resolve(3)\nx * 2", [json_value(6, "6")]),
    ("await 1;\n`a\nb`", [json_value("a\nb", "'a\\nb'")]),
    ("import fs from 'node:fs'\ndisplay(typeof fs.read)", [display("'function'", **{"application/json": "function"})]),
    ("if (true)\n  f()\nfunction f() { display(1) }", [display("1", **{"application/json": 1})]),
    ("let a = 1\nlet b = a\n+ 1\ndisplay(b)", [display("2", **{"application/json": 2})]),
    ("return 5", [json_value(5, "5")]),
    ("const s = 'a;b'", []),
    ("class A {}", []),
])
def test_programs_of_node(server, code, expected):
    assert shown(server.execute(code, language="node", results=True)) == expected


def test_errors_of_node(show_node):
    verdict = show_node("display('d')\nthrow new TypeError('bad')")
    first, error = shown(verdict, "execution_error")
    assert first["data"]["text/plain"] == "'d'"
    assert (error["type"], error["name"], error["value"]) == ("error", "TypeError", "bad")
    assert error["traceback"].splitlines()[-1].strip().startswith("at") and "immure" not in error["traceback"]
    assert "TypeError: bad" in verdict["stderr"]


def test_hostile_values_of_node(show_node):
    verdict = show_node("""
        display({get a() { throw new Error('getter') }})
        display({[require('util').inspect.custom]() { throw new Error('mine') }})
        display(new Proxy({}, {get() { throw new Error('trap') }, ownKeys() { throw new Error('trap') }}))
        display({[Symbol.for('Jupyter.display')]() { return {'text/html': '<b>', 'image/png': new Uint8Array([1, 2])} }})
        display('x\\u0000\\ud800')
        var loop = {}; loop.loop = loop
        display(loop)
        for (let i = 0; i < 5000; i++) display(i)
    """)
    assert verdict["status"] == "success" and verdict["results_truncated"] is True, verdict
    assert len(verdict["results"]) == SHOWN_MAX
    texts = [one["data"]["text/plain"] for one in verdict["results"]]
    assert texts[0] == "{ a: [Getter] }" and "Error: mine" in verdict["stderr"]
    bundle = next(one["data"] for one in verdict["results"] if "text/html" in one["data"])
    assert (bundle["text/html"], bundle["image/png"]) == ("<b>", "AQI=")
    assert any("[Circular *1]" in text for text in texts)


def test_node_without(server):
    verdict = server.execute("console.log(typeof display, process.env.IMMURE_RESULTS)\n1 + 1", language="node")
    assert verdict["stdout"] == "undefined undefined\n" and "results" not in verdict
