// What a job's program finds among the globals of Node, and its end of the bridge (../../README.md). The launcher
// (immure-launch.cjs) requires it before the program's first line; what only some programs need is loaded when they do.
//
// Calls are asynchronous and any number may be open. Nothing here keeps the process alive but calls that wait for
// their answers. Results are written and acknowledged at once, so that a program may end right after.
'use strict';

const fs = require('fs');
const path = require('path');

// Which process this is for, and where its bridge is.
const place = { pid: 2, input: 3, output: 4 };
let bridge = null;
let isOver = false; // a kernel's call has ended, and none has begun

// Captured: a program may put something of its own there.
const { parse, stringify } = JSON;
const { isFinite } = Number;
const { isNumberObject } = require('util').types;

// Of values. The server breaks off over frames of more than 640 (JSON_PASSED_DEPTH_MAX in config/format/json.h).
const LEVELS_MAX = 512;

// A member as stringify() is to write it, once its toJSON() has been asked: what it would leave out or turn into null without
// a word is refused. But for undefined: of an object it is left out, in an array it is null, as everywhere in JavaScript.
function checkMember(caller, member) {
  const value = isNumberObject(member) ? Number(member) : member;
  const type = typeof value;
  if (type === 'function' || type === 'symbol' || (type === 'number' && !isFinite(value))) {
    throw new TypeError(`${caller}: ${type === 'number' ? value : type} cannot be JSON`);
  }
  return value;
}

function toJson(caller, value) {
  const above = []; // the objects that stringify() is in
  const text = stringify(value, function (key, member) {
    const checked = checkMember(caller, member);
    if (typeof checked === 'object' && checked !== null) {
      while (above.length > 0 && above[above.length - 1] !== this) {
        above.pop();
      }
      if (above.push(checked) > LEVELS_MAX) {
        throw new RangeError(`${caller}: a value of more than ${LEVELS_MAX} levels`);
      }
    }
    return checked;
  });
  if (text === undefined) {
    throw new TypeError(`${caller}: ${typeof value} cannot be JSON`);
  }
  // The only escapes of this kind that stringify() makes.
  if (/(?:^|[^\\])(?:\\\\)*\\ud[89a-f]/.test(text)) {
    throw new TypeError(`${caller}: half of a surrogate pair cannot be JSON`);
  }
  return text;
}

function fromJson(text) {
  try {
    return parse(text);
  } catch {
    return text;
  }
}

class Bridge {
  constructor() {
    this.chunks = [];
    this.length = 0;
    this.lastId = 0;
    this.open = new Map(); // id -> what to do with its answer
    this.streams = new Map(); // id -> connection to a package registry (immure-install.cjs)
    this.waiting = []; // frames beyond what may be open at once
    this.closed = null;
    this.socket = null;
    this.hello = null;
    while (this.hello === null && this.closed === null) {
      this.take(this.readNow()); // it has been there before this program
    }
    if (this.hello === null || this.hello.version !== 1) {
      throw new Error('not a bridge');
    }
  }

  // From here on answers are heard of while the program does something else. Who waits for each of them needs no socket.
  listen() {
    if (this.socket !== null || this.closed !== null) {
      return;
    }
    const net = require('net');
    this.socket = new net.Socket({ fd: place.input, readable: true, writable: false });
    this.socket.on('data', (data) => this.take(data));
    this.socket.on('end', () => this.close("its descriptors are gone"));
    this.socket.on('error', () => this.close("its descriptors are gone"));
    this.keepAlive();
  }

  // Blocks, until there is a socket; then it is empty where nothing is there.
  readNow() {
    const buffer = Buffer.allocUnsafe(65536);
    try {
      const n = fs.readSync(place.input, buffer, 0, buffer.length, null);
      if (n === 0) {
        this.close('its descriptors are gone');
      }
      return buffer.subarray(0, n);
    } catch (error) {
      if (error.code !== 'EAGAIN' && error.code !== 'EINTR') {
        this.close('its descriptors are gone');
      }
      return Buffer.alloc(0);
    }
  }

  take(data) {
    this.chunks.push(data);
    this.length += data.length;
    while (this.length >= 4) {
      if (this.chunks[0].length < 4) {
        this.chunks = [Buffer.concat(this.chunks)];
      }
      const size = 4 + this.chunks[0].readUInt32BE(0);
      if (this.length < size) {
        return;
      }
      const all = Buffer.concat(this.chunks);
      this.chunks = [all.subarray(size)];
      this.length -= size;
      if (all[4] === 1) {
        this.handleStream(Number(all.readBigUInt64BE(5)), 'data', all.subarray(13, size));
      } else {
        this.handle(parse(all.toString('utf8', 4, size)));
      }
    }
  }

