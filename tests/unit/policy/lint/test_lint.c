/* policy/lint: for each rule a bad policy and a good one beside it; places, waivers, corrections; and silence
 * about what is shipped. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "jail/base/io.h"
#include "policy/lint/lint.h"
#include "tests/unit/policy/helper.h"

#define QUIET                                                                                                \
    "name: 'test'\n" WORKSPACE "seccomp { rule { action: ALLOW set: '@execute' reason: 'launch' } }\n"
#define RULES(rules)                                                                                         \
    "name: 'test'\n" WORKSPACE "seccomp { rule { action: ALLOW set: '@execute' reason: 'launch' } " rules    \
    " }\n"
#define OPENED(rules) "name: 'test'\n" WORKSPACE "seccomp { default_action: ALLOW " rules " }\n"
#define THREADS                                                                                              \
    "rule { action: ALLOW syscall: 'clone' where { arg: 'flags' all_of: CLONE_THREAD none_of: "              \
    "[CLONE_NEWUSER, "                                                                                       \
    "CLONE_NEWNS, CLONE_NEWNET] } reason: 'threads' } "
#define FORKS                                                                                                \
    "rule { action: ALLOW syscall: 'clone' where { arg: 'flags' none_of: [CLONE_NEWUSER, CLONE_NEWNS, "      \
    "CLONE_NEWNET] } reason: 'processes' } "
#define NO_CLONE3  "rule { action: ERRNO errno: 'ENOSYS' syscall: 'clone3' reason: 'clone' } "
#define ALLOW(set) "rule { action: ALLOW set: '" set "' reason: 'x' } "
#define DEV_NULL   "mount { destination: '/dev/null' bind { source: '/dev/null' } allow_devices: true }\n"
#define PROC       "mount { destination: '/proc' proc {} optional: true }\n"

struct world {
    char directory[64], path[96];
};

static void write_file(const char *path, const char *text)
{
    CLEANUP(fd_closep) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    assert_true(fd >= 0);
    assert_int_equal(io_write_full(fd, text, strlen(text)), 0);
}

static struct lint *look_at(const char *name, bool strict)
{
    struct lint *lint = NULL;
    struct err err = {0};
    if (lint_open(name, &lint, &err) < 0 || lint_run(lint, strict, &err) < 0) {
        fail_msg("%s: %s", err.item, err.text);
    }
    return lint;
}

static struct lint *look(struct world *world, const char *text, bool strict)
{
    write_file(world->path, text);
    return look_at(world->path, strict);
}

static const struct lint_finding *finding_of(const struct lint *lint, const char *rule)
{
    for (size_t i = 0; i < lint_count(lint); i++) {
        if (strcmp(lint_at(lint, i)->rule->id, rule) == 0) {
            return lint_at(lint, i);
        }
    }
    return NULL;
}

/* All findings, a line each. */
static struct buf said(const struct lint *lint)
{
    struct buf text = BUF_INIT;
    buf_puts(&text, "");
    for (size_t i = 0; i < lint_count(lint); i++) {
        lint_print_finding(lint_at(lint, i), &text);
        buf_putc(&text, '\n');
    }
    return text;
}

