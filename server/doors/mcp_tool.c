/* The tool execute_code of the Model Context Protocol. Pure; runs in the front.
 *
 * Its arguments are fields of POST /execute, decoded by that door, so that both mean the same; what is wrong
 * with them is told in band, to the model that wrote them. */
#include "server/doors/mcp_tool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <string.h>

#include "config/format/json.h"
#include "config/format/utf8.h"
#include "config/message/job.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/callers/auth.h"
#include "server/doors/execute.h"
#include "server/doors/unknown_name.h"
#include "server/kit/capture.h"
#include "server/kit/json_out.h"

#define TEXT_CHARACTERS_MAX 10000
#define TIMEOUT_S_MAX       300
#define TIMEOUT_S_DEFAULT   30

static bool may_use(const struct server_config *config, const struct caller *caller,
                    const struct runtime_config *runtime)
{
    return !runtime->evaluator && auth_team_may(config, caller) &&
           auth_may_use_runtime(config, caller, runtime) &&
           auth_may_use_policy(config, caller, runtime, NULL);
}

bool mcp_tool_is_for(const struct server_config *config, const struct caller *caller)
{
    for (size_t i = 0; i < config->n_runtimes; i++) {
        if (may_use(config, caller, &config->runtimes[i])) {
            return true;
        }
    }
    return false;
}

/* ---- What it says of itself ---- */

static uint64_t timeout_s_max(const struct server_config *config)
{
    uint64_t most = config->max_timeout_ms / 1000;
    return most < 1 ? 1 : most < TIMEOUT_S_MAX ? most : TIMEOUT_S_MAX;
}

static void put_languages(const struct server_config *config, const struct caller *caller, struct buf *ret)
{
    json_out_open(ret, "language", '{');
    json_out_text(ret, "type", "string");
    json_out_open(ret, "enum", '[');
    for (size_t i = 0; i < config->n_runtimes; i++) {
        if (may_use(config, caller, &config->runtimes[i])) {
            const char *name = config->runtimes[i].name;
            json_out_separator(ret);
            json_write_string(ret, name, strlen(name));
        }
    }
    buf_putc(ret, ']');
    json_out_text(ret, "description", "What the program is written in.");
    buf_putc(ret, '}');
}

static void put_text_property(struct buf *ret, const char *name, const char *description)
{
    json_out_open(ret, name, '{');
    json_out_text(ret, "type", "string");
    json_out_text(ret, "description", description);
    buf_putc(ret, '}');
}

static void put_input_schema(const struct server_config *config, const struct caller *caller, struct buf *ret)
{
    json_out_open(ret, "inputSchema", '{');
    json_out_text(ret, "type", "object");
    json_out_open(ret, "properties", '{');
    put_languages(config, caller, ret);
    put_text_property(ret, "code", "The program. What it prints is the result.");
    put_text_property(ret, "stdin", "Its standard input. Default: empty.");
    json_out_open(ret, "timeout", '{');
    json_out_text(ret, "type", "integer");
    json_out_u64(ret, "minimum", 1);
    json_out_u64(ret, "maximum", TIMEOUT_S_MAX);
    json_out_u64(ret, "default", TIMEOUT_S_DEFAULT);
    json_out_key(ret, "description");
    buf_printf(ret, "\"Seconds until it is ended; this server allows %" PRIu64 ".\"}", timeout_s_max(config));
    put_text_property(ret, "session_id",
                      "Calls with the same one find each other's files in the working directory.");
    buf_putc(ret, '}');
    json_out_open(ret, "required", '[');
    buf_puts(ret, "\"language\",\"code\"]");
    json_out_bool(ret, "additionalProperties", false);
    buf_putc(ret, '}');
}

