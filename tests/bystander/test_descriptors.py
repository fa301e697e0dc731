"""What the kernel counts for a user, one job takes all of it: where all jails are one user outside, the others go on."""

import concurrent.futures
import os
import signal

import pytest
from bystander import Bystander
from harness import BUILD, ROOT, Server, descendants, wait_for

SHIPPED = "max_concurrent_jobs: 8 max_timeout_ms: 600000 drain_timeout_ms: 30000\n" + (ROOT / "config/server.textproto").read_text()
NAMED = """
import ctypes
def ready(word):
    ctypes.CDLL(None).prctl(15, word, 0, 0, 0)
"""
# As many as its RLIMIT_NOFILE, and those of one more message, on their way to nobody.
IN_FLIGHT = NAMED + """
import array, os, resource, socket, signal
one = os.open("/dev/null", os.O_RDONLY)
pairs, sent = [], 0
try:
    while True:
        pairs.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
        for _ in range(4):
            pairs[-1][0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [one] * 250))])
            sent += 250
except OSError as error:
    assert sent > resource.getrlimit(resource.RLIMIT_NOFILE)[0], (sent, error)
ready(b"hoarder")
signal.pause()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = tmp_path_factory.mktemp("descriptors")
    (path / "server.textproto").write_text('environment: "test"\n' + SHIPPED)
    with Server(path / "log", immure=str(BUILD / "immure"), SANDBOX_EXECUTOR_CONFIG=str(path / "server.textproto")) as server:
        yield server


def find(server, name):
    for pid in descendants(server.process.pid):
        try:
            with open(f"/proc/{pid}/comm") as comm:
                if comm.read().strip() == name:
                    return pid
        except OSError:
            pass
    return None


@pytest.mark.parametrize("code", [IN_FLIGHT], ids=["in-flight"])
def test_what_one_job_hoards_of_its_user(server, code):
    bystander = Bystander(server)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        job = pool.submit(server.execute, code, timeout_ms=100000)
        wait_for(lambda: find(server, "hoarder") or job.done(), "the hoarder has it all")
        assert not job.done(), job.result()
        with bystander.watching():
            for _ in range(40):
                assert server.execute("print(1)")["status"] == "success"
        os.kill(find(server, "hoarder"), signal.SIGKILL)
        assert job.result()["signal"] == "SIGKILL"