static const struct row {
    const char *rule, *bad, *good, *words;
} rows[] = {
    {"default-allow", LEAST, QUIET, "seccomp.default_action: allows every call that no rule names"},
    {"no-landlock", RULES("rule { action: ALLOW syscall: 'mount' condition { arg: 3 value: 4096 } }"), QUIET,
     "without Landlock: allows mount"},
    {"no-landlock", RULES("rule { action: ALLOW syscall: 'move_mount' }"), QUIET, "allows move_mount"},
    {"host-namespace", QUIET "namespace: [USER, MOUNT, PID, IPC, UTS, CGROUP]", QUIET,
     "without NET the program has the host's network"},
    {"host-namespace", QUIET "namespace: [USER, MOUNT, PID, NET, UTS, CGROUP]", QUIET, "without IPC"},
    {"host-namespace", QUIET "namespace: [USER, MOUNT, PID, NET, IPC, CGROUP]", QUIET, "without UTS"},
    {"host-namespace", QUIET "namespace: [USER, MOUNT, PID, NET, IPC, UTS]", QUIET, "without CGROUP"},
    {"capability", QUIET "capability: 'CAP_SYS_ADMIN'", QUIET "capability: 'CAP_CHOWN'",
     "capability[0]: CAP_SYS_ADMIN: undoes the jail's mounts"},
    /* Mounts. */
    {"host-secret", QUIET "mount { destination: '/h' bind { source: '/etc' } }",
     QUIET "mount { destination: '/h' bind { source: '/usr' } }", "mount[1].bind.source: /etc may hold keys"},
    {"host-secret", QUIET "mount { destination: '/h' bind { source: '/root/.ssh' } }",
     QUIET "mount { destination: '/h' bind { source: '/rooted' } }", "/root/.ssh may hold keys"},
    {"host-secret", QUIET "mount { destination: '/h' bind { source: '/sys/fs/cgroup/a' } }", QUIET,
     "shows the limits of the host's services"},
    {"host-secret", QUIET "mount { destination: '/h' bind { source: '/proc/1' } }", QUIET,
     "/proc/1 shows the host's processes"},
    {"host-secret", QUIET "mount { destination: '/h' bind { source: '/run/user/0/x' } }", QUIET,
     "holds sockets"},
    {"host-secret", QUIET "mount { destination: '/h' bind { source: '/dev/sda' } allow_devices: true }",
     QUIET DEV_NULL, "/dev/sda is or shows a device"},
    {"host-secret", QUIET "mount { destination: '/h' bind { source: '/etc/ssl/private/a' } }",
     QUIET "mount { destination: '/h' bind { source: '/etc/ssl/certs' } }", "holds keys of the host's"},
    {"host-socket", QUIET "mount { destination: '/h' bind { source: '/run/docker.sock' } }", QUIET,
     "is a socket"},
    {"bind-writable", QUIET "mount { destination: '/h' bind { source: '/usr' } read_only: false }",
     QUIET "mount { destination: '/h' bind { source: '/usr' } }", "/h is writable"},
    {"bind-missing", QUIET "mount { destination: '/h' bind { source: '/usr/not-there' } }",
     QUIET "mount { destination: '/h' bind { source: '/usr/not-there' } optional: true }",
     "mount[1].bind.source: /usr/not-there is not on this host, so that no job could start; correct the "
     "path"},
    {"device-blocked", QUIET "mount { destination: '/dev/zero' bind { source: '/dev/zero' } }",
     QUIET "mount { destination: '/dev/zero' bind { source: '/dev/zero' } allow_devices: true }",
     "/dev/zero cannot be opened"},
    {"device-blocked", QUIET "mount { destination: '/dev' bind { source: '/dev' } }",
     QUIET "mount { destination: '/dev/shm' bind { source: '/dev/shm' } }", NULL},
    {"devices-misplaced", QUIET "mount { destination: '/h' bind { source: '/usr' } allow_devices: true }",
     QUIET DEV_NULL, "/usr is not below /dev"},
    {"tmpfs-uncounted", QUIET "mount { destination: '/t' tmpfs { size_bytes: 4096 } read_only: false }",
     QUIET "mount { destination: '/t' tmpfs { size_bytes: 4096 } }",
     "without cgroup v2 what is written to /t is not counted as the job's memory"},
    {"tmpfs-large",
     QUIET "mount { destination: '/t' tmpfs { size_bytes: 1GiB } read_only: false } limits { memory_bytes: "
           "512MiB }",
     QUIET "mount { destination: '/t' tmpfs { size_bytes: 1MiB } read_only: false } limits { memory_bytes: "
           "512MiB }",
     "mount[1].tmpfs.size_bytes: may hold more than limits.memory_bytes"},
    {"tmpfs-large", QUIET "limits { memory_bytes: 64MiB scratch_bytes: 65MiB }",
     QUIET "limits { memory_bytes: 64MiB scratch_bytes: 64MiB }",
     "limits.scratch_bytes: the scratch may hold more than memory_bytes"},
    {"proc-wide", QUIET "mount { destination: '/proc' proc { subset_pid: false } }", QUIET PROC,
     "without subset_pid the program sees the host's memory"},
    {"proc-wide", QUIET "mount { destination: '/proc' proc { hidepid: false } }", QUIET PROC,
     "without hidepid the program sees PID 1"},
    {"proc-missing", QUIET "mount { destination: '/dev/fd' symlink { target: '/proc/self/fd' } }",
     QUIET PROC "mount { destination: '/dev/fd' symlink { target: '/proc/self/fd' } }",
     "/dev/fd leads into /proc, which is not mounted"},
    {"proc-missing", RULES(FORKS NO_CLONE3 ALLOW("@thread")) DEV_NULL "interpreter: 'python3'",
     RULES(FORKS NO_CLONE3 ALLOW("@thread")) DEV_NULL PROC "interpreter: 'python3'",
     "python3 and the programs that it starts look into /proc"},
    {"dev-null-missing", RULES(FORKS NO_CLONE3 ALLOW("@thread")),
     RULES(FORKS NO_CLONE3 ALLOW("@thread")) DEV_NULL, "there is no /dev/null"},
    {"dev-null-missing", RULES("rule { action: ALLOW syscall: 'vfork' reason: 'x' } " NO_CLONE3),
     RULES(THREADS NO_CLONE3 ALLOW("@thread")), NULL},
    {"loader-missing", QUIET "mount { destination: '/usr/bin' bind { source: '/usr/bin' } }",
     QUIET "mount { destination: '/usr/bin' bind { source: '/usr/bin' } } interpreter: 'bash'",
     "programs of /usr/bin are started by /lib"},
    {"loader-missing", QUIET "mount { destination: '/usr' bind { source: '/usr' } }",
     QUIET "mount { destination: '/usr' bind { source: '/usr' } } "
           "mount { destination: '/lib' symlink { target: 'usr/lib' } } "
           "mount { destination: '/lib64' symlink { target: '/usr/lib64' } }",
     NULL},
    {"symlink-dangling", QUIET "mount { destination: '/bin' symlink { target: 'usr/bin' } }",
     QUIET "mount { destination: '/bin' symlink { target: 'usr/share' } } "
           "mount { destination: '/usr/share' bind { source: '/usr/share' } }",
     "/bin leads to /usr/bin, which is not in the jail"},
    {"symlink-dangling",
     QUIET "mount { destination: '/a' symlink { target: 'b' } } mount { destination: '/b' symlink { target: "
           "'a' } }",
     QUIET "mount { destination: '/a' symlink { target: 'workspace' } }", "/a leads to itself"},
    {"directory-missing", QUIET "env { name: 'HOME' value: '/home/me' }",
     QUIET "env { name: 'HOME' value: '/workspace' }", "env[0].value: HOME is /home/me, which is not there"},
    {"directory-missing", QUIET "env { name: 'TMPDIR' value: '/workspace/tmp' }",
     QUIET "env { name: 'TMPDIR' value: '/workspace' }", "TMPDIR is /workspace/tmp"},
    {"directory-missing", QUIET "working_directory: '/workspace/src'",
     QUIET "working_directory: '/workspace'",
     "working_directory: /workspace/src is not there when a job starts"},
    {"path-missing",
     QUIET "mount { destination: '/usr/share' bind { source: '/usr/share' } } env { name: 'PATH' value: "
           "'/usr/share:/usr/local/bin' }",
     QUIET "mount { destination: '/usr/share' bind { source: '/usr/share' } } env { name: 'PATH' value: "
           "'/usr/share' }",
     "PATH has /usr/local/bin, which is not in the jail"},
    {"path-missing",
     QUIET "mount { destination: '/usr' bind { source: '/usr' } } env { name: 'PATH' value: '/usr/not' }",
     QUIET "mount { destination: '/usr' bind { source: '/usr' } } env { name: 'PATH' value: '/usr/bin' }",
     NULL},
    /* Variables and modules. */
    {"env-allow-loader", QUIET "env_allow: 'LD_PRELOAD'", QUIET "env_allow: ['*', 'TZ']",
     "env_allow[0]: LD_PRELOAD: the dynamic linker loads what it names"},
    {"env-allow-loader", QUIET "env_allow: ['*', 'PYTHONSTARTUP']", QUIET "env_allow: '*'", "PYTHONSTARTUP"},
    {"env-writable", QUIET "env { name: 'LD_PRELOAD' value: '/workspace/a.so' }",
     QUIET "env { name: 'LD_PRELOAD' value: '/usr/lib/a.so' }",
     "LD_PRELOAD has /workspace/a.so, where the job can write"},
    {"env-writable", QUIET "env { name: 'LD_LIBRARY_PATH' value: '/usr/lib:/workspace' }",
     QUIET "env { name: 'LD_LIBRARY_PATH' value: '/usr/lib' }", "LD_LIBRARY_PATH has /workspace"},
    {"env-writable", QUIET "env { name: 'PATH' value: '/usr/bin:.' }",
     QUIET "env { name: 'PATH' value: '/usr/bin' }", "PATH has ., where the job can write"},
    {"env-writable", QUIET "env { name: 'PATH' value: ':/usr/bin' }",
     QUIET "env { name: 'NODE_OPTIONS' value: '--no-warnings' }", "PATH has the working directory"},
    {"env-writable",
     QUIET "env { name: 'PYTHONPATH' value: '/w' } mount { destination: '/w' bind { source: '/usr' } "
           "read_only: false }",
     QUIET "env { name: 'PYTHONPATH' value: '/w' } mount { destination: '/w' bind { source: '/usr' } }",
     NULL},
    /* Limits. */
    {"rlimit-small", QUIET "rlimit { resource: STACK soft: 65536 }",
     QUIET "rlimit { resource: STACK soft: 8388608 }", "rlimit[0].soft: STACK of 65536 is less than 1048576"},
    {"rlimit-small", QUIET "rlimit { resource: NOFILE soft: 8 }",
     QUIET "rlimit { resource: NOFILE soft: 20 }", NULL},
    {"rlimit-small", QUIET "rlimit { resource: NOFILE soft: 20 } interpreter: 'python3.11'",
     QUIET "rlimit { resource: NOFILE soft: 32 } interpreter: '/usr/bin/python3'", "Python's imports"},
    {"rlimit-small", QUIET "rlimit { resource: NOFILE soft: 32 } interpreter: 'node'",
     QUIET "rlimit { resource: NOFILE soft: 64 } interpreter: 'node'", NULL},
    {"rlimit-small", QUIET "rlimit { resource: FSIZE soft: 0 }",
     QUIET "rlimit { resource: FSIZE soft: 4096 }", "SIGXFSZ"},
    {"rlimit-small", RULES(FORKS NO_CLONE3) "rlimit { resource: NPROC soft: 1 }",
     QUIET "rlimit { resource: NPROC soft: 1 }", NULL},
    {"pids-small", RULES(FORKS NO_CLONE3) "limits { pids: 1 }", QUIET "limits { pids: 1 }",
     "limits.pids: 1 is less than the 2"},
    {"pids-small", RULES(THREADS NO_CLONE3) "limits { pids: 8 } interpreter: 'node'",
     RULES(THREADS NO_CLONE3) "limits { pids: 12 } interpreter: 'node'", NULL},
    {"memory-small", QUIET "limits { memory_bytes: 32MiB } interpreter: 'node'",
     QUIET "limits { memory_bytes: 64MiB } interpreter: 'node'", "node needs 64 MiB to start"},
    {"address-space", QUIET "interpreter: 'node'",
     QUIET "interpreter: 'node' limits { address_space: false }", NULL},
    {"output-large", QUIET "limits { memory_bytes: 64MiB output_bytes: 65MiB }",
     QUIET "limits { memory_bytes: 64MiB output_bytes: 1MiB }", "limits.output_bytes: more output"},
    {"output-large", QUIET "limits { scratch_bytes: 1MiB output_file_bytes: 2MiB }",
     QUIET "limits { scratch_bytes: 1MiB }", "limits.output_file_bytes: no file can be larger"},
    {"time-zero", QUIET "limits { timeout_ms: 0 }", QUIET "limits { timeout_ms: 1s }",
     "limits.timeout_ms: 0 sets no limit"},
    {"time-zero", QUIET "rlimit { resource: CPU soft: 0 }", QUIET "rlimit { resource: CPU soft: 5 }", NULL},
    {"time-unreachable", QUIET "limits { timeout_ms: 5s cpu_ms: 10s }",
     QUIET "limits { timeout_ms: 5s cpu_ms: 5s }",
     "limits.cpu_ms: in timeout_ms and with cpu_percent a job gets 5000 ms at most"},
    {"time-unreachable", QUIET "limits { timeout_ms: 5s cpu_ms: 5s cpu_percent: 50 }",
     QUIET "limits { timeout_ms: 5s cpu_ms: 10s cpu_percent: 200 }", "gets 2500 ms"},
    /* What gets through the filter. */
    {"dangerous-set", RULES("rule { action: ALLOW syscall: 'ptrace' }"), QUIET, "allows ptrace of @debug: "},
    {"dangerous-set", RULES("rule { action: LOG syscall: 'ptrace' }"), QUIET, "allows ptrace of @debug: "},
    {"dangerous-set", RULES("rule { action: ALLOW set: '@mount' }"),
     RULES("rule { action: KILL_PROCESS set: '@mount' reason: 'x' }"),
     "seccomp.rule[1]: allows mount of @mount: "},
    {"known-bad", RULES("rule { action: ALLOW syscall: 'clone3' }"), RULES(NO_CLONE3),
     "allows clone3: it makes user namespaces"},
    {"known-bad", RULES("rule { action: LOG syscall: 'fcntl' }"), QUIET, "allows fcntl(F_NOTIFY)"},
    /* One digit off. */
    {"known-bad",
     RULES("rule { action: ALLOW syscall: 'clone' condition { arg: 0 op: MASKED_EQ mask: 0x6e020000 value: 0 "
           "} }"),
     RULES("rule { action: ALLOW syscall: 'clone' condition { arg: 0 op: MASKED_EQ mask: 0x7e020000 value: 0 "
           "} }"),
     "allows clone(CLONE_NEWUSER): it brings every capability back"},
    {"known-bad",
     RULES("rule { action: ALLOW syscall: 'clone' condition { arg: 0 op: LT value: 0x20000000 } }"),
     RULES("rule { action: ALLOW syscall: 'clone' condition { arg: 0 op: MASKED_EQ mask: 0x10000000 value: 0 "
           "} }"),
     "allows clone(CLONE_NEWUSER)"},
    /* The kernel reads 32 bits of the request, the condition 64. */
    {"known-bad",
     RULES("rule { action: ALLOW syscall: 'ioctl' condition { arg: 1 op: GT value: 0xffffffff } }"),
     RULES("rule { action: ALLOW syscall: 'ioctl' condition { arg: 1 value: 0x5401 } }"),
     "allows ioctl(TIOCSTI): it types into the terminal"},
    {"known-bad", RULES("rule { action: ALLOW syscall: 'setsockopt' condition { arg: 1 value: 1 } }"), QUIET,
     "allows setsockopt(SOL_SOCKET, SO_ATTACH_FILTER)"},
    {"known-bad", RULES("rule { action: ALLOW syscall: 'bpf' condition { arg: 0 value: 0 } }"), QUIET,
     "allows bpf: it loads programs into the kernel"},
    {"known-bad", LEAST, QUIET,
     "seccomp.default_action: allows mmap(MAP_HUGETLB): it takes from the host's pool"},
    {"compares-64",
     RULES("rule { action: ALLOW syscall: 'ioctl' condition { arg: 1 op: NE value: 0x5412 } }"),
     RULES("rule { action: ALLOW syscall: 'ioctl' where { arg: request in: TCGETS } }"),
     "condition[0]: argument 1 is compared by 64 bits"},
    {"compares-64", OPENED("rule { action: ERRNO syscall: 'ioctl' condition { arg: 1 value: 0x5412 } }"),
     OPENED("rule { action: ERRNO syscall: 'ioctl' where { arg: request in: TIOCSTI } }"), "dodge it"},
    {"wide-value",
     OPENED("rule { action: ERRNO syscall: 'ioctl' condition { arg: 1 op: MASKED_EQ mask: 0xffffffffffffffff "
            "value: 0x5412 } }"),
     OPENED("rule { action: ERRNO syscall: 'ioctl' condition { arg: 1 op: MASKED_EQ mask: 0xffffffff value: "
            "0x5412 } }"),
     "has more bits than the 32 that the kernel reads of ioctl's request"},
    {"wide-value",
     RULES("rule { action: ALLOW syscall: 'kill' condition { arg: 0 value: 0xffffffffffffffff } }"),
     RULES("rule { action: ALLOW syscall: 'lseek' condition { arg: 1 value: 0xffffffffffffffff } }"), NULL},
    /* Without what programs need. */
    {"clone3-errno",
     RULES(THREADS ALLOW("@thread") "rule { action: ERRNO errno: 'EPERM' syscall: 'clone3' }"),
     RULES(THREADS ALLOW("@thread") NO_CLONE3), "fails with another error than ENOSYS"},
    {"clone3-errno", RULES(THREADS ALLOW("@thread")), QUIET, "clone3 fails with EPERM"},
    {"no-threads", RULES(THREADS NO_CLONE3), RULES(THREADS NO_CLONE3 ALLOW("@thread")), "futex is refused"},
    {"no-threads", QUIET "interpreter: 'python3'", RULES(ALLOW("@thread")) "interpreter: 'python3'", NULL},
    {"egress-blocked", QUIET "egress { host: 'a.example' }",
     QUIET "egress { host: 'a.example' } use: 'egress'", "the filter refuses socket"},
    {"kill-probe", RULES("rule { action: KILL_PROCESS syscall: ['rseq', 'bpf'] }"),
     RULES("rule { action: KILL_PROCESS syscall: 'bpf' }"), "rseq ends the program"},
    {"kill-probe",
     "name: 'test'\n" WORKSPACE "seccomp { default_action: KILL_PROCESS rule { action: ALLOW set: "
     "'@execute' } }",
     QUIET, "seccomp.default_action: getrandom ends the program"},
    /* Rules as they are written. */
    {"rule-idle",
     RULES("rule { action: ALLOW syscall: 'ioctl' where { arg: request in: TCGETS } } rule { action: ALLOW "
           "syscall: "
           "'ioctl' }"),
     RULES("rule { action: ALLOW syscall: 'ioctl' where { arg: request in: TCGETS } } rule { action: ALLOW "
           "syscall: "
           "'prctl' }"),
     "seccomp.rule[1].syscall[0]: has no effect: "},
    {"rule-idle",
     RULES("rule { action: ALLOW syscall: ['flock'] } rule { action: ERRNO set: '@file-locks' } rule { "
           "action: ALLOW "
           "syscall: 'fcntl' }"),
     RULES("rule { action: ALLOW syscall: ['flock'] } rule { action: ERRNO set: '@file-locks' }"),
     "seccomp.rule[2]: has no effect: rules that name its calls themselves"},
    {"foreign-call", RULES("rule { action: ALLOW syscall: ['read', 'socketcall'] }"),
     RULES("rule { action: ALLOW syscall: ['read', 'renameat'] }"),
     "syscall[1]: socketcall is a call of other architectures"},
    {"errno-odd", RULES("rule { action: ERRNO errno: '512' syscall: 'read' }"),
     RULES("rule { action: ERRNO errno: 'EIO' syscall: 'read' }"), "512 is no error that programs know"},
    {"errno-odd", RULES("rule { action: ERRNO errno: 'EINTR' syscall: 'read' }"), QUIET,
     "try the call again"},
    {"errno-odd",
     "name: 'test'\n" WORKSPACE "seccomp { default_action: ERRNO default_errno: '4000' rule { action: "
     "ALLOW set: '@execute' } }",
     QUIET, "seccomp.default_errno: 4000"},
    {"duplicate", RULES("rule { action: ALLOW syscall: ['read', 'write', 'read'] }"),
     RULES("rule { action: ALLOW syscall: ['read', 'write'] }"), "syscall[2]: read stands there already"},
    {"duplicate", QUIET "env_allow: ['TZ', 'LANG', 'TZ']", QUIET "env_allow: ['TZ', 'LANG']", "env_allow[2]"},
    /* Advice. */
    {"bare-number",
     RULES("rule { action: ALLOW syscall: 'prctl' condition { arg: 0 value: 15 } reason: 'x' }"),
     RULES("rule { action: ALLOW syscall: 'prctl' where { arg: option in: PR_SET_NAME } reason: 'x' }"),
     "0xf is PR_SET_NAME; where { arg: \"option\" in: \"PR_SET_NAME\" }"},
    {"bare-number",
     RULES("rule { action: ALLOW syscall: 'ioctl' where { arg: request in: ['TCGETS', 0x541b] } }"),
     RULES("rule { action: ALLOW syscall: 'ioctl' where { arg: request in: ['TCGETS', FIONREAD] } }"),
     "seccomp.rule[1].where[0].in[1]: 0x541b is FIONREAD"},
    {"bare-number", RULES("rule { action: ERRNO errno: '38' syscall: 'read' }"),
     RULES("rule { action: ERRNO errno: 'ENOSYS' syscall: 'read' }"), "38 is ENOSYS"},
    {"no-reason", RULES("rule { action: ALLOW syscall: 'read' }"),
     RULES("rule { action: ALLOW syscall: 'read' reason: 'x' }"), "seccomp.rule[1]: has no reason"},
    {"scratch-exec", QUIET,
     "name: 'test' mount { destination: '/workspace' scratch { directory: WORK } no_exec: true } " OPEN,
     "programs that the job writes to /workspace"},
    {"no-work",
     "name: 'test' mount { destination: '/tmp' scratch { directory: TMP } } working_directory: '/tmp' " OPEN,
     QUIET, "there is no scratch directory WORK"},
    /* Waivers. */
    {"waiver", QUIET "env_allow: 'PATH' lint_waive { rule: 'env-allow-loader' }",
     QUIET "env_allow: 'PATH' lint_waive { rule: 'env-allow-loader' reason: 'shells' }",
     "waives env-allow-loader without a reason"},
    {"waiver", QUIET "lint_waive { rule: 'env-allow-loder' reason: 'shells' }", QUIET,
     "no rule is called \"env-allow-loder\"; did you mean env-allow-loader?"},
    {"waiver", QUIET "lint_waive { rule: 'bind-writable' reason: 'shells' }", QUIET,
     "waives bind-writable, which is not found"},
    {"waiver",
     QUIET "env_allow: 'PATH' lint_waive { rule: 'env-allow-loader' about: 'HOME' reason: 'shells' }",
     QUIET "env_allow: 'PATH' lint_waive { rule: 'env-allow-loader' about: 'PATH' reason: 'shells' }",
     "waives env-allow-loader about HOME, which is not found"},
    {"env-allow-loader",
     QUIET "env_allow: ['PATH', 'LD_PRELOAD'] lint_waive { rule: 'env-allow-loader' about: 'PATH' "
           "reason: 'shells' }",
     QUIET "env_allow: ['PATH'] lint_waive { rule: 'env-allow-loader' about: 'PATH' reason: 'shells' }",
     "LD_PRELOAD"},
    /* What cannot be loaded is told of in the same way. */
    {"invalid", QUIET "mount { destination: '/a/b' tmpfs {} } mount { destination: '/a' tmpfs {} }", QUIET,
     "hides a mount that comes before it"},
    {"invalid", RULES("rule { action: ALLOW syscall: 'read' } rule { action: ERRNO syscall: 'read' }"), QUIET,
     "decides differently about the same calls"},
    {"invalid", QUIET "working_directory: '/nowhere'", QUIET, "lies on no mount"},
    {"invalid", RULES("rule { action: ERRNO errno: '0' syscall: 'read' }"), QUIET, "0: no such errno"},
    {"invalid", RULES("rule { action: ERRNO errno: '4096' syscall: 'read' }"), QUIET, "4096: no such errno"},
    {"invalid", LEAST "state: KERNEL", QUIET "state: KERNEL", "needs a filter that answers inotify_init1"},
};

