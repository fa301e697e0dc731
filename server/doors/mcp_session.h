/* Session ids of the Model Context Protocol. A session is a name and nothing more: it tells whose calls a
 * cancellation is about, so that no server has to remember it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct caller;
struct mcp_sessions;

#define MCP_SESSION_BYTES 65 /* with the NUL */

struct mcp_sessions *mcp_sessions_new(void);
void mcp_sessions_free(struct mcp_sessions *sessions); /* takes NULL */

/* A fresh one of this caller. */
void mcp_session_issue(const struct caller *caller, char ret[MCP_SESSION_BYTES]);
/* True if it was issued to this caller, by any front of any server with this key, and has not been ended
 * here. */
bool mcp_session_is_valid(const struct mcp_sessions *sessions, const struct caller *caller, const char *id);
/* From now on it is not valid; of very many that were ended, the first are forgotten. */
void mcp_session_end(struct mcp_sessions *sessions, const char *id);
