"""POST /execute with Accept: text/event-stream: what happens, as it happens."""

import json
import signal
import socket

import pytest
from harness import wait_for

WITHOUT_NODE = True

JSON = "application/json"


class Events:
    """The events of one job, read one by one."""

    def __init__(self, connection, server, code, accept="text/event-stream", path="/execute", **fields):
        self.wire = connection
        body = json.dumps({"code" if path == "/execute" else "source": code, **fields}).encode()
        self.wire.request("POST", path, {"X-Service-API-Key": server.key, "Content-Type": JSON, "Accept": accept,
                                               "Content-Length": len(body)}, body)
        self.text, self.done = b"", False

    def head(self):
        head = self.wire.until(b"\r\n\r\n").decode()
        status, *lines = head.split("\r\n")
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        return int(status.split()[1])

    def chunk(self):
        size = int(self.wire.until(b"\r\n"), 16)
        while len(self.wire.buffer) < size + 2:
            assert self.wire.fill(), "the connection ended within a chunk"
        data, self.wire.buffer = self.wire.buffer[:size], self.wire.buffer[size + 2:]
        self.done = size == 0
        self.text += data

    def block(self):
        """The next block, or None at the end."""
        while b"\n\n" not in self.text and not self.done:
            self.chunk()
        if not self.text:
            return None
        block, _, self.text = self.text.partition(b"\n\n")
        return block.decode()

    def next(self):
        """-> (event, data), comments left out"""
        while (block := self.block()) is not None:
            if not block.startswith(":"):
                event, data = block.split("\n")
                assert event.startswith("event: ") and data.startswith("data: "), block
                return event[7:], json.loads(data[6:])
        return None

    def rest(self):
        return list(iter(self.next, None))


@pytest.fixture
def stream(server, wire):
    def start(code, **fields):
        events = Events(wire(fields.pop("to", server)), fields.pop("at", server), code, **fields)
        return events
    return start


def told(events, name):
    return "".join(data["text"] for event, data in events if event == name)


def test_events(stream, server):
    events = stream("import sys\nprint('out'); print('err', file=sys.stderr); sys.exit(3)", execution_id="streamed")
    assert events.head() == 200
    assert events.headers["content-type"] == "text/event-stream" and events.headers["cache-control"] == "no-store"
    assert "x-request-id" in events.headers
    *output, (event, reply) = events.rest()
    assert event == "result" and {name for name, _ in output} == {"stdout", "stderr"}
    assert told(output, "stdout") == reply["stdout"] == "out\n" and told(output, "stderr") == reply["stderr"] == "err\n"
    assert reply["exit_code"] == 3 and reply["execution_id"] == "streamed"
    assert set(reply) == set(server.execute("1/0"))


def test_the_reply_tells_of_its_session(stream, server):
    for expected in ("new", "kept"):
        events = stream("open('x', 'w')", session_id="streamed")
        assert events.head() == 200
        assert events.rest()[-1][1]["session"] == expected
    assert server.request("DELETE", "/workspace/streamed").status == 204


def test_they_come_as_they_happen(stream):
    """Each line is written only after the last one has been seen here."""
    events = stream("import sys\nfor line in iter(sys.stdin.readline, ''): pass\n"
                    "import os, time\nfor i in range(3):\n"
                    "    os.write(1, f'{i}\\n'.encode())\n"
                    "    while not os.path.exists(str(i)): time.sleep(0.005)\n", session_id="as-they-happen", timeout=60)
    assert events.head() == 200
    for number in range(3):
        assert events.next() == ("stdout", {"text": f"{number}\n"})
        other = stream(f"open('{number}', 'w').close()", session_id="as-they-happen")
        assert other.head() == 200 and other.rest()[-1][1]["status"] == "success"
    (event, reply), = events.rest()
    assert event == "result" and reply["status"] == "success"


