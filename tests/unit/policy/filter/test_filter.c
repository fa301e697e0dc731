/* policy/filter/filter.c and seccomp.c: which rule decides, what is refused, and that the compiled filter
 * does exactly that: in an interpreter for every call and many arguments, and in the kernel for some. */
#include "jail/base/bpf_run.h"
#include "policy/filter/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/shipped.h"
#include "jail/plan/plan.h"
#include "policy/compiled.h"
#include "policy/filter/names.h"
#include "tests/unit/policy/answers.h"
#include "tests/unit/policy/helper.h"

#define X32_BIT 0x40000000

static struct policy *shipped(const char *name)
{
    const struct shipped_file *file = shipped_policy(name);
    assert_non_null(file);
    struct policy_spec *spec = NULL;
    struct policy *policy = NULL;
    struct err err = {0};
    if (policy_spec_decode_text(file->name, file->data, file->size, &spec, &err) < 0 ||
        policy_compile(spec, &policy, &err) < 0) {
        fail_msg("%s: %s: %s", name, err.item, err.text);
    }
    return policy;
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } rows[] = {
        {FILTER("rule { action: ALLOW syscall: 'opnat' }"),
         "seccomp rule 2 (opnat): no such system call; did you mean openat?"},
        {FILTER("rule { action: ALLOW set: '@basicio' }"),
         "seccomp rule 2 (@basicio): no such set; did you mean @basic-io?"},
        {FILTER("rule { action: ERRNO errno: 'EWHAT' syscall: 'read' }"),
         "seccomp rule 2 (EWHAT): no such errno"},
        {FILTER("rule { action: ERRNO errno: '0' syscall: 'read' }"), "no such errno"},
        {FILTER("rule { action: ERRNO errno: 'EACCESS' syscall: 'read' }"),
         "seccomp rule 2 (EACCESS): no such errno; did you mean EACCES?"},
        {FILTER("rule { action: ALLOW syscall: 'read' condition { arg: 0 value: 1 } condition { arg: 0 "
                "value: 2 } }"),
         "compared twice"},
        {FILTER("rule { action: ALLOW syscall: 'read' } rule { action: LOG syscall: 'read' }"),
         "seccomp rule 3 (read): rule 2 decides differently"},
        {FILTER("rule { action: ALLOW set: '@memory' } rule { action: LOG set: '@memory' }"),
         "decides differently"},
        {FILTER("rule { action: ERRNO errno: '1' syscall: 'read' } rule { action: ERRNO errno: '2' syscall: "
                "'read' }"),
         "decides differently"},
        {FILTER("rule { action: ALLOW syscall: 'read' } "
                "rule { action: ERRNO syscall: 'read' condition { arg: 0 value: 1 } }"),
         "decides differently"},
        {FILTER("rule { action: ALLOW syscall: 'read' condition { arg: 0 value: 1 } } "
                "rule { action: ERRNO syscall: 'read' condition { arg: 1 value: 1 } }"),
         "decides differently"},
        {FILTER("rule { action: ALLOW set: '@memory' condition { arg: 0 value: 1 } }"),
         "seccomp rule 2 (mmap): a rule with conditions names calls, not a set that has conditions of its "
         "own"},
        {"name: 'test'\n" WORKSPACE "seccomp { }", "execve is not allowed"},
        {"name: 'test'\n" WORKSPACE
         "seccomp { default_action: ALLOW rule { action: KILL_PROCESS set: '@execute' } }",
         "execve is not allowed"},
        {"name: 'test'\n" WORKSPACE
         "seccomp { rule { action: ALLOW syscall: 'execve' condition { arg: 0 value: 1 } } }",
         "execve is not allowed"},
        {"name: 'test'\n" WORKSPACE "seccomp { default_action: ERRNO default_errno: 'EX' }",
         "default_errno EX: no such errno"},
        {"name: 'test'\n" WORKSPACE "seccomp { default_action: ERRNO default_errno: 'ENOSIS' }",
         "seccomp default_errno ENOSIS: no such errno; did you mean ENOSYS?"},
        {"name: 'test'\n" WORKSPACE "seccomp { default_action: ALLOW architecture: 'vax' }",
         "architecture vax: no such"},
        {"name: 'test'\n" WORKSPACE "seccomp { default_action: ALLOW architecture: 'arch64' }",
         "seccomp architecture arch64: no such architecture; did you mean aarch64?"},
#ifdef __x86_64__
        {"name: 'test'\n" WORKSPACE "seccomp { default_action: ALLOW architecture: ['x86_64', 'x32'] }",
         "foreign ABI"},
        {"name: 'test'\n" WORKSPACE "seccomp { default_action: ALLOW architecture: ['x86_64', 'x86'] }",
         "foreign ABI"},
        {"name: 'test'\n" WORKSPACE "seccomp { default_action: ALLOW architecture: 'aarch64' }",
         "x86_64, is not among those"},
#endif
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        assert_policy_refused(rows[i].text, rows[i].words);
    }
}

