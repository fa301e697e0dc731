"""Wants: no memory, no descriptors, no processes, no namespaces, no scratch, nothing that may be written to. Each is an answer
or a sentence, never a crash, and once it is over the next job works."""

import contextlib
import http.client
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import approvals
import pytest

from harness import BUILD, ROOT, Server, call, children, front_of, shipped_policy, wait_for

COLD = re.sub(r"\s*(warm_jails|template|standby):.*", "", (ROOT / "config/server.textproto").read_text())
IMMURE = str(BUILD / "immure")
USER = 54321  # nobody else's, so that its processes are the server's
AS_USER = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--"]
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="starts servers as another user")
END_S = 60
NO_REPLY_S = 5


# Nothing is asked what it needs.
SHELL = """
shipped_runtimes: false default_runtime: "sh"
runtime { name: "sh" interpreter: "/bin/sh" extension: "sh" policy: "bash" }
"""


def made(directory, prefix=(), more=""):
    """A server whose programs are copies: another user may not get to the checkout, wherever it lies."""
    path = directory / "server.textproto"
    path.write_text(more + COLD)
    path.chmod(0o644)
    for parent in (directory, directory.parent, directory.parent.parent):
        parent.chmod(0o755)
    shutil.copy(BUILD / "immure-front", directory)
    return Server(directory / "log", prefix=prefix, immure=str(shutil.copy(IMMURE, directory)), SANDBOX_EXECUTOR_CONFIG=str(path))


def job(server, patience_s=NO_REPLY_S):
    """-> "works", or what else came of it"""
    try:
        reply = server.request("POST", "/execute", json.dumps({"code": "print(6 * 7)"}), patience_s)
    except (OSError, http.client.HTTPException):
        return "no reply"  # or a part of one: of a front that has no descriptor for a connection
    assert reply.status in (200, 500, 503), (reply.status, reply.body)
    verdict = reply.json
    if reply.status != 200:
        assert verdict.get("status") == "setup_error" or verdict["code"] in ("internal_error", "setup_error", "busy"), reply.body
        return "error reply"
    return "works" if verdict["stdout"] == "42\n" else verdict["status"]


def unharmed(server):
    """It is the same process as before, and a job works."""
    wait_for(lambda: job(server) == "works", "a job that works")
    assert server.process.poll() is None and not re.search("signal=SIG(SEGV|ABRT|BUS|ILL)", server.log()), server.log()


def limit(pid, name, value):
    """Sets a process's soft limit, as its user: it is nobody else's business. -> the one before"""
    as_its_user = [*AS_USER, "prlimit", f"--pid={pid}"]
    before, hard = subprocess.run([*as_its_user, f"--{name}", "--raw", "--noheadings", "--output=SOFT,HARD"], check=True, text=True,
                                  capture_output=True).stdout.split()
    subprocess.run([*as_its_user, f"--{name}={value}:{hard}"], check=True)
    return before


def during(server, pid, name, value, tried, patience_s=NO_REPLY_S):
    """Jobs while one process may have no more of something than `value`."""
    before = limit(pid, name, value)
    try:
        with ThreadPoolExecutor(4) as pool:
            outcomes = list(pool.map(lambda _: job(server, patience_s), range(6)))
    finally:
        try:
            limit(pid, name, before)
        except subprocess.CalledProcessError:
            assert pid != server.process.pid and front_of(server.process.pid) != pid, server.log()  # another front has taken its place
    for outcome in outcomes:
        tried[f"want: {outcome}"] += 1
    return set(outcomes)


@pytest.mark.parametrize("who", ["warden", "front"])
def test_descriptors(tmp_path, who, tried):
    """A few that are free, and enough."""
    with made(tmp_path, AS_USER) as server:
        seen = set()
        for spare in range(8 if who == "warden" else 2, 32, 4):
            pid = server.process.pid if who == "warden" else front_of(server.process.pid)
            highest = max(int(fd) for fd in os.listdir(f"/proc/{pid}/fd")) + 1
            seen |= during(server, pid, "nofile", highest + spare, tried)
            unharmed(server)
        assert "works" in seen and seen & {"error reply", "no reply"}, seen


def test_no_descriptor_at_all(tmp_path, tried):
    """A warden that has none to receive a job's says so; nobody is disturbed."""
    with made(tmp_path, AS_USER) as server:
        front, warden = front_of(server.process.pid), server.process.pid
        its_own = at_rest(server, front)
        other = http.client.HTTPConnection("127.0.0.1", server.port)
        headers = {"X-Service-API-Key": server.key, "Content-Type": "application/json", "Accept": "text/event-stream"}
        other.request("POST", "/execute", json.dumps({"code": "import time; time.sleep(60)", "timeout": 60}), headers)
        assert other.getresponse().status == 200  # it has begun
        assert during(server, warden, "nofile", its_own, tried, END_S) == {"error reply"}
        assert server.metric("immure_jobs_running") == 1 and front_of(server.process.pid) == front, server.log()
        other.close()
        wait_for(lambda: server.metric("immure_jobs_running") == 0, "its end")
        unharmed(server)


