"""Node and bash beside Python: what their programs may rely on."""

import base64
import json
import os
import platform
import signal
import subprocess

import pytest

from harness import ROOT, TOOLS, Server, config_key, shipped_policy, until_begun, wait_for

NODE = "/usr/bin/node"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("runtimes") / "log") as server:
        yield server


def node(server, code, **fields):
    return server.execute(code, runtime="node", **fields)


def prints(server, code, expected, **fields):
    verdict = node(server, code, **fields)
    assert (verdict["stdout"], verdict["stderr"], verdict["exit_code"]) == (expected, "", 0), verdict
    assert verdict["denied_syscalls"] == []
    return verdict


# ---- The kinds of program ----

@pytest.mark.parametrize("name", ["node", "javascript", "js"])
def test_names(server, name):
    verdict = server.execute("console.log(6 * 7)", language=name)
    assert (verdict["stdout"], verdict["policy"], verdict["status"]) == ("42\n", "node", "success")


@pytest.mark.parametrize("code, expected", [
    ("console.log(require('path').join('a', 'b'), typeof module, __dirname, __filename)", "a/b object /workspace /workspace/main.js\n"),
    ("console.log(require.main === module, this === module.exports)", "true true\n"),
    ("x = 010; console.log(x, (function () { return this })() === globalThis)", "8 true\n"),
    ("#!/usr/bin/env node\nconsole.log('hashbang')", "hashbang\n"),
    ("if (true) { console.log('return'); return } console.log('never')", "return\n"),
    ("import('node:os').then((os) => console.log(os.EOL.length))", "1\n"),
])
def test_commonjs(server, code, expected):
    prints(server, code, expected)


@pytest.mark.parametrize("code, expected", [
    ("const os = require('os'); console.log(await Promise.resolve(os.EOL.length))", "1\n"),
    ("for await (const x of [1, 2]) console.log(x)", "1\n2\n"),
    ("await null; y = 3; console.log(y, require.main === module, __filename)", "3 true /workspace/main.js\n"),
    ("const {join} = await import('node:path'); console.log(join('a', 'b'))", "a/b\n"),
    ("console.log(await Promise.all([1, 2].map(async (x) => x * 2)))", "[ 2, 4 ]\n"),
    ("const {setTimeout: sleep} = require('timers/promises')\nawait sleep(5)\nconsole.log('slept')", "slept\n"),
])
def test_top_level_await(server, code, expected):
    prints(server, code, expected)


@pytest.mark.parametrize("code, expected", [
    ("import {join} from 'node:path'; console.log(join('a', 'b'), import.meta.url)", "a/b file:///workspace/main.js\n"),
    ("import fs, {readFileSync} from 'fs'; console.log(fs.readFileSync === readFileSync, this)", "true undefined\n"),
    ("import * as os from 'os'; console.log(await Promise.resolve(os.EOL.length), require('path').sep)", "1 /\n"),
    ("export const x = 1; console.log(import.meta.resolve('./a.mjs'), import.meta.dirname)", "file:///workspace/a.mjs /workspace\n"),
    ("import 'node:fs'\nconst os = await import('node:os'); console.log(os.EOL.length)", "1\n"),
])
def test_modules(server, code, expected):
    prints(server, code, expected)


FILES = [{"name": "named.mjs", "content": "export const a = 1; export default 'd'"}, {"name": "common.js", "content": "exports.b = 2"},
         {"name": "common.cjs", "content": "module.exports = {c: 3}"}, {"name": "data.json", "content": '{"e": 5}'},
         {"name": "node_modules/p/package.json", "data": base64.b64encode(b'{"exports": {"import": "./i.mjs", "require": "./r.cjs"}}').decode()},
         {"name": "node_modules/p/i.mjs", "data": base64.b64encode(b"export default 'imported'").decode()},
         {"name": "node_modules/p/r.cjs", "data": base64.b64encode(b"module.exports = 'required'").decode()}]


@pytest.mark.parametrize("code, expected", [
    ("console.log(require('./common').b, require('./common.cjs').c, require('./data').e, require('p'))", "2 3 5 required\n"),
    ("const m = await import('./named.mjs'); console.log(m.a, m.default, require('./common.js').b, (await import('p')).default)", "1 d 2 imported\n"),
    ("import d, {a} from './named.mjs'; import {b} from './common.js'; import c from './common.cjs'; import p from 'p'\nconsole.log(a, b, c, d, p)",
     "1 2 { c: 3 } d imported\n"),
    ("console.log(require('fs').readdirSync('.').sort().join())", "common.cjs,common.js,data.json,named.mjs,node_modules\n"),
])
def test_files_are_found(server, code, expected):
    verdict = prints(server, code, expected, files=FILES)
    assert verdict["output_files"] == []


