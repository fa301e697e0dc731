"""Bytes and milliseconds with a unit, in the configuration, in policies and in environment variables."""

import json
import re
import subprocess

import pytest
from conftest import IMMURE
from harness import shipped_policy

WITHOUT_NODE = True


def policies(tmp_path, limits):
    directory = tmp_path / "policies"
    directory.mkdir()
    text = shipped_policy("strict").replace('name: "strict"', 'name: "mine"')
    rest, dropped = re.subn(r"^  (memory_bytes|timeout_ms): .*\n", "", text, flags=re.M)
    assert dropped == 2
    (directory / "mine.textproto").write_text(rest.replace("limits {", "limits { " + limits, 1))
    return directory


def test_a_server_with_units(serve, tmp_path):
    directory = policies(tmp_path, 'memory_bytes: "200MiB" timeout_ms: 20s')
    server = serve(f'policy_path: "{directory}" max_timeout_ms: 1m max_body_bytes: "64KiB" max_output_bytes: 8KiB',
                   SANDBOX_EXECUTOR_DEFAULT_TIMEOUT_MS="5s", SANDBOX_MAX_OUTPUT="4KiB", SANDBOX_SESSION_TTL="2h")
    limits = server.execute("print(1)")["limits"]
    assert limits["timeout_ms"] == 5000 and limits["output_bytes"] == 4096
    limits = server.execute("print(1)", policy="mine", timeout=1000)["limits"]
    assert limits["timeout_ms"] == 20000 and limits["memory_bytes"] == 200 << 20
    reply = server.request("POST", "/execute", json.dumps({"code": "#" * (64 << 10)}))
    assert reply.status == 413 and reply.json["error"] == "the body may have at most 65536 bytes"


@pytest.mark.parametrize("config, says", [
    ('max_timeout_ms: 1MiB', "1:17: max_timeout_ms: 1MiB is a size; this is a number of milliseconds, alone or with ms, s, m or h"),
    ('max_body_bytes: "30s"', '1:17: max_body_bytes: "30s" is a time; this is a number of bytes, alone or with B, KiB, MiB, GiB or TiB'),
    ("max_body_bytes: 32MB", "1:17: max_body_bytes: 32MB is not a whole number of bytes, alone or with B, KiB, MiB, GiB or TiB"),
    ("max_concurrent_jobs: 4s", "1:22: max_concurrent_jobs: expected a whole number without a sign, got '4s'"),
    ("session_ttl_ms: 9000h", "1:17: session_ttl_ms: must be 1 to 31622400000, not 32400000000"),
])
def test_a_unit_that_will_not_do(tmp_path, config, says):
    path = tmp_path / "server.textproto"
    path.write_text(config)
    done = subprocess.run([IMMURE, "serve", "--config", path, "--check-config"], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and f"{path}:{says}" in done.stdout + done.stderr, done


def test_policies_with_units_are_explained_with_units(tmp_path):
    path = policies(tmp_path, "memory_bytes: 1GiB") / "mine.textproto"
    done = subprocess.run([IMMURE, "policy", "explain", path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "memory                 1GiB" in done.stdout, done
    assert subprocess.run([IMMURE, "policy", "lint", path], capture_output=True, timeout=60).returncode == 0