static void test_findings(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct lint *bad = look(*state, rows[i].bad, true), *good = look(*state, rows[i].good, true);
        struct buf bad_text = said(bad), good_text = said(good);
        const struct lint_finding *finding = finding_of(bad, rows[i].rule);
        if (!finding || (rows[i].words && !strstr(bad_text.data, rows[i].words)) || !*finding->fix ||
            finding->line == 0 || finding->column == 0) {
            fail_msg("row %zu (%s): found \"%s\", expected \"%s\"", i, rows[i].rule, bad_text.data,
                     rows[i].words ? rows[i].words : rows[i].rule);
        }
        if (finding_of(good, rows[i].rule)) {
            fail_msg("row %zu (%s): found in the good one: %s", i, rows[i].rule, good_text.data);
        }
        buf_free(&bad_text);
        buf_free(&good_text);
        lint_free(bad);
        lint_free(good);
    }
}

/* The table above has a row for each rule but the one that needs an interpreter
 * (tests/jail/test_commands.py). */
static void test_every_rule_is_tested(void **state)
{
    (void)state;
    const struct lint_rule *rule;
    for (size_t i = 0; (rule = lint_rule_row(i)); i++) {
        bool tested = strcmp(rule->id, "preload-missing") == 0 || strcmp(rule->id, "use-default") == 0;
        for (size_t k = 0; k < ARRAY_SIZE(rows); k++) {
            tested |= strcmp(rows[k].rule, rule->id) == 0;
        }
        if (!tested) {
            fail_msg("no row for %s", rule->id);
        }
    }
}

