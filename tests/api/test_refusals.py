"""Every error of the HTTP contract: its status, its code, its field, its headers."""

import json
import socket

import pytest
from harness import config_key, shipped_policy, wait_for

JSON = "application/json"


def post(server, body, path="/execute", **headers):
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request("POST", path, body, {"X-Service-API-Key": server.key, "Content-Type": JSON, **headers})
        reply = connection.getresponse()
        return reply.status, reply.headers, json.loads(reply.read())
    finally:
        connection.close()


def refused(server, body, status, code, field, text):
    if not isinstance(body, (bytes, str)):
        body = json.dumps(body)
    got, headers, error = post(server, body)
    assert got == status, error
    assert set(error) == {"error", "code", "field"}
    assert error["code"] == code and error["field"] == field
    assert error["error"] == text if not text.endswith("…") else error["error"].startswith(text[:-1]), error
    assert headers["Content-Type"] == JSON and headers["X-Request-Id"]


FIELD = [
    ({}, "code", "code is required"),
    ({"code": ""}, "code", "code is required"),
    ({"code": 7}, "code", "code: must be a string, not a number"),
    ({"code": None}, "code", "code is required"),
    ({"code": "1", "cod": 1}, "cod", "cod: unknown field; did you mean 'code'?"),
    ({"code": "1", "bogus": 1}, "bogus", "bogus: unknown field"),
    ({"code": "1", "bogus": None}, "bogus", "bogus: unknown field"),
    ({"code": "1", "memory_limit": 1}, "memory_limit", "memory_limit: unknown field; did you mean 'limits.memory_bytes'?"),
    ({"code": "1", "cmd": "ls"}, "cmd", "cmd: unknown field; the program is `code`, its arguments are `args`"),
    ({"source": "1"}, "source", "source: unknown field; did you mean 'code'?"),
    ({"code": "1", "lang": "python"}, "lang", "lang: unknown field; did you mean 'language'?"),
    ({"code": "1", "packages": ["numpy"]}, "packages", "packages: unknown field; the program installs them itself: install_package(\"NAME\")"),
    ({"code": "1", "language": "cobol"}, "language", "unsupported runtime: cobol; supported: python, node, bash"),
    ({"code": "1", "runtime": "cobol"}, "runtime", "unsupported runtime: cobol; supported: python, node, bash"),
    ({"code": "1", "stdin": 1}, "stdin", "stdin: must be a string, not a number"),
    ({"code": "1", "timeout_ms": -1}, "timeout_ms", "timeout_ms: must be a whole number from 1 up"),
    ({"code": "1", "timeout_ms": 0.5}, "timeout_ms", "timeout_ms: must be a whole number from 1 up"),
    ({"code": "1", "timeout_ms": "9"}, "timeout_ms", "timeout_ms: must be a whole number from 1 up"),
    ({"code": "1", "timeout": -1}, "timeout", "timeout: must be a whole number from 1 up"),
    ({"code": "1", "timeout": 1, "timeout_ms": 1}, "timeout", "timeout: give either…"),
    ({"code": "1", "files": [{"name": "a", "content": "", "data": ""}]}, "files[0]",
     "files[0]: must not have both `content` and `data`"),
    ({"code": "1", "files": [{"name": "a", "data": "?"}]}, "files[0].data", "files[0].data: is not base64"),
    ({"code": "1", "files": [{"name": "a"}, {"name": "a"}]}, "files", "files: 'a' is there twice"),
    ({"code": "1", "files": [{"content": "a"}]}, "files[0].name", "files[0].name: is required"),
    ({"code": "1", "files": [{"name": "a"}, {"name": ".//a"}]}, "files", "files: 'a' is there twice"),
    ({"code": "1", "files": [{"name": None}]}, "files[0].name", "files[0].name: is required"),
    ({"code": "1", "files": [{"path": "a"}]}, "files[0].path", "files[0].path: unknown field; did you mean 'name'?"),
    ({"code": "1", "files": [{"name": "a", "mode": 1}]}, "files[0].mode", "files[0].mode: unknown field"),
    ({"code": "1", "outputs": [1]}, "outputs[0]", "outputs[0]: must be a string, not a number"),
    *(({"code": "1", "outputs": ["ok", path]}, "outputs[1]", "outputs[1]: output files are looked for in the workspace…")
      for path in ("/tmp/x", "/etc/passwd", "../x", "a/../../x", "/workspace/x")),
    ({"code": "1", "outputs": ["d/"]}, "outputs[0]", "outputs[0]: names a directory; 'NAME/*' asks for the files in one"),
    ({"code": "1", "session_id": "a\n"}, "session_id", "session_id: must be…"),
    ({"code": "1", "session_id": "\x85"}, "session_id", "session_id: must be…"),
    ({"code": "1", "session_id": "é" * 257}, "session_id", "session_id: must be…"),
    ({"code": "1", "session_id": "s" * 513}, "session_id", "session_id: must be…"),
    ({"code": "1", "session_id": "s", "session": "new"}, "session", "session: must be…"),
    ({"code": "1", "session": "kept"}, "session", "session: goes with…"),
    ({"code": "1", "callback_url": "http://127.0.0.1/"}, "callback_url", "callback_url: this server's configuration does not allow calls to it"),
    ({"code": "1", "execution_id": "a\nb"}, "execution_id", "execution_id: must be…"),
    ({"code": "1", "args": "x"}, "args", "args: must be an array, not a string"),
    ({"code": "1", "env": {"A": 1}}, "env.A", "env.A: must be a string, not a number"),
    ({"code": "1", "limits": {"pids": 0}}, "limits.pids", "limits.pids: must be a whole number from 1 up"),
    ({"code": "1", "limits": {"ram": 1}}, "limits.ram", "limits.ram: unknown field; did you mean 'memory_bytes'?"),
    ({"code": "1", "policy": "no-such"}, "policy", "policy: …"),
]


