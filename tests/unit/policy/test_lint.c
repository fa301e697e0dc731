/* policy/lint.c: each finding, and silence about what is shipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/policy/helper.h"

#define QUIET                                                                                                \
    "name: 'test'\n" WORKSPACE "seccomp { rule { action: ALLOW set: '@execute' reason: 'launch' } }\n"
#define RULES(rules)                                                                                         \
    "name: 'test'\n" WORKSPACE "seccomp { rule { action: ALLOW set: '@execute' reason: 'launch' } " rules    \
    " }\n"

static void test_findings(void **state)
{
    (void)state;
    static const struct {
        const char *text, *finding;
        bool strict;
    } rows[] = {
        {QUIET, NULL, false},
        {LEAST,
         "seccomp: default_action allows every call that no rule names, those of future kernels included\n",
         false},
        {QUIET "namespace: [USER, MOUNT, PID, IPC, UTS, CGROUP]",
         "namespace: without NET the program has the host's network", false},
        {QUIET "namespace: [USER, MOUNT, PID, NET, UTS, CGROUP]", "namespace: without IPC", false},
        {QUIET "namespace: [USER, MOUNT, PID, NET, IPC, CGROUP]", "namespace: without UTS", false},
        {QUIET "namespace: [USER, MOUNT, PID, NET, IPC, UTS]", "namespace: without CGROUP", false},
        {QUIET "capability: 'CAP_SYS_ADMIN'", "capability CAP_SYS_ADMIN: undoes the jail's mounts", false},
        {QUIET "capability: 'CAP_CHOWN'", NULL, false},
        {QUIET "mount { destination: '/h' bind { source: '/etc' } }", "mount /h: source /etc may hold keys",
         false},
        {QUIET "mount { destination: '/h' bind { source: '/run/docker.sock' } }", "is a socket", false},
        {QUIET "mount { destination: '/h' bind { source: '/root/.ssh' } }",
         "mount /h: source /root/.ssh may hold keys", false},
        {QUIET "mount { destination: '/h' bind { source: '/sys/fs/cgroup/a' } }",
         "mount /h: source /sys/fs/cgroup/a shows the limits of the host's services", false},
        {QUIET "mount { destination: '/h' bind { source: '/proc/1' } }", "/proc/1 shows the host's processes",
         false},
        {QUIET "mount { destination: '/h' bind { source: '/run/user/0/x' } }", "holds sockets", false},
        {QUIET "mount { destination: '/h' bind { source: '/dev/sda' } allow_devices: true }",
         "/dev/sda is or shows a device", false},
        {QUIET "mount { destination: '/h' bind { source: '/rooted' } }", NULL, false},
        {QUIET "mount { destination: '/h' bind { source: '/etc/ssl/certs' } }", NULL, false},
        {QUIET "mount { destination: '/h' bind { source: '/etc/ssl/private/a' } }",
         "holds keys of the host's", false},
        {QUIET "mount { destination: '/h' bind { source: '/srv' } read_only: false }",
         "mount /h: is writable", false},
        {QUIET "mount { destination: '/h' bind { source: '/srv' } allow_devices: true }",
         "mount /h: allow_devices on a tree that is not below /dev", false},
        {QUIET "mount { destination: '/h' bind { source: '/dev/null' } allow_devices: true }", NULL, false},
        {QUIET "mount { destination: '/t' tmpfs { size_bytes: 4096 } read_only: false }",
         "mount /t: without cgroup v2 what is written there is not counted as the job's memory", false},
        {QUIET "mount { destination: '/t' tmpfs { size_bytes: 4096 } }", NULL, false},
        {QUIET "mount { destination: '/proc' proc { subset_pid: false } }",
         "without subset_pid the program sees the host's memory", false},
        {QUIET "mount { destination: '/proc' proc { hidepid: false } }",
         "without hidepid the program sees PID 1", false},
        {QUIET "mount { destination: '/proc' proc {} }", NULL, false},
        {QUIET "env_allow: 'LD_PRELOAD'", "env_allow LD_PRELOAD: the dynamic linker loads what it names",
         false},
        {QUIET "env_allow: ['*', 'TZ']", NULL, false},
        {RULES("rule { action: ALLOW syscall: 'ptrace' }"),
         "seccomp rule 2: allows ptrace of @debug: ", false},
        {RULES("rule { action: ALLOW set: '@mount' }"), "seccomp rule 2: allows mount of @mount: ", false},
        {RULES("rule { action: KILL_PROCESS set: '@mount' reason: 'x' }"), NULL, false},
        {RULES("rule { action: ALLOW syscall: 'mount' condition { arg: 3 value: 4096 } }"),
         "seccomp: without Landlock: allows mount\n", false},
        {RULES("rule { action: ALLOW syscall: 'move_mount' }"),
         "seccomp: without Landlock: allows move_mount\n", false},
        {LEAST, "seccomp: without Landlock: allows mount\n", false},
        {RULES("rule { action: LOG syscall: 'ptrace' }"), "seccomp rule 2: allows ptrace of @debug: ", false},
        {RULES("rule { action: ALLOW syscall: 'clone3' }"),
         "seccomp rule 2: allows clone3: it makes user namespaces", false},
        {RULES("rule { action: LOG syscall: 'fcntl' }"),
         "seccomp rule 2: allows fcntl(F_NOTIFY): it tells when others read files\n", false},
        {RULES("rule { action: ALLOW syscall: 'clone' condition { arg: 0 op: MASKED_EQ mask: 0x7e020000 "
               "value: 0 } }"),
         NULL, false},
        /* One digit off. */
        {RULES("rule { action: ALLOW syscall: 'clone' condition { arg: 0 op: MASKED_EQ mask: 0x6e020000 "
               "value: 0 } }"),
         "seccomp rule 2: allows clone(CLONE_NEWUSER): it brings every capability back", false},
        {RULES("rule { action: ALLOW syscall: 'clone' condition { arg: 0 op: LT value: 0x20000000 } }"),
         "seccomp rule 2: allows clone(CLONE_NEWUSER)", false},
        /* The kernel reads 32 bits of the request, the condition 64. */
        {RULES("rule { action: ALLOW syscall: 'ioctl' condition { arg: 1 op: GT value: 0xffffffff } }"),
         "seccomp rule 2: allows ioctl(TIOCSTI): it types into the terminal", false},
        {RULES("rule { action: ALLOW syscall: 'setsockopt' condition { arg: 1 value: 1 } }"),
         "allows setsockopt(SOL_SOCKET, SO_ATTACH_FILTER): it takes from the host's limit of compiled "
         "filters",
         false},
        {RULES("rule { action: ALLOW syscall: 'bpf' condition { arg: 0 value: 0 } }"),
         "seccomp rule 2: allows bpf: it loads programs into the kernel\n", false},
        {LEAST, "seccomp default_action: allows mmap(MAP_HUGETLB): it takes from the host's pool", false},
        {RULES("rule { action: ALLOW syscall: 'clone' condition { arg: 0 op: MASKED_EQ mask: 0x10000000 "
               "value: 0 } }"),
         NULL, false},
        {RULES("rule { action: ERRNO errno: 'ENOSYS' syscall: 'clone3' }"), NULL, false},
        {RULES("rule { action: ALLOW syscall: 'ioctl' condition { arg: 1 op: NE value: 0x5412 } }"),
         "seccomp rule 2: condition on argument 1 compares 64 bits", false},
        {RULES("rule { action: ALLOW syscall: 'ioctl' condition { arg: 1 value: 0x5401 } }"), NULL, false},
        {"name: 'test'\n" WORKSPACE "seccomp { default_action: ALLOW rule { action: ERRNO syscall: 'ioctl' "
         "condition { arg: 1 value: 0x5412 } } }",
         "dodge it: use MASKED_EQ", false},
        {"name: 'test'\n" WORKSPACE "seccomp { default_action: ALLOW rule { action: ERRNO syscall: 'ioctl' "
         "condition { arg: 1 op: MASKED_EQ mask: 0xffffffffffffffff value: 0x5412 } } }",
         "dodge it: use MASKED_EQ with a mask of 32 bits", false},
        {RULES("rule { action: ALLOW syscall: 'read' }"), "seccomp rule 2: has no reason", true},
        {QUIET, "mount /workspace: programs that the job writes can be run", true},
        {"name: 'test' mount { destination: '/tmp' scratch { directory: TMP } no_exec: true } "
         "working_directory: '/tmp' "
         "seccomp { rule { action: ALLOW set: '@execute' reason: 'x' } }",
         "mount: no scratch directory WORK", true},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        CLEANUP(policy_freep) struct policy *policy = compile(rows[i].text);
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        int count = policy_lint(policy, rows[i].strict, &text);
        int lines = 0;
        for (const char *c = text.data; c && *c; c++) {
            lines += *c == '\n';
        }
        assert_int_equal(count, lines);
        if (!rows[i].finding && count != 0) {
            fail_msg("row %zu: unexpected: %s", i, text.data);
        }
        if (rows[i].finding && (count == 0 || !strstr(text.data, rows[i].finding))) {
            fail_msg("row %zu: found \"%s\", expected \"%s\"", i, count ? text.data : "", rows[i].finding);
        }
    }
}

/* What is shipped has nothing to be warned of; strict holds to the stricter rules too. */
static void test_shipped(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool strict;
    } rows[] = {{"python", false}, {"python-kernel", false}, {"strict", false}, {"strict", true},
                {"node", false},   {"bash", false},          {"isolate", false}};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        CLEANUP(policy_freep) struct policy *policy = NULL;
        assert_int_equal(policy_resolve(rows[i].name, &policy, NULL), 0);
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        if (policy_lint(policy, rows[i].strict, &text) != 0) {
            fail_msg("%s: %s", rows[i].name, text.data);
        }
    }
}

static void test_sets_are_printed(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    policy_print_sets(&text);
    assert_non_null(strstr(text.data, "@basic-io: read, write and duplicate"));
    assert_non_null(strstr(text.data, "@debug (never allowed by a shipped policy): "));
    assert_non_null(strstr(text.data, "\n    ptrace process_vm_readv "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_findings),
        cmocka_unit_test(test_shipped),
        cmocka_unit_test(test_sets_are_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