/* Rules that name a call decide about it, whatever sets say; equal and weaker ones add nothing. */
static void test_who_decides(void **state)
{
    (void)state;
    CLEANUP(policy_freep)
    struct policy *policy =
        compile(FILTER("rule { action: ALLOW set: '@basic-io' }"
                       "rule { action: ALLOW set: '@basic-io' }"
                       "rule { action: ERRNO errno: 'EBADF' syscall: 'dup' }"
                       "rule { action: ALLOW syscall: 'lseek' condition { arg: 0 value: 3 } }"
                       "rule { action: ALLOW syscall: 'lseek' condition { arg: 0 value: 4 } }"
                       "rule { action: ALLOW syscall: 'lseek' condition { arg: 0 value: 4 } }"
                       "rule { action: LOG syscall: 'close' condition { arg: 0 value: 9 } }"
                       "rule { action: LOG syscall: 'close' }"
                       "rule { action: NOTIFY syscall: 'pipe2' }"
                       "rule { action: KILL_PROCESS syscall: 'ptrace' }"));
    assert_int_equal(answer(policy, SYS_read, 0, 0), SECCOMP_RET_ALLOW);
    assert_int_equal(answer(policy, SYS_dup, 0, 0), SECCOMP_RET_ERRNO | EBADF);
    assert_int_equal(answer(policy, SYS_lseek, 3, 0), SECCOMP_RET_ALLOW);
    assert_int_equal(answer(policy, SYS_lseek, 4, 0), SECCOMP_RET_ALLOW);
    assert_int_equal(answer(policy, SYS_lseek, 5, 0), SECCOMP_RET_USER_NOTIF);
    assert_int_equal(answer(policy, SYS_lseek, 3 | 1ull << 32, 0), SECCOMP_RET_USER_NOTIF);
    assert_int_equal(answer(policy, SYS_close, 1, 0), SECCOMP_RET_LOG);
    assert_int_equal(answer(policy, SYS_close, 9, 0), SECCOMP_RET_LOG);
    assert_int_equal(answer(policy, SYS_pipe2, 0, 0), SECCOMP_RET_USER_NOTIF);
    assert_int_equal(answer(policy, SYS_ptrace, 0, 0), SECCOMP_RET_KILL_PROCESS);
    assert_int_equal(answer(policy, SYS_mount, 0, 0), SECCOMP_RET_USER_NOTIF);
    assert_int_equal(answer(policy, 9999, 0, 0), SECCOMP_RET_USER_NOTIF);
    assert_true(policy->filter.notify);
}

static uint32_t answer_to_option(const struct policy *policy, uint64_t level, uint64_t option)
{
    struct seccomp_data data = {
        .nr = SYS_setsockopt, .arch = policy_native_arch(), .args = {3, level, option}};
    return bpf_run(policy->filter.instructions, policy->filter.length, &data);
}

/* A set that is allowed gives the arguments that it says, one that is denied leaves nothing; of a partial
 * one, both are about its arguments alone. */
