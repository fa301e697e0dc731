/* POST /run-code: from the body's bytes to a job. What is refused is refused as the caller's fault, by field;
 * what becomes a program is one JSON text that holds source and options as they came, and nothing else. The
 * same bytes are then what an evaluator says: whatever that is, the reply is strict JSON on one line, or the
 * server's own error. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "config/format/json.h"
#include "config/message/job.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "server/doors/execute.h"
#include "server/kit/function_ids.h"
#include "server/doors/run_code.h"
#include "server/kit/capture.h"
#include "server/kit/ident.h"
#include "tests/fuzz/fuzz.h"

static const struct server_config *the_config(void)
{
    static struct server_config *config;
    static char local[] = "SANDBOX_EXECUTOR_ENV=test";
    static char *const env[] = {local, NULL};
    if (!config) {
        REQUIRE(server_config_load(NULL, env, &config, NULL) == 0);
    }
    return config;
}

static void require_program(const struct execute_request *request, const struct json *root)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    struct json_doc *doc = NULL;
    char *room = buf_reserve(&text, request->job->code_size);
    REQUIRE(room && request->input.size == request->job->code_size);
    REQUIRE(pread(request->input.fd, room, request->input.size, 0) == (ssize_t)request->input.size);
    REQUIRE(json_parse(room, request->input.size, &doc, NULL) == 0);
    const struct json *program = json_root(doc);
    REQUIRE(json_count(program) == 2 && json_type_of(json_get(program, "options")) == JSON_OBJECT);
    REQUIRE(strcmp(json_string(json_get(program, "source")), json_string(json_get(root, "source"))) == 0);
    REQUIRE(json_count(json_get(program, "options")) == json_count(json_get(root, "options")));
    json_free(doc);
}

static void try_request(const struct json *root, const char *text, size_t size)
{
    struct execute_request request = EXECUTE_REQUEST_INIT;
    struct err err = {0};
    int r = run_code_decode(root, text, size, the_config(), &request, &err);
    if (r < 0) {
        /* Where this machine has no Node there is no evaluator. */
        REQUIRE((err.kind == ERR_INVALID || err.kind == ERR_NOT_FOUND) && err.text[0] != '\0');
        REQUIRE(!request.job && request.input.fd == -1);
        return;
    }
    REQUIRE(request.runtime->evaluator && request.state && ident_is_sane(request.job->execution_id));
    REQUIRE(request.job->limits.timeout_ms <= the_config()->max_timeout_ms);
    require_program(&request, root);
    execute_request_clear(&request);
}

static void require_line(const struct buf *text)
{
    struct json_slice status;
    const char *const name = "status", *why;
    REQUIRE(text->len > 1 && memchr(text->data, '\n', text->len) == text->data + text->len - 1);
    REQUIRE(!memchr(text->data, '\r', text->len));
    REQUIRE(json_split(text->data, text->len, &name, 1, &status, &why) == 0 && status.type == JSON_STRING);
}

static void try_reply(const char *text, size_t size)
{
    struct run_code *run = NULL;
    struct json_slice data;
    const char *const name = "data", *why;
    REQUIRE(run_code_new(&(struct function_ids){0}, &run, NULL) == 0);
    if (json_split(text, size, &name, 1, &data, &why) == 0 && data.type != JSON_ABSENT) {
        static const char *const kinds[] = {"\"log\"", "\"report\"", "\"other\""};
        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
            const struct json_slice kind = {.text = kinds[i], .size = strlen(kinds[i]), .type = JSON_STRING};
            const struct buf *told;
            const char *event = run_code_note(run, &kind, &data, &told);
            REQUIRE((event != NULL) == (i < 2));
            REQUIRE(!event || !memchr(told->data, '\n', told->len));
        }
    }
    for (int status = 0; status < JOB_STATUS_COUNT; status++) {
        CLEANUP(buf_free) struct buf reply = BUF_INIT;
        const struct capture capture = {.limit_bytes = 1};
        const struct job_result result = {.status = (enum job_status)status};
        const struct job_texts texts = {
            .capture = &capture, .output = text, .output_size = size, .state = run};
        struct err err = {0};
        if (run_code_encode(&result, &texts, &reply, &err) < 0) {
            REQUIRE(err.kind == ERR_SETUP); /* it says that the server lacks what it needs */
        } else {
            require_line(&reply);
        }
    }
    run_code_free(run);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct json_doc *doc = NULL;
    struct err err = {0};
    try_reply(text, size);
    int r = json_parse(text, size, &doc, &err);
    if (r < 0) {
        fuzz_require_json_refusal((struct expected_refusal){r, &err, data, size});
        return;
    }
    try_request(json_root(doc), text, size);
    json_free(doc);
}
