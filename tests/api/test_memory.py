"""What lies in the memory of a jail's PID 1, which begins as a copy of the process that makes it: nothing of other callers' jobs."""

import concurrent.futures
import contextlib
import os
import re
import secrets
import signal
from pathlib import Path

import pytest
from conftest import IMMURE
from harness import Server, call, descendants, runtimes, wait_for

WITHOUT_NODE = True

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="PID 1 of a jail cannot be read by anybody but root"),
    pytest.mark.skipif(b"__asan_init" in Path(IMMURE).read_bytes(), reason="the sanitizers keep memory of their own"),
]
WAITING = """
import ctypes, signal
ctypes.CDLL(None).prctl(15, b"%s", 0, 0, 0)
signal.pause()
"""


@pytest.fixture(scope="module", params=["exec", "template"])
def server(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("memory")
    text = runtimes() if request.param == "template" else re.sub(r"\s*(warm_jails|template|standby_jails):.*", "", runtimes())
    (path / "server.textproto").write_text('environment: "test"\n' + text)
    with Server(path / "log", immure=IMMURE, SANDBOX_EXECUTOR_CONFIG=str(path / "server.textproto")) as server:
        yield server


def words():
    """A marker in everything that a job is made of."""
    word = "marker-" + secrets.token_hex(8)
    return word, {"env": {"NAMED": f"{word}-env", f"{word.replace('-', '_')}_name": "x"}, "args": [f"{word}-arg" * 3, "long" * 4000 + word],
                  "stdin": f"{word}-stdin", "files": [{"name": f"{word}-file", "content": f"{word}-content"}]}


def memory(pid):
    """All of it that can be read."""
    found = b""
    with open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for start, end in re.findall(r"^(\w+)-(\w+) r", Path(f"/proc/{pid}/maps").read_text(), re.MULTILINE):
            with contextlib.suppress(OSError, OverflowError):
                mem.seek(int(start, 16))
                found += mem.read(int(end, 16) - int(start, 16))
    return found


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def named(server, name):
    for pid in descendants(server.process.pid):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().strip() == name:
                return pid
    return None


@contextlib.contextmanager
def waiting(server, pool, name, **fields):
    """A job that waits. -> the pid of its program's first process"""
    job = pool.submit(server.execute, WAITING % name, timeout_ms=100000, **fields)
    wait_for(lambda: named(server, name), f"{name} runs")
    pid = named(server, name)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        assert job.result()["signal"] == "SIGKILL"


def test_pid_1_holds_nothing_of_other_jobs(server):
    earlier, its = words()
    meanwhile, theirs = words()
    own, ours = words()
    assert server.execute(f"import sys; print({earlier!r}, sys.stdin.read())", **its)["status"] == "success"
    with concurrent.futures.ThreadPoolExecutor() as pool, waiting(server, pool, "meanwhile", **theirs), waiting(server, pool, "own", **ours) as pid:
        found = memory(parent(pid))
        assert len(found) > 100000 and (own.encode() in memory(pid))
        assert (earlier.encode() in found, meanwhile.encode() in found) == (False, False)


def test_nor_does_that_of_a_kernel(server):
    earlier, its = words()
    meanwhile, theirs = words()
    assert server.execute(f"print({earlier!r})", **its)["status"] == "success"
    its.pop("files")
    first = {"policy": "python-kernel", "session_id": "first"}
    assert server.execute(f"print({earlier!r})", **first)["status"] == "success"
    with concurrent.futures.ThreadPoolExecutor() as pool, waiting(server, pool, "meanwhile", **theirs), \
            waiting(server, pool, "kernel", policy="python-kernel", session_id="second") as pid:
        found = memory(parent(pid))
        assert len(found) > 100000
        assert (earlier.encode() in found, meanwhile.encode() in found) == (False, False)
    assert call(server, "DELETE", "/workspace/first").status == 204
