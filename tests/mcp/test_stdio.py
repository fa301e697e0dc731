"""`immure mcp`: lines in, lines out."""

import json
import os
import signal
import subprocess
import time

import pytest
from conftest import IMMURE
from harness import Server, children, wait_for

PING = {"jsonrpc": "2.0", "id": "p", "method": "ping"}


def call(code, id=1, **more):
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "execute_code", "arguments": {"language": "python", "code": code, **more}}}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("stdio") / "log", immure=IMMURE) as started:
        yield started


class Relay:
    def __init__(self, *options, **environment):
        self.process = subprocess.Popen([IMMURE, "mcp", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env=dict(os.environ, **environment), text=True)

    def say(self, *messages):
        for message in messages:
            self.process.stdin.write((message if isinstance(message, str) else json.dumps(message)) + "\n")
        self.process.stdin.flush()

    def hear(self):
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        rest = self.process.stdout.read()
        return self.process.wait(60), rest, self.process.stderr.read()


@pytest.fixture
def relay(server):
    started = Relay("--connect", f"127.0.0.1:{server.port}", SANDBOX_EXECUTOR_SERVICE_API_KEY=server.key)
    yield started
    if started.process.poll() is None:
        started.process.kill()
    started.process.wait()
    for pipe in (started.process.stdin, started.process.stdout, started.process.stderr):
        pipe.close()


def test_answers_come_as_they_are_ready(relay):
    slow = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('slow')"
    relay.say(call(slow, id="slow", session_id="turns"), call("print('quick')", id="quick"), PING)
    answers = [relay.hear() for _ in range(2)]
    assert {answer["id"] for answer in answers} == {"quick", "p"}
    relay.say(call("open('go', 'w')", id="go", session_id="turns"))
    answers = {answer["id"]: answer for answer in (relay.hear(), relay.hear())}
    assert answers.keys() == {"slow", "go"} and answers["slow"]["result"]["content"][0]["text"] == "slow\n"
    assert relay.end() == (0, "", "")


def test_what_has_been_asked_is_answered_after_the_end_of_input(relay):
    relay.say(call("import time; time.sleep(0.5); print('last')"))
    code, rest, _ = relay.end()
    assert code == 0 and json.loads(rest)["result"]["content"][0]["text"] == "last\n"


def test_the_last_line_needs_no_line_feed(relay):
    relay.process.stdin.write(json.dumps(PING))
    code, rest, _ = relay.end()
    assert code == 0 and json.loads(rest)["id"] == "p"


def test_what_is_no_message(relay):
    relay.say("junk", "", "[]", '{"jsonrpc":"2.0","id":5}', {"jsonrpc": "2.0", "method": "notifications/initialized"}, PING)
    answers = [relay.hear() for _ in range(4)]
    assert [answer.get("error", {}).get("code") for answer in answers] == [-32700, -32600, -32600, None]
    assert answers[2]["id"] == 5 and answers[3]["id"] == "p"


META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


def stateless(method, id=1, version="2026-07-28", **params):
    meta = {**META, "io.modelcontextprotocol/protocolVersion": version}
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": meta}}


def test_the_revision_without_initialize(relay):
    relay.say(stateless("server/discover"))
    assert relay.hear()["result"]["supportedVersions"] == ["2026-07-28"]
    relay.say(stateless("tools/call", 2, name="execute_code", arguments={"language": "python", "code": "print('modern')"}))
    answer = relay.hear()
    assert answer["result"]["resultType"] == "complete" and answer["result"]["content"][0]["text"] == "modern\n"
    relay.say(call("print('as ever')", id=3))  # and any other one beside it
    answer = relay.hear()
    assert "resultType" not in answer["result"] and answer["result"]["content"][0]["text"] == "as ever\n"
    assert relay.end() == (0, "", "")


@pytest.mark.parametrize("asked, code", [
    (stateless("ping"), -32601), (stateless("server/discover", version="1900-01-01"), -32022), (stateless("tools/call", name="\u00fc\r\nX: y"), -32602),
    (stateless("tools/list\r\nX: y"), -32601), (stateless("tools/list", version="1\r\nX: y"), -32020), (stateless("tools/list", version=7), -32602),
    ({"jsonrpc": "2.0", "id": 1, "method": "server/discover"}, -32601)])
def test_errors_of_that_revision(relay, asked, code):
    relay.say(asked)
    answer = relay.hear()
    assert answer["id"] == 1 and answer["error"]["code"] == code, answer
    assert relay.end() == (0, "", "")


@pytest.mark.parametrize("with_progress", [True, False])
def test_cancel(relay, server, with_progress):
    message = call("while True: pass", id=7)
    if with_progress:
        message["params"]["_meta"] = {"progressToken": "x"}
    # Right behind the call, before it can have reached anybody, it holds as well.
    relay.say(message, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}, PING)
    assert relay.hear()["id"] == "p"
    wait_for(lambda: server.metric("immure_jobs_running") == 0, "the job's end")
    assert relay.end() == (0, "", "")


