/* From an HTTP request to its handler: ids, route, authentication, media type; and at its end: access log,
 * metrics. Runs in the front. A request without a valid key gets no further than its headers. */
#include "server/front/inbound.h"

#include <errno.h>
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
#include "server/doors/door.h"
#include "server/doors/unknown_name.h"
#include "server/front/guesses.h"
#include "server/front/page.h"
#include "server/front/routes.h"
#include "server/http/http.h"
#include "server/jobs/approvals.h"
#include "server/jobs/decoder.h"
#include "server/jobs/dispatch.h"
#include "server/jobs/front_context.h"
#include "server/jobs/relays.h"
#include "server/jobs/request.h"
#include "server/jobs/kept_jobs.h"
#include "server/jobs/session_queries.h"
#include "server/jobs/stream.h"
#include "server/kit/deadline.h"
#include "server/kit/log.h"
#include "server/kit/metrics.h"

/* What is larger may take longer to decode than others should wait. */
#define SMALL_BODY_BYTES 65536

struct inbound {
    struct request request;    /* first, so that one is the other */
    struct deadline held;      /* a refusal that takes its time */
    struct decoding *decoding; /* of a large body; NULL: none */
    const struct route *route; /* NULL: none */
};

/* The first callback of a request makes it. NULL: out of memory, and the connection will be closed. */
static struct inbound *inbound_of(struct front *front, struct http_request *http)
{
    struct inbound *inbound = http_user(http);
    if (inbound) {
        return inbound;
    }
    inbound = calloc(1, sizeof *inbound);
    if (!inbound) {
        return NULL;
    }
    struct request *request = &inbound->request;
    request->front = front;
    request->http = http;
    request->body = BODY_READING_NONE;
    request->start_ns = clock_now_ns();
    ident_choose(http_header(http, "X-Request-Id"), request->id);
    const char *traceparent = http_header(http, "traceparent");
    if (traceparent && ident_is_traceparent(traceparent)) {
        snprintf(request->traceparent, sizeof request->traceparent, "%s", traceparent);
    }
    trace_begin(front->spans, request->traceparent, &request->trace);
    http_set_user(http, inbound);
    return inbound;
}

/* See server/http/budget.h. */
static unsigned account_of(const struct request *request)
{
    const struct key_config *key = request->caller.key;
    return key ? key->account : 0;
}

/* Ours, or what other interfaces call it. */
static const char *key_header(const struct http_request *http)
{
    const char *own = http_header(http, "X-Service-API-Key");
    return own ? own : http_header(http, "X-API-Key");
}

/* The key is looked at once and then wiped from the connection's memory, in which a job's request stays as
 * long as the job. */
static bool identify(struct inbound *inbound)
{
    struct request *request = &inbound->request;
    struct http_request *http = request->http;
    bool identified = auth_identify(request->front->config, key_header(http),
                                    http_header(http, "Authorization"), &request->caller);
    if (identified && inbound->route && inbound->route->access == ROUTE_FOR_WARDEN) {
        request->shown_key = auth_shown_key(key_header(http), http_header(http, "Authorization"));
    }
    http_wipe_header(http, "X-Service-API-Key");
    http_wipe_header(http, "X-API-Key");
    http_wipe_header(http, "Authorization");
    http_set_account(http, account_of(request));
    if (identified) {
        http_trust(http);
    }
    return identified;
}

void inbound_refuse_key(void *arg, struct deadline *held)
{
    (void)arg;
    struct inbound *inbound = CONTAINER_OF(held, struct inbound, held);
    request_refuse(&inbound->request, ERROR_UNAUTHORIZED, NULL, NULL);
}

/* Whoever has guessed too often waits for the answer. */
static void refuse_key(struct inbound *inbound, bool presented)
{
    struct front *front = inbound->request.front;
    struct http_request *http = inbound->request.http;
    metrics_add(front->metrics, METRIC_AUTH_FAILURES, presented ? "wrong" : "missing", NULL, 1);
    if (presented && guesses_note(front->guesses, http_client_network(http), clock_now_ns()) > 0) {
        http_hold(http);
        guesses_hold(front->guesses, &inbound->held);
    } else {
        inbound_refuse_key(NULL, &inbound->held);
    }
}

