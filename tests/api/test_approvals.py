"""Policies whose jobs need an approval: /approvals, what becomes of each decision, and where the limits are."""

import base64
import concurrent.futures
import hashlib
import http.client
import json
import time

import pytest
from approvals import KEYS, audited, configuration, decide, look, policies, result, settled, submit, submitted
from conftest import IMMURE
from harness import Server, call, config_key, runtimes, shipped_policy, wait_for


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """A server with the keys and policies of approvals.py."""
    directory = tmp_path_factory.mktemp("approvals")
    config = directory / "server.textproto"
    config.write_text(configuration(directory / "policies") + runtimes())
    with Server(directory / "log", immure=IMMURE, SANDBOX_EXECUTOR_CONFIG=str(config)) as started:
        yield started


def test_a_job_waits_runs_once_and_its_result_is_kept(asked):
    code = "import sys\nprint(sys.stdin.read(), sys.argv[1:], open('f.txt').read())\n"
    approval_id = submitted(asked, code, stdin="in", args=["a"], files=[{"name": "f.txt", "content": "text"}], execution_id="mine",
                            limits={"memory_bytes": 100 << 20}, timeout_ms=7000)
    assert call(asked, "GET", f"/jobs/{approval_id}", key=KEYS["caller"]).status == 404
    listed, = [row for row in call(asked, "GET", "/approvals", key=KEYS["approver"]).json["approvals"] if row["approval_id"] == approval_id]
    assert listed["key"] == "caller" and listed["team"] == "t" and listed["policy"] == "held" and listed["runtime"] == "python"
    assert listed["code"] == code and listed["sha256"] == hashlib.sha256(code.encode()).hexdigest() and not listed["code_truncated"]
    assert listed["status"] == "pending" and listed["created_at"] < listed["expires_at"] and listed["execution_id"] == "mine"
    one = look(asked, approval_id).json
    assert {key: one[key] for key in listed} == listed
    assert one["job"]["stdin"] == "in" and one["job"]["args"] == ["a"] and one["job"]["limits"]["memory_bytes"] == 100 << 20
    assert one["job"]["files"] == [{"name": "f.txt", "size": 4, "data": base64.b64encode(b"text").decode()}]
    approved = decide(asked, approval_id, reason="looks fine")
    assert approved.status == 200 and approved.json["status"] in ("approved", "running")
    assert approved.json["decided_by"] == "approver" and approved.json["reason"] == "looks fine"
    done = result(asked, approval_id)
    assert done["job_id"] == approval_id and done["status"] == "success" and done["execution_id"] == "mine"
    assert done["reply"]["stdout"] == "in ['a'] text\n" and done["reply"]["policy"] == "held"
    assert done["reply"]["limits"]["timeout_ms"] == 7000 and done["reply"]["limits"]["memory_bytes"] == 100 << 20
    told = settled(asked, approval_id, "caller")
    assert told["status"] == "done" and told["outcome"] == "success" and told["job"] is None
    assert decide(asked, approval_id).status == 409 and decide(asked, approval_id, "reject").status == 409
    assert call(asked, "GET", f"/jobs/{approval_id}", key=KEYS["other"]).status == 404
    assert audited(asked, approval_id) == ["pending", "approved", "running", "done"]


def test_a_decision_for_which_no_reason_is_given(asked):
    approval_id = submitted(asked)
    assert decide(asked, approval_id, reason=None).status == 200
    assert result(asked, approval_id)["status"] == "success"
    assert look(asked, approval_id).json["reason"] is None


def test_nobody_could_answer_its_calls(asked):
    reply = asked.request("POST", "/execute", json.dumps({"code": "1", "policy": "held", "calls": "stream"}),
                          headers={"X-Service-API-Key": KEYS["caller"], "Accept": "text/event-stream"})
    assert (reply.status, reply.json["field"]) == (400, "calls"), reply.body


def test_what_is_rejected_never_runs(asked):
    approval_id = submitted(asked)
    rejected = decide(asked, approval_id, "reject", reason="no")
    assert rejected.status == 200 and rejected.json["status"] == "rejected"
    refused = decide(asked, approval_id)
    assert refused.status == 409 and refused.json["code"] == "conflict" and refused.json["error"] == "the job is rejected"
    assert look(asked, approval_id, "caller").json["reason"] == "no"
    assert call(asked, "GET", f"/jobs/{approval_id}", key=KEYS["caller"]).status == 404
    assert audited(asked, approval_id) == ["pending", "rejected"]


