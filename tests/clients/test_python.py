"""The client for Python (server/clients/python) against a live server, blocking and with asyncio. Nothing but the standard library is needed."""

import asyncio
import ast
import contextlib
import datetime
import http.server
import importlib
import json
import math
import shutil
import sys
import threading
import time
import types

import pytest
from approvals import KEYS, configuration
from harness import IMMURE, PATIENCE, ROOT, Server, closed_port, runtimes

PACKAGE = ROOT / "server/clients/python"
sys.path.insert(0, str(PACKAGE))
import immure  # noqa: E402
from immure._http import Hangup  # noqa: E402
from immure._tool import text_of  # noqa: E402

node = pytest.mark.skipif(not shutil.which("node"), reason="no Node")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("server") / "log", immure=IMMURE) as started:
        yield started.url, started.key


@pytest.fixture(scope="module")
def client(place):
    with immure.Immure(*place) as made:
        yield made


def aio(test):
    """An asynchronous test, with an AsyncImmure."""
    def run(place):
        async def main():
            async with immure.AsyncImmure(*place) as client:
                await test(client)
        asyncio.run(main())
    run.__name__ = test.__name__
    return run


def value_of(run):
    result = run.result(60)
    assert (result.status, result.error) == ("success", None)
    return result.result


# ---- execute ----

def test_execute(client):
    reply = client.execute("import sys; print(6 * 7, input()); sys.exit(3)", stdin="x")
    assert (reply["stdout"], reply["exit_code"], reply["status"]) == ("42 x\n", 3, "execution_error")


def test_errors(client, place):
    with pytest.raises(immure.ImmureError, match="^unknown: unknown field") as error:
        client.execute("x", unknown=1)
    assert (error.value.status, error.value.code, error.value.field) == (400, "invalid_field", "unknown")
    with pytest.raises(immure.ImmureError) as error:
        immure.Immure(place[0], "wrong").execute("1")
    assert error.value.status == 401
    with pytest.raises(immure.ImmureError, match="no reply") as error:
        immure.Immure(f"http://127.0.0.1:{closed_port()}").execute("1")
    assert error.value.status == 0
    with pytest.raises(ValueError, match="url"):
        immure.Immure("127.0.0.1:8080")


def test_output_as_it_comes(client):
    out, err = [], []
    reply = client.execute("import sys; print('é🙂'); print(2, file=sys.stderr)", on_stdout=out.append, on_stderr=err.append)
    assert ("".join(out), "".join(err)) == ("é🙂\n", "2\n") and reply["stdout"] == "é🙂\n"


def test_tools(client):
    def fail():
        raise RuntimeError("why")

    async def later(text):
        return text * 2
    reply = client.execute("print(call_tools_parallel([('add', {'a': n, 'b': 1}) for n in range(20)])[19], call_tool('later', {'text': 'é'}))\n"
                           "for name in 'fail', 'none':\n    try: call_tool(name)\n    except RuntimeError as error: print(error)",
                           tools={"add": lambda a, b: a + b, "fail": fail, "later": later})
    assert reply["stdout"] == "20 éé\nTool 'fail' failed: why\nTool 'none' failed: there is no tool none\n"


def test_sessions(client):
    with client.session("python/é 1") as session:
        assert session.put("a dir/f#?.txt", "text é")["session"] == "new"
        reply = session.execute('print(open("a dir/f#?.txt").read()); open("out", "wb").write(bytes([0, 255]))', session="kept")
        assert reply["stdout"] == "text é\n"
        assert sorted(file["path"] for file in session.files()) == ["a dir/f#?.txt", "out"]
        assert session.get("out") == b"\x00\xff"
        session.remove("out")
        assert len(session.files()) == 1
    with pytest.raises(immure.ImmureError) as error:
        session.execute("1", session="kept")
    assert error.value.status == 409


def test_sessions_that_are_forked_compared_and_restored(client):
    with client.session("fork/é") as main, client.session("fork/1") as one, client.session("fork/2") as other:
        main.put("f", "ab")
        assert main.fork([one.id, other.id]) == {"files": 1, "left_out": 0, "kernel": None}
        one.put("f", "cd")
        one.put("new", "1")
        assert main.diff(one.id) == {"added": [{"path": "new", "size": 1}], "removed": [],
                                     "changed": [{"path": "f", "size": 2, "size_before": 2}], "truncated": False}
        assert main.restore(one.id) == {"files": 2, "left_out": 0, "kernel": None}
        assert (main.get("f"), other.get("f")) == (b"cd", b"ab")
        with pytest.raises(immure.ImmureError, match=r"to\[1\]") as error:
            main.fork(["fork/3", one.id])
        assert error.value.status == 409