static bool needs_key(const struct front *front, const struct route *route)
{
    return !route || route->access == ROUTE_FOR_KEYS || route->access == ROUTE_FOR_WARDEN ||
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

static void handle(struct inbound *inbound)
{
    struct request *request = &inbound->request;
    /* Keys may have changed since its headers came. */
    if (!server_config_has_key(request->front->config, request->caller.key)) {
        request_refuse(request, ERROR_UNAUTHORIZED, NULL, NULL);
        return;
    }
    request->argument = route_argument(inbound->route, http_path(request->http), &request->argument_length);
    inbound->route->handle(request);
}

static void refuse_path(struct request *request, bool is_closed)
{
    char near[ROUTE_NEAR_BYTES], text[ROUTE_NEAR_BYTES + 64];
    const char *meant = is_closed ? NULL : route_near(http_path(request->http), near);
    snprintf(text, sizeof text, "no such path; did you mean %s?", meant ? meant : "");
    request_refuse(request, ERROR_NO_SUCH_PATH, meant ? text : NULL, NULL);
}

/* Answers and returns false where the query has what the route does not take. */
static bool query_fits(struct inbound *inbound)
{
    struct request *request = &inbound->request;
    const char *known[ROUTE_PARAMETERS_MAX];
    size_t n = route_parameters(inbound->route, known);
    for (const char *argument = NULL; (argument = http_next_argument(request->http, argument));) {
        struct err err = {0};
        char name[128];
        size_t i = 0, length = strcspn(argument, "=");
        snprintf(name, sizeof name, "%.*s", (int)(length > 0 && length < 100 ? length : 100), argument);
        while (i < n && strcmp(known[i], name) != 0) {
            i++;
        }
        if (i == n) {
            unknown_name("query parameter", "", name, known, n, &err);
        } else if (http_argument(request->http, name) != argument + length + (argument[length] == '=')) {
            err_set(&err, ERR_INVALID, EINVAL, name, "%s: is there twice", name);
        } else {
            continue;
        }
        request_refuse_err(request, &err, 0);
        return false;
    }
    return true;
}

static bool is_open(const struct server_config *config, const struct route *route)
{
    return !route->only || server_config_has_door(config, route->only) ||
           (config->console && strcmp(route->only, "console") == 0);
}

/* What a page elsewhere could have a browser ask for, with the key that it has kept. */
static bool is_simple(const struct route *route)
{
    return route && route->when == ROUTE_AT_END_OF_ANYTHING && strcmp(route->method, "POST") == 0;
}

static void on_headers(void *arg, struct http_request *http)
{
    struct front *front = arg;
    struct inbound *inbound = inbound_of(front, http);
    if (!inbound) {
        return;
    }
    struct request *request = &inbound->request;
    const struct route *path;
    char allow[ROUTE_ALLOW_BYTES];
    inbound->route = route_find(http_method(http), http_path(http), &path, allow);
    bool keyless = !needs_key(front, path);
    bool is_closed = path && !is_open(front->config, path);
    if (is_closed) {
        inbound->route = path = NULL;
    }
    request->door = inbound->route ? inbound->route->door : NULL;
    bool presented = key_header(http) || http_header(http, "Authorization");
    bool identified = identify(inbound);
    if (!identified && !keyless) {
        refuse_key(inbound, presented);
    } else if (!page_fits(request) || (is_simple(inbound->route) && !page_origin_fits(request))) {
        return;
    } else if (!path) {
        refuse_path(request, is_closed);
    } else if (!inbound->route) {
        request_refuse_method(request, allow);
    } else if (!query_fits(inbound)) {
        return;
    } else if (inbound->route->when == ROUTE_AT_HEADERS) {
        handle(inbound);
    } else if (front->state.begins_nothing) {
        request_refuse(request, ERROR_UNAVAILABLE, NULL, NULL);
    } else if (inbound->route->when == ROUTE_AT_END && !media_type_fits(http)) {
        request_refuse(request, ERROR_MEDIA_TYPE, NULL, NULL);
    }
}

void inbound_decoded(void *owner, struct body_reading *reading)
{
    struct inbound *inbound = owner;
    inbound->decoding = NULL;
    inbound->request.body = *reading;
    inbound->request.body_is_read = true;
    *reading = BODY_READING_NONE;
    handle(inbound);
}

static void decode(struct inbound *inbound)
{
    struct request *request = &inbound->request;
    const struct buf *body = http_body(request->http);
    inbound->decoding = decoder_wait(request->front->decoder, account_of(request), request->door, body->data,
                                     body->len, inbound);
    if (!inbound->decoding) {
        struct err err = {0};
        err_errno(&err, ENOMEM, "decoding a body");
        request_refuse_err(request, &err, 0);
    }
}

static void stop_decoding(struct inbound *inbound)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT;
    if (inbound->decoding) {
        http_take_body(inbound->request.http, &body);
        decoder_leave(TAKE_PTR(inbound->decoding), &body);
    }
}

static void on_complete(void *arg, struct http_request *http)
{
    struct front *front = arg;
    struct inbound *inbound = inbound_of(front, http);
    if (!inbound || !inbound->route || inbound->held.queue) {
        return;
    }
    bool is_read = inbound->route->when == ROUTE_AT_END || inbound->route->door;
    if (http_body(http)->len > SMALL_BODY_BYTES && is_read) {
        decode(inbound);
    } else {
        handle(inbound);
    }
}

