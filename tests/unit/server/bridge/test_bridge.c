/* server/bridge/bridge.c, with this file in the program's place. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/format/json.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/loop.h"
#include "server/bridge/bridge.h"
#include "server/kit/rich_results.h"

#define CALLS_MAX 64

struct test {
    struct loop *loop;
    struct bridge *bridge;
    int in, out; /* the program's */
    struct bridge_call *calls[CALLS_MAX];
    size_t n_calls, n_cancelled;
    char outputs[256];
    size_t n_outputs;
    char broken[128], event[128], shown[256];
};

static void on_call(void *arg, struct bridge_call *call)
{
    struct test *test = arg;
    assert_true(test->n_calls < CALLS_MAX);
    test->calls[test->n_calls++] = call;
}

static void on_cancel(void *arg, struct bridge_call *call)
{
    struct test *test = arg;
    (void)call;
    test->n_cancelled++;
}

static void on_outputs(void *arg, char *const *paths, size_t n)
{
    struct test *test = arg;
    test->n_outputs = n;
    test->outputs[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        strcat(strcat(test->outputs, paths[i]), ";");
    }
}

static const char *on_other(void *arg, const char *data, size_t size)
{
    (void)arg;
    assert_true(size > 0);
    return data[0] == BRIDGE_BINARY ? "a frame that is not JSON" : "a frame of an unknown kind";
}

static void on_broken(void *arg, const char *why)
{
    struct test *test = arg;
    snprintf(test->broken, sizeof test->broken, "%s", why);
}

static void on_event(void *arg, const struct json_slice *kind, const struct json_slice *data)
{
    struct test *test = arg;
    snprintf(test->event, sizeof test->event, "%.*s %.*s", (int)kind->size, kind->text, (int)data->size,
             data->text);
}

static void on_show(void *arg, const char *json_text, size_t size)
{
    struct test *test = arg;
    snprintf(test->shown, sizeof test->shown, "%.*s", (int)size, json_text);
}

static const struct bridge_events events = {on_call, on_cancel, on_outputs, on_event,
                                            on_show, on_other,  on_broken};

static const struct bridge_limits limits = {
    .frame_bytes = 4096, .total_bytes = 1 << 20, .calls = 8, .calls_in_flight = 2, .result_bytes = 64};

static void expect(struct test *test, const char *frame);

static void open_with(struct test *test, const struct bridge_limits *with)
{
    int ends[BRIDGE_ENDS];
    *test = (struct test){0};
    assert_int_equal(loop_new(&test->loop, NULL), 0);
    assert_int_equal(bridge_new(test->loop, with, &events, test, ends, &test->bridge, NULL), 0);
    test->in = ends[BRIDGE_END_IN];
    test->out = ends[BRIDGE_END_OUT];
    expect(test, "{\"op\":\"hello\",\"version\":1,\"max_frame_bytes\":4096,\"max_result_bytes\":64,"
                 "\"max_calls_in_flight\":2,\"max_shown\":100,\"max_shown_bytes\":4194304,"
                 "\"max_all_shown_bytes\":8388608}");
    assert_int_equal(fcntl(test->in, F_SETFL, O_NONBLOCK), 0);
}

static void open_test(struct test *test)
{
    open_with(test, &limits);
}

static void close_test(struct test *test)
{
    bridge_free(test->bridge);
    loop_free(test->loop);
    fd_closep(&test->in);
    fd_closep(&test->out);
}

/* Until nothing happens any more. */
static void turn(struct test *test)
{
    for (int i = 0; i < 50; i++) {
        assert_int_equal(loop_once(test->loop, 0, NULL), 0);
    }
}

static void send_bytes(struct test *test, const void *data, size_t size)
{
    assert_int_equal(write(test->out, data, size), size);
}

static void send_frame(struct test *test, const char *text)
{
    uint32_t size = htobe32((uint32_t)strlen(text));
    send_bytes(test, &size, sizeof size);
    send_bytes(test, text, strlen(text));
}

static void expect(struct test *test, const char *frame)
{
    uint32_t size;
    char text[8192];
    assert_int_equal(read(test->in, &size, sizeof size), sizeof size);
    size = be32toh(size);
    assert_true(size < sizeof text);
    assert_int_equal(read(test->in, text, size), size);
    text[size] = '\0';
    assert_string_equal(text, frame);
}

static void expect_nothing(struct test *test)
{
    char byte;
    assert_int_equal(read(test->in, &byte, 1), -1);
    assert_int_equal(errno, EAGAIN);
}

