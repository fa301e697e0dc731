"""Sessions whose Node lives on between their jobs. What is the same whichever the interpreter is, test_kernels.py has."""

import concurrent.futures
import json
import re
import shutil

import pytest
from callback_server import CallbackServer
from conftest import IMMURE
from harness import ROOT, Server, call, shipped_policy, until_begun, wait_for
from packages import tarball, upload
from test_kernels import KEYS, PATIENT, ask, fate, out, post

pytestmark = pytest.mark.skipif(not shutil.which("node", path="/usr/bin"), reason="there is no Node")

NODE = {"language": "node", "policy": "node-kernel"}


def node_alone():
    """The shipped runtime, and no other: none stands ready, and none is tried out when the server starts."""
    shipped = (ROOT / "config/server.textproto").read_text()
    node = re.search(r'^runtime \{\n  name: "node"\n.*?^\}\n', shipped, re.S | re.M)[0]
    return re.sub(r"\s*(standby|warm_jails):.*", "", node) + 'default_runtime: "node"\n'


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    path = tmp_path_factory.mktemp("kernels")
    (path / "server.textproto").write_text(PATIENT + node_alone())
    with Server(path / "log", immure=IMMURE, SANDBOX_EXECUTOR_CONFIG=str(path / "server.textproto")) as server:
        yield server


@pytest.fixture
def session(kernels, request):
    """session(code, **fields) -> the verdict of a call in a kernel of the test's own"""
    name = re.sub(r"\W", "-", request.node.name)
    yield lambda code, **fields: ask(kernels, code, session_id=name, **{**NODE, **fields})
    assert call(kernels, "DELETE", f"/workspace/{name}").status == 204


# ---- What lives on ----

def test_a_hundred_calls(session):
    out(session("const fs = require('fs'); var n = 0; let all = []; class Log { constructor() { this.fd = fs.openSync('log', 'w+'); } }\n"
                "function sum() { return all.reduce((a, b) => a + b, 0); } const log = new Log(); process.chdir('/tmp')"), "new")
    for n in range(1, 101):
        assert out(session(f"n += 1; all.push(n); fs.writeSync(log.fd, '{n} '); console.log(n, sum(), process.cwd())")) == (
            f"{n} {n * (n + 1) // 2} /tmp\n")
    assert out(session("console.log(fs.readFileSync('/workspace/log', 'utf8').trim().split(' ').length,"
                       "fs.readdirSync('/proc/self/fd').length < 40)")) == "100 true\n"


def test_each_call_has_its_own_input_and_output(session):
    out(session("const fs = require('fs'), child = require('child_process')"), "new")
    verdict = session("console.log('js', process.argv.slice(2)); fs.writeSync(1, 'fd\\n')\n"
                      "child.execFileSync('sh', ['-c', 'cat; echo to stderr >&2'], {stdio: 'inherit'}); process.stdout.write('no end')",
                      stdin="first\n", args=["a", "b c"])
    assert out(verdict) == "js [ 'a', 'b c' ]\nfd\nfirst\nno end" and verdict["stderr"] == "to stderr\n"
    read = ("{ let text = ''; process.stdin.on('data', (data) => text += data);"
            "new Promise((end) => process.stdin.on('end', end)).then(() => console.log([text])) }")
    assert out(session(read, stdin="second")) == "[ 'second' ]\n"
    assert out(session("process.stdin.on('data', console.log); 1", stdin="nobody's")) in ("", "<Buffer 6e 6f 62 6f 64 79 27 73>\n")
    assert out(session("console.log([fs.readFileSync(0, 'utf8')])", stdin="third")) == "[ 'third' ]\n"
    assert out(session(read)) == "[ '' ]\n"
    assert out(session("process.stdout.end('last\\n'); process.stderr.destroy(); fs.closeSync(1)")) == "last\n"
    assert out(session("console.log('x'.repeat(200000))")) == "x" * 200000 + "\n"
    assert session("console.log('x'.repeat(2000))", limits={"output_bytes": 1000})["stdout_truncated"] is True


