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
#include "config/message/job.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/callers/auth.h"
#include "server/doors/execute.h"
#include "server/doors/mcp_result.h"
#include "server/doors/unknown_name.h"
#include "server/kit/json_out.h"

#define TIMEOUT_S_MAX     300
#define TIMEOUT_S_DEFAULT 30
#define PACKAGES_TOLD_MAX 40

static bool may_use(const struct server_config *config, const struct caller *caller,
                    const struct runtime_config *runtime)
{
    return !runtime->evaluator && !runtime->absent && auth_team_may(config, caller) &&
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

static uint64_t least(uint64_t a, uint64_t b)
{
    return b == 0 || (a > 0 && a < b) ? a : b;
}

static uint64_t timeout_s_max(const struct server_config *config, const struct caller *caller)
{
    uint64_t most = least(config->max_timeout_ms, caller->key ? caller->key->max.timeout_ms : 0) / 1000;
    return most < 1 ? 1 : most < TIMEOUT_S_MAX ? most : TIMEOUT_S_MAX;
}

static void put_word(struct buf *ret, const char *word)
{
    json_out_separator(ret);
    json_write_string(ret, word, strlen(word));
}

static void put_languages(const struct server_config *config, const struct caller *caller, struct buf *ret)
{
    json_out_open(ret, "language", '{');
    json_out_text(ret, "type", "string");
    json_out_open(ret, "enum", '[');
    for (size_t i = 0; i < config->n_runtimes; i++) {
        const struct runtime_config *runtime = &config->runtimes[i];
        if (!may_use(config, caller, runtime)) {
            continue;
        }
        put_word(ret, runtime->name);
        for (size_t j = 0; j < runtime->n_aliases; j++) {
            put_word(ret, runtime->aliases[j]);
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
    buf_printf(ret, "\"Seconds until it is ended; this server allows %" PRIu64 ".\"}",
               timeout_s_max(config, caller));
    put_text_property(ret, "session_id",
                      "Calls with the same one find each other's files in the working directory.");
    json_out_open(ret, "results", '{');
    json_out_text(ret, "type", "boolean");
    json_out_text(
        ret, "description",
        "Show the value of the last expression, what the program gives to display(), and in Python every "
        "open figure. Default: false.");
    buf_putc(ret, '}');
    buf_putc(ret, '}');
    json_out_open(ret, "required", '[');
    buf_puts(ret, "\"language\",\"code\"]");
    json_out_bool(ret, "additionalProperties", false);
    buf_putc(ret, '}');
}

/* What is special to the runtimes that we bring functions for. */
static const struct {
    const char *prelude, *result, *install;
    enum package_installer installer;
} functions[] = {
    {"python/immure-prelude.py", "set_result(value, files=[\"plot.png\"])", "install_package(\"name\")",
     INSTALLER_PIP},
    {"node/immure-prelude.cjs", "setResult(value, [\"plot.png\"])", "await installPackage(\"name\")",
     INSTALLER_NPM},
};

static void describe_functions(const struct server_config *config, const struct runtime_config *runtime,
                               struct buf *ret)
{
    for (size_t i = 0; i < runtime->n_preludes; i++) {
        for (size_t j = 0; j < ARRAY_SIZE(functions); j++) {
            if (strcmp(runtime->preludes[i].file, functions[j].prelude) != 0) {
                continue;
            }
            buf_printf(ret, " %s returns a value and files, which are shown.", functions[j].result);
            if (config->package_indexes[functions[j].installer].url) {
                buf_printf(ret, " %s installs a package.", functions[j].install);
            }
        }
    }
}

/* As many as a model need read. */
static void describe_packages(const struct runtime_config *runtime, struct buf *ret)
{
    const char *before = " Packages: ";
    for (size_t i = 0; i < runtime->n_packages; i++, before = ", ") {
        if (i == PACKAGES_TOLD_MAX) {
            buf_printf(ret, " and %zu more", runtime->n_packages - i);
            break;
        }
        buf_printf(ret, "%s%s", before, runtime->packages[i]);
    }
    buf_puts(ret, runtime->n_packages > 0 ? "." : "");
}

static void describe_runtime(const struct server_config *config, const struct caller *caller,
                             const struct runtime_config *runtime, struct buf *ret)
{
    uint64_t memory = least(runtime->memory_bytes, caller->key ? caller->key->max.memory_bytes : 0);
    buf_printf(ret, "\n- %s", runtime->name);
    for (size_t i = 0; i < runtime->n_aliases; i++) {
        buf_printf(ret, "%s%s", i == 0 ? " (or " : ", ", runtime->aliases[i]);
    }
    buf_puts(ret, runtime->n_aliases > 0 ? "): " : ": ");
    if (*runtime->version) {
        buf_printf(ret, "version %s. ", runtime->version);
    }
    buf_puts(ret, *runtime->description ? runtime->description : "What it can import is not told here.");
    if (memory > 0) {
        buf_printf(ret, " At most %" PRIu64 " MiB of memory.", memory >> 20);
    }
    describe_packages(runtime, ret);
    describe_functions(config, runtime, ret);
}

static void put_description(const struct server_config *config, const struct caller *caller, struct buf *ret)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    buf_printf(
        &text,
        "Runs a program once, in a fresh jail without a network, and returns what it printed, cut after "
        "%d characters. Its working directory is writable and empty, and gone afterwards unless "
        "session_id is given. It is ended after `timeout` seconds, at most %" PRIu64
        ". Packages that are not named here are not there to be imported. Languages:",
        MCP_TEXT_CHARACTERS_MAX, timeout_s_max(config, caller));
    for (size_t i = 0; i < config->n_runtimes; i++) {
        if (may_use(config, caller, &config->runtimes[i])) {
            describe_runtime(config, caller, &config->runtimes[i], &text);
        }
    }
    json_out_bytes(ret, "description", text.data, text.len);
    ret->failed = ret->failed || text.failed;
}

void mcp_tool_list(const struct server_config *config, const struct caller *caller, struct buf *ret)
{
    json_out_open(ret, "tools", '[');
    if (mcp_tool_is_for(config, caller)) {
        buf_putc(ret, '{');
        json_out_text(ret, "name", MCP_TOOL_NAME);
        json_out_text(ret, "title", "Run a program");
        put_description(config, caller, ret);
        put_input_schema(config, caller, ret);
        mcp_result_schema(ret);
        json_out_open(ret, "annotations", '{');
        json_out_bool(ret, "readOnlyHint", false);
        json_out_bool(ret, "destructiveHint", false);
        json_out_bool(ret, "idempotentHint", false);
        json_out_bool(ret, "openWorldHint", false);
        buf_puts(ret, "}}");
    }
    buf_putc(ret, ']');
}

/* ---- Arguments ---- */

static int refuse(struct err *reterr, const char *field, const char *why)
{
    return err_set(reterr, ERR_INVALID, EINVAL, field, "%s: %s", field, why);
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
    enum { LANGUAGE, CODE, STDIN, TIMEOUT, SESSION_ID, RESULTS, N };
    /* Less than what POST /execute takes. */
    static const char *const names[N] = {"language", "code", "stdin", "timeout", "session_id", "results"};
    const struct json *given[N];
    if (arguments && json_type_of(arguments) != JSON_OBJECT) {
        return refuse(reterr, "arguments", "must be an object");
    }
    int r = known_members(arguments, "argument", "", names, N, given, reterr);
    const struct json *language = given[LANGUAGE], *timeout = given[TIMEOUT];
    r = r < 0 ? r : check_timeout(timeout, reterr);
    if (r == 0 && (!language || (json_string(language) && json_string_length(language) == 0))) {
        r = refuse(reterr, "language", "is required");
    }
    if (r == 0 && !given[CODE]) {
        r = err_set(reterr, ERR_INVALID, EINVAL, "code", "code is required");
    }
    CLEANUP(execute_request_clear) struct execute_request request = EXECUTE_REQUEST_INIT;
    r = r < 0 ? r : execute_decode(arguments, config, &request, reterr);
    r = r < 0 ? r : execute_check_offered(request.runtime, "language", reterr);
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
