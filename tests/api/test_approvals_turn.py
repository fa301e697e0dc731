"""Approved jobs wait for what their sessions lack, as they wait for a slot: the kernel runs another call, or there is no room for one."""

import concurrent.futures
import contextlib
import os
import re
import signal

import pytest
from approvals import KEYS, audited, configuration, decide, look, result, settled, submit, submitted
from harness import call, shipped_policy, wait_for

KERNEL = {"policy": "held-kernel"}


def held_kernels(tmp_path, more=""):
    """The configuration, with a policy whose jobs need an approval and run in the kernel of their session."""
    text = configuration(tmp_path / "policies", more)
    policy = shipped_policy("python-kernel")
    changed = re.sub(r'(?m)^name: "python-kernel"', 'name: "held-kernel"\napproval: ALWAYS', policy)
    assert changed != policy
    (tmp_path / "policies/held-kernel.textproto").write_text(changed)
    return text


def approved(server, code, session_id, **fields):
    approval_id = submitted(server, code, session_id=session_id, **{**KERNEL, **fields})
    assert decide(server, approval_id).json["status"] in ("approved", "running")
    return approval_id


def beside(server, code, session_id):
    """A job without an approval, beside the kernel of that session, in its workspace."""
    reply = call(server, "POST", "/execute", {"code": code, "session_id": session_id}, KEYS["caller"])
    assert reply.status == 200 and reply.json["status"] == "success", reply.body
    return reply.json["stdout"]


def begin_call(server, session_id):
    """-> the approval of a call that holds the kernel until there is a file `done`"""
    first = approved(server, "import os, time\nseen = [0]\nopen('up', 'w').close()\nwhile not os.path.exists('done'): time.sleep(0.005)",
                     session_id, timeout_ms=100000)
    wait_for(lambda: "up" in beside(server, "import os; print(os.listdir('.'))", session_id), "a call that runs")
    return first


def reply_of(server, approval_id):
    """The job's verdict, once it has run."""
    kept = result(server, approval_id)
    assert kept["status"] == "success" and settled(server, approval_id)["outcome"] == "success", kept
    return kept["reply"]


def test_the_next_calls_wait_for_the_one_that_runs(serve, tmp_path):
    server = serve(held_kernels(tmp_path))
    first = begin_call(server, "s")
    later = [approved(server, f"seen.append({n})\nprint(seen)", "s") for n in (1, 2, 3)]
    assert reply_of(server, approved(server, "print(6 * 7)", "another"))["stdout"] == "42\n"  # is not held up
    assert [look(server, one).json["status"] for one in (first, *later)] == ["running", "approved", "approved", "approved"]
    beside(server, "open('done', 'w').close()", "s")
    assert reply_of(server, first)["kernel"] == "new"
    assert [(reply_of(server, one)["stdout"], reply_of(server, one)["kernel"], reply_of(server, one)["session"]) for one in later] == [
        ("[0, 1]\n", "kept", "kept"), ("[0, 1, 2]\n", "kept", "kept"), ("[0, 1, 2, 3]\n", "kept", "kept")]


@pytest.mark.parametrize("limit", ["max_kernels: 1", "max_sessions: 1"])
def test_room_for_its_session(serve, tmp_path, limit):
    # Looked for every second.
    server = serve(held_kernels(tmp_path, limit + " front_timeout_ms: 0\n"))
    assert reply_of(server, approved(server, "x = 1", "a"))["kernel"] == "new"
    waits = approved(server, "print('b')", "b")
    assert reply_of(server, approved(server, "print(x)", "a"))["stdout"] == "1\n"
    assert look(server, waits).json["status"] == "approved"
    assert call(server, "DELETE", "/workspace/a", key=KEYS["caller"]).status == 204
    assert reply_of(server, waits)["stdout"] == "b\n"