static void test_conditions_of_sets(void **state)
{
    (void)state;
    CLEANUP(policy_freep)
    struct policy *allows =
        compile(FILTER("rule { action: ALLOW set: ['@network-local', '@thread'] } "
                       "rule { action: ERRNO errno: 'ENOSYS' set: '@priority-inheritance' }"));
    assert_int_equal(answer_to_option(allows, SOL_SOCKET, SO_KEEPALIVE), SECCOMP_RET_ALLOW);
    assert_int_equal(answer_to_option(allows, SOL_SOCKET, SO_ATTACH_FILTER), SECCOMP_RET_USER_NOTIF);
    assert_int_equal(answer_to_option(allows, 1ull << 32 | SOL_SOCKET, SO_ATTACH_FILTER),
                     SECCOMP_RET_USER_NOTIF);
    assert_int_equal(answer_to_option(allows, IPPROTO_TCP, SO_KEEPALIVE), SECCOMP_RET_USER_NOTIF);
    assert_int_equal(answer(allows, SYS_futex, 0, FUTEX_WAIT_PRIVATE), SECCOMP_RET_ALLOW);
    assert_int_equal(answer(allows, SYS_futex, 0, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME),
                     SECCOMP_RET_ALLOW);
    for (uint32_t operation = 0; operation < 16; operation++) {
        bool lends = operation == FUTEX_LOCK_PI || operation == FUTEX_UNLOCK_PI ||
                     operation == FUTEX_TRYLOCK_PI || (operation >= FUTEX_WAIT_REQUEUE_PI && operation <= 13);
        bool gone = operation == FUTEX_FD || operation > 13;
        assert_int_equal(answer(allows, SYS_futex, 0, operation), lends  ? SECCOMP_RET_ERRNO | ENOSYS
                                                                  : gone ? SECCOMP_RET_USER_NOTIF
                                                                         : SECCOMP_RET_ALLOW);
    }

    CLEANUP(policy_freep)
    struct policy *denies = compile("name: 'test'\n" WORKSPACE "seccomp { default_action: ALLOW "
                                    "rule { action: ERRNO errno: 'EACCES' set: '@network-local' } "
                                    "rule { action: ERRNO errno: 'ENOSYS' set: '@priority-inheritance' } }");
    assert_int_equal(answer_to_option(denies, SOL_SOCKET, SO_KEEPALIVE), SECCOMP_RET_ERRNO | EACCES);
    assert_int_equal(answer_to_option(denies, SOL_SOCKET, SO_ATTACH_FILTER), SECCOMP_RET_ERRNO | EACCES);
    assert_int_equal(answer(denies, SYS_futex, 0, FUTEX_LOCK_PI), SECCOMP_RET_ERRNO | ENOSYS);
    assert_int_equal(answer(denies, SYS_futex, 0, FUTEX_WAIT), SECCOMP_RET_ALLOW);
}

