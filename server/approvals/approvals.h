/* struct approvals: the jobs that wait for approval, or have had it, in memory and, where there is a
 * directory for them, on disk. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/message/approval.h"

struct approvals;
struct buf;
struct err;
struct log;
struct loop;
struct server_config;

struct approval_entry {
    struct approvals *all;
    struct approval_entry *next; /* the next younger one */
    struct approval approval;
    char *packed;         /* the job, in memory; NULL: it is on disk, or not needed any more */
    const void *runner;   /* the front that has been told to run it; NULL: none */
    uint64_t runner_ping; /* the last ping that it was sent before that */
    bool put_off;         /* it has not been told: it is, after a ping */

    /* Its job has ended, and that could not be written yet: it is `running` until it could. */
    bool end_is_due;
    enum approval_state end;
    char outcome[APPROVAL_REASON_BYTES];

    /* What its job enters besides a slot; known when its turn is looked at first (server/warden/turns.c). */
    bool looked_at, needs_kernel;
    char *session_id; /* NULL: none */
};

struct approvals_options {
    const char *directory; /* "": none */
    struct loop *loop;
    struct log *const *log; /* where troubles are told; outlives us */
    /* One has come, or moved on. */
    void (*changed)(void *arg, const struct approval *approval);
    void *arg;
};

/* How many have ever become what. */
struct approvals_count {
    uint32_t pending;
    uint64_t approved, rejected, expired, lost;
};

/* Reads the directory. Nothing is reported before approvals_resume(). ERR_CONFIG where it is unfit. */
int approvals_new(const struct approvals_options *options, const struct server_config *config,
                  struct approvals **ret, struct err *reterr);
/* Takes NULL. */
void approvals_free(struct approvals *approvals);
/* What a server before us had begun is lost, what has waited too long expired. */
void approvals_resume(struct approvals *approvals);
/* Limits and times are those of this configuration from now on. */
void approvals_configure(struct approvals *approvals, const struct server_config *config);

struct approvals_count approvals_count(const struct approvals *approvals);
bool approvals_outlive_us(const struct approvals *approvals);
/* The oldest; takes NULL. */
struct approval_entry *approvals_first(const struct approvals *approvals);
struct approval_entry *approvals_find(const struct approvals *approvals, const char *id);

/* A new one that is pending: `approval` with everything but id, state, times, hash and size. ERR_RATE,
 * ERR_BUSY, ERR_TOO_LARGE where a limit is reached. */
int approvals_add(struct approvals *approvals, const struct approval *approval, const struct buf *packed,
                  struct approval_entry **ret, struct err *reterr);

/* Moves on, durably before it returns. `by` (of a decision) and `text` (its reason, or the outcome) may be
 * NULL. ERR_CONFLICT where there is no such step. */
int approvals_move(struct approval_entry *entry, enum approval_state state, const char *by, const char *text,
                   struct err *reterr);

/* Its job has run and is DONE or LOST, now or, where that fails, as soon as it can be written. */
int approvals_end(struct approval_entry *entry, enum approval_state state, const char *outcome,
                  struct err *reterr);

/* The packed job, which is that whose hash was shown. Appends. */
int approvals_read_job(const struct approval_entry *entry, struct buf *ret, struct err *reterr);

/* The team, or the key without one, may from now on run jobs under that policy, as it is now. */
int approvals_grant(struct approvals *approvals, const struct approval *approval, struct err *reterr);
bool approvals_is_granted(const struct approvals *approvals, const struct approval *approval);
