// What every attack in Node has at hand; this text goes in front of each program into its jail. See prelude.py.
const fs = require("fs");
const path = require("path");
const { spawnSync } = require("child_process");

const GIVEN = JSON.parse(process.env.ATTACK_GIVEN || "{}");
const say = (what, value) => fs.writeSync(1, `${what}: ${value}\n`);
const refusal = error => error.errno && error.code || error.code || error.cause?.code || error.name;

function attempt(what, call) {
  try {
    const result = call();
    say(what, "done");
    return result;
  } catch (error) {
    say(what, refusal(error));
    return undefined;
  }
}

async function attemptLater(what, promise) {
  await Promise.resolve(promise).then(() => say(what, "done"), error => say(what, refusal(error)));
}

// A program of the jail: its exit code, or the error of starting it.
function run(what, file, ...args) {
  const done = spawnSync(file, args, { encoding: "utf8" });
  say(what, done.error ? refusal(done.error) : done.signal || done.status);
  return done;
}

// An executable file that makes one system call (x86_64) with numbers as arguments and exits with its errno.
function executable(number, ...args) {
  const code = [];
  const registers = [[0x48, 0xbf], [0x48, 0xbe], [0x48, 0xba], [0x49, 0xba], [0x49, 0xb8], [0x49, 0xb9]]; // rdi rsi rdx r10 r8 r9
  const load = (opcode, value) => {
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64LE(BigInt.asUintN(64, BigInt(value)));
    code.push(...opcode, ...bytes);
  };
  registers.forEach((register, index) => load(register, args[index] ?? 0));
  load([0x48, 0xb8], number); // rax
  code.push(0x0f, 0x05, 0xf7, 0xd8, 0x89, 0xc7); // syscall; neg eax; mov edi, eax
  load([0x48, 0xb8], 60);
  code.push(0x0f, 0x05); // exit
  const file = Buffer.alloc(120 + code.length);
  file.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]);
  const fields = [[16, 2, 2], [18, 62, 2], [20, 1, 4], [24, 0x400078, 8], [32, 64, 8], [52, 64, 2], [54, 56, 2], [56, 1, 2],
    [64, 1, 4], [68, 5, 4], [80, 0x400000, 8], [88, 0x400000, 8], [96, file.length, 8], [104, file.length, 8], [112, 4096, 8]];
  for (const [offset, value, size] of fields) {
    if (size === 8) file.writeBigUInt64LE(BigInt(value), offset);
    else file.writeUIntLE(value, offset, size);
  }
  file.set(code, 120);
  const place = path.join(process.cwd(), `call-${number}`);
  fs.writeFileSync(place, file, { mode: 0o755 });
  return place;
}

// As an attacker would search: the text is told backwards, so that it is not found in the searching program itself.
const forwards = text => text.split("").reverse().join("");
