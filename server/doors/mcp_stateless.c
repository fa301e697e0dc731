/* What a request says of itself in the revision without initialize. Pure; runs in the front, and in
 * `immure mcp`, which makes the headers.
 *
 * What stands between client and server may read the headers alone, and we read the body: so both must say
 * the same. A name that no header can hold comes in base64, in a frame of its own. */
#include "server/doors/mcp_stateless.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "config/format/digest.h"
#include "config/format/json.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"

#define META        "io.modelcontextprotocol/"
#define VERSION_KEY META "protocolVersion"
#define FRAME_BEGIN "=?base64?"
#define FRAME_END   "?="
#define FRAME_BYTES (sizeof FRAME_BEGIN - 1 + sizeof FRAME_END - 1)

static const struct json *version_of(const struct mcp_message *message)
{
    return json_get(json_get(message->params, "_meta"), VERSION_KEY);
}

const char *mcp_claimed_version(const struct mcp_message *message)
{
    return json_string(version_of(message));
}

bool mcp_is_stateless(const struct mcp_message *message, const struct mcp_headers *headers)
{
    return version_of(message) || (headers->version && strcmp(headers->version, MCP_STATELESS) == 0);
}

/* ---- Texts in headers ---- */

static bool is_framed(const char *text, size_t size)
{
    return size >= FRAME_BYTES && memcmp(text, FRAME_BEGIN, sizeof FRAME_BEGIN - 1) == 0 &&
           memcmp(text + size - (sizeof FRAME_END - 1), FRAME_END, sizeof FRAME_END - 1) == 0;
}

static bool fits_header(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] < ' ' || text[i] > '~') {
            return false;
        }
    }
    return size > 0 && text[0] != ' ' && text[size - 1] != ' ';
}

static void put_header(const char *name, const struct json *value, struct buf *ret)
{
    const char *text = json_string(value);
    size_t size = json_string_length(value);
    buf_printf(ret, "%s: ", name);
    if (fits_header(text, size) && !is_framed(text, size)) {
        buf_append(ret, text, size);
    } else {
        buf_puts(ret, FRAME_BEGIN);
        base64_encode(text, size, ret);
        buf_puts(ret, FRAME_END);
    }
    buf_puts(ret, "\r\n");
}

static bool equals(const char *text, size_t size, const struct json *value)
{
    return size == json_string_length(value) && memcmp(text, json_string(value), size) == 0;
}

/* Whether a header that may be framed says what the body does. */
static bool says(const char *header, const struct json *value)
{
    CLEANUP(buf_free) struct buf decoded = BUF_INIT;
    size_t size = strlen(header);
    if (is_framed(header, size)) {
        if (base64_decode(header + sizeof FRAME_BEGIN - 1, size - FRAME_BYTES, &decoded) < 0) {
            return false;
        }
        header = decoded.len > 0 ? decoded.data : "";
        size = decoded.len;
    }
    return equals(header, size, value);
}

/* ---- Requests ---- */

static int refuse(enum mcp_error code, struct err *reterr, const char *field, const char *why)
{
    err_set(reterr, ERR_INVALID, EINVAL, field, "%s: %s", field, why);
    return code;
}

/* The call's `name` is checked by whoever knows the tools. */
static const struct json *name_of(const struct mcp_message *message)
{
    const struct json *name = json_get(message->params, "name");
    bool named = strcmp(message->method, "tools/call") == 0 && json_type_of(name) == JSON_STRING;
    return named ? name : NULL;
}

static int check_version(const struct mcp_message *message, const struct mcp_headers *headers,
                         struct err *reterr)
{
    const char *claimed = mcp_claimed_version(message);
    if (!claimed) {
        return refuse(MCP_INVALID_PARAMS, reterr, "_meta." VERSION_KEY, "must be a string");
    }
    if (!headers->version) {
        return refuse(MCP_HEADER_MISMATCH, reterr, "MCP-Protocol-Version", "the header must be there, once");
    }
    if (!equals(headers->version, strlen(headers->version), version_of(message))) {
        return refuse(MCP_HEADER_MISMATCH, reterr, "MCP-Protocol-Version", "the body says another version");
    }
    return strcmp(claimed, MCP_STATELESS) == 0
               ? 0
               : refuse(MCP_UNSUPPORTED_VERSION, reterr, "_meta." VERSION_KEY, "is not spoken here");
}

static int check_meta(const struct mcp_message *message, struct err *reterr)
{
    const struct json *meta = json_get(message->params, "_meta"), *info = json_get(meta, META "clientInfo");
    if (json_type_of(json_get(meta, META "clientCapabilities")) != JSON_OBJECT) {
        return refuse(MCP_INVALID_PARAMS, reterr, "_meta." META "clientCapabilities", "must be an object");
    }
    return !info || json_type_of(info) == JSON_OBJECT
               ? 0
               : refuse(MCP_INVALID_PARAMS, reterr, "_meta." META "clientInfo", "must be an object");
}

int mcp_check_stateless(const struct mcp_message *message, const struct mcp_headers *headers,
                        struct err *reterr)
{
    const struct json *name = name_of(message);
    int code = check_version(message, headers, reterr);
    code = code ? code : check_meta(message, reterr);
    if (code) {
        return code;
    }
    if (!headers->method || strcmp(headers->method, message->method) != 0) {
        return refuse(MCP_HEADER_MISMATCH, reterr, "Mcp-Method",
                      headers->method ? "the body says another method" : "the header must be there, once");
    }
    if (name && (!headers->name || !says(headers->name, name))) {
        return refuse(MCP_HEADER_MISMATCH, reterr, "Mcp-Name",
                      headers->name ? "the body says another name" : "the header must be there, once");
    }
    return 0;
}

bool mcp_put_headers(const struct mcp_message *message, struct buf *ret)
{
    const struct json *version = version_of(message), *name = name_of(message);
    if (json_type_of(version) != JSON_STRING) {
        return true;
    }
    if (!fits_header(message->method, strlen(message->method))) {
        return false;
    }
    put_header("MCP-Protocol-Version", version, ret);
    buf_printf(ret, "Mcp-Method: %s\r\n", message->method);
    if (name) {
        put_header("Mcp-Name", name, ret);
    }
    return true;
}
