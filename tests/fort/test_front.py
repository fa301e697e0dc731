"""A front that somebody has taken over: each thing it tries fails, is told in the log, and costs at most that front.

The build has a door that no other has: POST /misbehave makes the front do it (server/front/misbehave.c)."""

import errno
import http.client
import json
import os
import re
import subprocess
import threading
from pathlib import Path

import pytest
from harness import BUILD, ROOT, Server, children, wait_for

RELEASE = Path(str(BUILD).removesuffix("-hooks"))
IMMURE = str(BUILD / "immure")

# No jails but those of jobs, so that they can be counted.
NOT_PARKED = re.sub(r"\s*(warm_jails|template):.*", "", (ROOT / "config/server.textproto").read_text())

# What the warden says of a front that broke a rule, by what it did.
REASONS = {
    "garbage": "4 bytes are not a message",
    "nothing": "it closed its channel",
    "unknown kind": "3 bytes are not a message",
    "truncated job": "9 bytes are not a message",
    "oversized": "receiving a message: Message too long",
    "hello again": "received a 'hello' message: out of order",
    "hello with a descriptor": "received a 'hello' message: out of order",
    "config from the front": "received a 'config' message: not the sender's to say",
    "state from the front": "received a 'state' message: not the sender's to say",
    "done from the front": "received a 'done' message: not the sender's to say",
    "refused from the front": "received a 'refused' message: not the sender's to say",
    "ping from the front": "received a 'ping' message: not the sender's to say",
    "pong without ping": "it answered a ping that was not sent",
    "cancel with a descriptor": "received a 'cancel' message: wrong number of descriptors",
    "reply is not sealed": "a job's reply is not a sealed anonymous file",
    "submission is not sealed": "a job's submission is not a sealed anonymous file",
    "run of no approval": "is not the name of an approval",
    "same id twice": "a job's id was used before",
    "too few descriptors": "received a 'job' message: wrong number of descriptors",
    "too many descriptors": "received a 'job' message: wrong number of descriptors",
    "heaps of descriptors": "receiving a message: Message too long",
    "stdout is a socket": "what a program is given is not a pipe",
    "stdout is the channel": "what a program is given is not a pipe",
    "the bridge is a socket": "what a program is given is not a pipe",
    "the bridge is the wrong way round": "what a program is given is not a pipe",
    "stdin is a device": "what a program is given is not a pipe",
    "stdin can be written": "what a program is given is not a pipe",
    "input is a directory": "a job's input is not a sealed anonymous file",
    "stderr is a directory": "what a program is given is not a pipe",
    "input is a pipe": "a job's input is not a sealed anonymous file",
    "input is not sealed": "a job's input is not a sealed anonymous file",
    "flood without reading": "the other process does not read its messages",
    "hang": "it has not answered for 5000 ms",
    "sleep for ever": "it has not answered for 5000 ms",
    "close the channel": "it closed its channel",
}
# What ends a front without a word of the warden's.
ENDS = {
    "crash": {"signal": {"SIGABRT", "SIGSEGV", "SIGILL"}},
    "leave": {"exit_code": {"0"}},
    "foreign call": {"signal": {"SIGSYS"}},
}

SLEEPS = "import time; print('up', flush=True); time.sleep(50)"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    directory = tmp_path_factory.mktemp("fort")
    with Server(directory / "log", immure=IMMURE) as started:
        yield started


def events(server, name, since=0):
    found = []
    for line in server.log()[since:].splitlines():
        fields = {key: quoted or plain for key, quoted, plain in re.findall(r'(\w+)=(?:"((?:[^"\\]|\\.)*)"|(\S*))', line)}
        if fields.get("event") == name:
            found.append(fields)
    return found


def front_pid(server):
    return int(wait_for(lambda: events(server, "front_serving"), "a front that serves")[-1]["pid"])


def misbehave(server, how, timeout=30):
    """-> the error's name ("" where there was none), or None where the front did not live to tell"""
    try:
        reply = server.request("POST", "/misbehave", json.dumps({"how": how, "victim": server.process.pid}), timeout)
    except (OSError, http.client.HTTPException):
        return None
    assert reply.status == 200, reply.body
    return errno.errorcode[reply.json["error"]] if reply.json["error"] else ""


def known(kind):
    """The things that the build under test can do, by kind."""
    with Server(Path(os.environ.get("TMPDIR", "/tmp")) / f"fort-list-{os.getpid()}", immure=IMMURE) as asked:
        lines = asked.request("POST", "/misbehave", "{}").body.decode().splitlines()
    asked.log_path.unlink()
    return [line.partition("\t")[2] for line in lines if line.startswith(kind + "\t")]


def background_job(server):
    """Starts a job that would last. -> what became of its caller, once that is known"""
    outcome = []

    def call():
        try:
            outcome.append(server.execute(SLEEPS, timeout_ms=60000))
        except (OSError, http.client.HTTPException) as error:
            outcome.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    wait_for(lambda: server.metric("immure_jobs_running") == 1, "the job to run")

    def ended():
        thread.join(30)
        return outcome[0]
    return ended


def calm(server):
    """Deaths in quick succession are slowed down; a new server each few keeps the tests quick."""
    wait_for(server.ready, "the server to serve")


def test_every_misdeed_has_an_expectation():
    assert set(known("act")) == set(REASONS) | set(ENDS)


