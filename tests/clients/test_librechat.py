"""LibreChat's own tools (npm: @librechat/agents) against a live server whose door for them is open."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from harness import BUILD, IMMURE, PATIENCE, Server

HERE = Path(__file__).parent / "librechat"


@pytest.fixture(scope="module")
def packages():
    directory = Path(f"{BUILD}-librechat")
    directory.mkdir(exist_ok=True)
    for name in ("package.json", "package-lock.json", "exec.mjs"):
        shutil.copy(HERE / name, directory)
    done = subprocess.run(["npm", "ci", "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries=5"],
                          cwd=directory, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    place = tmp_path_factory.mktemp("server")
    (place / "config").write_text('door: "librechat" queue_ms: 30s\n')
    with Server(place / "log", immure=IMMURE, SANDBOX_EXECUTOR_CONFIG=str(place / "config")) as started:
        yield started


@pytest.fixture(scope="module")
def found(server, packages, tmp_path_factory):
    environment = {**os.environ, "HOME": str(tmp_path_factory.mktemp("home")), "LIBRECHAT_CODE_BASEURL": server.url}
    done = subprocess.run(["node", packages / "exec.mjs", server.key], cwd=packages, env=environment, capture_output=True, text=True, timeout=PATIENCE * 120)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_the_tool_runs_programs(found):
    assert found["first"] == "stdout:\nHello, World!"
    assert found["languages"]["js"] == "stdout:\n42 [ 'a' ]" and found["languages"]["bash"].startswith("stdout:\na b\n")
    assert found["bash"] == "stdout:\nfrom bash"


def test_what_is_refused_reaches_the_model(found):
    assert "returned 400" in found["refused"] and "lang: the language 'f90' is not there" in found["refused"]
    assert "returned 401" in found["unauthorized"]


def test_files_go_from_turn_to_turn(found):
    one, two = found["turns"]
    assert one["content"].startswith("stdout:\n42\n") and two["content"] == "stdout:\n45"
    assert found["file"]["name"] == "total.txt" and found["downloaded"] == "42"
    assert {row["name"]: row["id"] for row in found["listed"]} == {"total.txt": found["file"]["id"], "numbers.csv": found["attached"]["id"]}
