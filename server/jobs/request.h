/* struct request: one HTTP request on its way through the front: who asks, what for, under which name it is
 * logged. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/callers/auth.h"
#include "server/doors/error_reply.h"
#include "server/jobs/body.h"
#include "server/kit/ident.h"
#include "server/kit/spans.h"

struct approval_pending;
struct buf;
struct door;
struct err;
struct front;
struct http_header;
struct http_request;
struct kept_query_pending;
struct relay_pending;
struct running;
struct session_query_pending;
struct stream;

struct request {
    struct front *front;
    struct http_request *http;
    const struct door *door; /* of the job that it asks for; NULL: it asks for none */
    void *call;              /* which of its door's calls it is; NULL: the door has none */
    const char *argument;    /* what its path names, not decoded; "": nothing */
    size_t argument_length;
    struct caller caller; /* `name` NULL: not identified */
    char id[IDENT_BYTES];
    char traceparent[TRACEPARENT_BYTES]; /* "": none */
    struct trace trace;
    uint64_t start_ns;
    unsigned status;
    size_t reply_bytes;
    bool body_is_read;
    struct body_reading body;            /* see body_of() */
    struct running *job;                 /* whose verdict it waits for */
    struct stream *stream;               /* what is told while the job runs; NULL: nothing */
    struct approval_pending *approval;   /* what the warden is to say about an approval */
    char *shown_key;                     /* the key itself, of routes that hand it to the warden; else NULL */
    struct session_query_pending *query; /* whose answer it waits for */
    struct kept_query_pending *kept_query; /* the same about kept jobs */
    struct relay_pending *relay;           /* the same of another front */
    void *steps;                           /* what a handler that asks on keeps; NULL: nothing */
    void (*steps_free)(void *steps);       /* at its end */
};

/* Each answers the request and takes the body. */
void request_reply(struct request *request, unsigned status, const char *content_type, struct buf *body);
/* 202, with where to ask later. Takes the body. */
void request_reply_accepted(struct request *request, const char *location, struct buf *body);
/* 200, with events from request->stream. */
void request_reply_events(struct request *request);
/* 200 with JSON and one header more. Takes the body. */
void request_reply_named(struct request *request, const char *name, const char *value, struct buf *body);
/* With these headers, 10 at most, and no others but its id. Takes the body. */
void request_reply_headers(struct request *request, unsigned status, const struct http_header *headers,
                           size_t n, struct buf *body);
/* 202 without a body: taken, and there is nothing to say. */
void request_reply_noted(struct request *request);
/* 204. */
void request_reply_empty(struct request *request);
/* `text` and `field` may be NULL; see error_write(). */
void request_refuse(struct request *request, enum error_class class, const char *text, const char *field);
/* 405; `allow` are the methods that the path takes. */
void request_refuse_method(struct request *request, const char *allow);
/* ERR_INVALID where X-Immure-Session, by which a proxy finds the server that has a session, is there and is
 * not `session_id` (NULL: the request has none). */
int request_check_session(const struct request *request, const char *session_id, struct err *reterr);
/* By err.kind; internal errors are logged. `retry_after_ms` is used where the status asks for one. */
void request_refuse_err(struct request *request, const struct err *err, uint64_t retry_after_ms);
