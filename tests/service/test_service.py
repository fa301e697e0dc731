"""The installed systemd unit, started by a real systemd: only ever run in the virtual machine, where `make install` has
been laid over /usr."""

import json
import os
import pwd
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from harness import PATIENCE, front_of, wait_for

URL = "http://127.0.0.1:9099"
KEY = "a-key-of-thirty-two-letters-or-so"
DELEGATED = Path("/sys/fs/cgroup/system.slice/immure.service")


def systemctl(*words):
    done = subprocess.run(["systemctl", "--no-pager", *words], capture_output=True, text=True, timeout=PATIENCE * 100)
    assert done.returncode == 0, done.stderr + journal()
    return done.stdout.strip()


def journal():
    return Path("/run/immure.log").read_text() if Path("/run/immure.log").exists() else ""


def call(path, body=None):
    request = urllib.request.Request(URL + path, body and json.dumps(body).encode(),
                                     {"X-Service-API-Key": KEY, "Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE * 60) as reply:
            return reply.read()
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{error.code}: {error.read().decode()}\n{journal()}") from error


def execute(code, **fields):
    return json.loads(call("/execute", {"code": code, **fields}))


@pytest.fixture(scope="module", autouse=True)
def service():
    subprocess.run(["systemd-sysusers", "/usr/lib/sysusers.d/immure.conf"], check=True)
    settings = Path("/etc/immure")
    settings.mkdir(exist_ok=True)
    (settings / "api-key").write_text(KEY)
    (settings / "api-key").chmod(0o600)
    (settings / "environment").write_text("SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS=2\nSANDBOX_WORKSPACE=/var/lib/immure\n")
    # The machine has no journal, and is slow.
    override = Path("/run/systemd/system/immure.service.d/machine.conf")
    override.parent.mkdir(parents=True)
    override.write_text(f"[Service]\nStandardOutput=file:/run/immure.log\nStandardError=inherit\nTimeoutStartSec={PATIENCE * 90}\nTimeoutStopSec={PATIENCE * 40}\n")
    # Type=notify: returns when the server has said that it is ready.
    systemctl("start", "immure")
    yield
    systemctl("stop", "immure")


def status_of(pid):
    return dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)


def test_it_is_ready_when_systemd_says_so():
    assert systemctl("is-active", "immure") == "active"
    assert json.loads(call("/healthz"))["status"] == "ready"
    call("/readyz")


def test_it_runs_as_an_ordinary_user_without_privileges():
    status = status_of(systemctl("show", "--value", "-p", "MainPID", "immure"))
    assert status["NoNewPrivs"] == "1"
    assert set(status["Uid"].split()) == {str(pwd.getpwnam("immure").pw_uid)}


def test_limits_are_the_kernels():
    verdict = execute("x = b'x' * (1 << 30)", limits={"memory_bytes": 64 << 20})
    assert (verdict["status"], verdict["limits"]["enforced_by"]) == ("oom", "cgroup2")
    assert execute("print(1)")["stdout"] == "1\n"


def test_the_server_survives_the_death_of_its_front():
    warden = systemctl("show", "--value", "-p", "MainPID", "immure")
    os.kill(front_of(warden), 9)

    def answers():
        try:
            return execute("print(1)")["stdout"] == "1\n"
        except OSError:
            return False

    wait_for(answers, "a new front answers")


def test_stop_leaves_nothing_but_sessions_and_start_works_again():
    assert execute("open('x', 'w').write('kept')", session_id="s")["status"] == "success"
    systemctl("stop", "immure")
    wait_for(lambda: not DELEGATED.exists(), "the end of its cgroup")
    assert systemctl("show", "--value", "-p", "Result", "immure") == "success"
    systemctl("start", "immure")
    assert execute("print(open('x').read())", session_id="s")["stdout"] == "kept\n"
