/* The audit trail's way from the fronts into its file. Runs in the warden.
 *
 * Each front has one end of a socket of its own; what it sends there is one line each. Lines that are none
 * end the front, like any other word that it may not say. A front waits while the socket is full: no line is
 * lost because the warden has other things to do, and what a dead front has sent is still written. */
#include "server/warden/warden_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/loop.h"
#include "server/audit/chain.h"
#include "server/audit/trail.h"
#include "server/kit/log.h"
#include "server/run/settings.h"
#include "server/warden/warden.h"

/* Of one front at a time; it must not keep the warden from its other duties. */
#define LINES_AT_ONCE 32

static bool wants_trail(const struct settings *settings)
{
    return settings->config->audit_log && settings->config->audit_log[0] != '\0';
}

int warden_audit_open(struct warden *warden, const struct settings *settings, struct audit_trail **ret,
                      struct err *reterr)
{
    const struct server_config *config = settings->config;
    const struct audit_trail_options options = {.path = config->audit_log,
                                                .max_bytes = config->audit_log_bytes,
                                                .log = &warden->log,
                                                .only_look = warden->options->check_only};
    *ret = NULL;
    if (!wants_trail(settings) ||
        (warden->audit && strcmp(audit_trail_path(warden->audit), config->audit_log) == 0)) {
        return 0;
    }
    return audit_trail_open(&options, ret, reterr);
}

int warden_audit_start(struct warden *warden, struct err *reterr)
{
    int r = warden_audit_open(warden, warden->settings, &warden->audit, reterr);
    return r == 0 && warden->audit ? audit_trail_begin(warden->audit, "started", reterr) : r;
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
        return;
    }
    if (next || !wants_trail(warden->settings)) {
        audit_trail_close(warden->audit);
        warden->audit = next;
    }
    if (warden->audit) {
        audit_trail_set_max_bytes(warden->audit, warden->settings->config->audit_log_bytes);
    }
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
        audit_trail_append(warden->audit, warden->audit_line, size);
    } else { /* since a reload; other fronts' lines are in the log as well */
        log_line(warden->log, warden->audit_line, (size_t)n);
    }
    return 1;
}

static void on_lines(void *arg, uint32_t events)
{
    (void)events;
    struct front *front = arg;
    int r = 1;
    for (int i = 0; i < LINES_AT_ONCE && r == 1; i++) {
        r = take_line(front);
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
    free(warden->audit_line);
    warden->audit_line = NULL;
}