/* What is certain of a call of which not all arguments are known. */
static void test_allows(void **state)
{
    (void)state;
    CLEANUP(policy_freep)
    struct policy *policy = compile(FILTER(
        "rule { action: LOG syscall: 'close' }"
        "rule { action: ALLOW syscall: 'lseek' condition { arg: 0 value: 3 } condition { arg: 2 value: 1 } }"
        "rule { action: ALLOW syscall: 'lseek' condition { arg: 0 value: 4 } }"
        "rule { action: ERRNO syscall: 'lseek' condition { arg: 0 value: 5 } }"));
    const struct {
        const char *name;
        unsigned known;
        uint64_t first, third;
        bool allowed;
    } rows[] = {
        {"close", 0, 0, 0, true},    {"read", 7, 0, 0, false},  {"lseek", 0, 4, 0, false},
        {"lseek", 1, 4, 0, true},    {"lseek", 1, 3, 1, false}, {"lseek", 5, 3, 1, true},
        {"lseek", 5, 3, 2, false},   {"lseek", 4, 3, 1, false}, {"lseek", 1, 5, 0, false},
        {"no_such", 7, 0, 0, false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const uint64_t arguments[] = {rows[i].first, 0, rows[i].third, 0, 0, 0};
        assert_int_equal(policy_allows(policy, rows[i].name, rows[i].known, arguments), rows[i].allowed);
    }
    CLEANUP(policy_freep)
    struct policy *open = compile("name: 'test'\n" WORKSPACE "seccomp { default_action: ALLOW rule { action: "
                                  "NOTIFY syscall: 'lseek' condition { arg: 0 value: 3 } } }");
    const uint64_t third[] = {3, 0, 0, 0, 0, 0}, fourth[] = {4, 0, 0, 0, 0, 0};
    assert_true(policy_allows(open, "read", 0, third));
    assert_false(policy_allows(open, "lseek", 0, fourth)); /* whatever the first argument is: no */
    assert_false(policy_allows(open, "lseek", 1, third));
    assert_true(policy_allows(open, "lseek", 1, fourth));
}

static void test_locks_are_counted(void **state)
{
    (void)state;
    CLEANUP(policy_freep)
    struct policy *policy =
        compile(FILTER("default_action: ALLOW rule { action: COUNT syscall: 'fcntl' "
                       "condition { arg: 1 value: 7 } } "
                       "rule { action: NOTIFY syscall: 'fcntl' condition { arg: 1 value: 6 } }"));
    assert_int_equal(policy->filter.locks, JAIL_LOCK_SETLKW);
    assert_true(policy->filter.notify);
    assert_int_equal(answer(policy, SYS_fcntl, 0, 7), SECCOMP_RET_USER_NOTIF);
    assert_int_equal(answer(policy, SYS_fcntl, 0, 5), SECCOMP_RET_ALLOW);
    CLEANUP(policy_freep)
    struct policy *both =
        compile(FILTER("rule { action: COUNT syscall: 'flock' } rule { action: COUNT syscall: 'fcntl' "
                       "condition { arg: 1 op: MASKED_EQ mask: 0xfffffffe value: 6 } }"));
    assert_int_equal(both->filter.locks, JAIL_LOCK_ALL);
    CLEANUP(policy_freep)
    struct policy *by_set =
        compile(FILTER("rule { action: COUNT set: '@file-locks' } rule { action: ALLOW set: '@basic-io' }"));
    assert_int_equal(by_set->filter.locks, JAIL_LOCK_ALL);
    assert_int_equal(answer(by_set, SYS_fcntl, 0, F_SETLKW), SECCOMP_RET_USER_NOTIF);
    assert_int_equal(answer(by_set, SYS_fcntl, 0, F_SETFL), SECCOMP_RET_ALLOW);
    static const char *const refused[] = {
        "rule { action: COUNT syscall: 'read' }",
        "rule { action: COUNT set: '@file-read' }",
        "rule { action: COUNT syscall: 'fcntl' }",
        "rule { action: COUNT syscall: 'fcntl' condition { arg: 1 value: 5 } }",
        "rule { action: COUNT syscall: 'fcntl' condition { arg: 0 value: 6 } }",
        "rule { action: COUNT syscall: 'fcntl' condition { arg: 1 op: MASKED_EQ mask: 0xfe value: 6 } }",
        "rule { action: COUNT syscall: 'flock' condition { arg: 1 value: 2 } }",
        "default_action: COUNT",
    };
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "name: 'test'\n" WORKSPACE "seccomp { rule { action: ALLOW set: '@execute' }\n%s }",
                 refused[i]);
        assert_policy_refused(text, "COUNT is for");
    }
}

static void test_notify_is_known(void **state)
{
    (void)state;
    CLEANUP(policy_freep)
    struct policy *quiet =
        compile("name: 'test'\n" WORKSPACE "seccomp { default_action: ERRNO default_errno: 'ENOSYS' "
                "rule { action: ALLOW set: '@execute' } }");
    assert_false(quiet->filter.notify);
    assert_int_equal(answer(quiet, SYS_read, 0, 0), SECCOMP_RET_ERRNO | ENOSYS);
    CLEANUP(policy_freep)
    struct policy *one = compile("name: 'test'\n" WORKSPACE "seccomp { default_action: ALLOW "
                                 "rule { action: NOTIFY syscall: 'mount' } }");
    assert_true(one->filter.notify);
}