static void put_output_schema(struct buf *ret)
{
    json_out_key(ret, "outputSchema");
    buf_puts(ret,
             "{\"type\":\"object\",\"properties\":{\"status\":{\"type\":\"string\",\"enum\":[\"success\","
             "\"timeout\",\"execution_error\",\"setup_error\"]},\"exit_code\":{\"type\":\"integer\"},"
             "\"stdout\":{\"type\":\"string\"},\"stderr\":{\"type\":\"string\"}},"
             "\"required\":[\"status\",\"exit_code\",\"stdout\",\"stderr\"]}");
}

void mcp_tool_list(const struct server_config *config, const struct caller *caller, struct buf *ret)
{
    buf_puts(ret, "{\"tools\":[");
    if (mcp_tool_is_for(config, caller)) {
        buf_putc(ret, '{');
        json_out_text(ret, "name", MCP_TOOL_NAME);
        json_out_text(ret, "title", "Run a program");
        json_out_text(ret, "description",
                      "Runs a program once, in a fresh jail without a network, and returns what it printed. "
                      "Its working directory is writable and empty, and gone afterwards unless session_id is "
                      "given.");
        put_input_schema(config, caller, ret);
        put_output_schema(ret);
        json_out_open(ret, "annotations", '{');
        json_out_bool(ret, "readOnlyHint", false);
        json_out_bool(ret, "destructiveHint", false);
        json_out_bool(ret, "idempotentHint", false);
        json_out_bool(ret, "openWorldHint", false);
        buf_puts(ret, "}}");
    }
    buf_puts(ret, "]}");
}

/* ---- Arguments ---- */

static int refuse(struct err *reterr, const char *field, const char *why)
{
    return err_set(reterr, ERR_INVALID, EINVAL, field, "%s: %s", field, why);
}

/* What the tool takes is less than what POST /execute does. */
static int check_names(const struct json *arguments, struct err *reterr)
{
    static const char *const known[] = {"language", "code", "stdin", "timeout", "session_id"};
    for (const struct json *member = json_first(arguments); member; member = json_next(member)) {
        size_t i = 0;
        while (i < ARRAY_SIZE(known) && strcmp(known[i], json_key(member)) != 0) {
            i++;
        }
        if (i == ARRAY_SIZE(known)) {
            return unknown_name("argument", "", json_key(member), known, ARRAY_SIZE(known), reterr);
        }
    }
    return 0;
}

static int check_timeout(const struct json *timeout, struct err *reterr)
{
    uint64_t seconds;
    if (timeout && (!json_u64(timeout, &seconds) || seconds < 1 || seconds > TIMEOUT_S_MAX)) {
        return refuse(reterr, "timeout", "must be a whole number of seconds from 1 to 300");
    }
    return 0;
}

int mcp_tool_decode(const struct json *arguments, const struct server_config *config,
                    const struct caller *caller, struct execute_request *ret, struct err *reterr)
{
    const struct json *language = json_given(json_get(arguments, "language"));
    const struct json *timeout = json_given(json_get(arguments, "timeout"));
    if (arguments && json_type_of(arguments) != JSON_OBJECT) {
        return refuse(reterr, "arguments", "must be an object");
    }
    int r = check_names(arguments, reterr);
    r = r < 0 ? r : check_timeout(timeout, reterr);
    if (r == 0 && (!language || (json_string(language) && json_string_length(language) == 0))) {
        r = refuse(reterr, "language", "is required");
    }
    if (r == 0 && !json_given(json_get(arguments, "code"))) {
        r = err_set(reterr, ERR_INVALID, EINVAL, "code", "code is required");
    }
    CLEANUP(execute_request_clear) struct execute_request request = EXECUTE_REQUEST_INIT;
    r = r < 0 ? r : execute_decode(arguments, config, &request, reterr);
    if (r == 0 && !may_use(config, caller, request.runtime)) {
        r = err_set(reterr, ERR_DENIED, EPERM, "language", "this key may not use the runtime '%.100s'",
                    request.runtime->name);
    }
    if (r < 0) {
        return r;
    }
    if (!timeout) {
        uint64_t most = config->max_timeout_ms, wish = TIMEOUT_S_DEFAULT * 1000;
        request.job->limits.timeout_ms = wish < most ? wish : most;
    }
    request.queue_ms = config->mcp_queue_ms;
    *ret = request;
    request = EXECUTE_REQUEST_INIT;
    return 0;
}

