"""Every system call that the directory of approvals is made with fails once, on a job's way from its submission over the decision
to its end, and when a server starts: what was told to the caller and to the approver holds, nothing is lost in silence, no job
runs twice or without its approval, and nothing but whole files is left behind. Of the warden's other calls on that way, some."""

import contextlib
import http.client
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from approvals import KEYS, configuration, decide, result, submitted
from harness import ROOT, call, children, shipped_policy, wait_for
from injected import ERRORS, Injected, descriptors

from test_setup import EVERY_ONE, SEED
from test_start import LOADER_EXIT

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the lane runs as root")
OWNER = 12345  # of what sessions hold
ENDS = ("done", "lost", "rejected", "expired")
BASH = re.findall(r"^runtime \{.*?^\}\n", (ROOT / "config/server.textproto").read_text(), re.M | re.S)[-1]
# Those that reading the directory is made of, when there is one.
AT_THE_START = ["renameat", "fsync", "unlinkat", "getdents64"] + ["openat", "read", "fcntl", "faccessat2"] * EVERY_ONE
WHOLE = re.compile(r"[0-9a-f-]{36}(\.job)?|\.lock")

# The decision, the call, and of its calls every so-manieth.
SWEEPS = [("approve", "renameat", 1), ("approve", "fsync", 2), ("approve", "openat", 3), ("approve", "write", 5), ("approve", "unlinkat", 1),
          ("approve", "", 97), ("reject", "renameat", 1), ("reject", "fsync", 2)]


KEPT = 2  # results, of which the warden holds each by a descriptor


class Place(Injected):
    """Jobs of bash under the policy `held`, each of which adds a line to a file of its session on the host."""

    def __init__(self, directory):
        self.sessions, self.approvals = directory / "sessions", directory / "approvals"
        more = (f'approval_directory: "{self.approvals}" session_directory: "{self.sessions}" session_free_bytes: 0 '
                'default_runtime: "bash" front_timeout_ms: 0 shipped_runtimes: false '
                f'max_kept_jobs: {KEPT}\n')
        text = configuration(directory / "policies", more)
        held = shipped_policy("bash").replace('name: "bash"', 'name: "held" approval: ALWAYS', 1)
        (directory / "policies/held.textproto").write_text(held)
        if not self.sessions.exists():
            self.sessions.mkdir(mode=0o700)
            os.chown(self.sessions, OWNER, OWNER)
        super().__init__(directory, text + BASH, helpers=1)

    def ask(self, method, path, body=None, key="approver"):
        """-> the reply; None: none came"""
        try:
            return call(self, method, path, body, KEYS[key])
        except (OSError, http.client.HTTPException):  # or a part of one
            return None

    def submit(self, mark):
        return self.ask("POST", "/execute", {"code": f"echo {mark} >>runs", "policy": "held", "session_id": "s"}, "caller")

    def waiting(self):
        """-> the approvals that wait"""
        reply = wait_for(lambda: (found := self.ask("GET", "/approvals")) and found.status == 200 and found, "the list")
        return [row["approval_id"] for row in reply.json["approvals"]]

    def runs(self, mark):
        count = 0
        for directory, _, names in os.walk(self.sessions):  # of which some may go meanwhile: a session that could not be made
            with contextlib.suppress(FileNotFoundError):
                count += "runs" in names and Path(directory, "runs").read_text().split().count(mark)
        return count

    def settled(self, approval_id):
        def end():
            reply = self.ask("GET", f"/approvals/{approval_id}")
            return reply and reply.status == 200 and reply.json["status"] in ENDS and reply.json
        return wait_for(end, f"the end of {approval_id}", 60)

    def runs_as_ever(self, mark):
        approval_id = submitted(self, f"echo {mark} >>runs", session_id=mark)
        assert decide(self, approval_id).status == 200
        reply = result(self, approval_id)
        assert reply["status"] == "success" and self.settled(approval_id)["outcome"] == "success" and self.runs(mark) == 1, reply

    def only_whole_files(self):
        assert not [path.name for path in self.approvals.iterdir() if not WHOLE.fullmatch(path.name)]


def is_told(reply, where):
    """An error reply says what could not be done."""
    assert reply.status in (500, 503) and reply.json["error"] and reply.json["code"] in ("internal_error", "setup_error", "busy"), (
        f"{where}: {reply.status} {reply.body}")


def submit(place, mark, where):
    """-> the approval (None: none waits), and what came of submitting it"""
    reply = place.submit(mark)
    waiting = place.waiting()
    if reply is not None and reply.status == 202:
        assert waiting == [reply.json["approval_id"]], f"{where}: {waiting}"
        return waiting[0], "submitted"
    if reply is not None:
        is_told(reply, where)
        assert not waiting, f"{where}: refused, and waits: {reply.body}"
    return (waiting[0] if waiting else None), "refused" if reply is not None else "no reply"


def be_decided(place, approval_id, decision, where):
    """Decides until it is decided. -> how many failed"""
    done = {"approve": "approved", "reject": "rejected"}[decision]
    for failed in range(3):
        reply = place.ask("POST", f"/approvals/{approval_id}", {"decision": decision})
        if reply is not None and reply.status in (200, 409):  # 409: it was decided by the one before
            assert failed or reply.status == 200, f"{where}: {reply.body}"
            return failed
        if reply is not None:
            is_told(reply, where)
            told = f"the job is {done}" in reply.json["error"]
            assert place.waiting() == [approval_id] * (not told), f"{where}: refused, and decided: {reply.body}"
    raise AssertionError(f"{where}: it cannot be decided")


