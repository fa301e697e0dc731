// TypeScript to JavaScript, for immure-isolate.cjs: types erased, never checked. esbuild does it, in a process of its own in this
// jail; its source map leads positions in what runs back to what the author wrote.
'use strict';

const {Buffer} = require('node:buffer');
const childProcess = require('node:child_process');
const fs = require('node:fs');

const ESBUILD = '/usr/bin/esbuild';
const COMPILER = JSON.stringify({compilerOptions: {target: 'esnext', useDefineForClassFields: true}});
const ARGUMENTS = ['--loader=ts', '--target=esnext', '--sourcemap=inline', '--sources-content=false', '--log-level=error',
                   '--log-limit=1', '--color=false', '--charset=utf8', `--tsconfig-raw=${COMPILER}`];
const MAP_COMMENT = '//# sourceMappingURL=data:application/json;base64,';
const OUTPUT_BYTES_MAX = 64 * 1024 * 1024;
const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

class TransformError extends Error {
  #is;
  constructor(message, line, column) {
    super(message);
    Object.assign(this, {line, column});
  }
  static is(error) {
    return #is in error;
  }
}

const available = () => fs.existsSync(ESBUILD);

// Some JavaScript means something else in TypeScript (`f < a > (b)`), and imports of what turns out to be a type alone are to go.
// What has neither and compiles as JavaScript is the same in both.
const needsTransform = (source) => /<|\bimport\b/.test(source);

// The map's lines, each a list of [column, author's line, author's column], from 0.
function decodeMappings(text) {
  let line = 0, column = 0;
  return text.split(';').map((segments) => {
    let generated = 0;
    return segments.split(',').filter(Boolean).map((segment) => {
      const [byColumn, , byLine = 0, bySourceColumn = 0] = decodeNumbers(segment);
      generated += byColumn;
      line += byLine;
      column += bySourceColumn;
      return [generated, line, column];
    });
  });
}

function decodeNumbers(segment) {
  const numbers = [];
  let value = 0, shift = 0;
  for (const digit of segment) {
    const bits = DIGITS.indexOf(digit);
    value += (bits & 31) * 2 ** shift;
    shift += 5;
    if ((bits & 32) === 0) {
      numbers.push(value % 2 === 1 ? -Math.floor(value / 2) : value / 2);
      value = shift = 0;
    }
  }
  return numbers;
}

// From 1, as V8 counts; the author's.
function mapPosition(lines, line, column) {
  const found = lines[line - 1]?.filter(([generated]) => generated <= column - 1).pop();
  return found ? [found[1] + 1, found[2] + 1] : null;
}

// "✘ [ERROR] Unexpected ";"", then "    <stdin>:1:8:", columns from 0 and in bytes.
function readFailure(source, text) {
  const message = /\[ERROR\] (.*)/.exec(text)?.[1], place = /^ +<stdin>:(\d+):(\d+):$/m.exec(text);
  if (!message || !place) {
    return new TransformError(message ?? 'the TypeScript transformer failed');
  }
  const before = Buffer.from(source.split(/\r\n|[\n\r\u2028\u2029]/)[place[1] - 1] ?? '').subarray(0, Number(place[2]));
  return new TransformError(message, Number(place[1]), before.toString().length + 1);
}

// {code, map}: what runs, and a function from its positions to the author's. Throws a TransformError.
function transform(source) {
  const done = childProcess.spawnSync(ESBUILD, ARGUMENTS, {input: source, maxBuffer: OUTPUT_BYTES_MAX, env: {GOMAXPROCS: '1'}});
  if (done.error || done.status !== 0) {
    throw readFailure(source, done.stderr?.toString() ?? '');
  }
  const output = done.stdout.toString(), end = output.lastIndexOf(MAP_COMMENT);
  const {mappings} = JSON.parse(Buffer.from(output.slice(end + MAP_COMMENT.length), 'base64').toString());
  let lines;
  return {code: output.slice(0, end), map(line, column) {
    lines ??= decodeMappings(mappings);
    return mapPosition(lines, line, column);
  }};
}

module.exports = {available, needsTransform, transform, TransformError};
