"""POST /run-code against sources that want out of their realm, and against the jail by itself, without the realm."""

import datetime
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from harness import ROOT, Server
from run_code import UNDEFINED, BigInt, Bytes, Client, FunctionServer, Map, Set

pytestmark = pytest.mark.skipif(not shutil.which("node"), reason="no Node")

# `judge(things)`: what of them, or of what can be reached from them, is not of this realm or makes code.
JUDGE = r"""
const judge = (things) => {
  const {getPrototypeOf, prototype: root} = Object, seen = new Set(), found = []
  const makers = ['Function', 'AsyncFunction', 'GeneratorFunction', 'AsyncGeneratorFunction']
  const visit = (thing, path, depth) => {
    if (thing === null || (typeof thing !== 'object' && typeof thing !== 'function') || seen.has(thing) || depth > 5) return
    seen.add(thing)
    let top = thing
    for (let next = thing; next !== null; next = getPrototypeOf(next)) top = next
    if (top !== root && getPrototypeOf(thing) !== null) found.push('foreign: ' + path)
    const own = Object.getOwnPropertyDescriptors(thing)
    if (typeof thing === 'function' && makers.includes(own.name?.value)) {
      try { thing('return 1'); found.push('makes code: ' + path) } catch (e) { if (e.name !== 'EvalError') found.push(e.name + ': ' + path) }
    }
    for (const key of Reflect.ownKeys(own)) {
      if (['mainModule', 'reallyExit', 'readFileSync', 'binding', 'internalBinding', 'readSync', 'pump'].includes(key)) found.push(path + '.' + key)
      for (const kind of ['value', 'get', 'set']) visit(own[key][kind], `${path}.${String(key)}`, depth + 1)
    }
    visit(getPrototypeOf(thing), path + '.__proto__', depth + 1)
  }
  things.forEach((thing, i) => visit(thing, String(i), 0))
  return found
}
// Where the stack ends is tried at many depths: somewhere in there is the first line of whatever is called.
const atTheEnd = (body) => {
  const caught = []
  const dive = (n) => { if (n > 0) dive(n - 1); else body(caught) }
  let low = 0, high = 20000
  while (low + 1 < high) {
    const middle = (low + high) >> 1
    try { dive(middle); low = middle } catch (e) { caught.push(e); high = middle }
  }
  for (let depth = Math.max(0, low - 40); depth < low + 3; depth++) try { dive(depth) } catch (e) { caught.push(e) }
  return caught
}
const settle = async (promise) => { try { return [promise, await promise] } catch (e) { return [promise, e] } }
"""

