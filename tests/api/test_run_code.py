"""POST /run-code: sources, options, replies, in both languages."""

import http.client
import json
import re
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness import Server, config_key, shipped_policy, wait_for
from run_code import Client, FunctionServer

pytestmark = pytest.mark.skipif(not shutil.which("node"), reason="no Node")

LANGUAGES = ["javascript", "typescript"]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    place = tmp_path_factory.mktemp("run-code")
    with FunctionServer() as callbacks, Server(place / "log", SANDBOX_EXECUTOR_CALLBACK_URLS=callbacks.url) as server:
        yield Client(server, callbacks)
        assert "event=front_denied" not in server.log()


@pytest.fixture(params=LANGUAGES)
def language(request):
    return request.param


def post(client, body):
    return client.server.request("POST", "/run-code", json.dumps(body))


# ---- execute ----

@pytest.mark.parametrize(("source", "result"), [
    ("export default 42", 42),
    ("export default () => 42", 42),
    ("export default async () => 42", 42),
    ("export default Promise.resolve(42)", 42),
    ("export default {then(resolve) { resolve({then(again) { again(42) }}) }}", 42),
    ("export default async () => [await 1, await Promise.resolve(2)]", [1, 2]),
    ("const value = await Promise.resolve(42); export default value", 42),
    ("export default function () { return this === undefined }", True),
])
def test_default_export_is_the_result(client, language, source, result):
    assert client.value(source, language=language) == result


def test_function_gets_its_arguments(client, language):
    reply = client.run("export const add = (a, b) => a + b", language=language, execute={"fn": "add", "args": [40, 2]})
    assert (reply["status"], reply["result"]) == ("success", 42)


def test_null_is_the_same_as_nothing(client):
    for options in (None, dict.fromkeys(["execute", "imports", "modules", "globals", "language", "memoryLimitBytes", "filename", "report"]),
                    {"execute": {"fn": None, "args": None}, "language": ""}):
        reply = post(client, {"source": "export default (): number => 42", "options": options, "callback_url": None, "execution_id": None,
                              "timeout_ms": None, "stream": None})
        assert reply.status == 200 and reply.json["result"] == 42, reply.body
    for body, text in (({"source": None}, "source is required"), ({"code": ""}, "code: unknown field; did you mean 'source'?")):
        reply = post(client, body)
        assert reply.status == 400 and reply.json["error"] == text


def test_value_takes_no_arguments(client, language):
    reply = client.run("export default 42", language=language, execute={"args": [1]})
    assert (reply["status"], reply["error"]["name"]) == ("error", "TypeError")
    assert "result" not in reply


@pytest.mark.parametrize(("source", "execute"), [("export const a = 1", {}), ("export default 1", {"fn": "b"}), ("1", {})])
def test_missing_export_is_a_link_error(client, language, source, execute):
    reply = client.run(source, language=language, execute=execute)
    assert reply["status"] == "link_error"
    assert reply["error"]["specifier"] == execute.get("fn", "default")


# ---- The reply ----

def test_reply_has_what_it_should(client):
    reply = client.run("console.log(1); report('r'); export default 42", report=True)
    assert set(reply) == {"status", "result", "reports", "logs", "durationMs", "memoryUsedBytes"}
    assert reply["reports"] == ["r"]
    assert reply["durationMs"] > 0 and reply["memoryUsedBytes"] > 0


def test_error_has_name_message_stack_and_place(client, language):
    reply = client.run("const a = 1\n\nexport default () => {\n  throw new RangeError('why')\n}", language=language, filename="main.ts")
    error = reply["error"]
    assert reply["status"] == "error" and "result" not in reply
    assert (error["name"], error["message"], error["filename"], error["line"], error["column"]) == ("RangeError", "why", "main.ts", 4, 9)
    assert error["stack"] == "RangeError: why\n    at default (main.ts:4:9)"


@pytest.mark.parametrize(("thrown", "message"), [("'text'", "text"), ("42", "42"), ("null", "null"), ("undefined", "undefined"),
                                                 ("Symbol('s')", "Symbol(s)")])
def test_thrown_values_need_not_be_errors(client, thrown, message):
    reply = client.run(f"throw {thrown}")
    assert (reply["status"], reply["error"]["message"]) == ("error", message)


