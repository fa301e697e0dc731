/* Conditions as choices of comparisons, held against the formulas that they were made of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "jail/base/cleanup.h"
#include "policy/filter/conditions.h"
#include "policy/import/clauses.h"

#define VALUES 16u

static bool holds(const struct clauses *clauses, const uint64_t arguments[6])
{
    for (size_t i = 0; i < clauses->n; i++) {
        size_t k = 0;
        const struct clause *clause = &clauses->rows[i];
        while (k < clause->n && condition_holds(&clause->rows[k], arguments[clause->rows[k].arg])) {
            k++;
        }
        if (k == clause->n) {
            return true;
        }
    }
    return false;
}

/* What policies are held to: one comparison of each argument, and those that exclude values behind it. */
static void assert_sound(const struct clauses *clauses)
{
    for (size_t i = 0; i < clauses->n; i++) {
        struct clause clause = clauses->rows[i];
        struct seccomp_rule rule = {.conditions = clause.rows, .n_conditions = clause.n};
        assert_null(conditions_problem(&rule));
    }
}

/* The same formulas in every run. */
static unsigned draw(unsigned below)
{
    static uint32_t seed = 7;
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

/* A random formula, and its truth for each pair of small values. */
static void make(unsigned depth, struct clauses *ret, bool truth[VALUES][VALUES])
{
    unsigned kind = depth == 0 ? 0 : draw(4);
    if (kind == 0) {
        struct seccomp_condition condition = {.arg = draw(2),
                                              .op = (enum seccomp_op)draw(OP_MASKED_NE + 1),
                                              .value = draw(VALUES),
                                              .mask = draw(VALUES)};
        clauses_compare(ret, &condition);
        for (unsigned i = 0; i < VALUES * VALUES; i++) {
            truth[i / VALUES][i % VALUES] =
                condition_holds(&condition, condition.arg == 0 ? i / VALUES : i % VALUES);
        }
        return;
    }
    bool other_truth[VALUES][VALUES];
    struct clauses *other = malloc(sizeof *other);
    assert_non_null(other);
    make(depth - 1, ret, truth);
    make(depth - 1, other, other_truth);
    if (kind == 1) {
        clauses_and(ret, other);
    } else if (kind == 2) {
        clauses_or(ret, other);
    } else {
        clauses_not(ret);
    }
    for (unsigned i = 0; i < VALUES * VALUES; i++) {
        bool *a = &truth[i / VALUES][i % VALUES], b = other_truth[i / VALUES][i % VALUES];
        *a = kind == 1 ? *a && b : kind == 2 ? *a || b : !*a;
    }
    free(other);
}

static void test_formulas(void **state)
{
    (void)state;
    unsigned exact = 0;
    for (unsigned n = 0; n < 2000; n++) {
        struct clauses clauses;
        bool truth[VALUES][VALUES];
        make(n % 5, &clauses, truth);
        if (clauses.inexact) {
            continue;
        }
        exact++;
        assert_sound(&clauses);
        for (unsigned i = 0; i < VALUES * VALUES; i++) {
            const uint64_t arguments[6] = {i / VALUES, i % VALUES};
            assert_int_equal(holds(&clauses, arguments), truth[i / VALUES][i % VALUES]);
        }
    }
    assert_true(exact > 1500);
}

/* Bits that the kernel does not read are no way around a condition, nor into it. */
static void test_fit(void **state)
{
    static const uint64_t bits[6] = {UINT32_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    static const struct {
        struct seccomp_condition condition;
        uint64_t argument;
        bool before, after;
    } rows[] = {
        {{.op = OP_EQ, .value = 3}, UINT64_C(0x700000003), false, true},
        {{.op = OP_NE, .value = 3}, UINT64_C(0x700000003), true, false},
        {{.op = OP_GT, .value = 3}, UINT64_C(0x700000003), true, false},
        {{.op = OP_LE, .value = 3}, UINT64_C(0x700000003), false, true},
        {{.op = OP_EQ, .value = UINT64_C(0x700000003)}, UINT64_C(0x700000003), true, false},
        {{.op = OP_MASKED_EQ, .mask = UINT64_C(0xff00000000), .value = 0},
         UINT64_C(0x700000003),
         false,
         true},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const uint64_t arguments[6] = {rows[i].argument};
        struct clauses clauses;
        clauses_compare(&clauses, &rows[i].condition);
        assert_int_equal(holds(&clauses, arguments), rows[i].before);
        clauses_fit(&clauses, bits);
        assert_int_equal(holds(&clauses, arguments), rows[i].after);
    }
}

/* What would be too long is said to be inexact, and stays so. */
static void test_too_much(void **state)
{
    (void)state;
    struct clauses all, one;
    clauses_set(&all, false);
    for (uint64_t value = 0; value < CLAUSES_MAX + 1; value++) {
        struct seccomp_condition condition = {.op = OP_EQ, .value = value * 3};
        clauses_compare(&one, &condition);
        clauses_or(&all, &one);
        assert_int_equal(all.inexact, value >= CLAUSES_MAX);
    }
    clauses_not(&all);
    assert_true(all.inexact);
    clauses_set(&one, true);
    clauses_and(&one, &all);
    assert_true(one.inexact);
    assert_false(clauses_always(&one));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formulas),
        cmocka_unit_test(test_fit),
        cmocka_unit_test(test_too_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