def test_who_may(asked):
    approval_id = submitted(asked)
    for key in ("caller", "other", "mate"):
        assert call(asked, "GET", "/approvals", key=KEYS[key]).status == 403
        assert decide(asked, approval_id, key=key).status == 403
    assert look(asked, approval_id, "caller").status == 200
    assert look(asked, approval_id, "mate").status == look(asked, approval_id, "other").status == 404
    refused = decide(asked, approval_id, key="retired")  # whose team is not enabled
    assert refused.status == 403 and refused.json["error"] == "this approver's team is not enabled"
    assert call(asked, "GET", "/approvals", key=KEYS["retired"]).status == 403 and look(asked, approval_id, "retired").status == 404
    assert call(asked, "GET", "/approvals", key="wrong").status == 401
    basic = base64.b64encode(f"any:{KEYS['approver']}".encode()).decode()
    for value, status in ((f"Bearer {KEYS['approver']}", 200), (f"Basic {basic}", 200), ("Bearer wrong", 401)):
        connection = http.client.HTTPConnection("127.0.0.1", asked.port, timeout=60)
        connection.request("GET", "/approvals", headers={"Authorization": value})
        assert connection.getresponse().status == status
        connection.close()
    assert call(asked, "GET", "/approvals").status == 403  # the key of the environment is no approver either
    assert decide(asked, approval_id, "reject").status == 200


@pytest.mark.parametrize("path", ["nonsense", "00000000-0000-4000-8000-000000000000", "../../etc/passwd", "A" * 36])
def test_no_such_approval(asked, path):
    for method, body in (("GET", None), ("POST", {"decision": "approve"})):
        reply = call(asked, method, f"/approvals/{path}", body, KEYS["approver"])
        assert reply.status == 404, reply.body
    if path.startswith("0"):
        assert "lost" in reply.json["error"]


@pytest.mark.parametrize("body, field", [
    ({}, "decision"), ({"decision": None}, "decision"), ({"decision": "maybe"}, "decision"), ({"decision": True}, "decision"), ({"decision": "approve", "reason": 1}, "reason"),
    ({"decision": "approve", "reason": "x" * 513}, "reason"), ({"decision": "approve", "force": True}, "force"), ([], None)])
def test_decisions_that_are_none(asked, body, field):
    approval_id = submitted(asked)
    reply = call(asked, "POST", f"/approvals/{approval_id}", body, KEYS["approver"])
    assert reply.status == 400 and reply.json["field"] == field, reply.body
    assert look(asked, approval_id).json["status"] == "pending"
    assert decide(asked, approval_id, "reject").status == 200


@pytest.mark.parametrize("fields, status, field", [
    ({"limits": {"memory_bytes": 1 << 50}}, 400, "limits.memory_bytes"), ({"env": {"LD_PRELOAD": "x"}}, 400, "env"), ({"wait_ms": -1}, 400, "wait_ms"),
    ({"wait_ms": "1"}, 400, "wait_ms"), ({"stdin": "x" * 1100000}, 413, None), ({"policy": "unheard-of"}, 400, "policy"), ({"key": "off"}, 403, None)])
def test_what_is_refused_at_once(asked, fields, status, field):
    reply = submit(asked, **fields)
    assert reply.status == status, reply.body
    assert field is None or reply.json["field"] == field


def test_one_that_waits_for_the_decision(asked):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        def waiting(code, wait_ms=30000):
            before = {row["approval_id"] for row in call(asked, "GET", "/approvals", key=KEYS["approver"]).json["approvals"]}
            reply = pool.submit(submit, asked, code, wait_ms=wait_ms)
            def new():
                rows = call(asked, "GET", "/approvals", key=KEYS["approver"]).json["approvals"]
                return {row["approval_id"] for row in rows} - before
            return reply, wait_for(new, "the submission").pop()

        reply, approval_id = waiting("print('waited')")
        assert decide(asked, approval_id).status == 200
        done = reply.result(60)
        assert done.status == 200 and done.json["stdout"] == "waited\n"
        assert result(asked, approval_id)["reply"]["stdout"] == "waited\n"

        reply, approval_id = waiting("print('never')")
        assert decide(asked, approval_id, "reject", reason="too loud").status == 200
        refused = reply.result(60)
        assert refused.status == 403 and refused.json["code"] == "approval_rejected" and "too loud" in refused.json["error"]

        started = time.monotonic()
        late = submit(asked, wait_ms=300)
        assert late.status == 202 and time.monotonic() - started >= 0.3
        assert decide(asked, late.json["approval_id"], "reject").status == 200


