"""POST /mcp in the revision without initialize: each request says what it is, in its body and in its headers."""

import base64
import http.client
import json

import pytest
from harness import wait_for
from test_mcp import ENDLESS, events, post, text

VERSION = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
META = {f"{PREFIX}protocolVersion": VERSION, f"{PREFIX}clientInfo": {"name": "t", "version": "1"}, f"{PREFIX}clientCapabilities": {}}


def message(method, id=1, meta=META, **params):
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, **({} if meta is None else {"_meta": meta})}}


def headers_of(asked, **changed):
    """The headers that go with a request; a None leaves one out."""
    found = {"MCP_Protocol_Version": VERSION, "Mcp_Method": asked["method"]}
    if asked["method"] == "tools/call":
        found["Mcp_Name"] = asked["params"]["name"]
    return {name: value for name, value in {**found, **changed}.items() if value is not None}


def ask(server, method, id=1, **params):
    """-> the result"""
    asked = message(method, id, **params)
    reply = post(server, asked, **headers_of(asked))
    assert reply.status == 200 and "Mcp-Session-Id" not in reply.headers, reply.body
    result = reply.json["result"]
    assert reply.json["id"] == id and result["resultType"] == "complete"
    assert result["_meta"][f"{PREFIX}serverInfo"]["name"] == "immure"
    return result


def run(server, code, **more):
    return ask(server, "tools/call", name="execute_code", arguments={"language": "python", "code": code}, **more)


def test_discover(server):
    found = ask(server, "server/discover", id="d")
    assert found["supportedVersions"] == [VERSION] and found["capabilities"] == {"tools": {"listChanged": False}}
    assert found["ttlMs"] > 0 and found["cacheScope"] == "public" and "jail" in found["instructions"]


def test_tools_and_calls(server):
    found = ask(server, "tools/list")
    old = post(server, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).json["result"]
    assert found["tools"] == old["tools"] and found["ttlMs"] > 0 and found["cacheScope"] == "private"  # of the key
    assert old.keys() == {"tools"}
    result = run(server, "print(6 * 7)")
    assert text(result) == "42\n" and result["structuredContent"]["stdout"] == "42\n" and result["isError"] is False
    refused = ask(server, "tools/call", name="execute_code", arguments={"language": "cobol", "code": "1"})
    assert refused["isError"] and refused["structuredContent"]["status"] == "setup_error"


def without(key):
    return {name: value for name, value in META.items() if name != PREFIX + key}


@pytest.mark.parametrize("method, meta, changed, status, code, says", [
    ("tools/list", None, {}, 400, -32602, "protocolVersion"), ("tools/list", [], {}, 400, -32602, "protocolVersion"),
    ("tools/list", without("protocolVersion"), {}, 400, -32602, "protocolVersion"),
    ("tools/list", {**META, f"{PREFIX}protocolVersion": 7}, {}, 400, -32602, "protocolVersion"),
    ("tools/list", without("clientCapabilities"), {}, 400, -32602, "clientCapabilities"),
    ("tools/list", {**META, f"{PREFIX}clientCapabilities": "all"}, {}, 400, -32602, "clientCapabilities"),
    ("tools/list", {**META, f"{PREFIX}clientInfo": "me"}, {}, 400, -32602, "clientInfo"),
    ("tools/list", META, {"MCP_Protocol_Version": None}, 400, -32020, "MCP-Protocol-Version"),
    ("tools/list", META, {"MCP_Protocol_Version": "2025-11-25"}, 400, -32020, "MCP-Protocol-Version"),
    ("tools/list", META, {"MCP_Protocol_Version": "2027-01-01"}, 400, -32020, "MCP-Protocol-Version"),
    ("tools/list", META, {"Mcp_Method": None}, 400, -32020, "Mcp-Method"), ("tools/list", META, {"Mcp_Method": "Tools/List"}, 400, -32020, "Mcp-Method"),
    ("ping", META, {}, 404, -32601, "ping"), ("initialize", META, {}, 404, -32601, "initialize"), ("resources/list", META, {}, 404, -32601, "resources/list"),
    ("subscriptions/listen", META, {}, 404, -32601, "subscriptions/listen"), ("", META, {}, 404, -32601, "Method not found"),
])
def test_requests_that_will_not_do(server, method, meta, changed, status, code, says):
    asked = message(method, "x", meta)
    reply = post(server, asked, **headers_of(asked, **changed))
    assert reply.status == status and reply.headers["Content-Type"] == "application/json", reply.body
    assert reply.json["id"] == "x" and reply.json["error"]["code"] == code and says in reply.json["error"]["message"], reply.body


