/* server/kit/signals.c: a signal's name, or its number where it has none. */
#include "server/kit/signals.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_names(void **state)
{
    (void)state;
    char name[SIGNAL_NAME_BYTES];
    assert_string_equal(signal_name(SIGSEGV, name), "SIGSEGV");
    assert_string_equal(signal_name(40, name), "SIG40");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
