/* server/jobs/stream.c: what a caller hears of a job, over a real connection, as its program prints into real
 * pipes. */
#include "tests/unit/server/http_world.h"

#include <signal.h>

#include "jail/base/err.h"
#include "server/doors/door.h"
#include "server/jobs/job_io.h"
#include "server/jobs/request.h"
#include "server/jobs/stream.h"

#define NEVER_MS UINT64_C(3600000)

struct test {
    struct world world;
    struct client client;
    struct streams *streams;
    struct request request;
    struct stream *stream;
    struct job_io *io;
    int ends[JOB_IO_ENDS];
};

static const struct door plain_door = {.reply_event = "result"};

static bool put_progress(const void *call, const char *text, struct buf *ret)
{
    (void)call;
    buf_printf(ret, "{\"progress\": \"%s\"}", text);
    return true;
}
static const struct door telling_door = {.reply_event = "message", .encode_progress = put_progress};

static ssize_t fill(void *arg, char *data, size_t size)
{
    struct test *test = arg;
    return stream_fill(test->stream, data, size);
}

static void on_output(void *arg)
{
    struct test *test = arg;
    stream_wake(test->stream);
}

/* A request that hears of a job, whose program is this file. */
static void begin(struct test *test, const struct door *door, uint64_t heartbeat_ms)
{
    signal(SIGPIPE, SIG_IGN);
    *test = (struct test){0};
    open_world(&test->world, default_options);
    test->world.fill = fill;
    test->world.fill_arg = test;
    client_open(&test->client, &test->world);
    client_send(&test->client, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
    PUMP_UNTIL(&test->world, test->world.waiting);
    test->request = (struct request){.http = test->world.waiting, .door = door, .id = "r-1"};
    assert_int_equal(streams_new(test->world.loop, heartbeat_ms, &test->streams, NULL), 0);
    assert_int_equal(job_io_new(test->world.loop, 1 << 20, NULL, 0, test->ends, &test->io, NULL), 0);
    assert_int_equal(stream_new(test->streams, &test->request, test->io, &test->stream, NULL), 0);
    job_io_on_output(test->io, on_output, test);
    request_reply_events(&test->request);
    client_expect(&test->client, "\r\n\r\n");
}

static void print(struct test *test, enum job_io_end end, const char *text)
{
    assert_int_equal(write(test->ends[end], text, strlen(text)), strlen(text));
}

/* The job's end; the stream has the pipes from then on. `reply` NULL: the job tells nothing more. */
static void end_job(struct test *test, const char *reply)
{
    struct buf body = BUF_INIT;
    assert_int_equal(job_io_finish(test->io, 0, NULL), 0);
    if (reply) {
        buf_puts(&body, reply);
    }
    stream_end(test->stream, TAKE_PTR(test->io), reply ? &body : NULL);
    assert_null(body.data);
}

static void finish(struct test *test)
{
    for (int i = 0; i < JOB_IO_ENDS; i++) {
        fd_closep(&test->ends[i]);
    }
    client_close(&test->client);
    stream_free(test->stream);
    job_io_free(test->io);
    streams_free(test->streams);
    close_world(&test->world);
}

/* All that the client hears from now on up to and with `last`. */
static const char *hear(struct test *test, const char *last)
{
    PUMP_UNTIL(&test->world, client_has(&test->client, last));
    return test->client.got.data;
}

static void a_line_is_told_at_once_and_the_beginning_of_one_after_a_while(void **state)
{
    (void)state;
    struct test test;
    begin(&test, &plain_door, NEVER_MS);
    print(&test, JOB_IO_STDOUT, "whole\nbegun");
    const char *heard = hear(&test, "event: stdout\ndata: {\"text\":\"begun\"}\n\n");
    assert_non_null(strstr(heard, "event: stdout\ndata: {\"text\":\"whole\\n\"}\n\n"));
    finish(&test);
}

static void streams_are_told_apart(void **state)
{
    (void)state;
    struct test test;
    begin(&test, &plain_door, NEVER_MS);
    print(&test, JOB_IO_STDERR, "wrong\n");
    client_expect(&test.client, "event: stderr\ndata: {\"text\":\"wrong\\n\"}\n\n");
    print(&test, JOB_IO_STDOUT, "right\n");
    client_expect(&test.client, "event: stdout\ndata: {\"text\":\"right\\n\"}\n\n");
    finish(&test);
}

static void no_event_cuts_a_character(void **state)
{
    (void)state;
    struct test test;
    begin(&test, &plain_door, NEVER_MS);
    print(&test, JOB_IO_STDOUT, "a\xe2\x82"); /* a third of it is missing */
    assert_null(strstr(hear(&test, "{\"text\":\"a\"}"), "\xe2"));
    print(&test, JOB_IO_STDOUT, "\xac\n");
    client_expect(&test.client, "{\"text\":\"\xe2\x82\xac\\n\"}");
    finish(&test);
}

/* Much without a line feed does not wait to be whole. */
static void what_is_long_is_told_in_pieces(void **state)
{
    (void)state;
    enum { SIZE = 20000 };
    struct test test;
    static char text[SIZE + 1];
    begin(&test, &plain_door, NEVER_MS);
    memset(text, 'x', SIZE);
    print(&test, JOB_IO_STDOUT, text);
    end_job(&test, "{\"done\": true}\n");
    const char *heard = hear(&test, "event: result");
    size_t n_events = 0, n_x = 0;
    for (const char *at = heard; (at = strstr(at, "{\"text\":\"")); n_events++) {
        at += strlen("{\"text\":\"");
        assert_true(strspn(at, "x") <= 8192);
    }
    for (const char *at = heard; (at = strchr(at, 'x')); at++) {
        n_x++;
    }
    assert_true(n_events >= 3);
    assert_int_equal(n_x, SIZE + n_events); /* one is in the name of the field */
    finish(&test);
}

static void the_reply_comes_behind_all_output_and_is_the_end(void **state)
{
    (void)state;
    struct test test;
    begin(&test, &plain_door, NEVER_MS);
    print(&test, JOB_IO_STDOUT, "half a line");
    print(&test, JOB_IO_STDERR, "\xe2\x82"); /* nothing completes it any more */
    end_job(&test, "{\"status\": \"success\"}\n");
    const char *heard = hear(&test, "\r\n0\r\n\r\n");
    const char *output = strstr(heard, "{\"text\":\"half a line\"}");
    const char *reply = strstr(heard, "event: result\ndata: {\"status\": \"success\"}\n\n");
    assert_non_null(output);
    assert_non_null(reply);
    assert_true(output < reply);
    assert_true(strstr(heard, "event: stderr") < reply);
    PUMP_UNTIL(&test.world, test.world.n_sent == 1);
    assert_int_equal(http_server_unread_bytes(test.world.server), 0);
    finish(&test);
}

static void a_reply_that_was_lost_is_an_error(void **state)
{
    (void)state;
    struct test test;
    begin(&test, &plain_door, NEVER_MS);
    end_job(&test, "");
    client_expect(&test.client,
                  "event: error\ndata: {\"error\": \"internal error\", \"code\": \"internal_error\"");
    finish(&test);
}

static void an_end_without_a_reply_tells_nothing_more(void **state)
{
    (void)state;
    struct test test;
    begin(&test, &plain_door, NEVER_MS);
    end_job(&test, NULL);
    assert_null(strstr(hear(&test, "0\r\n\r\n"), "event:"));
    finish(&test);
}

/* Its caller may not read; the calls go on, untold, and are told again when there is room. */
static void calls_that_nobody_reads_of_are_bounded(void **state)
{
    (void)state;
    struct test test;
    begin(&test, &plain_door, NEVER_MS);
    for (int i = 0; i < 10000; i++) {
        stream_tool_call(test.stream, "a_tool");
    }
    size_t held = http_server_unread_bytes(test.world.server);
    assert_true(held > 60000 && held < 70000);
    client_expect(&test.client, "event: tool_call\ndata: {\"name\":\"a_tool\"}\n\n");
    PUMP_UNTIL(&test.world, (client_has(&test.client, ""), http_server_unread_bytes(test.world.server) == 0));
    stream_tool_call(test.stream, "the_last");
    client_expect(&test.client, "{\"name\":\"the_last\"}");
    finish(&test);
}

static void what_a_run_tells_of_is_one_line(void **state)
{
    (void)state;
    struct test test;
    struct buf data = BUF_INIT;
    begin(&test, &plain_door, NEVER_MS);
    buf_puts(&data, "{\"a\": 1}\n");
    stream_event(test.stream, "log", &data);
    client_expect(&test.client, "event: log\ndata: {\"a\": 1}\n\n");
    buf_free(&data);
    finish(&test);
}

static void silence_is_broken_in_the_words_of_the_door(void **state)
{
    (void)state;
    struct test test;
    begin(&test, &plain_door, 1);
    client_expect(&test.client, ": still running\n\n");
    client_expect(&test.client, ": still running\n\n"); /* and again */
    finish(&test);
    begin(&test, &telling_door, NEVER_MS);
    stream_beat(test.stream);
    client_expect(&test.client, "event: message\ndata: {\"progress\": \"still running\"}\n\n");
    finish(&test);
}

static void none_is_as_good_as_one_that_nobody_hears(void **state)
{
    (void)state;
    struct buf reply = BUF_INIT;
    stream_wake(NULL);
    stream_beat(NULL);
    stream_tool_call(NULL, "a");
    stream_event(NULL, "a", &reply);
    stream_end(NULL, NULL, &reply);
    stream_free(NULL);
    streams_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_told_at_once_and_the_beginning_of_one_after_a_while),
        cmocka_unit_test(streams_are_told_apart),
        cmocka_unit_test(no_event_cuts_a_character),
        cmocka_unit_test(what_is_long_is_told_in_pieces),
        cmocka_unit_test(the_reply_comes_behind_all_output_and_is_the_end),
        cmocka_unit_test(a_reply_that_was_lost_is_an_error),
        cmocka_unit_test(an_end_without_a_reply_tells_nothing_more),
        cmocka_unit_test(calls_that_nobody_reads_of_are_bounded),
        cmocka_unit_test(what_a_run_tells_of_is_one_line),
        cmocka_unit_test(silence_is_broken_in_the_words_of_the_door),
        cmocka_unit_test(none_is_as_good_as_one_that_nobody_hears),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
