// The client of immure's HTTP interface, for Node, Deno, Bun, workers and browsers. Nothing but fetch is needed.

import {Calls, freshId} from './calls.js';
import {Http, ImmureError, events, isEvents, wait} from './http.js';
import {CodeExecution} from './run_code.js';

export {CodeExecution, ImmureError};
export {SerializationError} from './values.js';

const part = encodeURIComponent;
const pathOf = name => String(name).split('/').map(part).join('/');

/** A program's tool calls get the JSON of what `tools[name](args)` gives. */
async function callTool(tools, {name, args}) {
  if (!Object.hasOwn(tools, name)) throw new Error(`there is no tool ${name}`);
  return JSON.stringify(await tools[name](args)) ?? 'null';
}

class Session {
  #client;

  constructor(client, id) {
    this.#client = client;
    this.id = id;
  }

  execute(request, options) { return this.#client.execute({...request, session_id: this.id}, options); }

  end() { return this.#client.http.json('DELETE', `/workspace/${part(this.id)}`); }

  #file(name) { return `/sessions/${part(this.id)}/files/${pathOf(name)}`; }

  async files() { return (await this.#client.http.json('GET', `/sessions/${part(this.id)}/files`)).files; }

  /** -> a Uint8Array */
  async get(name) { return new Uint8Array(await (await this.#client.http.send('GET', this.#file(name))).arrayBuffer()); }

  /** `data`: a string, or bytes. */
  put(name, data) {
    const body = typeof data === 'string' ? new TextEncoder().encode(data) : new Uint8Array(data.buffer ?? data, data.byteOffset, data.byteLength);
    return this.#client.http.json('PUT', this.#file(name), {body});
  }

  remove(name) { return this.#client.http.json('DELETE', this.#file(name)); }

  #copy(what, body) { return this.#client.http.json('POST', `/sessions/${part(this.id)}/${what}`, {body}); }

  /** Copies of its files, each a session of its own: all of `ids`, or none. */
  fork(ids) { return this.#copy('fork', {to: ids}); }

  /** What is other in the files of the session `other`. */
  diff(other) { return this.#client.http.json('GET', `/sessions/${part(this.id)}/diff/${part(other)}`); }

  /** Its files become a copy of those of the session `from`. */
  restore(from) { return this.#copy('restore', {from}); }
}

class Jobs {
  #client;

  constructor(client) { this.#client = client; }

  /** -> {job_id, status, …} at once, or {approval_id, status, …}; the server keeps the reply for a while. */
  start(request, {signal} = {}) { return this.#client.http.json('POST', '/execute?wait=false', {body: request, signal}); }

  get(id) { return this.#client.http.json('GET', `/jobs/${part(id)}`); }

  async list() { return (await this.#client.http.json('GET', '/jobs')).jobs; }

  cancel(id, reason) { return this.#client.http.json('DELETE', `/jobs/${part(id)}${reason ? `?reason=${part(reason)}` : ''}`); }

  /** -> the job, once it has ended. `tools` answers what it calls, where its `calls` are "stream". */
  async wait(id, {signal, pollMs = 200, tools = {}} = {}) {
    const begun = new Set();
    for (let calls; ;) {
      const job = await this.#client.http.json('GET', `/jobs/${part(id)}`, {signal});
      if (job.status !== 'running') return job;
      calls ??= new Calls(this.#client.http, job.execution_id, call => callTool(tools, call));
      const fresh = (job.calls ?? []).filter(call => !begun.has(call.id));
      fresh.forEach(call => begun.add(call.id));
      const answered = fresh.map(call => calls.take(call));
      await Promise.race([wait(pollMs, signal), ...answered]);
      calls.lost.throwIfAborted();
    }
  }
}

class Approvals {
  #client;

  constructor(client) { this.#client = client; }

  async list() { return (await this.#client.http.json('GET', '/approvals')).approvals; }

  get(id) { return this.#client.http.json('GET', `/approvals/${part(id)}`); }

  approve(id, reason) { return this.#client.http.json('POST', `/approvals/${part(id)}`, {body: {decision: 'approve', reason}}); }

  reject(id, reason) { return this.#client.http.json('POST', `/approvals/${part(id)}`, {body: {decision: 'reject', reason}}); }
}

export class Immure {
  /** `url` and `key` of a server; `fetch`: another one than the global; `retryBudgetMs`: how long a busy server is tried again. */
  constructor(options) {
    this.http = new Http(options);
    this.jobs = new Jobs(this);
    this.approvals = new Approvals(this);
  }

  /**
   * Runs a program. `request` is the body of POST /execute -> its reply, or {approval_id, status, …}; what fails before the program starts is an ImmureError.
   * `tools`: what the program may call, by name; each gets its arguments as an object.
   */
  async execute(request, {signal, onStdout, onStderr, tools} = {}) {
    const body = {...request, ...(tools && {calls: 'stream', execution_id: request.execution_id ?? freshId()})};
    if (!tools && !onStdout && !onStderr) return this.http.json('POST', '/execute', {body, signal});
    const response = await this.http.send('POST', '/execute', {body, signal, headers: {Accept: 'text/event-stream'}});
    if (!isEvents(response)) return response.json();
    const calls = new Calls(this.http, body.execution_id, call => callTool(tools, call));
    for await (const {event, data} of events(response, calls.lost)) {
      if (event === 'stdout') onStdout?.(data.text);
      else if (event === 'stderr') onStderr?.(data.text);
      else if (event === 'call') calls.take(data);
      else if (event === 'result') return data;
      else if (event === 'error') throw new ImmureError(data.error, {status: 500, ...data});
    }
    throw calls.lost.reason ?? new ImmureError('the connection ended before the program did');
  }

  /** Evaluates a module with the caller's own functions -> a CodeExecution. */
  runCode(source, options = {}) { return new CodeExecution(this.http, source, options ?? {}); }

  /** Jobs with one id share a workspace. */
  session(id) { return new Session(this, id); }

  async sessions() { return (await this.http.json('GET', '/sessions')).sessions; }

  async runtimes() { return (await this.http.json('GET', '/runtimes')).runtimes; }

  async policies() { return (await this.http.json('GET', '/policies')).policies; }
}
