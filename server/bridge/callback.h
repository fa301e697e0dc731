/* struct callback_client: POSTs tool calls to callback URLs, many at a time, over connections that are kept.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct buf;
struct callback_client;
struct callback_config;
struct callback_transfer;
struct err;
struct log;
struct loop;

enum callback_outcome {
    CALLBACK_ANSWERED, /* by the server: `status` and its body */
    CALLBACK_FAILED,   /* it could not be asked, or its answer not be taken: `why` */
};

struct callback_answer {
    enum callback_outcome outcome;
    long status;
    struct buf *body;
    const char *why; /* a few words */
};

struct callback_request {
    const char *url; /* that the configuration allows */
    const char *body;
    size_t body_size;                  /* kept by the client's own copy */
    const char *traceparent;           /* "": none */
    const char *request_id;            /* NULL: none */
    const char *header, *header_value; /* one more; NULL: none */
    const char *secret;                /* the body is signed with; "": not signed */
    uint64_t timeout_ms;
    /* Called once, unless it is cancelled, and never before callback_post() has returned. */
    void (*done)(void *arg, const struct callback_answer *answer);
    void *arg;
};

/* Where a client's calls may go. */
struct callback_places {
    const struct callback_config *entries;
    size_t n_entries;
    bool any; /* others too: every address in numbers, and localhost */
    const char *ca_file;
    uint64_t max_answer_bytes;
};

/* Reads certificates and looks up the names of hosts: all that this process cannot do once
 * it is confined. A name that cannot be looked up is logged; calls to it fail. `places` are copied, their
 * texts are not. */
int callback_client_new(struct loop *loop, struct log *log, const struct callback_places *places,
                        struct callback_client **ret, struct err *reterr);
/* Cancels what is under way, without telling anybody. Takes NULL. */
void callback_client_free(struct callback_client *client);

/* A connection to the host and port of `to`, with TLS where it says https. `done` is called once it is there
 * (CALLBACK_ANSWERED), or has failed and is gone; callback_cancel() closes it. */
int callback_connect(struct callback_client *client, const struct callback_config *to,
                     void (*done)(void *arg, const struct callback_answer *answer), void *arg,
                     struct callback_transfer **ret);
/* Of a connection that is there. Bytes that were sent or received; 0: the other end sends no more; -EAGAIN;
 * -EPIPE: it is broken. What is sent again after -EAGAIN must be the same, at the same place. */
int callback_fd(const struct callback_transfer *transfer);
ssize_t callback_send(struct callback_transfer *transfer, const void *data, size_t size);
ssize_t callback_receive(struct callback_transfer *transfer, void *data, size_t size);

int callback_post(struct callback_client *client, const struct callback_request *request,
                  struct callback_transfer **ret);
/* What calls have been begun for; after each round of the loop. */
void callback_client_run(struct callback_client *client);
/* `done` is not called any more. */
void callback_cancel(struct callback_transfer *transfer);
