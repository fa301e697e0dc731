"""Every attack of programs/, on every way that a job can start: it must fail, in the way that its table says."""

import json
import os
import platform
import subprocess
import sys

import pytest

from attack import judge, load
from conftest import ways

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the programs have x86_64's system call numbers")
ATTACKS = load()


@pytest.mark.parametrize("one", ATTACKS, ids=str)
@pytest.mark.parametrize("arena", ways(), indirect=True)
def test_attack_fails(arena, one, count):
    wrong = arena.result(one)
    count(one, wrong)
    assert not wrong, f"{one}: {one.tries}\n" + "\n".join(wrong)


@pytest.mark.parametrize("one", [one for one in ATTACKS if one.outside], ids=str)
def test_without_a_jail_it_is_noticed(world, one, tmp_path):
    """That the tests above can fail: the same program as an ordinary process of this host."""
    environment = {**os.environ, "ATTACK_GIVEN": world.given(), "ATTACK_SECRET": world.secrets["environment"]}
    with open(world.held) as held:
        os.set_inheritable(held.fileno(), True)
        done = subprocess.run([sys.executable, "-c", one.code], cwd=tmp_path, env=environment, capture_output=True, text=True,
                              timeout=60, close_fds=False)
    verdict = {"status": "success" if done.returncode == 0 else "execution_error", "exit_code": done.returncode,
               "stdout": done.stdout, "stderr": done.stderr}
    assert judge(one, verdict, world.secrets) + world.harm(), json.dumps(verdict, indent=1)
