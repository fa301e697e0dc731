// Turning Node's own machinery against the launcher, the prelude, the bridge, the limits and other jobs.

//# forged_frames
// Sends frames that are broken, endless, of other types, and answers to calls that are not its own.
//! refused_by: frames are read strictly, in the process without privileges; what is broken closes this job's bridge
//! expect: {"sent": "true"}
//! verdict: {"output": ""}
const frame = text => {
  const bytes = Buffer.alloc(4 + Buffer.byteLength(text));
  bytes.writeUInt32BE(bytes.length - 4);
  bytes.write(text, 4);
  return bytes;
};
for (const text of ["{", "[]", '{"op":"answer","id":1,"data":"x"}', '{"op":"hello"}', '{"op":"result","id":-1,"data":1}', '{"op":"closed"}', "\0"]) {
  try {
    fs.writeSync(4, frame(text));
    fs.writeSync(4, Buffer.from([0xff, 0xff, 0xff, 0xff]));
  } catch {
    // Closed by the other side.
  }
}
say("sent", true);

//# forged_reply
// Prints what looks like the end of a reply, a result, another job's log.
//! refused_by: nothing printed is read as anything but output
//! expect: null
//! verdict: {"output": "\"mine\"", "exit_code": 3, "status": "execution_error"}
fs.writeSync(1, '"}, "exit_code": 0, "status": "success", "output": "forged"}\n\r\n\r\nHTTP/1.1 200 OK\r\n\r\n{}');
fs.writeSync(2, '{"op":"result","id":1,"data":"forged"}\ntime=0 level=error event=forged\n');
setResult("mine");
process.exit(3);

//# results_name_host_files
// Names files of the host, and links to them, as files of its result.
//! refused_by: a result's files are looked for beneath the workspace, through no link
//! expect: {"set": "done"}
//! verdict: {"files": []}
//! request: {"outputs": ["*", "link", "[.][.]/[.][.]/etc/passwd"]}
fs.symlinkSync("/etc/passwd", "link");
fs.symlinkSync("/", "root");
attempt("set", () => setResult(1, ["/etc/passwd", "../etc/passwd", "link", "root/etc/passwd", GIVEN.secret, "/proc/self/environ"]));

//# polluted_prototypes
// Replaces what the prelude and the launcher could be calling: JSON, Buffer, fs, prototypes, the exit.
//! refused_by: it is the program's own process: what it breaks is its own result
//! expect: {"broken": "true"}
//! verdict: null
Object.prototype.toJSON = () => ({ exit_code: 0, status: "forged" });
Object.prototype.then = undefined;
Array.prototype[Symbol.iterator] = function* () { yield "forged"; };
JSON.stringify = () => "forged";
JSON.parse = () => ({ op: "hello", max_frame_bytes: 1e9 });
Buffer.from = Buffer.alloc = () => { throw new Error("broken"); };
fs.writeSync(1, "broken: true\n");
fs.readSync = fs.writeSync = () => 1 << 30;
try {
  setResult("x");
} catch {
  // Broken, as told.
}

//# launchers_internals
// Looks for the launcher and the prelude: through stack traces, modules, globals that they have left.
//! refused_by: there is nothing in them that a program may not have
//! expect: {"searched": "true", "secrets": "none"}
const seen = new Set();
Error.prepareStackTrace = (error, frames) => frames;
for (const frame of new Error().stack) {
  seen.add(String(frame.getThis?.())).add(String(frame.getFunction?.()));
}
Error.prepareStackTrace = undefined;
for (const cached of Object.values(require.cache ?? {})) {
  seen.add(cached.filename);
}
for (const name of Reflect.ownKeys(globalThis)) {
  try {
    seen.add(String(name)).add(String(globalThis[name]));
  } catch {
    // A getter that complains.
  }
}
const told = [...seen, JSON.stringify(process.env), process.argv.join(), process.execArgv.join()].join("\n");
say("searched", seen.size > 50);
say("secrets", Object.entries(GIVEN.backwards).filter(([, text]) => told.includes(forwards(text))).map(([name]) => name).join(" ") || "none");