def holds(pid, name):
    """Whether one of a process's descriptors is such a file."""
    with contextlib.suppress(FileNotFoundError):  # closed meanwhile: to be looked at again
        return any(os.readlink(f"/proc/{pid}/fd/{fd}").startswith(name) for fd in os.listdir(f"/proc/{pid}/fd"))
    return True


def exhausted(pid):
    """The limit under which a process finds no free descriptor."""
    return min(set(range(1000)) - {int(fd) for fd in os.listdir(f"/proc/{pid}/fd")})


def test_no_descriptor_for_output_files(tmp_path):
    """The front tells of files that it could not receive, without what is in them."""
    (tmp_path / "sessions").mkdir(mode=0o700)
    os.chown(tmp_path / "sessions", USER, USER)
    with made(tmp_path, AS_USER, f'session_directory: "{tmp_path}/sessions" session_free_bytes: 0\n') as server:
        front = front_of(server.process.pid)
        names = [f"out{n}" for n in range(8)]  # more than a connection that is just being closed gives back
        code = f"import os\nfor name in {names}: open(name, 'w').write('x')\nopen('up', 'w').close()\nwhile not os.path.exists('done'): pass"
        with ThreadPoolExecutor(1) as pool:
            reply = pool.submit(server.execute, code, session_id="s", outputs=names, timeout=60)
            up = wait_for(lambda: list(tmp_path.glob("sessions/*/work/up")), "a job that runs")
            before = limit(front, "nofile", exhausted(front))
            up[0].with_name("done").touch()
            told = reply.result(90)
            limit(front, "nofile", before)
        files = [{"name": name, "size": 1, "truncated": True} for name in names]
        assert told["status"] == "success" and [row for row in told["output_files"] if row["size"]] == files, told
        assert "event=no_descriptor message=done" in server.log() and front_of(server.process.pid) == front, server.log()
        unharmed(server)


@pytest.mark.parametrize("how", ["execute", "mcp", "later"])
def test_no_descriptor_for_the_verdict_of_a_job_whose_caller_has_been_told(tmp_path, how):
    """The warden cannot look for output files: who has seen the job begin hears that its verdict is lost."""
    job = {"language": "python", "code": "print('begun', flush=True)\nwhile True: pass", "timeout": 60}
    path, body = {"execute": ("/execute", job), "later": ("/execute?wait=false", job),
                  "mcp": ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "execute_code", "arguments": job}})}[how]
    with made(tmp_path, AS_USER) as server:
        warden = server.process.pid
        front = front_of(warden)
        its_own = at_rest(server, front)
        headers = {"X-Service-API-Key": server.key, "Content-Type": "application/json", "Accept": "text/event-stream"}
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request("POST", path, json.dumps(body), headers)
        reply = connection.getresponse()
        assert how != "execute" or "begun" in (reply.readline() + reply.readline()).decode()
        jail = running_jail(server, front)
        before = limit(warden, "nofile", its_own)
        os.kill(jail, signal.SIGKILL)
        wait_for(lambda: "job_verdict_lost" in server.log(), "the loss")
        limit(warden, "nofile", before)
        if how == "later":
            told = call(server, "GET", reply.headers["Location"], key=server.key).json
            # The warden may have had no descriptor for the reply either.
            assert told["status"] == "refused" and (told["reply"] is None or told["reply"]["code"] == "internal_error"), told
        else:
            told = reply.read().decode()
            assert "internal error" in told and told.endswith("\n\n"), told
        connection.close()
        assert front_of(warden) == front, server.log()
        unharmed(server)


def is_python(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"/usr/bin/python3")
    except OSError:
        return False


def at_rest(server, front):
    """-> the limit under which the warden gets no descriptor beyond those that it always has, whatever a job's start or end
    takes or gives back meanwhile"""
    warden = server.process.pid
    wait_for(lambda: children(warden) == [front], "the end of the self-test's jail")
    assert server.get("/sessions").status == 200  # whatever the warden was at
    wait_for(lambda: not holds(warden, "/memfd:sessions"), "the end of that answer")
    return exhausted(warden)


def running_jail(server, front):
    """-> PID 1 of the only jail, once its program runs"""
    warden = server.process.pid
    return wait_for(lambda: next((pid for pid in children(warden) if pid != front and any(map(is_python, children(pid)))), None), "a job that runs")


