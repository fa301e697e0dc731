"""The machine's core_pattern starts a handler (tests/vm/run-lane), as systemd-coredump and apport do: never for a job."""

import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from harness import wait_for

CORES = Path("/run/cores")  # a line for each start of the handler: the name of the process

CRASH = """
import ctypes, os, resource, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(15, sys.argv[1].encode(), 0, 0, 0)
for hard in 0, resource.getrlimit(resource.RLIMIT_CORE)[1]:
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    except (OSError, ValueError) as error:
        print(type(error).__name__, flush=True)
os.abort()
"""


def crash_outside():
    """-> once the handler has been started for it, and so for all that crashed before"""
    name = "out-" + secrets.token_hex(4)
    assert subprocess.run([sys.executable, "-c", CRASH, name], capture_output=True).returncode == -6
    wait_for(lambda: name in CORES.read_text(), "the handler has run")


@pytest.mark.parametrize("child", [False, True])
def test_a_crash_starts_no_handler(server, child):
    crash_outside()
    name = "job-" + secrets.token_hex(4)
    code = f"import os\nif os.fork(): raise SystemExit(os.wait()[1] & 0x80)\n{CRASH}" if child else CRASH
    verdict = server.execute(code, args=[name])
    assert (verdict["signal"], verdict["exit_code"]) == ((None, 0) if child else ("SIGABRT", 134)), verdict
    assert verdict["stdout"] == "ValueError\n" * 2 and verdict["denied_syscalls"][0]["name"] == "prlimit64", verdict
    crash_outside()
    assert name not in CORES.read_text()
