/* config/format/jsonrewrite.c: one way to write each text, and no key twice. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config/format/json.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"

/* As a program's frame holds it. */
static int rewrite(const char *value, size_t size, struct buf *ret)
{
    CLEANUP(buf_free) struct buf frame = BUF_INIT;
    static const char *const names[] = {"v"};
    struct json_slice slice;
    const char *why;
    buf_puts(&frame, "{\"v\":");
    buf_append(&frame, value, size);
    buf_putc(&frame, '}');
    assert_int_equal(json_split(frame.data, frame.len, names, 1, &slice, &why), 0);
    return json_rewrite(&slice, ret);
}

static void each_text_has_one_form(void **state)
{
    (void)state;
    static const struct {
        const char *text, *written;
    } rows[] = {
        {"{}", "{}"},
        {" { \"a\" :\t[ 1 , -0.50E+7,\r\n true,false , null ] }", "{\"a\":[1,-0.50E+7,true,false,null]}"},
        {"\"\\u0061\\/\\\"\\\\\\b\\f\\n\\r\\t\"", "\"a/\\\"\\\\\\b\\f\\n\\r\\t\""},
        {"\"\\u0000\\u001F\\u007f\\u0080\"", "\"\\u0000\\u001f\x7f\xc2\x80\""},
        {"\"\\u20ac\\uffff\\ud83d\\ude00\\uDBFF\\uDFFF\"",
         "\"\xe2\x82\xac\xef\xbf\xbf\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf\""},
        {"123456789012345678901234567890", "123456789012345678901234567890"},
        {"[\"a\" , \"a\", {\"a\":\"a\"}, {\"a\":{\"a\":[{\"a\":1},{\"a\":2}]}}]",
         "[\"a\",\"a\",{\"a\":\"a\"},{\"a\":{\"a\":[{\"a\":1},{\"a\":2}]}}]"},
        {"{\"a\":{\"b\":1},\"b\":{\"a\":1},\"\":1,\"A\":1}",
         "{\"a\":{\"b\":1},\"b\":{\"a\":1},\"\":1,\"A\":1}"},
        {"\"{\\\"a\\\":1,\\\"a\\\":1}\"", "\"{\\\"a\\\":1,\\\"a\\\":1}\""},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        CLEANUP(buf_free) struct buf written = BUF_INIT, again = BUF_INIT;
        assert_int_equal(rewrite(rows[i].text, strlen(rows[i].text), &written), 0);
        assert_string_equal(written.data, rows[i].written);
        assert_int_equal(rewrite(written.data, written.len, &again), 0);
        assert_string_equal(again.data, rows[i].written);
    }
}

static void no_key_is_there_twice(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{\"a\":1,\"a\":1}",
        "{\"a\":1,\"b\":{},\"\\u0061\":2}",
        "[[{\"x\":{\"\":1,\"\":2}}]]",
        "{\"a\":{\"a\":{\"b\":1}, \"a\" :1}}",
        "{\"a\\u0000b\":1,\"a\\u0000b\":1}",
        "{\"\\ud83d\\ude00\":1,\"\xf0\x9f\x98\x80\":1}",
        "{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"b\":7}",
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        CLEANUP(buf_free) struct buf written = BUF_INIT;
        assert_int_equal(rewrite(rows[i], strlen(rows[i]), &written), -EEXIST);
    }
}

/* As deep as a program may, and as many keys as a large frame holds. */
static void large_texts(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf deep = BUF_INIT, wide = BUF_INIT, written = BUF_INIT;
    const unsigned levels = JSON_PASSED_DEPTH_MAX - 1;
    for (unsigned i = 0; i < levels; i++) {
        buf_puts(&deep, "{\"a\":");
    }
    buf_putc(&deep, '1');
    for (unsigned i = 0; i < levels; i++) {
        buf_putc(&deep, '}');
    }
    assert_int_equal(rewrite(deep.data, deep.len, &written), 0);
    assert_string_equal(written.data, deep.data);
    buf_putc(&wide, '{');
    for (unsigned i = 0; i < 60000; i++) {
        buf_printf(&wide, "\"%u\":1,", i);
    }
    buf_puts(&wide, "\"x\":1}");
    written.len = 0;
    assert_int_equal(rewrite(wide.data, wide.len, &written), 0);
    assert_string_equal(written.data, wide.data);
    memcpy(wide.data + wide.len - 6, "\"7\"", 3);
    assert_int_equal(rewrite(wide.data, wide.len, &written), -EEXIST);
    wide.len -= 6;
    for (unsigned i = 60000; i < JSON_REWRITTEN_KEYS_MAX; i++) {
        buf_printf(&wide, "\"%u\":1,", i);
    }
    wide.data[wide.len - 1] = '}';
    written.len = 0;
    assert_int_equal(rewrite(wide.data, wide.len, &written), 0);
    wide.data[wide.len - 1] = ',';
    buf_puts(&wide, "\"x\":1}");
    assert_int_equal(rewrite(wide.data, wide.len, &written), -E2BIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_text_has_one_form),
        cmocka_unit_test(no_key_is_there_twice),
        cmocka_unit_test(large_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