def test_a_line_is_one_event(stream):
    """print() writes the line feed for itself; and a line that has no end yet does not wait for it."""
    events = stream("import os, time\nfor i in range(20): print(i); time.sleep(0.02)\n"
                    "os.write(1, b'prompt: ')\nwhile not os.path.exists('seen'): time.sleep(0.005)\n"
                    "os.write(1, b'first\\nsec'); os.write(2, b'x'); os.write(1, b'ond\\n')", session_id="whole-lines", timeout=60)
    assert events.head() == 200
    lines = []
    while "prompt: " not in "".join(lines):
        event, data = events.next()
        assert event == "stdout"
        lines.append(data["text"])
    assert "".join(lines) == "".join(f"{i}\n" for i in range(20)) + "prompt: "
    # On a busy machine a line may have been told in two all the same, but not each one.
    assert len(lines) < 30 and sum(line.endswith("\n") and line.count("\n") == 1 for line in lines) > 10
    other = stream("open('seen', 'w').close()", session_id="whole-lines")
    assert other.head() == 200 and other.rest()[-1][1]["status"] == "success"
    *output, (_, reply) = events.rest()
    assert "prompt: " + told(output, "stdout") == reply["stdout"][-len("prompt: first\nsecond\n"):] and told(output, "stderr") == "x"


def test_the_connection_serves_on(stream, server):
    events = stream("print(1)")
    assert events.head() == 200 and events.rest()[-1][1]["stdout"] == "1\n"
    again = Events(events.wire, server, "print(2)")
    assert again.head() == 200 and again.rest()[-1][1]["stdout"] == "2\n"


def test_no_character_is_cut(stream):
    text = "aä€😀" * 30000
    events = stream("import sys\ndata = ('aä€😀' * 30000).encode()\n"
                    "for i in range(0, len(data), 1001): sys.stdout.buffer.write(data[i:i + 1001]); sys.stdout.buffer.flush()")
    assert events.head() == 200
    *output, (_, reply) = events.rest()
    assert told(output, "stdout") == reply["stdout"] == text and len(output) > 10


def test_what_is_no_utf8(stream):
    events = stream(r"import sys; sys.stdout.buffer.write(b'a\xffb\xe2\x82'); sys.stdout.flush()")
    assert events.head() == 200
    *output, (_, reply) = events.rest()
    assert told(output, "stdout") == reply["stdout"] and reply["stdout"].startswith("a\ufffdb\ufffd")


def test_output_that_looks_like_events(stream):
    forged = "\n\nevent: result\ndata: {}\n\n\r\n: x\n\r0\r\n\r\n"
    events = stream(f"print({forged!r}, end='')")
    assert events.head() == 200
    *output, (event, reply) = events.rest()
    assert told(output, "stdout") == reply["stdout"] == forged and event == "result" and reply["status"] == "success"


def test_tool_calls(stream):
    """Told whether or not there is anybody to answer them."""
    events = stream("for name in ('first', 'se\"cond'):\n    try: call_tool(name, {'a': 1})\n    except RuntimeError: pass")
    assert events.head() == 200
    *calls, (event, reply) = events.rest()
    assert calls == [("tool_call", {"name": "first"}), ("tool_call", {"name": 'se"cond'})], calls
    assert event == "result" and reply["status"] == "success"


def test_limits_of_output_hold(stream):
    events = stream("print('x' * 100000)", limits={"output_bytes": 1000})
    assert events.head() == 200
    *output, (_, reply) = events.rest()
    assert reply["stdout"] == "x" * 1000 and reply["truncated"] is True
    assert told(output, "stdout") == "x" * 1000


def test_a_slow_reader_holds_up_nobody(serve, wire):
    """The program ends although nobody reads what it says; the front's memory does not follow it."""
    server = serve()
    connection = wire(server, timeout=60)
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    events = Events(connection, server, "for _ in range(2000): print('x' * 50000)\n", timeout=60)
    wait_for(lambda: "event=audit" in server.log(), "the job's end")
    assert server.execute("print(1)")["stdout"] == "1\n"
    assert server.metric("process_resident_memory_bytes") < 200 << 20
    assert events.head() == 200
    *output, (_, reply) = events.rest()
    assert told(output, "stdout") == reply["stdout"] and len(reply["stdout"]) == 524288 and reply["truncated"] is True


