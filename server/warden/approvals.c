/* Jobs that wait for approval: what fronts submit, ask and decide. Runs in the warden.
 *
 * The front is not believed: who decides is told by the key that was shown, which is looked up here; the job
 * that runs is the one that is kept here, and its hash is looked at once more before it begins. What a front
 * that was taken over can still do is said in SECURITY.md. */
#include "server/warden/warden_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/format/digest.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "server/approvals/approvals.h"
#include "server/audit/chain.h"
#include "server/callers/auth.h"
#include "server/kit/die_here.h"
#include "server/kit/log.h"
#include "server/link/channel.h"
#include "server/run/execution.h"
#include "server/run/settings.h"

/* ---- What is told of each step ---- */

static void audit(struct warden *warden, const struct approval *approval)
{
    const struct log_field fields[] = {
        LOG_FIELD_STR("approval_id", approval->id),
        LOG_FIELD_STR("state", approval_state_to_string(approval->state)),
        LOG_FIELD_STR("key", approval->key),
        LOG_FIELD_STR("team", approval->team[0] ? approval->team : NULL),
        LOG_FIELD_STR("policy", approval->policy),
        LOG_FIELD_STR("policy_sha256", approval->policy_sha256),
        LOG_FIELD_STR("runtime", approval->runtime),
        LOG_FIELD_STR("execution_id", approval->execution_id),
        LOG_FIELD_STR("code_sha256", approval->code_sha256),
        LOG_FIELD_STR("job_sha256", approval->submission_sha256),
        LOG_FIELD_STR("decided_by", approval->decided_by[0] ? approval->decided_by : NULL),
        LOG_FIELD_STR("reason", approval->reason[0] ? approval->reason : NULL),
        LOG_FIELD_STR("outcome", approval->outcome[0] ? approval->outcome : NULL),
    };
    if (!warden->audit) {
        log_tell(warden->log, LOG_INFO, "approval", fields, ARRAY_SIZE(fields));
        return;
    }
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    log_compose("warden", LOG_INFO, "approval", fields, ARRAY_SIZE(fields), &line);
    if (!line.failed && audit_chain_takes(line.data, line.len)) {
        warden_audit_append(warden, line.data, line.len);
    }
}

static void on_changed(void *arg, const struct approval *approval)
{
    struct warden *warden = arg;
    struct msg msg = {.type = MSG_APPROVAL_CHANGED, .approval_changed = {.state = approval->state}};
    memcpy(msg.approval_changed.approval_id, approval->id, sizeof approval->id);
    snprintf(msg.approval_changed.reason, sizeof msg.approval_changed.reason, "%s",
             approval->outcome[0] ? approval->outcome : approval->reason);
    audit(warden, approval);
    for (struct front *front = warden->fronts; front; front = front->next) {
        if (front->guard.speaks) {
            front_send(front, &msg, NULL, 0);
        }
    }
    warden_publish_state(warden);
}

int warden_approvals_open(struct warden *warden, struct err *reterr)
{
    const struct approvals_options options = {
        .directory = warden->settings->config->approval_directory,
        .loop = warden->loop,
        .log = &warden->log,
        .changed = on_changed,
        .arg = warden,
    };
    int r = approvals_new(&options, warden->settings->config, &warden->approvals, reterr);
    if (r == 0) {
        approvals_resume(warden->approvals);
    }
    return r;
}

/* ---- Whose job it is, and under what ---- */

static int put(char *ret, size_t size, const char *text, const char *field, struct err *reterr)
{
    size_t length = strlen(text);
    if (length >= size) {
        return err_set(reterr, ERR_INVALID, ENAMETOOLONG, field,
                       "%s: is too long for a job that waits for approval", field);
    }
    memcpy(ret, text, length + 1);
    return 0;
}

/* What is known of a job by its own word and the configuration. */
static int describe(const struct settings *settings, const struct job *job, const struct policy *policy,
                    struct approval *ret, struct err *reterr)
{
    const struct server_config *config = settings->config;
    const struct key_config *key = server_config_key(config, job->key);
    if (!key && !config->open) {
        return err_set(reterr, ERR_DENIED, EPERM, NULL, "there is no key '%.64s'", job->key);
    }
    if (key) {
        memcpy(ret->owner, key->sha256, sizeof ret->owner);
    }
    int r = put(ret->key, sizeof ret->key, job->key, "key", reterr);
    r = r < 0 || !key ? r : put(ret->team, sizeof ret->team, key->team, "team", reterr);
    r = r < 0 ? r : put(ret->runtime, sizeof ret->runtime, job->runtime, "runtime", reterr);
    r = r < 0 ? r : put(ret->policy, sizeof ret->policy, policy_name(policy), "policy", reterr);
    r = r < 0 ? r
              : put(ret->execution_id, sizeof ret->execution_id, job->execution_id, "execution_id", reterr);
    memcpy(ret->policy_sha256, policy_sha256(policy), SHA256_HEX);
    return r;
}

