/* What the parts of dispatch.h share: dispatch.c (a job on its way to the warden), dispatch_wait.c (one that
 * waits for a slot), dispatch_end.c (the warden's answers, and what becomes of them) and dispatch_record.c
 * (what is counted and noted of it). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/format/digest.h"
#include "config/message/message_kept.h"
#include "server/bridge/tools.h"
#include "server/callers/auth.h"
#include "server/doors/door.h"
#include "server/jobs/request.h"
#include "server/callers/slot_queue.h"
#include "server/callers/terminations.h"
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
    struct trace trace;             /* the span of its program */
    uint64_t start_ns, deadline_ns; /* the latest that it can end, but for the jail's own setup */
    struct slot_wait wait;          /* for a slot */
    bool waits_for_session;         /* for its session's job that runs, too */
    uint64_t queued_ns;             /* that it has waited */
    struct execute_request
        execute; /* until it is with the warden; if it may have to wait again, until it has begun */
    struct job_io *io;
    char *callback_url;
    struct bridge *bridge;
    struct egress_job *egress;        /* NULL: it has not asked for a package index */
    struct proxy_job *proxy;          /* NULL: its policy names no host, or it has not begun */
    struct kept_row kept;             /* of one that the warden keeps; its id is "" where nobody asks later */
    char *code;                       /* the beginning of its code, for the audit trail; NULL: not wanted */
    char *reason;                     /* why an evaluator's run was ended; NULL: none */
    bool approved;                    /* it runs whoever waits for it */
    bool ended;                       /* by somebody's word; the warden may not have heard of it */
    bool terminated;                  /* before it had begun: whatever it gives is not told */
    struct dispatch_waiting *waiting; /* what its request goes back to if it does not begin; NULL: none */
    bool results;                     /* what it shows is asked for */
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
    struct running *jobs; /* that wait for a slot or are with the warden */
    size_t n_jobs;
    struct terminations terminations; /* of an evaluator's runs */
    uint64_t last_id;
    struct slot_queue *queue;
    struct loop_source *queue_timer;
};

/* ---- dispatch_wait.c ---- */

int dispatch_wait_open(struct dispatch *dispatch, struct err *reterr);
void dispatch_wait_close(struct dispatch *dispatch);
/* A new one may wait as long as its request says, or the server. */
void dispatch_allow_wait(struct running *job);
/* Whether others are before a new one, or its key's own jobs in its way; and whether it may wait for them. */
bool dispatch_must_wait(const struct running *job);
bool dispatch_may_wait(const struct running *job);
/* It takes its place. `was_refused`: by the warden. */
void dispatch_wait(struct running *job, bool was_refused);
/* What is said to a caller for whom there is no slot, and no place: ERR_BUSY, or ERR_RATE where its key's own
 * jobs are in the way. */
int dispatch_no_slot(const struct dispatch *dispatch, const struct caller *caller,
                     uint64_t *ret_retry_after_ms, struct err *reterr);
/* Something has changed: whose turn it is begins. */
void dispatch_tend(struct dispatch *dispatch);

/* ---- dispatch.c ---- */

/* How many are with the warden. */
size_t dispatch_jobs_sent(const struct dispatch *dispatch);
void dispatch_show_jobs(const struct dispatch *dispatch);
/* Gives it to the warden. */
int dispatch_launch(struct running *job, struct err *reterr);
/* Whether its key's jobs, or its team's, leave room for one more. */
int dispatch_check_load(const struct dispatch *dispatch, const struct caller *caller,
                        uint64_t *ret_retry_after_ms, struct err *reterr);

/* NULL: none of that number is with the warden. */
struct running *dispatch_find(const struct dispatch *dispatch, uint64_t id);
/* Out of the table. */
void dispatch_unlink(struct running *job);
/* Takes NULL. */
void dispatch_job_free(struct running *job);
/* The warden is to end it. */
void dispatch_send_cancel(const struct running *job);
/* The head of the job's event stream, unless it has been sent. */
void dispatch_begin_stream(struct running *job);

/* ---- dispatch_answers.c ---- */

/* The job's caller is told of a call, under this id. `arg`: the job. */
void dispatch_tell_call(void *arg, const char *id, const struct bridge_call *call);
/* And of what the program shows, before the reply has all of it. */
void dispatch_tell_shown(void *arg, const char *json_text, size_t size);

/* ---- dispatch_record.c ---- */

/* The beginning of its code, where the audit trail is to hold some. */
int dispatch_keep_code(struct running *job, struct err *reterr);
/* It has ended so. */
void dispatch_record(const struct running *job, const struct job_result *result);
/* It has waited for a slot, and will not begin: the audit log says so, and the metrics. `refused`: its caller
 * is told, and those requests are counted elsewhere. */
void dispatch_note_waited(const struct running *job, bool refused);