def test_jobs(client):
    started = client.jobs.start('print(call_tool("x"))', calls="stream")
    assert started["status"] == "running"
    job = client.jobs.wait(started["job_id"], tools={"x": lambda: "answered"}, poll=0.01)
    assert (job["status"], job["reply"]["stdout"]) == ("success", "answered\n")
    assert started["job_id"] in [row["job_id"] for row in client.jobs.list()]
    client.jobs.cancel(client.jobs.start("while True: pass")["job_id"], "no more")


def test_catalogues(client):
    assert "python" in [runtime["name"] for runtime in client.runtimes()] and client.policies()


class Busy(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked += 1
        busy = self.server.asked <= self.server.refusals
        body = json.dumps({"error": "busy", "code": "busy", "field": None} if busy else {"stdout": "1\n"}).encode()
        self.send_response(503 if busy else 200)
        self.send_header("Retry-After", "0.02")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_a_busy_server_is_tried_again():
    server = http.server.HTTPServer(("127.0.0.1", 0), Busy)
    server.asked, server.refusals = 0, 2
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        assert immure.Immure(url).execute("1")["stdout"] == "1\n" and server.asked == 3
        server.refusals = 10**6
        with pytest.raises(immure.ImmureError, match="^busy$"):
            immure.Immure(url, retry_budget=0.1).execute("1")
    finally:
        server.shutdown()


# ---- servers that do what ours seldom does ----

LONG_S = PATIENCE * 30


class Fake(http.server.BaseHTTPRequestHandler):
    """`server.play(handler, body)` answers."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "null")
        self.server.asked.append((self.path, body, self.headers))
        self.server.play(self, body)

    do_GET = do_POST

    def reply(self, status, body, **headers):
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": len(data), "Content-Type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(data)

    def event(self, name, data):
        """The first one begins the reply, which ends with the connection."""
        if not getattr(self, "begun", False):
            self.begun = True
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
        self.wfile.write(f"event: {name}\ndata: {json.dumps(data)}\n\n".encode())

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def fake(play):
    """-> a server, with its `url` and what it was `asked`"""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Fake)
    server.daemon_threads, server.play, server.asked, server.url = True, play, [], f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


BUSY = {"error": "busy", "code": "busy", "field": None}


def test_who_hangs_up_before_the_connection_is_there_asks_nothing():
    hangup = Hangup()
    hangup()
    with fake(lambda handler, _: handler.reply(200, {})) as server, pytest.raises(immure.ImmureError):
        immure.Immure(server.url).execute("1", hangup=hangup)
    assert server.asked == []


def test_who_hangs_up_during_a_reply_that_ends_with_its_connection_waits_no_longer():
    hung_up = threading.Event()

    def play(handler, _):
        handler.event("stdout", {"text": "1"})
        hung_up.wait(LONG_S)
    hangup, began = Hangup(), time.monotonic()
    with fake(play) as server:
        with pytest.raises(immure.ImmureError, match="the connection ended before the program did"):
            immure.Immure(server.url).execute("1", hangup=hangup, on_stdout=lambda _: hangup())
        assert time.monotonic() - began < LONG_S
        hung_up.set()


def test_answers_are_tried_again():
    answered = threading.Event()

    def play(handler, body):
        if handler.path == "/execute":
            handler.event("call", {"id": "c", "name": "x", "args": {}})
            handler.event("result", {"status": "success" if answered.wait(LONG_S) else "timeout"})
        elif len(handler.server.asked) < 4:
            handler.reply(503, BUSY, Retry_After="0.02")
        else:
            handler.reply(200, {})
            answered.set()
    with fake(play) as server:
        assert immure.Immure(server.url).execute("1", tools={"x": lambda: 1})["status"] == "success"
    assert [body for path, body, _ in server.asked[1:]] == [[{"id": "c", "data": "1"}]] * 3
    with pytest.raises(immure.ImmureError, match="no reply"):
        immure.Immure(f"http://127.0.0.1:{closed_port()}").http.answer("/executions/x/answers", [], Hangup())


def test_a_run_that_is_terminated_while_the_server_is_busy():
    asked = threading.Event()

    def play(handler, _):
        handler.reply(*((204, None) if handler.path.endswith("/terminate") else (503, BUSY)), Retry_After=LONG_S)
        asked.set()
    with fake(play) as server:
        run = immure.Immure(server.url, retry_budget=2 * LONG_S).run_code("export default 1")
        assert asked.wait(LONG_S)
        run.terminate("enough")
        result = run.result(LONG_S / 2)
    assert (result.status, result.error.message) == ("terminated", "enough")
    assert [path for path, *_ in server.asked].count("/run-code") == 1


@pytest.mark.parametrize("status", [200, 202])
def test_a_reply_without_events(status):
    reply = {"stdout": "1\n"} if status == 200 else {"status": "approval_required", "approval_id": "a-1"}
    with fake(lambda handler, _: handler.reply(status, reply)) as server:
        assert immure.Immure(server.url).execute("1", on_stdout=print) == reply


def test_a_job_that_needs_an_approval(tmp_path):
    (tmp_path / "config").write_text(configuration(tmp_path / "policies") + runtimes())
    with Server(tmp_path / "log", immure=IMMURE, SANDBOX_EXECUTOR_CONFIG=str(tmp_path / "config")) as server:
        client = immure.Immure(server.url, KEYS["caller"])
        for reply in client.execute("print(1)", policy="held", on_stdout=print), client.jobs.start("print(1)", policy="held"):
            assert reply["status"] == "approval_required"
            assert text_of(reply) == f"Error: Not run yet: the program needs an approval, which is asked for ({reply['approval_id']})"


def test_smolagents_hears_of_an_approval(monkeypatch):
    """Without smolagents itself, which test_python_frameworks.py has."""
    stub = types.SimpleNamespace(CodeOutput=dict, PythonExecutor=object)
    monkeypatch.setitem(sys.modules, "smolagents", types.SimpleNamespace(local_python_executor=stub))
    monkeypatch.setitem(sys.modules, "smolagents.local_python_executor", stub)
    executor = importlib.import_module("immure.smolagents").ImmureExecutor
    with fake(lambda handler, _: handler.reply(202, {"status": "approval_required", "approval_id": "a-1"})) as server:
        with pytest.raises(RuntimeError, match="Not run yet: .*a-1"):
            executor(immure.Immure(server.url))


def test_a_key_in_the_url():
    with fake(lambda handler, _: handler.reply(200, {})) as server:
        immure.Immure(server.url.replace("//", "//any:a%20key@")).execute("1")
    assert server.asked[0][2]["Authorization"] == "Bearer a key"
    with pytest.raises(immure.ImmureError, match="no reply from http://127.0.0.1:") as error:
        immure.Immure(f"http://any:hidden@127.0.0.1:{closed_port()}").execute("1")
    with pytest.raises(ValueError, match="url") as mistake:
        immure.Immure("htp://any:hidden@127.0.0.1:8080")
    assert "hidden" not in f"{error.value} {mistake.value}"


# ---- run_code ----

@node
def test_a_run(client):
    run = client.run_code("""
        import { readFile } from 'fs';
        report(await getMessage());
        export async function scan(n: number) { return [await readFile('a'), n] }""",
        execute={"fn": "scan", "args": [3]}, imports={"fs": {"readFile": lambda path: f"<{path}>"}}, globals={"getMessage": lambda: "m"},
        report=lambda value: None)
    assert value_of(run) == ["<a>", 3] and run.reports == ("m",) and not run.running


@node
def test_values_cross_there_and_back(client):
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, datetime.timezone.utc)
    values = [immure.UNDEFINED, None, True, "é🙂", 0, 1.5, math.inf, -math.inf, immure.BigInt(-1), 2**80, moment, [1, [immure.UNDEFINED]], {"a": {"b": []}},
              {"$type": "mine", "x": 1}, immure.Map([({"k": 1}, immure.Set([1, "x"]))]), b"\x01\xff", immure.Bytes(bytes(8), "Float64Array")]
    got = []
    result = value_of(client.run_code("export default async (values) => { await take(values); return values }", execute={"args": [values]},
                                      globals={"take": got.append}))
    assert result == got[0] == values and [type(value) for value in result[-3:]] == [immure.Map, bytes, immure.Bytes]
    assert result[-1].ctor == "Float64Array" and isinstance(result[9], immure.BigInt)
    odd = value_of(client.run_code("export default [-0, NaN, new Date(NaN), {1: 2}]"))
    assert math.copysign(1, odd[0]) == -1 and math.isnan(odd[1]) and math.isnan(odd[2]) and odd[3] == {"1": 2}
    assert value_of(client.run_code("export default [...x.entries()]", globals={"x": {1: {2, 3}}})) == [[1, immure.Set([2, 3])]]


@node
def test_values_that_are_too_large_for_python(client):
    big, date = value_of(client.run_code("export default [-(10n ** 20000n) + 1n, new Date(8.64e15)]"))
    assert big == 1 - 10**20000 and date == "+275760-09-13T00:00:00.000Z"
    assert value_of(client.run_code("export default n === 10n ** 20000n", globals={"n": 10**20000}))


def test_what_cannot_cross(client):
    circle = []
    circle.append(circle)
    for value in (object(), circle, 1j):
        with pytest.raises(immure.SerializationError, match=r"^globals\.deep\.value"):
            client.run_code("export default 0", globals={"deep": {"value": value}})
    with pytest.raises(TypeError, match="timeout"):
        client.run_code("export default 0", timeout=1)


@node
def test_errors_of_runs(client):
    missing = client.run_code("import x from 'nowhere'; export default x").result(60)
    assert (missing.status, missing.error.specifier) == ("link_error", "nowhere")

    def fail():
        raise KeyError("too far")
    result = client.run_code("export default await fail().catch(e => [e instanceof Error, e.message])", globals={"fail": fail}).result(60)
    assert result.result == [True, "'too far'"]
    assert client.run_code("export default await give().catch(e => e.message)", globals={"give": object}).result(60).result == "the result: a object cannot cross"


@node
def test_a_budget(client):
    run = client.run_code("for (;;);")
    time.sleep(0.1)
    run.terminate("2 s budget")
    run.terminate("again")
    result = run.result(60)
    assert (result.status, result.error.message) == ("terminated", "2 s budget")


@node
def test_reports_come_in_order(client):
    seen = []
    run = client.run_code("for (let i = 0; i < 40; i++) report(i); export default 0", report=seen.append)
    assert run.result(60).reports == list(range(40)) == seen == list(run.reports)


# ---- asyncio ----

@aio
async def test_asynchronously(client):
    loop = asyncio.get_running_loop()

    async def add(a, b):
        assert asyncio.get_running_loop() is loop
        await asyncio.sleep(0.01)
        return a + b
    replies = await asyncio.gather(*(client.execute(f"print(call_tool('add', {{'a': {n}, 'b': 1}}))", tools={"add": add}, queue_ms=30000) for n in range(5)))
    assert [reply["stdout"] for reply in replies] == [f"{n + 1}\n" for n in range(5)]
    assert "python" in [runtime["name"] for runtime in await client.runtimes()]
    async with client.session("aio") as session:
        await session.put("f", b"text")
        assert (await session.execute("print(open('f').read())"))["stdout"] == "text\n"
        assert (await session.fork(["aio too"]))["files"] == 1
        async with client.session("aio too") as other:
            assert (await other.restore("aio"))["files"] == 1 and (await session.diff("aio too"))["changed"] == []
    job = await client.jobs.start("print(1)")
    assert (await client.jobs.wait(job["job_id"]))["status"] == "success"


@node
@aio
async def test_a_run_asynchronously(client):
    async def twice(n):
        return 2 * n
    run = client.run_code("export default await twice(21)", globals={"twice": twice})
    assert run.running and (await run).result == 42 and not run.running
    endless = client.run_code("for (;;);")
    endless.terminate("enough")
    assert (await endless).error.message == "enough"


@aio
async def test_a_cancelled_task_ends_its_job(client):
    task = asyncio.create_task(client.execute("print(1, flush=True)\nwhile True: pass", timeout=60, session_id="cancelled", on_stdout=lambda _: task.cancel()))
    with pytest.raises(asyncio.CancelledError):
        await task
    while [row for row in await client.sessions() if row["jobs_running"] > 0]:
        await asyncio.sleep(0.01)


def test_a_task_that_awaits_a_run_and_is_cancelled_ends_it():
    hung_up = threading.Event()

    def play(handler, _):
        handler.event("report", 1)
        if handler.rfile.read(1) == b"":
            hung_up.set()

    async def main(url):
        async with immure.AsyncImmure(url) as client:
            run = client.run_code("for (;;);")
            while not run.reports:
                await asyncio.sleep(0.01)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(run, 0.01)
            return await run
    with fake(play) as server:
        assert asyncio.run(main(server.url)).status == "terminated" and hung_up.wait(LONG_S)


def test_a_task_that_waits_for_a_job_and_is_cancelled_waits_no_longer(place):
    async def main():
        loop = asyncio.get_running_loop()
        async with immure.AsyncImmure(*place) as client:
            job = await client.jobs.start("call_tool('x')\nwhile True: pass", calls="stream", timeout=60)

            async def tool():
                assert asyncio.get_running_loop() is loop
                task.cancel()
            task = asyncio.create_task(client.jobs.wait(job["job_id"], tools={"x": tool}, poll=0.01))
            with pytest.raises(asyncio.CancelledError):
                await task
            return job["job_id"]
    job_id = asyncio.run(main())  # which waits for all threads
    with immure.Immure(*place) as client:
        assert client.jobs.get(job_id)["status"] == "running"
        client.jobs.cancel(job_id)


def test_it_is_for_python_3_9():
    for file in sorted((PACKAGE / "immure").glob("*.py")):
        tree = ast.parse(file.read_text(), feature_version=(3, 9))
        first = [node for node in tree.body if isinstance(node, ast.ImportFrom)][:1]
        assert file.name == "__init__.py" or first[0].module == "__future__", file
