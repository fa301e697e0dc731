/* server/kit/ident.c: which ids of a caller are kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "jail/base/cleanup.h"
#include "server/kit/ident.h"

static void keeps_sane_ids(void **state)
{
    (void)state;
    char longest[IDENT_BYTES], ret[IDENT_BYTES];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    const char *const rows[] = {"a", "req-1", "0af7651916cd43dd", "a.b_c:d/e+f=g@h~i", longest};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        assert_true(ident_is_sane(rows[i]));
        ident_choose(rows[i], ret);
        assert_string_equal(ret, rows[i]);
    }
}

static void replaces_others(void **state)
{
    (void)state;
    char too_long[IDENT_BYTES + 1], ret[IDENT_BYTES];
    memset(too_long, 'x', sizeof too_long - 1);
    too_long[sizeof too_long - 1] = '\0';
    const char *const rows[] = {"", " ", "a b", "a\nb", "a\"b", "\xc3\xa4", "a;b", "<a>", too_long};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        assert_false(ident_is_sane(rows[i]));
        ident_choose(rows[i], ret);
        assert_string_not_equal(ret, rows[i]);
        assert_true(ident_is_sane(ret));
    }
    ident_choose(NULL, ret);
    assert_true(ident_is_sane(ret));
}

static void makes_uuids(void **state)
{
    (void)state;
    char a[IDENT_BYTES], b[IDENT_BYTES];
    ident_fresh(a);
    ident_fresh(b);
    assert_string_not_equal(a, b);
    assert_int_equal(strlen(a), 36);
    assert_int_equal(a[8], '-');
    assert_int_equal(a[13], '-');
    assert_int_equal(a[14], '4');
    assert_int_equal(a[18], '-');
    assert_non_null(strchr("89ab", a[19]));
    assert_int_equal(a[23], '-');
}

static void knows_traceparents(void **state)
{
    (void)state;
    assert_true(ident_is_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
    assert_true(ident_is_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"));
    static const char *const bad[] = {
        "",
        "00",
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0\n",
    };
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_false(ident_is_traceparent(bad[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_sane_ids),
        cmocka_unit_test(replaces_others),
        cmocka_unit_test(makes_uuids),
        cmocka_unit_test(knows_traceparents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
