/* From an HTTP request to its handler: ids, route, authentication, media type; and back: headers, access log,
 * metrics. Runs in the front. A request without a valid key gets no further than its headers. */
#include "server/jobs/request.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "server/front/door_mcp.h"
#include "server/front/guesses.h"
#include "server/front/page.h"
#include "server/front/routes.h"
#include "server/host/listen.h"
#include "server/http/http.h"
#include "server/jobs/approvals.h"
#include "server/jobs/dispatch.h"
#include "server/jobs/front_context.h"
#include "server/jobs/session_queries.h"
#include "server/jobs/stream.h"
#include "server/kit/log.h"
#include "server/kit/metrics.h"

#define REPLY_HEADERS_MAX 6

/* Asked of a caller who comes while the server goes, or finds it full of bodies: another one may answer at
 * once. */
#define RETRY_SOON_MS 1000

/* What takes longer to decode than a few milliseconds waits for its turn. */
#define TURN_BODY_BYTES 65536

static bool is_job_request(const struct request *request)
{
    return request->route && request->route->starts_job;
}

static void reply_with(struct request *request, unsigned status, struct http_header *headers, size_t n,
                       struct buf *body)
{
    headers[n++] = (struct http_header){"X-Request-Id", request->id};
    headers[n++] = (struct http_header){"Cache-Control", "no-store"};
    request->status = status;
    request->reply_bytes = body->len;
    http_reply(request->http, status, headers, n, body);
}

void request_reply(struct request *request, unsigned status, const char *content_type, struct buf *body)
{
    struct http_header headers[REPLY_HEADERS_MAX] = {{"Content-Type", content_type}};
    reply_with(request, status, headers, 1, body);
}

void request_reply_accepted(struct request *request, const char *location, struct buf *body)
{
    struct http_header headers[REPLY_HEADERS_MAX] = {{"Content-Type", "application/json"},
                                                     {"Location", location}};
    reply_with(request, 202, headers, 2, body);
}

void request_reply_events(struct request *request)
{
    /* The last one is for proxies that would wait for the end. */
    const struct http_header headers[] = {{"Content-Type", "text/event-stream"},
                                          {"X-Request-Id", request->id},
                                          {"Cache-Control", "no-store"},
                                          {"X-Accel-Buffering", "no"}};
    request->status = 200;
    http_stream(request->http, 200, headers, ARRAY_SIZE(headers));
}

static ssize_t on_fill(void *arg, struct http_request *http, char *data, size_t size)
{
    (void)arg;
    struct request *request = http_user(http);
    ssize_t n = request && request->stream ? stream_fill(request->stream, data, size) : -1;
    if (n > 0) {
        request->reply_bytes += (size_t)n;
    }
    return n;
}

void request_reply_empty(struct request *request)
{
    struct http_header headers[REPLY_HEADERS_MAX];
    struct buf body = BUF_INIT;
    buf_puts(&body, "");
    reply_with(request, 204, headers, 0, &body);
}

void request_reply_named(struct request *request, const char *name, const char *value, struct buf *body)
{
    struct http_header headers[REPLY_HEADERS_MAX] = {{"Content-Type", "application/json"}, {name, value}};
    reply_with(request, 200, headers, 2, body);
}

void request_reply_noted(struct request *request)
{
    struct http_header headers[REPLY_HEADERS_MAX];
    struct buf body = BUF_INIT;
    buf_puts(&body, "");
    reply_with(request, 202, headers, 0, &body);
}

/* An error's body with the headers that its status asks for. */
static void reply_error(struct request *request, enum error_class class, uint64_t retry_after_ms,
                        const char *allow, struct buf *body)
{
    struct http_header headers[REPLY_HEADERS_MAX] = {{"Content-Type", "application/json"}};
    size_t n = 1;
    char seconds[24];
    if (error_status(class) == 429 || error_status(class) == 503) {
        snprintf(seconds, sizeof seconds, "%llu", (unsigned long long)error_retry_after_s(retry_after_ms));
        headers[n++] = (struct http_header){"Retry-After", seconds};
    }
    if (class == ERROR_UNAUTHORIZED) {
        headers[n++] =
            (struct http_header){"WWW-Authenticate", "Bearer realm=\"immure\", Basic realm=\"immure\""};
    }
    if (allow) {
        headers[n++] = (struct http_header){"Allow", allow};
    }
    if (is_job_request(request) && class != ERROR_SETUP) {
        metrics_add(request->front->metrics, METRIC_JOBS_REJECTED, error_code(class), NULL, 1);
    }
    reply_with(request, error_status(class), headers, n, body);
}

