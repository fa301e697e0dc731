/* struct dispatch: the jobs that are with the warden, and the replies that wait for them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct answer;
struct buf;
struct caller;
struct channel;
struct dispatch;
struct err;
struct execute_request;
struct front;
struct job;
struct job_result;
struct msg_egress;
struct key_config;
struct msg_refused;
struct request;
struct running;

/* Both stay the caller's. */
int dispatch_new(struct front *front, struct channel *channel, struct dispatch **ret, struct err *reterr);
/* Forgets all jobs; their requests must have ended. Takes NULL. */
void dispatch_free(struct dispatch *dispatch);

/* How many wait for a slot, or for their verdict, with or without a caller. */
size_t dispatch_jobs(const struct dispatch *dispatch);
/* The warden has said how things stand: other fronts' jobs may have ended. */
void dispatch_take_state(struct dispatch *dispatch);
/* The server shuts down: those that wait for a slot are refused. */
void dispatch_stop_waiting(struct dispatch *dispatch);

/* When a request is answered. */
enum dispatch_way {
    DISPATCH_REPLY,  /* when the verdict is there */
    DISPATCH_KEEP,   /* when the program has started; the warden keeps its result */
    DISPATCH_STREAM, /* from then on, until the verdict is there (server/jobs/stream.h) */
};

/* Of all jobs, the one behind `job`; NULL: the first. */
struct running *dispatch_next(const struct dispatch *dispatch, const struct running *job);
/* NULL: its caller has gone. */
struct request *dispatch_request(const struct running *job);

/* Gives a job to the warden, or lets it wait for a slot as long as it may (`queue_ms`). Takes what `execute`
 * holds. With `*ret_retry_after_ms`: ERR_RATE, the key's own limit; ERR_BUSY, no slot. */
int dispatch_start(struct dispatch *dispatch, struct request *request, struct execute_request *execute,
                   enum dispatch_way way, uint64_t *ret_retry_after_ms, struct err *reterr);

/* Whether this caller may start a job now, as dispatch_start() would say where it may not wait, and that it
 * has; lowers the job's timeout to the key's own. */
int dispatch_check(struct dispatch *dispatch, const struct caller *caller, struct job *job,
                   uint64_t *ret_retry_after_ms, struct err *reterr);
void dispatch_count(struct dispatch *dispatch, const struct caller *caller);

/* What this caller answers to the tool calls of its running jobs of that name; `text` is what `answers` was
 * read from. Appends the reply. ERR_NOT_FOUND: none of them has told of calls. ERR_CONFLICT: no answer was
 * for a call that waits. */
int dispatch_answer(struct dispatch *dispatch, const struct key_config *key, const char *execution_id,
                    const char *text, const struct answer *answers, size_t n, struct buf *ret,
                    struct err *reterr);
/* Of the key's job that the warden keeps under this id: appends what it waits to be answered, a member
 * `calls`, unless it tells of no calls. False: no such job runs here. */
bool dispatch_write_calls(const struct dispatch *dispatch, const struct key_config *key, const char *job_id,
                          struct buf *ret);

/* The configuration has other keys now. -ENOMEM: to be ended. */
int dispatch_set_keys(struct dispatch *dispatch);

/* What a request has waited in until its job was to run. */
struct dispatch_waiting {
    /* The job has not begun: `request` waits in it as before. NULL: nobody does any more; frees it. */
    void (*resume)(struct dispatch_waiting *waiting, struct request *request);
};

/* Who had asked for a job, and under which names. */
struct dispatch_origin {
    const struct caller *caller;
    const char *request_id, *traceparent; /* NULL: none */
    const struct trace *trace;            /* that it is a part of; NULL: that of `traceparent` */
    uint64_t start_ns;
    const char *approval_id;          /* NULL: it needed no approval */
    struct dispatch_waiting *waiting; /* NULL: no request has waited */
};
/* Runs a job that has been approved, which the warden has. Its result is kept under the approval's id; a
 * request (NULL: none) is answered with it as well. Takes what `execute` holds, and `origin->waiting`, where
 * it succeeds. */
int dispatch_run(struct dispatch *dispatch, struct request *request, const struct dispatch_origin *origin,
                 struct execute_request *execute, struct err *reterr);

/* The caller has gone: the job is to end, and nobody waits for its verdict but the audit log. */
void dispatch_cancel(struct running *job);

/* Ends the runs of an evaluator that this caller has given this name; the others go on. False: there is none,
 * nor was there. `reason` NULL: none. */
bool dispatch_end_runs(struct dispatch *dispatch, const struct key_config *key, const char *execution_id,
                       const char *reason);
/* For the run that may come yet (server/callers/terminations.h). */
int dispatch_note_termination(struct dispatch *dispatch, const struct key_config *key,
                              const char *execution_id, const char *reason, struct err *reterr);

/* Ends a run that has just been started, and that its caller had given up before. Returns 0. */
int dispatch_heed_termination(struct request *request);

/* The warden's answers. -ENOENT where it answers for a job that it was not given. */
int dispatch_done(struct dispatch *dispatch, struct job_result *result);
int dispatch_started(struct dispatch *dispatch, uint64_t id);
/* The socket on which its program finds the proxy to the hosts of its policy stays the caller's; -1: it got
 * lost, and the program reaches nobody. */
int dispatch_take_egress(struct dispatch *dispatch, const struct msg_egress *egress, int listen_fd);
int dispatch_refused(struct dispatch *dispatch, const struct msg_refused *refused);
