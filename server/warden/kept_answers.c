/* What fronts say and ask about asynchronous jobs: that one is to be kept, what it has come to, what a caller
 * wants to know of it. Runs in the warden.
 *
 * A front that was taken over must not get at what was kept before: a query holds the key that its caller has
 * shown, and is answered for that key and no other. What a job has come to is said by the front that ran it,
 * once. A key that the settings in force do not have any more has nothing. */
#include "server/warden/warden_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "server/approvals/approvals.h"
#include "server/callers/auth.h"
#include "server/kit/log.h"
#include "server/run/settings.h"
#include "server/warden/kept_jobs.h"

static int begin(struct front *front, uint64_t id, const unsigned char owner[SHA256_BYTES],
                 const struct kept_row *row, bool in_any_case, struct err *reterr)
{
    struct kept_job *job;
    int r = kept_job_new(front->warden->kept, owner, row, in_any_case, &job, reterr);
    if (r == 0) {
        job->front = front;
        job->number = id;
    }
    return r;
}

int kept_begin(struct front *front, const struct job *asked, struct err *reterr)
{
    static const unsigned char nobody[SHA256_BYTES];
    struct warden *warden = front->warden;
    if (!asked->kept_id) {
        return 0;
    }
    const struct key_config *key = server_config_key(warden->settings->config, asked->key);
    if (!key && !warden->settings->config->open) {
        return 0; /* it has been taken away: nobody could ask */
    }
    if (kept_job_named(warden->kept, asked->kept_id) || approvals_find(warden->approvals, asked->kept_id)) {
        front_kill(front, "the id of an asynchronous job was used before");
        return err_set(reterr, ERR_INVALID, EEXIST, NULL, "the id of an asynchronous job was used before");
    }
    struct kept_row row = {.created_ms = asked->created_ms};
    snprintf(row.job_id, sizeof row.job_id, "%s", asked->kept_id);
    snprintf(row.execution_id, sizeof row.execution_id, "%s", asked->execution_id);
    snprintf(row.runtime, sizeof row.runtime, "%s", asked->runtime);
    return begin(front, asked->id, key ? key->sha256 : nobody, &row, false, reterr);
}

void kept_begin_approved(struct front *front, uint64_t id, const char *approval_id)
{
    struct warden *warden = front->warden;
    const struct approval_entry *entry = approvals_find(warden->approvals, approval_id);
    struct err err = {0};
    if (!entry || entry->runner != front || kept_job_named(warden->kept, approval_id)) {
        return;
    }
    struct kept_row row = {.created_ms = clock_wall_ms()};
    memcpy(row.job_id, entry->approval.id, sizeof row.job_id);
    snprintf(row.execution_id, sizeof row.execution_id, "%s", entry->approval.execution_id);
    snprintf(row.runtime, sizeof row.runtime, "%.64s", entry->approval.runtime);
    if (begin(front, id, entry->approval.owner, &row, true, &err) < 0) {
        log_err(warden->log, LOG_ERROR, "result_not_kept", &err);
    }
}

void kept_forget(const struct front *front, uint64_t id)
{
    kept_job_drop(kept_job_of_front(front->warden->kept, front, id));
}

void kept_take_verdict(const struct warden_job *job, int r, struct job_result *result)
{
    struct kept_job *kept = kept_job_of_front(job->warden->kept, job->front, job->id);
    bool told = job->announced || job->approval_id[0] != '\0';
    if (kept && !told && (r < 0 || result->status == JOB_SETUP_ERROR)) {
        kept_job_drop(kept); /* its caller is refused */
    } else if (kept && kept->reason && r >= 0 && result->status == JOB_CANCELLED) {
        free(result->error_text);
        result->error_text = TAKE_PTR(kept->reason);
    }
}

void kept_end(struct front *front, const struct msg_keep *keep, int fd)
{
    const int sealed = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
    struct kept_job *job = kept_job_of_front(front->warden->kept, front, keep->id);
    struct stat st = {0};
    int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
    if (fd >= 0 && (seals < 0 || (seals & sealed) != sealed || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
        fd_closep(&fd);
        front_kill(front, "a job's reply is not a sealed anonymous file");
    } else if (job) {
        kept_job_end(job, keep->status, fd, (size_t)st.st_size);
    } else {
        fd_closep(&fd); /* it has been forgotten meanwhile, with its key */
    }
}

/* ---- Queries ---- */

/* The hash of the key that was shown; zeros where there are none. */
static int identify(const struct warden *warden, const char *shown, unsigned char ret[SHA256_BYTES],
                    struct err *reterr)
{
    struct caller caller;
    if (!auth_identify(warden->settings->config, shown, NULL, &caller)) {
        return err_set(reterr, ERR_NOT_FOUND, ENOENT, NULL, "no such job");
    }
    memset(ret, 0, SHA256_BYTES);
    if (caller.key) {
        memcpy(ret, caller.key->sha256, SHA256_BYTES);
    }
    return 0;
}

/* One that runs is ended, and its verdict kept; one that has ended is forgotten. */
static void end(struct kept_job *job, const char *reason)
{
    if (!job->front) {
        kept_job_drop(job);
        return;
    }
    if (!job->reason && reason[0] != '\0') {
        job->reason = strdup(reason);
    }
    job_cancel(job->front, job->number);
}

static int handle(const struct warden *warden, const struct msg_kept_query *query,
                  struct msg_kept_answer *answer, int *ret_fd, struct err *reterr)
{
    unsigned char owner[SHA256_BYTES];
    int r = identify(warden, query->key, owner, reterr);
    if (r < 0) {
        return r;
    }
    struct kept_job *job =
        query->what == KEPT_LIST ? NULL : kept_job_find(warden->kept, owner, query->job_id);
    if (!job && query->what != KEPT_LIST) {
        return err_set(reterr, ERR_NOT_FOUND, ENOENT, NULL, "no such job");
    }
    if (query->what == KEPT_DELETE) {
        end(job, query->reason);
        return 0;
    }
    answer->rows = calloc(job ? 1 : MSG_KEPT_MAX, sizeof *answer->rows);
    if (!answer->rows) {
        return err_errno(reterr, ENOMEM, "telling of asynchronous jobs");
    }
    if (job) {
        answer->rows[0] = job->row;
        answer->n_rows = 1;
        *ret_fd = job->reply_fd;
    } else {
        answer->n_rows = kept_jobs_list(warden->kept, owner, answer->rows, MSG_KEPT_MAX);
    }
    return 0;
}

void kept_query_answer(struct front *front, const struct msg_kept_query *query)
{
    struct msg msg = {.type = MSG_KEPT_ANSWER, .kept_answer = {.id = query->id}};
    struct err err = {0};
    int reply_fd = -1;
    if (handle(front->warden, query, &msg.kept_answer, &reply_fd, &err) < 0) {
        msg.kept_answer.kind = err.kind;
        snprintf(msg.kept_answer.text, sizeof msg.kept_answer.text, "%s", err.text);
    }
    front_send(front, &msg, &reply_fd, reply_fd >= 0);
    msg_clear(&msg);
}
