"""Callers who leave, servers that stop, processes that die."""

import json
import os
import signal
import socket
import time

import pytest
from harness import wait_for

WITHOUT_NODE = True

JSON = "application/json"


def start_job(wire, server, code, **fields):
    connection = wire(server)
    body = json.dumps({"code": code, **fields}).encode()
    connection.request("POST", "/execute", {"X-Service-API-Key": server.key, "Content-Type": JSON, "Content-Length": len(body)},
                       body)
    return connection


def jobs_running(server):
    return server.metric("immure_jobs_running")


def front_pid(server):
    """The front answers before the warden has written down that it does."""
    lines = wait_for(lambda: [line for line in server.log().splitlines() if "event=front_serving" in line], "a front that serves")
    return int(lines[-1].split("pid=")[1].split()[0])


def refuses(server):
    try:
        socket.create_connection(("127.0.0.1", server.port), 5).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        pass  # it came just before the port was closed, and nobody had taken it
    return False


def test_a_caller_who_leaves_cancels_its_job(serve, wire):
    server = serve(SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="1")
    connection = start_job(wire, server, "import time; time.sleep(50)", timeout=50)
    wait_for(lambda: jobs_running(server) == 1, "a job that runs")
    connection.close()
    wait_for(lambda: jobs_running(server) == 0, "the slot free again")
    assert server.execute("print(1)")["stdout"] == "1\n"
    assert 'immure_jobs_total{runtime="python",status="cancelled"} 1' in server.get("/metrics").body.decode()
    assert 'immure_http_requests_total{path="/execute",code="499"} 1' in server.get("/metrics").body.decode()
    audit = [line for line in server.log().splitlines() if "event=audit" in line and "status=cancelled" in line]
    assert len(audit) == 1


def test_many_callers_who_leave_at_any_moment(serve, wire):
    server = serve()
    before = server.metric("process_open_fds")
    for number in range(60):
        connection = start_job(wire, server, "import time; time.sleep(0.01)", timeout=20)
        time.sleep(number % 6 * 0.004)  # another moment each time; nothing is waited for
        connection.close()
    wait_for(lambda: jobs_running(server) == 0, "no job that runs")
    wait_for(lambda: server.metric("process_open_fds") == before, "no descriptor left")
    assert server.execute("print(1)")["stdout"] == "1\n"


def test_a_drain_lets_jobs_finish(serve, wire, hold):
    server = serve(**hold.environment)
    connection = start_job(wire, server, "call_tool('hold'); print('finished')", **hold.fields)
    idle = wire(server)
    idle.request("GET", "/readyz")
    assert idle.reply().status == 200
    wait_for(lambda: jobs_running(server) == 1, "a job that runs")
    server.process.send_signal(signal.SIGTERM)
    assert idle.ended()  # between two requests: closed at once
    hold.go.set()
    reply = connection.reply()
    assert reply.status == 200 and json.loads(reply.body)["stdout"] == "finished\n"
    assert reply.headers["connection"] == "close"
    assert connection.ended()
    assert server.ended() == 0


def test_a_draining_server_is_not_ready_and_takes_no_one(serve, wire, hold):
    server = serve(**hold.environment)
    running = start_job(wire, server, "call_tool('hold')", **hold.fields)
    wait_for(lambda: jobs_running(server) == 1, "a job that runs")
    ready, job = wire(server), wire(server)  # connected before, speaking only after the signal
    ready.request("GET", "/healthz")
    ready.reply()
    ready.send("GET /readyz HTTP/1.1\r\nHost: x\r\n")
    job.send("POST /execute HTTP/1.1\r\nHost: x\r\n")
    wait_for(lambda: server.metric("immure_http_connections") >= 4, "the server to have them")
    server.process.send_signal(signal.SIGTERM)
    wait_for(lambda: "event=draining connections" in server.log(), "the drain")
    ready.send("\r\n")
    reply = ready.reply()
    assert reply.status == 503 and json.loads(reply.body)["error"] == "the server is shutting down"
    job.send(f"X-Service-API-Key: {server.key}\r\nContent-Type: {JSON}\r\nContent-Length: 15\r\n\r\n")
    reply = job.reply()
    assert reply.status == 503 and json.loads(reply.body)["code"] == "unavailable" and int(reply.headers["retry-after"]) >= 1
    wait_for(lambda: refuses(server), "the port closed")
    hold.go.set()
    assert running.reply().status == 200
    assert server.ended() == 0


def test_a_drain_does_not_wait_for_ever(serve, wire):
    server = serve("drain_timeout_ms: 500")
    connection = start_job(wire, server, "import time; time.sleep(50)", timeout=50)
    wait_for(lambda: jobs_running(server) == 1, "a job that runs")
    server.process.send_signal(signal.SIGTERM)
    reply = connection.reply()
    assert reply.status == 200 and json.loads(reply.body)["status"] == "cancelled"
    assert server.ended() == 0


def test_a_front_that_dies_is_started_again(serve, wire):
    server = serve()
    job = start_job(wire, server, "import time; time.sleep(50)", timeout=50)
    wait_for(lambda: jobs_running(server) == 1, "a job that runs")
    os.kill(front_pid(server), signal.SIGKILL)
    assert job.ended()
    wait_for(lambda: "event=front_serving" in server.log().split("event=front_exited")[-1], "another front")
    assert server.execute("print(1)")["stdout"] == "1\n"
    assert server.metric("immure_front_restarts_total") == 1


