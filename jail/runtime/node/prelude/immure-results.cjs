// What a program shows beside what it prints (`results` of a request, every call of a kernel): the value of its last expression,
// what it gives to display(), and the error that it ends with. Loaded by the launcher where results are wanted.
//
// Values are shown as util.inspect() does, as JSON where they are that and nothing else, and as what they say themselves
// where they have Jupyter's method. What the server has no room for is left out.
'use strict';

const util = require('node:util');
const vm = require('node:vm');

const TEXT_CHARACTERS_MAX = 65536;
const JSON_LEVELS_MAX = 60;
const JSON_VALUES_MAX = 60000; // the server's parser has a limit of 65536
const CANDIDATES_MAX = 64;
const CUT = '... [cut]';
const BUNDLE = Symbol.for('Jupyter.display');
const DECLARES = /^(?:async\s+function|function|class)\b|^\{/;
const GOES_ON = /^[([`+\-*/.,<>=&|?:%^]/; // a line that belongs to the one before

// Captured: a program may put something of its own there.
const { stringify } = JSON;
const { isArray } = Array;
const { getPrototypeOf, prototype } = Object;

let connect = null; // the prelude's
let sent = { count: 0, size: 0, cut: false };

// ---- What goes over the bridge ----

function clean(text) {
  const whole = `${text}`.replaceAll('\0', '\ufffd');
  return whole.toWellFormed ? whole.toWellFormed() : Buffer.from(whole).toString();
}

function clip(text) {
  if (text.length <= TEXT_CHARACTERS_MAX) {
    return clean(text);
  }
  tellCut();
  return clean(text.slice(0, TEXT_CHARACTERS_MAX)) + CUT;
}

function post(members) {
  connect('display').post(Buffer.from(`{"id":0,"op":"show",${members}}`));
}

function tellCut() {
  if (!sent.cut) {
    sent.cut = true;
    post('"type":"left_out"');
  }
}

function hasRoom() {
  if (sent.count < connect('display').hello.max_shown) {
    return true;
  }
  tellCut();
  return false;
}

function send(type, texts) {
  const { max_shown_bytes: each, max_all_shown_bytes: all, max_frame_bytes: frame } = connect('display').hello;
  const parts = [];
  let room = Math.min(each, all - sent.size, frame - 256) - 2;
  for (const [name, text] of texts) {
    const part = `${stringify(clean(name))}:${stringify(text)}`, size = Buffer.byteLength(part) + 1;
    if (size > room) {
      tellCut();
    } else {
      room -= size;
      sent.size += size;
      parts.push(part);
    }
  }
  if (parts.length > 0) {
    sent.count++;
    sent.size += 2;
    post(`"type":"${type}","data":{${parts.join(',')}}`);
  }
}

// ---- Values ----

function isWhollyJson(value) {
  try {
    return isJson(value, 1, { left: JSON_VALUES_MAX });
  } catch {
    return false; // a getter's
  }
}

// Whether JSON says all of it.
function isJson(value, level, count) {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') {
    return true;
  }
  if (typeof value !== 'object') {
    return typeof value === 'number' && Number.isFinite(value) && !Object.is(value, -0);
  }
  if (level > JSON_LEVELS_MAX || util.types.isProxy(value) || typeof value.toJSON === 'function') {
    return false;
  }
  const members = Object.values(value);
  const own = isArray(value) ? members.length === value.length : [prototype, null].includes(getPrototypeOf(value));
  return own && Object.getOwnPropertySymbols(value).length === 0 && (count.left -= members.length) >= 0 &&
    members.every((member) => isJson(member, level + 1, count));
}

function bundleOf(value) {
  const data = {};
  if (value !== null && typeof value === 'object' && !util.types.isProxy(value) && typeof value[BUNDLE] === 'function') {
    Object.assign(data, value[BUNDLE]());
  }
  data['text/plain'] ??= util.inspect(value);
  if (isWhollyJson(value)) {
    data['application/json'] ??= value;
  }
  return data;
}

function textOf(mime, value) {
  if (mime === 'application/json' || mime.endsWith('+json')) {
    return stringify(value);
  }
  if (util.types.isUint8Array(value)) {
    return Buffer.from(value).toString('base64');
  }
  return typeof value !== 'string' ? undefined : mime === 'text/plain' ? clip(value) : clean(value);
}

// What a value's own methods throw is told on stderr, and is not the program's end.
function attempt(run) {
  try {
    run();
  } catch (error) {
    try {
      process.stderr.write(`display: ${util.inspect(error)}\n`);
    } catch {} // it cannot be told
  }
}

function show(type, value) {
  attempt(() => {
    if (hasRoom()) {
      send(type, Object.entries(bundleOf(value)).map(([mime, data]) => [mime, textOf(mime, data)])
        .filter(([, text]) => text !== undefined));
    }
  });
}

/**
 * Show values in the reply's `results`, as text, as JSON where they are that, or as what they give themselves: an object's
 * method [Symbol.for('Jupyter.display')]() returns {mime: data}.
 * @param {...any} values
 * @example display({mean: 4.2})
 */
function display(...values) {
  values.forEach((value) => show('display', value));
}

// `ownFrames`: what of a stack is none of the program's.
function showError(error, ownFrames) {
  attempt(() => {
    const isError = util.types.isNativeError(error);
    if (hasRoom()) {
      send('error', [['name', clip(isError ? String(error.name) : typeof error)],
        ['value', clip(isError ? String(error.message) : util.inspect(error))],
        ['traceback', clip(isError ? String(error.stack).replace(ownFrames, '') : '')]]);
    }
  });
}

// A promise, once it is settled; who has rejected it hears of that as ever.
function showValue(value) {
  if (util.types.isPromise(value)) {
    value.then(showValue);
  } else if (value !== undefined) {
    show('execute_result', value);
  }
}

// ---- The last expression of a program ----

function compiles(text) {
  try {
    return new vm.Script(text) !== null;
  } catch {
    return false;
  }
}

// -> the same program as a function's body that returns the value of its last expression, where it ends with one. Lines stay.
// There is no parser: where a part of the text and the expression behind it compile alone, they are what the text means.
function returnLast(source) {
  const end = source.replace(/(?:\s|;|\/\/[^\n'"`]*$)+$/, '').length;
  for (let at = end, left = CANDIDATES_MAX; at > 0 && left > 0; left--) {
    at = Math.max(source.lastIndexOf('\n', at - 1), source.lastIndexOf(';', at - 1));
    const begin = at + 1, text = source.slice(begin, end), last = text.trimStart(), before = source.slice(0, begin);
    if (last !== '' && !DECLARES.test(last) && (at < 0 || source[at] === ';' || !GOES_ON.test(last)) &&
        compiles(`(async function () { return (${text}\n) })`) && compiles(`(async function () {${before}\n})`)) {
      const blank = text.slice(0, text.length - last.length);
      return `${before}${blank}return (${last}\n)`;
    }
  }
  return source;
}

module.exports = function prepare(prelude) {
  connect = prelude.connect;
  Object.defineProperty(globalThis, 'display', { value: display, writable: true, configurable: true, enumerable: false });
  return { show, showValue, showError, returnLast, begin: () => { sent = { count: 0, size: 0, cut: false }; } };
};
