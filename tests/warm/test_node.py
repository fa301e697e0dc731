"""Every program behaves the same in a Node that was started for it and in one that stood ready."""

import json
import re

import pytest

from harness import ROOT, Server, wait_for

SHIPPED = (ROOT / "config/server.textproto").read_text()
FILES = [{"name": "a.mjs", "content": "export let n = 1; export default 'd'; export const up = () => ++n"},
         {"name": "b.js", "content": "exports.b = 2; exports.main = require.main.filename; exports.parent = module.parent?.filename"},
         {"name": "child.js", "content": "process.on('message', (m) => process.send(m * 2, () => process.disconnect()))"},
         {"name": "worker.js", "content": "require('worker_threads').parentPort.postMessage(require('worker_threads').workerData * 2)"}]
STDIN = "one\ntwo\n" * 1000
ARGS = ["a", "b c", "", "é🙂", "--x=1"]

# A name and a program; each runs with FILES, STDIN and ARGS.
PROGRAMS = {
    "least": ";",
    "print": "console.log('x', 1, [1, {a: null}], new Map([[1, 2]])); console.error(new Error('e').message)",
    "print much": "for (let i = 0; i < 20000; i++) console.log('line ' + i)",
    "print on both": "for (let i = 0; i < 50; i++) { console.log(i); console.error(i) }",
    "write bytes": "process.stdout.write(Buffer.from([0, 255, 10, 195]))",
    "arguments": "console.log(JSON.stringify([process.argv, process.argv0, process.execPath, process.execArgv, process.title]))",
    "environment": "console.log(JSON.stringify(process.env)); process.env.X = 1; console.log(process.env.X, typeof process.env.X)",
    "time zone": "console.log(new Date(0).toString()); process.env.TZ = 'Asia/Tokyo'; console.log(new Date(0).toString())",
    "locale": "console.log((1234.5).toLocaleString(), Intl.DateTimeFormat().resolvedOptions().locale)",
    "names": "console.log(__filename, __dirname, module.id, module.filename, module.parent, require.main === module, module.paths)",
    "globals": "console.log(Object.getOwnPropertyNames(globalThis).sort().join())",
    "process": "console.log(Object.keys(process).sort().join(), process.pid, process.ppid, process.cwd(), process.umask())",
    "listeners": "console.log(process.eventNames().map((n) => String(n) + process.listenerCount(n)).join())",
    "loaded modules": "console.log(Object.keys(require.cache).join(), module.children.length)",
    "ids": "console.log(process.getuid(), process.getgid(), process.getgroups(), require('os').hostname(), require('os').userInfo().username)",
    "descriptors": "console.log(require('fs').readdirSync('/proc/self/fd').filter((f) => f < 3 || f == 63).join())",
    "stdio kinds": "for (const f of [0, 1, 2]) { const s = require('fs').fstatSync(f); console.log(f, s.isFIFO(), require('tty').isatty(f)) }",
    "directories": "for (const d of ['.', '/', '/tmp', '/dev/shm', '/usr', '/etc']) console.log(require('fs').readdirSync(d).sort().join())",
    "stdin whole": "console.log(require('fs').readFileSync(0, 'utf8').length)",
    "stdin events": "let n = 0; process.stdin.on('data', (d) => { n += d.length }).on('end', () => console.log(n))",
    "stdin lines": "let n = 0; for await (const l of require('readline').createInterface({input: process.stdin})) n++; console.log(n)",
    "stdin unread": "setTimeout(() => console.log('done'), 5)",
    "stdin paused": "process.stdin.once('data', () => { process.stdin.pause(); console.log('some') })",
    "require": "const {b, main, parent} = require('./b'); console.log(b, main, parent, require('./b') === require('./b.js'))",
    "require fails": "require('./nope')",
    "require json": "require('fs').writeFileSync('j.json', '{\"a\": 1}'); console.log(require('./j.json'))",
    "await": "const {setTimeout: sleep} = require('timers/promises'); await sleep(2); console.log(__filename, require.main === module)",
    "import": "import d, {n, up} from './a.mjs'; import {b} from './b.js'; import fs from 'fs'; console.log(d, n, up(), b, typeof fs.readFileSync, import.meta)",
    "import later": "const {n} = await import('./a.mjs'); import('./b.js').then((m) => console.log(n, m.b))",
    "import fails": "import {nope} from './a.mjs'",
    "import nothing": "import './nope.mjs'",
    "export": "export const x = 1; console.log(typeof require, typeof module, this)",
    "throw": "console.log(1)\nfunction f() { throw new TypeError('here') }\nf()",
    "throw later": "setTimeout(() => { throw new Error('later') }, 1)",
    "throw after await": "await 0\nthrow new RangeError('after')",
    "throw in module": "import 'fs'\nthrow new Error('module')",
    "throw no error": "throw {a: 1}",
    "reject": "Promise.reject(new Error('rejected'))",
    "catch all": "process.on('uncaughtException', (e) => console.log('caught', e.message)); setTimeout(() => console.log('on'), 5); throw new Error('x')",
    "catch rejections": "process.on('unhandledRejection', (e) => console.log('caught', e.message)); Promise.reject(new Error('x'))",
    "syntax": "let x = (1;",
    "syntax in module": "import 'fs'\nlet x = (1;",
    "stack": "console.log(new Error('s').stack.split('\\n').slice(0, 2).join('\\n'))",
    "warning": "process.emitWarning('careful', 'Care')",
    "deprecation": "new Buffer(1)",
    "experiment": "console.log(typeof new (require('vm').SourceTextModule)('').status)",
    "exit code": "process.exit(7)",
    "exit code set": "process.exitCode = 8",
    "exit listeners": "process.on('exit', (c) => { console.log('exit', c); process.exitCode = 9 }); process.on('beforeExit', () => console.log('before'))",
    "exit in exit": "process.on('exit', () => process.exit(5)); process.exit(4)",
    "throw in exit": "process.on('exit', () => { throw new Error('exit') })",
    "never settled": "await new Promise(() => {})",
    "abort": "process.abort()",
    "killed": "process.kill(process.pid, 'SIGKILL'); setInterval(() => 0, 1000)",
    "signal": "process.on('SIGUSR2', () => { console.log('usr2'); process.exit() }); process.kill(process.pid, 'SIGUSR2'); setInterval(() => 0, 1000)",
    "recursion": "function f(n) { return f(n + 1) + 1 } try { f(0) } catch (e) { console.log(e instanceof RangeError, e.message) }",
    "child": "console.log(require('child_process').execSync('echo $HOME; wc -l; ls /proc/self/fd | wc -l', {input: 'a\\n'}).toString())",
    "child inherits": "require('child_process').spawnSync('sh', ['-c', 'head -n 1; echo e >&2'], {stdio: 'inherit'})",
    "child node": "console.log(require('child_process').execFileSync(process.execPath, ['-p', 'process.argv.length + process.execArgv.length']) + '')",
    "fork": "const c = require('child_process').fork('./child.js'); c.on('message', (m) => console.log(m)).on('exit', (x) => console.log('exit', x)); c.send(21)",
    "worker": "new (require('worker_threads').Worker)('./worker.js', {workerData: 21}).on('message', console.log).on('exit', console.log)",
    "worker throws": "new (require('worker_threads').Worker)('throw new Error(\"w\")', {eval: true}).on('error', (e) => console.log(e.message))",
    "timers": "setImmediate(() => console.log('i')); setTimeout(() => console.log('t'), 1000); process.nextTick(() => console.log('n')); queueMicrotask(() => console.log('m'))",
    "denied": "try { require('fs').watch('.') } catch (e) { console.log(e.message) }",
    "denied twice": "for (let i = 0; i < 3; i++) try { require('fs').watch('.') } catch (e) { console.log(e.code) }",
    "network": "require('net').connect(80, '192.0.2.1').on('error', (e) => console.log(e.code))",
    "files": "const fs = require('fs'); fs.writeFileSync('o.txt', 'x'); fs.mkdirSync('d/e', {recursive: true}); fs.writeFileSync('d/e/f', 'y'); fs.rmSync('b.js')",
    "zlib and crypto": "const z = require('zlib'); console.log(z.gunzipSync(z.gzipSync('x')) + '', require('crypto').createHash('sha256').update('').digest('hex'))",
    "fetch": "fetch('data:text/plain,x').then((r) => r.text()).then(console.log)",
    "WebAssembly": "console.log(new WebAssembly.Memory({initial: 2}).buffer.byteLength)",
    "random differs": "console.log(require('crypto').randomUUID() !== require('crypto').randomUUID(), Math.random() !== Math.random())",
    "global scope": "var x = 1; y = 2; console.log(globalThis.x, globalThis.y, this === exports)",
    "strict": "'use strict'; try { undeclared = 1 } catch (e) { console.log(e.name) }",
    "hashbang": "#!/usr/bin/node\nconsole.log(1)",
    "large program": "/* " + "x" * 300000 + " */ console.log('large')",
    "not ASCII": "const größe = '🙂'; console.log(größe.length, größe)",
    "NUL": "console.log('a\\0b'.length)",
    "main module": "console.log(process.mainModule === module, Object.keys(require('module')._cache).join(), module.exports, module.loaded)",
    "found modules": "console.log(Object.keys(require('module')._pathCache).map((key) => key.split('\\0')[0]).join())",
    "result": "console.log(1); setResult({a: [1, 'é'], b: null}); console.log(2)",
    "results": "setResult(1); try { setResult(() => 1) } catch (e) { console.log(e.message) } setResult('last', ['nope'])",
    "result later": "setTimeout(() => setResult(process.argv.length), 5)",
    "result in module": "import fs from 'fs'\nsetResult(typeof fs.readFileSync)",
    "result with files": "require('fs').writeFileSync('r.txt', 'r'); setResult(null, ['r.txt'])",
    "result without a bridge": "require('fs').closeSync(4); try { setResult(1) } catch (e) { console.log(e.message) }",
    "result at exit": "process.on('exit', () => setResult('exit'))",
    "tool after result": "setResult(1); try { await callTool('t') } catch (e) { console.log(e.message) } setResult(2)",
}