def test_no_descriptor_for_the_verdict_of_an_approved_job(tmp_path):
    with made(tmp_path, AS_USER, approvals.configuration(tmp_path / "policies")) as server:
        warden = server.process.pid
        front = front_of(warden)
        its_own = at_rest(server, front)
        approval_id = approvals.submitted(server, "while True: pass", timeout=60)
        assert approvals.decide(server, approval_id).status == 200
        jail = running_jail(server, front)
        before = limit(warden, "nofile", its_own)
        os.kill(jail, signal.SIGKILL)
        wait_for(lambda: "job_verdict_lost" in server.log(), "the loss")
        limit(warden, "nofile", before)
        told = approvals.settled(server, approval_id)
        assert (told["status"], told["outcome"]) == ("lost", "its verdict could not be read"), told
        assert approvals.result(server, approval_id)["status"] == "refused"


@pytest.mark.parametrize("spare", [0, 3])
def test_no_descriptor_for_an_approved_job(tmp_path, spare):
    """The warden has none (of the two for its answer, the one for the front's copy, the five for the program's pipes): what it
    was told is told, the job waits, and it runs once."""
    with made(tmp_path, AS_USER, approvals.configuration(tmp_path / "policies", "front_timeout_ms: 0\n")) as server:
        front, warden = front_of(server.process.pid), server.process.pid
        approval_id = approvals.submitted(server)
        before = limit(warden, "nofile", exhausted(warden) + spare)
        told = approvals.decide(server, approval_id)
        assert told.status in (200, 500, 503), told.body
        # What the self-test's jail has given back since then may have been enough, or enough to begin.
        wait_for(lambda: re.search("event=(approved_job_waits|approved_job_again|job_refused)|state=done", server.log()), "the want, or an end")
        limit(warden, "nofile", before)
        kept, outcome = approvals.result(server, approval_id), approvals.settled(server, approval_id)["outcome"]
        begun = kept["status"] == "setup_error" and outcome != "success"
        assert begun or (kept["reply"]["stdout"] == "42\n" and outcome == "success"), (kept, outcome)
        assert approvals.audited(server, approval_id) == ["pending", "approved", "running", "done"] and front_of(server.process.pid) == front


@pytest.mark.parametrize("who", ["warden", "front"])
def test_memory(tmp_path, who, tried):
    """Of address space, which is what malloc() runs out of where a host overcommits."""
    with made(tmp_path, AS_USER) as server:
        for spare in (0, 1 << 14, 1 << 17, 1 << 20, 1 << 23):
            pid = server.process.pid if who == "warden" else front_of(server.process.pid)
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
            during(server, pid, "as", pages * resource.getpagesize() + spare, tried)
            unharmed(server)


def test_processes(tmp_path, tried):
    """RLIMIT_NPROC is an ordinary user's."""
    with made(tmp_path, AS_USER) as server:
        seen = set()
        for most in (0, 1, 2, 3, 4, 6):
            seen |= during(server, server.process.pid, "nproc", most, tried)
            unharmed(server)
        assert "error reply" in seen, seen


def readiness(server):
    """"ended", or what /readyz says once it is decided; None until then"""
    if server.process.poll() is not None:
        return "ended"
    try:
        reply = server.get("/readyz")
    except OSError:
        return None
    return "ready" if reply.status == 200 else None if "has not ended yet" in str(reply.body) else reply.json["error"]


def one_sentence(server):
    """It has ended as it should."""
    own = [line for line in server.log().splitlines() if line.startswith("immure serve: ") or "error while loading shared libraries" in line]
    assert 0 < server.process.returncode < 128 and len(own) == 1, server.log()


