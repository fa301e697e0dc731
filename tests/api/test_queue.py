"""Waiting for a slot: who may, how long, in which order, and what ends it."""

import json
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import approvals
import pytest
from harness import ROOT, config_key, runtimes, wait_for

WITHOUT_NODE = True

SHIPPED = (ROOT / "config/server.textproto").read_text()
SLEEPS = "import time; time.sleep(60)"
BUSY = {"error": "server busy: execution capacity reached", "code": "busy", "field": None}


def post(server, code="print(1)", key=None, path="/execute", accept=None, **fields):
    headers = {"X-Service-API-Key": key or server.key, **({"Accept": accept} if accept else {})}
    return server.request("POST", path, json.dumps({"code": code, **fields}), headers=headers)


def call(server, id=1, code="print(1)", **fields):
    """-> the result of a call of the MCP tool"""
    params = {"name": "execute_code", "arguments": {"language": "python", "code": code, **fields}}
    reply = server.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
    return reply.json["result"] if reply.body else None


def queued(server, n):
    wait_for(lambda: server.metric("immure_jobs_queued") == n, f"{n} jobs that wait")


def ended_waiting(server, status):
    return int(re.search(rf'^immure_jobs_total{{runtime="python",status="{status}"}} (\d+)$', server.get("/metrics").body.decode(), re.M)[1])


def running(server, n):
    wait_for(lambda: server.metric("immure_jobs_running") == n, f"{n} jobs that run")


@pytest.fixture
def holder(wire):
    """Takes slots, until it lets them go."""
    def hold(server, n=1, key=None):
        before = server.metric("immure_jobs_running")
        connections = [wire(server) for _ in range(n)]
        body = json.dumps({"code": SLEEPS, "timeout": 60}).encode()
        for connection in connections:
            connection.request("POST", "/execute", {"X-Service-API-Key": key or server.key, "Content-Type": "application/json",
                                                    "Content-Length": len(body)}, body)
        running(server, before + n)
        return connections
    return hold


@pytest.fixture
def pool():
    with ThreadPoolExecutor(32) as executor:
        yield executor


def test_eight_at_once_on_four_slots(serve, pool):
    server = serve()
    replies = list(pool.map(lambda n: post(server, f"import time; time.sleep(0.3); print({n})", queue_ms=30000), range(8)))
    assert [(reply.status, reply.json["stdout"]) for reply in replies] == [(200, f"{n}\n") for n in range(8)]
    waits = sorted(reply.json["queued_ms"] for reply in replies)
    assert waits[0] == 0 and waits[-1] > 0
    assert server.metric("immure_jobs_queued") == 0
    assert server.metric("immure_job_queue_seconds_count") == 8 and server.metric("immure_job_queue_seconds_sum") > 0


def test_the_mcp_door_waits_by_itself(serve, holder, pool):
    server = serve("mcp_queue_ms: 30000", SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="1")
    held, = holder(server)
    results = [pool.submit(call, server, n, f"print({n})") for n in range(3)]
    queued(server, 3)
    assert post(server).status == 503  # POST /execute does not
    held.close()
    for n, result in enumerate(results):
        assert result.result()["structuredContent"]["stdout"] == f"{n}\n" and not result.result()["isError"]


def test_the_mcp_door_gives_up(serve, holder):
    server = serve("mcp_queue_ms: 200", SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="1")
    holder(server)
    result = call(server)
    assert result["isError"] and result["structuredContent"]["code"] == "busy"
    assert result["content"][0]["text"] == "Error: " + BUSY["error"]


def test_at_once_without_a_word(serve, holder):
    """What the callers of POST /execute were promised; and no server makes them wait longer than it says."""
    server = serve(SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="1")
    holder(server)
    for fields in ({}, {"queue_ms": 0}):
        reply = post(server, **fields)
        assert reply.status == 503 and reply.json == BUSY and int(reply.headers["Retry-After"]) >= 1
    assert server.metric("immure_jobs_queued") == 0
    for wrong in (-1, 1.5, "1", True):
        reply = post(server, queue_ms=wrong)
        assert reply.status == 400 and reply.json["field"] == "queue_ms" and "whole number" in reply.json["error"]


