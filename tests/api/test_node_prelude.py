"""jail/runtime/node/prelude/immure-prelude.cjs on this host, in no jail: node on one side of the bridge, this file on the other."""

import fcntl
import json
import os
import shutil
import struct
import subprocess
import threading

import pytest

from harness import ROOT

NODE = shutil.which("node")
PRELUDE = ROOT / "jail/runtime/node/prelude/immure-prelude.cjs"
HELLO = {"op": "hello", "version": 1, "max_frame_bytes": 100000, "max_result_bytes": 50000, "max_calls_in_flight": 4}

pytestmark = pytest.mark.skipif(not NODE, reason="there is no node here")


class Program:
    """A program under way. `answer`: called with each frame, returns the frames (or bytes) to send back."""

    def __init__(self, code, answer, place, hello=HELLO, module=False):
        path = place / ("main.mjs" if module else "main.cjs")
        path.write_text(code)
        (read, its_out), (its_in, self.write) = os.pipe(), os.pipe()
        self.reader, self.frames, self.most_open, self.is_open = os.fdopen(read, "rb"), [], 0, 0
        if hello:
            self.send(hello)
        setup = f"require({json.dumps(str(PRELUDE))}).place.pid = process.pid"
        (place / "setup.cjs").write_text(setup)
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100) for fd in (its_in, its_out)]
        self.process = subprocess.Popen([NODE, "--require", place / "setup.cjs", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, cwd=place, close_fds=False,
                                        preexec_fn=lambda: [os.dup2(fd, 3 + number) for number, fd in enumerate(ends)])
        for fd in ends:
            os.close(fd)
        os.close(its_in)
        os.close(its_out)
        self.answer = answer
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()
        self.stdout, self.stderr = self.process.communicate(timeout=60)
        self.thread.join()
        self.code = self.process.returncode
        os.close(self.write)

    def send(self, message):
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        os.write(self.write, data if isinstance(message, bytes) else struct.pack(">I", len(data)) + data)

    def serve(self):
        while head := self.reader.read(4):
            frame = json.loads(self.reader.read(struct.unpack(">I", head)[0]))
            self.frames.append(frame)
            for message in self.answer(frame):
                try:
                    self.send(message)
                except BrokenPipeError:
                    pass


def echo(frame):
    return [{"op": "answer", "id": frame["id"], **({"data": json.dumps(frame["args"])} if frame["op"] == "call" else {})}]


def data(text):
    return lambda frame: [{"op": "answer", "id": frame["id"], "data": text}]


def run(code, answer, place, **options):
    program = Program(code, answer, place, **options)
    assert (program.code, program.stderr) == (0, ""), program.stderr
    return program


def test_results(tmp_path):
    program = run("console.log('printed'); setResult({a: [1, null, 'é\\0']}); setResult(2, ['x.png', '/tmp/y']); setResult('z', 'one')", echo, tmp_path)
    assert [(frame["op"], frame["data"], frame["files"]) for frame in program.frames] == [
        ("result", {"a": [1, None, "é\0"]}, []), ("result", 2, [str(tmp_path / "x.png"), "/tmp/y"]), ("result", "z", [str(tmp_path / "one")])]
    assert program.stdout == "printed\n"


DEEP = "const deep = (n, wrap = (a) => [a]) => { let a = 1; for (let i = 0; i < n; i++) a = wrap(a); return a }"


@pytest.mark.parametrize("value", ["deep(512)", "deep(512, (a) => ({a}))", "[deep(511), deep(511), 1, [deep(510)]]", "Array(2000).fill({a: [[]]})",
                                   "(() => { const a = deep(400); return [a, [a], {a: [a, a]}] })()"])
def test_deep_results(tmp_path, value):
    program = run(f"{DEEP}; setResult({value}); console.log(JSON.stringify({value}))", echo, tmp_path)
    assert program.frames[0]["data"] == json.loads(program.stdout)


@pytest.mark.parametrize("value, error", [
    ("undefined", "TypeError: setResult: undefined cannot be JSON"), ("() => 1", "TypeError: setResult: function cannot be JSON"),
    ("NaN", "TypeError: setResult: NaN cannot be JSON"), ("{a: [1, -Infinity]}", "TypeError: setResult: -Infinity cannot be JSON"),
    ("[Object(NaN)]", "TypeError: setResult: NaN cannot be JSON"), ("{a: {b() {}}}", "TypeError: setResult: function cannot be JSON"),
    ("[class {}]", "TypeError: setResult: function cannot be JSON"), ("[Symbol('s')]", "TypeError: setResult: symbol cannot be JSON"),
    ("{a: Symbol('s')}", "TypeError: setResult: symbol cannot be JSON"), ("{toJSON: () => [NaN]}", "TypeError: setResult: NaN cannot be JSON"),
    ("{toJSON: () => undefined}", "TypeError: setResult: object cannot be JSON"), ("[1n]", "TypeError: Do not know how to serialize a BigInt"),
    ("deep(513)", "RangeError: setResult: a value of more than 512 levels"),
    ("deep(1e6)", "RangeError: setResult: a value of more than 512 levels"),
    ("[1, deep(3), deep(511, (a) => ({a})), deep(512)]", "RangeError: setResult: a value of more than 512 levels"),
    ("1n", "TypeError: Do not know how to serialize a BigInt"), ("'\\ud800'", "TypeError: setResult: half of a surrogate pair cannot be JSON"),
    ("'x'.repeat(60000)", "RangeError: setResult: the result is larger than 50000 bytes"),
    ("(() => {const a = []; a.push(a); return a})()", "TypeError: Converting circular structure to JSON"),
])
def test_what_cannot_be_a_result(tmp_path, value, error):
    program = run(f"{DEEP}; setResult('\\\\ud800 🙂'); try {{ setResult({value}) }} catch (e) {{ console.log(String(e)) }}", echo, tmp_path)
    assert program.stdout.startswith(error) and len(program.frames) == 1


@pytest.mark.parametrize("value, data", [
    ("{a: undefined, b: 1}", {"b": 1}), ("[undefined]", [None]), ("new Date(0)", "1970-01-01T00:00:00.000Z"), ("[Object(1), Object('x')]", [1, "x"]),
    ("{f: Object.assign(() => 1, {toJSON: () => 'f'})}", {"f": "f"}), ("[{toJSON: (key) => key}]", ["0"]), ("{a: {toJSON: () => undefined}}", {}),
    ("{[Symbol('s')]: 1}", {}), ("new Map([[1, NaN]])", {}),
])
def test_what_json_stringify_makes_of_it(tmp_path, value, data):
    assert run(f"setResult({value})", echo, tmp_path).frames[0]["data"] == data


def test_what_cannot_be_an_argument(tmp_path):
    program = run("""
        let deep = 1; for (let i = 0; i < 512; i++) deep = [deep];
        for (const bad of [{n: NaN}, {f() {}}, {a: [Symbol()]}, {deep}]) callTool('t', bad).catch(e => console.log(String(e)))
        callToolsParallel([['t'], ['t', {n: Infinity}]]).catch(e => console.log(String(e)))
    """, echo, tmp_path)
    assert program.stdout.splitlines() == [
        "TypeError: callTool: NaN cannot be JSON", "TypeError: callTool: function cannot be JSON", "TypeError: callTool: symbol cannot be JSON",
        "RangeError: callTool: a value of more than 512 levels", "TypeError: callToolsParallel: Infinity cannot be JSON"]
    assert program.frames == []


def test_refused_result(tmp_path):
    program = run("try { setResult(1) } catch (e) { console.log(e.message) }",
                  lambda frame: [{"op": "answer", "id": frame["id"], "error": "set_result: why"}], tmp_path)
    assert program.stdout == "set_result: why\n"


@pytest.mark.parametrize("text, value", [("[1]", [1]), ("plain", "plain"), ("", ""), ("NaN", "NaN"), (" 7 ", 7), ("x" * 200000, "x" * 200000)],
                         ids=["json", "text", "empty", "NaN", "blanks", "large"])
def test_answers(tmp_path, text, value):
    program = run("callTool('t', {q: 1}).then(v => setResult(JSON.stringify(v).length))", lambda frame: data(text)(frame) if frame["op"] == "call" else echo(frame),
                  tmp_path)
    assert (program.frames[0]["name"], program.frames[0]["args"]) == ("t", {"q": 1})
    assert program.frames[1]["data"] == len(json.dumps(value, separators=(",", ":")))


def test_top_level_await_and_errors(tmp_path):
    program = run("""
        try { await callTool('x') } catch (e) { console.log(e instanceof Error, e.message) }
        for (const bad of [[7], ['x', [1]], ['x', 'y'], ['x', {a: 'z'.repeat(200000)}]]) {
            try { await callTool(...bad) } catch (e) { console.log(e.message) }
        }
    """, lambda frame: [{"op": "answer", "id": frame["id"], "error": "Tool 'x' failed: why"}], tmp_path, module=True)
    assert program.stdout.splitlines() == [
        "true Tool 'x' failed: why", "callTool: the tool's name must be a string, not number", "callTool: args must be an object",
        "callTool: args must be an object", "callTool: the arguments are larger than 100000 bytes"]
    assert program.frames == [{"id": 1, "op": "call", "name": "x", "args": {}}]


def test_parallel_calls(tmp_path):
    """In order, however they are answered; never more open than may be; the first error when all have ended."""
    held, most = [], []

    def backwards(frame):
        held.append(frame)
        most.append(len(held))
        if len(held) == 4 or frame["args"].get("last"):
            return [answer for frame in reversed([held.pop() for _ in range(len(held))][::-1]) for answer in echo(frame)]
        return []
    program = run("""
        const calls = []; for (let n = 0; n < 12; n++) calls.push(['t', {n, last: n === 11}])
        callToolsParallel(calls).then(all => console.log(all.map(a => a.n).join()))
    """, backwards, tmp_path)
    assert program.stdout == ",".join(map(str, range(12))) + "\n" and max(most) == 4
    program = run("callToolsParallel([['a'], 'b', ['c']]).catch(e => console.log(e.message))",
                  lambda frame: [{"op": "answer", "id": frame["id"], **({"data": ""} if frame["name"] == "a" else {"error": frame["name"]})}], tmp_path)
    assert program.stdout == "b\n" and len(program.frames) == 3
    assert run("callToolsParallel([]).then(all => console.log(all.length))", echo, tmp_path).stdout == "0\n"


def test_result_while_calls_are_open(tmp_path):
    """The answers of both come in one piece."""
    held = []

    def together(frame):
        held.append(frame)
        if frame["op"] == "call":
            return []
        answers = [{"op": "answer", "id": held[0]["id"], "data": "early"}, {"op": "answer", "id": frame["id"]}]
        return [b"".join(struct.pack(">I", len(text)) + text for text in (json.dumps(answer).encode() for answer in answers))]
    program = run("const p = callTool('t'); setImmediate(() => { setResult(1); p.then(v => console.log(v)) })", together, tmp_path)
    assert program.stdout == "early\n"


def test_calls_after_results(tmp_path):
    """A result waits for its answer by itself; who calls a tool after it hears of that as ever."""
    program = run("setResult(1); callTool('t', {q: 7}).then(v => setResult(v.q))", echo, tmp_path)
    assert [(frame["op"], frame.get("data")) for frame in program.frames] == [("result", 1), ("call", None), ("result", 7)]


def test_frames_in_pieces(tmp_path):
    def bytewise(frame):
        text = json.dumps(echo(frame)[0]).encode()
        return [bytes([byte]) for byte in struct.pack(">I", len(text)) + text]
    assert run("callTool('t', {a: 'é'}).then(v => { console.log(v.a); setResult(1) })", bytewise, tmp_path).stdout == "é\n"


def test_closed_by_the_server(tmp_path):
    program = run("""
        callTool('t').catch(e => { console.log(e.message); return callTool('u') }).catch(e => {
            console.log(e.message); try { setResult(1) } catch (e) { console.log(e.message) } })
    """, lambda frame: [{"op": "closed", "error": "a reason"}], tmp_path)
    assert program.stdout.splitlines() == ["callTool: the bridge is closed: a reason"] * 2 + ["setResult: the bridge is closed: a reason"]


def test_nothing_keeps_the_process_alive_but_calls(tmp_path):
    assert run("setResult(1)", echo, tmp_path).frames[0]["data"] == 1
    assert run("console.log(typeof callTool)", echo, tmp_path).stdout == "function\n"
    assert run("callTool('t'); process.exit(0)", lambda frame: [], tmp_path).code == 0


def test_globals_shadow_nothing(tmp_path):
    program = run("function setResult() { return 'mine' }\nconst callTool = 1\nconsole.log(setResult(), callTool, Object.keys(globalThis).includes('setResult'))\n"
                  "console.log(new Error().stack.split('\\n')[1].trim())", echo, tmp_path)
    assert program.stdout.startswith("mine 1 false\n") and f"{tmp_path}/main.cjs:4:13" in program.stdout


@pytest.mark.parametrize("code", [
    "const {Worker} = require('worker_threads'); new Worker('try { setResult(1) } catch (e) { console.log(e.message) }', {eval: true})",
    "require('child_process').spawnSync(process.execPath, ['--require', %s, '-e', 'try { setResult(1) } catch (e) { console.log(e.message) }'], {stdio: 'inherit'})"
    % json.dumps(str(PRELUDE)),
])
def test_other_threads_and_processes(tmp_path, code):
    program = run(code, echo, tmp_path)
    assert program.stdout == "setResult: only the program's first process and its main thread can do this\n" and program.frames == []


@pytest.mark.parametrize("close", ["3", "4"])
def test_closed_descriptors(tmp_path, close):
    program = run(f"require('fs').closeSync({close}); callTool('t').catch(e => console.log(e.message))", echo, tmp_path)
    assert program.stdout == "callTool: the bridge's descriptors are closed\n"
