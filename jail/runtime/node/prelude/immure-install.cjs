// What is behind installPackage(): npm, as a process of the program's own jail, with the program's own limits. Loaded at the
// first call, and (by NODE_OPTIONS) in the processes of npm, which it leads to the package registry. npm comes from the host,
// which the policy shows read-only; what it installs goes into the workspace.
//
// The program could start npm by itself: what is refused here is refused so that a name cannot turn into something else (an
// option, a URL, a repository) unnoticed.
'use strict';

const fs = require('fs');
const net = require('net');
const path = require('path');

const RELAY = 'IMMURE_INDEX_RELAY';
const WINDOW_BYTES = 65536; // of a connection and direction, on their way (../../README.md)
const TAIL_BYTES = 65536; // of npm's output, in which the reason is looked for
const NAME_MAX = 512;
const NAME = /^(@[a-z0-9~-][a-z0-9._~-]*\/)?[a-z0-9~][a-z0-9._~-]*(@[A-Za-z0-9.^~<>=| *+-]+)?$/;

// Where the shipped policy shows the npm that comes with Node, and Debian's with the packages that it is made of; and where
// other builds of Node have it.
const PLACES = [
  '/usr/share/immure/npm',
  '/usr/share/immure/node_modules/npm',
  path.resolve(path.dirname(process.execPath), '../lib/node_modules/npm'),
];

// ---- In a process of npm's: whoever connects to a host and port is led to the relay. ----

function connectThrough(relay) {
  const tls = require('tls');
  const { connect } = net.Socket.prototype;
  net.Socket.prototype.connect = function (...args) {
    const normalized = Array.isArray(args[0]) ? args[0] : net._normalizeArgs(args);
    const [options, listener] = normalized;
    if (options.path) {
      return connect.apply(this, args);
    }
    connect.call(this, { path: relay }, ...(listener ? [listener] : []));
    this.write(`${options.host || 'localhost'} ${options.port}\n`);
    return this;
  };
  const secure = tls.connect;
  tls.connect = function (...args) {
    const [options, listener] = net._normalizeArgs(args);
    if (options.socket || options.path) {
      return secure.apply(this, args);
    }
    const socket = new net.Socket().connect({ host: options.host, port: options.port });
    return secure.call(this, { ...options, socket }, ...(listener ? [listener] : []));
  };
}

// ---- In the program's process: from the relay to the bridge ----

class Stream {
  constructor(relay, connection, host, port) {
    Object.assign(this, { relay, connection, credit: WINDOW_BYTES, waiting: [], ended: false });
    this.where = `${host}:${port}`;
    const members = `"op":"open","host":${JSON.stringify(host)},"port":${port}`;
    this.id = relay.bridge.openStream(members, this, (error) => {
      if (error) {
        this.fail(error.message);
      }
    });
    connection.on('data', (data) => this.send(data));
    connection.on('end', () => this.send(Buffer.alloc(0)));
    connection.on('error', () => {});
    connection.on('close', () => {
      if (relay.bridge.streams.delete(this.id)) {
        relay.bridge.post(Buffer.from(`{"op":"abort","id":${this.id}}`));
      }
    });
  }

  // What the program's end has granted goes out; the rest waits, and nothing more is read meanwhile.
  send(data) {
    this.waiting.push(data);
    while (this.waiting.length > 0 && (this.credit > 0 || this.waiting[0].length === 0)) {
      const [first] = this.waiting;
      const part = first.subarray(0, this.credit);
      this.credit -= part.length;
      if (part.length === first.length) {
        this.waiting.shift();
      } else {
        this.waiting[0] = first.subarray(part.length);
      }
      const head = Buffer.alloc(9, 1);
      head.writeBigUInt64BE(BigInt(this.id), 1);
      this.relay.bridge.post(Buffer.concat([head, part]));
    }
    this.connection[this.waiting.length > 0 ? 'pause' : 'resume']();
  }

  // A frame of the server's.
  take(kind, value) {
    if (kind === 'window') {
      this.credit += value.bytes;
      const waiting = this.waiting.splice(0);
      waiting.forEach((data) => this.send(data));
    } else if (kind === 'gone') {
      this.fail(value.error);
    } else if (value.length === 0) {
      this.connection.end();
    } else {
      const grant = Buffer.from(`{"op":"window","id":${this.id},"bytes":${value.length}}`);
      this.connection.write(value, (error) => error || this.relay.bridge.post(grant));
    }
  }

  fail(why) {
    this.relay.failures.push(`${this.where}: ${why}`);
    this.relay.bridge.streams.delete(this.id);
    this.connection.destroy();
  }
}

class Relay {
  constructor(bridge, directory) {
    Object.assign(this, { bridge, failures: [], connections: new Set() });
    this.path = path.join(directory, 'relay');
    this.server = net.createServer({ allowHalfOpen: true }, (connection) => this.accept(connection));
  }

  listen() {
    return new Promise((resolve, reject) => {
      this.server.once('error', reject);
      this.server.listen(this.path, resolve);
    });
  }

  // The first line says where to.
  accept(connection) {
    let head = Buffer.alloc(0);
    this.connections.add(connection);
    connection.on('error', () => {});
    connection.on('close', () => this.connections.delete(connection));
    const first = (data) => {
      head = Buffer.concat([head, data]);
      const end = head.indexOf('\n');
      if (end < 0 && head.length < 300) {
        return;
      }
      connection.off('data', first);
      const [, host, port] = /^(\S+) (\d+)$/.exec(head.toString('latin1', 0, Math.max(end, 0))) || [];
      if (!port) {
        connection.destroy();
        return;
      }
      const stream = new Stream(this, connection, host, Number(port));
      if (end + 1 < head.length) {
        stream.send(head.subarray(end + 1));
      }
    };
    connection.on('data', first);
  }

