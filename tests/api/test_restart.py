"""Restarts that nobody notices: the test plays the service manager, which holds the listening socket and hears how far the server is."""

import contextlib
import http.client
import itertools
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import IMMURE
from harness import PATIENCE, Server, front_of, runtimes, wait_for

WITHOUT_NODE = True

KEEP_QUIET = "drain_idle_ms: 120000\n"  # no connection is closed because its caller, on a busy machine, says nothing for a while

# What a service manager does between fork and exec.
HAND_OVER = """
import os, sys
given = int(sys.argv[1])
os.dup2(given, 3)
os.set_inheritable(given, given == 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=os.environ.get("HANDED", "1"), LISTEN_FDNAMES="immure.socket")
os.execv(sys.argv[2], sys.argv[2:])
"""


class Manager:
    """The end of NOTIFY_SOCKET that a service manager reads."""

    def __init__(self, path):
        self.path, self.socket, self.heard = str(path), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), []
        self.socket.bind(self.path)
        os.chmod(path, 0o777)

    def hear(self, seconds):
        """-> the next word; None: there has been none for so long"""
        if not select.select([self.socket], [], [], seconds)[0]:
            return None
        self.heard.append(dict(line.split("=", 1) for line in self.socket.recv(8192).decode().splitlines()))
        return self.heard[-1]

    def until(self, variable, value="1"):
        """-> the first word that says so"""
        deadline = time.monotonic() + PATIENCE * 60
        while time.monotonic() < deadline:
            said = self.hear(1)
            if said and said.get(variable) == value:
                return said
        raise AssertionError(f"no {variable}={value} among {self.heard}")


@pytest.fixture
def manager(tmp_path):
    made = Manager(tmp_path / "notify")
    yield made
    made.socket.close()


@pytest.fixture
def managed(tmp_path):
    """managed(config="text format", VARIABLE="value", …) -> a server whose listening socket is ours; not started"""
    with contextlib.ExitStack() as stack:
        def make(config="", listens=True, **environment):
            path = tmp_path / "server.textproto"
            path.write_text(config + runtimes())
            made = Server(tmp_path / "log", immure=IMMURE, SANDBOX_EXECUTOR_CONFIG=str(path), **environment)
            if listens:
                made.reserved.listen(4096)
            made.inherited = (made.reserved.fileno(),)
            made.argv[:0] = [sys.executable, "-c", HAND_OVER, str(made.reserved.fileno())]
            made.configuration = path
            stack.callback(made.reserved.close)
            return made
        yield make


class Client(threading.Thread):
    """Five requests a second, one after the other; every fifth is a job. What goes wrong is in `failures`."""

    def __init__(self, server, keeps, stop):
        super().__init__(daemon=True)
        self.server, self.keeps, self.stopping = server, keeps, stop
        self.n_replies, self.failures = 0, []
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE * 120)

    def ask(self, number):
        if self.connection.sock and (not self.keeps or select.select([self.connection.sock], [], [], 0)[0]):
            self.connection.close()  # as every client that keeps connections looks whether the other end has closed them
        headers = {"X-Service-API-Key": self.server.key, "Content-Type": "application/json"}
        if number % 5:
            self.connection.request("GET", "/runtimes", headers=headers)
        else:
            self.connection.request("POST", "/execute", json.dumps({"code": f"print({number})", "queue_ms": 60000}), headers)
        reply = self.connection.getresponse()
        body = reply.read()
        if reply.status != 200 or (number % 5 == 0 and json.loads(body)["stdout"] != f"{number}\n"):
            self.failures.append((reply.status, body))

    def run(self):
        for number in itertools.count():
            if self.stopping.is_set():
                break
            next_at = time.monotonic() + 0.2
            try:
                self.ask(number)
                self.n_replies += 1
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(repr(error))
                self.connection.close()
            self.stopping.wait(max(0, next_at - time.monotonic()))
        self.connection.close()


