/* policy/filter/names.c, errno_names.c and syscall_sets.c: tables that say what they should. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "config/policy/policy_file.h"
#include "jail/base/cleanup.h"
#include "policy/filter/conditions.h"
#include "policy/filter/errno_names.h"
#include "policy/filter/names.h"
#include "policy/filter/syscall_sets.h"

static void test_sets(void **state)
{
    (void)state;
    size_t n_sets = 0;
    for (const struct syscall_row *row = syscall_sets(); row->name; row++) {
        if (row->reason) {
            n_sets++;
            assert_int_equal(row->name[0], '@');
            assert_ptr_equal(syscall_set_find(row->name), row);
            assert_non_null(syscall_set_next(row));
            continue;
        }
        /* Every member is a call of some architecture, so that no typo hides in a set. */
        bool known;
        policy_syscall_number(row->name, &known);
        if (!known) {
            fail_msg("%s is no system call", row->name);
        }
    }
    assert_true(n_sets > 20);
    assert_null(syscall_set_find("@nothing"));
    assert_null(syscall_set_find("read"));
}

static const struct syscall_row *set_of(const struct syscall_row *row)
{
    while (!row->reason) {
        row--;
    }
    return row;
}

/* One call in two sets would make two rules of one policy contradict each other, unless their conditions do
 * not meet. */
static void test_no_call_is_in_two_sets(void **state)
{
    (void)state;
    for (const struct syscall_row *row = syscall_sets(); row->name; row++) {
        assert_int_equal(row->n_conditions > 0, row->shown != NULL);
        for (const struct syscall_row *other = row + 1; other->name; other++) {
            if (strcmp(row->name, other->name) != 0) {
                continue;
            }
            const struct seccomp_rule a = {.conditions = (struct seccomp_condition *)row->conditions,
                                           .n_conditions = row->n_conditions},
                                      b = {.conditions = (struct seccomp_condition *)other->conditions,
                                           .n_conditions = other->n_conditions};
            if (row->n_conditions == 0 || other->n_conditions == 0 || !conditions_disjoint(&a, &b)) {
                fail_msg("%s in %s and %s", row->name, set_of(row)->name, set_of(other)->name);
            }
        }
    }
}

static void test_dangers(void **state)
{
    (void)state;
    assert_string_equal(syscall_set_danger("ptrace")->name, "@debug");
    assert_string_equal(syscall_set_danger("unshare")->name, "@namespaces");
    assert_null(syscall_set_danger("read"));
    assert_null(syscall_set_danger("@debug"));
    assert_string_equal(syscall_set_did_you_mean("@basicio"), "@basic-io");
    assert_string_equal(syscall_set_did_you_mean("opnat"), "openat");
}

static void test_syscall_numbers(void **state)
{
    (void)state;
    bool known;
    assert_int_equal(policy_syscall_number("openat", &known), SYS_openat);
    assert_true(known);
    assert_int_equal(policy_syscall_number("futex_waitv", NULL), SYS_futex_waitv);
    assert_int_equal(policy_syscall_number("nonsense", &known), -1);
    assert_false(known);
    assert_int_equal(policy_syscall_number("_llseek", &known), -1);
    assert_true(known);
    /* Known before libseccomp knows them. */
    assert_int_equal(policy_syscall_number("mseal", &known), SYS_futex_waitv + 13);
    assert_true(known);
}

static void test_syscall_names(void **state)
{
    (void)state;
    char name[64];
    uint32_t arch = policy_native_arch();
    assert_string_equal(policy_syscall_name(arch, SYS_openat, name, sizeof name), "openat");
    assert_string_equal(policy_syscall_name(arch, SYS_futex_waitv + 13, name, sizeof name), "mseal");
    assert_string_equal(policy_syscall_name(arch, 9999, name, sizeof name), "syscall_9999");
    assert_string_equal(policy_syscall_name(arch, -1, name, sizeof name), "syscall_-1");
    assert_string_equal(policy_syscall_name(0, 1, name, sizeof name), "syscall_1");
    char small[4];
    assert_string_equal(policy_syscall_name(arch, SYS_openat, small, sizeof small), "ope");
}

static void test_errno_names(void **state)
{
    (void)state;
    assert_int_equal(policy_errno_number(NULL), EPERM);
    assert_int_equal(policy_errno_number("ENOSYS"), ENOSYS);
    assert_int_equal(policy_errno_number("EHWPOISON"), EHWPOISON);
    assert_int_equal(policy_errno_number("EWOULDBLOCK"), EWOULDBLOCK);
    assert_int_equal(policy_errno_number("ENOTSUP"), ENOTSUP);
    assert_int_equal(policy_errno_number("EOPNOTSUPP"), EOPNOTSUPP);
    assert_int_equal(policy_errno_number("EDEADLOCK"), EDEADLOCK);
    assert_string_equal(policy_errno_did_you_mean("EACCESS"), "EACCES");
    assert_string_equal(policy_errno_did_you_mean("eperm"), "EPERM");
    assert_string_equal(policy_errno_did_you_mean("EWOULDBLOK"), "EWOULDBLOCK");
    assert_null(policy_errno_did_you_mean("EWHATEVERITIS"));
    assert_int_equal(policy_errno_number("97"), 97);
    assert_int_equal(policy_errno_number("4095"), 4095);
    static const char *const bad[] = {"", "0", "4096", "-1", "enosys", "ENONSENSE", " 1"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_int_equal(policy_errno_number(bad[i]), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sets),          cmocka_unit_test(test_no_call_is_in_two_sets),
        cmocka_unit_test(test_dangers),       cmocka_unit_test(test_syscall_numbers),
        cmocka_unit_test(test_syscall_names), cmocka_unit_test(test_errno_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