# name: statements that end with `return [things that were got hold of]`. `f` is a function of the caller's, `g` one that fails.
ATTEMPTS = {
    "import()": "return settle(import('x'))",
    "import() of a module": "return settle(import('./a'))",
    "import() of a broken module": "return settle(import('./broken'))",
    "import() of a throwing module": "return settle(import('./throws'))",
    "import() of node:fs": "return settle(import('node:fs'))",
    "import() of a file": "return settle(import('file:///etc/passwd'))",
    "import() of data": "return settle(import('data:text/javascript,export default globalThis'))",
    "import() of a strange specifier": "return settle(import({toString() { throw new Error('x') }}))",
    "import() with attributes": "return settle(import('./a', {assert: {type: 'json'}}))",
    "then of import()": "const p = import('x'); p.catch(() => 0); return [p.then, p.catch, p.finally, p.constructor, p.constructor.constructor]",
    "species of import()": "const got = []; const p = import('x'); Object.defineProperty(p, 'constructor', {value: {[Symbol.species]: function (e) {"
                           " got.push(e); e((a) => got.push(a), (a) => got.push(a)) }}}); p.then(() => 0); return got",
    "import() where the stack ends": "return atTheEnd(() => { import('x').catch(() => 0) })",
    "call where the stack ends": "return atTheEnd(() => { f(1).catch(() => 0) })",
    "console where the stack ends": "return atTheEnd(() => console.log({a: [1]}))",
    "report where the stack ends": "return atTheEnd(() => { report(1).catch(() => 0) })",
    "structuredClone where the stack ends": "return atTheEnd(() => structuredClone({a: new Map()}))",
    "stack where the stack ends": "const e = new Error('x'); return atTheEnd(() => e.stack)",
    "new stacks where the stack ends": "return atTheEnd((caught) => caught.push(new Error('x').stack))",
    "prepareStackTrace": "const got = []; try { Error.prepareStackTrace = (...a) => { got.push(...a) } } catch (e) { got.push(e) }; new Error().stack; return got",
    "prepareStackTrace by defineProperty": "const got = []; try { Object.defineProperty(Error, 'prepareStackTrace', {value: (...a) => { got.push(...a) }}) }"
                                           " catch (e) { got.push(e) }; new Error().stack; return got",
    "another Error": "const got = []; try { globalThis.Error = {prepareStackTrace(...a) { got.push(...a) }} } catch (e) { got.push(e) }; new RangeError().stack; return got",
    "deleting Error": "try { delete globalThis.Error } catch (e) { return [e, globalThis.Error] }; return [globalThis.Error]",
    "captureStackTrace": "const o = {}; try { Error.captureStackTrace(o); return [o, o.stack] } catch (e) { return [e] }",
    "an error's accessors": "const got = []; const e = new Error('x'); for (const k of ['name', 'message']) Object.defineProperty(e, k, {get(...a) {"
                            " got.push(this, ...a, new Error().stack); return got }}); String(e.stack); console.log(e); return got",
    "an error's toString": "const e = new Error(); const got = []; e.message = {toString(...a) { got.push(this, a); return 'x' }}; e.stack; console.log(e); return got",
    "Promise.prototype.then": "const got = []; try { Promise.prototype.then = function (...a) { got.push(this, ...a) } } catch (e) { got.push(e) }; f(1); import('x'); return got",
    "Promise.prototype.constructor": "try { Promise.prototype.constructor = class { constructor(e) { this.e = e } } } catch (e) { return [e] }; return [f(1)]",
    "Promise[Symbol.species]": "const got = []; Object.defineProperty(Promise, Symbol.species, {get() { return function (e) { got.push(e); e((x) => got.push(x), (x) => got.push(x)) } }});"
                               " try { f(1).then(() => 0) } catch (e) { got.push(e) } return got",
    "Promise replaced": "const got = []; globalThis.Promise = class { constructor(e) { got.push(e) } static resolve(v) { got.push(v) } }; f(1); import('x').catch(() => 0); return got",
    "a thenable argument": "const got = []; await f({then(...a) { got.push(...a) }}).catch((e) => got.push(e)); return got",
    "a getter in an argument": "const got = []; await f({get a() { got.push(new Error().stack); return 1 }}); return got",
    "a Proxy as an argument": "const got = []; await f(new Proxy({}, new Proxy({}, {get(...a) { got.push(...a) }}))).catch((e) => got.push(e)); return got",
    "a Proxy on the console": "const got = []; console.log(new Proxy({}, new Proxy({}, {get(...a) { got.push(...a) }}))); return got",
    "a Proxy thrown": "const got = []; await settle(Promise.reject(new Proxy(new Error('x'), {get(...a) { got.push(...a) }}))); return got",
    "setters of Object.prototype": "const got = []; for (const k of ['value', 'text', 'limit', 'above', 'depth', 'resolve', 'reject', 'id', 'get', 'set', 'then', 'toJSON', 'level', 'url',"
                                   " 'writable', 'context', 'name', 'status', 'specifier']) Object.defineProperty(Object.prototype, k, {configurable: true, get() { return undefined },"
                                   " set(v) { got.push(this, v) }}); await f({a: [1]}); console.log(1); await settle(import('x')); await settle(import('./a')); return got",
    "setters of Array.prototype": "const got = []; for (let i = 0; i < 8; i++) Object.defineProperty(Array.prototype, i, {configurable: true, get() { return undefined }, set(v) {"
                                  " got[got.length] = v }}); await f(1, 2); console.log(1, [2]); await settle(import('x')); return Array.from(got)",
    "iterators": "const got = []; const old = Array.prototype[Symbol.iterator]; Array.prototype[Symbol.iterator] = function () { got[got.length] = this; return old.call(this) };"
                 " f(1).catch(() => 0); console.log(1); import('x').catch(() => 0); Array.prototype[Symbol.iterator] = old; return got",
    "array methods": "const got = []; for (const k of ['push', 'map', 'forEach', 'join', 'slice', 'concat', 'filter']) { const old = Array.prototype[k]; Array.prototype[k] = function (...a) {"
                     " got[got.length] = this; return Reflect.apply(old, this, a) } } await f(1); console.log([1]); await settle(import('x')); return got",
    "Function.prototype": "const got = []; for (const k of ['call', 'apply', 'bind']) Function.prototype[k] = function (...a) { got.push(this, a) }; f(1); console.log(1); import('x').catch(() => 0); return got",
    "Reflect, Object, JSON": "const got = []; for (const o of [Reflect, Object, JSON]) for (const k of Reflect.ownKeys(o)) if (typeof o[k] === 'function' && k !== 'prototype') {"
                             " const old = o[k]; try { o[k] = function (...a) { got[got.length] = a; return old.apply(this, a) } } catch {} } await f({a: 1}); console.log(1);"
                             " await settle(import('x')); return got",
    "Map.prototype": "const got = []; for (const k of ['get', 'set', 'delete', 'has', 'forEach']) { const old = Map.prototype[k]; Map.prototype[k] = function (...a) {"
                     " got.push(this, ...a); return old.apply(this, a) } } await f(new Map([[1, 2]])); return got",
    "RegExp.prototype": "const got = []; RegExp.prototype.exec = function (...a) { got.push(this, a); return null }; RegExp.prototype.test = RegExp.prototype.exec; await f('a'); console.log('b'); return got",
    "String.prototype": "const got = []; for (const k of ['slice', 'split', 'replace', 'charCodeAt', 'toString', 'valueOf']) String.prototype[k] = function (...a) { got.push(this, a); return '' };"
                        " await f('a'); console.log(Symbol('b')); throw got",
    "Symbol.hasInstance": "const got = []; Object.defineProperty(Error, Symbol.hasInstance, {value(v) { got.push(v); return true }}); await settle(import('x')); await settle(g()); return got",
    "Function": "try { return [new Function('return this')()] } catch (e) { return [e, Function] }",
    "Function by constructor": "try { return [(() => 0).constructor('return this')()] } catch (e) { return [e] }",
    "AsyncFunction": "return settle((async () => (async () => 0).constructor('return this')())())",
    "GeneratorFunction": "try { return [(function* () {}).constructor('yield this')().next()] } catch (e) { return [e] }",
    "AsyncGeneratorFunction": "try { return [(async function* () {}).constructor('yield this')()] } catch (e) { return [e] }",
    "eval": "const got = []; for (const e of [() => eval('this'), () => (0, eval)('this'), () => globalThis.eval('this')]) try { got.push(e()) } catch (x) { got.push(x) }"
            " if (got.some((x) => !(x instanceof EvalError))) throw 'evaluated'; return got",
    "globals": "return [globalThis, Object.getPrototypeOf(globalThis)]",
    "names": "return Reflect.ownKeys(globalThis).map((k) => globalThis[k])",
    "import.meta": "return [import.meta, Object.getPrototypeOf(import.meta)]",
    "callers": "const got = []; const h = function () { for (const k of ['caller', 'callee', 'arguments']) try { got.push(h[k]) } catch (e) { got.push(e) } }; h();"
               " try { got.push((function () { return arguments.callee.caller })()) } catch (e) { got.push(e) } return got",
    "this": "const got = []; const h = function () { got.push(this) }; h(); queueMicrotask(h); queueMicrotask(function (...a) { got.push(this, ...a) }); await 0; return got",
    "console": "return [console, console.log, console.log.constructor, Object.getPrototypeOf(console)]",
    "proxies": "return [f, f.constructor, report, report.constructor, f(1)]",
    "structuredClone": "return [structuredClone, structuredClone({a: new Map([[1, new Date()]]), b: /x/, c: new Error('x'), d: new Uint8Array(2)}), ...await settle((async () =>"
                       " structuredClone(() => 0))())]",
    "imported values": "const all = await import('pkg'); return [all, ...Object.values(all)]",
    "given values": "return [map, set, date, bytes, list, deep]",
    "answers": "return [await give()]",
    "errors of functions": "return settle(g())",
    "WeakRef and registries": "const r = new FinalizationRegistry((...a) => 0); r.register({}, 1); return [r, new WeakRef({}), new WeakRef({}).deref()]",
    "Intl": "return Object.getOwnPropertyNames(Intl).map((k) => Intl[k])",
    "stackTraceLimit": "const got = []; Object.defineProperty(Error, 'stackTraceLimit', {get() { got.push(this); return 1e9 }}); new Error().stack; return [...got, ...atTheEnd(() => new Error().stack)]",
    "a subclass of Promise": "class P extends Promise {}; const got = []; await new P((r) => { got.push(r); r(f(1)) }); return got",
    "rejections that nobody handles": "Promise.reject(new Error('x')); Promise.reject(new Proxy({}, {get() { throw 1 }})); import('x'); await f(1); return [1]",
    "shared memory": "return [globalThis.SharedArrayBuffer, globalThis.Atomics, globalThis.WebAssembly]",
}