def test_restarts_under_load_lose_nothing(managed):
    server, stop = managed(KEEP_QUIET + "max_queue_ms: 120000\n"), threading.Event()
    clients = [Client(server, keeps=number % 2 == 0, stop=stop) for number in range(10)]

    def all_served():
        before = [client.n_replies for client in clients]
        wait_for(lambda: all(client.failures or client.n_replies > n + 1 for client, n in zip(clients, before)), "replies to all", 120)

    with server:
        for client in clients:
            client.start()
        try:
            for _ in range(4):
                all_served()
                server.process.send_signal(signal.SIGTERM)
                assert server.ended() == 0
                server.start()
            all_served()
        finally:
            stop.set()
            for client in clients:
                client.join(PATIENCE * 120)
        assert [client.failures for client in clients] == [[]] * len(clients)


def begin(connection, server, code, **fields):
    body = json.dumps({"code": code, **fields})
    connection.request("POST", "/execute", {"X-Service-API-Key": server.key, "Content-Type": "application/json",
                                            "Content-Length": len(body)}, body.encode())


def test_what_was_accepted_is_served_and_the_rest_waits_for_the_next_server(managed, wire, hold):
    with managed(KEEP_QUIET + "max_queue_ms: 120000\n", SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="1", **hold.environment) as server:
        idle = wire(server)
        idle.request("GET", "/healthz")
        assert idle.reply().headers.get("connection") != "close"
        running, waiting = wire(server), wire(server)
        begin(running, server, "call_tool('hold'); print('ran')", **hold.fields)
        wait_for(lambda: server.metric("immure_jobs_running") == 1, "a job that runs")
        begin(waiting, server, "print('waited')", queue_ms=120000)
        wait_for(lambda: server.metric("immure_jobs_queued") == 1, "one that waits for it")
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "event=draining connections" in server.log(), "the drain")
        # As long as it might speak on a connection that it has kept, nobody else has to wait either.
        assert server.get("/readyz").status == 503
        idle.request("GET", "/healthz")
        reply = idle.reply()
        assert (reply.status, reply.headers["connection"]) == (200, "close") and idle.ended()
        idle.close()
        late = wire(server)
        late.request("GET", "/healthz")
        hold.go.set()
        for connection, said in ((running, "ran\n"), (waiting, "waited\n")):
            reply = connection.reply()
            assert reply.status == 200 and json.loads(reply.body)["stdout"] == said
        running.close()
        waiting.close()
        assert server.ended() == 0
        assert not select.select([late.socket], [], [], 0)[0]  # neither answered nor closed
        server.start()
        assert late.reply().status == 200
        late.close()  # for which the server would wait


def test_an_idle_connection_does_not_keep_the_server_for_ever(managed, wire):
    with managed("drain_idle_ms: 200\n") as server:
        idle, silent = wire(server), wire(server)
        idle.request("GET", "/healthz")
        idle.reply()
        server.process.send_signal(signal.SIGTERM)
        assert idle.ended() and silent.ended()
        assert server.ended() == 0


def test_a_reload_answers_who_speaks_on_a_kept_connection(managed, wire):
    with managed(KEEP_QUIET) as server:
        idle = wire(server)
        idle.request("GET", "/healthz")
        assert idle.reply().headers.get("connection") != "close"
        server.configuration.write_text(server.configuration.read_text() + "max_body_bytes: 4096\n")
        server.process.send_signal(signal.SIGHUP)
        server.reloaded()
        idle.request("GET", "/healthz")
        reply = idle.reply()
        assert (reply.status, reply.headers["connection"]) == (200, "close") and idle.ended()


