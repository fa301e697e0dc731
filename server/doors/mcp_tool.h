/* The tool execute_code: what it says of itself, its arguments as a job, a job's end as its result. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct caller;
struct err;
struct execute_request;
struct job_result;
struct job_texts;
struct json;
struct server_config;

#define MCP_TOOL_NAME "execute_code"

/* True if this caller may run at least one runtime. */
bool mcp_tool_is_for(const struct server_config *config, const struct caller *caller);

/* The result of tools/list: {"tools":[...]}, with the runtimes of this caller. */
void mcp_tool_list(const struct server_config *config, const struct caller *caller, struct buf *ret);

/* ERR_INVALID or ERR_DENIED with a sentence for whoever wrote the arguments; NULL are none. */
int mcp_tool_decode(const struct json *arguments, const struct server_config *config,
                    const struct caller *caller, struct execute_request *ret, struct err *reterr);

/* The result of tools/call: content, structuredContent, isError. */
int mcp_tool_encode(const struct job_result *result, const struct job_texts *texts, struct buf *ret,
                    struct err *reterr);
/* The same for a job that never ran. `code` is the word of the HTTP interface for it. */
void mcp_tool_encode_refusal(const char *text, const char *code, struct buf *ret);
