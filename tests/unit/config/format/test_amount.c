/* config/format/amount.c: which fields are amounts, each unit, and every way to be wrong. */
#include "config/format/amount.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "jail/base/cleanup.h"

static void the_name_says_what_it_is(void **state)
{
    (void)state;
    static const char *const amounts[] = {"memory_bytes", "timeout_ms", "max_unread_bytes_per_key", "a_ms_b",
                                          "a_bytesize_bytes"};
    static const char *const others[] = {"pids", "bytes", "ms", "a_msg", "a_bytesize", "scratch_inodes", ""};
    for (size_t i = 0; i < ARRAY_SIZE(amounts); i++) {
        assert_true(amount_is(amounts[i]));
    }
    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        assert_false(amount_is(others[i]));
    }
}

static void units(void **state)
{
    (void)state;
    static const struct {
        const char *field, *text;
        uint64_t value;
    } rows[] = {
        {"a_bytes", "0", 0},
        {"a_bytes", "007", 7},
        {"a_bytes", "5B", 5},
        {"a_bytes", "3KiB", 3072},
        {"a_bytes", "512MiB", 536870912},
        {"a_bytes", "2GiB", 2147483648},
        {"a_bytes", "1TiB", 1ull << 40},
        {"a_bytes", "16777215TiB", 16777215ull << 40},
        {"a_bytes", "18446744073709551615", UINT64_MAX},
        {"a_ms", "0s", 0},
        {"a_ms", "5ms", 5},
        {"a_ms", "30s", 30000},
        {"a_ms", "5m", 300000},
        {"a_ms", "1h", 3600000},
        {"pids", "64", 64},
        {"soft", "64", 64},
        {"soft", "8MiB", 8388608},
        {"hard", "5s", 5},
        {"hard", "2m", 120},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        uint64_t value = 1;
        const char *wrong = amount_parse(rows[i].field, rows[i].text, strlen(rows[i].text), &value);
        if (wrong || value != rows[i].value) {
            fail_msg("%s: %s", rows[i].text, wrong ? wrong : "another value");
        }
    }
}

static void what_is_wrong(void **state)
{
    (void)state;
    static const char size[] =
        "is not a whole number of bytes, alone or with B, KiB, MiB, GiB or TiB (\"512MiB\")";
    static const char time[] = "is not a whole number of milliseconds, alone or with ms, s, m or h (\"30s\")";
    static const struct {
        const char *field, *text, *wrong;
    } rows[] = {
        {"a_bytes", "", size},
        {"a_bytes", "MiB", size},
        {"a_bytes", "-1", size},
        {"a_bytes", "+1", size},
        {"a_bytes", " 1", size},
        {"a_bytes", "1 MiB", size},
        {"a_bytes", "1.5GiB", size},
        {"a_bytes", "1GB", size},
        {"a_bytes", "1G", size},
        {"a_bytes", "1mib", size},
        {"a_bytes", "1MiBs", size},
        {"a_bytes", "30s",
         "is a time; this is a number of bytes, alone or with B, KiB, MiB, GiB or TiB (\"512MiB\")"},
        {"a_bytes", "18446744073709551616", AMOUNT_TOO_LARGE},
        {"a_bytes", "99999999999999999999999KiB", AMOUNT_TOO_LARGE},
        {"a_bytes", "16777216TiB", AMOUNT_TOO_LARGE},
        {"a_ms", "", time},
        {"a_ms", "s", time},
        {"a_ms", "1d", time},
        {"a_ms", "1S", time},
        {"a_ms", "1h30m", time},
        {"a_ms", "1KiB",
         "is a size; this is a number of milliseconds, alone or with ms, s, m or h (\"30s\")"},
        {"a_ms", "5124095576031h", AMOUNT_TOO_LARGE},
        {"soft", "500ms", "is less than a second; this is a number of whole ones (\"5s\")"},
        {"hard", "5x",
         "is not a whole number, alone or of bytes (\"8MiB\") or seconds (\"5s\", \"2m\", \"1h\")"},
        {"pids", "64KiB", "is not a whole number"},
        {"pids", "5s", "is not a whole number"},
        {"pids", "x", "is not a whole number"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        uint64_t value = 1;
        const char *wrong = amount_parse(rows[i].field, rows[i].text, strlen(rows[i].text), &value);
        assert_string_equal(wrong ? wrong : rows[i].text, rows[i].wrong);
        assert_int_equal(value, 1);
    }
    uint64_t value;
    assert_null(amount_parse("a_ms", "5sx", 2, &value)); /* no byte behind the length counts */
    assert_int_equal(value, 5000);
}

static void printed(void **state)
{
    (void)state;
    static const struct {
        enum amount_unit unit;
        uint64_t value;
        const char *text;
    } rows[] = {
        {AMOUNT_BYTES, 0, "0"},
        {AMOUNT_BYTES, 1000, "1000B"},
        {AMOUNT_BYTES, 1ull << 29, "512MiB"},
        {AMOUNT_BYTES, 1536, "1536B"},
        {AMOUNT_BYTES, 1ull << 40, "1TiB"},
        {AMOUNT_TIME, 1500, "1500ms"},
        {AMOUNT_TIME, 30000, "30s"},
        {AMOUNT_TIME, 120000, "2m"},
        {AMOUNT_PLAIN, 1024, "1024"},
        {AMOUNT_BYTES, UINT64_MAX, "18446744073709551615B"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char text[AMOUNT_TEXT_MAX];
        assert_string_equal(amount_print(rows[i].unit, rows[i].value, text), rows[i].text);
    }
    assert_int_equal(amount_unit("5", 1), AMOUNT_PLAIN);
    assert_int_equal(amount_unit("5KiB", 4), AMOUNT_BYTES);
    assert_int_equal(amount_unit("5ms", 3), AMOUNT_TIME);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_name_says_what_it_is),
        cmocka_unit_test(units),
        cmocka_unit_test(printed),
        cmocka_unit_test(what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
