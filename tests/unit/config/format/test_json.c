/* config/format/json.c: what is read, exactly, and what is refused and where. */
#include "config/format/json.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"

static struct json_doc *parse(const char *text)
{
    struct err err = {0};
    struct json_doc *doc = NULL;
    /* In memory of its own size, so that a sanitizer sees any look behind the end. */
    size_t size = strlen(text);
    char *copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    memcpy(copy, text, size);
    if (json_parse(copy, size, &doc, &err) != 0) {
        fail_msg("%s: %s", text, err.text);
    }
    free(copy);
    return doc;
}

static void test_values(void **state)
{
    (void)state;
    struct json_doc *doc =
        parse(" {\"s\": \"a\\u00e4\\ud83d\\ude00\\n\", \"n\": -1.5e1, \"t\": true, \"f\": false, "
              "\"z\": null, \"a\": [1, [], {}], \"\": 0, \"k\\u0061\": 7}\r\n\t");
    const struct json *root = json_root(doc);
    assert_int_equal(json_type_of(root), JSON_OBJECT);
    assert_int_equal(json_count(root), 8);
    assert_string_equal(json_string(json_get(root, "s")), "a\xc3\xa4\xf0\x9f\x98\x80\n");
    assert_int_equal(json_string_length(json_get(root, "s")), 8);
    int64_t number;
    assert_true(json_i64(json_get(root, "n"), &number));
    assert_int_equal(number, -15);
    assert_true(json_bool(json_get(root, "t")));
    assert_false(json_bool(json_get(root, "f")));
    assert_int_equal(json_type_of(json_get(root, "f")), JSON_BOOL);
    assert_int_equal(json_type_of(json_get(root, "z")), JSON_NULL);
    assert_int_equal(json_type_of(json_get(root, "")), JSON_NUMBER);
    assert_int_equal(json_type_of(json_get(root, "ka")), JSON_NUMBER);
    const struct json *items = json_get(root, "a");
    assert_int_equal(json_count(items), 3);
    assert_int_equal(json_type_of(json_next(json_first(items))), JSON_ARRAY);
    assert_int_equal(json_type_of(json_next(json_next(json_first(items)))), JSON_OBJECT);
    assert_string_equal(json_key(json_first(root)), "s");
    assert_null(json_key(json_first(items)));
    assert_int_equal(json_offset(root), 1);
    assert_int_equal(json_offset(json_first(root)), 7);
    json_free(doc);
}

static void test_absent_is_taken_everywhere(void **state)
{
    (void)state;
    uint64_t u;
    int64_t i;
    double d;
    assert_int_equal(json_type_of(NULL), JSON_ABSENT);
    assert_null(json_get(NULL, "a"));
    assert_null(json_first(NULL));
    assert_null(json_next(NULL));
    assert_null(json_key(NULL));
    assert_null(json_string(NULL));
    assert_int_equal(json_count(NULL), 0);
    assert_int_equal(json_string_length(NULL), 0);
    assert_false(json_bool(NULL) || json_u64(NULL, &u) || json_i64(NULL, &i) || json_double(NULL, &d));
    json_free(NULL);
    struct json_doc *doc = parse("[1]");
    assert_null(json_get(json_root(doc), "a"));
    assert_null(json_string(json_root(doc)));
    json_free(doc);
}

static void test_type_words(void **state)
{
    (void)state;
    assert_string_equal(json_type_to_string(JSON_STRING), "a string");
    assert_string_equal(json_type_to_string(JSON_OBJECT), "an object");
    assert_string_equal(json_type_to_string((enum json_type)77), "unknown");
}

static void test_whole_numbers_are_exact(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_u64, is_i64;
        uint64_t u64;
        int64_t i64;
    } cases[] = {
        {"0", true, true, 0, 0},
        {"-0", true, true, 0, 0},
        {"0.0", true, true, 0, 0},
        {"0e99", true, true, 0, 0},
        {"-0.00e-9", true, true, 0, 0},
        {"30.0", true, true, 30, 30},
        {"1e3", true, true, 1000, 1000},
        {"10e-1", true, true, 1, 1},
        {"12.50e1", true, true, 125, 125},
        {"1.5", false, false, 0, 0},
        {"1e-1", false, false, 0, 0},
        {"1.00000000000000000000000000001", false, false, 0, 0},
        {"9007199254740993", true, true, 9007199254740993u, 9007199254740993},
        {"9223372036854775807", true, true, INT64_MAX, INT64_MAX},
        {"9223372036854775808", true, false, 9223372036854775808u, 0},
        {"18446744073709551615", true, false, UINT64_MAX, 0},
        {"18446744073709551615.000", true, false, UINT64_MAX, 0},
        {"1844674407370955161.5e1", true, false, UINT64_MAX, 0},
        {"18446744073709551616", false, false, 0, 0},
        {"100000000000000000000", false, false, 0, 0},
        {"1e20", false, false, 0, 0},
        {"1e1000000", false, false, 0, 0},
        {"1e99999999999999999999", false, false, 0, 0},
        {"1e-99999999999999999999", false, false, 0, 0},
        {"-1", false, true, 0, -1},
        {"-9223372036854775808", false, true, 0, INT64_MIN},
        {"-9223372036854775809", false, false, 0, 0},
        {"\"1\"", false, false, 0, 0},
        {"true", false, false, 0, 0},
        {"null", false, false, 0, 0},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct json_doc *doc = parse(cases[i].text);
        uint64_t u64 = 0;
        int64_t i64 = 0;
        bool is_u64 = json_u64(json_root(doc), &u64), is_i64 = json_i64(json_root(doc), &i64);
        if (is_u64 != cases[i].is_u64 || is_i64 != cases[i].is_i64 || u64 != cases[i].u64 ||
            i64 != cases[i].i64) {
            fail_msg("%s", cases[i].text);
        }
        json_free(doc);
    }
}