/* What is shipped has nothing to be warned of, and nothing that is not waived with a reason. */
static void test_shipped(void **state)
{
    (void)state;
    static const char *const names[] = {"python", "python-kernel", "node",   "node-kernel",
                                        "bash",   "strict",        "isolate"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct lint *lint = look_at(names[i], true);
        CLEANUP(buf_free) struct buf text = said(lint);
        if (lint_count(lint) > 0) {
            /* Where Node or the like is not installed, what belongs to it is not there. */
            fail_msg("%s: %s", names[i], text.data);
        }
        lint_free(lint);
    }
}

static void assert_lines(struct world *world, const char *text, const char *const *lines, size_t n)
{
    struct lint *lint = look(world, text, false);
    CLEANUP(buf_free) struct buf found = said(lint);
    if (lint_count(lint) != n) {
        fail_msg("found %zu, expected %zu: %s", lint_count(lint), n, found.data);
    }
    for (size_t i = 0; i < n; i++) {
        CLEANUP(buf_free) struct buf line = BUF_INIT;
        lint_print_finding(lint_at(lint, i), &line);
        assert_int_equal(strncmp(line.data, world->path, strlen(world->path)), 0);
        if (strncmp(line.data + strlen(world->path), lines[i], strlen(lines[i])) != 0) {
            fail_msg("found \"%s\", expected \"%s\"", line.data, lines[i]);
        }
    }
    lint_free(lint);
}

