/* Jobs that wait for approval, packed and unpacked. Runs in the front and the warden, each of which takes the
 * other's bytes for hostile, and the files of the approval directory as well. */
#include "config/message/approval.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/pool.h"
#include "config/format/wire.h"
#include "config/message/approval.pb-c.h"
#include "config/message/job.h"
#include "config/message/message.pb-c.h"
#include "config/message/message_job.h"
#include "jail/base/buf.h"
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

static ProtobufCBinaryData bytes_of(const char *data, size_t size)
{
    return (ProtobufCBinaryData){.len = size, .data = (uint8_t *)wire_text(data)};
}

/* ---- Where it stands ---- */

/* The texts of both structs, each with the room that it has. */
#define TEXTS(X)                                                                                             \
    X(key)                                                                                                   \
    X(team)                                                                                                  \
    X(runtime)                                                                                               \
    X(policy)                                                                                                \
    X(execution_id) X(policy_sha256) X(code_sha256) X(submission_sha256) X(decided_by) X(reason) X(outcome)
#define TIMES(X) X(created_ms) X(expires_ms) X(decided_ms) X(ended_ms)

/* `hex` lives as long as the message. */
static void to_message(const struct approval *approval, char hex[SHA256_HEX], Immure__Approval *ret)
{
    immure__approval__init(ret);
    sha256_to_hex(approval->owner, hex);
    ret->approval_id = wire_text(approval->id);
    ret->state = approval->state;
    ret->key_sha256 = hex;
    ret->submission_bytes = approval->submission_bytes;
    ret->code = bytes_of(approval->code, approval->code_size);
    ret->code_truncated = approval->code_truncated;
#define X(name) ret->name = wire_text(approval->name);
    TEXTS(X)
#undef X
#define X(name) ret->name = approval->name;
    TIMES(X)
#undef X
}

static int take_text(const char *text, char *ret, size_t size, const char *field, struct err *reterr)
{
    size_t length = strlen(text);
    if (length >= size) {
        return wire_refuse(reterr, field, "is too long");
    }
    memcpy(ret, text, length + 1);
    return 0;
}

static int check_hashes(const struct approval *approval, struct err *reterr)
{
    const char *const hashes[] = {approval->policy_sha256, approval->code_sha256,
                                  approval->submission_sha256};
    unsigned char hash[SHA256_BYTES];
    for (size_t i = 0; i < ARRAY_SIZE(hashes); i++) {
        if (sha256_from_hex(hashes[i], hash) < 0) {
            return wire_refuse(reterr, "approval", "has a hash that is none");
        }
    }
    return 0;
}

static int from_message(const Immure__Approval *message, struct approval *ret, struct err *reterr)
{
    struct approval approval = {.submission_bytes = message->submission_bytes,
                                .code_truncated = message->code_truncated};
    if (message->code.len > sizeof approval.code) {
        return wire_refuse(reterr, "approval.code", "is too long");
    }
    if (message->code.len > 0 && memchr(message->code.data, '\0', message->code.len)) {
        return wire_refuse(reterr, "approval.code", "has a NUL in it");
    }
    approval.code_size = message->code.len;
    if (message->code.len > 0) {
        memcpy(approval.code, message->code.data, message->code.len);
    }
    if (message->state >= APPROVAL_STATE_COUNT) {
        return wire_refuse(reterr, "approval.state", "is not a known state");
    }
    if (!approval_id_is_valid(message->approval_id)) {
        return wire_refuse(reterr, "approval.approval_id", "is not the name of one");
    }
    char hex[SHA256_HEX];
    if (sha256_from_hex(message->key_sha256, approval.owner) < 0) {
        return wire_refuse(reterr, "approval.key_sha256", "is not a hash");
    }
    sha256_to_hex(approval.owner, hex);
    if (strcmp(hex, message->key_sha256) != 0) {
        return wire_refuse(reterr, "approval.key_sha256", "is not in lower case");
    }
    approval.state = (enum approval_state)message->state;
    memcpy(approval.id, message->approval_id, APPROVAL_ID_BYTES);
    int r = 0;
#define X(name)                                                                                              \
    r = r < 0 ? r : take_text(message->name, approval.name, sizeof approval.name, "approval." #name, reterr);
    TEXTS(X)
#undef X
#define X(name) approval.name = message->name;
    TIMES(X)
#undef X
    r = r < 0 ? r : check_hashes(&approval, reterr);
    if (r == 0) {
        *ret = approval;
    }
    return r;
}

int approval_encode(const struct approval *approval, struct buf *ret)
{
    Immure__Approval message;
    char hex[SHA256_HEX];
    to_message(approval, hex, &message);
    return wire_pack(&message.base, ret);
}

/* -ENOMEM and -EBADMSG as errors. */
static int unpack(const struct ProtobufCMessageDescriptor *descriptor, const void *data, size_t size,
                  ProtobufCMessage **ret, struct err *reterr)
{
    int r = wire_unpack(descriptor, data, size, ret);
    if (r == -ENOMEM) {
        return err_errno(reterr, ENOMEM, "while reading of an approval");
    }
    return r < 0 ? wire_refuse(reterr, NULL, "these bytes are not of an approval") : 0;
}

int approval_decode(const void *data, size_t size, struct approval *ret, struct err *reterr)
{
    ProtobufCMessage *message;
    int r = unpack(&immure__approval__descriptor, data, size, &message, reterr);
    if (r < 0) {
        return r;
    }
    r = from_message((Immure__Approval *)message, ret, reterr);
    protobuf_c_message_free_unpacked(message, NULL);
    return r;
}

/* ---- Rows ---- */

int approval_rows_encode(const struct approval_rows *rows, struct buf *ret)
{
    CLEANUP(pool_free) struct pool pool = POOL_INIT;
    Immure__ApprovalRows message;
    immure__approval_rows__init(&message);
    Immure__Approval *all = pool_alloc(&pool, rows->n, sizeof *all);
    Immure__Approval **pointers = pool_alloc(&pool, rows->n, sizeof(void *));
    char(*hashes)[SHA256_HEX] = pool_alloc(&pool, rows->n, sizeof *hashes);
    if (pool.failed) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < rows->n; i++) {
        to_message(&rows->rows[i], hashes[i], &all[i]);
        pointers[i] = &all[i];
    }
    message.row = pointers;
    message.n_row = rows->n;
    return wire_pack(&message.base, ret);
}

