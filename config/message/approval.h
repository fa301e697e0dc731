/* struct approval: a job that waits for somebody's word, or has had it; struct submission: that job. Both as
 * plain data, and packed (config/message/approval.proto): in files, and in the anonymous files that front and
 * warden hand to each other. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/format/digest.h"
#include "config/message/job.h"

struct buf;
struct err;

#define APPROVAL_ID_BYTES     KEPT_ID_BYTES
#define APPROVAL_NAME_BYTES   129 /* names of keys, teams, runtimes, policies, executions */
#define APPROVAL_REASON_BYTES 513
#define APPROVAL_KEY_BYTES    4097
#define APPROVAL_CODE_BYTES   4096 /* of its code, where the job itself is not told */

#define MSG_APPROVALS_MAX  4096
#define MSG_SUBMISSION_MAX (16u << 20)

/*      PENDING ─► APPROVED ─► RUNNING ─► DONE
 *         ├─► REJECTED            └─► LOST
 *         └─► EXPIRED */
enum approval_state {
    APPROVAL_PENDING,
    APPROVAL_APPROVED, /* but it has not begun */
    APPROVAL_REJECTED,
    APPROVAL_EXPIRED,
    APPROVAL_RUNNING, /* or about to: from here on it is never begun again */
    APPROVAL_DONE,
    APPROVAL_LOST, /* it may have run, and nobody knows what became of it; or it cannot run any more */
    APPROVAL_STATE_COUNT,
};
const char *approval_state_to_string(enum approval_state state); /* "pending", ... */
/* False for a step that there is not. */
bool approval_may_become(enum approval_state from, enum approval_state to);

/* 36 of 0-9 a-f and '-': nothing that a path could misread. */
bool approval_id_is_valid(const char *id);

struct approval {
    char id[APPROVAL_ID_BYTES];
    enum approval_state state;
    char key[APPROVAL_NAME_BYTES], team[APPROVAL_NAME_BYTES]; /* team "": none */
    unsigned char owner[SHA256_BYTES];                        /* the key's hash; zeros: an open server's */
    char runtime[APPROVAL_NAME_BYTES], policy[APPROVAL_NAME_BYTES], execution_id[APPROVAL_NAME_BYTES];
    char policy_sha256[SHA256_HEX], code_sha256[SHA256_HEX];
    char submission_sha256[SHA256_HEX];
    uint64_t submission_bytes;
    uint64_t created_ms, expires_ms, decided_ms, ended_ms; /* since the epoch; 0: not yet */
    char decided_by[APPROVAL_NAME_BYTES], reason[APPROVAL_REASON_BYTES], outcome[APPROVAL_REASON_BYTES];
    char code[APPROVAL_CODE_BYTES]; /* the beginning of its code, of `code_size` bytes */
    size_t code_size;
    bool code_truncated;
};

/* Appends it, packed. -ENOMEM. */
int approval_encode(const struct approval *approval, struct buf *ret);
/* ERR_INVALID for everything that approval_encode() would not have written. */
int approval_decode(const void *data, size_t size, struct approval *ret, struct err *reterr);

struct approval_rows {
    struct approval *rows;
    size_t n;
};
int approval_rows_encode(const struct approval_rows *rows, struct buf *ret);
int approval_rows_decode(const void *data, size_t size, struct approval_rows *ret, struct err *reterr);
void approval_rows_clear(struct approval_rows *rows);

/* Owned. The job's files lie in `input`. */
struct submission {
    struct job *job;
    char *input; /* the program's text, then the files */
    size_t input_size;
    char *stdin_data; /* NULL: none */
    size_t stdin_size;
    char *callback_url; /* NULL: none */
    char *request_id;
    char *traceparent; /* NULL: none */
};
/* The job's id is written as 0, and that it is to be announced not at all. */
int submission_encode(const struct submission *submission, struct buf *ret);
/* ERR_INVALID, also for contents that the input does not hold. */
int submission_decode(const void *data, size_t size, struct submission *ret, struct err *reterr);
void submission_clear(struct submission *submission);
