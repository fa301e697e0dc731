/* The way of an approved job to its jail: when its turn comes, to the front, which makes its pipes, and back.
 * Runs in the warden.
 *
 * Beyond a slot it waits until its session is there or may be made, and the kernel of that runs no other
 * call. The tables of sessions and of kernels are asked first; and between the asking and the job's way back
 * from the front, approved jobs with a session go that way one at a time, and others are kept out of the
 * kernel. What somebody takes from it all the same on that way (the last session, the last descriptor) it
 * waits for once more: it stays approved until all that it needs is there, and only then it has its one
 * run. */
#include "server/warden/warden_internal.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "policy/policy.h"
#include "server/approvals/approvals.h"
#include "server/callers/admission.h"
#include "server/callers/auth.h"
#include "server/kit/die_here.h"
#include "server/kit/input.h"
#include "server/kit/log.h"
#include "server/link/channel.h"
#include "server/run/execution.h"
#include "server/run/kernels.h"
#include "server/run/settings.h"
#include "server/sessions/sessions.h"

/* Its front has been told to run it, and has not sent it back yet. */
static bool is_handed_over(const struct approval_entry *entry)
{
    return entry->runner && !entry->put_off && entry->approval.state == APPROVAL_APPROVED;
}

bool approvals_claim_kernel(const struct warden *warden, const char *session_id)
{
    for (const struct approval_entry *entry = approvals_first(warden->approvals); entry;
         entry = entry->next) {
        if (is_handed_over(entry) && entry->needs_kernel && strcmp(entry->session_id, session_id) == 0) {
            return true;
        }
    }
    return false;
}

bool approval_belongs_to(const struct approval *approval, const struct key_config *key)
{
    static const unsigned char nobody[SHA256_BYTES];
    return memcmp(approval->owner, key ? key->sha256 : nobody, sizeof approval->owner) == 0;
}

int approval_still_runs(const struct settings *settings, const struct approval *approval, struct err *reterr)
{
    const struct server_config *config = settings->config;
    const struct key_config *key = server_config_key(config, approval->key);
    const struct caller caller = {.key = key, .name = approval->key};
    const struct runtime_config *runtime = server_config_runtime(config, approval->runtime);
    const struct policy *policy = policy_set_find(settings->policies, approval->policy);
    const char *why = NULL;
    if ((!key && !config->open) || !approval_belongs_to(approval, key)) {
        why = "the key that submitted it is none any more";
    } else if (key && key->expires_s > 0 && time(NULL) >= (time_t)key->expires_s) {
        why = "the key that submitted it has expired";
    } else if (!auth_team_may(config, &caller)) {
        why = "its team may not run jobs any more";
    } else if (!runtime || !policy || strcmp(policy_sha256(policy), approval->policy_sha256) != 0) {
        why = "its policy or runtime has changed since; it must be submitted again";
    } else if (!auth_may_use_runtime(config, &caller, runtime) ||
               !auth_may_use_policy(config, &caller, runtime,
                                    strcmp(approval->policy, runtime->policy) == 0 ? NULL
                                                                                   : approval->policy)) {
        why = "its key may not use its policy or runtime any more";
    }
    return why ? err_set(reterr, ERR_CONFLICT, EPERM, NULL, "%s", why) : 0;
}

static bool is_one_with_a_session_on_its_way(const struct warden *warden)
{
    for (const struct approval_entry *entry = approvals_first(warden->approvals); entry;
         entry = entry->next) {
        if (is_handed_over(entry) && entry->session_id) {
            return true;
        }
    }
    return false;
}

/* What it enters, in its own words. */
static int look_at(struct approval_entry *entry, const struct policy *policy, struct err *reterr)
{
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    CLEANUP(submission_clear) struct submission submission = {0};
    int r = approvals_read_job(entry, &packed, reterr);
    r = r < 0 ? r : submission_decode(packed.data, packed.len, &submission, reterr);
    if (r < 0) {
        return r;
    }
    if (submission.job->session_id) {
        entry->session_id = TAKE_PTR(submission.job->session_id);
        entry->needs_kernel = policy_spec(policy)->state == POLICY_STATE_KERNEL;
    }
    entry->looked_at = true;
    return 0;
}

