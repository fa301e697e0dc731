/* config/format/utf8.c: what is UTF-8, and what only begins a character. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config/format/utf8.h"
#include "jail/base/cleanup.h"

static void tells_utf8_from_other_bytes(void **state)
{
    (void)state;
    static const char *const good[] = {
        "", "a", "\xc2\x80", "a\xe0\xa0\x80", "\xed\x9f\xbf", "\xf0\x90\x80\x80z", "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {
        "\x80",         "a\xc0\x80",        "\xe0\x9f\xbf",     "\xf0\x8f\xbf\xbf",
        "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff",
        "\xc3(",        "\xe2\x82(",        "ok\xe2\x82",       "\xf0\x9f\x98"};
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        assert_true(utf8_is_valid(good[i], strlen(good[i])));
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_false(utf8_is_valid(bad[i], strlen(bad[i])));
    }
}

static void finds_the_unfinished_end(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t unfinished;
    } rows[] = {
        {"", 0},
        {"abc", 0},
        {"a\xc3", 1},
        {"a\xe2\x82", 2},
        {"a\xf0\x9f\x98", 3},
        {"a\xc3\xa4", 0},
        {"\xe2\x82\xac", 0},
        {"a\xf0\x9f\x98\x80", 0},
        {"a\x80\x80\x80\x80", 0},
        {"a\xff", 0},
        {"a\xc0", 0},
        {"\xe0\x9f", 0}, /* no third byte would make it one */
        {"\xed\xa0", 0},
        {"\xf4\x90", 0},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        assert_int_equal(utf8_unfinished(rows[i].text, strlen(rows[i].text)), rows[i].unfinished);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_utf8_from_other_bytes),
        cmocka_unit_test(finds_the_unfinished_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