static void expect_closed(struct test *test, const char *why)
{
    char frame[256], byte;
    snprintf(frame, sizeof frame, "{\"op\":\"closed\",\"error\":\"%s\"}", why);
    expect(test, frame);
    assert_int_equal(read(test->in, &byte, 1), 0);
    assert_string_equal(test->broken, why);
}

static void expect_output(struct test *test, const char *output)
{
    size_t size;
    const char *text = bridge_output(test->bridge, &size);
    assert_int_equal(size, strlen(output));
    assert_memory_equal(text, output, size);
}

static void calls_are_answered_in_any_order(void **state)
{
    (void)state;
    struct test test;
    open_test(&test);
    send_frame(&test,
               "{\"op\":\"call\",\"id\":1,\"name\":\"a\\u00e9\",\"args\":{\"x\": [1e400,\"\\u0000\"]}}");
    send_frame(&test, " {\"id\":2 ,\"args\":{},\"extra\":null,\"name\":\"b\",\"op\":\"call\"} ");
    turn(&test);
    assert_int_equal(test.n_calls, 2);
    assert_string_equal(test.calls[0]->name, "a\xc3\xa9");
    assert_string_equal(test.calls[0]->args, "{\"x\":[1e400,\"\\u0000\"]}");
    assert_int_equal(test.calls[0]->args_size, strlen(test.calls[0]->args));
    bridge_answer(test.calls[1], BRIDGE_ERROR, "no \\\"b\\\"", 8);
    bridge_answer(test.calls[0], BRIDGE_DATA, "", 0);
    expect(&test, "{\"op\":\"answer\",\"id\":2,\"error\":\"no \\\"b\\\"\"}");
    expect(&test, "{\"op\":\"answer\",\"id\":1,\"data\":\"\"}");
    expect_nothing(&test);
    close_test(&test);
    assert_int_equal(test.n_cancelled, 0);
}

/* Whoever reads the arguments reads the same of them. */
static void arguments_with_a_key_twice_are_refused(void **state)
{
    (void)state;
    struct test test;
    open_test(&test);
    send_frame(&test, "{\"op\":\"call\",\"id\":1,\"name\":\"a\",\"args\":{\"x\":1,\"\\u0078\":2}}");
    send_frame(&test, "{\"op\":\"call\",\"id\":2,\"name\":\"a\",\"args\":{\"x\":[{\"y\":1,\"y\":1}]}}");
    turn(&test);
    assert_int_equal(test.n_calls, 0);
    expect(&test,
           "{\"op\":\"answer\",\"id\":1,\"error\":\"call_tool: the arguments have the same key twice\"}");
    expect(&test,
           "{\"op\":\"answer\",\"id\":2,\"error\":\"call_tool: the arguments have the same key twice\"}");
    expect_nothing(&test);
    close_test(&test);
    assert_string_equal(test.broken, "");
}

static void the_last_result_counts(void **state)
{
    (void)state;
    struct test test;
    open_test(&test);
    expect_output(&test, "");
    send_frame(&test, "{\"op\":\"result\",\"id\":1,\"data\":{\"a\":1},\"files\":[\"/w/a\",\"/w/b\"]}");
    turn(&test);
    expect(&test, "{\"op\":\"answer\",\"id\":1}");
    assert_string_equal(test.outputs, "/w/a;/w/b;");
    send_frame(&test, "{\"op\":\"result\",\"id\":2,\"data\":null,\"files\":[]}");
    turn(&test);
    expect(&test, "{\"op\":\"answer\",\"id\":2}");
    assert_int_equal(test.n_outputs, 0);
    expect_output(&test, "null");
    send_frame(&test, "{\"op\":\"result\",\"id\":3,\"data\":"
                      "\"0123456789012345678901234567890123456789012345678901234567890123\"}");
    send_frame(&test, "{\"op\":\"result\",\"id\":4,\"data\":0,\"files\":[1]}");
    turn(&test);
    expect(&test, "{\"op\":\"answer\",\"id\":3,\"error\":\"set_result: the result is too large\"}");
    expect(&test, "{\"op\":\"answer\",\"id\":4,\"error\":\"set_result: files must be paths\"}");
    expect_output(&test, "null");
    close_test(&test);
}

