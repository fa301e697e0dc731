// faults.mjs: the client against servers of Node's that do what ours seldom does; a line of JSON for each test, as of run.mjs.

import {createServer} from 'node:http';

// Some engines have it, and the server knows of none.
globalThis.Float16Array = class extends Uint16Array {
  get [Symbol.toStringTag]() { return 'Float16Array'; }
};
const {equal, fails} = await import('./suite.mjs');
const {Immure, ImmureError, SerializationError} = await import('../../../server/clients/js/immure.js');
const {events} = await import('../../../server/clients/js/http.js');
const {run: runForModel} = await import('../../../server/clients/js/adapters/execute_code.js');

const LONG_MS = 30000;
const HELD = {status: 'approval_required', approval_id: 'a-1'};

/** What `use({url, asked})` gives; `play(request, response, asked)` answers, and `asked` has what was. */
async function against(play, use) {
  const asked = [];
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const text of request.setEncoding('utf8')) body += text;
    asked.push({path: request.url, headers: request.headers, text: body, body: body && JSON.parse(body)});
    play(asked.at(-1), response, asked);
  });
  await new Promise(done => { server.listen(0, '127.0.0.1', done); });
  let late;
  try {
    return await Promise.race([use({url: `http://127.0.0.1:${server.address().port}`, asked}),
      new Promise((_, reject) => { late = setTimeout(reject, LONG_MS, new Error('it never ended')); })]);
  } finally {
    clearTimeout(late);
    server.closeAllConnections();
    server.close();
  }
}

const reply = (response, status, body, headers = {}) =>
  response.writeHead(status, {'Content-Type': 'application/json', ...headers}).end(JSON.stringify(body));

