"""`calls`: "stream": tool calls and functions that the caller answers over connections of its own. It listens nowhere."""

import json
import shutil
import signal

import pytest
from harness import call, config_key, runtimes, wait_for
from run_code import decode, encode
from test_streaming import Events

node = pytest.mark.skipif(not shutil.which("node"), reason="no Node")
GONE = "no call with this id waits: it was answered, or has ended"


def answer(server, execution_id, *answers, key=None):
    return call(server, "POST", f"/executions/{execution_id}/answers", list(answers), key)


@pytest.fixture
def start(server, wire):
    def start(code, execution_id, to=None, **fields):
        events = Events(wire(to or server), to or server, code, calls="stream", execution_id=execution_id, **fields)
        assert events.head() == 200, events.wire.buffer
        return events
    return start


def next_call(events):
    event, data = events.next()
    assert event == "call", (event, data)
    return data


def reply_of(events):
    event, reply = events.rest()[-1]
    assert event == "result", reply
    return reply


def test_a_call_is_told_and_answered(server, start):
    events = start("set_result(call_tool('add', {'a': 40, 'b': [2, None, 'é\\n']}))", "told")
    told = next_call(events)
    assert set(told) == {"id", "name", "args"} and (told["name"], told["args"]) == ("add", {"a": 40, "b": [2, None, "é\n"]})
    reply = answer(server, "told", {"id": told["id"], "data": '"4\\u00e9"'})
    assert (reply.status, reply.json) == (200, {"answered": 1, "refused": []})
    assert json.loads(reply_of(events)["output"]) == "4é"


def test_an_error_is_the_tools(server, start):
    events = start("call_tool('x')", "failing")
    answer(server, "failing", {"id": next_call(events)["id"], "error": "because \"of\" it\n"})
    assert reply_of(events)["stderr"].endswith("RuntimeError: Tool 'x' failed: because \"of\" it\n\n")


def test_calls_at_once_are_answered_in_any_order(server, start):
    events = start("set_result(call_tools_parallel([('t', {'n': n}) for n in range(16)]))", "parallel")
    told = [next_call(events) for _ in range(16)]
    assert [one["args"]["n"] for one in told] == list(range(16)) and len({one["id"] for one in told}) == 16
    reply = answer(server, "parallel", *({"id": one["id"], "data": str(one["args"]["n"])} for one in reversed(told)))
    assert reply.json == {"answered": 16, "refused": []}
    assert json.loads(reply_of(events)["output"]) == list(range(16))


def test_a_thousand_calls_after_another(server, start):
    events = start("for n in range(1000): assert call_tool('t', {'n': n}) == n", "thousand", timeout=60)
    for number in range(1000):
        assert answer(server, "thousand", {"id": next_call(events)["id"], "data": str(number)}).status == 200
    assert reply_of(events)["status"] == "success"


def test_what_no_caller_hears_of_is_refused_as_ever(server, start):
    events = start("for name in ' x', 'Execute-Code':\n    try: call_tool(name)\n    except RuntimeError as e: print(e)", "refused")
    assert reply_of(events)["stdout"] == ("call_tool: a tool's name has no control characters, and no blanks at its ends\n"
                                          "Tool 'Execute-Code' failed: a job cannot start a job\n")


def test_answers_that_nobody_waits_for(server, start):
    """Twice, another job's, unknown: each is told, and those beside it are taken."""
    events, other = (start("call_tool('a'); call_tool('b')", name) for name in ("first", "second"))
    one, its = next_call(events)["id"], next_call(other)["id"]
    reply = answer(server, "first", {"id": its, "data": "1"}, {"id": one, "data": "1"}, {"id": one, "data": "2"}, {"id": "x\"", "error": ""})
    assert (reply.status, reply.json) == (200, {"answered": 1, "refused": [{"id": name, "error": GONE} for name in (its, one, 'x"')]})
    again = answer(server, "first", {"id": one, "data": "1"})
    assert (again.status, again.json["code"]) == (409, "conflict") and next_call(events)["name"] == "b"
    assert answer(server, "nobody", {"id": one, "data": "1"}).status == 404
    for stream in events, other:
        stream.wire.close()
    wait_for(lambda: answer(server, "second", {"id": its, "data": "1"}).status == 404, "the jobs have ended")


