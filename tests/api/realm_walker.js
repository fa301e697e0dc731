// A source of POST /run-code that looks for what is not of its realm. It replaces every method, accessor and constructor that it
// can reach by one that looks at whatever is handed to it, puts accessors where objects without a property would find them, and
// then uses all that there is, also where the stack ends. Its result: where something was found, and what.
//
// globals: `f` a function of the caller's, `g` one that fails, `give` and `bytes` ones that answer with values, `mode`.
import * as given from 'pkg'
import meta from './meta'
import {handed} from './thenable'

// Its own copies: what is patched below is not what it works with.
const {apply, construct, ownKeys, defineProperty, getOwnPropertyDescriptor, getPrototypeOf, setPrototypeOf} = Reflect
const {prototype: root, isFrozen} = Object
const callable = Function.prototype
const has = WeakSet.prototype.has, add = WeakSet.prototype.add, text = String

const found = [], told = new Set(), isTold = Set.prototype.has, toldNow = Set.prototype.add
// Of the outer realm, or of V8's own that leads to functions: where there is one, it is told.
const SUSPICIOUS = new Set(['mainModule', 'reallyExit', 'readFileSync', 'internalBinding', 'allocUnsafe', 'getFunction', 'getThis', 'setUncaughtExceptionCaptureCallback'])
let phase = 'before', active = false
const tell = (what) => {
  if (!apply(isTold, told, [what])) keep(found, what)
  apply(toldNow, told, [what])
}
const isObject = (thing) => (typeof thing === 'object' && thing !== null) || typeof thing === 'function'

// ---- Is it from elsewhere? ----

function isOurs(thing) {
  let top = thing, isCallable = false
  for (let next = thing; next !== null; next = getPrototypeOf(next)) {
    isCallable ||= next === callable
    top = next
  }
  return (top === root || getPrototypeOf(thing) === null) && (typeof thing !== 'function' || isCallable)
}

// V8 itself makes some things of the outer realm, where the stack ends in there: errors, with accessors of their own in Node 22 and
// newer. From these is a way to what is frozen and has nothing of Node behind it.
const PLAIN = new Set(['', 'apply', 'bind', 'call', 'toString', '[Symbol.hasInstance]', '__defineGetter__', '__defineSetter__', 'hasOwnProperty', '__lookupGetter__', '__lookupSetter__',
                       'isPrototypeOf', 'propertyIsEnumerable', 'valueOf', 'toLocaleString', 'get __proto__', 'set __proto__', 'get stack', 'set stack', 'get arguments', 'get caller'])
const sourceOf = Function.prototype.toString, ends = String.prototype.endsWith
const known = new WeakSet()
function isPlainError(thing, keys) {
  for (let i = 0; i < keys.length; i++) if (keys[i] !== 'stack' && keys[i] !== 'message') return false
  return keys.length === 2
}
function isDeadEnd(thing) {
  if (!isObject(thing) || apply(has, known, [thing]) || isOurs(thing)) return true
  apply(add, known, [thing])
  const isFunction = typeof thing === 'function', name = isFunction ? getOwnPropertyDescriptor(thing, 'name') : undefined
  if (isFunction && (!apply(ends, apply(sourceOf, thing, []), ['{ [native code] }']) || !name || !apply(isTold, PLAIN, [name.value]))) return false
  const keys = ownKeys(thing)
  if (!isFunction && !isFrozen(thing) && !isPlainError(thing, keys)) return false
  for (let i = 0; i < keys.length; i++) {
    const own = getOwnPropertyDescriptor(thing, keys[i])
    setPrototypeOf(own, null)
    if (!isDeadEnd(own.value) || !isDeadEnd(own.get) || !isDeadEnd(own.set)) return false
  }
  return isDeadEnd(getPrototypeOf(thing))
}