@pytest.mark.parametrize(("source", "line", "column"), [
    ("const a = 1\nconst b = ;\nexport default a", 2, 11), ("export default 1\nlet c = {\n  a: [", 3, 7), ("f(\n\n", 3, 1), ("`abc", 1, 5),
])
def test_what_does_not_compile_is_a_link_error(client, language, source, line, column):
    """With its place, from 1, in the entry, in a module, and in one that is imported later."""
    def place(reply):
        error = reply["error"]
        return reply["status"], error["name"], error["filename"], error["line"], error["column"]
    assert place(client.run(source, language=language)) == ("link_error", "SyntaxError", "<runCode>", line, column)
    for imported in ("import './lib/a.ts'", "await import('./lib/a.ts')"):
        reply = client.run(f"\n\n{imported}; export default 1", language=language, modules={"./lib/a.ts": source})
        assert place(reply) == ("link_error", "SyntaxError", "lib/a.ts", line, column)
    assert client.value("let e; try { await import('./a') } catch (error) { e = error }; export default [e instanceof SyntaxError, e.name]",
                        language=language, modules={"./a": source}) == [True, "SyntaxError"]


# ---- console, report ----

def test_console_is_captured(client, language):
    reply = client.run("console.log('a', {b: [1]}); console.info(); console.warn(undefined); console.error(1n); console.debug(() => 1)\n"
                       "console.trace(Symbol('s')); export default 0", language=language)
    assert [(row["level"], row["args"]) for row in reply["logs"]] == [
        ("log", ["a", {"b": [1]}]), ("info", []), ("warn", [{"$type": "undefined"}]), ("error", [{"$type": "bigint", "value": "1"}]),
        ("debug", ["[Function: (anonymous)]"]), ("trace", ["Symbol(s)"])]
    assert all(row["timestamp"] > 1.7e12 for row in reply["logs"])


def test_console_is_a_global_like_others(client, language):
    """The caller's own, or the one that captures: an identifier, which can be shadowed, and no property."""
    look = "export default [typeof globalThis.console, 'console' in globalThis, typeof console.log]"
    reply = client.run(f"await console.log('a'); {look}", language=language, globals={"console": {"log": lambda text: None}})
    assert (reply["result"], reply["logs"]) == (["undefined", False, "function"], [])
    for given in ({}, {"a": 1}, {"$type": 1}):
        reply = client.run(f"import './b'; console.log('a'); {look}", language=language, globals=given, modules={"./b": "console.log('b')"})
        assert (reply["result"], [row["args"] for row in reply["logs"]]) == (["undefined", False, "function"], [["b"], ["a"]])
    assert client.value("const console = 1; export default console", language=language) == 1


def test_logs_of_a_failed_run_are_kept(client):
    assert client.run("console.log(1); throw 1")["logs"][0]["args"] == [1]
    for timeout_ms in (300, 20000):  # on a busy machine it may need longer to begin
        if logs := client.run("console.log(1); for (;;);", timeout_ms=timeout_ms)["logs"]:
            break
    assert logs[0]["args"] == [1]


def test_report_is_there_only_if_asked_for(client):
    assert client.value("export default typeof report") == "undefined"
    heard = []
    reply = client.run("await report({a: 1}); export default typeof globalThis.report", report=heard.append)
    assert (reply["reports"], heard, reply["result"]) == ([{"a": 1}], [{"a": 1}], "function")


# ---- imports, modules, globals ----

def test_imports_are_modules(client, language):
    assert client.value("import d, {a as b} from 'pkg'; import * as all from '@scope/pkg'\nexport default [d, b, all.c, Object.keys(all)]",
                        language=language, imports={"pkg": {"default": 1, "a": 2}, "@scope/pkg": {"c": 3}}) == [1, 2, 3, ["c"]]


def test_namespaces_are_frozen(client):
    assert client.value("import * as all from 'pkg'\nconst names = []\n"
                        "for (const change of [() => { (all as any).a = 2 }, () => { (all as any).b = 2 }, () => { delete (all as any).a }])\n"
                        "  try { change() } catch (error) { names.push(error.name) }\nexport default names",
                        imports={"pkg": {"a": 1}}) == ["TypeError"] * 3