HIDDEN = ("process global window self document require Deno Bun fetch Request Response URL URLSearchParams WebSocket WebAssembly crypto setTimeout "
          "setInterval setImmediate performance atob btoa TextEncoder TextDecoder SharedArrayBuffer Atomics navigator").split()


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    place = tmp_path_factory.mktemp("hardening")
    with FunctionServer() as callbacks, Server(place / "log", SANDBOX_EXECUTOR_CALLBACK_URLS=callbacks.url) as server:
        yield Client(server, callbacks)


def fail():
    raise ValueError("no")


@pytest.mark.parametrize("name", ATTEMPTS)
def test_nothing_of_the_host_is_reached(client, name):
    reply = client.run(f"{JUDGE}\nexport default async () => {{ const things = await (async () => {{ {ATTEMPTS[name]} }})(); return judge(Array.from(things)) }}",
                       language="javascript", report=lambda *_: None, timeout_ms=30000,
                       globals={"f": lambda *_: 1, "g": fail, "give": lambda: {"a": [1, {}]}, "map": [], "set": [], "date": [], "bytes": [], "list": [1], "deep": {"a": {}}},
                       imports={"pkg": {"a": {"b": [1]}, "default": lambda: 1}},
                       modules={"./a": "export const a = {}", "./broken": "export const = 1", "./throws": "throw new Error('x')"})
    if reply["status"] == "success":
        found = reply["result"]
        # V8 throws a RangeError of the outer realm where the stack ends in there: a dead end, of which the walker below makes sure.
        if name.endswith("where the stack ends"):
            found = [what for what in found if not what.startswith("foreign: ")]
        assert found == [], reply
    else:  # the source has only hurt itself
        assert reply["status"] == "error", reply
        assert "foreign" not in reply["error"]["message"] and "evaluated" != reply["error"]["message"], reply


