/* The state of the warden and of its fronts: what every other file here may use, and that uses none of them.
 * Runs in the warden.
 *
 *     STARTING ─hello─► SERVING ─drain─► DRAINING ─exit─► (freed)
 *         └────────────────┴────────────────┴── broken rule, closed channel ─► DYING ─exit─► (freed) */
#include "server/warden/warden_internal.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>

#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/loop.h"
#include "server/approvals/approvals.h"
#include "server/audit/trail.h"
#include "server/host/notify.h"
#include "server/host/process_stats.h"
#include "server/kit/log.h"
#include "server/link/channel.h"
#include "server/run/execution.h"
#include "server/run/kernels.h"
#include "server/run/settings.h"
#include "server/run/warm.h"
#include "server/sessions/sessions.h"
#include "server/warden/kept_jobs.h"

/* Between the end of one self-test and the next that a job's failure asks for: callers can make those. */
#ifndef DOUBT_PAUSE_NS
#define DOUBT_PAUSE_NS (5 * NS_PER_S)
#endif

static const char *const state_names[FRONT_STATE_COUNT] = {
    [FRONT_STARTING] = "starting",
    [FRONT_SERVING] = "serving",
    [FRONT_DRAINING] = "draining",
    [FRONT_DYING] = "dying",
};

/* Which states may follow which, one bit each. */
static const unsigned state_successors[FRONT_STATE_COUNT] = {
    [FRONT_STARTING] = 1u << FRONT_SERVING | 1u << FRONT_DRAINING | 1u << FRONT_DYING,
    [FRONT_SERVING] = 1u << FRONT_DRAINING | 1u << FRONT_DYING,
    [FRONT_DRAINING] = 1u << FRONT_DYING,
    [FRONT_DYING] = 0,
};

bool front_set_state(struct front *front, enum front_state state)
{
    if (!(state_successors[front->state] >> state & 1)) {
        return false;
    }
    LOG(front->warden->log, LOG_DEBUG, "front_state", LOG_FIELD_I64("pid", front->process.pid),
        LOG_FIELD_STR("from", state_names[front->state]), LOG_FIELD_STR("to", state_names[state]));
    front->state = state;
    return true;
}

/* Its jobs end, and nobody hears of them. */
static void cancel_jobs_of(struct front *front)
{
    for (struct warden_job *job = front->warden->jobs; job; job = job->next) {
        if (job->front == front) {
            job->front = NULL;
            execution_cancel(job->execution);
        }
    }
}

/* Whatever it was told to run it will not send any more. */
static void take_approved_from(const struct front *front)
{
    for (struct approval_entry *entry = approvals_first(front->warden->approvals); entry;
         entry = entry->next) {
        if (entry->runner == front) {
            entry->runner = NULL;
        }
    }
}

void front_close_channel(struct front *front)
{
    loop_remove(front->channel_source);
    front->channel_source = NULL;
    channel_free(front->channel);
    front->channel = NULL;
    cancel_jobs_of(front);
    kept_jobs_lose_front(front->warden->kept, front);
    session_files_forget(front->warden->sessions, front);
    take_approved_from(front);
}

void front_kill(struct front *front, const char *why)
{
    if (!front_set_state(front, FRONT_DYING)) {
        return;
    }
    LOG(front->warden->log, LOG_ERROR, "front_killed", LOG_FIELD_I64("pid", front->process.pid),
        LOG_FIELD_STR("reason", why));
    pidfd_send_signal(front->process.pidfd, SIGKILL, NULL, 0);
    front_close_channel(front);
}

bool front_next_job(struct front *front, uint64_t id, const char *broken)
{
    const char *why = id <= front->last_job_id ? "a job's id was used before" : broken;
    if (why) {
        front_kill(front, why);
        return false;
    }
    front->last_job_id = id;
    return true;
}

/* Watches for room in the socket exactly as long as something is queued. */
static void update_events(struct front *front)
{
    if (front->channel_source) {
        loop_modify(front->channel_source, EPOLLIN | (channel_wants_write(front->channel) ? EPOLLOUT : 0u));
    }
}

void front_send(struct front *front, const struct msg *msg, const int *fds, size_t n_fds)
{
    if (!front->channel) {
        return;
    }
    struct err err = {0};
    int r = channel_send(front->channel, msg, fds, n_fds, &err);
    if (r == -EPIPE || r == -ECONNRESET) {
        return; /* it is gone already; its pidfd tells the rest */
    }
    if (r < 0) {
        front_kill(front, err.text);
        return;
    }
    update_events(front);
}

void front_flush(struct front *front)
{
    struct err err = {0};
    int r = channel_flush(front->channel, &err);
    if (r < 0 && r != -EPIPE && r != -ECONNRESET) {
        front_kill(front, err.text);
        return;
    }
    update_events(front);
}