/* What is in the pipe when the program ends, behind calls that nobody waits for any more. */
static void results_survive_the_end(void **state)
{
    (void)state;
    struct test test;
    open_test(&test);
    for (int i = 0; i < 4; i++) {
        send_frame(&test, "{\"op\":\"call\",\"id\":1,\"name\":\"a\",\"args\":{}}");
    }
    send_frame(&test, "{\"op\":\"result\",\"id\":1,\"data\":1}");
    turn(&test);
    assert_int_equal(test.n_calls, 2); /* in flight; the rest waits */
    send_frame(&test, "{\"op\":\"result\",\"id\":1,\"data\":2}");
    send_bytes(&test, "\0\0\0\x40half", 8);
    fd_closep(&test.out);
    turn(&test);
    expect_output(&test, "");
    bridge_finish(test.bridge);
    expect_output(&test, "2");
    assert_int_equal(test.n_cancelled, 2);
    assert_int_equal(test.n_calls, 2);
    close_test(&test);
}

static void calls_beyond_those_in_flight_wait(void **state)
{
    (void)state;
    struct test test;
    open_test(&test);
    for (int i = 0; i < 10; i++) {
        char frame[64];
        snprintf(frame, sizeof frame, "{\"op\":\"call\",\"id\":%d,\"name\":\"a\",\"args\":{}}", i);
        send_frame(&test, frame);
    }
    turn(&test);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(test.n_calls, i + 2 < 8 ? i + 2 : 8);
        char frame[64];
        snprintf(frame, sizeof frame, "{\"op\":\"answer\",\"id\":%zu,\"data\":\"\"}", i);
        bridge_answer(test.calls[i], BRIDGE_DATA, "", 0);
        turn(&test);
        if (i < 6) {
            expect(&test, frame);
        }
    }
    /* The job may have eight; the others are refused as soon as there is room for them. */
    CLEANUP(buf_free) struct buf rest = BUF_INIT;
    char *room = buf_reserve(&rest, 4096);
    ssize_t n = read(test.in, room, 4096);
    assert_true(n > 0);
    assert_non_null(
        memmem(room, (size_t)n, "\"id\":8,\"error\":\"call_tool: this job has called as many", 54));
    assert_non_null(memmem(room, (size_t)n, "\"id\":9,\"error\":", 15));
    close_test(&test);
}

/* A program that calls and never fetches the answers is not read any more; nothing grows. */
static void answers_that_are_not_fetched(void **state)
{
    (void)state;
    struct test test;
    open_test(&test);
    assert_int_equal(fcntl(test.out, F_SETFL, O_NONBLOCK), 0);
    static const char frame[] = "\0\0\0\x29{\"op\":\"result\",\"id\":1,\"data\":1,\"x\":12345}";
    assert_int_equal(sizeof frame - 1, 4 + 0x29);
    size_t sent = 0;
    for (;;) {
        ssize_t n = write(test.out, frame, sizeof frame - 1);
        turn(&test);
        if (n < 0) {
            break;
        }
        assert_int_equal(n, sizeof frame - 1);
        sent += (size_t)n;
        assert_true(sent < 1 << 20);
    }
    assert_string_equal(test.broken, "");
    close_test(&test);
}

static void expect_break(const char *bytes, size_t size, const char *why)
{
    struct test test;
    open_test(&test);
    send_bytes(&test, bytes, size);
    turn(&test);
    expect_closed(&test, why);
    bridge_finish(test.bridge);
    close_test(&test);
}

static void broken_lengths_close_the_bridge(void **state)
{
    (void)state;
    static const char why[] = "a frame that is empty or too large";
    expect_break("\0\0\0\0", 4, why);
    expect_break("\0\0\x10\x01", 4, why);
    expect_break("\xff\xff\xff\xff", 4, why);
    expect_break("GET / HTTP/1.1\r\n\r\n", 18, why);
}

