/* The error object: the first cause wins, nothing overflows, and every function fails negative. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "jail/base/err.h"

static void test_set(void **state)
{
    (void)state;
    struct err err = {0};
    assert_false(err_is_set(&err));
    assert_int_equal(err_set(&err, ERR_CONFIG, EACCES, "a.conf:3:4", "%s is %d", "x", 7), -EACCES);
    assert_true(err_is_set(&err));
    assert_int_equal(err.kind, ERR_CONFIG);
    assert_int_equal(err.code, EACCES);
    assert_string_equal(err.item, "a.conf:3:4");
    assert_string_equal(err.step, "");
    assert_string_equal(err.text, "x is 7");
}

/* What a function returns is an error, whatever its caller or it itself got wrong. */
static void test_returns_negative(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(err_set(&err, ERR_INVALID, 0, NULL, "no code"), -EINVAL);
    assert_string_equal(err.item, "");
    assert_int_equal(err_set(NULL, ERR_INVALID, ENOENT, NULL, "nobody asks"), -ENOENT);
    assert_int_equal(err_set(NULL, ERR_INVALID, -5, NULL, "a negative code"), -EINVAL);
    assert_int_equal(err_errno(NULL, ENOENT, "nobody asks"), -ENOENT);
    assert_int_equal(err_wrap(NULL, "nobody asks"), -EINVAL);
    assert_false(err_is_set(NULL));
}

static void test_first_cause_wins(void **state)
{
    (void)state;
    struct err err = {0};
    err_errno(&err, ENOENT, "opening %s", "a");
    assert_int_equal(err.kind, ERR_INTERNAL);
    assert_string_equal(err.text, "opening a: No such file or directory");
    assert_int_equal(err_set(&err, ERR_HOST, EPERM, "b", "later"), -EPERM);
    assert_int_equal(err_errno(&err, EIO, "later still"), -EIO);
    assert_int_equal(err.kind, ERR_INTERNAL);
    assert_int_equal(err.code, ENOENT);
    assert_string_equal(err.text, "opening a: No such file or directory");
    err_clear(&err);
    assert_false(err_is_set(&err));
    err_set(&err, ERR_HOST, EPERM, "b", "anew");
    assert_string_equal(err.text, "anew");
}

static void test_wrap(void **state)
{
    (void)state;
    struct err err = {0};
    err_set(&err, ERR_SETUP, EPERM, "item", "mount: refused");
    assert_int_equal(err_wrap(&err, "job %d", 5), -EPERM);
    assert_string_equal(err.text, "job 5: mount: refused");
    assert_string_equal(err.item, "item");
    assert_int_equal(err.kind, ERR_SETUP);
}

static void test_too_long_is_cut(void **state)
{
    (void)state;
    struct err err = {0};
    char huge[2000];
    memset(huge, 'x', sizeof huge - 1);
    huge[sizeof huge - 1] = '\0';
    err_set(&err, ERR_SETUP, EPERM, huge, "%s", huge);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_int_equal(strlen(err.item), sizeof err.item - 1);
    /* What is added in front is never what gets lost. */
    err_wrap(&err, "context");
    assert_int_equal(strncmp(err.text, "context: xxx", 12), 0);
    err_wrap(&err, "%s", huge);
    assert_true(strlen(err.text) < sizeof err.text);
    err_clear(&err);
    err_errno(&err, ENOENT, "%s", huge);
    assert_non_null(strstr(err.text, ": No such file or directory"));
}

static void test_kinds_have_words(void **state)
{
    (void)state;
    for (int kind = ERR_NONE; kind <= ERR_UNAVAILABLE; kind++) {
        assert_string_not_equal(err_kind_to_string((enum err_kind)kind), "unknown");
        for (int other = ERR_NONE; other < kind; other++) {
            assert_string_not_equal(err_kind_to_string((enum err_kind)kind),
                                    err_kind_to_string((enum err_kind)other));
        }
    }
    assert_string_equal(err_kind_to_string(ERR_NOT_FOUND), "not_found");
    assert_string_equal(err_kind_to_string((enum err_kind)(ERR_UNAVAILABLE + 1)), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_returns_negative),
        cmocka_unit_test(test_first_cause_wins),
        cmocka_unit_test(test_wrap),
        cmocka_unit_test(test_too_long_is_cut),
        cmocka_unit_test(test_kinds_have_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