const seen = new WeakSet()
function visit(thing, path, depth) {
  if (!isObject(thing) || depth > 6 || apply(has, seen, [thing])) return
  apply(add, seen, [thing])
  if (!isOurs(thing)) {
    tell(isDeadEnd(thing) ? `dead end: ${path}` : `foreign: ${path}`)
    return
  }
  visit(getPrototypeOf(thing), `${path}.__proto__`, depth + 1)
  const keys = ownKeys(thing)
  for (let i = 0; i < keys.length; i++) {
    const own = getOwnPropertyDescriptor(thing, keys[i])
    if (own === undefined) continue
    if (apply(isTold, SUSPICIOUS, [keys[i]])) tell(`${text(keys[i])} of ${path}`)
    setPrototypeOf(own, null)
    visit(own.value, `${path}.${text(keys[i])}`, depth + 1)
    visit(own.get, `${path}.get ${text(keys[i])}`, depth + 1)
    visit(own.set, `${path}.set ${text(keys[i])}`, depth + 1)
  }
}

// Where the stack ends is no room to look: that is done when it is over.
const later = []
const keep = (list, value) => { if (list.length < 20000) defineProperty(list, list.length, {__proto__: null, value, writable: true, enumerable: true, configurable: true}) }
function look(thing, where) {
  if (isObject(thing)) keep(later, {__proto__: null, thing, where})
}
function lookAtAll() {
  const before = active
  active = false
  for (let i = 0; i < later.length; i++) {
    try { visit(later[i].thing, `${phase}: ${later[i].where}`, 0) } catch (error) { tell(`${phase}: ${later[i].where}: cannot be looked at`) }
  }
  later.length = 0
  active = before
}
function note(where, self, args) {
  if (!active) return
  look(self, `this of ${where}`)
  for (let i = 0; i < args.length; i++) look(args[i], `argument ${i} of ${where}`)
}

// ---- What is replaced ----

function replaced(old, where) {
  const wrapper = function (...args) {
    note(where, this, args)
    if (new.target !== undefined) look(new.target, `new.target of ${where}`)
    return new.target === undefined ? apply(old, this, args) : construct(old, args, new.target === wrapper ? old : new.target)
  }
  setPrototypeOf(wrapper, old)
  const prototype = getOwnPropertyDescriptor(old, 'prototype')
  if (prototype) defineProperty(wrapper, 'prototype', {__proto__: null, value: prototype.value})
  apply(add, mine, [wrapper])
  return wrapper
}
const mine = new WeakSet()

function patch(object, path) {
  const keys = ownKeys(object)
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i], where = `${path}.${text(key)}`, own = getOwnPropertyDescriptor(object, key)
    setPrototypeOf(own, null)
    if (key === 'constructor' && path === 'Object.prototype') continue
    if (typeof own.value === 'function' && (own.writable || own.configurable) && !apply(has, mine, [own.value])) {
      own.value = replaced(own.value, where)
    } else if (own.configurable && (own.get || own.set)) {
      if (own.get) own.get = replaced(own.get, `get ${where}`)
      if (own.set) own.set = replaced(own.set, `set ${where}`)
    } else {
      continue
    }
    try { defineProperty(object, key, own) } catch {}
  }
}

// Everything that can be reached, with its names.
function collect(things) {
  const all = [], places = new WeakSet()
  const go = (thing, path, depth) => {
    if (!isObject(thing) || apply(has, places, [thing]) || depth > 5) return
    apply(add, places, [thing])
    keep(all, [thing, path])
    const keys = ownKeys(thing)
    for (let i = 0; i < keys.length; i++) {
      const own = getOwnPropertyDescriptor(thing, keys[i])
      setPrototypeOf(own, null)
      const name = path === '' ? text(keys[i]) : `${path}.${text(keys[i])}`
      go(own.value, name, depth + 1)
      go(own.get, name, depth + 1)
    }
    go(getPrototypeOf(thing), `${path}.__proto__`, depth + 1)
  }
  go(things, '', 0)
  return all
}

function* generator() {}
async function* asyncGenerator() {}
const HIDDEN = {generator, asyncGenerator, async: async () => 0, array: [].values(), map: new Map().entries(), set: new Set().keys(), string: ''[Symbol.iterator](),
                matches: 'x'.matchAll(/x/g), made: generator(), later: asyncGenerator(), f, console, report, given, meta: import.meta, 
                segments: typeof Intl === 'object' && Intl.Segmenter ? new Intl.Segmenter().segment('x') : undefined}

