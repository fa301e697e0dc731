"""POST /mcp: the Model Context Protocol, by hand. What its official client makes of it is in tests/mcp."""

import http.client
import json
import re
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness import config_key, wait_for

LATEST = "2025-11-25"


def post(server, message, **headers):
    body = message if isinstance(message, (str, bytes)) else json.dumps(message)
    return server.request("POST", "/mcp", body, headers={name.replace("_", "-"): value for name, value in headers.items()})


def ask(server, method, params=None, id=1, **headers):
    """-> the message that answers"""
    reply = post(server, {"jsonrpc": "2.0", "id": id, "method": method, **({} if params is None else {"params": params})}, **headers)
    assert reply.status == 200 and reply.headers["Content-Type"] == "application/json", reply.body
    answer = reply.json
    assert answer["jsonrpc"] == "2.0" and answer["id"] == id and ("result" in answer) != ("error" in answer)
    return answer


def run(server, id=1, meta=None, headers=None, **arguments):
    """-> the result of tools/call"""
    arguments = {"language": "python", **arguments}
    params = {"name": "execute_code", "arguments": arguments, **({"_meta": meta} if meta else {})}
    return ask(server, "tools/call", params, id=id, **(headers or {}))["result"]


def text(result):
    item, = result["content"]
    assert item["type"] == "text"
    return item["text"]


def begin(server):
    """-> a session"""
    reply = post(server, {"jsonrpc": "2.0", "id": 0, "method": "initialize",
                          "params": {"protocolVersion": LATEST, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}})
    assert reply.status == 200
    return reply.headers["Mcp-Session-Id"]


def events(reply):
    """-> the messages of a stream, comments left out"""
    assert reply.headers["Content-Type"] == "text/event-stream"
    found = []
    for block in reply.body.decode().split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            assert lines[0] == "event: message" and lines[1].startswith("data: ") and len(lines) == 2, block
            found.append(json.loads(lines[1][6:]))
    return found


@pytest.mark.parametrize("asked, answered", [
    (LATEST, LATEST), ("2025-06-18", "2025-06-18"), ("2025-03-26", "2025-03-26"), ("2024-11-05", "2024-11-05"),
    ("2024-10-07", "2024-10-07"), ("1999-01-01", LATEST), ("", LATEST)])
