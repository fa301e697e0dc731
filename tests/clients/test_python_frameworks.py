"""What the client for Python gives to agent frameworks that nobody here wrote: their own tools, used as they use them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness import IMMURE, PATIENCE, ROOT, TOOLS, Server

HERE = Path(__file__).parent
PLACE = TOOLS / "hosts"


@pytest.fixture(scope="module")
def use(tmp_path_factory):
    """use(NAME) -> what python_frameworks.py found"""
    place = tmp_path_factory.mktemp("frameworks")
    with Server(place / "log", immure=IMMURE) as server:
        def run(name):
            assert PLACE.exists(), f"there is no {PLACE}: scripts/test --lane clients makes it"
            environment = {**os.environ, "PYTHONPATH": f"{PLACE}:{ROOT / 'server/clients/python'}", "HOME": str(place)}
            done = subprocess.run([sys.executable, HERE / "python_frameworks.py", name, server.url, server.key], cwd=place, env=environment,
                                  capture_output=True, text=True, timeout=PATIENCE * 180)
            assert done.returncode == 0, done.stderr[-3000:]
            return json.loads(done.stdout.splitlines()[-1])
        yield run


def test_agent_framework(use):
    found = use("agent_framework")
    assert found == {"texts": ["42\n", "no\n", "(No output)", "Error: Execution timed out after 1s"], "is": True, "modes": ["never_require", "always_require"],
                     "parameters": ["code"]}


def test_langchain(use):
    assert use("langchain") == {"name": "execute_code", "texts": ["36\n", "2\n"], "parameters": ["code", "language"]}


def test_smolagents(use):
    found = use("smolagents")
    assert found["answer"] == {"sum": 42} and "20" in found["observations"] and "ZeroDivisionError" in found["error"]