static void refuse(struct request *request, enum error_class class, const char *text, const char *field,
                   const char *allow)
{
    struct buf body = BUF_INIT;
    error_write(&body, class, text, field, NULL);
    reply_error(request, class, RETRY_SOON_MS, allow, &body);
}

void request_refuse(struct request *request, enum error_class class, const char *text, const char *field)
{
    refuse(request, class, text, field, NULL);
}

void request_refuse_err(struct request *request, const struct err *err, uint64_t retry_after_ms)
{
    struct buf body = BUF_INIT;
    enum error_class class = error_class_of(err);
    if (error_status(class) >= 500 && class != ERROR_BUSY) {
        LOG(request->front->log, LOG_ERROR, "request_failed", LOG_FIELD_STR("request_id", request->id),
            LOG_FIELD_STR("kind", err_kind_to_string(err->kind)), LOG_FIELD_STR("step", err->step),
            LOG_FIELD_STR("item", err->item), LOG_FIELD_STR("error", err->text));
    }
    if (request->mcp) {
        mcp_refuse(request, err);
        return;
    }
    error_write_err(&body, err);
    reply_error(request, class, retry_after_ms, NULL, &body);
}

/* The first callback of a request makes it. NULL: out of memory, and the connection will be closed. */
static struct request *request_of(struct front *front, struct http_request *http)
{
    struct request *request = http_user(http);
    if (request) {
        return request;
    }
    request = calloc(1, sizeof *request);
    if (!request) {
        return NULL;
    }
    request->front = front;
    request->http = http;
    request->start_ns = clock_now_ns();
    ident_choose(http_header(http, "X-Request-Id"), request->id);
    const char *traceparent = http_header(http, "traceparent");
    if (traceparent && ident_is_traceparent(traceparent)) {
        snprintf(request->traceparent, sizeof request->traceparent, "%s", traceparent);
    }
    http_set_user(http, request);
    return request;
}

/* See server/http/budget.h. */
static unsigned account_of(const struct request *request)
{
    const struct key_config *key = request->caller.key;
    return key ? (unsigned)(key - request->front->config->keys) + 1 : 0;
}

/* The key is looked at once and then wiped from the connection's memory, in which a job's request stays as
 * long as the job. */
static bool identify(struct request *request)
{
    struct http_request *http = request->http;
    bool identified = auth_identify(request->front->config, http_header(http, "X-Service-API-Key"),
                                    http_header(http, "Authorization"), &request->caller);
    if (identified && request->route && request->route->access == ROUTE_FOR_APPROVALS) {
        request->shown_key =
            auth_shown_key(http_header(http, "X-Service-API-Key"), http_header(http, "Authorization"));
    }
    http_wipe_header(http, "X-Service-API-Key");
    http_wipe_header(http, "Authorization");
    http_set_account(http, account_of(request));
    if (identified) {
        http_trust(http);
    }
    return identified;
}

struct request *request_of_deadline(struct deadline *deadline)
{
    return (struct request *)(void *)deadline;
}

void request_refuse_key(struct request *request)
{
    request_refuse(request, ERROR_UNAUTHORIZED, NULL, NULL);
}

/* Whoever has guessed too often waits for the answer. */
static void refuse_key(struct request *request, bool presented)
{
    struct front *front = request->front;
    metrics_add(front->metrics, METRIC_AUTH_FAILURES, presented ? "wrong" : "missing", NULL, 1);
    if (presented && guesses_note(front->guesses, http_client_network(request->http), clock_now_ns()) > 0) {
        http_hold(request->http);
        guesses_hold(front->guesses, request);
    } else {
        request_refuse_key(request);
    }
}

static bool needs_key(const struct front *front, const struct route *route)
{
    return !route || route->access == ROUTE_FOR_KEYS || route->access == ROUTE_FOR_APPROVALS ||
           (route->access == ROUTE_FOR_METRICS && !front->config->metrics_open);
}

/* application/json, without a charset or with the only one that JSON has. */
static bool is_json(const char *content_type)
{
    size_t len = strcspn(content_type, "; \t");
    if (len != strlen("application/json") || strncasecmp(content_type, "application/json", len) != 0) {
        return false;
    }
    const char *charset = strcasestr(content_type + len, "charset=");
    if (!charset) {
        return true;
    }
    charset += strlen("charset=");
    charset += *charset == '"';
    return strncasecmp(charset, "utf-8", 5) == 0;
}