def test_output_files(server):
    verdict = node(server, "require('fs').writeFileSync('out.txt', 'é')", outputs=["*.txt"])
    assert verdict["files"] == [{"name": "out.txt", "mime": "text/plain", "data": base64.b64encode("é".encode()).decode()}]


# ---- What goes in ----

def test_stdin(server):
    prints(server, "process.stdin.setEncoding('utf8'); let s = ''; process.stdin.on('data', (d) => s += d).on('end', () => console.log(s.length))",
           "100000\n", stdin="x" * 100000)
    prints(server, "console.log(require('fs').readFileSync(0, 'utf8').toUpperCase())", "HELLO É\n", stdin="hello é")
    prints(server, "for await (const line of require('readline').createInterface({input: process.stdin})) console.log('>' + line)", ">a\n>b\n",
           stdin="a\nb\n")


def test_arguments_and_environment(server):
    verdict = node(server, "console.log(JSON.stringify([process.argv.slice(1), process.env.MODE, process.execArgv]))",
                   args=["a", "b c", "", "--é"], env={"MODE": "fast"})
    assert json.loads(verdict["stdout"]) == [["/workspace/main.js", "a", "b c", "", "--é"], "fast", []]


def test_environment_is_the_policys(server):
    names = json.loads(node(server, "console.log(JSON.stringify(Object.keys(process.env).sort()))")["stdout"])
    assert names == ["HOME", "LANG", "LOGNAME", "PATH", "USER", "UV_USE_IO_URING"]


@pytest.mark.parametrize("name", ["NODE_OPTIONS", "NODE_PATH", "LD_PRELOAD"])
def test_environment_that_loads_code_is_refused(server, name):
    body = json.dumps({"code": "0", "runtime": "node", "env": {name: "x"}})
    reply = server.request("POST", "/execute", body)
    assert (reply.status, reply.json["field"]) == (400, "env")


# ---- How it ends ----

@pytest.mark.parametrize("code, exit_code", [
    ("process.exit(3)", 3), ("process.exitCode = 4", 4), ("await 0; process.exit(5)", 5), ("import 'fs'; process.exit(6)", 6),
    ("throw new Error('x')", 1), ("await 0; throw new Error('x')", 1), ("import 'fs'; throw new Error('x')", 1),
    ("Promise.reject(new Error('x'))", 1), ("setTimeout(() => { throw new Error('x') })", 1),
    ("let x = ;", 1), ("import {nope} from 'fs'", 1), ("import './nope.mjs'", 1), ("require('nope')", 1),
    ("await new Promise(() => {})", 13), ("process.on('exit', () => process.exit(7))", 7),
])
def test_exit_codes(server, code, exit_code):
    verdict = node(server, code)
    assert (verdict["exit_code"], verdict["signal"], verdict["status"]) == (exit_code, None, "execution_error"), verdict
    if exit_code == 1:
        assert "Error" in verdict["stderr"]


@pytest.mark.parametrize("signal, code", [("SIGKILL", 137), ("SIGTERM", 143), ("SIGSEGV", 139), ("SIGABRT", 134)])
def test_signals(server, signal, code):
    verdict = node(server, f"process.kill(process.pid, '{signal}'); setInterval(() => 0, 1000)")
    assert (verdict["exit_code"], verdict["signal"]) == (code, signal), verdict


def test_an_error_names_the_programs_lines(server):
    for code in "\nthrow new Error('here')", "await 0\nthrow new Error('here')", "import 'fs'\nthrow new Error('here')":
        assert "/workspace/main.js:2" in node(server, code)["stderr"]


def test_timeout(server):
    verdict, _ = until_begun(server.execute, "console.log('begun'); for (;;);", (2000, 20000), runtime="node")
    assert (verdict["status"], verdict["exit_code"], verdict["killed"], verdict["stdout"]) == ("timeout", -1, True, "begun\n")


def test_memory(server):
    verdict = node(server, "const a = []; for (;;) a.push(Buffer.alloc(1 << 20, 1))", limits={"memory_bytes": 200 << 20})
    assert (verdict["status"], verdict["oom"], verdict["exit_code"]) == ("oom", True, 137), verdict


