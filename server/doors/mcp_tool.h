/* The tool execute_code: what it says of itself, its arguments as a job. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct caller;
struct err;
struct execute_request;
struct json;
struct server_config;

#define MCP_TOOL_NAME "execute_code"

/* True if this caller may run at least one runtime. */
bool mcp_tool_is_for(const struct server_config *config, const struct caller *caller);

/* The members of what tools/list answers, with the runtimes of this caller. */
void mcp_tool_list(const struct server_config *config, const struct caller *caller, struct buf *ret);

/* ERR_INVALID or ERR_DENIED with a sentence for whoever wrote the arguments; NULL are none. */
int mcp_tool_decode(const struct json *arguments, const struct server_config *config,
                    const struct caller *caller, struct execute_request *ret, struct err *reterr);