@pytest.fixture(scope="module")
def cold(tmp_path_factory):
    place = tmp_path_factory.mktemp("cold")
    path = place / "server.textproto"
    path.write_text(re.sub(r"\s*(template|standby|warm_jails):.*", "", SHIPPED))
    with Server(place / "log", SANDBOX_EXECUTOR_CONFIG=str(path)) as server:
        yield server


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    place = tmp_path_factory.mktemp("warm")
    path = place / "server.textproto"
    path.write_text(re.sub(r"\s*template:.*\n\s*warm_jails:.*", "", SHIPPED))
    with Server(place / "log", SANDBOX_EXECUTOR_CONFIG=str(path)) as server:
        yield server


def run_warm(server, code, **fields):
    wait_for(lambda: server.parked("node") > 0, "a Node that stands ready")
    return server.execute(code, runtime="node", **fields)


# Of a job that started its own, the script lies there.
WHO = "console.log(require('fs').existsSync('/immure/main.js') ? 'own' : 'ready')"
OWN, READY = "own\n", "ready\n"


def test_who_is_who(warm, cold):
    assert run_warm(warm, WHO)["stdout"] == READY
    assert cold.execute(WHO, runtime="node")["stdout"] == OWN


ADDRESS = re.compile(r"0x[0-9a-f]{6,16}")
# Node's own account of an abort names what ran, by address.
TRACE = re.compile(r"(?s)\n----- .*")


