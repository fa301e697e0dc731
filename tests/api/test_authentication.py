"""Who may call, and what a key may use."""

import base64
import json

import pytest
from harness import config_key

WITHOUT_NODE = True

OPEN_PATHS = ["/", "/healthz", "/health", "/readyz", "/openapi.json"]
RUN = json.dumps({"code": "print(1)"})


def basic(user, key):
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{key}".encode()).decode()}


def ask(wire, server, headers, method="GET", path="/metrics", body=b""):
    connection = wire(server)
    if body:
        headers = {"Content-Type": "application/json", "Content-Length": len(body), **headers}
    connection.request(method, path, headers, body)
    return connection.reply()


def test_each_form_of_the_key(server, wire):
    for headers in ({"X-Service-API-Key": server.key}, {"x-service-api-key": server.key},
                    {"Authorization": f"Bearer {server.key}"}, {"authorization": f"bearer {server.key}"},
                    basic("any", server.key), basic("", server.key),
                    {"X-Service-API-Key": server.key, "Authorization": "Bearer of a proxy's own"},
                    {"X-Service-API-Key": f"{server.key} \t"}, {"Authorization": f"Bearer {server.key} "}):
        assert ask(wire, server, headers).status == 200, headers


def test_anything_else_is_401(server, wire):
    for headers in ({}, {"X-Service-API-Key": ""}, {"X-Service-API-Key": "wrong"}, {"X-Service-API-Key": server.key + "x"},
                    {"X-Service-API-Key": server.key[:-1]}, {"X-Service-API-Key": server.key.upper()},
                    {"Authorization": server.key}, {"Authorization": "Bearer"}, {"Authorization": "Bearer wrong"},
                    {"Authorization": f"Digest {server.key}"}, basic(server.key, ""), basic("any", "wrong"),
                    {"Authorization": "Basic !"}, {"X-Service-API-Key": "wrong", "Authorization": f"Bearer {server.key}"}):
        reply = ask(wire, server, headers)
        assert reply.status == 401, headers
        assert json.loads(reply.body) == {"error": "a valid API key is required: send it as X-Service-API-Key: KEY, as Authorization: Bearer KEY, "
                                                   "or as the password of HTTP Basic", "code": "unauthorized", "field": None}
        assert "Bearer" in reply.headers["www-authenticate"] and "Basic" in reply.headers["www-authenticate"]
        assert reply.headers["x-request-id"]


def test_the_key_is_asked_for_before_the_body_is_read(server, wire):
    connection = wire(server)
    connection.request("POST", "/execute", {"Content-Type": "application/json", "Content-Length": 10_000_000})
    assert connection.reply().status == 401  # although not a byte of the body was sent
    assert connection.ended()


def test_a_caller_without_a_key_who_goes_on_sending_gets_the_answer(server, wire):
    connection = wire(server)
    connection.request("POST", "/execute", {"Content-Type": "application/json", "Content-Length": 2_000_000})
    for _ in range(200):
        connection.send(b"x" * 10_000)
    assert connection.reply().status == 401


def test_what_needs_no_key(server, wire):
    for path in OPEN_PATHS:
        assert ask(wire, server, {}, path=path).status == 200
    for method, path in (("POST", "/execute"), ("GET", "/execute"), ("GET", "/metrics"), ("GET", "/nothing"),
                         ("GET", "/healthz/"), ("GET", "/healthz%2f")):
        assert ask(wire, server, {}, method, path).status == 401, path


def test_metrics_can_be_open(serve, wire):
    server = serve("metrics_open: true")
    assert ask(wire, server, {}).status == 200
    assert ask(wire, server, {}, "POST", "/execute").status == 401


def test_a_local_server_may_be_open(serve, wire):
    server = serve(SANDBOX_EXECUTOR_SERVICE_API_KEY="", SANDBOX_EXECUTOR_ENV="local")
    for headers in ({}, {"X-Service-API-Key": "any"}):
        reply = ask(wire, server, headers, "POST", "/execute", RUN.encode())
        assert reply.status == 200 and json.loads(reply.body)["stdout"] == "1\n"