def one(place, decision, name, n, tried):
    """A job on whose way the n-th call (of that name, or ""), fails. -> whether there was such a call"""
    error, mark = ERRORS[(n + SEED) % len(ERRORS)], f"{decision}-{name}-{n}"
    where = f"{mark} {os.strerror(error)}"
    assert place.tell(f"arm {place.part('warden')} {name + ':' * bool(name)}{n} {error}") == "ok"
    approval_id, outcome = submit(place, mark, where)
    ran = 0
    if approval_id:
        failed = be_decided(place, approval_id, decision, where)
        told = place.settled(approval_id)
        ran, outcome = place.runs(mark), told["status"] + ", decided again" * bool(failed)
        assert told["status"] in (("rejected",) if decision == "reject" else ("done", "lost")), f"{where}: {told}"
        # What is lost may have run, or may not.
        assert ran == 1 if told.get("outcome") == "success" else ran <= (decision == "approve"), f"{where}: ran {ran} times: {told}"
        assert decision == "reject" or told["outcome"], f"{where}: {told}"
    answer = place.tell("disarm")
    assert place.runs(mark) == ran, f"{where}: it ran once more"
    place.only_whole_files()
    tried[f"approval: {outcome}"] += answer.startswith("fired")
    return answer != "idle"


@pytest.mark.parametrize("decision, name, stride", SWEEPS, ids=[f"{decision}-{name or 'others'}" for decision, name, _ in SWEEPS])
def test_between_submission_and_end(tmp_path, tried, decision, name, stride):
    with Place(tmp_path) as place:
        place.runs_as_ever("s")
        before = descriptors(place.warden).total()
        stride = 1 if EVERY_ONE else stride
        n = 1 + SEED % stride
        while one(place, decision, name, n, tried):
            n += stride
        assert n > 1
        # What looks after sessions may have come after that.
        wait_for(lambda: descriptors(place.warden).total() <= before + KEPT + 3, f"no more descriptors than there were: {before}", 60)
        place.runs_as_ever("last")


def left_behind(directory):
    """What a server that was killed leaves: -> a job that waits, and one that runs"""
    with Place(directory) as place:
        runs = submitted(place, "echo begun >>runs; while :; do :; done", session_id="s", timeout_ms=60000)
        assert decide(place, runs).status == 200
        wait_for(lambda: place.runs("begun") == 1, "a job that runs")
        waits = submitted(place, "echo waited >>runs", session_id="s")
        place.stop(signal.SIGKILL)
    (place.approvals / ".new").write_text("half")
    return waits, runs


class Beginning(Place):
    """One of its warden's calls fails when it starts."""

    def __init__(self, directory, name, n):
        super().__init__(directory)
        self.said = directory / "said"
        error = ERRORS[(n + SEED) % len(ERRORS)]
        self.where = f"start: {name} {n} {os.strerror(error)}"
        self.argv[:1] = ["/bin/bash", "-c", 'exec 3>"$0" && exec "$@"', str(self.said), self.argv[0], "--arm", "new:1", f"{name}:{n}", str(error)]

    def begin(self):
        """-> whether it serves; else it has ended, and has said why"""
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(self.argv, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(lambda: self.process.poll() is not None or self.is_ready(), "a server that is ready or has ended", 60)
        if self.process.poll() is None:
            self.warden = children(self.process.pid)[0]
            return True
        own = [line for line in self.log().splitlines() if line.startswith("immure serve: ")]
        said = 0 < self.process.returncode < 126 and len(own) == 1
        assert said or self.process.returncode == LOADER_EXIT, f"{self.where}: {self.process.returncode}\n{self.log()}"
        return False

    def is_ready(self):
        reply = self.ask("GET", "/readyz")
        return reply is not None and reply.status == 200

    def has_fired(self):
        return self.said.read_text().startswith("fired")


def as_it_was_left(place, waits, runs, where):
    """What waited waits, and runs once when it is approved; what ran is lost."""
    assert place.settled(runs)["status"] == "lost", where
    assert place.waiting() == [waits] and place.runs("waited") == 0, where
    assert decide(place, waits).status == 200 and place.settled(waits)["outcome"] == "success", where
    assert place.runs("waited") == 1 and place.runs("begun") <= 1, where
    place.only_whole_files()


@pytest.mark.parametrize("name", AT_THE_START)
def test_start(tmp_path, tried, name):
    waits, runs = left_behind(tmp_path)
    approvals, kept, n = tmp_path / "approvals", tmp_path / "kept", 1
    shutil.copytree(approvals, kept)
    while True:
        place = Beginning(tmp_path, name, n)
        try:
            serves = place.begin()
            # One that cannot be read stays where it is, for the next one.
            if serves and "event=approval_broken" not in place.log():
                assert place.settled(runs)["status"] == "lost" and place.waiting() == [waits], place.where
        except BaseException:
            place.process.kill()  # and with it what it traces
            raise
        if serves:
            place.stop()
        with Place(tmp_path) as after:
            as_it_was_left(after, waits, runs, place.where)
        tried[f"approvals' start: {'ready' if serves else 'a sentence'}"] += place.has_fired()
        if not place.has_fired():
            break
        shutil.rmtree(approvals)
        shutil.copytree(kept, approvals)
        for path in tmp_path.glob("sessions/*/work/runs"):
            path.write_text("begun\n")
        n += 1
    assert n > 1