static void test_doubles(void **state)
{
    (void)state;
    double number = 0;
    struct json_doc *doc = parse("[1.5, 1e999, \"1\"]");
    const struct json *item = json_first(json_root(doc));
    assert_true(json_double(item, &number));
    assert_true(number == 1.5);
    assert_false(json_double(json_next(item), &number));
    assert_false(json_double(json_next(json_next(item)), &number));
    json_free(doc);
}

static void refused(const char *text, size_t size, const char *message)
{
    struct err err = {0};
    struct json_doc *doc = NULL;
    char *copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    memcpy(copy, text, size);
    assert_int_equal(json_parse(copy, size, &doc, &err), -EINVAL);
    free(copy);
    assert_null(doc);
    assert_int_equal(err.kind, ERR_INVALID);
    assert_string_equal(err.item, "");
    assert_string_equal(err.text, message);
}

static void test_refused(void **state)
{
    (void)state;
#define REFUSED(text, message) refused(text, sizeof text - 1, message)
    REFUSED("", "line 1, column 1: expected a value");
    REFUSED("  ", "line 1, column 3: expected a value");
    REFUSED("\xef\xbb\xbf{}", "line 1, column 1: expected a value");
    REFUSED("{} x", "line 1, column 4: there is something behind the value");
    REFUSED("{}{}", "line 1, column 3: there is something behind the value");
    REFUSED("1\0", "line 1, column 2: there is something behind the value");
    REFUSED("{\n \"a\": 1,\n}", "line 3, column 1: expected a key in double quotes");
    REFUSED("{'a': 1}", "line 1, column 2: expected a key in double quotes");
    REFUSED("{\"a\" 1}", "line 1, column 6: expected ':'");
    REFUSED("{\"a\": 1 \"b\": 2}", "line 1, column 9: expected ',' or '}'");
    REFUSED("[1,]", "line 1, column 4: expected a value");
    REFUSED("[1 2]", "line 1, column 4: expected ',' or ']'");
    REFUSED("[", "line 1, column 2: expected a value");
    REFUSED("[1", "line 1, column 3: expected ',' or ']'");
    REFUSED("{\"a\":", "line 1, column 6: expected a value");
    REFUSED("\v1", "line 1, column 1: expected a value");
    REFUSED("tru", "line 1, column 4: expected a value");
    REFUSED("True", "line 1, column 1: expected a value");
    REFUSED("nul\0", "line 1, column 4: expected a value");
    REFUSED("NaN", "line 1, column 1: expected a value");
    REFUSED("Infinity", "line 1, column 1: expected a value");
    REFUSED("-", "line 1, column 2: a digit must follow");
    REFUSED("-a", "line 1, column 2: a digit must follow");
    REFUSED("+1", "line 1, column 1: expected a value");
    REFUSED(".5", "line 1, column 1: expected a value");
    REFUSED("01", "line 1, column 2: a number must not begin with 0");
    REFUSED("-01", "line 1, column 3: a number must not begin with 0");
    REFUSED("1.", "line 1, column 3: a digit must follow the decimal point");
    REFUSED("1.e5", "line 1, column 3: a digit must follow the decimal point");
    REFUSED("1e", "line 1, column 3: a digit must follow the \"e\"");
    REFUSED("1e+", "line 1, column 4: a digit must follow the \"e\"");
    REFUSED("0x10", "line 1, column 2: there is something behind the value");
    REFUSED("[1, 1111111111111111111111111111111111111111111111111111111111111]",
            "line 1, column 5: a number is too long");
    REFUSED("\"a", "line 1, column 3: a string does not end");
    REFUSED("\"a\\", "line 1, column 4: there is no such escape sequence");
    REFUSED("\"\\x41\"", "line 1, column 3: there is no such escape sequence");
    REFUSED("\"\\\0\"", "line 1, column 3: there is no such escape sequence");
    REFUSED("\"a\nb\"", "line 1, column 3: a control character in a string must be escaped");
    REFUSED("\"a\0b\"", "line 1, column 3: a control character in a string must be escaped");
    REFUSED("\"\\u12\"", "line 1, column 6: \"\\u\" must be followed by four hexadecimal digits");
    REFUSED("\"a\\u0000\"", "line 1, column 3: a string must not hold a NUL");
    REFUSED("{\"a\\u0000\": 1}", "line 1, column 4: a string must not hold a NUL");
    REFUSED("\"\\ud800\"", "line 1, column 2: half of a surrogate pair");
    REFUSED("\"\\ud800\\n\"", "line 1, column 2: half of a surrogate pair");
    REFUSED("\"\\ud800\\u0041\"", "line 1, column 2: half of a surrogate pair");
    REFUSED("\"\\ud800\\ud800\"", "line 1, column 2: half of a surrogate pair");
    REFUSED("\"\\udc00\\ud800\"", "line 1, column 2: half of a surrogate pair");
    REFUSED("\"\xc3\xa4\xff\"", "line 1, column 3: not UTF-8");
    REFUSED("\"\xc0\x80\"", "line 1, column 2: not UTF-8");
    REFUSED("\"\xed\xa0\x80\"", "line 1, column 2: not UTF-8");
    REFUSED("\"\xf4\x90\x80\x80\"", "line 1, column 2: not UTF-8");
    REFUSED("\"\xe2\x82\"", "line 1, column 2: not UTF-8");
    REFUSED("\"\xe2\x82", "line 1, column 2: not UTF-8");
    REFUSED("{\"a\": 1, \"b\": 2, \"a\": 3}", "line 1, column 23: duplicate key \"a\"");
    REFUSED("{\"a\": 1,\n \"\\u0061\": 3}", "line 2, column 12: duplicate key \"a\"");
    REFUSED("[{\"x\": {\"a\": 1, \"a\": 1}}]", "line 1, column 22: duplicate key \"a\"");
#undef REFUSED
}

