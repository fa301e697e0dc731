/* The front's life, as the warden sees it.
 *
 *     STARTING ─hello─► SERVING ─drain─► DRAINING ─exit─► (freed)
 *         └────────────────┴────────────────┴── broken rule, closed channel ─► DYING ─exit─► (freed)
 *
 * There may be several at once: after a reload the old one drains while its successor serves. Each has a
 * channel and settings of its own. When one dies, its jobs die; the current one is started again on the same
 * socket. */
#include "server/warden/warden_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/base/loop.h"
#include "jail/resources/idmap.h"
#include "server/approvals/approvals.h"
#include "server/host/notify.h"
#include "server/host/process_stats.h"
#include "server/kit/log.h"
#include "server/kit/signals.h"
#include "server/link/channel.h"
#include "server/run/kernels.h"
#include "server/run/settings.h"
#include "server/run/warm.h"
#include "server/sessions/sessions.h"

/* A server that none of its fronts has begun to serve gives up once they die so often that it would wait so
 * long for the next one. */
#define HOPELESS_WAIT_NS (4 * NS_PER_S)

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

const char *front_state_to_string(enum front_state state)
{
    return (size_t)state < FRONT_STATE_COUNT ? state_names[state] : "unknown";
}

/* The only place where a front changes its state; false where it may not. */
static bool set_state(struct front *front, enum front_state state)
{
    if (!(state_successors[front->state] >> state & 1)) {
        return false;
    }
    LOG(front->warden->log, LOG_DEBUG, "front_state", LOG_FIELD_I64("pid", front->process.pid),
        LOG_FIELD_STR("from", state_names[front->state]), LOG_FIELD_STR("to", state_names[state]));
    front->state = state;
    return true;
}

static void close_channel(struct front *front)
{
    loop_remove(front->channel_source);
    front->channel_source = NULL;
    channel_free(front->channel);
    front->channel = NULL;
    job_cancel_all_of(front);
    approvals_forget_front(front);
}

