/* The front's life, as the warden sees it: start, configuration, death, back-off. Runs in the warden.
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

#include "config/message/egress.h"
#include "config/policy/policy_file.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/base/loop.h"
#include "jail/resources/idmap.h"
#include "server/audit/trail.h"
#include "server/kit/log.h"
#include "server/kit/signals.h"
#include "server/link/channel.h"
#include "server/run/settings.h"

/* A server that none of its fronts has begun to serve gives up once they die so often that it would wait so
 * long for the next one. */
#define HOPELESS_WAIT_NS (4 * NS_PER_S)

void front_drain(struct front *front)
{
    front_set_state(front, FRONT_DRAINING);
    front_send_state(front);
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
    front_close_channel(front);
    relays_lose_front(front);
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

void front_drop_successor(struct warden *warden, const struct err *why)
{
    warden->successor = NULL;
    audit_trail_close(TAKE_PTR(warden->next_audit));
    log_err(warden->log, LOG_ERROR, "reload_refused", why);
    warden->state.reload_refused = true;
    warden_publish_state(warden);
    warden_tell_reloaded(warden, why);
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
    warden->hear(front, 1024); /* what it has said before its end */
    bool was_current = front == warden->current;
    bool was_successor = front == warden->successor;
    uint64_t lived_ns = clock_now_ns() - front->started_ns;
    free_front(front);
    if (was_current) {
        warden->current = NULL;
    }
    if (was_successor) {
        struct err err = {0};
        err_set(&err, ERR_UNAVAILABLE, 0, NULL, "the front did not start with the new configuration");
        front_drop_successor(warden, &err);
    }
    if (was_current && !warden->draining) {
        schedule_restart(warden, lived_ns);
    }
    approvals_tend(warden); /* what it had been told to run and did not is another's */
    warden_check_drained(warden);
}

static size_t lists_bytes(const struct policy_spec *spec)
{
    size_t bytes = 0;
    for (size_t i = 0; i < spec->n_images; i++) {
        bytes += strlen(spec->images[i]) + 8;
    }
    for (size_t i = 0; i < spec->n_preload; i++) {
        bytes += strlen(spec->preload[i]) + 8;
    }
    return bytes;
}

static struct msg_policy describe_policy(const struct policy *policy, size_t *bytes_left)
{
    const struct policy_spec *spec = policy_spec(policy);
    const struct policy_limits *limits = &spec->limits;
    size_t bytes = lists_bytes(spec);
    bool has_lists = bytes <= *bytes_left;
    *bytes_left -= has_lists ? bytes : 0;
    return (struct msg_policy){.name = spec->name,
                               .sha256 = (char *)(uintptr_t)policy_sha256(policy),
                               .image = spec->image,
                               .limits = {.memory_bytes = limits->memory_bytes,
                                          .pids = limits->pids,
                                          .cpu_percent = limits->cpu_percent,
                                          .cpu_ms = limits->cpu_ms,
                                          .scratch_bytes = limits->scratch_bytes,
                                          .output_bytes = limits->output_bytes,
                                          .timeout_ms = limits->timeout_ms},
                               .approval = spec->approval,
                               .kernel = spec->state == POLICY_STATE_KERNEL,
                               .loopback = spec->loopback,
                               .egress = spec->n_egress > 0,
                               .has_lists = has_lists,
                               .images = spec->images,
                               .preload = spec->preload,
                               .n_images = has_lists ? spec->n_images : 0,
                               .n_preload = has_lists ? spec->n_preload : 0};
}

/* Those that jobs can name; the texts are the settings'. */
static int describe_policies(const struct settings *settings, struct msg_policy **ret, size_t *ret_n)
{
    size_t n = policy_set_count(settings->policies), bytes_left = MSG_POLICY_LISTS_MAX;
    struct msg_policy *rows = calloc(n + 1, sizeof *rows);
    for (size_t i = 0; rows && i < n; i++) {
        const struct policy *policy = policy_set_at(settings->policies, i);
        if (policy_set_find(settings->policies, policy_name(policy)) == policy) {
            rows[(*ret_n)++] = describe_policy(policy, &bytes_left);
        }
    }
    *ret = rows;
    return rows ? 0 : -ENOMEM;
}

/* Policies whose programs may reach hosts, packed in a file: there can be more of them than a message holds.
 * `*ret_fd` stays as it is where there are none. */
static int pack_egress(const struct settings *settings, int *ret_fd, struct err *reterr)
{
    size_t n = policy_set_count(settings->policies);
    struct egress_policies all = {.policies = calloc(n + 1, sizeof *all.policies)};
    CLEANUP(freep) struct egress_rules *rows = all.policies;
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    for (size_t i = 0; rows && i < n; i++) {
        const struct policy_spec *spec = policy_spec(policy_set_at(settings->policies, i));
        if (spec->n_egress > 0 && policy_spec(policy_set_find(settings->policies, spec->name)) == spec) {
            rows[all.n_policies++] = (struct egress_rules){spec->name, spec->egress, spec->n_egress};
        }
    }
    if (rows && all.n_policies == 0) {
        return 0;
    }
    int r = rows ? bind_encode(&egress_policies_table, &all, &packed) : -ENOMEM;
    r = r < 0 ? r : io_memfd("egress", packed.data, packed.len, ret_fd);
    return r < 0 ? err_errno(reterr, -r, "handing the policies' hosts to the front") : 0;
}

static int pack_config(const struct front *front, int *ret_fd, struct err *reterr)
{
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    int r = server_config_encode(front->settings->config, &packed, reterr);
    if (r < 0) {
        return r;
    }
    r = io_memfd("configuration", packed.data, packed.len, ret_fd);
    return r < 0 ? err_errno(reterr, -r, "handing the configuration to the front") : 0;
}

/* One that goes on with keys that are none any more is not left alone. */
void front_send_callers(struct front *front)
{
    CLEANUP(fd_closep) int config_fd = -1;
    struct err err = {0};
    if (pack_config(front, &config_fd, &err) < 0) {
        front_kill(front, err.text);
        return;
    }
    front_send(front, &(struct msg){.type = MSG_CALLERS}, &config_fd, 1);
}

/* The first words: the configuration, then how things stand. One that cannot hear them any more, since a
 * library was not to be had, is a front that died. */
static int send_config(struct front *front, struct err *reterr)
{
    CLEANUP(fd_closep) int config_fd = -1;
    int r = pack_config(front, &config_fd, reterr);
    if (r < 0) {
        return r;
    }
    CLEANUP(fd_closep) int egress_fd = -1;
    CLEANUP(fd_closep) int audit_fd = -1;
    r = pack_egress(front->settings, &egress_fd, reterr);
    r = r < 0 ? r : front_audit_begin(front, &audit_fd, reterr);
    if (r < 0) {
        return r;
    }
    CLEANUP(freep) const char **held = NULL;
    size_t n_held;
    if (approval_held_policies(front->settings, &held, &n_held) < 0) {
        return err_errno(reterr, ENOMEM, "handing the configuration to the front");
    }
    CLEANUP(freep) struct msg_policy *policies = NULL;
    size_t n_policies = 0;
    if (describe_policies(front->settings, &policies, &n_policies) < 0) {
        return err_errno(reterr, ENOMEM, "handing the configuration to the front");
    }
    struct msg msg = {.type = MSG_CONFIG,
                      .config = {.audit = audit_fd >= 0,
                                 .egress = egress_fd >= 0,
                                 .held = (char **)(uintptr_t)held,
                                 .n_held = n_held,
                                 .policies = policies,
                                 .n_policies = n_policies}};
    int fds[MSG_CONFIG_FDS] = {config_fd};
    size_t n_fds = 1;
    for (size_t i = 0; i < 2; i++) {
        int fd = i == 0 ? egress_fd : audit_fd;
        if (fd >= 0) {
            fds[n_fds++] = fd;
        }
    }
    front_send(front, &msg, fds, n_fds);
    front_send_state(front);
    return 0;
}

static void on_channel_event(void *arg, uint32_t events)
{
    struct front *front = arg;
    if (events & EPOLLOUT) {
        front_flush(front);
    }
    if (events & ~(uint32_t)EPOLLOUT) {
        front->warden->hear(front, 16); /* one front must not keep the warden from its other duties */
    }
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

static bool settings_have_egress(const struct settings *settings)
{
    bool any = false;
    for (size_t i = 0; i < policy_set_count(settings->policies); i++) {
        any = any || policy_spec(policy_set_at(settings->policies, i))->n_egress > 0;
    }
    return any;
}

int front_start(struct warden *warden, struct settings *settings, struct front **ret, struct err *reterr)
{
    uint32_t base, count;
    idmap_pool_range(warden->host.ids, &base, &count);
    const struct front_process_options options = {
        .executable_fd = warden->front_fd,
        .listen_fd = warden->listen_fd,
        .change_ids = warden->host.privileged,
        .uid = base - 1, /* no jail ever has it */
        .host_network = server_config_connects(settings->config) || settings_have_egress(settings),
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
