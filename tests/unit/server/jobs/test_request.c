/* server/jobs/request.c: replies as their callers see them, with the headers that each status asks for. */
#include "tests/unit/server/http_world.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "jail/base/err.h"
#include "server/doors/door.h"
#include "server/jobs/front_context.h"
#include "server/jobs/request.h"
#include "server/kit/log.h"
#include "server/kit/metrics.h"

struct test {
    struct world world;
    struct client client;
    struct front front;
    struct request request;
    int log_fd;
};

static const struct door plain_door = {.reply_event = "result"};

static void put_refusal(const void *call, const struct err *err, struct buf *ret)
{
    (void)call;
    buf_printf(ret, "{\"refused\":\"%s\"}", err->text);
}
static const struct door refusing_door = {.reply_event = "message", .encode_refusal = put_refusal};

/* A request whose reply is to be given. `door` NULL: it asks for no job. */
static void begin(struct test *test, const struct door *door)
{
    *test = (struct test){.log_fd = memfd_create("log", MFD_CLOEXEC)};
    assert_true(test->log_fd >= 0);
    open_world(&test->world, default_options);
    client_open(&test->client, &test->world);
    client_send(&test->client, "GET /later HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    PUMP_UNTIL(&test->world, test->world.waiting);
    test->front = (struct front){.metrics = metrics_new(),
                                 .log = log_new(dup(test->log_fd), LOG_FORMAT_LOGFMT, LOG_DEBUG, "front")};
    test->request =
        (struct request){.front = &test->front, .http = test->world.waiting, .door = door, .id = "r-1"};
}

/* Head and body of the reply. */
static const char *reply(struct test *test)
{
    PUMP_UNTIL(&test->world, (client_has(&test->client, ""), test->client.ended));
    return test->client.got.data;
}

static void assert_has(const char *text, const char *words)
{
    if (!strstr(text, words)) {
        fail_msg("'%s' is not in: %s", words, text);
    }
}

/* Whether refusals of that code have been counted, one of them. */
static bool is_counted(const struct test *test, enum error_class class)
{
    struct buf text = BUF_INIT;
    char line[128];
    metrics_write(test->front.metrics, &text);
    buf_puts(&text, "");
    snprintf(line, sizeof line, "\nimmure_jobs_rejected_total{reason=\"%s\"} ", error_code(class));
    const char *found = strstr(text.data, line);
    assert_true(!found || strncmp(found + strlen(line), "1\n", 2) == 0);
    buf_free(&text);
    return found;
}

static bool is_logged(const struct test *test, const char *words)
{
    static char text[4096];
    ssize_t n = pread(test->log_fd, text, sizeof text - 1, 0);
    assert_true(n >= 0);
    text[n] = '\0';
    return strstr(text, words);
}

static void finish(struct test *test)
{
    client_close(&test->client);
    close_world(&test->world);
    metrics_free(test->front.metrics);
    log_free(test->front.log);
    close(test->log_fd);
}

static void every_reply_has_its_name_and_is_kept_by_nobody(void **state)
{
    (void)state;
    struct test test;
    struct buf body = BUF_INIT;
    begin(&test, &plain_door);
    buf_puts(&body, "{}\n");
    request_reply(&test.request, 200, "application/json", &body);
    assert_int_equal(test.request.status, 200);
    assert_int_equal(test.request.reply_bytes, 3);
    const char *got = reply(&test);
    assert_has(got, "HTTP/1.1 200 ");
    assert_has(got, "\r\nContent-Type: application/json\r\n");
    assert_has(got, "\r\nX-Request-Id: r-1\r\n");
    assert_has(got, "\r\nCache-Control: no-store\r\n");
    assert_has(got, "\r\n\r\n{}\n");
    assert_null(strstr(got, "Retry-After"));
    finish(&test);
}

static void what_comes_later_says_where(void **state)
{
    (void)state;
    struct test test;
    struct buf body = BUF_INIT;
    begin(&test, &plain_door);
    buf_puts(&body, "{}\n");
    request_reply_accepted(&test.request, "/jobs/7", &body);
    const char *got = reply(&test);
    assert_has(got, "HTTP/1.1 202 ");
    assert_has(got, "\r\nLocation: /jobs/7\r\n");
    finish(&test);
}

static void without_a_body(void **state)
{
    (void)state;
    struct test test;
    begin(&test, NULL);
    request_reply_empty(&test.request);
    assert_has(reply(&test), "HTTP/1.1 204 ");
    finish(&test);
    begin(&test, NULL);
    request_reply_noted(&test.request);
    assert_has(reply(&test), "HTTP/1.1 202 ");
    finish(&test);
}

/* Whoever was refused learns what to do: come again when, by which method, with which kind of key. */
static void refusals_say_what_helps(void **state)
{
    (void)state;
    struct test test;
    begin(&test, NULL);
    request_refuse(&test.request, ERROR_UNAUTHORIZED, NULL, NULL);
    assert_has(reply(&test), "\r\nWWW-Authenticate: Bearer realm=\"immure\", Basic realm=\"immure\"\r\n");
    finish(&test);
    begin(&test, NULL);
    request_refuse_method(&test.request, "GET, DELETE");
    assert_has(reply(&test), "HTTP/1.1 405 ");
    assert_has(test.client.got.data, "\r\nAllow: GET, DELETE\r\n");
    finish(&test);
    begin(&test, NULL);
    request_refuse(&test.request, ERROR_UNAVAILABLE, NULL, NULL);
    assert_has(reply(&test), "\r\nRetry-After: 1\r\n");
    finish(&test);
    begin(&test, NULL);
    request_refuse(&test.request, ERROR_BAD_FIELD, "must be a number", "limits.pids");
    const char *got = reply(&test);
    assert_has(got, "\"error\": \"must be a number\"");
    assert_has(got, "\"field\": \"limits.pids\"");
    assert_null(strstr(got, "Retry-After"));
    finish(&test);
}

/* Seconds, and rather one too late than one too early. */
static void when_to_come_again_is_told_in_whole_seconds(void **state)
{
    (void)state;
    static const struct {
        uint64_t retry_after_ms;
        const char *header;
    } rows[] = {{0, "1"}, {1, "1"}, {1000, "1"}, {1001, "2"}, {59999, "60"}};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct test test;
        struct err err = {0};
        char line[64];
        begin(&test, &plain_door);
        err_set(&err, ERR_RATE, 0, NULL, "too many");
        request_refuse_err(&test.request, &err, rows[i].retry_after_ms);
        snprintf(line, sizeof line, "\r\nRetry-After: %s\r\n", rows[i].header);
        assert_has(reply(&test), "HTTP/1.1 429 ");
        assert_has(test.client.got.data, line);
        finish(&test);
    }
}