static uint32_t count_jobs_elsewhere(const struct front *front)
{
    uint32_t n = 0;
    for (const struct warden_job *job = front->warden->jobs; job; job = job->next) {
        n += job->front != front && !job->is_selftest;
    }
    return n;
}

void front_send_state(struct front *front)
{
    struct msg msg = {.type = MSG_STATE, .state = front->warden->state};
    msg.state.draining = front->warden->draining;
    msg.state.begins_nothing = front->warden->begins_nothing;
    msg.state.heap_bytes = process_heap_bytes();
    msg.state.log_lines_lost = log_lost(front->warden->log);
    msg.state.audit_lines_lost = front->warden->audit ? audit_trail_lost(front->warden->audit) : 0;
    msg.state.jobs_elsewhere = count_jobs_elsewhere(front);
    msg.state.superseded = front->state == FRONT_DRAINING && !front->warden->draining;
    front_send(front, &msg, NULL, 0);
}

/* Takes the stock's figures into the state; true if they have changed. */
static bool note_warm(struct warden *warden)
{
    struct warm_count counts[MSG_WARM_MAX];
    size_t n = warden->warm ? warm_counts(warden->warm, counts, MSG_WARM_MAX) : 0;
    struct msg_state *state = &warden->state;
    bool changed = n != state->n_warm;
    state->n_warm = n;
    for (size_t i = 0; i < n; i++) {
        struct msg_warm row = {.parked = counts[i].parked,
                               .building = counts[i].building,
                               .in_images = counts[i].in_images,
                               .pss_bytes = counts[i].pss_bytes,
                               .templates_replaced = counts[i].replaced};
        snprintf(row.runtime, sizeof row.runtime, "%s", counts[i].runtime);
        changed = changed || row.parked != state->warm[i].parked || row.building != state->warm[i].building ||
                  row.in_images != state->warm[i].in_images || row.pss_bytes != state->warm[i].pss_bytes ||
                  row.templates_replaced != state->warm[i].templates_replaced;
        state->warm[i] = row;
    }
    return changed;
}

static void note_approvals(struct warden *warden)
{
    const struct approvals_count count =
        warden->approvals ? approvals_count(warden->approvals) : (struct approvals_count){0};
    warden->state.approvals_pending = count.pending;
    warden->state.approvals_approved = count.approved;
    warden->state.approvals_rejected = count.rejected;
    warden->state.approvals_expired = count.expired;
    warden->state.approvals_lost = count.lost;
}

void warden_publish_state(struct warden *warden)
{
    note_warm(warden);
    note_approvals(warden);
    if (warden->sessions) {
        warden->state.sessions = (uint32_t)sessions_count(warden->sessions);
        warden->state.session_bytes =
            sessions_bytes(warden->sessions, warden->settings->config, &warden->state.session_bytes_most);
    }
    warden->state.kernels = (uint32_t)kernels_count(warden->kernels);
    for (struct front *front = warden->fronts; front; front = front->next) {
        front_send_state(front);
    }
}

void warden_publish_warm(void *arg)
{
    struct warden *warden = arg;
    if (note_warm(warden)) {
        warden_publish_state(warden);
    }
}

void warden_tell_ready(struct warden *warden)
{
    bool serves = warden->current && warden->current->state == FRONT_SERVING;
    if (serves && warden->selftest.settings == NULL && !warden->ready_notified) {
        warden->ready_notified = true;
        notify_service_manager("READY=1");
    }
}

void warden_tell_reloading(struct warden *warden)
{
    char text[80];
    if (!warden->ready_notified) {
        return; /* it waits for the first word, which is not to come too early */
    }
    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%llu",
             (unsigned long long)(clock_now_ns() / (NS_PER_MS / 1000)));
    notify_service_manager(text);
    warden->reload_notified = true;
}

void warden_tell_reloaded(struct warden *warden, const struct err *refused)
{
    char text[sizeof refused->item + sizeof refused->text + 64];
    if (!warden->reload_notified) {
        return;
    }
    snprintf(text, sizeof text, "READY=1\nSTATUS=%s%s%s%s", refused ? "the last reload was refused: " : "",
             refused ? refused->item : "", refused && refused->item[0] ? ": " : "",
             refused ? refused->text : "");
    for (char *at = strchr(text, '\n') + 1; *at; at++) {
        *at = iscntrl((unsigned char)*at) ? ' ' : *at; /* a line would be another variable */
    }
    notify_service_manager(text);
    warden->reload_notified = false;
}

void warden_doubt(struct warden *warden)
{
    if (warden->state.ready && !warden->selftest.settings && !warden->draining) {
        loop_timer_set(warden->selftest_timer, warden->selftest.concluded_ns + DOUBT_PAUSE_NS);
    }
}

void warden_check_drained(struct warden *warden)
{
    if (warden->draining && !warden->fronts && !warden->jobs) {
        loop_stop(warden->loop);
    }
}
