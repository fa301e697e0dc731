// Getting out of a jail with Node running in it: files, processes, identity, kernel, network.

//# host_files
// Reads and writes files of the host that it knows the paths of.
//! refused_by: the jail's root holds nothing but what the policy mounts
//! expect: {"read": "ENOENT", "write": "ENOENT", "directory": "ENOENT", "link": "ENOENT", "shadow": "ENOENT"}
//! outside
attempt("read", () => say("secret", fs.readFileSync(GIVEN.secret, "utf8")));
attempt("write", () => fs.writeFileSync(GIVEN.target, "touched", { flag: "r+" }));
attempt("directory", () => fs.readdirSync(GIVEN.directory));
attempt("link", () => {
  fs.symlinkSync(GIVEN.secret, "to-it");
  fs.readFileSync("to-it");
});
attempt("shadow", () => fs.readFileSync("/etc/shadow"));

//# climbing
// Climbs out through .., through /proc, and through descriptors of directories.
//! refused_by: the old root is detached; what is left of it has no path
//! expect: {"up": "ENOENT", "root": "EACCES|ENOENT", "cwd": "EACCES|ENOENT", "parent": "ENOENT"}
attempt("up", () => fs.readFileSync("../".repeat(50) + GIVEN.secret));
attempt("root", () => fs.readdirSync("/proc/1/root/"));
attempt("cwd", () => fs.readdirSync("/proc/1/cwd/"));
attempt("parent", () => {
  const fd = fs.openSync("/", fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
  fs.readFileSync(`/proc/self/fd/${fd}/..${GIVEN.secret}`);
});

//# own_interpreter
// Replaces the interpreter, its launcher, its prelude, and a program that others start.
//! refused_by: everything but the scratch is read-only
//! expect: {"node": "EROFS|EACCES", "launcher": "EROFS|EACCES", "prelude": "EROFS|EACCES", "unlink": "EROFS|EACCES", "rename": "EROFS|EXDEV|EACCES", "mode": "EROFS|EPERM", "make": "EROFS|EACCES"}
attempt("node", () => fs.openSync("/usr/bin/node", "r+"));
attempt("launcher", () => fs.openSync("/immure/node/immure-launch.cjs", "r+"));
attempt("prelude", () => fs.openSync("/immure/node/immure-prelude.cjs", "r+"));
attempt("unlink", () => fs.unlinkSync("/immure/node/immure-prelude.cjs"));
attempt("rename", () => {
  fs.writeFileSync("mine", "");
  fs.renameSync("mine", "/usr/bin/node");
});
attempt("mode", () => fs.chmodSync("/usr/bin/node", 0o777));
attempt("make", () => fs.mkdirSync("/immure/more"));

//# kernel_files
// Writes to the kernel's settings and reads what it tells of the host.
//! refused_by: /proc shows processes only and is read-only; there is no /sys
//! expect: {"core_pattern": "ENOENT", "modprobe": "ENOENT", "kcore": "ENOENT", "kallsyms": "ENOENT", "sys": "ENOENT", "cgroup": "ENOENT", "uid_map": "EROFS|ENOENT|EACCES|EPERM"}
attempt("core_pattern", () => fs.writeFileSync("/proc/sys/kernel/core_pattern", "|/bin/sh"));
attempt("modprobe", () => fs.writeFileSync("/proc/sys/kernel/modprobe", "/bin/sh"));
attempt("kcore", () => fs.openSync("/proc/kcore"));
attempt("kallsyms", () => fs.openSync("/proc/kallsyms"));
attempt("sys", () => fs.readdirSync("/sys/kernel"));
attempt("cgroup", () => fs.readdirSync("/sys/fs/cgroup"));
attempt("uid_map", () => fs.writeFileSync("/proc/self/uid_map", "0 0 1"));

//# other_processes
// Signals the processes of the host whose numbers it knows, and looks for any but its own.
//! refused_by: a PID namespace of the job's own
//! expect: {"bystander": "ESRCH", "tester": "ESRCH", "debug": "ESRCH", "seen": "0|ENOENT"}
attempt("bystander", () => process.kill(GIVEN.bystander, "SIGKILL"));
attempt("tester", () => process.kill(GIVEN.tester, "SIGTERM"));
attempt("debug", () => process._debugProcess(GIVEN.bystander));
try {
  say("seen", fs.readdirSync("/proc").filter(name => /^[0-9]+$/.test(name) && Number(name) > 64).length);
} catch (error) {
  say("seen", refusal(error));
}

//# first_process
// Kills, stops, traces and reads PID 1, which holds the listener for what is denied.
//! refused_by: Landlock keeps signals among its own, the kernel shields PID 1 from its own namespace, and nobody may trace it
//! expect: {"kill": "EPERM|done", "stop": "EPERM|done", "debug": "EPERM|done", "mem": "EACCES|ENOENT", "environ": "EACCES|ENOENT", "maps": "EACCES|ENOENT", "fd": "EACCES|ENOENT", "ptrace": "1"}
//! denied: {"ptrace": 1}
attempt("kill", () => process.kill(1, "SIGKILL"));
attempt("stop", () => process.kill(1, "SIGSTOP"));
attempt("debug", () => process._debugProcess(1));
attempt("mem", () => fs.readFileSync("/proc/1/mem"));
attempt("environ", () => fs.readFileSync("/proc/1/environ"));
attempt("maps", () => fs.readFileSync("/proc/1/maps"));
attempt("fd", () => fs.readdirSync("/proc/1/fd"));
run("ptrace", executable(101, 16, 1));

//# becoming_root
// Becomes root: by system calls, by a child with another uid, by programs that are set-uid.
//! refused_by: one uid in the user namespace, no capability, no_new_privs
//! expect: {"setuid": "EPERM|EINVAL", "setgid": "EPERM|EINVAL", "setgroups": "EPERM", "child": "EPERM|EINVAL", "group": "EPERM|EINVAL", "su": "1", "uid": "1000 1000 0"}
//! denied: null
attempt("setuid", () => process.setuid(0));
attempt("setgid", () => process.setgid(0));
attempt("setgroups", () => process.setgroups([0]));
attempt("child", () => {
  const done = spawnSync("/bin/sh", ["-c", "id"], { uid: 0 });
  if (done.error) throw done.error;
});
attempt("group", () => {
  const done = spawnSync("/bin/sh", ["-c", "id"], { gid: 0 });
  if (done.error) throw done.error;
});
fs.copyFileSync("/bin/sh", "shell");
attempt("su", () => {
  fs.chmodSync("shell", 0o6755);
  throw { code: spawnSync("./shell", ["-c", "test $(id -u) -eq 0"]).status };
});
say("uid", `${process.getuid()} ${process.geteuid()} ${fs.readFileSync("/proc/self/status", "utf8").match(/CapEff:\s*0*(\w)/)[1]}`);

//# machine_code
// Makes the system calls that exploits of the kernel begin with, from machine code of its own.
//! refused_by: the filter is the process's, whatever runs in it
//! expect: {"unshare": "1", "mount": "1", "bpf": "1", "io_uring_setup": "38", "keyctl": "1", "perf_event_open": "1", "userfaultfd": "1", "setns": "1", "open_by_handle_at": "1", "process_vm_readv": "1", "clone3": "38", "clone": "1"}
//! denied: {"unshare": 1, "mount": 1, "bpf": 1, "keyctl": 1, "perf_event_open": 1, "userfaultfd": 1, "setns": 1, "open_by_handle_at": 1, "process_vm_readv": 1, "clone": 1}
//! outside
run("unshare", executable(272, 0x10000000));
run("mount", executable(165));
run("bpf", executable(321));
run("io_uring_setup", executable(425, 1));
run("keyctl", executable(250, 0, -3));
run("perf_event_open", executable(298));
run("userfaultfd", executable(323, 1));
run("setns", executable(308, -1));
run("open_by_handle_at", executable(304, -1));
run("process_vm_readv", executable(310, 1));
run("clone3", executable(435));
run("clone", executable(56, 0x10000011));

//# tools_of_the_host
// Starts the programs of the host that make namespaces, mounts and traces.
//! refused_by: they have no more rights than the program that starts them
//! expect: {"unshare": "1", "nsenter": "1", "mount": "[1-9][0-9]*", "chroot": "ENOENT|12[57]|1"}
//! denied: null
run("unshare", "/usr/bin/unshare", "-Ur", "true");
run("nsenter", "/usr/bin/nsenter", "-t", "1", "-m", "true");
run("mount", "/usr/bin/mount", "-t", "tmpfs", "none", "/tmp");
run("chroot", "/usr/sbin/chroot", "/", "true");

//# native_addons
// Loads shared objects that are no addons, and one that it has written.
//! refused_by: an addon is machine code, for which the filter and the mounts are; what is no addon is not loaded
//! expect: {"libc": "ERR_DLOPEN_FAILED", "own": "ERR_DLOPEN_FAILED", "host": "ERR_DLOPEN_FAILED", "require": "ERR_DLOPEN_FAILED"}
attempt("libc", () => process.dlopen({ exports: {} }, "/usr/lib/x86_64-linux-gnu/libc.so.6"));
attempt("own", () => process.dlopen({ exports: {} }, executable(39)));
attempt("host", () => process.dlopen({ exports: {} }, GIVEN.secret));
fs.writeFileSync("addon.node", "\x7fELF");
attempt("require", () => require(path.resolve("addon.node")));

//# internal_bindings
// Reaches for Node's internals: bindings, the spawner below child_process, modules that are not for programs.
//! refused_by: they make the same system calls
//! expect: {"spawn": "true", "internals": "true"}
//! denied: null
const binding = name => {
  try {
    return process.binding(name);
  } catch {
    return {};
  }
};
let spawned;
try {
  spawned = binding("spawn_sync").spawn({
    file: "/bin/sh", args: ["sh"], envPairs: [], uid: 0, stdio: [{ type: "pipe", readable: true, writable: false }],
  }).error < 0;
} catch {
  spawned = true;
}
say("spawn", spawned);
let internals = false;
try {
  require("internal/bootstrap/realm");
  internals = true;
} catch {
  // As it should be.
}
say("internals", !internals);

//# network
// Talks to listeners of the host and of the internet: streams, datagrams, requests.
//! refused_by: a network namespace without an interface that is up
//! expect: {"tcp": "ENETUNREACH|ECONNREFUSED|EADDRNOTAVAIL|EHOSTUNREACH", "unix": "ECONNREFUSED|ENOENT", "udp": "ENETUNREACH|EADDRNOTAVAIL|EHOSTUNREACH", "request": "ENETUNREACH|ECONNREFUSED|EADDRNOTAVAIL|EHOSTUNREACH", "socket": "ENOENT"}
//! denied: null
//! outside
const net = require("net");
const connect = options => new Promise((resolve, reject) => net.connect(options).on("connect", resolve).on("error", reject));
await attemptLater("tcp", connect({ host: "127.0.0.1", port: GIVEN.tcp4_port }));
await attemptLater("unix", connect({ path: `\0${GIVEN.abstract}` }));
await attemptLater("socket", connect({ path: `${GIVEN.directory}/socket` }));
await attemptLater("udp", new Promise((resolve, reject) => {
  const socket = require("dgram").createSocket("udp4").on("error", reject);
  socket.send("hello", GIVEN.udp4_port, "127.0.0.1", error => (error ? reject(error) : resolve()));
}));
await attemptLater("request", new Promise((resolve, reject) => {
  require("http").get({ host: "127.0.0.1", port: GIVEN.tcp4_port }, resolve).on("error", reject);
}));
process.exit(0);

//# names
// Looks up names, by the C library and by queries of its own.
//! refused_by: a network namespace without an interface that is up
//! expect: {"lookup": "EAI_AGAIN|ENOTFOUND", "query": "ECONNREFUSED|ETIMEOUT|ENOTFOUND|ESERVFAIL", "fetch": "EAI_AGAIN|ENOTFOUND"}
//! denied: null
const dns = require("dns").promises;
await attemptLater("lookup", dns.lookup("immure.invalid"));
await attemptLater("query", dns.resolve4("immure.invalid"));
await attemptLater("fetch", fetch("http://immure.invalid/"));
process.exit(0);

//# debugger
// Opens a debugger's port for somebody outside, in itself and in a child.
//! refused_by: a network namespace of the job's own: the port is nobody else's
//! expect: {"interfaces": "0|ERR_SYSTEM_ERROR", "child": "0|9|12"}
//! denied: null
const inspector = require("inspector");
try {
  inspector.open(9229, "127.0.0.1");
} catch {
  // Whether there is an address to bind to is the kernel's affair.
}
try {
  say("interfaces", Object.values(require("os").networkInterfaces()).flat().filter(one => !one.internal).length);
} catch (error) {
  say("interfaces", refusal(error));
}
const child = spawnSync(process.execPath, ["--inspect=0.0.0.0:9230", "-e", "0"]);
say("child", child.status);
process.exit(0);

//# descriptors
// Looks for descriptors that are not its own: files, sockets and directories of the server or of the launcher.
//! refused_by: everything is close-on-exec; a program has 0, 1, 2 and the bridge
//! expect: {"strange": "none"}
const strange = [];
for (let fd = 0; fd < 1024; fd++) {
  try {
    const kind = fs.fstatSync(fd);
    const anonymous = kind.isFIFO() || (kind.mode & 0o170000) === 0 || kind.isCharacterDevice() || kind.isSocket();
    if (!anonymous && kind.isDirectory()) strange.push(`${fd} directory`);
    if (kind.isFile() && fs.readFileSync(fd, "utf8").length > 0) strange.push(`${fd} file`);
    if (kind.isSocket() && fd < 5) strange.push(`${fd} socket`);
  } catch {
    // Closed, or nothing to be read.
  }
}
say("strange", strange.join(" ") || "none");