@pytest.mark.parametrize("body, field, text", [pytest.param(*row, id=row[1] + str(at)) for at, row in enumerate(FIELD)])
def test_400_names_the_field(server, body, field, text):
    refused(server, body, 400, "invalid_field", field, text)


@pytest.mark.parametrize("name", ["", "/", "/etc/passwd", "..", ".", "../a", "a/../b", "./../a", "a/.", "//a", "a/", "n" * 256, "d/" + "n" * 256])
def test_400_for_bad_file_names(server, name):
    for member in ({}, {"data": ""}):
        status, _, error = post(server, json.dumps({"code": "1", "files": [{"name": name, **member}]}))
        assert status == 400 and error["field"] == "files[0].name", error
    status, _, error = post(server, json.dumps({"code": "1", "files": [{"name": "d/a", "content": ""}]}))
    assert status == 400 and error["field"] == "files[0].name"


NOT_JSON = {
    "empty": b"",
    "text": b"code=print(1)",
    "unfinished": b'{"code": "1"',
    "trailing bytes": b'{"code": "1"} x',
    "duplicate key": b'{"code": "1", "code": "2"}',
    "invalid UTF-8": b'{"code": "\xff"}',
    "lone surrogate": b'{"code": "\\ud800"}',
    "NUL": b'{"code": "\\u0000"}',
    "control character": b'{"code": "a\nb"}',
    "65 levels": b'{"code": ' + b"[" * 65 + b"]" * 65 + b"}",
    "comment": b'{"code": "1" /* c */}',
    "NaN": b'{"code": "1", "timeout": NaN}',
    "byte order mark": b'\xef\xbb\xbf{"code": "1"}',
}


@pytest.mark.parametrize("body", NOT_JSON.values(), ids=NOT_JSON.keys())
def test_400_for_what_is_not_json(server, body):
    status, _, error = post(server, body)
    assert status == 400 and error["code"] == "invalid_json" and error["field"] is None and error["error"]


def test_400_for_json_that_is_no_object(server):
    for body in ("[]", "1", '"x"', "null"):
        refused(server, body, 400, "invalid_request", None, "the body must be an object…")


def test_400_where_the_body_ends_is_not_clear(server, wire):
    for headers in ({"Content-Length": "5", "Transfer-Encoding": "chunked"}, {"Transfer-Encoding": "gzip"},
                    {"Content-Length": "5\r\nContent-Length: 5"}):
        connection = wire(server)
        connection.request("POST", "/execute", {"X-Service-API-Key": server.key, "Content-Type": JSON, **headers})
        reply = connection.reply()
        assert reply.status == 400 and json.loads(reply.body)["code"] == "invalid_request", headers
        assert connection.ended()


def test_404(server):
    for path, meant in (("/nothing", None), ("/v1", None), ("/execute/", "/execute"), ("/execute/x", "/execute"), ("/Execute", "/execute"),
                        ("/v1/execute", "/execute"), ("/api/v1/execute/", "/execute"), ("/v1/jobs/ab", "/jobs/ab"), ("/metrics%00", "/metrics"),
                        ("/run-code/", "/run-code"), ("/run-codes", "/run-code")):
        reply = server.get(path)
        text = "no such path" + (f"; did you mean {meant}?" if meant else "")
        assert reply.status == 404 and reply.json == {"error": text, "code": "not_found", "field": None}


