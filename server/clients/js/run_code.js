// runCode(source, options): an ES module in a realm of its own, with the caller's functions.

import {Calls, freshId} from './calls.js';
import {ImmureError, events} from './http.js';
import {Functions, decode, encode} from './values.js';

const OPTIONS = ['execute', 'imports', 'modules', 'globals', 'language', 'memoryLimitBytes', 'filename', 'report'];
const OWN = ['timeoutMs', 'queueMs', 'executionId'];

const entries = (object, map) => Object.fromEntries(Object.entries(object).map(([key, value]) => [key, map(value, key)]));

function encodeOptions({execute, imports, globals, report, ...rest}, functions) {
  const ret = {...rest};
  if (execute) ret.execute = {...execute, ...(execute.args && {args: execute.args.map((value, i) => encode(value, functions, `options.execute.args[${i}]`))})};
  if (imports) {
    ret.imports = entries(imports, (module, name) => entries(module, (value, key) => encode(value, functions, `options.imports.${name}.${key}`)));
  }
  if (globals) ret.globals = entries(globals, (value, key) => encode(value, functions, `options.globals.${key}`));
  if (report) ret.report = encode(report, functions, 'options.report');
  return ret;
}

function bodyOf(source, options, functions) {
  for (const key of Object.keys(options)) {
    if (!OPTIONS.includes(key) && !OWN.includes(key)) throw new TypeError(`options.${key}: unknown option`);
  }
  const {timeoutMs: timeout_ms, queueMs: queue_ms, executionId, ...rest} = options;
  return {source, options: encodeOptions(rest, functions), calls: 'stream', timeout_ms, queue_ms};
}

/** A run, which can be awaited. */
export class CodeExecution {
  #http;
  #began = Date.now();
  #running = true;
  #reports = [];
  #reason;
  #terminated = new AbortController(); // then a server that is busy is not tried again
  #hangUp = new AbortController();
  #promise;

  constructor(http, source, options) {
    this.#http = http;
    this.executionId = options.executionId ?? freshId();
    this.#promise = this.#run(source, options).finally(() => { this.#running = false; });
    this.#promise.catch(() => {}); // whoever awaits it hears of it
  }

  get running() { return this.#running; }

  get reports() { return this.#reports; }

  then(fulfilled, rejected) { return this.#promise.then(fulfilled, rejected); }

  catch(rejected) { return this.#promise.catch(rejected); }

  finally(settled) { return this.#promise.finally(settled); }

  terminate(reason) {
    if (this.#terminated.signal.aborted || !this.#running) return;
    this.#reason = reason === undefined ? undefined : String(reason);
    this.#terminated.abort();
    // A server that cannot be told sees its caller hang up.
    this.#http.send('POST', `/run-code/${encodeURIComponent(this.executionId)}/terminate`, {body: {reason: this.#reason}})
      .catch(() => this.#hangUp.abort());
  }

  async #run(source, options) {
    const functions = new Functions();
    try {
      const body = {...bodyOf(source, options, functions), execution_id: this.executionId};
      functions.sealed = true;
      const response = await this.#http.send('POST', '/run-code', {
        body, headers: {Accept: 'text/event-stream'}, signal: this.#hangUp.signal, patience: this.#terminated.signal,
      });
      const reply = await this.#follow(response, functions);
      return this.#terminated.signal.aborted && reply.status !== 'terminated' ? this.#ended(reply) : this.#settled(reply);
    } catch (error) {
      const {aborted, reason} = this.#terminated.signal;
      const notRun = this.#hangUp.signal.aborted || error === reason || error.status === 503 || error.status === 429;
      if (!aborted || !notRun) throw error;
      return this.#ended({reports: [], logs: []});
    } finally {
      this.#hangUp.abort();
    }
  }

  async #follow(response, functions) {
    const calls = new Calls(this.#http, this.executionId, async ({name, args}) =>
      JSON.stringify(encode(await functions.get(name)(...args.map(decode)), functions, 'the result')));
    for await (const {event, data} of events(response, calls.lost)) {
      if (event === 'report') this.#reports.push(decode(data));
      else if (event === 'call') calls.take(data);
      else if (event === 'result') return data;
      else if (event === 'error') throw new ImmureError(data.error, {status: 500, ...data});
    }
    throw calls.lost.reason ?? new ImmureError('the connection ended before the run did');
  }

  /** By terminate(), although the server did not come to hear of it in time. */
  #ended({result, ...reply}) {
    return this.#settled({...reply, status: 'terminated', error: {name: 'TerminatedError', message: this.#reason ?? 'the run was terminated'}});
  }

  #settled(reply) {
    return {
      ...reply, ...('result' in reply && {result: decode(reply.result)}), reports: reply.reports.map(decode),
      logs: reply.logs.map(log => ({...log, args: log.args.map(decode)})), durationMs: Date.now() - this.#began,
    };
  }
}
