// The JavaScript client against a live server, in whatever engine this is loaded: [name, test] each.

import {Immure, ImmureError, SerializationError} from '../../../server/clients/js/immure.js';

const same = (a, b) => {
  if (Object.is(a, b)) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || !a || !b || Object.prototype.toString.call(a) !== Object.prototype.toString.call(b)) return false;
  if (a instanceof Date) return Object.is(a.getTime(), b.getTime());
  if (a instanceof Map || a instanceof Set) return same([...a], [...b]);
  if (a instanceof ArrayBuffer) return same(new Uint8Array(a), new Uint8Array(b));
  if (a instanceof DataView) return same(a.buffer, b.buffer);
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every(key => Object.hasOwn(b, key) && same(a[key], b[key]));
};

const show = value => {
  try {
    return JSON.stringify(value, (key, item) => (typeof item === 'bigint' ? `${item}n` : item)) ?? String(value);
  } catch {
    return String(value);
  }
};

export function equal(found, expected) {
  if (!same(found, expected)) throw new Error(`found ${show(found)}, expected ${show(expected)}`);
}

export async function fails(promise, kind, pattern) {
  const error = await Promise.resolve(promise).then(() => undefined, reason => reason);
  if (!(error instanceof kind) || !pattern.test(error.message)) throw new Error(`found ${error}, expected a ${kind.name} that says ${pattern}`);
  return error;
}