WALKER = (Path(__file__).parent / "realm_walker.js").read_text()
WALKER_MODES = ["nothing", "methods", "members", "symbols", "symbols, all instances"]
META = "export default () => import.meta"
WALKER_MODULES = {
    "./a": "export const a = {}", "./broken": "export const = 1", "./throws": "throw new Error('x')", "./unlinked": "import 'not there'",
    "./nameless": "import {nope} from './a'", "./waits": "export const x = await f(3)", "./whole": "import './part'; await f(1)",
    "./part": "import './deeper'; export const x = 1", "./deeper": "export {}", "./meta": META,
    "./thenable": "export const handed = {look() {}}; export function then(...all) { handed.look(this, ...all); all[0](1) }",
    **{f"./fresh{i}": f"import './part{i}'; export const i = {i}" for i in range(40)}, **{f"./part{i}": "" for i in range(40)},
    **{f"./meta{i}": META for i in range(40)}}
EVERY_KIND = [Map([(1, Set([1]))]), datetime.datetime(2026, 1, 1), BigInt(1), UNDEFINED, Bytes("Float64Array", bytes(8)), {"a": [1, {"$type": 1}]}]


@pytest.mark.parametrize("mode, language", [*((mode, "javascript") for mode in WALKER_MODES), ("methods", "typescript")])
def test_the_walker_finds_nothing(client, mode, language):
    """Whatever is handed to whatever the source can reach and replace is of its own realm."""
    reply = client.run(WALKER, language=language, report=lambda *_: None, timeout_ms=60000, modules=WALKER_MODULES,
                       globals={"f": lambda *_: 1, "g": fail, "give": lambda: EVERY_KIND, "bytes": lambda: Bytes("Uint8Array", b"123"), "mode": mode},
                       imports={"pkg": {"a": {"b": [1]}, "default": lambda: 1}})
    assert reply["status"] == "success", reply
    # V8's own errors, where the stack ends in the outer realm: nothing can be had from these.
    assert [what for what in reply["result"] if not re.fullmatch(r"dead end: .*, where the stack ends: (caught|a rejection)", what)] == []