void front_kill(struct front *front, const char *why)
{
    if (!set_state(front, FRONT_DYING)) {
        return;
    }
    LOG(front->warden->log, LOG_ERROR, "front_killed", LOG_FIELD_I64("pid", front->process.pid),
        LOG_FIELD_STR("reason", why));
    pidfd_send_signal(front->process.pidfd, SIGKILL, NULL, 0);
    close_channel(front);
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

static uint32_t count_jobs_elsewhere(const struct front *front)
{
    uint32_t n = 0;
    for (const struct warden_job *job = front->warden->jobs; job; job = job->next) {
        n += job->front != front && !job->is_selftest;
    }
    return n;
}

static void send_state(struct front *front)
{
    struct msg msg = {.type = MSG_STATE, .state = front->warden->state};
    msg.state.draining = front->warden->draining;
    msg.state.heap_bytes = process_heap_bytes();
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
                               .pss_bytes = counts[i].pss_bytes,
                               .templates_replaced = counts[i].replaced};
        snprintf(row.runtime, sizeof row.runtime, "%s", counts[i].runtime);
        changed = changed || row.parked != state->warm[i].parked || row.building != state->warm[i].building ||
                  row.pss_bytes != state->warm[i].pss_bytes ||
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

void warden_publish_warm(void *arg)
{
    struct warden *warden = arg;
    if (note_warm(warden)) {
        warden_publish_state(warden);
    }
}

void warden_publish_state(struct warden *warden)
{
    note_warm(warden);
    note_approvals(warden);
    warden->state.sessions = warden->sessions ? (uint32_t)sessions_count(warden->sessions) : 0;
    warden->state.kernels = (uint32_t)kernels_count(warden->kernels);
    for (struct front *front = warden->fronts; front; front = front->next) {
        send_state(front);
    }
}

void front_drain(struct front *front)
{
    set_state(front, FRONT_DRAINING);
    send_state(front);
}

void warden_tell_ready(struct warden *warden)
{
    bool serves = warden->current && warden->current->state == FRONT_SERVING;
    if (serves && warden->selftest.settings == NULL && !warden->ready_notified) {
        warden->ready_notified = true;
        notify_service_manager("READY=1");
    }
}

/* `denials` is -1 or a descriptor to be taken. */
static void on_hello(struct front *front, int denials)
{
    struct warden *warden = front->warden;
    guard_hello(front, denials);
    if (!set_state(front, FRONT_SERVING)) {
        return; /* drains already */
    }
    warden->has_served = true;
    LOG(warden->log, LOG_INFO, "front_serving", LOG_FIELD_I64("pid", front->process.pid));
    if (front == warden->successor) {
        warden_reload_succeeded(warden);
    }
    warden_tell_ready(warden);
    approvals_tend(warden);
}

/* Takes the message's contents over. */
static void handle(struct front *front, struct msg *msg, int *fds, size_t n_fds)
{
    switch (msg->type) {
    case MSG_HELLO:
        on_hello(front, n_fds > 0 ? TAKE_FD(fds[0]) : -1);
        break;
    case MSG_JOB:
        job_accept(front, TAKE_PTR(msg->job), fds);
        break;
    case MSG_CANCEL:
        job_cancel(front, msg->cancel.id);
        break;
    case MSG_PONG:
        guard_pong(front, msg->pong.number);
        break;
    case MSG_OUTPUTS:
        job_name_outputs(front, &msg->outputs);
        break;
    case MSG_RUN:
        job_run(front, msg->run.id, msg->run.approval_id, fds);
        break;
    case MSG_SUBMIT:
        approval_submit(front, msg->submit.id, fds[0]);
        break;
    case MSG_APPROVAL_QUERY:
        approval_query_answer(front, &msg->approval_query);
        explicit_bzero(msg->approval_query.key, sizeof msg->approval_query.key);
        break;
    case MSG_SESSION_QUERY:
        session_query_answer(front, &msg->session_query);
        break;
    default: /* channel_recv() lets nothing else through */
        break;
    }
    for (size_t i = 0; i < n_fds; i++) {
        fd_closep(&fds[i]);
    }
    msg_clear(msg);
}

/* There was no descriptor left for what came with it. Its sender lives on, and so do the jobs of others. */
static void refuse_bare(struct front *front, struct msg *msg)
{
    struct err err = {0};
    err_set(&err, ERR_BUSY, EMFILE, NULL, "server busy: no descriptor is free");
    log_err(front->warden->log, LOG_WARNING, "job_refused", &err);
    if (msg->type == MSG_SUBMIT) {
        approval_refuse(front, msg->submit.id, &err);
    } else {
        /* An approved job waits on: it is handed over again. */
        uint64_t id = msg->type == MSG_RUN ? msg->run.id : msg->job->id;
        if (front_next_job(front, id, NULL)) {
            job_refuse(front, id, &err, 0);
        }
    }
    msg_clear(msg);
}

void front_receive(struct front *front, int most)
{
    for (int i = 0; i < most && front->channel; i++) {
        struct msg msg = {.type = MSG_NONE};
        struct err err = {0};
        int fds[IO_FDS_MAX];
        size_t n_fds = ARRAY_SIZE(fds);
        int r = channel_recv(front->channel, &msg, fds, &n_fds, &err);
        if (r == 0) {
            return;
        }
        if (r == -EPIPE) {
            if (front->state == FRONT_DRAINING) {
                close_channel(front); /* it is exiting, as told */
            } else {
                front_kill(front, "it closed its channel");
            }
            return;
        }
        if (r < 0) {
            front_kill(front, err.text);
            return;
        }
        if (r == CHANNEL_BARE) {
            refuse_bare(front, &msg);
            continue;
        }
        handle(front, &msg, fds, n_fds);
    }
}

static void on_channel_event(void *arg, uint32_t events)
{
    struct front *front = arg;
    if (events & EPOLLOUT) {
        struct err err = {0};
        int r = channel_flush(front->channel, &err);
        if (r < 0 && r != -EPIPE && r != -ECONNRESET) {
            front_kill(front, err.text);
            return;
        }
        update_events(front);
    }
    if (events & ~(uint32_t)EPOLLOUT) {
        front_receive(front, 16); /* one front must not keep the warden from its other duties */
    }
}

static void free_front(struct front *front)
{
    struct warden *warden = front->warden;
    struct front **at = &warden->fronts;
    while (*at && *at != front) {
        at = &(*at)->next;
    }
    if (*at) {
        *at = front->next;
    }
    close_channel(front);
    front_audit_end(front);
    guard_end(front);
    loop_remove(front->pidfd_source);
    fd_closep(&front->process.pidfd);
    settings_unref(front->settings);
    free(front);
}

void front_discard(struct front *front)
{
    pidfd_send_signal(front->process.pidfd, SIGKILL, NULL, 0);
    waitpid(front->process.pid, NULL, 0);
    free_front(front);
}

static void log_exit(const struct front *front, const siginfo_t *info)
{
    char name[SIGNAL_NAME_BYTES];
    bool exited = info->si_code == CLD_EXITED;
    bool expected = front->state == FRONT_DRAINING && exited && info->si_status == 0;
    LOG(front->warden->log, expected ? LOG_INFO : LOG_ERROR, "front_exited",
        LOG_FIELD_I64("pid", front->process.pid), LOG_FIELD_I64("exit_code", exited ? info->si_status : -1),
        LOG_FIELD_STR("signal", exited ? NULL : signal_name(info->si_status, name)));
}

static void schedule_restart(struct warden *warden, uint64_t lived_ns)
{
    warden->state.front_restarts++;
    uint64_t delay_ns = backoff_after_death(&warden->backoff, lived_ns);
    if (delay_ns == 0) {
        front_start_current(warden);
        return;
    }
    if (!warden->has_served && delay_ns >= HOPELESS_WAIT_NS) {
        err_set(&warden->hopeless, ERR_HOST, ECHILD, NULL,
                "none of %" PRIu64 " fronts could begin to serve: the log says what each of them ended with",
                warden->state.front_restarts);
        loop_stop(warden->loop);
        return;
    }
    LOG(warden->log, LOG_WARNING, "front_restart_delayed", LOG_FIELD_U64("delay_ms", delay_ns / NS_PER_MS));
    loop_timer_set(warden->restart_timer, clock_now_ns() + delay_ns);
}

static void on_exit_event(void *arg, uint32_t events)
{
    (void)events;
    struct front *front = arg;
    struct warden *warden = front->warden;
    siginfo_t info = {0};
    if (waitid(P_PIDFD, (id_t)front->process.pidfd, &info, WEXITED | WNOHANG) < 0 || info.si_pid == 0) {
        return;
    }
    log_exit(front, &info);
    bool was_current = front == warden->current;
    bool was_successor = front == warden->successor;
    uint64_t lived_ns = clock_now_ns() - front->started_ns;
    free_front(front);
    if (was_current) {
        warden->current = NULL;
    }
    if (was_successor) {
        warden_reload_failed(warden);
    }
    if (was_current && !warden->draining) {
        schedule_restart(warden, lived_ns);
    }
    approvals_tend(warden); /* what it had been told to run and did not is another's */
    warden_check_drained(warden);
}

/* The first words: the configuration, then how things stand. */
static int send_config(struct front *front, struct err *reterr)
{
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    int r = server_config_encode(front->settings->config, &packed, reterr);
    if (r < 0) {
        return r;
    }
    CLEANUP(fd_closep) int config_fd = -1;
    r = io_memfd("configuration", packed.data, packed.len, &config_fd);
    if (r < 0) {
        return err_errno(reterr, -r, "handing the configuration to the front");
    }
    CLEANUP(fd_closep) int audit_fd = -1;
    r = front_audit_begin(front, &audit_fd, reterr);
    if (r < 0) {
        return r;
    }
    CLEANUP(freep) const char **held = NULL;
    size_t n_held;
    if (approval_held_policies(front->settings, &held, &n_held) < 0) {
        return err_errno(reterr, ENOMEM, "handing the configuration to the front");
    }
    struct msg msg = {.type = MSG_CONFIG,
                      .config = {.audit = audit_fd >= 0, .held = (char **)(uintptr_t)held, .n_held = n_held}};
    int fds[] = {config_fd, audit_fd};
    r = channel_send(front->channel, &msg, fds, msg.config.audit ? 2 : 1, reterr);
    if (r == 0) {
        send_state(front);
    }
    return r;
}

static int watch_front(struct front *front, struct err *reterr)
{
    struct loop *loop = front->warden->loop;
    int r = channel_new(TAKE_FD(front->process.channel_fd), CHANNEL_WARDEN, &front->channel, reterr);
    if (r == 0) {
        r = loop_add(loop, channel_fd(front->channel), EPOLLIN, on_channel_event, front,
                     &front->channel_source, reterr);
    }
    if (r == 0) {
        r = loop_add(loop, front->process.pidfd, EPOLLIN, on_exit_event, front, &front->pidfd_source, reterr);
    }
    return r == 0 ? send_config(front, reterr) : r;
}

int front_start(struct warden *warden, struct settings *settings, struct front **ret, struct err *reterr)
{
    uint32_t base, count;
    idmap_pool_range(warden->host.ids, &base, &count);
    const struct front_process_options options = {
        .executable_fd = warden->executable_fd,
        .listen_fd = warden->listen_fd,
        .change_ids = warden->host.privileged,
        .uid = base - 1, /* no jail ever has it */
        .host_network = server_config_connects(settings->config),
    };
    struct front_process process;
    int r = front_process_start(&options, &process, reterr);
    return r < 0 ? r : front_adopt(warden, settings, &process, ret, reterr);
}

static void end_process(struct front_process *process)
{
    pidfd_send_signal(process->pidfd, SIGKILL, NULL, 0);
    waitpid(process->pid, NULL, 0);
    fd_closep(&process->pidfd);
    fd_closep(&process->channel_fd);
}

int front_adopt(struct warden *warden, struct settings *settings, struct front_process *process,
                struct front **ret, struct err *reterr)
{
    struct front *front = calloc(1, sizeof *front);
    if (!front) {
        end_process(process);
        return err_errno(reterr, ENOMEM, "starting the front");
    }
    front->process = *process;
    front->warden = warden;
    front->state = FRONT_STARTING;
    front->audit_fd = -1;
    front->settings = settings_ref(settings);
    front->started_ns = clock_now_ns();
    front->next = warden->fronts;
    warden->fronts = front;
    guard_begin(front);
    int r = watch_front(front, reterr);
    if (r < 0) {
        front_discard(front);
        return r;
    }
    LOG(warden->log, LOG_INFO, "front_started", LOG_FIELD_I64("pid", front->process.pid));
    *ret = front;
    return 0;
}

void front_start_current(struct warden *warden)
{
    struct err err = {0};
    loop_timer_set(warden->restart_timer, 0);
    if (front_start(warden, warden->settings, &warden->current, &err) < 0) {
        log_err(warden->log, LOG_ERROR, "front_start_failed", &err);
        loop_timer_set(warden->restart_timer, clock_now_ns() + NS_PER_S);
    }
}

void front_restart_due(void *arg, uint32_t events)
{
    (void)events;
    struct warden *warden = arg;
    if (!warden->current && !warden->draining) {
        front_start_current(warden);
    }
}
