/* jail/base/capability.c: every capability has its name, and nothing else has one. */
#include "jail/base/capability.h"

#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(capability_name(0), "CAP_CHOWN");
    assert_string_equal(capability_name(10), "CAP_NET_BIND_SERVICE");
    assert_string_equal(capability_name(CAP_LAST_CAP), "CAP_CHECKPOINT_RESTORE");
    for (unsigned i = 0; i <= CAP_LAST_CAP; i++) {
        assert_int_equal(strncmp(capability_name(i), "CAP_", 4), 0);
        assert_int_equal(capability_number(capability_name(i)), i);
    }
    assert_null(capability_name(CAP_LAST_CAP + 1));
    assert_null(capability_name(-1u));
    assert_int_equal(capability_number("CHOWN"), -1);
    assert_int_equal(capability_number(""), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
