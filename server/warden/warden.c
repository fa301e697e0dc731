/* The warden: start, signals, drain, end. The main process of `immure serve`, single-threaded, with one event
 * loop.
 *
 * It outlives every front and every job. Whatever a front sends, and however it dies, costs at most that
 * front and its jobs; the listening socket and the cgroup subtree stay ours throughout. */
#include "server/warden/warden.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/loop.h"
#include "jail/base/slice.h"
#include "server/approvals/approvals.h"
#include "server/audit/trail.h"
#include "server/host/notify.h"
#include "server/host/outer_ids.h"
#include "server/host/programs.h"
#include "server/kit/log.h"
#include "server/kit/signals.h"
#include "server/run/kernels.h"
#include "server/run/settings.h"
#include "server/run/warm.h"
#include "server/sessions/sessions.h"
#include "server/warden/filter.h"
#include "server/warden/kept_environment.h"
#include "server/warden/kept_jobs.h"
#include "server/warden/warden_internal.h"

/* Fewer for a test that counts them. */
#ifndef OUTER_UIDS
#define OUTER_UIDS OUTER_IDS_EACH
#endif

/* After the drain's time is over, how long fronts get to send the last replies. */
#define DRAIN_GRACE_NS (5 * NS_PER_S)

/* From there to the end of the process. */
#define STOP_MARGIN_NS (10 * NS_PER_S)

#define NOFILE_MAX 65536

/* Once: whoever binds to a socket's name after us has a socket of its own there. */
static void forget_address(struct warden *warden)
{
    if (warden->bound[0] != '\0' && !warden->listener_stays) {
        listen_forget(warden->settings->config->listen);
        warden->bound[0] = '\0';
    }
}

/* However long the drain may take, by the configuration: a service manager whose own patience is shorter does
 * not cut it short. */
static void tell_stopping(uint64_t most_ns)
{
    char text[96];
    uint64_t usec = (most_ns + STOP_MARGIN_NS) / (NS_PER_MS / 1000);
    snprintf(text, sizeof text, "STOPPING=1\nEXTEND_TIMEOUT_USEC=%llu", (unsigned long long)usec);
    notify_service_manager(text);
}

static void begin_drain(struct warden *warden)
{
    uint64_t timeout_ms = warden->settings->config->drain_timeout_ms;
    warden->draining = true;
    warden->begins_nothing = !warden->listener_stays;
    tell_stopping(timeout_ms * NS_PER_MS + DRAIN_GRACE_NS);
    LOG(warden->log, LOG_INFO, "draining", LOG_FIELD_U64("jobs", warden->n_jobs),
        LOG_FIELD_U64("timeout_ms", timeout_ms));
    /* With ours closed the port is free as soon as the fronts have closed theirs, unless a service manager
     * keeps it for the next server. */
    fd_closep(&warden->listen_fd);
    forget_address(warden);
    selftest_stop(warden);
    loop_timer_set(warden->restart_timer, 0);
    loop_timer_set(warden->drain_timer, clock_now_ns() + timeout_ms * NS_PER_MS + 1);
    for (struct front *front = warden->fronts; front; front = front->next) {
        front_drain(front);
    }
    warden_check_drained(warden);
}

static void kill_fronts(struct warden *warden)
{
    for (struct front *front = warden->fronts; front; front = front->next) {
        front_kill(front, "it did not end with the drain");
    }
}

static void end_now(struct warden *warden)
{
    job_cancel_all(warden);
    kill_fronts(warden);
    warden_check_drained(warden);
}

/* First the jobs' time is over, then the fronts'. */
static void on_drain_timeout(void *arg, uint32_t events)
{
    (void)events;
    struct warden *warden = arg;
    if (warden->n_jobs > 0) {
        LOG(warden->log, LOG_WARNING, "drain_timeout", LOG_FIELD_U64("jobs", warden->n_jobs));
        warden->begins_nothing = true;
        warden_publish_state(warden); /* before there are free slots */
        job_cancel_all(warden);
        loop_timer_set(warden->drain_timer, clock_now_ns() + DRAIN_GRACE_NS);
        return;
    }
    kill_fronts(warden);
}