  handle(message) {
    if (message.op === 'hello') {
      this.hello = message;
    } else if (message.op === 'closed') {
      this.close(message.error);
    } else if (this.open.has(message.id)) {
      const settle = this.open.get(message.id);
      this.open.delete(message.id);
      this.keepAlive();
      settle(message.error === undefined ? null : new Error(message.error), message.data);
      while (this.waiting.length > 0 && this.open.size < this.hello.max_calls_in_flight) {
        this.waiting.shift()();
      }
    } else if (message.op !== 'answer') {
      this.handleStream(message.id, message.op, message);
    }
  }

  handleStream(id, kind, value) {
    const stream = this.streams.get(id);
    if (stream) {
      stream.take(kind, value);
    }
  }

  close(why) {
    this.closed = this.closed || why;
    const settlers = [...this.open.values()];
    this.open.clear();
    this.keepAlive();
    for (const settle of settlers) {
      settle(new Error(`callTool: the bridge is closed: ${this.closed}`));
    }
    this.waiting.splice(0).forEach((send) => send());
  }

  keepAlive() {
    if (this.socket) {
      this.socket[this.open.size > 0 ? 'ref' : 'unref']();
    }
  }

  // Writes the whole frame: the other end reads as long as no more calls are open than may be.
  send(caller, members, settle) {
    if (this.closed !== null) {
      settle(new Error(`${caller}: the bridge is closed: ${this.closed}`));
      return;
    }
    const id = ++this.lastId;
    this.open.set(id, settle);
    this.keepAlive();
    this.post(Buffer.from(`{"id":${id},${members}}`));
  }

  post(body) {
    const head = Buffer.alloc(4);
    head.writeUInt32BE(body.length);
    if (this.closed !== null) {
      return;
    }
    try {
      for (let data = Buffer.concat([head, body]); data.length > 0;) {
        data = data.subarray(fs.writeSync(place.output, data));
      }
    } catch {
      this.listen(); // does not block
      this.readNowAndTake(); // the reason may have come
      this.close('its descriptors are gone');
    }
  }

  // -> the answer's text
  ask(caller, members) {
    this.listen();
    return new Promise((resolve, reject) => {
      this.send(caller, members, (error, data) => (error ? reject(error) : resolve(data)));
    });
  }

  // -> the connection's number; what comes before the answer is read later
  openStream(members, stream, settle) {
    this.listen();
    this.streams.set(this.lastId + 1, stream);
    this.send('installPackage', members, settle);
    return this.lastId;
  }

  readNowAndTake() {
    const data = this.readNow();
    if (data.length > 0) {
      this.take(data);
    }
    return data.length > 0;
  }

  checkSize(caller, what, members) {
    if (Buffer.byteLength(members) + 32 > this.hello.max_frame_bytes) {
      throw new RangeError(`${caller}: ${what} larger than ${this.hello.max_frame_bytes} bytes`);
    }
  }

  call(caller, name, args) {
    if (typeof name !== 'string') {
      throw new TypeError(`${caller}: the tool's name must be a string, not ${typeof name}`);
    }
    if (args === undefined || args === null) {
      args = {};
    }
    const text = toJson(caller, args);
    if (text[0] !== '{') {
      throw new TypeError(`${caller}: args must be an object`);
    }
    const members = `"op":"call","name":${toJson(caller, name)},"args":${text}`;
    this.checkSize(caller, 'the arguments are', members);
    this.listen();
    return () => new Promise((resolve, reject) => {
      const settle = (error, data) => (error ? reject(error) : resolve(fromJson(data)));
      const send = () => this.send(caller, members, settle);
      if (this.open.size < this.hello.max_calls_in_flight) {
        send();
      } else {
        this.waiting.push(send);
      }
    });
  }

  setResult(data, files) {
    const text = toJson('setResult', data);
    if (Buffer.byteLength(text) > this.hello.max_result_bytes) {
      throw new RangeError(`setResult: the result is larger than ${this.hello.max_result_bytes} bytes`);
    }
    const list = files === undefined || files === null ? [] : typeof files === 'string' ? [files] : Array.from(files);
    const paths = toJson('setResult', list.map((file) => path.resolve(file)));
    const members = `"op":"result","data":${text},"files":${paths}`;
    this.checkSize('setResult', 'the result and its files are', members);
    let answered = false;
    let failure = null;
    this.send('setResult', members, (error) => {
      answered = true;
      failure = error;
    });
    const moment = new Int32Array(new SharedArrayBuffer(4));
    while (!answered) {
      if (!this.readNowAndTake() && !answered) {
        Atomics.wait(moment, 0, 0, 0.05); // the descriptor does not block; nothing else can run meanwhile
      }
    }
    if (failure) {
      throw failure;
    }
  }
}