@pytest.mark.parametrize("method, path, field, text", [
    ("POST", "/execute?wiat=false", "wiat", "wiat: unknown query parameter; did you mean 'wait'?"),
    ("POST", "/execute?wait=true&async=1", "async", "async: unknown query parameter; do not wait for the job with ?wait=false"),
    ("POST", "/execute?stream", "stream", "stream: unknown query parameter; ask for events with the header Accept: text/event-stream"),
    ("POST", "/execute?wait=true&wait=false", "wait", "wait: is there twice"),
    ("POST", "/execute?=1", "=1", "=1: unknown query parameter"),
    ("POST", "/run-code?wait=false", "wait", "wait: unknown query parameter"),
    ("POST", "/run-code/x/terminate?raeson=y", "raeson", "raeson: unknown query parameter; did you mean 'reason'?"),
    ("POST", "/mcp?session=s", "session", "session: unknown query parameter"),
    ("DELETE", "/jobs/x?force=1", "force", "force: unknown query parameter"), ("GET", "/jobs/x?reason=y", "reason", "reason: unknown query parameter"),
    ("GET", "/sessions?limit=10", "limit", "limit: unknown query parameter"), ("DELETE", "/workspace/s?force", "force", "force: unknown query parameter"),
    ("GET", "/approvals?all=1", "all", "all: unknown query parameter"), ("GET", "/healthz?verbose", "verbose", "verbose: unknown query parameter"),
    ("GET", "/metrics?" + "n" * 300, "n" * 100, "n" * 100 + ": unknown query parameter"),
])
def test_400_for_what_the_query_may_not_have(server, method, path, field, text):
    reply = server.request(method, path, '{"code": "1"}' if method == "POST" else None)
    assert reply.status == 400 and reply.json == {"error": text, "code": "invalid_field", "field": field}


def test_an_empty_query_is_none(server):
    for query in ("?", "?&", "?wait=true&", "?&wait=true"):
        assert server.request("POST", "/execute" + query, '{"code": "1"}').status == 200, query


def test_405_says_what_is_allowed(server):
    for method, path, allow in (("GET", "/execute", "POST"), ("DELETE", "/execute", "POST"), ("HEAD", "/execute", "POST"),
                                ("POST", "/healthz", "GET, HEAD"), ("PUT", "/metrics", "GET, HEAD"),
                                ("OPTIONS", "/readyz", "GET, HEAD")):
        reply = server.request(method, path)
        assert reply.status == 405 and reply.headers["Allow"] == allow
        if method != "HEAD":
            assert reply.json["code"] == "method_not_allowed"


def test_408(serve, wire):
    server = serve("request_timeout_ms: 200")
    head = f"POST /execute HTTP/1.1\r\nHost: x\r\nX-Service-API-Key: {server.key}\r\nContent-Type: {JSON}\r\n"
    for sent in ("P", head, head + "Content-Length: 100\r\n\r\n", head + "Content-Length: 100\r\n\r\n{",
                 head + "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"cod"):
        connection = wire(server)
        connection.send(sent)
        reply = connection.reply()
        assert reply.status == 408 and reply.headers["connection"] == "close", sent
        assert json.loads(reply.body) == {"error": "the request took too long to arrive", "code": "request_timeout",
                                          "field": None}
        assert connection.ended()


def test_408_does_not_hold_for_the_job(serve):
    server = serve("request_timeout_ms: 1000 idle_timeout_ms: 1000")
    assert server.execute("import time; time.sleep(2); print(1)")["stdout"] == "1\n"


def test_413_by_length_before_the_body_is_sent(serve, wire):
    server = serve("max_body_bytes: 1024")
    connection = wire(server)
    connection.request("POST", "/execute", {"X-Service-API-Key": server.key, "Content-Type": JSON, "Content-Length": 1025})
    reply = connection.reply()
    assert reply.status == 413 and json.loads(reply.body) == {"error": "the body may have at most 1024 bytes", "code": "too_large", "field": None}
    assert connection.ended()
    body = json.dumps({"code": "#" + "x" * 1010})
    assert len(body) == 1023
    assert server.request("POST", "/execute", body + " ").status == 200


def test_413_by_default_at_32_mib(server, wire):
    for length, status in ((33554433, 413), (10**25, 413)):
        connection = wire(server)
        connection.request("POST", "/execute", {"X-Service-API-Key": server.key, "Content-Type": JSON, "Content-Length": length})
        assert connection.reply().status == status


def test_413_for_chunks(serve, wire):
    server = serve("max_body_bytes: 1024")
    connection = wire(server)
    connection.request("POST", "/execute", {"X-Service-API-Key": server.key, "Content-Type": JSON, "Transfer-Encoding": "chunked"})
    for _ in range(3):
        connection.send("190\r\n" + "x" * 400 + "\r\n")
    reply = connection.reply()
    assert reply.status == 413 and json.loads(reply.body)["code"] == "too_large"
    assert connection.ended()


def test_413_for_more_arguments_than_a_message_holds(server):
    status, _, error = post(server, json.dumps({"code": "1", "args": ["x" * 1000] * 200}))
    assert status == 413 and error["code"] == "too_large"


def test_chunked_bodies_are_bodies(server, wire):
    connection = wire(server)
    connection.request("POST", "/execute", {"X-Service-API-Key": server.key, "Content-Type": JSON, "Transfer-Encoding": "chunked"})
    body = b'{"code": "print(1)"}'
    connection.send(*(b"1\r\n%c\r\n" % byte for byte in body), "0\r\n\r\n")
    reply = connection.reply()
    assert reply.status == 200 and json.loads(reply.body)["stdout"] == "1\n"


def test_415(server):
    body = json.dumps({"code": "1"})
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonx",
                 "application/json; charset=latin-1", ""):
        status, _, error = post(server, body, **{"Content-Type": kind})
        assert status == 415 and error["code"] == "unsupported_media_type", kind
    for kind in ("application/json", "Application/JSON", "application/json; charset=utf-8", 'application/json;charset="UTF-8"'):
        assert post(server, body, **{"Content-Type": kind})[0] == 200, kind
    assert post(server, body, **{"Content-Encoding": "gzip"})[0] == 415