def test_deep_recursion_is_the_programs_to_catch(server):
    prints(server, "function f() { f() } try { f() } catch (error) { console.log(error instanceof RangeError) }", "true\n")


# ---- What there is ----

@pytest.mark.parametrize("code, expected", [
    ("const {Worker} = require('worker_threads'); new Worker('postMessage(6 * 7)'.replace('post', 'require(\"worker_threads\").parentPort.post'), "
     "{eval: true}).on('message', console.log)", "42\n"),
    ("console.log(require('child_process').execSync('echo $((6 * 7))').toString().trim())", "42\n"),
    ("console.log(require('child_process').spawnSync(process.execPath, ['-p', '6 * 7']).stdout.toString().trim())", "42\n"),
    ("const child = require('child_process').fork('./child.js'); child.on('message', (m) => { console.log(m); child.disconnect() })", "42\n"),
    ("let n = 0; const t = setInterval(() => { if (++n === 3) { clearInterval(t); console.log(n) } }, 1)", "3\n"),
    ("setTimeout(() => console.log('b'), 20); setTimeout(() => console.log('a'), 1); process.nextTick(() => console.log('0'))", "0\na\nb\n"),
    ("console.log(require('zlib').gunzipSync(require('zlib').gzipSync('x')).toString(), require('crypto').createHash('md5').update('').digest('hex').length)",
     "x 32\n"),
    ("console.log(new WebAssembly.Memory({initial: 1, maximum: 65536}).buffer.byteLength)", "65536\n"),
    ("process.on('SIGTERM', () => { console.log('term'); process.exit() }); process.kill(process.pid, 'SIGTERM'); setInterval(() => 0, 1000)", "term\n"),
    ("const s = require('http').createServer((q, r) => r.end('x')).listen('/tmp/s', () => require('http').get({socketPath: '/tmp/s'}, (r) => "
     "r.on('data', (d) => { console.log(d + ''); s.close() })))", "x\n"),
    ("require('fs/promises').writeFile('a', 'x').then(() => require('fs/promises').copyFile('a', 'b')).then(() => console.log('copied'))", "copied\n"),
    ("fetch('http://192.0.2.1/').catch((error) => console.log(error.cause.code))", "ENETUNREACH\n"),
    ("console.log(new Intl.DateTimeFormat('en', {timeZone: 'Asia/Tokyo', hour: 'numeric'}).format(new Date(0)))", "9 AM\n"),
])
def test_what_programs_use(server, code, expected):
    prints(server, code, expected, files=[{"name": "child.js", "content": "process.send(42)"}])


def test_large_output_is_whole(server):
    verdict = node(server, "process.stdout.write('x'.repeat(300000)); process.stderr.write('y'.repeat(300000))")
    assert (len(verdict["stdout"]), len(verdict["stderr"])) == (300000, 300000)


def test_output_before_exit_is_whole(server):
    assert len(node(server, "console.log('x'.repeat(200000)); process.exit(0)")["stdout"]) == 200001


def test_denied_calls_are_named(server):
    verdict = node(server, "try { require('fs').watch('.') } catch (error) { console.log(error.code) }")
    assert (verdict["stdout"], verdict["denied_syscalls"]) == ("EPERM\n", [{"name": "inotify_init1", "count": 1}])


# ---- bash ----

def bash(server, code, **fields):
    return server.execute(code, runtime="bash", **fields)


@pytest.mark.parametrize("code, expected", [
    ("echo $((6 * 7))", "42\n"), ("for i in 1 2 3; do echo $i; done | tac | head -n 1", "3\n"), ("echo \"$1-$2\"", "a-b c\n"),
    ("tr a-z A-Z", "IN\n"), ("cat f", "content"), ("id -un; pwd", "immure\n/workspace\n"), ("x=$(sleep 0.01 & wait; echo $?); echo $x", "0\n"),
    ("mapfile -t a < <(seq 3); echo ${#a[@]}", "3\n"), ("echo x >/dev/null; echo y >&2 2>/dev/null; awk 'BEGIN {print 1}'", "1\n"),
])
def test_bash(server, code, expected):
    verdict = bash(server, code, args=["a", "b c"], stdin="in\n", files=[{"name": "f", "content": "content"}])
    assert (verdict["stdout"].removeprefix("y\n"), verdict["exit_code"], verdict["denied_syscalls"]) == (expected, 0, []), verdict
    assert verdict["policy"] == "bash"