const event = (response, name, data) => {
  if (!response.headersSent) response.writeHead(200, {'Content-Type': 'text/event-stream'});
  response.write(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
};

/** A server whose program calls x `n` times at once and ends when all have been answered; `refuses(asked)` -> a status, or nothing. */
const calling = (n, refuses = () => undefined) => {
  let stream;
  const answered = new Set();
  return (asked, response) => {
    if (!asked.path.endsWith('/answers')) {
      stream = response;
      for (let i = 0; i < n; i++) event(stream, 'call', {id: `c${i}`, name: asked.path === '/execute' ? 'x' : 'f0', args: asked.path === '/execute' ? {i} : [i]});
      return;
    }
    const status = refuses(asked);
    if (!status) asked.body.forEach(({id}) => answered.add(id));
    reply(response, status ?? 200, status ? {error: 'refused', code: 'refused'} : {});
    if (answered.size === n) event(stream, 'result', {status: 'success', answered: n});
  };
};

const answersOf = asked => asked.filter(({path}) => path.endsWith('/answers'));

const tests = [
  ['a redirect is followed nowhere', () => against((_, response) => reply(response, 200, {}), other =>
    against((_, response) => reply(response, 307, {}, {Location: `${other.url}/execute`}), async ({url}) => {
      const error = await fails(new Immure({url, headers: {'X-Secret': 's'}}).execute({code: '1'}), ImmureError, /307/);
      equal([error.status, other.asked.length], [307, 0]);
    }))],
  ['a key in the URL', () => against((_, response) => reply(response, 200, {}), async ({url, asked}) => {
    await new Immure({url: url.replace('//', '//any:a%20key@')}).execute({code: '1'});
    equal(asked[0].headers.authorization, 'Bearer a key');
    const error = await fails(new Immure({url: 'http://any:hidden@127.0.0.1:1'}).execute({code: '1'}), ImmureError, /no reply from http:\/\/127/);
    equal(`${error} ${error.cause}`.includes('hidden'), false);
    for (const mistake of ['', 'http://any:hidden@', 'any:hidden@127.0.0.1:1']) {
      await fails(Promise.resolve(mistake).then(it => new Immure({url: it})), TypeError, /^url: where the server is, such as http:\/\/127.0.0.1:8080$/);
    }
  })],
  ['a run that is terminated while the server is busy', () => {
    let run;
    return against(({path}, response) => {
      if (path.endsWith('/terminate')) return response.writeHead(204).end();
      reply(response, 503, {error: 'busy', code: 'busy'}, {'Retry-After': String(LONG_MS / 1000)});
      return setTimeout(() => run.terminate('enough'), 50);
    }, async ({url, asked}) => {
      run = new Immure({url, retryBudgetMs: 2 * LONG_MS}).runCode('export default 1');
      const {status, error} = await run;
      equal([status, error.message], ['terminated', 'enough']);
      equal(asked.filter(({path}) => path === '/run-code').length, 1);
    });
  }],
  ['answers have a bound', () => against(calling(32), async ({url, asked}) => {
    equal((await new Immure({url}).execute({code: '1'}, {tools: {x: () => 'x'.repeat(1 << 17)}})).status, 'success');
    equal(answersOf(asked).every(({text}) => text.length <= 2 << 20), true);
  })],
  ['one bad answer costs no other', () => against(calling(8, ({body}) => (body.some(({id}) => id === 'c7') ? 400 : undefined)), async ({url, asked}) => {
    const error = await fails(new Immure({url}).execute({code: '1'}, {tools: {x: ({i}) => i}}), ImmureError, /^refused$/);
    const bodies = answersOf(asked).map(({body}) => body.map(({id}) => id));
    equal([error.status, Array.from({length: 7}, (_, i) => bodies.some(ids => ids.includes(`c${i}`) && !ids.includes('c7')))], [400, Array(7).fill(true)]);
  })],
  ['a run whose answer is refused says why', () => against(calling(1, () => 413), async ({url}) => {
    equal((await fails(new Immure({url}).runCode('f()', {globals: {f: () => 1}}), ImmureError, /^refused$/)).status, 413);
  })],
  ['a job calls while another call is not answered yet', () => {
    let second;
    const gate = new Promise(done => { second = done; });
    return against(({path}, response, asked) => {
      if (path.endsWith('/answers')) return reply(response, 200, {});
      const answered = answersOf(asked).flatMap(({body}) => body.map(({id}) => id));
      return reply(response, 200, {execution_id: 'e', status: answered.length === 2 ? 'success' : 'running',
        calls: [{id: '1', name: 'slow', args: {}}, {id: '2', name: 'fast', args: {}}].slice(0, asked.length).filter(({id}) => !answered.includes(id))});
    }, async ({url}) => {
      equal((await new Immure({url}).jobs.wait('1', {pollMs: 5, tools: {slow: () => gate, fast: () => second()}})).status, 'success');
    });
  }],
  ['who waits for a job may give up while a tool runs', () => {
    const controller = new AbortController();
    return against((_, response) => reply(response, 200, {execution_id: 'e', status: 'running', calls: [{id: '1', name: 'never', args: {}}]}),
      ({url}) => fails(new Immure({url}).jobs.wait('1', {signal: controller.signal, tools: {never: () => {
        controller.abort(new RangeError('enough'));
        return new Promise(() => {});
      }}}), RangeError, /enough/).then(() => undefined));
  }],
  ['a reply without events', async () => {
    for (const [status, body] of [[200, {stdout: '1'}], [202, HELD]]) {
      equal(await against((_, response) => reply(response, status, body), ({url}) => new Immure({url}).execute({code: '1'}, {onStdout: () => {}})), body);
    }
    const told = await against((_, response) => reply(response, 202, HELD), ({url}) => runForModel(new Immure({url}), {language: 'python', code: '1'}));
    equal(told, 'Error: not run yet: the program needs an approval, which is asked for (a-1)');
  }],
  ['what an engine has and the server does not know', async () => {
    await fails(new Immure({url: 'http://127.0.0.1:1'}).runCode('1', {globals: {x: new Float16Array(1)}}), SerializationError, /Float16Array cannot cross/);
  }],
  ['events in chunks of any size', async () => {
    const bytes = new TextEncoder().encode('event: a\ndata: "é🙂"\n\n: comment\n\nevent: b\ndata: 2\n\n');
    for (let size = 1; size <= bytes.length; size++) {
      const found = [];
      for await (const {event: name, data} of events(inChunks(bytes, size), new AbortController().signal)) found.push([name, data]);
      equal(found, [['a', 'é🙂'], ['b', 2]]);
    }
  }],
  ['a large event takes a time that grows as it does', async () => {
    const read = async length => {
      const began = Date.now();
      for await (const {data} of events(inChunks(new TextEncoder().encode(`event: a\ndata: "${'x'.repeat(length)}"\n\n`), 1 << 14), new AbortController().signal)) {
        equal(data.length, length);
      }
      return Date.now() - began;
    };
    const [less, more] = [await read(1 << 20), await read(32 << 20)];
    if (more > 200 * (less + 20)) throw new Error(`1 MiB: ${less} ms, 32 MiB: ${more} ms`);
  }],
];

function inChunks(bytes, size) {
  let at = 0;
  const pull = controller => (at < bytes.length ? controller.enqueue(bytes.subarray(at, at += size)) : controller.close());
  return {body: new ReadableStream({pull})};
}

for (const [name, test] of tests) {
  let error;
  try {
    await test();
  } catch (reason) {
    error = String(reason?.stack ?? reason);
  }
  console.log(JSON.stringify({name, error}));
}
process.exit();
