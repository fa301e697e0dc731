// The evaluator of POST /run-code. Its argument is the path of a run's request, a JSON text; or `--standby` in a process that is
// started ahead of its run (jail/standby.h).
//
// Two realms: this one, which speaks to the bridge, and a fresh one for the source (immure-realm.js). No object of this one is
// handed to the other. What V8 itself makes here and lets the source see (errors, the promise of import()) has nothing of this
// realm behind it, and nothing that this realm works with can be changed (neutralise()). That gives the source its semantics. The
// boundary is the jail.
//
// What belongs to the source is touched with this realm's own functions alone, and never by a name that is looked up in it.
//
// Nothing here waits for anything but the bridge: when the source has nothing left to do, this process reads the next answer, and
// blocks in that.
'use strict';

const {Buffer} = require('node:buffer');
const fs = require('node:fs');
const path = require('node:path');
const {types} = require('node:util');
const v8 = require('node:v8');
const vm = require('node:vm');
const typescript = require('./immure-typescript.cjs');

const STANDBY_FD = 63;
const BRIDGE = {input: 3, output: 4};
const EVENT_BYTES_MAX = 1024 * 1024; // of logs, and of reports
const TEXT_MAX = 65536; // of an error's message or stack

const {reallyExit, argv} = process;
const {setImmediate, clearImmediate} = globalThis;
const HostPromise = Promise, HostError = Error, HostBytes = Uint8Array;

// Node's own way to what V8 says of a source that does not compile: where. Without --expose-internals it is not told.
let decorateErrorStack;
try {
  ({decorateErrorStack} = require('internal/util'));
} catch {}

// ---- The bridge (../../README.md) ----

class Bridge {
  constructor(hello) {
    this.received = Buffer.alloc(0);
    this.lastId = 0;
    this.hello = hello ?? this.read();
  }

  // Blocks. Where the bridge is gone there is nobody to tell.
  read() {
    for (;;) {
      const frame = this.next();
      if (frame) {
        return frame;
      }
      const piece = Buffer.allocUnsafe(65536);
      const n = fs.readSync(BRIDGE.input, piece, 0, piece.length, null);
      if (n === 0) {
        reallyExit(1);
      }
      this.received = this.received.length > 0 ? Buffer.concat([this.received, piece.subarray(0, n)]) : piece.subarray(0, n);
    }
  }

  // A frame that has come already; null: none.
  next() {
    const size = this.received.length >= 4 ? 4 + this.received.readUInt32BE(0) : Infinity;
    if (this.received.length < size) {
      return null;
    }
    const frame = JSON.parse(this.received.toString('utf8', 4, size));
    this.received = this.received.subarray(size);
    return frame;
  }

  send(members) {
    const body = Buffer.from(`{"id":${++this.lastId},${members}}`);
    const head = Buffer.alloc(4);
    head.writeUInt32BE(body.length);
    for (let data = Buffer.concat([head, body]); data.length > 0;) {
      data = data.subarray(fs.writeSync(BRIDGE.output, data));
    }
    return this.lastId;
  }
}

// ---- The source's realm ----

// The name of what an object is inside, whatever it looks like; "": an ordinary object.
const KINDS = ['Map', 'Set', 'Date', 'RegExp', 'Promise', 'WeakMap', 'WeakSet', 'DataView', 'ArrayBuffer', 'SharedArrayBuffer',
               'External', 'MapIterator', 'SetIterator', 'GeneratorObject'].map((name) => [name, types[`is${name}`]]);
const BOXES = ['Boolean', 'Number', 'String', 'BigInt', 'Symbol'].map((name) => [name, types[`is${name}Object`]]);
const typedName = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag).get;

function kindOf(value) {
  if (types.isProxy(value)) {
    return 'Proxy';
  }
  if (Array.isArray(value)) {
    return 'Array';
  }
  if (types.isNativeError(value)) {
    return 'Error';
  }
  for (const [name, is] of KINDS) {
    if (is(value)) {
      return name;
    }
  }
  if (types.isTypedArray(value)) {
    return Reflect.apply(typedName, value, []);
  }
  return types.isBoxedPrimitive(value) ? BOXES.find(([, is]) => is(value))[0] : '';
}

const wellFormed = (text) => (/[\ud800-\udfff]/.test(text) ? Buffer.from(text).toString() : text);