def test_versions_are_negotiated(server, asked, answered):
    result = ask(server, "initialize", {"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})["result"]
    assert result["protocolVersion"] == answered
    assert result["capabilities"] == {"tools": {"listChanged": False}} and result["serverInfo"]["name"] == "immure"


def test_the_tool_says_what_it_takes(server):
    tool, = ask(server, "tools/list")["result"]["tools"]
    schema = tool["inputSchema"]
    assert tool["name"] == "execute_code" and schema["required"] == ["language", "code"]
    assert set(schema["properties"]) == {"language", "code", "stdin", "timeout", "session_id"}
    assert "python" in schema["properties"]["language"]["enum"] and schema["additionalProperties"] is False
    assert ask(server, "ping")["result"] == {}


def test_a_job_and_its_result(server):
    result = run(server, code="import sys; print(sys.stdin.read().upper()); print('oops', file=sys.stderr)", stdin="hello")
    assert text(result) == "HELLO\noops\n" and result["isError"] is False
    told = result["structuredContent"]
    assert told["status"] == "success" and told["exit_code"] == 0 and told["stdout"] == "HELLO\n" and told["stderr"] == "oops\n"
    assert told["policy"] == "python" and told["limits"]["timeout_ms"] == 30000
    assert text(run(server, code="pass")) == "(No output)"
    assert text(run(server, code="import sys; sys.stdout.write('a'); sys.stderr.write('b')")) == "a\nb"


def test_what_goes_wrong_is_told_in_band(server):
    failed = run(server, code="print('before'); raise SystemExit(3)")
    assert failed["isError"] and failed["structuredContent"]["exit_code"] == 3
    assert failed["structuredContent"]["status"] == "execution_error" and text(failed) == "before\n"
    for timeout in (1, 20):  # on a busy machine it may need longer than a second to begin
        late = run(server, code="print('x', flush=True)\nwhile True: pass", timeout=timeout)
        assert late["isError"] and text(late) == f"Error: Execution timed out after {timeout}s"
        if late["structuredContent"]["stdout"]:
            break
    assert late["structuredContent"]["status"] == "timeout" and late["structuredContent"]["stdout"] == "x\n"
    killed = run(server, code="import os; os.abort()")
    assert killed["structuredContent"]["status"] == "execution_error" and killed["structuredContent"]["signal"] == "SIGABRT"


def test_long_output_is_cut_by_characters(server):
    result = run(server, code="print('ü' * 10000, end='')")
    assert text(result) == "ü" * 10000
    result = run(server, code="print('ü' * 10001, end='')")
    assert text(result) == "ü" * 10000 + "\n... [output truncated]"
    assert result["structuredContent"]["stdout"] == "ü" * 10001


@pytest.mark.parametrize("arguments, says", [
    ({"code": ""}, "code is required"), ({"language": "cobol", "code": "x"}, "unsupported runtime: cobol"),
    ({"language": None, "code": "x"}, "language"), ({"language": 7, "code": "x"}, "language"), ({"code": 7}, "code"), ({}, "code is required"),
    ({"code": "1", "timeout": 0}, "timeout"), ({"code": "1", "timeout": 301}, "timeout"), ({"code": "1", "timeout": 1.5}, "timeout"),
    ({"code": "1", "timeout": "2"}, "timeout"), ({"code": "1", "session_id": "a\tb"}, "session_id"), ({"code": "1", "stdin": 1}, "stdin"),
    ({"code": "1", "policy": "strict"}, "unknown argument"), ({"code": "1", "callback_url": "http://x"}, "unknown argument"),
])
def test_arguments_that_will_not_do(server, arguments, says):
    result = run(server, **arguments)
    assert result["isError"] and text(result).startswith("Error: ") and says in text(result)
    assert result["structuredContent"]["status"] == "setup_error" and result["structuredContent"]["exit_code"] == -1


def test_arguments_that_are_none(server):
    for params in ({"name": "execute_code", "arguments": []}, {"name": "execute_code"}, {"name": "execute_code", "arguments": {"code": "1"}}):
        result = ask(server, "tools/call", params)["result"]
        assert result["structuredContent"]["status"] == "setup_error"


def test_sessions_of_the_workspace(server):
    assert run(server, code="open('kept', 'w').write('here')", session_id="mcp/kept:1")["structuredContent"]["session"] == "new"
    assert run(server, code="1", session_id="mcp/kept:1")["structuredContent"]["session"] == "kept"
    assert text(run(server, code="print(open('kept').read())", session_id="mcp/kept:1")) == "here\n"
    assert "FileNotFoundError" in text(run(server, code="print(open('kept').read())"))


@pytest.mark.parametrize("body, status, code", [
    ("", 400, -32700), ("{", 400, -32700), ("nonsense", 400, -32700), (b"\xff", 400, -32700), ('{"a":1,"a":2}', 400, -32700),
    ("1", 400, -32600), ("[]", 400, -32600), ('[{"jsonrpc":"2.0","id":1,"method":"ping"}]', 400, -32600), ("{}", 400, -32600),
    ('{"jsonrpc":"1.0","id":1,"method":"ping"}', 400, -32600), ('{"id":1,"method":"ping"}', 400, -32600),
    ('{"jsonrpc":"2.0","id":null,"method":"ping"}', 400, -32600), ('{"jsonrpc":"2.0","id":1.5,"method":"ping"}', 400, -32600),
    ('{"jsonrpc":"2.0","id":{},"method":"ping"}', 400, -32600), ('{"jsonrpc":"2.0","id":1,"method":7}', 400, -32600),
    ('{"jsonrpc":"2.0","id":"%s","method":"ping"}' % ("x" * 600), 400, -32600), ('{"jsonrpc":"2.0","id":1}', 400, -32600),
    ('{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', 400, -32600), ('{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}', 400, -32600),
    ('{"jsonrpc":"2.0","id":1,"method":"resources/list"}', 200, -32601), ('{"jsonrpc":"2.0","id":1,"method":""}', 200, -32601),
    ('{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}', 200, -32602),
    ('{"jsonrpc":"2.0","id":1,"method":"initialize"}', 200, -32602), ('{"jsonrpc":"2.0","id":1,"method":"tools/call"}', 200, -32602),
    ('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}}', 200, -32602),
    ('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_code","_meta":{"progressToken":[]}}}', 200, -32602),
])
def test_messages_that_are_none(server, body, status, code):
    reply = post(server, body)
    assert reply.status == status and reply.json["jsonrpc"] == "2.0" and reply.json["error"]["code"] == code, reply.body
    assert reply.json["error"]["message"] and "result" not in reply.json
    assert reply.json["id"] == (1 if re.match(r'\{.*"id":1[,}]', str(body)) else None)


@pytest.mark.parametrize("id", [0, -1, 7, 2**53 + 1, "", "a\"\\\n€", "7"])
def test_ids_come_back_as_they_are(server, id):
    assert ask(server, "ping", id=id)["id"] == id


def test_what_needs_no_answer(server):
    for message in ({"jsonrpc": "2.0", "method": "notifications/initialized"}, {"jsonrpc": "2.0", "method": "notifications/whatever", "params": {}},
                    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}},
                    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}},
                    {"jsonrpc": "2.0", "id": 5, "result": {}}, {"jsonrpc": "2.0", "id": 5, "error": {"code": 1, "message": "x"}}):
        reply = post(server, message)
        assert (reply.status, reply.body) == (202, b""), message


