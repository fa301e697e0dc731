/* The audit trail's way from the fronts into its file. Runs in the warden.
 *
 * Each front has one end of a socket of its own; what it sends there is one line each. Lines that are none
 * end the front, like any other word that it may not say. A front waits while the socket is full: no line is
 * lost because the warden has other things to do, and what a dead front has sent is still written.
 *
 * With `audit_on_failure: STOP` the warden writes a line of its own before each job begins, and none begins
 * whose line is not in the file. While something cannot be written, it tries once a second. */
#include "server/warden/warden_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/message/job.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/loop.h"
#include "policy/policy.h"
#include "server/audit/chain.h"
#include "server/audit/trail.h"
#include "server/kit/log.h"
#include "server/run/settings.h"
#include "server/warden/warden.h"

/* Of one front at a time; it must not keep the warden from its other duties. */
#define LINES_AT_ONCE 32

#define RETRY_AFTER_MS   1000
#define MEND_INTERVAL_NS NS_PER_S
/* Files are left and removed for their age. */
#define TEND_INTERVAL_NS (600 * NS_PER_S)

static bool wants_trail(const struct settings *settings)
{
    return settings->config->audit_log && settings->config->audit_log[0] != '\0';
}

static struct audit_trail_limits limits_of(const struct server_config *config)
{
    return (struct audit_trail_limits){.max_bytes = config->audit_log_bytes,
                                       .keep_files = config->audit_keep_files,
                                       .keep_days = config->audit_keep_days};
}

int warden_audit_open(struct warden *warden, const struct settings *settings, struct audit_trail **ret,
                      struct err *reterr)
{
    const struct server_config *config = settings->config;
    const struct audit_trail_options options = {.path = config->audit_log,
                                                .limits = limits_of(config),
                                                .log = &warden->log,
                                                .only_look = warden->options->check_only};
    *ret = NULL;
    if (!wants_trail(settings) ||
        (warden->audit && strcmp(audit_trail_path(warden->audit), config->audit_log) == 0)) {
        return 0;
    }
    return audit_trail_open(&options, ret, reterr);
}

static bool has_stopped(const struct warden *warden)
{
    return (!warden->audit || audit_trail_failure(warden->audit) != 0) &&
           warden->settings->config->audit_stop;
}

static void set_stopped(struct warden *warden, bool stopped)
{
    if (stopped == warden->state.audit_stopped) {
        return;
    }
    warden->state.audit_stopped = stopped;
    if (stopped) {
        LOG(warden->log, LOG_ERROR, "audit_stopped",
            LOG_FIELD_STR("audit_log", warden->settings->config->audit_log),
            LOG_FIELD_STR("error", warden->audit ? strerror(audit_trail_failure(warden->audit))
                                                 : "it could not be begun"),
            LOG_FIELD_STR("means", "no job begins"));
        loop_timer_set(warden->audit_timer, clock_now_ns() + MEND_INTERVAL_NS);
    } else {
        LOG(warden->log, LOG_WARNING, "audit_resumed", LOG_FIELD_STR("means", "jobs begin again"));
    }
}

/* After a reload whose trail could not be begun; why not has been told then. */
static void begin_late(struct warden *warden)
{
    struct audit_trail *next;
    struct err err = {0};
    if (warden_audit_open(warden, warden->settings, &next, &err) < 0) {
        return;
    }
    if (next && audit_trail_begin(next, "reconfigured", &err) < 0) {
        audit_trail_close(next);
        return;
    }
    warden->audit = next;
}

static void audit_due(void *arg, uint32_t events)
{
    (void)events;
    struct warden *warden = arg;
    bool more = false, before = warden->state.audit_stopped;
    if (has_stopped(warden) && !warden->audit) {
        begin_late(warden);
    } else if (has_stopped(warden)) {
        audit_trail_mend(warden->audit);
    }
    if (warden->audit && !has_stopped(warden)) {
        more = audit_trail_tend(warden->audit);
    }
    set_stopped(warden, has_stopped(warden));
    bool soon = more || warden->state.audit_stopped;
    loop_timer_set(warden->audit_timer, clock_now_ns() + (soon ? MEND_INTERVAL_NS : TEND_INTERVAL_NS));
    if (before || warden->state.audit_stopped) { /* a line that failed may have told nobody */
        warden_publish_state(warden);
        approvals_tend(warden);
    }
}

int warden_audit_start(struct warden *warden, struct err *reterr)
{
    int r = loop_add_timer(warden->loop, audit_due, warden, &warden->audit_timer, reterr);
    r = r < 0 ? r : warden_audit_open(warden, warden->settings, &warden->audit, reterr);
    r = r < 0 || !warden->audit ? r : audit_trail_begin(warden->audit, "started", reterr);
    if (r == 0) {
        loop_timer_set(warden->audit_timer, clock_now_ns());
    }
    return r;
}

