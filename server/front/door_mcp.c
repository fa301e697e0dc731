/* POST and DELETE /mcp. Runs in the front.
 *
 * Each message is a request of its own; replies are JSON. A call that asks for progress, or whose client
 * takes nothing else, gets a stream of events instead, which ends with its answer. Nothing is ever sent
 * unasked, so there is no GET. A call is found again by its caller, its session and its id, to be cancelled:
 * it gets no answer then, as the protocol says. The revision without initialize has no sessions: whoever
 * hangs up cancels, as anywhere here. */
#include "server/front/handlers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/json.h"
#include "config/message/job.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "server/doors/door.h"
#include "server/doors/mcp.h"
#include "server/doors/mcp_call.h"
#include "server/doors/mcp_session.h"
#include "server/doors/mcp_stateless.h"
#include "server/doors/mcp_tool.h"
#include "server/front/page.h"
#include "server/http/http.h"
#include "server/jobs/approvals.h"
#include "server/jobs/dispatch.h"
#include "server/jobs/front_context.h"
#include "server/jobs/request.h"
#include "server/kit/accept.h"

/* How long clients may keep what does not change but by a new configuration, or a new server. */
#define LIST_TTL_MS     60000
#define DISCOVER_TTL_MS 3600000

/* ---- Cancelling ---- */

/* `id` NULL: every call of that session. */
static bool is_meant(const struct request *waiting, const struct caller *caller, const char *session,
                     const char *id)
{
    if (waiting->door != &mcp_door || waiting->caller.key != caller->key) {
        return false;
    }
    const struct mcp_call *call = waiting->call;
    return strcmp(call->session, session) == 0 && (!id || strcmp(call->id, id) == 0);
}

static void cancel_call(struct request *request)
{
    dispatch_cancel(request->job); /* ends its stream, too, if it has begun */
    if (!request->stream) {
        request_reply_noted(request);
    }
}

/* Clients without a session may use one id at the same time: then nobody can tell which is meant. */
static void cancel(const struct request *request, const char *session, const char *id)
{
    const struct dispatch *dispatch = request->front->dispatch;
    struct request *meant = NULL;
    for (struct running *job = dispatch_next(dispatch, NULL), *next; job; job = next) {
        next = dispatch_next(dispatch, job); /* one that waits for a slot is gone at once */
        struct request *waiting = dispatch_request(job);
        if (!waiting || !is_meant(waiting, &request->caller, session, id)) {
            continue;
        }
        if (session[0] != '\0') {
            cancel_call(waiting);
        } else if (meant) {
            return;
        } else {
            meant = waiting;
        }
    }
    if (meant) {
        cancel_call(meant);
    }
}

/* ---- Replies ---- */

static void reply_error(struct request *request, unsigned status, const char *id, enum mcp_error code,
                        const char *text)
{
    struct buf body = BUF_INIT;
    mcp_write_error(id, code, text, &body);
    request_reply(request, status, "application/json", &body);
}

/* ---- Methods ---- */

struct message_context {
    struct request *request;
    const struct mcp_message *message;
    const char *session; /* "": none */
    bool stateless;
};

static void begin_result(const struct message_context *context, struct buf *ret)
{
    mcp_begin_result(context->message->id, context->stateless, ret);
}

static void reply_result(const struct message_context *context, struct buf *body)
{
    mcp_end_result(body);
    request_reply(context->request, 200, "application/json", body);
}

static void initialize(const struct message_context *context)
{
    const struct mcp_message *message = context->message;
    const struct json *version = json_get(message->params, "protocolVersion");
    if (json_type_of(version) != JSON_STRING) {
        reply_error(context->request, 200, message->id, MCP_INVALID_PARAMS,
                    "protocolVersion: must be a string");
        return;
    }
    struct buf body = BUF_INIT;
    char session[MCP_SESSION_BYTES];
    mcp_session_issue(&context->request->caller, session);
    begin_result(context, &body);
    mcp_write_initialized(mcp_negotiate(json_string(version)), &body);
    mcp_end_result(&body);
    request_reply_named(context->request, "Mcp-Session-Id", session, &body);
}

static void ping(const struct message_context *context)
{
    struct buf body = BUF_INIT;
    begin_result(context, &body);
    reply_result(context, &body);
}

/* The same for everyone, and until another server takes this one's place. */
static void discover(const struct message_context *context)
{
    struct buf body = BUF_INIT;
    begin_result(context, &body);
    mcp_write_discovered(&body);
    mcp_write_caching(DISCOVER_TTL_MS, true, &body);
    reply_result(context, &body);
}

