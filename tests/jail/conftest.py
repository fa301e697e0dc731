"""`immure run` and `immure serve` as a person starts them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness import BUILD, CGROUP, PATIENCE, Server  # noqa: E402

MODE = "required" if CGROUP == "REQUIRED" else "best-effort"

# Where there are cgroups, the build directory of the lane has one that starts in a fresh cgroup each time.
IMMURE = str(BUILD / "immure")


class Run:
    """`immure run` under one policy."""

    def __init__(self, report):
        self.report = report

    def argv(self, *command, policy="python", options=()):
        return [IMMURE, "run", "--policy", policy, "--cgroup", MODE, "--report", str(self.report), *options, "--", *command]

    def __call__(self, *command, policy="python", options=(), **popen):
        popen = {"stdin": subprocess.DEVNULL, "timeout": PATIENCE * 60, "capture_output": True, **popen}
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
def run(tmp_path):
    return Run(tmp_path / "report.json")


@pytest.fixture
def server(tmp_path):
    """Not started yet: tests set what they need first."""
    server = Server(tmp_path / "log", immure=IMMURE)
    yield server
    if getattr(server, "process", None):
        server.stop(9)