def test_the_front_does_not_outlive_the_warden(serve):
    server = serve()
    pid = front_pid(server)
    server.stop(signal.SIGKILL)
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"), "the front's end")


def test_the_front_ignores_signals_to_its_group(serve):
    server = serve()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        os.kill(front_pid(server), number)
    assert server.execute("print(1)")["stdout"] == "1\n"
    assert server.metric("immure_front_restarts_total") == 0


def test_the_front_has_no_privileges(serve):
    server = serve()
    with open(f"/proc/{front_pid(server)}/status") as file:
        status = {name: value.strip() for name, _, value in (line.partition(":") for line in file)}
    assert status["NoNewPrivs"] == "1"
    for kind in ("Inh", "Prm", "Eff", "Amb"):
        assert int(status[f"Cap{kind}"], 16) == 0, kind
    if os.geteuid() == 0:
        assert 0 not in map(int, status["Uid"].split()) and 0 not in map(int, status["Gid"].split())
        assert int(status["CapBnd"], 16) == 0
        assert status["Groups"] == ""
    with open(server.argv[-2], "rb") as binary:
        sanitized = b"__asan_init" in binary.read()
    assert status["Seccomp_filters"] == ("1" if sanitized else "2")  # the warden's, and its own


@pytest.mark.host_only
def test_connections_over_the_limit_wait_their_turn(serve, wire):
    server = serve("max_connections: 4")
    held = [wire(server) for _ in range(4)]
    for connection in held:  # which have shown a key, and are busy
        connection.request("POST", "/execute", {"X-Service-API-Key": server.key, "Content-Type": "application/json",
                                                "Content-Length": 9, "Expect": "100-continue"})
        assert connection.reply().status == 100
    waiting = wire(server)
    waiting.request("GET", "/healthz")
    waiting.socket.settimeout(0.2)
    with pytest.raises(TimeoutError):
        waiting.reply()
    held[0].close()
    waiting.socket.settimeout(60)
    assert waiting.reply().status == 200


@pytest.mark.host_only
def test_idle_connections_are_closed(serve, wire):
    server = serve("idle_timeout_ms: 1000")
    silent, used = wire(server), wire(server)
    used.request("GET", "/healthz")
    assert used.reply().status == 200
    assert used.ended() and silent.ended()


@pytest.mark.host_only
def test_keep_alive(server, wire):
    connection = wire(server)
    for number in range(20):
        body = json.dumps({"code": f"print({number})"}).encode()
        connection.request("POST", "/execute", {"X-Service-API-Key": server.key, "Content-Type": JSON, "Content-Length": len(body)},
                           body)
        assert json.loads(connection.reply().body)["stdout"] == f"{number}\n"


@pytest.mark.host_only
def test_pipelined_requests_are_answered_in_order(server, wire):
    connection = wire(server)
    for number in range(5):
        body = json.dumps({"code": f"print({number})"}).encode()
        connection.request("POST", "/execute", {"X-Service-API-Key": server.key, "Content-Type": JSON, "Content-Length": len(body)},
                           body)
    for number in range(5):
        assert json.loads(connection.reply().body)["stdout"] == f"{number}\n"


def over_unix(path, request):
    """-> the connection"""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(60)
    try:
        client.connect(path)
    except OSError:
        client.close()
        raise
    client.sendall(request)
    return client


def healthy(path):
    try:
        client = over_unix(path, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    except OSError:
        return None
    with client:
        return b"".join(iter(lambda: client.recv(4096), b""))


def test_a_unix_socket(serve, tmp_path):
    path = f"{tmp_path}/s"
    server = serve("log_level: DEBUG\n", ready=False, SANDBOX_EXECUTOR_ADDR=f"unix:{path}")
    wait_for(lambda: "event=selftest ready=true" in server.log(), "a server that is ready")
    data = healthy(path)
    assert data.startswith(b"HTTP/1.1 200") and b'"ready"' in data
    assert "client=unix" in server.log()


@pytest.mark.host_only
def test_a_server_that_drains_leaves_the_next_one_its_unix_socket(serve, tmp_path):
    path = f"{tmp_path}/s"
    first = serve("drain_timeout_ms: 120000", ready=False, SANDBOX_EXECUTOR_ADDR=f"unix:{path}")
    wait_for(lambda: "event=selftest ready=true" in first.log(), "a server that is ready")
    body = json.dumps({"code": "while True: pass", "timeout": 120})
    with over_unix(path, (f"POST /execute?wait=false HTTP/1.1\r\nHost: x\r\nX-Service-API-Key: {first.key}\r\nContent-Type: {JSON}\r\n"
                          f"Content-Length: {len(body)}\r\n\r\n{body}").encode()) as client:
        assert client.recv(4096).startswith(b"HTTP/1.1 202")
    first.process.send_signal(signal.SIGTERM)
    wait_for(lambda: healthy(path) is None, "the socket closed")
    serve(ready=False, SANDBOX_EXECUTOR_ADDR=f"unix:{path}")
    wait_for(lambda: healthy(path), "the next one")
    first.process.send_signal(signal.SIGTERM)  # at once
    assert first.ended() == 0
    assert healthy(path).startswith(b"HTTP/1.1 200")