def outcome(verdict):
    compared = ["stdout", "status", "exit_code", "signal", "error_message", "denied_syscalls", "output_files", "truncated"]
    return {**{name: verdict[name] for name in compared}, "output": verdict.get("output"), "stderr": TRACE.sub("", ADDRESS.sub("0x...", verdict["stderr"]))}


@pytest.mark.parametrize("name", PROGRAMS)
def test_same(warm, cold, name):
    fields = {"files": FILES, "stdin": STDIN, "args": ARGS, "outputs": ["*.txt"]}
    assert outcome(run_warm(warm, PROGRAMS[name], **fields)) == outcome(cold.execute(PROGRAMS[name], runtime="node", **fields))


# ---- Which jobs get one ----

@pytest.mark.parametrize("fields", [{"env": {"X": "1"}}, {"limits": {"memory_bytes": 300 << 20}}, {"limits": {"pids": 20}},
                                    {"limits": {"scratch_bytes": 1 << 20}}, {"session_id": "s"}], ids=str)
def test_jobs_that_want_what_it_was_not_started_with(warm, fields):
    assert run_warm(warm, WHO, **fields)["stdout"] == OWN


@pytest.mark.parametrize("fields", [{"timeout_ms": 5000}, {"limits": {"output_bytes": 100}}, {"limits": {"cpu_ms": 5000}}, {"args": ["x"]},
                                    {"stdin": "x"}, {"files": FILES}], ids=str)