static void list_tools(const struct message_context *context)
{
    struct request *request = context->request;
    if (json_given(json_get(context->message->params, "cursor"))) {
        reply_error(context->request, 200, context->message->id, MCP_INVALID_PARAMS,
                    "cursor: none was given out, since all tools come at once");
        return;
    }
    struct buf body = BUF_INIT;
    begin_result(context, &body);
    mcp_tool_list(request->front->config, &request->caller, &body);
    if (context->stateless) {
        mcp_write_caching(LIST_TTL_MS, false, &body);
    }
    reply_result(context, &body);
}

/* params._meta.progressToken. False: it is none. */
static bool read_progress_token(const struct json *params, char ret[MCP_ID_BYTES])
{
    const struct json *meta = json_given(json_get(params, "_meta"));
    const struct json *token = json_given(json_get(meta, "progressToken"));
    ret[0] = '\0';
    return (!meta || json_type_of(meta) == JSON_OBJECT) && (!token || mcp_id_text(token, ret));
}

/* A client that takes JSON as well gets a stream only where there is something to be told before the end. */
static enum dispatch_way way_of(const struct request *request)
{
    const struct mcp_call *call = request->call;
    const char *accept = http_header(request->http, "Accept");
    bool events = accept_lists(accept, "text/event-stream");
    bool only = events && !accept_lists(accept, "application/json") && !accept_lists(accept, "*/*");
    return only || (events && call->progress_token[0] != '\0') ? DISPATCH_STREAM : DISPATCH_REPLY;
}

static void start_job(struct request *request, struct execute_request *execute)
{
    struct err err = {0};
    uint64_t retry_after_ms;
    execute->job->key = strdup(request->caller.name);
    if (!execute->job->key) {
        err_errno(&err, ENOMEM, "starting a job");
        request_refuse_err(request, &err, 0);
    } else if (front_approvals_start(request, execute, way_of(request), &retry_after_ms, &err) < 0) {
        request_refuse_err(request, &err, retry_after_ms);
    }
}

static void call_tool(const struct message_context *context)
{
    struct request *request = context->request;
    const struct mcp_message *message = context->message;
    const struct server_config *config = request->front->config;
    const struct json *name = json_get(message->params, "name");
    char token[MCP_ID_BYTES];
    if (json_type_of(name) != JSON_STRING || strcmp(json_string(name), MCP_TOOL_NAME) != 0 ||
        !mcp_tool_is_for(config, &request->caller)) {
        char text[160];
        const char *given = json_string(name);
        snprintf(text, sizeof text, "Unknown tool: %.100s", given ? given : "(name must be a string)");
        reply_error(request, 200, message->id, MCP_INVALID_PARAMS, text);
        return;
    }
    if (!read_progress_token(message->params, token)) {
        reply_error(request, 200, message->id, MCP_INVALID_PARAMS,
                    "_meta.progressToken: must be a short string or a whole number");
        return;
    }
    struct mcp_call *call = calloc(1, sizeof *call);
    if (!call) {
        reply_error(request, 200, message->id, MCP_INTERNAL_ERROR, "internal error");
        return;
    }
    call->stateless = context->stateless;
    call->started_ns = clock_now_ns();
    snprintf(call->session, sizeof call->session, "%s", context->session);
    memcpy(call->id, message->id, sizeof call->id);
    memcpy(call->progress_token, token, sizeof token);
    request->door = &mcp_door;
    request->call = call;
    CLEANUP(execute_request_clear) struct execute_request execute = EXECUTE_REQUEST_INIT;
    struct err err = {0};
    if (mcp_tool_decode(json_given(json_get(message->params, "arguments")), config, &request->caller,
                        &execute, &err) < 0) {
        request_refuse_err(request, &err, 0);
        return;
    }
    execute.door = &mcp_door;
    call->timeout_ms = execute.job->limits.timeout_ms;
    start_job(request, &execute);
}

enum revisions { WITH_INITIALIZE = 1, STATELESS = 2, EVERY = WITH_INITIALIZE | STATELESS };

static const struct {
    const char *name;
    enum revisions revisions;
    void (*handle)(const struct message_context *context);
} methods[] = {
    {"initialize", WITH_INITIALIZE, initialize},
    {"ping", WITH_INITIALIZE, ping},
    {"server/discover", STATELESS, discover},
    {"tools/list", EVERY, list_tools},
    {"tools/call", EVERY, call_tool},
};