const isObject = (value) => typeof value === 'function' || (typeof value === 'object' && value !== null);

// Everything that `things` lead to, by properties and prototypes.
function reachable(things) {
  const seen = new Set();
  for (const todo = things.filter(isObject); todo.length > 0;) {
    const thing = todo.pop();
    if (!seen.has(thing)) {
      seen.add(thing);
      const own = Object.values(Object.getOwnPropertyDescriptors(thing)).flatMap(({value, get, set}) => [value, get, set]);
      todo.push(...[...own, Object.getPrototypeOf(thing)].filter(isObject));
    }
  }
  seen.delete(globalThis);
  return seen;
}

// Functions that make code are of no global's: what has their prototype, here and there.
const HIDDEN = [[async function () {}, '(async function () {})'], [function* () {}, '(function* () {})'],
                [async function* () {}, '(async function* () {})']];

// Nothing that leads out of this realm stays on the ways that a stray object of it would open (constructors, globals), and nothing
// that this realm works with can be changed by whoever has one.
function neutralise(context) {
  const intrinsic = (name) => vm.runInContext(name, context);
  const iterators = [[], new Map(), new Set(), ''].map((list) => list[Symbol.iterator]());
  const kept = new Set(vm.runInContext('Object.getOwnPropertyNames(globalThis).join()', context).split(','));
  ['console', 'WebAssembly'].forEach((name) => kept.delete(name));
  // All of them, before one is looked at: Node loads some of them then, with the help of others.
  Object.getOwnPropertyNames(globalThis).filter((name) => !kept.has(name)).forEach((name) => Reflect.deleteProperty(globalThis, name));
  const intrinsics = Object.getOwnPropertyNames(globalThis).filter((name) => isObject(globalThis[name]) && name !== 'globalThis')
    .map((name) => [globalThis[name], intrinsic(`globalThis.${name}`)]);
  // Before some of it leads into the other realm, whose things are the source's to change.
  const ours = reachable([...intrinsics.map(([mine]) => mine), ...HIDDEN.map(([mine]) => mine), ...iterators, Buffer, Bridge, Run,
                          LinkFailure, CompileFailure]);
  for (const [mine, text] of HIDDEN) {
    const {constructor} = Object.getPrototypeOf(intrinsic(text));
    Object.defineProperty(Object.getPrototypeOf(mine), 'constructor', {value: constructor});
  }
  for (const [mine, theirs] of intrinsics.filter(([mine]) => mine.prototype)) {
    // V8 throws errors of this realm where the stack ends in here, and import() gives one of its promises. Nothing is behind the
    // errors; and the promise is to look like one of the other realm.
    if (mine === HostPromise || mine === HostError || HostError.isPrototypeOf(mine)) {
      Reflect.ownKeys(mine.prototype).forEach((key) => Reflect.deleteProperty(mine.prototype, key));
    }
    if (mine === HostPromise) {
      Object.setPrototypeOf(mine.prototype, theirs.prototype);
    } else {
      Object.defineProperty(mine.prototype, 'constructor', {value: theirs, writable: false});
    }
  }
  Object.defineProperty(Buffer.prototype, 'constructor', {value: intrinsic('Uint8Array')});
  ours.forEach(Object.freeze);
}

class Realm {
  constructor() {
    const file = path.join(__dirname, 'immure-realm.js');
    this.context = vm.createContext(Object.create(null), {codeGeneration: {strings: false, wasm: false}});
    this.inside = vm.runInContext(fs.readFileSync(file, 'utf8'), this.context, {filename: 'immure:realm'});
  }
}

// ---- A run ----

// Neither is an error, so that nothing takes them for one and hands them on. They are known by their private fields: to ask for a
// prototype would be to ask the source, where it has thrown a Proxy.

// A source that does not compile.
class CompileFailure {
  #is;
  constructor(message, place) {
    Object.assign(this, place, {message});
  }
  static is(thing) {
    return isObject(thing) && #is in thing;
  }
}

// A module that was asked for and is not there.
class LinkFailure {
  #is;
  constructor(message, specifier, place) {
    Object.assign(this, place, {message, specifier});
  }
  static is(thing) {
    return isObject(thing) && #is in thing;
  }
}