def test_415_without_a_type(server, wire):
    connection = wire(server)
    connection.request("POST", "/execute", {"X-Service-API-Key": server.key, "Content-Length": 2}, b"{}")
    assert connection.reply().status == 415


def test_431(server, wire):
    for size in (17_000, 60_000, 1_000_000):
        connection = wire(server)
        connection.request("GET", "/healthz", {"X-Long": "x" * size})
        reply = connection.reply()
        assert reply.status == 431 and json.loads(reply.body)["code"] == "headers_too_large"
    connection = wire(server)
    connection.request("GET", "/healthz", {"X-Long": "x" * 15_000})
    assert connection.reply().status == 200


class Background:
    """A job that runs until it is let go."""

    def __init__(self, wire, server, key=None, **fields):
        self.connection = wire(server)
        fields = {"code": "import time; time.sleep(30)", "timeout": 20, **fields}
        body = json.dumps(fields).encode()
        self.connection.request("POST", "/execute", {"X-Service-API-Key": key or server.key, "Content-Type": JSON,
                                                     "Content-Length": len(body)}, body)


def test_429_for_a_keys_own_limit(serve, wire):
    server = serve(config_key("one", "key-one", max_concurrent_jobs=1))
    running = Background(wire, server, "key-one")
    wait_for(lambda: server.metric("immure_jobs_running") == 1, "a job that runs")
    status, headers, error = post(server, json.dumps({"code": "print(1)"}), **{"X-Service-API-Key": "key-one"})
    assert status == 429 and error["code"] == "rate_limited" and error["field"] is None
    assert 1 <= int(headers["Retry-After"]) <= 20
    assert post(server, json.dumps({"code": "print(1)"}))[0] == 200  # another key
    running.connection.close()
    wait_for(lambda: server.metric("immure_jobs_running") == 0, "no job that runs")
    assert post(server, json.dumps({"code": "print(1)"}), **{"X-Service-API-Key": "key-one"})[0] == 200


def test_429_for_the_last_slot_where_there_is_another_key(serve, wire):
    server = serve(config_key("one", "key-one") + config_key("all", "key-all", max_concurrent_jobs=2), SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="2")
    running = Background(wire, server, "key-one")
    wait_for(lambda: server.metric("immure_jobs_running") == 1, "a job that runs")
    status, headers, error = post(server, json.dumps({"code": "print(1)"}), **{"X-Service-API-Key": "key-one"})
    assert status == 429 and 1 <= int(headers["Retry-After"]) <= 20
    assert error == {"error": "key 'one' may have 1 jobs at once; the last slot is kept for other keys", "code": "rate_limited",
                     "field": None}
    assert 'immure_jobs_rejected_total{reason="rate_limited"} 1' in server.get("/metrics").body.decode()
    assert post(server, json.dumps({"code": "print(1)"}))[0] == 200  # another key
    running.connection.close()
    wait_for(lambda: server.metric("immure_jobs_running") == 0, "no job that runs")
    for _ in range(2):  # a key whose number says so has all of them
        Background(wire, server, "key-all")
    wait_for(lambda: server.metric("immure_jobs_running") == 2, "two jobs that run")
    status, _, error = post(server, json.dumps({"code": "print(1)"}))
    assert status == 503 and error["code"] == "busy"