@pytest.mark.parametrize("filename", ["src/main", "./src/main", "/src/main"])
def test_modules_are_resolved_within_the_graph(client, language, filename):
    """Keys are from its root, imports of the entry from `filename`, and those of a module from its key."""
    assert client.value("import {a} from '../lib/a'; import d from './d'; export default [...a, d]", language=language, filename=filename,
                        modules={"./lib/a": "import b from '../b'; import c from './more/c'; export const a = [b, c, import.meta.url]",
                                 "./b": "export default 2", "./lib/more/c": "export default 3", "./src/d": "export {default} from '../b'"}) == [
                            2, 3, "sandbox:lib/a", 2]
    reply = client.run("import './lib/a'; export default 1", language=language, filename=filename, modules={"./lib/a": "1"})
    assert (reply["status"], reply["error"]["message"]) == (
        "link_error", f"Cannot find module './lib/a' imported from {filename}: there is no './src/lib/a' among the modules")


def test_modules_may_depend_on_each_other(client, language):
    assert client.value("import {even} from './even'; export default even(10)", language=language, modules={
        "./even": "import {odd} from './odd'; export const even = n => n === 0 || odd(n - 1)",
        "./odd": "import {even} from './even'; export const odd = n => n !== 0 && even(n - 1)"}) is True


@pytest.mark.parametrize("specifier", ["./b", "../a", "b", "node:fs", "fs", "/etc/passwd", "https://example.com/a.js", "file:///etc/passwd",
                                       "data:text/javascript,1", "pkg/sub", "@scope/other"])
def test_what_is_not_given_cannot_be_imported(client, language, specifier):
    given = {"modules": {"./a": "export default 1"}, "imports": {"pkg": {"default": 1}}}
    reply = client.run(f"import {json.dumps(specifier)}; export default 1", language=language, **given)
    assert (reply["status"], reply["error"]["specifier"]) == ("link_error", specifier)
    reply = client.run(f"export default await import({json.dumps(specifier)})", language=language, **given)
    assert (reply["status"], reply["error"]["specifier"]) == ("link_error", specifier)


def test_missing_name_of_a_module_is_a_link_error(client, language):
    reply = client.run("import {a,\n  b} from './a'; export default [a, b]", language=language, modules={"./a": "export const a = 1"})
    error = reply["error"]
    assert (reply["status"], error["specifier"], error["line"]) == ("link_error", "./a", 2 if language == "javascript" else error["line"])


def test_import_may_be_dynamic(client, language):
    assert client.value("const {a} = await import('./a'); export default [a, (await import('pkg')).default]", language=language,
                        modules={"./a": "export const a = 1"}, imports={"pkg": {"default": 2}}) == [1, 2]


def test_globals_are_identifiers_but_no_properties(client, language):
    assert client.value("import {b} from './b'; export default [a, b, 'a' in globalThis, globalThis.a]", language=language,
                        modules={"./b": "export const b = a"}, globals={"a": 1})[:3] == [1, 1, False]


def test_globals_can_be_shadowed(client, language):
    assert client.value("const a = 2; export default a", language=language, globals={"a": 1}) == 2


def test_import_meta_has_a_url_and_nothing_else(client, language):
    assert client.value("export default [import.meta.url, Object.keys(import.meta)]", language=language) == ["sandbox:<runCode>", ["url"]]
    assert client.value("export default import.meta.url", language=language, filename="a/b.ts") == "sandbox:a/b.ts"


# ---- The caller's functions ----

def test_functions_are_proxies(client, language):
    assert client.value("import {twice} from 'pkg'\nexport default async (f) => [await twice(21), await add(1, 2), await f('x'),"
                        " twice(1) instanceof Promise]", language=language, imports={"pkg": {"twice": lambda n: 2 * n}},
                        globals={"add": lambda a, b: a + b}, args=[str.upper]) == [42, 3, "X", True]


def test_functions_work_while_modules_are_evaluated(client, language):
    assert client.value("const value = await f(1); export default value", language=language, globals={"f": lambda n: n + 1}) == 2


def test_error_of_a_function_is_an_ordinary_one(client):
    def fail():
        raise ValueError("why not")
    assert client.value("try { await f() } catch (e) { globalThis.e = e }\nexport default [e.message, e.constructor === Error, /python/.test(e.stack)]",
                        globals={"f": fail}) == ["why not", True, False]


def test_error_without_words_is_an_error(client):
    client.callbacks.raw = {"error": ""}
    try:
        assert client.value("try { await f() } catch (e) { globalThis.e = e }\nexport default [e.message, e.constructor === Error]",
                            globals={"f": lambda: None}) == ["no reason was given", True]
    finally:
        client.callbacks.raw = None