def test_a_caller_that_waits_gets_the_verdict(serve, tmp_path):
    """For the decision first, and then for the kernel."""
    server = serve(held_kernels(tmp_path))
    first = begin_call(server, "s")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waits = pool.submit(submit, server, "print(seen)", session_id="s", wait_ms=60000, **KERNEL)
        [row] = wait_for(lambda: call(server, "GET", "/approvals", key=KEYS["approver"]).json["approvals"], "the submission")
        assert decide(server, row["approval_id"]).json["status"] == "approved"
        beside(server, "open('done', 'w').close()", "s")
        assert waits.result(120).json["stdout"] == "[0]\n"
    assert reply_of(server, first)["kernel"] == "new"


def test_what_will_not_be_otherwise_later_is_told_at_once(serve, tmp_path):
    """The session is another key's."""
    server = serve(held_kernels(tmp_path))
    assert reply_of(server, approved(server, "1", "s"))["kernel"] == "new"
    refused = submit(server, "1", key="other", session_id="s", **KERNEL).json["approval_id"]
    assert decide(server, refused).status == 200
    told = settled(server, refused)
    assert told["status"] == "done" and "may not use the session" in told["outcome"], told


def test_a_session_that_must_be_there(serve, tmp_path):
    """Whether it is, is looked at when the job is to run."""
    server = serve(held_kernels(tmp_path))
    assert reply_of(server, approved(server, "x = 41", "s"))["session"] == "new"
    waits = [submit(server, "print(x + 1)", session_id="s", session="kept", **KERNEL).json["approval_id"] for _ in range(2)]
    assert decide(server, waits[0]).status == 200
    assert reply_of(server, waits[0])["stdout"] == "42\n"
    assert call(server, "DELETE", "/workspace/s", key=KEYS["caller"]).status == 204
    assert decide(server, waits[1]).status == 200
    told = settled(server, waits[1])
    assert told["status"] == "done" and "there is none of that name to be kept" in told["outcome"], told


@contextlib.contextmanager
def stopped(server):
    """The warden stands still: what the front tells it waits for it."""
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.process.pid, signal.SIGCONT)


@pytest.mark.parametrize("limit", ["max_kernels: 1", "max_sessions: 1"])
def test_what_another_takes_on_its_way_it_waits_for_once_more(serve, tmp_path, limit):
    """Between its turn and its way back from the front: nothing has begun, and its caller waits on, too."""
    server = serve(held_kernels(tmp_path, limit + " front_timeout_ms: 0\n"))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waits = pool.submit(submit, server, "print(6 * 7)", session_id="a", wait_ms=60000, **KERNEL)
        [row] = wait_for(lambda: call(server, "GET", "/approvals", key=KEYS["approver"]).json["approvals"], "the submission")
        with stopped(server):
            decision = pool.submit(decide, server, row["approval_id"])
            for _ in range(3):
                assert server.get("/healthz").status == 200  # by then the decision has been passed on
            takes = pool.submit(call, server, "POST", "/execute", {"code": "1", "policy": "python-kernel", "session_id": "b"}, KEYS["caller"])
            wait_for(lambda: server.metric("immure_jobs_running") == 1, "a job that has been passed on")
        assert decision.result(60).json["status"] == "approved" and takes.result(60).json["status"] == "success"
        # Which is told to run later, and back by then.
        later = submitted(server, "print(1)")
        assert decide(server, later).status == 200 and reply_of(server, later)["stdout"] == "1\n"
        assert look(server, row["approval_id"]).json["status"] == "approved" and not waits.done()
        assert call(server, "GET", f"/jobs/{row['approval_id']}", key=KEYS["caller"]).status == 404
        assert call(server, "DELETE", "/workspace/b", key=KEYS["caller"]).status == 204
        assert waits.result(120).json["stdout"] == "42\n"
    assert reply_of(server, row["approval_id"])["kernel"] == "new"
    assert audited(server, row["approval_id"]) == ["pending", "approved", "running", "done"]