@pytest.mark.parametrize("code, exit_code, signal", [("exit 3", 3, None), ("kill -9 $$", 137, "SIGKILL"), ("nope", 127, None),
                                                     ("set -e; false; echo never", 1, None), ("(exit 4) || exit $?", 4, None)])
def test_bash_exit_codes(server, code, exit_code, signal):
    verdict = bash(server, code)
    assert (verdict["exit_code"], verdict["signal"], verdict["stdout"]) == (exit_code, signal, "")


MAKEFILE = """all: one two
	@echo $$PWD
one two:
	@echo $@ > $@; touch $@
again:
	@$(MAKE) --no-print-directory all
wrong:
	@exit 3
"""


@pytest.mark.parametrize("command, printed, exit_code", [("make", "/workspace\n", 0), ("make -j3 again", "/workspace\n", 0), ("make wrong", "", 2)])
def test_make_works(server, command, printed, exit_code):
    """It has each command take the ids that it has already; nothing else of that is allowed."""
    verdict = bash(server, command, files=[{"name": "Makefile", "content": MAKEFILE}])
    assert (verdict["stdout"], verdict["exit_code"], verdict["denied_syscalls"]) == (printed, exit_code, []), verdict


@pytest.mark.parametrize("ids", ["-1, 0, -1", "1000, 1000, 1000", "-1, 1001, -1", "-1, 1000, 0", "0, 1000, -1"])
def test_no_other_ids_in_bash(server, ids):
    number = {"x86_64": 117, "aarch64": 147}[platform.machine()]
    verdict = bash(server, f"perl -e 'print syscall({number}, {ids})'")
    assert (verdict["stdout"], verdict["denied_syscalls"]) == ("-1", [{"name": "setresuid", "count": 1}]), verdict


def test_bash_has_no_sockets(server):
    verdict = bash(server, "exec 3<>/dev/tcp/127.0.0.1/1 && echo open")
    assert verdict["stdout"] == "" and verdict["exit_code"] != 0


# ---- Debian's own Node, beside whichever is installed ----

DEBIAN = TOOLS / "debian-node"
DEBIAN_RUNTIME = """
policy_path: "%s"
runtime {
  name: "node" interpreter: "/opt/node/bin/nodejs" extension: "js" policy: "node"
  arg: ["--experimental-vm-modules", "/immure/node/immure-launch.cjs"] standby: "--standby" warm_jails: 1
  prelude { path: "/immure/node/immure-launch.cjs" file: "node/immure-launch.cjs" }
  prelude { path: "/immure/node/immure-prelude.cjs" file: "node/immure-prelude.cjs" }
}
default_runtime: "node"
"""


@pytest.fixture(scope="module")
def debian(tmp_path_factory):
    if platform.machine() != "x86_64":
        pytest.skip("its libraries lie elsewhere on other machines")
    assert DEBIAN.is_dir(), f"there is no {DEBIAN}; scripts/test fetches it"
    where = tmp_path_factory.mktemp("debian")
    policy = shipped_policy("node")
    for part in ("acorn", "acorn-walk", "cjs-module-lexer", "undici"):
        policy += f'mount {{ destination: "/usr/share/nodejs/{part}" bind {{ source: "{DEBIAN}/usr/share/nodejs/{part}" }} }}\n'
    policy += f"""
mount {{ destination: "/usr/lib/x86_64-linux-gnu" bind {{ source: "/usr/lib/x86_64-linux-gnu" }} }}
mount {{ destination: "/lib64/ld-linux-x86-64.so.2" symlink {{ target: "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" }} }}
mount {{ destination: "/opt/node" bind {{ source: "{DEBIAN}/usr" }} }}
env {{ name: "LD_LIBRARY_PATH" value: "/opt/node/lib/x86_64-linux-gnu" }}
"""
    (where / "node.textproto").write_text(policy)
    (where / "server.textproto").write_text(DEBIAN_RUNTIME % (where / "node.textproto"))
    with Server(where / "log", SANDBOX_EXECUTOR_CONFIG=str(where / "server.textproto")) as server:
        yield server


