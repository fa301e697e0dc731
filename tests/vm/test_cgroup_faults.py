"""The system calls with which `immure run` makes a cgroup, fills it in, looks at it and takes it down fail, one at a time: the
command runs with every limit, or it does not run and a sentence says why; whatever is left, the next run takes away."""

import errno
import os
import subprocess
from collections import Counter

import pytest

from harness import BUILD

INJECT = str(BUILD / "tests/tools/inject")
IMMURE = os.environ["IMMURE_REAL"]
ERRORS = (errno.EPERM, errno.ENOMEM, errno.EMFILE, errno.EINTR)
EVERY_ONE = os.environ.get("IMMURE_TEST_FAULTS") == "all"
SEED = int(os.environ.get("IMMURE_TEST_SEED", "1"))
END_S = 240
LOADER_EXIT = 127
# With "no verdict" the command has run, and what its cgroup has counted cannot be read.
OUTCOMES = ("works", "sentence", "no verdict", "the loader's sentence")

LIMIT_FILES = ("memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cpu.max")
LIMITS = ["--pids", "7", "--memory", str(32 << 20)]

# Every so-manieth call of each name is tried, each with one of the errors: few make cgroups alone.
STRIDES = {"mkdirat": 2, "clone3": 1, "unlinkat": 1, "flock": 3, "write": 4, "openat": 9, "read": 9}
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the same system calls as root's")


class Run:
    """`immure run` of a command that answers, and waits; `call` is the name of what failed, "" if nothing did."""

    def __init__(self, cgroup, call="getpid:1000", error=errno.EPERM):
        said, says = os.pipe()
        # A shell whose command has left its cgroups behind has been taken into one of them.
        taken = [path for path in cgroup.below() if path.endswith("/self")]
        enter = f'exec 3>&{says} && echo $$ >{cgroup.path}/{taken[0] if taken else "."}/cgroup.procs && exec "$@"'
        argv = ["/bin/bash", "-c", enter, "bash", INJECT, "--arm", "new:1", call, str(error),
                IMMURE, "run", "--policy", "bash", "--cgroup", "required", *LIMITS, "--", "/bin/cat"]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[says])
        os.close(says)
        try:
            process.stdin.write(b"works\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass
        self.answer = process.stdout.readline()
        self.limits = limits_below(cgroup) if self.answer else None
        self.stderr = process.communicate(timeout=END_S)[1].decode()
        self.code = process.returncode
        with os.fdopen(said) as fate:
            self.call = fate.read().strip().partition(" ")[2]

    def outcome(self, usual, error):
        lines = self.stderr.splitlines()
        says = len(lines) == 1 and os.strerror(error) in lines[0] and lines[0].startswith("immure run: ")
        if self.answer:
            assert self.limits == usual, (self.limits, self.stderr)
            if self.code == 0 and not lines:
                return "works"
            return "no verdict" if self.code == 125 and says else f"{self.code}: {self.stderr}"
        if self.code == LOADER_EXIT and len(lines) == 1 and "error while loading shared libraries" in lines[0]:
            return "the loader's sentence"
        return "sentence" if self.code == 125 and says else f"{self.code}: {self.stderr}"


def limits_below(cgroup):
    jobs = [path for path in cgroup.path.rglob("job-*") if path.is_dir()]
    assert len(jobs) == 1, jobs
    events = (jobs[0] / "cgroup.events").read_text().splitlines()
    return {name: (jobs[0] / name).read_text() for name in LIMIT_FILES} | {"populated": events[0]}


@pytest.mark.parametrize("name", STRIDES)
def test_a_call_that_fails(cgroup, name):
    usual = Run(cgroup).limits
    assert usual["memory.max"] == f"{32 << 20}\n" and usual["pids.max"] == "8\n" and usual["populated"] == "populated 1"
    stride = 1 if EVERY_ONE else STRIDES[name]
    outcomes, n = Counter(), 1 + SEED % stride
    while (run := Run(cgroup, f"{name}:{n}", error := ERRORS[(n + SEED) % len(ERRORS)])).call:
        outcome = run.outcome(usual, error)
        assert outcome in OUTCOMES, f"{name}:{n} {os.strerror(error)}: {outcome}"
        outcomes[outcome] += 1
        if cgroup.below():
            assert outcome == "works", (name, n, cgroup.below())
            again = Run(cgroup)
            assert again.limits == usual and cgroup.below() == [], (name, n, again.stderr, cgroup.below())
        n += stride
    print(f"faults of {name}: {dict(outcomes)}")
    assert outcomes and cgroup.below() == []