/* Whether a job of that key under that policy needs an approval, now. */
static bool needs_approval(const struct warden *warden, const struct policy *policy,
                           const struct approval *approval)
{
    enum approval_mode mode = policy_spec(policy)->approval;
    return mode == APPROVAL_ALWAYS ||
           (mode == APPROVAL_FIRST_USE && !approvals_is_granted(warden->approvals, approval));
}

int approval_check_job(const struct front *front, const struct job *job, struct err *reterr)
{
    const struct runtime_config *runtime;
    const struct policy *policy;
    struct approval approval = {.state = APPROVAL_PENDING};
    int r = settings_find(front->settings, job, &runtime, &policy, reterr);
    if (r < 0 || policy_spec(policy)->approval == APPROVAL_NEVER) {
        return r;
    }
    r = describe(front->settings, job, policy, &approval, reterr);
    if (r == 0 && needs_approval(front->warden, policy, &approval)) {
        err_set(reterr, ERR_APPROVAL, EPERM, "policy",
                "policy: jobs under '%.64s' need an approval, which POST /execute and the tool of POST /mcp "
                "ask for",
                policy_name(policy));
        return -EPERM;
    }
    return r;
}

int approval_held_policies(const struct settings *settings, const char ***ret, size_t *ret_n)
{
    size_t n = policy_set_count(settings->policies), held = 0;
    const char **names = calloc(n + 1, sizeof *names);
    for (size_t i = 0; names && i < n; i++) {
        const struct policy *policy = policy_set_at(settings->policies, i);
        if (policy_spec(policy)->approval != APPROVAL_NEVER &&
            policy_set_find(settings->policies, policy_name(policy)) == policy) {
            names[held++] = policy_name(policy);
        }
    }
    *ret = names;
    *ret_n = held;
    return names ? 0 : -ENOMEM;
}

/* ---- Answers ---- */

static void answer(struct front *front, uint64_t id, int r, const struct err *err, bool not_needed,
                   const int *fds, size_t n_fds)
{
    struct msg msg = {.type = MSG_APPROVAL_ANSWER, .approval_answer = {.id = id, .not_needed = not_needed}};
    if (r < 0) {
        msg.approval_answer.kind = err->kind;
        snprintf(msg.approval_answer.item, sizeof msg.approval_answer.item, "%s", err->item);
        snprintf(msg.approval_answer.text, sizeof msg.approval_answer.text, "%s", err->text);
        n_fds = 0;
    }
    front_send(front, &msg, fds, n_fds);
}

void approval_refuse(struct front *front, uint64_t id, const struct err *err)
{
    answer(front, id, -1, err, false, NULL, 0);
}

static int rows_file(const struct approval_rows *rows, int *ret_fd, struct err *reterr)
{
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    int r = approval_rows_encode(rows, &packed);
    r = r < 0 ? r : io_memfd("approvals", packed.data ? packed.data : "", packed.len, ret_fd);
    return r < 0 ? err_errno(reterr, -r, "telling of approvals") : 0;
}

/* ---- Submissions ---- */

/* Only anonymous memory has seals; what is not sealed could change under our eyes. */
static bool is_sealed_memory(int fd, struct stat *ret)
{
    const int sealed = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
    int seals = fcntl(fd, F_GET_SEALS);
    return fstat(fd, ret) == 0 && S_ISREG(ret->st_mode) && seals >= 0 && (seals & sealed) == sealed;
}

static int read_sealed(int fd, const struct stat *st, uint64_t most, struct buf *ret, struct err *reterr)
{
    if ((uint64_t)st->st_size > most) {
        return err_set(reterr, ERR_TOO_LARGE, EFBIG, NULL,
                       "a job that waits for approval may have %llu bytes, its files and stdin included",
                       (unsigned long long)most);
    }
    int r = lseek(fd, 0, SEEK_SET) < 0 ? -errno : io_read_fd(fd, (size_t)st->st_size, ret);
    return r < 0 ? err_errno(reterr, -r, "reading a job that is to wait for approval") : 0;
}

