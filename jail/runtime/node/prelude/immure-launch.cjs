// Runs a job's program in Node. Its arguments are the script's path and the program's own; or `--standby` in a process that
// is started ahead of its job: that one waits in here, and script and arguments come over a descriptor (jail/standby.h). The
// script immure-kernel.cjs is not a program: it runs many.
//
// The program is called /workspace/main.js wherever its script lies: it requires and imports what is in the working directory
// and in node_modules there. It is CommonJS if it compiles as that. With top-level await it is the same in an async function.
// With import or export it is an ES module, which has `require` too.
'use strict';

const Module = require('node:module');
const fs = require('node:fs');
const path = require('node:path');
const url = require('node:url');
const vm = require('node:vm');

const KERNEL = path.join(__dirname, 'immure-kernel.cjs');
const STANDBY_FD = 63;
const UNSETTLED = 13; // Node's own exit code where a top-level await never ends
const NAMES = ['exports', 'require', 'module', '__filename', '__dirname'];
const OWN_FRAMES = /(\n    at [^\n]*\(node:[^\n]*)*\n    at [^\n]*\/immure-launch\.cjs:[^]*/;
const HEAD = `(async function (${NAMES.join(', ')}) { `;

// What compiling anything but CommonJS as CommonJS fails with.
const NOT_COMMONJS = [
    'Cannot use import statement outside a module',
    "Unexpected token 'export'",
    "Cannot use 'import.meta' outside a module",
    'await is only valid in async functions and the top level bodies of modules',
    'Unexpected identifier', // "await fetch()"
    'Unexpected reserved word',
    'missing ) after argument list', // "f(await g())"
    'Unexpected token',
];

// ---- Before the job ----

// What programs usually want is read beforehand; what reaches for stdin, stdout or the bridge is left alone.
const COMMON = ['assert', 'async_hooks', 'buffer', 'child_process', 'crypto', 'events', 'fs/promises', 'http', 'https', 'net',
                'os', 'perf_hooks', 'process', 'querystring', 'readline', 'stream', 'stream/promises', 'string_decoder',
                'timers/promises', 'tty', 'util', 'worker_threads', 'zlib'];

function rehearse() {
    COMMON.forEach((name) => require(`node:${name}`));
    const run = vm.compileFunction('return [JSON.stringify(JSON.parse(text)), new Map([[1, new Date(0)]])]', ['text']);
    require('node:util').inspect(run('{"a": [1, null, "b"]}'), {colors: true});
    [globalThis.fetch, globalThis.Blob, globalThis.structuredClone, globalThis.crypto, globalThis.performance].forEach(() => 0);
    rehearseProgram();
}

// From the program's arrival to its end, with one that does nothing, in a place where no other lies.
function rehearseProgram() {
    const fd = fs.openSync(__filename);
    fs.readFileSync(fd);
    fs.closeSync(fd);
    const {source, args} = parseJob(Buffer.from("2\0a\0b\0'use strict'; module.exports = 1;"));
    const filename = path.join(process.cwd(), 'main.js'), {mainModule, argv} = process;
    process.argv = [argv[0], filename, ...args];
    new Program(source, filename).run();
    delete Module._cache[filename];
    Object.assign(process, {mainModule, argv});
    require('./immure-prelude.cjs').rehearse();
    process.rawListeners('exit');
    endAtOnce(1); // an error's code: it returns
}

// This process stands still in here until it has its job: PID 1 answers inotify_init1, which the policy denies, only once it
// has put the job's own pipes in the place of ours.
function wait() {
    let code;
    try {
        fs.watch('/').close();
    } catch (error) {
        code = error.code;
    }
    if (code !== 'EPERM') {
        process.reallyExit(70); // nobody noticed: this is no jail that waits
    }
    const data = fs.readFileSync(STANDBY_FD);
    fs.closeSync(STANDBY_FD);
    return parseJob(data);
}

// How many arguments, each of them, and the source (jail/standby.h).
function parseJob(data) {
    const texts = [];
    let at = 0;
    for (let left = 1; left > 0; left--) {
        const end = data.indexOf(0, at);
        texts.push(data.toString('utf8', at, end));
        at = end + 1;
        left += texts.length === 1 ? Number(texts[0]) : 0;
    }
    return {source: data.toString('utf8', at), args: texts.slice(1)};
}

// ---- The program ----

// What is printed to a pipe is written by the time that print returns: process.exit() would otherwise lose it.
function writeAtOnce(name) {
    const property = Object.getOwnPropertyDescriptor(process, name);
    let stream;
    Object.defineProperty(process, name, {...property, get() {
        if (!stream) {
            stream = property.get.call(process);
            stream._handle?.setBlocking?.(true);
        }
        return stream;
    }});
}

// Node's warning of an experiment is not the program's affair.
function quietly(make) {
    const {emitWarning} = process;
    process.emitWarning = () => {};
    try {
        return make();
    } finally {
        process.emitWarning = emitWarning;
    }
}

// Once all that listens for the exit has been called, nothing of the program runs any more: taking V8 apart would only take time.
// Not where it ends with an error, which Node prints after that.
function endAtOnce(code) {
    if (code !== 0) {
        return;
    }
    const listeners = process.rawListeners('exit');
    for (const listener of listeners.slice(listeners.indexOf(endAtOnce) + 1)) {
        listener.call(process, code);
    }
    process.reallyExit(process.exitCode ?? code);
}

function compiles(compile) {
    try {
        return compile();
    } catch (error) {
        if (error instanceof SyntaxError && NOT_COMMONJS.some((text) => error.message.startsWith(text))) {
            return null;
        }
        throw error;
    }
}

// The exit code of a program that waits for what never comes is not 0.
async function settle(body) {
    let settled = false, drained = false;
    process.once('beforeExit', () => { drained = true; });
    process.once('exit', () => {
        if (!settled && drained && process.exitCode === undefined) {
            fs.writeSync(2, 'Warning: Detected unsettled top-level await\n');
            process.exitCode = UNSETTLED;
        }
    });
    try {
        await body();
    } finally {
        settled = true;
    }
}

class Program {
    // `results`: of a program whose values are shown (immure-results.cjs)
    constructor(source, filename, results) {
        this.source = source;
        this.results = results;
        this.filename = filename;
        const main = this.main = new Module(filename, null);
        main.id = '.';
        main.filename = filename;
        main.paths = Module._nodeModulePaths(path.dirname(filename));
        process.mainModule = main;
        Module._cache[filename] = main;
        // Compiled under the program's name, so this import is the program's.
        const helper = new Module(filename, null);
        helper.filename = filename;
        helper.paths = main.paths;
        helper._compile('module.exports = {load: (name, how) => import(name, how), require};', filename);
        helper.exports.require.main = main;
        Object.assign(this, helper.exports);
    }

    import(name, attributes) {
        const any = attributes && Object.keys(attributes).length > 0;
        return this.load(name, any ? {with: attributes, assert: attributes} : undefined);
    }

    isCommonJS() {
        return compiles(() => vm.compileFunction(this.source, NAMES, {filename: this.filename})) !== null;
    }

    shown() {
        return this.results ? this.results.returnLast(this.source) : this.source;
    }

    runCommonJS() {
        const value = this.main._compile(this.shown(), this.filename);
        this.main.loaded = true;
        this.results?.showValue(value);
    }

    compileAsync() {
        return compiles(() => new vm.Script(`${HEAD}${this.shown()}\n})`, {
            filename: this.filename,
            columnOffset: -HEAD.length,
            importModuleDynamically: (name, script, attributes) => this.import(name, attributes),
        }));
    }

    runAsync(script) {
        const {main, filename} = this;
        return settle(async () => {
            const value = await script.runInThisContext().call(main.exports, main.exports, this.require, main, filename,
                                                               path.dirname(filename));
            this.results?.showValue(value);
        });
    }

    // What an import statement finds is Node's own module; its names are handed on.
    async link(name, attributes) {
        const found = await this.import(name, attributes), names = Object.keys(found);
        return quietly(() => new vm.SyntheticModule(names, function () {
            names.forEach((key) => this.setExport(key, found[key]));
        }));
    }

    initializeMeta(meta) {
        const here = url.pathToFileURL(this.filename).href;
        meta.dirname = path.dirname(this.filename);
        meta.filename = this.filename;
        meta.resolve = (name) => {
            if (/^(\.{0,2}\/|[a-z][a-z0-9+.-]*:)/i.test(name)) {
                return new URL(name, here).href;
            }
            return Module.isBuiltin(name) ? `node:${name}` : url.pathToFileURL(this.require.resolve(name)).href;
        };
        meta.url = here;
    }

    runModule() {
        Object.defineProperty(globalThis, 'require', {value: this.require, writable: true, configurable: true});
        const module = quietly(() => new vm.SourceTextModule(this.source, {
            identifier: url.pathToFileURL(this.filename).href,
            initializeImportMeta: (meta) => this.initializeMeta(meta),
            importModuleDynamically: (name, script, attributes) => this.import(name, attributes),
        }));
        let last = Promise.resolve();
        return settle(async () => {
            // One after the other, in the order of the program.
            await module.link((name, referrer, extra) => last = last.then(
                () => this.link(name, extra.attributes ?? extra.assert)));
            await module.evaluate();
        });
    }

    run() {
        if (this.isCommonJS()) {
            this.runCommonJS();
            return;
        }
        const script = this.compileAsync();
        if (script) {
            this.runAsync(script);
        } else {
            this.runModule();
        }
    }
}

// -> what shows the values of a program whose results are wanted
function prepareResults() {
    if (!process.env.IMMURE_RESULTS) {
        return undefined;
    }
    delete process.env.IMMURE_RESULTS;
    const results = require('./immure-results.cjs')(require('./immure-prelude.cjs'));
    process.on('uncaughtExceptionMonitor', (error) => results.showError(error, OWN_FRAMES));
    return results;
}

function start() {
    let [, , script, ...args] = process.argv, source;
    ['stdout', 'stderr'].forEach(writeAtOnce);
    require('./immure-prelude.cjs');
    process.on('exit', endAtOnce);
    quietly(() => new vm.SourceTextModule('')); // warns once
    process.execArgv = []; // ours are nothing for processes that the program starts
    if (script === KERNEL) {
        require(KERNEL)({Program, parseJob});
        return;
    }
    if (script === '--standby') {
        quietly(rehearse);
        ({source, args} = wait());
    } else {
        source = fs.readFileSync(script, 'utf8');
    }
    const filename = path.join(process.cwd(), 'main.js');
    process.argv = [process.argv[0], filename, ...args];
    new Program(source, filename, prepareResults()).run();
}

start();