def test_many_calls_at_once(client):
    assert client.value("export default async () => (await Promise.all(Array.from({length: 200}, (_, i) => f(i)))).reduce((a, b) => a + b)",
                        globals={"f": lambda n: n}) == 199 * 100


@pytest.mark.parametrize(("end", "status"), [("export default 42", "success"), ("throw new Error('why')", "error"), ("export const a = 1", "link_error")])
def test_calls_that_nobody_awaits_are_made(client, language, end, status):
    """All that were made before the end, whatever it is: more than can be under way at once, and slow ones."""
    heard = set()
    def take(n):
        time.sleep(0.5 if n % 50 == 0 else 0)
        heard.add(n)
    reply = client.run(f"for (let i = 0; i < 100; i++) f(i)\n{end}", language=language, globals={"f": take})
    assert heard == set(range(100))
    assert reply["status"] == status


def test_calls_after_the_end_are_not_made(client):
    """Nothing of a source runs while the calls that it has made are answered."""
    heard = []
    reply = client.run("(async () => { for (;;) await null })(); const again = () => f(1).then(again, again); again(); export default 42",
                       language="javascript", globals={"f": heard.append})
    assert (reply["status"], reply["result"], heard) == ("success", 42, [1])


def test_calls_that_are_never_answered_end_with_the_cap(client):
    hold = threading.Event()
    try:
        reply = client.run("f(); export default 42", globals={"f": hold.wait}, timeout_ms=3000)
    finally:
        hold.set()
    assert (reply["status"], "result" in reply) == ("terminated", False)


def test_reports_are_delivered_in_order_one_by_one(client, language):
    heard, inside = [], []
    def take(n):
        inside.append(n)
        heard.append((n, len(inside)))
        time.sleep(0.02 if n < 3 else 0)  # whoever comes too early would be in here with it
        inside.pop()
    reply = client.run("for (let i = 0; i < 60; i++) { report(i); f(i) }\nexport default async () => { await report(60); return 1 }",
                       language=language, report=take, globals={"f": lambda n: n})
    assert (reply["status"], reply["reports"], heard) == ("success", list(range(61)), [(n, 1) for n in range(61)])


def test_a_report_that_fails_holds_up_no_other(client):
    heard = []
    def take(n):
        heard.append(n)
        if n == 0:
            raise ValueError("why not")
    assert client.value("const all = await Promise.allSettled([report(0), report(1), report(2)]); export default all.map((one) => one.status)",
                        report=take) == ["rejected", "fulfilled", "fulfilled"]
    assert heard == [0, 1, 2]


def test_without_a_callback_url_functions_fail(client):
    reply = post(client, {"source": "export default f()", "options": {"globals": {"f": {"$type": "function", "id": "f"}}}})
    assert reply.json["status"] == "error"


# ---- TypeScript ----

def test_types_are_erased(client):
    assert client.value("""
import type {T} from './types'
import {type U, value} from './types'
export type {T}
type Local<A> = A extends string ? 1 : 2
interface I { a: number }
const enum Small { A = 1, B = A << 2, C = "abc".length }
enum Large { M = "m", N = 3, O }
namespace Outer { export const x = 1; export namespace Inner { export const f = () => x } }
namespace Outer { export const y = x + 1 }
abstract class Base<T> { abstract get(): T }
class Child extends Base<number> { constructor(private readonly a: number, public b = 2) { super() } get(): number { return this.a } }
function over(a: string): string
function over(a: number): number
function over(a: any) { return a }
const s = {k: 1} satisfies Record<string, number>
declare const nothing: string
export default <T,>(..._: T[]): unknown => [Small.B, Small.C, Large.N, Large[4], Outer.Inner.f(), Outer.y, new Child(1).get(), new Child(1).b,
  over(3) as number, s.k!, value]
""", modules={"./types": "export type T = string; export type U = number; export const value: U = 7"}) == [4, 3, 3, "O", 1, 2, 1, 2, 3, 1, 7]


def test_imports_of_types_alone_go(client):
    assert client.value("import {T} from './missing'; let a: T = 1; export default a") == 1


def test_types_are_not_checked(client):
    assert client.value("const a: string = 1; export default a") == 1


@pytest.mark.parametrize(("source", "line", "column"), [
    ("enum A { X }\n\n\n  const f = (a: number): never => { throw new Error('x') }\nexport default () => f(A.X)", 4, 43),
    ("import {a} from './a'\ninterface I {\n  b: 1\n}\n\nexport default () => { null!.x; return a }", 6, 30),
])
def test_positions_are_the_authors(client, source, line, column):
    error = client.run(source, modules={"./a": "export const a = 1"})["error"]
    assert (error["line"], error["column"]) == (line, column)


