"""One key against all others of one server: it takes the slots, the kept results, the memory of the front and its time. The key
beside it is measured meanwhile."""

import contextlib
import json
import re
import socket
import time
from pathlib import Path

import pytest
from bystander import Bystander
from harness import PATIENCE, call, config_key, front_of, wait_for
from wire import Wire

WITHOUT_NODE = True

ATTACKER, OTHER = "attacker-key", "other-key"
KEYS = config_key("attacker", ATTACKER, policy="*") + config_key("other", OTHER, policy="*")
BODY_BYTES = 33554432
MIB = 1 << 20


@pytest.fixture
def two(serve):
    """two(more) -> a server of both keys, and no third"""
    return lambda more="", **variables: serve(config=KEYS + more, SANDBOX_EXECUTOR_SERVICE_API_KEY=None, **variables)


@pytest.fixture(autouse=True)
def theirs(monkeypatch):
    """Servers are asked with a key that they have."""
    monkeypatch.setattr("secrets.token_hex", lambda n: OTHER)


def watched(server, bystander, attack, jobs=20):
    """The attack, and what it leaves behind, until so many jobs of the bystander are over."""
    with bystander.watching():
        before = len(bystander.latencies)
        attack()
        wait_for(lambda: bystander.wrong or len(bystander.latencies) >= before + jobs, "the bystander's jobs", 120)


def front_bytes(server):
    status = Path(f"/proc/{front_of(server.process.pid)}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024


def metric(server, name):
    found = re.search(rf"^{re.escape(name)} (\d+)", server.get("/metrics").body.decode(), re.M)
    return int(found[1]) if found else 0


def start(server, code, key=ATTACKER, **fields):
    return call(server, "POST", "/execute?wait=false", {"code": code, **fields}, key)


def ended(server, path, key):
    return wait_for(lambda: (reply := call(server, "GET", path, key=key)).json["status"] != "running" and reply.json, "a job's end", 60)


# ---- Slots and results ----


def test_slots(two):
    server = two()
    bystander, running = Bystander(server, OTHER), []

    def take_all():
        for _ in range(8):
            reply = start(server, "import time; time.sleep(60)", timeout=60)
            if reply.status != 202:
                assert reply.status == 429
                assert reply.json["error"] == "key 'attacker' may have 3 jobs at once; the last slot is kept for other keys"
            else:
                running.append(reply.headers["Location"])
    watched(server, bystander, take_all)
    assert len(running) == 3
    assert all(call(server, "GET", path, key=ATTACKER).json["status"] == "running" for path in running)
    for path in running:
        assert call(server, "DELETE", path, key=ATTACKER).status == 204


def test_kept_results(two):
    server = two("max_kept_jobs: 32\n")
    kept = [start(server, f"print({number})", OTHER).headers["Location"] for number in range(3)]
    replies = [ended(server, path, OTHER) for path in kept]
    bystander, paths = Bystander(server, OTHER), []

    def flood():
        while len(paths) < 60:
            reply = start(server, "1")
            assert reply.status in (202, 429), reply.body
            paths.extend([reply.headers["Location"]] if reply.status == 202 else [])
    watched(server, bystander, flood)
    ended(server, paths[-1], ATTACKER)
    assert call(server, "GET", paths[0], key=ATTACKER).status == 404  # its own made room
    assert [call(server, "GET", path, key=OTHER).json for path in kept] == replies


# ---- Replies that nobody reads ----


def ask_and_wait(server, path, stack, headers=(), body=None):
    connection = stack.enter_context(socket.socket())
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", server.port))
    text = json.dumps(body).encode() if body else b""
    lines = [f"{'POST' if body else 'GET'} {path} HTTP/1.1", "Host: test", f"X-Service-API-Key: {ATTACKER}",
             "Content-Type: application/json", f"Content-Length: {len(text)}", *headers]
    connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + text)
    return connection


def test_replies_that_nobody_reads(two):
    # Sixty replies of some 10 MB are 600 MB. Sixteen of them are the attacker's share.
    server = two(f"max_unread_bytes: {128 * MIB} reply_stall_ms: 4000\n")
    path = start(server, "open('large', 'wb').write(bytes(7 << 20))", outputs=["large"]).headers["Location"]
    assert len(json.dumps(ended(server, path, ATTACKER)["reply"])) > 9 * MIB
    bystander = Bystander(server, OTHER)
    before, most = front_bytes(server), []
    with contextlib.ExitStack() as stack:
        def ask_for_all():
            for _ in range(60):
                ask_and_wait(server, path, stack)
                most.append(front_bytes(server))
        watched(server, bystander, ask_for_all)
        most.append(front_bytes(server))
        assert max(most) - before < 128 * MIB, f"{(max(most) - before) >> 20} MiB"
        assert metric(server, 'immure_http_replies_dropped_total{reason="budget"}') > 0
        assert server.log().count("event=reply_dropped") > 0
        # Those that are left take nothing either, and go without being asked for.
        wait_for(lambda: metric(server, "immure_http_unread_bytes") < MIB, "nothing that waits to be read", 30)
        assert metric(server, 'immure_http_replies_dropped_total{reason="stalled"}') > 0
    assert call(server, "GET", path, key=ATTACKER).status == 200


