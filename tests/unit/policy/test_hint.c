/* Rules that would allow what was denied: they are put into a policy here, which must then allow it and all
 * that it allowed before. */
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "tests/unit/policy/helper.h"

#include "policy/filter/syscall_sets.h"
#include "policy/hint.h"
#include "policy/known_bad.h"

struct call {
    const char *name;
    uint64_t arguments[6];
};

static void hint_for(const struct call *call, uint64_t count, struct buf *ret)
{
    policy_hint(policy_native_arch(), policy_syscall_number(call->name, NULL), call->arguments, count, ret);
}

/* All sets that are no danger, with locks that are counted. */
static struct policy *policy_with(const char *rules)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    buf_puts(&text, "name: 'test'\n" WORKSPACE "seccomp { default_action: NOTIFY\n"
                    "rule { action: COUNT set: '@file-locks' }\nrule { action: ALLOW set: [");
    bool more = false;
    for (const struct syscall_row *set = syscall_sets(); set->name; set++) {
        if (set->reason && set->kind == SET_SAFE) {
            buf_printf(&text, "%s'%s'", more ? ", " : "", set->name);
            more = true;
        }
    }
    buf_printf(&text, "] }\n%s}\n", rules);
    return compile(text.data);
}

/* The lines that are rules. */
static void rules_of(const char *hint, struct buf *ret)
{
    buf_append(ret, "", 0);
    for (const char *line = hint; *line; line += strcspn(line, "\n") + 1) {
        if (*line == ' ') {
            buf_append(ret, line, strcspn(line, "\n") + 1);
        }
    }
}

static void test_rules_allow_the_call(void **state)
{
    (void)state;
    static const struct call calls[] = {
        {"ioctl", {3, TIOCNOTTY}},
        {"ioctl", {3, 0xdeadbeef}},
        {"prctl", {PR_SET_THP_DISABLE, 1}},
        {"socket", {AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC}},
        {"socket", {AF_INET6, SOCK_DGRAM, IPPROTO_UDP}},
        {"clone", {CLONE_VM | CLONE_VFORK | SIGCHLD}},
        {"prlimit64", {0, RLIMIT_STACK}},
        {"setrlimit", {RLIMIT_NOFILE}},
        {"mknodat", {3, 0, S_IFIFO | 0600}},
        {"personality", {UINT32_MAX}},
        {"setsockopt", {3, IPPROTO_TCP, TCP_ULP}},
        {"setsockopt", {3, SOL_SOCKET, SO_PRIORITY}},
        {"madvise", {0, 4096, MADV_MERGEABLE}},
        {"membarrier", {1}},
        {"futex", {0, FUTEX_LOCK_PI | FUTEX_PRIVATE_FLAG}},
        {"clock_nanosleep", {CLOCK_PROCESS_CPUTIME_ID}},
        {"sendmsg", {3, 0, MSG_OOB}},
        {"fcntl", {3, 1000}},
        {"mlockall", {0}},
        {"execveat", {0}},
        {"clock_gettime", {77}},
    };
    static const struct call before[] = {
        {"setsockopt", {3, SOL_SOCKET, SO_KEEPALIVE}},
        {"setsockopt", {3, IPPROTO_TCP, TCP_NODELAY}},
        {"madvise", {0, 4096, MADV_FREE}},
        {"madvise", {0, 4096, 102}},
        {"fcntl", {3, F_GETFL}},
        {"fcntl", {3, F_SETPIPE_SZ, 0x10000}},
        {"futex", {0, FUTEX_WAKE}},
        {"clock_nanosleep", {CLOCK_BOOTTIME}},
        {"membarrier", {8}},
        {"sendmsg", {3, 0, MSG_NOSIGNAL}},
        {"clock_gettime", {CLOCK_REALTIME}},
    };
    for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
        CLEANUP(buf_free) struct buf hint = BUF_INIT;
        CLEANUP(buf_free) struct buf rules = BUF_INIT;
        hint_for(&calls[i], 1, &hint);
        rules_of(hint.data, &rules);
        if (rules.len == 0) {
            fail_msg("no rule: %s", hint.data);
        }
        CLEANUP(policy_freep) struct policy *policy = policy_with(rules.data);
        if (!policy_allows_call(policy, calls[i].name, calls[i].arguments)) {
            fail_msg("not allowed by %s", hint.data);
        }
        for (size_t k = 0; k < ARRAY_SIZE(before); k++) {
            if (!policy_allows_call(policy, before[k].name, before[k].arguments)) {
                fail_msg("%s %zu is lost by %s", before[k].name, k, hint.data);
            }
        }
    }
}

