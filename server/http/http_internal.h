/* What the files of the HTTP server share. Each calls only those after it: server.c (its life, who gets a
 * place), http.c (requests and replies), unread.c (replies that wait to be read), request.c (what a request
 * says). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jail/base/buf.h"
#include "server/http/budget.h"
#include "server/http/connection.h"
#include "server/http/http.h"
#include "server/http/syntax.h"
#include "server/kit/deadline.h"

struct http_server {
    struct loop *loop;
    struct loop_source *listening;
    struct http_options options;
    struct http_events events;
    void *arg;
    struct http_connections connections;
    size_t n_keys;
    unsigned *counts; /* of connections, by account; for a moment */
    struct budget bodies, small_bodies;
    struct budget unread;
    struct deadlines replies;
    struct deadline_queue replies_sent; /* that are on their way */
    uint64_t paused_until_ns;           /* there is no room for another connection; 0: there is */
    uint64_t refused;                   /* connections */
    bool draining;
};

/* A reply on its way, see unread.c. */
struct http_unread {
    struct deadline deadline; /* of the next look */
    struct http_request *request;
    size_t bytes;
    uint64_t progress, since_ns;
};

struct http_request {
    struct http_unread unread;
    struct http_server *server;
    struct http_connection *connection;
    char *text; /* of the head */
    size_t text_size;
    struct http_head head;
    struct http_framing framing;
    struct http_chunks chunks;
    struct buf body;
    unsigned account;
    bool body_is_large; /* which budget it is in */
    bool is_quiet;      /* a stream without anything to say */
    bool body_announced, expects_continue;
    bool complete; /* all of it has come */
    bool held;     /* its reply comes later, and it is not read until then */
    bool replied;
    bool gone; /* the caller is no longer there */
    void *user;
};

/* ---- http.c ---- */

/* Goes as far as what has come, what is to be said and the socket let it; may close the connection. */
void http_serve(struct http_connection *connection);
/* Callbacks of struct http_connections. */
void http_on_late(struct http_connection *connection);
void http_on_closing(struct http_connection *connection);

/* ---- unread.c ---- */

/* The server's options and loop are set. */
int http_unread_start(struct http_server *server, struct err *reterr);
void http_unread_stop(struct http_server *server);
/* So many bytes of its reply are here, in all; may drop it, or others. */
void http_unread_hold(struct http_request *request, size_t bytes);
/* From now on it is sent. */
void http_unread_begin(struct http_request *request);
/* Nothing of it is here any more. */
void http_unread_end(struct http_request *request);
