/* The growing buffer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jail/base/buf.h"

static void test_appending(void **state)
{
    (void)state;
    struct buf buf = BUF_INIT;
    assert_null(buf.data);
    assert_int_equal(buf_puts(&buf, "one "), 0);
    assert_int_equal(buf_putc(&buf, '2'), 0);
    assert_int_equal(buf_printf(&buf, " %s %d", "three", 4), 0);
    assert_int_equal(buf_append(&buf, "\0five", 5), 0);
    assert_int_equal(buf.len, 18);
    assert_memory_equal(buf.data, "one 2 three 4\0five", 19);
    assert_int_equal(buf.data[buf.len], '\0');
    assert_false(buf.failed);
    buf_free(&buf);
    assert_null(buf.data);
    assert_int_equal(buf.len, 0);
}

static void test_nothing_is_something(void **state)
{
    (void)state;
    struct buf buf = BUF_INIT;
    assert_int_equal(buf_append(&buf, NULL, 0), 0);
    assert_string_equal(buf.data, "");
    assert_int_equal(buf_puts(&buf, ""), 0);
    assert_int_equal(buf_printf(&buf, "%s", ""), 0);
    assert_int_equal(buf.len, 0);
    buf_free(&buf);
    buf_free(&buf);
    buf_free(NULL);
}

static void test_growing(void **state)
{
    (void)state;
    struct buf buf = BUF_INIT;
    for (unsigned i = 0; i < 100000; i++) {
        assert_int_equal(buf_putc(&buf, (char)('a' + i % 26)), 0);
    }
    assert_int_equal(buf.len, 100000);
    for (unsigned i = 0; i < 100000; i += 999) {
        assert_int_equal(buf.data[i], 'a' + i % 26);
    }
    assert_int_equal(strlen(buf.data), 100000);
    /* A print that is longer than all the room there is. */
    char *huge = malloc(300001);
    assert_non_null(huge);
    memset(huge, 'x', 300000);
    huge[300000] = '\0';
    assert_int_equal(buf_printf(&buf, "<%s>", huge), 0);
    assert_int_equal(buf.len, 400002);
    assert_int_equal(buf.data[400001], '>');
    free(huge);
    buf_free(&buf);
}

static void test_reserve(void **state)
{
    (void)state;
    struct buf buf = BUF_INIT;
    buf_puts(&buf, "ab");
    char *to = buf_reserve(&buf, 1000);
    assert_ptr_equal(to, buf.data + 2);
    assert_true(buf.cap >= 1003);
    memcpy(to, "cd", 3);
    buf.len += 2;
    assert_int_equal(buf_puts(&buf, "e"), 0);
    assert_string_equal(buf.data, "abcde");
    buf_free(&buf);
}

/* A caller appends many times and looks once. */
static void test_failure_sticks(void **state)
{
    (void)state;
    struct buf buf = BUF_INIT;
    buf_puts(&buf, "kept");
    assert_null(buf_reserve(&buf, SIZE_MAX));
    assert_true(buf.failed);
    assert_int_equal(buf_puts(&buf, "x"), -ENOMEM);
    assert_int_equal(buf_putc(&buf, 'x'), -ENOMEM);
    assert_int_equal(buf_printf(&buf, "x"), -ENOMEM);
    assert_int_equal(buf_append(&buf, "x", 1), -ENOMEM);
    assert_string_equal(buf.data, "kept");
    assert_null(buf_steal(&buf));
    assert_null(buf.data);
    assert_false(buf.failed);
    assert_null(buf_reserve(&buf, SIZE_MAX / 2));
    assert_null(buf_steal(&buf));
    buf_free(&buf);
}

static void test_steal(void **state)
{
    (void)state;
    struct buf buf = BUF_INIT;
    char *empty = buf_steal(&buf);
    assert_string_equal(empty, "");
    free(empty);
    buf_puts(&buf, "text");
    char *text = buf_steal(&buf);
    assert_string_equal(text, "text");
    assert_null(buf.data);
    buf_puts(&buf, "other");
    assert_string_equal(text, "text");
    free(text);
    buf_free(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_appending),      cmocka_unit_test(test_nothing_is_something),
        cmocka_unit_test(test_growing),        cmocka_unit_test(test_reserve),
        cmocka_unit_test(test_failure_sticks), cmocka_unit_test(test_steal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
