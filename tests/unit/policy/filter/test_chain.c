/* policy/filter/chain.c: several rules of one call, with comparisons that libseccomp 2.5 compiles wrongly
 * together, decide as they stand; and what it is left with does, too. */
#include "policy/filter/chain.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "jail/base/buf.h"
#include "tests/unit/policy/answers.h"
#include "tests/unit/policy/helper.h"

/* One to three rules about a call, all with one action. */
static void put_random_rules(struct buf *text, const char *call)
{
    static const char *const ops[] = {"EQ", "MASKED_EQ", "NE", "LT", "LE", "GT", "GE"};
    static const char *const actions[] = {"ALLOW", "ERRNO", "LOG", "KILL_PROCESS", "NOTIFY"};
    static const uint64_t values[] = {0,         1, 2, 8, 16, 255, 1ull << 32, 5ull << 32, 5ull << 32 | 9,
                                      UINT64_MAX};
    bool ordered = random() & 1;
    const char *action = actions[(size_t)random() % ARRAY_SIZE(actions)];
    for (long rules = 1 + random() % 3; rules > 0; rules--) {
        buf_printf(text, "rule { action: %s syscall: '%s' ", action, call);
        for (long arg = random() % 2, last = random() % 3; arg <= last; arg++) {
            const char *op = ops[(size_t)random() % (ordered ? ARRAY_SIZE(ops) : 2)];
            uint64_t value = values[(size_t)random() % ARRAY_SIZE(values)];
            uint64_t mask = value | values[(size_t)random() % ARRAY_SIZE(values)];
            buf_printf(text, "condition { arg: %ld op: %s value: %" PRIu64 " ", arg, op, value);
            if (strcmp(op, "MASKED_EQ") == 0) {
                buf_printf(text, "mask: %" PRIu64 " ", mask);
            }
            buf_printf(text, "} ");
        }
        buf_printf(text, "}\n");
    }
}

/* Of LeakSanitizer, where it watches: libseccomp 2.5 loses a node of some of these rules' trees. */
void __lsan_disable(void) __attribute__((weak));
void __lsan_enable(void) __attribute__((weak));

static struct policy *compile_random(void)
{
    static const char *const defaults[] = {"ALLOW", "ERRNO", "LOG", "NOTIFY"};
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    buf_printf(&text,
               "name: 'test'\n" WORKSPACE
               "seccomp { default_action: %s rule { action: ALLOW set: '@execute' }\n",
               defaults[(size_t)random() % ARRAY_SIZE(defaults)]);
    put_random_rules(&text, "socket");
    put_random_rules(&text, "dup");
    put_random_rules(&text, "lseek");
    buf_printf(&text, "}");
    if (__lsan_disable) {
        __lsan_disable();
    }
    struct policy *policy = compile(text.data);
    if (__lsan_enable) {
        __lsan_enable();
    }
    return policy;
}

/* Also rules that libseccomp does not compile correctly together (policy/filter/chain.c). */
static void test_random_rules_mean_what_they_say(void **state)
{
    (void)state;
    static const int calls[] = {SYS_socket, SYS_dup, SYS_lseek, SYS_read};
    srandom(11);
    for (int round = 0; round < 1000; round++) {
        CLEANUP(policy_freep) struct policy *policy = compile_random();
        for (int probe = 0; probe < 500; probe++) {
            struct seccomp_data data = {.nr = calls[(size_t)random() % ARRAY_SIZE(calls)],
                                        .arch = policy_native_arch()};
            for (size_t n = 0; n < 3; n++) {
                data.args[n] = interesting_argument(policy->spec) - (uint64_t)(random() % 2);
            }
            assert_int_equal(bpf_run(policy->filter.instructions, policy->filter.length, &data),
                             expected(policy, &data));
        }
    }
}

/* Different actions, where no call can have two. */
static void test_order_decides_between_actions(void **state)
{
    (void)state;
    CLEANUP(policy_freep)
    struct policy *policy =
        compile(FILTER("rule { action: ALLOW syscall: 'read' condition { arg: 0 op: LT value: 0x100000005 } }"
                       "rule { action: LOG syscall: 'read' condition { arg: 0 op: GE value: 0x100000005 } "
                       "condition { arg: 1 op: NE value: 7 } }"
                       "rule { action: NOTIFY syscall: 'dup' condition { arg: 0 op: LE value: 3 } }"
                       "rule { action: KILL_PROCESS syscall: 'dup' condition { arg: 0 op: GT value: 3 } }"));
    assert_int_equal(answer(policy, SYS_read, 0x100000004, 7), SECCOMP_RET_ALLOW);
    assert_int_equal(answer(policy, SYS_read, 9, 7), SECCOMP_RET_ALLOW);
    assert_int_equal(answer(policy, SYS_read, 0x100000005, 8), SECCOMP_RET_LOG);
    assert_int_equal(answer(policy, SYS_read, 0x200000000, 7 | 1ull << 32), SECCOMP_RET_LOG);
    assert_int_equal(answer(policy, SYS_read, 0x200000000, 7), SECCOMP_RET_USER_NOTIF);
    assert_int_equal(answer(policy, SYS_dup, 3, 0), SECCOMP_RET_USER_NOTIF);
    assert_int_equal(answer(policy, SYS_dup, 1ull << 32, 0), SECCOMP_RET_KILL_PROCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_rules_mean_what_they_say),
        cmocka_unit_test(test_order_decides_between_actions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