// A message that is no accessor's.
function ownMessage(error) {
  const property = types.isNativeError(error) ? Object.getOwnPropertyDescriptor(error, 'message') : undefined;
  return typeof property?.value === 'string' ? property.value : '';
}

const isRelative = (specifier) => /^\.{1,2}\//.test(specifier);

class Run {
  // `exit` ends it all.
  constructor(realm, bridge, request, exit) {
    const {source, options} = request;
    Object.assign(this, {bridge, source, options, exit, context: realm.context, inside: realm.inside});
    this.filename = options.filename ?? '<runCode>';
    this.sources = new Map(Object.entries(options.modules ?? {}).map(([key, text]) => [path.posix.normalize(key), text]));
    this.imports = options.imports ?? {};
    this.typed = (options.language || 'typescript') === 'typescript';
    this.modules = new Map(); // by path, or by specifier
    this.maps = new Map(); // file -> its source map
    this.files = new Set([this.filename, ...this.sources.keys()]);
    this.sent = {log: 0, report: 0};
    this.calls = new Map(); // that have no answer yet, by the bridge's number
    this.waiting = []; // calls that are to be sent when fewer have none
    this.reports = null; // while one is being delivered: those behind it
    this.linking = undefined; // a promise: the last one that links has done so
  }

  // ---- What the realm asks of this one ----

  // Reports are delivered one by one; other calls, as many at once as the bridge takes. What throws in here, where the stack ends,
  // has changed nothing.
  call(id, name, args, isReport) {
    const call = {id, isReport, members: `"op":"call","name":${JSON.stringify(name)},"args":${args}`};
    if (isReport && this.reports) {
      this.reports.push(call);
      return;
    }
    if (this.calls.size < this.bridge.hello.max_calls_in_flight) {
      this.calls.set(this.bridge.send(call.members), call);
    } else {
      this.waiting.push(call);
    }
    this.reports = isReport ? [] : this.reports;
  }

  // The realm's number of the call that `answer` is for. Another one is sent in its place.
  take(answer) {
    const {id, isReport} = this.calls.get(answer.id) ?? {};
    this.calls.delete(answer.id);
    if (isReport) {
      const behind = this.reports.shift();
      if (behind) {
        this.waiting.push(behind);
      } else {
        this.reports = null;
      }
    }
    const next = this.waiting.shift();
    if (next) {
      this.calls.set(this.bridge.send(next.members), next);
    }
    return id;
  }

  // False: too much has been sent already.
  event(kind, text) {
    const before = this.sent[kind];
    this.sent[kind] += text.length;
    if (this.sent[kind] <= EVENT_BYTES_MAX) {
      this.bridge.send(`"op":"event","kind":"${kind}","data":${text}`);
    } else if (kind === 'log' && before <= EVENT_BYTES_MAX) {
      this.bridge.send(`"op":"event","kind":"log","data":{"level":"warn","args":["logs truncated"],"timestamp":${Date.now()}}`);
    }
    return this.sent[kind] <= EVENT_BYTES_MAX;
  }

  // Every call that has been made is answered before. Nothing of the source runs meanwhile, so that no other ones come.
  end(members) {
    while (this.calls.size > 0) {
      const frame = this.bridge.read();
      if (frame.op === 'answer') {
        this.take(frame);
      }
    }
    const {used_heap_size: heap, external_memory: external} = v8.getHeapStatistics();
    this.bridge.send(`"op":"result","data":{${members},"memoryUsedBytes":${heap + external}}`);
    this.exit();
  }

  finish(text) {
    this.end(`"status":"success","result":${text}`);
  }

  failed(status, name, message, stack, specifier, filename, line, column) {
    this.tell(status, {name, message, stack, specifier, ...(filename ? {filename, line, column} : this.firstPlace(stack))});
  }

  tell(status, {name, message, stack, specifier, filename, line, column}) {
    const cut = (text) => (text ? wellFormed(text.slice(0, TEXT_MAX)) : undefined);
    const error = {name: cut(name) ?? 'Error', message: cut(message) ?? '', stack: cut(stack), specifier: cut(specifier), filename,
                   line, column};
    this.end(`"status":"${status}","error":${JSON.stringify(error)}`);
  }

  // ---- Positions ----

  position(file, line, column) {
    const mapped = this.maps.get(file)?.(line, column);
    return mapped ?? [line, column];
  }