# The same in a realm that nobody has hardened: each mode finds what is its own to find.
UNHARDENED = r"""
const vm = require('vm'), [walker, modules, mode] = JSON.parse(require('fs').readFileSync(0, 'utf8'))
const context = vm.createContext({__proto__: null, mode, report() {}, g: async () => { throw new Error('x') }, give: async () => [1], bytes: async () => new Uint8Array(2), console: {log() {}, assert() {}, groupEnd() {}},
                                  structuredClone: (value) => value, queueMicrotask: (callback) => callback()})
const inside = (text) => vm.runInContext(text, context)
const leaks = {
  nothing() {},
  methods() { inside('new Uint8Array(9)').set(new Uint8Array(2)) },
  symbols() { ({}) instanceof inside('Error') },
}
context.f = async () => { leaks[mode]() }
process.on('unhandledRejection', () => {})
const linked = new Map()
const make = (name, referrer) => {
  if (name === 'pkg') return new vm.SyntheticModule(['default'], function () { this.setExport('default', 1) }, {context})
  if (!(name in modules)) throw new Error('x')
  if (!linked.has(name)) linked.set(name, compile(modules[name]))
  return linked.get(name)
}
const compile = (text) => new vm.SourceTextModule(text, {context, initializeImportMeta(meta) { meta.url = '' }, importModuleDynamically: async (name) => { throw new Error('x') }})
const main = compile(walker)
main.link(make).then(() => main.evaluate()).then(() => main.namespace.default()).then((found) => console.log(JSON.stringify(found)))
"""


@pytest.mark.parametrize("mode, expected", [
    ("nothing", r"foreign: a call that fails: a rejection"), ("methods", r"foreign: a call: argument 0 of .*Uint8Array.*\.set"),
    ("symbols", r"foreign: a call: argument 0 of .*Error\[hasInstance\]"),
])
def test_the_walker_notices_what_leaks(mode, expected):
    done = subprocess.run(["node", "--experimental-vm-modules", "-e", UNHARDENED], input=json.dumps([WALKER, WALKER_MODULES, mode]), capture_output=True, text=True, timeout=60)
    found = json.loads(done.stdout)
    assert any(re.fullmatch(expected, what) for what in found), (found, done.stderr)


