// Values that cross to a module and back: JSON as it is, and what JSON does not have as an object with `$type`.

export class SerializationError extends TypeError {
  name = 'SerializationError';
}

const LEVELS_MAX = 200;
const NUMBERS = {NaN: NaN, Infinity: Infinity, '-Infinity': -Infinity, '-0': -0};
const VIEWS = Object.fromEntries(['Int8Array', 'Uint8Array', 'Uint8ClampedArray', 'Int16Array', 'Uint16Array', 'Int32Array', 'Uint32Array',
  'Float32Array', 'Float64Array', 'BigInt64Array', 'BigUint64Array', 'DataView'].map(name => [name, globalThis[name]]));

const kindOf = value => Object.prototype.toString.call(value).slice(8, -1);

function isPlain(value) {
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function toBase64(bytes) {
  let text = '';
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

const fromBase64 = text => Uint8Array.from(atob(text), character => character.charCodeAt(0));

function encodeBytes(value) {
  const buffer = value instanceof ArrayBuffer || kindOf(value) === 'ArrayBuffer';
  const bytes = buffer ? new Uint8Array(value) : new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  const ctor = buffer ? 'ArrayBuffer' : kindOf(value);
  return {$type: 'bytes', ctor, data: toBase64(bytes)};
}

function encodeObject(value, encode) {
  const keys = Object.keys(value);
  if (Object.hasOwn(value, '$type')) return {$type: 'object', entries: keys.map(key => [key, encode(value[key], key)])};
  const ret = {};
  for (const key of keys) Object.defineProperty(ret, key, {value: encode(value[key], key), enumerable: true});
  return ret;
}

/** What the caller gives to a run: functions and promises travel as ids, and only what the run was given at its start is ever called. */
export class Functions {
  #ids = new Map();
  #byId = new Map();
  sealed = false;

  get(id) { return this.#byId.get(id); }

  id(callee) {
    const known = this.#ids.get(callee);
    if (known || this.sealed) return known;
    const id = `f${this.#byId.size}`;
    if (typeof callee !== 'function') callee.catch(() => {}); // the run hears of it
    this.#byId.set(id, typeof callee === 'function' ? callee : () => callee);
    this.#ids.set(callee, id);
    return id;
  }
}

/** `functions`: a Functions; without it there may be none in `value`. */
export function encode(value, functions, path = 'value', above = []) {
  const fail = why => { throw new SerializationError(`${path}: ${why}`); };
  const inner = (item, key) => encode(item, functions, `${path}.${String(key)}`, [...above, value]);
  const byId = $type => {
    const id = functions?.id(value);
    return id ? {$type, id} : fail(`a ${$type} cannot cross here`);
  };
  switch (typeof value) {
    case 'string': return value.isWellFormed?.() ?? true ? value : fail('a string with half of a surrogate pair cannot cross');
    case 'boolean': return value;
    case 'undefined': return {$type: 'undefined'};
    case 'bigint': return {$type: 'bigint', value: String(value)};
    case 'number': return Number.isFinite(value) && !Object.is(value, -0) ? value
      : {$type: 'number', value: Object.is(value, -0) ? '-0' : String(value)};
    case 'symbol': return fail('a symbol cannot cross');
    case 'function': return byId('function');
  }
  if (value === null) return null;
  if (above.includes(value)) return fail('refers to itself');
  if (above.length >= LEVELS_MAX) return fail(`has more than ${LEVELS_MAX} levels`);
  if (Array.isArray(value)) return Array.from(value, inner);
  const kind = kindOf(value);
  if (kind === 'Promise') return byId('promise');
  if (kind === 'Date') return {$type: 'date', value: Number.isNaN(value.getTime()) ? null : value.toISOString()};
  if (kind === 'Map') return {$type: 'map', entries: Array.from(value, ([key, item]) => [inner(key, 'key'), inner(item, 'value')])};
  if (kind === 'Set') return {$type: 'set', values: Array.from(value, inner)};
  if (kind === 'ArrayBuffer' || VIEWS[kind]) return encodeBytes(value);
  if (kind === 'Object' && isPlain(value)) return encodeObject(value, inner);
  return fail(`${kind === 'Object' ? 'an instance of a class' : `a value of the kind ${kind}`} cannot cross`);
}

function define(entries) {
  const ret = {};
  for (const [key, value] of entries) Object.defineProperty(ret, key, {value: decode(value), enumerable: true, writable: true, configurable: true});
  return ret;
}

const decoders = {
  undefined: () => undefined,
  bigint: ({value}) => BigInt(value),
  number: ({value}) => NUMBERS[value],
  date: ({value}) => new Date(value ?? NaN),
  map: ({entries}) => new Map(entries.map(([key, value]) => [decode(key), decode(value)])),
  set: ({values}) => new Set(values.map(decode)),
  bytes: ({ctor, data}) => {
    const {buffer} = fromBase64(data);
    return ctor === 'ArrayBuffer' ? buffer : new VIEWS[ctor](buffer);
  },
  object: ({entries}) => define(entries),
};

export function decode(value) {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(decode);
  if (!Object.hasOwn(value, '$type')) return define(Object.entries(value));
  const decoder = Object.hasOwn(decoders, value.$type) ? decoders[value.$type] : undefined;
  if (!decoder) throw new SerializationError(`a value of the type ${value.$type} is not known`);
  return decoder(value);
}
