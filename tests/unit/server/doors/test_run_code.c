/* server/doors/run_code.c and server/doors/run_code_values.c: a request's JSON into the evaluator's program,
 * and every way in which it is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <unistd.h>

#include "config/format/json.h"
#include "config/message/job.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/doors/execute.h"
#include "server/kit/function_ids.h"
#include "server/doors/run_code.h"

static char python[] = "python", isolate[] = "isolate";
static struct runtime_config runtimes[] = {
    {.name = python, .policy = python},
    {.name = isolate, .policy = isolate, .evaluator = true},
};
static const struct server_config config = {
    .runtimes = runtimes, .n_runtimes = 2, .default_runtime = python, .max_timeout_ms = 60000};
static const struct server_config without = {
    .runtimes = runtimes, .n_runtimes = 1, .default_runtime = python, .max_timeout_ms = 60000};

static int decode(const struct server_config *from, const char *text, struct execute_request *ret,
                  struct err *reterr)
{
    struct json_doc *doc;
    *ret = EXECUTE_REQUEST_INIT;
    *reterr = (struct err){0};
    assert_int_equal(json_parse(text, strlen(text), &doc, reterr), 0);
    int r = run_code_decode(json_root(doc), text, strlen(text), from, ret, reterr);
    json_free(doc);
    return r;
}

static void takes_source_and_options_as_they_are(void **state)
{
    (void)state;
    static const char body[] =
        "{\"options\": { \"filename\":\"a\\u0062\" }, \"source\":\"1\\n\", "
        "\"execution_id\":\"e\", \"timeout_ms\": 70000, \"queue_ms\": 7, \"stream\": true}";
    static const char expected[] = "{\"source\":\"1\\n\",\"options\":{ \"filename\":\"a\\u0062\" }}";
    struct execute_request request;
    struct err err;
    char data[256];
    assert_int_equal(decode(&config, body, &request, &err), 0);
    assert_ptr_equal(request.runtime, &runtimes[1]);
    assert_string_equal(request.job->runtime, "isolate");
    assert_string_equal(request.job->execution_id, "e");
    assert_int_equal(request.job->limits.timeout_ms, 60000);
    assert_int_equal(request.queue_ms, 7);
    assert_true(request.stream);
    assert_non_null(request.state);
    assert_int_equal(pread(request.input.fd, data, sizeof data, 0), strlen(expected));
    assert_memory_equal(data, expected, strlen(expected));
    assert_int_equal(request.job->code_size, strlen(expected));
    execute_request_clear(&request);
}

/* Names that are written in escapes are the same names: what is checked is what the evaluator gets. */
static void names_may_be_in_escapes(void **state)
{
    (void)state;
    static const char body[] = "{\"\\u006fptions\": {\"language\":\"javascript\"}, \"sour\\u0063e\":\"1\"}";
    static const char expected[] = "{\"source\":\"1\",\"options\":{\"language\":\"javascript\"}}";
    struct execute_request request;
    struct err err;
    char data[256];
    assert_int_equal(decode(&config, body, &request, &err), 0);
    assert_int_equal(pread(request.input.fd, data, sizeof data, 0), strlen(expected));
    assert_memory_equal(data, expected, strlen(expected));
    execute_request_clear(&request);
}

static void the_least_request(void **state)
{
    (void)state;
    struct execute_request request;
    struct err err;
    assert_int_equal(decode(&config, "{\"source\":\"\"}", &request, &err), 0);
    assert_int_equal(strlen(request.job->execution_id), 36);
    assert_int_equal(request.job->limits.memory_bytes + request.job->limits.timeout_ms, 0);
    assert_false(request.stream);
    assert_null(request.callback_url);
    execute_request_clear(&request);
}

static void null_is_as_good_as_nothing(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "{\"source\":\"\",\"options\":null,\"execution_id\":null,\"callback_url\":null,\"timeout_ms\":null,"
        "\"stream\":null}",
        "{\"source\":\"\",\"callback_url\":\"\",\"options\":{\"execute\":null,"
        "\"imports\":null,\"modules\":null,\"globals\":null,\"language\":null,\"memoryLimitBytes\":null,"
        "\"filename\":null,\"report\":null}}",
        "{\"source\":\"\",\"options\":{\"execute\":{\"fn\":null,\"args\":null},\"language\":\"\"}}",
    };
    for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
        struct execute_request request;
        struct err err;
        assert_int_equal(decode(&config, bodies[i], &request, &err), 0);
        assert_int_equal(strlen(request.job->execution_id), 36);
        assert_int_equal(request.job->limits.memory_bytes + request.job->limits.timeout_ms, 0);
        assert_false(request.stream);
        assert_null(request.callback_url);
        execute_request_clear(&request);
    }
}

