"""Tests of what only a host with cgroup v2 controllers can show. scripts/vm makes one."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness import Cgroup, Server, runtimes  # noqa: E402

BROKEN = """
name: "broken"
mount { destination: "/usr" bind { source: "/nowhere" } }
mount { destination: "/workspace" scratch { directory: WORK } }
seccomp { default_action: ALLOW }
"""


@pytest.fixture
def cgroup():
    own = Cgroup()
    yield own
    own.remove()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """With a second policy, `broken`, whose jails cannot be built."""
    own = Cgroup()
    directory = tmp_path_factory.mktemp("server")
    (directory / "broken.textproto").write_text(BROKEN)
    (directory / "server.textproto").write_text(f'policy_path: "{directory}/broken.textproto"\n' + runtimes())
    with Server(directory / "log", own.prefix, SANDBOX_EXECUTOR_CONFIG=f"{directory}/server.textproto") as running:
        running.cgroup = own
        yield running
    own.remove()
