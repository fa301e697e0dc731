/* What the two halves of dispatch.h share: dispatch.c (a job on its way to the warden) and dispatch_end.c
 * (the warden's answers, and what becomes of them). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/format/digest.h"
#include "config/message/message_kept.h"
#include "server/bridge/tools.h"
#include "server/callers/auth.h"
#include "server/jobs/request.h"
#include "server/kit/ident.h"

struct running {
    struct dispatch *dispatch;
    struct request *request; /* NULL: the caller has gone */
    struct running *previous, *next;
    uint64_t id;
    struct caller caller;
    const struct runtime_config *runtime;
    char *execution_id;
    char *session_id; /* NULL: none */
    char request_id[IDENT_BYTES], traceparent[TRACEPARENT_BYTES], code_sha256[SHA256_HEX];
    uint64_t start_ns, deadline_ns; /* the latest that it can end, but for the jail's own setup */
    struct job_io *io;
    char *callback_url;
    struct bridge *bridge;
    struct egress_job *egress;        /* NULL: it has not asked for a package index */
    struct kept_row kept;             /* of one that the warden keeps; its id is "" where nobody asks later */
    char *code;                       /* the beginning of its code, for the audit trail; NULL: not wanted */
    char *reason;                     /* why an evaluator's run was ended; NULL: none */
    bool approved;                    /* it runs whoever waits for it */
    struct dispatch_waiting *waiting; /* what its request goes back to if it does not begin; NULL: none */
    bool streams;                     /* its request hears of what happens */
    const struct door *door;          /* in whose words its reply is */
    void *state;                      /* the door's */
    bool has_outputs;                 /* the warden knows of files that the program has named */
    struct tools tools;
};

struct dispatch {
    struct front *front;
    struct channel *channel;
    struct admission *admission;
    struct running *jobs;
    size_t n_jobs;
    uint64_t last_id;
};

/* NULL: none of that number is with the warden. */
struct running *dispatch_find(const struct dispatch *dispatch, uint64_t id);
/* Out of the table. */
void dispatch_unlink(struct running *job);
/* Takes NULL. */
void dispatch_job_free(struct running *job);
/* The head of the job's event stream, unless it has been sent. */
void dispatch_begin_stream(struct running *job);
