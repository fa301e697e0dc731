"""Sessions whose interpreter lives on between their jobs (`state: KERNEL` in a policy)."""

import concurrent.futures
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from callback_server import CallbackServer
from conftest import IMMURE
from harness import Server, call, config_key, runtimes, shipped_policy, until_begun, wait_for

WITHOUT_NODE = True

ROOT = Path(__file__).resolve().parent.parent.parent
KEYS = config_key("alice", "alice-key", policy="*") + config_key("bob", "bob-key", policy="*")
# Long enough for an interrupted program to be heard on a busy machine; what is not to survive waits for nothing.
PATIENT = 'environment: "test" kernel_interrupt_grace_ms: 60000\n' + KEYS


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    path = tmp_path_factory.mktemp("kernels")
    (path / "server.textproto").write_text(PATIENT + runtimes())
    with Server(path / "log", immure=IMMURE, SANDBOX_EXECUTOR_CONFIG=str(path / "server.textproto")) as server:
        yield server


@pytest.fixture
def session(kernels, request):
    """session(code, **fields) -> the verdict of a call in a kernel of the test's own"""
    name = re.sub(r"\W", "-", request.node.name)
    yield lambda code, **fields: ask(kernels, code, session_id=name, **fields)
    assert call(kernels, "DELETE", f"/workspace/{name}").status == 204


def post(server, code, key=None, **fields):
    return call(server, "POST", "/execute", {"code": code, "policy": "python-kernel", **fields}, key)


def ask(server, code, **fields):
    reply = post(server, code, **fields)
    assert reply.status == 200, reply.body
    return reply.json


def out(verdict, kernel="kept"):
    assert (verdict["status"], verdict["kernel"]) == ("success", kernel), verdict
    return verdict["stdout"]


def fate(verdict):
    return verdict["status"], verdict["kernel"]


# ---- What lives on ----

def test_a_hundred_calls(session):
    out(session("import json as j, os\nos.mkdir('d'); os.chdir('d')\nlog = open('log', 'w+')\nn, all = 0, []"), "new")
    for n in range(1, 101):
        assert out(session(f"n += 1; all.append(n); print(j.dumps([n, sum(all), os.getcwd()])); print({n}, file=log)")) == (
            f'[{n}, {n * (n + 1) // 2}, "/workspace/d"]\n')
    assert out(session("log.seek(0); print(len(log.read().split()), __name__, len(os.listdir('/proc/self/fd')) < 12)")) == (
        "100 __main__ True\n")


def test_each_call_has_its_own_input_and_output(session):
    out(session("import ctypes, subprocess, sys, os; libc = ctypes.CDLL(None)"), "new")
    verdict = session("print('py', sys.argv[1:], input())\nos.write(1, b'os\\n'); libc.printf(b'C\\n')\n"
                      "subprocess.run('cat; echo to stderr >&2', shell=True)\nprint('no end', end='')",
                      stdin="first\nsecond\n", args=["a", "b c"])
    assert sorted(out(verdict).split("\n")) == ["C", "no end", "os", "py ['a', 'b c'] first"]
    assert verdict["stderr"] == "to stderr\n"
    assert out(session("print(repr(sys.stdin.read()), sys.argv[1:])", stdin="third")) == "'third' []\n"
    assert out(session("print(repr(sys.stdin.read()))")) == "''\n"
    assert out(session("sys.stdout.close()")) == ""
    assert out(session("print('open again', flush=True); os.close(1)")) == "open again\n"
    assert out(session("print('and again')")) == "and again\n"
    assert len(out(session("print('x' * 200000)"))) == 200001
    assert session("print('x' * 2000)", limits={"output_bytes": 1000})["stdout_truncated"] is True


def test_what_is_raised_ends_the_call_alone(session):
    out(session("x = 1\ndef f():\n    raise ValueError('no')"), "new")
    failed = session("x += 1\nf()")
    assert fate(failed) == ("execution_error", "kept") and failed["exit_code"] == 1
    assert failed["stderr"] == ('Traceback (most recent call last):\n  File "<call 2>", line 2, in <module>\n    f()\n'
                                '  File "<call 1>", line 3, in f\n    raise ValueError(\'no\')\nValueError: no\n')
    assert 'File "<call 3>", line 1' in session("what is this")["stderr"]
    for code, status in (("sys.exit()", 0), ("sys.exit(0)", 0), ("sys.exit(7)", 7), ("sys.exit('why')", 1), ("exit(300)", 300 & 255),
                         ("raise KeyboardInterrupt", 130)):
        verdict = session("import sys; print(x); " + code)
        assert (verdict["exit_code"], verdict["kernel"], verdict["stdout"]) == (status, "kept", "2\n"), code
    assert session("sys.excepthook = lambda kind, error, trace: print('mine', error)\n1/0")["stdout"] == "mine division by zero\n"
    assert out(session("print(x)")) == "2\n"


