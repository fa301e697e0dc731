"""`immure check`: every layer in a row, what to do about what is missing, and an exit code that says what works."""

import json
import subprocess

import pytest

from harness import BUILD, CGROUP

IMMURE = str(BUILD / "immure")

LAYERS = ["kernel", "identity", "supplementary groups", "no_new_privs", "seccomp around us", "AppArmor", "security modules",
          "clone3", "pidfd", "seccomp notification", "user namespace", "mount namespace", "pid namespace", "net namespace",
          "ipc namespace", "uts namespace", "cgroup namespace", "mount API", "pivot_root", "procfs", "overlayfs", "cgroup v2", "jail",
          "python", "node", "isolate", "typescript", "bash"]
EXIT_CODES = {"required": 0, "best_effort": 1, "none": 2}


def check(*options, **popen):
    return subprocess.run([IMMURE, "check", *options], capture_output=True, text=True, timeout=60, **popen)


@pytest.fixture
def verdict():
    done = check("--json")
    verdict = json.loads(done.stdout)
    assert done.returncode == EXIT_CODES[verdict["jail"]], done.stderr
    return verdict


def test_every_layer_has_a_row(verdict):
    assert [row["name"] for row in verdict["checks"]] == LAYERS


def test_what_is_missing_says_what_to_do(verdict):
    for row in verdict["checks"]:
        assert row["status"] in ("OK", "WARN", "MISSING")
        assert row["found"]
        if row["status"] == "OK":
            assert row["means"] is None and row["remedy"] is None
        else:
            assert row["means"] and row["remedy"], row


def test_the_outcome_is_what_this_lane_expects(verdict):
    assert verdict["jail"] == ("required" if CGROUP == "REQUIRED" else "best_effort")
    row = {row["name"]: row for row in verdict["checks"]}
    assert row["jail"]["status"] == "OK"
    assert row["cgroup v2"]["status"] == ("OK" if CGROUP == "REQUIRED" else "MISSING")


def test_text_says_the_same(verdict):
    done = check()
    assert done.returncode == EXIT_CODES[verdict["jail"]]
    for row in verdict["checks"]:
        assert any(line.startswith(row["status"]) and row["name"] in line for line in done.stdout.splitlines()), row


def test_a_host_that_forbids_user_namespaces():
    """max_user_namespaces belongs to the user namespace, so a test may set it in one of its own."""
    shell = ('echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"')
    argv = ["unshare", "--user", "--map-root-user", "/bin/sh", "-c", shell, "sh", IMMURE, "check", "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    verdict = json.loads(done.stdout)
    row = {row["name"]: row for row in verdict["checks"]}
    assert verdict["jail"] == "none"
    assert row["user namespace"]["status"] == "MISSING"
    assert "user.max_user_namespaces" in row["user namespace"]["remedy"]


def test_it_leaves_nothing():
    def mounts():
        with open("/proc/self/mountinfo") as file:
            return file.read()
    before = mounts()
    check()
    assert mounts() == before


def test_arguments_are_refused():
    done = check("everything")
    assert done.returncode == 2 and "takes no arguments" in done.stderr