def test_http(server):
    reply = server.get("/mcp")
    assert reply.status == 405 and reply.headers["Allow"] == "POST, DELETE"
    assert post(server, '{"jsonrpc":"2.0","id":1,"method":"ping"}', Content_Type="text/plain").status == 415
    assert post(server, '{"jsonrpc":"2.0","id":1,"method":"ping"}', MCP_Protocol_Version="1999-01-01").status == 400
    assert post(server, '{"jsonrpc":"2.0","id":1,"method":"ping"}', MCP_Protocol_Version="2025-06-18").status == 200
    assert post(server, '{"jsonrpc":"2.0","id":1,"method":"ping"}', X_Service_API_Key="wrong").status == 401
    assert post(server, '{"jsonrpc":"2.0","id":1,"method":"ping"}', Origin="https://evil.example").status == 403
    assert post(server, '{"jsonrpc":"2.0","id":1,"method":"ping"}', Origin="http://localhost.evil.example").status == 403
    assert post(server, '{"jsonrpc":"2.0","id":1,"method":"ping"}', Origin="http://localhost:3000").status == 200
    assert post(server, '{"jsonrpc":"2.0","id":1,"method":"ping"}', Accept="text/plain").status == 200


def test_protocol_sessions(serve):
    server = serve(config_key("other", "other-key"))
    session = begin(server)
    assert re.fullmatch(r"[0-9a-f]{64}", session) and begin(server) != session
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert post(server, ping, Mcp_Session_Id=session).status == 200
    for wrong in ("x", session[:-1] + ("0" if session[-1] != "0" else "1"), session.upper() + "G", "0" * 64):
        reply = post(server, ping, Mcp_Session_Id=wrong)
        assert reply.status == 404 and reply.json["error"]["message"] == "Session not found"
    assert post(server, ping, Mcp_Session_Id=session, X_Service_API_Key="other-key").status == 404  # another's
    server.process.send_signal(signal.SIGHUP)  # another front: the session goes on
    server.reloaded()
    assert post(server, ping, Mcp_Session_Id=session).status == 200
    assert server.request("DELETE", "/mcp").status == 400
    ended = server.request("DELETE", "/mcp", headers={"Mcp-Session-Id": session})
    assert ended.status == 204
    assert post(server, ping, Mcp_Session_Id=session).status == 404
    assert server.request("DELETE", "/mcp", headers={"Mcp-Session-Id": session}).status == 404


@pytest.mark.parametrize("token", ["t-1", 7])
def test_progress(serve, token):
    server = serve("stream_heartbeat_ms: 100")
    message = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {
        "name": "execute_code", "arguments": {"language": "python", "code": "import time; time.sleep(1); print('done')"},
        "_meta": {"progressToken": token}}}
    *progress, answer = events(post(server, message, Accept="application/json, text/event-stream"))
    assert answer["id"] == 3 and text(answer["result"]) == "done\n"
    assert len(progress) >= 3 and all(event["method"] == "notifications/progress" for event in progress)
    values = [event["params"]["progress"] for event in progress]
    assert values == sorted(set(values)) and {event["params"]["progressToken"] for event in progress} == {token}
    assert all(event["params"]["total"] == 30 for event in progress)
    # Without a way to tell it, there is none; and without a token, where the client wants a stream, comments alone.
    assert text(post(server, message, Accept="application/json").json["result"]) == "done\n"
    del message["params"]["_meta"]
    answer, = events(post(server, message, Accept="text/event-stream"))
    assert text(answer["result"]) == "done\n"


def cancel(server, id, session=None, **headers):
    if session:
        headers["Mcp_Session_Id"] = session
    reply = post(server, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "reason": "enough"}}, **headers)
    assert (reply.status, reply.body) == (202, b"")