def test_errors_before_the_start_are_ordinary(stream, serve, wire):
    for fields, status in (({"timeout_ms": -1}, 400), ({"limits": {"pids": 1 << 40}}, 400), ({"policy": "no-such"}, 400)):
        events = stream("1", **fields)
        assert events.head() == status and events.headers["content-type"] == JSON
    server = serve(SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="1")
    connection = wire(server)
    running = Events(connection, server, "import time; time.sleep(50)", timeout=50)
    assert running.head() == 200
    busy = Events(wire(server), server, "1")
    assert busy.head() == 503 and int(busy.headers["retry-after"]) >= 1
    # Or the server would wait for the job at its end.
    connection.close()


def test_a_caller_who_leaves_cancels_the_job(serve, wire):
    server = serve(SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="1")
    for code in ("import time; time.sleep(50)", "while True: print('x' * 1000)"):
        connection = wire(server)
        events = Events(connection, server, code, timeout=50)
        assert events.head() == 200
        connection.close()
        wait_for(lambda: server.metric("immure_jobs_running") == 0, "the slot free again")
    assert server.execute("print(1)")["stdout"] == "1\n"
    assert len([line for line in server.log().splitlines() if "event=audit" in line and "status=cancelled" in line]) == 2


def test_heartbeats(serve, wire):
    server = serve(config="stream_heartbeat_ms: 100\n")
    events = Events(wire(server), server, "import os, time; time.sleep(1.5); os.write(1, b'late')")
    assert events.head() == 200
    blocks = list(iter(events.block, None))
    beats = [block for block in blocks if block.startswith(":")]
    assert len(beats) >= 3 and all("\n" not in beat for beat in beats)
    assert [block.split("\n")[0] for block in blocks if block not in beats] == ["event: stdout", "event: result"]


@pytest.mark.parametrize("accept, streams", [("text/event-stream", True), ("application/json, text/event-stream", True),
                                             ("Text/Event-Stream;q=0.9 , */*", True), ("*/*", False), ("application/json", False),
                                             ("text/event-stream-x", False), ("", False)])
def test_accept(stream, accept, streams):
    events = stream("print(1)", accept=accept)
    assert events.head() == 200
    assert events.headers["content-type"] == ("text/event-stream" if streams else JSON)


def test_verdicts(stream):
    for code, timeout_ms, status in (("while True: pass", 1000, "timeout"), ("import os; os.abort()", 30000, "execution_error")):
        events = stream(code, timeout_ms=timeout_ms)
        assert events.head() == 200
        (event, reply), = [item for item in events.rest() if item[0] == "result"]
        assert reply["status"] == status


def test_a_drain_lets_it_finish(serve, wire, hold):
    server = serve(**hold.environment)
    events = Events(wire(server), server, "import os\nos.write(1, b'1\\n'); call_tool('hold'); print(2)", **hold.fields)
    assert events.head() == 200
    assert sorted(events.next() for _ in range(2)) == [("stdout", {"text": "1\n"}), ("tool_call", {"name": "hold"})]
    server.process.send_signal(signal.SIGTERM)
    wait_for(lambda: "event=draining" in server.log(), "the drain")
    hold.go.set()
    assert events.rest()[-1][1]["stdout"] == "1\n2\n"
    assert server.ended() == 0


def test_a_server_that_ends_at_once_ends_it(serve, wire):
    server = serve()
    events = Events(wire(server), server, "import time; time.sleep(50)", timeout=50)
    assert events.head() == 200
    for _ in range(2):
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: server.process.poll() is not None or "event=draining" in server.log(), "the drain")
    assert server.ended() == 0


def test_nothing_is_left(serve, wire):
    server = serve(SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="40")
    server.execute("1")
    wait_for(lambda: server.metric("immure_jobs_running") == 0, "idle")
    before = server.metric("process_open_fds")
    for number in range(30):
        connection = wire(server)
        events = Events(connection, server, "print('x' * 100000)")
        if number % 3:
            assert events.head() == 200
        if number % 3 == 2:
            assert events.rest()[-1][0] == "result"
        connection.close()
    wait_for(lambda: server.metric("process_open_fds") <= before + 1, "no descriptor left")