/* A body without a type is refused too: a page in a browser can send one to a server on its own host without
 * asking. */
static bool media_type_fits(const struct http_request *http)
{
    const char *type = http_header(http, "Content-Type");
    const char *encoding = http_header(http, "Content-Encoding");
    bool typed = type ? is_json(type) : !http_has_body(http);
    return typed && (!encoding || strcasecmp(encoding, "identity") == 0);
}

/* Answers where the header is not ours. */
static bool refuse_page(struct request *request, const char *header, bool ours)
{
    if (!ours) {
        char text[160];
        snprintf(text, sizeof text,
                 "%s: pages of other hosts may not call this server; ask localhost, or what `listen` names",
                 header);
        request_refuse(request, ERROR_FORBIDDEN, text, header);
    }
    return !ours;
}

bool request_origin_fits(struct request *request)
{
    struct listen_address listen = {0};
    listen_parse(request->front->config->listen, &listen, NULL);
    bool one = http_header_count(request->http, "Origin") <= 1;
    return !refuse_page(request, "Origin",
                        one && page_origin_is_ours(http_header(request->http, "Origin"), &listen));
}

/* Without keys, whoever reaches the server may call: no page may be made to. A unix socket is out of a
 * browser's reach, and its path no name. */
static bool is_from_elsewhere(struct request *request)
{
    struct listen_address listen = {0};
    const char *host = http_header(request->http, "Host");
    if (!request->front->config->open) {
        return false;
    }
    listen_parse(request->front->config->listen, &listen, NULL);
    return refuse_page(request, "Host", !host || listen.is_unix || page_host_is_ours(host, &listen)) ||
           !request_origin_fits(request);
}

static void on_headers(void *arg, struct http_request *http)
{
    struct front *front = arg;
    struct request *request = request_of(front, http);
    if (!request) {
        return;
    }
    const struct route *path;
    char allow[ROUTE_ALLOW_BYTES];
    request->route = route_find(http_method(http), http_path(http), &path, allow);
    bool presented = http_header(http, "X-Service-API-Key") || http_header(http, "Authorization");
    bool identified = identify(request);
    if (!identified && needs_key(front, path)) {
        refuse_key(request, presented);
    } else if (is_from_elsewhere(request)) {
        return;
    } else if (!path) {
        request_refuse(request, ERROR_NO_SUCH_PATH, NULL, NULL);
    } else if (!request->route) {
        refuse(request, ERROR_METHOD, NULL, NULL, allow);
    } else if (request->route->when == ROUTE_AT_HEADERS) {
        request->route->handle(request);
    } else if (front->draining) {
        request_refuse(request, ERROR_UNAVAILABLE, NULL, NULL);
    } else if (!media_type_fits(http)) {
        request_refuse(request, ERROR_MEDIA_TYPE, NULL, NULL);
    }
}

void request_take_turn(struct turn *turn)
{
    struct request *request = (struct request *)(void *)((char *)turn - offsetof(struct request, turn));
    request->route->handle(request);
}

static void on_complete(void *arg, struct http_request *http)
{
    struct front *front = arg;
    struct request *request = request_of(front, http);
    if (!request || !request->route || request->held.queue) {
        return;
    }
    if (http_body(http)->len > TURN_BODY_BYTES) {
        turn_wait(front->turns, &request->turn, account_of(request));
    } else {
        request->route->handle(request);
    }
}

static void on_fault(void *arg, struct http_request *http, enum http_fault fault)
{
    static const struct {
        enum error_class class;
        const char *text;
    } answers[] = {
        [HTTP_FAULT_FRAMING] = {ERROR_BAD_REQUEST,
                                "Content-Length and Transfer-Encoding do not tell where the body ends"},
        [HTTP_FAULT_CHUNKS] = {ERROR_BAD_REQUEST, "a chunk of the body is malformed"},
        [HTTP_FAULT_SYNTAX] = {ERROR_BAD_REQUEST, "the request line or a header is malformed"},
        [HTTP_FAULT_HEADERS_TOO_LARGE] = {ERROR_HEADERS, NULL},
        [HTTP_FAULT_BODY_TOO_LARGE] = {ERROR_TOO_LARGE, NULL},
        [HTTP_FAULT_TOO_SLOW] = {ERROR_TOO_SLOW, NULL},
        [HTTP_FAULT_OVERLOADED] = {ERROR_BUSY, "server busy: too many requests are arriving at once"},
        [HTTP_FAULT_NO_SHARE] = {ERROR_RATE, "too many bytes of this key's requests are arriving at once"},
    };
    struct request *request = request_of(arg, http);
    char most[64];
    if (request) {
        snprintf(most, sizeof most, "the body may have at most %" PRIu64 " bytes",
                 request->front->config->max_body_bytes);
        request_refuse(request, answers[fault].class,
                       fault == HTTP_FAULT_BODY_TOO_LARGE ? most : answers[fault].text, NULL);
    }
}

