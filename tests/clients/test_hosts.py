"""Hosts of the Model Context Protocol that nobody here wrote, each against a live server over streamable HTTP."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness import IMMURE, PATIENCE, TOOLS, Server

HERE = Path(__file__).parent
PLACE = TOOLS / "hosts"
HOSTS = ["langchain", "openai_agents", "fastmcp", "pydantic_ai"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("server") / "log", immure=IMMURE) as started:
        yield started


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_lists_and_calls(server, tmp_path, host):
    assert PLACE.exists(), f"there is no {PLACE}: scripts/test --lane clients makes it"
    environment = {**os.environ, "PYTHONPATH": str(PLACE), "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, HERE / "hosts.py", host, f"{server.url}/mcp", server.key], cwd=tmp_path, env=environment,
                          capture_output=True, text=True, timeout=PATIENCE * 120)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {"tools": ["execute_code"], "text": "42\n"}
