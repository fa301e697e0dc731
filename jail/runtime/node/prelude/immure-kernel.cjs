// Runs the calls of a session whose Node lives on (`state: KERNEL` in a policy), one after another, as scripts in the same
// context. Between two calls the main thread stands still in a system call that PID 1 does not answer (jail/standby.h), and the
// event loop with it.
//
// A call is over when its script has ended, and the promise, if that is its value; then the loop turns once more, for what was
// due. SIGINT ends a script wherever it is, and whatever else of the below runs inside WATCHED, as if it never returned: nothing
// there leaves half done what a later call needs. Outside of that it is asked for. The program owns this interpreter: nothing here
// protects the server from it, only an honest program from its own accidents.
'use strict';

const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const {Writable} = require('node:stream');
const util = require('node:util');
const vm = require('node:vm');
const prelude = require('./immure-prelude.cjs');
const results = findResults();

const STANDBY_FD = 63; // stays open, so that no file of the program's gets this number
const STDOUT = 1, STDERR = 2;
const FAILED = 1, UNSETTLED = 13, UNNOTICED = 70, INTERRUPTED = 130;
const ASK_INTERVAL_MS = 20, ARRIVAL_MS = 200;
const ENTRY = Symbol.for('immure.kernel');
const WATCHED = new vm.Script(`globalThis[Symbol.for('immure.kernel')]()`);
const OWN_FRAMES = /(\n    at [^\n]*\(node:vm:[^\n]*)*\n    at [^\n]*\/immure-kernel\.cjs:[^\n]*(\n    at [^\n]*)*/;

// Captured: a program may put something of its own there.
const {watch, writeSync, readFileSync} = fs;
const {then} = Promise.prototype;
const nextTurn = setImmediate, every = setInterval, stop = clearInterval;
const filename = path.join(process.cwd(), 'main.js');
// What REPLs have against ^C. Started once and for all, it leaves no moment in which SIGINT would end the process.
const {startSigintWatchdog, stopSigintWatchdog} = process.binding('contextify');
const moment = new Int32Array(new SharedArrayBuffer(4));

let program, parseJob; // the launcher's
let number = 0;
let call = null; // the one that runs; null: none has begun since the last one's end was told
let isInterrupted = false; // it, or the one that has ended, has been; not more than once
let isTaking = false;

// A runtime may be without.
function findResults() {
    const file = path.join(__dirname, 'immure-results.cjs');
    return fs.existsSync(file) ? require(file)(prelude) : null;
}

class Call {
    status = 0;
    ended = false;
    value = undefined;
    thrown = null; // [what its script has thrown]
    stdin = null;
}

// ---- Its input and output ----

function writeAll(fd, data) {
    for (let rest = data; rest.length > 0;) {
        try {
            rest = rest.subarray(writeSync(fd, rest));
        } catch (error) {
            if (error.code !== 'EAGAIN') {
                return; // nobody reads it
            }
            Atomics.wait(moment, 0, 0, 1); // a process of the program's has made its pipe non-blocking
        }
    }
}

// Written by the time that it returns, and with no state that an interrupt could leave half changed. It has no end: the next
// call's begins where this one's does.
class Output extends Writable {
    constructor(fd) {
        super({decodeStrings: false});
        Object.assign(this, {fd, _type: 'pipe'});
    }

    write(chunk, encoding, callback) {
        const done = typeof encoding === 'function' ? encoding : callback;
        writeAll(this.fd, typeof chunk === 'string' ? Buffer.from(chunk, done === encoding ? 'utf8' : encoding) : chunk);
        if (typeof done === 'function') {
            process.nextTick(done);
        }
        return true;
    }

    end(...args) {
        const callback = typeof args.at(-1) === 'function' ? args.pop() : undefined;
        if (args.length > 0 && args[0] !== null && args[0] !== undefined) {
            this.write(...args);
        }
        if (callback) {
            process.nextTick(callback);
        }
        return this;
    }

    destroy() {
        return this;
    }
}

function openInput() {
    if (call.stdin === null) {
        call.stdin = new net.Socket({fd: 0, readable: true, writable: false, manualStart: true});
        call.stdin.fd = 0;
    }
    return call.stdin;
}

function defineStreams() {
    for (const [name, fd] of [['stdout', STDOUT], ['stderr', STDERR]]) {
        const stream = new Output(fd);
        Object.defineProperty(process, name, {configurable: true, enumerable: true, get: () => stream});
    }
    Object.defineProperty(process, 'stdin', {configurable: true, enumerable: true, get: openInput});
}

function show(error) {
    let text;
    try {
        const isError = util.types.isNativeError(error);
        text = `${isError ? '' : 'Uncaught '}${util.inspect(error)}`.replace(OWN_FRAMES, '');
    } catch {
        text = 'Uncaught error, which cannot be shown';
    }
    writeAll(STDERR, Buffer.from(`${text}\n`));
}

// ---- Its end ----

function end(ended, status = 0) {
    ended.status ||= status;
    if (!ended.ended) {
        ended.ended = true;
        prelude.endCall(); // here, so that whoever has not waited for a tool hears of it in this call
        nextTurn(next);
    }
}

// Whoever's error it is, of this call or left behind by an earlier one.
function fail(error) {
    results?.showError(error, OWN_FRAMES);
    show(error);
    end(call, FAILED);
}

function onUncaught(error) {
    if (process.listenerCount('uncaughtException') === 1) { // else the program sees to them itself
        fail(error);
    }
}

function raise(error) {
    try {
        if (!process.emit('uncaughtException', error, 'uncaughtException')) {
            fail(error);
        }
    } catch (another) {
        fail(another);
    }
}

function finish(begun, value) {
    if (!begun.ended && value !== undefined) {
        results?.show('execute_result', value);
    }
    end(begun);
}

// Whether SIGINT has come while nothing was WATCHED.
function wasInterrupted() {
    startSigintWatchdog();
    const has = stopSigintWatchdog();
    isInterrupted ||= has;
    return has;
}

function interrupt() {
    isInterrupted = true;
    if (!call.ended) {
        writeAll(STDERR, Buffer.from('Interrupted\n'));
        end(call, INTERRUPTED);
    }
}

// The call that has ended was interrupted, perhaps just now: not the next one shall hear of it.
function takeInterrupt() {
    isTaking = true;
    if (!isInterrupted && !wasInterrupted()) {
        Atomics.wait(moment, 0, 0, ARRIVAL_MS);
    }
    isTaking = false;
}

// Nothing is left that its promise could come from.
function onDrained() {
    if (!call.ended) {
        writeAll(STDERR, Buffer.from('Warning: Detected unsettled promise\n'));
        end(call, UNSETTLED);
    }
}

// What PID 1 finds in front of the program's file when it hears of the end: 0, which no program begins with, and the status.
function tellEnd() {
    const {status, stdin} = call;
    stdin?.destroy(); // before another's input has its descriptor
    prelude.leaveCall();
    try {
        writeSync(STANDBY_FD, Buffer.from([0, status || (process.exitCode ?? 0) & 0xff]), 0, 2, 0);
    } catch {
        process.reallyExit(UNNOTICED);
    }
    call = null;
}

// ---- From one call to the next ----

// Inside WATCHED.
function waitAndRun() {
    let code;
    try {
        watch('/').close(); // inotify_init1
    } catch (error) {
        code = error.code;
    }
    if (code === 'EINTR') {
        takeInterrupt();
        return;
    }
    if (code !== 'EPERM') {
        process.reallyExit(UNNOTICED); // this is no jail that waits
    }
    call = new Call();
    isInterrupted = false;
    number++;
    prelude.beginCall();
    results?.begin();
    const {source, args} = parseJob(readFileSync(STANDBY_FD));
    process.argv = [process.argv[0], filename, ...args];
    process.exitCode = undefined;
    try {
        const script = new vm.Script(source, {
            filename: `<call ${number}>`,
            importModuleDynamically: (name, from, attributes) => program.import(name, attributes),
        });
        call.value = script.runInThisContext();
    } catch (error) {
        call.thrown = [error];
    }
}

function next() {
    if (call) {
        tellEnd();
    }
    while (call === null) {
        try {
            WATCHED.runInThisContext({breakOnSigint: true});
        } catch {
            if (isTaking) {
                isTaking = false;
            } else {
                call ??= new Call(); // before its first line; or behind the last of one that has ended, which is told again
                interrupt();
            }
        }
    }
    const begun = call;
    if (begun.thrown && !begun.ended) {
        raise(begun.thrown[0]);
    }
    if (!util.types.isPromise(begun.value) || begun.ended) {
        finish(begun, begun.value);
        return;
    }
    Reflect.apply(then, begun.value, [(value) => finish(begun, value), (error) => {
        if (!begun.ended) {
            raise(error);
            end(begun); // with its own status, where the program has seen to the error
        }
    }]);
    const asking = every(() => {
        if (begun.ended) {
            stop(asking);
        } else if (wasInterrupted()) {
            interrupt();
        }
    }, ASK_INTERVAL_MS).unref();
}

// A program may listen to SIGINT as to any other event; the signal itself stays ours.
function keepInterrupt() {
    startSigintWatchdog();
    const [listen] = process.listeners('newListener').filter((listener) => listener.name === 'startListeningIfSignal');
    if (listen) {
        process.off('newListener', listen);
        process.on('newListener', (type) => type === 'SIGINT' || listen(type));
    }
}

module.exports = function serve(launcher) {
    program = new launcher.Program('', filename);
    parseJob = launcher.parseJob;
    const {main, require} = program;
    for (const [name, value] of Object.entries({exports: main.exports, require, module: main, __filename: filename,
                                                __dirname: path.dirname(filename)})) {
        Object.defineProperty(globalThis, name, {value, writable: true, configurable: true});
    }
    Object.defineProperty(globalThis, ENTRY, {value: waitAndRun});
    defineStreams();
    keepInterrupt();
    process.on('uncaughtException', onUncaught);
    process.on('beforeExit', onDrained);
    nextTurn(next);
};