@pytest.mark.parametrize("code, expected", [
    ("console.log(process.version.split('.')[0]); setResult({a: [1]})", "v18\n"),
    ("const {setTimeout: sleep} = require('timers/promises'); await sleep(1); console.log(typeof callTool, __filename)", "function /workspace/main.js\n"),
    ("import fs from 'fs'; const {n} = await import('./a.mjs'); console.log(n, typeof fs.readFileSync, typeof fetch, typeof WebAssembly)",
     "1 function function object\n"),
])
def test_debians_own_node(debian, code, expected):
    """The same in an interpreter that stood ready and in one of the job's own, which limits of its own lead to."""
    wait_for(lambda: 'runtime="node",state="parked"} 1' in debian.get("/metrics").body.decode(), "an interpreter stands ready", 60)
    files = [{"name": "a.mjs", "content": "export const n = 1"}]
    verdicts = [node(debian, code, files=files, **wish) for wish in ({}, {"limits": {"pids": 63}})]
    for verdict in verdicts:
        assert (verdict["stdout"], verdict["stderr"], verdict["status"], verdict["denied_syscalls"]) == (expected, "", "success", []), verdict
    assert verdicts[0]["output"] == verdicts[1]["output"] == ('{"a":[1]}' if "setResult" in code else "")


# ---- Which there are ----

ABSENT = """
shipped_runtimes: false
runtime { name: "python" interpreter: "/usr/bin/python3.11" extension: "py" policy: "python" }
runtime { name: "ghost" interpreter: "/usr/bin/ghost" policy: "python" %s}
"""


def test_an_absent_optional_runtime_is_not_offered(tmp_path):
    config = tmp_path / "server.textproto"
    config.write_text(ABSENT % "optional: true ")
    with Server(tmp_path / "log", SANDBOX_EXECUTOR_CONFIG=str(config)) as server:
        reply = server.request("POST", "/execute", json.dumps({"code": "x", "runtime": "ghost"}))
        assert (reply.status, reply.json["error"]) == (400, "unsupported runtime: ghost; supported: python")
        assert server.log().count("event=runtime_absent") == 1
        assert server.execute("print(1)")["stdout"] == "1\n"


def test_an_absent_runtime_that_is_not_optional_is_a_fault(tmp_path):
    config = tmp_path / "server.textproto"
    config.write_text(ABSENT % "")
    server = Server(tmp_path / "log", SANDBOX_EXECUTOR_CONFIG=str(config))
    server.start()
    assert server.ended() == 1
    assert "server.textproto:4:38: runtime[1].interpreter: /usr/bin/ghost is not there" in server.log()


# A runtime that compiles and runs: what has no main is an error, told in two lines.
COMPILED = r'''
runtime {
  name: "%s" interpreter: "/usr/bin/bash" policy: "bash" extension: "c" %s
  arg: ["-c", "grep -q main $1 || { printf 'ld: in _start:\\nundefined reference to main \\377\\n' >&2; exit 1; }; echo ran $1", "cc"]
}
'''
C_FAILS = "self-test of runtime %s: the program ended with exit code 1: ld: in _start:\nundefined reference to main"


def test_a_runtime_has_its_own_self_test(serve):
    server = serve(COMPILED % ("c", 'self_test: "int main(void) { return 0; }"') + "default_runtime: 'c'")
    assert "self_test" not in server.get("/readyz").json
    assert server.execute("int main(void) {}")["stdout"] == "ran /immure/main.c\n"
    assert server.execute("print(1)", runtime="python")["stdout"] == "1\n"  # what is shipped is there, too


@pytest.mark.parametrize("more, why", [
    ("", C_FAILS % "c"), ("default_runtime: 'd'", C_FAILS % "c" + "; " + C_FAILS % "d"),
])
def test_every_runtime_is_tested(serve, more, why):
    """Each that fails is named, with its stderr; the server is ready without optional ones, but not without the default one."""
    server = serve(COMPILED % ("c", "optional: true") + COMPILED % ("d", "optional: true" if more else 'self_test: "main"') + more, ready=not more)
    def answer():
        try:
            reply = server.get("/readyz")
        except OSError:
            return None
        return reply if b"exit code" in reply.body else None
    reply = wait_for(answer, "the self-test's end")
    assert reply.status == (503 if more else 200)
    assert reply.json["error" if more else "self_test"] == why
    assert "level=" + ("error" if more else "warning") in next(line for line in server.log().splitlines() if "event=selftest" in line)
    assert "undefined reference to main" in server.log()