static void what_was_meant(void **state)
{
    (void)state;
    static const struct {
        const char *body, *sentence;
    } rows[] = {
        {"{\"code\":\"\"}", "code: unknown field; did you mean 'source'?"},
        {"{\"source\":\"\",\"lang\":\"\"}", "lang: unknown field; did you mean 'options.language'?"},
        {"{\"source\":\"\",\"options\":{\"global\":{}}}",
         "options.global: unknown field; did you mean 'globals'?"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct execute_request request;
        struct err err;
        assert_true(decode(&config, rows[i].body, &request, &err) < 0);
        assert_string_equal(err.text, rows[i].sentence);
    }
}

static void memory_is_beside_the_evaluators(void **state)
{
    (void)state;
    struct execute_request request;
    struct err err;
    assert_int_equal(
        decode(&config, "{\"source\":\"\",\"options\":{\"memoryLimitBytes\":1000}}", &request, &err), 0);
    assert_int_equal(request.job->limits.memory_bytes, (96 << 20) + 1000);
    execute_request_clear(&request);
}

static void refuses_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *body, *item;
    } rows[] = {
        {"{}", "source"},
        {"{\"source\":1}", "source"},
        {"{\"source\":\"\",\"sauce\":1}", "sauce"},
        {"{\"source\":\"\",\"execution_id\":\"a b\"}", "execution_id"},
        {"{\"source\":\"\",\"callback_url\":\"ftp://a\"}", "callback_url"},
        {"{\"source\":\"\",\"timeout_ms\":1.5}", "timeout_ms"},
        {"{\"source\":\"\",\"queue_ms\":-1}", "queue_ms"},
        {"{\"source\":\"\",\"options\":{\"execute\":{\"args\":[{\"$type\":1}]}}}", "options.execute.args[0]"},
        {"{\"source\":\"\",\"options\":{\"imports\":{\"\":{}}}}", "options.imports."},
        {"{\"source\":\"\",\"options\":{\"imports\":{\"a\":{\"b\":{\"$type\":\"set\",\"values\":[{\"$type\":"
         "\"date\",\"value\":true}]}}}}}",
         "options.imports.a.b.values[0].value"},
        {"{\"source\":\"\",\"options\":{\"modules\":{\".a\":\"\"}}}", "options.modules..a"},
        {"{\"source\":\"\",\"options\":{\"globals\":{\"1a\":1}}}", "options.globals.1a"},
        {"{\"source\":\"\",\"options\":{\"globals\":{\"class\":1}}}", "options.globals.class"},
        {"{\"source\":\"\",\"options\":{\"globals\":{\"a\":{\"$type\":\"bigint\",\"value\":\"-\"}}}}",
         "options.globals.a.value"},
        {"{\"source\":\"\",\"options\":{\"globals\":{\"a\":{\"$type\":\"bytes\",\"ctor\":\"DataView\","
         "\"data\":\"AAA\"}}}}",
         "options.globals.a.data"},
        {"{\"source\":\"\",\"options\":{\"globals\":{\"a\":{\"$type\":\"bytes\",\"ctor\":\"Int16Array\","
         "\"data\":\"AAAA\"}}}}",
         "options.globals.a.data"},
        {"{\"source\":\"\",\"options\":{\"globals\":{\"a\":{\"$type\":\"bytes\",\"ctor\":\"Int16Array\"}}}}",
         "options.globals.a.data"},
        {"{\"source\":\"\",\"options\":{\"globals\":{\"a\":{\"$type\":\"object\",\"entries\":[[1,2]]}}}}",
         "options.globals.a.entries[0]"},
        {"{\"source\":\"\",\"options\":{\"globals\":{\"a\":[0.1,{\"b\":1e400}]}}}", "options.globals.a[1].b"},
        {"{\"source\":\"\",\"options\":{\"globals\":{\"a\":{\"$type\":\"date\",\"value\":1e400}}}}",
         "options.globals.a.value"},
        {"{\"source\":\"\",\"options\":{\"memoryLimitBytes\":18446744073709551615}}",
         "options.memoryLimitBytes"},
        {"{\"source\":null}", "source"},
        {"{\"source\":\"\",\"options\":{\"modules\":{\"./a\":null}}}", "options.modules../a"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct execute_request request;
        struct err err;
        assert_true(decode(&config, rows[i].body, &request, &err) < 0);
        assert_int_equal(err.kind, ERR_INVALID);
        assert_string_equal(err.item, rows[i].item);
        assert_null(request.job);
    }
}

