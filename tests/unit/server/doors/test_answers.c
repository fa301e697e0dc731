/* server/doors/answers.c: answers to tool calls, all or nothing. */
#include "server/doors/answers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/format/json.h"
#include "jail/base/err.h"

static struct json_doc *parse(const char *text)
{
    struct json_doc *doc;
    assert_int_equal(json_parse(text, strlen(text), &doc, NULL), 0);
    return doc;
}

static void assert_text(const struct answer *answer, const char *text, bool failed, const char *expected)
{
    struct json_slice slice = json_escaped(answer->text, text);
    assert_int_equal(answer->failed, failed);
    assert_int_equal(slice.size, strlen(expected));
    assert_memory_equal(slice.text, expected, slice.size);
}

static void test_answers(void **state)
{
    (void)state;
    static const char text[] =
        "[{\"id\": \"a\", \"data\": \"x\\\"\\\\\\n\", \"error\": null}, {\"error\": \"\", \"id\": \"b\"}]";
    struct json_doc *doc = parse(text);
    struct answer *answers;
    size_t n;
    assert_int_equal(answers_decode(json_root(doc), &answers, &n, NULL), 0);
    assert_int_equal(n, 2);
    assert_string_equal(answers[0].id, "a");
    assert_text(&answers[0], text, false, "x\\\"\\\\\\n");
    assert_string_equal(answers[1].id, "b");
    assert_text(&answers[1], text, true, "");
    free(answers);
    json_free(doc);
}

static void test_none(void **state)
{
    (void)state;
    struct json_doc *doc = parse("[]");
    struct answer *answers;
    size_t n = 1;
    assert_int_equal(answers_decode(json_root(doc), &answers, &n, NULL), 0);
    assert_int_equal(n, 0);
    free(answers);
    json_free(doc);
}

static void test_refused_names_the_field(void **state)
{
    (void)state;
    static const struct {
        const char *text, *field;
    } rows[] = {
        {"{}", ""},
        {"\"x\"", ""},
        {"[[]]", "[0]"},
        {"[{\"id\": \"a\", \"data\": \"x\"}, {\"id\": \"\", \"data\": \"x\"}]", "[1].id"},
        {"[{\"id\": \"a\", \"data\": 1}]", "[0].data"},
        {"[{\"id\": \"a\", \"error\": {}}]", "[0].error"},
        {"[{\"id\": \"a\"}]", "[0]"},
        {"[{\"id\": \"a\", \"data\": \"x\", \"error\": \"y\"}]", "[0]"},
        {"[{\"id\": \"a\", \"data\": \"x\", \"more\": 1}]", "[0].more"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct json_doc *doc = parse(rows[i].text);
        struct answer *answers = NULL;
        struct err err = {0};
        size_t n;
        assert_true(answers_decode(json_root(doc), &answers, &n, &err) < 0);
        assert_int_equal(err.kind, ERR_INVALID);
        assert_string_equal(err.item, rows[i].field);
        assert_null(answers);
        json_free(doc);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_refused_names_the_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