static void broken_frames_close_the_bridge(void **state)
{
    (void)state;
    static const char no_json[] = "a frame that is not JSON", no_number[] = "a frame without a number",
                      no_kind[] = "a frame of an unknown kind";
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"{]", no_json},
        {"[]", no_json},
        {"{}{}", no_json},
        {"{\"id\":1,\"id\":2}", no_json},
        {"{\"op\":\"\xff\xfe\"}", no_json},
        {"{\"id\":1,\"op\":\"call\"", no_json},
        {"{}", no_number},
        {"{\"id\":-1}", no_number},
        {"{\"id\":1.5}", no_number},
        {"{\"id\":\"1\"}", no_number},
        {"{\"id\":111111111111111111111111}", no_number},
        {"{\"id\":1}", no_kind},
        {"{\"id\":1,\"op\":1}", no_kind},
        {"{\"id\":1,\"op\":\"quit\"}", no_kind},
        {"{\"id\":1,\"op\":\"answer\"}", no_kind},
        {"{\"id\":1,\"op\":\"event\",\"kind\":\"log\",\"data\":1}", "an event that nobody waits for"},
        {"{\"id\":1,\"op\":\"show\",\"type\":\"display\",\"data\":[]}", "a result without data"},
        {"{\"id\":1,\"op\":\"show\",\"data\":{}}", "a result of an unknown type"},
        {"{\"id\":1,\"op\":\"call\"}", "a call without a name or arguments"},
        {"{\"id\":1,\"op\":\"call\",\"name\":\"a\",\"args\":[]}", "a call without a name or arguments"},
        {"{\"id\":1,\"op\":\"call\",\"name\":1,\"args\":{}}", "a call without a name or arguments"},
        {"{\"id\":1,\"op\":\"result\"}", "a result without data"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char frame[128];
        uint32_t size = htobe32((uint32_t)strlen(cases[i].text));
        memcpy(frame, &size, sizeof size);
        strcpy(frame + sizeof size, cases[i].text);
        expect_break(frame, sizeof size + strlen(cases[i].text), cases[i].why);
    }
}

static void more_bytes_than_a_job_may_send(void **state)
{
    (void)state;
    struct test test;
    open_test(&test);
    char frame[4000] = "{\"op\":\"call\",\"id\":1,\"name\":\"";
    size_t length = strlen(frame);
    memset(frame + length, 'x', sizeof frame - length);
    memcpy(frame + sizeof frame - 14, "\",\"args\":{}}", 13);
    int sent = 0;
    while (!*test.broken && sent < 400) {
        send_frame(&test, frame);
        turn(&test);
        char answers[4096];
        assert_true(read(test.in, answers, sizeof answers) > 0);
        sent++;
    }
    assert_string_equal(test.broken, "more bytes than a job may send");
    assert_true(sent > 250);
    assert_int_equal(test.n_calls, 0);
    close_test(&test);
}

static void names_that_are_none(void **state)
{
    (void)state;
    struct test test;
    open_test(&test);
    send_frame(&test, "{\"op\":\"call\",\"id\":1,\"name\":\"\",\"args\":{}}");
    send_frame(&test, "{\"op\":\"call\",\"id\":2,\"name\":\"a\\u0000\",\"args\":{}}");
    turn(&test);
    expect(&test, "{\"op\":\"answer\",\"id\":1,\"error\":\"call_tool: that is no name of a tool\"}");
    expect(&test, "{\"op\":\"answer\",\"id\":2,\"error\":\"call_tool: that is no name of a tool\"}");
    assert_int_equal(test.n_calls, 0);
    close_test(&test);
}

/* Byte by byte, and a frame that is longer than the pipe. */
static void frames_in_pieces(void **state)
{
    (void)state;
    struct test test;
    open_test(&test);
    static const char frame[] = "\0\0\0\x29{\"op\":\"call\",\"id\":1,\"name\":\"a\",\"args\":{}}";
    assert_int_equal(sizeof frame - 1, 4 + 0x29);
    for (size_t i = 0; i < sizeof frame - 1; i++) {
        assert_int_equal(test.n_calls, 0);
        send_bytes(&test, frame + i, 1);
        turn(&test);
    }
    assert_int_equal(test.n_calls, 1);
    enum { LARGE = 300000 };
    CLEANUP(freep) char *large = malloc(LARGE);
    memset(large, 'y', LARGE);
    bridge_answer(test.calls[0], BRIDGE_DATA, large, LARGE);
    size_t got = 0;
    char piece[5000];
    for (ssize_t n; (n = read(test.in, piece, sizeof piece)) > 0; turn(&test)) {
        got += (size_t)n;
    }
    assert_int_equal(got, 4 + LARGE + strlen("{\"op\":\"answer\",\"id\":1,\"data\":\"\"}"));
    close_test(&test);
}

static void a_program_that_closes_its_ends(void **state)
{
    (void)state;
    struct test test;
    open_test(&test);
    send_frame(&test, "{\"op\":\"call\",\"id\":1,\"name\":\"a\",\"args\":{}}");
    turn(&test);
    assert_int_equal(test.n_calls, 1);
    fd_closep(&test.in);
    fd_closep(&test.out);
    turn(&test);
    bridge_answer(test.calls[0], BRIDGE_DATA, "x", 1);
    turn(&test);
    bridge_finish(test.bridge);
    close_test(&test);
    assert_int_equal(test.n_cancelled, 0);
}