def test_who_reads_slowly_gets_all(two):
    """Slowly, but all the time: however long it takes, in which others are many."""
    server = two("reply_stall_ms: 1000\n")
    path = start(server, "open('large', 'wb').write(bytes(5 << 20))", outputs=["large"]).headers["Location"]
    size = len(json.dumps(ended(server, path, ATTACKER)["reply"]))
    with contextlib.ExitStack() as stack:
        connection, got, began = ask_and_wait(server, path, stack), 0, time.monotonic()
        while got < size:
            data = connection.recv(65536)
            assert data, f"cut off after {got} of {size} bytes and {time.monotonic() - began:.1f} s"
            got += len(data)
            wait_for(lambda: time.monotonic() - began >= 3 * got / size, "its time")  # noqa: B023
    assert metric(server, 'immure_http_replies_dropped_total{reason="stalled"}') == 0


# ---- Bodies ----


def post_begun(stack, server, size, sent, key=ATTACKER):
    """A body of which so much has been sent. -> the connection"""
    connection = stack.enter_context(Wire(server.port))
    connection.request("POST", "/execute", {"X-Service-API-Key": key, "Content-Type": "application/json", "Content-Length": size})
    chunk = b" " * MIB
    with contextlib.suppress(ConnectionError):  # refused meanwhile
        for _ in range(sent // MIB):
            connection.send(chunk)
    return connection


def test_bodies_that_never_end(two):
    server = two()
    bystander = Bystander(server, OTHER, stdin="x" * 200_000)
    with contextlib.ExitStack() as stack:
        connections = []
        watched(server, bystander, lambda: connections.extend(post_begun(stack, server, BODY_BYTES, BODY_BYTES - MIB) for _ in range(8)))
        refused = [json.loads(connection.reply().body) for connection in connections[4:]]
        assert refused == [{"error": "too many bytes of this key's requests are arriving at once", "code": "rate_limited",
                            "field": None}] * 4
        # The largest that there is, of the other key, and a small one of the same.
        large = call(server, "POST", "/execute", {"code": "print(2)", "stdin": "x" * (BODY_BYTES - 100)}, OTHER)
        assert large.status == 200 and large.json["stdout"] == "2\n", large.body[:300]
        small = call(server, "POST", "/execute", {"code": "print(1)"}, ATTACKER)
        assert small.status == 200 and small.json["stdout"] == "1\n", small.body[:300]


def large_bodies():
    # What each of them asks for is refused when all of it has been looked at.
    return {
        "one text": {"code": "1", "stdin": "x" * 25_000_000},
        "one file": {"code": "1", "files": [{"name": "a", "data": "QUFB" * 6_000_000}]},
        "many files": {"code": "1", "files": [{"name": f"{number:04}", "data": "QUFB" * 6000} for number in range(1000)]},
        "too many files": {"code": "1", "files": [{"name": f"{number}", "content": "x" * 300} for number in range(60000)]},
        "long names": {"code": "1", "files": [{"name": "d/" * 150 + f"{number}", "data": ""} for number in range(60000)]},
        "variables": {"code": "1", "env": {"V" * 80 + f"{number}": "x" for number in range(200_000)}},
        "deep": {"code": "1", "files": [[[[[[[[1] * 10] * 10] * 10] * 10] * 10] * 2]]},
    }


def test_bodies_that_take_long(two):
    server = two()
    bodies = [json.dumps({**body, "timeout_ms": -1}).encode() for body in large_bodies().values()]
    bystander = Bystander(server, OTHER)
    with contextlib.ExitStack() as stack:
        def send_all():
            """Each but its last byte; and then those, all at once."""
            for _ in range(2):
                for body in bodies:
                    waiting = [stack.enter_context(Wire(server.port)) for _ in range(3)]
                    for connection in waiting:
                        connection.request("POST", "/execute", {"X-Service-API-Key": ATTACKER, "Content-Type": "application/json",
                                                                "Content-Length": len(body)}, body[:-1])
                    for connection in waiting:
                        connection.send(body[-1:])
                    for connection in waiting:
                        assert connection.reply().status in (400, 413)
                        connection.close()
        watched(server, bystander, send_all, jobs=0)