def test_a_link_error_cannot_be_made(client):
    caught = "let real; try { await import('nope') } catch (e) { real = e }; const {constructor} = Object.getPrototypeOf(real);"
    for forged in ("Object.setPrototypeOf(new Error('forged'), Object.getPrototypeOf(real))", "new constructor('forged')", "Object.create(real)",
                   "Object.assign(new (class extends constructor {})('forged'), {specifier: 'fs'})", "structuredClone(real)", "new Proxy(real, {})"):
        reply = client.run(f"export default async () => {{ {caught} throw {forged} }}", language="javascript")
        assert reply["status"] == "error" and "specifier" not in reply["error"], (forged, reply)
    # One that is real says what it did, whatever is made of it.
    reply = client.run(f"export default async () => {{ {caught} real.message = real.name = 'forged'; try {{ real.specifier = 'fs' }} catch {{}}; throw real }}", language="javascript")
    assert reply["status"] == "link_error"
    assert (reply["error"]["name"], reply["error"]["message"], reply["error"]["specifier"]) == (
        "LinkError", "Cannot find module 'nope' imported from <runCode>", "nope")


def test_imports_at_once(client):
    """What one import is linking another one waits for; what could not be linked stays so."""
    modules = {"./whole": "import {x} from './part'; export const y = x", "./part": "import './deep'; export const x = 1", "./deep": "", "./bad": "import './none'", "./over": "import './bad'"}
    assert client.value("const all = async (...names) => (await Promise.allSettled(names.map((name) => import(name)))).map((one) => one.value?.y ?? one.value?.x ?? one.reason.message)\n"
                        "export default async () => [...await all('./whole', './part', './whole'), ...await all('./over', './bad', './over'), ...await all('./bad', './over')]",
                        language="javascript", modules=modules) == [1, 1, 1] + ["Cannot find module './none' imported from bad: there is no './none' among the modules"] * 5


def test_calls_where_the_stack_ends_are_whole(client):
    reply = client.value("const up = (body, steps) => { const dive = () => { try { dive() } catch {} if (steps-- > 0) try { body() } catch {} }; dive() }\n"
                         "export default async () => { const all = []; let settled = 0; up(() => all.push(f().then(() => settled++, () => settled++)), 1500); up(() => console.log(1), 1500);"
                         " for (let i = 0; i < 50; i++) await f(); return [all.length > 0, settled === all.length] }", language="javascript", globals={"f": lambda: 1}, timeout_ms=60000)
    assert reply == [True, True]


@pytest.mark.parametrize("leak", ["{}", "() => 1", "Promise.resolve()", "new RangeError('x')", "[1]", "process"])
def test_the_judge_notices_what_leaks(leak):
    """The same in a realm that nobody has hardened."""
    script = f"const vm = require('vm'); console.log(vm.runInNewContext({json.dumps(JUDGE + 'judge([leak])')}, {{leak: {leak}}}).length)"
    assert int(subprocess.run(["node", "-e", script], capture_output=True, check=True, timeout=60).stdout) > 0


@pytest.mark.parametrize("name", HIDDEN)
def test_hidden_names(client, name):
    assert client.value(f"export default [typeof {name}, '{name}' in globalThis]", language="javascript") == ["undefined", False]


def test_what_is_there(client):
    names = ["Object", "Array", "Map", "Promise", "Proxy", "Reflect", "Intl", "structuredClone", "queueMicrotask", "BigInt", "WeakRef"]
    assert client.value(f"export default [{', '.join('typeof ' + name for name in names)}, Date.now() > 0, Math.random() < 1]") == [
        {"Reflect": "object", "Intl": "object"}.get(name, "function") for name in names] + [True, True]


def test_only_what_was_given_is_called(client):
    """An answer can name any function. What is called is only what the request's options have."""
    client.callbacks.raw = {"data": json.dumps([{"$type": "function", "id": name} for name in ("f0", "f1", "f2", "execute_code", "F0", " f0")])}
    called = len(client.callbacks.requests)
    try:
        reply = client.value("export default async () => { const found = []; for (const f of await give()) try { await f(); found.push('called') }"
                             " catch (e) { found.push(e.message) } return found }", globals={"give": lambda: 0, "list": [lambda: 0]})
    finally:
        client.callbacks.raw = None
    assert reply == ["called", "called"] + ["this run was not given that function"] * 4
    assert [body["name"] for _, _, body in client.callbacks.requests[called:]] == ["f0", "f0", "f1"]


