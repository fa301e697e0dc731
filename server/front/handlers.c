/* What the routes do. Runs in the front. */
#include "server/front/handlers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/format/json.h"
#include "config/message/job.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/doors/answers.h"
#include "server/doors/approval.h"
#include "server/doors/door.h"
#include "server/doors/execute.h"
#include "server/front/figures.h"
#include "server/front/openapi.h"
#include "server/http/http.h"
#include "server/jobs/approvals.h"
#include "server/jobs/dispatch.h"
#include "server/jobs/front_context.h"
#include "server/jobs/kept_jobs.h"
#include "server/jobs/reason.h"
#include "server/jobs/relays.h"
#include "server/jobs/request.h"
#include "server/jobs/session_queries.h"
#include "server/kit/accept.h"
#include "server/kit/json_out.h"
#include "server/kit/metrics.h"

struct body_reading *read_body(struct request *request)
{
    if (http_body(request->http)->len == 0) {
        request_refuse(request, ERROR_NOT_JSON, "the body is empty; it must be a JSON object", NULL);
        return NULL;
    }
    struct body_reading *body = body_of(request);
    const struct err *err = &body->err;
    if (body->outcome == BODY_NOT_JSON && err->kind == ERR_INVALID) {
        char text[sizeof err->item + sizeof err->text + 2];
        snprintf(text, sizeof text, "%s%s%s", err->item, *err->item ? ": " : "", err->text);
        request_refuse(request, ERROR_NOT_JSON, text, NULL);
    } else if (body->outcome != BODY_READ) {
        request_refuse_err(request, err, 0);
    }
    return body->outcome == BODY_READ ? body : NULL;
}

static bool may_use(struct request *request, const struct execute_request *execute)
{
    char text[256];
    const struct runtime_config *runtime = execute->runtime;
    const char *policy = execute->job->policy ? execute->job->policy : runtime->policy;
    if (!auth_may_use_runtime(request->front->config, &request->caller, runtime)) {
        snprintf(text, sizeof text, "this key may not use the runtime '%.100s'", runtime->name);
        request_refuse(request, ERROR_FORBIDDEN, text, "runtime");
        return false;
    }
    struct err err = {0};
    if (execute_check_offered(runtime, "runtime", &err) < 0) {
        request_refuse_err(request, &err, 0);
        return false;
    }
    if (!auth_may_use_policy(request->front->config, &request->caller, runtime, execute->job->policy)) {
        snprintf(text, sizeof text, "this key may not use the policy '%.100s'", policy);
        request_refuse(request, ERROR_FORBIDDEN, text, "policy");
        return false;
    }
    return true;
}

/* `?wait=false`: the caller does not wait for the verdict. Otherwise it may want to hear of what happens. */
static bool read_way(struct request *request, const struct execute_request *execute, enum dispatch_way *ret)
{
    const char *wait = request->door->keeps ? http_argument(request->http, "wait") : NULL;
    if (wait && strcmp(wait, "false") != 0 && strcmp(wait, "true") != 0) {
        request_refuse(request, ERROR_BAD_FIELD, "wait: must be true or false", "wait");
        return false;
    }
    bool stream = execute->stream || accept_lists(http_header(request->http, "Accept"), "text/event-stream");
    *ret = wait && *wait == 'f' ? DISPATCH_KEEP : stream ? DISPATCH_STREAM : DISPATCH_REPLY;
    if (execute->calls_held && *ret == DISPATCH_REPLY) {
        request_refuse(
            request, ERROR_BAD_FIELD,
            request->door->keeps
                ? "calls: \"stream\" needs a reply that is a stream (`Accept: text/event-stream`), or a job "
                  "that is asked for later (`?wait=false`)"
                : "calls: \"stream\" needs a reply that is a stream (`stream`: true)",
            "calls");
        return false;
    }
    return true;
}

static void start(struct request *request, struct execute_request *execute, enum dispatch_way way)
{
    struct err err = {0};
    uint64_t retry_after_ms = 0;
    http_free_body(request->http);
    execute->job->key = strdup(request->caller.name);
    if (!execute->job->key) {
        err_errno(&err, ENOMEM, "starting a job");
        request_refuse_err(request, &err, 0);
    } else if (front_approvals_start(request, execute, way, &retry_after_ms, &err) < 0) {
        request_refuse_err(request, &err, retry_after_ms);
    }
}

