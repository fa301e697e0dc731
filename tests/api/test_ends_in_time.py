"""Jobs with a callback URL: their callers give up in the second that they asked for, and are to have the reply by then."""

import http.client
import json
import time

from harness import closed_port

WITHOUT_NODE = True

URL = f"http://127.0.0.1:{closed_port()}/tools"
ENDLESS = "print('begun', flush=True)\nwhile True: pass"


def ask(server, patience_s, **fields):
    """-> the reply, of a caller that waits no longer than that for the whole of it"""
    until = time.monotonic() + patience_s
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=patience_s)
    try:
        connection.request("POST", "/execute", json.dumps({"code": ENDLESS, **fields}),
                           {"X-Service-API-Key": server.key, "Content-Type": "application/json"})
        connection.sock.settimeout(until - time.monotonic())
        return json.load(connection.getresponse())
    finally:
        connection.close()


def test_the_verdict_is_there_when_the_caller_gives_up(serve):
    """Half a second of margin, so that a busy machine does not fail it."""
    server = serve("callback_margin_ms: 500", SANDBOX_EXECUTOR_CALLBACK_URLS=URL)
    for fields in ({"timeout": 5}, {"timeout_ms": 5000}):
        reply = ask(server, 5, callback_url=URL, **fields)
        assert (reply["status"], reply["exit_code"], reply["killed"], reply["stdout"]) == ("timeout", -1, True, "begun\n")
        assert reply["error_message"] == "Execution timed out after 5 seconds." and reply["error"] == "execution timed out after 5s"
        assert reply["limits"]["timeout_ms"] == 5000 and reply["duration_ms"] >= 4500


def test_nobody_else_gets_less(serve):
    server = serve("callback_margin_ms: 500", SANDBOX_EXECUTOR_CALLBACK_URLS=URL)
    assert server.execute(ENDLESS, timeout_ms=1000)["duration_ms"] >= 1000
    short = server.execute(ENDLESS, timeout_ms=1000, callback_url=URL)
    assert short["duration_ms"] >= 900  # a tenth at most
    assert short["error_message"] == "Execution timed out after 1 seconds."
