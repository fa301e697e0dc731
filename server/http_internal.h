/* What the files of the HTTP server share: http_server.c (its life), http.c (requests and replies) and
 * http_request.c (what a request says). They alone include libmicrohttpd. */
#pragma once

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jail/base/buf.h"
#include "server/budget.h"
#include "server/deadline.h"
#include "server/http.h"
#include "server/http_connection.h"

/* Of libmicrohttpd, which is loaded when the HTTP server starts instead of linked: it brings GnuTLS and ten
 * more libraries along, and every `immure run` would wait a millisecond for them. */
#define HTTP_LIBRARY_FUNCTIONS                                                                               \
    X(add_response_header)                                                                                   \
    X(create_response_from_callback)                                                                         \
    X(create_response_from_buffer_with_free_callback)                                                        \
    X(destroy_response)                                                                                      \
    X(get_connection_info)                                                                                   \
    X(get_connection_values)                                                                                 \
    X(get_connection_values_n)                                                                               \
    X(get_daemon_info)                                                                                       \
    X(get_reason_phrase_for)                                                                                 \
    X(get_timeout)                                                                                           \
    X(get_version)                                                                                           \
    X(lookup_connection_value)                                                                               \
    X(queue_response)                                                                                        \
    X(quiesce_daemon)                                                                                        \
    X(resume_connection)                                                                                     \
    X(run)                                                                                                   \
    X(start_daemon)                                                                                          \
    X(stop_daemon)                                                                                           \
    X(suspend_connection)

struct microhttpd {
    void *handle;
#define X(name) __typeof__(MHD_##name) *name;
    HTTP_LIBRARY_FUNCTIONS
#undef X
};

struct http_server {
    struct microhttpd mhd;
    struct MHD_Daemon *daemon;
    struct loop *loop;
    struct loop_source *source;
    struct http_options options;
    struct http_events events;
    void *arg;
    struct http_connections connections;
    struct budget bodies, small_bodies;
    struct budget unread;
    struct deadlines replies;
    struct deadline_queue replies_sent; /* that are on their way */
    bool draining;
    bool reads_in_place; /* see http_syntax.h */
};

/* A reply on its way, see http_unread.c. */
struct http_unread {
    struct deadline deadline; /* of the next look; first, so that one is the other */
    struct http_request *request;
    size_t bytes;
    uint64_t progress, since_ns;
};

struct http_request {
    struct http_unread unread;
    struct http_server *server;
    struct http_connection *connection;
    const char *method, *path;
    struct buf body;
    unsigned account;
    bool body_is_large;    /* which budget it is in */
    bool is_quiet;         /* a stream without anything to say */
    uint64_t handed_bytes; /* of the reply, to the socket */
    bool body_announced, expects_continue;
    bool deciding; /* inside the handler's first call, where libmicrohttpd takes a reply before the body */
    bool held;     /* its reply comes later, and it is not read until then */
    bool last;     /* the connection ends with its reply */
    bool gone;     /* the caller has hung up */
    bool replied;
    bool streams;                  /* the reply comes bit by bit */
    bool refused;                  /* past libmicrohttpd */
    struct MHD_Response *response; /* made, not queued yet */
    unsigned status;
    void *user;
};

/* Callbacks of libmicrohttpd, of struct http_connections. */
enum MHD_Result http_handle(void *server, struct MHD_Connection *mhd, const char *path, const char *method,
                            const char *version, const char *data, size_t *size, void **request_slot);
void http_completed(void *unused, struct MHD_Connection *mhd, void **request_slot,
                    enum MHD_RequestTerminationCode code);
void http_on_hung_up(struct http_connection *connection);
void http_on_too_slow(struct http_connection *connection);

/* http_unread.c */
int http_unread_start(struct http_server *server, struct err *reterr);
void http_unread_stop(struct http_server *server);
/* So many bytes of its reply are here; may drop it, or others. */
void http_unread_hold(struct http_request *request, size_t bytes);
/* From now on it is sent. */
void http_unread_begin(struct http_request *request);
void http_unread_end(struct http_request *request);

/* The connection waits for its reply and libmicrohttpd leaves it alone. */
bool http_is_suspended(const struct http_server *server, const struct http_connection *connection);
