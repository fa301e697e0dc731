/* Answers to calls of the tool, as messages. Runs in the front. */
#include "server/doors/mcp_call.h"

#include <stdlib.h>

#include "jail/base/buf.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "server/doors/error_reply.h"
#include "server/doors/mcp_result.h"

static int encode(const struct job_result *result, const struct job_texts *texts, struct buf *ret,
                  struct err *reterr)
{
    const struct mcp_call *call = texts->call;
    mcp_begin_result(call->id, call->stateless, ret);
    int r = mcp_result_encode(result, texts, ret, reterr);
    mcp_end_result(ret);
    return r;
}

/* What went wrong inside is in the log, under the request's id. */
static void encode_refusal(const void *arg, const struct err *err, struct buf *ret)
{
    const struct mcp_call *call = arg;
    enum error_class class = error_class_of(err);
    mcp_begin_result(call->id, call->stateless, ret);
    mcp_result_encode_refusal(class == ERROR_INTERNAL ? "internal error" : err->text, error_code(class), ret);
    mcp_end_result(ret);
}

static bool encode_progress(const void *arg, const char *text, struct buf *ret)
{
    const struct mcp_call *call = arg;
    double seconds = (double)(clock_now_ns() - call->started_ns) / (double)NS_PER_S;
    if (call->progress_token[0] == '\0') {
        return false;
    }
    mcp_write_progress(call->progress_token, seconds, (double)call->timeout_ms / 1000, text, ret);
    return true;
}

const struct door mcp_door = {
    .reply_event = "message",
    .encode = encode,
    .encode_refusal = encode_refusal,
    .encode_progress = encode_progress,
    .call_free = free,
};