/* What would be refused at once without an approval is refused at once with one. */
static int check_plan(const struct front *front, const struct job *job, const struct policy *policy,
                      const struct runtime_config *runtime, struct err *reterr)
{
    const struct policy_ceilings ceilings =
        settings_ceilings(front->settings, &front->warden->host, job->key);
    const struct policy_program program = {.runtime = runtime, .bridge = true, .proxy = true};
    const char *image = NULL;
    int r = policy_image_for(policy, job, &image, reterr);
    /* What an image shows is found out when the job runs in it. */
    return r < 0 ? r : execution_check(policy, &ceilings, image ? NULL : &program, job, reterr);
}

static void describe_code(const struct submission *submission, struct approval *ret)
{
    size_t size = (size_t)submission->job->code_size;
    sha256_hex_of(submission->input, size, ret->code_sha256);
    ret->code_truncated = size > sizeof ret->code;
    ret->code_size = ret->code_truncated ? sizeof ret->code : size;
    memcpy(ret->code, submission->input, ret->code_size);
}

/* 1: it needs no approval. */
static int submit(struct front *front, const struct buf *packed, struct approval_entry **ret,
                  struct err *reterr)
{
    CLEANUP(submission_clear) struct submission submission = {0};
    struct approval approval = {.state = APPROVAL_PENDING};
    const struct runtime_config *runtime;
    const struct policy *policy;
    int r = submission_decode(packed->data ? packed->data : "", packed->len, &submission, reterr);
    r = r < 0 ? r : settings_find(front->settings, submission.job, &runtime, &policy, reterr);
    r = r < 0 ? r : describe(front->settings, submission.job, policy, &approval, reterr);
    if (r < 0) {
        return r;
    }
    if (!needs_approval(front->warden, policy, &approval)) {
        return 1;
    }
    r = check_plan(front, submission.job, policy, runtime, reterr);
    if (r < 0) {
        return r;
    }
    describe_code(&submission, &approval);
    return approvals_add(front->warden->approvals, &approval, packed, ret, reterr);
}

/* Its caller cannot be told of it: so it was refused, and does not wait. */
static void withdraw(struct warden *warden, struct approval_entry *entry)
{
    struct err err = {0};
    if (approvals_move(entry, APPROVAL_REJECTED, NULL, "its caller could not be told of it", &err) < 0) {
        log_err(warden->log, LOG_ERROR, "approval_not_withdrawn", &err);
    }
}

void approval_submit(struct front *front, uint64_t id, int fd)
{
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    CLEANUP(fd_closep) int rows_fd = -1;
    struct approval_entry *entry = NULL;
    struct err err = {0};
    struct stat st;
    if (!is_sealed_memory(fd, &st)) {
        front_kill(front, "a job's submission is not a sealed anonymous file");
        return;
    }
    int r = read_sealed(fd, &st, front->settings->config->max_approval_job_bytes, &packed, &err);
    r = r < 0 ? r : submit(front, &packed, &entry, &err);
    die_here("submitted");
    if (entry) {
        r = rows_file(&(struct approval_rows){.rows = &entry->approval, .n = 1}, &rows_fd, &err);
        if (r < 0) {
            withdraw(front->warden, entry);
        }
    }
    answer(front, id, r, &err, r == 1, &rows_fd, entry ? 1 : 0);
}

/* ---- Queries and decisions ---- */

/* Whose key was shown: NULL, with `*ret_open`, where there are none. False: it is nobody's. */
static bool identify(const struct server_config *config, const char *shown, const struct key_config **ret)
{
    struct caller caller;
    bool known = auth_identify(config, shown, NULL, &caller);
    *ret = known ? caller.key : NULL;
    return known;
}

static int no_such(const struct warden *warden, struct err *reterr)
{
    return err_set(reterr, ERR_NOT_FOUND, ENOENT, NULL, "no such approval%s",
                   approvals_outlive_us(warden->approvals)
                       ? ""
                       : "; without an approval_directory, those from before the server's start are lost");
}

static int list(struct front *front, int *ret_fd, struct err *reterr)
{
    CLEANUP(approval_rows_clear) struct approval_rows rows = {0};
    size_t n = 0;
    for (struct approval_entry *entry = approvals_first(front->warden->approvals); entry;
         entry = entry->next) {
        n += entry->approval.state == APPROVAL_PENDING;
    }
    rows.rows = calloc(n + 1, sizeof *rows.rows);
    if (!rows.rows) {
        return err_errno(reterr, ENOMEM, "listing approvals");
    }
    for (struct approval_entry *entry = approvals_first(front->warden->approvals); entry;
         entry = entry->next) {
        if (entry->approval.state == APPROVAL_PENDING) {
            rows.rows[rows.n++] = entry->approval;
        }
    }
    return rows_file(&rows, ret_fd, reterr);
}