/* ---- Results ---- */

/* The bytes of the first TEXT_CHARACTERS_MAX characters. */
static size_t cut(const struct buf *text)
{
    size_t at = 0;
    for (size_t n = 0; at < text->len && n < TEXT_CHARACTERS_MAX; n++) {
        bool valid;
        at += utf8_sequence(text->data + at, text->len - at, &valid);
    }
    return at;
}

static void put_text(struct buf *ret, const struct buf *text)
{
    static const char cut_off[] = "\n... [output truncated]";
    CLEANUP(buf_free) struct buf shown = BUF_INIT;
    size_t length = cut(text);
    buf_append(&shown, text->data ? text->data : "", length);
    if (length < text->len) {
        buf_puts(&shown, cut_off);
    }
    buf_puts(ret, "{\"content\":[{\"type\":\"text\"");
    json_out_bytes(ret, "text", shown.len > 0 ? shown.data : "(No output)",
                   shown.len > 0 ? shown.len : strlen("(No output)"));
    buf_puts(ret, "}],\"structuredContent\":");
    ret->failed = ret->failed || shown.failed;
}

static void put_end(struct buf *ret, bool is_error)
{
    json_out_bool(ret, "isError", is_error);
    buf_putc(ret, '}');
}

/* stdout, then stderr, on a line of its own. */
static void join_output(const struct capture *capture, struct buf *ret)
{
    const struct buf *out = &capture->streams[CAPTURE_STDOUT], *err = &capture->streams[CAPTURE_STDERR];
    if (out->len > 0) {
        buf_append(ret, out->data, out->len);
    }
    if (out->len > 0 && err->len > 0 && out->data[out->len - 1] != '\n') {
        buf_putc(ret, '\n');
    }
    if (err->len > 0) {
        buf_append(ret, err->data, err->len);
    }
}

static enum job_status told_status(enum job_status status)
{
    switch (status) {
    case JOB_SUCCESS:
    case JOB_TIMEOUT:
    case JOB_SETUP_ERROR:
        return status;
    default: /* which one, `oom` and `signal` say */
        return JOB_EXECUTION_ERROR;
    }
}

int mcp_tool_encode(const struct job_result *result, const struct job_texts *texts, struct buf *ret,
                    struct err *reterr)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    struct job_result told = *result; /* whose parts stay the other's */
    told.status = told_status(result->status);
    if (told.status == JOB_TIMEOUT) {
        buf_printf(&text, "Error: Execution timed out after %" PRIu64 "s",
                   (result->limits.timeout_ms + 999) / 1000);
    } else if (told.status == JOB_SETUP_ERROR && result->error_text) {
        buf_printf(&text, "Error: %s", result->error_text);
    } else {
        join_output(texts->capture, &text);
    }
    put_text(ret, &text);
    int r = execute_encode(&told, texts, ret, reterr);
    if (r < 0) {
        return r;
    }
    ret->len--; /* its line feed */
    put_end(ret, told.status != JOB_SUCCESS);
    return ret->failed || text.failed ? err_errno(reterr, ENOMEM, "writing a reply") : 0;
}

void mcp_tool_encode_refusal(const char *text, const char *code, struct buf *ret)
{
    CLEANUP(buf_free) struct buf shown = BUF_INIT;
    buf_printf(&shown, "Error: %s", text);
    put_text(ret, &shown);
    buf_putc(ret, '{');
    json_out_text(ret, "status", "setup_error");
    json_out_i64(ret, "exit_code", -1);
    json_out_text(ret, "stdout", "");
    json_out_text(ret, "stderr", "");
    json_out_text(ret, "error_message", text);
    json_out_text(ret, "error", text);
    json_out_text(ret, "code", code);
    buf_putc(ret, '}');
    put_end(ret, true);
}
