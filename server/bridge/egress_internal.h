/* What egress.c (frames of a job) and egress_connection.c (one connection) share. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "jail/base/buf.h"

struct bridge;
struct callback_config;
struct callback_hosts;
struct loop;
struct loop_source;
struct server_config;
struct tools;

struct egress {
    struct loop *loop;
    const struct server_config *config;
    struct callback_hosts *hosts;
    struct buf ca; /* certificates; empty: none */
};

struct egress_job {
    const struct egress *egress;
    const struct tools *who;
    struct bridge *bridge;
    struct egress_connection *connections;
    unsigned n_open;
    uint64_t n_connections, bytes; /* so far */
};

#define EGRESS_ADDRESSES_MAX 16

struct egress_connection {
    struct egress_job *job;
    struct egress_connection *previous, *next;
    uint64_t id; /* the program's own */
    const struct callback_config *to;
    struct sockaddr_storage addresses[EGRESS_ADDRESSES_MAX];
    size_t n_addresses, next_address;
    int fd;
    struct loop_source *source, *timer;
    bool open;          /* connected, and the program knows */
    struct buf waiting; /* of the program, not yet sent */
    size_t written;     /* of it */
    uint32_t credit;    /* bytes that the program is ready to take */
    bool program_ended; /* it sends no more */
    bool was_shut;      /* and the other end knows */
    bool server_ended;  /* neither does the other end */
    uint64_t sent, received, start_ns;
};

/* How a connection ended, or why there was none: the label in the metrics and in the audit trail. */
#define EGRESS_CLOSED    "closed"
#define EGRESS_REFUSED   "refused"
#define EGRESS_FAILED    "failed"
#define EGRESS_LIMIT     "limit"
#define EGRESS_TIMEOUT   "timeout"
#define EGRESS_CANCELLED "cancelled"

/* Counts it and writes its line into the audit trail. */
void egress_note(const struct tools *who, const char *host, uint64_t port, const char *outcome, uint64_t sent,
                 uint64_t received, uint64_t start_ns);

/* Begins a connection; the program is answered when it is there, or when it has failed. */
int egress_connect(struct egress_job *job, uint64_t id, const struct callback_config *to);
struct egress_connection *egress_find(const struct egress_job *job, uint64_t id);
/* Bytes of the program's; none: there will be no more. Returns NULL, or which rule they break. */
const char *egress_send(struct egress_connection *connection, const char *data, size_t size);
/* The program has room for so many more bytes. */
const char *egress_grant(struct egress_connection *connection, uint64_t bytes);
/* Closes it, and forgets it without a word to the program. */
void egress_end(struct egress_connection *connection, const char *outcome);