def test_what_is_imported_stays(session):
    files = [{"name": "own.mjs", "content": "export let n = 41;"}, {"name": "old.js", "content": "exports.n = 1; exports.main = require.main;"}]
    out(session("var own; import('./own.mjs').then((found) => own = found)", files=files), "new")
    assert out(session("var {n} = require('./old'); console.log(own.n + n, require('./old').main === module, __dirname)")) == "42 true /workspace\n"
    out(session("installPackage('./first-1.0.0.tgz')", files=[upload(tarball("first"))], timeout=60))
    assert out(session("console.log(require('first').version)")) == "1.0.0\n"


def test_a_call_waits_for_its_promise(session):
    out(session("let n = 0; const later = (ms) => new Promise((done) => setTimeout(() => done(n += 1), ms))"), "new")
    assert out(session("later(50).then(() => console.log(n))")) == "1\n"
    assert out(session("(async () => { await later(1); await null; console.log(n) })()")) == "2\n"
    failed = session("later(1).then(() => { throw new TypeError('no') })")
    assert fate(failed) == ("execution_error", "kept") and failed["stderr"].startswith("TypeError: no\n    at <call 4>:1:29\n")
    never = session("new Promise(() => {})")
    assert fate(never) == ("execution_error", "kept") and (never["exit_code"], never["stderr"]) == (13, "Warning: Detected unsettled promise\n")
    assert out(session("console.log(n)")) == "3\n"


def test_what_is_due_goes_on_in_the_call_that_runs(session):
    """Between two calls the event loop stands still."""
    out(session("let ticks = 0; const timer = setInterval(() => { ticks += 1; console.log('tick') }, 1); 0"), "new")
    assert "tick" in out(session("new Promise((done) => setTimeout(done, 30))"))
    assert out(session("clearInterval(timer); console.log(ticks > 0)")) == "true\n"
    assert out(session("let is = false; const late = setInterval(() => { if (is) { clearInterval(late); throw new Error('late') } }, 1); 0")) == ""
    failed = session("is = true; new Promise((done) => setTimeout(done, 100000))")  # whosever the error is
    assert fate(failed) == ("execution_error", "kept") and failed["stderr"].startswith("Error: late\n    at Timeout.")


def test_what_is_thrown_ends_the_call_alone(session):
    out(session("let x = 1\nfunction f() { throw new RangeError('no') }"), "new")
    failed = session("x += 1;\nf()")
    assert fate(failed) == ("execution_error", "kept") and failed["exit_code"] == 1
    assert failed["stderr"].endswith("RangeError: no\n    at f (<call 1>:2:22)\n    at <call 2>:2:1\n")
    for code, said in (("throw 'text'", "Uncaught 'text'"), ("what is this", "SyntaxError: Unexpected identifier"),
                       ("let x = 2", "SyntaxError: Identifier 'x' has already been declared"),
                       ("await 1", "SyntaxError: await is only valid"), ("throw {get stack() { return this.toString() }}", "Uncaught"),
                       ("var late = Promise.reject(new Error('unheard')); 0", "Error: unheard")):
        verdict = session(code)
        assert fate(verdict) == ("execution_error", "kept") and said in verdict["stderr"], verdict
    assert out(session("process.on('uncaughtException', (error) => console.log('mine', error.message)); throw new Error('1')")) == "mine 1\n"
    assert out(session("(async () => { throw new Error('2') })()")) == "mine 2\n"
    assert session("console.log(x); process.exitCode = 7")["exit_code"] == 7
    assert out(session("console.log(x)")) == "2\n"


def test_the_programs_end_is_the_kernels(session):
    for code, status, exit_code, name in (("process.exit(3)", "execution_error", 3, None), ("process.exit()", "success", 0, None),
                                          ("process.kill(process.pid, 9)", "execution_error", 137, "SIGKILL"),
                                          ("setTimeout(() => process.exit(4)); new Promise(() => {})", "execution_error", 4, None)):
        verdict = session("let x = 1; " + code)
        assert fate(verdict) == (status, "ended") and (verdict["exit_code"], verdict["signal"]) == (exit_code, name), code
    assert out(session("console.log(typeof x)"), "new") == "undefined\n"