function connect(caller) {
  if (process.pid !== place.pid || !require('worker_threads').isMainThread) {
    throw new Error(`${caller}: only the program's first process and its main thread can do this`);
  }
  if (isOver) {
    throw new Error(`${caller}: the bridge is closed: its call has ended`);
  }
  if (bridge === null) {
    try {
      if (!fs.fstatSync(place.input).isFIFO() || !fs.fstatSync(place.output).isFIFO()) {
        throw new Error('not a bridge');
      }
      bridge = new Bridge();
    } catch {
      throw new Error(`${caller}: the bridge's descriptors are closed`);
    }
  }
  return bridge;
}

/**
 * Call one of the agent's tools.
 * @param {string} name the tool's name, e.g. "search"
 * @param {object} [args] its arguments, e.g. {query: "weather"}
 * @returns {Promise<any>} the answer: parsed where it is JSON, else its text. Rejected with an Error that says why if the
 *     tool fails, answers too late, or cannot be reached.
 * @example const page = await callTool('fetch', {url: 'https://example.com'})
 */
async function callTool(name, args) {
  return connect('callTool').call('callTool', name, args)();
}

/**
 * Call several tools at the same time.
 * @param {Array<[string, object?]>} calls [name, args] pairs, as for callTool()
 * @returns {Promise<any[]>} their answers, in the order of the calls, when all have ended; rejected with the first error
 *     in that order if any failed
 * @example const [a, b] = await callToolsParallel([['search', {query: 'a'}], ['search', {query: 'b'}]])
 */
async function callToolsParallel(calls) {
  const connected = connect('callToolsParallel');
  const begin = Array.from(calls, (call) => {
    const [name, args] = typeof call === 'string' ? [call] : call;
    return connected.call('callToolsParallel', name, args);
  });
  const ended = await Promise.allSettled(begin.map((one) => one()));
  return ended.map((one) => {
    if (one.status === 'rejected') {
      throw one.reason;
    }
    return one.value;
  });
}

/**
 * Give back the program's result. What is printed is separate from it. If called more than once, the last call counts.
 * @param {any} data whatever JSON can say, in at most 512 levels: TypeError for NaN and Infinity, functions, symbols and bigints,
 *     wherever they are; RangeError for what is too deep or too large
 * @param {string[]} [files] paths of files to return along with it; they must lie in the working directory when the
 *     program ends. Missing ones are skipped.
 * @example setResult({mean: 4.2}, ['plot.png'])
 */
function setResult(data, files) {
  connect('setResult').setResult(data, files);
}

/**
 * Install an npm package and what it depends on, so that it can be required or imported afterwards. It stays with the session.
 * @param {string} name a name, "name@1.2", "@scope/name"; or the path of a tarball or of a directory with a package.json, e.g.
 *     "./left-pad-1.3.0.tgz". Names are looked for in the registry of this server, if it has one; paths always work, if what
 *     they depend on can be found.
 * @returns {Promise<void>} rejected with an Error that says why if it cannot be installed
 * @example await installPackage('left-pad')
 */
async function installPackage(name) {
  return require('./immure-install.cjs').install(name, connect);
}

for (const value of [callTool, callToolsParallel, setResult, installPackage]) {
  Object.defineProperty(globalThis, value.name, { value, writable: true, configurable: true, enumerable: false });
}

// Answers a result at once, and writes to nobody: what setResult() needs has then been loaded and compiled.
class Rehearsal extends Bridge {
  readNow() {
    const frame = this.hello === null ? { op: 'hello', version: 1, max_frame_bytes: 65536, max_result_bytes: 65536 }
      : { op: 'answer', id: this.lastId };
    const body = Buffer.from(stringify(frame));
    const head = Buffer.alloc(4);
    head.writeUInt32BE(body.length);
    return Buffer.concat([head, body]);
  }
}

// In a process that stands by, the bridge's descriptors are /dev/null.
function rehearse() {
  try {
    connect('rehearse');
  } catch {} // it is no bridge
  new Rehearsal().setResult({ a: [1, 'b'] }, ['c']);
}

// Each call of a kernel (immure-kernel.cjs) has a bridge of its own. It has ended: nobody is answered any more.
function endCall() {
  isOver = true;
  bridge?.close('its call has ended');
}

// Nothing of the program runs until PID 1 has put something else where the bridge was.
function leaveCall() {
  bridge?.socket?.destroy();
  bridge = null;
}

function beginCall() {
  isOver = false;
}

module.exports = { place, connect, rehearse, beginCall, endCall, leaveCall };
