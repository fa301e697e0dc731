/* server/kit/utc.c: moments that there are, and one beyond all years. */
#include "server/kit/utc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_moments(void **state)
{
    (void)state;
    char text[UTC_BYTES];
    utc_write(0, text);
    assert_string_equal(text, "1970-01-01T00:00:00.000Z");
    utc_write(1769851800125, text);
    assert_string_equal(text, "2026-01-31T09:30:00.125Z");
    utc_write(UINT64_MAX, text); /* no year of it fits: some text, and no more than there is room for */
    assert_true(strlen(text) < UTC_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_moments)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