  // The first line of a stack that speaks of the author's files.
  firstPlace(stack) {
    for (const row of (stack ?? '').split('\n')) {
      const found = /^ {4}at .*?\(?([^()]*):(\d+):(\d+)\)?$/.exec(row);
      if (found && this.files.has(found[1])) {
        return {filename: found[1], line: Number(found[2]), column: Number(found[3])};
      }
    }
    return {};
  }

  // How V8 has the stack of an error of the realm written: the author's files and positions, nothing of ours.
  writeStack(error, sites) {
    const rows = [this.inside.header(error)], {length} = sites;
    for (let i = 0; i < length; i++) { // the list is one of the source's realm
      const site = sites[i], file = site.getFileName();
      if (!this.files.has(file)) {
        continue;
      }
      const name = site.getFunctionName();
      const [line, column] = this.position(file, site.getLineNumber(), site.getColumnNumber());
      const place = `${file}:${line}:${column}`;
      rows.push(name ? `    at ${site.isAsync() ? 'async ' : ''}${name} (${place})` : `    at ${place}`);
    }
    return rows.join('\n');
  }

  // ---- Modules ----

  options_(file) {
    return {
      context: this.context, identifier: file,
      initializeImportMeta: (meta) => { meta.url = `sandbox:${file}`; },
      importModuleDynamically: (specifier) => this.importLater(specifier, file),
    };
  }

  compile(file, source) {
    const make = (text) => new vm.SourceTextModule(text, this.options_(file));
    if (!this.typed) {
      return make(source);
    }
    if (!typescript.needsTransform(source)) {
      try {
        return make(source);
      } catch {} // so it is TypeScript, or nothing
    }
    if (!typescript.available()) {
      this.end('"status":"setup_error"'); // which does not return
    }
    const {code, map} = typescript.transform(source);
    this.maps.set(file, map);
    return make(code);
  }

  // As compile(), but that what is thrown says where.
  compileAt(file, source) {
    try {
      return this.compile(file, source);
    } catch (error) {
      const {line, column} = typescript.TransformError.is(error) ? error : {};
      throw new CompileFailure(ownMessage(error), line ? {filename: file, line, column} : {filename: file, ...this.arrow(error)});
    }
  }

  // Where V8 has found that something cannot be compiled or linked: "FILE:LINE", the line, and a mark below it; blanks alone where
  // that is behind the last character.
  arrow(error) {
    decorateErrorStack?.(error);
    const [head, , mark] = String(error.stack).split('\n'), found = /^(.*):(\d+)$/.exec(head);
    const blanks = /^(\s*)\^*\s*$/.exec(mark ?? '-')?.[1];
    if (!found || !this.files.has(found[1]) || blanks === undefined) {
      return {};
    }
    const [line, column] = this.position(found[1], Number(found[2]), blanks.length + 1);
    return {filename: found[1], line, column};
  }

  synthetic(specifier) {
    const names = Object.keys(this.imports[specifier]), {inside} = this;
    return new vm.SyntheticModule(names, function () {
      for (const name of names) {
        this.setExport(name, inside.imported(specifier, name));
      }
    }, {context: this.context, identifier: specifier});
  }

  // Files are named from the root of the graph, where `filename` may be a path from "/".
  resolve(specifier, referrer) {
    const file = isRelative(specifier) ? path.posix.join(path.posix.dirname(referrer), specifier).replace(/^\/+/, '') : null;
    const key = file === null ? specifier : `/${file}`;
    if (!this.modules.has(key)) {
      if (file !== null && this.sources.has(file)) {
        this.modules.set(key, this.compileAt(file, this.sources.get(file)));
      } else if (file === null && Object.hasOwn(this.imports, specifier)) {
        this.modules.set(key, this.synthetic(specifier));
      } else {
        const where = file === null ? '' : `: there is no './${file}' among the modules`;
        throw new LinkFailure(`Cannot find module '${specifier}' imported from ${referrer}${where}`, specifier);
      }
    }
    return this.modules.get(key);
  }

  // Everything that it needs, so that no module is left half linked by one that is not there.
  resolveAll(module) {
    const all = new Set([module]);
    for (const one of all) { // and those that are added meanwhile
      one.dependencySpecifiers?.forEach((specifier) => all.add(this.resolve(specifier, one.identifier)));
    }
  }