static void on_dropped(void *arg, struct http_request *http, enum http_drop why, size_t bytes)
{
    static const char *const reasons[] = {[HTTP_DROP_STALLED] = "stalled", [HTTP_DROP_BUDGET] = "budget"};
    const struct front *front = arg;
    const struct request *request = http_user(http);
    metrics_add(front->metrics, METRIC_REPLIES_DROPPED, reasons[why], NULL, 1);
    LOG(front->log, LOG_WARNING, "reply_dropped", LOG_FIELD_STR("reason", reasons[why]),
        LOG_FIELD_U64("unread_bytes", bytes), LOG_FIELD_STR("key", request ? request->caller.name : NULL),
        LOG_FIELD_STR("request_id", request ? request->id : NULL));
}

static void on_half_closed(void *arg, struct http_request *http)
{
    struct request *request = request_of(arg, http);
    if (request) {
        stream_beat(request->stream);
    }
}

static void on_hangup(void *arg, struct http_request *http)
{
    struct request *request = request_of(arg, http);
    if (request && request->job) {
        dispatch_cancel(request->job);
    }
}

/* What callers choose is cut where the line would be longer than PIPE_BUF, all that a pipe takes at once. */
static void log_access(const struct request *request, bool sent, uint64_t duration_ns)
{
    char client[64], method[33], path[501];
    http_client(request->http, client, sizeof client);
    snprintf(method, sizeof method, "%.32s", http_method(request->http));
    snprintf(path, sizeof path, "%.500s", http_path(request->http));
    LOG(request->front->log, LOG_INFO, "request", LOG_FIELD_STR("method", method),
        LOG_FIELD_STR("path", path), LOG_FIELD_U64("status", request->status), LOG_FIELD_BOOL("sent", sent),
        LOG_FIELD_F64("duration_ms", (double)duration_ns / (double)NS_PER_MS),
        LOG_FIELD_U64("reply_bytes", request->reply_bytes), LOG_FIELD_STR("key", request->caller.name),
        LOG_FIELD_STR("client", client), LOG_FIELD_STR("request_id", request->id),
        LOG_FIELD_STR("traceparent", request->traceparent));
}

/* A caller who hung up before the reply is 499 in metrics and logs, as elsewhere. */
static void on_end(void *arg, struct http_request *http, bool sent)
{
    struct front *front = arg;
    struct request *request = http_user(http);
    if (!request) {
        return;
    }
    if (request->job) {
        dispatch_cancel(request->job);
    }
    session_query_forget(request);
    front_approvals_forget(request);
    stream_free(request->stream);
    mcp_call_free(request->mcp);
    if (request->status == 0) {
        request->status = 499;
    }
    uint64_t duration_ns = clock_now_ns() - request->start_ns;
    char code[16];
    snprintf(code, sizeof code, "%u", request->status);
    metrics_add(front->metrics, METRIC_HTTP_REQUESTS, request->route ? request->route->path : "other", code,
                1);
    metrics_observe(front->metrics, METRIC_HTTP_DURATION, (double)duration_ns / (double)NS_PER_S);
    log_access(request, sent, duration_ns);
    guesses_forget(request);
    turn_leave(&request->turn);
    if (request->shown_key) {
        explicit_bzero(request->shown_key, strlen(request->shown_key));
        free(request->shown_key);
    }
    http_set_user(http, NULL);
    free(request);
}

const struct http_events request_events = {
    .headers = on_headers,
    .complete = on_complete,
    .fault = on_fault,
    .fill = on_fill,
    .half_closed = on_half_closed,
    .hangup = on_hangup,
    .dropped = on_dropped,
    .end = on_end,
};
