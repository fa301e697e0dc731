/* struct http_connection: one connection: what it waits for, until when, and what waits to be written. */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "jail/base/buf.h"
#include "server/kit/deadline.h"

struct err;
struct http_request;
struct loop;
struct loop_source;

/* What a connection waits for. All have deadlines, and a queue each. */
enum http_phase {
    HTTP_NEW,       /* the first byte ever */
    HTTP_IDLE,      /* the first byte of another request */
    HTTP_HEADING,   /* the last byte of its headers */
    HTTP_RECEIVING, /* its last byte */
    HTTP_WORKING,   /* the reply, from above; the deadline is for looking whether the caller is still there */
    HTTP_REPLYING,  /* the socket to take it */
    HTTP_STREAMING, /* the rest of a reply that comes bit by bit */
    HTTP_LINGERING, /* the caller's end of a connection that takes no more requests */
    HTTP_PHASES,
};

union http_address {
    struct sockaddr any;
    struct sockaddr_in ip4;
    struct sockaddr_in6 ip6;
    struct sockaddr_storage storage; /* what accept() may write */
};

struct http_connection {
    struct deadline deadline;
    struct http_connections *all;
    int fd;
    union http_address address;
    uint64_t network; /* see http_address_network() */
    struct loop_source *watch;
    uint32_t watched; /* EPOLL* bits */
    enum http_phase phase;
    bool readable;    /* as far as we know */
    bool half_closed; /* the other end sends no more */
    bool asked;       /* whether it still reads, lately */
    bool hung_up;     /* nor reads */
    bool known;       /* has shown a valid key */
    bool served;      /* one request at least */
    bool last;        /* ends with what waits to be written */
    bool waiting;     /* to be looked at */
    bool dropped;     /* its caller does not read: it is closed in this round */
    bool closed;      /* is freed after the round */
    struct buf in;
    size_t scanned;        /* of it, see http_syntax_head_size() */
    struct buf head, body; /* what waits to be written, `sent` bytes of it having gone */
    size_t sent;
    uint64_t sent_in_all;
    uint64_t acknowledged; /* of it, when it was looked at last */
    unsigned account;      /* whose key has been shown last; 0: nobody's */
    struct http_request *request;
    struct http_connection *previous, *next;           /* of the known or the strangers */
    struct http_connection *same_before, *same_behind; /* of the networks with the same hash */
    struct http_connection *next_ready;                /* or dead */
};

/* Those that are to be looked at, in the order in which something happened. */
struct http_connection_queue {
    struct http_connection *first, *last;
};

/* In the order in which they came. */
struct http_connection_list {
    struct http_connection *first, *last;
    size_t count;
};

#define HTTP_NETWORK_LISTS 1024

struct http_connections {
    struct loop *loop;
    void *arg; /* for the callbacks */
    /* Its deadline has passed. */
    void (*late)(struct http_connection *connection);
    /* It is about to be closed: its request ends. */
    void (*closing)(struct http_connection *connection);
    struct http_connection_list known, strangers;
    struct http_connection *networks[HTTP_NETWORK_LISTS]; /* each list with the newest first */
    uint64_t seed;
    struct http_connection_queue ready;  /* those who have shown a key, and new ones */
    struct http_connection_queue others; /* those who have had something without a key, and want more */
    struct http_connection *dead;
    struct deadlines deadlines;
    struct deadline_queue queues[HTTP_PHASES]; /* a timeout of 0: none */
};

/* The loop, the callbacks, their `arg` and the timeouts of the queues are set. */
int http_connections_start(struct http_connections *all, struct err *reterr);
void http_connections_stop(struct http_connections *all);
size_t http_connections_count(const struct http_connections *all);

/* NULL: no memory or no room in the loop. The descriptor is the connection's then, and otherwise stays the
 * caller's. */
struct http_connection *http_connection_new(struct http_connections *all, int fd,
                                            const union http_address *address);
/* Ends its request and closes it; it is freed by http_connections_free_closed(). */
void http_connection_close(struct http_connection *connection);
/* The same, and the kernel forgets what it has not delivered, which it would keep for minutes. */
void http_connection_reset(struct http_connection *connection);
/* Whether the kernel still has something to deliver, and how much of all it has delivered (TCP only: a unix
 * socket has handed over what it was given). */
bool http_connection_is_sending(const struct http_connection *connection, uint64_t *ret_acknowledged);
/* Frees those that are closed, which nobody may use any more. */
void http_connections_free_closed(struct http_connections *all);

void http_connection_enter(struct http_connection *connection, enum http_phase phase);
/* It is to be looked at in this round: there are bytes to be written. */
void http_connection_ready(struct http_connection *connection);
/* The next one of these that is to be looked at; NULL: none. */
struct http_connection *http_connections_take(struct http_connections *all,
                                              struct http_connection_queue *queue);
/* A valid key has been shown. */
void http_connection_know(struct http_connection *connection);

/* Reads once into `in`, at most so much. False: nothing has come; at the end the connection is closed. */
bool http_connection_read(struct http_connection *connection, size_t size);
/* Takes so many bytes from the front of `in`, and leaves no copy of them. */
void http_connection_consume(struct http_connection *connection, size_t size);
/* Writes what waits. True: all of it has gone. Where the other end is gone, the connection is closed. */
bool http_connection_flush(struct http_connection *connection);
/* Reads and drops what has come; closes the connection at its end. */
void http_connection_drop_input(struct http_connection *connection);
/* Whether bytes of it are there that nobody has looked at yet. */
bool http_connection_has_spoken(const struct http_connection *connection);
void http_connection_shut_output(struct http_connection *connection);

/* An IPv4 address, or the half of an IPv6 address that its owner cannot choose; 0: unix. */
uint64_t http_address_network(const union http_address *address);
/* How many connections a network has, and the oldest of its strangers (NULL: none). */
size_t http_connections_of(const struct http_connections *all, uint64_t network,
                           struct http_connection **ret_stranger);