/* What an evaluator may, and a program may not. */
static const char *shown(struct test *test, const char *frame)
{
    test->shown[0] = '\0';
    send_frame(test, frame);
    turn(test);
    return test->shown;
}

#define SHOW "{\"id\":0,\"op\":\"show\",\"type\":"

static void what_is_shown_is_told_and_kept(void **state)
{
    (void)state;
    struct test test;
    open_test(&test);
    assert_string_equal(shown(&test, SHOW "\"display\",\"data\":{\"text/plain\":\"a\"}}"),
                        "{\"type\":\"display\",\"data\":{\"text/plain\":\"a\"}}");
    assert_string_equal(shown(&test, SHOW "\"execute_result\",\"data\":{\"text/plain\":\"b\"}}"),
                        "{\"type\":\"execute_result\",\"data\":{\"text/plain\":\"b\"}}");
    const struct rich_results *results = bridge_results(test.bridge);
    assert_int_equal(results->n, 2);
    assert_false(results->cut);
    assert_string_equal(shown(&test, SHOW "\"left_out\"}"), "");
    assert_true(results->cut);
    /* The last ones are in the pipe when the program ends. */
    send_frame(&test, SHOW "\"error\",\"data\":{\"name\":\"E\",\"value\":\"\",\"traceback\":\"\"}}");
    bridge_finish(test.bridge);
    assert_int_equal(results->n, 3);
    close_test(&test);
}

/* What is kept of it has limits of its own; what is not counts like all that a program sends. */
static void what_is_shown_leaves_the_calls_their_bytes(void **state)
{
    (void)state;
    struct test test;
    struct bridge_limits small = limits;
    small.total_bytes = 6000;
    open_with(&test, &small);
    static char frame[3200];
    int head = snprintf(frame, sizeof frame, SHOW "\"display\",\"data\":{\"text/plain\":\"");
    memset(frame + head, 'x', 3000);
    snprintf(frame + head + 3000, sizeof frame - (size_t)head - 3000, "\"}}");
    for (size_t i = 1; i <= 5; i++) {
        shown(&test, frame);
        assert_int_equal(bridge_results(test.bridge)->n, i);
    }
    assert_string_equal(test.broken, "");
    close_test(&test);
}

static void events_and_lists_of_an_evaluator(void **state)
{
    (void)state;
    struct test test;
    struct bridge_limits with = limits;
    with.evaluator = true;
    open_with(&test, &with);
    send_frame(&test, "{\"op\":\"event\",\"id\":1,\"kind\":\"log\",\"data\":{\"a\":1}}");
    send_frame(&test, "{\"op\":\"call\",\"id\":2,\"name\":\"f\",\"args\":[1]}");
    turn(&test);
    assert_string_equal(test.event, "\"log\" {\"a\":1}");
    assert_int_equal(test.n_calls, 1);
    assert_string_equal(test.calls[0]->args, "[1]");
    send_frame(&test, "{\"op\":\"call\",\"id\":3,\"name\":\"f\",\"args\":{}}");
    turn(&test);
    expect_closed(&test, "a call without a name or arguments");
    close_test(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_answered_in_any_order),
        cmocka_unit_test(arguments_with_a_key_twice_are_refused),
        cmocka_unit_test(the_last_result_counts),
        cmocka_unit_test(results_survive_the_end),
        cmocka_unit_test(calls_beyond_those_in_flight_wait),
        cmocka_unit_test(answers_that_are_not_fetched),
        cmocka_unit_test(broken_lengths_close_the_bridge),
        cmocka_unit_test(broken_frames_close_the_bridge),
        cmocka_unit_test(more_bytes_than_a_job_may_send),
        cmocka_unit_test(names_that_are_none),
        cmocka_unit_test(frames_in_pieces),
        cmocka_unit_test(a_program_that_closes_its_ends),
        cmocka_unit_test(events_and_lists_of_an_evaluator),
        cmocka_unit_test(what_is_shown_is_told_and_kept),
        cmocka_unit_test(what_is_shown_leaves_the_calls_their_bytes),
    };
    signal(SIGPIPE, SIG_IGN); /* as the front does */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
