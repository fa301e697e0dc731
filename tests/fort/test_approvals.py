"""The warden is killed at every point of an approval's way; a job never runs before it is approved, never after a rejection or
its expiry, never twice, and exactly once where nothing was killed.

The build ends itself with SIGKILL at the place that IMMURE_DIE_AT names (server/kit/die_here.c). A job counts its runs in the
workspace of a session, which lies on disk."""

import os
import re
import signal

import pytest
from approvals import KEYS, audited, configuration, decide, look, settled, submit
from harness import BUILD, ROOT, Server, call, wait_for

IMMURE = str(BUILD / "immure")
NOT_PARKED = re.sub(r"\s*(warm_jails|template):.*", "", (ROOT / "config/server.textproto").read_text())
COUNT = "import os; os.close(os.open('runs', os.O_WRONLY | os.O_CREAT)); f = os.open('runs', os.O_WRONLY | os.O_APPEND); os.write(f, b'x')"
OWNER = 54321  # of the workspaces on disk, where the server runs with privileges

# Where the warden dies, what is found of the approval after that, and how often its job may have run by then.
SUBMITTING = ["job written", "job renamed", "pending written"]
PENDING = ["pending renamed", "submitted", "decision", "approved written", "rejected written"]
TO_BE_RUN = ["approved renamed", "decided", "handed over", "run", "running written"]
BEGUN = [("running renamed", {0}), ("started", {0, 1}), ("ended", {1}), ("done written", {1})]


class Place:
    """A server's directories, which outlive it."""

    def __init__(self, path):
        self.path, self.servers = path, 0
        for name in ("approvals", "sessions"):
            (path / name).mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chown(path / "sessions", OWNER, OWNER)
        more = f'approval_directory: "{path}/approvals" session_directory: "{path}/sessions" session_free_bytes: 0\n'
        (path / "server.textproto").write_text(configuration(path / "policies", more) + NOT_PARKED)

    def server(self, **environment):
        self.servers += 1
        return Server(self.path / f"log-{self.servers}", immure=IMMURE, SANDBOX_EXECUTOR_CONFIG=str(self.path / "server.textproto"),
                      **environment)

    def runs(self):
        return sum(path.stat().st_size for path in self.path.glob("sessions/*/work/runs"))


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def attempt(function, *arguments, **fields):
    """What the server says, unless it dies before that."""
    try:
        return function(*arguments, **fields)
    except OSError:
        return None


def die_at(place, where, decision="approve"):
    """-> the id of the approval, where anybody has heard of it"""
    with place.server(IMMURE_DIE_AT=where) as server:
        reply = attempt(submit, server, COUNT, session_id="s")
        if reply is not None:
            assert reply.status == 202, reply.body
            assert place.runs() == 0
            approval_id = reply.json["approval_id"]
            attempt(decide, server, approval_id, decision)
        assert server.ended() == -signal.SIGKILL
        return approval_id if reply is not None else None


def waiting(server):
    return [row["approval_id"] for row in call(server, "GET", "/approvals", key=KEYS["approver"]).json["approvals"]]


@pytest.mark.parametrize("where", SUBMITTING)
def test_before_it_is_submitted(place, where):
    assert die_at(place, where) is None
    with place.server() as server:
        assert waiting(server) == [] and place.runs() == 0
        assert sorted(path.name for path in place.path.glob("approvals/*")) == [".lock"]


@pytest.mark.parametrize("where", PENDING)
def test_before_the_decision(place, where):
    heard = die_at(place, where, "reject" if where.startswith("rejected") else "approve")
    with place.server() as server:
        approval_id, = waiting(server)
        assert approval_id == (heard or approval_id) and place.runs() == 0
        assert decide(server, approval_id).status == 200
        assert settled(server, approval_id)["status"] == "done" and place.runs() == 1


@pytest.mark.parametrize("where", TO_BE_RUN)
def test_between_the_decision_and_the_job(place, where):
    approval_id = die_at(place, where)
    assert place.runs() == 0
    with place.server() as server:
        assert settled(server, approval_id)["status"] == "done" and place.runs() == 1
        assert decide(server, approval_id).status == 409
    if where == "decided":  # and not once more
        with place.server() as server:
            assert look(server, approval_id).json["status"] == "done" and place.runs() == 1


@pytest.mark.parametrize("where, runs", BEGUN)
def test_once_it_has_begun(place, where, runs):
    approval_id = die_at(place, where)
    with place.server() as server:
        lost = look(server, approval_id, "caller").json
        assert lost["status"] == "lost" and lost["outcome"] == "the server ended while it ran"
        assert decide(server, approval_id).status == 409
        assert call(server, "GET", f"/jobs/{approval_id}", key=KEYS["caller"]).status == 404
        assert audited(server, approval_id) == ["lost"]
    assert place.runs() in runs


def test_once_it_has_ended(place):
    approval_id = die_at(place, "done renamed")
    with place.server() as server:
        assert look(server, approval_id).json["status"] == "done" and place.runs() == 1


def test_after_a_rejection(place):
    approval_id = die_at(place, "rejected renamed", "reject")
    with place.server() as server:
        assert look(server, approval_id).json["status"] == "rejected"
        assert decide(server, approval_id).status == 409 and place.runs() == 0


@pytest.mark.parametrize("where", ["expired written", "expired renamed"])
def test_after_it_has_expired(place, where):
    file = place.path / "server.textproto"
    file.write_text("approval_expiry_ms: 500\n" + file.read_text())
    with place.server(IMMURE_DIE_AT=where) as server:
        attempt(submit, server, COUNT, session_id="s")
        assert server.ended() == -signal.SIGKILL
    approval_id, = (path.name for path in place.path.glob("approvals/*-*") if path.suffix == "")
    with place.server() as server:
        assert look(server, approval_id).json["status"] == "expired"
        assert decide(server, approval_id).status == 409 and place.runs() == 0


@pytest.mark.parametrize("where", ["lost written", "lost renamed"])
def test_while_it_is_given_up(place, where):
    approval_id = die_at(place, "started")
    dying = place.server(IMMURE_DIE_AT=where)
    dying.start()
    assert dying.ended() == -signal.SIGKILL
    with place.server() as server:
        assert look(server, approval_id).json["status"] == "lost"
    assert place.runs() <= 1


def test_a_first_use_outlives_the_server(place):
    with place.server() as server:
        approval_id = submit(server, policy="first").json["approval_id"]
        assert decide(server, approval_id).status == 200 and settled(server, approval_id)["status"] == "done"
    with place.server() as server:
        assert submit(server, policy="first").status == 200 and submit(server, policy="first", key="mate").status == 200
        assert submit(server, policy="first", key="other").status == 202


def front_pid(server):
    return int(re.findall(r"event=front_serving pid=(\d+)", server.log())[-1])


def test_the_front_dies_while_the_job_runs(place):
    with place.server() as server:
        approval_id = submit(server, COUNT + "\nwhile True: pass", session_id="s", timeout_ms=60000).json["approval_id"]
        assert decide(server, approval_id).status == 200
        wait_for(lambda: place.runs() == 1, "the job")
        os.kill(front_pid(server), signal.SIGKILL)
        wait_for(lambda: server.log().count("event=front_serving") == 2, "another front")
        told = settled(server, approval_id)
        assert told["status"] == "lost" and "ended while it ran" in told["outcome"] and place.runs() == 1