//# secrets_in_memory
// Searches everything that its process maps for what the server knows.
//! refused_by: an interpreter is started by exec, in a jail: of the server's memory there is nothing in it
//! expect: {"searched": "true|ENOENT|EACCES", "secrets": "none"}
const hits = new Set();
const BYTES = 8 << 20;
// Compared from behind with what is told backwards, so that the search finds nothing of its own.
const holds = (chunk, backwards) => {
  const start = Buffer.from([backwards.at(-1), backwards.at(-2)]);
  for (let at = chunk.indexOf(start); at >= 0; at = chunk.indexOf(start, at + 1)) {
    let same = 0;
    while (same < backwards.length && chunk[at + same] === backwards[backwards.length - 1 - same]) same++;
    if (same === backwards.length) return true;
  }
  return false;
};
try {
  const memory = fs.openSync("/proc/self/mem");
  const wanted = Object.entries(GIVEN.backwards).map(([name, text]) => [name, Buffer.from(text, "latin1")]);
  const chunk = Buffer.alloc(BYTES);
  let bytes = 0;
  for (const line of fs.readFileSync("/proc/self/maps", "utf8").split("\n")) {
    const [, from, to, mode] = line.match(/^(\w+)-(\w+) (\S+)/) ?? [];
    if (!mode?.startsWith("rw")) continue;
    const end = BigInt("0x" + to);
    for (let at = BigInt("0x" + from); at < end && bytes < 1 << 28; at += BigInt(BYTES)) {
      try {
        const size = fs.readSync(memory, chunk, 0, Number(end - at < BYTES ? end - at : BYTES), at);
        bytes += size;
        for (const [name, text] of wanted) if (holds(chunk.subarray(0, size), text)) hits.add(name);
      } catch {
        // Not to be read.
      }
    }
  }
  say("searched", bytes > 1 << 20);
} catch (error) {
  say("searched", refusal(error));
}
say("secrets", [...hits].join(" ") || "none");

//# heap_snapshot
// Has V8 write down every string of its heap, and looks for those of other jobs and of the server.
//! refused_by: every jail has an interpreter of its own, which has seen no other job
//! expect: {"written": "true", "found": "none"}
//! first: {"code": "globalThis.planted = 'planted' + '-by-another-job'; require('fs').writeFileSync('/tmp/left', planted); require('fs').writeFileSync('/dev/shm/left', planted);"}
const snapshot = require("v8").writeHeapSnapshot("/tmp/heap");
const heap = fs.readFileSync(snapshot, "latin1");
say("written", heap.length > 100000);
const traces = [];
if (heap.includes(["planted", "by-another", "job"].join("-"))) traces.push("string");
for (const [name, text] of Object.entries(GIVEN.backwards)) if (heap.includes(forwards(text))) traces.push(name);
for (const place of ["/tmp/left", "/dev/shm/left", "left"]) if (fs.existsSync(place)) traces.push(place);
if (globalThis.planted) traces.push("global");
say("found", traces.join(" ") || "none");

//# standing_by_again
// Makes the system call by which a launcher says that it stands ready, in the hope of another job's program.
//! refused_by: PID 1 leaves it unanswered once; afterwards it is a denied call like any other
//! expect: {"watch": "EPERM", "raw": "1", "again": "EPERM"}
//! denied: {"inotify_init1": null}
attempt("watch", () => fs.watch("."));
run("raw", executable(294));
attempt("again", () => fs.watch("/tmp"));

//# node_options
// Gives itself and its children options by the environment: a file that is loaded first, a debugger.
//! refused_by: a child of a program is as jailed as the program
//! expect: {"child": "preloaded", "secret": "ENOENT"}
fs.writeFileSync("/tmp/first.cjs", "console.log('preloaded')");
const child = spawnSync(process.execPath, ["-e", "0"], { env: { NODE_OPTIONS: "--require /tmp/first.cjs" }, encoding: "utf8" });
say("child", child.stdout.trim());
attempt("secret", () => fs.readFileSync(GIVEN.secret));

//# endless_memory
// Allocates outside of V8's heap until there is no more.
//! refused_by: memory.max; without a cgroup the watch
//! expect: {"begun": "true"}
//! verdict: {"status": "oom", "oom": true, "exit_code": 137, "signal": "SIGKILL"}
//! request: {"limits": {"memory_bytes": 134217728}, "timeout_ms": 60000}
say("begun", true);
const kept = [];
for (;;) kept.push(Buffer.alloc(1 << 20, 1));

//# endless_heap
// Fills V8's own heap.
//! refused_by: the memory limit, or V8's own before it
//! expect: {"begun": "true"}
//! verdict: {"status": ["oom", "execution_error"]}
//! request: {"limits": {"memory_bytes": 201326592}, "timeout_ms": 60000}
//! denied: null
say("begun", true);
const heap = [];
for (let n = 0; ; n++) heap.push({ n, text: "x".repeat(100) + n });

