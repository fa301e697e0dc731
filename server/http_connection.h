/* struct http_connection: one TCP connection: what it waits for, until when, and whether its other end is
 * still there. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/deadline.h"

struct err;
struct http_request;
struct loop;
struct loop_source;
struct MHD_Connection;

/* What a connection waits for. The first ones have deadlines, and a queue each. */
enum http_phase {
    HTTP_NEW,       /* the first byte ever */
    HTTP_IDLE,      /* the first byte of another request */
    HTTP_RECEIVING, /* its last byte */
    HTTP_LINGERING, /* the caller's end of a refused request */
    HTTP_PHASES_WITH_DEADLINE,
    HTTP_WORKING = HTTP_PHASES_WITH_DEADLINE, /* the reply, from above */
    HTTP_REPLYING,                            /* the socket to take it, or to be closed */
    HTTP_STREAMING,                           /* the rest of a reply that comes bit by bit */
};

struct http_connection {
    struct deadline deadline; /* first, so that one is the other */
    struct http_connections *all;
    struct MHD_Connection *mhd;
    int fd;
    struct loop_source *watch;
    struct http_request *request;
    enum http_phase phase;
    bool peer_closed;
    bool served; /* one request at least */
    /* Of the request that is being read, query included. */
    const char *target_end;
    bool target_is_sound;
    struct http_connection *previous, *next;
};

struct http_connections {
    struct loop *loop;
    void *arg; /* for the callbacks */
    /* A request's deadline has passed. Where this does not move the connection on, it is closed. */
    void (*too_slow)(struct http_connection *connection);
    /* The caller has hung up while its reply was awaited. */
    void (*hung_up)(struct http_connection *connection);
    struct http_connection *first;
    size_t count;
    bool some_peer_closed; /* of connections that are not closed yet */
    struct deadlines deadlines;
    struct deadline_queue queues[HTTP_PHASES_WITH_DEADLINE];
};

/* The loop, the callbacks and their `arg` are set. */
int http_connections_start(struct http_connections *all, uint64_t idle_timeout_ms,
                           uint64_t request_timeout_ms, struct err *reterr);
void http_connections_stop(struct http_connections *all);

/* NULL: no memory or no room in the loop. The descriptor stays the caller's. */
struct http_connection *http_connection_new(struct http_connections *all, struct MHD_Connection *mhd, int fd);
void http_connection_free(struct http_connection *connection);
void http_connection_enter(struct http_connection *connection, enum http_phase phase);
/* Shuts both directions; whoever reads it sees the end and closes. */
void http_connection_give_up(struct http_connection *connection);

/* Gives up those whose other end is closed, that wait for bytes, and that have none left to read. */
void http_connections_close_ended(struct http_connections *all);
/* How many wait for a request. */
size_t http_connections_waiting(const struct http_connections *all);
/* Gives up the one that has waited for a request longest, if any has for a second. */
void http_connections_close_oldest(struct http_connections *all);
/* Gives up those that have been served and wait for another request. */
void http_connections_close_idle(struct http_connections *all);
