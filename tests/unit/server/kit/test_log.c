/* server/kit/log.c: one line per event, whatever the values hold. */
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/kit/log.h"

struct sink {
    int fds[2];
    char line[4096];
};

static void sink_open(struct sink *sink)
{
    assert_int_equal(pipe(sink->fds), 0);
}

/* What was written, behind the time. */
static const char *sink_read(struct sink *sink, const char *time_prefix)
{
    close(sink->fds[1]);
    ssize_t n = read(sink->fds[0], sink->line, sizeof sink->line - 1);
    assert_true(n >= 0);
    sink->line[n] = '\0';
    close(sink->fds[0]);
    if (n == 0) {
        return sink->line;
    }
    int year, month, day, hour, minute, second, ms, used = 0;
    assert_int_equal(memcmp(sink->line, time_prefix, strlen(time_prefix)), 0);
    assert_int_equal(sscanf(sink->line + strlen(time_prefix), "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ%n", &year, &month,
                            &day, &hour, &minute, &second, &ms, &used),
                     7);
    assert_int_equal(used, 24);
    return sink->line + strlen(time_prefix) + used;
}

static void writes_logfmt(void **state)
{
    (void)state;
    struct sink sink;
    sink_open(&sink);
    struct log *log = log_new(sink.fds[1], LOG_FORMAT_LOGFMT, LOG_INFO, "front");
    LOG(log, LOG_INFO, "request", LOG_FIELD_STR("plain", "/a-b"), LOG_FIELD_STR("blank", "a b"),
        LOG_FIELD_STR("none", NULL), LOG_FIELD_STR("empty", ""), LOG_FIELD_U64("u", UINT64_MAX),
        LOG_FIELD_I64("i", -3), LOG_FIELD_BOOL("b", true), LOG_FIELD_F64("f", 1.5));
    assert_string_equal(sink_read(&sink, "time="),
                        " level=info who=front event=request plain=/a-b blank=\"a b\" none=\"\" empty=\"\" "
                        "u=18446744073709551615 i=-3 b=true f=1.5\n");
    log_free(log);
}

static void writes_json(void **state)
{
    (void)state;
    struct sink sink;
    sink_open(&sink);
    struct log *log = log_new(sink.fds[1], LOG_FORMAT_JSON, LOG_INFO, "warden");
    LOG(log, LOG_WARNING, "x", LOG_FIELD_STR("text", "a \"b\" \\"), LOG_FIELD_STR("none", NULL),
        LOG_FIELD_U64("u", 7), LOG_FIELD_BOOL("b", false), LOG_FIELD_F64("nan", 0.0 / 0.0));
    assert_string_equal(
        sink_read(&sink, "{\"time\":\""),
        "\",\"level\":\"warning\",\"who\":\"warden\",\"event\":\"x\",\"text\":\"a \\\"b\\\" \\\\\","
        "\"none\":null,\"u\":7,\"b\":false,\"nan\":null}\n");
    log_free(log);
}

static void keeps_hostile_values_on_one_line(void **state)
{
    (void)state;
    static const struct {
        const char *value, *written;
    } rows[] = {
        {"a\nlevel=error", "\"a\\u000alevel=error\""}, /* a line of one's own */
        {"a=b", "\"a=b\""},                            /* a field of one's own */
        {"\x1b[2J", "\"\\u001b[2J\""},                 /* a terminal's escape sequence */
        {"\xc2\x9b"                                    /* the same in one character */
         "2J",
         "\"\\u009b2J\""},
        {"\x7f", "\"\\u007f\""},
        {"\xff\xfe", "\"\\ufffd\\ufffd\""},
        {"\xe2\x80\xa8", "\"\\u2028\""},
        {"\xc3\xa4", "\"\xc3\xa4\""},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct sink sink;
        char expected[256];
        sink_open(&sink);
        struct log *log = log_new(sink.fds[1], LOG_FORMAT_LOGFMT, LOG_INFO, "front");
        LOG(log, LOG_INFO, "x", LOG_FIELD_STR("v", rows[i].value));
        snprintf(expected, sizeof expected, " level=info who=front event=x v=%s\n", rows[i].written);
        assert_string_equal(sink_read(&sink, "time="), expected);
        log_free(log);
    }
}