/* The row, and the job as long as it is kept. */
static int tell(const struct approval_entry *entry, int ret_fds[2], size_t *ret_n, struct err *reterr)
{
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    struct approval row = entry->approval;
    struct err err = {0};
    int r = rows_file(&(struct approval_rows){.rows = &row, .n = 1}, &ret_fds[0], reterr);
    *ret_n = 1;
    if (r < 0) {
        return r;
    }
    r = approvals_read_job(entry, &packed, &err);
    if (r < 0) {
        return err.kind == ERR_CONFLICT ? 0 : err_set(reterr, err.kind, err.code, err.item, "%s", err.text);
    }
    *ret_n = 2;
    r = io_memfd("submission", packed.data, packed.len, &ret_fds[1]);
    return r < 0 ? err_errno(reterr, -r, "telling of a job that waits for approval") : 0;
}

/* It has been decided, and that must not sound as if it had not. */
static int tell_decided(const struct warden *warden, const struct approval_entry *entry, int ret_fds[2],
                        size_t *ret_n, struct err *reterr)
{
    struct err err = {0};
    int r = tell(entry, ret_fds, ret_n, &err);
    if (r == 0) {
        return 0;
    }
    log_err(warden->log, LOG_WARNING, "decision_not_told", &err);
    if (ret_fds[0] >= 0) {
        *ret_n = 1; /* the row says enough */
        return 0;
    }
    err_set(reterr, ERR_BUSY, -r, NULL, "the job is %s, but its approval could not be told of",
            approval_state_to_string(entry->approval.state));
    return r;
}

static int decide(struct front *front, struct approval_entry *entry, const struct key_config *key,
                  const struct msg_approval_query *query, struct err *reterr)
{
    struct warden *warden = front->warden;
    const struct approval *approval = &entry->approval;
    struct err err = {0};
    die_here("decision");
    if (approval->state == APPROVAL_PENDING && query->approve) {
        int r = approval_still_runs(warden->settings, approval, reterr);
        if (r < 0) {
            return r;
        }
    }
    const struct policy *policy = policy_set_find(warden->settings->policies, approval->policy);
    int r = approvals_move(entry, query->approve ? APPROVAL_APPROVED : APPROVAL_REJECTED,
                           key ? key->name : "open", query->reason, reterr);
    if (r == 0 && query->approve && policy_spec(policy)->approval == APPROVAL_FIRST_USE &&
        approvals_grant(warden->approvals, approval, &err) < 0) {
        log_err(warden->log, LOG_ERROR, "first_use_not_noted", &err);
    }
    die_here("decided");
    return r;
}

static int handle(struct front *front, const struct msg_approval_query *query, int ret_fds[2], size_t *ret_n,
                  struct err *reterr)
{
    const struct server_config *config = front->warden->settings->config;
    const struct key_config *key;
    if (!identify(config, query->key, &key)) {
        return err_set(reterr, ERR_DENIED, EPERM, NULL, "a valid API key is required");
    }
    const struct caller caller = {.key = key, .name = key ? key->name : "open"};
    bool named = key && key->approver;
    bool approver = config->open || (named && auth_team_may(config, &caller));
    if (!approver && query->what != APPROVAL_GET) {
        return err_set(reterr, ERR_DENIED, EPERM, NULL, "%s",
                       named ? "this approver's team is not enabled" : "this key is no approver");
    }
    if (query->what == APPROVAL_LIST) {
        *ret_n = 1;
        return list(front, &ret_fds[0], reterr);
    }
    struct approval_entry *entry = approvals_find(front->warden->approvals, query->approval_id);
    if (!entry || (!approver && !approval_belongs_to(&entry->approval, key))) {
        return no_such(front->warden, reterr);
    }
    if (query->what != APPROVAL_DECIDE) {
        return tell(entry, ret_fds, ret_n, reterr);
    }
    int r = decide(front, entry, key, query, reterr);
    return r < 0 ? r : tell_decided(front->warden, entry, ret_fds, ret_n, reterr);
}

void approval_query_answer(struct front *front, const struct msg_approval_query *query)
{
    int fds[2] = {-1, -1};
    size_t n_fds = 0;
    struct err err = {0};
    int r = handle(front, query, fds, &n_fds, &err);
    if (query->what == APPROVAL_DECIDE) {
        approvals_tend(front->warden); /* before the answer, so that whoever has it finds the job */
    }
    answer(front, query->id, r, &err, false, fds, n_fds);
    fd_closep(&fds[0]);
    fd_closep(&fds[1]);
}