def test_a_client_that_dies_takes_its_calls_along(relay, server):
    relay.say(call("while True: pass"))
    wait_for(lambda: server.metric("immure_jobs_running") == 1, "the job's start")
    relay.process.send_signal(signal.SIGTERM)
    assert relay.process.wait(60) == 0
    wait_for(lambda: server.metric("immure_jobs_running") == 0, "the job's end")


@pytest.mark.parametrize("environment, says", [({"SANDBOX_EXECUTOR_SERVICE_API_KEY": "wrong"}, "401"), ({"SANDBOX_EXECUTOR_SERVICE_API_KEY": ""}, "401")])
def test_a_wrong_key(server, environment, says):
    relay = Relay("--connect", f"127.0.0.1:{server.port}", **environment)
    relay.say(PING)
    answer = relay.hear()
    assert answer["id"] == "p" and answer["error"]["code"] == -32603 and says in answer["error"]["message"]
    assert relay.end()[0] == 0


def test_nobody_there(tmp_path):
    relay = Relay("--connect", f"unix:{tmp_path}/none", SANDBOX_EXECUTOR_SERVICE_API_KEY="k")
    relay.say(PING)
    assert "cannot connect" in relay.hear()["error"]["message"]
    assert relay.end()[0] == 0


def own(*options, **environment):
    return Relay(*options, SANDBOX_EXECUTOR_CGROUP=os.environ.get("IMMURE_TEST_CGROUP", "BEST_EFFORT"), **environment)


@pytest.mark.parametrize("how", ["input", signal.SIGTERM, signal.SIGKILL])
def test_a_server_of_its_own_ends_with_it(how, tmp_path):
    relay = own(XDG_RUNTIME_DIR=str(tmp_path) if len(str(tmp_path)) < 40 else "/tmp")
    relay.say(call("print('mine')"))
    assert relay.hear()["result"]["content"][0]["text"] == "mine\n"
    child, = children(relay.process.pid)
    if how == "input":
        assert relay.end()[0] == 0
    else:
        relay.process.send_signal(how)
        relay.process.communicate()
        assert relay.process.returncode == (0 if how == signal.SIGTERM else -9)
    wait_for(lambda: not os.path.exists(f"/proc/{child}"), "the server's end")


def test_a_server_that_dies_is_told(tmp_path):
    relay = own()
    relay.say(PING)
    assert relay.hear()["id"] == "p"
    child, = children(relay.process.pid)
    os.kill(child, signal.SIGKILL)
    assert relay.process.wait(60) == 1
    assert "the server has ended" in relay.process.communicate()[1]


@pytest.mark.parametrize("options, environment, code, says", [
    (["--config", "/no/such/file"], {}, 1, "the server did not start"), (["x"], {}, 2, "takes no arguments"),
    (["--connect", "nonsense"], {}, 1, "HOST:PORT"), (["--connect", "h:1", "--config", "x"], {}, 2, "has its own"),
    (["--connect", "h:1"], {"SANDBOX_EXECUTOR_SERVICE_API_KEY": "a\r\nb"}, 1, "SANDBOX_EXECUTOR_SERVICE_API_KEY"), (["--help"], {}, 0, "")])
def test_command_line(options, environment, code, says):
    before = time.monotonic()
    relay = own(*options, **environment)
    ended, _, said = relay.end()
    assert ended == code and says in said and time.monotonic() - before < 60
