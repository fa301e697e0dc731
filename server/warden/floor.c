/* The floor under the host's memory (server/host/floor.h). Runs in the warden, also where cgroups limit each
 * job: what the kernel counts for nobody (slab, page tables, socket and pipe buffers) passes them by.
 *
 * While jobs run, or interpreters of sessions wait, the host is looked at some times a second. Once the floor
 * is passed no job begins, and the one that has grown most is ended; the next one, if that did not help, when
 * the kernel has had the time to take the first one apart. */
#include "server/warden/warden_internal.h"

#include <errno.h>
#include <stdlib.h>

#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/loop.h"
#include "server/kit/log.h"
#include "server/run/execution.h"
#include "server/run/kernels.h"
#include "server/run/settings.h"

#define LOOK_INTERVAL_NS (250 * NS_PER_MS)
/* From one end to the next. */
#define MERCY_NS       NS_PER_S
#define RETRY_AFTER_MS 1000

static struct floor_limits limits_of(const struct warden *warden)
{
    const struct server_config *config = warden->settings->config;
    return (struct floor_limits){.free_bytes = config->memory_free_bytes,
                                 .free_percent = config->memory_free_percent,
                                 .kernel_percent = config->kernel_memory_percent};
}

static void floor_due(void *arg, uint32_t events);

int warden_floor_open(struct warden *warden, struct err *reterr)
{
    struct err err = {0};
    if (floor_open(&warden->floor, FLOOR_MEMINFO, &err) < 0) {
        log_err(warden->log, LOG_WARNING, "no_memory_floor", &err);
    }
    return loop_add_timer(warden->loop, floor_due, warden, &warden->floor_timer, reterr);
}

void warden_floor_arm(struct warden *warden)
{
    if (!warden->floor_armed) {
        warden->floor_armed = true;
        loop_timer_set(warden->floor_timer, clock_now_ns() + LOOK_INTERVAL_NS);
    }
}

static size_t collect(struct warden *warden, struct floor_candidate *ret, size_t room)
{
    size_t n = 0;
    for (struct warden_job *job = warden->jobs; job && n < room; job = job->next) {
        if (!job->is_selftest && !job->ended_for_memory &&
            execution_state(job->execution) == EXECUTION_RUNNING) {
            ret[n] = (struct floor_candidate){
                .account = execution_account(job->execution), .owner = job, .is_job = true};
            execution_usage(job->execution, &ret[n].memory_bytes, &ret[n].cpu_ns);
            n++;
        }
    }
    return n + kernels_idle(warden->kernels, ret + n, room - n);
}

static void end_one(struct warden *warden, const struct floor_candidate *one)
{
    const struct job *job = one->is_job ? execution_job(((struct warden_job *)one->owner)->execution) : NULL;
    LOG(warden->log, LOG_WARNING, "ended_for_memory", LOG_FIELD_STR("what", job ? "job" : "kernel"),
        LOG_FIELD_STR("execution_id", job ? job->execution_id : ""),
        LOG_FIELD_STR("key", job ? job->key : ""), LOG_FIELD_U64("memory_bytes", one->memory_bytes),
        LOG_FIELD_U64("blamed_bytes", one->account->blamed_bytes));
    warden->state.ended_for_memory++;
    if (job) {
        ((struct warden_job *)one->owner)->ended_for_memory = true;
        execution_end_for_memory(((struct warden_job *)one->owner)->execution);
    } else {
        kernel_end_idle(one->owner);
    }
}

static void tell(struct warden *warden, bool passed)
{
    const struct floor_limits limits = limits_of(warden);
    LOG(warden->log, passed ? LOG_WARNING : LOG_INFO, passed ? "memory_floor_passed" : "memory_recovered",
        LOG_FIELD_U64("available_bytes", warden->floor.available_bytes),
        LOG_FIELD_U64("floor_bytes", floor_free_bytes(&warden->floor, &limits)),
        LOG_FIELD_U64("kernel_bytes", warden->floor.kernel_bytes),
        LOG_FIELD_U64("kernel_percent", limits.kernel_percent));
    warden->state.short_of_memory = passed;
    warden_publish_state(warden);
}

static void look(struct warden *warden)
{
    const struct floor_limits limits = limits_of(warden);
    int64_t change;
    uint64_t now_ns = clock_now_ns();
    bool passed = floor_look(&warden->floor, &limits, &change);
    warden->floor_looked_ns = now_ns;
    size_t room = warden->n_jobs + kernels_count(warden->kernels) + 1;
    CLEANUP(freep) struct floor_candidate *candidates = calloc(room, sizeof *candidates);
    size_t n = candidates ? collect(warden, candidates, room) : 0;
    floor_blame(candidates, n, change, warden->floor.kernel_bytes);
    if (passed != warden->state.short_of_memory) {
        tell(warden, passed);
    }
    if (passed && n > 0 && now_ns >= warden->floor_mercy_ns) {
        warden->floor_mercy_ns = now_ns + MERCY_NS;
        end_one(warden, &candidates[floor_choose(candidates, n)]);
        warden_publish_state(warden);
    }
}

static void floor_due(void *arg, uint32_t events)
{
    (void)events;
    struct warden *warden = arg;
    warden->floor_armed = false;
    look(warden);
    if (warden->n_jobs > 0 || kernels_count(warden->kernels) > 0 || warden->state.short_of_memory) {
        warden_floor_arm(warden);
    }
}

int warden_floor_check(struct warden *warden, uint64_t *ret_retry_after_ms, struct err *reterr)
{
    if (clock_now_ns() - warden->floor_looked_ns > LOOK_INTERVAL_NS) {
        look(warden);
        warden_floor_arm(warden);
    }
    if (!warden->state.short_of_memory) {
        return 0;
    }
    *ret_retry_after_ms = RETRY_AFTER_MS;
    return err_set(reterr, ERR_BUSY, EAGAIN, NULL, "server busy: the host is short of memory");
}

void warden_floor_close(struct warden *warden)
{
    loop_remove(warden->floor_timer);
    floor_close(&warden->floor);
}