static void on_signal(void *arg, uint32_t events)
{
    (void)events;
    struct warden *warden = arg;
    struct signalfd_siginfo info;
    if (read(warden->signal_fd, &info, sizeof info) != (ssize_t)sizeof info) {
        return;
    }
    char name[SIGNAL_NAME_BYTES];
    LOG(warden->log, LOG_INFO, "signal", LOG_FIELD_STR("name", signal_name((int)info.ssi_signo, name)));
    if (info.ssi_signo == SIGHUP) {
        if (warden->audit) {
            audit_trail_hangup(warden->audit);
        }
        warden_reload(warden);
    } else if (warden->draining) {
        end_now(warden);
    } else {
        begin_drain(warden);
    }
}

static int harden_self(const struct warden *warden, struct err *reterr)
{
    const struct rlimit no_core = {1,
                                   1}; /* 0 would still start a handler of core_pattern; see step_RLIMIT() */
    struct rlimit files;
    prctl(PR_SET_NAME, "immure-warden", 0, 0, 0);
    slice_shorten();
    /* What we allocate lies in the heap, which no jail is given a copy of (jail/spawn.c). Only where the heap
     * cannot grow does glibc map memory all the same. */
    mallopt(M_MMAP_MAX, 0);
    int r = host_leave_session_keyring();
    if (r < 0) {
        LOG(warden->log, LOG_DEBUG, "session_keyring", LOG_FIELD_STR("error", strerror(-r)));
    }
    if (setrlimit(RLIMIT_CORE, &no_core) < 0) {
        return err_errno(reterr, errno, "forbidding core dumps");
    }
    /* Each running job costs some ten descriptors. */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max < NOFILE_MAX ? files.rlim_max : NOFILE_MAX;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    return 0;
}

static int watch_signals(struct warden *warden, struct err *reterr)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_DFL); /* inherited as ignored, ends could not be waited for */
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0) {
        return err_errno(reterr, errno, "blocking signals");
    }
    warden->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (warden->signal_fd < 0) {
        return err_errno(reterr, errno, "watching signals");
    }
    return loop_add(warden->loop, warden->signal_fd, EPOLLIN, on_signal, warden, &warden->signal_source,
                    reterr);
}

static int open_loop(struct warden *warden, struct err *reterr)
{
    int r = loop_new(&warden->loop, reterr);
    if (r == 0) {
        r = watch_signals(warden, reterr);
    }
    if (r == 0) {
        r = loop_add_timer(warden->loop, front_restart_due, warden, &warden->restart_timer, reterr);
    }
    if (r == 0) {
        r = loop_add_timer(warden->loop, job_watch_due, warden, &warden->watch_timer, reterr);
    }
    if (r == 0) {
        r = loop_add_timer(warden->loop, on_drain_timeout, warden, &warden->drain_timer, reterr);
    }
    if (r == 0) {
        r = loop_add_timer(warden->loop, guard_tick, warden, &warden->guard_timer, reterr);
    }
    if (r == 0) {
        r = loop_add_timer(warden->loop, selftest_due, warden, &warden->selftest_timer, reterr);
    }
    if (r == 0) {
        r = loop_add_timer(warden->loop, guard_watchdog_due, warden, &warden->watchdog_timer, reterr);
    }
    if (r == 0) {
        r = warden_floor_open(warden, reterr);
    }
    return r;
}