bool handlers_check_job(struct request *request)
{
    const struct body_reading *body = read_body(request);
    return body && may_use(request, &body->execute);
}

void handle_job_start(struct request *request)
{
    struct body_reading *body = read_body(request);
    enum dispatch_way way;
    if (body && may_use(request, &body->execute) && read_way(request, &body->execute, &way)) {
        start(request, &body->execute, way);
    }
}

/* The execution_id that the path names; refused where it can be none. */
static bool read_execution_id(struct request *request, char ret[IDENT_BYTES])
{
    if (reason_decode_percent(request->argument, request->argument_length, false, ret, IDENT_BYTES) &&
        ident_is_sane(ret)) {
        return true;
    }
    request_refuse(request, ERROR_BAD_FIELD,
                   "execution_id: must be 1 to 128 of A-Z a-z 0-9 . _ - : / + = @ ~", "execution_id");
    return false;
}

static void reply_answered(struct request *request, const struct msg_relay *asked,
                           const struct msg_relay_answer *answer, struct buf *body, void *context)
{
    (void)asked;
    (void)context;
    struct err err = {.kind = answer->kind};
    if (answer->kind == ERR_NONE) {
        request_reply(request, 200, "application/json", body);
        return;
    }
    memcpy(err.item, answer->item, sizeof err.item);
    memcpy(err.text, answer->text, sizeof err.text);
    request_refuse_err(request, &err, 0);
}

void handle_answers(struct request *request)
{
    char id[IDENT_BYTES];
    const struct body_reading *body = read_execution_id(request, id) ? read_body(request) : NULL;
    CLEANUP(freep) struct answer *answers = NULL;
    struct buf reply = BUF_INIT;
    struct err err = {0};
    size_t n;
    if (!body) {
        return;
    }
    const struct buf *text = http_body(request->http);
    int r = answers_decode(json_root(body->doc), &answers, &n, &err);
    r = r < 0 ? r
              : dispatch_answer(request->front->dispatch, request->caller.key, id, text->data, answers, n,
                                &reply, &err);
    if (r < 0 && err.kind == ERR_NOT_FOUND && relays_may_help(request)) {
        err = (struct err){0};
        r = relay_send(request, RELAY_ANSWERS, id, text, NULL, reply_answered, NULL, &err);
        if (r == 0) {
            return;
        }
    }
    if (r < 0) {
        request_refuse_err(request, &err, 0);
    } else {
        request_reply(request, 200, "application/json", &reply);
    }
}

/* There is no such run: it may come yet. */
static void note_termination(struct request *request, const char *id, const char *reason)
{
    struct err err = {0};
    if (dispatch_note_termination(request->front->dispatch, request->caller.key, id, reason, &err) < 0) {
        request_refuse_err(request, &err, 0);
    } else {
        request_reply_empty(request);
    }
}

static void reply_terminated(struct request *request, const struct msg_relay *asked,
                             const struct msg_relay_answer *answer, struct buf *body, void *context)
{
    (void)body;
    (void)context;
    if (answer->kind == ERR_NONE) {
        request_reply_empty(request);
    } else {
        note_termination(request, asked->about, *asked->reason ? asked->reason : NULL);
    }
}

/* Whether or not there is such a run: it may have ended meanwhile, or come yet. */
void handle_terminate(struct request *request)
{
    char id[IDENT_BYTES], text[REASON_BYTES];
    if (!read_execution_id(request, id) || !reason_read(request, text)) {
        return;
    }
    const char *reason = *text ? text : NULL;
    struct err err = {0};
    if (dispatch_end_runs(request->front->dispatch, request->caller.key, id, reason)) {
        request_reply_empty(request);
    } else if (!relays_may_help(request)) {
        note_termination(request, id, reason);
    } else if (relay_send(request, RELAY_TERMINATE, id, NULL, reason, reply_terminated, NULL, &err) < 0) {
        request_refuse_err(request, &err, 0);
    }
}

