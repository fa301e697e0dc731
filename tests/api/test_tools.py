"""What programs find among the builtins: results and tool calls, over the bridge. Every test runs where jobs start an
interpreter of their own and where they are forked from a template."""

import base64
import hmac
import json
import multiprocessing
import os
import re
import ssl
import subprocess
import threading
import time

import pytest

import harness
from callback_server import CallbackServer, QuickServer
from harness import BUILD, ROOT, WARM, Server, closed_port, config_key, until_begun, wait_for

SHIPPED = (ROOT / "config/server.textproto").read_text()
DOWN = closed_port()
WHO = "import os\nprint(open('/proc/self/cmdline').read().split(chr(0))[2])"


TEMPLATE = (BUILD / "immure-python.so").exists() and WARM != "off"  # not under the sanitizers


@pytest.fixture(scope="module", params=["own interpreter", "from a template"] if TEMPLATE else ["own interpreter"])
def tools(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("tools")
    config = SHIPPED if request.param == "from a template" else re.sub(r"\s*(template|warm_jails):.*", "", SHIPPED)
    path = place / "server.textproto"
    path.write_text(config)
    with CallbackServer({}) as callbacks, Server(place / "log", SANDBOX_EXECUTOR_CONFIG=str(path), SANDBOX_EXECUTOR_CALLBACK_URLS=(
            f"http://127.0.0.1:{callbacks.port}/tools,http://127.0.0.1:{DOWN}")) as server:
        server.callbacks = callbacks
        if request.param == "from a template":
            wait_for(lambda: server.execute(WHO)["stdout"] == "/proc/self/fd/9\n", "a job from a template")
        yield server
        assert "event=front_denied" not in server.log()  # confined, it has all that it needs


def run(server, code, **fields):
    verdict = server.execute(code, **fields)
    assert verdict["status"] == "success", verdict
    return verdict


def last_line(verdict):
    return verdict["stderr"].splitlines()[-1]


# ---- Results ----

@pytest.mark.parametrize("value", ["None", "True", "0", "-1.5", "2 ** 200", "'text'", "'\\0\\n\\u2028\\\\'", "[1, [2, []]]",
                                   "{'a': {'b': None}, 'é': '🙂'}", "(1, 2)", "{1: 'one', None: 2}"])
def test_result_is_json_text(tools, value):
    verdict = run(tools, f"set_result({value})")
    expected = json.loads(json.dumps(eval(value)))
    assert json.loads(verdict["output"]) == expected
    assert (verdict["stdout"], verdict["stderr"]) == ("", "")


def test_no_result(tools):
    assert run(tools, "print('{\"op\":\"result\",\"id\":1,\"data\":1}')")["output"] == ""


def test_last_result_counts_and_survives(tools):
    verdict = tools.execute("set_result(1)\nset_result({'two': 2})\nraise ValueError('later')")
    assert (verdict["output"], verdict["exit_code"], last_line(verdict)) == ('{"two": 2}', 1, "ValueError: later")
    verdict = tools.execute("import os, signal\nset_result(3)\nos.kill(os.getpid(), signal.SIGKILL)")
    assert (verdict["output"], verdict["signal"]) == ("3", "SIGKILL")
    verdict, _ = until_begun(tools.execute, "import time\nset_result(4)\nprint('set', flush=True)\ntime.sleep(60)")
    assert (verdict["output"], verdict["status"]) == ("4", "timeout")


DEEP = "deep = lambda n, wrap=lambda a: [a]: __import__('functools').reduce(lambda a, _: wrap(a), range(n), 'leaf')"


@pytest.mark.parametrize("value", ["deep(512)", "deep(511, lambda a: {'a': a})", "[deep(511), ['['] * 1000]",
                                   "[['[{\\\\\"]' * 10, '\\\\' * 3, {'{': '{'}] for _ in range(1000)]"])
def test_deep_results(tools, value):
    """As many levels as a value may have; and brackets that are none."""
    verdict = run(tools, f"import json\n{DEEP}\nset_result({value})\nprint(json.dumps({value}))")
    assert verdict["output"] + "\n" == verdict["stdout"]


def test_the_bridge_survives_what_is_too_deep(tools):
    verdict = call(tools, DEEP + """
for wrong in (lambda: set_result(deep(520)), lambda: call_tool("t", {"a": deep(512)}), lambda: call_tools_parallel([("t", {"a": deep(9000)})])):
    try: wrong()
    except ValueError as e: print(e)
set_result(call_tool("t", {"a": deep(511)}))
""", {"t": {"data": "7"}})
    assert verdict["stdout"].splitlines() == [
        "set_result: a value of more than 512 levels", "call_tool: a value of more than 512 levels",
        "call_tools_parallel: a value may have 512 levels, this one has more than the recursion limit allows"]
    assert verdict["output"] == "7" and len(tools.callbacks.requests) == 1


@pytest.mark.parametrize("value, error", [
    ("object()", "TypeError: Object of type object is not JSON serializable"),
    ("{(1, 2): 3}", "TypeError: keys must be str, int, float, bool or None, not tuple"),
    ("float('nan')", "ValueError: Out of range float values are not JSON compliant"),
    ("'\\ud800'", "UnicodeEncodeError: "),
    ("'x' * 5000000", "ValueError: set_result: the result is larger than 4194304 bytes"),
    ("(lambda x: x.append(x) or x)([])", "ValueError: Circular reference detected"),
    ("deep(513)", "ValueError: set_result: a value of more than 512 levels"),
    ("deep(640, lambda a: {'[': a})", "ValueError: set_result: a value of more than 512 levels"),
    ("deep(100000)", "ValueError: set_result: a value may have 512 levels, this one has more than the recursion limit allows"),
    ("1, files=['a', object()]", "TypeError: "),
    ("1, files=['x' * 70000]", "RuntimeError: set_result: files must be paths, of 64 KiB in all"),
])
def test_what_cannot_be_a_result(tools, value, error):
    verdict = tools.execute(f"set_result('kept'); {DEEP}\nset_result({value})")
    assert last_line(verdict).startswith(error)
    assert verdict["output"] == '"kept"'
    assert verdict["stderr"].splitlines()[1].startswith('  File "/immure/main.py", line 2, in <module>')


def test_result_with_files(tools):
    verdict = run(tools, """if True:
        import os, pathlib
        os.mkdir('sub'); os.symlink('/etc/passwd', 'link'); os.symlink('a.txt', 'link.txt')
        open('a.txt', 'w').write('content')
        pathlib.Path('sub/[b].csv').write_text('1,2')
        open('/tmp/outside', 'w').write('not returned')
        os.chdir('sub')
        set_result(1, files=['../a.txt', pathlib.Path('[b].csv'), b'missing', '/workspace/link', '../link.txt', '/tmp/outside',
                             '../../etc/passwd', '/workspace', ''])
    """)
    assert {file["name"]: (file["mime"], base64.b64decode(file["data"])) for file in verdict["files"]} == {
        "a.txt": ("text/plain", b"content"), "[b].csv": ("text/csv", b"1,2")}


def test_files_of_the_last_result(tools):
    make = "for name in 'abc': open(name, 'w').write(name)\n"
    verdict = run(tools, make + "set_result(1, files=['a', 'b'])\nset_result(2, 'c')", outputs=["b"])
    assert [file["name"] for file in verdict["files"]] == ["b", "c"]
    assert run(tools, make + "set_result(1, files=['a'])\nset_result(2)")["files"] == []


def test_file_that_is_written_last(tools):
    """The file is named before it is there, and written in the program's last moment."""
    verdict = run(tools, "import atexit\nset_result(1, files=['late'])\natexit.register(lambda: open('late', 'w').write('x'))")
    assert [file["name"] for file in verdict["files"]] == ["late"]


# ---- The functions ----

def test_functions_are_there_and_shadow_nothing(tools):
    verdict = run(tools, """if True:
        import builtins, inspect, pickle, sys
        for function in call_tool, call_tools_parallel, set_result, install_package:
            assert getattr(builtins, function.__name__) is function and len(inspect.getdoc(function)) > 100
            assert pickle.loads(pickle.dumps(function)) is function
            print(f'{function.__name__}{inspect.signature(function)}')
        print(sorted(globals()))
        def set_result(): return 'my own'
        print(set_result(), sys.argv)
    """)
    assert verdict["stdout"].splitlines() == [
        "call_tool(name, args=None)", "call_tools_parallel(calls)", "set_result(data, files=None)", "install_package(name)",
        "['__annotations__', '__builtins__', '__cached__', '__doc__', '__file__', '__loader__', '__name__', '__package__', "
        "'__spec__', 'builtins', 'function', 'inspect', 'pickle', 'sys']", "my own ['/immure/main.py']"]


def test_line_numbers_and_future(tools):
    verdict = tools.execute("'doc'\nfrom __future__ import annotations\ndef f(x: missing): return x\n\nprint(f(1), __doc__)\n1/0")
    assert verdict["stdout"] == "1 doc\n"
    assert '"/immure/main.py", line 6' in verdict["stderr"]


def test_modules_of_the_programs_own(tools):
    """What the library calls json, re or os is not the program's, and the other way round."""
    files = [{"name": f"{name}.py", "content": f"raise SystemExit('{name} of the program')"}
             for name in ("json", "re", "struct", "socket", "select", "threading", "immure", "prelude")]
    assert run(tools, "set_result({'a': [1]})", files=files)["output"] == '{"a": [1]}'


# ---- Programs that do as they like with processes and descriptors ----

@pytest.mark.parametrize("code", [
    "import os\nif os.fork() == 0: set_result(2)\nos.wait()",
    "import multiprocessing\np = multiprocessing.Process(target=set_result, args=(2,))\np.start(); p.join()",
    "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'set_result(2)'])",
    "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'set_result(2)'], close_fds=False)",
])
def test_other_processes_have_no_bridge(tools, code):
    verdict = tools.execute(f"set_result(1)\nif __name__ == '__main__':\n    " + code.replace("\n", "\n    "))
    assert "set_result: only the program's first process can do this, not one that it has started" in verdict["stderr"]
    assert verdict["output"] == "1"


def test_descriptors_are_not_inherited(tools):
    # ls has its own for the directory.
    assert run(tools, "import os\nos.execv('/bin/ls', ['ls', '/proc/self/fd'])")["stdout"].split() == ["0", "1", "2", "3"]


@pytest.mark.parametrize("before", ["", "set_result(1)\n"])
def test_closed_descriptors(tools, before):
    verdict = tools.execute(before + "import os\nos.closerange(0, 1024)\ntry: set_result(2)\nexcept RuntimeError as e: os._exit(7)")
    assert (verdict["exit_code"], verdict["output"]) == (7, "1" if before else "")


def test_descriptors_that_are_something_else_by_now(tools):
    verdict = tools.execute("import os\nos.closerange(3, 1024)\nos.pipe()\ntry: set_result(2)\nexcept RuntimeError as e: print(e)")
    assert verdict["stdout"] == "set_result: the bridge's descriptors are closed\n"


def test_under_a_policy_without_sockets(tools):
    verdict = run(tools, "set_result([1])", policy="strict")
    assert (verdict["output"], verdict["denied_syscalls"]) == ("[1]", [])


# ---- Tool calls ----

def call(tools, code, answers, **fields):
    tools.callbacks.tools, tools.callbacks.requests = answers, []
    return tools.execute(code, callback_url=tools.callbacks.url, **fields)


def test_wire(tools):
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    tools.callbacks.tools, tools.callbacks.requests = {"say": {"data": ""}}, []
    reply = tools.request("POST", "/execute", json.dumps({
        "code": "call_tool('say', {'text': 'é\\0', 'n': 2 ** 70, 'x': [1.5, None]})\ncall_tool('say')",
        "callback_url": tools.callbacks.url + "?a=b", "execution_id": "caller-7"}), headers={"traceparent": parent, "X-Request-Id": "r-1"})
    assert reply.json["status"] == "success", reply.json
    (path, headers, first), (_, _, second) = tools.callbacks.requests
    assert first == {"execution_id": "caller-7", "name": "say", "args": {"text": "é\0", "n": 2 ** 70, "x": [1.5, None]}}
    assert second == {"execution_id": "caller-7", "name": "say", "args": {}}
    assert path == "/tools/call?a=b"
    assert (headers["Content-Type"], headers["traceparent"], headers["X-Request-Id"]) == ("application/json", parent, "r-1")
    assert headers["Authorization"] is None and headers["Cookie"] is None


@pytest.mark.parametrize("answer, value", [
    ({"data": "plain text"}, "plain text"), ({"data": "{\"a\": [1, null]}"}, {"a": [1, None]}), ({"data": " 42\n"}, 42),
    ({"data": "NaN"}, "NaN"), ({"data": "[1] x"}, "[1] x"), ({"data": "\"text\""}, "text"), ({"data": ""}, ""), ({}, ""),
    ({"data": None}, ""), ({"data": "x", "error": ""}, "x"), ({"data": "", "error": ""}, ""),
    ({"data": None, "error": None}, ""), ({"data": "x", "error": None, "more": {"data": 1}}, "x"),
    ({"data": "\0\u2028🙂\\"}, "\0\u2028🙂\\"), ({"data": "x" * 1000000}, "x" * 1000000),
    ((201, {}, b'{"data": "1"}'), 1), ((200, {}, b'{"dat\\u0061": "x"}'), "x"),
])
def test_answers(tools, answer, value):
    assert json.loads(call(tools, "set_result(call_tool('tool'))", {"tool": answer})["output"]) == value


HUGE = b'{"data": "' + b"x" * (5 << 20) + b'"}'


@pytest.mark.parametrize("answer, error", [
    ({"error": "no \"such\" thing\n\0é"}, "Tool 'a b' failed: no \"such\" thing\n\0é"),
    ({"error": "why", "data": "ignored"}, "Tool 'a b' failed: why"),
    ({"error": ""}, "Tool 'a b' failed: no reason was given"), ({"error": "", "data": None}, "Tool 'a b' failed: no reason was given"),
    ((500, {}, b"boom"), "Tool 'a b': HTTP 500: boom"),
    ((404, {}, b""), "Tool 'a b': HTTP 404: "),
    ((403, {}, "né\xff".encode("latin-1") + b"x" * 9000), "Tool 'a b': HTTP 403: n\ufffd\ufffd" + "x" * 4093),
    ((302, {"Location": "http://127.0.0.1:1/"}, b"moved"), "Tool 'a b': HTTP 302: moved"),
    ((200, {}, b"not json"), "Tool 'a b': request failed: the answer is not a JSON object"),
    ((200, {}, b'["data"]'), "Tool 'a b': request failed: the answer is not a JSON object"),
    ((200, {}, b'{"data": "1", "data": "2"}'), "Tool 'a b': request failed: the answer is not a JSON object"),
    ((200, {}, b'{"data": "\xff"}'), "Tool 'a b': request failed: the answer is not a JSON object"),
    ((200, {}, b""), "Tool 'a b': request failed: the answer is not a JSON object"),
    ({"data": 5}, "Tool 'a b': request failed: the answer's `data` or `error` is not a text"),
    ((200, {}, HUGE), "Tool 'a b': request failed: the answer is too large"),
    ((200, {"Content-Length": "50", "Connection": "close"}, b'{"data": "cut'), "Tool 'a b': request failed: "),
])
def test_failures(tools, answer, error):
    code = "try: call_tool('a b')\nexcept RuntimeError as e: set_result(str(e))"
    assert json.loads(call(tools, code, {"a b": answer}, timeout_ms=20000)["output"]).startswith(error)


def test_a_call_is_made_once(tools):
    """Also where it goes out on a connection of calls before it, one of several, and that is closed without an answer."""
    code = """if True:
        import threading
        threads = [threading.Thread(target=call_tool, args=('wait',)) for _ in range(6)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        try: call_tool('end')
        except RuntimeError as e: print(e)
    """
    together = threading.Barrier(6)
    verdict = call(tools, code, {"wait": lambda: together.wait(60) is not None and {"data": ""}, "end": None})
    assert verdict["stdout"].startswith("Tool 'end': request failed: Server returned nothing"), verdict
    assert [body["name"] for _, _, body in tools.callbacks.requests].count("end") == 1


def test_failure_is_a_runtime_error(tools):
    verdict = call(tools, "def f():\n    call_tool('x')\nf()", {"x": {"error": "why"}})
    assert (verdict["exit_code"], last_line(verdict)) == (1, "RuntimeError: Tool 'x' failed: why")
    lines = verdict["stderr"].splitlines()
    assert lines[1:5] == ['  File "/immure/main.py", line 3, in <module>', "    f()", '  File "/immure/main.py", line 2, in f',
                          "    call_tool('x')"]


def test_server_that_is_down(tools):
    verdict = tools.execute("call_tool('x')", callback_url=f"http://127.0.0.1:{DOWN}/")
    assert re.match(r"RuntimeError: Tool 'x': request failed: .*connect", last_line(verdict))


def test_no_callback_url(tools):
    for fields in {}, {"callback_url": ""}:
        verdict = tools.execute("call_tool('x')", **fields)
        assert last_line(verdict) == "RuntimeError: call_tool: no callback URL configured"


@pytest.mark.parametrize("name", ["execute_code", "execute_plan", "Execute_Code", "EXECUTE_PLAN", "execute-code", "executeCode", "execute code", "_execute_code",
                                  "execute_code\u200b", "\u00a0execute_code", "execute_code.", "/execute_plan/"])
def test_a_job_cannot_start_a_job(tools, name):
    verdict = call(tools, f"call_tool({ascii(name)}, {{'code': '1'}})", {})
    assert last_line(verdict) == f"RuntimeError: Tool '{name}' failed: a job cannot start a job"
    assert tools.callbacks.requests == []


@pytest.mark.parametrize("name", [" x", "x ", " execute_code", "x\r\n", "execute_code\r\n", "\tx", "a\nb", "x\x7f", "x\x85", " "])
def test_what_is_no_name_of_a_tool(tools, name):
    verdict = call(tools, f"call_tool({ascii(name)})", {})
    assert last_line(verdict) == "RuntimeError: call_tool: a tool's name has no control characters, and no blanks at its ends"
    assert tools.callbacks.requests == []


def test_arguments_with_a_key_twice(tools):
    """An agent that takes the first of two keys and a check that takes the last would read two calls."""
    verdict = call(tools, r"""import os
try: call_tool('x', {1: 'a', '1': 'b'})
except RuntimeError as e: print(e)
def raw(args):
    frame = b'{"op":"call","id":77,"name":"x","args":' + args + b'}'
    os.write(4, len(frame).to_bytes(4, 'big') + frame)
    print(os.read(3, int.from_bytes(os.read(3, 4), 'big')).decode())
raw(b'{"path":"/a","pa\u0074h":"/b"}')
raw(b'{"x":[{"path":1,"y":{},"path":1}]}')
call_tool('x', {'path': ['é"', {'path': 1.50}, 2 ** 70]})""", {"x": {"data": "1"}})
    why = "call_tool: the arguments have the same key twice"
    assert verdict["stdout"].splitlines() == [why] + ['{"op":"answer","id":77,"error":"' + why + '"}'] * 2, verdict
    assert [body["args"] for _, _, body in tools.callbacks.requests] == [{"path": ['é"', {"path": 1.5}, 2 ** 70]}]


@pytest.mark.parametrize("arguments, error", [
    ("7", "TypeError: call_tool: the tool's name must be a str, not int"), ("'x', [1]", "TypeError: call_tool: args must be a dict, not list"),
    ("'x', {'a': object()}", "TypeError: Object of type object is not JSON serializable"),
    ("''", "RuntimeError: call_tool: that is no name of a tool"), ("'a\\0b'", "RuntimeError: call_tool: that is no name of a tool"),
    ("'x' * 1000", "RuntimeError: call_tool: that is no name of a tool"),
    ("'x', {'a': 'y' * (9 << 20)}", "ValueError: call_tool: the arguments are larger than 8388608 bytes"),
])
def test_wrong_arguments(tools, arguments, error):
    verdict = call(tools, f"call_tool({arguments})", {})
    assert last_line(verdict) == error
    assert tools.callbacks.requests == []


@pytest.mark.parametrize("url, why", [
    ("http://127.0.0.1:1/tools", "this server's configuration does not allow calls to it"),
    ("http://127.0.0.1:{port}/toolsx", "this server's configuration does not allow calls to it"),
    ("https://127.0.0.1:{port}/tools", "this server's configuration does not allow calls to it"),
    ("http://localhost:{port}/tools", "this server's configuration does not allow calls to it"),
    ("http://127.0.0.1:{port}/tools/../x", "has a path with"), ("http://127.0.0.1:{port}/tools/%2E%2e/x", "has a path with"),
    ("http://127.0.0.1:{port}/tools%2fx", "has a path with"), ("http://127.0.0.1:{port}/tools\\..\\x", "holds a character"),
    ("http://u:p@127.0.0.1:{port}/tools", "must not hold a user name"), ("http://127.0.0.1:{port}@evil/tools", "must not hold a user name"),
    ("file:///etc/passwd", "must begin with http"), ("http://127.1:{port}/tools", "four numbers"),
    ("http://2130706433:{port}/tools", "four numbers"), ("http://127.0.0.1:{port}/tools#x", "holds a character"), ("x", "must begin with http"),
])
def test_urls_that_are_not_allowed(tools, url, why):
    reply = tools.request("POST", "/execute", json.dumps({"code": "1", "callback_url": url.format(port=tools.callbacks.port)}))
    assert (reply.status, reply.json["field"], reply.json["code"]) == (400, "callback_url", "invalid_field")
    assert reply.json["error"].startswith("callback_url: ") and why in reply.json["error"]


# ---- Several at once ----

def test_parallel_calls_keep_order(tools):
    barrier = threading.Barrier(4)

    def meet(n):
        barrier.wait(60)  # all four are there at once
        return {"data": str(n)}
    verdict = call(tools, "set_result(call_tools_parallel([('meet', {'n': n}) for n in range(4)] + [('one',), 'one', ['one', None]]))",
                   {"meet": meet, "one": {"data": "1"}})
    assert verdict["output"] == "[0, 1, 2, 3, 1, 1, 1]"
    assert run(tools, "set_result(call_tools_parallel([]))")["output"] == "[]"


def test_more_parallel_calls_than_may_be_under_way(tools):
    verdict = call(tools, "set_result(sum(call_tools_parallel([('n', {'n': n}) for n in range(200)])))", {"n": lambda n: {"data": str(n)}})
    assert verdict["output"] == "19900"


def test_first_error_is_raised_when_all_have_ended(tools):
    ended = []

    def slow(n):
        time.sleep(0.3)
        ended.append(n)
        return {"error": f"slow {n}"}
    verdict = call(tools, "call_tools_parallel([('ok',), ('slow', {'n': 1}), ('quick',), ('slow', {'n': 2})])",
                   {"ok": {"data": ""}, "slow": slow, "quick": {"error": "quick"}})
    assert last_line(verdict) == "RuntimeError: Tool 'slow' failed: slow 1"
    assert sorted(ended) == [1, 2]


def test_threads_and_asyncio(tools):
    verdict = call(tools, """if True:
        import asyncio, threading
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(lambda n: call_tool('n', {'n': n}), range(300)))
        async def main():
            return await asyncio.gather(*(asyncio.to_thread(call_tool, 'n', {'n': n}) for n in range(40)))
        assert answers == list(range(300)) and asyncio.run(main()) == list(range(40))
        set_result(threading.active_count())
    """, {"n": lambda n: {"data": str(n)}}, timeout_ms=40000)
    assert verdict["output"] == "1", verdict


def test_first_calls_at_the_same_moment(tools):
    verdict = call(tools, """if True:
        import sys, threading
        sys.setswitchinterval(1e-6)
        start, answers = threading.Barrier(20), []
        def one(n):
            start.wait()
            answers.append(call_tool('n', {'n': n}))
        threads = [threading.Thread(target=one, args=(n,)) for n in range(20)]
        for each in threads: each.start()
        for each in threads: each.join()
        set_result(sorted(answers))
    """, {"n": lambda n: {"data": str(n)}}, timeout_ms=40000)
    assert verdict["output"] == str(list(range(20))), verdict


def test_signal_handlers_in_the_middle(tools):
    """A handler that raises interrupts a call and nothing else; one that calls a tool itself is told why not."""
    verdict = call(tools, """if True:
        import signal
        class Late(Exception): pass
        def late(*_):
            global rung
            rung = True
            raise Late
        signal.signal(signal.SIGALRM, late)
        interrupted = swallowed = 0
        for n in range(150):
            rung = False # the timer has run out before, where another thread takes the signal
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0004 + n % 20 * 0.0001)
                while not rung: assert call_tool('n', {'n': n}) == n
                swallowed += 1 # it was raised in a callback of the interpreter's, which only reports it
            except Late: interrupted += 1
        def nested(*_):
            global why
            try: call_tool('n', {'n': 0})
            except RuntimeError as e: why = str(e)
        signal.signal(signal.SIGALRM, nested)
        why = None
        while why is None: # on a busy machine the signal may come before the call
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            assert call_tool('wait') == 'waited'
        set_result([interrupted > 100, interrupted + swallowed, call_tool('n', {'n': 7}), why])
    """, {"n": lambda n: {"data": str(n)}, "wait": lambda: time.sleep(0.6) or {"data": "waited"}}, timeout_ms=40000)
    assert verdict["status"] == "success", verdict
    assert json.loads(verdict["output"]) == [True, 150, 7, "call_tool: called by a signal handler that interrupted another call"], verdict


def test_fork_while_tools_are_called(tools):
    verdict = call(tools, """if True:
        import os, threading
        def calls():
            for n in range(200): assert call_tool('n', {'n': n}) == n
        threads = [threading.Thread(target=calls) for _ in range(3)]
        for thread in threads: thread.start()
        said = set()
        for _ in range(20):
            read, write = os.pipe()
            if os.fork() == 0:
                try: call_tool('n', {'n': 1})
                except RuntimeError as e: os.write(write, str(e).encode())
                os._exit(0)
            os.close(write); said.add(os.read(read, 1000)); os.close(read); os.wait()
        for thread in threads: thread.join()
        set_result([text.decode() for text in said])
    """, {"n": lambda n: {"data": str(n)}}, timeout_ms=40000)
    assert json.loads(verdict["output"]) == ["call_tool: only the program's first process can do this, not one that it has started"], verdict
    assert verdict["status"] == "success"


# ---- Time and ends ----

def test_call_that_takes_longer_than_the_job(tools):
    gone, entered = threading.Event(), threading.Event()

    def hang():
        entered.set()
        gone.wait(30)
        return {"data": ""}
    for timeout_ms in (3000, 20000):  # on a busy machine it may need longer until it calls
        verdict = call(tools, "set_result('before')\ncall_tool('hang')", {"hang": hang}, timeout_ms=timeout_ms)
        if entered.is_set():
            break
    gone.set()
    assert entered.is_set()
    assert (verdict["status"], verdict["output"]) == ("timeout", '"before"')
    wait_for(lambda: "outcome=cancelled" in tools.log(), "the call's end in the audit trail")


def test_program_that_does_not_wait_for_its_call(tools):
    call(tools, "call_tool('n')", {"n": {"data": ""}})  # there are figures from the first call on
    before = tools.metric("immure_tool_calls_total")
    entered, gone = threading.Event(), threading.Event()
    verdict = call(tools, "import threading, os\nthreading.Thread(target=call_tool, args=('slow',)).start()\ncall_tool('entered')\nos._exit(3)",
                   {"slow": lambda: entered.set() or gone.wait(60) and {"data": ""}, "entered": lambda: entered.wait(60) and {"data": ""}})
    gone.set()
    assert (verdict["status"], verdict["exit_code"]) == ("execution_error", 3)
    assert tools.metric("immure_tool_calls_total") == before + 2
    assert run(tools, "set_result(1)")["output"] == "1"


def test_timeout_of_one_call(serve):
    gone = threading.Event()
    with CallbackServer({"slow": lambda: gone.wait(60) and {"data": ""}, "quick": {"data": "1"}}) as callbacks:
        server = serve(config=f'callback {{ url: "{callbacks.url}" }} tool_timeout_ms: 4000')
        verdict = server.execute("try: call_tool('slow')\nexcept RuntimeError as e: print(e)\nprint(call_tool('quick'))", callback_url=callbacks.url)
    assert verdict["stdout"] == "Tool 'slow': request failed: timed out\n1\n"
    gone.set()


def test_counted_and_audited(tools):
    verdict = call(tools, "call_tool('good', {'secret': 'S3CRET'})\ntry: call_tool('bad')\nexcept RuntimeError: pass",
                   {"good": {"data": "D4TA"}, "bad": (500, {}, b"")}, execution_id="audited-1")
    assert verdict["status"] == "success"
    lines = [line for line in tools.log().splitlines() if "event=tool_call" in line and "execution_id=audited-1" in line]
    assert [re.search(r"tool=(\w+) outcome=(\w+) http_status=(\d+) duration_ms=[\d.e+-]+$", line).groups() for line in lines] == [
        ("good", "success", "200"), ("bad", "http_error", "500")]
    assert "key=default" in lines[0] and "S3CRET" not in tools.log() and "D4TA" not in tools.log()
    assert re.search(r'^immure_tool_calls_total{outcome="http_error"} [1-9]', tools.get("/metrics").body.decode(), re.M)


def test_connections_are_kept(tools):
    tools.callbacks.connections = set()
    call(tools, "for n in range(50): call_tool('n', {'n': n})", {"n": lambda n: {"data": str(n)}})
    assert len(tools.callbacks.requests) == 50 and len(tools.callbacks.connections) <= 2


# ---- Who misbehaves hurts nobody else ----

FRAME = "import os, struct, json\ndef frame(text): os.write(4, struct.pack('>I', len(text)) + text.encode())\n"


@pytest.mark.parametrize("bytes, why", [
    ("b'GET / HTTP/1.1\\r\\n\\r\\n'", "a frame that is empty or too large"), ("bytes(4)", "a frame that is empty or too large"),
    ("b'\\0\\0\\0\\2[]'", "a frame that is not JSON"), ("b'\\0\\0\\0\\2{}'", "a frame without a number"),
    ("b'\\0\\0\\0\\x13{\"id\":1,\"op\":\"run\"} '", "a frame of an unknown kind"),
])
def test_broken_frames(tools, bytes, why):
    verdict = call(tools, f"import os\nset_result(1)\nos.write(4, {bytes})\ntry: call_tool('x')\nexcept RuntimeError as e: print(e)", {"x": {"data": ""}})
    assert verdict["stdout"] == f"call_tool: the bridge is closed: {why}\n"
    assert (verdict["status"], verdict["output"]) == ("success", "1")


def test_answers_for_other_numbers(tools):
    """A program may use the same number twice, or one of another job's: it gets its own answers and nothing else."""
    entered, go = threading.Event(), threading.Event()
    tools.callbacks.tools = {"wait": lambda: entered.set() or go.wait(60) and {"data": "mine"}, "n": {"data": "theirs"}}
    other = threading.Thread(target=lambda: results.append(tools.execute("set_result(call_tool('wait'))", callback_url=tools.callbacks.url)))
    results = []
    other.start()
    assert entered.wait(60)
    code = FRAME + """os.read(3, 4096)
for id in 1, 1, 2:
    frame(json.dumps({'op': 'call', 'id': id, 'name': 'n', 'args': {}}))
frame(json.dumps({'op': 'answer', 'id': 1, 'data': 'forged'}))
data = b''
while chunk := os.read(3, 4096): data += chunk
print(data.count(b'theirs') <= 3, b'mine' in data, data[-52:])
"""
    verdict = tools.execute(code, callback_url=tools.callbacks.url)
    go.set()
    other.join()
    assert verdict["stdout"] == "True False b'{\"op\":\"closed\",\"error\":\"a frame of an unknown kind\"}'\n", verdict
    assert results[0]["output"] == '"mine"'


@pytest.mark.parametrize("flood", [
    "while True: frame('{\"op\":\"call\",\"id\":1,\"name\":\"n\",\"args\":{}}')",
    "while True: frame('{\"op\":\"result\",\"id\":1,\"data\":[' + '1,' * 100000 + '1]}')",
    "while True: os.write(4, struct.pack('>I', 1 << 22) + bytes(65536))",
    "while True: os.write(4, b'\\0\\0\\0\\x30' + b'{')",
])
def test_floods(tools, flood):
    """While it lasts, another job gets what it asks for."""
    tools.callbacks.tools = {"n": {"data": "1"}}
    verdicts = []
    flooder = threading.Thread(target=lambda: verdicts.append(tools.execute(FRAME + "set_result('before')\n" + flood, timeout_ms=2500,
                                                                            callback_url=tools.callbacks.url)))
    flooder.start()
    for _ in range(5):
        assert tools.execute("set_result(call_tool('n'))", callback_url=tools.callbacks.url)["output"] == "1"
    flooder.join()
    assert verdicts[0]["status"] in ("timeout", "execution_error"), verdicts


def test_limits_of_a_job(serve):
    with CallbackServer({"n": {"data": "1"}}) as callbacks:
        server = serve(config=f'callback {{ url: "{callbacks.url}" }} max_tool_calls: 3 max_tool_bytes: 20000 max_result_bytes: 10 '
                              'max_tool_frame_bytes: 4096')
        verdict = server.execute("for n in range(5):\n  try: print(call_tool('n'))\n  except RuntimeError as e: print(e)", callback_url=callbacks.url)
        assert verdict["stdout"] == "1\n" * 3 + "call_tool: this job has called as many tools as it may\n" * 2
        verdict = server.execute("set_result('x' * 9)")
        assert last_line(verdict) == "ValueError: set_result: the result is larger than 10 bytes"
        verdict = server.execute("call_tool('n', {'a': 'x' * 4096})", callback_url=callbacks.url)
        assert last_line(verdict) == "ValueError: call_tool: the arguments are larger than 4096 bytes"
        verdict = server.execute("while True:\n  try: call_tool('n', {'a': 'x' * 3000})\n  except RuntimeError as e:\n    if 'closed' in str(e): raise",
                                 callback_url=callbacks.url)
        assert last_line(verdict) == "RuntimeError: call_tool: the bridge is closed: more bytes than a job may send"
        assert "event=bridge_closed" in server.log()


def test_no_network_while_tools_are_called(tools):
    verdict = call(tools, """if True:
        import os, socket
        call_tool('n')
        def attempt(function, *arguments):
            try: return function(*arguments)
            except OSError as error: return error.errno
        def connect(host):
            with socket.socket() as s: return s.connect((host, %d))
        def lines(name): return [line.split()[0] for line in open('/proc/self/net/' + name)]
        set_result([attempt(connect, '127.0.0.1'), attempt(connect, '192.0.2.1'), attempt(socket.getaddrinfo, 'name.example', 80),
                    lines('dev')[2:], lines('route')[1:], attempt(open, '/etc/resolv.conf')])
    """ % tools.callbacks.port, {"n": {"data": "1"}})
    # ENETUNREACH, even for the loopback, which is down; EAI_NONAME; ENOENT
    assert json.loads(verdict["output"]) == [101, 101, -2, ["lo:"], [], 2], verdict


# ---- Node ----

node = pytest.mark.skipif(not os.path.exists("/usr/bin/node"), reason="there is no node here")


@node
def test_node(tools):
    code = """
        const add = await callTool('add', {a: 1, b: 2})
        const all = await callToolsParallel([['add', {a: 1, b: 1}], ['add', {a: 2, b: 2}]])
        let message
        try { await callTool('bad') } catch (e) { message = e.message }
        require('fs').writeFileSync('out.txt', 'x')
        console.log('printed')
        setResult({add, all, message}, ['out.txt'])
        process.exit(0)
    """
    verdict = call(tools, code, {"add": lambda a, b: {"data": str(a + b)}, "bad": {"error": "why"}}, runtime="node")
    assert (verdict["status"], verdict["stdout"], verdict["stderr"]) == ("success", "printed\n", ""), verdict
    assert json.loads(verdict["output"]) == {"add": 3, "all": [2, 4], "message": "Tool 'bad' failed: why"}
    assert [file["name"] for file in verdict["files"]] == ["out.txt"]


@node
@pytest.mark.parametrize("code, error", [
    ("await callTool('x')", "Error: call_tool: no callback URL configured"), ("setResult(undefined)", "TypeError: setResult: undefined cannot be JSON"),
    ("require('fs').closeSync(4); setResult(1)", "Error: setResult: the bridge's descriptors are closed"),
])
def test_node_errors(tools, code, error):
    verdict = tools.execute(code, runtime="node")
    assert verdict["exit_code"] == 1 and error in verdict["stderr"], verdict


@node
def test_node_result_survives(tools):
    verdict = tools.execute("setResult(1); setResult([2]); throw new Error('later')", runtime="node")
    assert (verdict["output"], verdict["exit_code"]) == ("[2]", 1)


# ---- Which servers are called ----

def test_none_are_allowed_by_default(serve):
    with CallbackServer({}) as callbacks:
        server = serve()
        reply = server.request("POST", "/execute", json.dumps({"code": "1", "callback_url": callbacks.url}))
        assert (reply.status, reply.json["field"]) == (400, "callback_url")


def test_local_environment_allows_addresses_in_numbers_and_localhost(serve):
    with CallbackServer({"n": {"data": "1"}}) as callbacks:
        server = serve(SANDBOX_EXECUTOR_ENV="test")
        for url in callbacks.url, f"http://localhost:{callbacks.port}/", f"http://LOCALHOST:{callbacks.port}":
            assert server.execute("set_result(call_tool('n'))", callback_url=url)["output"] == "1"
        reply = server.request("POST", "/execute", json.dumps({"code": "1", "callback_url": "http://some.name/"}))
        assert (reply.status, reply.json["field"]) == (400, "callback_url")


def test_proxies_of_the_environment_are_not_used(serve):
    with CallbackServer({"n": {"data": "1"}}) as callbacks:
        server = serve(SANDBOX_EXECUTOR_CALLBACK_URLS=callbacks.url, http_proxy=f"http://127.0.0.1:{DOWN}", all_proxy=f"http://127.0.0.1:{DOWN}")
        assert server.execute("set_result(call_tool('n'))", callback_url=callbacks.url)["output"] == "1"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A certificate for 127.0.0.1 that vouches for itself, and its key."""
    place = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", "/CN=callbacks", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", place / "key", "-out", place / "cert"],
                   check=True, capture_output=True)
    for path in place, place.parent, place / "cert":
        path.chmod(0o755 if path.is_dir() else 0o644)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place / "cert", place / "key")
    return place / "cert", context


def test_tls_is_verified(serve, certificates):
    cert, context = certificates
    with CallbackServer({"n": {"data": "1"}}, tls=context) as callbacks:
        entry = f'callback {{ url: "{callbacks.url}" }}'
        verdict = serve(config=entry).execute("call_tool('n')", callback_url=callbacks.url)
        assert re.match("RuntimeError: Tool 'n': request failed: .*(certificate|CA cert|SSL)", last_line(verdict))
        assert callbacks.requests == []
        if open_to_all(cert):
            server = serve(config=entry + f'callback_ca_file: "{cert}"')
            assert server.execute("set_result([call_tool('n'), call_tool('n')])", callback_url=callbacks.url)["output"] == "[1, 1]"


def open_to_all(path):
    """The front has an uid of its own."""
    return all(parent.stat().st_mode & 0o001 for parent in path.parents)


def test_bad_configuration_is_named(serve):
    server = serve(config='callback { url: "http://example.com/a/../b" }', ready=False)
    assert server.ended() != 0
    assert 'callback[0].url: "http://example.com/a/../b" has a path with' in server.log()


# ---- Speed ----

def quick_server(urls, ended):
    with QuickServer() as server:
        urls.put(server.url)
        ended.wait()


def test_calls_per_second(serve):
    """1,000 calls one after the other; on a quiet machine it is more than 8,000 a second. Whatever waits is seen on a busy one."""
    urls, ended = multiprocessing.Queue(), multiprocessing.Event()
    process = multiprocessing.Process(target=quick_server, args=(urls, ended))
    process.start()
    try:
        url = urls.get(timeout=60)
        server = serve(config=f'callback {{ url: "{url}" }} log_level: WARNING audit_log: "/dev/null"')
        code = ("import time\ncall_tool('x')\nbegin = time.perf_counter()\nfor n in range(1000): assert call_tool('x', {'n': n}) == 42\n"
                "set_result(1000 / (time.perf_counter() - begin))")
        least = 1000 if (BUILD / "immure-python.so").exists() else 300  # sanitizers take most of the time
        seen = []
        while len(seen) < 30 and max(seen, default=0) < least:
            seen.append(float(server.execute(code, callback_url=url)["output"]))
        assert max(seen) >= least, seen
    finally:
        ended.set()
        process.join()


def test_calls_are_signed_with_the_keys_secret(serve):
    with CallbackServer({"x": {"data": "1"}}) as callbacks:
        server = serve(config_key("signing", "first", policy="*").replace(" }", ' callback_secret: "of at least sixteen" }') +
                       config_key("plain", "second", policy="*") + f'callback {{ url: "{callbacks.url}" }}\n')
        for key in "first", "second":
            assert harness.call(server, "POST", "/execute", {"code": "call_tool('x', {'é': 1})", "callback_url": callbacks.url}, key).json["status"] == "success"
        (_, signed, _), (_, plain, _) = callbacks.requests
        expected = hmac.new(b"of at least sixteen", callbacks.bodies[0], "sha256").hexdigest()
        assert signed["X-Immure-Signature"] == "sha256=" + expected and "X-Immure-Signature" not in plain
        assert "sixteen" not in server.log()


def test_a_call_is_signed_with_the_secret_of_the_moment(serve, tmp_path):
    """The words of a key become others while its job goes on."""
    keys = tmp_path / "keys"

    def write(secret):
        fresh = tmp_path / "fresh"
        fresh.write_text(config_key("signing", "first", policy="*").replace(" }", f' callback_secret: "{secret}" }}'))
        fresh.rename(keys)

    def first():
        write("the second secret")
        wait_for(lambda: "event=keys_taken" in server.log(), "other words of the key")
        return {"data": "1"}
    write("of at least sixteen")
    with CallbackServer({"first": first, "second": {"data": "1"}}) as callbacks:
        server = serve(f'key_file: "{keys}"\ncallback {{ url: "{callbacks.url}" }}\n')
        body = {"code": "call_tool('first'); call_tool('second')", "callback_url": callbacks.url, "timeout": 50}
        assert harness.call(server, "POST", "/execute", body, "first").json["status"] == "success"
        expected = hmac.new(b"the second secret", callbacks.bodies[1], "sha256").hexdigest()
        assert callbacks.requests[1][1]["X-Immure-Signature"] == "sha256=" + expected