def test_the_servers_default_and_its_maximum(serve, holder):
    server = serve("queue_ms: 300 max_queue_ms: 400", SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="1")
    holder(server)
    for fields, least, most in (({}, 0.3, 30), ({"queue_ms": 3600000}, 0.4, 30)):
        began = time.monotonic()
        reply = post(server, **fields)
        assert reply.status == 503 and reply.json == BUSY
        assert least <= time.monotonic() - began < most
    assert post(server, queue_ms=0).status == 503


def test_only_so_many_wait(serve, holder, pool):
    server = serve("max_queued_jobs: 2", SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="1")
    held, = holder(server)
    waiting = [pool.submit(post, server, queue_ms=30000) for _ in range(2)]
    queued(server, 2)
    reply = post(server, queue_ms=30000)
    assert reply.status == 503 and reply.json == BUSY
    held.close()
    assert [reply.result().status for reply in waiting] == [200, 200]


def test_four_for_each_slot(serve, holder, pool):
    server = serve(SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="1")
    held, = holder(server)
    waiting = [pool.submit(post, server, queue_ms=30000) for _ in range(4)]
    queued(server, 4)
    assert post(server, queue_ms=30000).status == 503
    held.close()
    assert [reply.result().status for reply in waiting] == [200] * 4


def test_in_the_order_in_which_they_came_and_keys_by_turns(serve, holder, pool):
    server = serve(config_key("one", "key-one", max_concurrent_jobs=1) + config_key("two", "key-two", max_concurrent_jobs=1)
                   + "max_queued_jobs: 16", SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="1")
    held, = holder(server)
    waiting = []
    for key in ("one", "one", "one", "two", "two"):
        waiting.append(pool.submit(post, server, "import time; print(time.monotonic_ns())", f"key-{key}", queue_ms=30000))
        queued(server, len(waiting))
    held.close()
    began = [int(reply.result().json["stdout"]) for reply in waiting]
    assert sorted(range(5), key=began.__getitem__) == [0, 3, 1, 4, 2]


def test_a_keys_own_limit_is_kept_while_others_pass(serve, holder, pool):
    server = serve(config_key("one", "key-one", max_concurrent_jobs=1), SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="3")
    held, = holder(server, key="key-one")
    waiting = pool.submit(post, server, key="key-one", queue_ms=30000)
    queued(server, 1)
    assert post(server).status == 200  # another key, at once
    late = post(server, key="key-one", queue_ms=100)
    assert late.status == 429 and late.json["code"] == "rate_limited" and "may have 1 jobs" in late.json["error"]
    assert post(server, key="key-one").status == 429
    held.close()
    assert waiting.result().status == 200 and waiting.result().json["queued_ms"] > 0


def test_half_of_the_places_where_there_are_several_keys(serve, holder, pool):
    server = serve(config_key("one", "key-one", max_concurrent_jobs=1) + "max_queued_jobs: 4", SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="1")
    held, = holder(server, key="key-one")
    waiting = [pool.submit(post, server, key="key-one", queue_ms=30000) for _ in range(2)]
    queued(server, 2)
    assert post(server, key="key-one", queue_ms=30000).status == 429
    waiting.append(pool.submit(post, server, queue_ms=30000))
    queued(server, 3)
    held.close()
    assert [reply.result().status for reply in waiting] == [200] * 3


def test_who_hangs_up_leaves(serve, holder, wire):
    server = serve(SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="1")
    held, = holder(server)
    body = json.dumps({"code": "open('never', 'w')", "queue_ms": 30000}).encode()
    for path in ("/execute", "/execute?wait=false"):
        connection = wire(server)
        connection.request("POST", path, {"X-Service-API-Key": server.key, "Content-Type": "application/json",
                                          "Content-Length": len(body)}, body)
        queued(server, 1)
        connection.close()
        queued(server, 0)
    held.close()
    running(server, 0)
    assert server.log().count("event=audit") == 3 and post(server).json["queued_ms"] == 0
    assert ended_waiting(server, "cancelled") == 3  # with the one that held the slot
    assert len(re.findall(r'event=audit .*policy="" .*status=cancelled', server.log())) == 2


