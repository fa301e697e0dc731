/* policy/compare/test_call.c: what a test says of calls holds, or the call that is answered otherwise is
 * named. */
#include "policy/compare/test_call.h"

#include <stdio.h>
#include <unistd.h>

#include "tests/unit/policy/answers.h"

#include "config/policy/policy_test.h"

#define SOCKETS                                                                                              \
    "rule { action: ALLOW syscall: 'socket' where { arg: 'family' in: AF_UNIX } }"                           \
    "rule { action: ALLOW syscall: 'socket' where { arg: 'family' in: AF_INET } where { arg: 'type' mask: "  \
    "SOCK_TYPE_MASK in: SOCK_STREAM } }"
#define OPEN_BUT(rules) "name: 'test'\n" WORKSPACE "seccomp { default_action: ALLOW " rules " }"

static void policy_test_freep(struct policy_test **test)
{
    policy_test_free(*test);
}

/* The first `refuse` or `allow` of the text, held against the policy: 0, and `ret_why` says whether it holds.
 */
static int try_call(const char *policy_text, const char *text, struct buf *ret_why, struct err *reterr)
{
    char path[] = "/tmp/immure-test.XXXXXX";
    CLEANUP(policy_freep) struct policy *policy = compile(policy_text);
    CLEANUP(policy_test_freep) struct policy_test *test = NULL;
    CLEANUP(buf_free) struct buf name = BUF_INIT;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_true(dprintf(fd, "policy: 'test'\n%s", text) > 0);
    close(fd);
    int r = policy_test_load(path, &test, reterr);
    unlink(path);
    assert_int_equal(r, 0);
    bool allow = test->n_allow > 0;
    r = policy_test_check(test, reterr);
    if (r < 0 || test->n_allow + test->n_refuse == 0) {
        return r;
    }
    return policy_test_call(policy, allow ? test->allow : test->refuse, allow, &name, ret_why, reterr);
}

/* `why` "": it holds. */
static void assert_found(const char *policy, const char *text, const char *why)
{
    struct err err = {0};
    CLEANUP(buf_free) struct buf found = BUF_INIT;
    buf_puts(&found, "");
    if (try_call(policy, text, &found, &err) < 0) {
        fail_msg("%s: %s", err.item, err.text);
    }
    assert_string_equal(found.data, why);
}

static void assert_holds(const char *policy, const char *text)
{
    assert_found(policy, text, "");
}

static void test_whole_calls(void **state)
{
    (void)state;
    const char *policy =
        FILTER("rule { action: ALLOW syscall: 'read' } rule { action: ERRNO errno: 'ENOSYS' "
               "syscall: 'mount' } rule { action: KILL_PROCESS syscall: 'bpf' }"
               "rule { action: COUNT set: '@file-locks' } rule { action: LOG syscall: 'write' }");
    assert_holds(policy, "allow { call: [read, write, execve, flock] }");
    assert_holds(policy, "refuse { call: [mount, bpf, ptrace] }");
    assert_holds(policy, "refuse { call: mount answer: ENOSYS }");
    assert_holds(policy, "refuse { call: mount answer: '38' }");
    assert_holds(policy, "refuse { call: bpf answer: KILL_PROCESS }");
    assert_holds(policy, "refuse { call: ptrace answer: NOTIFY }");
    assert_holds(policy, "allow { call: '@file-locks' answer: COUNT }");
    assert_holds(policy, "allow { call: write answer: LOG }");
    assert_found(policy, "allow { call: [read, mount] }", "mount() is answered ERRNO ENOSYS");
    assert_found(policy, "refuse { call: read }", "read() is answered ALLOW");
    assert_found(policy, "refuse { call: flock }", "flock() is answered COUNT");
    assert_found(policy, "refuse { call: mount answer: EPERM }", "mount() is answered ERRNO ENOSYS");
    assert_found(policy, "refuse { call: bpf answer: NOTIFY }", "bpf() is answered KILL_PROCESS");
    assert_found(policy, "allow { call: read answer: LOG }", "read() is answered ALLOW");
}