def test_the_programs_end_is_the_kernels(session):
    for code, exit_code, name in (("os._exit(3)", 3, None), ("os.kill(os.getpid(), 9)", 137, "SIGKILL"),
                                  ("os.execv('/bin/sh', ['sh', '-c', 'exit 4'])", 4, None), ("os.abort()", 134, "SIGABRT")):
        verdict = session("import os; x = 1; " + code)
        assert fate(verdict) == ("execution_error", "ended") and (verdict["exit_code"], verdict["signal"]) == (exit_code, name), code
    assert out(session("print('x' in globals())"), "new") == "False\n"


def test_results_tools_and_files_are_each_calls_own(kernels, session):
    with CallbackServer({"add": lambda a, b: {"data": str(a + b)}}) as tools:
        assert session("set_result(call_tool('add', {'a': 1, 'b': 2}))", callback_url=tools.url)["output"] == "3"
        verdict = session("open('new', 'w').write('1'); print(open('in').read())", files=[{"name": "in", "content": "text"}])
        assert (out(verdict), verdict["output"], [file["name"] for file in verdict["output_files"]]) == ("text\n", "", ["new"])
        assert session("call_tool('add', {'a': 1, 'b': 2})")["stderr"].endswith("call_tool: no callback URL configured\n")
        assert session("set_result(call_tool('add', {'a': 3, 'b': 4}), files=['in'])", callback_url=tools.url)["files"][0]["name"] == "in"
        assert [body["args"] for _, _, body in tools.requests] == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]


def test_usage_and_denied_calls_are_each_calls_own(session):
    spin = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    assert 290 <= session(spin)["usage"]["cpu_ms"] < 5000
    denied = "import ctypes; libc = ctypes.CDLL(None)\nfor _ in range(3): libc.swapoff(b'/x')"
    verdict = session(denied)
    assert verdict["usage"]["cpu_ms"] < 250 and verdict["denied_syscalls"] == [{"name": "swapoff", "count": 3}]
    assert session("libc.sethostname(b'x', 1)")["denied_syscalls"] == [{"name": "sethostname", "count": 1}]
    assert session("pass")["denied_syscalls"] == []


def test_whoever_names_the_policy_names_a_session(kernels):
    for fields in ({}, {"session_id": None}, {"session_id": ""}):
        reply = post(kernels, "x = 1", **fields)
        assert reply.status == 400 and reply.json["field"] == "session_id", reply.body
        assert reply.json["error"] == "session_id: is required: the policy 'python-kernel' keeps an interpreter for the jobs of one session"


def test_other_doors(kernels, session):
    out(session("x = 1"), "new")
    name = "test_other_doors"
    fields = {"code": "x += 1; print(x)", "policy": "python-kernel", "session_id": name}
    stream = kernels.request("POST", "/execute", json.dumps(fields), headers={"Accept": "text/event-stream"}).body.decode()
    assert 'event: stdout\ndata: {"text":"2' in stream and '"kernel":"kept"' in stream
    job = call(kernels, "POST", "/execute?wait=false", fields)
    assert job.status == 202
    path = job.headers["Location"]
    done = wait_for(lambda: (reply := call(kernels, "GET", path)).json["status"] != "running" and reply, "an asynchronous call")
    assert done.json["reply"]["stdout"] == "3\n" and done.json["reply"]["kernel"] == "kept"
    assert out(session("print(x)")) == "3\n"