/* Jobs that are refused are counted by their code; what asks for no job is none. */
static void refused_jobs_are_counted(void **state)
{
    (void)state;
    struct test test;
    begin(&test, &plain_door);
    request_refuse(&test.request, ERROR_BUSY, NULL, NULL);
    assert_true(is_counted(&test, ERROR_BUSY));
    finish(&test);
    begin(&test, NULL);
    request_refuse(&test.request, ERROR_BUSY, NULL, NULL);
    assert_false(is_counted(&test, ERROR_BUSY));
    finish(&test);
    begin(&test, &plain_door); /* that has been tried */
    request_refuse(&test.request, ERROR_SETUP, NULL, NULL);
    assert_false(is_counted(&test, ERROR_SETUP));
    finish(&test);
}

/* The log says why, the caller's reply does not. */
static void internal_errors_are_logged_and_not_told(void **state)
{
    (void)state;
    struct test test;
    struct err err = {0};
    begin(&test, &plain_door);
    err_set(&err, ERR_INTERNAL, EIO, NULL, "the secret path is broken");
    request_refuse_err(&test.request, &err, 0);
    const char *got = reply(&test);
    assert_has(got, "HTTP/1.1 500 ");
    assert_null(strstr(got, "secret"));
    assert_true(is_logged(&test, "event=request_failed"));
    assert_true(is_logged(&test, "the secret path is broken"));
    finish(&test);
    begin(&test, &plain_door); /* a caller's own fault is none of ours */
    err = (struct err){0};
    err_set(&err, ERR_INVALID, EINVAL, "code", "is missing");
    request_refuse_err(&test.request, &err, 0);
    assert_has(reply(&test), "HTTP/1.1 400 ");
    assert_false(is_logged(&test, "request_failed"));
    finish(&test);
}

/* Some contracts know no status: the reply is 200 in their own words, and counted like any. */
static void a_door_may_refuse_in_its_own_words(void **state)
{
    (void)state;
    struct test test;
    struct err err = {0};
    begin(&test, &refusing_door);
    err_set(&err, ERR_BUSY, EAGAIN, NULL, "full");
    request_refuse_err(&test.request, &err, 5000);
    const char *got = reply(&test);
    assert_has(got, "HTTP/1.1 200 ");
    assert_has(got, "{\"refused\":\"full\"}");
    assert_null(strstr(got, "Retry-After"));
    assert_true(is_counted(&test, ERROR_BUSY));
    finish(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_reply_has_its_name_and_is_kept_by_nobody),
        cmocka_unit_test(what_comes_later_says_where),
        cmocka_unit_test(without_a_body),
        cmocka_unit_test(refusals_say_what_helps),
        cmocka_unit_test(when_to_come_again_is_told_in_whole_seconds),
        cmocka_unit_test(refused_jobs_are_counted),
        cmocka_unit_test(internal_errors_are_logged_and_not_told),
        cmocka_unit_test(a_door_may_refuse_in_its_own_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
