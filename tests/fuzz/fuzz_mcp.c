/* POST /mcp: a message, and the arguments of its tool. What is answered is strict JSON with the id that was
 * asked with; what becomes a job is within the tool's limits. Headers that are made of a message are lines,
 * and say what it does. */
#include <errno.h>
#include <string.h>

#include "config/format/json.h"
#include "config/message/job.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/callers/auth.h"
#include "server/doors/execute.h"
#include "server/doors/mcp.h"
#include "server/doors/mcp_result.h"
#include "server/doors/mcp_stateless.h"
#include "server/doors/mcp_tool.h"
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

/* A message of ours: JSON on one line, about that id. */
static void require_message(const struct buf *text, const char *id)
{
    char there[MCP_ID_BYTES] = "null";
    struct json_doc *doc = NULL;
    REQUIRE(!text->failed && text->len > 0 &&
            memchr(text->data, '\n', text->len) == text->data + text->len - 1);
    REQUIRE(json_parse(text->data, text->len, &doc, NULL) == 0);
    const struct json *root = json_root(doc), *given = json_get(root, "id");
    REQUIRE(given && (json_type_of(given) == JSON_NULL || mcp_id_text(given, there)));
    REQUIRE(strcmp(there, id) == 0);
    REQUIRE(!json_get(root, "result") != !json_get(root, "error"));
    json_free(doc);
}

static void require_error(const char *id, const struct err *err)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    REQUIRE(err->text[0] != '\0');
    mcp_write_error(id, MCP_INVALID_REQUEST, err->text, &text);
    require_message(&text, id);
}

static void require_refusal(const char *id, const struct err *err)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    REQUIRE(err->kind == ERR_INVALID && err->text[0] != '\0');
    mcp_begin_result(id, true, &text);
    mcp_result_encode_refusal(err->text, "invalid_field", &text);
    mcp_end_result(&text);
    require_message(&text, id);
}

/* The value of the next header, of which the name is known. */
static const char *next_header(char **at, const char *name)
{
    size_t size = strlen(name);
    char *line = *at, *end = strstr(line, "\r\n");
    if (!end || strncmp(line, name, size) != 0) {
        return NULL;
    }
    *end = '\0';
    *at = end + 2;
    return line + size;
}

static void try_headers(const struct mcp_message *message)
{
    CLEANUP(buf_free) struct buf lines = BUF_INIT;
    struct mcp_headers headers = {0};
    struct err err = {0};
    if (!mcp_put_headers(message, &lines) || lines.len == 0) {
        REQUIRE(message->kind != MCP_REQUEST || lines.len > 0 || !mcp_claimed_version(message) ||
                mcp_check_stateless(message, &headers, &err) != 0);
        return;
    }
    char *at = lines.data;
    headers.version = next_header(&at, "MCP-Protocol-Version: ");
    headers.method = next_header(&at, "Mcp-Method: ");
    headers.name = *at ? next_header(&at, "Mcp-Name: ") : NULL;
    REQUIRE(headers.version && headers.method && *at == '\0' && mcp_is_stateless(message, &headers));
    int code = mcp_check_stateless(message, &headers, &err);
    REQUIRE(code != MCP_HEADER_MISMATCH || strncmp(headers.version, "=?base64?", 9) == 0);
    REQUIRE((code == 0) == (err.text[0] == '\0'));
}

static void try_tool(const struct mcp_message *message)
{
    const struct server_config *config = the_config();
    const struct caller caller = {.name = "open"};
    struct execute_request request = EXECUTE_REQUEST_INIT;
    struct err err = {0};
    if (mcp_tool_decode(json_get(message->params, "arguments"), config, &caller, &request, &err) < 0) {
        require_refusal(message->id, &err);
        return;
    }
    const struct job *job = request.job;
    REQUIRE(job->code_size > 0 && job->limits.timeout_ms > 0 &&
            job->limits.timeout_ms <= config->max_timeout_ms);
    REQUIRE(!request.callback_url && !job->policy && job->n_files == 0 && job->n_args == 0 &&
            job->n_env == 0);
    execute_request_clear(&request);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    struct json_doc *doc = NULL;
    struct mcp_message message;
    struct err err = {0};
    int r = json_parse((const char *)data, size, &doc, &err);
    if (r < 0) {
        fuzz_require_json_refusal((struct expected_refusal){r, &err, data, size});
        return;
    }
    if (mcp_decode(json_root(doc), &message, &err) < 0) {
        REQUIRE(err.kind == ERR_INVALID && err.code == EINVAL);
        require_error(message.id, &err);
    } else {
        REQUIRE((message.kind == MCP_RESPONSE) == !message.method);
        REQUIRE((message.kind == MCP_NOTIFICATION) == (message.method && strcmp(message.id, "null") == 0));
        try_tool(&message);
        if (message.method) {
            try_headers(&message);
        }
    }
    json_free(doc);
}