static int open_host(struct warden *warden, struct err *reterr)
{
    const struct server_config *config = warden->settings->config;
    const struct host_options options = {
        .cgroup_mode = config->cgroup_best_effort ? CGROUP_BEST_EFFORT : CGROUP_REQUIRED,
        .best_effort = "cgroup: BEST_EFFORT in the configuration, or SANDBOX_EXECUTOR_CGROUP=BEST_EFFORT",
        .outer_uid_base = config->outer_uid_base,
        .n_outer_uids = OUTER_UIDS,
        .outer_uids_fixed = config->outer_uid_base != OUTER_IDS_BASE,
        .sub_ids = config->sub_uids && config->session_directory[0] == '\0',
    };
    int r = host_open(&options, &warden->host, reterr);
    if (r < 0) {
        return r;
    }
    if (warden->host.privileged && !warden->host.outer_uids_told) {
        LOG(warden->log, LOG_WARNING, "outer_uids_not_locked",
            LOG_FIELD_STR("means", "another server on this host may give its jails the same uids"));
    }
    if (warden->host.why_one_uid[0] != '\0') {
        LOG(warden->log, LOG_INFO, "one_uid_outside", LOG_FIELD_STR("why", warden->host.why_one_uid),
            LOG_FIELD_STR("means",
                          "all jails are this user outside, and share what the kernel counts by user"));
    }
    if (warden->host.degraded[0] != '\0') {
        LOG(warden->log, LOG_WARNING, "degraded", LOG_FIELD_STR("missing", warden->host.degraded),
            LOG_FIELD_STR("means",
                          "limits are enforced by rlimits and by watching memory every few milliseconds"));
    }
    warden->state.enforced_by_cgroup = warden->host.cgroups != NULL;
    warden->state.reloaded_ms = clock_wall_ms();
    warden->state.leftovers_swept = warden->host.leftovers_swept;
    snprintf(warden->state.degraded, sizeof warden->state.degraded, "%s", warden->host.degraded);
    snprintf(warden->state.why, sizeof warden->state.why, "the self-test has not ended yet");
    return host_drop_privileges(&warden->host, reterr);
}

static void on_sessions_changed(void *arg)
{
    warden_publish_state(arg);
}

static void on_session_ended(void *arg, const struct session *session, bool at_once)
{
    const struct warden *warden = arg;
    kernels_end_session(warden->kernels, session, at_once);
}

static int open_sessions(struct warden *warden, struct err *reterr)
{
    const struct kernels_options kernels = {.host = &warden->host,
                                            .loop = warden->loop,
                                            .log = &warden->log,
                                            .changed = on_sessions_changed,
                                            .arg = warden};
    const struct sessions_options options = {
        .host = &warden->host,
        .loop = warden->loop,
        .log = &warden->log,
        .changed = on_sessions_changed,
        .over = job_end_session,
        .ended = on_session_ended,
        .answered = session_answer_send,
        .arg = warden,
    };
    int r = kernels_new(&kernels, &warden->kernels, reterr);
    return r < 0 ? r : sessions_new(&options, warden->settings->config, &warden->sessions, reterr);
}

/* Once, so that every front is the same program, whatever becomes of its file. */
static int open_front_program(struct warden *warden, struct err *reterr)
{
    char path[PATH_MAX];
    int r = program_find(FRONT_PROGRAM, path, reterr);
    if (r < 0) {
        return r;
    }
    warden->front_fd = open(path, O_PATH | O_CLOEXEC);
    return warden->front_fd < 0 ? err_errno(reterr, errno, "opening %s", path) : 0;
}

/* Everything up to the first front, in an order that matters: the port while we may still bind it, the host
 * before anything else could make a thread or a child. */
static int start(struct warden *warden, struct err *reterr)
{
    const struct server_config *config = warden->settings->config;
    int r = open_front_program(warden, reterr);
    if (r == 0) {
        r = harden_self(warden, reterr);
    }
    r = r < 0 ? r : settings_check_open_files(warden->settings, reterr);
    if (r == 0) {
        r = warden->listener_stays ? listen_check(config->listen, warden->listen_fd, warden->bound, reterr)
                                   : listen_open(config->listen, &warden->listen_fd, warden->bound, reterr);
    }
    if (r == 0) {
        r = open_host(warden, reterr);
    }
    if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        r = err_errno(reterr, errno, "setting no_new_privs");
    }
    r = r < 0 ? r : warden_filter_enter(reterr);
    if (r == 0) {
        r = open_loop(warden, reterr);
    }
    if (r == 0) {
        r = open_sessions(warden, reterr);
    }
    if (r == 0) {
        r = warden_audit_start(warden, reterr);
    }
    if (r == 0) {
        r = warden_approvals_open(warden, reterr);
    }
    if (r == 0) {
        r = kept_jobs_new(warden->loop, config, &warden->kept, reterr);
    }
    if (r == 0) {
        r = front_start(warden, warden->settings, &warden->current, reterr);
    }
    if (r < 0) {
        return r;
    }
    LOG(warden->log, LOG_INFO, "listening", LOG_FIELD_STR("address", warden->bound),
        LOG_FIELD_STR("environment", config->environment), LOG_FIELD_BOOL("open", config->open),
        LOG_FIELD_STR("enforced_by", warden->host.cgroups ? "cgroup2" : "rlimit"));
    warden_keys_watch(warden, warden_reload_keys);
    warden_start_warm(warden);
    selftest_start(warden);
    if (warden->watchdog_ns > 0) {
        guard_watchdog_due(warden, 0);
    }
    return 0;
}