  // A name that another module does not have is found out by V8, in words.
  async link(module) {
    this.resolveAll(module);
    try {
      await module.link((specifier, referrer) => this.resolve(specifier, referrer.identifier));
    } catch (error) {
      const found = /^The requested module '(.*)' does not provide an export named '/s.exec(ownMessage(error));
      throw found ? new LinkFailure(ownMessage(error), found[1], this.arrow(error)) : error;
    }
  }

  // As link(), one after the other: what is linked as a part of another module cannot be linked by itself meanwhile.
  async linkInTurn(module) {
    const before = this.linking;
    let done;
    this.linking = new HostPromise((resolve) => { done = resolve; });
    try {
      await before;
      if (module.status === 'unlinked') {
        await this.link(module);
      }
    } finally {
      done();
    }
  }

  // Whatever goes wrong here is the source's to catch: an error of its own is made of it. What a module has thrown is its own already.
  async importLater(specifier, referrer) {
    await undefined; // no code of ours where the source's stack ends
    let module;
    try {
      module = this.resolve(specifier, referrer);
      await this.linkInTurn(module);
    } catch (failure) {
      if (!LinkFailure.is(failure) && !CompileFailure.is(failure)) {
        throw this.inside.makeError(ownMessage(failure));
      }
      const {message, specifier, filename, line, column} = failure;
      throw this.inside.linkError(CompileFailure.is(failure), message, specifier, filename, line, column);
    }
    if (module.status === 'linked') {
      try {
        await module.evaluate();
      } catch {} // it knows
    }
    if (module.status === 'errored') {
      throw module.error;
    }
    if (module.status !== 'evaluated' && module.status !== 'evaluating') {
      throw this.inside.makeError(`the module '${specifier}' cannot be evaluated`);
    }
    return module;
  }

  // ---- From the source to the end ----

  setUp() {
    const globals = this.options.globals ?? {}, {hello} = this.bridge;
    this.inside.connect({
      call: (...args) => this.call(...args), event: (...args) => this.event(...args), finish: (text) => this.finish(text),
      failed: (...args) => this.failed(...args), kind: kindOf, wellFormed,
      toBase64: (buffer, offset, length) => Buffer.from(new HostBytes(buffer, offset, length)).toString('base64'),
      bytesOf: (text) => Buffer.from(text, 'base64').length,
      fromBase64: (text, buffer) => { new HostBytes(buffer).set(Buffer.from(text, 'base64')); },
    }, hello.max_result_bytes, hello.max_frame_bytes - 1024);
    this.inside.setUp(JSON.stringify(this.imports), JSON.stringify(this.options.report ?? null));
    // Declarations of a script: every module sees them, they can be shadowed, and the global object has none of them.
    const names = Object.keys({console: null, ...globals});
    const assign = vm.runInContext(`'use strict'; let ${names.join(', ')}; ((values) => { ${names.map(
      (name) => `${name} = values.${name};`).join(' ')} })`, this.context, {filename: 'immure:globals'});
    this.inside.setGlobals(assign, JSON.stringify(globals));
  }

  async start() {
    const fn = this.options.execute?.fn ?? 'default', args = this.options.execute?.args ?? [];
    const main = this.compileAt(this.filename, this.source);
    await this.link(main);
    this.answers = setImmediate(() => this.pump());
    await main.evaluate();
    if (!Object.getOwnPropertyNames(main.namespace).includes(fn)) {
      throw new LinkFailure(`The module '${this.filename}' does not provide an export named '${fn}'`, fn);
    }
    this.inside.execute(main.namespace, fn, JSON.stringify(args));
  }

  async run() {
    try {
      this.setUp();
      await this.start();
    } catch (error) {
      this.explain(error);
    }
  }

  explain(error) {
    if (LinkFailure.is(error)) {
      const {message, specifier, filename = this.filename, line, column} = error;
      this.tell('link_error', {name: 'LinkError', message, specifier, filename, line, column});
    } else if (CompileFailure.is(error)) {
      const {message, filename, line, column} = error;
      this.tell('link_error', {name: 'SyntaxError', message, filename, line, column,
                               stack: `SyntaxError: ${message}${line ? `\n    at ${filename}:${line}:${column}` : ''}`});
    } else {
      this.inside.fail(error);
    }
  }