/* A file with several mistakes is told of all of them, in the order of its lines. */
static void test_all_at_once(void **state)
{
    static const char *const reading[] = {
        ":2:1: Policy has no field \"hostnam\"; did you mean hostname? [invalid]",
        ":3:9: mount[0]: Mount has no field \"destinatio\"; did you mean destination? [invalid]",
        ":4:11: seccomp: Seccomp has no field \"actoin\"; ",
        ":4:44: seccomp.rule[0].action: SeccompAction has no value ALOW; did you mean ALLOW? [invalid]",
        ":5:10: limits: Limits has no field \"memori_bytes\"; did you mean memory_bytes? [invalid]",
        ":5:33: limits.pids: ",
    };
    assert_lines(*state,
                 "name: 'test'\n"
                 "hostnam: 'x' 'y'\n"
                 "mount { destinatio: [{a: 'b'}, <c: 1>] destination: '/a' tmpfs {} }\n"
                 "seccomp { actoin: { a: 2 }, rule { action: ALOW } }\n"
                 "limits { memori_bytes: -1 pids: 2MiB }\n",
                 reading, ARRAY_SIZE(reading));
    static const char *const checking[] = {
        ":2:22: mount[0].destination: must be an absolute path",
        ":3:22: mount[1].destination: must not be the root",
        ":5:17: rlimit[0].soft: must not be above the hard limit",
        ":6:16: limits.pids: must be 1 to ",
        ":6:32: limits.output_bytes: must be 1 to ",
    };
    assert_lines(*state,
                 "name: 'test'\n"
                 "mount { destination: 'a' tmpfs {} }\n"
                 "mount { destination: '/' tmpfs {} }\n"
                 "seccomp { rule { action: ALLOW syscall: 'read' } }\n"
                 "rlimit  { soft: 2 hard: 1 resource: STACK }\n"
                 "limits { pids: 0 output_bytes: 0 }\n",
                 checking, ARRAY_SIZE(checking));
    static const char *const names[] = {
        ":4:54: seccomp.rule[0].syscall[0]: reed: no such system call; did you mean read? [invalid]",
        ":4:62: seccomp.rule[0].syscall[1]: wriet: no such system call; did you mean write? [invalid]",
        ":4:76: seccomp.rule[0].set[0]: @thred: no such set; did you mean @thread? [invalid]",
    };
    assert_lines(*state,
                 "name: 'test'\n" WORKSPACE "\n"
                 "seccomp { rule { action: ALLOW reason: 'x' syscall: ['reed', 'wriet'] set: '@thred' } }\n",
                 names, ARRAY_SIZE(names));
    static const char *const parts[] = {
        ":2:7: use[0]: no policy or part \"pyton\" is shipped or lies beside this file; did you mean python? "
        "[invalid]",
        ":2:16: use[1]: no policy or part \"scrach\" is shipped or lies beside this file; did you mean "
        "scratch? "
        "[invalid]",
    };
    assert_lines(*state, "name: 'test'\nuse: ['pyton', 'scrach', 'limits']\n", parts, ARRAY_SIZE(parts));
    /* What is not known does not keep the rest from being looked at. */
    static const char *const both[] = {
        ":4:2: Policy has no field \"nam\"; ",
        ":5:12: env_allow[0]: PATH: decides which programs are run by name; take it out of env_allow "
        "[env-allow-loader]",
    };
    assert_lines(*state, QUIET " nam: 'x'\nenv_allow: 'PATH'\n", both, ARRAY_SIZE(both));
}