@pytest.mark.parametrize("spare", [0, 1])
@pytest.mark.parametrize("kind", ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"])
def test_namespaces(tmp_path, kind, spare):
    """A user namespace that may have no other ones of a kind below it, or one for the front alone: the server does not start, or it
    says at /readyz what keeps its jobs from running; and which limit it is."""
    most = spare + (kind == "user")  # the server's own
    limit = f'echo {most} >/proc/sys/user/max_{kind}_namespaces && exec unshare --user --map-user=1000 --map-group=1000 -- "$@"'
    server = made(tmp_path, [*AS_USER, "unshare", "--user", "--map-root-user", "--", "/bin/sh", "-c", limit, "sh"])
    server.start()
    try:
        answer = wait_for(lambda: readiness(server), "an answer", END_S)
        if answer == "ended":
            one_sentence(server)
            answer = server.log().splitlines()[-1]
        else:
            assert answer != "ready" and job(server, END_S) == "error reply", answer
        assert re.search(rf"max_({kind}|\*)_namespaces", answer), answer
    finally:
        server.stop()


@pytest.mark.parametrize("most", ["nofile=4:4", "nofile=10:10", "nofile=16:16", "nofile=20:20", "nofile=30:30", "nofile=60:60", "as=3000000"])
def test_start_with_too_little(tmp_path, most):
    server = made(tmp_path, ["prlimit", f"--{most}"])
    server.start()
    try:
        answer = wait_for(lambda: readiness(server), "an answer", END_S)
        if answer == "ended":
            one_sentence(server)
        else:
            assert job(server, END_S) in ("works", "error reply", "execution_error")
    finally:
        server.stop()


def test_readiness_notices_that_jails_cannot_be_built_any_more(tmp_path):
    """What a policy shows of the host goes away under a server that was ready, and comes back."""
    shown, policies = tmp_path / "shown", tmp_path / "policies"
    shown.mkdir()
    policies.mkdir()
    text = shipped_policy("python")
    (policies / "python.textproto").write_text(text + f'mount {{ destination: "/opt/shown" bind {{ source: "{shown}" }} }}\n')
    with made(tmp_path, (), f'policy_path: "{policies}"\n') as server:
        assert job(server) == "works"
        shown.rename(tmp_path / "gone")
        assert job(server) == "error reply"
        wait_for(lambda: readiness(server) != "ready", "a server that is not ready", END_S)
        assert server.metric("immure_ready") == 0 and "/opt/shown" in server.get("/readyz").body.decode()
        (tmp_path / "gone").rename(shown)
        wait_for(lambda: readiness(server) == "ready", "a server that is ready again", END_S)
        assert job(server) == "works"
        logged = re.findall("event=selftest ready=([a-z]+)", server.log())
        assert logged == ["true", "false", "true"], logged


def test_connections_that_say_nothing_leave_descriptors_to_others(tmp_path):
    """Where the limit of open files has no room for max_connections, there are fewer, and the log says so."""
    with made(tmp_path, ["prlimit", "--nofile=1024:1024"], "max_connections_per_address: 0\n") as server:
        assert re.search("event=fewer_connections max_connections=[0-9]+ configured=1024", server.log())
        with contextlib.ExitStack() as held:
            for _ in range(900):
                held.enter_context(socket.create_connection(("127.0.0.1", server.port), END_S))
            assert job(server, END_S) == "works"


def test_no_front_ever_serves(tmp_path):
    """Address space for a warden, and none for a front's libraries: each says so, and the warden has the last word."""
    server = made(tmp_path, ["prlimit", "--as=7000000"])
    (tmp_path / "server.textproto").write_text(SHELL)
    server.start()
    try:
        assert wait_for(lambda: server.process.poll(), "the end", END_S)
        assert server.process.returncode == 1
        assert re.match("immure serve: none of [0-9]+ fronts could begin to serve", server.log().splitlines()[-1]), server.log()
    finally:
        server.stop()


def test_scratch(tmp_path):
    """Input that does not fit is refused, a scratch that fills up is the program's own affair; the next job has one of its own."""
    with made(tmp_path) as server:
        small = {"limits": {"scratch_bytes": 65536}}
        big = [{"name": "big", "content": "x" * 200000}]
        reply = server.request("POST", "/execute", json.dumps({"code": "1", "files": big, **small}))
        assert reply.status in (400, 413, 500) and (reply.json.get("error") or reply.json["error_message"]), reply.body
        fill = "try:\n    open('f', 'wb').write(bytes(10**7))\nexcept OSError as error: print(error.errno)"
        assert server.execute(fill, **small)["stdout"] == "28\n"
        unharmed(server)


READ_ONLY = """
cut -d' ' -f5 /proc/self/mountinfo | sort -r | grep -Ev '^/(proc|dev|sys)' | while read -r at; do
    mount -o remount,bind,ro "$at" 2>/dev/null
done
for at in /dev/shm /run; do mount -t tmpfs -o ro none "$at"; done
! touch /tmp/x /var/tmp/x /dev/shm/x /run/x 2>/dev/null || exit 9
exec "$@"
"""


def test_nothing_to_write_to(tmp_path):
    """Every mount is read-only but for the kernel's own: all of it works, because nothing is written anywhere."""
    with made(tmp_path, ["unshare", "--mount", "/bin/sh", "-c", READ_ONLY, "sh"]) as server:
        reply = server.execute("import sys\nopen('out', 'w').write(open('in').read() + sys.stdin.read())", stdin="b", outputs=["out"],
                               files=[{"name": "in", "content": "a"}], session_id="one")
        assert reply["status"] == "success" and reply["files"], reply
        assert server.execute("print(open('out').read())", session_id="one")["stdout"] == "ab\n"