static bool turn_has_come(const struct front *front, struct approval_entry *entry)
{
    const struct warden *warden = front->warden;
    const struct server_config *config = front->settings->config;
    const struct policy *policy = policy_set_find(front->settings->policies, entry->approval.policy);
    struct session *session;
    struct err err = {0};
    if (!policy || (!entry->looked_at && look_at(entry, policy, &err) < 0)) {
        return true; /* whoever hands it over finds the same, and says so */
    }
    if (!entry->session_id) {
        return true;
    }
    if (is_one_with_a_session_on_its_way(warden)) {
        return false;
    }
    const struct session_ask ask = {
        .config = config, .key = entry->approval.key, .session_id = entry->session_id};
    int r = session_try(warden->sessions, &ask, &session, &err);
    if (r == 0 && entry->needs_kernel) {
        r = kernel_try(warden->kernels, config, entry->approval.key, session, policy, &err);
    }
    /* What else it is refused for will not be otherwise later. */
    return r == 0 || (err.kind != ERR_BUSY && err.kind != ERR_RATE);
}

/* ---- To the front and back ---- */

unsigned approvals_handed_over(const struct warden *warden, const char *key)
{
    unsigned n = 0;
    for (const struct approval_entry *entry = approvals_first(warden->approvals); entry;
         entry = entry->next) {
        n += is_handed_over(entry) && (!key || strcmp(entry->approval.key, key) == 0);
    }
    return n;
}

bool approvals_await_answer(const struct warden *warden)
{
    const struct approval_entry *entry = approvals_first(warden->approvals);
    while (entry && !(entry->runner && entry->approval.state == APPROVAL_APPROVED)) {
        entry = entry->next;
    }
    return entry != NULL;
}

/* It will never run. */
static void give_up(struct warden *warden, struct approval_entry *entry, const struct err *why)
{
    struct err err = {0};
    log_err(warden->log, LOG_ERROR, "approved_job_not_run", why);
    if (approvals_move(entry, APPROVAL_LOST, NULL, why->text, &err) < 0) {
        log_err(warden->log, LOG_ERROR, "approval_not_lost", &err);
    }
}

/* What keeps an approved job from its run may be otherwise soon. */
static bool is_passing(const struct err *err)
{
    return err->kind == ERR_BUSY || err->kind == ERR_RATE || err->code == EMFILE || err->code == ENFILE ||
           err->code == ENOMEM || err->code == EINTR || err->code == EWOULDBLOCK;
}

/* After the front's answer to the next ping it is told to run it once more. */
static void give_to(struct front *front, struct approval_entry *entry)
{
    entry->runner = front;
    entry->runner_ping = front->guard.ping;
    entry->put_off = false;
}

/* The same, but for that it has not been told; nobody else waits for it meanwhile. */
static void put_off(struct front *front, struct approval_entry *entry)
{
    give_to(front, entry);
    entry->put_off = true;
}

static void hand_over(struct front *front, struct approval_entry *entry)
{
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    CLEANUP(fd_closep) int fd = -1;
    struct msg msg = {.type = MSG_APPROVAL_RUN};
    struct err err = {0};
    memcpy(msg.approval_run.approval_id, entry->approval.id, sizeof entry->approval.id);
    int r = approval_still_runs(front->settings, &entry->approval, &err);
    r = r < 0 ? r : approvals_read_job(entry, &packed, &err);
    if (r == 0 && (r = io_memfd("submission", packed.data, packed.len, &fd)) < 0) {
        err_errno(&err, -r, "handing an approved job over");
    }
    if (r < 0 && !is_passing(&err)) {
        give_up(front->warden, entry, &err);
        return;
    }
    if (r < 0) {
        log_err(front->warden->log, LOG_WARNING, "approved_job_waits", &err);
        put_off(front, entry);
        return;
    }
    give_to(front, entry);
    die_here("handed over");
    front_send(front, &msg, &fd, 1);
}

/* Whether one more approved job of this key leaves other keys a slot, where it has to. */
static bool keeps_last_slot(const struct front *front, const char *key)
{
    const struct warden *warden = front->warden;
    const struct server_config *config = front->settings->config;
    const struct key_config *caller = server_config_key(config, key);
    unsigned of_key = approvals_handed_over(warden, key);
    if (!caller || caller->max_concurrent_jobs > 0) {
        return true; /* the operator has said how many, and an approval goes past that */
    }
    for (const struct warden_job *job = warden->jobs; job; job = job->next) {
        of_key += !job->is_selftest && strcmp(execution_job(job->execution)->key, key) == 0;
    }
    return of_key < admission_jobs_of(config, caller);
}

void approvals_tend(struct warden *warden)
{
    struct front *front = warden->current;
    if (!front || front->state != FRONT_SERVING || !front->channel || warden->draining ||
        warden->state.short_of_memory || warden->state.audit_stopped) {
        return;
    }
    unsigned taken = warden->n_jobs + approvals_handed_over(warden, NULL);
    for (struct approval_entry *entry = approvals_first(warden->approvals), *next; entry; entry = next) {
        next = entry->next;
        if (entry->approval.state != APPROVAL_APPROVED || entry->runner) {
            continue;
        }
        if (taken >= warden->settings->config->max_concurrent_jobs || !front->channel) {
            return;
        }
        if (keeps_last_slot(front, entry->approval.key) && turn_has_come(front, entry)) {
            hand_over(front, entry);
            taken += is_handed_over(entry);
        }
    }
}