/* A finding in a file that is used is at its place there, with its name there. */
static void test_used_files(void **state)
{
    struct world *world = *state;
    char part[128], place[192];
    snprintf(part, sizeof part, "%s/opened.textproto", world->directory);
    write_file(
        part,
        "name: 'opened'\npart: true\nenv_allow: 'PATH'\nlint_waive { rule: 'capability' reason: 'x' }\n");
    struct lint *lint = look(world, QUIET "use: 'opened'\nenv_allow: ['LD_PRELOAD']\n", false);
    CLEANUP(buf_free) struct buf text = said(lint);
    assert_int_equal(lint_count(lint), 2);
    snprintf(place, sizeof place, "%s:5:13: env_allow[0]: LD_PRELOAD", world->path);
    assert_int_equal(strncmp(text.data, place, strlen(place)), 0);
    snprintf(place, sizeof place, "\n%s:3:12: env_allow[0]: PATH", part);
    assert_non_null(strstr(text.data, place));
    lint_free(lint);
    unlink(part);
}

/* Of two that are used one has a default that the other takes from it; who uses a policy changes it on
 * purpose. */
static void test_defaults_of_used_ones(void **state)
{
    struct world *world = *state;
    static const char *const names[] = {"one", "two", "three"};
    static const char *const texts[] = {
        ("name: 'one'" WORKSPACE "seccomp { rule { action: ALLOW set: '@execute' } }"),
        ("name: 'two' mount { destination: '/tmp' scratch { directory: TMP } } working_directory: '/tmp' "
         "seccomp { rule { action: ALLOW set: '@execute' } }\n limits { pids: 4 memory_bytes: 512MiB }"),
        "name: 'three' use: 'one' limits { pids: 5 }",
    };
    static const struct {
        const char *text;
        bool found;
    } cases[] = {
        {"name: 'test' use: ['one', 'two'] working_directory: '/tmp'", true},
        {"name: 'test' use: ['two', 'one'] working_directory: '/tmp'", true},
        {"name: 'test' use: ['two', 'one'] working_directory: '/tmp' limits { pids: 4 }", false},
        {"name: 'test' use: 'three'", false},
        {"name: 'test' use: 'two'", false},
    };
    char path[128], part[192];
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        snprintf(path, sizeof path, "%s/%s.textproto", world->directory, names[i]);
        write_file(path, texts[i]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct lint *lint = look(world, cases[i].text, false);
        CLEANUP(buf_free) struct buf text = said(lint);
        snprintf(part, sizeof part, "two.textproto:2:17: limits.pids: %s/one.textproto, which is used too",
                 world->directory);
        if (cases[i].found != (finding_of(lint, "use-default") != NULL) ||
            (cases[i].found && !strstr(text.data, part))) {
            fail_msg("case %zu: %s", i, text.data);
        }
        lint_free(lint);
    }
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        snprintf(path, sizeof path, "%s/%s.textproto", world->directory, names[i]);
        unlink(path);
    }
}

