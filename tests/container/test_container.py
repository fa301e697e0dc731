"""immure inside a hardened container: crun, no capabilities, no_new_privs, read-only root, an ordinary user."""

import json
import os

import pytest

from bundle import Bundle
from harness import IMMURE, Server
from images import imported, make_root, policy

RUN = [IMMURE, "run", "--policy", "python", "--cgroup", "best-effort", "--"]


@pytest.fixture
def bundle(tmp_path):
    return Bundle(tmp_path)


@pytest.fixture
def server(bundle, tmp_path, monkeypatch):
    """A server in the container, called from outside it."""
    server = Server(tmp_path / "log", cgroup="BEST_EFFORT")
    for name, value in server.environment.items():
        if name.startswith("SANDBOX_"):
            monkeypatch.setenv(name, value)
    server.argv = bundle.command(server.argv, environment=[name for name in os.environ if name.startswith("SANDBOX_")])
    with server:
        yield server


def test_the_container_is_as_poor_as_it_should_be(bundle):
    done = bundle.run("/bin/sh", "-c", "id -u; grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status; touch /x")
    assert done.stdout.split() == ["1000", "CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1", "Seccomp:", "2"]
    assert "Read-only file system" in done.stderr


def test_run_passes_output_and_exit_code_through(bundle):
    done = bundle.run(*RUN, "/usr/bin/python3", "-c", "import os; print(os.getuid()); os._exit(3)")
    assert (done.stdout, done.returncode) == ("1000\n", 3), done.stderr


def test_run_is_a_jail_here_too(bundle):
    code = "import os, socket; print(os.listdir('/etc'), socket.socket().connect_ex(('127.0.0.1', 9)) == 101, os.getpid() < 10)"
    done = bundle.run(*RUN, "/usr/bin/python3", "-c", code)
    files, unreachable, alone = done.stdout.rsplit(" ", 2)
    assert "shadow" not in files and (unreachable, alone) == ("True", "True\n"), done.stderr


def test_server_answers_a_job(server):
    verdict = server.execute("import sys\nprint(sys.version_info[0])")
    assert (verdict["status"], verdict["stdout"], verdict["exit_code"]) == ("success", "3\n", 0)
    assert verdict["limits"]["enforced_by"] == "rlimit"


def test_server_tells_verdicts_apart(server):
    assert server.execute("while True: pass", timeout_ms=300)["status"] == "timeout"
    oom = server.execute("x = bytearray(1 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1", limits={"memory_bytes": 64 << 20})
    assert (oom["oom"], oom["killed"]) == (True, False), oom
    assert server.execute("import os\nos.abort()")["signal"] == "SIGABRT"


def test_health_says_that_limits_are_not_cgroups(server):
    assert "rlimit" in json.dumps(server.get("/healthz").json)


def test_jobs_in_images_that_are_mounted(bundle, tmp_path):
    """Imported outside, by another user, and mounted read-only."""
    imported(tmp_path / "images", "small", make_root(tmp_path / "root", "/usr/bin/bash", "/usr/bin/cat"))
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies/small.textproto").write_text(policy("small", "bash", 'image: "small"'))
    for name in "images", "policies":
        (tmp_path / "rootfs/srv" / name).mkdir(parents=True)
        bundle.config["mounts"].append({"destination": f"/srv/{name}", "type": "bind", "source": str(tmp_path / name), "options": ["rbind", "ro"]})
    (tmp_path / "policies/server.textproto").write_text('image_directory: "/srv/images" policy_path: "/srv/policies/small.textproto"')
    server = Server(tmp_path / "log", cgroup="BEST_EFFORT", SANDBOX_EXECUTOR_CONFIG="/srv/policies/server.textproto")
    settings = {name: value for name, value in server.environment.items() if name.startswith("SANDBOX_")}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        server.argv = bundle.command(server.argv, environment=settings)
        with server:
            verdict = server.execute("cat /etc/image; echo x > /etc/image", runtime="bash", policy="small")
    assert (verdict["stdout"], verdict["image"]) == ("of the image\n", "small") and "Read-only file system" in verdict["stderr"], verdict