static void ask_of_jobs(struct request *request, enum kept_query what, const char *reason)
{
    struct err err = {0};
    if (what != KEPT_LIST && !job_id_is_valid(request->argument)) {
        request_refuse(request, ERROR_NO_SUCH_PATH, "no such job", NULL);
    } else if (kept_query_send(request, what, request->argument, reason, &err) < 0) {
        request_refuse_err(request, &err, 0);
    }
}

void handle_jobs(struct request *request)
{
    ask_of_jobs(request, KEPT_LIST, NULL);
}

void handle_job(struct request *request)
{
    ask_of_jobs(request, KEPT_GET, NULL);
}

void handle_job_end(struct request *request)
{
    char reason[REASON_BYTES];
    if (reason_read(request, reason)) {
        ask_of_jobs(request, KEPT_DELETE, reason);
    }
}

static void ask_of_approvals(struct request *request, struct msg_approval_query *query)
{
    struct err err = {0};
    const char *id = request->argument;
    bool one = query->what != APPROVAL_LIST;
    if (one && !approval_id_is_valid(id)) {
        request_refuse(request, ERROR_NO_SUCH_PATH, "no such approval", NULL);
        return;
    }
    snprintf(query->approval_id, sizeof query->approval_id, "%s", one ? id : "");
    if (front_approvals_ask(request, query, &err) < 0) {
        request_refuse_err(request, &err, 0);
    }
}

void handle_approvals(struct request *request)
{
    ask_of_approvals(request, &(struct msg_approval_query){.what = APPROVAL_LIST});
}

void handle_approval(struct request *request)
{
    ask_of_approvals(request, &(struct msg_approval_query){.what = APPROVAL_GET});
}

void handle_approval_decision(struct request *request)
{
    const struct body_reading *body = read_body(request);
    struct msg_approval_query query = {.what = APPROVAL_DECIDE};
    struct err err = {0};
    if (!body) {
        return;
    }
    if (approval_decision_decode(json_root(body->doc), &query.approve, query.reason, &err) < 0) {
        request_refuse_err(request, &err, 0);
    } else {
        ask_of_approvals(request, &query);
    }
}

/* Alive. Whether jobs would work is /readyz's to say. */
void handle_healthz(struct request *request)
{
    const struct front *front = request->front;
    struct buf body = BUF_INIT;
    buf_putc(&body, '{');
    json_out_text(&body, "status", "ready");
    json_out_open(&body, "limits", '{');
    json_out_text(&body, "enforced_by", front->state.enforced_by_cgroup ? "cgroup2" : "rlimit");
    buf_putc(&body, '}');
    if (front->state.degraded[0] != '\0') {
        json_out_text(&body, "degraded", front->state.degraded);
    }
    if (front->state.ready && front->state.why[0] != '\0') {
        json_out_text(&body, "self_test", front->state.why);
    }
    buf_puts(&body, "}\n");
    request_reply(request, 200, "application/json", &body);
}

void handle_readyz(struct request *request)
{
    const struct front *front = request->front;
    if (front->draining) {
        request_refuse(request, ERROR_NOT_READY, "the server is shutting down", NULL);
    } else if (front->state.short_of_memory) {
        request_refuse(request, ERROR_NOT_READY, "the host is short of memory: no job begins", NULL);
    } else if (front->state.audit_stopped) {
        request_refuse(request, ERROR_NOT_READY, "the audit log cannot be written: no job begins", NULL);
    } else if (!front->state.ready) {
        request_refuse(request, ERROR_NOT_READY, front->state.why, NULL);
    } else {
        handle_healthz(request);
    }
}

void handle_openapi(struct request *request)
{
    struct buf body = BUF_INIT;
    buf_append(&body, openapi_data(), openapi_size());
    request_reply(request, 200, "application/json", &body);
}

void handle_metrics(struct request *request)
{
    struct front *front = request->front;
    struct buf body = BUF_INIT;
    figures_of_now(front);
    metrics_write(front->metrics, &body);
    request_reply(request, 200, "text/plain; version=0.0.4; charset=utf-8", &body);
}
