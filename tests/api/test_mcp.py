"""POST /mcp: the Model Context Protocol, by hand. What its official client makes of it is in tests/mcp."""

import base64
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


def texts(result):
    return [item["text"] for item in result["content"] if item["type"] == "text"]


def text(result):
    assert result["content"][0]["type"] == "text"
    return result["content"][0]["text"]


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
    assert set(schema["properties"]) == {"language", "code", "stdin", "timeout", "session_id", "results"}
    assert {"python", "py", "bash", "sh"} <= set(schema["properties"]["language"]["enum"]) and schema["additionalProperties"] is False
    for property in (*schema["properties"].values(), *tool["outputSchema"]["properties"].values()):
        assert property["description"]
    assert ask(server, "ping")["result"] == {}


def test_the_tool_says_what_there_is(serve):
    server = serve("max_timeout_ms: 120000 " + config_key("small", "small-key", runtime=["python"], max_memory_bytes=128 << 20, max_timeout_ms=20000))
    tool, = ask(server, "tools/list")["result"]["tools"]
    told = tool["description"]
    assert re.search(r"- python \(or python3, py\): version 3\.\d+\.\d+\. CPython with its standard library", told) and "without a network" in told
    assert "At most 512 MiB of memory" in told and "at most 120." in told and "set_result(" in told and "install_package" not in told
    tool, = ask(server, "tools/list", X_Service_API_Key="small-key")["result"]["tools"]
    assert "At most 128 MiB of memory" in tool["description"] and "at most 20." in tool["description"] and "bash" not in tool["description"]
    server = serve('pip_index { url: "http://127.0.0.1:9/simple/" }\n'
                   'runtime { name: "snake" interpreter: "/usr/bin/python3.11" policy: "python" description: "Python with numpy 2." }\n'
                   'default_runtime: "snake"')
    tool, = ask(server, "tools/list")["result"]["tools"]
    assert re.search(r"\n- snake: version 3\.\d+\.\d+\. Python with numpy 2\. At most 512 MiB of memory\.", tool["description"])


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
    assert failed["structuredContent"]["status"] == "execution_error"
    assert texts(failed) == ["before\n", "Error: The program ended with exit code 3."]
    assert texts(run(server, code="raise SystemExit(3)")) == ["Error: The program ended with exit code 3."]
    denied = run(server, code="import fcntl; fcntl.ioctl(0, 0x5422)")
    assert "PermissionError" in text(denied) and texts(denied)[1].startswith(
        "Error: The program ended with exit code 1.\ndenied ioctl(TIOCNOTTY); a policy's seccomp would allow it with\n    rule {"), denied
    assert denied["structuredContent"]["hint"].startswith("denied ioctl(TIOCNOTTY); ")
    for timeout in (1, 20):  # on a busy machine it may need longer than a second to begin
        late = run(server, code="print('x', flush=True)\nwhile True: pass", timeout=timeout)
        printed = late["structuredContent"]["stdout"]
        assert late["isError"] and texts(late) == [f"{printed}Error: Execution timed out after {timeout}s"]
        if printed:
            break
    assert late["structuredContent"]["status"] == "timeout" and late["structuredContent"]["stdout"] == "x\n"
    killed = run(server, code="import os; os.abort()")
    assert killed["structuredContent"]["status"] == "execution_error" and killed["structuredContent"]["signal"] == "SIGABRT"
    assert text(killed) == "Error: " + killed["structuredContent"]["error_message"] and "SIGABRT" in text(killed)


CUT = "\n... [output truncated]"


def test_long_output_is_cut_by_characters(server):
    result = run(server, code="print('ü' * 10000, end='')")
    assert text(result) == "ü" * 10000 and result["structuredContent"]["stdout"] == "ü" * 10000
    assert result["structuredContent"]["truncated"] is False
    result = run(server, code="import sys; print('ü' * 10001, end=''); print('e' * 10001, end='', file=sys.stderr); set_result('r' * 20000)\nraise SystemExit(1)")
    assert texts(result) == ["ü" * 10000 + CUT, "Error: The program ended with exit code 1.\n... " + "e" * 2000, 'Result: "' + "r" * 9999 + CUT]
    told = result["structuredContent"]
    assert told["stdout"] == "ü" * 10000 + CUT and told["stderr"] == "e" * 10000 + CUT and told["output"] == '"' + "r" * 9999 + CUT
    assert "ZeroDivisionError" in texts(run(server, code="print('x' * 100000)\n1/0"))[1]
    assert told["truncated"] and told["stdout_truncated"] and told["stderr_truncated"]


def test_nothing_that_a_program_does_makes_a_result_large(server):
    result = run(server, code="""
import os
names = [f'{i:04}-' + 'n' * 200 for i in range(40)]
for name in names:
    open(name, 'w').write('t' * 20000)
for i in range(200):
    open(f'more-{i}', 'w')
open('image.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n' + os.urandom(4 << 20))
set_result(None, files=['image.png', *names])
while True:
    try:
        print('x' * 1000)
    except OSError:
        break
    if (globals().setdefault('n', 0)) > 2000:
        break
    n += 1
""")
    told = result["structuredContent"]
    assert len(json.dumps(told)) < 80_000 and len(told["output_files"]) == 100 and told["output_files_truncated"]
    resources = [item["resource"] for item in result["content"] if item["type"] == "resource"]
    assert len(resources) == 16 and all(item["text"] == "t" * 10000 + CUT for item in resources)
    assert "image.png (4194312 bytes, not shown: too many or too large)" in texts(result)[-1]
    assert len(json.dumps(result["content"])) < 300_000


