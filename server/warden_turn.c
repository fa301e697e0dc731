/* When an approved job's turn comes, beyond a slot: its session is there or may be made, and the kernel of
 * that runs no other call. Until then it stays approved, and nothing of it has begun. Runs in the warden.
 *
 * A job that was begun before its turn would be refused, and that was its only run. So the table of sessions
 * and that of kernels are asked first; and between the asking and the job's way back from the front nobody
 * may take what it was promised: approved jobs with a session go that way one at a time, and others are kept
 * out of the kernel. */
#include "server/warden_internal.h"

#include <string.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/policy.h"
#include "server/approvals.h"
#include "server/kernels.h"
#include "server/sessions.h"
#include "server/settings.h"

bool approval_is_handed_over(const struct approval_entry *entry)
{
    return entry->runner && entry->approval.state == APPROVAL_APPROVED;
}

bool approvals_claim_kernel(const struct warden *warden, const char *session_id)
{
    for (const struct approval_entry *entry = approvals_first(warden->approvals); entry;
         entry = entry->next) {
        if (approval_is_handed_over(entry) && entry->needs_kernel &&
            strcmp(entry->session_id, session_id) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_one_with_a_session_on_its_way(const struct warden *warden)
{
    for (const struct approval_entry *entry = approvals_first(warden->approvals); entry;
         entry = entry->next) {
        if (approval_is_handed_over(entry) && entry->session_id) {
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

bool approval_turn_has_come(const struct front *front, struct approval_entry *entry)
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
    int r = session_try(warden->sessions, config, entry->approval.key, entry->session_id, &session, &err);
    if (r == 0 && entry->needs_kernel) {
        r = kernel_try(warden->kernels, config, session, policy, &err);
    }
    /* What else it is refused for will not be otherwise later. */
    return r == 0 || (err.kind != ERR_BUSY && err.kind != ERR_RATE);
}