/* All entries of a rule's conditions with every comparison, against the kernel's order of bits. */
static void test_operators(void **state)
{
    (void)state;
    static const struct {
        const char *op;
        uint64_t holds[3], fails[3];
    } rows[] = {
        {"op: EQ value: 5", {5, 5, 5}, {4, 6, 5 | 1ull << 32}},
        {"op: NE value: 5", {4, 6, 5 | 1ull << 32}, {5, 5, 5}},
        {"op: LT value: 5", {0, 4, 4}, {5, 6, 1ull << 32}},
        {"op: LE value: 5", {0, 5, 5}, {6, UINT32_MAX, 1ull << 32}},
        {"op: GT value: 5", {6, 1ull << 32, UINT64_MAX}, {0, 4, 5}},
        {"op: GE value: 5", {5, 1ull << 32, UINT64_MAX}, {0, 4, 4}},
        {"op: MASKED_EQ mask: 0xf0 value: 0x50", {0x50, 0x5f, 0x1f00000050}, {0, 0x60, 0xf0}},
        {"op: EQ value: 0x100000005", {0x100000005, 0x100000005, 0x100000005}, {5, 1ull << 32, 0x200000005}},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char text[1024];
        snprintf(text, sizeof text, FILTER("rule { action: ALLOW syscall: 'read' condition { arg: 1 %s } }"),
                 rows[i].op);
        CLEANUP(policy_freep) struct policy *policy = compile(text);
        for (size_t n = 0; n < 3; n++) {
            assert_int_equal(answer(policy, SYS_read, 0, rows[i].holds[n]), SECCOMP_RET_ALLOW);
            assert_int_equal(answer(policy, SYS_read, 0, rows[i].fails[n]), SECCOMP_RET_USER_NOTIF);
        }
    }
}

/* Every number, and for each many arguments: the filter says what the rules say. */
static void test_shipped_filters_mean_their_rules(void **state)
{
    (void)state;
    static const char *const names[] = {"python", "strict", "node", "bash", "isolate"};
    srandom(7);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        CLEANUP(policy_freep) struct policy *policy = shipped(names[i]);
        for (int nr = -2; nr < 600; nr++) {
            for (int round = 0; round < 100; round++) {
                struct seccomp_data data = {.nr = nr, .arch = policy_native_arch()};
                for (size_t n = 0; n < SECCOMP_ARGS; n++) {
                    data.args[n] = interesting_argument(policy->spec);
                }
                uint32_t got = bpf_run(policy->filter.instructions, policy->filter.length, &data);
                uint32_t want = expected(policy, &data);
#ifdef __x86_64__
                /* Negative numbers have x32's bit; -1 is what a tracer leaves behind. */
                want = nr < -1 ? SECCOMP_RET_TRAP : want;
#endif
                if (got != want) {
                    fail_msg("%s: call %d: 0x%x, expected 0x%x", names[i], nr, got, want);
                }
            }
        }
    }
}

/* A policy serves every architecture: what only others have is skipped, in a rule as in a set. */
static void test_calls_of_other_architectures_are_skipped(void **state)
{
    (void)state;
    CLEANUP(policy_freep)
    struct policy *policy =
        compile(FILTER("rule { action: KILL_PROCESS syscall: ['_llseek', 'sync', 'cacheflush'] }"
                       "rule { action: ERRNO syscall: '_llseek' }"));
    assert_int_equal(answer(policy, SYS_sync, 0, 0), SECCOMP_RET_KILL_PROCESS);
    for (size_t i = 0; i < policy->filter.n_entries; i++) {
        assert_true(policy->filter.entries[i].nr >= 0);
    }
}

