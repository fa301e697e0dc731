/* The messages of the Model Context Protocol: JSON-RPC 2.0, one message at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;
struct json;

#define MCP_ID_BYTES 512 /* of an id or a token, as JSON text with the NUL */

/* The revision without initialize, each of whose requests says all that is to be known of its client. */
#define MCP_STATELESS "2026-07-28"

/* JSON-RPC's codes, and the protocol's own. */
enum mcp_error {
    MCP_PARSE_ERROR = -32700,
    MCP_INVALID_REQUEST = -32600,
    MCP_NO_SUCH_METHOD = -32601,
    MCP_INVALID_PARAMS = -32602,
    MCP_INTERNAL_ERROR = -32603,
    MCP_NO_SUCH_SESSION = -32001,
    MCP_HEADER_MISMATCH = -32020,
    MCP_UNSUPPORTED_VERSION = -32022,
};

enum mcp_kind { MCP_REQUEST, MCP_NOTIFICATION, MCP_RESPONSE };

struct mcp_message {
    enum mcp_kind kind;
    const char *method;        /* NULL for a response; lives as long as the document */
    const struct json *params; /* an object, or NULL */
    char id[MCP_ID_BYTES];     /* as JSON text; "null" where there is none */
};

/* ERR_INVALID with a sentence; `ret->id` is set as far as it could be read. */
int mcp_decode(const struct json *root, struct mcp_message *ret, struct err *reterr);

/* An id, or a progress token: a string or a whole number, as JSON text. False: neither, or too long. */
bool mcp_id_text(const struct json *value, char ret[MCP_ID_BYTES]);

/* A protocol version that is spoken here, and begins with initialize. */
bool mcp_speaks(const char *version);
/* What initialize answers to a client that asks for this one. */
const char *mcp_negotiate(const char *version);

/* {"jsonrpc":"2.0","id":ID,"result":{  -- and then the result's members and mcp_end_result(). */
void mcp_begin_result(const char *id, bool stateless, struct buf *ret);
void mcp_end_result(struct buf *ret);
void mcp_write_error(const char *id, enum mcp_error code, const char *text, struct buf *ret);
/* MCP_UNSUPPORTED_VERSION. */
void mcp_write_unsupported(const char *id, const char *requested, struct buf *ret);
/* The members of what initialize and server/discover answer, without their frame. */
void mcp_write_initialized(const char *version, struct buf *ret);
void mcp_write_discovered(struct buf *ret);
/* How long a stateless result may be kept, and whether it is the same for every key. */
void mcp_write_caching(uint64_t ttl_ms, bool for_everyone, struct buf *ret);
/* notifications/progress, on one line without a line feed. */
void mcp_write_progress(const char *token, double progress, double total, const char *text, struct buf *ret);
