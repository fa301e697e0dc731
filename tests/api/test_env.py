"""`immure env`: an environment is made whole or not at all, runs in jobs, and is told by `immure check`."""

import json
import os
import subprocess
import tempfile
import zipfile
from pathlib import Path

import pytest

from harness import IMMURE, call

WITHOUT_NODE = True
PYTHON = "/usr/bin/python3"
NEVER = "no-such-package-of-anybody"
RUNTIME = """
runtime {{
  name: "data" interpreter: "python3" arg: "-s" extension: "py" policy: "python-data" python_environment: "{}" preload: ["thing"]
}}
"""


@pytest.fixture(scope="module")
def place():
    """-> a directory that anybody can look into, and that is in no jail"""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def requirements(place):
    """-> a file that names a package of ours, for which no index is asked"""
    wheel = place / "thing-1.5-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("thing.py", "word = 'found'\ndef say(): print(word)\n")
        archive.writestr("thing-1.5.dist-info/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1.5\n")
        archive.writestr("thing-1.5.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("thing-1.5.dist-info/entry_points.txt", "[console_scripts]\nthing = thing:say\n")
        archive.writestr("thing-1.5.dist-info/RECORD", "")
    path = place / "requirements.txt"
    path.write_text(f"{wheel}\n")
    return path


def env(*arguments, place):
    return subprocess.run([IMMURE, "env", *arguments, "--directory", place / "environments"], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PATH": "/usr/bin:/bin", "PIP_NO_INDEX": "1"})


def kept(place):
    return sorted(os.listdir(place / "environments"))


def test_what_is_wrong_leaves_nothing(place, requirements):
    (place / "bad.txt").write_text(f"{requirements.read_text()}{NEVER}\n")
    for arguments, said in [(("--pip", place / "bad.txt"), "pip failed; what it said stands above"),
                            (("--pip", place / "none.txt"), "none.txt: No such file or directory"),
                            (("--pip", requirements, "--python", "python2.9"), "there is no python2.9 in /usr/bin"),
                            (("--pip", requirements, "--python", "/usr/bin/true"), "the new interpreter cannot be started")]:
        done = env("create", "bad", *arguments, place=place)
        assert (done.returncode, done.stdout) == (1, "") and said in done.stderr, done.stderr
        assert not (place / "environments").exists() or kept(place) == []
    for arguments in ([], ["a"], ["a", "--debian"], ["a", "b", "--pip", "x"], ["a", "b", "--debian", "--pip", "x"]):
        assert env("create", *arguments, place=place).returncode == 2
    assert "must be 1 to 64 of a-z" in env("create", "../a", "--pip", requirements, place=place).stderr


def test_from_creation_to_removal(place, requirements, serve):
    done = env("create", "mine", "--pip", requirements, "--python", PYTHON, place=place)
    made = place / "environments/mine"
    assert (done.returncode, done.stdout) == (0, f'mine: say python_environment: "{made}" in a runtime\n'), done.stderr
    assert kept(place) == ["mine"]
    assert subprocess.run([made / "bin/thing"], capture_output=True, text=True).stdout == "found\n"
    assert env("create", "mine", "--pip", requirements, place=place).returncode == 1
    version = subprocess.run([PYTHON, "-c", "import platform; print(platform.python_version())"], capture_output=True, text=True).stdout
    assert env("list", place=place).stdout == f"mine\t{version.strip()}\t{made}\n"

    config = RUNTIME.format(made)
    server = serve(config)
    verdict = server.execute("import thing, sys; thing.say(); print(sys.prefix)", runtime="data")
    assert verdict["stdout"] == f"found\n{made}\n", verdict
    row = next(row for row in call(server, "GET", "/runtimes").json["runtimes"] if row["name"] == "data")
    assert row["packages"] == [{"name": "thing", "version": "1.5"}]
    tool = json.dumps(call(server, "POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).json)
    assert "Packages: thing 1.5." in tool
    server.stop()
    (place / "config.textproto").write_text(config)
    checked = subprocess.run([IMMURE, "check", "--json"], capture_output=True, text=True, timeout=120,
                             env={**os.environ, "SANDBOX_EXECUTOR_CONFIG": str(place / "config.textproto")})
    rows = {row["name"]: row for row in json.loads(checked.stdout)["checks"]}
    assert rows["data"]["status"] == "OK" and str(made) in rows["data"]["found"], rows["data"]

    assert env("remove", "mine", place=place).returncode == 0
    assert kept(place) == [] and env("list", place=place).stdout == ""
    done = env("remove", "mine", place=place)
    assert done.returncode == 1 and "mine is no environment" in done.stderr


def test_debians_packages_that_are_there(place, requirements):
    """Nothing is installed, so nobody need be root."""
    done = env("create", "debians", "--debian", "python3-yaml", place=place)
    assert done.returncode == 0, done.stderr
    said = subprocess.run([place / "environments/debians/bin/python", "-I", "-c", "import sys, yaml; print(sys.prefix, yaml.__file__)"],
                          capture_output=True, text=True, check=True).stdout.split()
    assert said[0] == str(place / "environments/debians") and said[1].startswith("/usr/lib/python3/dist-packages/")
    assert env("remove", "debians", place=place).returncode == 0


def test_a_module_that_jobs_cannot_import(place, serve):
    """On the host it can be: it reads a file that jails do not have."""
    made, beside = place / "half", place / "beside"
    beside.write_text("there")
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", made], check=True)
    (next(made.glob("lib/python3*/site-packages")) / "thing.py").write_text(f"open({str(beside)!r})\n")
    server = serve(RUNTIME.replace('name: "data"', 'name: "data" optional: true').format(made))
    assert "data" not in {runtime["name"] for runtime in call(server, "GET", "/runtimes").json["runtimes"]}
    why = server.get("/readyz").json["self_test"]
    assert why.startswith("self-test of runtime data: the program ended with exit code 1: Traceback") and "__import__('thing')" in why
    assert server.execute("print(1)")["stdout"] == "1\n"
