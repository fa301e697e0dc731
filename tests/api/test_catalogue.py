"""GET /runtimes and GET /policies: what a key may use, and nothing of what it may not."""

import hashlib
import signal
import subprocess

from harness import IMMURE, call, config_key, shipped_policy

WITHOUT_NODE = True
POLICY = shipped_policy("python")


def listed(server, what, key=None):
    reply = call(server, "GET", f"/{what}", key=key)
    assert reply.status == 200, reply.body
    return {row["name"]: row for row in reply.json[what]}


def test_an_ordinary_key(server):
    runtimes, policies = listed(server, "runtimes"), listed(server, "policies")
    python = runtimes["python"]
    assert python["aliases"] == ["python3", "py"] and python["language"] == "python" and python["default"] is True
    assert python["path"] == "/execute" and python["policy"] == "python" and python["states"] == ["workspace", "kernel"]
    assert python["version"].startswith("3.") and python["interpreter"].startswith("/usr/bin/python3.")
    assert runtimes["bash"]["states"] == ["workspace"] and not runtimes["bash"]["default"]
    assert "json" in python["preload"] and runtimes["bash"]["preload"] == []
    verdict = server.execute("print(1)")
    policy = policies["python"]
    assert policy["sha256"] == verdict["policy_sha256"] and policy["image"] is None and policy["images"] == []
    told = {name: value for name, value in policy["limits"].items() if name != "timeout_ms"}
    assert told.items() <= verdict["limits"].items() and policy["limits"]["timeout_ms"] == 60000
    assert (policy["approval"], policy["network"], policy["state"]) == ("never", "none", "workspace")
    assert policies["python-kernel"]["state"] == "kernel" and {"strict", "bash"} <= set(policies)
    for what in ("runtimes", "policies"):
        assert call(server, "GET", f"/{what}", key="wrong").status == 401


def test_a_key_sees_what_it_may_use(serve, tmp_path):
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "looped.textproto").write_text(POLICY.replace('name: "python"', 'name: "looped"\nloopback: true\napproval: ALWAYS\nimages: ["small"]', 1))
    (tmp_path / "policies" / "calls.textproto").write_text(POLICY.replace('name: "python"', 'name: "calls" egress { host: "api.example" port: 443 }', 1))
    server = serve(f'policy_path: "{tmp_path}/policies"\n' + config_key("plain", "plain-key", runtime="python")
                   + config_key("strict", "strict-key", policy=["strict", "looped", "calls"], runtime=["python"], max_timeout_ms=5000))
    assert set(listed(server, "runtimes", "plain-key")) == {"python"} and set(listed(server, "policies", "plain-key")) == {"python"}
    python = listed(server, "runtimes", "strict-key")["python"]
    assert python["states"] == ["workspace"]
    policies = listed(server, "policies", "strict-key")
    assert set(policies) == {"strict", "looped", "calls"} and policies["calls"]["network"] == "egress"
    assert {policy["limits"]["timeout_ms"] for policy in policies.values()} == {5000}
    looped = policies["looped"]
    assert (looped["approval"], looped["network"], looped["images"]) == ("always", "loopback", ["small"])
    assert {"python", "looped", "strict"} <= set(listed(server, "policies"))  # the environment's key may use everything


def test_an_open_server_shows_all(serve):
    server = serve(SANDBOX_EXECUTOR_SERVICE_API_KEY=None, SANDBOX_EXECUTOR_ENV="dev")
    assert {"python", "bash"} <= set(listed(server, "runtimes")) and {"python", "strict"} <= set(listed(server, "policies"))


def test_a_policy_made_of_others(serve, tmp_path):
    """A part beside it, which is none itself; after a reload what the part says now, and another sha256, of the whole."""
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "small.textproto").write_text('name: "small" part: true limits { pids: 20 }')
    own = policies / "own.textproto"
    own.write_text('name: "own" use: ["python", "small"] limits { pids: 21 } without { env: "USER" }')
    server = serve(f'policy_path: "{policies}"\n')
    told = listed(server, "policies")
    assert "small" not in told and told["own"]["limits"]["pids"] == 21
    verdict = server.execute("import os; print(os.environ.get('USER'), os.environ['LOGNAME'])", policy="own")
    assert verdict["stdout"] == "None immure\n" and verdict["policy_sha256"] == told["own"]["sha256"]
    flat = subprocess.run([IMMURE, "policy", "show", "--flat", str(own)], check=True, capture_output=True, timeout=60).stdout
    assert hashlib.sha256(flat).hexdigest() == told["own"]["sha256"]
    (policies / "small.textproto").write_text('name: "small" part: true umask: 077')
    server.process.send_signal(signal.SIGHUP)
    server.reloaded()
    assert server.execute("import os; print(oct(os.umask(0)))", policy="own")["stdout"] == "0o77\n"
    assert listed(server, "policies")["own"]["sha256"] != told["own"]["sha256"]
    done = subprocess.run([IMMURE, "policy", "lint", str(policies / "small.textproto")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "part: is for policies to use" in done.stderr