def test_a_unix_socket_stays_where_it_is(managed, tmp_path):
    path = str(tmp_path / "socket")
    server = managed(listens=False)
    server.environment["SANDBOX_EXECUTOR_ADDR"] = "unix:" + path
    with socket.socket(socket.AF_UNIX) as held:
        held.bind(path)
        held.listen()
        server.inherited = (held.fileno(),)
        server.argv[3] = str(held.fileno())
        for _ in range(2):
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(PATIENCE * 60)
                client.connect(path)  # whether there is a server or not
                client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                server.start()
                assert b"".join(iter(lambda: client.recv(4096), b"")).startswith(b"HTTP/1.1 200")
            assert server.stop() == 0
            assert Path(path).is_socket()


@pytest.mark.parametrize("listens,environment,sentence", [
    (True, {"SANDBOX_EXECUTOR_ADDR": "127.0.0.1:1"},
     "the service manager hands over a socket at 127.0.0.1:{port}, and the configuration says 127.0.0.1:1: make ListenStream= of "
     "immure.socket and `listen` the same"),
    (True, {"SANDBOX_EXECUTOR_ADDR": "unix:/run/immure.socket"}, "the configuration says unix:/run/immure.socket"),
    (True, {"HANDED": "2"}, "LISTEN_FDS: '2': the server listens on one socket: leave one ListenStream= in immure.socket"),
    (True, {"HANDED": "one"}, "LISTEN_FDS: 'one': expected a number of descriptors"),
    (False, {}, "LISTEN_FDS: descriptor 3 is no listening stream socket: ListenStream= and Accept=no make one"),
], ids=["another-port", "another-kind", "two", "no-number", "not-listening"])
def test_a_socket_that_does_not_fit_is_told_in_one_sentence(managed, listens, environment, sentence):
    server = managed(listens=listens)
    server.environment.update(environment)
    server.start()
    assert server.ended() == 1
    assert sentence.format(port=server.port) in server.log().splitlines()[-1]


def test_the_service_manager_hears_of_start_reload_and_stop(managed, manager):
    server = managed(NOTIFY_SOCKET=manager.path)
    with server:
        manager.until("READY")
        for change, status in (("max_body_bytes: 4096\n", ""), ("max_bodies: 1\n", "the last reload was refused: ")):
            text, before_us = server.configuration.read_text(), time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6
            server.configuration.write_text(text + change)
            server.process.send_signal(signal.SIGHUP)
            assert before_us <= int(manager.until("RELOADING")["MONOTONIC_USEC"]) <= time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6
            said = manager.until("READY")["STATUS"]
            assert said.startswith(status) and ("max_bodies" in said) == bool(status)
            server.configuration.write_text(text)
        server.process.send_signal(signal.SIGTERM)
        # The longest job, the margin of the drain, and what comes behind.
        assert int(manager.until("STOPPING")["EXTEND_TIMEOUT_USEC"]) > 65_000_000
        assert server.ended() == 0


def is_stopped(pid):
    return "\nState:\tT" in Path(f"/proc/{pid}/status").read_text()


def test_signs_of_life_come_while_the_warden_asks_as_often_for_itself(managed, manager):
    with managed("front_timeout_ms: 4000\n", NOTIFY_SOCKET=manager.path, WATCHDOG_USEC="4000000"):  # each asks once a second
        for _ in range(3):
            manager.until("WATCHDOG")


@pytest.mark.parametrize("who", ["front", "warden"])
def test_no_sign_of_life_comes_from_a_server_that_hangs(managed, manager, who):
    with managed("front_timeout_ms: 0\n", NOTIFY_SOCKET=manager.path, WATCHDOG_USEC="400000") as server:
        manager.until("WATCHDOG")
        pid = server.process.pid if who == "warden" else front_of(server.process.pid)
        os.kill(pid, signal.SIGSTOP)
        try:
            wait_for(lambda: is_stopped(pid), "it to stop")
            deadline = time.monotonic() + PATIENCE * 60
            while manager.hear(2):  # what is on its way; then nothing, though one is due every tenth of a second
                assert time.monotonic() < deadline, "signs of life without end"
        finally:
            os.kill(pid, signal.SIGCONT)
        manager.until("WATCHDOG")