def test_503_without_a_free_slot(serve, wire):
    server = serve(SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="2")
    for number in range(2):
        Background(wire, server, timeout=20 + number)
    wait_for(lambda: server.metric("immure_jobs_running") == 2, "two jobs that run")
    status, headers, error = post(server, json.dumps({"code": "print(1)"}))
    assert status == 503
    assert error == {"error": "server busy: execution capacity reached", "code": "busy", "field": None}
    assert 1 <= int(headers["Retry-After"]) <= 20
    assert post(server, json.dumps({"code": "1", "timeout": -1}))[0] == 400  # validated before a slot is looked for
    assert server.get("/healthz").status == 200


BROKEN = 'mount { destination: "/no/such" bind { source: "/no/such/source" } }\n'


def test_500_says_what_the_interpreter_lacks(serve, tmp_path):
    (tmp_path / "bare.textproto").write_text(
        'name: "bare"\nmount { destination: "/usr/bin" bind { source: "/usr/bin" } }\n'
        'mount { destination: "/workspace" scratch { directory: WORK } }\nseccomp { default_action: ALLOW }\n')
    server = serve(f'policy_path: "{tmp_path}/bare.textproto"')
    status, _, error = post(server, json.dumps({"code": "print(1)", "policy": "bare"}))
    assert (status, error["code"]) == (500, "setup_error")
    assert ": execve: its loader /lib" in error["error"] and error["error"].endswith(" is not in the jail: No such file or directory"), error


def test_500_setup_error_names_the_step(serve, tmp_path):
    policies = tmp_path / "policies"
    policies.mkdir()
    text = shipped_policy("python")
    assert 'name: "python"' in text
    (policies / "broken.textproto").write_text(text.replace('name: "python"', 'name: "broken"', 1) + BROKEN)
    server = serve(f'policy_path: "{policies}"')
    status, headers, error = post(server, json.dumps({"code": "print(1)", "policy": "broken"}))
    assert status == 500
    assert error["status"] == "setup_error" and error["code"] == "setup_error" and error["field"] is None
    assert "/no/such" in error["step"] and error["step"].startswith("step ")
    assert error["error"].startswith(error["step"]) and "No such file" in error["error"]
    assert server.metric("immure_jobs_total") >= 1
    assert server.execute("print(1)")["stdout"] == "1\n"


def test_errors_keep_the_connection_where_the_request_was_read(server, wire):
    connection = wire(server)
    for body, status in ((b"{}", 400), (b'{"code": "print(1)"}', 200), (b"x", 400)):
        connection.request("POST", "/execute", {"X-Service-API-Key": server.key, "Content-Type": JSON,
                                                "Content-Length": len(body)}, body)
        assert connection.reply().status == status
    connection.request("GET", "/nothing", {"X-Service-API-Key": server.key})
    assert connection.reply().status == 404


def test_expect_100_continue(server, wire):
    connection = wire(server)
    body = b'{"code": "print(1)"}'
    headers = {"Content-Type": JSON, "Content-Length": len(body), "Expect": "100-continue"}
    connection.request("POST", "/execute", {"X-Service-API-Key": server.key, **headers})
    assert connection.reply().status == 100
    connection.send(body)
    assert connection.reply().status == 200
    connection.request("POST", "/execute", {"X-Service-API-Key": "wrong", **headers})
    assert connection.reply().status == 401  # at once, and nothing is asked to be sent
    assert connection.ended()


def test_head_is_get_without_the_body(server, wire):
    connection = wire(server)
    for path in ("/healthz", "/readyz", "/openapi.json", "/metrics"):
        connection.request("HEAD", path, {"X-Service-API-Key": server.key})
        reply = connection.reply(head=True)
        assert reply.status == 200 and int(reply.headers["content-length"]) > 0


def test_garbage_is_answered_or_cut_off_and_hurts_nobody(server, wire):
    for garbage in (b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"\0" * 1000, b"GET / HTTP/9.9\r\n\r\n", b"GET /healthz HTTP/1.1\r\n\r\n",
                    b"POST /execute HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n"):
        connection = wire(server)
        connection.send(garbage)
        connection.socket.shutdown(socket.SHUT_WR)
        while connection.fill():
            pass
        assert connection.buffer == b"" or connection.buffer.startswith(b"HTTP/1.1 4") or b" 505 " in connection.buffer
    assert server.get("/healthz").status == 200
