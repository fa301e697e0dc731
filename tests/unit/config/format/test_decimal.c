/* config/format/decimal.c: numbers that a double keeps, and numbers that it does not. */
#include "config/format/decimal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jail/base/cleanup.h"

static void test_kept(void **state)
{
    (void)state;
    static const char *const kept[] = {
        "0",
        "-0",
        "0.000",
        "0e400",
        "1",
        "-1.50",
        "100",
        "1e2",
        "0.1",
        "0.30000000000000004",
        "1e300",
        "1E+23",
        "9007199254740992",
        "-9007199254740992.0",
        "9007199254740994",
        "0.9007199254740992e16",
        "9223372036854775808", /* 2^63, digit by digit */
        "9223372036854776000", /* the same in JavaScript */
        "18446744073709551616",
        "1.7976931348623157e308",
        "5e-324",
        "2.2250738585072014e-308",
        "5.684341886080802e-14", /* 2^-44 */
        "6.189700196426902e+26", /* 2^89 */
        "0.1000000000000000055511151231257827",
    };
    for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
        if (!decimal_is_double(kept[i])) {
            fail_msg("%s", kept[i]);
        }
    }
}

static void test_changed(void **state)
{
    (void)state;
    static const char *const changed[] = {
        "9007199254740993",
        "-9007199254740993",
        "9007199254740993.0",
        "900719925474099.3e1",
        "9007199254740992.5",
        "18446744073709551615",
        "12345678901234567890",
        "1e400",
        "-1e400",
        "1e99999999999999999999",
        "1.7976931348623159e308",
        "1e-400",
        "1e-99999999999999999999",
        "3e-324",
        "0.12345678901234567890",
    };
    for (size_t i = 0; i < ARRAY_SIZE(changed); i++) {
        if (decimal_is_double(changed[i])) {
            fail_msg("%s", changed[i]);
        }
    }
}

/* Appends as few digits as give the double back; of those, JavaScript's are the nearest that do. */
static void write_shortest(double number, char ret[64])
{
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(ret, 64, "%.*e", digits - 1, number);
        if (strtod(ret, NULL) == number) {
            return;
        }
    }
}

static void test_every_double_is_kept(void **state)
{
    (void)state;
    uint64_t random = 0x9e3779b97f4a7c15u;
    for (int i = 0; i < 100000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        /* Any bits, and powers of two. */
        uint64_t bits = i % 4 == 0 ? random & 0xfff0000000000000u : random;
        double number;
        char text[64];
        memcpy(&number, &bits, sizeof number);
        if (!isfinite(number)) {
            continue;
        }
        write_shortest(number, text);
        assert_true(decimal_is_double(text));
        snprintf(text, sizeof text, "%.16e", number);
        assert_true(decimal_is_double(text));
        snprintf(text, sizeof text, "%.29e", number);
        assert_true(decimal_is_double(text));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_changed),
        cmocka_unit_test(test_every_double_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
