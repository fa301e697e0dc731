/* server/doors/execute_reply.c: verdicts as the contract words them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>

#include "config/format/json.h"
#include "config/message/job.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "server/doors/execute.h"
#include "server/kit/capture.h"
#include "server/kit/rich_results.h"

struct reply {
    struct rich_results results;
    bool results_asked;
    struct capture capture;
    struct job_result result;
    const char *output;
    struct json_doc *doc;
};

static char policy[] = "python", policy_sha256[] = "abc";

static void open_reply(struct reply *reply)
{
    *reply = (struct reply){.result = {.policy = policy, .policy_sha256 = policy_sha256}};
    capture_init(&reply->capture, 1000);
}

static const struct json *encode(struct reply *reply)
{
    struct buf text = BUF_INIT;
    struct err err = {0};
    assert_int_equal(capture_finish(&reply->capture, 0), 0);
    const struct job_texts texts = {.execution_id = "id-1",
                                    .queued_ms = 70,
                                    .results = &reply->results,
                                    .results_asked = reply->results_asked,
                                    .capture = &reply->capture,
                                    .output = reply->output ? reply->output : "",
                                    .output_size = reply->output ? strlen(reply->output) : 0};
    assert_int_equal(execute_encode(&reply->result, &texts, &text, &err), 0);
    if (json_parse(text.data, text.len, &reply->doc, &err) < 0) {
        fail_msg("%s: %s", err.text, text.data);
    }
    buf_free(&text);
    return json_root(reply->doc);
}

static void close_reply(struct reply *reply)
{
    json_free(reply->doc);
    capture_clear(&reply->capture);
}

static void assert_text(const struct json *object, const char *key, const char *expected)
{
    const char *text = json_string(json_get(object, key));
    assert_non_null(text);
    assert_string_equal(text, expected);
}

static void assert_number(const struct json *object, const char *key, int64_t expected)
{
    int64_t number = 0;
    assert_true(json_i64(json_get(object, key), &number));
    assert_int_equal(number, expected);
}

static void assert_null_member(const struct json *object, const char *key)
{
    assert_int_equal(json_type_of(json_get(object, key)), JSON_NULL);
}

static void assert_flag(const struct json *object, const char *key, bool expected)
{
    assert_int_equal(json_type_of(json_get(object, key)), JSON_BOOL);
    assert_int_equal(json_bool(json_get(object, key)), expected);
}

static void a_good_end_has_every_field(void **state)
{
    (void)state;
    struct reply reply;
    struct job_denied denied = {.name = (char[]){"ptrace"}, .count = 3};
    open_reply(&reply);
    capture_take(&reply.capture, CAPTURE_STDOUT, "out", 3);
    capture_take(&reply.capture, CAPTURE_STDERR, "err", 3);
    reply.result.duration_ns = 12345678;
    reply.result.has_cpu = true;
    reply.result.cpu_ns = 3 * NS_PER_MS;
    reply.result.has_memory_peak = true;
    reply.result.memory_peak_bytes = 4096;
    reply.result.denied = &denied;
    reply.result.n_denied = 1;
    reply.result.limits = (struct job_limits){.memory_bytes = 1, .timeout_ms = 30000, .output_bytes = 1000};
    reply.result.enforced_by_cgroup = true;
    const struct json *root = encode(&reply);
    double seconds = 0;

    assert_text(root, "stdout", "out");
    assert_text(root, "stderr", "err");
    assert_text(root, "logs", "outerr");
    assert_flag(root, "truncated", false);
    assert_flag(root, "stdout_truncated", false);
    assert_flag(root, "stderr_truncated", false);
    assert_text(root, "output", "");
    assert_number(root, "exit_code", 0);
    assert_null_member(root, "signal");
    assert_number(root, "duration_ms", 12);
    assert_true(json_double(json_get(root, "execution_time"), &seconds));
    assert_true(seconds > 0.012345 && seconds < 0.012347);
    assert_number(root, "queued_ms", 70);
    assert_flag(root, "killed", false);
    assert_flag(root, "oom", false);
    assert_text(root, "status", "success");
    assert_null_member(root, "error_message");
    assert_null(json_get(root, "error"));
    assert_int_equal(json_count(json_get(root, "files")), 0);
    assert_int_equal(json_count(json_get(root, "output_files")), 0);
    assert_flag(root, "output_files_truncated", false);
    assert_number(json_get(root, "usage"), "cpu_ms", 3);
    assert_number(json_get(root, "usage"), "memory_peak_bytes", 4096);
    assert_null_member(json_get(root, "usage"), "pids_peak");
    assert_text(json_first(json_get(root, "denied_syscalls")), "name", "ptrace");
    assert_number(json_first(json_get(root, "denied_syscalls")), "count", 3);
    assert_number(json_get(root, "limits"), "memory_bytes", 1);
    assert_number(json_get(root, "limits"), "timeout_ms", 30000);
    assert_null_member(json_get(root, "limits"), "pids");
    assert_text(json_get(root, "limits"), "enforced_by", "cgroup2");
    assert_text(root, "policy", "python");
    assert_text(root, "policy_sha256", "abc");
    assert_text(root, "execution_id", "id-1");
    close_reply(&reply);
}

static void a_timeout(void **state)
{
    (void)state;
    struct reply reply;
    open_reply(&reply);
    capture_take(&reply.capture, CAPTURE_STDOUT, "out", 3);
    reply.result.status = JOB_TIMEOUT;
    reply.result.exit_code = -1;
    reply.result.killed = true;
    reply.result.limits.timeout_ms = 30000;
    reply.result.error_text = (char[]){"Execution timed out after 30 seconds."};
    const struct json *root = encode(&reply);
    assert_text(root, "status", "timeout");
    assert_number(root, "exit_code", -1);
    assert_flag(root, "killed", true);
    assert_text(root, "error_message", "Execution timed out after 30 seconds.");
    assert_text(root, "error", "execution timed out after 30s");
    assert_text(json_get(root, "limits"), "enforced_by", "rlimit");
    close_reply(&reply);

    open_reply(&reply);
    reply.result.status = JOB_TIMEOUT;
    reply.result.limits.timeout_ms = 1500;
    reply.result.error_text = (char[]){"Execution timed out after 1.5 seconds."};
    assert_text(encode(&reply), "error", "execution timed out after 1.5s");
    close_reply(&reply);
}

static void failed_programs(void **state)
{
    (void)state;
    struct reply reply;
    open_reply(&reply);
    capture_take(&reply.capture, CAPTURE_STDERR, "Traceback", 9);
    reply.result.status = JOB_EXECUTION_ERROR;
    reply.result.exit_code = 1;
    const struct json *root = encode(&reply);
    assert_text(root, "status", "execution_error");
    assert_text(root, "error_message", "The program ended with exit code 1.");
    assert_text(root, "error", "Traceback");
    close_reply(&reply);

    open_reply(&reply);
    reply.result.status = JOB_EXECUTION_ERROR;
    reply.result.exit_code = 128 + SIGSEGV;
    reply.result.signal = SIGSEGV;
    root = encode(&reply);
    assert_number(root, "exit_code", 139);
    assert_text(root, "signal", "SIGSEGV");
    assert_text(root, "error_message", "The program was ended by SIGSEGV.");
    assert_text(root, "error", "The program was ended by SIGSEGV.");
    close_reply(&reply);

    open_reply(&reply);
    reply.result.status = JOB_OOM;
    reply.result.oom = true;
    reply.result.error_text = (char[]){"Memory limit of 1 bytes exceeded."};
    root = encode(&reply);
    assert_text(root, "status", "oom");
    assert_flag(root, "oom", true);
    assert_text(root, "error_message", "Memory limit of 1 bytes exceeded.");
    close_reply(&reply);
}

static void a_result_is_the_text_as_it_came(void **state)
{
    (void)state;
    struct reply reply;
    open_reply(&reply);
    reply.output = "{\"a\": \"\\u0000\", \"b\": 1e999}";
    assert_text(encode(&reply), "output", reply.output);
    close_reply(&reply);
}

static void output_is_only_ever_a_string(void **state)
{
    (void)state;
    static const char hostile[] = "\",\"exit_code\":7,\"x\":\"\xff\x1b\\\n";
    struct reply reply;
    open_reply(&reply);
    capture_take(&reply.capture, CAPTURE_STDOUT, hostile, sizeof hostile - 1);
    capture_take(&reply.capture, CAPTURE_STDOUT, "\xff\xfe|", 3);
    reply.result.exit_code = 3;
    reply.result.status = JOB_EXECUTION_ERROR;
    const struct json *root = encode(&reply);
    assert_number(root, "exit_code", 3);
    assert_non_null(strstr(json_string(json_get(root, "stdout")), "\xef\xbf\xbd\xef\xbf\xbd|"));
    close_reply(&reply);
}

static int file_of(const char *data, size_t size)
{
    int fd;
    assert_int_equal(io_memfd("test", data, size, &fd), 0);
    return fd;
}

static void files_come_back(void **state)
{
    (void)state;
    static char big[200000];
    struct reply reply;
    memset(big, 'b', sizeof big);
    struct job_output_file files[] = {
        {.path = (char[]){"d/plot.PNG"},
         .size = 3,
         .fd = file_of("\x00\x01\xff", 3),
         .asked = true,
         .written = true},
        {.path = (char[]){"empty"}, .fd = file_of("", 0), .asked = true, .written = true},
        {.path = (char[]){"big.bin"},
         .size = sizeof big,
         .fd = file_of(big, sizeof big),
         .asked = true,
         .written = true},
        {.path = (char[]){"huge.csv"}, .size = 1u << 30, .fd = -1, .asked = true, .written = true},
        {.path = (char[]){"unasked"}, .size = 5, .fd = -1, .written = true},
        {.path = (char[]){"input.txt"}, .size = 1, .fd = file_of("i", 1), .asked = true},
    };
    open_reply(&reply);
    reply.result.files = files;
    reply.result.n_files = ARRAY_SIZE(files);
    reply.result.files_truncated = true;
    const struct json *root = encode(&reply);
    assert_flag(root, "output_files_truncated", true);

    assert_int_equal(json_count(json_get(root, "files")), 5);
    const struct json *file = json_first(json_get(root, "files"));
    assert_text(file, "name", "plot.PNG");
    assert_text(file, "mime", "image/png");
    assert_text(file, "data", "AAH/");
    file = json_next(file);
    assert_text(file, "name", "empty");
    assert_text(file, "mime", "text/plain");
    assert_text(file, "data", "");
    file = json_next(file);
    assert_int_equal(json_string_length(json_get(file, "data")), (sizeof big + 2) / 3 * 4);
    assert_memory_equal(json_string(json_get(file, "data")) + 266660,
                        "YmJiYmI=", 8); /* padding at the end only */
    file = json_next(file);
    assert_text(file, "name", "huge.csv");
    assert_text(file, "mime", "text/csv");
    assert_null(json_get(file, "data"));
    file = json_next(file);
    assert_text(file, "name", "input.txt");
    assert_text(file, "data", "aQ==");

    assert_int_equal(json_count(json_get(root, "output_files")), 5);
    file = json_first(json_get(root, "output_files"));
    assert_text(file, "name", "d/plot.PNG");
    assert_number(file, "size", 3);
    assert_flag(file, "truncated", false);
    file = json_next(json_next(json_next(file)));
    assert_text(file, "name", "huge.csv");
    assert_flag(file, "truncated", true);
    assert_text(json_next(file), "name", "unasked");
    assert_flag(json_next(file), "truncated", false);
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        fd_closep(&files[i].fd);
    }
    close_reply(&reply);
}

