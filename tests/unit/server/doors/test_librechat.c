/* server/doors/librechat.c: requests, ids and replies. */
#include "server/doors/librechat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config/format/json.h"
#include "config/message/message_session.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/kit/capture.h"

static char python[] = "python", py[] = "py", node[] = "node", javascript[] = "javascript", eval[] = "ts";
static char *python_aliases[] = {py}, *node_aliases[] = {javascript};
static struct runtime_config runtimes[] = {
    {.name = python, .aliases = python_aliases, .n_aliases = 1, .policy = python},
    {.name = node, .aliases = node_aliases, .n_aliases = 1, .policy = node},
    {.name = eval, .evaluator = true, .policy = node},
};
static const struct server_config config = {
    .runtimes = runtimes, .n_runtimes = 3, .default_runtime = python, .max_timeout_ms = 60000};

static int decode(const char *text, struct execute_request *ret, struct err *reterr)
{
    struct json_doc *doc;
    *ret = EXECUTE_REQUEST_INIT;
    *reterr = (struct err){0};
    assert_int_equal(json_parse(text, strlen(text), &doc, reterr), 0);
    int r = librechat_door.decode(json_root(doc), text, strlen(text), &config, ret, reterr);
    json_free(doc);
    return r;
}

static void test_request(void **state)
{
    (void)state;
    struct execute_request request, other;
    struct err err;
    static const char text[] =
        "{\"lang\": \"js\", \"code\": \"1\", \"args\": [\"a\"], \"timeout\": 5000, \"user_id\": \"u\", "
        "\"files\": ["
        "{\"id\": \"i\", \"storage_session_id\": \"s\", \"session_id\": \"t\", \"name\": \"./a//b\"},"
        "{\"id\": \"j\", \"session_id\": \"t\", \"name\": \"c\", \"kind\": \"user\"}]}";
    assert_int_equal(decode(text, &request, &err), 0);
    assert_int_equal(
        decode("{\"lang\": \"py\", \"code\": \"1\", \"files\": null, \"args\": null}", &other, &err), 0);
    const struct librechat *one = request.state, *two = other.state;
    assert_ptr_equal(request.door, &librechat_door);
    assert_ptr_equal(request.runtime, &runtimes[1]);
    assert_ptr_equal(other.runtime, &runtimes[0]);
    assert_int_equal(request.job->n_args, 1);
    assert_int_equal(request.job->limits.timeout_ms, 5000);
    assert_string_equal(request.job->session_id, one->session_id);
    assert_int_equal(strlen(one->session_id), LIBRECHAT_ID_BYTES - 1);
    assert_string_not_equal(one->session_id, two->session_id);
    assert_int_equal(one->n_files, 2);
    assert_string_equal(one->files[0].session_id, "s");
    assert_string_equal(one->files[0].name, "a/b");
    assert_string_equal(one->files[1].session_id, "t");
    assert_string_equal(one->files[1].id, "j");
    assert_int_equal(two->n_files, 0);
    execute_request_clear(&request);
    execute_request_clear(&other);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *field;
    } rows[] = {
        {"{\"code\": \"1\"}", "lang"},
        {"{\"lang\": 1, \"code\": \"1\"}", "lang"},
        {"{\"lang\": \"ts\", \"code\": \"1\"}", "lang"},
        {"{\"lang\": \"rs\", \"code\": \"1\"}", "lang"},
        {"{\"lang\": \"py\"}", "code"},
        {"{\"lang\": \"py\", \"code\": 1}", "code"},
        {"{\"lang\": \"py\", \"code\": \"1\", \"args\": [null]}", "args"},
        {"{\"lang\": \"py\", \"code\": \"1\", \"files\": \"x\"}", "files"},
        {"{\"lang\": \"py\", \"code\": \"1\", \"files\": [{}]}", "files[0].id"},
        {"{\"lang\": \"py\", \"code\": \"1\", \"files\": [{\"id\": \"i\"}]}", "files[0].session_id"},
        {"{\"lang\": \"py\", \"code\": \"1\", \"files\": [{\"id\": \"i\", \"session_id\": \"s\", \"name\": "
         "1}]}",
         "files[0].name"},
        {"{\"lang\": \"py\", \"code\": \"1\", \"files\": [{\"id\": \"i\", \"session_id\": \"s\", \"name\": "
         "\"a/../b\"}]}",
         "files[0].name"},
        {"[]", "lang"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct execute_request request;
        struct err err;
        if (decode(rows[i].text, &request, &err) >= 0 || strcmp(err.item, rows[i].field) != 0 ||
            err.kind != ERR_INVALID) {
            fail_msg("%s: %s, not %s", rows[i].text, err.item, rows[i].field);
        }
    }
}