  close() {
    this.server.close();
    this.connections.forEach((connection) => connection.destroy());
  }
}

// ---- npm ----

function checkPath(name) {
  const real = fs.realpathSync(path.resolve(name));
  const roots = [process.env.HOME, '/tmp'].map((root) => fs.realpathSync(root));
  if (!roots.some((root) => real === root || real.startsWith(`${root}/`))) {
    throw new Error('it lies neither in the working directory nor in /tmp');
  }
  const stat = fs.statSync(real);
  if (!(stat.isDirectory() && fs.existsSync(path.join(real, 'package.json'))) && !(stat.isFile() && /\.(tgz|tar\.gz)$/.test(name))) {
    throw new Error('it is no tarball, and no directory with a package.json');
  }
  return real;
}

function checkName(name) {
  if (typeof name !== 'string') {
    throw new TypeError(`installPackage: the name must be a string, not ${typeof name}`);
  }
  if (/^-|:/.test(name)) {
    throw new Error('options and URLs are not taken, only names and paths');
  }
  if (/^[./]|\.(tgz|tar\.gz)$/.test(name)) {
    return checkPath(name);
  }
  if (name.length > NAME_MAX || !NAME.test(name)) {
    throw new Error('that is no name of a package');
  }
  return name;
}

function findNpm() {
  const cli = PLACES.map((place) => path.join(place, 'bin/npm-cli.js')).find((file) => fs.existsSync(file));
  if (!cli) {
    throw new Error("this server has no npm (it comes with Node, or is Debian's package npm)");
  }
  return cli;
}

function reason(output, errors) {
  try {
    const { summary, code } = JSON.parse(output).error;
    const [line] = (summary || code).split('\n').filter((one) => one.trim());
    return line.trim();
  } catch {
    const lines = errors.split('\n').map((line) => line.replace(/^npm (ERR!|error)\s*/, '').trim()).filter(Boolean);
    return lines.find((line) => !/^code |complete log/.test(line)) || 'npm said nothing';
  }
}

function run(command, args, cwd, env) {
  return new Promise((resolve, reject) => {
    const child = require('child_process').spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    const texts = ['', ''];
    [child.stdout, child.stderr].forEach((stream, i) => {
      stream.setEncoding('utf8').on('data', (text) => { texts[i] = (texts[i] + text).slice(-TAIL_BYTES); });
    });
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, output: texts[0], errors: texts[1] }));
  });
}

// One at a time, of this program and of the session's others.
function locked(base, argv) {
  return fs.existsSync('/usr/bin/flock') ? ['/usr/bin/flock', path.join(base, '.lock'), ...argv] : argv;
}

function settings(directory) {
  const kept = ['HOME', 'LANG', 'PATH', 'TMPDIR'].filter((name) => process.env[name] !== undefined);
  const env = Object.fromEntries(kept.map((name) => [name, process.env[name]]));
  const npm = { cache: path.join(directory, 'cache'), userconfig: path.join(directory, 'none'),
                globalconfig: path.join(directory, 'none-either'), audit: 'false', fund: 'false', update_notifier: 'false',
                install_links: 'true', json: 'true', loglevel: 'error', progress: 'false', fetch_retries: '0' };
  for (const [name, value] of Object.entries(npm)) {
    env[`npm_config_${name}`] = value;
  }
  return { ...env, UV_USE_IO_URING: '0' };
}

async function npm(what, isName, connected) {
  const text = connected ? await connected.ask('installPackage', '"op":"index","installer":"npm"') : '';
  if (isName && !text) {
    throw new Error('this server has no package registry; tarballs and directories can be installed');
  }
  const cli = findNpm();
  const base = path.join(process.env.HOME, '.packages/node');
  fs.mkdirSync(base, { recursive: true });
  if (!fs.existsSync(path.join(base, 'package.json'))) {
    fs.writeFileSync(path.join(base, 'package.json'), '{"private": true}\n'); // npm works where it finds one
  }
  const directory = fs.mkdtempSync('/tmp/.immure-index-');
  const env = settings(directory);
  let relay = null;
  try {
    if (text) {
      const { url, ca } = JSON.parse(text);
      relay = new Relay(connected, directory);
      await relay.listen();
      Object.assign(env, { [RELAY]: relay.path, NODE_OPTIONS: `--require=${__filename}`, npm_config_registry: url });
      if (ca) {
        env.npm_config_cafile = path.join(directory, 'ca.pem');
        fs.writeFileSync(env.npm_config_cafile, ca);
      }
    } else {
      Object.assign(env, { npm_config_offline: 'true', npm_config_registry: 'http://registry.invalid/' });
    }
    const argv = [process.execPath, cli, 'install', '--', what];
    const [command, ...args] = locked(base, argv);
    const { code, output, errors } = await run(command, args, base, env);
    if (code !== 0) {
      const last = relay && relay.failures.length > 0 ? ` (${relay.failures.at(-1)})` : '';
      throw new Error(reason(output, errors) + last);
    }
  } finally {
    if (relay) {
      relay.close();
    }
    fs.rmSync(directory, { recursive: true, force: true });
  }
}

async function install(name, connect) {
  try {
    const what = checkName(name);
    let connected = null;
    try {
      connected = connect('installPackage');
    } catch {
      // `immure run`, another process or thread, a program that has closed it
    }
    await npm(what, what === name, connected);
  } catch (error) {
    throw error instanceof TypeError ? error : new Error(`npm install ${name} failed: ${error.message}`);
  }
}

if (process.env[RELAY]) {
  connectThrough(process.env[RELAY]);
}

module.exports = { install };
