/* server/doors/run_code_reply.c: what an evaluator says, and the verdicts that speak where it does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>

#include "config/format/json.h"
#include "config/message/job.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/kit/function_ids.h"
#include "server/doors/run_code.h"
#include "server/kit/capture.h"

static void run_code_freep(struct run_code **run)
{
    if (*run) {
        run_code_free(*run);
    }
}

static const char *note(struct run_code *run, const char *kind, const char *data, const char **ret_told)
{
    const struct json_slice kind_slice = {.text = kind, .size = strlen(kind), .type = JSON_STRING};
    const struct json_slice data_slice = {.text = data, .size = strlen(data), .type = JSON_OBJECT};
    const struct buf *told = NULL;
    const char *event = run_code_note(run, &kind_slice, &data_slice, &told);
    *ret_told = told ? told->data : NULL;
    return event;
}

static void reply_is(struct run_code *run, const struct job_result *result, const char *output,
                     char *said_on_stderr, const char *expected)
{
    CLEANUP(buf_free) struct buf reply = BUF_INIT;
    struct capture capture = {.limit_bytes = 1};
    capture.streams[CAPTURE_STDERR].data = said_on_stderr;
    const struct job_texts texts = {
        .capture = &capture, .output = output, .output_size = strlen(output), .state = run};
    assert_int_equal(run_code_encode(result, &texts, &reply, NULL), 0);
    assert_string_equal(reply.data, expected);
}

static void words_of_the_evaluator(void **state)
{
    (void)state;
    CLEANUP(run_code_freep) struct run_code *run = NULL;
    const char *told;
    const struct job_result done = {.status = JOB_SUCCESS, .duration_ns = 1500000};
    assert_int_equal(run_code_new(&(struct function_ids){0}, &run, NULL), 0);
    assert_string_equal(note(run, "\"log\"", "{\"level\":\n\"log\"}\r", &told), "log");
    assert_string_equal(told, "{\"level\":\"log\"}");
    assert_string_equal(note(run, "\"report\"", "1", &told), "report");
    assert_string_equal(note(run, "\"report\"", "[2]", &told), "report");
    assert_null(note(run, "\"result\"", "1", &told));
    reply_is(run, &done, "{\"status\":\"success\",\"result\":{\n},\"memoryUsedBytes\":7}", NULL,
             "{\"status\":\"success\",\"result\":{},\"reports\":[1,[2]],\"logs\":[{\"level\":\"log\"}],"
             "\"durationMs\":1.500,\"memoryUsedBytes\":7}\n");
    /* It has come to an end before something else ended it. */
    const struct job_result cancelled = {.status = JOB_CANCELLED};
    reply_is(run, &cancelled, "{\"status\":\"link_error\",\"error\":{\"name\":\"a\"},\"result\":1}", NULL,
             "{\"status\":\"link_error\",\"error\":{\"name\":\"a\"},\"reports\":[1,[2]],\"logs\":[{\"level\":"
             "\"log\"}],\"durationMs\":0.000}\n");
}

static void verdicts_speak_where_it_does_not(void **state)
{
    (void)state;
    static char why[] = "enough", heap[] = "FATAL ERROR: ... heap out of memory", other[] = "trap";
    static const struct {
        struct job_result result;
        const char *output;
        char *said;
        const char *status, *message;
    } rows[] = {
        {{.status = JOB_OOM}, "", NULL, "\"memory\"", "more memory"},
        {{.status = JOB_TIMEOUT, .limits.timeout_ms = 250}, "", NULL, "\"terminated\"", "cap of 250 ms"},
        {{.status = JOB_CANCELLED}, "", NULL, "\"terminated\"", "was terminated"},
        {{.status = JOB_CANCELLED, .error_text = why}, "", NULL, "\"terminated\"", "enough"},
        {{.status = JOB_EXECUTION_ERROR, .signal = SIGABRT}, "", heap, "\"memory\"", "more memory"},
        {{.status = JOB_EXECUTION_ERROR, .signal = SIGABRT}, "", other, "\"error\"", "without a result"},
        {{.status = JOB_SUCCESS}, "", heap, "\"error\"", "without a result"},
        /* An evaluator that says what it may not say has said nothing. */
        {{.status = JOB_SUCCESS}, "{\"status\":\"memory\"}", NULL, "\"error\"", "without a result"},
        {{.status = JOB_SUCCESS}, "{\"status\":\"success\"}", NULL, "\"error\"", "without a result"},
        {{.status = JOB_SUCCESS},
         "{\"status\":\"error\",\"error\":1}",
         NULL,
         "\"error\"",
         "without a result"},
        {{.status = JOB_SUCCESS}, "[1]", NULL, "\"error\"", "without a result"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        CLEANUP(run_code_freep) struct run_code *run = NULL;
        CLEANUP(buf_free) struct buf reply = BUF_INIT;
        struct capture capture = {.limit_bytes = 1};
        capture.streams[CAPTURE_STDERR].data = rows[i].said;
        assert_int_equal(run_code_new(&(struct function_ids){0}, &run, NULL), 0);
        const struct job_texts texts = {.capture = &capture,
                                        .output = rows[i].output,
                                        .output_size = strlen(rows[i].output),
                                        .state = run};
        assert_int_equal(run_code_encode(&rows[i].result, &texts, &reply, NULL), 0);
        assert_ptr_equal(strstr(reply.data, rows[i].status), reply.data + strlen("{\"status\":"));
        assert_non_null(strstr(reply.data, rows[i].message));
    }
}

static void what_the_server_lacks_is_its_error(void **state)
{
    (void)state;
    CLEANUP(run_code_freep) struct run_code *run = NULL;
    CLEANUP(buf_free) struct buf reply = BUF_INIT;
    const struct job_result done = {.status = JOB_SUCCESS};
    struct capture capture = {.limit_bytes = 1};
    struct err err = {0};
    static const char output[] = "{\"status\":\"setup_error\"}";
    assert_int_equal(run_code_new(&(struct function_ids){0}, &run, NULL), 0);
    const struct job_texts texts = {
        .capture = &capture, .output = output, .output_size = strlen(output), .state = run};
    assert_true(run_code_encode(&done, &texts, &reply, &err) < 0);
    assert_int_equal(err.kind, ERR_SETUP);
    assert_non_null(strstr(err.text, "esbuild"));
}

static void too_much_is_not_kept(void **state)
{
    (void)state;
    CLEANUP(run_code_freep) struct run_code *run = NULL;
    CLEANUP(buf_free) struct buf large = BUF_INIT;
    const char *told;
    buf_putc(&large, '"');
    for (size_t i = 0; i < 1 << 20; i++) {
        buf_putc(&large, 'a');
    }
    buf_putc(&large, '"');
    assert_int_equal(run_code_new(&(struct function_ids){0}, &run, NULL), 0);
    for (int i = 0; i < 3; i++) {
        assert_non_null(note(run, "\"log\"", large.data, &told));
    }
    assert_null(note(run, "\"log\"", large.data, &told));
    assert_non_null(note(run, "\"report\"", large.data, &told));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_of_the_evaluator),
        cmocka_unit_test(verdicts_speak_where_it_does_not),
        cmocka_unit_test(what_the_server_lacks_is_its_error),
        cmocka_unit_test(too_much_is_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
