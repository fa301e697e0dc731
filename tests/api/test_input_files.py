"""Input files that take a while to write: a process beside the warden does that, and everything is as it is with few."""

import base64
import concurrent.futures
import contextlib
import http.client
import os
import signal
from pathlib import Path

import pytest
from harness import call, children, config_key, front_of, runtimes, wait_for

WITHOUT_NODE = True
MIB = 1 << 20
MANY = [{"name": f"d{number % 40}/f{number}", "data": base64.b64encode(str(number).encode()).decode()} for number in range(300)]
LARGE = [{"name": "large", "data": base64.b64encode(bytes(16 * MIB)).decode()}]
CHANGES = """
import glob, os
print(len(glob.glob('*/*')))
open("d1/f1", "w").write("one")
open('d2/f2', 'a').write('!')
os.remove('d3/f3')
open('new', 'w').write('new')
"""


@pytest.mark.parametrize("fields", [{}, {"session_id": "s"}, {"session_id": "k", "policy": "python-kernel"}, {"runtime": "cold"}],
                         ids=["own", "session", "kernel", "cold"])
def test_what_was_written_is_told_from_what_was_brought(serve, fields):
    server = serve(config='runtime { name: "cold" interpreter: "/usr/bin/python3" extension: "py" policy: "python" }\n' + runtimes() if fields.get("runtime") else None)
    for _ in range(2 if "session_id" in fields else 1):
        verdict = server.execute(CHANGES, files=MANY, outputs=["d2/f*", "d5/f5"], **fields)
        assert verdict["stdout"].split() == ["300"], verdict
        assert [(row["name"], row["size"]) for row in verdict["output_files"]] == [("d1/f1", 3), ("d2/f2", 2), ("new", 3)], verdict
        found = {file["name"]: base64.b64decode(file["data"]).decode() for file in verdict["files"]}
        assert found["f2"] == "2!" and found["f5"] == "5" and len(found) == 9, found
        if "session_id" in fields:
            server.execute("import os; os.remove('new')", **fields)


def test_a_long_program(server):
    code = "#" * (2 * MIB) + "\nprint(len(open(__file__).read()) if '__file__' in globals() else 'ran')"
    assert server.execute(code)["stdout"] in ("ran\n", f"{len(code)}\n")


def test_what_cannot_be_written(serve):
    """As with few files: a refusal that names the field, and no session that was not there."""
    server = serve(config="session_bytes: 8388608\n")
    server.execute("import os; os.symlink('/tmp', 'd7')", session_id="linked")
    reply = call(server, "POST", "/execute", {"code": "1", "session_id": "linked", "files": MANY})
    assert reply.status == 400 and reply.json["field"] == "files" and "link" in reply.json["error"], reply.body
    for name in ("linked", "new"):
        reply = call(server, "POST", "/execute", {"code": "1", "session_id": name, "files": LARGE})
        assert reply.status == 413, reply.body
    listed = {row["session_id"] for row in call(server, "GET", "/sessions").json["sessions"]}
    assert listed == {"linked"}
    wait_for(lambda: server.metric("immure_jobs_running") == 0, "the end of all jobs")
    assert server.execute("print(1)", session_id="new")["stdout"] == "1\n"


def fillers(server):
    found = []
    for pid in children(server.process.pid):
        try:
            found += [pid] * (Path(f"/proc/{pid}/comm").read_text() == "immure-fill\n")
        except OSError:  # it has ended meanwhile
            pass
    return found


def holds_a_lock(pid):
    return any(row.split()[1:5:3] == ["FLOCK", str(pid)] for row in Path("/proc/locks").read_text().splitlines())