static void leaves_out_what_is_below_its_level(void **state)
{
    (void)state;
    struct sink sink;
    sink_open(&sink);
    struct log *log = log_new(sink.fds[1], LOG_FORMAT_LOGFMT, LOG_WARNING, "front");
    LOG(log, LOG_INFO, "quiet", LOG_FIELD_BOOL("b", true));
    LOG(log, LOG_DEBUG, "quiet", LOG_FIELD_BOOL("b", true));
    assert_string_equal(sink_read(&sink, "time="), "");
    log_free(log);
    LOG(NULL, LOG_ERROR, "no log", LOG_FIELD_BOOL("b", true));
    log_free(NULL);
}

static void writes_errors(void **state)
{
    (void)state;
    struct sink sink;
    struct err err = {0};
    sink_open(&sink);
    struct log *log = log_new(sink.fds[1], LOG_FORMAT_LOGFMT, LOG_INFO, "front");
    err_set(&err, ERR_CONFIG, 22, "server:3:1", "no such thing");
    log_err(log, LOG_ERROR, "start", &err);
    assert_string_equal(sink_read(&sink, "time="), " level=error who=front event=start kind=config step=\"\" "
                                                   "item=server:3:1 error=\"no such thing\"\n");
    log_free(log);
}

static size_t drain(int fd, char *ret, size_t size)
{
    ssize_t n = read(fd, ret, size - 1);
    assert_true(n > 0);
    ret[n] = '\0';
    return (size_t)n;
}

static void a_reader_that_does_not_read_stops_nobody(void **state)
{
    (void)state;
    enum { LINES = 2000 };
    static char text[1 << 17];
    struct sink sink;
    sink_open(&sink);
    assert_true(fcntl(sink.fds[1], F_SETPIPE_SZ, 16384) >= 16384);
    struct log *log = log_new(sink.fds[1], LOG_FORMAT_LOGFMT, LOG_INFO, "front");
    alarm(60); /* ends the test where the pipe blocks */
    for (int i = 0; i < LINES; i++) {
        LOG(log, LOG_INFO, "request", LOG_FIELD_U64("n", (uint64_t)i));
    }
    alarm(0);
    drain(sink.fds[0], text, sizeof text);
    unsigned there = 0;
    for (const char *at = text; (at = strchr(at, '\n')); at++) {
        there++;
    }
    assert_in_range(there, 1, LINES - 1);
    LOG(log, LOG_INFO, "request", LOG_FIELD_STR("n", "last"));
    drain(sink.fds[0], text, sizeof text);
    char lost[64];
    snprintf(lost, sizeof lost, "level=error who=front event=log_lost lines=%u\n", LINES - there);
    assert_non_null(strstr(text, lost));
    assert_non_null(strstr(text, "event=request n=last\n"));
    log_free(log);
    close(sink.fds[0]);
    close(sink.fds[1]);
}

/* Of another process: of any size, and below no level. */
static void what_others_compose_stops_nobody_either(void **state)
{
    (void)state;
    static char text[1 << 17], large[PIPE_BUF + 2];
    struct sink sink;
    sink_open(&sink);
    struct log *before = log_new(sink.fds[1], LOG_FORMAT_LOGFMT, LOG_ERROR, "warden");
    log_line(before, "told\n", 5);
    memset(large, 'x', sizeof large);
    log_line(before, large, sizeof large);
    struct log *log = log_new(sink.fds[1], LOG_FORMAT_LOGFMT, LOG_ERROR, "warden");
    log_succeed(log, before);
    log_free(before);
    LOG(log, LOG_INFO, "reloaded", LOG_FIELD_U64("n", 1));
    log_tell(log, LOG_INFO, "approval", &LOG_FIELD_U64("n", 2), 1);
    drain(sink.fds[0], text, sizeof text);
    assert_true(strncmp(text, "told\ntime=", 10) == 0);
    assert_null(strstr(text, "xx"));
    assert_null(strstr(text, "reloaded"));
    const char *lost = strstr(text, "level=error who=warden event=log_lost lines=1\n");
    assert_non_null(lost);
    assert_non_null(strstr(lost, "level=info who=warden event=approval n=2\n"));
    log_free(log);
    close(sink.fds[0]);
    close(sink.fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_logfmt),
        cmocka_unit_test(writes_json),
        cmocka_unit_test(keeps_hostile_values_on_one_line),
        cmocka_unit_test(leaves_out_what_is_below_its_level),
        cmocka_unit_test(writes_errors),
        cmocka_unit_test(a_reader_that_does_not_read_stops_nobody),
        cmocka_unit_test(what_others_compose_stops_nobody_either),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