const NAMES = ['value', 'get', 'set', 'writable', 'enumerable', 'configurable', 'then', 'toJSON', 'name', 'message', 'stack', 'cause', 'code', 'specifier', 'filename', 'line', 'column',
               'text', 'limit', 'above', 'depth', 'resolve', 'reject', 'id', 'level', 'url', 'context', 'status', 'error', 'type', 'assert', 'domain', 'timeout', 'breakOnSigint', 'identifier',
               'importModuleDynamically', 'initializeImportMeta', 'encoding', 'input', 'env', 'stdio', 'shell', 'output', 'cwd', 'argv0', 'uid', 'signal', 'cachedData', 'lineOffset', 'with',
               'default', 'prepareStackTrace', 'stackTraceLimit', 'captureStackTrace', 'transfer', 'errors', 'done', 'next', 'return', 'throw', 'raw', 'groups', 'index', 'lastIndex', 'size',
               'description', 'attributes', 'phase', 'source', 'flags', '0', '1', '2', '3']

const MODES = {
  methods() { for (const [object, path] of collect({globalThis, ...HIDDEN})) patch(object, path) },
  // Where an object has no such property of its own.
  members() {
    for (const name of NAMES) {
      defineProperty(root, name, {
        __proto__: null, configurable: true,
        get() { note(`get ${name}`, this, []); return undefined },
        set(value) {
          note(`set ${name}`, this, [value])
          try { defineProperty(this, name, {__proto__: null, value, writable: true, enumerable: true, configurable: true}) } catch {}
        },
      })
    }
  },
  symbols() {
    const kinds = {hasInstance: false, species: true, toPrimitive: false, iterator: false, isConcatSpreadable: true, toStringTag: true, unscopables: true, match: true, asyncIterator: false}
    for (const [object, path] of collect({globalThis, ...HIDDEN})) {
      for (const name of Object.keys(kinds)) {
        const where = `${path}[${name}]`, old = object[Symbol[name]]
        if (name === 'iterator' && typeof old !== 'function') continue
        const value = name === 'hasInstance' ? function (thing) { note(where, this, [thing]); return apply(callable[Symbol.hasInstance], this, [thing]) || mode === 'symbols, all instances' }
          : name === 'iterator' ? function () { note(where, this, []); return apply(old, this, []) }
          : function (...args) { note(where, this, args); return name === 'toPrimitive' ? 'x' : undefined }
        try {
          defineProperty(object, Symbol[name], kinds[name] ? {__proto__: null, configurable: true, get() { note(where, this, []); return typeof old === 'function' || name !== 'species' ? old : this } }
                                                           : {__proto__: null, configurable: true, writable: true, value})
        } catch {}
      }
    }
  },
  nothing() {},
}

// ---- What is used ----

