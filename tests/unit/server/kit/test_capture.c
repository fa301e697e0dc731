/* server/kit/capture.c: heads, tails, characters cut in two, and the order of arrival. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "server/kit/capture.h"

static void take(struct capture *capture, enum capture_stream stream, const char *text)
{
    capture_take(capture, stream, text, strlen(text));
}

static void assert_buf(const struct buf *buf, const char *expected)
{
    assert_int_equal(buf->len, strlen(expected));
    assert_memory_equal(buf->data ? buf->data : "", expected, buf->len);
}

static void keeps_both_streams_and_their_order(void **state)
{
    (void)state;
    struct capture capture;
    capture_init(&capture, 100);
    take(&capture, CAPTURE_STDOUT, "one ");
    take(&capture, CAPTURE_STDERR, "two ");
    take(&capture, CAPTURE_STDOUT, "three");
    assert_int_equal(capture_finish(&capture, 0), 0);
    assert_buf(&capture.streams[CAPTURE_STDOUT], "one three");
    assert_buf(&capture.streams[CAPTURE_STDERR], "two ");
    assert_buf(&capture.logs, "one two three");
    assert_false(capture.truncated[CAPTURE_STDOUT] || capture.truncated[CAPTURE_STDERR] ||
                 capture.logs_truncated);
    capture_clear(&capture);
}

static void keeps_the_head_and_drops_the_tail(void **state)
{
    (void)state;
    struct capture capture;
    capture_init(&capture, 5);
    take(&capture, CAPTURE_STDOUT, "abc");
    take(&capture, CAPTURE_STDOUT, "defg");
    take(&capture, CAPTURE_STDOUT, "h");
    take(&capture, CAPTURE_STDERR, "xy");
    assert_int_equal(capture_finish(&capture, 0), 0);
    assert_buf(&capture.streams[CAPTURE_STDOUT], "abcde");
    assert_buf(&capture.streams[CAPTURE_STDERR], "xy");
    assert_buf(&capture.logs, "abcde");
    assert_true(capture.truncated[CAPTURE_STDOUT]);
    assert_false(capture.truncated[CAPTURE_STDERR]);
    assert_true(capture.logs_truncated);
    capture_clear(&capture);
}

static void an_exact_fit_is_not_truncated(void **state)
{
    (void)state;
    struct capture capture;
    capture_init(&capture, 3);
    take(&capture, CAPTURE_STDOUT, "abc");
    assert_int_equal(capture_finish(&capture, 3), 0);
    assert_buf(&capture.streams[CAPTURE_STDOUT], "abc");
    assert_false(capture.truncated[CAPTURE_STDOUT] || capture.logs_truncated);
    capture_clear(&capture);
}

static void the_policy_may_lower_the_limit_at_the_end(void **state)
{
    (void)state;
    struct capture capture;
    capture_init(&capture, 100);
    take(&capture, CAPTURE_STDOUT, "abcdef");
    take(&capture, CAPTURE_STDERR, "xy");
    assert_int_equal(capture_finish(&capture, 4), 0);
    assert_buf(&capture.streams[CAPTURE_STDOUT], "abcd");
    assert_buf(&capture.streams[CAPTURE_STDERR], "xy");
    assert_buf(&capture.logs, "abcd");
    assert_true(capture.truncated[CAPTURE_STDOUT] && capture.logs_truncated);
    assert_false(capture.truncated[CAPTURE_STDERR]);
    capture_clear(&capture);
}

static void does_not_cut_characters(void **state)
{
    (void)state;
    struct capture capture;
    capture_init(&capture, 4);
    take(&capture, CAPTURE_STDOUT, "ab\xe2\x82\xac");
    assert_int_equal(capture_finish(&capture, 0), 0);
    assert_buf(&capture.streams[CAPTURE_STDOUT], "ab");
    assert_buf(&capture.logs, "ab");
    capture_clear(&capture);

    /* One that the program itself did not finish stays: it becomes U+FFFD in the reply. */
    capture_init(&capture, 10);
    take(&capture, CAPTURE_STDOUT, "ab\xe2\x82");
    assert_int_equal(capture_finish(&capture, 0), 0);
    assert_buf(&capture.streams[CAPTURE_STDOUT], "ab\xe2\x82");
    assert_buf(&capture.logs, "ab\xe2\x82");
    capture_clear(&capture);
}

static void the_other_stream_does_not_split_a_character(void **state)
{
    (void)state;
    struct capture capture;
    capture_init(&capture, 100);
    take(&capture, CAPTURE_STDOUT, "a\xe2");
    take(&capture, CAPTURE_STDERR, "-");
    take(&capture, CAPTURE_STDOUT, "\x82\xac!");
    assert_int_equal(capture_finish(&capture, 0), 0);
    assert_buf(&capture.streams[CAPTURE_STDOUT], "a\xe2\x82\xac!");
    assert_buf(&capture.logs, "a-\xe2\x82\xac!");
    capture_clear(&capture);
}

static void reads_a_pipe(void **state)
{
    (void)state;
    struct capture capture;
    int fds[2];
    capture_init(&capture, 3);
    assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(capture_read(&capture, CAPTURE_STDOUT, fds[0]), CAPTURE_EMPTY);
    assert_int_equal(write(fds[1], "abcdef", 6), 6);
    assert_int_equal(capture_read(&capture, CAPTURE_STDOUT, fds[0]), CAPTURE_MORE);
    assert_int_equal(capture_read(&capture, CAPTURE_STDOUT, fds[0]), CAPTURE_EMPTY);
    close(fds[1]);
    assert_int_equal(capture_read(&capture, CAPTURE_STDOUT, fds[0]), CAPTURE_END);
    assert_int_equal(capture_finish(&capture, 0), 0);
    assert_buf(&capture.streams[CAPTURE_STDOUT], "abc");
    assert_true(capture.truncated[CAPTURE_STDOUT]);
    capture_clear(&capture);
    close(fds[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_both_streams_and_their_order),
        cmocka_unit_test(keeps_the_head_and_drops_the_tail),
        cmocka_unit_test(an_exact_fit_is_not_truncated),
        cmocka_unit_test(the_policy_may_lower_the_limit_at_the_end),
        cmocka_unit_test(does_not_cut_characters),
        cmocka_unit_test(the_other_stream_does_not_split_a_character),
        cmocka_unit_test(reads_a_pipe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