def test_a_call_that_waits_is_cancelled(serve, holder, pool):
    server = serve("mcp_queue_ms: 30000", SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="1")
    held, = holder(server)
    waiting = pool.submit(call, server, 7)
    queued(server, 1)
    notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    assert server.request("POST", "/mcp", json.dumps(notice)).status == 202
    assert waiting.result() is None  # it gets no answer
    queued(server, 0)
    assert ended_waiting(server, "cancelled") == 1 and server.log().count("event=audit") == 1
    held.close()


def test_whose_time_is_over(serve, holder):
    """It is told, and those requests are counted; that it was there stands in the audit log."""
    server = serve(SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="1")
    holder(server)
    assert post(server, queue_ms=200, execution_id="late").status == 503 and ended_waiting(server, "cancelled") == 0
    assert re.search(r'event=audit .*execution_id=late .*policy="" .*status=cancelled', server.log())
    assert 'immure_jobs_rejected_total{reason="busy"} 1\n' in server.get("/metrics").body.decode()
    assert "immure_job_queue_seconds_count 1\n" in server.get("/metrics").body.decode()


@pytest.mark.parametrize("accept", [None, "text/event-stream"])
def test_streams_and_stdin(serve, holder, pool, accept):
    """What was read of stdin before the warden said no is there once more."""
    server = serve(SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="1")
    held, = holder(server)
    text = "line\n" * 30000
    waiting = pool.submit(post, server, "import sys; print(len(sys.stdin.read()), open('f').read())", accept=accept, stdin=text,
                          files=[{"name": "f", "content": "a file"}], queue_ms=30000)
    queued(server, 1)
    held.close()
    body = waiting.result().body.decode()
    reply = json.loads(body.split("event: result\ndata: ")[-1])
    assert reply["stdout"] == f"{len(text)} a file\n" and reply["queued_ms"] > 0


def test_a_kernel_that_runs_another_call(serve, pool):
    server = serve()
    fields = {"session_id": "s", "policy": "python-kernel"}
    first = pool.submit(post, server, "import os, time\nseen = [0]\nwhile not os.path.exists('go'): time.sleep(0.01)", timeout=60, **fields)
    running(server, 1)
    refused = post(server, **fields)
    assert refused.status == 503 and "runs another call" in refused.json["error"] and int(refused.headers["Retry-After"]) == 1
    later = [pool.submit(post, server, "seen.append(len(seen)); print(seen)", queue_ms=30000, **fields) for _ in range(3)]
    queued(server, 3)
    assert post(server).status == 200  # they are in nobody's way
    assert post(server, "open('go', 'w').close()", session_id="s").status == 200
    assert first.result().json["kernel"] == "new"
    assert sorted(reply.result().json["stdout"] for reply in later) == ["[0, 1, 2, 3]\n", "[0, 1, 2]\n", "[0, 1]\n"]


def test_asynchronous_jobs(serve, holder, pool):
    server = serve(SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="1")
    held, = holder(server)
    waiting = pool.submit(post, server, path="/execute?wait=false", queue_ms=30000)
    queued(server, 1)
    held.close()
    reply = waiting.result()
    assert reply.status == 202
    wait_for(lambda: server.get(reply.headers["Location"]).json["status"] == "success", "its end")
    assert server.get(reply.headers["Location"]).json["reply"]["queued_ms"] > 0


def test_refused_when_its_turn_comes(serve, holder, pool):
    """What only the warden can tell is found then, or before where nobody waits."""
    server = serve(SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="1")
    held, = holder(server)
    assert post(server, policy="no-such", queue_ms=30000).status == 400
    waiting = pool.submit(post, server, queue_ms=30000)
    queued(server, 1)
    wrong = pool.submit(post, server, policy="no-such", queue_ms=30000)
    queued(server, 2)
    held.close()
    assert waiting.result().status == 200 and wrong.result().status == 400 and wrong.result().json["field"] == "policy"