class Held:
    """A job whose input is being written, and stays so until let_go(). Where the process was too quick for us, another job.

    In a session it has the session's lock."""

    def __init__(self, server, pool, key, **fields):
        self.filler = None
        while not self.filler:
            self.reply = pool.submit(call, server, "POST", "/execute", {"code": "print(1)", "files": LARGE, **fields}, key)
            while not self.filler and not self.reply.done():
                for pid in fillers(server):
                    os.kill(pid, signal.SIGSTOP)
                    wait_for(lambda: self.state(pid) in "TZ", "the process stands still")  # noqa: B023
                    if self.state(pid) == "T" and ("session_id" not in fields or holds_a_lock(pid)):
                        self.filler = pid
                    else:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGCONT)
            assert self.filler or self.reply.result().status == 200, self.reply.result().body

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.filler, signal.SIGCONT)

    @staticmethod
    def state(pid):
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
        except OSError:
            return "Z"

    def let_go(self, number=signal.SIGCONT):
        os.kill(self.filler, number)
        return self.reply.result()


@pytest.fixture
def keyed(serve):
    return serve(config=config_key("a", "a-key", policy="*") + config_key("b", "b-key", policy="*") + "max_concurrent_jobs: 8\n")


def test_meanwhile_others_go_on(keyed):
    with concurrent.futures.ThreadPoolExecutor() as pool, Held(keyed, pool, "a-key") as held:
        for _ in range(3):
            assert call(keyed, "POST", "/execute", {"code": "print(2)"}, "b-key").json["stdout"] == "2\n"
        assert keyed.metric("immure_jobs_running") == 1 and not held.reply.done()
        assert held.let_go().json["stdout"] == "1\n"


def test_its_session_is_ended_meanwhile(keyed):
    with concurrent.futures.ThreadPoolExecutor() as pool, Held(keyed, pool, "a-key", session_id="s") as held:
        assert call(keyed, "DELETE", "/workspace/s", key="a-key").status == 204
        assert held.let_go().json["status"] == "cancelled"
    assert call(keyed, "POST", "/execute", {"code": "import os; print(os.listdir('.'))", "session_id": "s"}, "a-key").json["stdout"] == "[]\n"


def test_jobs_of_a_session_do_not_write_at_once(keyed):
    """Not even the same names; nor does what is put without a job."""
    def job(number):
        return call(keyed, "POST", "/execute", {"code": "print(open('d0/f0').read())", "session_id": "s", "files": MANY[:1] if number == 3 else MANY}, "a-key")

    def put(_):
        return keyed.request("PUT", "/sessions/s/files/d0/f0", "0", headers={"X-Service-API-Key": "a-key"})

    with concurrent.futures.ThreadPoolExecutor() as pool, Held(keyed, pool, "a-key", session_id="s") as held:
        asked = [pool.submit(ask, number) for number in (1, 2, 3) for ask in (job, put)]
        assert call(keyed, "POST", "/execute", {"code": "print(2)"}, "b-key").json["stdout"] == "2\n"
        assert not any(one.done() for one in asked)
        assert held.let_go().json["stdout"] == "1\n"
        for one in asked:
            reply = one.result()
            assert reply.status == 200 and reply.json.get("stdout", "0\n") == "0\n", reply.body


def test_the_process_is_killed(keyed):
    with concurrent.futures.ThreadPoolExecutor() as pool, Held(keyed, pool, "a-key", session_id="s") as held:
        reply = held.let_go(signal.SIGKILL)
        assert reply.status == 500 and reply.json["code"] == "setup_error", reply.body
    assert call(keyed, "GET", "/sessions", key="a-key").json["sessions"] == []
    wait_for(lambda: keyed.metric("immure_jobs_running") == 0, "its end")


def test_its_front_dies_meanwhile(keyed):
    with concurrent.futures.ThreadPoolExecutor() as pool, Held(keyed, pool, "a-key", session_id="s") as held:
        os.kill(front_of(keyed.process.pid), signal.SIGKILL)
        with pytest.raises((OSError, http.client.HTTPException)):
            held.reply.result()
        wait_for(keyed.ready, "another front")
        assert keyed.metric("immure_jobs_running") == 1  # as long as it is there
        os.kill(held.filler, signal.SIGCONT)
        wait_for(lambda: keyed.metric("immure_jobs_running") == 0, "its end")
    assert call(keyed, "POST", "/execute", {"code": "print(1)", "session_id": "s"}, "a-key").json["stdout"] == "1\n"
