"""Tests of what only a host with cgroup v2 controllers can show. scripts/vm makes one."""

import itertools
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import harness  # noqa: E402

PARENT = os.environ.get("IMMURE_TEST_CGROUP_PARENT", "")
REAL_IMMURE = os.environ.get("IMMURE_REAL", harness.IMMURE)


class Cgroup:
    """A cgroup of the test's own, in which servers are started."""

    numbers = itertools.count()

    def __init__(self):
        self.path = Path(PARENT, f"test-{os.getpid()}-{next(self.numbers)}")
        self.path.mkdir()

    @property
    def prefix(self):
        """Starts a command inside."""
        return ["/bin/sh", "-c", f'echo $$ >{self.path}/cgroup.procs && exec "$@"', "sh"]

    def below(self):
        """Every cgroup below this one, by path."""
        return sorted(str(path.relative_to(self.path)) for path in self.path.rglob("*") if path.is_dir())

    def processes(self):
        return [int(pid) for procs in self.path.rglob("cgroup.procs") for pid in procs.read_text().split()]

    def remove(self):
        for directory in sorted(self.path.rglob("*"), reverse=True):
            if directory.is_dir():
                directory.rmdir()
        self.path.rmdir()


@pytest.fixture
def cgroup():
    own = Cgroup()
    yield own
    own.remove()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    own = Cgroup()
    with harness.Server(tmp_path_factory.mktemp("server") / "log", own.prefix, immure=REAL_IMMURE) as running:
        running.cgroup = own
        yield running
    own.remove()
