"""Every attack of programs/, on every way that a job can start: it must fail, in the way that its table says."""

import collections
import contextlib
import os
import platform
import re
import shutil
import subprocess
import sys

import pytest

from attack import judge, load
from conftest import beside, unhurried, ways
from harness import ROOT, wait_for

# As the launcher has it for programs: `require` in what may await.
MODULE = "import { createRequire } from 'module'; const require = createRequire(process.cwd() + '/main.js');\n"

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the programs have x86_64's system call numbers")
# Emulated, Node takes longer to start than most attacks have.
NODE = shutil.which("node", path="/usr/bin") if "IMMURE_VM" not in os.environ else None
ATTACKS = [one for one in load() if one.runtime != "node" or NODE]


@pytest.mark.parametrize("one", ATTACKS, ids=str)
@pytest.mark.parametrize("arena", ways(), indirect=True)
def test_attack_fails(arena, one, count):
    wrong = arena.result(one)
    count(one, wrong)
    assert not wrong, f"{one}: {one.tries}\n" + "\n".join(wrong)


@pytest.mark.parametrize("arena", ways(), indirect=True)
def test_nothing_is_left(arena):
    """After all of them: the server is as it was, its front is the same process, and its log is lines of its own."""
    arena.forget_sessions()
    with contextlib.suppress(AssertionError):
        wait_for(unhurried(lambda: arena.state() == arena.before), "everything is as it was")
    assert arena.state() == arena.before
    assert arena.server.get("/readyz").status == 200
    lines = arena.server.log().splitlines()
    assert all(line.startswith("time=") and line.isprintable() for line in lines), [line for line in lines if not line.isprintable()]
    assert not [line for line in lines if "level=error" in line]


@pytest.mark.host_only
@pytest.mark.parametrize("one", [one for one in ATTACKS if one.outside], ids=str)
def test_without_a_jail_it_is_noticed(world, one, tmp_path):
    """That the tests above can fail: the same program as an ordinary process of this host."""
    replies = []

    def run(program, **env):
        environment = {**os.environ, "ATTACK_GIVEN": world.given(), "ATTACK_SECRET": world.secrets["environment"], **env}
        argv = [sys.executable, "-c", program.code] if program.runtime == "python" else [NODE, "--input-type=module", "-e", MODULE + program.code]
        done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True,
                              timeout=60, close_fds=False)
        replies.append({"status": "success" if done.returncode == 0 else "execution_error", "exit_code": done.returncode,
                        "stdout": done.stdout, "stderr": done.stderr})
        return judge(program, replies[-1], world.secrets)

    with open(world.held) as held:
        os.set_inheritable(held.fileno(), True)
        wrong = beside(one, run, world.secrets["neighbour"]) if one.victim else run(one)
    assert wrong + world.harm(), replies


@pytest.mark.parametrize("one", [one for one in ATTACKS if one.unfiltered], ids=str)
def test_without_a_filter_it_is_noticed_and_still_harmless(unfiltered, world, one):
    """The other layers hold, too: no canary is touched, no secret told, though the calls are not refused by name."""
    wrong = unfiltered.run(one)
    assert any("denied_syscalls" in what for what in wrong), wrong
    assert not [what for what in wrong if "the reply holds" in what]
    assert world.harm() == []


def test_the_table_counts_them():
    """tests/PROMISES.md names every class with its number of programs."""
    table = re.findall(r"`(\w+)\.(?:py|cjs)` \| (\d+) \|", (ROOT / "tests/PROMISES.md").read_text())
    assert {name: int(number) for name, number in table} == collections.Counter(one.kind for one in load())