static void test_sets(void **state)
{
    (void)state;
    const char *policy = FILTER("rule { action: ALLOW set: ['@basic-io', '@memory'] }");
    assert_holds(policy, "allow { call: ['@basic-io', '@memory'] }");
    assert_holds(policy, "refuse { call: '@mount' }");
    /* It allows some of its calls with some arguments only; one that is refused is refused whole. */
    assert_found(FILTER("rule { action: ALLOW syscall: 'fcntl' where { arg: 'op' in: F_GETFL } }"),
                 "refuse { call: '@basic-io' }", "fcntl(op F_GETFL) is answered ALLOW");
}

/* What is not given may be anything. */
static void test_arguments(void **state)
{
    (void)state;
    const char *policy = FILTER(SOCKETS);
    assert_holds(policy, "allow { call: socket arg: AF_UNIX }");
    assert_holds(policy, "allow { call: socket arg: [AF_INET, SOCK_STREAM] }");
    assert_holds(policy, "refuse { call: socket arg: [AF_INET, SOCK_RAW] }");
    assert_holds(policy, "refuse { call: socket arg: AF_NETLINK }");
    assert_found(policy, "allow { call: socket arg: AF_INET }",
                 "socket(family AF_INET, type 0) is answered NOTIFY");
    assert_found(policy, "refuse { call: socket arg: AF_INET }",
                 "socket(family AF_INET, type SOCK_STREAM) is answered ALLOW");
    assert_found(policy, "refuse { call: socket arg: SOCK_RAW }",
                 "socket(family AF_UNIX, type SOCK_RAW) is answered ALLOW");
}

/* A filter that compares 64 bits lets through what the kernel takes for the same. */
static void test_bits_that_the_kernel_does_not_read(void **state)
{
    (void)state;
    assert_found(OPEN_BUT("rule { action: ERRNO syscall: 'ioctl' condition { arg: 1 value: 0x5412 } }"),
                 "refuse { call: ioctl arg: TIOCSTI }",
                 "ioctl(request TIOCSTI with bits that the kernel does not read (0x100005412)) is "
                 "answered ALLOW");
    assert_holds(OPEN_BUT("rule { action: ERRNO syscall: 'ioctl' where { arg: 'request' in: TIOCSTI } }"),
                 "refuse { call: ioctl arg: TIOCSTI }");
    /* Allowed as programs make it is allowed enough. */
    assert_holds(FILTER("rule { action: ALLOW syscall: 'ioctl' condition { arg: 1 value: 0x5401 } }"),
                 "allow { call: ioctl arg: TCGETS }");
}

/* A flag is refused only if it is with any others, a type with any flags; a number is that number. */
static void test_flags_among_others(void **state)
{
    (void)state;
#define CLONE(flags) "rule { action: ALLOW syscall: 'clone' where { arg: 'flags' " flags " } }"
    const char *policy = FILTER(CLONE("in: ['CLONE_NEWUSER|0x11']"));
    assert_found(policy, "refuse { call: clone arg: CLONE_NEWUSER }",
                 "clone(flags 0x10000011) is answered ALLOW");
    assert_found(policy, "refuse { call: clone arg: 'flags=CLONE_NEWUSER' }",
                 "clone(flags 0x10000011) is answered ALLOW");
    assert_holds(policy, "refuse { call: clone arg: 'flags=0x10000000' }");
    assert_holds(policy, "refuse { call: clone arg: CLONE_NEWNET }");
    assert_holds(policy, "allow { call: clone arg: 'flags=0x10000011' }");
    policy =
        FILTER("rule { action: ALLOW syscall: 'socket' where { arg: 'type' in: 'SOCK_RAW|SOCK_CLOEXEC' } }");
    assert_found(policy, "refuse { call: socket arg: SOCK_RAW }", "socket(type 0x80003) is answered ALLOW");
    assert_holds(policy, "refuse { call: socket arg: SOCK_DGRAM }");
    assert_holds(policy, "refuse { call: socket arg: 'SOCK_RAW|SOCK_NONBLOCK' }");
    policy = FILTER("rule { action: ALLOW syscall: 'mknodat' where { arg: 'mode' in: '0x21b6' } }");
    assert_found(policy, "refuse { call: mknodat arg: S_IFCHR }", "mknodat(mode 0x21b6) is answered ALLOW");
    assert_holds(policy, "refuse { call: mknodat arg: S_IFBLK }");
    /* That question is no flag. */
    policy =
        FILTER("rule { action: ALLOW syscall: 'personality' where { arg: 'persona' in: '0xffffffff' } }");
    assert_holds(policy, "refuse { call: personality arg: READ_IMPLIES_EXEC }");
    assert_found(policy, "refuse { call: personality arg: 'persona=0xffffffff' }",
                 "personality(persona 0xffffffff) is answered ALLOW");
}

