"""The alert rules: each fires, in a real Prometheus, once its trouble has been made for real; and no other does before."""

import base64
import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from harness import BUILD, IMMURE, ROOT, Server, call, children, front_of, runtimes, wait_for
from prometheus import Prometheus, tool

WITHOUT_NODE = True
DIRECTORY = ROOT / "config/deploy/prometheus"
RULES = (DIRECTORY / "immure.rules.yml").read_text()
ALERTS = re.findall(r"- alert: (\w+)", RULES)
SHIPPED = (ROOT / "config/server.textproto").read_text()

CROWDED = """
audit_log: "{audit}"
max_concurrent_jobs: 1
max_queue_ms: 60000
max_kernels: 1
max_connections_per_address: 40
max_session_bytes_total: 1048576
reply_stall_ms: 500
policy_path: "{policies}"
"""


def start(stack, directory, name, config=None, immure=IMMURE, prefix=()):
    server = Server(directory / f"{name}.log", immure=immure, prefix=prefix)
    path = directory / f"{name}.textproto"
    path.write_text((config or "") + (runtimes() or SHIPPED))
    server.environment["SANDBOX_EXECUTOR_CONFIG"] = str(path)
    return stack.enter_context(server)


class World:
    """Servers with one kind of trouble each, and one with many."""

    def __init__(self, stack, directory):
        self.directory, self.stack = directory, stack
        self.servers = {}
        policies = directory / "policies"
        policies.mkdir()
        (policies / "held.textproto").write_text('name: "held"\nuse: ["python"]\napproval: ALWAYS\n')
        self.audit, audit = self.make_fifo("audit")
        self.add("crowded", CROWDED.format(policies=policies, audit=audit))
        self.add("dies")
        self.add("guessed")
        self.add("short", "memory_free_bytes: 0 memory_free_percent: 0\n")
        self.add("cold", immure=self.without_template())
        self.add("unread", "", prefix=("sh", "-c", f'exec "$@" 2>{self.make_fifo("log")[1]}', "sh"))

    def make_fifo(self, name):
        """-> our end, which nobody reads, and where it is"""
        path = self.directory / name
        os.mkfifo(path)
        fifo = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        fcntl.fcntl(fifo, fcntl.F_SETPIPE_SZ, 1 << 20)
        self.stack.callback(os.close, fifo)
        return fifo, path

    def add(self, name, config=None, **options):
        self.servers[name] = start(self.stack, self.directory, name, config, **options)

    def without_template(self):
        directory = self.directory / "bin"
        directory.mkdir()
        for program in "immure", "immure-front":
            shutil.copy(BUILD / program, directory)
        return str(directory / "immure")


def execute(server, code, **fields):
    return call(server, "POST", "/execute", {"code": code, **fields})


@contextlib.contextmanager
def running(server, code="import time; time.sleep(600)", **fields):
    """A job, from when it runs to the end of the block."""
    job = call(server, "POST", "/execute?wait=false", {"code": code, "timeout_ms": 600000, **fields}).json["job_id"]
    wait_for(lambda: server.metric("immure_jobs_running") > 0, "a job that runs")
    try:
        yield job
    finally:
        call(server, "DELETE", f"/jobs/{job}")
        wait_for(lambda: server.metric("immure_jobs_running") == 0, "its end")


def many_connections(world):
    with contextlib.ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(socket.create_connection(("127.0.0.1", world.servers["crowded"].port)))


def wrong_keys(world):
    server = world.servers["guessed"]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: call(server, "GET", "/jobs", key="wrong").status, range(120)))


def unread_reply(world):
    server = world.servers["crowded"]
    body = json.dumps({"code": "open('large', 'wb').write(bytes(7 << 20))", "outputs": ["large"]}).encode()
    with socket.socket() as caller:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        caller.connect(("127.0.0.1", server.port))
        caller.sendall(b"POST /execute HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                       b"X-Service-API-Key: %s\r\nContent-Length: %d\r\n\r\n%s" % (server.key.encode(), len(body), body))
        wait_for(lambda: server.metric("immure_http_replies_dropped_total") > 0, "the end of its patience")


def no_slot(world):
    server = world.servers["crowded"]
    with running(server):
        assert execute(server, "1").status == 503


def long_queue(world):
    server = world.servers["crowded"]
    with ThreadPoolExecutor() as pool:
        with running(server):
            second = pool.submit(execute, server, "1", queue_ms=60000)
            wait_for(lambda: server.metric("immure_jobs_queued") == 1, "the job that waits")
            time.sleep(6)  # it is time that is measured here
        assert second.result().status == 200


def killed_helper(world):
    """Of jobs whose input is being written, until one in twenty has failed: some are too quick for us."""
    server, codes = world.servers["crowded"], [200]
    files = [{"name": "large", "data": base64.b64encode(bytes(16 << 20)).decode()}]
    with ThreadPoolExecutor() as pool:
        while codes.count(500) * 20 < server.metric("immure_jobs_total"):
            reply = pool.submit(execute, server, "1", files=files)
            while not reply.done():
                for pid in children(server.process.pid):
                    with contextlib.suppress(OSError):  # it has ended
                        if Path(f"/proc/{pid}/comm").read_text() == "immure-fill\n":
                            os.kill(pid, signal.SIGKILL)
            codes.append(reply.result().status)
    assert set(codes) <= {200, 500}


def full_audit(world):
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(world.audit, b"x")
    server = world.servers["crowded"]
    assert execute(server, "1").status == 200
    wait_for(lambda: server.metric("immure_audit_lines_lost_total") > 0, "the lost line")


def denied_calls(world):
    code = "import ctypes\nfor _ in range(3000): ctypes.CDLL(None).unshare(0x10000000)"
    assert execute(world.servers["guessed"], code, timeout_ms=60000).json["denied_syscalls"]


def waiting_job(world):
    assert execute(world.servers["crowded"], "1", policy="held").status == 202


def full_session(world):
    server = world.servers["crowded"]
    assert server.request("PUT", "/sessions/s/files/large", b"x" * 1_000_000, headers={"Content-Type": "application/octet-stream"}).status in (200, 201, 204)


def kept_kernel(world):
    assert execute(world.servers["crowded"], "1", policy="python-kernel", session_id="k").status == 200


def short_of_memory(world):
    server = world.servers["short"]
    path = server.environment["SANDBOX_EXECUTOR_CONFIG"]
    text = open(path).read()
    with running(server):
        with open(path, "w") as file:
            file.write(text.replace("percent: 0", "percent: 100"))
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: server.metric("immure_ended_for_host_memory_total") > 0, "the end of the job")


