"""Somebody without a key takes all connections that there are, and takes them again: others notice nothing."""

import json
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from bystander import Bystander
from harness import wait_for

WITHOUT_NODE = True

HERE = Path(__file__).resolve().parent
NUMBER = 1200  # of which the server has room for 1024, and for 512 of one address
ADDRESSES = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
JOBS = 80


class Attack:
    """hold_connections.py, from entering the block to leaving it."""

    def __init__(self, server, kind, number=NUMBER):
        self.argv = [sys.executable, HERE / "hold_connections.py", str(server.port), kind, str(number), *ADDRESSES]

    def __enter__(self):
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        self.process = subprocess.Popen(self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (min(files, 4096), files)))
        assert self.process.stdout.readline() == "begun\n"
        return self

    def __exit__(self, *_):
        try:
            said = self.process.communicate("", 60)[0]
            self.did = json.loads(said)
        finally:
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGKILL)
                self.process.wait()


def healthz(server, source):
    """Of somebody who has no key either, and no connection yet."""
    with socket.create_connection(("127.0.0.1", server.port), 30, (source, 0)) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return client.recv(65536)[:13] == b"HTTP/1.1 200 "


@pytest.mark.parametrize("kind", ["idle", "half-sent", "byte-by-byte", "half-bodies", "wrong-keys", "unread"])
def test_connections_without_a_key(serve, kind):
    server = serve("")
    bystander = Bystander(server)
    with bystander.watching():
        number = 300 if kind == "unread" else NUMBER  # whose replies lie in the memory of the machine
        with Attack(server, kind, number) as attack:
            wait_for(lambda: bystander.wrong or len(bystander.latencies) >= JOBS // 2, "jobs beside the attack")
            # A stranger's, from an address of its own and from one of the attacker's.
            assert [healthz(server, source) for source in ("127.0.0.9", ADDRESSES[0]) for _ in range(10)] == [True] * 20
            wait_for(lambda: bystander.wrong or len(bystander.latencies) >= JOBS, "more of them")
            assert server.metric("immure_http_connections") <= 1024
    assert attack.did["most"] >= number // 2, attack.did
    wait_for(lambda: server.metric("immure_http_connections") == 1, "no connection left")


def test_who_has_shown_a_key_keeps_its_place(serve, wire):
    """A connection with a key that says nothing, and one in the middle of a body, outlive the attack."""
    server = serve("")
    job = b'{"code": "print(1)"}'
    head = (f"POST /execute HTTP/1.1\r\nHost: localhost\r\nX-Service-API-Key: {server.key}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(job)}\r\n\r\n").encode()
    idle, busy = wire(server), wire(server)
    idle.send(head + job)
    assert json.loads(idle.reply().body)["stdout"] == "1\n"
    busy.send(head + job[:5])
    with Attack(server, "half-sent") as attack:
        wait_for(lambda: server.metric("immure_http_connections") == 1024, "no place is free")
        for _ in range(20):
            assert healthz(server, "127.0.0.9")
        idle.send(head + job)
        busy.send(job[5:])
        assert [json.loads(connection.reply().body)["stdout"] for connection in (idle, busy)] == ["1\n", "1\n"]
    assert attack.did["made"] > 1024