void approval_rows_clear(struct approval_rows *rows)
{
    free(rows->rows);
    *rows = (struct approval_rows){0};
}

static int copy_data(ProtobufCBinaryData bytes, char **ret, size_t *ret_size, struct err *reterr)
{
    char *copy = malloc(bytes.len + 1);
    if (!copy) {
        return err_errno(reterr, ENOMEM, "while reading of an approval");
    }
    if (bytes.len > 0) {
        memcpy(copy, bytes.data, bytes.len);
    }
    copy[bytes.len] = '\0';
    *ret = copy;
    *ret_size = bytes.len;
    return 0;
}

static int rows_from_message(const Immure__ApprovalRows *message, struct approval_rows *ret,
                             struct err *reterr)
{
    CLEANUP(approval_rows_clear) struct approval_rows rows = {0};
    if (message->n_row > MSG_APPROVALS_MAX) {
        return wire_refuse(reterr, "row", "has more rows than there can be");
    }
    rows.rows = calloc(message->n_row + 1, sizeof *rows.rows);
    int r = rows.rows ? 0 : err_errno(reterr, ENOMEM, "while reading of an approval");
    for (size_t i = 0; r == 0 && i < message->n_row; i++) {
        r = from_message(message->row[i], &rows.rows[rows.n++], reterr);
    }
    if (r == 0) {
        ret->n = rows.n;
        ret->rows = TAKE_PTR(rows.rows);
    }
    return r;
}

int approval_rows_decode(const void *data, size_t size, struct approval_rows *ret, struct err *reterr)
{
    ProtobufCMessage *message;
    int r = unpack(&immure__approval_rows__descriptor, data, size, &message, reterr);
    if (r < 0) {
        return r;
    }
    r = rows_from_message((Immure__ApprovalRows *)message, ret, reterr);
    protobuf_c_message_free_unpacked(message, NULL);
    return r;
}

/* ---- The job ---- */

int submission_encode(const struct submission *submission, struct buf *ret)
{
    CLEANUP(pool_free) struct pool pool = POOL_INIT;
    Immure__Submission message;
    Immure__MsgJob job;
    immure__submission__init(&message);
    immure__msg_job__init(&job);
    job_to_message(submission->job, &pool, &job);
    if (pool.failed) {
        return -ENOMEM;
    }
    job.id = 0;
    job.has_announce = job.announce = false;
    job.has_early_ms = false;
    message.job = &job;
    message.input = bytes_of(submission->input, submission->input_size);
    message.has_stdin_data = submission->stdin_data != NULL;
    message.stdin_data = bytes_of(submission->stdin_data, submission->stdin_size);
    message.callback_url = submission->callback_url;
    message.request_id = submission->request_id;
    message.traceparent = submission->traceparent;
    return wire_pack(&message.base, ret);
}

void submission_clear(struct submission *submission)
{
    job_free(submission->job);
    free(submission->input);
    free(submission->stdin_data);
    free(submission->callback_url);
    free(submission->request_id);
    free(submission->traceparent);
    *submission = (struct submission){0};
}

/* Everything that the job refers to is there, and nobody will have to look again. */
static int check_input(const struct submission *submission, struct err *reterr)
{
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

static int copy_text(const char *text, char **ret, struct err *reterr)
{
    return text && !(*ret = strdup(text)) ? err_errno(reterr, ENOMEM, "while reading of an approval") : 0;
}

static int submission_from_message(const Immure__Submission *message, struct submission *ret,
                                   struct err *reterr)
{
    CLEANUP(submission_clear) struct submission submission = {0};
    int r = job_from_message(message->job, &submission.job, reterr);
    r = r < 0 ? r : copy_data(message->input, &submission.input, &submission.input_size, reterr);
    if (r == 0 && message->has_stdin_data) {
        r = copy_data(message->stdin_data, &submission.stdin_data, &submission.stdin_size, reterr);
    }
    r = r < 0 ? r : copy_text(message->callback_url, &submission.callback_url, reterr);
    r = r < 0 ? r : copy_text(message->request_id, &submission.request_id, reterr);
    r = r < 0 ? r : copy_text(message->traceparent, &submission.traceparent, reterr);
    r = r < 0 ? r : check_input(&submission, reterr);
    if (r == 0) {
        *ret = submission;
        submission = (struct submission){0};
    }
    return r;
}

int submission_decode(const void *data, size_t size, struct submission *ret, struct err *reterr)
{
    ProtobufCMessage *message;
    int r = unpack(&immure__submission__descriptor, data, size, &message, reterr);
    if (r < 0) {
        return r;
    }
    r = submission_from_message((Immure__Submission *)message, ret, reterr);
    protobuf_c_message_free_unpacked(message, NULL);
    return r;
}