  // Answers, once everything else has been done. There may be none to come: then nothing comes but the end.
  pump() {
    for (let frame = this.bridge.read(); frame; frame = this.bridge.next()) {
      if (frame.op === 'answer') {
        this.answer(frame);
      }
    }
    setImmediate(() => this.pump());
  }

  answer(frame) {
    const {data, error} = frame;
    this.inside.settle(this.take(frame), error !== undefined, error ?? data ?? '');
  }
}

// ---- Before the run ----

// Node warns of an experiment when the first module is made.
function warnNobody() {
  const {emitWarning} = process;
  process.emitWarning = () => {};
  new vm.SourceTextModule('', {context: vm.createContext()});
  process.emitWarning = emitWarning;
}

const REHEARSAL = {
  source: `import a from 'a'; import {b} from './b'; console.log(a, b, {c: [undefined, 1n]}); report(1);
           export default async (x) => { try { null.x } catch (e) { e.stack } f(x); return [a, new Map([[1, new Date(0)]])] }`,
  options: {
    language: 'javascript', report: true, execute: {args: [{$type: 'set', values: [1]}]}, imports: {a: {default: {b: 'c'}}},
    modules: {'./b': 'export const b = 1'}, globals: {f: {$type: 'function', id: 'f'}},
  },
};

const HELLO = {max_frame_bytes: 65536, max_result_bytes: 65536, max_calls_in_flight: 1};

// What runs usually need has then been loaded and compiled. In a realm of its own, and nobody hears of it: the bridge of a process
// that stands by is /dev/null.
async function rehearse() {
  const bridge = new Bridge(HELLO);
  bridge.received = Buffer.from('\0\0\0\x16{"op":"answer","id":3}'); // to the call of f, after two events
  await new HostPromise((resolve) => {
    const run = new Run(new Realm(), bridge, JSON.parse(JSON.stringify(REHEARSAL)), () => {
      clearImmediate(run.answers);
      resolve();
    });
    HostError.prepareStackTrace = (error, sites) => run.writeStack(error, sites);
    run.run();
  });
  Reflect.deleteProperty(HostError, 'prepareStackTrace');
  readRequest(fs.openSync(__filename));
  typescript.needsTransform('');
}

const SELF_TEST = {
  typescript: 'enum A { one = 1 } namespace B { export const rest: number = 41 } export default <number>(A.one + B.rest)',
  javascript: 'export default 42',
};

// Nobody is at the other end of the self-test's bridge: its result is the exit code.
class SelfTestBridge extends Bridge {
  send(members) {
    const text = `{${members}}`, {data} = JSON.parse(text);
    if (data.result !== 42) {
      fs.writeSync(2, text);
      reallyExit(1);
    }
    return ++this.lastId;
  }
}

function selfTestRequest() {
  const language = typescript.available() ? 'typescript' : 'javascript';
  return {source: SELF_TEST[language], options: {language}};
}

// This process stands still in here until it has its run: PID 1 answers inotify_init1, which the policy denies, only once it has
// put the run's own pipes in the place of ours.
function wait() {
  let code;
  try {
    fs.watch('/').close();
  } catch (error) {
    code = error.code;
  }
  if (code !== 'EPERM') {
    reallyExit(70); // nobody noticed: this is no jail that waits
  }
  return readRequest(STANDBY_FD);
}

function readRequest(fd) {
  const data = fs.readFileSync(fd);
  fs.closeSync(fd);
  return data.toString('utf8', data.indexOf(0) + 1); // "0": there are no arguments
}

async function main() {
  const [, , script] = argv, standby = script === '--standby';
  process.exitCode = 1; // of one that ends without a result
  warnNobody();
  if (standby) {
    await rehearse();
  }
  const realm = new Realm();
  let run;
  HostError.prepareStackTrace = (error, sites) => run?.writeStack(error, sites);
  neutralise(realm.context);
  const request = JSON.parse(standby ? wait() : fs.readFileSync(script, 'utf8'));
  run = request.self_test ? new Run(realm, new SelfTestBridge(HELLO), selfTestRequest(), () => reallyExit(0))
    : new Run(realm, new Bridge(), request, () => reallyExit(0));
  await run.run();
}

main();
