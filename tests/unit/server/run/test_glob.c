/* server/run/glob.c: what a name of `outputs` matches, and that no pattern takes long. */
#include "server/run/glob.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "jail/base/cleanup.h"

static const struct {
    const char *pattern, *path;
    bool matches;
} cases[] = {
    {"", "", true},
    {"a", "a", true},
    {"a", "b", false},
    {"a", "ab", false},
    {"ab", "a", false},
    {"*", "plot.png", true},
    {"*.png", "plot.png", true},
    {"*.png", "plot.svg", false},
    {"*.png", ".png", false}, /* a leading dot is matched by a dot only */
    {".*", ".png", true},
    {"*", "", true},
    {"*.png", "out/plot.png", false}, /* no wildcard crosses a '/' */
    {"*/*.png", "out/plot.png", true},
    {"out/*", "out/plot.png", true},
    {"out/*", "out/a/b", false},
    {"out/*", "out/.hidden", false},
    {"*/x", "ab/y", false},
    {"*a*b*c", "xaybzc", true},
    {"*a*b*c", "xaybz", false},
    {"**", "abc", true},
    {"?", "a", true},
    {"?", "", false},
    {"?", "/", false},
    {"?", ".", false},
    {"a?", "a.", true},
    {"[abc]", "b", true},
    {"[abc]", "d", false},
    {"[!abc]", "d", true},
    {"[^abc]", "a", false},
    {"[a-c]x", "bx", true},
    {"[a-c]x", "dx", false},
    {"[]]", "]", true},
    {"[!]]", "]", false},
    {"[a-]", "-", true},
    {"[", "[", true},
    {"[a", "[a", true},
    {"[a/b]", "a", false}, /* no part boundary inside brackets: '[' is itself */
    {"[!a]", "/", false},
    {"\\*", "*", true},
    {"\\*", "a", false},
    {"\\", "\\", true},
    {"*.\xff", "a.\xff", true},
    {"[\x80-\xff]", "\xc3", true},
};

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        print_message("'%s' on '%s'\n", cases[i].pattern, cases[i].path);
        uint64_t steps = 1000;
        assert_int_equal(glob_match(cases[i].pattern, cases[i].path, &steps), cases[i].matches);
    }
}

/* With a backtracking matcher this would not end before the universe does. */
static void test_many_stars(void **state)
{
    (void)state;
    char pattern[2 * 100 + 3], path[256];
    for (size_t i = 0; i < 100; i++) {
        pattern[2 * i] = '*';
        pattern[2 * i + 1] = 'a';
    }
    memcpy(pattern + 200, "*b", 3);
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    uint64_t steps = 1000000;
    assert_false(glob_match(pattern, path, &steps));
    assert_true(steps > 0);
}

/* What it may cost is what it costs at most, and then nothing matches. */
static void test_steps(void **state)
{
    (void)state;
    static const char *const patterns[] = {"*aaaaaaaaaaaaaaaaaaaab", "*[[[[[[[[[[[[[[[[[[[[b",
                                           "*[b-y][b-y][!a]"};
    for (size_t i = 0; i < ARRAY_SIZE(patterns); i++) {
        uint64_t steps = 40;
        assert_false(glob_match(patterns[i], "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", &steps));
        assert_int_equal(steps, 0);
        assert_false(glob_match("a", "a", &steps));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_many_stars),
        cmocka_unit_test(test_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