static void handle_call(const struct message_context *context)
{
    char text[160];
    enum revisions revision = context->stateless ? STATELESS : WITH_INITIALIZE;
    for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
        if ((methods[i].revisions & revision) && strcmp(methods[i].name, context->message->method) == 0) {
            methods[i].handle(context);
            return;
        }
    }
    snprintf(text, sizeof text, "Method not found: %.100s", context->message->method);
    reply_error(context->request, context->stateless ? 404 : 200, context->message->id, MCP_NO_SUCH_METHOD,
                text);
}

/* A request of the revision without initialize. */
static void handle_stateless(const struct message_context *context, const struct mcp_headers *headers)
{
    struct err err = {0};
    const struct mcp_message *message = context->message;
    int code = mcp_check_stateless(message, headers, &err);
    if (code == 0) {
        handle_call(context);
    } else if (code == MCP_UNSUPPORTED_VERSION) {
        struct buf body = BUF_INIT;
        mcp_write_unsupported(message->id, mcp_claimed_version(message), &body);
        request_reply(context->request, 400, "application/json", &body);
    } else {
        reply_error(context->request, 400, message->id, (enum mcp_error)code, err.text);
    }
}

/* Those that mean nothing to us are taken like the others. */
static void handle_notification(const struct message_context *context)
{
    char id[MCP_ID_BYTES];
    if (strcmp(context->message->method, "notifications/cancelled") == 0 &&
        mcp_id_text(json_get(context->message->params, "requestId"), id)) {
        cancel(context->request, context->session, id);
    }
    request_reply_noted(context->request);
}

/* ---- HTTP ---- */

/* What the headers of revisions with initialize say. Answers and returns false where that will not do. */
static bool check_headers(struct request *request, const char **ret_session)
{
    const char *version = http_header(request->http, "MCP-Protocol-Version");
    const char *session = http_header(request->http, "Mcp-Session-Id");
    *ret_session = session ? session : "";
    if (version && !mcp_speaks(version)) {
        reply_error(request, 400, "null", MCP_INVALID_REQUEST, "MCP-Protocol-Version: unsupported");
    } else if (session && !mcp_session_is_valid(request->front->mcp_sessions, &request->caller, session)) {
        reply_error(request, 404, "null", MCP_NO_SUCH_SESSION, "Session not found");
    } else {
        return true;
    }
    return false;
}

/* Of two, whoever stands before us may have read the other one. */
static const char *header_once(const struct request *request, const char *name)
{
    return http_header_count(request->http, name) == 1 ? http_header(request->http, name) : NULL;
}

static void handle_message(struct message_context *context)
{
    struct request *request = context->request;
    const struct mcp_message *message = context->message;
    const struct mcp_headers headers = {.version = header_once(request, "MCP-Protocol-Version"),
                                        .method = header_once(request, "Mcp-Method"),
                                        .name = header_once(request, "Mcp-Name")};
    context->stateless = mcp_is_stateless(message, &headers);
    if (!context->stateless && !check_headers(request, &context->session)) {
        return;
    }
    if (message->kind == MCP_RESPONSE) {
        request_reply_noted(request);
    } else if (message->kind == MCP_NOTIFICATION) {
        handle_notification(context);
    } else if (context->stateless) {
        handle_stateless(context, &headers);
    } else {
        handle_call(context);
    }
}

void handle_mcp(struct request *request)
{
    struct mcp_message message;
    struct message_context context = {.request = request, .message = &message, .session = ""};
    struct err err = {0};
    if (!page_origin_fits(request)) {
        return;
    }
    const struct body_reading *body = body_of(request);
    if (body->outcome != BODY_READ) {
        reply_error(request, 400, "null", MCP_PARSE_ERROR,
                    body->err.kind == ERR_INVALID ? body->err.text : "internal error");
        return;
    }
    http_free_body(request->http);
    if (mcp_decode(json_root(body->doc), &message, &err) < 0) {
        reply_error(request, 400, message.id, MCP_INVALID_REQUEST, err.text);
    } else {
        handle_message(&context);
    }
}

void handle_mcp_end(struct request *request)
{
    const char *session;
    if (!page_origin_fits(request) || !check_headers(request, &session)) {
        return;
    }
    if (session[0] == '\0') {
        reply_error(request, 400, "null", MCP_INVALID_REQUEST, "Mcp-Session-Id: is required");
        return;
    }
    cancel(request, session, NULL);
    mcp_session_end(request->front->mcp_sessions, session);
    request_reply_empty(request);
}
