/* server/doors/mcp_result.c: what a model is handed is cut, and says how the program ended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>
#include <unistd.h>

#include "config/format/json.h"
#include "config/message/job.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "server/doors/door.h"
#include "server/doors/mcp_result.h"
#include "server/kit/capture.h"

static char policy[] = "python", policy_sha256[] = "abc", too_much[] = "too much", no_jail[] = "no jail";

struct told {
    struct json_doc *doc;
    const struct json *content, *structured;
};

static struct told parse(struct buf *text)
{
    struct told ret = {0};
    struct err err = {0};
    buf_putc(text, '}');
    assert_false(text->failed);
    if (json_parse(text->data, text->len, &ret.doc, &err) < 0) {
        fail_msg("%s: %s", err.text, text->data);
    }
    ret.content = json_get(json_root(ret.doc), "content");
    ret.structured = json_get(json_root(ret.doc), "structuredContent");
    buf_free(text);
    return ret;
}

static struct told encode(struct job_result *result, struct capture *capture, const char *output)
{
    struct buf text = BUF_INIT;
    struct err err = {0};
    result->policy = policy;
    result->policy_sha256 = policy_sha256;
    assert_int_equal(capture_finish(capture, 0), 0);
    const struct job_texts texts = {
        .execution_id = "id-1", .capture = capture, .output = output, .output_size = strlen(output)};
    buf_putc(&text, '{');
    assert_int_equal(mcp_result_encode(result, &texts, &text, &err), 0);
    return parse(&text);
}

static const char *text_at(const struct told *told, size_t at)
{
    const struct json *item = json_first(told->content);
    for (; item && at > 0; at--) {
        item = json_next(item);
    }
    return item ? json_string(json_get(item, "text")) : NULL;
}

static void every_end_is_told(void **state)
{
    (void)state;
    static const struct {
        struct job_result result;
        const char *printed, *output, *texts[3];
    } rows[] = {
        {{0}, "", "", {"(No output)"}},
        {{0}, "a\n", "", {"a\n"}},
        {{0}, "", "1", {"Result: 1"}},
        {{0}, "a", "[]", {"a", "Result: []"}},
        {{.status = JOB_EXECUTION_ERROR, .exit_code = 3},
         "",
         "",
         {"Error: The program ended with exit code 3."}},
        {{.status = JOB_EXECUTION_ERROR, .exit_code = 3},
         "a",
         "1",
         {"a", "Error: The program ended with exit code 3.", "Result: 1"}},
        {{.status = JOB_OOM, .exit_code = 137, .signal = SIGKILL, .oom = true, .error_text = too_much},
         "",
         "",
         {"Error: too much"}},
        {{.status = JOB_TIMEOUT, .exit_code = -1, .limits.timeout_ms = 1001},
         "",
         "",
         {"Error: Execution timed out after 2s"}},
        {{.status = JOB_TIMEOUT, .exit_code = -1, .limits.timeout_ms = 1000},
         "a",
         "",
         {"a\nError: Execution timed out after 1s"}},
        {{.status = JOB_SETUP_ERROR, .exit_code = -1, .error_text = no_jail}, "", "", {"Error: no jail"}},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        CLEANUP(capture_clear) struct capture capture;
        capture_init(&capture, 1000);
        capture_take(&capture, CAPTURE_STDOUT, rows[i].printed, strlen(rows[i].printed));
        struct job_result result = rows[i].result;
        struct told told = encode(&result, &capture, rows[i].output);
        for (size_t j = 0; j < 3 && rows[i].texts[j]; j++) {
            assert_non_null(text_at(&told, j));
            assert_string_equal(text_at(&told, j), rows[i].texts[j]);
        }
        assert_int_equal(json_bool(json_get(json_root(told.doc), "isError")),
                         rows[i].result.status != JOB_SUCCESS);
        assert_string_equal(json_string(json_get(told.structured, "stdout")), rows[i].printed);
        assert_null(json_get(told.structured, "logs"));
        assert_null(json_get(told.structured, "error"));
        json_free(told.doc);
    }
}

static void long_texts_are_cut_between_characters(void **state)
{
    (void)state;
    CLEANUP(capture_clear) struct capture capture;
    capture_init(&capture, 100000);
    for (int i = 0; i < 10001; i++) {
        capture_take(&capture, CAPTURE_STDERR, "\xc3\xbc", 2);
    }
    struct job_result result = {0};
    struct told told = encode(&result, &capture, "");
    const char *stderr_text = json_string(json_get(told.structured, "stderr"));
    assert_string_equal(stderr_text, text_at(&told, 0));
    assert_string_equal(stderr_text + 20000, "\n... [output truncated]");
    assert_true(json_bool(json_get(told.structured, "stderr_truncated")));
    assert_false(json_bool(json_get(told.structured, "stdout_truncated")));
    json_free(told.doc);
}

static void files_are_shown_while_there_is_room(void **state)
{
    (void)state;
    static const struct {
        const char *path, *type;
        uint64_t size;
    } rows[] = {{"plot.png", "image", 1000},
                {"no-plot.png", "resource", 1000},
                {"large.png", NULL, MCP_FILES_BYTES_MAX - 999},
                {"a.txt", "resource", 20},
                {"not-asked.txt", NULL, 20}};
    struct job_output_file files[ARRAY_SIZE(rows)];
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char path[] = "/tmp/immure-result-XXXXXX";
        files[i] = (struct job_output_file){.path = (char *)(uintptr_t)rows[i].path,
                                            .size = rows[i].size,
                                            .fd = mkstemp(path),
                                            .asked = strcmp(rows[i].path, "not-asked.txt") != 0,
                                            .written = true};
        unlink(path);
        assert_int_equal(ftruncate(files[i].fd, (off_t)rows[i].size), 0);
        if (rows[i].type && strcmp(rows[i].type, "image") == 0) {
            assert_int_equal(pwrite(files[i].fd, "\x89PNG\r\n\x1a\n", 8, 0), 8);
        }
    }
    CLEANUP(capture_clear) struct capture capture;
    capture_init(&capture, 1000);
    struct job_result result = {.files = files, .n_files = ARRAY_SIZE(files)};
    struct told told = encode(&result, &capture, "");
    const struct json *item = json_first(told.content);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (rows[i].type) {
            assert_string_equal(json_string(json_get(item, "type")), rows[i].type);
            item = json_next(item);
        }
        close(files[i].fd);
    }
    assert_string_equal(json_string(json_get(item, "text")),
                        "Files: plot.png (1000 bytes), no-plot.png (1000 bytes), large.png (3144729 bytes, "
                        "not shown: too many or too large), a.txt (20 bytes)");
    assert_int_equal(json_count(json_get(told.structured, "files")), 4);
    assert_null(json_get(json_first(json_get(told.structured, "files")), "data"));
    json_free(told.doc);
}

static void a_refusal_has_the_fields_of_a_result(void **state)
{
    (void)state;
    struct buf text = BUF_INIT;
    buf_putc(&text, '{');
    mcp_result_encode_refusal("full", "busy", &text);
    struct told told = parse(&text);
    assert_string_equal(text_at(&told, 0), "Error: full");
    assert_string_equal(json_string(json_get(told.structured, "error_message")), "full");
    assert_string_equal(json_string(json_get(told.structured, "status")), "setup_error");
    assert_non_null(json_get(told.structured, "execution_time"));
    json_free(told.doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_end_is_told),
        cmocka_unit_test(long_texts_are_cut_between_characters),
        cmocka_unit_test(files_are_shown_while_there_is_room),
        cmocka_unit_test(a_refusal_has_the_fields_of_a_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
