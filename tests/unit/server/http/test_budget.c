/* server/http/budget.c: what one may have, and what is left for others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/http/budget.h"

static void whoever_is_alone_may_have_all(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 2; n++) { /* nobody; nobody and one key */
        struct budget budget;
        unsigned account = (unsigned)n - 1;
        assert_int_equal(budget_open(&budget, 1000, SIZE_MAX, n), 0);
        assert_int_equal(budget_take(&budget, account, 1001), BUDGET_FULL);
        assert_int_equal(budget_take(&budget, account, 900), BUDGET_TAKEN);
        assert_int_equal(budget_take(&budget, account, SIZE_MAX), BUDGET_FULL);
        assert_int_equal(budget_take(&budget, account, 101), BUDGET_FULL);
        assert_int_equal(budget_take(&budget, account, 100), BUDGET_TAKEN);
        budget_give_back(&budget, account, 1000);
        assert_int_equal(budget.used_bytes, 0);
        budget_close(&budget);
    }
}

static void nobody_has_more_than_is_left_for_others(void **state)
{
    (void)state;
    struct budget budget;
    assert_int_equal(budget_open(&budget, 1000, SIZE_MAX, 11), 0);
    assert_int_equal(budget_take(&budget, 1, 501), BUDGET_NO_SHARE);
    assert_int_equal(budget_take(&budget, 1, 500), BUDGET_TAKEN);
    assert_int_equal(budget_take(&budget, 1, 1), BUDGET_NO_SHARE);
    assert_int_equal(budget_take(&budget, 2, 250), BUDGET_TAKEN);
    /* However many take what they can get, the next one gets something. */
    for (unsigned account = 3; account < 10; account++) {
        while (budget_take(&budget, account, 1) == BUDGET_TAKEN) {
        }
        assert_true(budget.used_by[account] > 0);
    }
    budget_give_back(&budget, 1, 500);
    assert_int_equal(budget_take(&budget, 10, 250), BUDGET_TAKEN);
    budget_close(&budget);
}

static void the_debtor(void **state)
{
    (void)state;
    struct budget budget;
    assert_int_equal(budget_open(&budget, 1000, 600, 4), 0);
    budget_add(&budget, 1, 600);
    assert_int_equal(budget_debtor(&budget, 1), -1);
    budget_add(&budget, 1, 1); /* beyond what one may have */
    assert_int_equal(budget_debtor(&budget, 1), 1);
    assert_int_equal(budget_debtor(&budget, 2), -1);
    budget_give_back(&budget, 1, 1);
    budget_add(&budget, 2, 300);
    budget_add(&budget, 3, 101); /* all are too many: the largest's */
    assert_int_equal(budget_debtor(&budget, 3), 1);
    budget_give_back(&budget, 1, 600);
    budget_add(&budget, 2, 300);
    budget_add(&budget, 3, 499);
    assert_int_equal(budget_debtor(&budget, 3), 3); /* of two alike, whose turn it is */
    assert_int_equal(budget_debtor(&budget, 2), 2);
    budget_close(&budget);
}

static void keys_that_come_and_go(void **state)
{
    (void)state;
    struct budget budget;
    assert_int_equal(budget_open(&budget, 1000, SIZE_MAX, 2), 0);
    assert_int_equal(budget_take(&budget, 1, 600), BUDGET_TAKEN);
    assert_int_equal(budget_set_keys(&budget, 2, 4), 0);
    assert_int_equal(budget_take(&budget, 1, 1), BUDGET_NO_SHARE);
    assert_int_equal(budget_take(&budget, 3, 200), BUDGET_TAKEN);
    assert_int_equal(budget_set_keys(&budget, 1, 4), 0);
    assert_int_equal(budget_take(&budget, 1, 200), BUDGET_TAKEN);
    assert_int_equal(budget.used_by[1], 800);
    budget_close(&budget);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_is_alone_may_have_all),
        cmocka_unit_test(nobody_has_more_than_is_left_for_others),
        cmocka_unit_test(the_debtor),
        cmocka_unit_test(keys_that_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