@pytest.mark.parametrize("version", ["1900-01-01", "2025-11-25", "2027-01-01"])
def test_other_versions(server, version):
    asked = message("tools/list", meta={**META, f"{PREFIX}protocolVersion": version})
    reply = post(server, asked, **headers_of(asked, MCP_Protocol_Version=version))
    assert reply.status == 400 and reply.json["error"]["code"] == -32022
    assert reply.json["error"]["data"] == {"supported": [VERSION], "requested": version}


def framed(name):
    return f"=?base64?{base64.b64encode(name.encode()).decode()}?="


@pytest.mark.parametrize("header, code", [
    (framed("execute_code"), None), (" execute_code ", None), (None, -32020), ("rm", -32020), ("Execute_Code", -32020), (framed("rm"), -32020),
    ("=?base64?%%%?=", -32020), ("=?base64??=", -32020), ("=?BASE64?ZXhlY3V0ZV9jb2Rl?=", -32020)])
def test_the_name_in_the_header(server, header, code):
    asked = message("tools/call", name="execute_code", arguments={"language": "python", "code": "print(1)"})
    reply = post(server, asked, **headers_of(asked, Mcp_Name=header))
    assert (reply.status, reply.json.get("error", {}).get("code")) == (400 if code else 200, code), reply.body


@pytest.mark.parametrize("name", ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"])
def test_a_header_twice_is_none(server, wire, name):
    asked = json.dumps(message("tools/call", name="execute_code", arguments={"language": "python", "code": "print(1)"}))
    lines = [f"MCP-Protocol-Version: {VERSION}", "Mcp-Method: tools/call", "Mcp-Name: execute_code", f"{name}: x"]
    line = wire(server)
    line.send(f"POST /mcp HTTP/1.1\r\nHost: h\r\nX-Service-API-Key: {server.key}\r\nContent-Type: application/json\r\n"
              f"Content-Length: {len(asked)}\r\n" + "".join(f"{each}\r\n" for each in lines) + f"\r\n{asked}")
    reply = line.reply()
    error = json.loads(reply.body)["error"]
    assert reply.status == 400 and error["code"] == -32020 and name in error["message"]


def test_errors_of_a_call_are_in_band(server):
    for name in ("rm", "ünknown"):
        asked = message("tools/call", name=name)
        reply = post(server, asked, **headers_of(asked, Mcp_Name=framed(name)))
        assert reply.status == 200 and reply.json["error"]["code"] == -32602 and "Unknown tool" in reply.json["error"]["message"]
    asked = message("tools/list", cursor="x")
    reply = post(server, asked, **headers_of(asked))
    assert reply.status == 200 and reply.json["error"]["code"] == -32602


def test_sessions_of_other_revisions_mean_nothing(server):
    asked = message("server/discover")
    assert post(server, asked, **headers_of(asked, Mcp_Session_Id="no such")).status == 200
    assert post(server, {"jsonrpc": "2.0", "method": "notifications/whatever"}, MCP_Protocol_Version=VERSION, Mcp_Session_Id="no such").status == 202
    assert post(server, asked, **headers_of(asked, X_Service_API_Key="wrong")).status == 401
    assert post(server, asked, **headers_of(asked, Origin="https://evil.example")).status == 403


def test_other_revisions_know_nothing_of_it(server):
    asked = {"jsonrpc": "2.0", "id": 1, "method": "server/discover"}
    for headers in ({}, {"MCP_Protocol_Version": "2025-11-25"}):
        reply = post(server, asked, **headers)
        assert reply.status == 200 and reply.json["error"]["code"] == -32601
    result = post(server, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": VERSION}}).json["result"]
    assert result["protocolVersion"] == "2025-11-25" and "resultType" not in result


def test_progress_on_the_stream_of_the_call(serve):
    server = serve("stream_heartbeat_ms: 100")
    asked = message("tools/call", 3, {**META, "progressToken": "t"}, name="execute_code",
                    arguments={"language": "python", "code": "import time; time.sleep(1); print('done')"})
    reply = post(server, asked, **headers_of(asked, Accept="application/json, text/event-stream"))
    assert reply.headers["X-Accel-Buffering"] == "no"
    *progress, answer = events(reply)
    assert answer["id"] == 3 and text(answer["result"]) == "done\n" and answer["result"]["resultType"] == "complete"
    assert len(progress) >= 2 and {event["params"]["progressToken"] for event in progress} == {"t"}


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_whoever_hangs_up_cancels(server, accept):
    asked = message("tools/call", **ENDLESS)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("POST", "/mcp", json.dumps(asked),
                       {"X-Service-API-Key": server.key, "Content-Type": "application/json", "Accept": accept,
                        **{name.replace("_", "-"): value for name, value in headers_of(asked).items()}})
    wait_for(lambda: server.metric("immure_jobs_running") == 1, "the job's start")
    connection.close()
    wait_for(lambda: server.metric("immure_jobs_running") == 0, "the job's end")