def test_results_tools_and_files_are_each_calls_own(session):
    with CallbackServer({"add": lambda a, b: {"data": str(a + b)}}) as tools:
        assert session("callTool('add', {a: 1, b: 2}).then(setResult)", callback_url=tools.url)["output"] == "3"
        verdict = session("const fs = require('fs'); fs.writeFileSync('new', '1'); console.log(fs.readFileSync('in', 'utf8'))",
                          files=[{"name": "in", "content": "text"}])
        assert (out(verdict), verdict["output"], [file["name"] for file in verdict["output_files"]]) == ("text\n", "", ["new"])
        assert "callTool: no callback URL configured" in session("callTool('add', {a: 1, b: 2})")["stderr"].replace("call_tool", "callTool")
        unheard = session("var unheard = callTool('add', {a: 5, b: 5}); 0", callback_url=tools.url)
        assert fate(unheard) == ("execution_error", "kept") and "the bridge is closed: its call has ended" in unheard["stderr"]
        verdict = session("callToolsParallel([['add', {a: 3, b: 4}], ['add', {a: 5, b: 6}]]).then((all) => setResult(all, ['in']))",
                          callback_url=tools.url)
        assert json.loads(verdict["output"]) == [7, 11] and verdict["files"][0]["name"] == "in"


def test_denied_calls_are_each_calls_own(session):
    """The call in which the launcher waits for the next program is the program's as well."""
    out(session("const fs = require('fs'), {Worker} = require('worker_threads')"), "new")
    denied = [{"name": "inotify_init1", "count": 1}]
    verdict = session("fs.watch('/')")
    assert "EPERM" in verdict["stderr"] and verdict["kernel"] == "kept" and verdict["denied_syscalls"] == denied
    verdict = session("new Promise((end) => new Worker(\"try { require('fs').watch('/') } catch {}\", {eval: true}).on('exit', end))")
    assert out(verdict) == "" and verdict["denied_syscalls"] == denied
    assert session("0")["denied_syscalls"] == []


# ---- Time ----

def test_a_timeout_interrupts(session):
    """A child is interrupted, too, and may have told of it before the interpreter heard."""
    out(session("let x = 0; const child = require('child_process'), moment = new Int32Array(new SharedArrayBuffer(4))"), "new")
    for n, code in enumerate(("for (;;);", "for (;;) console.error('x')", "new Promise((end) => setTimeout(end, 100000))",
                              "child.execFileSync('sleep', ['100'])", "Atomics.wait(moment, 0, 0)")):
        verdict, timeout_ms = until_begun(session, f"x += x === {n}; console.log('begun'); {code}", (400, 20000))
        assert fate(verdict) == ("timeout", "kept") and verdict["exit_code"] == -1 and verdict["killed"] is True, code
        assert verdict["stderr"].endswith("Interrupted\n") or verdict["stderr_truncated"] or "Command failed: sleep 100" in verdict["stderr"], verdict
    assert out(session("process.on('SIGINT', () => console.log('asked')); console.log(x)")) == "5\n"
    verdict, _ = until_begun(session, "console.log('begun'); for (;;);", (400, 20000))
    assert fate(verdict) == ("timeout", "kept")
    assert out(session("console.log(x)")) == "5\n"


@pytest.mark.parametrize("code", ["for (;;);", "new Promise((end) => setTimeout(end, 100000))", "for (const end = performance.now() + {ms}; performance.now() < end;);",
                                  "new Promise((end) => setTimeout(end, {ms}))"])
def test_who_is_interrupted_when_it_begins_or_ends(session, code):
    """It, and not the one after it."""
    out(session("0"), "new")
    for n in range(12):
        verdict = session(code.replace("{ms}", str(17 + n / 3)), timeout_ms=20 if "{ms}" in code else 1)
        assert verdict["status"] in ("timeout", "success") and verdict["kernel"] == "kept", verdict
        assert out(session("console.log('mine')")) == "mine\n"


def test_who_does_not_heed_it_is_killed(serve):
    """What runs in a callback of the event loop cannot be interrupted."""
    server = serve(config="kernel_interrupt_grace_ms: 100\n" + KEYS + node_alone())
    own = lambda code, **fields: ask(server, code, session_id="stubborn", **NODE, **fields)  # noqa: E731
    out(own("let x = 1"), "new")
    verdict, timeout_ms = until_begun(own, "new Promise(() => setTimeout(() => { console.log('up'); for (;;); }))", (400, 20000))
    assert fate(verdict) == ("timeout", "ended") and verdict["duration_ms"] >= timeout_ms + 100
    assert out(own("console.log(typeof x)"), "new") == "undefined\n"