static void test_depth(void **state)
{
    (void)state;
    char text[2 * (JSON_DEPTH_MAX + 1) + 1];
    struct err err = {0};
    struct json_doc *doc = NULL;
    memset(text, '[', JSON_DEPTH_MAX);
    memset(text + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
    assert_int_equal(json_parse(text, 2 * (size_t)JSON_DEPTH_MAX, &doc, &err), 0);
    json_free(doc);
    memset(text, '[', JSON_DEPTH_MAX + 1);
    memset(text + JSON_DEPTH_MAX + 1, ']', JSON_DEPTH_MAX + 1);
    assert_int_equal(json_parse(text, 2 * (JSON_DEPTH_MAX + 1), &doc, &err), -EINVAL);
    assert_string_equal(err.text, "line 1, column 65: nested too deep");
}

static void test_number_of_values(void **state)
{
    (void)state;
    for (size_t extra = 0; extra < 2; extra++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        struct err err = {0};
        struct json_doc *doc = NULL;
        buf_puts(&text, "[0");
        for (size_t i = 0; i < JSON_VALUES_MAX - 2 + extra; i++) {
            buf_puts(&text, ",0");
        }
        buf_putc(&text, ']');
        int r = json_parse(text.data, text.len, &doc, &err);
        assert_int_equal(r, extra == 0 ? 0 : -EINVAL);
        json_free(r == 0 ? doc : NULL);
    }
}

static void test_file_errors_have_a_place(void **state)
{
    (void)state;
    struct err err = {0};
    struct json_doc *doc;
    assert_int_equal(json_parse_file("p.json", "{\n  \"a\": }", 10, &doc, &err), -EINVAL);
    assert_int_equal(err.kind, ERR_CONFIG);
    assert_string_equal(err.item, "p.json:2:8");
    assert_string_equal(err.text, "expected a value");
}

static void test_write_string(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t len;
        const char *written;
    } cases[] = {
        {"", 0, "\"\""},
        {"plain \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 15, "\"plain \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\""},
        {"\"\\/\b\f\n\r\t", 8, "\"\\\"\\\\/\\b\\f\\n\\r\\t\""},
        {"\0\x01\x1f\x7f", 4, "\"\\u0000\\u0001\\u001f\x7f\""},
        /* One U+FFFD for each longest start of a character that cannot go on, as Python and browsers do. */
        {"a\xff\x80z", 4, "\"a\xef\xbf\xbd\xef\xbf\xbdz\""},
        {"\xe2\x82", 2, "\"\xef\xbf\xbd\""},
        {"\xf0\x9f\x98"
         "a",
         4,
         "\"\xef\xbf\xbd"
         "a\""},
        {"\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xc0\xaf", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xf4\x90\x80\x80", 4, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        buf_puts(&text, "x");
        assert_int_equal(json_write_string(&text, cases[i].text, cases[i].len), 0);
        assert_string_equal(text.data + 1, cases[i].written);
        /* What is written can be read, unless it holds a NUL. */
        struct json_doc *doc = NULL;
        assert_int_equal(json_parse(text.data + 1, text.len - 1, &doc, NULL),
                         memchr(cases[i].text, '\0', cases[i].len) ? -EINVAL : 0);
        json_free(doc);
    }
}

static void assert_slice(const struct json_slice *slice, enum json_type type, const char *text)
{
    assert_int_equal(slice->type, type);
    assert_int_equal(slice->size, strlen(text));
    assert_memory_equal(slice->text, text, slice->size);
}

static void test_split(void **state)
{
    (void)state;
    static const char text[] =
        " { \"b\" : [1e999, {\"x\":1,\"x\":2}] ,\"a\":\"\\u0000\\\"\",\"\\u0063\":1,\"d\":null} ";
    static const char *const names[] = {"a", "b", "c", "d", "dd"};
    struct json_slice slices[ARRAY_SIZE(names)];
    const char *why = "";
    assert_int_equal(json_split(text, strlen(text), names, ARRAY_SIZE(names), slices, &why), 0);
    assert_null(why);
    assert_slice(&slices[0], JSON_STRING, "\"\\u0000\\\"\"");
    assert_slice(&slices[1], JSON_ARRAY, "[1e999, {\"x\":1,\"x\":2}]");
    assert_slice(&slices[2], JSON_NUMBER, "1");
    assert_slice(&slices[3], JSON_NULL, "null");
    assert_int_equal(slices[4].type, JSON_ABSENT);
}

/* A key is the name that it reads as, however it is written. */
static void test_split_resolves_escapes_in_keys(void **state)
{
    (void)state;
    static const struct {
        const char *name, *key;
        bool same;
    } cases[] = {
        {"data", "dat\\u0061", true},
        {"data", "\\u0064\\u0061\\u0074\\u0061", true},
        {"/\"\\\b\f\n\r\t", "\\/\\\"\\\\\\b\\f\\n\\r\\t", true},
        {"JZ", "\\u004a\\u005A", true},
        {"", "", true},
        {"data", "data\\u0000", false},
        {"", "\\u0000", false},
        {"data", "\\u0164ata", false},
        {"data", "dat", false},
        {"data", "data\\\"", false},
        {"a", "\\\\u0061", false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        struct json_slice slice;
        const char *why;
        buf_printf(&text, "{\"%s\":7}", cases[i].key);
        assert_int_equal(json_split(text.data, text.len, &cases[i].name, 1, &slice, &why), 0);
        assert_int_equal(slice.type, cases[i].same ? JSON_NUMBER : JSON_ABSENT);
    }
}

static void test_split_refuses(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "[]",
        "1",
        "{",
        "{}x",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\":1 2}",
        "{,}",
        "{\"a\":01}",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":\"\x80\"}",
        "{\"a\":1,\"b\":2,\"a\":3}",
        "{\"a\":1,\"\\u0061\":3}",
        "{\"a\":\"\n\"}",
    };
    static const char *const names[] = {"a"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct json_slice slice;
        const char *why = NULL;
        assert_int_equal(json_split(bad[i], strlen(bad[i]), names, 1, &slice, &why), -EINVAL);
        assert_non_null(why);
    }
    /* Deep, but not without end. */
    for (size_t depth = JSON_PASSED_DEPTH_MAX - 2; depth < JSON_PASSED_DEPTH_MAX + 2; depth++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        struct json_slice slice;
        const char *why;
        buf_puts(&text, "{\"a\":");
        for (size_t i = 0; i < depth; i++) {
            buf_putc(&text, '[');
        }
        for (size_t i = 0; i < depth; i++) {
            buf_putc(&text, ']');
        }
        buf_putc(&text, '}');
        int r = json_split(text.data, text.len, names, 1, &slice, &why);
        assert_int_equal(r, depth < JSON_PASSED_DEPTH_MAX ? 0 : -EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_absent_is_taken_everywhere),
        cmocka_unit_test(test_type_words),
        cmocka_unit_test(test_whole_numbers_are_exact),
        cmocka_unit_test(test_doubles),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_number_of_values),
        cmocka_unit_test(test_file_errors_have_a_place),
        cmocka_unit_test(test_write_string),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_split_resolves_escapes_in_keys),
        cmocka_unit_test(test_split_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