def test_no_page_reaches_an_open_server(serve, wire):
    """A page of another host sends its Origin, or has its own name stand for our address."""
    server = serve(SANDBOX_EXECUTOR_SERVICE_API_KEY="", SANDBOX_EXECUTOR_ENV="local")
    paths = [("POST", "/execute"), ("POST", "/run-code"), ("POST", "/mcp"), ("DELETE", "/mcp"), ("GET", "/sessions"), ("DELETE", "/jobs/x"),
             ("GET", "/approvals"), ("GET", "/healthz"), ("GET", "/metrics"), ("GET", "/openapi.json"), ("GET", "/nothing"), ("PUT", "/execute")]

    def answer(method, path, host=f"127.0.0.1:{server.port}", *headers):
        connection = wire(server)
        body = RUN if method == "POST" else ""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
        connection.send("\r\n".join(lines) + "\r\n\r\n" + body)
        return connection.reply()

    for method, path in paths:
        for name, reply in (("Host", answer(method, path, "evil.example:80")), ("Host", answer(method, path, "localhost.evil.example")),
                            ("Origin", answer(method, path, "localhost", "Origin: http://evil.example")),
                            ("Origin", answer(method, path, "localhost", "Origin: null")),
                            ("Origin", answer(method, path, "localhost", "Origin: http://localhost", "Origin: http://evil.example"))):
            error = json.loads(reply.body)
            assert (reply.status, error["code"], error["field"]) == (403, "forbidden", name), (path, reply)
            assert error["error"].startswith(name + ": ") and reply.headers["x-request-id"]
    for host in ("localhost", f"localhost:{server.port}", "127.0.0.1", "[::1]:1"):
        for origin in ([], ["Origin: http://localhost:3000"], ["Origin: http://127.0.0.1"]):
            assert json.loads(answer("POST", "/execute", host, *origin).body)["stdout"] == "1\n"
    assert "path=/execute status=200" in server.log()


def test_with_a_key_anybody_may_come_from_anywhere(server, wire):
    connection = wire(server)
    connection.send(f"POST /execute HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\nX-Service-API-Key: {server.key}\r\n"
                    f"Content-Type: application/json\r\nContent-Length: {len(RUN)}\r\n\r\n{RUN}")
    assert connection.reply().status == 200


@pytest.mark.parametrize("environment", ["production", "staging"])
def test_no_other_server_starts_without_a_key(serve, environment):
    server = serve(ready=False, SANDBOX_EXECUTOR_SERVICE_API_KEY="", SANDBOX_EXECUTOR_ENV=environment)
    assert server.ended() != 0
    assert "key" in server.log().lower()


def test_the_key_may_come_from_a_file(serve, wire, tmp_path):
    (tmp_path / "key").write_text("from-a-file\n")
    named = {"SANDBOX_EXECUTOR_SERVICE_API_KEY_FILE": str(tmp_path / "key")}
    both = serve(ready=False, **named)
    assert both.ended() != 0  # one setting, two values
    server = serve(SANDBOX_EXECUTOR_SERVICE_API_KEY=None, **named)
    assert ask(wire, server, {"Authorization": "Bearer from-a-file"}).status == 200
    assert ask(wire, server, {"Authorization": f"Bearer {server.key}"}).status == 401


RUNTIMES = """
shipped_runtimes: false
runtime { name: "python" alias: "py" interpreter: "/usr/bin/python3.11" policy: "python" extension: "py" }
runtime { name: "locked" interpreter: "/usr/bin/python3.11" policy: "strict" extension: "py" }
"""


@pytest.fixture
def keyed(serve):
    return serve(RUNTIMES + config_key("py", "key-py", runtime=["py"]) + config_key("strict", "key-strict", policy=["strict"]) +
                 config_key("plain", "key-plain"))


def test_403_for_what_a_key_may_not_use(keyed, wire):
    def run(key, **fields):
        body = json.dumps({"code": "print(1)", **fields}).encode()
        return ask(wire, keyed, {"X-Service-API-Key": key}, "POST", "/execute", body)

    assert run("key-py").status == 200
    assert run("key-py", runtime="py").status == 200
    reply = run("key-py", runtime="locked")
    assert reply.status == 403
    assert json.loads(reply.body) == {"error": "this key may not use the runtime 'locked'", "code": "forbidden",
                                      "field": "runtime"}
    assert run("key-py", policy="strict").status == 403  # used by default only by a runtime that is not its own

    assert run("key-strict", policy="strict").status == 200
    assert run("key-strict", runtime="locked").status == 200
    reply = run("key-strict")
    assert reply.status == 403
    assert json.loads(reply.body) == {"error": "this key may not use the policy 'python'", "code": "forbidden",
                                      "field": "policy"}

    assert run("key-plain", policy="strict").status == 200
    assert run("key-plain", policy="no-such").status == 403  # and does not tell which there are
    assert run(keyed.key, policy="strict").status == 200  # the environment's key may use everything


def test_a_request_is_validated_before_what_it_may_use_is_looked_at(keyed, wire):
    body = json.dumps({"code": "print(1)", "runtime": "locked", "timeout_ms": -1}).encode()
    assert ask(wire, keyed, {"X-Service-API-Key": "key-py"}, "POST", "/execute", body).status == 400
