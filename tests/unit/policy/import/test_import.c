/* Imports: what the policy that comes out allows, what is said about the rest, and what is refused, with its
 * line. */
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "tests/unit/policy/helper.h"

#include "policy/import/import.h"

struct answer {
    const char *call;
    uint64_t arguments[6];
    bool allowed;
};

static int import(const char *format, const char *text, bool with_libc, struct buf *ret,
                  struct buf *ret_notes, struct err *reterr)
{
    const struct import_request request = {.format = import_format_find(format),
                                           .path = "Some.File.cfg",
                                           .text = text,
                                           .size = strlen(text),
                                           .with_libc = with_libc,
                                           .alone = true};
    return policy_import(&request, ret, ret_notes, reterr);
}

static void assert_has(const char *text, const char *words, bool wanted)
{
    if (words && (strstr(text, words) != NULL) != wanted) {
        fail_msg("%s \"%s\":\n%s", wanted ? "expected" : "did not expect", words, text);
    }
}

static const struct {
    const char *format, *text;
    const char *words[4], *notes[3], *not_there;
    struct answer answers[8];
} rows[] = {
    /* Kafel: constants, names for arguments, what is used, the first rule that holds. */
    {"nsjail",
     "#define OUT 1\n/* a\n comment */ POLICY p { ALLOW { write(fd, b, n) { fd == OUT || (fd == 2 && n < 8) "
     "} } }\n"
     "USE p DEFAULT KILL",
     {"syscall: \"write\" where { arg: \"0\" in: \"1\" }"},
     {"not covered: KILL: ends the whole program", "suggested: "},
     NULL,
     {{"write", {1, 0, 99}, true},
      {"write", {2, 0, 7}, true},
      {"write", {2, 0, 8}, false},
      {"read", {0}, false},
      {"execve", {0}, true}}},
    {"nsjail",
     "ERRNO(1) { socket { family == 16 } } ALLOW { socket, mmap { (prot & 4) == 0 }, newstat, newfstat, open "
     "} DEFAULT "
     "ERRNO(38)",
     {"where { arg: \"family\" in: \"AF_NETLINK\" }", "none_of: [\"PROT_EXEC\"]",
      "default_errno: \"ENOSYS\""},
     {NULL},
     NULL,
     {{"socket", {AF_NETLINK}, false},
      {"socket", {AF_NETLINK | UINT64_C(1) << 32}, false},
      {"socket", {AF_UNIX}, true},
      {"mmap", {0, 1, PROT_READ}, true},
      {"mmap", {0, 1, PROT_EXEC}, false}}},
#ifdef __x86_64__
    /* Kafel's names for some calls, and the names that C libraries use now. */
    {"nsjail",
     "ALLOW { newstat, newfstat, open, read ON x86_64, write ON { arm, mips64 } }",
     {"\"newfstatat\""},
     {"write ON ...: for another architecture"},
     NULL,
     {{"stat", {0}, true},
      {"newfstatat", {0}, true},
      {"openat", {0}, true},
      {"read", {0}, true},
      {"write", {0}, false}}},
#endif
    /* What two rules say in part is not joined to what nobody could tell apart. */
    {"nsjail",
     "ALLOW { read { fd == 0, fd == 1 } } ERRNO(9) { read } DEFAULT KILL_PROCESS",
     {"errno: \"EBADF\" syscall: \"read\" where { arg: \"0\" not_in: [\"0\", \"1\"] }"},
     {NULL},
     NULL,
     {{"read", {1}, true}, {"read", {2}, false}}},
    /* Two arguments compared with each other: narrower, and said so. */
    {"nsjail",
     "ALLOW { write { fd == count }, close } KILL_PROCESS { lseek { fd != offset } } DEFAULT ALLOW",
     {"\"lseek\""},
     {"write: its condition cannot be said here: it is not allowed by it",
      "lseek: its condition cannot be said here: it is denied whole"},
     NULL,
     {{"lseek", {1, 1}, false}, {"close", {0}, true}}},
    /* Where the rest is allowed, our own list takes that place, less what is denied. */
    {"nsjail",
     "KILL_PROCESS { ptrace, sched_yield } ERRNO(1) { clone { (clone_flags & 0x4000) == 0x4000 } } DEFAULT "
     "ALLOW",
     {"use: [\"debian\", \"scratch\", \"limits\", \"processes\", \"sockets\"]", "syscall: [\"clone\"] }",
      "The source allows every call"},
     {NULL},
     NULL,
     {{"ptrace", {0}, false},
      {"sched_yield", {0}, false},
      {"clone", {CLONE_VM}, true},
      {"clone", {CLONE_VM | CLONE_VFORK}, false},
      {"clone", {CLONE_NEWUSER}, false},
      {"mount", {0}, false},
      {"read", {0}, true}}},
    /* nsjail's configuration. */
    {"nsjail",
     "name: 'My App' cwd: '/data' time_limit: 5 envar: 'A=\"b\"' envar: 'TERM' uidmap { inside_id: '0' } "
     "gidmap { "
     "inside_id: '7' }\nmount { src: '/usr' dst: '/usr' is_bind: true } mount { dst: '/data' fstype: 'tmpfs' "
     "rw: true }\n"
     "mount { dst: '/etc/x' src_content: 'hi\\n' } mount < dst: '/tmp/' fstype: 'tmpfs' rw: true >\n"
     "rlimit_nofile: 64 rlimit_cpu_type: INF cgroup_mem_max: 33554432 cap: 'CAP_SYS_ADMIN' macvlan_iface: "
     "'eth0'\n"
     "exec_bin { path: '/usr/bin/x' arg: '-v' } seccomp_string: 'ALLOW { read, write }' seccomp_string: "
     "'DEFAULT KILL'",
     {"name: \"my-app\"", "mount { destination: \"/data\" scratch { directory: WORK } }", "gid: 7",
      "memory_bytes: 33554432"},
     {"exec_bin /usr/bin/x -v: ", "capability CAP_SYS_ADMIN: not given",
      "macvlan_iface: a jail has no interface"},
     "resource: CPU",
     {{"read", {0}, true}, {"lseek", {0}, false}}},
    {"nsjail",
     "cwd: '/tmp' mount { dst: '/tmp' fstype: 'tmpfs' rw: true options: 'size=7,mode=1' } mount { dst: "
     "'/proc' fstype: "
     "'proc' rw: true }\nuse_core_scheduling: true iface_no_lo: true seccomp_string: 'DEFAULT LOG'",
     {"core_sharing: IF_OFFERED", "scratch { directory: TMP }", "without { mount: [\"/proc\"]"},
     {"mount /tmp: size=7,mode=1: ", "mount /proc: rw: ", "default action LOG: "},
     "loopback",
     {{"read", {0}, true}, {"ptrace", {0}, false}}},
    /* Docker's profiles. */
    {"docker",
     "{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"defaultErrnoRet\": 1, \"syscalls\": [\n"
     "{\"names\": [\"read\", \"clone3\", \"mmap2\"], \"action\": \"SCMP_ACT_ALLOW\"},\n"
     "{\"names\": [\"mount\"], \"action\": \"SCMP_ACT_ALLOW\", \"includes\": {\"caps\": "
     "[\"CAP_SYS_ADMIN\"]}},\n"
     "{\"names\": [\"lseek\"], \"action\": \"SCMP_ACT_ALLOW\", \"includes\": {\"minKernel\": \"99.1\"}},\n"
     "{\"names\": [\"close\"], \"action\": \"SCMP_ACT_ALLOW\", \"includes\": {\"minKernel\": \"4.8\"}, "
     "\"excludes\": {\"caps\": [\"CAP_SYS_ADMIN\"]}},\n"
     "{\"names\": [\"clone\"], \"action\": \"SCMP_ACT_ALLOW\", \"args\": [{\"index\": 0, \"value\": "
     "2114060288, "
     "\"op\": \"SCMP_CMP_MASKED_EQ\"}]},\n"
     "{\"names\": [\"personality\"], \"action\": \"SCMP_ACT_ALLOW\", \"args\": [{\"index\": 0, \"value\": 0, "
     "\"op\": "
     "\"SCMP_CMP_EQ\"}, {\"index\": 0, \"value\": 8, \"op\": \"SCMP_CMP_EQ\"}]},\n"
     "{\"names\": [\"clone3\"], \"action\": \"SCMP_ACT_ERRNO\", \"errnoRet\": 38}]}",
     {"none_of: [\"CLONE_NEWNS\"", "in: [\"PER_LINUX\", \"PER_LINUX32\"]"},
     {"CAP_SYS_ADMIN: what the profile gives", "mmap2: no system call of this architecture"},
     "\"clone3\"",
     {{"read", {0}, true},
      {"mount", {0}, false},
      {"lseek", {0}, false},
      {"close", {0}, true},
      {"clone", {CLONE_VM}, true},
      {"clone", {CLONE_NEWNET}, false},
      {"personality", {8}, true},
      {"clone3", {0}, false}}},
    {"oci",
     "{\"ociVersion\": \"1.0\", \"process\": {}, \"linux\": {\"devices\": [], \"seccomp\": "
     "{\"defaultAction\": "
     "\"SCMP_ACT_KILL\", \"syscalls\": [{\"names\": [\"socket\"], \"action\": \"SCMP_ACT_ALLOW\", \"args\": "
     "[{\"index\": 0, "
     "\"value\": 40, \"op\": \"SCMP_CMP_NE\"}]}]}}}",
     {"not_in: [\"AF_VSOCK\"]"},
     {"process, linux.devices: no counterpart"},
     NULL,
     {{"socket", {40}, false}, {"socket", {40 | UINT64_C(1) << 32}, false}, {"socket", {AF_UNIX}, true}}},
    /* minijail. */
    {"minijail",
     "# a comment\n@frequency ./x\nread: 1\nwrite: arg0 == 1 || arg0 == 2; return EBADF\nmmap: arg2 in "
     "~PROT_EXEC || \\\n"
     "  arg2 in ~PROT_WRITE\nptrace: return EPERM\n{dup, dup3}: allow\nwrite: 1\nsocket: arg0 == AF_UNIX && "
     "arg1 & 0x1\n",
     {"errno: \"EBADF\" syscall: \"write\"", "none_of: [\"PROT_EXEC\"]",
      "errno: \"EPERM\"\n    syscall: [\"ptrace\"]"},
     {"@frequency: an order for speed", "write: is there twice"},
     NULL,
     {{"read", {0}, true},
      {"write", {2}, true},
      {"write", {3}, false},
      {"mmap", {0, 0, PROT_READ | PROT_EXEC}, true},
      {"mmap", {0, 0, PROT_WRITE | PROT_EXEC}, false},
      {"dup3", {0}, true},
      {"socket", {AF_UNIX, SOCK_STREAM}, true},
      {"socket", {AF_UNIX, SOCK_DGRAM}, false}}},
    /* systemd. */
    {"systemd",
     "[Unit]\nDescription=A "
     "test\nAfter=x\n[Service]\nExecStart=/usr/bin/true\nSystemCallFilter=@system-service\n"
     "SystemCallFilter=~@resources "
     "sched_yield:EAGAIN\nSystemCallErrorNumber=EPERM\nMemoryMax=64M\nTasksMax=5\n"
     "LimitNOFILE=64:128\nRuntimeMaxSec=1min 30s\nEnvironment=A=b \"C=d e\" "
     "HOME=/x\nBindReadOnlyPaths=-/opt:/opt\n"
     "RestrictAddressFamilies=AF_UNIX\nMemoryDenyWriteExecute=yes\nProtectSystem=strict\nPrivateNetwork="
     "no\nUser=www\n"
     "Restart=always\n[Install]\nWantedBy=x\n",
     {"memory_bytes: 67108864 pids: 5 timeout_ms: 90000", "env { name: \"C\" value: \"d e\" }",
      "env: [\"HOME\"] rlimit: [NOFILE]", "errno: \"EAFNOSUPPORT\""},
     {"PrivateNetwork=no: a jail has no network", "User=www: ", "Restart=: no counterpart"},
     "ProtectSystem",
     {{"read", {0}, true},
      {"setpriority", {0}, false},
      {"sched_yield", {0}, false},
      {"socket", {AF_UNIX}, true},
      {"socket", {AF_INET}, false},
      {"mmap", {0, 0, PROT_READ}, true},
      {"mmap", {0, 0, PROT_WRITE | PROT_EXEC}, false},
      {"mount", {0}, false}}},
    {"systemd",
     "[Service]\nSystemCallFilter=~@clock @mount "
     "sync:ENOSYS\nSystemCallFilter=~@unknown\nRestrictAddressFamilies=~AF_NOTHING\nRestrictNamespaces=yes\n",
     {"action: ERRNO errno: \"ENOSYS\"\n    syscall: [\"sync\"]"},
     {"SystemCallFilter=@unknown: no group of calls", "RestrictAddressFamilies=AF_NOTHING: no family"},
     NULL,
     {{"mount", {0}, false},
      {"clock_settime", {0}, false},
      {"read", {0}, true},
      {"clone", {CLONE_VM}, true},
      {"clone", {CLONE_NEWUSER}, false},
      {"unshare", {0}, false}}},
};