def test_the_model_context_protocol(serve):
    server = serve(config=PATIENT + (runtimes() or (ROOT / "config/server.textproto").read_text()).replace(
        'policy: "python"', 'policy: "python-kernel"'))

    def tell(code, session):
        arguments = {"language": "python", "code": code, **({"session_id": session} if session else {})}
        reply = call(server, "POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                                              "params": {"name": "execute_code", "arguments": arguments}})
        return reply.json["result"]["structuredContent"]

    assert out(tell("x = 41", "s"), "new") == ""
    assert out(tell("print(x + 1)", "s")) == "42\n"
    assert "kernel" not in tell("print('x' in globals())", None)


# ---- Time ----

def test_a_timeout_interrupts(session):
    out(session("x = 0; import time, os"), "new")
    endless = ("while True: pass", "time.sleep(100)", "os.system('sleep 100')", "import threading; threading.Event().wait()")
    for n, code in enumerate(endless):
        verdict, timeout_ms = until_begun(session, f"x += x == {n}\nprint('begun', flush=True)\n{code}", (400, 20000))
        assert fate(verdict) == ("timeout", "kept") and verdict["stdout"] == "begun\n", verdict
        assert verdict["exit_code"] == -1 and verdict["killed"] is True, code
        assert verdict["error_message"] == f"Execution timed out after {timeout_ms / 1000:g} seconds."
    assert "KeyboardInterrupt" in session("while True: pass", timeout_ms=200)["stderr"]
    assert out(session("print(x)")) == "4\n"


def test_who_is_interrupted_before_it_begins(session):
    """The program, and not the one after it. So many lines take the launcher its time to remember."""
    out(session("pass"), "new")
    for n in range(20):
        verdict = session("\n" * 20000 * n + "while True: pass", timeout_ms=1)
        assert fate(verdict) == ("timeout", "kept") and "KeyboardInterrupt" in verdict["stderr"], verdict
        assert out(session("print('mine')")) == "mine\n"


def test_who_is_interrupted_when_it_ends(session):
    """It ends somewhere around its deadline; the next call is another's."""
    out(session("import time"), "new")
    for n in range(40):
        verdict = session(f"time.sleep({(17 + n / 10) / 1000})", timeout_ms=20)
        assert verdict["status"] in ("timeout", "success") and verdict["kernel"] == "kept", verdict
        assert out(session("print('mine')")) == "mine\n"


STUBBORN = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('up', flush=True)\nwhile True: pass"


def test_who_does_not_heed_it_is_killed(serve):
    server = serve(config="kernel_interrupt_grace_ms: 100\n" + KEYS)
    for key in (None, "alice-key"):
        def own(code, **fields):
            return ask(server, code, session_id=f"stubborn-{key}", key=key, **fields)

        out(own("x = 1"), "new")
        verdict, timeout_ms = until_begun(own, STUBBORN, (400, 20000))
        assert fate(verdict) == ("timeout", "ended") and verdict["stdout"] == "up\n" and verdict["duration_ms"] >= timeout_ms + 100
        assert out(own("print('x' in globals())"), "new") == "False\n"


def test_a_caller_that_hangs_up_interrupts(kernels, session, wire):
    out(session("x = 1; import time"), "new")
    body = json.dumps({"code": "x += 1\ntry:\n    open('up', 'w').close()\n    time.sleep(100)\nfinally:\n    x += 1", "session_id":
                       "test_a_caller_that_hangs_up_interrupts", "policy": "python-kernel", "timeout": 60}).encode()
    connection = wire(kernels)
    connection.request("POST", "/execute", {"X-Service-API-Key": kernels.key, "Content-Type": "application/json",
                                            "Content-Length": len(body)}, body)
    look = {"code": "import os; print(os.listdir('.'))", "session_id": "test_a_caller_that_hangs_up_interrupts"}
    wait_for(lambda: "up" in call(kernels, "POST", "/execute", look).json["stdout"], "the call")
    connection.close()
    verdict = wait_for(lambda: (reply := post(kernels, "print(x)", session_id="test_a_caller_that_hangs_up_interrupts")).status == 200
                       and reply.json, "the kernel's next turn")
    assert out(verdict) == "3\n"


def test_one_call_at_a_time(kernels, session):
    out(session("import os, time"), "new")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        long = pool.submit(session, "open('up', 'w').close()\nwhile not os.path.exists('done'): time.sleep(0.005)", timeout=60)
        plain = {"session_id": "test_one_call_at_a_time"}  # the workspace's other jobs need no turn
        wait_for(lambda: "up" in call(kernels, "POST", "/execute", {"code": "import os; print(os.listdir('.'))", **plain}).json["stdout"],
                 "a call that runs")
        reply = post(kernels, "print('in between')", **plain)
        assert reply.status == 503 and reply.json["code"] == "busy" and "the kernel of this session runs another call" in reply.json["error"]
        assert 1 <= int(reply.headers["Retry-After"]) <= 60
        assert call(kernels, "POST", "/execute", {"code": "open('done', 'w').close()", **plain}).json["status"] == "success"
        assert out(long.result()) == ""


# ---- Limits and ends ----

def test_a_memory_hog_ends_it(session):
    limits = {"memory_bytes": 100 << 20}
    out(session("x = 1; keep = [bytearray(1 << 20)]", limits=limits), "new")
    verdict = session("import mmap\nwhile True:\n    keep.append(mmap.mmap(-1, 1 << 24)); keep[-1].write(b'x' * (1 << 24))", limits=limits)
    assert fate(verdict) == ("oom", "ended") and verdict["oom"] is True, verdict
    assert out(session("print('x' in globals())"), "new") == "False\n"


def test_cpu_time_is_each_calls_own_and_ends_it(session):
    spin = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass\nprint('done')"
    for kernel in ("new", "kept", "kept"):
        assert out(session(spin, limits={"cpu_ms": 500}), kernel) == "done\n"
    verdict = session("while True: pass", limits={"cpu_ms": 200}, timeout=60)
    assert (verdict["exit_code"], verdict["signal"], verdict["kernel"]) == (152, "SIGXCPU", "ended")


def test_limits_are_the_kernels(kernels, session):
    out(session("x = 1", limits={"pids": 20}), "new")
    for fields in ({}, {"limits": {"pids": 30}}, {"limits": {"pids": 20, "memory_bytes": 100 << 20}}):
        reply = post(kernels, "print(x)", session_id="test_limits_are_the_kernels", **fields)
        assert reply.status == 400 and reply.json["field"] == "session_id" and "other limits or variables" in reply.json["error"], fields
    assert out(session("print(x)", limits={"pids": 20, "cpu_ms": 50000}, timeout_ms=5000)) == "1\n"


def test_two_keys_with_one_name_never_meet(kernels):
    assert out(ask(kernels, "secret = 'hers'", session_id="both", key="alice-key"), "new") == ""
    reply = post(kernels, "print(secret)", session_id="both", key="bob-key")
    assert reply.status == 403 and reply.json["field"] == "session_id"
    assert call(kernels, "DELETE", "/workspace/both", key="bob-key").status == 403
    assert out(ask(kernels, "print(secret)", session_id="both", key="alice-key")) == "hers\n"
    assert call(kernels, "DELETE", "/workspace/both", key="alice-key").status == 204
    assert out(ask(kernels, "print('secret' in globals())", session_id="both", key="bob-key"), "new") == "False\n"
    assert call(kernels, "DELETE", "/workspace/both", key="bob-key").status == 204


def test_the_end_of_a_session_is_its_kernels(kernels, session):
    out(session("import os, time"), "new")
    wait_for(lambda: kernels.metric("immure_kernels") == 1, "the end of all others")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        running = pool.submit(ask, kernels, STUBBORN, session_id="to-be-ended", timeout=60)
        wait_for(lambda: kernels.metric("immure_kernels") == 2 and kernels.metric("immure_jobs_running") == 1, "a call")
        assert call(kernels, "DELETE", "/workspace/to-be-ended").status == 204
        assert fate(running.result()) == ("cancelled", "ended")
    wait_for(lambda: kernels.metric("immure_kernels") == 1, "the end of its kernel")
    assert out(ask(kernels, "print(1)", session_id="to-be-ended"), "new") == "1\n"
    assert call(kernels, "DELETE", "/workspace/to-be-ended").status == 204
    wait_for(lambda: kernels.metric("immure_kernels") == 1, "the end of an idle one")


def test_their_time(serve):
    server = serve(config="session_ttl_ms: 1000\n" + KEYS)
    assert out(ask(server, "x = 1", session_id="a"), "new") == ""
    wait_for(lambda: server.metric("immure_kernels") == 0 and server.metric("immure_sessions") == 0, "the end of the session")
    assert out(ask(server, "print('x' in globals())", session_id="a"), "new") == "False\n"


def test_their_number(serve):
    server = serve(config="max_kernels: 1\n" + KEYS)
    assert out(ask(server, "x = 1", session_id="a"), "new") == ""
    reply = post(server, "x = 1", session_id="b", key="alice-key")
    assert reply.status == 503 and "no room for another kernel" in reply.json["error"] and int(reply.headers["Retry-After"]) >= 1
    assert call(server, "POST", "/execute", {"code": "print(1)", "session_id": "b"}).json["stdout"] == "1\n"
    assert server.metric("immure_kernels") == 1
    assert call(server, "DELETE", "/workspace/a").status == 204
    wait_for(lambda: server.metric("immure_kernels") == 0, "the end of the kernel")
    assert out(ask(server, "print(1)", session_id="b"), "new") == "1\n"


def test_the_last_one_is_for_other_keys(serve):
    server = serve(config="max_kernels: 2\n" + KEYS)
    assert out(post(server, "x = 1", "alice-key", session_id="a").json, "new") == ""
    reply = post(server, "x = 1", "alice-key", session_id="b")
    assert reply.status == 429 and reply.json == {
        "error": "key 'alice' may have 1 kernels; the last one is kept for other keys", "code": "rate_limited", "field": None}
    assert out(post(server, "x = 1", "bob-key", session_id="c").json, "new") == ""
    assert out(post(server, "print(x)", "alice-key", session_id="a").json) == "1\n"


def test_nothing_outlives_the_server(serve):
    for how in (signal.SIGTERM, signal.SIGKILL):
        server = serve(config="kernel_interrupt_grace_ms: 60000 drain_timeout_ms: 100\n" + KEYS, SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="4")
        mark = f"{os.getpid()}{int(how)}424242"
        out(ask(server, f"import os, subprocess\nleft = subprocess.Popen(['sleep', '{mark}'], start_new_session=True)", session_id="a"), "new")
        find = ["pgrep", "-f", f"sleep {mark}"]
        # An exec lets go of its parent before it shows its command line.
        wait_for(lambda: subprocess.run(find, stdout=subprocess.DEVNULL).returncode == 0, "its process")
        server.stop(how)
        wait_for(lambda: subprocess.run(find, stdout=subprocess.DEVNULL).returncode == 1, "the end of its processes")


def test_a_front_that_dies_takes_no_kernel_along(serve, wire):
    server = serve(config=PATIENT)
    out(ask(server, "x = 1; import time", session_id="a"), "new")
    body = json.dumps({"code": "x = 2\nopen('up', 'w').close()\ntime.sleep(100)", "session_id": "a", "policy": "python-kernel",
                       "timeout": 60}).encode()
    connection = wire(server)
    connection.request("POST", "/execute", {"X-Service-API-Key": server.key, "Content-Type": "application/json",
                                            "Content-Length": len(body)}, body)
    look = {"code": "import os; print(os.listdir('.'))", "session_id": "a"}
    wait_for(lambda: "up" in call(server, "POST", "/execute", look).json["stdout"], "the call")
    os.kill(int(re.findall(r"event=front_serving pid=(\d+)", server.log())[-1]), signal.SIGKILL)
    assert connection.ended()
    wait_for(lambda: "event=front_serving" in server.log().split("event=front_exited")[-1], "another front")
    verdict = wait_for(lambda: (reply := post(server, "print(x)", session_id="a")).status == 200 and reply.json, "the kernel's next turn")
    assert out(verdict) == "2\n"


def test_another_text_of_the_policy_is_another_kernel(serve, tmp_path):
    policy = tmp_path / "mine.textproto"
    text = shipped_policy("python-kernel").replace('name: "python-kernel"', 'name: "mine"')
    policy.write_text(text)
    server = serve(config=f'policy_path: "{policy}"\n' + KEYS)
    assert out(ask(server, "x = 1", session_id="a", policy="mine"), "new") == ""
    reply = post(server, "print(x)", session_id="a")
    assert reply.status == 400 and "under the policy 'mine'" in reply.json["error"]
    policy.write_text(text + "# changed\n")
    server.process.send_signal(signal.SIGHUP)
    server.reloaded()
    assert out(ask(server, "print('x' in globals())", session_id="a", policy="mine"), "new") == "False\n"


# ---- Programs that mean ill; and accidents ----

def test_a_forged_end_is_the_forgers_own(session):
    """The call that says that a program has ended can be made by the program; what runs on runs in nobody's time but its own."""
    out(session("import ctypes, threading, time, os; libc = ctypes.CDLL(None)"), "new")
    verdict = session("def work():\n    while True:\n        os.write(1, b'late '); time.sleep(0.001)\n"
                      "threading.Thread(target=work, daemon=True).start()\nprint('told', flush=True)\nlibc.inotify_init1(0)\nprint('after')")
    assert fate(verdict) == ("success", "kept") and "told" in verdict["stdout"] and "after" not in verdict["stdout"]
    # What it had left to do, it does in its next call, whose program nobody reads any more.
    assert "after" in session("print('lost')")["stdout"]
    assert session("pass", timeout_ms=20000)["status"] in ("success", "execution_error")


def test_forged_ends_from_elsewhere_are_denied_calls(session):
    out(session("import ctypes, threading, os; libc = ctypes.CDLL(None)"), "new")
    verdict = session("t = threading.Thread(target=libc.inotify_init1, args=(7,)); t.start(); t.join()\n"
                      "pid = os.fork()\nif pid == 0:\n    libc.inotify_init1(7); os._exit(0)\nos.waitpid(pid, 0)\n"
                      "libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK); print('still here')")  # with flags it is no end either
    assert out(verdict) == "still here\n"
    assert verdict["denied_syscalls"] == [{"name": "inotify_init1", "count": 3}]


def test_a_fork_that_falls_off_the_end_is_no_kernel(session):
    out(session("import os"), "new")
    assert out(session("pid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('one')")) == "one\none\n"
    assert out(session("print('two')")) == "two\n"


def test_earlier_calls_do_not_write_into_later_ones(session):
    """A process has the pipes of the call that it was started in; these are closed. A thread has those of the interpreter."""
    out(session("import os, subprocess, sys, threading, time"), "new")
    script = "trap 'echo piped > sigpipe; exit' PIPE; while :; do echo old; echo old >&2; done"
    assert "new" not in out(session(f"left = subprocess.Popen(['bash', '-c', \"{script}\"]); own = os.dup(1)"))
    for n in range(5):
        verdict = session(f"print('new {n}')")
        assert out(verdict) == f"new {n}\n" and verdict["stderr"] == ""
    assert out(session("left.wait(); print(os.path.exists('sigpipe') or left.returncode)", timeout=60)) in ("True\n", "1\n", "-13\n")
    assert out(session("try:\n    os.write(own, b'x')\nexcept BrokenPipeError:\n    print('closed')")) == "closed\n"
    assert out(session("def tell():\n    while not stop.wait(0.001):\n        print('thread', flush=True); times.append(1)\n"
                       "stop, times = threading.Event(), []\nthread = threading.Thread(target=tell); thread.start()")).replace("thread\n", "") == ""
    # One may be under way; the next one it begins in this call.
    assert "thread\n" in out(session("n = len(times)\nwhile len(times) < n + 2: time.sleep(0.001)\nstop.set(); thread.join()"))
    assert out(session("print('quiet')")) == "quiet\n"


def test_floods_hold_nobody_up(kernels, session):
    """Whoever goes on writing into a pipe of an ended call finds it closed."""
    out(session("import subprocess"), "new")
    for _ in range(3):
        assert session("left = [subprocess.Popen(['cat', '/dev/zero']) for _ in range(2)]")["status"] == "success"
    assert kernels.execute("print(1)")["stdout"] == "1\n"


def test_what_idles_too_busily_is_ended(serve):
    server = serve(config="kernel_idle_cpu_ms: 300\n" + KEYS)
    assert out(ask(server, "x = 1; import threading, time", session_id="quiet"), "new") == ""
    assert out(ask(server, "import threading\ndef work():\n    while True: pass\nthreading.Thread(target=work, daemon=True).start()",
                   session_id="busy", key="alice-key"), "new") == ""
    wait_for(lambda: server.metric("immure_kernels") == 1, "the end of the busy one")
    assert re.search("event=kernel_ended session_id=busy .*end=cpu", server.log())
    assert out(ask(server, "print(x)", session_id="quiet")) == "1\n"
    assert out(ask(server, "print(1)", session_id="busy", key="alice-key"), "new") == "1\n"


def test_what_grows_between_calls_is_ended(serve):
    server = serve(config=KEYS)
    limits = {"memory_bytes": 100 << 20}
    hog = ("import mmap, os, threading, time\ndef work():\n    while not os.path.exists('begin'): time.sleep(0.01)\n"
           "    while True:\n        keep.append(mmap.mmap(-1, 1 << 22)); keep[-1].write(b'x' * (1 << 22))\n"
           "keep = []\nthreading.Thread(target=work, daemon=True).start()")
    assert out(ask(server, hog, session_id="hog", limits=limits), "new") == ""
    assert server.execute("open('begin', 'w').close()", session_id="hog")["status"] == "success"
    wait_for(lambda: server.metric("immure_kernels") == 0, "the end of the hog")
    assert out(ask(server, "print(1)", session_id="hog", limits=limits), "new") == "1\n"


def test_signal_handlers_of_the_program_do_not_end_it(session):
    first = session("import signal, time\nn = 0\ndef handler(*_):\n    global n\n    n += 1\n    raise ValueError('alarm')\n"
                    "signal.signal(signal.SIGALRM, handler)\nsignal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)")
    assert first["kernel"] == "new"
    for _ in range(50):
        verdict = session("pass")
        assert verdict["kernel"] == "kept", verdict
    verdict = session("time.sleep(10)")  # what it is told with may be interrupted, too
    assert fate(verdict) == ("execution_error", "kept") and verdict["stderr"].startswith("Traceback")
    assert any(session("signal.setitimer(signal.ITIMER_REAL, 0)")["status"] == "success" for _ in range(200))
    assert out(session("print(n > 0)")) == "True\n"


@pytest.mark.parametrize("end", ["raise Slow()", "sys.exit(Slow())"])
def test_signal_handlers_of_the_program_do_not_cut_off_what_a_call_ends_with(session, end):
    code = ("import signal, sys, time\ncalls = []\ndef handler(*_):\n    calls.append(1)\n    raise ValueError('alarm')\n"
            "class Slow(Exception):\n    def __str__(self):\n        signal.setitimer(signal.ITIMER_REAL, 0.001)\n        time.sleep(0.05)\n"
            "        return 'told whole'\nsignal.signal(signal.SIGALRM, handler)\n")
    verdict = session(code + end)
    assert fate(verdict) == ("execution_error", "new") and "told whole\n" in verdict["stderr"], verdict
    # The signal has reached its handler before the next call, and nothing is held any more.
    assert out(session("print(calls, signal.pthread_sigmask(signal.SIG_BLOCK, ()))")) == "[1] set()\n"


# ---- Configuration ----

def check(tmp_path, text, policy=None):
    config = tmp_path / "server.textproto"
    if policy:
        (tmp_path / "policy.textproto").write_text(policy)
        text += f'policy_path: "{tmp_path}/policy.textproto"\n'
    config.write_text(text)
    done = subprocess.run([IMMURE, "serve", "--config", config, "--check-config"], capture_output=True, text=True,
                          env={**os.environ, "SANDBOX_EXECUTOR_SERVICE_API_KEY": "k"}, timeout=60)
    return done.returncode, done.stderr


def test_runtimes_without_a_kernel_are_refused(kernels, tmp_path):
    reply = post(kernels, "1", language="bash", session_id="other")
    assert reply.status == 400 and reply.json["field"] == "policy" and "the runtime 'bash' has none to keep" in reply.json["error"]
    code, said = check(tmp_path, 'runtime { name: "sh" interpreter: "/bin/sh" policy: "python-kernel" }\ndefault_runtime: "sh"\n')
    assert code != 0 and "runtime 'sh' has no kernel, which its policy 'python-kernel' (state: KERNEL) asks for" in said


def test_policies_that_cannot_keep_a_kernel_are_refused(tmp_path):
    text = shipped_policy("python-kernel")
    assert check(tmp_path, "", text)[0] == 0
    code, said = check(tmp_path, "", text.replace('mount { destination: "/workspace" scratch { directory: WORK } }',
                                                  'mount { destination: "/workspace" tmpfs { } }'))
    assert code != 0 and "state: KERNEL needs a scratch mount of the directory WORK" in said
    code, said = check(tmp_path, "", text + 'image: "some"\n')
    assert code != 0 and "image: does not go with `state: KERNEL`" in said
    code, said = check(tmp_path, "", text.replace("seccomp {", 'seccomp {\n  rule { action: ALLOW syscall: "inotify_init1" }'))
    assert code != 0 and "state: KERNEL needs a filter that answers inotify_init1 with NOTIFY" in said


def test_the_shipped_policy_is_pythons(tmp_path):
    texts = [shipped_policy(name) for name in ("python", "python-kernel")]
    bodies = [re.sub(r"^(name|description|state): .*\n", "", text, flags=re.M) for text in texts]
    assert bodies[0] == bodies[1]
    assert 'state: KERNEL\n' in texts[1] and "state:" not in texts[0]
