/* Jobs that wait for a slot. Runs in the front, which knows whose they are; how many slots there are is the
 * warden's to say. What it refuses for want of one waits here, if its request lets it, and what comes later
 * stands behind it.
 *
 * A turn comes when a job has ended, or the warden has said how things stand. It may still be too early: an
 * approved job or another front can have been faster. Then the warden says no once more, and the job goes
 * back to its place. It also says no while the kernel of a job's session runs another one: the job waits for
 * that. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "config/message/job.h"
#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/loop.h"
#include "server/bridge/bridge.h"
#include "server/bridge/egress.h"
#include "server/callers/admission.h"
#include "server/jobs/dispatch.h"
#include "server/jobs/dispatch_internal.h"
#include "server/jobs/front_context.h"
#include "server/jobs/job_io.h"
#include "server/jobs/request.h"

/* Places for each slot, where the configuration does not say. */
#define PLACES_PER_SLOT 4
/* What may wait holds its input in memory: as much as so many of the largest requests. */
#define LARGEST_AT_ONCE 4
/* After a turn that came too early. */
#define RETRY_NS (100 * NS_PER_MS)

static struct running *job_of(const struct slot_wait *wait)
{
    return CONTAINER_OF(wait, struct running, wait);
}

/* As far as is known here. */
static bool has_slot(const struct dispatch *dispatch)
{
    const struct front *front = dispatch->front;
    return dispatch_jobs_sent(dispatch) + front->state.jobs_elsewhere < front->config->max_concurrent_jobs;
}

static bool session_runs(const struct running *waiting)
{
    const struct running *job = waiting->session_id ? waiting->dispatch->jobs : NULL;
    while (job && (job->wait.queue || job->caller.key != waiting->caller.key || !job->session_id ||
                   strcmp(job->session_id, waiting->session_id) != 0)) {
        job = job->next;
    }
    return job != NULL;
}

static bool may_begin(void *arg, const struct slot_wait *wait)
{
    uint64_t ignored_ms;
    struct err ignored = {0};
    return !(job_of(wait)->waits_for_session && session_runs(job_of(wait))) &&
           dispatch_check_load(arg, &job_of(wait)->caller, &ignored_ms, &ignored) == 0;
}

static void arm(const struct dispatch *dispatch)
{
    loop_timer_set(dispatch->queue_timer, slot_queue_due_ns(dispatch->queue, clock_now_ns()));
}

/* It does not run, and nobody has heard of it. */
static void drop(struct running *job, const struct err *err, uint64_t retry_after_ms)
{
    struct request *request = job->request;
    dispatch_note_waited(job, true);
    dispatch_unlink(job);
    dispatch_job_free(job);
    request->job = NULL;
    request_refuse_err(request, err, retry_after_ms);
}

void dispatch_tend(struct dispatch *dispatch)
{
    const uint64_t now_ns = clock_now_ns();
    struct slot_wait *wait;
    while (has_slot(dispatch) && (wait = slot_queue_next(dispatch->queue, now_ns, may_begin, dispatch))) {
        struct running *job = job_of(wait);
        struct err err = {0};
        slot_queue_take(wait);
        job->queued_ns = now_ns - wait->since_ns;
        if (dispatch_launch(job, &err) < 0) {
            drop(job, &err, 0);
        }
    }
    dispatch_show_jobs(dispatch);
    arm(dispatch);
}

void dispatch_allow_wait(struct running *job)
{
    const struct server_config *config = job->dispatch->front->config;
    uint64_t wish_ms = job->execute.queue_ms == QUEUE_MS_DEFAULT ? config->queue_ms : job->execute.queue_ms;
    uint64_t queue_ms = wish_ms < config->max_queue_ms ? wish_ms : config->max_queue_ms;
    uint64_t now_ns = clock_now_ns();
    job->wait = (struct slot_wait){
        .account = job->caller.key ? job->caller.key->account : 0,
        .bytes = (size_t)job->execute.input.size + job->execute.stdin_size,
        .since_ns = now_ns,
        .until_ns = queue_ms > 0 ? now_ns + queue_ms * NS_PER_MS : 0,
    };
}

