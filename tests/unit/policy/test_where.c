/* `where` of seccomp rules: what the compiled filter answers, what is refused, and what is said about it. */
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "tests/unit/policy/helper.h"

#include "config/policy/constants.h"
#include "jail/plan/plan.h"
#include "policy/compiled.h"
#include "policy/filter/call_text.h"

#define UPPER (1ull << 32)
#define RULE(x)                                                                                              \
    "name: 'test'\n" WORKSPACE "seccomp { rule { action: ALLOW syscall: 'execve' }\nrule { action: ALLOW " x \
    " } }"

struct answer {
    const char *call;
    uint64_t arguments[6];
    bool allowed;
};

static void test_answers(void **state)
{
    static const struct {
        const char *text;
        struct answer answers[7];
    } rows[] = {
        /* Names, bare and quoted, and numbers; 32 bits where the kernel reads 32. */
        {RULE("syscall: 'ioctl' where { arg: request in: [TCGETS, \"FIONREAD\", 0x5421] }"),
         {{"ioctl", {0, TCGETS}, true},
          {"ioctl", {0, TCGETS | UPPER}, true},
          {"ioctl", {0, FIONREAD}, true},
          {"ioctl", {0, FIONBIO}, true},
          {"ioctl", {0, TIOCSTI}, false},
          {"ioctl", {TCGETS, 0}, false}}},
        {RULE("syscall: 'clone' where { arg: 'flags' all_of: CLONE_THREAD none_of: [CLONE_NEWUSER, "
              "CLONE_NEWNET] }"),
         {{"clone", {CLONE_THREAD | CLONE_VM}, true},
          {"clone", {CLONE_VM}, false},
          {"clone", {CLONE_THREAD | CLONE_NEWUSER}, false},
          {"clone", {CLONE_THREAD | CLONE_NEWNET}, false}}},
        {RULE("syscall: ['socket', 'socketpair'] where { arg: 'family' in: [AF_INET, AF_INET6, AF_UNIX] } "
              "where { arg: 'type' mask: SOCK_TYPE_MASK in: [SOCK_STREAM, SOCK_DGRAM] }"),
         {{"socket", {AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC}, true},
          {"socketpair", {AF_UNIX, SOCK_STREAM | UPPER}, true},
          {"socket", {AF_INET, SOCK_RAW}, false},
          {"socket", {AF_NETLINK, SOCK_STREAM}, false},
          {"socket", {8, SOCK_STREAM}, false}}},
        /* What it may not be, and no way around it by the bits that the kernel does not read. */
        {RULE("syscall: 'setrlimit' where { arg: 'resource' not_in: [RLIMIT_CORE, RLIMIT_STACK] }"),
         {{"setrlimit", {RLIMIT_NOFILE}, true},
          {"setrlimit", {RLIMIT_CORE}, false},
          {"setrlimit", {RLIMIT_CORE | UPPER}, false},
          {"setrlimit", {RLIMIT_STACK}, false},
          {"setrlimit", {UPPER}, true}}},
        {RULE("syscall: 'prlimit64' where { arg: pid in: 0 } where { arg: 1 not_in: RLIMIT_CORE } }"
              "rule { action: ERRNO syscall: 'prlimit64' where { arg: resource in: RLIMIT_CORE }"),
         {{"prlimit64", {0, RLIMIT_CPU}, true},
          {"prlimit64", {1, RLIMIT_CPU}, false},
          {"prlimit64", {0, 4}, false}}},
        /* A call that the table does not have: by number, and whole. */
        {RULE("syscall: 'getrandom' where { arg: 2 in: ['1|2', 0] }"),
         {{"getrandom", {0, 0, 3}, true},
          {"getrandom", {0, 0, 0}, true},
          {"getrandom", {0, 0, 1}, false},
          {"getrandom", {0, 0, UPPER}, false}}},
        {RULE("syscall: 'mmap' where { arg: flags none_of: [MAP_HUGETLB, MAP_LOCKED] } where { arg: prot "
              "none_of: PROT_EXEC }"),
         {{"mmap", {0, 4096, 3, 0x22}, true},
          {"mmap", {0, 4096, 7, 0x22}, false},
          {"mmap", {0, 4096, 3, 0x40022}, false}}},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        CLEANUP(policy_freep) struct policy *policy = compile(rows[i].text);
        for (size_t n = 0; n < ARRAY_SIZE(rows[i].answers) && rows[i].answers[n].call; n++) {
            const struct answer *answer = &rows[i].answers[n];
            if (policy_allows_call(policy, answer->call, answer->arguments) != answer->allowed) {
                fail_msg("row %zu: answer %zu about %s is wrong", i, n, answer->call);
            }
        }
    }
}

/* COUNT takes the names as it takes the numbers. */
static void test_counted(void **state)
{
    (void)state;
    CLEANUP(policy_freep)
    struct policy *policy =
        compile("name: 'test'\n" WORKSPACE "seccomp { default_action: ALLOW rule { action: COUNT syscall: "
                "'fcntl' where { arg: 'op' in: [F_SETLK, F_SETLKW] } } }");
    assert_int_equal(policy->filter.locks, JAIL_LOCK_SETLK | JAIL_LOCK_SETLKW);
}