static void test_imports(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        CLEANUP(buf_free) struct buf notes = BUF_INIT;
        struct err err = {0};
        if (import(rows[i].format, rows[i].text, false, &text, &notes, &err) < 0) {
            fail_msg("row %zu is refused: %s: %s", i, err.item, err.text);
        }
        for (size_t n = 0; n < ARRAY_SIZE(rows[i].words); n++) {
            assert_has(text.data, rows[i].words[n], true);
        }
        for (size_t n = 0; n < ARRAY_SIZE(rows[i].notes); n++) {
            assert_has(notes.data ? notes.data : "", rows[i].notes[n], true);
        }
        assert_has(text.data, rows[i].not_there, false);
        CLEANUP(policy_freep) struct policy *policy = compile(text.data);
        for (size_t n = 0; n < ARRAY_SIZE(rows[i].answers) && rows[i].answers[n].call; n++) {
            const struct answer *answer = &rows[i].answers[n];
            if (policy_allows_call(policy, answer->call, answer->arguments) != answer->allowed) {
                fail_msg("row %zu: answer %zu about %s is wrong:\n%s", i, n, answer->call, text.data);
            }
        }
    }
}

/* What is suggested is given where it is asked for, and not otherwise. */
static void test_with_libc(void **state)
{
    static const uint64_t none[6] = {0};
    (void)state;
    for (int with = 0; with <= 1; with++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        CLEANUP(buf_free) struct buf notes = BUF_INIT;
        struct err err = {0};
        assert_int_equal(import("minijail", "read: 1\n", with, &text, &notes, &err), 0);
        CLEANUP(policy_freep) struct policy *policy = compile(text.data);
        assert_int_equal(policy_allows_call(policy, "rseq", none), with);
        assert_int_equal(policy_allows_call(policy, "brk", none), with);
        assert_false(policy_allows_call(policy, "ptrace", none));
        assert_has(notes.data ? notes.data : "", "brk", !with);
    }
}

