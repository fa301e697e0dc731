"""What the shipped filter for Python costs CPython's own tests: nothing but what is written here. Each module runs under the policy
`python`, with a loopback, and under the same without a filter. All of them, and two builds against each other: library.py."""

import re
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from harness import BUILD, CGROUP, PATIENCE, shipped_policy  # noqa: E402
from library import TESTS, run_module  # noqa: E402

IMMURE = str(BUILD / "immure")
MODE = "required" if CGROUP == "REQUIRED" else "best-effort"
# Those that take no more than half a minute.
QUICK = ["tempfile", "threadedtempfile", "threadsignals", "thread", "threading", "threading_local", "select", "epoll", "fcntl", "mmap",
         "httpservers", "asyncio.test_streams", "asyncio.test_unix_events", "asyncio.test_subprocess", "asyncio.test_sock_lowlevel"]
# Tests that the filter makes fail, and by which call.
COSTS = {
    "fcntl": {"test_fcntl.TestFcntl.test_fcntl_64_bit": "fcntl"},  # F_NOTIFY
    # They make buffers small, to have them full.
    "asyncio.test_sock_lowlevel": {f"test_asyncio.test_sock_lowlevel.{loop}EventLoopTests.test_sock_client_racing": "setsockopt"
                                   for loop in ("EPoll", "Poll", "Select")},
    "asyncio.test_unix_events": {f"test_asyncio.test_unix_events.SelectorEventLoopUnixSockSendfileTests.test_sock_sendfile_{name}": "setsockopt"
                                 for name in ("blocking_error", "cancel1", "cancel2", "exception", "iobuffer", "not_a_file", "not_available",
                                              "not_regular_file", "os_error_first_call", "os_error_next_call")},
}

pytestmark = pytest.mark.skipif(not (TESTS / "test_tempfile.py").exists(), reason="needs libpython3.11-testsuite")


@pytest.fixture(scope="module")
def policies(tmp_path_factory):
    """-> the policy with its filter, and without one"""
    place = tmp_path_factory.mktemp("policies")
    text = shipped_policy("python").replace('name: "python"', 'name: "loopback"\nloopback: true')
    filtered, bare = place / "filtered.textproto", place / "bare.textproto"
    filtered.write_text(text)
    bare.write_text(re.sub(r"^seccomp \{.*?^\}\n", "seccomp { default_action: ALLOW }\n", text, flags=re.M | re.S))
    return str(filtered), str(bare)


@pytest.mark.parametrize("module", QUICK)
def test_the_filter_costs_no_test(policies, module):
    (filtered, denied), (bare, _) = (run_module(IMMURE, policy, module, timeout_ms=int(PATIENCE * 120000), options=("--cgroup", MODE))
                                     for policy in policies)
    costs = {f"test.{test}": call for test, call in COSTS.get(module, {}).items()}
    assert "passed" in bare.values()
    assert {test for test in {*filtered, *bare} if filtered.get(test) != bare.get(test)} == set(costs)
    assert set(costs.values()) <= set(denied)