def test_a_shutdown_answers_them(serve, holder, pool):
    server = serve("mcp_queue_ms: 30000", SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="1")
    held, = holder(server)
    waiting, told = pool.submit(post, server, queue_ms=30000), pool.submit(call, server)
    queued(server, 2)
    server.process.send_signal(signal.SIGTERM)
    assert waiting.result().status == 503 and waiting.result().json["code"] == "unavailable"
    assert told.result()["structuredContent"]["error_message"] == "the server is shutting down"
    held.close()
    assert server.ended() == 0


def test_a_reload_lets_them_run(serve, holder, pool):
    server = serve(SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="1")
    held, = holder(server)
    before = pool.submit(post, server, queue_ms=30000)
    queued(server, 1)
    server.process.send_signal(signal.SIGHUP)
    server.reloaded()
    after = pool.submit(post, server, queue_ms=30000)
    queued(server, 1)
    held.close()
    assert before.result().status == after.result().status == 200
    running(server, 0)


def test_retry_after_is_how_long_jobs_take(serve, holder):
    """Not how long they may."""
    server = serve(SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="1")
    for _ in range(3):
        assert post(server, "import time; time.sleep(1.2)").status == 200
    holder(server)
    assert 2 <= int(post(server).headers["Retry-After"]) <= 20


def test_an_approved_job_goes_first(serve, tmp_path, wire, pool):
    """It has its slot from the moment at which one is free: the warden says no to who was told by the front that it is its turn."""
    server = serve(approvals.configuration(tmp_path / "policies", "queue_ms: 30000\n"), SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="2")
    connections = []
    for key in ("caller", "other"):
        body = json.dumps({"code": SLEEPS, "timeout": 60}).encode()
        connections.append(wire(server))
        connections[-1].request("POST", "/execute", {"X-Service-API-Key": approvals.KEYS[key], "Content-Type": "application/json",
                                                     "Content-Length": len(body)}, body)
    running(server, 2)
    waiting = [pool.submit(post, server, "import time; print(time.monotonic_ns())", approvals.KEYS["other"]) for _ in range(2)]
    queued(server, 2)
    held = approvals.submitted(server, "import time; print(time.monotonic_ns())", key="mate")
    assert approvals.decide(server, held).json["status"] == "approved"
    connections[1].close()
    began = [int(reply.result().json["stdout"]) for reply in waiting]
    assert int(approvals.result(server, held, "mate")["reply"]["stdout"]) < min(began)
    connections[0].close()


def test_what_needs_no_approval_any_more_waits_as_calls_of_the_tool_do(serve, tmp_path, wire, holder, pool):
    server = serve(approvals.configuration(tmp_path / "policies", "mcp_queue_ms: 30000\n"), SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="1")
    first = approvals.submitted(server, policy="first")
    assert approvals.decide(server, first).status == 200 and approvals.settled(server, first)["status"] == "done"
    held, = holder(server)
    waiting = pool.submit(approvals.submit, server, policy="first")
    queued(server, 1)
    assert approvals.submit(server, policy="first", queue_ms=0).status == 503
    held.close()
    assert waiting.result().json["stdout"] == "42\n"


def test_a_host_short_of_memory_begins_none_of_them(serve, tmp_path, holder, pool):
    path = tmp_path / "floor.textproto"

    def write(percent):
        path.write_text(f"memory_free_bytes: 0 memory_free_percent: {percent}\n" + (runtimes() or SHIPPED))
    write(0)
    server = serve(SANDBOX_EXECUTOR_CONFIG=str(path), SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="1")
    holder(server)
    waiting = pool.submit(post, server, queue_ms=30000)
    queued(server, 1)
    write(100)
    server.process.send_signal(signal.SIGHUP)
    reply = waiting.result()  # the one that runs is ended for it
    assert reply.status == 503 and reply.json["error"] == "server busy: the host is short of memory"
    write(0)
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: server.get("/readyz").status == 200, "the server is ready")
