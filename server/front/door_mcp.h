/* The door POST /mcp: the Model Context Protocol over Streamable HTTP. */
#pragma once

struct err;
struct mcp;

/* What is known of sessions and of calls that run. */
int mcp_new(struct mcp **ret, struct err *reterr);
/* Takes NULL. */
void mcp_free(struct mcp *mcp);