def test_denied_calls_fail_and_are_told(server):
    attempts = known("attempt")
    assert len(attempts) >= 57
    front = front_pid(server)
    heard = 0
    for how in attempts:
        since = len(server.log())
        assert misbehave(server, how) == "EPERM", how
        [denied] = wait_for(lambda since=since: events(server, "front_denied", since), f"a line about: {how}")
        assert denied["pid"] == str(front) and denied["call"] and denied["means"]
        heard += 1
    assert front_pid(server) == front and heard == len(attempts)
    assert server.execute("print(1)")["stdout"] == "1\n"
    assert not os.path.exists("/tmp/front-was-here")


# Of a front that may call back: no way past the ports that Landlock allows.
AWAY = ["a UDP socket", "a UDP-Lite socket", "an MPTCP socket", "an SCTP socket", "a raw socket", "a unix socket", "send to an address",
        "connect by sending", "connect by a message", "connect when sending", "another protocol on top", "bind elsewhere"]


def test_a_front_that_calls_back_has_tcp_alone(tmp_path):
    with Server(tmp_path / "log", immure=IMMURE, SANDBOX_EXECUTOR_CALLBACK_URLS="http://127.0.0.1:9/") as server:
        assert misbehave(server, "a TCP socket") == ""
        for how in AWAY:
            assert misbehave(server, how) == "EPERM", how
        assert server.execute("print(1)")["stdout"] == "1\n"


def test_denied_calls_do_not_fill_the_log(tmp_path):
    with Server(tmp_path / "log", immure=IMMURE) as server:
        errors = [misbehave(server, "read a file") for _ in range(100)]
        assert errors[0] == "EPERM" and errors[-1] == "ENOSYS"
        assert len(events(server, "front_denied")) == 64
        assert server.execute("print(1)")["stdout"] == "1\n"


def after_an_end(server, since, front, job, before):
    """The front is replaced on the same socket, its job is cancelled, nothing stays."""
    assert isinstance(job(), Exception)
    wait_for(lambda: events(server, "job_orphaned", since), "the job's end")
    wait_for(lambda: events(server, "front_serving", since), "another front")
    assert front_pid(server) != front and not os.path.exists(f"/proc/{front}")
    calm(server)
    assert server.execute("print(1)")["stdout"] == "1\n"
    wait_for(lambda: len(children(server.process.pid)) <= before, "nothing left of it")


# Misdeeds by server: a few each, since dying again and again is slowed down.
HANGS = ["hang", "sleep for ever"]
OTHERS = sorted({*REASONS, *ENDS} - set(HANGS))


@pytest.mark.parametrize("misdeeds", [HANGS, *(OTHERS[group::6] for group in range(6))], ids="+".join)
def test_broken_rules_cost_the_front(tmp_path, misdeeds):
    config = tmp_path / "server.textproto"
    config.write_text(f"front_timeout_ms: {5000 if misdeeds == HANGS else 60000}\n" + NOT_PARKED)
    with Server(tmp_path / "log", immure=IMMURE, SANDBOX_EXECUTOR_CONFIG=str(config)) as server:
        for number, how in enumerate(misdeeds, 1):
            front, since = front_pid(server), len(server.log())
            before = len(children(server.process.pid))
            job = background_job(server)
            misbehave(server, how)
            [exited] = wait_for(lambda since=since: events(server, "front_exited", since), f"the front's end after: {how}")
            assert exited["pid"] == str(front)
            if how in REASONS:
                [killed] = events(server, "front_killed", since)
                assert killed["reason"] == REASONS[how], how
                # a front that hears of a job that it does not know may be the quicker to end
                assert exited["signal"] == "SIGKILL" or exited["exit_code"] == "1"
            else:
                [(field, values)] = ENDS[how].items()
                assert exited[field] in values, how
            after_an_end(server, since, front, job, before)
            assert server.metric("immure_front_restarts_total") == number
        assert server.process.poll() is None


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_nothing_of_dead_fronts_stays_in_the_warden(tmp_path):
    config = tmp_path / "server.textproto"
    config.write_text(NOT_PARKED)
    with Server(tmp_path / "log", immure=IMMURE, SANDBOX_EXECUTOR_CONFIG=str(config)) as server:
        if not os.access(f"/proc/{server.process.pid}/fd", os.R_OK):
            pytest.fail("the warden's descriptors cannot be counted")
        for how in ("stdout is the channel", "flood without reading", "heaps of descriptors"):
            before = descriptors(server.process.pid)
            since = len(server.log())
            misbehave(server, how)
            wait_for(lambda since=since: events(server, "front_serving", since), "another front")
            wait_for(lambda before=before: descriptors(server.process.pid) <= before, "no descriptor left")


def test_a_storm_of_deaths_is_slowed_down_and_ends(tmp_path):
    with Server(tmp_path / "log", immure=IMMURE) as server:
        for _ in range(6):
            since = len(server.log())
            misbehave(server, "leave")
            wait_for(lambda since=since: events(server, "front_exited", since), "the end")
            wait_for(lambda since=since: events(server, "front_serving", since), "another front")
        assert [event["delay_ms"] for event in events(server, "front_restart_delayed")] == ["1000"]
        calm(server)
        assert server.metric("immure_front_restarts_total") == 6


def test_no_other_build_can_misbehave():
    programs = {name: (RELEASE / name).read_bytes() for name in ("immure", "immure-front")}
    for word in (b"misbehave", b"front-was-here", b"kill the warden"):
        assert word in (BUILD / "immure-front").read_bytes(), "this test looks for the wrong words"
        assert not [name for name, content in programs.items() if word in content]
    for name, known in (("immure", "front_start"), ("immure-front", "front_main")):
        symbols = subprocess.run(["nm", str(RELEASE / name)], capture_output=True, text=True, check=True).stdout
        assert known in symbols and "misbehave" not in symbols
