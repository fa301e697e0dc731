/* server/doors/execute.c and server/doors/input_files.c: a request's JSON into a job, and every way in which
 * it is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <unistd.h>

#include "config/format/json.h"
#include "config/message/job.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/doors/execute.h"

static char python[] = "python", py[] = "py", node[] = "node", javascript[] = "javascript";
static struct prelude_config preludes[] = {{.file = (char[]){"python/immure-prelude.py"}},
                                           {.file = (char[]){"python/immure-results.py"}}};
static char *python_aliases[] = {py}, *node_aliases[] = {javascript};
static struct runtime_config runtimes[] = {
    {.name = python,
     .aliases = python_aliases,
     .n_aliases = 1,
     .policy = python,
     .preludes = preludes,
     .n_preludes = 2},
    {.name = node, .aliases = node_aliases, .n_aliases = 1, .policy = node},
};
static const struct server_config config = {
    .runtimes = runtimes, .n_runtimes = 2, .default_runtime = python, .max_timeout_ms = 60000};

static int decode(const char *text, struct execute_request *ret, struct err *reterr)
{
    struct json_doc *doc;
    *ret = EXECUTE_REQUEST_INIT;
    *reterr = (struct err){0};
    assert_int_equal(json_parse(text, strlen(text), &doc, reterr), 0);
    int r = execute_decode(json_root(doc), &config, ret, reterr);
    json_free(doc);
    return r;
}

static struct execute_request decode_good(const char *text)
{
    struct execute_request request;
    struct err err;
    if (decode(text, &request, &err) < 0) {
        fail_msg("%s: %s", text, err.text);
    }
    return request;
}

static void assert_input(const struct execute_request *request, const char *expected)
{
    char data[256];
    ssize_t n = pread(request->input.fd, data, sizeof data, 0);
    assert_int_equal(n, strlen(expected));
    assert_memory_equal(data, expected, (size_t)n);
    assert_int_equal(request->input.size, n);
}

static void the_least_request(void **state)
{
    (void)state;
    struct execute_request request = decode_good("{\"code\": \"print(1)\"}");
    assert_string_equal(request.job->runtime, "python");
    assert_ptr_equal(request.runtime, &runtimes[0]);
    assert_null(request.job->policy);
    assert_int_equal(request.job->code_size, 8);
    assert_input(&request, "print(1)");
    assert_int_equal(strlen(request.job->execution_id), 36);
    assert_int_equal(request.job->limits.timeout_ms, 0);
    assert_true(request.queue_ms == QUEUE_MS_DEFAULT);
    assert_int_equal(request.job->n_files + request.job->n_args + request.job->n_env + request.job->n_outputs,
                     0);
    assert_null(request.stdin_data);
    assert_string_equal(request.code_sha256,
                        "d287bb7f9d15abdc5b6e98536263815744b6ef21c8f3c839fc434ca70d8efe99");
    execute_request_clear(&request);
}

static void every_field(void **state)
{
    (void)state;
    struct execute_request request = decode_good(
        "{\"code\": \"c\", \"language\": \"py\", \"runtime\": \"python\", \"stdin\": \"in\\n\", "
        "\"timeout_ms\": 1500, \"queue_ms\": 2500,"
        " \"files\": [{\"name\": \"a.txt\", \"content\": \"text\"}, {\"name\": \"d/b.bin\", \"data\": "
        "\"AAH/\","
        " \"mime\": \"x/y\", \"url\": \"u\"}, {\"name\": \"empty\"}], \"outputs\": [\"*.png\", \"o\"],"
        " \"execution_id\": \"id-1\", \"session_id\": \"slack/C01\", \"session\": \"kept\", "
        "\"results\": true, \"args\": "
        "[\"-x\", \"\"], \"env\": "
        "{\"A\": \"1\", \"B\": \"\"}, "
        "\"policy\": \"strict\","
        " \"limits\": {\"memory_bytes\": 1, \"pids\": 2, \"cpu_percent\": 3, \"cpu_ms\": 4, "
        "\"scratch_bytes\": 5,"
        " \"output_bytes\": 6}}");
    const struct job *job = request.job;
    assert_string_equal(request.stdin_data, "in\n");
    assert_int_equal(request.stdin_size, 3);
    assert_int_equal(job->limits.timeout_ms, 1500);
    assert_int_equal(request.queue_ms, 2500);
    assert_int_equal(job->n_files, 3);
    assert_string_equal(job->files[0].path, "a.txt");
    assert_int_equal(job->files[0].offset, 1);
    assert_int_equal(job->files[0].size, 4);
    assert_string_equal(job->files[1].path, "d/b.bin");
    assert_int_equal(job->files[1].offset, 5);
    assert_int_equal(job->files[1].size, 3);
    assert_string_equal(job->files[2].path, "empty");
    assert_int_equal(job->files[2].size, 0);
    char data[8];
    assert_int_equal(pread(request.input.fd, data, sizeof data, 0), 8);
    assert_memory_equal(data, "ctext\x00\x01\xff", 8);
    assert_int_equal(job->n_outputs, 2);
    assert_string_equal(job->outputs[0], "*.png");
    assert_string_equal(job->execution_id, "id-1");
    assert_string_equal(job->session_id, "slack/C01");
    assert_true(job->session_kept);
    assert_true(job->results);
    assert_int_equal(job->n_args, 2);
    assert_string_equal(job->args[1], "");
    assert_int_equal(job->n_env, 2);
    assert_string_equal(job->env[0].name, "A");
    assert_string_equal(job->env[0].value, "1");
    assert_string_equal(job->policy, "strict");
    assert_int_equal(job->limits.memory_bytes, 1);
    assert_int_equal(job->limits.pids, 2);
    assert_int_equal(job->limits.cpu_percent, 3);
    assert_int_equal(job->limits.cpu_ms, 4);
    assert_int_equal(job->limits.scratch_bytes, 5);
    assert_int_equal(job->limits.output_bytes, 6);
    execute_request_clear(&request);
}

static void nobody_can_change_the_input(void **state)
{
    (void)state;
    struct execute_request request = decode_good("{\"code\": \"x\"}");
    assert_int_equal(pwrite(request.input.fd, "y", 1, 0), -1);
    assert_int_equal(ftruncate(request.input.fd, 0), -1);
    assert_int_equal(fcntl(request.input.fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
    execute_request_clear(&request);
}

static void timeouts(void **state)
{
    (void)state;
    static const struct {
        const char *fields;
        uint64_t timeout_ms;
    } rows[] = {
        {"\"timeout_ms\": 0", 0},
        {"\"timeout_ms\": 1", 1},
        {"\"timeout\": 0", 0},
        {"\"timeout\": 2", 2000},
        {"\"timeout\": 2.0", 2000},
        {"\"timeout_ms\": 60001", 60000},
        {"\"timeout\": 100", 60000},
        {"\"timeout\": 18446744073709551615", 60000},
        {"\"timeout\": 18446744073709552", 60000},
        {"\"timeout_ms\": 1e4", 10000},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"code\": \"x\", %s}", rows[i].fields);
        struct execute_request request = decode_good(text);
        assert_int_equal(request.job->limits.timeout_ms, rows[i].timeout_ms);
        execute_request_clear(&request);
    }
}

static void runtimes_by_name_and_alias(void **state)
{
    (void)state;
    static const struct {
        const char *fields, *runtime;
    } rows[] = {
        {"\"language\": \"node\"", "node"},
        {"\"language\": \"javascript\"", "node"},
        {"\"runtime\": \"javascript\"", "node"},
        {"\"runtime\": \"javascript\", \"language\": \"node\"", "node"},
        {"\"runtime\": \"py\"", "python"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"code\": \"x\", %s}", rows[i].fields);
        struct execute_request request = decode_good(text);
        assert_string_equal(request.job->runtime, rows[i].runtime);
        execute_request_clear(&request);
    }
}

static void null_is_as_good_as_nothing(void **state)
{
    (void)state;
    struct execute_request request = decode_good(
        "{\"code\": \"x\", \"language\": null, \"runtime\": null, \"stdin\": null, \"timeout_ms\": null,"
        " \"timeout\": 2, \"outputs\": null, \"session_id\": null, \"callback_url\": null, \"execution_id\": "
        "null, \"args\": null, \"env\": null, \"policy\": null, \"environment\": null, \"image\": null, "
        "\"wait_ms\": null, \"limits\": {\"memory_bytes\": null, \"pids\": 2}, \"files\": [{\"name\": \"a\", "
        "\"content\": null, \"data\": \"AAH/\", \"mime\": null, \"url\": null}]}");
    const struct job *job = request.job;
    assert_string_equal(job->runtime, "python");
    assert_int_equal(job->limits.timeout_ms, 2000);
    assert_int_equal(job->limits.memory_bytes, 0);
    assert_int_equal(job->limits.pids, 2);
    assert_int_equal(job->n_files, 1);
    assert_int_equal(job->files[0].size, 3);
    assert_int_equal(job->n_args + job->n_env + job->n_outputs, 0);
    assert_null(job->session_id);
    assert_null(job->policy);
    assert_null(job->image);
    assert_null(request.callback_url);
    assert_null(request.stdin_data);
    assert_int_equal(strlen(job->execution_id), 36);
    execute_request_clear(&request);
}

static void empty_words_are_none(void **state)
{
    (void)state;
    struct execute_request request =
        decode_good("{\"code\": \"x\", \"language\": \"node\", \"runtime\": \"\", \"session_id\": \"\", "
                    "\"callback_url\": \"\"}");
    assert_string_equal(request.job->runtime, "node");
    assert_null(request.job->session_id);
    assert_null(request.callback_url);
    execute_request_clear(&request);
    request = decode_good("{\"code\": \"x\", \"language\": \"\", \"runtime\": \"\"}");
    assert_string_equal(request.job->runtime, "python");
    execute_request_clear(&request);
}

static void names_lose_what_they_do_not_need(void **state)
{
    (void)state;
    static const struct {
        const char *written, *name;
    } rows[] = {
        {"./dot", "dot"},    {"a//b", "a/b"},        {"./a/./b", "a/b"},     {".//.//a", "a"},
        {"a/.//./b", "a/b"}, {".hidden", ".hidden"}, {"..a/b..", "..a/b.."}, {"a.", "a."},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char text[160];
        snprintf(text, sizeof text,
                 "{\"code\": \"x\", \"files\": [{\"name\": \"%s\"}], \"outputs\": [\"%s\"]}", rows[i].written,
                 rows[i].written);
        struct execute_request request = decode_good(text);
        assert_string_equal(request.job->files[0].path, rows[i].name);
        assert_string_equal(request.job->outputs[0], rows[i].name);
        execute_request_clear(&request);
    }
    struct execute_request request =
        decode_good("{\"code\": \"x\", \"files\": [{\"name\": \"./a\", \"content\": \"\"}]}");
    assert_string_equal(request.job->files[0].path, "a");
    execute_request_clear(&request);
}

#define C           "\"code\": \"x\", "
#define FILES(list) "{" C "\"files\": [" list "]}"
#define OUTSIDE                                                                                              \
    "output files are looked for in the workspace, the program's working directory (/workspace, where the "  \
    "policy names no other); give a path relative to it"

static const struct refusal {
    const char *text, *field, *sentence;
} refusals[] = {
    {"[]", "", "the body must be an object, not an array"},
    {"null", "", "the body must be an object, not null"},
    {"{}", "code", "code is required"},
    {"{\"code\": \"\"}", "code", "code is required"},
    {"{\"code\": 1}", "code", "code: must be a string, not a number"},
    {"{\"code\": null}", "code", "code is required"},
    {"{" C "\"bogus\": 1}", "bogus", "bogus: unknown field"},
    {"{" C "\"timeuot\": 1}", "timeuot", "timeuot: unknown field; did you mean 'timeout'?"},
    {"{" C "\"language\": \"cobol\"}", "language", "unsupported runtime: cobol; supported: python, node"},
    {"{" C "\"bogus\": null}", "bogus", "bogus: unknown field"},
    {"{" C "\"memory_limit\": 1}", "memory_limit",
     "memory_limit: unknown field; did you mean 'limits.memory_bytes'?"},
    {"{" C "\"memoryLimit\": 1}", "memoryLimit",
     "memoryLimit: unknown field; did you mean 'limits.memory_bytes'?"},
    {"{" C "\"cmd\": []}", "cmd", "cmd: unknown field; the program is `code`, its arguments are `args`"},
    {"{\"source\": \"x\"}", "source", "source: unknown field; did you mean 'code'?"},
    {"{" C "\"lang\": \"py\"}", "lang", "lang: unknown field; did you mean 'language'?"},
    {"{" C "\"packages\": []}", "packages",
     "packages: unknown field; the program installs them itself: install_package(\"NAME\")"},
    {"{" C "\"filename\": \"a\"}", "filename", "filename: unknown field"},
    {"{" C "\"runtime\": \"node\", \"language\": \"python\"}", "language",
     "language: differs from `runtime`; give one of them"},
    {"{" C "\"stdin\": 1}", "stdin", "stdin: must be a string, not a number"},
    {"{" C "\"timeout_ms\": -1}", "timeout_ms", "timeout_ms: must be a whole number from 1 up"},
    {"{" C "\"timeout_ms\": 1.5}", "timeout_ms", "timeout_ms: must be a whole number from 1 up"},
    {"{" C "\"timeout_ms\": \"1\"}", "timeout_ms", "timeout_ms: must be a whole number from 1 up"},
    {"{" C "\"queue_ms\": -1}", "queue_ms", "queue_ms: must be a whole number from 1 up"},
    {"{" C "\"queue_ms\": \"1\"}", "queue_ms", "queue_ms: must be a whole number from 1 up"},
    {"{" C "\"timeout_ms\": 1e99}", "timeout_ms", "timeout_ms: must be a whole number from 1 up"},
    {"{" C "\"timeout\": -1}", "timeout", "timeout: must be a whole number from 1 up"},
    {"{" C "\"timeout\": true}", "timeout", "timeout: must be a whole number from 1 up"},
    {"{" C "\"timeout\": 1, \"timeout_ms\": 1000}", "timeout",
     "timeout: give either `timeout` (seconds) or `timeout_ms`, not both"},
    {"{" C "\"files\": {}}", "files", "files: must be an array, not an object"},
    {FILES("1"), "files[0]", "files[0]: must be an object"},
    {FILES("{}"), "files[0].name", "files[0].name: is required"},
    {FILES("{\"name\": \"a\"}, {\"name\": \"b\", \"x\": 1}"), "files[1].x", "files[1].x: unknown field"},
    {FILES("{\"name\": 1}"), "files[0].name", "files[0].name: must be a string, not a number"},
    {FILES("{\"name\": null}"), "files[0].name", "files[0].name: is required"},
    {FILES("null"), "files[0]", "files[0]: must be an object"},
    {FILES("{\"path\": \"a\"}"), "files[0].path", "files[0].path: unknown field; did you mean 'name'?"},
    {FILES("{\"name\": \"a\", \"text\": \"\"}"), "files[0].text",
     "files[0].text: unknown field; did you mean 'content'?"},
    {FILES("{\"name\": \"\"}"), "files[0].name", "files[0].name: must not be empty"},
    {FILES("{\"name\": \"/a\"}"), "files[0].name", "files[0].name: must not begin with '/'"},
    {FILES("{\"name\": \"//a\"}"), "files[0].name", "files[0].name: must not begin with '/'"},
    {FILES("{\"name\": \"a/\"}"), "files[0].name", "files[0].name: must name a file, not a directory"},
    {FILES("{\"name\": \".\"}"), "files[0].name", "files[0].name: must name a file, not a directory"},
    {FILES("{\"name\": \"./\"}"), "files[0].name", "files[0].name: must name a file, not a directory"},
    {FILES("{\"name\": \"a/.\"}"), "files[0].name", "files[0].name: must name a file, not a directory"},
    {FILES("{\"name\": \"..\"}"), "files[0].name", "files[0].name: must not have a part '..'"},
    {FILES("{\"name\": \"./../a\"}"), "files[0].name", "files[0].name: must not have a part '..'"},
    {FILES("{\"name\": \"a/../b\"}"), "files[0].name", "files[0].name: must not have a part '..'"},
    {FILES("{\"name\": \"a/..\"}"), "files[0].name", "files[0].name: must not have a part '..'"},
    {FILES("{\"name\": \"a/b\", \"content\": \"\"}"), "files[0].name",
     "files[0].name: with `content` it must be a plain file name, without '/'"},
    {FILES("{\"name\": \"a\", \"content\": \"\", \"data\": \"\"}"), "files[0]",
     "files[0]: must not have both `content` and `data`"},
    {FILES("{\"name\": \"a\", \"data\": \"A\"}"), "files[0].data", "files[0].data: is not base64"},
    {FILES("{\"name\": \"a\", \"data\": \"AAA\"}"), "files[0].data", "files[0].data: is not base64"},
    {FILES("{\"name\": \"a\", \"data\": \"AA==\\n\"}"), "files[0].data", "files[0].data: is not base64"},
    {FILES("{\"name\": \"a\"}, {\"name\": \"b\"}, {\"name\": \"a\"}"), "files", "files: 'a' is there twice"},
    {FILES("{\"name\": \"a/b\"}, {\"name\": \".//a/./b\"}"), "files", "files: 'a/b' is there twice"},
    {FILES("{\"name\": \"./a\"}, {\"name\": \"a//b\"}"), "files", "files: 'a/b' lies below another file"},
    {FILES("{\"name\": \"a/b/c\"}, {\"name\": \"a\"}"), "files", "files: 'a/b/c' lies below another file"},
    {FILES("{\"name\": \"a\"}, {\"name\": \"a!\"}, {\"name\": \"a-/b\"}, {\"name\": \"a/b\"}, {\"name\": "
           "\"a0\"}"),
     "files", "files: 'a/b' lies below another file"},
    {FILES("{\"name\": \"a/b\"}, {\"name\": \"a-\"}, {\"name\": \"a\"}"), "files",
     "files: 'a/b' lies below another file"},
    {"{" C "\"outputs\": \"a\"}", "outputs", "outputs: must be an array, not a string"},
    {"{" C "\"outputs\": [\"a\", 1]}", "outputs[1]", "outputs[1]: must be a string, not a number"},
    {"{" C "\"outputs\": [\"\"]}", "outputs[0]", "outputs[0]: must not be empty"},
    {"{" C "\"outputs\": [null]}", "outputs[0]", "outputs[0]: must be a string, not null"},
    {"{" C "\"outputs\": [\"a\", \"/tmp/x\"]}", "outputs[1]", "outputs[1]: " OUTSIDE},
    {"{" C "\"outputs\": [\"../x\"]}", "outputs[0]", "outputs[0]: " OUTSIDE},
    {"{" C "\"outputs\": [\"d/../../x\"]}", "outputs[0]", "outputs[0]: " OUTSIDE},
    {"{" C "\"outputs\": [\"d/\"]}", "outputs[0]",
     "outputs[0]: names a directory; 'NAME/*' asks for the files in one"},
    {"{" C "\"image\": \"a\"}", "image", "image: goes with `environment`: \"image\""},
    {"{" C "\"environment\": \"\"}", "environment", "environment: must be \"image\", or left out"},
    {"{" C "\"environment\": \"image\", \"image\": \"A\"}", "image", "image: " IMAGE_NAME_RULE},
    {"{" C "\"environment\": \"image\", \"image\": \"..\"}", "image", "image: " IMAGE_NAME_RULE},
    {"{" C "\"session_id\": \"a\\n\"}", "session_id", "session_id: " SESSION_ID_RULE},
    {"{" C "\"session_id\": \"\\u0085\"}", "session_id", "session_id: " SESSION_ID_RULE},
    {"{" C "\"session\": \"kept\"}", "session", "session: goes with `session_id`"},
    {"{" C "\"results\": \"yes\"}", "results", "results: must be true or false, not a string"},
    {"{" C "\"runtime\": \"node\", \"results\": true}", "results",
     "results: the runtime 'node' shows no values; let it print them"},
    {"{" C "\"session_id\": \"\", \"session\": \"kept\"}", "session", "session: goes with `session_id`"},
    {"{" C "\"session_id\": \"s\", \"session\": \"new\"}", "session",
     "session: must be \"kept\", or left out"},
    {"{" C "\"callback_url\": \"http://x\"}", "callback_url",
     "callback_url: this server's configuration does not allow calls to it"},
    {"{" C "\"callback_url\": \"file:///x\"}", "callback_url",
     "callback_url: must begin with http:// or https://"},
    {"{" C "\"execution_id\": \"a b\"}", "execution_id",
     "execution_id: must be 1 to 128 of A-Z a-z 0-9 . _ - : / + = @ ~"},
    {"{" C "\"args\": [null]}", "args[0]", "args[0]: must be a string, not null"},
    {"{" C "\"env\": []}", "env", "env: must be an object, not an array"},
    {"{" C "\"env\": {\"A\": 1}}", "env.A", "env.A: must be a string, not a number"},
    {"{" C "\"env\": {\"\": \"\"}}", "env", "env: a variable's name must not be empty or hold '='"},
    {"{" C "\"env\": {\"A=B\": \"\"}}", "env", "env: a variable's name must not be empty or hold '='"},
    {"{" C "\"policy\": \"\"}", "policy", "policy: must not be empty"},
    {"{" C "\"limits\": 1}", "limits", "limits: must be an object, not a number"},
    {"{" C "\"limits\": {\"memory\": 1}}", "limits.memory",
     "limits.memory: unknown field; did you mean 'memory_bytes'?"},
    {"{" C "\"limits\": {\"timeout_ms\": 1}}", "limits.timeout_ms",
     "limits.timeout_ms: unknown field; it is a field of the request itself"},
    {"{" C "\"limits\": {\"bogus\": 1}}", "limits.bogus", "limits.bogus: unknown field"},
    {"{" C "\"limits\": {\"pids\": 0}}", "limits.pids", "limits.pids: must be a whole number from 1 up"},
    {"{" C "\"limits\": {\"pids\": \"1\"}}", "limits.pids", "limits.pids: must be a whole number from 1 up"},
};

static void refuses_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
        struct execute_request request;
        struct err err;
        if (decode(refusals[i].text, &request, &err) >= 0) {
            fail_msg("accepted: %s", refusals[i].text);
        }
        assert_int_equal(err.kind, ERR_INVALID);
        assert_string_equal(err.text, refusals[i].sentence);
        assert_string_equal(err.item, refusals[i].field);
        assert_null(request.job);
        assert_int_equal(request.input.fd, -1);
    }
}

static void limits_the_parts_of_names(void **state)
{
    (void)state;
    char name[257], text[512];
    struct execute_request request;
    struct err err;
    memset(name, 'n', sizeof name);
    name[255] = '\0';
    snprintf(text, sizeof text, FILES("{\"name\": \"d/%s\"}"), name);
    request = decode_good(text);
    execute_request_clear(&request);
    name[255] = 'n';
    name[256] = '\0';
    snprintf(text, sizeof text, FILES("{\"name\": \"d/%s\"}"), name);
    assert_true(decode(text, &request, &err) < 0);
    assert_string_equal(err.text, "files[0].name: a part has more than 255 bytes");
}

/* {"FIELD": [ITEM, ...]}, or {"FIELD": {"0ITEM ...} for an object. */
static char *many(const char *field, bool object, const char *item, size_t n)
{
    struct buf text = BUF_INIT;
    buf_printf(&text, "{\"code\": \"1\", \"%s\": %c", field, object ? '{' : '[');
    for (size_t i = 0; i < n; i++) {
        buf_puts(&text, i > 0 ? "," : "");
        if (object) {
            buf_printf(&text, "\"N%zu\": ", i);
        }
        buf_printf(&text, item, i);
    }
    buf_puts(&text, object ? "}}" : "]}");
    return buf_steal(&text);
}