def test_the_first_use_of_a_team_and_of_a_key(asked):
    assert submit(asked, policy="first", key="other").status == 202
    first = submitted(asked, policy="first")
    assert submit(asked, policy="first", key="mate").status == 202
    assert decide(asked, first).status == 200 and result(asked, first)["status"] == "success"
    for key in ("caller", "mate"):
        direct = submit(asked, policy="first", key=key)
        assert direct.status == 200 and direct.json["stdout"] == "42\n"
    assert submit(asked, policy="first", key="other").status == 202  # has no team, and has not been approved itself
    assert submit(asked, policy="held").status == 202
    streamed = asked.request("POST", "/execute", json.dumps({"code": "print(1)", "policy": "first"}),
                             headers={"X-Service-API-Key": KEYS["caller"], "Accept": "text/event-stream"})
    assert streamed.status == 200 and streamed.headers["Content-Type"] == "text/event-stream"
    for row in call(asked, "GET", "/approvals", key=KEYS["approver"]).json["approvals"]:
        decide(asked, row["approval_id"], "reject")


def test_asynchronous_and_streaming_callers_get_the_same_answer(asked):
    for path, headers in (("/execute?wait=false", {}), ("/execute", {"Accept": "text/event-stream"})):
        reply = asked.request("POST", path, json.dumps({"code": "print(1)", "policy": "held"}), headers={"X-Service-API-Key": KEYS["caller"], **headers})
        assert reply.status == 202 and reply.json["status"] == "approval_required"
        assert decide(asked, reply.json["approval_id"], "reject").status == 200


def test_metrics(asked):
    before = asked.metric("immure_approvals_pending")
    approval_id = submitted(asked)
    wait_for(lambda: asked.metric("immure_approvals_pending") == before + 1, "the gauge")
    text = asked.get("/metrics").body.decode()
    assert decide(asked, approval_id, "reject").status == 200
    wait_for(lambda: asked.metric("immure_approvals_pending") == before, "the gauge")
    rejected = float(text.split('immure_approvals_total{decision="rejected"} ')[1].split()[0])
    assert f'immure_approvals_total{{decision="rejected"}} {rejected + 1:g}\n' in asked.get("/metrics").body.decode()


def test_nobody_decides(serve, tmp_path):
    server = serve(configuration(tmp_path / "policies", "approval_expiry_ms: 700\n"))
    approval_id = submitted(server)
    waited = submit(server, wait_ms=30000)
    assert waited.status == 403 and waited.json["code"] == "approval_expired"
    assert settled(server, approval_id)["status"] == "expired"
    refused = decide(server, approval_id)
    assert refused.status == 409 and refused.json["error"] == "the job is expired"
    assert audited(server, approval_id) == ["pending", "expired"]


def test_limits(serve, tmp_path):
    server = serve(configuration(tmp_path / "policies", "max_approvals_per_key: 2 max_approvals: 3 max_approval_job_bytes: 4096\n"))
    first = submitted(server)
    submitted(server)
    third = submit(server)
    assert third.status == 429 and third.json["code"] == "rate_limited" and "Retry-After" in third.headers
    submitted(server, key="mate")
    full = submit(server, key="other")
    assert full.status == 503 and full.json["code"] == "busy"
    assert submit(server, "#" * 5000).status == 413
    assert decide(server, first, "reject").status == 200
    submitted(server)


def test_what_has_changed_since(serve, tmp_path):
    """The policy is another one, or the key is gone: what was submitted cannot be approved any more."""
    config = configuration(tmp_path / "policies")
    server = serve(config)
    changed, gone = submitted(server), submitted(server, key="other", policy="first")
    path = tmp_path / "policies" / "held.textproto"
    path.write_text(path.read_text() + "# another\n")
    file = tmp_path / "server-0.textproto"
    file.write_text(file.read_text().replace(config_key("other", KEYS["other"], policy=["*"]), ""))
    server.process.send_signal(1)
    server.reloaded()
    for approval_id, why in ((changed, "has changed since"), (gone, "is none any more")):
        refused = decide(server, approval_id)
        assert refused.status == 409 and why in refused.json["error"]
        assert look(server, approval_id).json["status"] == "pending"
    again = submitted(server)
    assert decide(server, again).status == 200 and result(server, again)["status"] == "success"