def test_jobs_that_want_what_the_parent_alone_does(warm, fields):
    assert run_warm(warm, WHO, **fields)["stdout"] == READY


def test_metrics_promise_none_that_is_not_there(warm):
    for _ in range(20):
        assert run_warm(warm, WHO)["stdout"] == READY


def test_wall_clock_counts_from_the_job(warm):
    wait_for(lambda: warm.parked("node") == 2, "both")
    verdict = run_warm(warm, "for (;;);", timeout_ms=500)
    assert (verdict["status"], verdict["limits"]["timeout_ms"]) == ("timeout", 500)
    assert 500 <= verdict["duration_ms"] < 20000


def test_cpu_time_counts_from_the_job(warm):
    verdict = run_warm(warm, "for (const end = Date.now() + 150; Date.now() < end;);", limits={"cpu_ms": 10000})
    assert verdict["status"] == "success" and verdict["usage"]["cpu_ms"] < 2000
    verdict = run_warm(warm, "for (;;);", limits={"cpu_ms": 300})
    assert (verdict["exit_code"], verdict["signal"]) == (152, "SIGXCPU")
    assert verdict["usage"]["cpu_ms"] >= 250


def test_each_is_used_once(warm):
    for _ in range(4):
        verdict = run_warm(warm, "console.log(globalThis.mark); globalThis.mark = 1; require('fs').writeFileSync('/tmp/mark', '')")
        assert verdict["stdout"] == "undefined\n"
        assert run_warm(warm, "console.log(require('fs').readdirSync('/tmp').join())")["stdout"] == "\n"


def test_jobs_at_once(warm):
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(4) as pool:
        codes = [f"setTimeout(() => console.log({i}), 20)" for i in range(12)]
        replies = list(pool.map(lambda code: warm.request("POST", "/execute", json.dumps({"code": code, "runtime": "node"})), codes))
    assert [r.json["stdout"] for r in replies if r.status == 200] == [f"{i}\n" for i, r in enumerate(replies) if r.status == 200]
    assert sum(r.status == 200 for r in replies) >= 4


# ---- Launchers that do not do their part ----

ODD = """
shipped_runtimes: false
runtime { name: "python" interpreter: "/usr/bin/python3.11" extension: "py" policy: "python" }
runtime { name: "odd" interpreter: "/usr/bin/python3.11" arg: ["-c", %s] policy: "python" standby: "--standby" warm_jails: 1 }
"""
ENDS = "import sys; sys.exit(3)"
CALLS = "import ctypes, sys; ctypes.CDLL(None).inotify_init1(0); print(sys.stdin.read(), flush=True)"


def odd(tmp_path, launcher):
    path = tmp_path / "server.textproto"
    path.write_text(ODD % json.dumps(launcher))
    return Server(tmp_path / "log", SANDBOX_EXECUTOR_CONFIG=str(path))


def test_launcher_that_ends_costs_speed_only(tmp_path):
    server = odd(tmp_path, ENDS)
    server.start()
    try:
        wait_for(lambda: server.log().count("event=template_failed") >= 2, "its failures in the log")
        assert server.execute("print(1)")["stdout"] == "1\n"
    finally:
        server.stop()


def test_any_launcher_can_wait(tmp_path):
    with odd(tmp_path, CALLS) as server:
        wait_for(lambda: 'runtime="odd",state="parked"} 1' in server.get("/metrics").body.decode(), "it stands ready")
        verdict = server.execute("x", runtime="odd", stdin="of the job")
        assert (verdict["stdout"], verdict["denied_syscalls"]) == ("of the job\n", [])