static void test_foreign_abis_end_the_program(void **state)
{
    (void)state;
    static const uint32_t foreign[] = {AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_S390, 0, UINT32_MAX};
    CLEANUP(policy_freep) struct policy *open = compile(LEAST);
    for (int nr = 0; nr < 600; nr++) {
        for (size_t i = 0; i < ARRAY_SIZE(foreign); i++) {
            struct seccomp_data data = {.nr = nr, .arch = foreign[i]};
            assert_int_equal(bpf_run(open->filter.instructions, open->filter.length, &data),
                             SECCOMP_RET_TRAP);
        }
#ifdef __x86_64__
        assert_int_equal(answer(open, nr | X32_BIT, 0, 0), SECCOMP_RET_TRAP);
#endif
        assert_int_equal(answer(open, nr, 0, 0), SECCOMP_RET_ALLOW);
    }
}

/* What the shipped filter must refuse, one by one, whatever its sets become. */
/* clang-format off */
static const char *const python_refused[] = {
    "unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "ptrace", "process_vm_readv",
    "process_vm_writev", "bpf", "perf_event_open", "io_uring_setup", "io_uring_enter", "userfaultfd",
    "keyctl", "add_key", "request_key", "kexec_load", "init_module", "finit_module", "quotactl", "swapon",
    "reboot", "clock_settime", "settimeofday", "name_to_handle_at", "open_by_handle_at", "fsopen",
    "fsmount", "move_mount", "open_tree", "mount_setattr", "memfd_secret", "memfd_create", "seccomp",
    "capset", "sethostname", "syslog", "pidfd_getfd", "kcmp", "shmget", "msgget", "semget", "splice",
    "vmsplice", "tee", "mbind", "move_pages", "setgroups", "sync", "fanotify_init", "lookup_dcookie",
    "process_madvise", "setxattr", "execveat", "preadv2", "pwritev2", "io_setup", "io_submit",
};
/* clang-format on */

static void test_python_refuses_calls(void **state)
{
    (void)state;
    CLEANUP(policy_freep) struct policy *python = shipped("python");
    for (size_t i = 0; i < ARRAY_SIZE(python_refused); i++) {
        int nr = policy_syscall_number(python_refused[i], NULL);
        assert_true(nr >= 0);
        uint32_t got = answer(python, nr, 0, 0);
        /* Quietly with an errno, or reported. */
        if (got != SECCOMP_RET_USER_NOTIF && (got & SECCOMP_RET_ACTION_FULL) != SECCOMP_RET_ERRNO) {
            fail_msg("%s is not refused", python_refused[i]);
        }
    }
}

