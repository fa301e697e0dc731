/* struct request: one HTTP request on its way through the front: who asks, what for, under which name it is
 * logged. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/callers/auth.h"
#include "server/doors/error_reply.h"
#include "server/jobs/turns.h"
#include "server/kit/deadline.h"
#include "server/kit/ident.h"

struct approval_pending;
struct buf;
struct err;
struct front;
struct http_events;
struct http_request;
struct mcp_call;
struct route;
struct running;
struct session_query_pending;
struct stream;

#define TRACEPARENT_BYTES 56

struct request {
    struct deadline held; /* a refusal that takes its time; first, so that one is the other */
    struct turn turn;     /* a large body waits to be decoded */
    struct front *front;
    struct http_request *http;
    const struct route *route; /* NULL: none */
    struct caller caller;      /* `name` NULL: not identified */
    char id[IDENT_BYTES];
    char traceparent[TRACEPARENT_BYTES]; /* "": none */
    uint64_t start_ns;
    unsigned status;
    size_t reply_bytes;
    struct running *job;                 /* whose verdict it waits for */
    struct stream *stream;               /* what is told while the job runs; NULL: nothing */
    struct approval_pending *approval;   /* what the warden is to say about an approval */
    char *shown_key;                     /* the key itself, of routes that hand it to the warden; else NULL */
    struct session_query_pending *query; /* whose answer it waits for */
    struct mcp_call *mcp;                /* what it is to be told as; NULL: as HTTP */
};

/* What the HTTP server calls; its `arg` is the struct front. */
extern const struct http_events request_events;

/* Whose turn has come. */
void request_take_turn(struct turn *turn);
/* Whose `held` it is. */
struct request *request_of_deadline(struct deadline *deadline);
/* Tells the caller that its key is none. */
void request_refuse_key(struct request *request);

/* Each answers the request and takes the body. */
void request_reply(struct request *request, unsigned status, const char *content_type, struct buf *body);
/* 202, with where to ask later. Takes the body. */
void request_reply_accepted(struct request *request, const char *location, struct buf *body);
/* 200, with events from request->stream. */
void request_reply_events(struct request *request);
/* 200 with JSON and one header more. Takes the body. */
void request_reply_named(struct request *request, const char *name, const char *value, struct buf *body);
/* 202 without a body: taken, and there is nothing to say. */
void request_reply_noted(struct request *request);
/* 204. */
void request_reply_empty(struct request *request);
/* `text` and `field` may be NULL; see error_write(). */
void request_refuse(struct request *request, enum error_class class, const char *text, const char *field);
/* False: a page of another host sends it, and has been refused. */
bool request_origin_fits(struct request *request);
/* By err.kind; internal errors are logged. `retry_after_ms` is used where the status asks for one. */
void request_refuse_err(struct request *request, const struct err *err, uint64_t retry_after_ms);