bool dispatch_must_wait(const struct running *job)
{
    const struct dispatch *dispatch = job->dispatch;
    bool others_first = slot_queue_count(dispatch->queue) > 0 && !has_slot(dispatch);
    return others_first || !may_begin(job->dispatch, &job->wait);
}

bool dispatch_may_wait(const struct running *job)
{
    const struct dispatch *dispatch = job->dispatch;
    return job->request && job->execute.job && !dispatch->front->state.begins_nothing &&
           clock_now_ns() < job->wait.until_ns &&
           slot_queue_has_room(dispatch->queue, job->wait.account, job->wait.bytes);
}

void dispatch_wait(struct running *job, bool was_refused)
{
    struct dispatch *dispatch = job->dispatch;
    job_io_free(TAKE_PTR(job->io));
    egress_job_free(TAKE_PTR(job->egress));
    bridge_free(TAKE_PTR(job->bridge));
    job->id = 0;
    slot_queue_join(dispatch->queue, &job->wait);
    bool too_early = was_refused && has_slot(dispatch);
    job->waits_for_session = too_early && session_runs(job);
    job->wait.not_before_ns = too_early && !job->waits_for_session ? clock_now_ns() + RETRY_NS : 0;
    dispatch_show_jobs(dispatch);
    arm(dispatch);
}

static uint64_t soonest_end_ms(const struct dispatch *dispatch)
{
    uint64_t soonest_ns = UINT64_MAX, now_ns = clock_now_ns();
    for (const struct running *job = dispatch->jobs; job; job = job->next) {
        soonest_ns = !job->wait.queue && job->deadline_ns < soonest_ns ? job->deadline_ns : soonest_ns;
    }
    return soonest_ns != UINT64_MAX && soonest_ns > now_ns ? (soonest_ns - now_ns) / NS_PER_MS : 0;
}

int dispatch_no_slot(const struct dispatch *dispatch, const struct caller *caller,
                     uint64_t *ret_retry_after_ms, struct err *reterr)
{
    int r = dispatch_check_load(dispatch, caller, ret_retry_after_ms, reterr);
    if (r < 0) {
        return r;
    }
    *ret_retry_after_ms = admission_retry_after_ms(dispatch->admission, soonest_end_ms(dispatch));
    return err_set(reterr, ERR_BUSY, EAGAIN, NULL, "server busy: execution capacity reached");
}

static struct running *first_until(const struct dispatch *dispatch, uint64_t until_ns)
{
    const struct slot_wait *wait = slot_queue_first(dispatch->queue);
    while (wait && wait->until_ns > until_ns) {
        wait = wait->next;
    }
    return wait ? job_of(wait) : NULL;
}

static void on_timer(void *arg, uint32_t events)
{
    (void)events;
    struct dispatch *dispatch = arg;
    struct running *job;
    dispatch_tend(dispatch); /* at the last moment */
    while ((job = first_until(dispatch, clock_now_ns()))) {
        uint64_t retry_after_ms;
        struct err err = {0};
        dispatch_no_slot(dispatch, &job->caller, &retry_after_ms, &err);
        drop(job, &err, retry_after_ms);
    }
    arm(dispatch);
}

void dispatch_stop_waiting(struct dispatch *dispatch)
{
    struct running *job;
    while ((job = first_until(dispatch, UINT64_MAX))) {
        struct err err = {0};
        err_set(&err, ERR_UNAVAILABLE, ESHUTDOWN, NULL, "the server is shutting down");
        drop(job, &err, 0);
    }
}

int dispatch_wait_open(struct dispatch *dispatch, struct err *reterr)
{
    const struct server_config *config = dispatch->front->config;
    size_t most = config->max_queued_jobs ? config->max_queued_jobs
                                          : (size_t)PLACES_PER_SLOT * config->max_concurrent_jobs;
    dispatch->queue =
        slot_queue_new(config->n_accounts, most, (size_t)config->max_body_bytes * LARGEST_AT_ONCE);
    return dispatch->queue
               ? loop_add_timer(dispatch->front->loop, on_timer, dispatch, &dispatch->queue_timer, reterr)
               : err_errno(reterr, ENOMEM, "making the table of jobs that wait");
}

void dispatch_wait_close(struct dispatch *dispatch)
{
    loop_remove(dispatch->queue_timer);
    slot_queue_free(dispatch->queue);
}