/* What is called must be a function of these options, wherever it stands in them. */
static void only_functions_of_the_options_are_callable(void **state)
{
    (void)state;
    static const char body[] =
        "{\"source\":\"\",\"options\":{\"globals\":{\"a\":{\"$type\":\"function\",\"id\":\"\\u0067\"},"
        "\"text\":\"t\",\"x\":{\"$type\":\"object\",\"entries\":[[\"$type\",\"function\"],[\"id\",\"no\"]]}},"
        "\"imports\":{\"p\":{\"f\":[{\"y\":{\"$type\":\"function\",\"id\":\"i\"}}]},"
        "\"$type\":{\"$type\":\"function\",\"id\":\"none\"}},"
        "\"execute\":{\"args\":[{\"$type\":\"map\",\"entries\":[[1,{\"$type\":\"function\",\"id\":\"m\"}]]}]}"
        ","
        "\"modules\":{\"./a\":\"{\\\"$type\\\":\\\"function\\\",\\\"id\\\":\\\"z\\\"}\"},"
        "\"report\":{\"$type\":\"function\",\"id\":\"r\"}}}";
    static const char *const given[] = {"g", "i", "m", "r"};
    static const char *const others[] = {"", "t", "no", "none", "z", "G", "g ", "function", "execute_code"};
    struct execute_request request;
    struct err err;
    assert_int_equal(decode(&config, body, &request, &err), 0);
    for (size_t i = 0; i < ARRAY_SIZE(given); i++) {
        assert_true(function_ids_has(request.functions, given[i]));
    }
    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        assert_false(function_ids_has(request.functions, others[i]));
    }
    execute_request_clear(&request);
    assert_int_equal(decode(&config, "{\"source\":\"\"}", &request, &err), 0);
    assert_false(function_ids_has(request.functions, "g"));
    execute_request_clear(&request);
}

static void functions_are_counted(void **state)
{
    (void)state;
    for (unsigned n = FUNCTION_IDS_MAX; n <= FUNCTION_IDS_MAX + 1; n++) {
        CLEANUP(buf_free) struct buf body = BUF_INIT;
        struct execute_request request;
        struct err err;
        buf_puts(&body, "{\"source\":\"\",\"options\":{\"globals\":{\"a\":[");
        for (unsigned i = 0; i < n; i++) {
            buf_printf(&body, "%s{\"$type\":\"function\",\"id\":\"%u\"}", i > 0 ? "," : "", i);
        }
        buf_puts(&body, "]}}}");
        int r = decode(&config, body.data, &request, &err);
        if (n == FUNCTION_IDS_MAX) {
            assert_int_equal(r, 0);
            assert_true(function_ids_has(request.functions, "4095"));
            execute_request_clear(&request);
        } else {
            assert_true(r < 0);
            assert_int_equal(err.kind, ERR_INVALID);
            assert_string_equal(err.item, "options");
        }
    }
}

static void without_an_evaluator_nothing_is_there(void **state)
{
    (void)state;
    struct execute_request request;
    struct err err;
    assert_true(decode(&without, "{\"source\":\"\"}", &request, &err) < 0);
    assert_int_equal(err.kind, ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_source_and_options_as_they_are),
        cmocka_unit_test(names_may_be_in_escapes),
        cmocka_unit_test(the_least_request),
        cmocka_unit_test(null_is_as_good_as_nothing),
        cmocka_unit_test(what_was_meant),
        cmocka_unit_test(memory_is_beside_the_evaluators),
        cmocka_unit_test(refuses_by_name),
        cmocka_unit_test(only_functions_of_the_options_are_callable),
        cmocka_unit_test(functions_are_counted),
        cmocka_unit_test(without_an_evaluator_nothing_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