def test_another_keys_answers(serve, wire):
    config = config_key("one", "first", policy="*") + config_key("two", "second", policy="*")
    server = serve(config + "max_concurrent_jobs: 2\n")
    server.key = "first"
    events = Events(wire(server), server, "call_tool('x')", calls="stream", execution_id="mine")
    assert events.head() == 200
    told = next_call(events)
    assert answer(server, "mine", {"id": told["id"], "data": "1"}, key="second").status == 404
    assert answer(server, "mine", {"id": told["id"], "data": "1"}, key="unknown").status == 401
    assert answer(server, "mine", {"id": told["id"], "data": "1"}, key="first").json["answered"] == 1
    assert reply_of(events)["status"] == "success"


@pytest.mark.parametrize(("body", "field", "text"), [
    ({}, None, "the body must be an array of answers, not an object"),
    ([1], "[0]", "[0]: must be an object"),
    ([{"id": "1", "data": "x"}, {"data": "x"}], "[1].id", "[1].id: is required: the `id` of the call"),
    ([{"id": 1, "data": "x"}], "[0].id", "[0].id: must be a string"),
    ([{"id": "1", "data": {}}], "[0].data", "[0].data: must be a string"),
    ([{"id": "1"}], "[0]", "[0]: must have either `data` or `error`"),
    ([{"id": "1", "data": "", "error": ""}], "[0]", "[0]: must have either `data` or `error`"),
    ([{"id": "1", "result": ""}], "[0].result", "[0].result: unknown field"),
    ([{"id": "1", "data": ""}] * 1025, None, "the body must have at most 1024 answers, not 1025"),
])
def test_answers_that_are_none(server, body, field, text):
    reply = call(server, "POST", "/executions/x/answers", body)
    assert (reply.status, reply.json["field"]) == (400, field) and reply.json["error"].startswith(text)


@pytest.mark.parametrize(("fields", "text"), [
    ({"calls": "events"}, "calls: must be \"callback\" or \"stream\""),
    ({"calls": "stream", "callback_url": "http://127.0.0.1:1/"}, "calls: \"stream\" goes without `callback_url`"),
    ({"calls": "stream"}, "calls: \"stream\" needs a reply that is a stream"),
])
def test_wrong_calls(serve, fields, text):
    server = serve("", SANDBOX_EXECUTOR_CALLBACK_URLS="http://127.0.0.1:1/")
    for path, name in (("/execute", "code"), ("/run-code", "source")):
        reply = call(server, "POST", path, {name: "1", **fields})
        if reply.status != 404:  # no Node here
            assert (reply.status, reply.json["field"]) == (400, "calls") and reply.json["error"].startswith(text)


def test_a_job_without_a_stream_lists_what_waits(server):
    """Its caller asks for it from time to time, behind whatever keeps streams from it."""
    accepted = call(server, "POST", "/execute?wait=false", {
        "code": "set_result(call_tools_parallel([('first', {}), ('second', {'x': 1})]))", "calls": "stream", "execution_id": "asked"})
    assert accepted.status == 202
    path = accepted.headers["Location"]
    wait_for(lambda: len(server.get(path).json.get("calls", [])) == 2, "both calls")
    calls = server.get(path).json["calls"]
    assert [(one["name"], one["args"]) for one in calls] == [("first", {}), ("second", {"x": 1})]
    assert answer(server, "asked", {"id": calls[1]["id"], "data": "2"}).status == 200
    assert server.get(path).json["calls"] == calls[:1]
    assert answer(server, "asked", {"id": calls[0]["id"], "data": "1"}).status == 200
    wait_for(lambda: server.get(path).json["status"] != "running", "the job's end")
    job = server.get(path).json
    assert json.loads(job["reply"]["output"]) == [1, 2] and "calls" not in job