def test_one_call_at_a_time(kernels, session):
    out(session("const fs = require('fs')"), "new")
    look = {"code": "console.log(require('fs').readdirSync('.'))", "session_id": "test_one_call_at_a_time"}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        long = pool.submit(session, "fs.writeFileSync('up', ''); new Promise((end) => { const look = setInterval(() => {"
                                    "if (fs.existsSync('done')) { clearInterval(look); end() } }, 5) })", timeout=60)
        wait_for(lambda: "up" in call(kernels, "POST", "/execute", look).json["stdout"], "a call that runs")
        reply = post(kernels, "0", session_id=look["session_id"], **NODE)
        assert reply.status == 503 and "the kernel of this session runs another call" in reply.json["error"]
        assert call(kernels, "POST", "/execute", {**look, "code": "require('fs').writeFileSync('done', '')"}).json["status"] == "success"
        assert out(long.result()) == ""


# ---- Limits, owners, and programs that mean ill ----

def test_a_memory_hog_ends_it(session):
    limits = {"memory_bytes": 200 << 20}
    out(session("let x = 1; const keep = []", limits=limits), "new")
    verdict = session("for (;;) keep.push(Buffer.alloc(1 << 24, 'x'))", limits=limits)
    assert fate(verdict) == ("oom", "ended") and verdict["oom"] is True, verdict
    assert out(session("console.log(typeof x)"), "new") == "undefined\n"


def test_two_keys_with_one_name_never_meet(kernels):
    hers = {**NODE, "session_id": "both", "key": "alice-key"}
    assert out(ask(kernels, "var secret = 'hers'", **hers), "new") == ""
    assert post(kernels, "console.log(secret)", **{**hers, "key": "bob-key"}).status == 403
    assert out(ask(kernels, "console.log(secret)", **hers)) == "hers\n"
    assert call(kernels, "DELETE", "/workspace/both", key="alice-key").status == 204
    assert out(ask(kernels, "console.log(typeof secret)", **{**hers, "key": "bob-key"}), "new") == "undefined\n"
    assert call(kernels, "DELETE", "/workspace/both", key="bob-key").status == 204


def test_earlier_calls_do_not_write_into_later_ones(session):
    """A process has the pipes of the call that it was started in; these are closed."""
    script = "trap 'echo piped > sigpipe; exit' PIPE; while :; do echo old; echo old >&2; done"
    assert "new" not in out(session(f"const left = require('child_process').spawn('bash', ['-c', \"{script}\"], {{stdio: 'inherit'}});"
                                    "const gone = new Promise((end) => left.on('exit', end)); 0"), "new")
    for n in range(5):
        verdict = session(f"console.log('new {n}')")
        assert out(verdict) == f"new {n}\n" and verdict["stderr"] == ""
    out(session("gone", timeout=60))


def test_a_forged_end_is_the_forgers_own(session):
    """A program can say what the launcher would, with a status of its choice; what it had left to do, it does in its next call, whose
    own program nobody reads."""
    out(session("const fs = require('fs')"), "new")
    verdict = session("console.log('told'); fs.writeSync(63, Buffer.from([0, 9]), 0, 2, 0); try { fs.watch('/') } catch {} console.log('after')")
    assert (verdict["exit_code"], verdict["kernel"], verdict["stdout"]) == (9, "kept", "told\n")
    verdict = session("console.log('lost')")
    assert (verdict["stdout"], verdict["kernel"]) == ("after\n", "kept")
    assert out(session("console.log('found')")) == "found\n"
    for code in ("fs.closeSync(63)", "fs.ftruncateSync(63); fs.writeSync(63, Buffer.from([0]), 0, 1, 0); try { fs.watch('/') } catch {} fs.closeSync(63)"):
        assert fate(session(code)) == ("execution_error", "ended")  # the launcher cannot tell of any end
        assert out(session("const fs = require('fs')"), "new") == ""


def test_the_shipped_policy_is_nodes():
    texts = [shipped_policy(name) for name in ("node", "node-kernel")]
    bodies = [re.sub(r"^(name|description|state): .*\n", "", text, flags=re.M) for text in texts]
    assert bodies[0] == bodies[1]
    assert "state: KERNEL\n" in texts[1] and "state:" not in texts[0]
