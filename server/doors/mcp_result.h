/* What the tool execute_code answers with: a job's end, or why there was none, as members of a tools/call
 * result. */
#pragma once

#include <stddef.h>

struct buf;
struct err;
struct job_result;
struct job_texts;

/* More of a text than this is cut off, wherever it stands. */
#define MCP_TEXT_CHARACTERS_MAX 10000
/* Of files that a program returns: how many are shown, and their bytes in all. */
#define MCP_FILES_MAX       16
#define MCP_FILES_BYTES_MAX (3u << 20)

/* The members content, structuredContent and isError of an object that is open. Reads the result's files. */
int mcp_result_encode(const struct job_result *result, const struct job_texts *texts, struct buf *ret,
                      struct err *reterr);
/* The same for a job that never ran. `code` is the word of the HTTP interface for it. */
void mcp_result_encode_refusal(const char *text, const char *code, struct buf *ret);
/* The member outputSchema of an object that is open. */
void mcp_result_schema(struct buf *ret);