static void test_ids(void **state)
{
    (void)state;
    static char a[] = "a", b[] = "d/b.txt";
    struct session_file files[] = {{.path = a}, {.path = b, .size = 5}};
    const struct session_rows rows = {.files = files, .n_files = 2};
    char id[LIBRECHAT_ID_BYTES], other[LIBRECHAT_ID_BYTES];
    librechat_file_id(b, id);
    librechat_file_id(a, other);
    assert_int_equal(strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"), 21);
    assert_string_not_equal(id, other);
    assert_ptr_equal(librechat_find(&rows, id), &files[1]);
    assert_null(librechat_find(&rows, "d/b.txt"));
    assert_null(librechat_find(&rows, ""));
    struct buf text = BUF_INIT;
    struct json_doc *doc;
    librechat_write_file(&files[1], "s", &text);
    assert_int_equal(json_parse(text.data, text.len, &doc, NULL), 0);
    const char *name = json_string(json_get(json_root(doc), "name"));
    assert_memory_equal(name, "s/", 2);
    assert_memory_equal(name + 2, id, 21);
    assert_string_equal(name + 23, ".txt");
    const struct json *metadata = json_get(json_root(doc), "metadata");
    assert_string_equal(json_string(json_get(metadata, "original-filename")), b);
    json_free(doc);
    buf_free(&text);
}

static void test_reply(void **state)
{
    (void)state;
    static const struct {
        struct job_result result;
        const char *err, *expected;
    } rows[] = {
        {{.status = JOB_SUCCESS}, "w", "w"},
        {{.status = JOB_EXECUTION_ERROR, .exit_code = 3}, "w", "w"},
        {{.status = JOB_EXECUTION_ERROR, .exit_code = 3}, "", "The program ended with exit code 3.\n"},
        {{.status = JOB_EXECUTION_ERROR, .exit_code = 137, .signal = 9},
         "w",
         "w\nThe program was ended by SIGKILL.\n"},
        {{.status = JOB_TIMEOUT, .exit_code = -1}, "w\n", "w\nThe program ended with exit code -1.\n"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        static char made[] = "a \"b\"", found[] = "found";
        struct job_output_file files[] = {{.path = made, .written = true, .fd = -1},
                                          {.path = found, .fd = -1}};
        struct job_result result = rows[i].result;
        const struct librechat librechat = {.session_id = "s"};
        struct capture capture;
        struct buf text = BUF_INIT;
        struct json_doc *doc;
        result.files = files;
        result.n_files = 2;
        capture_init(&capture, 100);
        capture_take(&capture, CAPTURE_STDOUT, "o", 1);
        capture_take(&capture, CAPTURE_STDERR, rows[i].err, strlen(rows[i].err));
        assert_int_equal(capture_finish(&capture, 0), 0);
        const struct job_texts texts = {.capture = &capture, .state = &librechat};
        assert_int_equal(librechat_door.encode(&result, &texts, &text, NULL), 0);
        assert_int_equal(json_parse(text.data, text.len, &doc, NULL), 0);
        assert_string_equal(json_string(json_get(json_root(doc), "stdout")), "o");
        assert_string_equal(json_string(json_get(json_root(doc), "stderr")), rows[i].expected);
        const struct json *listed = json_get(json_root(doc), "files");
        assert_int_equal(json_count(listed), 1);
        assert_string_equal(json_string(json_get(json_first(listed), "name")), made);
        assert_string_equal(json_string(json_get(json_first(listed), "session_id")), "s");
        json_free(doc);
        buf_free(&text);
        capture_clear(&capture);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_reply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