static void test_json_policy(void **state)
{
    struct world *world = *state;
    char path[128];
    snprintf(path, sizeof path, "%s/test.json", world->directory);
    write_file(path, "{\"name\": \"test\", \"a\": 1,\n \"b\": [],\n \"env_allow\": [\"PATH\"],\n "
                     "\"workingDirectory\": 5}");
    struct lint *lint = look_at(path, false);
    CLEANUP(buf_free) struct buf text = said(lint);
    assert_int_equal(lint_count(lint), 3);
    assert_non_null(strstr(text.data, "test.json:1:"));
    assert_non_null(strstr(text.data, "test.json:2:"));
    assert_non_null(strstr(text.data, "test.json:4:"));
    size_t n;
    struct err err = {0};
    assert_true(lint_fix(lint, &n, &err) < 0);
    assert_int_equal(err.kind, ERR_INVALID);
    lint_free(lint);
    unlink(path);
}

static void test_printed_json(void **state)
{
    struct world *world = *state;
    struct lint *lint = look(world, QUIET "env_allow: 'PATH'", false);
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    char expected[512];
    lint_print_json("mine", lint_at(lint, 0), &text);
    snprintf(expected, sizeof expected,
             "{\"policy\": \"mine\", \"file\": \"%s\", \"line\": 4, \"column\": 12, \"rule\": "
             "\"env-allow-loader\", "
             "\"severity\": \"warning\", \"field\": \"env_allow[0]\", \"about\": \"PATH\", \"message\": "
             "\"PATH: decides "
             "which programs are run by name\", \"fix\": \"take it out of env_allow\", \"fixable\": false}",
             world->path);
    assert_string_equal(text.data, expected);
    lint_free(lint);
}