static void test_refused(void **state)
{
    static const struct {
        const char *format, *text, *item, *words;
    } bad[] = {
        {"nsjail", "ALLOW { read }\nDEFAULT\nWHATEVER", "Some.File.cfg:3", "an action"},
        {"nsjail", "ALLOW {\n write { buffer == 1 } }", "Some.File.cfg:2", "a known argument"},
        {"nsjail", "#include \"x\"\n", "Some.File.cfg:1", "includes x"},
        {"nsjail", "USE nothing", "Some.File.cfg:1", "the name of a policy above"},
        {"nsjail", "KILL { execve } DEFAULT ALLOW", "Some.File.cfg", "denies execve"},
        {"nsjail", "/* no end", "Some.File.cfg:1:1", ""},
        {"nsjail", "name: 'x'\nmount { dst: '/a' size: 3 }", "Some.File.cfg:2", "size: no field of a mount"},
        {"nsjail", " {\"name\": 1}", "Some.File.cfg:1:2", "is JSON"},
        {"nsjail", "rlimit_as: many", "Some.File.cfg:1", "rlimit_as: must be a number"},
        {"nsjail", "name: 'x'\n\nseccomp_string: 'ALLOW { read'\nseccomp_string: ', 5 }'", "Some.File.cfg:4",
         "the name of a system call"},
        {"docker", "{\"defaultAction\": \"SCMP_ACT_MAYBE\"}", "Some.File.cfg:1", "no action of seccomp"},
        {"docker",
         "{\"defaultAction\": \"SCMP_ACT_ERRNO\",\n\"syscalls\": [\n{\"names\": 3, \"action\": "
         "\"SCMP_ACT_ALLOW\"}]}",
         "Some.File.cfg:3", "names: must be a list"},
        {"docker", "{", "Some.File.cfg:1:2", ""},
        {"oci", "{}", "Some.File.cfg:1", "neither defaultAction nor linux.seccomp"},
        {"oci", "{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"architectures\": [\"SCMP_ARCH_M68K\"]}",
         "Some.File.cfg:1", "this machine's is not among them"},
        {"minijail", "read: 1\nwrite: arg9 == 1\n", "Some.File.cfg:2", "arg0 to arg5"},
        {"minijail", "read: arg0 == SOMETHING\n", "Some.File.cfg:1", "neither a number nor a constant"},
        {"minijail", "\n\nread 1\n", "Some.File.cfg:3", "':' is missing"},
        {"systemd", "[Service]\nMemoryMax=lots\n", "Some.File.cfg:2", "MemoryMax=: a number"},
        {"systemd", "[Service]\nEnvironment=A\n", "Some.File.cfg:2", "Environment=: NAME=VALUE"},
        {"systemd", "[Service]\nSystemCallFilter=read:EWHAT\n", "Some.File.cfg:2",
         "SystemCallFilter=: an error"},
        {"systemd", "[Service]\n\nnonsense\n", "Some.File.cfg:3", "KEY=VALUE"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        CLEANUP(buf_free) struct buf notes = BUF_INIT;
        struct err err = {0};
        assert_true(import(bad[i].format, bad[i].text, false, &text, &notes, &err) < 0);
        assert_int_equal(err.kind, ERR_CONFIG);
        assert_int_equal(text.len, 0);
        if (strcmp(err.item, bad[i].item) != 0 || !strstr(err.text, bad[i].words)) {
            fail_msg("row %zu: %s: %s", i, err.item, err.text);
        }
    }
}

/* Much of anything is refused or imported, soon, and never more than can be held. */
static void test_much(void **state)
{
    static const struct {
        const char *format, *before, *again, *behind;
    } much[] = {
        {"nsjail", "ALLOW { write { ", "(", ""},
        {"nsjail", "ALLOW { write { ", "!", "1 } }"},
        {"nsjail", "ALLOW { write { fd == 0", " || fd == 7 && count > 12345", " } }"},
        {"nsjail", "ALLOW { read", ", write { fd != 3 }", " } DEFAULT KILL"},
        {"nsjail", "", "mount { ", ""},
        {"nsjail", "", "seccomp_string: 'ALLOW { read }'\n", ""},
        {"nsjail", "", "mount { dst: '/a' }\n", ""},
        {"minijail", "read: arg0 == ", "(", "1"},
        {"minijail", "read: arg0 == ", "~", "1"},
        {"minijail", "", "read: 1\n", ""},
        {"systemd", "[Service]\n", "SystemCallFilter=a b c d e f\n", ""},
        {"systemd", "[Service]\n", "X=\\\n", ""},
        {"docker", "", "[", ""},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(much); i++) {
        CLEANUP(buf_free) struct buf source = BUF_INIT;
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        CLEANUP(buf_free) struct buf notes = BUF_INIT;
        struct err err = {0};
        buf_puts(&source, much[i].before);
        for (unsigned n = 0; n < 3000; n++) {
            buf_puts(&source, much[i].again);
        }
        buf_puts(&source, much[i].behind);
        assert_false(source.failed);
        int r = import(much[i].format, source.data, false, &text, &notes, &err);
        assert_true(r == 0 ? text.len > 0 : err.kind == ERR_CONFIG);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_imports),
        cmocka_unit_test(test_with_libc),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
