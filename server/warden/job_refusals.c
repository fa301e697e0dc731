/* What a front hears of a job that has not begun. Runs in the warden. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "server/kit/log.h"
#include "server/run/execution.h"
#include "server/run/verdict.h"
#include "server/warden/warden_internal.h"

static uint64_t soonest_end_ms(const struct warden *warden)
{
    const uint64_t floor_ms = 1;
    uint64_t soonest = UINT64_MAX, now_ns = clock_now_ns();
    for (const struct warden_job *job = warden->jobs; job; job = job->next) {
        uint64_t remaining = job->is_selftest ? UINT64_MAX : execution_remaining_ms(job->execution, now_ns);
        soonest = remaining < soonest ? remaining : soonest;
    }
    return soonest == UINT64_MAX ? 0 : soonest > floor_ms ? soonest : floor_ms;
}

static void refuse(struct front *front, uint64_t id, const struct err *err, bool no_slot,
                   uint64_t retry_after_ms)
{
    struct msg msg = {.type = MSG_REFUSED};
    msg.refused.id = id;
    msg.refused.no_slot = no_slot;
    msg.refused.kind = err->kind;
    snprintf(msg.refused.item, sizeof msg.refused.item, "%s", err->item);
    snprintf(msg.refused.text, sizeof msg.refused.text, "%s", err->text);
    if (err->kind == ERR_BUSY || err->kind == ERR_RATE) {
        msg.refused.retry_after_ms = retry_after_ms ? retry_after_ms : soonest_end_ms(front->warden);
    }
    front_send(front, &msg, NULL, 0);
}

void job_refuse(struct front *front, uint64_t id, const struct err *err, uint64_t retry_after_ms)
{
    refuse(front, id, err, false, retry_after_ms);
}

void job_refuse_slot(struct front *front, uint64_t id, const struct err *err, uint64_t retry_after_ms)
{
    refuse(front, id, err, true, retry_after_ms);
}

/* A jail that could not even be started is a verdict like any other setup error. */
static void report_setup_error(struct front *front, uint64_t id, const struct err *err)
{
    struct msg msg = {.type = MSG_DONE};
    msg.done.id = id;
    msg.done.enforced_by_cgroup = front->warden->host.cgroups != NULL;
    msg.done.policy = strdup("");
    msg.done.policy_sha256 = strdup("");
    if (msg.done.policy && msg.done.policy_sha256 && verdict_from_setup_error(err, &msg.done) == 0) {
        front_send(front, &msg, NULL, 0);
    } else {
        job_refuse(front, id, err, 0);
    }
    job_result_clear(&msg.done);
}

static bool is_callers_fault(enum err_kind kind)
{
    return kind == ERR_BUSY || kind == ERR_INVALID || kind == ERR_DENIED || kind == ERR_RATE ||
           kind == ERR_CONFLICT || kind == ERR_APPROVAL || kind == ERR_TOO_LARGE;
}

void job_report_failure(struct front *front, uint64_t id, const struct err *err, uint64_t retry_after_ms)
{
    log_err(front->warden->log, is_callers_fault(err->kind) ? LOG_DEBUG : LOG_WARNING, "job_refused", err);
    /* What fails between here and the program is a step of setting it up, and no secret. */
    if (err->kind == ERR_SETUP || err->kind == ERR_HOST || err->kind == ERR_INTERNAL) {
        report_setup_error(front, id, err);
        warden_doubt(front->warden);
    } else {
        bool kernel_runs = err->kind == ERR_BUSY && err->code == EBUSY;
        refuse(front, id, err, kernel_runs, retry_after_ms);
    }
}