int warden_audit_begin_job(struct warden *warden, const struct job *asked,
                           const struct runtime_config *runtime, const struct policy *policy,
                           uint64_t *ret_retry_after_ms, struct err *reterr)
{
    if (!warden->settings->config->audit_stop) {
        return 0;
    }
    const struct log_field fields[] = {
        LOG_FIELD_STR("key", asked->key),
        LOG_FIELD_STR("execution_id", asked->execution_id),
        LOG_FIELD_STR("runtime", runtime->name),
        LOG_FIELD_STR("session_id", asked->session_id),
        LOG_FIELD_STR("policy", policy_name(policy)),
        LOG_FIELD_STR("policy_sha256", policy_sha256(policy)),
        LOG_FIELD_U64("code_bytes", asked->code_size),
    };
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    log_compose("warden", LOG_INFO, "begin", fields, ARRAY_SIZE(fields), &line);
    int r = line.failed || !audit_chain_takes(line.data, line.len) ? -ENOMEM
            : !warden->audit                                       ? -ENOENT
                             : audit_trail_demand(warden->audit, line.data, line.len);
    if (has_stopped(warden) && !warden->state.audit_stopped) {
        set_stopped(warden, true);
        warden_publish_state(warden);
    }
    if (r < 0) {
        *ret_retry_after_ms = RETRY_AFTER_MS;
        return err_set(reterr, ERR_BUSY, EAGAIN, NULL,
                       "server busy: the audit log cannot be written, and no job begins without its line");
    }
    return 0;
}

void warden_audit_append(struct warden *warden, const char *line, size_t size)
{
    audit_trail_append(warden->audit, line, size);
    set_stopped(warden, warden->state.audit_stopped || has_stopped(warden));
}

/* The settings count from now on. Lines of fronts that still drain go where the new ones' go. */
void warden_audit_change(struct warden *warden)
{
    struct audit_trail *next = warden->next_audit;
    struct err err = {0};
    warden->next_audit = NULL;
    if (next && audit_trail_begin(next, "reconfigured", &err) < 0) {
        log_err(warden->log, LOG_ERROR, "audit_not_changed", &err);
        audit_trail_close(next);
        loop_timer_set(warden->audit_timer, clock_now_ns()); /* where there is none, no job may begin */
        return;
    }
    if (next || !wants_trail(warden->settings)) {
        audit_trail_close(warden->audit);
        warden->audit = next;
    }
    if (warden->audit) {
        const struct audit_trail_limits limits = limits_of(warden->settings->config);
        audit_trail_set_limits(warden->audit, &limits);
    }
    loop_timer_set(warden->audit_timer, clock_now_ns()); /* whether jobs begin, too */
}

static void hear_no_more(struct front *front)
{
    loop_remove(front->audit_source);
    front->audit_source = NULL;
    fd_closep(&front->audit_fd);
}

/* 1: a line; 0: none now; -1: none any more. */
static int take_line(struct front *front)
{
    struct warden *warden = front->warden;
    ssize_t n = recv(front->audit_fd, warden->audit_line, AUDIT_SENT_MAX + 1, MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    if (n <= 0) {
        return -1;
    }
    size_t size = (size_t)n - 1;
    if (size >= AUDIT_SENT_MAX || warden->audit_line[size] != '\n' ||
        !audit_chain_takes(warden->audit_line, size)) {
        front_kill(front, "it sent an audit line that is none");
        return -1;
    }
    if (warden->audit) {
        warden_audit_append(warden, warden->audit_line, size);
    } else { /* since a reload; other fronts' lines are in the log as well */
        log_line(warden->log, warden->audit_line, (size_t)n);
    }
    return 1;
}

static uint64_t count_lost(const struct warden *warden)
{
    return warden->audit ? audit_trail_lost(warden->audit) : 0;
}

static void on_lines(void *arg, uint32_t events)
{
    (void)events;
    struct front *front = arg;
    struct warden *warden = front->warden;
    uint64_t lost = count_lost(warden);
    bool stopped = warden->state.audit_stopped;
    int r = 1;
    for (int i = 0; i < LINES_AT_ONCE && r == 1; i++) {
        r = take_line(front);
    }
    if (count_lost(warden) != lost || warden->state.audit_stopped != stopped) {
        warden_publish_state(warden);
    }
    if (r < 0) {
        hear_no_more(front);
    }
}

int front_audit_begin(struct front *front, int *ret_fd, struct err *reterr)
{
    struct warden *warden = front->warden;
    int ends[2];
    *ret_fd = -1;
    if (!wants_trail(front->settings)) {
        return 0;
    }
    if (!warden->audit_line) {
        warden->audit_line = malloc(AUDIT_SENT_MAX + 1);
    }
    if (!warden->audit_line || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
        return err_errno(reterr, warden->audit_line ? errno : ENOMEM, "making the audit trail's socket");
    }
    int size = 2 * (int)AUDIT_SENT_MAX;
    setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    front->audit_fd = ends[0];
    *ret_fd = ends[1];
    return loop_add(warden->loop, ends[0], EPOLLIN, on_lines, front, &front->audit_source, reterr);
}

void front_audit_end(struct front *front)
{
    /* Its process has ended: this is all that it has said. */
    while (front->audit_fd >= 0 && take_line(front) == 1) {
    }
    hear_no_more(front);
}

void warden_audit_stop(struct warden *warden)
{
    audit_trail_close(warden->next_audit);
    audit_trail_close(warden->audit);
    warden->next_audit = warden->audit = NULL;
    loop_remove(TAKE_PTR(warden->audit_timer));
    free(warden->audit_line);
    warden->audit_line = NULL;
}