def test_javascript_is_not_typescript(client):
    assert client.run("const a: number = 1; export default a", language="javascript")["error"]["name"] == "SyntaxError"
    assert client.value("const a = 1, b = 2, c = 3; export default a < b > (c)", language="javascript") is False


# ---- Ends ----

def test_safety_cap(client):
    reply = client.run("for (;;);", timeout_ms=300)
    assert (reply["status"], "300 ms" in reply["error"]["message"]) == ("terminated", True)


def started(client, source, **options):
    """A run that has begun: it has called a function of ours."""
    there = threading.Event()
    handle = client.start(f"await begun(); {source}", globals={"begun": there.set}, **options)
    assert there.wait(60)
    return handle


@pytest.mark.parametrize("source", ["for (;;);", "await new Promise(() => {})", "const f = () => Promise.resolve().then(f); await f()",
                                    "/^(a+)+$/.test('a'.repeat(40) + 'b')"])
def test_terminate(client, source):
    handle = started(client, f"{source}; export default 1")
    assert handle.running
    handle.terminate("had enough")
    reply = handle.wait()
    assert (reply["status"], reply["error"]["message"]) == ("terminated", "had enough")
    handle.terminate("again")


@pytest.mark.parametrize("stream", [False, True])
def test_terminate_what_waits_for_a_slot(serve, stream):
    server = serve(SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="1")

    def post(body):
        return server.request("POST", "/run-code", json.dumps(body))
    with ThreadPoolExecutor() as pool:
        runs = pool.submit(post, {"source": "for (;;);", "execution_id": "runs", "timeout_ms": 60000})
        wait_for(lambda: server.metric("immure_jobs_running") == 1, "a run")
        waits = pool.submit(post, {"source": "export default 1", "execution_id": "waits", "stream": stream, "queue_ms": 30000})
        assert post({"source": "export default 1"}).status == 503
        assert post({"source": "export default 1", "queue_ms": -1}).json["error"] == "queue_ms: must be a whole number from 0 up"
        wait_for(lambda: server.metric("immure_jobs_queued") == 1, "one that waits")
        assert server.request("POST", "/run-code/waits/terminate", '{"reason": "had enough"}').status == 204
        reply = waits.result()
        *_, result = reply.body.decode().strip().split("data: ")
        reply = json.loads(result)
        assert (reply["status"], reply["error"]["message"], reply["logs"]) == ("terminated", "had enough", [])
        assert waits.result().headers["Content-Type"] == ("text/event-stream" if stream else "application/json")
        assert server.metric("immure_jobs_queued") == 0
        assert server.request("POST", "/run-code/runs/terminate").status == 204
        assert runs.result().json["status"] == "terminated"


def test_terminate_what_never_was(client):
    assert client.server.request("POST", "/run-code/nobody/terminate").status == 204
    assert client.server.request("POST", "/run-code/nobody/terminate", '{"reason": null}').status == 204
    assert client.server.request("POST", "/run-code/nobody/terminate", '{"because": 1}').status == 400


def test_terminate_before_the_run(client):
    """Two requests may arrive in the wrong order. The first reason counts, and whatever the run does is not told."""
    for stream in (False, True):
        run = f"early-{stream}"
        for reason in ("too late", "again"):
            assert client.server.request("POST", f"/run-code/{run}/terminate", json.dumps({"reason": reason})).status == 204
        reply = post(client, {"source": "export default 1", "execution_id": run, "stream": stream})
        result = json.loads(reply.body.decode().rstrip().rpartition("event: result\ndata: ")[2]) if stream else reply.json
        assert (reply.status, result["status"], result["error"]["message"]) == (200, "terminated", "too late")
        assert post(client, {"source": "export default 1", "execution_id": run + "-other"}).json["status"] == "success"


def test_terminate_behind_the_run_ends_no_other(client):
    for _ in range(3):
        assert post(client, {"source": "export default 1", "execution_id": "again"}).json["status"] == "success"
        assert client.server.request("POST", "/run-code/again/terminate").status == 204


def test_memory(client):
    reply = client.run("const a = []; for (;;) a.push(new Array(1000).fill(1.5))", memoryLimitBytes=32 << 20)
    assert reply["status"] == "memory"


