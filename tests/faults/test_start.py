"""Every system call of the start of a warden and of a front fails once: the server is ready a little later, and runs jobs as
it always does, or it says why not in one sentence, ends, and leaves nothing behind."""

import os
import re
import subprocess

import pytest

from harness import Server, children, wait_for
from injected import COLD, ERRORS, IMMURE, TOOLS, confessing_policy
from test_setup import EVERY_ONE, SEED

# Of all calls with all errors, every so-manieth is tried.
STRIDE = 1 if EVERY_ONE else 41
# What the dynamic loader says where a call of its own fails, and how it ends then.
LOADER = re.compile(r".*: error while loading shared libraries: .*|cannot (allocate|set up|create) .*(TLS|thread).*")
LOADER_EXIT = 127
# Its first calls, of which it can have no memory for a sentence.
LOADER_CALLS = 5
END_S = 60


class Start:
    """One server whose `who` has its n-th call fail; `outcome` in a word, `call` if there was one."""

    def __init__(self, directory, who, n, error):
        config = directory / "server.textproto"
        config.write_text(f'policy_path: "{confessing_policy(directory)}"\n{COLD}')
        self.server = Server(directory / "log", immure=IMMURE, SANDBOX_EXECUTOR_CONFIG=str(config))
        said, says = os.pipe()
        argv = ["/bin/bash", "-c", f'exec 3>&{says} && exec "$@"', "sh", TOOLS / "inject", "--arm", who, str(n), str(error)]
        with open(self.server.log_path, "wb") as log:
            self.server.process = subprocess.Popen([*argv, *self.server.argv], env=self.server.environment, stdin=subprocess.DEVNULL,
                                                   stdout=log, stderr=log, pass_fds=[says])
        os.close(says)
        self.replies, self.n = [], n
        ready = wait_for(lambda: self.has_ended() or self.is_ready(), "a server that is ready or has ended", END_S)
        if ready == "ready":
            # It may be one of these whose call fails, but not both.
            self.replies = [self.job(), self.job()]
            self.end()
        self.code = self.server.process.wait(END_S)  # of all that it has started, too
        with os.fdopen(said) as answer:
            self.call = answer.read().strip().partition(" ")[2]

    def has_ended(self):
        return "ended" if self.server.process.poll() is not None else None

    def is_ready(self):
        try:
            return "ready" if self.server.get("/readyz").status == 200 else None
        except OSError:
            return None

    def job(self):
        try:
            reply = self.server.request("POST", "/execute", '{"code": "x"}', END_S)
            return reply.json.get("stdout"), reply.json.get("limits")
        except OSError as error:
            return None, repr(error)

    def end(self):
        for pid in children(self.server.process.pid):
            os.kill(pid, 15)

    def sentences(self):
        """What was said to whoever has started it, but for the log."""
        return [line for line in self.server.log().splitlines() if not line.startswith("time=")]

    def outcome(self, usual):
        sentences = self.sentences()
        if self.replies:
            works = usual in self.replies
            return "ready" if works and self.code == 0 else f"exit code {self.code}, {self.replies}, {self.server.log()[-3000:]}"
        if self.n <= LOADER_CALLS and self.code and not sentences:
            return "the loader's end"
        if self.code == LOADER_EXIT and len(sentences) == 1 and LOADER.fullmatch(sentences[0]):
            return "the loader's sentence"
        # A front that dies may say why, and then the warden that it did.
        own = [line for line in sentences if line.startswith("immure serve: ")]
        if 0 < self.code < 126 and len(own) == 1 and sentences[-1] == own[0]:
            return "a sentence"
        return f"exit code {self.code}: {self.server.log()[-3000:]}"


@pytest.mark.parametrize("who", ["new:1", "exec:1"], ids=["warden", "front"])
def test_start(tmp_path, who, tried):
    first = Start(tmp_path, who, 1 << 30, 1)
    assert first.replies, first.server.log()
    usual = first.replies[-1]
    n, idle, calls = 2, 0, 0  # the first is the exec of the server itself
    while idle < 3:
        errors = [error for i, error in enumerate(ERRORS) if (n * len(ERRORS) + i + SEED) % STRIDE == 0]
        for error in errors:
            started = Start(tmp_path, who, n, error)
            idle = 0 if started.call else idle + 1
            outcome = started.outcome(usual)
            where = f"{who} {n} {started.call} {os.strerror(error)}"
            assert outcome in ("ready", "a sentence", "the loader's sentence", "the loader's end"), f"{where}: {outcome}"
            calls += bool(started.call)
            tried[f"start: {outcome}"] += bool(started.call)
        n += 1
    assert calls > 5