//# shared_memory
// Fills /dev/shm and /tmp beside its heap.
//! refused_by: one tmpfs of limited size in three places
//! expect: {"shm": "ENOSPC", "tmp": "ENOSPC", "work": "ENOSPC"}
//! request: {"limits": {"scratch_bytes": 1048576}}
for (const [what, place] of [["shm", "/dev/shm/x"], ["tmp", "/tmp/x"], ["work", "x"]]) {
  attempt(what, () => fs.writeFileSync(place, Buffer.alloc(2 << 20, 1)));
}

//# fork_bomb
// Starts itself again, for ever.
//! refused_by: pids.max, and RLIMIT_NPROC of a user namespace of the job's own
//! expect: {"refused": "true"}
//! request: {"limits": {"pids": 40}, "timeout_ms": 60000}
let refused = false;
for (let n = 0; n < 100 && !refused; n++) {
  try {
    require("child_process").spawn("/usr/bin/sleep", ["1000"], { stdio: "ignore" }).on("error", () => {});
  } catch {
    refused = true;
  }
  if (spawnSync("/usr/bin/true").error?.code === "EAGAIN") refused = true;
}
say("refused", refused);
process.exit(0);

//# left_behind
// Leaves detached children that ignore every signal and hold the output open.
//! refused_by: when PID 1 ends, the kernel ends every process of its PID namespace
//! expect: {"started": "10"}
//! request: {"timeout_ms": 60000}
let started = 0;
for (; started < 10; started++) {
  require("child_process").spawn("/bin/sh", ["-c", "trap '' HUP INT TERM; sleep 1000"], { detached: true, stdio: "inherit" }).unref();
}
say("started", started);

//# deaf
// Handles every signal, keeps every loop alive, and blocks its thread for ever.
//! refused_by: a deadline ends PID 1, and with it the namespace
//! expect: {"begun": "true"}
//! verdict: {"status": "timeout", "exit_code": -1, "killed": true}
//! request: {"timeout_ms": 700}
//! denied: null
for (const name of Object.keys(require("os").constants.signals)) {
  try {
    process.on(name, () => {});
  } catch {
    // Some cannot be handled.
  }
}
process.on("uncaughtException", () => {}).on("exit", () => { for (;;); });
setInterval(() => {}, 1);
say("begun", true);
Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);

//# endless_microtasks
// Never lets the event loop turn.
//! refused_by: the deadline is not the program's to keep
//! expect: {"begun": "true"}
//! verdict: {"status": "timeout", "exit_code": -1, "killed": true}
//! request: {"timeout_ms": 700}
say("begun", true);
(function again() { Promise.resolve().then(again); })();

//# busy_workers
// Keeps several processors busy in worker threads past its limit of processor time.
//! refused_by: the watch of processor time counts all threads
//! expect: {"begun": "true"}
//! verdict: {"status": "execution_error", "exit_code": 152, "signal": "SIGXCPU"}
//! request: {"limits": {"cpu_ms": 4000}, "timeout_ms": 60000}
//! denied: null
const { Worker } = require("worker_threads");
for (let n = 0; n < 2; n++) new Worker("for (;;);", { eval: true });
say("begun", true);
setInterval(() => {}, 1000);

//# workers_for_ever
// Makes worker threads until there are no more to be had.
//! refused_by: threads are tasks, which pids.max and RLIMIT_NPROC count
//! expect: {"begun": "true"}
//! verdict: {"status": ["execution_error", "timeout", "oom", "success"]}
//! request: {"limits": {"pids": 60}, "timeout_ms": 5000}
//! denied: null
const { Worker } = require("worker_threads");
say("begun", true);
for (let n = 0; n < 100; n++) new Worker("setInterval(() => {}, 1000)", { eval: true }).on("error", () => process.exit(1));

//# endless_output
// Writes to its standard output for ever.
//! refused_by: output is drained and cut; the deadline ends it
//! expect: null
//! verdict: {"status": "timeout", "exit_code": -1, "truncated": true}
//! request: {"timeout_ms": 4000}
say("begun", true);
const text = "x".repeat(65536);
for (;;) fs.writeSync(1, text);

//# crash
// Ends by abort, in the hope of a core file or of the host's handler for one.
//! refused_by: the core limit that asks for no handler; the verdict tells the signal
//! expect: {"begun": "true"}
//! verdict: {"status": "execution_error", "exit_code": 134, "signal": "SIGABRT"}
//! denied: null
say("begun", true);
process.abort();
