/* struct callback_client: POSTs tool calls to callback URLs, many at a time, over connections that are kept.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct buf;
struct callback_client;
struct callback_transfer;
struct err;
struct log;
struct loop;
struct server_config;

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
    size_t body_size;        /* kept by the client's own copy */
    const char *traceparent; /* "": none */
    const char *request_id;
    uint64_t timeout_ms;
    /* Called once, unless it is cancelled, and never before callback_post() has returned. */
    void (*done)(void *arg, const struct callback_answer *answer);
    void *arg;
};

/* Reads certificates and looks up the names of hosts: all that this process cannot do once
 * it is confined. A name that cannot be looked up is logged; calls to it fail. */
int callback_client_new(struct loop *loop, struct log *log, const struct server_config *config,
                        struct callback_client **ret, struct err *reterr);
/* Cancels what is under way, without telling anybody. Takes NULL. */
void callback_client_free(struct callback_client *client);

int callback_post(struct callback_client *client, const struct callback_request *request,
                  struct callback_transfer **ret);
/* What calls have been begun for; after each round of the loop. */
void callback_client_run(struct callback_client *client);
/* `done` is not called any more. */
void callback_cancel(struct callback_transfer *transfer);