def test_values_and_files(server):
    png = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
    result = run(server, code=f"""
open('plot.png', 'wb').write({png!r})
open('a b.csv', 'w').write('1,ü')
open('raw.bin', 'wb').write(bytes(range(256)))
set_result({{'rows': 1}}, files=['plot.png', 'a b.csv', 'raw.bin'])
""")
    value, *files, names = result["content"]
    image, = [item for item in files if item["type"] == "image"]
    table, raw = sorted((item for item in files if item["type"] == "resource"), key=lambda item: item["resource"]["uri"])
    id = result["structuredContent"]["execution_id"]
    assert value == {"type": "text", "text": 'Result: {"rows": 1}'} and result["structuredContent"]["output"] == '{"rows": 1}'
    assert image == {"type": "image", "data": base64.b64encode(png).decode(), "mimeType": "image/png"}
    assert table == {"type": "resource", "resource": {"uri": f"immure://{id}/a%20b.csv", "mimeType": "text/csv", "text": "1,ü"}}
    assert base64.b64decode(raw["resource"]["blob"]) == bytes(range(256)) and raw["resource"]["uri"] == f"immure://{id}/raw.bin"
    assert names["text"].startswith("Files: ")
    assert sorted(names["text"][7:].split(", ")) == ["a b.csv (4 bytes)", f"plot.png ({len(png)} bytes)", "raw.bin (256 bytes)"]
    told = result["structuredContent"]
    assert {("plot.png", "image/png"), ("a b.csv", "text/csv")} <= {(file["name"], file["mime"]) for file in told["files"]}
    assert not any("data" in file for file in told["files"]) and {file["name"] for file in told["output_files"]} >= {"plot.png", "raw.bin"}


def test_structured_content_is_as_the_schema_says(server):
    tool, = ask(server, "tools/list")["result"]["tools"]
    schema = tool["outputSchema"]
    types = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "object": dict, "array": list, "null": type(None)}
    for code in ("print(1)", "1/0", "import os; os.abort()", ""):
        told = run(server, code=code)["structuredContent"]
        assert set(schema["required"]) <= told.keys() <= schema["properties"].keys()
        for name, value in told.items():
            kinds = schema["properties"][name]["type"]
            assert any(isinstance(value, types[kind]) for kind in ([kinds] if isinstance(kinds, str) else kinds)), name
        assert told["status"] in schema["properties"]["status"]["enum"]


@pytest.mark.parametrize("arguments, says", [
    ({"code": ""}, "code is required"), ({"language": "cobol", "code": "x"}, "unsupported runtime: cobol"),
    ({"language": None, "code": "x"}, "language"), ({"language": 7, "code": "x"}, "language"), ({"code": 7}, "code"), ({}, "code is required"),
    ({"code": "1", "timeout": 0}, "timeout"), ({"code": "1", "timeout": 301}, "timeout"), ({"code": "1", "timeout": 1.5}, "timeout"),
    ({"code": "1", "timeout": "2"}, "timeout"), ({"code": "1", "session_id": "a\tb"}, "session_id"), ({"code": "1", "stdin": 1}, "stdin"),
    ({"language": "", "code": "x"}, "language: is required"), ({"code": None}, "code is required"),
    ({"script": "1"}, "script: unknown argument; did you mean 'code'?"), ({"code": "1", "policy": "strict"}, "unknown argument"), ({"code": "1", "callback_url": "http://x"}, "unknown argument"),
])
def test_arguments_that_will_not_do(server, arguments, says):
    result = run(server, **arguments)
    assert result["isError"] and text(result).startswith("Error: ") and says in text(result)
    assert result["structuredContent"]["status"] == "setup_error" and result["structuredContent"]["exit_code"] == -1


def test_null_is_the_same_as_nothing(server):
    assert text(run(server, code="print(1)", stdin=None, timeout=None, session_id=None)) == "1\n"
    assert text(run(server, code="print(1)", session_id="")) == "1\n"
    assert ask(server, "tools/list", {"cursor": None})["result"] == ask(server, "tools/list")["result"]
    assert "result" in post(server, {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": None}).json
    params = {"name": "execute_code", "arguments": {"language": "python", "code": "print(1)"}, "_meta": None}
    assert text(ask(server, "tools/call", params)["result"]) == "1\n"
    params["_meta"] = {"progressToken": None}
    assert text(ask(server, "tools/call", params)["result"]) == "1\n"


def test_arguments_that_are_none(server):
    for params in ({"name": "execute_code", "arguments": []}, {"name": "execute_code"}, {"name": "execute_code", "arguments": {"code": "1"}},
                   {"name": "execute_code", "arguments": None}):
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
    assert tool["inputSchema"]["properties"]["language"]["enum"] == ["python", "python3", "py"]
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
