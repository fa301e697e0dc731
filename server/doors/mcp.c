/* JSON-RPC as the Model Context Protocol uses it. Pure; used by the front (POST /mcp) and by tests.
 *
 * Read strictly: what is neither a request nor a notification nor a response is refused, and nothing is
 * guessed. Batches (arrays), which one revision had and the next took away, are refused too. */
#include "server/doors/mcp.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "config/format/json.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/kit/json_out.h"

/* Those that begin with initialize, the latest first. They differ in nothing that is used here but what
 * clients may send. */
static const char *const versions[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"};

bool mcp_speaks(const char *version)
{
    for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
        if (strcmp(versions[i], version) == 0) {
            return true;
        }
    }
    return false;
}

const char *mcp_negotiate(const char *version)
{
    return mcp_speaks(version) ? version : versions[0];
}

bool mcp_id_text(const struct json *value, char ret[MCP_ID_BYTES])
{
    int64_t number;
    if (json_type_of(value) == JSON_NUMBER && json_i64(value, &number)) {
        snprintf(ret, MCP_ID_BYTES, "%" PRId64, number);
        return true;
    }
    if (json_type_of(value) != JSON_STRING) {
        return false;
    }
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    json_write_string(&text, json_string(value), json_string_length(value));
    if (text.failed || text.len >= MCP_ID_BYTES) {
        return false;
    }
    memcpy(ret, text.data, text.len + 1);
    return true;
}

static int refuse(struct err *reterr, const char *why)
{
    return err_set(reterr, ERR_INVALID, EINVAL, NULL, "%s", why);
}

/* A response to something that was never asked. */
static int decode_response(const struct json *root, const struct json *id, struct mcp_message *ret,
                           struct err *reterr)
{
    const struct json *result = json_get(root, "result"), *error = json_get(root, "error");
    if (!id || !result == !error || (error && json_type_of(error) != JSON_OBJECT)) {
        return refuse(reterr, "neither a request nor a notification nor a response");
    }
    ret->kind = MCP_RESPONSE;
    return 0;
}

int mcp_decode(const struct json *root, struct mcp_message *ret, struct err *reterr)
{
    *ret = (struct mcp_message){.id = "null"};
    if (json_type_of(root) == JSON_ARRAY) {
        return refuse(reterr, "batches are not supported; send one message at a time");
    }
    if (json_type_of(root) != JSON_OBJECT) {
        return refuse(reterr, "a message must be an object");
    }
    const struct json *id = json_get(root, "id"), *version = json_get(root, "jsonrpc");
    const struct json *method = json_get(root, "method"), *params = json_given(json_get(root, "params"));
    bool named = id && mcp_id_text(id, ret->id);
    if (json_type_of(version) != JSON_STRING || strcmp(json_string(version), "2.0") != 0) {
        return refuse(reterr, "jsonrpc: must be \"2.0\"");
    }
    if (id && !named && !(json_type_of(id) == JSON_NULL && json_get(root, "error"))) {
        return refuse(reterr, "id: must be a short string or a whole number");
    }
    if (!method) {
        return decode_response(root, id, ret, reterr);
    }
    if (json_type_of(method) != JSON_STRING || json_get(root, "result") || json_get(root, "error")) {
        return refuse(reterr, "method: must be a string, and there must be no result or error beside it");
    }
    if (params && json_type_of(params) != JSON_OBJECT) {
        return refuse(reterr, "params: must be an object");
    }
    ret->kind = id ? MCP_REQUEST : MCP_NOTIFICATION;
    ret->method = json_string(method);
    ret->params = params;
    return 0;
}

static void begin(const char *id, const char *member, struct buf *ret)
{
    buf_printf(ret, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"%s\":{", id, member);
}

static void put_server_info(const char *key, struct buf *ret)
{
    json_out_open(ret, key, '{');
    json_out_text(ret, "name", "immure");
    json_out_text(ret, "title", "immure");
    json_out_text(ret, "version", IMMURE_VERSION);
    buf_putc(ret, '}');
}

void mcp_begin_result(const char *id, bool stateless, struct buf *ret)
{
    begin(id, "result", ret);
    if (stateless) {
        json_out_text(ret, "resultType", "complete");
        json_out_open(ret, "_meta", '{');
        put_server_info("io.modelcontextprotocol/serverInfo", ret);
        buf_putc(ret, '}');
    }
}

void mcp_end_result(struct buf *ret)
{
    buf_puts(ret, "}}\n");
}

static void put_error(enum mcp_error code, const char *text, struct buf *ret)
{
    json_out_i64(ret, "code", code);
    json_out_text(ret, "message", text);
}

void mcp_write_error(const char *id, enum mcp_error code, const char *text, struct buf *ret)
{
    begin(id, "error", ret);
    put_error(code, text, ret);
    buf_puts(ret, "}}\n");
}

void mcp_write_unsupported(const char *id, const char *requested, struct buf *ret)
{
    begin(id, "error", ret);
    put_error(MCP_UNSUPPORTED_VERSION, "Unsupported protocol version", ret);
    json_out_open(ret, "data", '{');
    json_out_key(ret, "supported");
    buf_puts(ret, "[\"" MCP_STATELESS "\"]");
    json_out_text(ret, "requested", requested);
    buf_puts(ret, "}}}\n");
}

static void put_abilities(struct buf *ret)
{
    json_out_open(ret, "capabilities", '{');
    json_out_open(ret, "tools", '{');
    json_out_bool(ret, "listChanged", false);
    buf_puts(ret, "}}");
    json_out_text(ret, "instructions",
                  "execute_code runs a program in a fresh jail without a network; nothing is kept but the "
                  "workspace of a session_id.");
}

void mcp_write_initialized(const char *version, struct buf *ret)
{
    json_out_text(ret, "protocolVersion", version);
    put_server_info("serverInfo", ret);
    put_abilities(ret);
}

void mcp_write_discovered(struct buf *ret)
{
    json_out_key(ret, "supportedVersions");
    buf_puts(ret, "[\"" MCP_STATELESS "\"]");
    put_abilities(ret);
}

void mcp_write_caching(uint64_t ttl_ms, bool for_everyone, struct buf *ret)
{
    json_out_u64(ret, "ttlMs", ttl_ms);
    json_out_text(ret, "cacheScope", for_everyone ? "public" : "private");
}

void mcp_write_progress(const char *token, double progress, double total, const char *text, struct buf *ret)
{
    buf_printf(ret,
               "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%s,"
               "\"progress\":%.6f,\"total\":%.3f",
               token, progress, total);
    json_out_text(ret, "message", text);
    buf_puts(ret, "}}");
}