static void test_refused(void **state)
{
    static const struct {
        const char *rule, *words;
    } rows[] = {
        {"syscall: 'ioctl' where { arg: 'requst' in: TCGETS }", "did you mean request?"},
        {"syscall: 'ioctl' where { arg: 'request' in: TCGET }",
         "where[0].in[0]: \"TCGET\" is neither a number nor a name"},
        {"syscall: 'ioctl' where { arg: 'request' in: TCGET }", "did you mean TCGETS?"},
        {"syscall: 'ioctl' where { arg: 'request' in: AF_UNIX }", "is a constant of another argument"},
        {"syscall: 'ioctl' where { arg: 'request' in: 0x100000000 }", "has more bits than the kernel reads"},
        {"syscall: 'mknod' where { arg: 'mode' in: 0x10000 }", "has more bits than the kernel reads"},
        {"syscall: 'ioctl' where { arg: 2 in: 99999999999999999999 }", "neither a number nor a name"},
        {"syscall: 'ioctl' where { arg: 1 mask: 0 in: 0 }", "compares no bit"},
        {"syscall: 'socket' where { arg: 'family' none_of: [AF_UNIX, AF_INET] }", "values that are no flags"},
        {"syscall: 'socket' where { arg: 'type' all_of: SOCK_STREAM }", "values that are no flags"},
        {"syscall: 'openat' where { arg: 'flags' all_of: O_RDONLY none_of: O_CREAT }",
         "values that are no flags"},
        {"syscall: 'ioctl' where { arg: '6' in: 1 }", "not a known argument"},
        {"syscall: 'ioctl' where { arg: 1 }", "needs one of in, not_in, or all_of and none_of"},
        {"syscall: 'ioctl' where { arg: 1 in: 1 not_in: 2 }", "needs one of"},
        {"syscall: 'clone' where { arg: 'flags' all_of: CLONE_VM none_of: CLONE_VM }", "are among `all_of`"},
        {"syscall: 'clone' where { arg: 'flags' all_of: CLONE_VM mask: 1 }",
         "mask: has a meaning for in and not_in only"},
        {"syscall: 'clone' where { arg: 'flags' none_of: 0 }", "values that are no flags"},
        {"syscall: 'mknod' where { arg: 'mode' mask: S_IFMT in: 0777 }", "has bits outside the mask"},
        {"syscall: ['ioctl', 'prctl'] where { arg: 'request' in: TCGETS }",
         "\"request\" is not a known argument of prctl"},
        {"set: '@poll' where { arg: 0 in: 1 }", "goes with system calls, not with sets"},
        {"syscall: 'ioctl' where { arg: 1 in: 1 } condition { arg: 0 value: 1 }",
         "condition: is another way to say `where`"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char text[512];
        struct policy_spec *spec = NULL;
        struct err err = {0};
        snprintf(text, sizeof text, "name: 'test'\n" WORKSPACE "seccomp { rule { action: ALLOW %s } }",
                 rows[i].rule);
        assert_true(policy_spec_decode_text("test.textproto", text, strlen(text), &spec, &err) < 0);
        assert_int_equal(strncmp(err.item, "test.textproto:3:", 17), 0);
        if (!strstr(err.text, rows[i].words)) {
            fail_msg("refused with \"%s\", expected \"%s\"", err.text, rows[i].words);
        }
    }
    assert_policy_refused(RULE("syscall: 'ioctl' where { arg: 1 in: 1 } where { arg: 1 in: 2 }"),
                          "is compared twice");
}

/* What a verdict says of an argument, and what is learned of it, is a policy's word, and means the same. */
static void test_texts_of_calls_are_read_again(void **state)
{
    (void)state;
    const struct named_argument *argument;
    for (size_t row = 0; (argument = argument_row(row)); row++) {
        uint64_t values[] = {0, SIGCHLD, CLONE_VM | CLONE_VFORK | SIGCHLD, 0x12345678, 2 | SOCK_CLOEXEC, 0};
        const char *name = argument->kind ? constant_row(argument->kind, row % 3) : NULL;
        if (name) {
            constant_find(argument->kind, name, strlen(name), &values[5]);
        }
        for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
            uint64_t arguments[6] = {0};
            CLEANUP(buf_free) struct buf value = BUF_INIT, text = BUF_INIT;
            arguments[argument->number] = values[i];
            call_argument_text(argument, arguments, &value);
            buf_printf(&text, RULE("syscall: '%s' where { arg: %u in: '%s' }"), argument->call,
                       argument->number, value.data);
            struct policy_spec *spec = decode(text.data);
            assert_int_equal(spec->rules[1].conditions[0].value, call_value(argument, values[i]));
            policy_spec_free(spec);
        }
    }
}

/* Numbers of rules are those of the policy, however many ways a `where` gives. */
static void test_explained(void **state)
{
    (void)state;
    CLEANUP(policy_freep)
    struct policy *policy =
        compile(RULE("syscall: 'ioctl' where { arg: request in: [TCGETS, FIONREAD] } } "
                     "rule { action: ALLOW syscall: 'prctl' condition { arg: 0 value: 15 }"));
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    assert_int_equal(policy_explain(policy, &text, NULL), 0);
    assert_non_null(strstr(text.data, "   2 ALLOW where request is TCGETS or FIONREAD\n      ioctl\n"
                                      "   3 ALLOW where option is PR_SET_NAME\n      prctl\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),   cmocka_unit_test(test_counted),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_texts_of_calls_are_read_again),
        cmocka_unit_test(test_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
