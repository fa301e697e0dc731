"""A server of an ordinary user who has ids of his own (subuid(5)): each jail is somebody else outside."""

import os
import re
import shutil
import subprocess

import pytest
from conftest import IMMURE
from harness import BUILD, ROOT, Server, descendants, wait_for

USER = "nobody"
WARM_INTERPRETER = "immure-python.so"
FIRST, COUNT = 3_000_000_000, 65536
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="says in a mount namespace of its own which ids a user has")


def made(directory, more="", count=COUNT, drop=()):
    """A server of that user, for whom other files lie on /etc/subuid and /etc/subgid."""
    config, ids = directory / "server.textproto", directory / "ids"
    config.write_text(more + (ROOT / "config/server.textproto").read_text())
    ids.write_text(f"somebody:{FIRST + COUNT}:65536\n{USER}:{FIRST}:{count}\n")
    for path in (config, ids):
        path.chmod(0o644)
    for parent in (directory, directory.parent, directory.parent.parent):
        parent.chmod(0o755)
    for program in ("immure-front", WARM_INTERPRETER):
        if (BUILD / program).exists():
            shutil.copy(BUILD / program, directory)
    bind = f'mount --bind {ids} /etc/subuid && mount --bind {ids} /etc/subgid && exec setpriv --reuid={USER} --regid=nogroup --clear-groups "$@"'
    return Server(directory / "log", prefix=["unshare", "--mount", "sh", "-c", bind, "sh", *drop, "--"],
                  immure=str(shutil.copy(IMMURE, directory)), SANDBOX_EXECUTOR_CONFIG=str(config))


def outside(pid):
    """-> a process's user; None: it is gone"""
    found = subprocess.run(["stat", "--format=%u", f"/proc/{pid}"], capture_output=True, text=True)
    return int(found.stdout) if found.returncode == 0 else None


def users(server):
    return {user for user in map(outside, descendants(server.process.pid)) if user is not None}


def test_each_jail_is_somebody_else(tmp_path):
    with made(tmp_path) as server:
        key = server.key
        if (BUILD / WARM_INTERPRETER).exists():
            wait_for(lambda: server.parked("python") == 4, "jails that stand ready", 120)
        held = [server.request("POST", "/execute?wait=false", '{"code": "while :; do :; done", "runtime": "bash"}').json["job_id"] for _ in range(2)]
        found = users(server)
        assert [server.request("DELETE", f"/jobs/{job}").status for job in held] == [204, 204]
        assert len(found) >= 3 and found <= set(range(FIRST, FIRST + 4097)), found  # the front, a template, jails
        assert outside(server.process.pid) not in found
        verdict = server.execute("import os\nopen('out', 'w').write('x')\nprint(open('in').read(), os.getuid())", session_id="s",
                                 files=[{"name": "in", "content": "so"}], outputs=["out"])
        assert verdict["stdout"] == "so 1000\n" and verdict["files"][0]["data"] == "eA==", verdict
        assert server.execute("print(open('out').read())", session_id="s")["stdout"] == "x\n"
        assert server.execute("while True: pass", timeout_ms=300)["status"] == "timeout"
        assert server.execute("print(1)", policy="strict")["stdout"] == "1\n"
        assert "event=one_uid_outside" not in server.log() and key not in server.log()


@pytest.mark.parametrize("how, why", [
    ({"count": 4096}, "/etc/subuid gives this user no 4097 ids"),
    ({"drop": ["--no-new-privs"]}, "no_new_privs is set"),
])
def test_why_not(tmp_path, how, why):
    """Then it is as without them."""
    with made(tmp_path, **how) as server:
        assert re.search(f'event=one_uid_outside why="{why}', server.log()), server.log()
        assert server.execute("print(1)")["stdout"] == "1\n" and users(server) == {outside(server.process.pid)}


def test_off(tmp_path):
    with made(tmp_path, "sub_uids: false\n") as server:
        assert "one_uid_outside" not in server.log()
        assert server.execute("print(1)")["stdout"] == "1\n" and users(server) == {outside(server.process.pid)}