ENDLESS = {"name": "execute_code", "arguments": {"language": "python", "code": "while True: pass"}}


def call_in_background(pool, server, id, params=ENDLESS, **headers):
    n = server.metric("immure_jobs_running")
    future = pool.submit(post, server, {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}, **headers)
    wait_for(lambda: server.metric("immure_jobs_running") == n + 1, "the job's start")
    return future


@pytest.mark.parametrize("with_session", [True, False])
@pytest.mark.parametrize("streams", [True, False])
def test_cancelled(serve, with_session, streams):
    server = serve()
    session = begin(server) if with_session else None
    headers = {"Mcp_Session_Id": session} if session else {}
    with ThreadPoolExecutor() as pool:
        pending = call_in_background(pool, server, 11, Accept="text/event-stream" if streams else "application/json", **headers)
        cancel(server, "11", session)  # another id
        cancel(server, 12, session)
        assert server.metric("immure_jobs_running") == 1
        cancel(server, 11, session)
        reply = pending.result()
    wait_for(lambda: server.metric("immure_jobs_running") == 0, "the job's end")
    assert "status=cancelled" in server.log()
    # No answer, as the protocol says; a stream may have begun.
    assert reply.status == 202 and not reply.body or streams and reply.status == 200 and not events(reply)


def test_nobody_cancels_anothers_call(serve):
    server = serve(config_key("other", "other-key"))
    mine, yours = begin(server), begin(server)
    with ThreadPoolExecutor() as pool:
        first = call_in_background(pool, server, 1, Mcp_Session_Id=mine)
        second = call_in_background(pool, server, 1, Mcp_Session_Id=yours)
        cancel(server, 1)
        cancel(server, 1, X_Service_API_Key="other-key")
        assert server.metric("immure_jobs_running") == 2
        cancel(server, 1, mine)
        assert first.result().status == 202
        assert server.request("DELETE", "/mcp", headers={"Mcp-Session-Id": yours}).status == 204  # which ends its calls
        assert second.result().status == 202
        wait_for(lambda: server.metric("immure_jobs_running") == 0, "their end")
        # Without sessions two calls with one id cannot be told apart, and none is ended for the other.
        calls = [call_in_background(pool, server, 1), call_in_background(pool, server, 1)]
        cancel(server, 1)
        assert server.metric("immure_jobs_running") == 2 and not any(call.done() for call in calls)
        assert server.stop(signal.SIGKILL) == -9
        for call in calls:
            assert call.exception()


def test_a_client_that_hangs_up_ends_its_call(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": ENDLESS}),
                       {"X-Service-API-Key": server.key, "Content-Type": "application/json"})
    wait_for(lambda: server.metric("immure_jobs_running") == 1, "the job's start")
    connection.close()
    wait_for(lambda: server.metric("immure_jobs_running") == 0, "the job's end")


def test_what_a_key_may_use(serve):
    server = serve(config_key("python-only", "k1", runtime=["python"]) + config_key("strict-only", "k2", policy=["strict"]))
    tool, = ask(server, "tools/list", X_Service_API_Key="k1")["result"]["tools"]
    assert tool["inputSchema"]["properties"]["language"]["enum"] == ["python"]
    assert ask(server, "tools/list", X_Service_API_Key="k2")["result"]["tools"] == []
    assert ask(server, "tools/call", {"name": "execute_code", "arguments": {"language": "python", "code": "1"}},
               X_Service_API_Key="k2")["error"]["code"] == -32602
    refused = run(server, headers={"X_Service_API_Key": "k1"}, language="bash", code="echo 1")
    assert refused["isError"] and "may not use the runtime" in text(refused)


def test_a_full_server_says_so_in_band(serve):
    server = serve("max_concurrent_jobs: 1")
    before = server.metric("immure_jobs_rejected_total") if "immure_jobs_rejected_total{" in server.get("/metrics").body.decode() else 0
    with ThreadPoolExecutor() as pool:
        pending = call_in_background(pool, server, 1, Mcp_Session_Id=(session := begin(server)))
        refused = run(server, code="1")
        assert refused["isError"] and "server busy" in text(refused) and refused["structuredContent"]["status"] == "setup_error"
        assert server.metric("immure_jobs_rejected_total") == before + 1
        cancel(server, 1, session)
        pending.result()


def test_many_at_once(serve):
    server = serve("max_concurrent_jobs: 24")
    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(lambda i: text(run(server, id=i, code=f"print({i} * 2)")), range(48)))
    assert results == [f"{2 * i}\n" for i in range(48)]