static void limits_what_can_be_counted(void **state)
{
    (void)state;
    static const struct {
        const char *field, *item;
        bool object;
        size_t most;
        const char *sentence;
    } rows[] = {
        {"outputs", "\"%zu\"", false, 64, "outputs: must have at most 64 items, not 65"},
        {"args", "\"%zu\"", false, 1024, "args: must have at most 1024 items, not 1025"},
        {"files", "{\"name\": \"%zu\"}", false, 1024, "files: must have at most 1024 items, not 1025"},
        {"env", "\"%zu\"", true, 256, "env: must have at most 256 members, not 257"},
        {"files", "{\"name\": \"%zu/a/a/f\"}", false, 682,
         "files: their names lead through 2049 directories; all together may do so through 2048"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct execute_request request;
        struct err err;
        CLEANUP(freep) char *fits = many(rows[i].field, rows[i].object, rows[i].item, rows[i].most);
        CLEANUP(freep) char *one_more = many(rows[i].field, rows[i].object, rows[i].item, rows[i].most + 1);
        assert_int_equal(decode(fits, &request, &err), 0);
        execute_request_clear(&request);
        assert_true(decode(one_more, &request, &err) < 0);
        assert_int_equal(err.kind, ERR_INVALID);
        assert_string_equal(err.item, rows[i].field);
        assert_string_equal(err.text, rows[i].sentence);
    }
}

static void limits_the_length_of_paths(void **state)
{
    (void)state;
    struct buf text = BUF_INIT;
    struct execute_request request;
    struct err err;
    buf_puts(&text, "{\"code\": \"x\", \"files\": [{\"name\": \"x");
    for (int i = 0; i < 2000; i++) {
        buf_puts(&text, "/x");
    }
    buf_puts(&text, "\"}]}");
    assert_true(decode(text.data, &request, &err) < 0);
    assert_string_equal(err.text, "files[0].name: too long");
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_request),           cmocka_unit_test(every_field),
        cmocka_unit_test(nobody_can_change_the_input), cmocka_unit_test(timeouts),
        cmocka_unit_test(runtimes_by_name_and_alias),  cmocka_unit_test(refuses_by_name),
        cmocka_unit_test(limits_what_can_be_counted),  cmocka_unit_test(limits_the_parts_of_names),
        cmocka_unit_test(limits_the_length_of_paths),  cmocka_unit_test(null_is_as_good_as_nothing),
        cmocka_unit_test(empty_words_are_none),        cmocka_unit_test(names_lose_what_they_do_not_need),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