static void test_python_refuses_arguments(void **state)
{
    (void)state;
    CLEANUP(policy_freep) struct policy *python = shipped("python");
    static const uint64_t namespaces[] = {CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                          CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET, CLONE_PARENT};
    for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++) {
        assert_int_equal(answer(python, SYS_clone, namespaces[i] | SIGCHLD, 0), SECCOMP_RET_USER_NOTIF);
    }
    assert_int_equal(answer(python, SYS_clone, SIGCHLD, 0), SECCOMP_RET_ALLOW);
    assert_int_equal(answer(python, SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0), SECCOMP_RET_ALLOW);
    assert_int_equal(answer(python, SYS_clone3, 0, 0), SECCOMP_RET_ERRNO | ENOSYS);
    /* TIOCSTI and TIOCLINUX, also with bits that the kernel does not look at. */
    assert_int_equal(answer(python, SYS_ioctl, 0, 0x5412), SECCOMP_RET_USER_NOTIF);
    assert_int_equal(answer(python, SYS_ioctl, 0, 0x5412 | 1ull << 32), SECCOMP_RET_USER_NOTIF);
    assert_int_equal(answer(python, SYS_ioctl, 0, 0x541c), SECCOMP_RET_USER_NOTIF);
    /* With such bits TCGETS is TCGETS. */
    assert_int_equal(answer(python, SYS_ioctl, 0, 0x5401 | 1ull << 32), SECCOMP_RET_ALLOW);
    static const uint64_t families[] = {AF_PACKET, AF_ALG,  AF_VSOCK, AF_BLUETOOTH, AF_XDP,
                                        AF_CAN,    AF_TIPC, AF_RDS,   AF_KEY};
    for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
        assert_int_equal(answer(python, SYS_socket, families[i], SOCK_DGRAM), SECCOMP_RET_USER_NOTIF);
    }
    assert_int_equal(answer(python, SYS_socket, AF_NETLINK, SOCK_RAW), SECCOMP_RET_ERRNO | EAFNOSUPPORT);
    assert_int_equal(answer(python, SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC), SECCOMP_RET_ALLOW);
    assert_int_equal(answer(python, SYS_socket, AF_INET6, SOCK_STREAM | SOCK_NONBLOCK), SECCOMP_RET_ALLOW);
    assert_int_equal(answer(python, SYS_socket, AF_INET, SOCK_RAW), SECCOMP_RET_USER_NOTIF);
    assert_int_equal(answer(python, SYS_socket, AF_INET, SOCK_DCCP), SECCOMP_RET_USER_NOTIF);
    assert_int_equal(answer(python, SYS_personality, 0x0040000, 0), SECCOMP_RET_USER_NOTIF);
    assert_int_equal(answer(python, SYS_prctl, PR_SET_MM, 0), SECCOMP_RET_USER_NOTIF);
    assert_int_equal(answer(python, SYS_prctl, PR_SET_SECCOMP, 0), SECCOMP_RET_USER_NOTIF);
    assert_int_equal(answer(python, SYS_prlimit64, 1, 0), SECCOMP_RET_USER_NOTIF);
    for (uint64_t resource = 0; resource < RLIM_NLIMITS; resource++) {
        uint32_t wanted = resource == RLIMIT_CORE ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ALLOW;
        assert_int_equal(answer(python, SYS_setrlimit, resource, 1), wanted);
        /* The kernel reads 32 bits. */
        assert_int_equal(answer(python, SYS_setrlimit, resource | 1ull << 32, 1), wanted);
    }
#ifdef SYS_mknod
    assert_int_equal(answer(python, SYS_mknod, 0, S_IFCHR | 0600), SECCOMP_RET_USER_NOTIF);
    assert_int_equal(answer(python, SYS_mknod, 0, S_IFIFO | 0600), SECCOMP_RET_ALLOW);
#endif
}

static void test_strict_refuses(void **state)
{
    (void)state;
    CLEANUP(policy_freep) struct policy *strict = shipped("strict");
    assert_int_equal(answer(strict, SYS_clone, SIGCHLD, 0), SECCOMP_RET_USER_NOTIF);
    assert_int_equal(answer(strict, SYS_clone, CLONE_VM | CLONE_THREAD, 0), SECCOMP_RET_ALLOW);
#ifdef SYS_fork
    assert_int_equal(answer(strict, SYS_fork, 0, 0), SECCOMP_RET_USER_NOTIF);
    assert_int_equal(answer(strict, SYS_vfork, 0, 0), SECCOMP_RET_USER_NOTIF);
#endif
    assert_int_equal(answer(strict, SYS_socket, AF_UNIX, SOCK_STREAM), SECCOMP_RET_USER_NOTIF);
    assert_int_equal(answer(strict, SYS_unshare, 0, 0), SECCOMP_RET_KILL_PROCESS);
    assert_int_equal(answer(strict, SYS_ptrace, 0, 0), SECCOMP_RET_KILL_PROCESS);
    assert_int_equal(answer(strict, SYS_execve, 0, 0), SECCOMP_RET_ALLOW);
    assert_int_equal(answer(strict, SYS_execveat, 0, 0), SECCOMP_RET_USER_NOTIF);
}

