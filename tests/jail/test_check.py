"""`immure check`: every layer in a row, what to do about what is missing, and an exit code that says what works."""

import json
import os
import re
import shutil
import subprocess

import pytest

from harness import BUILD, CGROUP, ROOT
from harness import IMMURE as REAL

IMMURE = str(BUILD / "immure")

LAYERS = ["kernel", "identity", "supplementary groups", "no_new_privs", "seccomp around us", "AppArmor", "security modules",
          "root directory", "clone3", "pidfd", "seccomp notification", "user namespace", "mount namespace", "pid namespace", "net namespace",
          "ipc namespace", "uts namespace", "cgroup namespace", "mount API", "pivot_root", "procfs", "overlayfs", "Landlock", "cgroup v2",
          "open files", "jail",
          "python", "node", "isolate", "typescript", "bash", "front"]
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


def test_the_interpreters_are_those_that_a_server_starts(verdict, tmp_path):
    shipped = (ROOT / "config/server.textproto").read_text()
    row = {row["name"]: row for row in verdict["checks"]}
    for name, interpreter in re.findall(r'^runtime \{\n  name: "(\w+)"\n(?:  .*\n)*?  interpreter: "(.*)"$', shipped, re.M):
        assert row[name]["found"].startswith(f"/usr/bin/{interpreter}"), row[name]
    named = {"SANDBOX_PYTHON_BIN": "/usr/bin/python3", "SANDBOX_NODE_BIN": "/no/such/node",
             "SANDBOX_EXECUTOR_CONFIG": "/no/such/configuration"}  # which is another's
    row = {row["name"]: row for row in json.loads(check("--json", env={**os.environ, **named}).stdout)["checks"]}
    assert re.fullmatch(r"/usr/bin/python3 3\.\S+ starts in a jail; it needs .*/usr/lib/python3\.\d+", row["python"]["found"])
    assert row["node"]["status"] == "WARN" and "/no/such/node" in row["node"]["found"] and "SANDBOX_NODE_BIN" in row["node"]["remedy"]
    refused = check(env={**os.environ, "SANDBOX_PYTHON_BIN": "bin/python3"})
    assert refused.returncode == 2 and "SANDBOX_PYTHON_BIN" in refused.stderr


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


def test_a_server_without_its_front(tmp_path):
    """What `immure serve` needs besides itself."""
    alone = shutil.copy(REAL, tmp_path)
    done = subprocess.run([alone, "check", "--json"], capture_output=True, text=True, timeout=60)
    row = {row["name"]: row for row in json.loads(done.stdout)["checks"]}
    assert done.returncode == 2 and row["jail"]["status"] == "OK"
    assert row["front"]["status"] == "MISSING" and "../libexec/immure" in row["front"]["found"]
    served = subprocess.run([alone, "serve"], capture_output=True, text=True, timeout=60,
                            env={**os.environ, "SANDBOX_EXECUTOR_SERVICE_API_KEY": "k" * 32, "SANDBOX_EXECUTOR_CGROUP": CGROUP})
    assert served.returncode == 1
    assert served.stderr.splitlines()[-1] == "immure serve: immure-front is neither beside immure nor in ../libexec/immure"


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


@pytest.mark.parametrize("user", [[], ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"]])
def test_a_chroot(tmp_path, user):
    """Where it is a mount, only who has privileges can tell."""
    shell = 'mount --rbind / "$0" && exec chroot "$0" "$@"'
    argv = ["unshare", "--user", "--map-root-user", "--mount", "/bin/sh", "-c", shell, tmp_path, *user, IMMURE, "check", "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    row = {row["name"]: row for row in json.loads(done.stdout)["checks"]}
    for name in ("user namespace", "mount namespace", "mount API", "pivot_root", "procfs", "overlayfs", *([] if user else ["root directory"])):
        assert row[name]["status"] != "OK" and (user or row[name]["remedy"].startswith("start outside of the chroot")), row[name]


def test_too_few_open_files():
    done = subprocess.run(["prlimit", "--nofile=64:64", IMMURE, "check", "--json"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    row = {row["name"]: row for row in json.loads(done.stdout)["checks"]}
    assert (row["open files"]["status"], row["open files"]["found"]) == ("MISSING", "at most 64, and jobs may have 320")
    assert row["open files"]["remedy"].startswith("raise it (systemd: LimitNOFILE=, ")


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