# ---- The jail by itself ----

# Programs for Node under the policy, without any realm around them. Each prints what it got; what is refused throws.
WITHOUT = {
    "read /etc/passwd": "return fs.readFileSync('/etc/passwd', 'utf8')",
    "look into /proc": "return fs.readdirSync('/proc')",
    "look for a home": "return fs.readdirSync('/home')",
    "write beside the scratch": "fs.writeFileSync('/usr/bin/x', ''); return 1",
    "write over node": "fs.writeFileSync('/usr/bin/node', ''); return 1",
    "run what was written": "fs.writeFileSync('/tmp/x', '#!/usr/bin/node\\n'); fs.chmodSync('/tmp/x', 0o755); return spawned(child.spawnSync('/tmp/x'))",
    "start a shell": "return spawned(child.spawnSync('/bin/sh', ['-c', 'echo 1']))",
    "connect by TCP": "return await new Promise((resolve, reject) => net.connect(80, '127.0.0.1', resolve).on('error', reject))",
    "connect by a path": "return await new Promise((resolve, reject) => net.connect('/run/x', resolve).on('error', reject))",
    "listen": "return await new Promise((resolve, reject) => net.createServer().listen(0, resolve).on('error', reject))",
    "send by UDP": "return await new Promise((resolve, reject) => dgram.createSocket('udp4').on('error', reject).send('x', 53, '127.0.0.1', (e) => e ? reject(e) : resolve(1)))",
    "resolve a name": "return await require('dns/promises').lookup('example.com')",
    "fetch": "return (await fetch('http://127.0.0.1/')).status",
    "signal PID 1": "process.kill(1, 'SIGKILL'); await new Promise((r) => setTimeout(r, 100)); return fs.existsSync('/tmp') && 'still here'",
    "load machine code": "fs.copyFileSync('/usr/lib/x86_64-linux-gnu/libm.so.6', '/tmp/x.node'); process.dlopen({exports: {}}, '/tmp/x.node'); return 1",
    "make a device": "return spawned(child.spawnSync('/usr/bin/mknod', ['/tmp/x', 'c', '1', '1']))",
    "become root": "process.setuid(0); return 1",
    "watch files": "fs.watch('/'); return 1",
    "fill the scratch": "fs.writeFileSync('/tmp/x', Buffer.alloc(64 << 20)); return 1",
}
REFUSED = re.compile(r"E[A-Z0-9]{3,}|cannot open shared object|failed to map|ERR_DLOPEN|fetch failed|still here")


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    place = tmp_path_factory.mktemp("bare")
    config = place / "server.textproto"
    config.write_text('shipped_runtimes: false runtime { name: "python" interpreter: "/usr/bin/python3.11" policy: "python" extension: "py" }\n'
                      'runtime { name: "bare" interpreter: "/usr/bin/node" policy: "isolate" extension: "js" }\n')
    with Server(place / "log", SANDBOX_EXECUTOR_CONFIG=str(config)) as server:
        yield server


@pytest.mark.parametrize("name", WITHOUT)
def test_the_jail_refuses_by_itself(bare, name):
    code = ("const fs = require('fs'), child = require('child_process'), net = require('net'), dgram = require('dgram');"
            "const spawned = (done) => { if (done.error) throw done.error; if (done.status !== 0) throw new Error('EXIT ' + done.stderr); return done.stdout.toString() };"
            f"(async () => {{ {WITHOUT[name]} }})().then((got) => console.log('GOT', got), (e) => console.log('REFUSED', e.code, e.cause && e.cause.code, e.message))"
            ".then(() => process.reallyExit(0))")
    verdict = bare.execute(code, runtime="bare", timeout_ms=20000)
    printed = verdict["stdout"]
    assert (printed.startswith("REFUSED") and REFUSED.search(printed)) or "still here" in printed or verdict["signal"], verdict