def dead_front(world):
    server = world.servers["dies"]
    os.kill(front_of(server.process.pid), signal.SIGKILL)
    wait_for(lambda: "event=front_exited" in server.log() and server.ready(), "another front")


def mistake(world):
    server = world.servers["dies"]
    with open(server.environment["SANDBOX_EXECUTOR_CONFIG"], "a") as file:
        file.write("\nnonsense\n")
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "event=reload_refused" in server.log(), "the refusal")


def unread_log(world):
    server = world.servers["unread"]

    def ask(_):
        return server.get("/runtimes").status
    with ThreadPoolExecutor(4) as pool:
        while server.metric("immure_log_lines_lost_total") == 0:
            assert set(pool.map(ask, range(200))) == {200}


def end(world):
    world.servers["dies"].stop(signal.SIGKILL)


def nothing(_):
    """It is so from the start."""


TROUBLES = {
    "ImmureDown": end, "ImmureNotReady": short_of_memory, "ImmureAuditLinesLost": full_audit, "ImmureHostShortOfMemory": short_of_memory,
    "ImmureEndedForHostMemory": short_of_memory, "ImmureFrontRestarted": dead_front, "ImmureReloadRefused": mistake,
    "ImmureSetupErrors": killed_helper, "ImmureServerErrors": killed_helper, "ImmureBusy": no_slot, "ImmureQueueSlow": long_queue,
    "ImmureKeysGuessed": wrong_keys, "ImmureDeniedCalls": denied_calls, "ImmureLimitsNotByCgroup": nothing, "ImmureApprovalsWait": waiting_job,
    "ImmureSessionsFull": full_session, "ImmureKernelsFull": kept_kernel, "ImmureNothingWarm": nothing,
    "ImmureConnectionsRefused": many_connections, "ImmureRepliesDropped": unread_reply, "ImmureLogLinesLost": unread_log,
}
# One after another in this order: what the first of them do does not fire what the others are asked for.
ORDER = [nothing, unread_log, many_connections, wrong_keys, unread_reply, denied_calls, kept_kernel, full_session, no_slot, long_queue, waiting_job, full_audit, killed_helper,
         short_of_memory, dead_front, mistake, end]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """The durations of `for` do not fit into a test; promtool's test has them."""
    directory = tmp_path_factory.mktemp("alerts")
    at_once = re.sub(r"for: \d+m", "for: 0s", RULES)
    with contextlib.ExitStack() as stack:
        made = World(stack, directory)
        made.prometheus = stack.enter_context(Prometheus(directory, made.servers, [at_once]))
        made.done = []
        wait_for(lambda: len(made.prometheus.ask("count_over_time(up[1m]) > 1")) == len(made.servers), "two scrapes of each")
        yield made


def firing(world):
    return {row["alertname"] for row, _ in world.prometheus.ask('ALERTS{alertstate="firing"}')}


def test_each_alert_has_its_trouble():
    assert set(TROUBLES) == set(ALERTS) and set(TROUBLES.values()) == set(ORDER)


@pytest.mark.parametrize("trouble", ORDER, ids=lambda trouble: trouble.__name__)
def test_it_fires_when_its_trouble_is_there(world, trouble):
    expected = {name for name, cause in TROUBLES.items() if cause is trouble}
    if trouble is not nothing:
        assert not firing(world) & expected
        trouble(world)
    wait_for(lambda: firing(world) >= expected, f"{expected - firing(world)}", 60)


def test_the_runbook_knows_each_alert():
    text = (ROOT / "config/deploy/README.md").read_text()
    assert re.findall(r"^### (Immure\w+)$", text, re.MULTILINE) == ALERTS


@pytest.mark.parametrize("verb", [("check", "rules", "immure.rules.yml"), ("test", "rules", "immure.rules.test.yml")], ids=["check", "test"])
def test_promtool(verb):
    done = subprocess.run([tool("promtool"), *verb], cwd=DIRECTORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