/* What only several rules together leave. */
static void test_values_between_rules(void **state)
{
    (void)state;
#define UNSHARE(comparison) "rule { action: ERRNO syscall: 'unshare' where { arg: 'flags' " comparison " } }"
    assert_found(OPEN_BUT(UNSHARE("all_of: CLONE_NEWIPC") UNSHARE("all_of: CLONE_NEWUTS")
                              UNSHARE("none_of: CLONE_NEWUSER") UNSHARE("none_of: CLONE_NEWNET")),
                 "refuse { call: unshare }", "unshare(flags 0x50000000) is answered ALLOW");
}

/* More than twelve flags, each with a rule of its own: nothing is said that was not tried. */
static void test_too_many_values(void **state)
{
    (void)state;
    struct err err = {0};
    CLEANUP(buf_free) struct buf rules = BUF_INIT;
    CLEANUP(buf_free) struct buf why = BUF_INIT;
    buf_puts(&rules, "name: 'test'\n" WORKSPACE "seccomp { default_action: ALLOW ");
    for (unsigned bit = 0; bit < 13; bit++) {
        buf_printf(
            &rules,
            "rule { action: ERRNO syscall: 'unshare' condition { arg: 0 op: MASKED_EQ value: 0 mask: %u } }",
            1u << bit);
    }
    buf_puts(&rules, "}");
    assert_true(try_call(rules.data, "refuse { call: unshare }", &why, &err) < 0);
    assert_int_equal(err.kind, ERR_CONFIG);
    assert_string_equal(err.item, "unshare");
    assert_string_equal(err.text, "argument 0: more values are told apart than can be tried");
}

/* Some number, or some name, that no rule could be about. */
static void test_names_that_are_none(void **state)
{
    (void)state;
    static const struct {
        const char *text, *at, *words;
    } rows[] = {
        {"refuse { call: mountt }", ":2:8", "call: mountt: no such system call; did you mean mount?"},
        {"refuse { call: '@mounts' }", ":2:8", "call: @mounts: no such set; did you mean @mount?"},
        {"refuse { call: mount answer: ENOSIS }", ":2:30",
         "answer: ENOSIS: no such answer; did you mean ENOSYS?"},
        {"refuse { call: mount answer: ALLOW }", ":2:30", "answer: ALLOW: is no way to refuse a call"},
        {"run { argv: 'x' expect { denied: unshaer } }", ":2:5",
         "denied: unshaer: no such system call; did you mean unshare?"},
        {"run { argv: 'x' expect { denied: '@mount' } }", ":2:5",
         "denied: @mount: is a set, which no verdict names; name its calls"},
        {"allow { call: mount answer: EPERM }", ":2:29", "answer: EPERM: is no way to allow a call"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct err err = {0};
        CLEANUP(buf_free) struct buf why = BUF_INIT;
        assert_true(try_call(FILTER(""), rows[i].text, &why, &err) < 0);
        assert_int_equal(err.kind, ERR_CONFIG);
        assert_string_equal(err.text, rows[i].words);
        assert_string_equal(strchr(err.item, ':'), rows[i].at);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_calls),
        cmocka_unit_test(test_sets),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_bits_that_the_kernel_does_not_read),
        cmocka_unit_test(test_names_that_are_none),
        cmocka_unit_test(test_flags_among_others),
        cmocka_unit_test(test_values_between_rules),
        cmocka_unit_test(test_too_many_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
