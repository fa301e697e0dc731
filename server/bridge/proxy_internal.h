/* What proxy.c (a job), proxy_request.c (what it asks for) and proxy_connection.c (how it gets it) share. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/server/callback_url.h"
#include "jail/base/buf.h"
#include "server/http/syntax.h"

struct callback_client;
struct callback_config;
struct callback_transfer;
struct loop;
struct loop_source;
struct egress_rule;
struct server_config;
struct tools;

#define PROXY_BUFFER_BYTES 16384u /* in each direction; and a request's head */
#define PROXY_METHOD_BYTES 32u

/* ---- proxy_request.c ---- */

/* Its texts lie where it was read. */
struct proxy_request {
    struct http_head head;
    struct http_framing framing;
    bool tunnel; /* CONNECT */
    char host[CALLBACK_HOST_BYTES];
    uint16_t port;
    const char *path; /* with its query; may lack the slash at its beginning */
};

/* Reads a whole head in place. Returns 0, or the status of a refusal and `*ret_why`. */
int proxy_request_read(char *text, size_t size, struct proxy_request *ret, const char **ret_why);

/* The rule that it may be sent by. NULL: none, with the status of a refusal and a sentence. */
const struct egress_rule *proxy_request_rule(const struct proxy_request *request,
                                             const struct egress_rule *rules, size_t n_rules, int *ret_status,
                                             struct buf *ret_why);

/* The head as the host is to get it, with the rule's own headers. False: no memory, or no such secret. */
bool proxy_request_write(const struct proxy_request *request, const struct egress_rule *rule,
                         const struct server_config *config, struct buf *ret);

/* ---- proxy.c ---- */

struct proxy {
    struct loop *loop;
    const struct server_config *config;
    struct callback_client *client;
    struct callback_config *hosts; /* of all rules */
    size_t n_hosts;
};

struct proxy_job {
    struct proxy *proxy;
    const struct tools *who;
    const struct egress_rule *rules;
    size_t n_rules;
    uint64_t *rule_bytes; /* of each rule, so far */
    uint64_t bytes;       /* of all */
    int listen_fd;
    struct loop_source *source, *timer;
    unsigned n_accepted; /* since the timer was set */
    struct proxy_connection *connections;
    unsigned n_open;
    uint64_t n_connections;               /* so far */
    void (*ended)(struct proxy_job *job); /* one of them has */
};

enum proxy_state {
    PROXY_HEAD,       /* the request is being read */
    PROXY_CONNECTING, /* to the host */
    PROXY_OPEN,       /* bytes go both ways */
    PROXY_LEAVING,    /* the host has gone; the program gets the rest */
};

/* Bytes on their way: those before `at` have gone. */
struct proxy_flow {
    struct buf buf;
    size_t at;
};

struct proxy_connection {
    struct proxy_job *job;
    struct proxy_connection *previous, *next;
    enum proxy_state state;
    int fd; /* to the program */
    struct loop_source *source, *host_source, *timer;
    struct callback_transfer *host;
    const struct egress_rule *rule;
    struct proxy_flow in;       /* of the program, not looked at; until there is a request, its head */
    struct proxy_flow up, down; /* to the host, to the program */
    size_t scanned;
    bool tunnel, chunked;
    struct http_chunks chunks;
    uint64_t body_left; /* where it is not chunked */
    bool body_ended;
    bool program_ended, host_ended; /* they send no more */
    bool host_told, program_told;   /* and the other one knows */
    bool host_deaf;                 /* it takes no more, and may still answer */
    bool more;                      /* the host may have sent more than its socket shows */
    bool noted;
    char method[PROXY_METHOD_BYTES], name[CALLBACK_HOST_BYTES];
    uint32_t port;
    unsigned status;
    size_t ignored;
    uint64_t sent, received, start_ns;
};

/* ---- proxy_pump.c ---- */

/* Why a connection ends. */
struct proxy_fault {
    int status; /* of the reply, where the program has had none yet; 0: there is nobody to be told */
    const char *outcome, *why;
};

size_t proxy_flow_left(const struct proxy_flow *flow);
/* Overwrites it: there may be a secret in it. */
void proxy_flow_clear(struct proxy_flow *flow);

/* Whether more of the program is wanted, once what it has said is passed on. */
bool proxy_hears_program(const struct proxy_connection *connection);
/* Moves what can be moved at once. False: the connection is to end. */
bool proxy_pump(struct proxy_connection *connection, struct proxy_fault *ret);
/* A program's bytes into a flow that is empty, and those for it out of one. 1: something has moved; 0:
 * nothing can; -1: it has gone. */
int proxy_hear(struct proxy_connection *connection);
int proxy_tell(struct proxy_connection *connection);

/* ---- proxy_connection.c ---- */

/* Takes the descriptor over. */
void proxy_connection_new(struct proxy_job *job, int fd);
void proxy_connection_end(struct proxy_connection *connection, const char *outcome);
