"""Interpreters are found: by name, in a prefix or virtual environment of their own; what is named and is not there is told, and never
another version is started."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from harness import ROOT, Server, call

PYTHON = Path(os.path.realpath("/usr/bin/python3"))
LIBRARY = Path("/usr/lib") / PYTHON.name
VERSION = subprocess.run([PYTHON, "-c", "import platform; print(platform.python_version())"], capture_output=True, text=True,
                         check=True).stdout.strip()
NODE = shutil.which("node", path="/usr/bin:/usr/local/bin")
WHO = "import sys; print(sys.executable, sys.prefix, sys.version_info[:3]); print(callable(call_tool), callable(install_package))"


@pytest.fixture(scope="module")
def place():
    """-> a directory that is in no jail, and can be looked up by anybody"""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def relocated(place):
    """-> an interpreter with a prefix of its own"""
    (place / "prefix/bin").mkdir(parents=True)
    shutil.copy(PYTHON, place / "prefix/bin")
    (place / "prefix/bin/python3").symlink_to(PYTHON.name)
    left_out = shutil.ignore_patterns("test", "tests", "idlelib", "tkinter", "__pycache__", "config-*", "lib2to3", "dist-packages")
    shutil.copytree(LIBRARY, place / "prefix/lib" / LIBRARY.name, symlinks=True, ignore=left_out)
    return place / "prefix/bin/python3"


def listed(server):
    return {row["name"]: row for row in call(server, "GET", "/runtimes").json["runtimes"]}


def refusal(server):
    """-> what a server says that does not start"""
    server.start()
    assert server.ended() == 1, server.log()
    return server.log()


def test_what_is_shipped_is_found(server):
    python = listed(server)["python"]
    assert (python["interpreter"], python["version"]) == (str(PYTHON), VERSION)
    bash = listed(server)["bash"]
    assert bash["interpreter"] == "/usr/bin/bash" and bash["version"] in subprocess.run(["bash", "--version"], capture_output=True,
                                                                                        text=True).stdout
    tool = json.dumps(call(server, "POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).json)
    assert f"python3, py): version {VERSION}." in tool


def test_a_prefix_of_its_own(tmp_path, relocated):
    with Server(tmp_path / "log", SANDBOX_PYTHON_BIN=str(relocated)) as server:
        assert listed(server)["python"]["interpreter"] == str(relocated)
        verdict = server.execute(WHO + "\nimport ctypes, json, sqlite3, ssl")
        version = tuple(int(part) for part in VERSION.split("."))
        assert verdict["stdout"] == f"{relocated} {relocated.parent.parent} {version}\nTrue True\n", verdict
        assert server.execute("import sys; print(sys.prefix)", policy="strict")["stdout"] == f"{relocated.parent.parent}\n"
        seen = server.execute(f"import os; print(sorted(os.listdir('{relocated.parent}')))")["stdout"]
        assert seen == f"['python3', '{PYTHON.name}']\n"
        assert "event=runtime_cold" not in server.log()


def test_a_virtual_environment(tmp_path, place):
    environment = place / "environment"
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", environment], check=True)
    packages = next(environment.glob("lib/python3*/site-packages"))
    (packages / "thing.py").write_text("word = 'found'\n")
    python = environment / "bin/python"
    with Server(tmp_path / "log", SANDBOX_PYTHON_BIN=str(python)) as server:
        verdict = server.execute(WHO + "\nimport thing; print(thing.word)")
        assert verdict["stdout"].splitlines()[0].startswith(f"{python} {environment} "), verdict
        assert verdict["stdout"].splitlines()[1:] == ["True True", "found"], verdict


def test_a_script_in_the_place_of_an_interpreter(tmp_path, place, relocated):
    """What it starts is what jobs get; nothing of the script is in their jails."""
    script = place / "python-shim"
    script.write_text(f'#!/bin/sh\nexec {relocated} "$@"\n')
    script.chmod(0o755)
    with Server(tmp_path / "log", SANDBOX_PYTHON_BIN=str(script)) as server:
        assert listed(server)["python"]["interpreter"] == str(relocated) and listed(server)["python"]["version"] == VERSION
        verdict = server.execute(WHO)
        assert verdict["stdout"].startswith(f"{relocated} {relocated.parent.parent} "), verdict
        assert server.execute(f"import os; print(os.path.exists('{script}'))")["stdout"] == "False\n"


def test_a_script_that_starts_another_one(tmp_path, place, relocated):
    first, second = place / "python-first", place / "python-second"
    second.write_text(f'#!/bin/sh\nexec {relocated} "$@"\n')
    first.write_text('#!/bin/sh\necho version 3.11.0\necho executable ' + str(second) + '\necho end of answer\n')
    for script in first, second:
        script.chmod(0o755)
    said = refusal(Server(tmp_path / "log", SANDBOX_PYTHON_BIN=str(first)))
    assert f"{first} cannot be used: it is a script, and does not say which program it starts" in said


@pytest.mark.skipif(not NODE, reason="there is no Node here")
def test_node_by_a_script(tmp_path, place):
    script = place / "node-shim"
    script.write_text(f'#!/bin/sh\nexec {os.path.realpath(NODE)} "$@"\n')
    script.chmod(0o755)
    with Server(tmp_path / "log", SANDBOX_NODE_BIN=str(script)) as server:
        assert listed(server)["node"]["interpreter"] == os.path.realpath(NODE)
        assert server.execute("console.log(process.execPath)", runtime="node")["stdout"] == f"{os.path.realpath(NODE)}\n"


@pytest.mark.skipif(not NODE, reason="there is no Node here")
def test_node_in_a_prefix_of_its_own(tmp_path, place):
    (place / "node/bin").mkdir(parents=True)
    node = Path(shutil.copy(os.path.realpath(NODE), place / "node/bin/node"))
    with Server(tmp_path / "log", SANDBOX_NODE_BIN=str(node)) as server:
        assert {listed(server)[name]["interpreter"] for name in ("node", "isolate")} == {str(node)}
        assert server.execute("console.log(process.execPath)", runtime="node")["stdout"] == f"{node}\n"
        reply = call(server, "POST", "/run-code", {"source": "export default 6 * 7", "options": {"language": "javascript"}})
        assert reply.json["result"] == 42, reply.body


def test_what_is_named_and_is_not_there(tmp_path):
    for variable in ("SANDBOX_PYTHON_BIN", "SANDBOX_NODE_BIN"):
        said = refusal(Server(tmp_path / "log", **{variable: "/opt/none/bin/it"}))
        assert f"{variable}: runtime[" in said and "].interpreter: /opt/none/bin/it is not there; install it" in said
        assert said.count("\n") == 1
    said = refusal(Server(tmp_path / "log", SANDBOX_PYTHON_BIN="python2.9"))
    assert "there is no python2.9 in /usr/bin, /usr/local/bin, /bin or along PATH" in said


def test_what_lies_where_jobs_write(tmp_path):
    (tmp_path / "python3").symlink_to(PYTHON)
    if not tmp_path.is_relative_to("/tmp"):
        pytest.skip("temporary directories lie elsewhere here")
    said = refusal(Server(tmp_path / "log", SANDBOX_PYTHON_BIN=str(tmp_path / "python3")))
    assert "lies in /tmp, of which each job has its own" in said


@pytest.mark.parametrize("optional", [True, False])
def test_one_that_cannot_be_started(tmp_path, place, optional):
    broken = place / f"python3-{optional}"
    broken.write_text("#!/bin/sh\necho version 3.99.0\nexit 1\n")
    broken.chmod(0o755)
    config = tmp_path / "config.textproto"
    config.write_text(f'runtime {{ name: "odd" interpreter: "{broken}" policy: "python" optional: {str(optional).lower()} }}\n')
    server = Server(tmp_path / "log", SANDBOX_EXECUTOR_CONFIG=str(config))
    if not optional:
        assert f"runtime[0].interpreter: {broken} cannot be used: it does not say what it is" in refusal(server)
        return
    with server:
        assert "odd" not in listed(server) and server.execute("print(1)")["stdout"] == "1\n"
        assert f"event=runtime_absent runtime=odd interpreter={broken}" in server.log()


@pytest.mark.skipif(not NODE, reason="there is no Node here")
def test_the_self_test_sees_a_broken_evaluator(tmp_path):
    config = tmp_path / "config.textproto"
    shipped = (ROOT / "config/server.textproto").read_text()
    line = 'prelude { path: "/immure/isolate/immure-typescript.cjs" file: "isolate/immure-typescript.cjs" }'
    assert line in shipped
    config.write_text(shipped.replace(line, line.replace('file: "isolate/immure-typescript.cjs"', 'file: "node/immure-install.cjs"')))
    with Server(tmp_path / "log", SANDBOX_EXECUTOR_CONFIG=str(config)) as server:
        assert "self-test of runtime isolate:" in server.get("/readyz").body.decode() + server.log()
