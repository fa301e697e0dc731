/* Tool calls. Runs in the front. Their names and arguments are a program's, their answers a callback
 * server's or the caller's: both are passed on as JSON that has been looked at, never as anything else. Each
 * call is counted and has a line in the audit trail, without its arguments. */
#include "server/bridge/tools.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/json.h"
#include "config/format/utf8.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "server/bridge/bridge.h"
#include "server/bridge/callback.h"
#include "server/bridge/held_calls.h"
#include "server/kit/function_ids.h"
#include "server/kit/json_out.h"
#include "server/kit/log.h"
#include "server/kit/metrics.h"
#include "server/kit/spans.h"

/* How much of an error's body is quoted. */
#define QUOTED_BYTES_MAX 4096u

/* What a jail may take to be built and to end, beyond its program's time. */
#define GRACE_NS (15 * NS_PER_S)

/* A call that is with the callback server, or with the caller. */
struct tool_call {
    const struct tools *tools;
    struct bridge_call *call;
    struct callback_transfer *transfer; /* NULL: with the caller */
    struct held_call *held;             /* NULL: with the callback server */
    uint64_t start_ns;
    struct trace trace;
};

/* Tools that would start another job. */
static const char *const refused_names[] = {"execute_code", "execute_plan"};

static void note(const struct tools *tools, const char *name, const struct trace *trace, uint64_t start_ns,
                 const char *outcome, long status)
{
    const struct log_field attributes[] = {
        LOG_FIELD_STR("immure.tool", name),
        LOG_FIELD_STR("immure.outcome", outcome),
        LOG_FIELD_STR("http.request.method", "POST"),
        LOG_FIELD_I64("http.response.status_code", status),
    };
    /* Without a status there was no answer over HTTP. */
    spans_add(tools->spans, trace,
              &(struct span){.name = "tool call",
                             .kind = SPAN_CLIENT,
                             .start_ns = start_ns,
                             .end_ns = clock_now_ns(),
                             .failed = strcmp(outcome, "success") != 0,
                             .attributes = attributes,
                             .n_attributes = status > 0 ? 4 : 2});
    metrics_add(tools->metrics, METRIC_TOOL_CALLS, outcome, NULL, 1);
    LOG(tools->audit, LOG_INFO, "tool_call", LOG_FIELD_STR("key", tools->key),
        LOG_FIELD_STR("request_id", tools->request_id), LOG_FIELD_STR("execution_id", tools->execution_id),
        LOG_FIELD_STR("traceparent", tools->traceparent), LOG_FIELD_STR("tool", name),
        LOG_FIELD_STR("outcome", outcome), LOG_FIELD_I64("http_status", status),
        LOG_FIELD_F64("duration_ms", (double)(clock_now_ns() - start_ns) / (double)NS_PER_MS));
}

/* Appends text as it stands between the quotes of a JSON string. */
static void put_escaped(struct buf *ret, const char *text, size_t size)
{
    CLEANUP(buf_free) struct buf quoted = BUF_INIT;
    if (json_write_string(&quoted, text, size) < 0 || quoted.failed) {
        ret->failed = true;
    } else {
        buf_append(ret, quoted.data + 1, quoted.len - 2);
    }
}

/* "Tool 'NAME'", then `middle`, then what is already escaped. */
static void answer_error(struct bridge_call *call, const char *middle, const char *escaped, size_t size)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    buf_puts(&text, "Tool '");
    put_escaped(&text, call->name, strlen(call->name));
    buf_puts(&text, middle);
    buf_append(&text, escaped, size);
    if (text.failed) {
        static const char sorry[] = "call_tool: out of memory";
        bridge_answer(call, BRIDGE_ERROR, sorry, sizeof sorry - 1);
    } else {
        bridge_answer(call, BRIDGE_ERROR, text.data, text.len);
    }
}

static void answer_failed_request(struct bridge_call *call, const char *why)
{
    CLEANUP(buf_free) struct buf escaped = BUF_INIT;
    put_escaped(&escaped, why, strlen(why));
    answer_error(call, "': request failed: ", escaped.data ? escaped.data : "", escaped.len);
}

static void answer_http_error(struct bridge_call *call, long status, const struct buf *body)
{
    CLEANUP(buf_free) struct buf escaped = BUF_INIT;
    size_t size = body->len < QUOTED_BYTES_MAX ? body->len : QUOTED_BYTES_MAX;
    if (size < body->len) {
        size -= utf8_unfinished(body->data, size);
    }
    char middle[64];
    snprintf(middle, sizeof middle, "': HTTP %ld: ", status);
    put_escaped(&escaped, body->data ? body->data : "", size);
    answer_error(call, middle, escaped.data ? escaped.data : "", escaped.len);
}