def test_a_caller_that_waits_while_the_server_is_reloaded(serve, tmp_path):
    """It has asked a front that will not run the job: it is told where to ask later, and not that the job was refused."""
    server = serve(configuration(tmp_path / "policies"))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        reply = pool.submit(submit, server, wait_ms=60000)
        wait_for(lambda: server.metric("immure_approvals_pending") == 1, "the submission")
        server.process.send_signal(1)
        server.reloaded()
        row, = call(server, "GET", "/approvals", key=KEYS["approver"]).json["approvals"]
        assert decide(server, row["approval_id"]).status == 200
        done = result(server, row["approval_id"])
        told = reply.result(60)
    assert told.status == 202 and told.json["approval_id"] == row["approval_id"], told.body
    assert told.headers["Location"] == f"/approvals/{row['approval_id']}" and done["reply"]["stdout"] == "42\n"


def test_jobs_wait_for_room_after_their_approval(serve, tmp_path):
    server = serve(configuration(tmp_path / "policies", "max_concurrent_jobs: 1\n"))
    endless = call(server, "POST", "/execute?wait=false", {"code": "while True: pass", "timeout_ms": 60000}, KEYS["other"])
    assert endless.status == 202
    approved = [submitted(server, f"print({n})") for n in range(3)]
    assert [decide(server, one).json["status"] for one in approved] == ["approved"] * 3
    assert call(server, "DELETE", endless.headers["Location"], key=KEYS["other"]).status == 204
    assert [result(server, one)["reply"]["stdout"] for one in approved] == ["0\n", "1\n", "2\n"]


def test_other_doors(serve, tmp_path):
    """The tool of MCP says which approval it waits for; POST /run-code, which cannot wait, says what it lacks."""
    directory = policies(tmp_path / "policies")
    for name in ("python", "isolate"):
        text = shipped_policy(name)
        (directory / f"{name}.textproto").write_text(f"approval: ALWAYS\n{text}")
    server = serve(configuration(directory))

    def tool():
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                   "params": {"name": "execute_code", "arguments": {"language": "python", "code": "print('tool')"}}}
        return call(server, "POST", "/mcp", message, KEYS["caller"]).json["result"]

    told = tool()
    approval_id, = [row["approval_id"] for row in call(server, "GET", "/approvals", key=KEYS["approver"]).json["approvals"]]
    assert told["isError"] and told["content"][0]["text"].startswith("Error: approval required: ") and approval_id in told["content"][0]["text"]
    assert told["structuredContent"]["status"] == "setup_error" and told["structuredContent"]["code"] == "approval_required"
    assert decide(server, approval_id).status == 200 and result(server, approval_id)["reply"]["stdout"] == "tool\n"
    refused = call(server, "POST", "/run-code", {"source": "export default 1"}, KEYS["caller"])
    assert refused.status == 403 and refused.json["code"] == "approval_required" and refused.json["field"] == "policy"
    assert not call(server, "GET", "/approvals", key=KEYS["approver"]).json["approvals"]


def test_an_open_server(serve, tmp_path):
    config = f'environment: "test" policy_path: "{policies(tmp_path / "policies")}"\n'
    server = serve(config, SANDBOX_EXECUTOR_SERVICE_API_KEY=None)
    approval_id = call(server, "POST", "/execute", {"code": "print(1)", "policy": "held"}).json["approval_id"]
    assert [row["approval_id"] for row in server.get("/approvals").json["approvals"]] == [approval_id]
    approved = call(server, "POST", f"/approvals/{approval_id}", {"decision": "approve"})
    assert approved.status == 200 and approved.json["decided_by"] == "open"
    wait_for(lambda: server.get(f"/jobs/{approval_id}").json["status"] == "success", "the job")


def test_approvals_do_not_outlive_a_server_without_a_directory(serve, tmp_path):
    config = configuration(tmp_path / "policies")
    server = serve(config)
    approval_id = submitted(server)
    assert server.stop() == 0
    again = serve(config)
    told = look(again, approval_id, "caller")
    assert told.status == 404 and "those from before the server's start are lost" in told.json["error"]