static void stop(struct warden *warden)
{
    selftest_stop(warden);
    while (warden->fronts) {
        front_discard(warden->fronts);
    }
    approvals_free(TAKE_PTR(warden->approvals));
    kept_jobs_free(TAKE_PTR(warden->kept));
    warden_audit_stop(warden);
    warden_keys_stop(warden);
    while (warden->jobs) {
        job_discard(warden->jobs);
    }
    while (warden->dying) {
        job_discard(warden->dying);
    }
    kernels_free(TAKE_PTR(warden->kernels));
    /* The end of a session is published, with whatever else there is to tell. */
    sessions_free(TAKE_PTR(warden->sessions));
    warm_free(TAKE_PTR(warden->warm));
    forget_address(warden);
    loop_remove(warden->signal_source);
    loop_remove(warden->restart_timer);
    loop_remove(warden->watch_timer);
    loop_remove(warden->drain_timer);
    loop_remove(warden->guard_timer);
    loop_remove(warden->selftest_timer);
    loop_remove(warden->watchdog_timer);
    warden_floor_close(warden);
    loop_free(warden->loop);
    host_close(&warden->host);
    fd_closep(&warden->signal_fd);
    fd_closep(&warden->listen_fd);
    fd_closep(&warden->front_fd);
    fd_closep(&warden->environment_fd);
    settings_unref(warden->settings);
    log_free(warden->log);
}

/* Reads the configuration, then forgets the secrets of the environment. */
static int load(struct warden *warden, struct err *reterr)
{
    int r = kept_environment_save(environ, &warden->environment_fd, reterr);
    if (r == 0) {
        r = settings_load(warden->options->config_path, environ, NULL, &warden->settings, reterr);
    }
    r = r < 0 ? r : settings_check_start(warden->settings, reterr);
    server_config_scrub_environment();
    if (r < 0) {
        return r;
    }
    const struct server_config *config = warden->settings->config;
    warden->log = log_new(STDERR_FILENO, config->log_format, config->log_level, "warden");
    if (!warden->log) {
        return err_errno(reterr, ENOMEM, "starting the log");
    }
    settings_log_absent(warden->settings, warden->log);
    settings_log_no_caller(warden->settings, warden->log);
    settings_log_teams_off(warden->settings, warden->log);
    return 0;
}

int warden_run(const struct warden_options *options, struct err *reterr)
{
    struct warden warden = {.options = options,
                            .environment_fd = -1,
                            .front_fd = -1,
                            .listen_fd = -1,
                            .signal_fd = -1,
                            .keys = {.fd = -1},
                            .hear = front_receive,
                            .floor = {.fd = -1},
                            .watchdog_ns = notify_watchdog_ns()};
    int r = listen_inherited(&warden.listen_fd, reterr);
    warden.listener_stays = r > 0;
    r = r < 0 ? r : load(&warden, reterr);
    if (r == 0 && options->check_only) {
        r = warden_audit_open(&warden, warden.settings, &warden.audit, reterr);
    }
    if (r == 0 && options->check_only) {
        puts("configuration and policies are valid");
        stop(&warden);
        return 0;
    }
    if (r == 0) {
        r = start(&warden, reterr);
    }
    if (r == 0) {
        r = loop_run(warden.loop, reterr);
    }
    if (r == 0 && warden.hopeless.kind != ERR_NONE) {
        *reterr = warden.hopeless;
        r = -ECHILD;
    }
    if (r == 0) {
        LOG(warden.log, LOG_INFO, "stopped", LOG_FIELD_U64("front_restarts", warden.state.front_restarts));
    }
    stop(&warden);
    return r;
}