enum member { MEMBER_DATA, MEMBER_ERROR, MEMBERS };

/* What a tool says of its failure: as it stands between the quotes of a JSON string. */
static void answer_tool_error(const struct tools *tools, struct bridge_call *call, const char *escaped,
                              size_t size)
{
    static const char no_reason[] = "no reason was given";
    if (size == 0) {
        escaped = no_reason;
        size = sizeof no_reason - 1;
    }
    if (tools->functions) {
        bridge_answer(call, BRIDGE_ERROR, escaped, size);
    } else {
        answer_error(call, "' failed: ", escaped, size);
    }
}

/* {"data": TEXT} or {"error": TEXT}. null stands for absent, and so does an empty `error` beside a `data`: by
 * itself it is a failure without words. Returns the outcome. */
static const char *answer_body(const struct tools *tools, struct bridge_call *call, const struct buf *body)
{
    static const char *const names[MEMBERS] = {"data", "error"};
    struct json_slice members[MEMBERS];
    const char *why;
    if (json_split(body->data ? body->data : "", body->len, names, MEMBERS, members, &why) < 0) {
        answer_failed_request(call, "the answer is not a JSON object");
        return "request_failed";
    }
    const struct json_slice *data = &members[MEMBER_DATA], *error = &members[MEMBER_ERROR];
    bool has_data = data->type != JSON_ABSENT && data->type != JSON_NULL;
    if (error->type == JSON_STRING && (error->size > 2 || !has_data)) {
        answer_tool_error(tools, call, error->text + 1, error->size - 2);
        return "tool_error";
    }
    bool sane = (!has_data || data->type == JSON_STRING) &&
                (error->type == JSON_ABSENT || error->type == JSON_NULL || error->type == JSON_STRING);
    if (!sane) {
        answer_failed_request(call, "the answer's `data` or `error` is not a text");
        return "request_failed";
    }
    bridge_answer(call, BRIDGE_DATA, has_data ? data->text + 1 : "", has_data ? data->size - 2 : 0);
    return "success";
}

static void on_done(void *arg, const struct callback_answer *answer)
{
    struct tool_call *own = arg;
    struct bridge_call *call = own->call;
    const struct tools *tools = own->tools;
    CLEANUP(freep) char *name = strdup(call->name); /* gone with the answer */
    uint64_t start_ns = own->start_ns;
    const struct trace trace = own->trace;
    call->user = NULL;
    free(own);
    const char *outcome;
    if (answer->outcome == CALLBACK_FAILED) {
        outcome = "request_failed";
        answer_failed_request(call, answer->why);
    } else if (answer->status < 200 || answer->status > 299) {
        outcome = "http_error";
        answer_http_error(call, answer->status, answer->body);
    } else {
        outcome = answer_body(tools, call, answer->body);
    }
    note(tools, name, &trace, start_ns, outcome, answer->status);
}

static void on_held(void *arg, enum held_answer kind, const char *json_text, size_t size)
{
    static const char *const outcomes[] = {
        [HELD_DATA] = "success", [HELD_ERROR] = "tool_error", [HELD_FAILED] = "request_failed"};
    struct tool_call *own = arg;
    struct bridge_call *call = own->call;
    const struct tools *tools = own->tools;
    CLEANUP(freep) char *name = strdup(call->name); /* gone with the answer */
    uint64_t start_ns = own->start_ns;
    const struct trace trace = own->trace;
    call->user = NULL;
    free(own);
    if (kind == HELD_DATA) {
        bridge_answer(call, BRIDGE_DATA, json_text, size);
    } else if (kind == HELD_ERROR) {
        answer_tool_error(tools, call, json_text, size);
    } else {
        answer_failed_request(call, json_text);
    }
    note(tools, name, &trace, start_ns, outcomes[kind], 0);
}

static void write_body(const struct tools *tools, const struct bridge_call *call, struct buf *ret)
{
    buf_putc(ret, '{');
    json_out_text(ret, "execution_id", tools->execution_id);
    json_out_text(ret, "name", call->name);
    json_out_key(ret, "args");
    buf_append(ret, call->args, call->args_size);
    buf_putc(ret, '}');
}

/* The job's end cancels its calls; this is for the case that nobody hears of it. */
static uint64_t time_left_ms(const struct tools *tools)
{
    uint64_t end_ns = tools->deadline_ns + GRACE_NS, now_ns = clock_now_ns();
    uint64_t left_ms = end_ns > now_ns ? (end_ns - now_ns) / NS_PER_MS + 1 : 1;
    return left_ms < tools->timeout_ms ? left_ms : tools->timeout_ms;
}