def test_nobody_answers(serve, wire):
    server = serve("tool_timeout_ms: 200")
    events = Events(wire(server), server, "try: call_tool('x')\nexcept RuntimeError as e: print(e)", calls="stream", execution_id="late")
    assert events.head() == 200
    told = next_call(events)
    assert reply_of(events)["stdout"] == "Tool 'x': request failed: no answer came in time\n"
    assert answer(server, "late", {"id": told["id"], "data": "1"}).status == 404
    assert server.metric("immure_tool_calls_total") == 1 and "outcome=request_failed" in server.log()


def test_the_deadline_ends_calls(serve, wire):
    """They are cancelled, counted and audited as those to a callback URL."""
    server = serve("")
    events = Events(wire(server), server, "call_tool('x')", calls="stream", timeout_ms=300)
    assert events.head() == 200
    next_call(events)
    assert reply_of(events)["status"] == "timeout"
    assert server.metric("immure_tool_calls_total") == 1 and "outcome=cancelled" in server.log()


# ---- /run-code ----

def run_code(events, server, execution_id, functions):
    """-> the reply; calls are answered by `functions`, reports counted."""
    reports = []
    while (block := events.next()) is not None:
        event, data = block
        if event == "call":
            value = functions[data["name"]](*(decode(argument) for argument in data["args"]))
            assert answer(server, execution_id, {"id": data["id"], "data": json.dumps(encode(value, functions))}).status == 200
        elif event == "result":
            return data, reports
        else:
            reports.append(data)


@node
def test_functions_of_a_run(server, start):
    functions = {}
    options = {"globals": {"add": encode(lambda a, b: a + b, functions)}, "imports": {"tools": {"twice": encode(lambda text: text * 2, functions)}}}
    events = start("import {twice} from 'tools'\nexport default async () => [await add(1, 2), await twice('ab')]", "run", path="/run-code",
                   options=options)
    reply, _ = run_code(events, server, "run", functions)
    assert (reply["status"], reply["result"]) == ("success", [3, "abab"])


# ---- Across a reload ----

def test_a_job_of_the_front_before_is_answered_and_terminated(serve, wire, tmp_path):
    """Requests come to the new front, the job goes on in the one that it replaced."""
    config = tmp_path / "config"
    config.write_text("idle_timeout_ms: 60000\n" + runtimes())
    server = serve(SANDBOX_EXECUTOR_CONFIG=str(config))
    events = Events(wire(server), server, "print(call_tool('x'))", calls="stream", execution_id="before")
    assert events.head() == 200
    told = next_call(events)
    endless = None
    if shutil.which("node"):
        endless = Events(wire(server), server, "await forever()", calls="stream", execution_id="endless", path="/run-code", options={
            "globals": {"forever": {"$type": "function", "id": "f"}}})
        assert endless.head() == 200 and next_call(endless)["name"] == "f"
    config.write_text("idle_timeout_ms: 50000\n" + runtimes())
    server.process.send_signal(signal.SIGHUP)
    server.reloaded()
    assert answer(server, "before", {"id": "0", "data": "1"}).status == 409
    assert answer(server, "nobody", {"id": told["id"], "data": "1"}).status == 404
    reply = answer(server, "before", {"id": told["id"], "data": "é"}, {"id": "0", "data": ""})
    assert (reply.status, reply.json) == (200, {"answered": 1, "refused": [{"id": "0", "error": GONE}]})
    assert reply_of(events)["stdout"] == "é\n"
    if endless:
        assert server.request("POST", "/run-code/endless/terminate", json.dumps({"reason": "enough"})).status == 204
        assert reply_of(endless)["error"]["message"] == "enough"
    assert server.request("POST", "/run-code/nobody/terminate").status == 204