/* NULL likewise. */
static struct request *request_of(struct front *front, struct http_request *http)
{
    struct inbound *inbound = inbound_of(front, http);
    return inbound ? &inbound->request : NULL;
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
    bool is_probe = strcmp(path, "/healthz") == 0 || strcmp(path, "/readyz") == 0;
    LOG(request->front->log, is_probe ? LOG_DEBUG : LOG_INFO, "request", LOG_FIELD_STR("method", method),
        LOG_FIELD_STR("path", path), LOG_FIELD_U64("status", request->status), LOG_FIELD_BOOL("sent", sent),
        LOG_FIELD_F64("duration_ms", (double)duration_ns / (double)NS_PER_MS),
        LOG_FIELD_U64("reply_bytes", request->reply_bytes), LOG_FIELD_STR("key", request->caller.name),
        LOG_FIELD_STR("client", client), LOG_FIELD_STR("request_id", request->id),
        LOG_FIELD_STR("traceparent", request->traceparent));
}

/* A caller who hung up before the reply is 499 in metrics and logs, as elsewhere. */
/* Of each route what it answers when all goes well; of one that starts jobs also what alerts are made of. */
void inbound_begin_figures(const struct front *front)
{
    static const char *const of_doors[] = {"400", "401", "403", "413", "429", "500", "503"};
    const struct route *route;
    for (size_t i = 0; (route = route_at(i)); i++) {
        bool is_empty = strcmp(route->method, "DELETE") == 0 || strstr(route->path, "/terminate");
        metrics_add(front->metrics, METRIC_HTTP_REQUESTS, route->path, is_empty ? "204" : "200", 0);
        if (route->door && route->door->keeps) {
            metrics_add(front->metrics, METRIC_HTTP_REQUESTS, route->path, "202", 0);
        }
        for (size_t j = 0; route->door && j < ARRAY_SIZE(of_doors); j++) {
            metrics_add(front->metrics, METRIC_HTTP_REQUESTS, route->path, of_doors[j], 0);
        }
    }
}

static void note_span(const struct request *request, const char *route, const char *path)
{
    char name[160];
    const struct log_field attributes[] = {
        LOG_FIELD_STR("http.request.method", route ? http_method(request->http) : "_OTHER"),
        LOG_FIELD_STR("http.route", route),
        LOG_FIELD_STR("url.scheme", "http"),
        LOG_FIELD_U64("http.response.status_code", request->status),
        LOG_FIELD_STR("immure.request_id", request->id),
    };
    snprintf(name, sizeof name, "%.32s %.120s", route ? http_method(request->http) : "HTTP", path);
    spans_add(request->front->spans, &request->trace,
              &(struct span){.name = name,
                             .kind = SPAN_SERVER,
                             .start_ns = request->start_ns,
                             .end_ns = clock_now_ns(),
                             .failed = request->status >= 500,
                             .attributes = attributes,
                             .n_attributes = ARRAY_SIZE(attributes)});
}

static void on_end(void *arg, struct http_request *http, bool sent)
{
    struct front *front = arg;
    struct inbound *inbound = http_user(http);
    if (!inbound) {
        return;
    }
    struct request *request = &inbound->request;
    if (request->job) {
        dispatch_cancel(request->job);
    }
    session_query_forget(request);
    if (request->steps) {
        request->steps_free(request->steps);
    }
    kept_query_forget(request);
    relay_forget(request);
    front_approvals_forget(request);
    stream_free(request->stream);
    if (request->call) {
        request->door->call_free(request->call);
    }
    if (request->status == 0) {
        request->status = 499;
    }
    uint64_t duration_ns = clock_now_ns() - request->start_ns;
    char code[16];
    snprintf(code, sizeof code, "%u", request->status);
    const char *path = inbound->route ? inbound->route->path : "other";
    metrics_add(front->metrics, METRIC_HTTP_REQUESTS, path, code, 1);
    metrics_observe(front->metrics, METRIC_HTTP_DURATION, (double)duration_ns / (double)NS_PER_S);
    log_access(request, sent, duration_ns);
    note_span(request, inbound->route ? path : NULL, path);
    deadline_leave(&inbound->held);
    stop_decoding(inbound);
    body_clear(&request->body);
    if (request->shown_key) {
        explicit_bzero(request->shown_key, strlen(request->shown_key));
        free(request->shown_key);
    }
    http_set_user(http, NULL);
    free(inbound);
}

const struct http_events inbound_events = {
    .headers = on_headers,
    .complete = on_complete,
    .fault = on_fault,
    .fill = on_fill,
    .half_closed = on_half_closed,
    .hangup = on_hangup,
    .dropped = on_dropped,
    .end = on_end,
};