def test_deep_recursion_is_an_error(client):
    assert client.run("const f = () => f() + 1; export default f")["error"]["name"] == "RangeError"


def test_runs_know_nothing_of_each_other(client):
    source = "const before = globalThis.x; globalThis.x = 1; Array.prototype.y = 2; export default [typeof before, typeof [].y]"
    assert client.value(source) == client.value(source)


# ---- Streaming ----

def test_stream(client):
    body = {"source": "console.log('a'); report([1]); export default 42", "options": {"report": True}, "stream": True}
    reply = client.server.request("POST", "/run-code", json.dumps(body))
    blocks = [block.split("\n") for block in reply.body.decode().strip().split("\n\n")]
    events = [(event.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for event, data in blocks]
    assert [event for event, _ in events] == ["log", "report", "result"]
    assert (events[0][1]["args"], events[1][1], events[2][1]["result"]) == (["a"], [1], 42)
    assert events[2][1]["logs"] == [events[0][1]]


@pytest.mark.parametrize("how", ["stream", "Accept"])
def test_events_come_as_they_happen(client, how):
    """The run waits until its first events have been read."""
    heard = threading.Event()
    client.callbacks.functions[("streamed", "heard")] = lambda: heard.wait(60) and None
    body = {"source": "console.log('\\n'); report({}); await heard(); export default 1", "execution_id": "streamed", "callback_url": client.callbacks.url,
            "options": {"report": True, "globals": {"heard": {"$type": "function", "id": "heard"}}}}
    headers = {"X-Service-API-Key": client.server.key, "Content-Type": "application/json"}
    if how == "stream":
        body["stream"] = True
    else:
        headers["Accept"] = "text/event-stream"
    connection = http.client.HTTPConnection("127.0.0.1", client.server.port, timeout=60)
    try:
        connection.request("POST", "/run-code", json.dumps(body), headers)
        response = connection.getresponse()
        assert (response.status, response.headers["Content-Type"]) == (200, "text/event-stream")
        assert [response.readline() for _ in range(2)][0] == b"event: log\n"
        assert [response.readline() for _ in range(3)][1:] == [b"event: report\n", b"data: {}\n"]
        heard.set()
        rest = response.read().decode().strip().split("\n")
        assert rest[0] == "event: result" and json.loads(rest[1].removeprefix("data: "))["result"] == 1
    finally:
        connection.close()


def test_terminated_stream_ends_with_a_result(client):
    there = threading.Event()
    client.callbacks.functions[("ended", "begun")] = there.set
    body = {"source": "await begun(); for (;;);", "execution_id": "ended", "callback_url": client.callbacks.url, "stream": True,
            "options": {"globals": {"begun": {"$type": "function", "id": "begun"}}}}
    connection = http.client.HTTPConnection("127.0.0.1", client.server.port, timeout=60)
    try:
        connection.request("POST", "/run-code", json.dumps(body), {"X-Service-API-Key": client.server.key, "Content-Type": "application/json"})
        assert there.wait(60)
        assert client.server.request("POST", "/run-code/ended/terminate", '{"reason": "enough"}').status == 204
        lines = connection.getresponse().read().decode().strip().split("\n")
        reply = json.loads(lines[-1].removeprefix("data: "))
        assert (lines[-2], reply["status"], reply["error"]["message"]) == ("event: result", "terminated", "enough")
    finally:
        connection.close()


# ---- Who may ----

def test_runs_belong_to_their_key(tmp_path):
    config = tmp_path / "server.textproto"
    config.write_text(config_key("a", "key-a") + config_key("b", "key-b") + config_key("c", "key-c", runtime=["python"]))
    with FunctionServer() as callbacks, Server(tmp_path / "log", SANDBOX_EXECUTOR_CONFIG=str(config), SANDBOX_EXECUTOR_CALLBACK_URLS=callbacks.url) as server:
        server.key = "key-a"
        handle = started(Client(server, callbacks), "await new Promise(() => {})")
        for key in ("key-b", "key-c"):
            reply = server.request("POST", f"/run-code/{handle.id}/terminate", headers={"X-Service-API-Key": key})
            assert reply.status == 204
        reply = server.request("POST", "/run-code", '{"source": "1"}', headers={"X-Service-API-Key": "key-c"})
        assert (reply.status, reply.json["field"]) == (403, "runtime")
        assert server.request("POST", "/run-code", '{"source": "1"}', headers={"X-Service-API-Key": "none"}).status == 401
        assert handle.running
        handle.terminate()
        assert handle.wait()["status"] == "terminated"


def test_without_esbuild_typescript_is_an_error_of_the_server(tmp_path):
    """With the package's name, in the shape of every error in which a job could not be set up; not a mistake of the program."""
    policy = shipped_policy("isolate")
    (tmp_path / "isolate.textproto").write_text(re.sub(r'mount \{ destination: "/usr/bin/esbuild".*', "", policy))
    config = tmp_path / "server.textproto"
    config.write_text(f'policy_path: "{tmp_path}/isolate.textproto"\n')
    with FunctionServer() as callbacks, Server(tmp_path / "log", SANDBOX_EXECUTOR_CONFIG=str(config),
                                             SANDBOX_EXECUTOR_CALLBACK_URLS=callbacks.url) as server:
        client = Client(server, callbacks)
        expected = {"error": "TypeScript needs the package esbuild, which this server does not have", "code": "setup_error", "field": None,
                    "status": "setup_error", "step": None}
        for body in ({"source": "enum A { B }; export default A.B"},
                     {"source": "export default await import('./a')", "options": {"modules": {"./a": "enum A { B }"}}}):
            reply = post(client, body)
            assert (reply.status, reply.json) == (500, expected)
            reply = post(client, {**body, "stream": True})
            assert reply.status == 200 and reply.body.decode().startswith("event: error\ndata: {"), reply.body
            assert json.loads(reply.body.decode().strip().removeprefix("event: error\ndata: ")) == expected
        assert client.value("export default 1", language="typescript") == 1
        assert client.value("export default 1 < 2", language="javascript") is True


def test_without_an_evaluator_there_is_no_such_path(tmp_path):
    config = tmp_path / "server.textproto"
    config.write_text('shipped_runtimes: false runtime { name: "python" interpreter: "/usr/bin/python3.11" policy: "python" extension: "py" }\n')
    with Server(tmp_path / "log", SANDBOX_EXECUTOR_CONFIG=str(config)) as server:
        assert server.request("POST", "/run-code", '{"source": "1"}').status == 404


# ---- Requests ----

@pytest.mark.parametrize(("body", "field"), [
    ({}, "source"), ({"source": 1}, "source"), ({"source": "1", "code": "1"}, "code"), ({"source": "1", "options": []}, "options"),
    ({"source": "1", "timeout_ms": "1"}, "timeout_ms"), ({"source": "1", "timeout_ms": -1}, "timeout_ms"),
    ({"source": "1", "execution_id": ""}, "execution_id"), ({"source": "1", "stream": 1}, "stream"),
    ({"source": "1", "callback_url": "http://192.0.2.1/"}, "callback_url"),
])
def test_malformed_bodies_are_refused(client, body, field):
    reply = post(client, body)
    assert (reply.status, reply.json["field"]) == (400, field)


@pytest.mark.parametrize(("options", "field"), [
    ({"lang": "typescript"}, "options.lang"), ({"language": "python"}, "options.language"), ({"language": 1}, "options.language"),
    ({"execute": 1}, "options.execute"), ({"execute": {"fn": ""}}, "options.execute.fn"), ({"execute": {"args": {}}}, "options.execute.args"),
    ({"execute": {"name": "a"}}, "options.execute.name"), ({"imports": {"./a": {}}}, "options.imports../a"),
    ({"imports": {"node:fs": {}}}, "options.imports.node:fs"), ({"imports": {"a": 1}}, "options.imports.a"),
    ({"modules": {"a": ""}}, "options.modules.a"), ({"modules": {"./a": 1}}, "options.modules../a"), ({"modules": []}, "options.modules"),
    ({"globals": {"a b": 1}}, "options.globals.a b"), ({"globals": {"": 1}}, "options.globals."), ({"globals": {"let": 1}}, "options.globals.let"),
    ({"globals": {"a;b": 1}}, "options.globals.a;b"), ({"memoryLimitBytes": 0}, "options.memoryLimitBytes"),
    ({"memoryLimitBytes": 1.5}, "options.memoryLimitBytes"), ({"memoryLimitBytes": 1 << 40}, "options.memoryLimitBytes"),
    ({"filename": ""}, "options.filename"), ({"filename": "a\nb"}, "options.filename"),
    ({"report": False}, "options.report"), ({"report": {"$type": "map", "entries": []}}, "options.report"),
    ({"globals": {"a": {"$type": "nothing"}}}, "options.globals.a"), ({"globals": {"a": {"$type": "bigint", "value": "1.5"}}}, "options.globals.a.value"),
    ({"globals": {"a": {"$type": "number", "value": "1"}}}, "options.globals.a.value"), ({"globals": {"a": {"$type": "set"}}}, "options.globals.a.values"),
    ({"globals": {"a": {"$type": "map", "entries": [[1]]}}}, "options.globals.a.entries[0]"),
    ({"globals": {"a": {"$type": "bytes", "ctor": "Buffer", "data": ""}}}, "options.globals.a.ctor"),
    ({"globals": {"a": {"$type": "bytes", "ctor": "Uint8Array", "data": "*"}}}, "options.globals.a.data"),
    ({"globals": {"a": {"$type": "bytes", "ctor": "Float64Array", "data": "AQ=="}}}, "options.globals.a.data"),
    ({"globals": {"a": {"$type": "bytes", "ctor": "Uint16Array", "data": "AAAA"}}}, "options.globals.a.data"),
    ({"imports": {"m": {"a": [{"$type": "bytes", "ctor": "Int32Array", "data": "AAAAAAA="}]}}}, "options.imports.m.a[0].data"),
    ({"globals": {"a": {"$type": "function", "id": ""}}}, "options.globals.a.id"),
    ({"globals": {"a": {"$type": "undefined", "more": 1}}}, "options.globals.a"),
])
def test_malformed_options_are_refused(client, options, field):
    reply = post(client, {"source": "1", "options": options})
    assert (reply.status, reply.json["field"]) == (400, field), reply.json


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1e-400", "9007199254740993", "-9007199254740993.0", "0.12345678901234567890"])
@pytest.mark.parametrize(("options", "field"), [
    ('{"globals": {"a": [1, %s]}}', "options.globals.a[1]"), ('{"imports": {"m": {"a": {"b": %s}}}}', "options.imports.m.a.b"),
    ('{"execute": {"args": [0, {"$type": "set", "values": [%s]}]}}', "options.execute.args[1].values[0]"),
])
def test_numbers_that_are_not_exact_are_refused(client, options, field, number):
    body = '{"source": "export default () => 1", "options": ' + options % number + "}"
    reply = client.server.request("POST", "/run-code", body)
    assert (reply.status, reply.json["field"], reply.json["code"]) == (400, field, "invalid_field"), reply.json


def test_exact_numbers_are_taken(client):
    numbers = ["0.1", "1e300", "9007199254740992", "9223372036854775808", "9223372036854776000", "5e-324", "1.7976931348623157e308",
               "5.684341886080802e-14"]
    body = '{"source": "export default a", "options": {"globals": {"a": [' + ", ".join(numbers) + "]}}}"
    result = client.server.request("POST", "/run-code", body).json["result"]
    assert list(map(float, result)) == list(map(float, numbers))


def test_names_may_be_in_escapes(client):
    """What is checked is what is used."""
    body = r'{"\u0073ource": "export default a", "\u006fptions": {"glob\u0061ls": {"\u0061": 7}}}'
    reply = client.server.request("POST", "/run-code", body)
    assert (reply.json["status"], reply.json["result"]) == ("success", 7), reply.json


def test_evaluator_is_no_runtime_for_programs(client):
    reply = client.server.request("POST", "/execute", json.dumps({"code": "{}", "runtime": "isolate"}))
    assert (reply.status, reply.json["field"]) == (400, "runtime")
    assert "isolate" not in reply.json["error"].split("supported")[-1]


def test_it_has_no_session_to_be_routed_by(client):
    reply = client.server.request("POST", "/run-code", json.dumps({"source": "1"}), headers={"X-Immure-Session": "a"})
    assert (reply.status, reply.json["code"], reply.json["field"]) == (400, "invalid_field", "X-Immure-Session")


def test_hang_up_terminates(client, wire):
    before = client.server.log().count("status=cancelled")
    connection = wire(client.server)
    body = json.dumps({"source": "for (;;);"}).encode()
    connection.request("POST", "/run-code", {"X-Service-API-Key": client.server.key, "Content-Type": "application/json",
                                             "Content-Length": len(body)}, body)
    wait_for(lambda: client.server.metric("immure_jobs_running") == 1, "a run")
    connection.close()
    wait_for(lambda: client.server.log().count("status=cancelled") > before, "its end")
