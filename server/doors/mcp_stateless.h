/* The revision of the Model Context Protocol that has no initialize (MCP_STATELESS): what each of its
 * requests says of itself, in its body and again in its headers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "server/doors/mcp.h"

struct buf;
struct err;

/* NULL: there is none, or more than one. */
struct mcp_headers {
    const char *version, *method, *name; /* MCP-Protocol-Version, Mcp-Method, Mcp-Name */
};

/* The version that the message's body says it is of; NULL: it says none. */
const char *mcp_claimed_version(const struct mcp_message *message);
/* Whether it is to be taken as of that revision: its body says a version, or its header this one. */
bool mcp_is_stateless(const struct mcp_message *message, const struct mcp_headers *headers);
/* Whether a request says all that it must, and twice the same. 0, or the error that it is to be answered with
 * (HTTP status 400) and a sentence. */
int mcp_check_stateless(const struct mcp_message *message, const struct mcp_headers *headers,
                        struct err *reterr);

/* Appends the header lines that have to go with a message whose body says a version, and none for others.
 * False: its method fits into no header, so that nobody can know it. */
bool mcp_put_headers(const struct mcp_message *message, struct buf *ret);