const waiting = []
const wait = (promise) => {
  look(promise, 'a promise')
  keep(waiting, promise)
}
const importer = (name) => () => wait(import(name))
let fresh = 0
const USES = {
  'a call': () => wait(f(1, [2], {a: new Map([[1, new Date(0)]])})),
  'a call that fails': () => wait(g()),
  'bytes given': () => wait(bytes()),
  'bytes passed': () => wait(f(new Uint8Array([1, 2]), new ArrayBuffer(2), new DataView(new ArrayBuffer(4), 1))),
  'an answer of every kind': () => wait(give()),
  'a value that cannot cross': () => wait(f(() => 0)),
  'console': () => { console.log('a', {b: [1n]}, new Error('x'), () => 0, Symbol('s'), new (class A {})(), /x/, new Uint8Array(2)); console.assert(false, 1); console.groupEnd() },
  'report': () => wait(report({a: 1})),
  'structuredClone': () => { look(structuredClone({a: new Map([[1, new Set([2])]]), b: new Date(), c: /x/g, d: new Error('x'), e: new Uint16Array(2), f: Object(1), g: new DataView(new ArrayBuffer(2))}), 'a clone') },
  'structuredClone that fails': () => { try { structuredClone(() => 0) } catch (error) { look(error, 'caught') } },
  'queueMicrotask': () => queueMicrotask(function () { look(this, 'this of a microtask') }),
  'a stack': () => { const error = new Error('x'); look(error.stack, 'a stack'); error.name = {toString() { look(this, 'a name'); return 'x' }}; return text(error.stack) },
  'a new stack': () => { const error = new TypeError('x'); look(error, 'an error'); text(error.stack); try { null.x } catch (other) { text(other.stack); look(other, 'caught') } },
  'import': importer('./a'),
  'import of a package': importer('pkg'),
  'import of what is not there': importer('nope'),
  'import of a file that is not there': importer('./nope'),
  'import of a URL': importer('node:fs'),
  'import of a broken module': importer('./broken'),
  'import of what does not link': importer('./unlinked'),
  'import of a missing name': importer('./nameless'),
  'import of what throws': importer('./throws'),
  'import that waits': importer('./waits'),
  'import of what can be waited for': importer('./thenable'),
  'import of the entry': importer('./<runCode>'),
  'two imports at once': () => { const name = `./fresh${fresh++ % 40}`; wait(import(name)); wait(import(name)) },
  'imports of a whole and its part at once': () => { wait(import('./whole')); wait(import('./part')) },
  'import with attributes': () => wait(import('./a', {with: {type: 'json'}, assert: {type: 'json'}})),
  'import of an object': () => wait(import({toString() { look(this, 'a specifier'); return './a' }})),
  'import of a symbol': () => wait(import(Symbol('x'))),
  'import.meta': () => { look(import.meta, 'import.meta'); look(meta(), 'another import.meta') },
  'import.meta for the first time': () => wait(import(`./meta${fresh++ % 40}`).then((module) => module.default())),
  'a rejection that nobody handles': () => { Promise.reject(new Error('x')) },
  'a rejection that is handled late': () => { const promise = Promise.reject(new Error('y')); queueMicrotask(() => promise.catch(() => 0)) },
  'a promise that is resolved twice': () => { new Promise((resolve, reject) => { resolve(1); resolve(2); reject(3) }) },
  'a registry': () => { new FinalizationRegistry(() => 0).register({}, 1); look(new WeakRef({}).deref(), 'a reference') },
  'own code': () => { for (const make of [(() => 0).constructor, generator.constructor, (async () => 0).constructor, asyncGenerator.constructor]) try { look(make('return this'), 'code made') } catch (error) { look(error, 'caught') } },
  'eval': () => { try { look((0, eval)('this'), 'evaluated') } catch (error) { look(error, 'caught') } },
}

// Down to where the stack ends, and up again: at each depth there is a little more room for what is used.
function fromTheEnd(body, steps) {
  let left = steps
  const dive = (a, b, c) => {
    try { dive(a, b, c) } catch (error) { if (left === steps) look(error, 'the end of the stack') }
    if (left > 0) {
      left--
      try { body() } catch (error) { look(error, `caught`) }
    }
  }
  try { dive(1, 2, 3) } catch (error) { look(error, 'caught') }
}

async function settleAll() {
  for (let i = 0; i < waiting.length; i++) {
    try { look(await waiting[i], 'a value') } catch (error) { look(error, 'a rejection') }
  }
  waiting.length = 0
  lookAtAll()
}

export default async () => {
  handed.look = (...things) => { for (let i = 0; i < things.length; i++) look(things[i], 'handed to a module') }
  MODES[mode.split(',')[0]]()
  if (mode === 'methods' && !apply(has, mine, [[].push])) tell('nothing could be replaced')
  active = true
  const uses = ownKeys(USES)
  for (let i = 0; i < uses.length; i++) {
    phase = uses[i]
    try { USES[phase]() } catch (error) { look(error, 'caught') }
    await settleAll()
  }
  for (let i = 0; i < uses.length; i++) {
    phase = `${uses[i]}, where the stack ends`
    fromTheEnd(USES[uses[i]], 700)
    await settleAll()
  }
  active = false
  return found
}
