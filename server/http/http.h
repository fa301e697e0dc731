/* HTTP/1.1: connections, requests, replies, deadlines. Knows nothing of routes, JSON or jobs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "server/http/wire.h"

struct buf;
struct err;
struct http_request;
struct http_server;
struct loop;

struct http_options {
    int listen_fd; /* bound and listening; stays the caller's */
    size_t max_body_bytes, max_header_bytes;
    /* Who asks, as http_set_account() says: at least 1, nobody. */
    size_t n_accounts;
    size_t max_bodies_bytes;       /* of all requests at once, shared by accounts (server/http/budget.h) */
    size_t max_small_bodies_bytes; /* besides, of those with at most small_body_bytes */
    size_t small_body_bytes;
    /* Of replies that wait to be read, of all and of one account. */
    size_t max_unread_bytes, max_unread_bytes_per_account;
    uint64_t reply_stall_ms;     /* in which a caller must take something of its reply */
    uint64_t header_timeout_ms;  /* from a request's first byte to the last of its headers */
    uint64_t request_timeout_ms; /* from there to its last byte; a ceiling for the former, too */
    uint64_t idle_timeout_ms;
    unsigned max_connections, max_connections_per_address; /* 0: no limit of the latter */
};

/* What is wrong with a request before anybody has looked at what it asks for. */
enum http_fault {
    HTTP_FAULT_SYNTAX,            /* server/http/syntax.h */
    HTTP_FAULT_FRAMING,           /* where the body ends is not clear */
    HTTP_FAULT_CHUNKS,            /* the body is malformed */
    HTTP_FAULT_HEADERS_TOO_LARGE, /* max_header_bytes, or too many */
    HTTP_FAULT_BODY_TOO_LARGE,    /* max_body_bytes */
    HTTP_FAULT_TOO_SLOW,          /* header_timeout_ms, request_timeout_ms */
    HTTP_FAULT_OVERLOADED,        /* max_bodies_bytes */
    HTTP_FAULT_NO_SHARE,          /* the account's share of them */
};

/* Why a caller does not get the rest of its reply. */
enum http_drop {
    HTTP_DROP_STALLED, /* reply_stall_ms */
    HTTP_DROP_BUDGET,  /* max_unread_bytes; it was the slowest */
};

/* A request is announced by `headers` or by `fault`, and its last word is `end`. A reply can be given in any
 * of the first three; it must be given in `fault`, and otherwise after `complete`, some time. */
struct http_events {
    /* The body, if any, has not been read. A reply given here refuses it. */
    void (*headers)(void *arg, struct http_request *request);
    /* The whole body is there. */
    void (*complete)(void *arg, struct http_request *request);
    /* Also after `headers`. With as much of method, path and headers as could be read. */
    void (*fault)(void *arg, struct http_request *request, enum http_fault fault);
    /* The next bytes of a stream, as the socket takes them: how many; 0: none now, until http_stream_wake();
     * -1: it ends here. */
    ssize_t (*fill)(void *arg, struct http_request *request, char *data, size_t size);
    /* The caller sends no more: whether it reads a stream is learned only by saying something. */
    void (*half_closed)(void *arg, struct http_request *request);
    /* The caller has closed the connection before the reply, or before the end of a stream: no more can be
     * said. */
    void (*hangup)(void *arg, struct http_request *request);
    /* It does not read: the rest of its reply, of which so much waits here, is not sent. `end` follows. NULL:
     * not wanted. */
    void (*dropped)(void *arg, struct http_request *request, enum http_drop why, size_t bytes);
    /* The reply is with the kernel (`sent`), or the connection is gone. The request is freed on return. */
    void (*end)(void *arg, struct http_request *request, bool sent);
};

/* Copies options and events. The loop outlives it. */
int http_server_new(struct loop *loop, const struct http_options *options, const struct http_events *events,
                    void *arg, struct http_server **ret, struct err *reterr);
/* Drops all connections; every request gets its `end`. Takes NULL. */
void http_server_free(struct http_server *server);

