/* server/kit/rich_results.c: what a program may show, and what becomes of what it must not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/format/json.h"
#include "jail/base/buf.h"
#include "server/kit/rich_results.h"

static const char *add(struct rich_results *results, const char *type, const char *data)
{
    struct json_slice type_slice = {type, strlen(type), type[0] == '"' ? JSON_STRING : JSON_NUMBER};
    struct json_slice data_slice = {data, strlen(data), data[0] == '{' ? JSON_OBJECT : JSON_ARRAY};
    size_t at;
    const char *why = rich_results_add(results, &type_slice, &data_slice, &at);
    assert_true(at <= results->json.len);
    return why;
}

/* What is told of one of these data. */
static const struct {
    const char *data, *told; /* NULL: nothing */
    bool cut;
} bundles[] = {
    {"{\"text/plain\":\"a\\u0041\\n\"}", "{\"text/plain\":\"aA\\n\"}", false},
    {"{\"image/png\":\"AQID\",\"text/plain\":\"x\"}", "{\"image/png\":\"AQID\",\"text/plain\":\"x\"}", false},
    {"{\"image/svg+xml\":\"<svg/>\"}", "{\"image/svg+xml\":\"<svg/>\"}", false},
    {"{\"application/json\":\" [1 ,\\n{\\\"a\\\":null}] \"}", "{\"application/json\":[1,{\"a\":null}]}",
     false},
    {"{\"application/geo+json\":\"2\"}", "{\"application/geo+json\":2}", false},
    /* Not base64, not JSON, not a string, not a mime. */
    {"{\"image/png\":\"<b>\",\"text/plain\":\"x\"}", "{\"text/plain\":\"x\"}", true},
    {"{\"application/pdf\":\"AQI\"}", NULL, true},
    {"{\"application/json\":\"1,\\\"x\\\":2\"}", NULL, true},
    {"{\"application/json\":\"\"}", NULL, true},
    {"{\"application/json\":\"{\\\"a\\\":1,\\\"a\\\":2}\"}", NULL, true},
    {"{\"text/plain\":1}", NULL, true},
    {"{\"text/plain\":{\"a\":\"b\"}}", NULL, true},
    {"{\"text\":\"x\"}", NULL, true},
    {"{\"text/\":\"x\"}", NULL, true},
    {"{\"/plain\":\"x\"}", NULL, true},
    {"{\"text/a/b\":\"x\"}", NULL, true},
    {"{\"text/a\\\"b\":\"x\"}", NULL, true},
    {"{\"text/plain; charset=x\":\"x\"}", NULL, true},
    {"{\"\":\"x\"}", NULL, true},
    {"{}", NULL, true},
    /* What the strict parser refuses. */
    {"{\"text/plain\":\"a\\u0000\"}", NULL, true},
    {"{\"text/plain\":\"a\",\"text/plain\":\"b\"}", NULL, true},
};

static void bundles_are_written_anew(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bundles / sizeof bundles[0]; i++) {
        struct rich_results results = {0};
        char expected[256] = "";
        if (bundles[i].told) {
            snprintf(expected, sizeof expected, "{\"type\":\"display\",\"data\":%s}", bundles[i].told);
        }
        assert_null(add(&results, "\"display\"", bundles[i].data));
        assert_string_equal(results.json.len > 0 ? results.json.data : "", expected);
        assert_int_equal(results.n, bundles[i].told != NULL);
        assert_int_equal(results.cut, bundles[i].cut);
        buf_free(&results.json);
    }
}

static void errors_have_three_texts(void **state)
{
    (void)state;
    struct rich_results results = {0};
    assert_null(add(&results, "\"error\"", "{\"name\":\"E\",\"value\":\"v\",\"traceback\":\"t\",\"x\":1}"));
    assert_string_equal(results.json.data,
                        "{\"type\":\"error\",\"name\":\"E\",\"value\":\"v\",\"traceback\":\"t\"}");
    assert_false(results.cut);
    assert_null(add(&results, "\"error\"", "{\"name\":1}"));
    assert_true(results.cut);
    size_t size;
    const char *second = rich_results_get(&results, 1, &size);
    assert_int_equal(size, strlen("{\"type\":\"error\",\"name\":\"\",\"value\":\"\",\"traceback\":\"\"}"));
    assert_memory_equal(second, "{\"type\":\"error\",\"name\":\"\",", 26);
    buf_free(&results.json);
}

static void other_types_break_the_rules(void **state)
{
    (void)state;
    static const char *const types[] = {"\"displays\"", "\"\"", "1", "\"display"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct rich_results results = {0};
        assert_non_null(add(&results, types[i], "{\"text/plain\":\"x\"}"));
        assert_int_equal(results.n, 0);
        assert_int_equal(results.json.len, 0);
        buf_free(&results.json);
    }
    struct rich_results results = {0};
    assert_non_null(add(&results, "\"display\"", "[]"));
}

static void what_is_beyond_the_limits_is_left_out(void **state)
{
    (void)state;
    struct rich_results results = {0};
    for (size_t i = 0; i < RICH_RESULTS_MAX; i++) {
        assert_null(add(&results, "\"display\"", "{\"text/plain\":\"x\"}"));
    }
    assert_int_equal(results.n, RICH_RESULTS_MAX);
    assert_false(results.cut);
    assert_null(add(&results, "\"display\"", "{\"text/plain\":\"x\"}"));
    assert_int_equal(results.n, RICH_RESULTS_MAX);
    assert_true(results.cut);
    buf_free(&results.json);

    /* One of the most bytes that one may have, and as many as all may have together. */
    static const char head[] = "{\"text/plain\":\"";
    char *text = malloc(RICH_RESULT_BYTES_MAX + 2);
    assert_non_null(text);
    memset(text, 'x', RICH_RESULT_BYTES_MAX + 2);
    for (size_t i = 0; i < strlen(head); i++) {
        text[i] = head[i];
    }
    strcpy(text + RICH_RESULT_BYTES_MAX - 2, "\"}");
    results = (struct rich_results){0};
    assert_null(add(&results, "\"display\"", text));
    assert_null(add(&results, "\"display\"", text));
    assert_int_equal(results.n, 2);
    assert_false(results.cut);
    assert_null(add(&results, "\"display\"", "{\"text/plain\":\"x\"}"));
    assert_int_equal(results.n, 2);
    assert_true(results.cut);
    buf_free(&results.json);

    memset(text + RICH_RESULT_BYTES_MAX - 2, 'x', 3);
    strcpy(text + RICH_RESULT_BYTES_MAX - 1, "\"}");
    results = (struct rich_results){0};
    assert_null(add(&results, "\"display\"", text));
    assert_int_equal(results.n, 0);
    assert_true(results.cut);
    buf_free(&results.json);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bundles_are_written_anew),
        cmocka_unit_test(errors_have_three_texts),
        cmocka_unit_test(other_types_break_the_rules),
        cmocka_unit_test(what_is_beyond_the_limits_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