static void results_are_told_to_who_asks_and_to_kernels(void **state)
{
    (void)state;
    static char shown[] = "{\"type\":\"display\"},{\"type\":\"error\"}";
    for (int asked = 0; asked < 2; asked++) {
        for (int kernel = 0; kernel < 2; kernel++) {
            struct reply reply;
            open_reply(&reply);
            reply.results =
                (struct rich_results){.json = {.data = shown, .len = strlen(shown)}, .n = 2, .cut = asked};
            reply.results_asked = asked;
            reply.result.kernel = kernel ? JOB_KERNEL_KEPT : JOB_KERNEL_NONE;
            const struct json *root = encode(&reply);
            const struct json *results = json_get(root, "results");
            assert_int_equal(json_count(results), asked || kernel ? 2 : 0);
            assert_int_equal(json_type_of(json_get(root, "results_truncated")),
                             asked || kernel ? JSON_BOOL : JSON_ABSENT);
            assert_int_equal(json_bool(json_get(root, "results_truncated")), asked);
            close_reply(&reply);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_end_has_every_field),
        cmocka_unit_test(a_timeout),
        cmocka_unit_test(failed_programs),
        cmocka_unit_test(output_is_only_ever_a_string),
        cmocka_unit_test(a_result_is_the_text_as_it_came),
        cmocka_unit_test(files_come_back),
        cmocka_unit_test(results_are_told_to_who_asks_and_to_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
