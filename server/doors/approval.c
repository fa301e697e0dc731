/* Approvals as JSON. Runs in the front. Decides nothing: who may approve what is the warden's to say. */
#include "server/doors/approval.h"

#include <errno.h>
#include <string.h>

#include "config/format/digest.h"
#include "config/format/json.h"
#include "config/message/job.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/doors/unknown_name.h"
#include "server/kit/json_out.h"

static int bad(struct err *reterr, const char *field, const char *why)
{
    return err_set(reterr, ERR_INVALID, EINVAL, field, "%s: %s", field, why);
}

int approval_decision_decode(const struct json *root, bool *ret_approve,
                             char ret_reason[APPROVAL_REASON_BYTES], struct err *reterr)
{
    static const char *const names[] = {"decision", "reason"};
    const struct json *given[ARRAY_SIZE(names)];
    if (json_type_of(root) != JSON_OBJECT) {
        return err_set(reterr, ERR_INVALID, EINVAL, NULL, "the body must be an object");
    }
    int r = known_members(root, "field", "", names, ARRAY_SIZE(names), given, reterr);
    if (r < 0) {
        return r;
    }
    const struct json *decision = given[0], *reason = given[1];
    const char *word = json_string(decision);
    if (!decision) {
        return err_set(reterr, ERR_INVALID, EINVAL, "decision", "decision is required");
    }
    if (!word || (strcmp(word, "approve") != 0 && strcmp(word, "reject") != 0)) {
        return bad(reterr, "decision", "must be \"approve\" or \"reject\"");
    }
    if (reason &&
        (json_type_of(reason) != JSON_STRING || json_string_length(reason) >= APPROVAL_REASON_BYTES)) {
        return bad(reterr, "reason", "must be a string of at most 512 bytes");
    }
    *ret_approve = *word == 'a';
    memcpy(ret_reason, reason ? json_string(reason) : "", (reason ? json_string_length(reason) : 0) + 1);
    return 0;
}

void approval_write_required(const struct approval *approval, struct buf *ret)
{
    bool pending = approval->state == APPROVAL_PENDING;
    buf_putc(ret, '{');
    json_out_text(ret, "status", pending ? "approval_required" : approval_state_to_string(approval->state));
    json_out_text(ret, "approval_id", approval->id);
    json_out_time(ret, "expires_at", approval->expires_ms);
    json_out_text(ret, "execution_id", approval->execution_id);
    buf_puts(ret, "}\n");
}

static const char *or_null(const char *text)
{
    return *text ? text : NULL;
}

/* Without the code, which comes last, and the bracket. */
static void write_facts(const struct approval *approval, struct buf *ret)
{
    json_out_text(ret, "approval_id", approval->id);
    json_out_text(ret, "status", approval_state_to_string(approval->state));
    json_out_text(ret, "key", approval->key);
    json_out_text(ret, "team", or_null(approval->team));
    json_out_time(ret, "created_at", approval->created_ms);
    json_out_time(ret, "expires_at", approval->expires_ms);
    json_out_text(ret, "policy", approval->policy);
    json_out_text(ret, "policy_sha256", approval->policy_sha256);
    json_out_text(ret, "runtime", approval->runtime);
    json_out_text(ret, "execution_id", approval->execution_id);
    json_out_text(ret, "sha256", approval->code_sha256);
    json_out_text(ret, "job_sha256", approval->submission_sha256);
    json_out_text(ret, "decided_by", or_null(approval->decided_by));
    json_out_time(ret, "decided_at", approval->decided_ms);
    json_out_text(ret, "reason", or_null(approval->reason));
    json_out_text(ret, "outcome", or_null(approval->outcome));
}

/* The bytes of the text that end with a whole character. */
static size_t whole(const char *text, size_t size)
{
    size_t back = 0;
    while (back < size && back < 3 && ((unsigned char)text[size - 1 - back] & 0xc0) == 0x80) {
        back++;
    }
    return back < size && (unsigned char)text[size - 1 - back] >= 0xc0 ? size - back - 1 : size;
}

static void write_head(const struct approval *approval, struct buf *ret)
{
    size_t size = approval->code_truncated ? whole(approval->code, approval->code_size) : approval->code_size;
    json_out_bytes(ret, "code", approval->code, size);
    json_out_bool(ret, "code_truncated", approval->code_truncated);
}

void approval_write_list(const struct approval_rows *rows, struct buf *ret)
{
    buf_putc(ret, '{');
    json_out_open(ret, "approvals", '[');
    for (size_t i = 0; i < rows->n; i++) {
        json_out_separator(ret);
        buf_putc(ret, '{');
        write_facts(&rows->rows[i], ret);
        write_head(&rows->rows[i], ret);
        buf_putc(ret, '}');
    }
    buf_puts(ret, "]}\n");
}

static void write_texts(const char *key, char *const *texts, size_t n, struct buf *ret)
{
    json_out_open(ret, key, '[');
    for (size_t i = 0; i < n; i++) {
        json_out_separator(ret);
        json_write_string(ret, texts[i], strlen(texts[i]));
    }
    buf_putc(ret, ']');
}

static void write_base64(const char *key, const char *data, size_t size, struct buf *ret)
{
    json_out_key(ret, key);
    buf_putc(ret, '"');
    base64_encode(data, size, ret);
    buf_putc(ret, '"');
}

static void write_files(const struct submission *submission, struct buf *ret)
{
    const struct job *job = submission->job;
    json_out_open(ret, "files", '[');
    for (size_t i = 0; i < job->n_files; i++) {
        json_out_separator(ret);
        buf_putc(ret, '{');
        json_out_text(ret, "name", job->files[i].path);
        json_out_u64(ret, "size", job->files[i].size);
        write_base64("data", submission->input + job->files[i].offset, (size_t)job->files[i].size, ret);
        buf_putc(ret, '}');
    }
    buf_putc(ret, ']');
}

static void write_env(const struct job *job, struct buf *ret)
{
    json_out_open(ret, "env", '[');
    for (size_t i = 0; i < job->n_env; i++) {
        json_out_separator(ret);
        buf_putc(ret, '{');
        json_out_text(ret, "name", job->env[i].name);
        json_out_text(ret, "value", job->env[i].value);
        buf_putc(ret, '}');
    }
    buf_putc(ret, ']');
}

void approval_write_one(const struct approval *approval, const struct submission *submission, struct buf *ret)
{
    buf_putc(ret, '{');
    write_facts(approval, ret);
    if (!submission) {
        write_head(approval, ret);
        json_out_null(ret, "job");
        buf_puts(ret, "}\n");
        return;
    }
    const struct job *job = submission->job;
    json_out_bytes(ret, "code", submission->input, (size_t)job->code_size);
    json_out_bool(ret, "code_truncated", false);
    json_out_open(ret, "job", '{');
    json_out_text(ret, "session_id", job->session_id);
    json_out_text(ret, "session", job->session_kept ? "kept" : NULL);
    json_out_bool(ret, "results", job->results);
    json_out_text(ret, "image", job->image);
    json_out_text(ret, "callback_url", submission->callback_url);
    write_texts("args", job->args, job->n_args, ret);
    write_env(job, ret);
    write_texts("outputs", job->outputs, job->n_outputs, ret);
    json_out_open(ret, "limits", '{'); /* null: the policy's own */
    json_out_limits(ret, &job->limits);
    buf_putc(ret, '}');
    json_out_bytes(ret, "stdin", submission->stdin_data ? submission->stdin_data : "",
                   submission->stdin_size);
    write_files(submission, ret);
    buf_puts(ret, "}}\n");
}