# An interpreter that runs nothing, and ends with success.
IDLE = """
runtime {
  name: "idle" interpreter: "/usr/bin/bash" policy: "bash" extension: "py" optional: true %s
  arg: ["-c", "printf %%s 'nothing at all'", "idle"]
}
"""


@pytest.mark.parametrize("more, believed", [
    ("", False), ("self_test: 'x'", True), ("self_test: 'x' self_test_output: 'nothing at all'", True),
    ("self_test: 'x' self_test_output: 'nothing'", False), ("self_test: 'x' self_test_output: 'nothing at all!'", False),
])
def test_a_program_has_to_print_what_shows_that_it_ran(serve, more, believed):
    server = serve(IDLE % more)
    assert ("idle" in {runtime["name"] for runtime in server.get("/runtimes").json["runtimes"]}) is believed
    why = "self-test of runtime idle: the program ended with exit code 0, but has not printed what it should"
    assert server.get("/readyz").json.get("self_test") == (None if believed else why)
    assert server.execute("print(1)")["stdout"] == "1\n"


def test_an_optional_one_that_fails_is_not_offered_until_it_is_mended(serve, tmp_path):
    """At no door: its name is refused with the reason, and nobody waits for it."""
    server = serve(COMPILED % ("c", "optional: true alias: 'sea'"))

    def offered():
        return {name for runtime in server.get("/runtimes").json["runtimes"] for name in [runtime["name"], *runtime["aliases"]]}

    def tools():
        return server.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).body.decode()

    assert "python" in offered() and not {"c", "sea"} & offered()
    for name in "c", "sea":
        reply = server.request("POST", "/execute", json.dumps({"runtime": name, "code": "int main(void) {}"}))
        assert (reply.status, reply.json["field"]) == (400, "runtime")
        assert reply.json["error"].startswith("the runtime 'c' is not offered, because its self-test fails: the program ended with exit code 1: ld: ")
    assert '"sea"' not in tools()
    assert "level=warning" in next(line for line in server.log().splitlines() if "event=selftest" in line)
    assert server.execute("print(1)")["stdout"] == "1\n"
    path = tmp_path / "server-0.textproto"
    path.write_text(path.read_text().replace("alias: 'sea'", "alias: 'sea' self_test: 'int main(void) {}'"))
    server.process.send_signal(signal.SIGHUP)
    server.reloaded()
    wait_for(lambda: {"c", "sea"} <= offered(), "the runtime")
    assert server.execute("int main(void) {}", runtime="sea")["stdout"] == "ran /immure/main.c\n"
    assert '"sea"' in tools()


def test_an_evaluator_that_fails_is_not_there(serve):
    """Nobody waits for it either."""
    server = serve("shipped_runtimes: false\n" + (ROOT / "config/server.textproto").read_text().replace('interpreter: "node"\n  # --expose', 'self_test: "no JSON" interpreter: "node"\n  # --expose'))
    reply = server.request("POST", "/run-code", json.dumps({"source": "export default 1", "options": {"language": "javascript"}}))
    assert reply.status == 404 and "the runtime 'isolate' is not offered, because its self-test fails: " in reply.json["error"], reply.body


def test_a_runtime_that_is_needed_is_waited_for(serve):
    server = serve(COMPILED % ("c", ""), ready=False)
    def why():
        try:
            return server.get("/readyz").json.get("error", "")
        except OSError:
            return ""
    assert wait_for(lambda: "exit code" in why() and why(), "the self-test's end") == C_FAILS % "c"
    assert server.execute("print(1)", runtime="python")["stdout"] == "1\n"


def test_an_absent_default_runtime_stops_the_start(tmp_path):
    config = tmp_path / "server.textproto"
    config.write_text(ABSENT % "optional: true " + 'default_runtime: "ghost"\n' + config_key("a", "secret"))
    ended = subprocess.run([os.environ.get("IMMURE_REAL", ROOT / "build/immure"), "serve", "--config", config, "--check-config"],
                           capture_output=True, text=True)
    assert ended.returncode != 0 and "default_runtime: the interpreter of the runtime 'ghost' is not installed" in ended.stderr


def test_a_named_interpreter_is_not_optional(tmp_path):
    server = Server(tmp_path / "log", SANDBOX_NODE_BIN="/usr/bin/nope")
    server.start()
    assert server.ended() == 1
    assert "SANDBOX_NODE_BIN: runtime[" in server.log() and "/usr/bin/nope is not there; install it" in server.log()