/* What has one answer is changed where it stands; comments and layout stay. */
static void test_fix(void **state)
{
    struct world *world = *state;
    static const char before[] = "# A comment: 0x541b\n"
                                 "name: 'test'   # and \xc3\xa9 another\n" WORKSPACE "seccomp {\n"
                                 "  rule { action: ALLOW set: '@execute' }\n"
                                 "  rule { action: ALLOW syscall: 'ioctl' where { arg: request in: [0x5401, "
                                 "\"0x541b\", FIONBIO] } } # \xc3\xa9\n"
                                 "  rule { /* no such comment */ }\n"
                                 "}\n";
    static const char good[] =
        "# A comment: 0x541b\n"
        "name: 'test'   # and \xc3\xa9 another\n" WORKSPACE "env_allow: 'A'\n"
        "env_allow: 'B'   \n"
        "  env_allow: 'A'  \n"
        "env_allow: ['C', 'A',  # twice\n"
        "            'B']\n"
        "seccomp {\n"
        "  rule { action: ALLOW set: ['@execute', '@execute', '@basic-io'] }\n"
        "  rule { action: ALLOW syscall: 'ioctl' where { arg: request in: [0x5401, \"0x541b\", FIONBIO] } } "
        "# \xc3\xa9\n"
        "  rule { action: ERRNO errno: \"38\" syscall: ['read', 'write', 'read'] reason: '\xc3\xa9' }\n"
        "}\n";
    static const char after[] =
        "# A comment: 0x541b\n"
        "name: 'test'   # and \xc3\xa9 another\n" WORKSPACE "env_allow: 'A'\n"
        "env_allow: 'B'   \n"
        "env_allow: ['C',  # twice\n"
        "            'B']\n"
        "seccomp {\n"
        "  rule { action: ALLOW set: ['@execute', '@basic-io'] }\n"
        "  rule { action: ALLOW syscall: 'ioctl' where { arg: request in: [\"TCGETS\", \"FIONREAD\", "
        "FIONBIO] } } # \xc3\xa9\n"
        "  rule { action: ERRNO errno: \"ENOSYS\" syscall: ['read', 'write'] reason: '\xc3\xa9' }\n"
        "}\n";
    struct lint *lint = look(world, good, true);
    size_t n = 0;
    struct err err = {0};
    if (lint_fix(lint, &n, &err) < 0) {
        fail_msg("%s: %s", err.item, err.text);
    }
    lint_free(lint);
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    struct stat st;
    assert_int_equal(io_read_file_at(AT_FDCWD, world->path, 1 << 20, &text), 0);
    assert_string_equal(text.data, after);
    assert_int_equal(n, 7);
    assert_int_equal(stat(world->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    /* What does not load is not touched. */
    lint = look(world, before, true);
    assert_int_equal(lint_fix(lint, &n, &err), 0);
    assert_int_equal(n, 0);
    lint_free(lint);
    lint = look_at("python", true);
    assert_true(lint_fix(lint, &n, &err) < 0);
    lint_free(lint);
}

static void test_no_such_policy(void **state)
{
    (void)state;
    struct lint *lint = NULL;
    struct err err = {0};
    assert_true(lint_open("pyhton", &lint, &err) < 0);
    assert_non_null(strstr(err.text, "did you mean python?"));
    lint = look_at("./no-such-file", false);
    assert_int_equal(lint_count(lint), 1);
    assert_non_null(strstr(lint_at(lint, 0)->message, "cannot be read"));
    lint_free(lint);
}

static void test_lists(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf sets = BUF_INIT;
    policy_print_sets(&sets);
    assert_non_null(strstr(sets.data, "@basic-io: read, write and duplicate"));
    assert_non_null(strstr(sets.data, "@debug (never allowed by a shipped policy): "));
    assert_non_null(strstr(sets.data, "\n    ptrace process_vm_readv "));
    CLEANUP(buf_free) struct buf rules = BUF_INIT;
    lint_print_rules(&rules);
    assert_non_null(strstr(rules.data, "\nbind-missing       warning  The source of a bind"));
}

static int make_world(void **state)
{
    static struct world world;
    snprintf(world.directory, sizeof world.directory, "/tmp/immure-lint-XXXXXX");
    if (!mkdtemp(world.directory)) {
        return -1;
    }
    snprintf(world.path, sizeof world.path, "%s/test.textproto", world.directory);
    *state = &world;
    return 0;
}

static int end_world(void **state)
{
    struct world *world = *state;
    unlink(world->path);
    return rmdir(world->directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_findings),    cmocka_unit_test(test_every_rule_is_tested),
        cmocka_unit_test(test_shipped),     cmocka_unit_test(test_all_at_once),
        cmocka_unit_test(test_used_files),  cmocka_unit_test(test_defaults_of_used_ones),
        cmocka_unit_test(test_json_policy), cmocka_unit_test(test_printed_json),
        cmocka_unit_test(test_fix),         cmocka_unit_test(test_no_such_policy),
        cmocka_unit_test(test_lists),
    };
    return cmocka_run_group_tests(tests, make_world, end_world);
}
