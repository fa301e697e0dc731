/* Jobs that wait for approval, packed and unpacked. Runs in the front and the warden, each of which takes the
 * other's bytes for hostile, and the files of the approval directory as well. */
#include "config/message/approval.h"

#include <string.h>

#include "config/format/wire.h"
#include "config/message/approval.pb-c.h"
#include "config/message/message.pb-c.h"
#include "config/message/message_job.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"

const char *approval_state_to_string(enum approval_state state)
{
    static const char *const names[APPROVAL_STATE_COUNT] = {
        [APPROVAL_PENDING] = "pending", [APPROVAL_APPROVED] = "approved", [APPROVAL_REJECTED] = "rejected",
        [APPROVAL_EXPIRED] = "expired", [APPROVAL_RUNNING] = "running",   [APPROVAL_DONE] = "done",
        [APPROVAL_LOST] = "lost",
    };
    return (size_t)state < APPROVAL_STATE_COUNT ? names[state] : "unknown";
}

bool approval_may_become(enum approval_state from, enum approval_state to)
{
    static const unsigned successors[APPROVAL_STATE_COUNT] = {
        [APPROVAL_PENDING] = 1u << APPROVAL_APPROVED | 1u << APPROVAL_REJECTED | 1u << APPROVAL_EXPIRED,
        [APPROVAL_APPROVED] = 1u << APPROVAL_RUNNING | 1u << APPROVAL_LOST,
        [APPROVAL_RUNNING] = 1u << APPROVAL_DONE | 1u << APPROVAL_LOST,
    };
    return successors[from] >> to & 1;
}

bool approval_id_is_valid(const char *id)
{
    return job_id_is_valid(id);
}

/* ---- Where it stands ---- */

static bool is_hash(const char *text)
{
    unsigned char hash[SHA256_BYTES];
    return sha256_from_hex(text, hash) == 0;
}

#define ROW(own, ...) BIND(struct approval, Immure__Approval, own, own, __VA_ARGS__)
#define HASH          .valid = is_hash, .why = "is not a hash"
static const struct bind_row approval_rows[] = {
    BIND(struct approval, Immure__Approval, id, approval_id, .valid = approval_id_is_valid,
         .why = "is not the name of one"),
    ROW(state, .most = APPROVAL_STATE_COUNT - 1),
    ROW(key),
    BIND_AS(BIND_HASH, struct approval, Immure__Approval, owner, key_sha256),
    ROW(team),
    ROW(runtime),
    ROW(policy),
    ROW(policy_sha256, HASH),
    ROW(code_sha256, HASH),
    ROW(execution_id),
    ROW(submission_sha256, HASH),
    ROW(submission_bytes),
    ROW(created_ms),
    ROW(expires_ms),
    ROW(decided_ms),
    ROW(ended_ms),
    ROW(decided_by),
    ROW(reason),
    ROW(outcome),
    BIND_SOME(BIND_DATA_ROOM, struct approval, Immure__Approval, code, code_size, code),
    ROW(code_truncated),
};
#undef HASH
#undef ROW
static const struct bind_table approval_table = {
    .name = "approval", BIND_TABLE_OF(struct approval, immure__approval__descriptor, approval_rows)};

int approval_encode(const struct approval *approval, struct buf *ret)
{
    return bind_encode(&approval_table, approval, ret);
}

int approval_decode(const void *data, size_t size, struct approval *ret, struct err *reterr)
{
    return bind_decode(&approval_table, data, size, ret, reterr);
}

static const struct bind_row list_rows[] = {
    BIND_SOME(BIND_EACH, struct approval_rows, Immure__ApprovalRows, rows, n, row, .table = &approval_table,
              .most = MSG_APPROVALS_MAX),
};
static const struct bind_table list_table = {
    .name = "approvals", BIND_TABLE_OF(struct approval_rows, immure__approval_rows__descriptor, list_rows)};

int approval_rows_encode(const struct approval_rows *rows, struct buf *ret)
{
    return bind_encode(&list_table, rows, ret);
}

void approval_rows_clear(struct approval_rows *rows)
{
    bind_clear(&list_table, rows);
}

int approval_rows_decode(const void *data, size_t size, struct approval_rows *ret, struct err *reterr)
{
    return bind_decode(&list_table, data, size, ret, reterr);
}

/* ---- The job ---- */

/* Everything that the job refers to is there, and nobody will have to look again. */
static int check_submission(const void *object, struct err *reterr)
{
    const struct submission *submission = object;
    const struct job *job = submission->job;
    if (job->id != 0 || job->announce || job->kept_id || job->early_ms != 0) {
        return wire_refuse(reterr, "submission.job", "says what is not known yet");
    }
    if (job->code_size == 0 || job->code_size > submission->input_size) {
        return wire_refuse(reterr, "submission.job.code_size", "is not that of a program in the input");
    }
    /* As in every request: JSON with one in it is refused by whoever is to read what waits. */
    if (memchr(submission->input, '\0', (size_t)job->code_size) ||
        (submission->stdin_size > 0 && memchr(submission->stdin_data, '\0', submission->stdin_size))) {
        return wire_refuse(reterr, "submission", "has a NUL in a text");
    }
    for (size_t i = 0; i < job->n_files; i++) {
        if (job->files[i].offset > submission->input_size ||
            job->files[i].size > submission->input_size - job->files[i].offset) {
            return wire_refuse(reterr, "submission.job.file", "lies outside of the input");
        }
    }
    return 0;
}

#define ROW(own, ...) BIND(struct submission, Immure__Submission, own, own, __VA_ARGS__)
static const struct bind_row submission_rows[] = {
    BIND_AS(BIND_OWN, struct submission, Immure__Submission, job, job, .table = &job_table),
    BIND_SOME(BIND_DATA, struct submission, Immure__Submission, input, input_size, input),
    BIND_SOME(BIND_DATA, struct submission, Immure__Submission, stdin_data, stdin_size, stdin_data),
    ROW(callback_url),
    ROW(request_id),
    ROW(traceparent),
};
#undef ROW
static const struct bind_table submission_table = {
    .name = "submission",
    BIND_TABLE_OF(struct submission, immure__submission__descriptor, submission_rows),
    .check = check_submission,
};

int submission_encode(const struct submission *submission, struct buf *ret)
{
    struct submission told = *submission;
    struct job job = *submission->job;
    job.id = job.early_ms = 0;
    job.announce = false;
    told.job = &job;
    return bind_encode(&submission_table, &told, ret);
}

void submission_clear(struct submission *submission)
{
    job_free(TAKE_PTR(submission->job));
    bind_clear(&submission_table, submission);
}

int submission_decode(const void *data, size_t size, struct submission *ret, struct err *reterr)
{
    return bind_decode(&submission_table, data, size, ret, reterr);
}
