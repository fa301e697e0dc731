"""Tests of what only a host with cgroup v2 controllers can show. scripts/vm makes one."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness import Cgroup, Server  # noqa: E402


@pytest.fixture
def cgroup():
    own = Cgroup()
    yield own
    own.remove()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    own = Cgroup()
    with Server(tmp_path_factory.mktemp("server") / "log", own.prefix) as running:
        running.cgroup = own
        yield running
    own.remove()