/* Around each round of the loop: how long it may wait (-1: as long as it likes), and what is to be done after
 * it: what is sent is sent there. */
int http_server_timeout_ms(const struct http_server *server);
void http_server_run(struct http_server *server);

/* Who takes the connections of the listening socket from now on. */
enum http_heir {
    HTTP_HEIR_NONE, /* nobody: those that the kernel has accepted are taken here, and idle ones are closed */
    HTTP_HEIR_SERVES, /* another process, now */
    HTTP_HEIR_COMES,  /* another process, when this one has ended */
};

/* Each reply ends its connection from now on. Where there is an heir, whoever has been served, or has only
 * just come, may be about to speak: its connection stays open for `quiet_ms`, so that its next request is not
 * lost, and is answered. An heir that is still to come does not find connections that have waited for that:
 * until no served one is open any more, new ones are taken here. */
void http_server_drain(struct http_server *server, enum http_heir heir, uint64_t quiet_ms);
/* There are so many keys now, and accounts: at least as many as before. -ENOMEM: to be ended. */
int http_server_set_keys(struct http_server *server, size_t n_keys, size_t n_accounts,
                         size_t max_unread_bytes_per_account);
/* Connections with a request on its way in or out. */
size_t http_server_busy(const struct http_server *server);
size_t http_server_connections(const struct http_server *server);

/* Texts and the body are the request's, and there until its `end`. */
const char *http_method(const struct http_request *request); /* "" where it has not arrived */
const char *http_path(const struct http_request *request);   /* without query, not decoded; "" likewise */
const char *http_header(const struct http_request *request, const char *name); /* NULL: none */
/* The arguments of the path's query in their order, as they were sent: NAME or NAME=VALUE. The first where
 * `argument` is NULL; NULL behind the last. */
const char *http_next_argument(const struct http_request *request, const char *argument);
/* The value of the first one of that name; NULL: none. */
const char *http_argument(const struct http_request *request, const char *name);
size_t http_header_count(const struct http_request *request, const char *name);
/* Overwrites a header's value, so that a secret is not kept in memory. */
void http_wipe_header(struct http_request *request, const char *name);
/* It has shown a valid key: its connection does not make room for those without. */
void http_trust(struct http_request *request);
bool http_has_body(const struct http_request *request); /* announced, or there */
const struct buf *http_body(const struct http_request *request);
/* Before its `end`, when nobody needs it any more. */
void http_free_body(struct http_request *request);
/* It is the caller's then, and in no budget. */
void http_take_body(struct http_request *request, struct buf *ret);
/* The caller's network: an IPv4 address, or the half of an IPv6 address that its owner cannot choose; 0:
 * unix. */
uint64_t http_client_network(const struct http_request *request);
/* "192.0.2.1", "unix". INET6_ADDRSTRLEN bytes are enough. */
void http_client(const struct http_request *request, char *ret, size_t size);

/* The caller's own; never looked at here. */
void http_set_user(struct http_request *request, void *user);
void *http_user(const struct http_request *request);

/* Whose it is, in `headers`; 0, which it is before, is nobody's. */
void http_set_account(struct http_request *request, unsigned account);

/* In `headers`: the reply comes later, and nothing of the request is read until then. */
void http_hold(struct http_request *request);
/* Once per request. Copies the headers and takes the body, on failure too. A failure closes the connection.
 */
void http_reply(struct http_request *request, unsigned status, const struct http_header *headers,
                size_t n_headers, struct buf *body);
/* The same with a body that comes bit by bit, through `fill`. A caller that does not read holds up nobody. */
void http_stream(struct http_request *request, unsigned status, const struct http_header *headers,
                 size_t n_headers);
void http_stream_wake(struct http_request *request);
/* So many bytes are kept by the caller to be told in it, in all. May drop it, or others. */
void http_stream_holds(struct http_request *request, size_t bytes);
/* Connections that were closed unheard, or had to make room for others. */
uint64_t http_server_refused(const struct http_server *server);
/* What is kept of all replies. */
size_t http_server_unread_bytes(const struct http_server *server);