def reload(server, config, text):
    config.write_text(text + runtimes())
    server.process.send_signal(signal.SIGHUP)
    server.reloaded()


def test_a_job_without_a_stream_goes_on_across_a_reload(serve, tmp_path):
    config = tmp_path / "config"
    config.write_text("idle_timeout_ms: 60000\n" + runtimes())
    server = serve(SANDBOX_EXECUTOR_CONFIG=str(config))
    job = call(server, "POST", "/execute?wait=false", {"code": "print(call_tool('x', {'n': 1}))", "calls": "stream", "execution_id": "kept"}).json
    path = f"/jobs/{job['job_id']}"
    wait_for(lambda: server.get(path).json.get("calls"), "the call")
    reload(server, config, "idle_timeout_ms: 50000\n")
    listed, = server.get(path).json["calls"]
    assert (listed["name"], listed["args"]) == ("x", {"n": 1})
    assert answer(server, "kept", {"id": listed["id"], "data": "x" * (1 << 20)}).status == 413
    assert answer(server, "kept", {"id": listed["id"], "data": "é"}).status == 200
    wait_for(lambda: server.get(path).json["status"] == "success", "the end")
    assert server.get(path).json["reply"]["stdout"] == "é\n"


@node
def test_a_run_that_waits_for_a_slot_is_terminated_across_a_reload(serve, wire, tmp_path):
    config = tmp_path / "config"
    config.write_text("max_concurrent_jobs: 1 idle_timeout_ms: 60000\n" + runtimes())
    server = serve(SANDBOX_EXECUTOR_CONFIG=str(config))
    busy = Events(wire(server), server, "call_tool('x')", calls="stream", execution_id="busy", timeout_ms=60000)
    assert busy.head() == 200 and next_call(busy)
    waiting = wire(server)
    body = json.dumps({"source": "export default 1", "execution_id": "waiting", "queue_ms": 30000}).encode()
    waiting.request("POST", "/run-code", {"X-Service-API-Key": server.key, "Content-Type": "application/json", "Content-Length": len(body)}, body)
    wait_for(lambda: server.metric("immure_jobs_queued") == 1, "the run in the queue")
    reload(server, config, "max_concurrent_jobs: 1 idle_timeout_ms: 50000\n")
    assert server.request("POST", "/run-code/waiting/terminate", json.dumps({"reason": "enough"})).status == 204
    ended = json.loads(waiting.reply().body)
    assert (ended["status"], ended["error"]["message"]) == ("terminated", "enough")


def test_another_secret_under_the_same_name_is_another_key(serve, wire, tmp_path):
    config = tmp_path / "config"
    config.write_text(config_key("one", "first", policy="*") + "idle_timeout_ms: 60000\n" + runtimes())
    server = serve(SANDBOX_EXECUTOR_CONFIG=str(config))
    server.key = "first"
    events = Events(wire(server), server, "call_tool('x')", calls="stream", execution_id="mine", timeout_ms=20000)
    assert events.head() == 200
    told = next_call(events)
    reload(server, config, config_key("one", "second", policy="*") + "idle_timeout_ms: 50000\n")
    assert answer(server, "mine", {"id": told["id"], "data": "1"}, key="second").status == 404
    assert answer(server, "mine", {"id": told["id"], "data": "1"}, key="first").status == 401


def test_an_answer_may_be_so_large(serve, wire):
    server = serve("max_tool_answer_bytes: 1024")
    events = Events(wire(server), server, "n = len(call_tool('x'))\ntry: call_tool('x')\nexcept RuntimeError as e: print(n, e)", calls="stream", execution_id="large")
    assert events.head() == 200
    assert answer(server, "large", {"id": next_call(events)["id"], "data": "x" * 1024}).status == 200
    assert answer(server, "large", {"id": next_call(events)["id"], "data": "x" * 1025}).status == 200
    assert reply_of(events)["stdout"] == "1024 Tool 'x': request failed: the answer is too large\n"
