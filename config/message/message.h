/* Messages between front and warden: plain structs here, protobuf-c on the wire, one datagram each. Jobs,
 * sessions and approvals have a header of their own each, for what is said about them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/message/job.h"
#include "config/message/message_approval.h"
#include "config/message/message_job.h"
#include "config/message/message_kept.h"
#include "config/message/message_policy.h"
#include "config/message/message_relay.h"
#include "config/message/message_session.h"
#include "jail/base/err.h"

struct buf;

enum msg_type {
    MSG_NONE,
    MSG_CONFIG,
    MSG_CALLERS,
    MSG_HELLO,
    MSG_JOB,
    MSG_CANCEL,
    MSG_OUTPUTS,
    MSG_REFUSED,
    MSG_DONE,
    MSG_STATE,
    MSG_PING,
    MSG_PONG,
    MSG_SESSION_QUERY,
    MSG_SESSION_ANSWER,
    MSG_STARTED,
    MSG_SUBMIT,
    MSG_APPROVAL_QUERY,
    MSG_APPROVAL_ANSWER,
    MSG_APPROVAL_CHANGED,
    MSG_APPROVAL_RUN,
    MSG_RUN,
    MSG_KEEP,
    MSG_KEPT_QUERY,
    MSG_KEPT_ANSWER,
    MSG_RELAY,
    MSG_RELAY_ANSWER,
    MSG_EGRESS,
    MSG_TYPE_COUNT
};
const char *msg_type_to_string(enum msg_type type);

struct msg_refused {
    uint64_t id;
    enum err_kind kind;
    char item[256], text[512];
    uint64_t retry_after_ms;
    bool no_slot; /* other jobs are in its way, of all, of its key or in its session's kernel */
};

/* Jails of one runtime that stand ready. */
struct msg_warm {
    char runtime[65];
    uint32_t parked, building, in_images;
    uint64_t pss_bytes; /* of one parked jail; 0: not measured yet */
    uint64_t templates_replaced;
};
#define MSG_WARM_MAX 16

/* An optional runtime whose self-test fails. */
struct msg_failing {
    char runtime[65], why[256];
};
#define MSG_FAILING_MAX 16

struct msg_state {
    bool ready, draining, enforced_by_cgroup;
    bool begins_nothing; /* what comes while it drains is refused; otherwise it is served */
    bool superseded;     /* another front takes the connections from now on; no reason to refuse anything */
    char why[1024];      /* what of the self-test failed; "": nothing */
    char degraded[512];  /* BEST_EFFORT: what is missing; "" otherwise */
    uint64_t front_restarts, leftovers_swept;
    uint64_t heap_bytes;  /* what the warden has allocated */
    bool short_of_memory; /* the host; no job begins */
    uint64_t ended_for_memory;
    struct msg_warm warm[MSG_WARM_MAX];
    size_t n_warm;
    struct msg_failing failing[MSG_FAILING_MAX];
    size_t n_failing;
    uint32_t sessions, kernels, approvals_pending;
    uint32_t jobs_elsewhere; /* run for other fronts */
    uint64_t approvals_approved, approvals_rejected, approvals_expired, approvals_lost;
    bool reload_refused;  /* the last one */
    uint64_t reloaded_ms; /* when the configuration in force was taken, since the epoch */
    uint64_t log_lines_lost, audit_lines_lost;
    bool audit_stopped;                         /* nothing can be written to the audit log; no job begins */
    uint64_t session_bytes, session_bytes_most; /* 0: there is no such bound */
};

struct msg_config {
    bool audit;  /* the last descriptor is the audit log */
    bool egress; /* the second one holds struct egress_policies */
    char **held; /* policies whose jobs may need an approval; received: owned */
    size_t n_held;
    struct msg_policy *policies; /* received: owned */
    size_t n_policies;
};

/* The listening socket is beside it. */
struct msg_egress {
    uint64_t id;
    char policy[65];
};

struct msg {
    enum msg_type type;
    union {
        struct msg_config config;
        struct job *job; /* owned */
        struct msg_id {
            uint64_t id;
        } cancel, started, submit;
        struct msg_outputs outputs; /* received: owned */
        struct msg_refused refused;
        struct job_result done; /* owned; the files' fds are the caller's to send or set */
        struct msg_state state;
        struct msg_number {
            uint64_t number;
        } ping, pong;
        struct msg_session_query session_query;
        struct msg_session_answer session_answer;
        struct msg_approval_query approval_query;
        struct msg_approval_answer approval_answer;
        struct msg_approval_changed approval_changed;
        struct msg_approval_run approval_run, run;
        struct msg_keep keep;
        struct msg_kept_query kept_query;
        struct msg_kept_answer kept_answer;
        struct msg_relay relay;
        struct msg_relay_answer relay_answer;
        struct msg_egress egress;
    };
};

#define MSG_BYTES_MAX (128u << 10)

#define MSG_CONFIG_FDS 3 /* at most */
/* Beside MSG_JOB: the input, and the program's ends of stdin, stdout, stderr and of the bridge's two pipes.
 */
#define MSG_JOB_FDS 6
/* Beside MSG_RUN: the same without the input. */
#define MSG_RUN_FDS (MSG_JOB_FDS - 1)

/* Appends the packed message. For MSG_DONE, files with fd >= 0 are marked as attached, in order.
 * ERR_TOO_LARGE over MSG_BYTES_MAX. */
int msg_encode(const struct msg *msg, struct buf *ret, struct err *reterr);
/* Strict: every required field, known enum values, no embedded NUL in text, offsets that do not overflow. For
 * MSG_DONE, attached files get fds from `fds` in order and must match n_fds exactly. On failure
 * `*ret` holds nothing (MSG_NONE) and the descriptors are still the caller's. */
int msg_decode(const void *data, size_t size, const int *fds, size_t n_fds, struct msg *ret,
               struct err *reterr);
void msg_clear(struct msg *msg);
