"""Clients that know immure by its /openapi.json alone: one that is generated from it, and schemathesis, which makes up requests."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from harness import IMMURE, PATIENCE, TOOLS, Server, config_key, runtimes

HERE = Path(__file__).parent
PLACE = TOOLS / "clients"
# How many requests schemathesis makes, about.
REQUESTS = int(os.environ.get("IMMURE_TEST_REQUESTS", "200"))
CHECKS = ["not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance", "response_schema_conformance",
          "negative_data_rejection", "unsupported_method", "allow_header_conformance"]


def run(*argv, cwd, timeout=300):
    assert PLACE.exists(), f"there is no {PLACE}: scripts/test --lane clients makes it"
    environment = {**os.environ, "PYTHONPATH": str(PLACE), "PATH": f"{PLACE}/bin:{os.environ['PATH']}", "HOME": str(cwd)}
    return subprocess.run([sys.executable, *map(str, argv)], cwd=cwd, env=environment, capture_output=True, text=True, timeout=PATIENCE * timeout)


@pytest.fixture
def server(tmp_path_factory):
    directory = tmp_path_factory.mktemp("server")
    (directory / "server.textproto").write_text(config_key("approver", "approver", policy=["*"]).replace(" }", " approver: true }") + runtimes())
    with Server(directory / "log", immure=IMMURE, SANDBOX_EXECUTOR_CONFIG=str(directory / "server.textproto")) as started:
        yield started


def test_a_generated_client(server, tmp_path):
    (tmp_path / "openapi.json").write_bytes(server.get("/openapi.json").body)
    made = run("-m", "openapi_python_client", "generate", "--path", "openapi.json", "--meta", "none", "--output-path", "immure_client",
               "--fail-on-warning", cwd=tmp_path)
    assert made.returncode == 0, made.stdout + made.stderr
    compiled = run("-m", "compileall", "-q", "immure_client", cwd=tmp_path)
    assert compiled.returncode == 0, compiled.stdout
    shutil.copy(HERE / "calls.py", tmp_path)
    called = run("calls.py", server.url, "approver", cwd=tmp_path)
    assert called.returncode == 0 and int(called.stdout) >= 10, called.stdout + called.stderr


def test_requests_that_are_made_up(server, tmp_path):
    """None of them is answered by a status, a type or a shape that the document does not have, and none by a server's error."""
    operations = sum(method in ("get", "post", "delete", "put") for path in server.get("/openapi.json").json["paths"].values() for method in path)
    assert REQUESTS >= operations, "IMMURE_TEST_REQUESTS: at least one for each operation"
    shutil.copy(HERE / "schemathesis.toml", tmp_path)
    # With what one finds the search for the smallest such request begins: that is not for a lane.
    done = run("-m", "schemathesis.cli", "run", f"{server.url}/openapi.json", "--header", "X-Service-API-Key: approver", "--phases", "fuzzing",
               "--max-examples", REQUESTS // operations, "--seed", "1", "--no-shrink", "--no-color", "--warnings", "off", "--request-timeout", "100",
               "--continue-on-failure", "--checks", ",".join(CHECKS), cwd=tmp_path, timeout=600 + REQUESTS)
    generated = re.search(r"(\d+) generated", done.stdout)
    assert done.returncode == 0 and generated and operations <= int(generated[1]) <= REQUESTS, done.stdout + done.stderr
    assert re.search(r"Selected: (\d+)/\1\n *Tested: \1\n", done.stdout), done.stdout  # all but its own document, which it has read
    assert "level=error" not in server.log(), server.log()