void approvals_answered(const struct front *front, uint64_t ping)
{
    for (struct approval_entry *entry = approvals_first(front->warden->approvals); entry;
         entry = entry->next) {
        if (entry->runner == front && entry->approval.state == APPROVAL_APPROVED &&
            ping > entry->runner_ping) {
            LOG(front->warden->log, LOG_WARNING, "approved_job_again",
                LOG_FIELD_STR("approval_id", entry->approval.id));
            entry->runner = NULL;
        }
    }
    approvals_tend(front->warden);
}

/* A sealed input as a front would have sent it. */
static int make_input(const struct submission *submission, int *ret_fd, struct err *reterr)
{
    struct input input = {.fd = -1};
    int r = input_new(&input, reterr);
    r = r < 0 ? r : input_append(&input, submission->input, submission->input_size, reterr);
    r = r < 0 ? r : input_seal(&input, reterr);
    if (r < 0) {
        input_clear(&input);
        return r;
    }
    *ret_fd = TAKE_FD(input.fd);
    return 0;
}

int approval_take(struct front *front, const char *approval_id, struct job **ret, int *ret_input,
                  struct err *reterr)
{
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    CLEANUP(submission_clear) struct submission submission = {0};
    CLEANUP(fd_closep) int input = -1;
    struct warden *warden = front->warden;
    struct approval_entry *entry = approvals_find(warden->approvals, approval_id);
    if (!entry || entry->runner != front || !is_handed_over(entry)) {
        return err_set(reterr, ERR_CONFLICT, EALREADY, NULL, "it runs a job that it was not told to run");
    }
    int r = approval_still_runs(front->settings, &entry->approval, reterr);
    r = r < 0 ? r : approvals_read_job(entry, &packed, reterr);
    r = r < 0 ? r : submission_decode(packed.data, packed.len, &submission, reterr);
    r = r < 0 ? r : make_input(&submission, &input, reterr);
    if (r < 0) {
        if (!is_passing(reterr)) {
            give_up(warden, entry, reterr);
        }
        approval_not_begun(front, approval_id, reterr);
        return r;
    }
    die_here("run");
    *ret = TAKE_PTR(submission.job);
    *ret_input = TAKE_FD(input);
    return 0;
}

int approval_begin(struct warden *warden, const char *approval_id, struct err *reterr)
{
    struct approval_entry *entry = approvals_find(warden->approvals, approval_id);
    int r = approvals_move(entry, APPROVAL_RUNNING, NULL, NULL, reterr);
    if (r < 0) {
        reterr->kind = ERR_BUSY; /* what the disk says now it may not say later */
    }
    return r;
}

void approval_not_begun(struct front *front, const char *approval_id, struct err *err)
{
    struct warden *warden = front->warden;
    struct approval_entry *entry = approvals_find(warden->approvals, approval_id);
    struct err disk = {0};
    if (!entry || (entry->approval.state == APPROVAL_APPROVED && entry->runner != front)) {
        return; /* nobody has it: its front was given up on the way */
    }
    bool waits = entry->approval.state == APPROVAL_APPROVED &&
                 (is_passing(err) || approval_begin(warden, approval_id, &disk) < 0);
    if (entry->approval.state == APPROVAL_RUNNING) {
        approval_end(warden, approval_id, true, err->text);
    }
    if (waits) {
        log_err(warden->log, LOG_WARNING, "approved_job_waits", err_is_set(&disk) ? &disk : err);
        err->kind = ERR_BUSY;
        entry->runner = NULL;
        if (turn_has_come(front, entry)) {
            put_off(front, entry);
        }
    } else if (err->kind == ERR_BUSY || err->kind == ERR_RATE) {
        err->kind = ERR_INTERNAL; /* to its front, too, it waits for nothing any more */
    }
}

void approval_end(struct warden *warden, const char *approval_id, bool known, const char *outcome)
{
    struct approval_entry *entry = approvals_find(warden->approvals, approval_id);
    struct err err = {0};
    die_here("ended");
    if (entry && approvals_end(entry, known ? APPROVAL_DONE : APPROVAL_LOST, outcome, &err) < 0) {
        log_err(warden->log, LOG_ERROR, "approval_not_ended", &err);
    }
}
