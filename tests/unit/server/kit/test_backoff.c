/* server/kit/backoff.c: the first deaths cost nothing, then waiting doubles, and a long life forgives all.
 */
#include "server/kit/backoff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "jail/base/clock.h"

static void test_delays(void **state)
{
    (void)state;
    struct backoff backoff = {0};
    for (unsigned i = 0; i < BACKOFF_FREE; i++) {
        assert_int_equal(backoff_after_death(&backoff, 0), 0);
    }
    for (uint64_t seconds = 1; seconds < 60; seconds *= 2) {
        assert_int_equal(backoff_after_death(&backoff, BACKOFF_LIFE_NS - 1), seconds * NS_PER_S);
    }
    for (int i = 0; i < 100; i++) {
        assert_int_equal(backoff_after_death(&backoff, 0), BACKOFF_MAX_NS);
    }
}

static void test_a_long_life_forgives(void **state)
{
    (void)state;
    struct backoff backoff = {0};
    for (int i = 0; i < 10; i++) {
        backoff_after_death(&backoff, 0);
    }
    assert_int_equal(backoff_after_death(&backoff, BACKOFF_LIFE_NS), 0);
    assert_int_equal(backoff_after_death(&backoff, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_delays),
        cmocka_unit_test(test_a_long_life_forgives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