static int post(const struct tools *tools, struct tool_call *own)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT;
    write_body(tools, own->call, &body);
    if (body.failed) {
        return -ENOMEM;
    }
    char traceparent[TRACEPARENT_BYTES];
    trace_write(&own->trace, traceparent);
    const struct callback_request request = {.url = tools->callback_url,
                                             .body = body.data,
                                             .body_size = body.len,
                                             .traceparent =
                                                 own->trace.sampled ? traceparent : tools->traceparent,
                                             .request_id = tools->request_id,
                                             .secret = tools->owner ? tools->owner->callback_secret : "",
                                             .timeout_ms = time_left_ms(tools),
                                             .done = on_done,
                                             .arg = own};
    return callback_post(tools->callbacks, &request, &own->transfer);
}

static int hold(const struct tools *tools, struct tool_call *own)
{
    int r = held_call_new(tools->held, on_held, own, &own->held);
    if (r == 0) {
        tools->tell(tools->tell_arg, held_call_id(own->held), own->call);
    }
    return r;
}

static int begin(const struct tools *tools, struct bridge_call *call, const struct trace *trace)
{
    struct tool_call *own = calloc(1, sizeof *own);
    if (!own) {
        return -ENOMEM;
    }
    *own = (struct tool_call){.tools = tools, .call = call, .start_ns = clock_now_ns(), .trace = *trace};
    call->user = own;
    int r = tools->held ? hold(tools, own) : post(tools, own);
    if (r < 0) {
        call->user = NULL;
        free(own);
    }
    return r;
}

/* Are they the same but for case and for what stands between letters and digits? An agent may look up its
 * tools less strictly than byte by byte. */
static bool resembles(const char *name, const char *refused)
{
    for (; *name; name++) {
        if (!isalnum((unsigned char)*name)) {
            continue;
        }
        while (*refused && !isalnum((unsigned char)*refused)) {
            refused++;
        }
        if (tolower((unsigned char)*name) != *refused) {
            return false;
        }
        refused++;
    }
    return *refused == '\0';
}

static bool is_refused(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(refused_names); i++) {
        if (resembles(name, refused_names[i])) {
            return true;
        }
    }
    return false;
}

/* No control characters, nor a blank at either end: what a log, a header or a look-up would drop is no part
 * of a name. */
static bool is_name(const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)name[i], next = (unsigned char)name[i + 1];
        if (c < ' ' || c == 0x7f || (c == 0xc2 && next < 0xa0)) { /* C0, DEL, C1 */
            return false;
        }
    }
    return length > 0 && name[0] != ' ' && name[length - 1] != ' ';
}

/* Why a call is not made; NULL: it is. */
static const char *why_not(const struct tools *tools, const char *name)
{
    if (!tools->held && (!tools->callback_url || !tools->callbacks)) {
        return "call_tool: no callback URL configured";
    }
    if (tools->functions) {
        return function_ids_has(tools->functions, name) ? NULL : "this run was not given that function";
    }
    return is_name(name) ? NULL
                         : "call_tool: a tool's name has no control characters, and no blanks at its ends";
}

void tools_call(const struct tools *tools, struct bridge_call *call)
{
    static const char recursion[] = "a job cannot start a job";
    uint64_t start_ns = clock_now_ns();
    CLEANUP(freep) char *name = strdup(call->name);
    const char *why = why_not(tools, call->name);
    struct trace trace;
    trace_child(tools->trace, &trace);
    if (why) {
        bridge_answer(call, BRIDGE_ERROR, why, strlen(why));
        note(tools, name, &trace, start_ns, "refused", 0);
    } else if (!tools->functions && is_refused(call->name)) {
        answer_error(call, "' failed: ", recursion, sizeof recursion - 1);
        note(tools, name, &trace, start_ns, "refused", 0);
    } else if (begin(tools, call, &trace) < 0) {
        answer_failed_request(call, "out of memory");
        note(tools, name, &trace, start_ns, "request_failed", 0);
    }
}

void tools_cancel(const struct tools *tools, struct bridge_call *call)
{
    struct tool_call *own = call->user;
    if (own) {
        note(tools, call->name, &own->trace, own->start_ns, "cancelled", 0);
        if (own->held) {
            held_call_drop(own->held);
        } else {
            callback_cancel(own->transfer);
        }
        call->user = NULL;
        free(own);
    }
}

const char *tools_told_id(const struct bridge_call *call)
{
    const struct tool_call *own = call->user;
    return own && own->held ? held_call_id(own->held) : NULL;
}

void tools_answer(struct bridge_call *call, bool failed, const char *json_text, size_t size)
{
    const struct tool_call *own = call->user;
    if (size > own->tools->max_answer_bytes) {
        held_call_answer(own->held, HELD_FAILED, "the answer is too large", 0);
    } else {
        held_call_answer(own->held, failed ? HELD_ERROR : HELD_DATA, json_text, size);
    }
}
