/* The door POST /mcp: the Model Context Protocol over Streamable HTTP. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;
struct front;
struct job_result;
struct job_texts;
struct mcp;
struct mcp_call;
struct request;

/* What is known of sessions and of calls that run. */
int mcp_new(struct mcp **ret, struct err *reterr);
/* Takes NULL. */
void mcp_free(struct mcp *mcp);

/* Forgets a call, at the end of its request. Takes NULL. */
void mcp_call_free(struct mcp_call *call);

/* The answer to a call, as a message: its job has ended, or never ran. */
int mcp_encode_result(const struct mcp_call *call, const struct job_result *result,
                      const struct job_texts *texts, struct buf *ret, struct err *reterr);
void mcp_encode_refusal(const struct mcp_call *call, const struct err *err, struct buf *ret);
/* Replies with the latter. */
void mcp_refuse(struct request *request, const struct err *err);

/* The call's stream has begun. */
void mcp_begin_stream(struct request *request);
