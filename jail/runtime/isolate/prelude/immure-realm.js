// The inside of the realm that a run's source lives in: what its values look like on the wire, its console, `report`, proxies of
// the caller's functions, structuredClone. Evaluated in the fresh context, before any source, by immure-isolate.cjs.
//
// Whatever the source does to the intrinsics, this code keeps working: it has its own copies of what it needs, calls them with
// Reflect.apply, and never iterates, spreads, awaits or looks up a method on an object that the source can reach. The host's
// functions are called from here alone, with and for primitive values; what they throw belongs to the other realm and is never
// passed on.
(function () {
'use strict';

// ---- What is taken before the source can change it ----

const {apply, construct, getPrototypeOf, defineProperty, getOwnPropertyDescriptor} = Reflect;
const {parse, stringify} = JSON;
const {keys, is, hasOwn, create, prototype: objectPrototype} = Object;
const arrayPrototype = Array.prototype;
const {isArray} = Array;
const {isFinite: isFiniteNumber} = Number;
const NativeError = Error, NativePromise = Promise, NativeMap = Map, NativeSet = Set, NativeDate = Date, NativeString = String;
const NativeBigInt = BigInt, NativeUint8Array = Uint8Array, NativeArrayBuffer = ArrayBuffer, NativeRangeError = RangeError;
const NativeTypeError = TypeError, NativeSyntaxError = SyntaxError, NativeRegExp = RegExp, NativeObject = Object, NativeWeakMap = WeakMap;
const {now} = Date;
const exec = RegExp.prototype.exec;
const promiseThen = Promise.prototype.then;
const getter = (object, name) => getOwnPropertyDescriptor(object, name).get;
const mapEach = Map.prototype.forEach, mapSize = getter(Map.prototype, 'size'), mapSet = Map.prototype.set;
const weakGet = WeakMap.prototype.get, weakSet = WeakMap.prototype.set;
const mapGet = Map.prototype.get, mapDelete = Map.prototype.delete, mapHas = Map.prototype.has;
const setEach = Set.prototype.forEach, setSize = getter(Set.prototype, 'size'), setAdd = Set.prototype.add;
const dateValue = Date.prototype.getTime, dateIso = Date.prototype.toISOString;
const bufferLength = getter(ArrayBuffer.prototype, 'byteLength');
const viewOf = {buffer: getter(DataView.prototype, 'buffer'), byteOffset: getter(DataView.prototype, 'byteOffset'),
                byteLength: getter(DataView.prototype, 'byteLength')};
const typedArrayPrototype = getPrototypeOf(Uint8Array.prototype);
const typedOf = {buffer: getter(typedArrayPrototype, 'buffer'), byteOffset: getter(typedArrayPrototype, 'byteOffset'),
                 byteLength: getter(typedArrayPrototype, 'byteLength')};
const typedSet = typedArrayPrototype.set;
const valueOf = {__proto__: null, Boolean: Boolean.prototype.valueOf, Number: Number.prototype.valueOf,
                 String: String.prototype.valueOf, BigInt: BigInt.prototype.valueOf};
const regexpSource = getter(RegExp.prototype, 'source'), regexpFlags = getter(RegExp.prototype, 'flags');
const functionText = Function.prototype.toString, slice = String.prototype.slice;
const lone = /[\ud800-\udfff]/u;

// The constructors of bytes, by name, and what kind of view each makes.
const viewNames = ['Int8Array', 'Uint8Array', 'Uint8ClampedArray', 'Int16Array', 'Uint16Array', 'Int32Array', 'Uint32Array',
                   'Float32Array', 'Float64Array', 'BigInt64Array', 'BigUint64Array', 'DataView'];
const views = create(null), viewSizes = create(null);
for (let i = 0; i < viewNames.length; i++) {
  views[viewNames[i]] = globalThis[viewNames[i]];
  viewSizes[viewNames[i]] = globalThis[viewNames[i]].BYTES_PER_ELEMENT ?? 1;
}

function matches(pattern, text) {
  return apply(exec, pattern, [text]) !== null;
}

// As defineProperty() of a value, whatever Object.prototype has by then.
function define(object, name, value, enumerable, writable) {
  defineProperty(object, name, {__proto__: null, value, writable, enumerable, configurable: true});
}

class SerializationError extends NativeError {}
class LinkError extends NativeError {}
for (const type of [SerializationError, LinkError]) {
  define(type.prototype, 'name', type.name, false, true);
}

// ---- The host ----

// Set by connect(): call(id, name, args, isReport), event(kind, text), finish(text), failed(status, name, message, stack, specifier,
// filename, line, column), kind(value), wellFormed(text), toBase64(buffer, offset, length), bytesOf(text), fromBase64(text, buffer).
let host = null;
let limits = {value: 4194304, calls: 4194304};

// Room for what the host does, in calls of this size.
const ROOM = 400;

function reach(calls) {
  return calls > 0 ? reach(calls - 1) + 1 : 0;
}

// As ask(), for what would leave a thing half done if the stack ended in there.
function tell(name, args) {
  reach(ROOM);
  return ask(name, args);
}

// What the host throws is not let through: not even a stack overflow's error.
function ask(name, args) {
  let failed = true, answer;
  try {
    answer = apply(host[name], undefined, args);
    failed = false;
  } catch {}
  if (failed) {
    throw new NativeRangeError('the evaluator has no room left for this');
  }
  return answer;
}

// ---- Values to text ----

// A level takes up to three of the JSON text's (a map's), and the server takes 640 of these (JSON_PASSED_DEPTH_MAX in
// config/format/json.h), the bridge's own among them.
const DEPTH_MAX = 200;

function refuse(what, path) {
  throw new SerializationError(`${what} cannot cross${path === '' ? '' : `, at ${path}`}`);
}

function kindOf(value) {
  const type = typeof value;
  return type === 'object' && value !== null ? 'an object' : type === 'undefined' ? 'undefined' : `a ${type}`;
}

// What an object is, whatever its prototype and its properties say: "Map", "Proxy", ...; "": nothing special.
function kindOfObject(value) {
  return ask('kind', [value]);
}

function className(value) {
  const prototype = getPrototypeOf(value);
  const property = prototype === null ? undefined : getOwnPropertyDescriptor(prototype, 'constructor');
  const name = property && typeof property.value === 'function' ? getOwnPropertyDescriptor(property.value, 'name') : undefined;
  return name && typeof name.value === 'string' && name.value !== '' ? name.value : 'a class';
}

class Encoder {
  // Fields, since an assignment could end in a setter of the source's.
  text = '';
  limit = 0;
  above = []; // the objects that the current one is in
  depth = 0;

  constructor(limit) {
    this.limit = limit;
  }

  put(text) {
    this.text += text;
    if (this.text.length > this.limit) {
      throw new SerializationError(`the value is larger than ${this.limit} bytes`);
    }
  }

  string(value, path) {
    if (matches(lone, value)) {
      refuse('a string with half of a surrogate pair', path);
    }
    if (value.length > this.limit) {
      throw new SerializationError(`the value is larger than ${this.limit} bytes`);
    }
    this.put(stringify(value));
  }

  typed(type, member, text) {
    this.put(`{"$type":"${type}","${member}":${text}}`);
  }

  number(value) {
    if (is(value, -0)) {
      this.typed('number', 'value', '"-0"');
    } else if (isFiniteNumber(value)) {
      this.put(stringify(value));
    } else {
      this.typed('number', 'value', `"${value}"`);
    }
  }

  value(value, path) {
    switch (typeof value) {
    case 'string': this.string(value, path); break;
    case 'number': this.number(value); break;
    case 'boolean': this.put(value ? 'true' : 'false'); break;
    case 'bigint': this.typed('bigint', 'value', `"${value}"`); break;
    case 'undefined': this.put('{"$type":"undefined"}'); break;
    case 'object':
      if (value === null) {
        this.put('null');
      } else {
        this.enter(value, path);
      }
      break;
    default: refuse(kindOf(value), path);
    }
  }

  enter(value, path) {
    if (this.depth >= DEPTH_MAX) {
      refuse(`a value of more than ${DEPTH_MAX} levels`, path);
    }
    for (let i = 0; i < this.depth; i++) {
      if (this.above[i] === value) {
        refuse('a value that holds itself', path);
      }
    }
    define(this.above, this.depth++, value, true, true);
    this.object(value, path);
    this.depth--;
  }

  object(value, path) {
    const kind = kindOfObject(value), prototype = kind === 'Proxy' ? null : getPrototypeOf(value);
    switch (kind) {
    case '':
      this.own(prototype === objectPrototype || prototype === null, value, path);
      this.plain(value, path);
      break;
    case 'Array':
      this.own(prototype === arrayPrototype, value, path);
      this.array(value, path);
      break;
    case 'Map':
      this.own(prototype === NativeMap.prototype, value, path);
      this.map(value, path);
      break;
    case 'Set':
      this.own(prototype === NativeSet.prototype, value, path);
      this.set(value, path);
      break;
    case 'Date':
      this.own(prototype === NativeDate.prototype, value, path);
      this.date(apply(dateValue, value, []), value);
      break;
    case 'ArrayBuffer':
      this.own(prototype === NativeArrayBuffer.prototype, value, path);
      this.bytes(kind, value, 0, apply(bufferLength, value, []));
      break;
    case 'DataView':
      this.own(prototype === views.DataView.prototype, value, path);
      this.view(kind, viewOf, value);
      break;
    default:
      if (!(kind in views)) {
        refuse(kind === 'Proxy' ? 'a Proxy' : `an instance of ${kind === 'Error' ? className(value) : kind}`, path);
      }
      this.own(prototype === views[kind].prototype, value, path);
      this.view(kind, typedOf, value);
    }
  }

  date(time, value) {
    this.typed('date', 'value', time === time ? `"${apply(dateIso, value, [])}"` : 'null');
  }

  own(is, value, path) {
    if (!is) {
      refuse(`an instance of ${className(value)}`, path);
    }
  }

  array(value, path) {
    const {length} = value;
    this.put('[');
    for (let i = 0; i < length; i++) {
      if (i > 0) {
        this.put(',');
      }
      this.value(value[i], `${path}[${i}]`);
    }
    this.put(']');
  }

  map(value, path) {
    let first = true;
    this.put('{"$type":"map","entries":[');
    apply(mapEach, value, [(item, key) => {
      this.put(first ? '[' : ',[');
      first = false;
      this.value(key, `${path}<key>`);
      this.put(',');
      this.value(item, `${path}<value>`);
      this.put(']');
    }]);
    this.put(']}');
  }

  set(value, path) {
    let first = true;
    this.put('{"$type":"set","values":[');
    apply(setEach, value, [(item) => {
      if (!first) {
        this.put(',');
      }
      first = false;
      this.value(item, `${path}<value>`);
    }]);
    this.put(']}');
  }

  view(name, get, value) {
    this.bytes(name, apply(get.buffer, value, []), apply(get.byteOffset, value, []), apply(get.byteLength, value, []));
  }

  bytes(name, buffer, offset, length) {
    if (length > this.limit) {
      throw new SerializationError(`the value is larger than ${this.limit} bytes`);
    }
    this.put(`{"$type":"bytes","ctor":"${name}","data":"${ask('toBase64', [buffer, offset, length])}"}`);
  }

  plain(value, path) {
    const names = keys(value);
    const {length} = names;
    const entries = hasOwn(value, '$type');
    this.put(entries ? '{"$type":"object","entries":[' : '{');
    for (let i = 0; i < length; i++) {
      this.put(`${i > 0 ? ',' : ''}${entries ? '[' : ''}`);
      this.string(names[i], path);
      this.put(entries ? ',' : ':');
      this.value(value[names[i]], path === '' ? names[i] : `${path}.${names[i]}`);
      this.put(entries ? ']' : '');
    }
    this.put(entries ? ']}' : '}');
  }
}

function encode(value, limit) {
  const encoder = new Encoder(limit);
  encoder.value(value, '');
  return encoder.text;
}

// ---- Text to values ----

function member(object, name) {
  return hasOwn(object, name) ? object[name] : undefined;
}

function malformed(type) {
  throw new NativeTypeError(`a value of $type ${type} is malformed`);
}

function put(object, name, value) {
  define(object, name, value, true, true);
}

const numbers = {__proto__: null, 'NaN': NaN, 'Infinity': Infinity, '-Infinity': -Infinity, '-0': -0};

function decodeBytes(data) {
  const name = member(data, 'ctor'), text = member(data, 'data');
  const isBuffer = name === 'ArrayBuffer';
  if (typeof text !== 'string' || (!isBuffer && (typeof name !== 'string' || !(name in views)))) {
    malformed('bytes');
  }
  const length = ask('bytesOf', [text]), buffer = new NativeArrayBuffer(length);
  ask('fromBase64', [text, buffer]);
  if (isBuffer) {
    return buffer;
  }
  if (length % viewSizes[name] !== 0) {
    malformed('bytes');
  }
  return construct(views[name], [buffer]);
}

function arrayOf(value, type) {
  return isArray(value) ? value : malformed(type);
}

function pairOf(value, type) {
  return isArray(value) && value.length === 2 ? value : malformed(type);
}

const decoders = {
  __proto__: null,
  undefined: () => undefined,
  bigint(data) {
    const text = member(data, 'value');
    return typeof text === 'string' && matches(/^-?[0-9]+$/, text) ? NativeBigInt(text) : malformed('bigint');
  },
  number(data) {
    const text = member(data, 'value');
    return typeof text === 'string' && text in numbers ? numbers[text] : malformed('number');
  },
  date(data) {
    const value = member(data, 'value');
    if (value !== null && typeof value !== 'string' && typeof value !== 'number') {
      malformed('date');
    }
    return new NativeDate(value === null ? NaN : value);
  },
  map(data) {
    const entries = arrayOf(member(data, 'entries'), 'map'), map = new NativeMap();
    for (let i = 0; i < entries.length; i++) {
      const entry = pairOf(entries[i], 'map');
      apply(mapSet, map, [decode(entry[0]), decode(entry[1])]);
    }
    return map;
  },
  set(data) {
    const values = arrayOf(member(data, 'values'), 'set'), set = new NativeSet();
    for (let i = 0; i < values.length; i++) {
      apply(setAdd, set, [decode(values[i])]);
    }
    return set;
  },
  bytes: decodeBytes,
  function(data) {
    const id = member(data, 'id');
    return typeof id === 'string' ? proxyOf(id) : malformed('function');
  },
  promise(data) {
    const id = member(data, 'id'), promise = typeof id === 'string' ? callHost(id, [], false) : malformed('promise');
    apply(promiseThen, promise, [undefined, () => {}]); // nobody has to look at it
    return promise;
  },
  object(data) {
    const entries = arrayOf(member(data, 'entries'), 'object'), object = {};
    for (let i = 0; i < entries.length; i++) {
      const entry = pairOf(entries[i], 'object');
      put(object, typeof entry[0] === 'string' ? entry[0] : malformed('object'), decode(entry[1]));
    }
    return object;
  },
};

// `data` comes from parse() and is nobody else's: it is changed in place.
function decode(data) {
  if (typeof data !== 'object' || data === null) {
    return data;
  }
  if (isArray(data)) {
    for (let i = 0; i < data.length; i++) {
      put(data, i, decode(data[i]));
    }
    return data;
  }
  if (hasOwn(data, '$type')) {
    const type = data.$type;
    if (typeof type !== 'string' || !(type in decoders)) {
      throw new NativeTypeError('a value has an unknown $type');
    }
    return decoders[type](data);
  }
  const names = keys(data);
  for (let i = 0; i < names.length; i++) {
    put(data, names[i], decode(data[names[i]]));
  }
  return data;
}

// ---- The caller's functions ----

const pending = new NativeMap();
let lastCall = 0;

function callHost(name, args, isReport) {
  return new NativePromise((resolve, reject) => {
    const text = encode(args, limits.calls), id = ++lastCall;
    apply(mapSet, pending, [id, {resolve, reject}]);
    tell('call', [id, name, text, isReport]);
  });
}

function proxyOf(id) {
  const proxy = async (...args) => callHost(id, args, false);
  define(proxy, 'name', id, false, false);
  return proxy;
}

function settle(id, failed, text) {
  const call = apply(mapGet, pending, [id]);
  apply(mapDelete, pending, [id]);
  if (!call) {
    return;
  }
  if (failed) {
    call.reject(new NativeError(text));
    return;
  }
  try {
    call.resolve(text === '' ? undefined : decode(parse(text)));
  } catch {
    call.reject(new NativeTypeError('the answer is not the JSON text of a value'));
  }
}

// ---- console, report ----

// What cannot cross, in a few words.
function inWords(value) {
  try {
    if (typeof value === 'symbol') {
      return NativeString(value);
    }
    if (typeof value === 'function') {
      const name = getOwnPropertyDescriptor(value, 'name');
      const words = apply(slice, apply(functionText, value, []), [0, 5]) === 'class' ? 'class' : 'Function';
      return `[${words}: ${name && typeof name.value === 'string' && name.value !== '' ? name.value : '(anonymous)'}]`;
    }
    const kind = kindOfObject(value);
    if (kind === 'Error') {
      const {stack} = value;
      return typeof stack === 'string' && stack !== '' ? stack : header(value);
    }
    if (kind === 'RegExp') {
      return `/${apply(regexpSource, value, [])}/${apply(regexpFlags, value, [])}`;
    }
    return `[${kind === 'Proxy' ? kind : className(value)}]`;
  } catch {
    return '[value]';
  }
}

function encodeLogged(value) {
  try {
    return encode(value, 65536);
  } catch {
    return stringify(ask('wellFormed', [inWords(value)]));
  }
}

function log(level, args) {
  let text = `{"level":"${level}","args":[`;
  for (let i = 0; i < args.length; i++) {
    text += `${i > 0 ? ',' : ''}${encodeLogged(args[i])}`;
  }
  tell('event', ['log', `${text}],"timestamp":${now()}}`]);
}

const levels = {__proto__: null, log: 'log', info: 'info', warn: 'warn', error: 'error', debug: 'debug', trace: 'trace', dir: 'log',
                dirxml: 'log', table: 'log', group: 'log', groupCollapsed: 'log'};

function makeConsole() {
  const result = {};
  const names = keys(levels);
  for (let i = 0; i < names.length; i++) {
    put(result, names[i], {[names[i]](...args) { log(levels[names[i]], args); }}[names[i]]);
  }
  put(result, 'assert', {assert(condition, ...args) {
    if (!condition) {
      log('error', args.length > 0 ? args : ['Assertion failed']);
    }
  }}.assert);
  put(result, 'groupEnd', {groupEnd() {}}.groupEnd);
  return result;
}

function makeReport(id) {
  return {report(value) {
    const text = encode(value, limits.value);
    if (!tell('event', ['report', text])) {
      throw new NativeRangeError('the reports are larger than a run may send');
    }
    return id === null ? undefined : callHost(id, [value], true);
  }}.report;
}

// ---- structuredClone, queueMicrotask ----

function cloneError(what) {
  const error = new NativeError(`${what} could not be cloned.`);
  define(error, 'name', 'DataCloneError', false, true);
  return error;
}

function cloneView(name, get, value, seen) {
  const buffer = cloneAny(apply(get.buffer, value, []), seen);
  const offset = apply(get.byteOffset, value, []), length = apply(get.byteLength, value, []);
  return construct(views[name], [buffer, offset, length / viewSizes[name]]);
}

function cloneBuffer(value) {
  const copy = new NativeUint8Array(apply(bufferLength, value, []));
  apply(typedSet, copy, [new NativeUint8Array(value)]);
  return apply(typedOf.buffer, copy, []);
}

const errorTypes = {__proto__: null, Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError};

function cloneErrorObject(value) {
  const {name, message, stack} = value;
  const copy = construct(NativeError, [], typeof name === 'string' && name in errorTypes ? errorTypes[name] : NativeError);
  if (message !== undefined) {
    define(copy, 'message', `${message}`, false, true);
  }
  define(copy, 'stack', `${stack}`, false, true);
  return copy;
}

function cloneMembers(value, copy, seen) {
  const names = keys(value);
  for (let i = 0; i < names.length; i++) {
    put(copy, names[i], cloneAny(value[names[i]], seen));
  }
  return copy;
}

const cloners = {
  __proto__: null,
  '': (value, note, seen) => cloneMembers(value, note({}), seen),
  Array(value, note, seen) {
    const copy = note([]);
    copy.length = value.length;
    return cloneMembers(value, copy, seen);
  },
  Map(value, note, seen) {
    const copy = note(new NativeMap());
    apply(mapEach, value, [(item, key) => { apply(mapSet, copy, [cloneAny(key, seen), cloneAny(item, seen)]); }]);
    return copy;
  },
  Set(value, note, seen) {
    const copy = note(new NativeSet());
    apply(setEach, value, [(item) => { apply(setAdd, copy, [cloneAny(item, seen)]); }]);
    return copy;
  },
  Date: (value, note) => note(new NativeDate(apply(dateValue, value, []))),
  ArrayBuffer: (value, note) => note(cloneBuffer(value)),
  DataView: (value, note, seen) => note(cloneView('DataView', viewOf, value, seen)),
  RegExp: (value, note) => note(new NativeRegExp(apply(regexpSource, value, []), apply(regexpFlags, value, []))),
  Error: (value, note) => note(cloneErrorObject(value)),
};

function cloneObject(value, seen) {
  const kind = kindOfObject(value);
  const note = (copy) => { apply(mapSet, seen, [value, copy]); return copy; };
  if (kind in cloners) {
    return cloners[kind](value, note, seen);
  }
  if (kind in views) {
    return note(cloneView(kind, typedOf, value, seen));
  }
  if (kind in valueOf) {
    return note(NativeObject(apply(valueOf[kind], value, [])));
  }
  throw cloneError(`#<${kind}>`);
}

function cloneAny(value, seen) {
  if (typeof value === 'function' || typeof value === 'symbol') {
    throw cloneError(typeof value === 'symbol' ? NativeString(value) : inWords(value));
  }
  if (typeof value !== 'object' || value === null) {
    return value;
  }
  return apply(mapHas, seen, [value]) ? apply(mapGet, seen, [value]) : cloneObject(value, seen);
}

const functions = {
  structuredClone(value, options) {
    if (arguments.length === 0) {
      throw new NativeTypeError("structuredClone: 1 argument required, but only 0 present.");
    }
    if (options !== undefined && options !== null && options.transfer !== undefined) {
      throw cloneError('A transferred object');
    }
    return cloneAny(value, new NativeMap());
  },
  queueMicrotask(callback) {
    if (typeof callback !== 'function') {
      throw new NativeTypeError('queueMicrotask: the callback is not a function');
    }
    apply(promiseThen, settled, [() => { callback(); }]);
  },
};
const settled = NativePromise.resolve();

// ---- Errors, and the end ----

function isError(value) {
  return typeof value === 'object' && value !== null && kindOfObject(value) === 'Error';
}

function text(value, fallback) {
  try {
    return typeof value === 'string' ? value : value === undefined ? fallback : `${value}`;
  } catch {
    return fallback;
  }
}

function property(value, name) {
  try {
    return value[name];
  } catch {
    return undefined;
  }
}

// The first line of a stack.
function header(error) {
  const name = text(property(error, 'name'), 'Error'), message = text(property(error, 'message'), '');
  return name === '' ? message : message === '' ? name : `${name}: ${message}`;
}

// What import() could not link: whose errors these are, and what they say, is the host's word and not what the source makes of them.
const linkFailures = new NativeWeakMap();

// One word for the host about whatever was thrown.
function fail(error) {
  try {
    let name = 'Error', message = '', stack = '';
    if (isError(error)) {
      const failure = apply(weakGet, linkFailures, [error]);
      if (failure !== undefined) {
        ask('failed', ['link_error', failure.name, failure.message, failure.stack, failure.specifier, failure.filename, failure.line,
                       failure.column]);
        return;
      }
      name = text(property(error, 'name'), 'Error');
      message = text(property(error, 'message'), '');
      stack = text(property(error, 'stack'), '');
    } else if (typeof error === 'object' && error !== null) {
      name = text(property(error, 'name'), 'Error');
      message = text(property(error, 'message'), inWords(error));
    } else {
      message = typeof error === 'symbol' || typeof error === 'function' ? inWords(error) : `${error}`;
    }
    ask('failed', ['error', name, message, stack, null]);
  } catch {
    ask('failed', ['error', 'Error', 'an error that cannot be described', '', null]);
  }
}

async function take(value, isCall, args) {
  return isCall ? apply(value, undefined, args) : value;
}

// Takes the export, calls it, awaits what comes of it. `namespace` is a module's.
function execute(namespace, name, argsText) {
  try {
    const args = decode(parse(argsText)), value = namespace[name];
    const isCall = typeof value === 'function';
    if (!isCall && args.length > 0) {
      throw new NativeTypeError(`the export '${name}' is not a function and takes no arguments`);
    }
    apply(promiseThen, take(value, isCall, args), [(result) => {
      try {
        ask('finish', [encode(result, limits.value)]);
      } catch (error) {
        fail(error);
      }
    }, fail]);
  } catch (error) {
    fail(error);
  }
}

// ---- What the source finds, and what not ----

const hidden = ['WebAssembly', 'SharedArrayBuffer', 'Atomics', 'console'];
for (let i = 0; i < hidden.length; i++) {
  delete globalThis[hidden[i]];
}

function install(name, value) {
  define(globalThis, name, value, false, true);
}

// The host awaits promises of this realm and asks this Error how stacks are written: these few do not change.
function lock(object, name) {
  defineProperty(object, name, {__proto__: null, value: object[name], writable: false, configurable: false});
}
lock(NativePromise.prototype, 'then');
lock(NativePromise.prototype, 'constructor');
defineProperty(NativePromise, Symbol.species, {__proto__: null, configurable: false});
lock(NativeError, 'prepareStackTrace');
lock(globalThis, 'Error');
delete NativeError.captureStackTrace;

install('structuredClone', functions.structuredClone);
install('queueMicrotask', functions.queueMicrotask);

// By specifier: the decoded exports.
const imports = create(null);

return {
  __proto__: null,
  connect(functionsOfHost, valueLimit, callLimit) {
    host = {__proto__: null};
    const names = keys(functionsOfHost);
    for (let i = 0; i < names.length; i++) {
      host[names[i]] = functionsOfHost[names[i]];
    }
    limits = {value: valueLimit, calls: callLimit};
  },
  setUp(importsText, reportText) {
    const given = parse(importsText), specifiers = keys(given);
    for (let i = 0; i < specifiers.length; i++) {
      const values = given[specifiers[i]], names = keys(values);
      imports[specifiers[i]] = create(null);
      for (let j = 0; j < names.length; j++) {
        imports[specifiers[i]][names[j]] = decode(values[names[j]]);
      }
    }
    const report = parse(reportText);
    if (report !== null) {
      install('report', makeReport(report === true ? null : report.id));
    }
  },
  // Not decode() of all at once: `$type` is a name like any other here.
  setGlobals(assign, text) {
    const values = parse(text), names = keys(values);
    for (let i = 0; i < names.length; i++) {
      put(values, names[i], decode(values[names[i]]));
    }
    if (!hasOwn(values, 'console')) {
      put(values, 'console', makeConsole());
    }
    assign(values);
  },
  imported: (specifier, name) => imports[specifier][name],
  linkError(isSyntax, message, specifier, filename, line, column) {
    const error = new (isSyntax ? NativeSyntaxError : LinkError)(message);
    if (specifier !== undefined) {
      define(error, 'specifier', specifier, false, false);
    }
    apply(weakSet, linkFailures, [error, {__proto__: null, name: isSyntax ? 'SyntaxError' : 'LinkError', message, specifier, filename, line,
                                          column, stack: text(property(error, 'stack'), '')}]);
    return error;
  },
  makeError: (message) => new NativeError(message),
  header, settle, fail, execute,
};
})()
