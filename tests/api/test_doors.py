"""Interfaces of others that are served where the configuration opens their doors: Piston's and Dify's."""

import base64
import json

import pytest
from harness import config_key, runtimes

WITHOUT_NODE = True


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    from harness import Server
    place = tmp_path_factory.mktemp("doors")
    (place / "config").write_text('door: ["piston", "dify"]\n' + runtimes())
    with Server(place / "log", SANDBOX_EXECUTOR_CONFIG=str(place / "config")) as server:
        yield server


def post(server, path, body, key=None):
    return server.request("POST", path, json.dumps(body), headers={"X-Service-API-Key": None, "X-API-Key": key or server.key})


def piston(server, code="print(6 * 7)", **fields):
    return post(server, "/api/v2/execute", {"language": "python", "version": "*", "files": [{"content": code}], **fields})


def dify(server, code="print(6 * 7)", **fields):
    return post(server, "/v1/sandbox/run", {"language": "python3", "code": code, "preload": "", "enable_network": True, **fields})


def test_closed_unless_it_is_opened(server, serve):
    for path in "/api/v2/execute", "/v1/sandbox/run":
        assert post(server, path, {}).status == 404
    assert server.get("/api/v2/runtimes").status == 404 and server.get("/v1/sandbox/dependencies").status == 404
    assert post(server, "/api/v2/execute", {}).json["error"] == "no such path"
    one = serve('door: "dify"\n')
    assert piston(one).status == 404 and dify(one).json["data"]["stdout"] == "42\n"
    refused = serve('door: "e2b"\n', ready=False)
    assert refused.ended() != 0 and 'door[0]: must be "piston", "dify" or "librechat", not "e2b"' in refused.log()


def test_keys_as_they_send_them(serve):
    server = serve('door: "piston"\n' + config_key("one", "first", policy="*"))
    assert piston(server).status == 200
    wrong = post(server, "/api/v2/execute", {}, key="wrong")
    assert wrong.status == 401 and "API key" in wrong.json["message"]


def test_no_page_elsewhere_may_ask(opened):
    """These take a body of any type, which a browser sends without asking first, with a password that it has kept."""
    for path, body in (("/api/v2/execute", {"language": "python", "version": "*", "files": [{"content": "1"}]}), ("/v1/sandbox/run", {"language": "python3", "code": "1"})):
        for origin, status in (("https://evil.example", 403), (None, 200)):
            reply = opened.request("POST", path, json.dumps(body), headers={"Content-Type": "text/plain", "Origin": origin})
            assert reply.status == status


# ---- Piston ----

def test_piston_lists_runtimes(opened):
    listed = opened.get("/api/v2/runtimes").json
    python, = [row for row in listed if row["language"] == "python"]
    assert set(python) == {"language", "version", "aliases"} and python["version"].startswith("3.") and "py" in python["aliases"]
    for version in python["version"], "*", "3.x", "3", python["version"].rpartition(".")[0] + ".*":
        assert piston(opened, version=version).status == 200, version
    for version in "2", "31", python["version"] + "1":
        reply = piston(opened, version=version)
        assert (reply.status, reply.json) == (400, {"message": f"python-{version} runtime is unknown"})


def test_piston_runs(opened):
    reply = piston(opened, "import sys; print(open('data/x').read(), open('file2').read(), input(), sys.argv[1:]); print(1, file=sys.stderr)",
                   files=[{"name": "main.py", "content": base64.b64encode("import sys; print(open('data/x').read(), open('file2').read(), input(), "
                                                                          "sys.argv[1:]); print(1, file=sys.stderr)".encode()).decode(), "encoding": "base64"},
                          {"name": "data/x", "content": "c3a9", "encoding": "hex"}, {"content": "two"}],
                   stdin="in", args=["1", "2"], run_timeout=3000, compile_timeout=10000, run_memory_limit=-1, compile_memory_limit=-1)
    run = reply.json.pop("run")
    assert reply.status == 200 and reply.json["language"] == "python" and reply.json["version"].startswith("3.")
    assert run["stdout"] == "é two in ['1', '2']\n" and run["stderr"] == "1\n" and sorted(run["output"]) == sorted(run["stdout"] + "1\n")
    assert [run[name] for name in ("code", "signal", "message", "status")] == [0, None, None, None] and run["wall_time"] >= 0


@pytest.mark.parametrize(("code", "fields", "expected"), [
    ("import sys; sys.exit(3)", {}, [3, None, "Exited with error status 3", "RE"]),
    ("while True: pass", {"run_timeout": 200}, [None, "SIGKILL", "Time limit exceeded", "TO"]),
    ("import os; os.kill(os.getpid(), 11)", {}, [None, "SIGSEGV", "Caught fatal signal 11", "SG"]),
])
def test_piston_tells_ends_apart(opened, code, fields, expected):
    run = piston(opened, code, **fields).json["run"]
    assert [run[name] for name in ("code", "signal", "message", "status")] == expected


@pytest.mark.parametrize(("fields", "message"), [
    ({"language": None}, "language is required as a string"),
    ({"version": None}, "version is required as a string"),
    ({"language": "brainfuck"}, "brainfuck-* runtime is unknown"),
    ({"files": []}, "files is required as an array with at least one element"),
    ({"files": [{"name": "x"}]}, "files[0].content is required as a string"),
    ({"files": [{"content": "1"}, {"content": "é", "encoding": "base64"}]}, "files[1].content is not what its encoding says"),
    ({"files": [{"content": "ff", "encoding": "hex"}]}, "files[0].content is not UTF-8 text"),
    ({"files": [{"content": "1"}, {"content": "abc", "encoding": "hex"}]}, "files[1].content is not what its encoding says"),
    ({"files": [{"content": "1"}, {"name": "../x", "content": "2"}]}, "files[0].name: must not hold .. "),
    ({"run_memory_limit": 2**60}, "limits.memory_bytes"),
])
def test_piston_refuses_in_its_own_words(opened, fields, message):
    reply = piston(opened, **fields)
    assert reply.status == 400 and set(reply.json) == {"message"} and reply.json["message"].startswith(message[:20])


# ---- Dify ----

def test_dify_runs(opened):
    assert dify(opened).json == {"code": 0, "message": "success", "data": {"stdout": "42\n", "error": ""}}
    assert dify(opened, "print(x)", preload="x = 5").json["data"]["stdout"] == "5\n"
    assert "ZeroDivisionError" in dify(opened, "1/0").json["data"]["error"]
    assert dify(opened, "import sys; sys.exit(3)").json["data"]["error"] == "The program ended with exit code 3."
    assert opened.get("/v1/sandbox/dependencies?language=python3").json == {"code": 0, "message": "success", "data": {"dependencies": []}}


def test_dify_refuses_in_its_own_words(opened):
    for fields, message in (({"language": "perl"}, "unsupported runtime: perl"), ({"language": ""}, "language is required"), ({"code": ""}, "code is required")):
        reply = dify(opened, **fields)
        assert reply.status == 400 and reply.json["code"] == -400 and reply.json["data"] is None and reply.json["message"].startswith(message)
