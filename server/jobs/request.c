/* Replies to requests, with the headers that belong to them. Runs in the front. */
#include "server/jobs/request.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/doors/door.h"
#include "server/http/http.h"
#include "server/jobs/front_context.h"
#include "server/kit/log.h"
#include "server/kit/metrics.h"

#define REPLY_HEADERS_MAX 6

/* Asked of a caller who comes while the server goes, or finds it full of bodies: another one may answer at
 * once. */
#define RETRY_SOON_MS 1000

static void reply_all(struct request *request, unsigned status, const struct http_header *headers, size_t n,
                      struct buf *body)
{
    request->status = status;
    request->reply_bytes = body->len;
    http_reply(request->http, status, headers, n, body);
}

static void reply_with(struct request *request, unsigned status, struct http_header *headers, size_t n,
                       struct buf *body)
{
    headers[n++] = (struct http_header){"X-Request-Id", request->id};
    headers[n++] = (struct http_header){"Cache-Control", "no-store"};
    reply_all(request, status, headers, n, body);
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

void request_reply_headers(struct request *request, unsigned status, const struct http_header *headers,
                           size_t n, struct buf *body)
{
    struct http_header all[11];
    memcpy(all, headers, n * sizeof *headers);
    all[n++] = (struct http_header){"X-Request-Id", request->id};
    reply_all(request, status, all, n, body);
}

void request_reply_noted(struct request *request)
{
    struct http_header headers[REPLY_HEADERS_MAX];
    struct buf body = BUF_INIT;
    buf_puts(&body, "");
    reply_with(request, 202, headers, 0, &body);
}

int request_check_session(const struct request *request, const char *session_id, struct err *reterr)
{
    static const char name[] = "X-Immure-Session";
    const char *routed = http_header(request->http, name);
    if (!routed ||
        (session_id && strcmp(routed, session_id) == 0 && http_header_count(request->http, name) == 1)) {
        return 0;
    }
    return err_set(reterr, ERR_INVALID, EINVAL, name, "%s: must be sent once, and equal `session_id`", name);
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
    if (request->door && class != ERROR_SETUP) {
        metrics_add(request->front->metrics, METRIC_JOBS_REJECTED, error_code(class), NULL, 1);
    }
    reply_with(request, error_status(class), headers, n, body);
}

static void refuse(struct request *request, enum error_class class, const char *text, const char *field,
                   const char *allow)
{
    struct buf body = BUF_INIT;
    if (request->door && request->door->encode_error) {
        request->door->encode_error(error_status(class), text ? text : error_sentence(class), &body);
    } else {
        error_write(&body, class, text, field, NULL);
    }
    reply_error(request, class, RETRY_SOON_MS, allow, &body);
}

void request_refuse(struct request *request, enum error_class class, const char *text, const char *field)
{
    refuse(request, class, text, field, NULL);
}

void request_refuse_method(struct request *request, const char *allow)
{
    refuse(request, ERROR_METHOD, NULL, NULL, allow);
}

void request_refuse_err(struct request *request, const struct err *err, uint64_t retry_after_ms)
{
    struct buf body = BUF_INIT;
    enum error_class class = error_class_of(err);
    bool leaving = class == ERROR_UNAVAILABLE && request->front->draining;
    if (error_status(class) >= 500 && class != ERROR_BUSY && !leaving) {
        LOG(request->front->log, LOG_ERROR, "request_failed", LOG_FIELD_STR("request_id", request->id),
            LOG_FIELD_STR("kind", err_kind_to_string(err->kind)), LOG_FIELD_STR("step", err->step),
            LOG_FIELD_STR("item", err->item), LOG_FIELD_STR("error", err->text));
    }
    if (request->door && request->door->encode_refusal) {
        metrics_add(request->front->metrics, METRIC_JOBS_REJECTED, error_code(class), NULL, 1);
        request->door->encode_refusal(request->call, err, &body);
        request_reply(request, 200, "application/json", &body);
        return;
    }
    if (request->door && request->door->encode_error) {
        bool is_ours = error_status(class) == 500;
        request->door->encode_error(error_status(class),
                                    is_ours || !*err->text ? error_sentence(class) : err->text, &body);
    } else {
        error_write_err(&body, err);
    }
    reply_error(request, class, retry_after_ms, NULL, &body);
}
