"""`immure run` and `immure serve` as a person starts them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness import CGROUP, CGROUP_PARENT, IMMURE, Cgroup, Server  # noqa: E402

MODE = "required" if CGROUP == "REQUIRED" else "best-effort"


class Run:
    """`immure run` under one policy, in a cgroup of its own where the lane has such."""

    def __init__(self, report, prefix):
        self.report, self.prefix = report, prefix

    def argv(self, *command, policy="python", options=()):
        return [*self.prefix, IMMURE, "run", "--policy", policy, "--cgroup", MODE, "--report", str(self.report), *options,
                "--", *command]

    def __call__(self, *command, policy="python", options=(), **popen):
        popen = {"stdin": subprocess.DEVNULL, "timeout": 60, "capture_output": True, **popen}
        if "input" in popen:
            del popen["stdin"]
        return subprocess.run(self.argv(*command, policy=policy, options=options), **popen)

    def python(self, code, *arguments, **kwargs):
        return self("/usr/bin/python3", "-c", code, *arguments, **kwargs)

    def start(self, *command, policy="python", options=(), **popen):
        return subprocess.Popen(self.argv(*command, policy=policy, options=options), **popen)

    @property
    def verdict(self):
        return json.loads(Path(self.report).read_text())


@pytest.fixture
def prefix():
    """What a command is started through, so that it may make cgroups."""
    if CGROUP != "REQUIRED" or not CGROUP_PARENT:
        yield []
        return
    own = Cgroup()
    yield own.prefix
    own.remove()


@pytest.fixture
def run(tmp_path, prefix):
    return Run(tmp_path / "report.json", prefix)


@pytest.fixture
def server(tmp_path, prefix):
    """Not started yet: tests set what they need first."""
    server = Server(tmp_path / "log", prefix)
    yield server
    if getattr(server, "process", None) and server.process.poll() is None:
        server.stop(9)