/* Runs `body` in a child under the policy's filter, in the kernel; returns the wait status. */
static int under_filter(const struct policy *policy, int (*body)(void))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct sock_fprog program = {.len = (unsigned short)policy->filter.length,
                                           .filter = policy->filter.instructions};
        signal(SIGSYS, SIG_DFL); /* cmocka handles it */
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
            syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0) {
            _exit(99);
        }
        _exit(body());
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* 0: the call failed with this errno. */
static int fails_with(long result, int code)
{
    return result == -1 && errno == code ? 0 : 1;
}

static int body_errno(void)
{
    return fails_with(syscall(SYS_dup, 0), EXDEV);
}

static int body_allowed(void)
{
    return syscall(SYS_getpid) > 0 ? 0 : 1;
}

static int body_argument_allowed(void)
{
    return syscall(SYS_lseek, -1, 0, 7) == -1 && errno == EBADF ? 0 : 1;
}

static int body_argument_refused(void)
{
    return fails_with(syscall(SYS_lseek, -1, 1, 7), EXDEV);
}

static int body_kill(void)
{
    syscall(SYS_getppid);
    return 0;
}

static int body_foreign(void)
{
#ifdef __x86_64__
    syscall(SYS_getpid | X32_BIT);
    return 0;
#else
    raise(SIGSYS);
    return 0;
#endif
}

static int body_int80(void)
{
#ifdef __x86_64__
    long result;
    /* getpid of i386, whose number is writev's here. */
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
    return 0;
#else
    raise(SIGSYS);
    return 0;
#endif
}

static int body_threads_without_clone3(void)
{
    return fails_with(syscall(SYS_clone3, NULL, 0), ENOSYS);
}

static void test_in_the_kernel(void **state)
{
    (void)state;
    CLEANUP(policy_freep)
    struct policy *policy =
        compile("name: 'test'\n" WORKSPACE "seccomp { default_action: ALLOW\n"
                "rule { action: ERRNO errno: 'EXDEV' syscall: 'dup' }"
                "rule { action: ERRNO errno: 'EXDEV' syscall: 'lseek' condition { arg: 1 value: 1 } "
                "condition { arg: 2 op: GE value: 7 } }"
                "rule { action: KILL_PROCESS syscall: 'getppid' } }");
    CLEANUP(policy_freep) struct policy *python = shipped("python");
    static const struct {
        int (*body)(void);
        bool python, killed;
    } rows[] = {
        {body_errno, false, false},
        {body_allowed, false, false},
        {body_argument_allowed, false, false},
        {body_argument_refused, false, false},
        {body_kill, false, true},
        {body_foreign, false, true},
        {body_int80, false, true},
        {body_allowed, true, false},
        {body_threads_without_clone3, true, false},
        {body_foreign, true, true},
    };
    if (prctl(PR_GET_SECCOMP) < 0) {
        skip(); /* a process that is emulated alone has no filters */
    }
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        int status = under_filter(rows[i].python ? python : policy, rows[i].body);
        if (rows[i].killed) {
            assert_true(WIFSIGNALED(status));
            /* Without IA32 emulation in the kernel the instruction itself is the fault. */
            assert_true(WTERMSIG(status) == SIGSYS ||
                        (rows[i].body == body_int80 && WTERMSIG(status) == SIGSEGV));
        } else {
            assert_true(WIFEXITED(status));
            assert_int_equal(WEXITSTATUS(status), 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_who_decides),
        cmocka_unit_test(test_conditions_of_sets),
        cmocka_unit_test(test_allows),
        cmocka_unit_test(test_locks_are_counted),
        cmocka_unit_test(test_notify_is_known),
        cmocka_unit_test(test_operators),
        cmocka_unit_test(test_shipped_filters_mean_their_rules),
        cmocka_unit_test(test_calls_of_other_architectures_are_skipped),
        cmocka_unit_test(test_foreign_abis_end_the_program),
        cmocka_unit_test(test_python_refuses_calls),
        cmocka_unit_test(test_python_refuses_arguments),
        cmocka_unit_test(test_strict_refuses),
        cmocka_unit_test(test_in_the_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