static void test_rules_are_narrow(void **state)
{
    (void)state;
    static const struct {
        struct call call;
        const char *hint;
    } rows[] = {
        {{"ioctl", {3, TIOCNOTTY}},
         "denied ioctl(TIOCNOTTY), 2 times; a policy's seccomp would allow it with\n"
         "    rule { action: ALLOW syscall: \"ioctl\" where { arg: \"request\" in: \"TIOCNOTTY\" } }\n"},
        {{"socket", {AF_INET, SOCK_STREAM | SOCK_NONBLOCK}},
         "denied socket(AF_INET, SOCK_STREAM|SOCK_NONBLOCK), 2 times; a policy's seccomp would allow it "
         "with\n"
         "    rule { action: ALLOW syscall: \"socket\" where { arg: \"family\" in: \"AF_INET\" } where { "
         "arg: "
         "\"type\" mask: \"SOCK_TYPE_MASK\" in: \"SOCK_STREAM\" } where { arg: \"protocol\" in: "
         "\"IPPROTO_IP\" } "
         "}\n"},
        {{"openat", {0}},
         "denied openat(O_RDONLY), 2 times; a policy's seccomp would allow it with\n"
         "    rule { action: ALLOW syscall: \"openat\" }\n"},
        {{"flock", {3, 2}},
         "denied flock, 2 times; a policy's seccomp allows as many as limits.file_locks says with\n"
         "    rule { action: COUNT syscall: \"flock\" }\n"},
        {{"unknown", {0}}, "denied syscall_-1, 2 times; no rule can name it\n"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        CLEANUP(buf_free) struct buf hint = BUF_INIT;
        hint_for(&rows[i].call, 2, &hint);
        assert_string_equal(hint.data, rows[i].hint);
    }
}

static void test_a_rule_is_said_once(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf hint = BUF_INIT;
    hint_for(&(struct call){"clone", {SIGCHLD}}, 1, &hint);
    size_t length = hint.len;
    hint_for(&(struct call){"clone", {CLONE_VM}}, 1, &hint);
    assert_string_equal(hint.data + length, "denied clone(CLONE_VM); the same rule would allow it\n");
}

/* Locks alone, of these, have an answer: they are counted. */
static void test_what_no_policy_should_have(void **state)
{
    (void)state;
    static const struct call others[] = {
        {"clone", {CLONE_NEWPID | SIGCHLD}},
        {"clone", {CLONE_PARENT}},
        {"socket", {AF_NETLINK, SOCK_DGRAM}},
        {"socket", {AF_INET, SOCK_RAW | SOCK_CLOEXEC}},
        {"mknod", {0, S_IFCHR | 0600}},
        {"mmap", {0, 1, PROT_WRITE, MAP_SHARED | MAP_HUGETLB}},
        {"unshare", {0}},
        {"memfd_create", {0, MFD_CLOEXEC}},
    };
    for (size_t i = 0; i < n_known_bad_calls + ARRAY_SIZE(others); i++) {
        struct call call = i < n_known_bad_calls ? (struct call){known_bad_calls[i].syscall, {0}}
                                                 : others[i - n_known_bad_calls];
        if (i < n_known_bad_calls) {
            memcpy(call.arguments, known_bad_calls[i].arguments, sizeof call.arguments);
        }
        bool lock = strcmp(call.name, "flock") == 0 ||
                    (strcmp(call.name, "fcntl") == 0 && call.arguments[1] == F_SETLK);
        CLEANUP(buf_free) struct buf hint = BUF_INIT;
        if (policy_syscall_number(call.name, NULL) < 0) {
            continue;
        }
        hint_for(&call, 1, &hint);
        if (!strstr(hint.data, "; no policy should allow it: ") != lock ||
            !strstr(hint.data, "rule {") == lock) {
            fail_msg("%s", hint.data);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules_allow_the_call),
        cmocka_unit_test(test_rules_are_narrow),
        cmocka_unit_test(test_a_rule_is_said_once),
        cmocka_unit_test(test_what_no_policy_should_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