export function tests(place) {
  const client = new Immure(place);
  const success = async run => {
    const {status, result, error} = await run;
    equal([status, error], ['success', undefined]);
    return result;
  };
  return [
    ['2.3 an example', async () => {
      const reported = [];
      const run = client.runCode(`
        import { readFile } from 'fs';
        import { report } from 'supervisor';
        const message = await getMessage();
        if (/username/.test(message)) {
          report({ topic: 'username', message });
        }
        export async function scan() {
          return { scanned: true };
        }`, {
        execute: {fn: 'scan', args: []},
        imports: {fs: {readFile: async path => path}, supervisor: {report: payload => { reported.push(payload); }}},
        globals: {console: {log: () => {}}, getMessage: async () => 'latest username message'},
      });
      equal(run.running, true);
      equal(await success(run), {scanned: true});
      equal([run.running, reported], [false, [{topic: 'username', message: 'latest username message'}]]);
    }],
    ['3.1 an export by its name', async () => {
      const source = 'export function increment(n: number): number { return n + 1; }\nexport default function fallback() { return 123; }';
      equal(await success(client.runCode(source, {execute: {fn: 'increment', args: [100]}})), 101);
      equal(await success(client.runCode(source)), 123);
    }],
    ['3.2 imports', async () => {
      const imports = {fs: {readFile: async path => `text of ${path}`}, greeter: {default: name => `hi, ${name}`}};
      equal(await success(client.runCode(`import * as fs from 'fs'; import greet from 'greeter';
        export default [await fs.readFile('a'), await greet('you')];`, {imports})), ['text of a', 'hi, you']);
    }],
    ['3.3 modules', async () => {
      equal(await success(client.runCode(`import { add } from './math.js'; export const result = add(1, 2);`,
        {execute: {fn: 'result'}, modules: {'./math.js': 'export const add = (a, b) => a + b;'}})), 3);
    }],
    ['3.4 globals are not on globalThis', async () => {
      const logged = [];
      const globals = {console: {log: (...args) => { logged.push(args); }}, getMessage: async () => 'm'};
      equal(await success(client.runCode(`console.log('hi', await getMessage()); export default typeof globalThis.console;`, {globals})), 'undefined');
      equal(logged, [['hi', 'm']]);
    }],
    ['5 all four ways to the same result', async () => {
      for (const source of ['42', 'async () => 42', '() => Promise.resolve(42)', 'Promise.resolve(42)']) {
        equal(await success(client.runCode(`export default ${source}`)), 42);
      }
    }],
    ['10.1 a single value', async () => {
      const {result} = await client.runCode('const n = input.reduce((a, b) => a + b, 0); export default n;', {globals: {input: [1, 2, 3]}});
      equal(result, 6);
    }],
    ['10.2 many items', async () => {
      const ids = new Set();
      await client.runCode(`import { report } from 'supervisor';
        for (const row of rows) { if (row.flagged) report(row.id); }
        export default 0;`, {
        globals: {rows: [{id: 1, flagged: true}, {id: 2}, {id: 3, flagged: true}]}, imports: {supervisor: {report: id => { ids.add(id); }}}});
      equal(ids, new Set([1, 3]));
    }],
    ['10.3 a budget', async () => {
      const run = client.runCode('for (;;);', {memoryLimitBytes: 64 * 1024 * 1024, globals: {input: 'x'}});
      const deadline = setTimeout(() => run.terminate('200 ms budget'), 200);
      const result = await run;
      clearTimeout(deadline);
      equal([result.status, result.error.message, 'result' in result], ['terminated', '200 ms budget', false]);
      run.terminate('again');
    }],
    ['10.4 a thin wrapper', async () => {
      const execute = async code => {
        const result = await client.runCode(code, {imports: {thread: {readFile: async path => `<${path}>`}}});
        return result.status === 'success' ? {status: 'success', result: JSON.stringify(result.result)}
          : {status: 'error', error: result.error?.message ?? 'run failed'};
      };
      equal(await execute(`import {readFile} from 'thread'; export default await readFile('a')`), {status: 'success', result: '"<a>"'});
      equal(await execute('throw new Error("no")'), {status: 'error', error: 'no'});
    }],
    ['terminated before it began', async () => {
      const run = client.runCode('export default 1');
      run.terminate('at once');
      equal((await run).status, 'terminated');
    }],
    ['40 reports that nobody awaits come in order', async () => {
      const seen = [];
      const run = client.runCode('for (let i = 0; i < 40; i++) report(i); export default 0', {report: async value => {
        seen.push(value);
        await new Promise(done => { setTimeout(done, value % 3); });
      }});
      const result = await run, expected = Array.from({length: 40}, (_, i) => i);
      equal([result.reports, run.reports, seen], [expected, expected, expected]);
    }],
    ['reports are live', async () => {
      let go, length;
      const gate = new Promise(resolve => { go = resolve; });
      const run = client.runCode('report("first"); await gate; export default 0', {report: () => { go(); }, globals: {gate}});
      gate.then(() => { length = run.reports.length; });
      await run;
      equal(length, 1);
    }],
    ['calls, nested, many at once, that fail', async () => {
      const globals = {twice: async n => 2 * n, deep: {er: {add: (a, b) => a + b}}, fail: () => { throw new RangeError('too far'); }};
      equal(await success(client.runCode(`
        const all = await Promise.all(Array.from({length: 30}, (_, i) => twice(i)));
        let text;
        try { await fail() } catch (error) { text = [error instanceof Error, error.message, 'stack' in error && /suite/.test(error.stack)] }
        export default [all.length, all[29], await deep.er.add(1, 2), text]`, {globals})), [30, 58, 3, [true, 'too far', false]]);
    }],
    ['every kind of value, there and back', async () => {
      const values = [undefined, null, true, 'é🙂', 0, -0, 1.5, NaN, Infinity, -Infinity, 2n ** 80n, -1n, new Date(12345), new Date(NaN), [1, [undefined]],
        {a: {b: []}}, {$type: 'mine', x: 1}, new Map([[{k: 1}, new Set([1, 'x'])]]), new Set(), new Uint8Array([1, 2, 255]), new Float64Array([1.5, -0]),
        new BigInt64Array([-5n]), new Uint8Array([9, 8]).buffer, new DataView(new Uint8Array([7]).buffer), JSON.parse('{"__proto__": 1}')];
      let got;
      const result = await success(client.runCode('export default async (values) => { await take(values); return values }',
        {execute: {args: [values]}, globals: {take: given => { got = given; }}}));
      values.forEach((value, i) => { equal(result[i], value); equal(got[i], value); });
    }],
    ['promises are promises', async () => {
      const late = new Promise(done => { setTimeout(() => done('late'), 20); });
      equal(await success(client.runCode('export default [p instanceof Promise, await p, await q.catch(e => e.message)]',
        {globals: {p: late, q: Promise.reject(new Error('no'))}})), [true, 'late', 'no']);
    }],
    ['what cannot cross', async () => {
      class Own {}
      const circle = {};
      circle.circle = circle;
      for (const value of [new Own(), Symbol('s'), new WeakMap(), /x/, circle, new Error('x')]) {
        await fails(client.runCode('export default 0', {globals: {deep: {value}}}), SerializationError, /^options\.globals\.deep\.value/);
      }
      const {status, error} = await client.runCode('export default () => {}; class A {}; export const a = new A()', {execute: {fn: 'a'}});
      equal([status, error.name], ['error', 'SerializationError']);
      const answer = await client.runCode('export default await give().catch(e => e.message)', {globals: {give: () => new Own()}});
      equal(answer.result, 'the result: an instance of a class cannot cross');
    }],
    ['unknown options', async () => {
      await fails(client.runCode('export default 0', {timeout: 1}), TypeError, /^options\.timeout: unknown option$/);
      await fails(client.runCode('export default 0', {execute: {fn: 'default', arguments: []}}), ImmureError, /options\.execute\.arguments/);
    }],
    ['errors say where', async () => {
      const missing = await client.runCode(`import x from 'nowhere'; export default x`);
      equal([missing.status, missing.error.specifier], ['link_error', 'nowhere']);
      const syntax = await client.runCode('const a = 1;\nconst b = ;', {filename: 'mine.ts'});
      equal([syntax.status, syntax.error.name, syntax.error.filename, syntax.error.line], ['link_error', 'SyntaxError', 'mine.ts', 2]);
    }],
    ['logs', async () => {
      const {logs} = await client.runCode('console.warn("x", new Map([[1, 2]])); export default 0');
      equal(logs.map(({level, args}) => [level, args]), [['warn', ['x', new Map([[1, 2]])]]]);
    }],
    ['memory', async () => {
      equal((await client.runCode('const a = []; for (;;) a.push(new Array(1e5).fill(1.5))', {memoryLimitBytes: 32 << 20})).status, 'memory');
    }],
    ['execute', async () => {
      const reply = await client.execute({code: 'import sys; print(6 * 7, input()); sys.exit(3)', stdin: 'x'});
      equal([reply.stdout, reply.exit_code, reply.status], ['42 x\n', 3, 'execution_error']);
      const error = await fails(client.execute({code: 'x', unknown: 1}), ImmureError, /^unknown: unknown field/);
      equal([error.status, error.code, error.field], [400, 'invalid_field', 'unknown']);
      equal((await fails(new Immure({...place, key: 'wrong'}).execute({code: '1'}), ImmureError, /key/)).status, 401);
    }],
    ['execute, followed', async () => {
      const text = {out: '', err: ''};
      const reply = await client.execute({code: 'import sys; print("é🙂"); print(2, file=sys.stderr)'},
        {onStdout: more => { text.out += more; }, onStderr: more => { text.err += more; }});
      equal([text, reply.stdout], [{out: 'é🙂\n', err: '2\n'}, 'é🙂\n']);
    }],
    ['execute with tools', async () => {
      const tools = {add: async ({a, b}) => a + b, fail: () => { throw new Error('why'); }};
      const reply = await client.execute({code: `
print(call_tools_parallel([("add", {"a": n, "b": 1}) for n in range(20)])[19])
for name in "fail", "none":
    try: call_tool(name)
    except RuntimeError as error: print(error)`}, {tools});
      equal(reply.stdout, "20\nTool 'fail' failed: why\nTool 'none' failed: there is no tool none\n");
    }],
    ['tools that give or say what is no JSON', async () => {
      const tools = {text: () => '\ud83d', give: () => () => 1, fail: () => { throw new Error('half \ud83d'); }};
      const reply = await client.execute({code: `
print(ascii(call_tool("text")), call_tool("give"))
try: call_tool("fail")
except RuntimeError as error: print(ascii(str(error)))`}, {tools});
      equal(reply.stdout, `'\\ud83d' None\n"Tool 'fail' failed: half \\ufffd"\n`);
    }],
    ['abort', async () => {
      const controller = new AbortController();
      setTimeout(() => controller.abort(new RangeError('enough')), 100);
      await fails(client.execute({code: 'while True: pass'}, {signal: controller.signal}), Error, /enough|abort/i);
    }],
    ['sessions and their files', async () => {
      const session = client.session(`js/é ${Math.random()}`);
      equal((await session.put('a dir/f#?.txt', 'text é')).session, 'new');
      equal((await session.execute({code: 'print(open("a dir/f#?.txt").read()); open("out", "wb").write(bytes([0, 255]))', session: 'kept'})).stdout, 'text é\n');
      equal((await session.files()).map(file => file.path).sort(), ['a dir/f#?.txt', 'out']);
      equal(await session.get('out'), new Uint8Array([0, 255]));
      await session.remove('out');
      equal((await session.files()).length, 1);
      await session.end();
      equal((await fails(session.execute({code: '1', session: 'kept'}), ImmureError, /session/)).status, 409);
    }],
    ['sessions that are forked, compared and restored', async () => {
      const id = `js/é ${Math.random()}`;
      const [main, one, other] = [id, `${id}/1`, `${id}/2`].map(name => client.session(name));
      await main.put('f', 'ab');
      equal(await main.fork([one.id, other.id]), {files: 1, left_out: 0, kernel: null});
      await one.put('f', 'cd');
      await one.put('new', '1');
      equal(await main.diff(one.id), {added: [{path: 'new', size: 1}], removed: [], changed: [{path: 'f', size: 2, size_before: 2}], truncated: false});
      equal(await main.restore(one.id), {files: 2, left_out: 0, kernel: null});
      equal(await main.get('f'), new TextEncoder().encode('cd'));
      equal(await other.get('f'), new TextEncoder().encode('ab'));
      equal((await fails(main.fork([`${id}/3`, one.id]), ImmureError, /to\[1\]/)).status, 409);
      equal((await fails(client.session(`${id}/3`).files(), ImmureError, /session/)).status, 404);
      for (const session of [main, one, other]) await session.end();
    }],
    ['jobs', async () => {
      const started = await client.jobs.start({code: 'print(call_tool("x"))', calls: 'stream'});
      equal(started.status, 'running');
      const job = await client.jobs.wait(started.job_id, {tools: {x: () => 'answered'}});
      equal([job.status, job.reply.stdout], ['success', 'answered\n']);
      equal((await client.jobs.list()).some(row => row.job_id === started.job_id), true);
      const endless = await client.jobs.start({code: 'while True: pass'});
      await client.jobs.cancel(endless.job_id, 'no more');
      await fails(client.jobs.get(started.job_id.replace(/./g, '0')), ImmureError, /job/);
    }],
    ['catalogues', async () => {
      equal((await client.runtimes()).some(runtime => runtime.name === 'python'), true);
      equal((await client.policies()).length > 0, true);
    }],
    ['a busy server is tried again', async () => {
      let refusals = 2, asked = 0;
      const fetch = async (...args) => {
        asked++;
        if (refusals-- > 0) return new Response('{"error": "busy", "code": "busy", "field": null}', {status: 503, headers: {'Retry-After': '0.02'}});
        return globalThis.fetch(...args);
      };
      equal([(await new Immure({...place, fetch}).execute({code: 'print(1)'})).stdout, asked], ['1\n', 3]);
      refusals = Infinity;
      const error = await fails(new Immure({...place, fetch, retryBudgetMs: 100}).execute({code: '1'}), ImmureError, /^busy$/);
      equal(error.status, 503);
      equal((await fails(new Immure({...place, url: 'http://127.0.0.1:1'}).execute({code: '1'}), ImmureError, /no reply/)).status, 0);
    }],
    ['a thousand calls', async () => {
      const began = Date.now();
      equal(await success(client.runCode(`let sum = 0;
        for (let i = 0; i < 10; i++) for (const n of await Promise.all(Array.from({length: 100}, (_, k) => f(k)))) sum += n;
        export default sum`, {globals: {f: n => n}})), 49500);
      return `${Math.round(1000000 / (Date.now() - began))} calls/s`;
    }],
  ];
}
