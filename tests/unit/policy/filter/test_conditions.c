/* policy/filter/conditions.c: what a condition may be, what it means, and when two rules exclude each other.
 */
#include "policy/filter/conditions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/policy/helper.h"

static struct seccomp_condition condition(uint32_t arg, enum seccomp_op op, uint64_t value, uint64_t mask)
{
    return (struct seccomp_condition){.arg = arg, .op = op, .value = value, .mask = mask};
}

static void test_holds(void **state)
{
    (void)state;
    static const struct {
        enum seccomp_op op;
        bool below, equal, above;
    } rows[] = {
        {OP_EQ, false, true, false}, {OP_NE, true, false, true},  {OP_LT, true, false, false},
        {OP_LE, true, true, false},  {OP_GT, false, false, true}, {OP_GE, false, true, true},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct seccomp_condition c = condition(0, rows[i].op, 10, 0);
        assert_int_equal(condition_holds(&c, 9), rows[i].below);
        assert_int_equal(condition_holds(&c, 10), rows[i].equal);
        assert_int_equal(condition_holds(&c, 1ull << 32), rows[i].above);
    }
    struct seccomp_condition masked = condition(0, OP_MASKED_EQ, 0x10, 0xf0);
    assert_true(condition_holds(&masked, 0x1f));
    assert_true(condition_holds(&masked, 0xf00000010));
    assert_false(condition_holds(&masked, 0x20));
}

static void test_problems(void **state)
{
    (void)state;
    const struct {
        struct seccomp_condition conditions[2];
        size_t n;
        const char *words;
    } rows[] = {
        {{condition(0, OP_EQ, 1, 0), condition(1, OP_EQ, 1, 0)}, 2, NULL},
        {{condition(5, OP_MASKED_EQ, 1, 3)}, 1, NULL},
        {{condition(6, OP_EQ, 1, 0)}, 1, "0 to 5"},
        {{condition(UINT32_MAX, OP_EQ, 1, 0)}, 1, "0 to 5"},
        {{condition(2, OP_GE, 1, 0), condition(2, OP_LE, 4, 0)}, 2, "compared twice"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct seccomp_condition conditions[2] = {rows[i].conditions[0], rows[i].conditions[1]};
        struct seccomp_rule rule = {.conditions = conditions, .n_conditions = rows[i].n};
        const char *problem = conditions_problem(&rule);
        if (rows[i].words) {
            assert_non_null(problem);
            assert_non_null(strstr(problem, rows[i].words));
        } else {
            assert_null(problem);
        }
    }
}

static bool excluded(struct seccomp_condition a, struct seccomp_condition b)
{
    struct seccomp_rule x = {.conditions = &a, .n_conditions = 1}, y = {.conditions = &b, .n_conditions = 1};
    bool one = conditions_disjoint(&x, &y), other = conditions_disjoint(&y, &x);
    assert_int_equal(one, other);
    return one;
}

static void test_disjoint(void **state)
{
    (void)state;
    assert_true(excluded(condition(0, OP_EQ, 1, 0), condition(0, OP_EQ, 2, 0)));
    assert_false(excluded(condition(0, OP_EQ, 1, 0), condition(0, OP_EQ, 1, 0)));
    assert_false(excluded(condition(0, OP_EQ, 1, 0), condition(1, OP_EQ, 2, 0)));
    assert_true(excluded(condition(0, OP_EQ, 1, 0), condition(0, OP_NE, 1, 0)));
    assert_true(excluded(condition(0, OP_LT, 5, 0), condition(0, OP_GE, 5, 0)));
    assert_false(excluded(condition(0, OP_LE, 5, 0), condition(0, OP_GE, 5, 0)));
    assert_true(excluded(condition(0, OP_LE, 5, 0), condition(0, OP_GT, 5, 0)));
    assert_true(excluded(condition(0, OP_EQ, 5, 0), condition(0, OP_GT, 5, 0)));
    assert_true(excluded(condition(0, OP_MASKED_EQ, 0, 3), condition(0, OP_MASKED_EQ, 1, 1)));
    assert_false(excluded(condition(0, OP_MASKED_EQ, 0, 2), condition(0, OP_MASKED_EQ, 1, 1)));
    assert_true(excluded(condition(0, OP_EQ, 2, 0), condition(0, OP_MASKED_EQ, 1, 1)));
    assert_false(excluded(condition(0, OP_NE, 2, 0), condition(0, OP_NE, 3, 0)));
    /* Not shown, so not believed. */
    assert_false(excluded(condition(0, OP_LT, 2, 0), condition(0, OP_MASKED_EQ, 8, 8)));
    /* Impossible comparisons have no interval; nothing is claimed about them. */
    assert_false(excluded(condition(0, OP_LT, 0, 0), condition(0, OP_GE, 1, 0)));
}

/* What is said to exclude each other never holds together: tried on the values where comparisons change. */
static void test_disjoint_means_disjoint(void **state)
{
    (void)state;
    static const uint64_t values[] = {0, 1, 2, 3, 4, 5, 7, 8, UINT32_MAX, 1ull << 32, UINT64_MAX};
    for (int op_a = OP_EQ; op_a <= OP_MASKED_EQ; op_a++) {
        for (int op_b = OP_EQ; op_b <= OP_MASKED_EQ; op_b++) {
            for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
                for (size_t n = 0; n < ARRAY_SIZE(values); n++) {
                    struct seccomp_condition a = condition(0, (enum seccomp_op)op_a, values[i],
                                                           op_a == OP_MASKED_EQ ? values[i] | 1 : 0);
                    struct seccomp_condition b = condition(0, (enum seccomp_op)op_b, values[n],
                                                           op_b == OP_MASKED_EQ ? values[n] | 2 : 0);
                    bool apart = excluded(a, b);
                    for (size_t v = 0; v < ARRAY_SIZE(values); v++) {
                        assert_false(apart && condition_holds(&a, values[v]) &&
                                     condition_holds(&b, values[v]));
                    }
                }
            }
        }
    }
}

static void test_print(void **state)
{
    (void)state;
    struct seccomp_condition conditions[] = {
        condition(0, OP_EQ, 16, 0), condition(1, OP_MASKED_EQ, 0x1000, 0xf000), condition(2, OP_LE, 4096, 0)};
    struct seccomp_rule rule = {.conditions = conditions, .n_conditions = 3};
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    conditions_print(&rule, &text);
    assert_string_equal(
        text.data,
        "where argument 0 is 16 and argument 1 & 0xf000 is 0x1000 and argument 2 is at most 0x1000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_holds),    cmocka_unit_test(test_problems),
        cmocka_unit_test(test_disjoint), cmocka_unit_test(test_disjoint_means_disjoint),
        cmocka_unit_test(test_print),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
