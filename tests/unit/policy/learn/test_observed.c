/* policy/learn/observed.c: everything once, with counts. */
#include "policy/learn/observed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_calls(void **state)
{
    (void)state;
    struct observed observed = {0};
    const uint64_t one[6] = {1}, two[6] = {2};
    observed_add_call(&observed, 7, two);
    observed_add_call(&observed, 7, one);
    observed_add_call(&observed, 3, one);
    observed_add_call(&observed, 7, two);
    observed_sort(&observed);
    assert_int_equal(observed.n_calls, 3);
    assert_int_equal(observed.calls[0].nr, 3);
    assert_int_equal(observed.calls[1].arguments[0], 1);
    assert_int_equal(observed.calls[2].count, 2);
    observed_clear(&observed);
}

static void test_paths(void **state)
{
    (void)state;
    struct observed observed = {0};
    assert_null(observed_find(&observed, "/a"));
    for (int i = 0; i < 5000; i++) {
        char path[32];
        snprintf(path, sizeof path, "/d/%d", i % 2500);
        observed_add_path(&observed, path, i < 2500 ? PATH_LOOKED : PATH_READ, NULL);
    }
    observed_add_path(&observed, "/a", PATH_LINK, "b");
    observed_sort(&observed);
    assert_false(observed.failed);
    assert_int_equal(observed.n_paths, 2501);
    assert_string_equal(observed.paths[0].path, "/a");
    assert_string_equal(observed.paths[0].target, "b");
    const struct observed_path *path = observed_find(&observed, "/d/2499");
    assert_non_null(path);
    assert_int_equal(path->how, PATH_LOOKED | PATH_READ);
    assert_int_equal(path->count, 2);
    observed_add_path(&observed, "/looked", PATH_LOOKED, NULL);
    assert_int_equal(observed_promote(&observed), 1);
    assert_int_equal(observed_find(&observed, "/looked")->how, PATH_LOOKED | PATH_READ);
    assert_int_equal(observed_promote(&observed), 0);
    observed_clear(&observed);
}

/* More than anybody would read: an error of its own, and none of memory. */
static void test_calls_have_an_end(void **state)
{
    (void)state;
    struct observed observed = {0};
    for (uint64_t i = 0; i <= 16384; i++) {
        const uint64_t arguments[6] = {i};
        observed_add_call(&observed, 1, arguments);
    }
    assert_true(observed.full);
    assert_false(observed.failed);
    observed_clear(&observed);
}

static void test_control_characters_are_counted(void **state)
{
    (void)state;
    struct observed observed = {0};
    observed_add_path(&observed, "/a\nmount {}", PATH_READ, NULL);
    observed_add_path(&observed, "/a", PATH_LINK, "b\x7f");
    assert_int_equal(observed.n_paths, 0);
    assert_int_equal(observed.n_unnamed, 2);
    observed_clear(&observed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_have_an_end),
        cmocka_unit_test(test_control_characters_are_counted),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
