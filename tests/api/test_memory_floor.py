"""A host that is short of memory: who is ended, what they and new callers are told, and that it passes. The floor is moved, not the
host's memory: one of all that there is has always been passed."""

import contextlib
import json
import re
import signal
import threading
from pathlib import Path

import pytest

from harness import descendants, runtimes, wait_for

WITHOUT_NODE = True
HOLD = """
import time
held = bytearray(%d << 20)
for at in range(0, len(held), 4096):
    held[at] = 1
time.sleep(60)
"""
SENTENCE = "The host ran short of memory, and this job had grown most."
SHIPPED = (Path(__file__).resolve().parents[2] / "config/server.textproto").read_text()


def resident_bytes(pid):
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
    return 0


class World:
    def __init__(self, serve, path):
        self.path = path
        self.write(0)
        self.server = serve(SANDBOX_EXECUTOR_CONFIG=str(path))

    def write(self, percent):
        self.path.write_text(f"memory_free_bytes: 0 memory_free_percent: {percent}\n" + (runtimes() or SHIPPED))

    def move_floor(self, percent):
        before = self.server.log().count("event=reloaded")
        self.write(percent)
        self.server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: self.server.log().count("event=reloaded") > before, "the new floor is in force")

    def execute(self, code, **fields):
        body = json.dumps({"code": code, "timeout_ms": 60000, **fields})
        return self.server.request("POST", "/execute", body, timeout=120)

    def ended(self):
        """-> what was ended, in that order"""
        return re.findall(r"event=ended_for_memory what=(\w+) execution_id=(\S+)", self.server.log())

    def passes(self):
        self.move_floor(0)
        wait_for(lambda: self.server.get("/readyz").status == 200, "the server is ready")
        assert "event=memory_recovered" in self.server.log()
        assert self.execute("print(1)").json["status"] == "success"
        assert self.server.metric("immure_host_short_of_memory") == 0


@pytest.fixture
def world(serve, tmp_path):
    return World(serve, tmp_path / "moved.textproto")


def test_who_has_grown_most_is_ended_first(world):
    replies = {}
    threads = [threading.Thread(target=lambda name=name, mib=mib: replies.update({name: world.execute(HOLD % mib, execution_id=name)}))
               for name, mib in (("large", 200), ("small", 1))]
    for thread in threads:
        thread.start()
    wait_for(lambda: world.server.metric("immure_jobs_running") == 2, "both run")
    wait_for(lambda: any(resident_bytes(pid) > 200 << 20 for pid in descendants(world.server.process.pid)), "one holds much")
    world.move_floor(100)
    for thread in threads:
        thread.join()
    assert world.ended() == [("job", "large"), ("job", "small")]
    for reply in replies.values():
        verdict = reply.json
        assert (reply.status, verdict["status"], verdict["oom"], verdict["killed"], verdict["exit_code"]) == (200, "oom", True, False, 137)
        assert verdict["error_message"] == SENTENCE
    assert world.server.metric("immure_ended_for_host_memory_total") == 2
    world.passes()


def test_no_job_begins_until_it_is_over(world):
    world.move_floor(100)
    reply = world.execute("print(1)")
    assert (reply.status, reply.json["error"], reply.headers["Retry-After"]) == (503, "server busy: the host is short of memory", "1")
    ready = world.server.get("/readyz")
    assert (ready.status, ready.json["error"]) == (503, "the host is short of memory: no job begins")
    assert world.server.get("/healthz").status == 200
    assert world.server.metric("immure_host_short_of_memory") == 1
    world.passes()


def test_an_interpreter_between_two_calls_is_ended_too(world):
    call = {"policy": "python-kernel", "session_id": "s"}
    assert world.execute("x = 1", **call).json["kernel"] == "new"
    assert world.execute("x", **call).json["kernel"] == "kept"
    world.move_floor(100)
    wait_for(lambda: world.ended() == [("kernel", '""')], "it is ended")
    world.passes()
    assert world.execute("x = 1", **call).json["kernel"] == "new"
