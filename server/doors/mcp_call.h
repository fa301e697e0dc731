/* The door of POST /mcp: a call of its tool whose answer is due, and how it is worded. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "server/doors/door.h"
#include "server/doors/mcp.h"
#include "server/doors/mcp_session.h"

struct mcp_call {
    bool stateless;
    char session[MCP_SESSION_BYTES]; /* "": none */
    char id[MCP_ID_BYTES];
    char progress_token[MCP_ID_BYTES]; /* "": nobody asks */
    uint64_t started_ns, timeout_ms;
};

/* Its calls are of that kind (malloc'ed). It decodes nothing: the tool's arguments are a part of the body
 * (server/doors/mcp_tool.h). */
extern const struct door mcp_door;
