/* The event loop: epoll with a callback per descriptor, timers as timerfds. Single-threaded, one in the
 * warden and one in the front. A source that is removed while its event is already fetched must not be
 * called: removed sources are kept on a list until the round is over.
 *
 * The kernel counts watches by user (fs.epoll.max_user_watches), and where jails are the same user as we, one
 * job can have all that there are. What finds no room in the epoll set is polled beside it until there is
 * some. */
#include "jail/base/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"

#define EVENTS_PER_ROUND 64

struct loop_source {
    struct loop *loop;
    int fd;
    bool timer;   /* fd is ours */
    bool removed; /* waits in loop->removed for the end of the round */
    loop_fn fn;
    void *arg;
    uint32_t events;
    bool polled;              /* in loop->polled: it has no watch */
    struct loop_source *next; /* in loop->removed, or in loop->polled */
};

struct loop {
    int epoll;
    bool stopped;
    bool dispatching;
    struct loop_source *removed;
    struct loop_source *polled;
    size_t n_polled;
};

int loop_new(struct loop **ret, struct err *reterr)
{
    struct loop *loop = calloc(1, sizeof *loop);
    if (!loop) {
        return err_errno(reterr, ENOMEM, "making an event loop");
    }
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll < 0) {
        int code = errno;
        free(loop);
        return err_errno(reterr, code, "epoll_create1");
    }
    *ret = loop;
    return 0;
}

static void free_removed(struct loop *loop)
{
    while (loop->removed) {
        struct loop_source *source = loop->removed;
        loop->removed = source->next;
        free(source);
    }
}

void loop_free(struct loop *loop)
{
    if (loop) {
        free_removed(loop);
        close(loop->epoll);
        free(loop);
    }
}

static int watch(struct loop_source *source)
{
    struct epoll_event event = {.events = source->events, .data.ptr = source};
    return epoll_ctl(source->loop->epoll, EPOLL_CTL_ADD, source->fd, &event) < 0 ? -errno : 0;
}

static void leave_polled(struct loop_source *source)
{
    struct loop_source **at = &source->loop->polled;
    while (*at != source) {
        at = &(*at)->next;
    }
    *at = source->next;
    source->polled = false;
    source->loop->n_polled--;
}

int loop_add(struct loop *loop, int fd, uint32_t events, loop_fn fn, void *arg, struct loop_source **ret,
             struct err *reterr)
{
    struct loop_source *source = calloc(1, sizeof *source);
    if (!source) {
        return err_errno(reterr, ENOMEM, "watching a descriptor");
    }
    *source = (struct loop_source){.loop = loop, .fd = fd, .fn = fn, .arg = arg, .events = events};
    int r = watch(source);
    if (r < 0 && r != -ENOSPC) {
        free(source);
        return err_errno(reterr, -r, "epoll_ctl");
    }
    if (r < 0) {
        source->polled = true;
        source->next = loop->polled;
        loop->polled = source;
        loop->n_polled++;
    }
    *ret = source;
    return 0;
}

int loop_modify(struct loop_source *source, uint32_t events)
{
    source->events = events;
    if (source->polled) {
        return 0;
    }
    struct epoll_event event = {.events = events, .data.ptr = source};
    return epoll_ctl(source->loop->epoll, EPOLL_CTL_MOD, source->fd, &event) < 0 ? -errno : 0;
}

void loop_remove(struct loop_source *source)
{
    if (!source || source->removed) {
        return;
    }
    struct loop *loop = source->loop;
    if (source->polled) {
        leave_polled(source);
    } else {
        epoll_ctl(loop->epoll, EPOLL_CTL_DEL, source->fd, NULL);
    }
    if (source->timer) {
        close(source->fd);
    }
    source->removed = true;
    if (loop->dispatching) {
        source->next = loop->removed;
        loop->removed = source;
    } else {
        free(source);
    }
}

int loop_add_timer(struct loop *loop, loop_fn fn, void *arg, struct loop_source **ret, struct err *reterr)
{
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fd < 0) {
        return err_errno(reterr, errno, "timerfd_create");
    }
    struct loop_source *source;
    int r = loop_add(loop, fd, EPOLLIN, fn, arg, &source, reterr);
    if (r < 0) {
        close(fd);
        return r;
    }
    source->timer = true;
    *ret = source;
    return 0;
}

int loop_timer_set(struct loop_source *timer, uint64_t deadline_ns)
{
    struct itimerspec at = {
        .it_value = {.tv_sec = (time_t)(deadline_ns / NS_PER_S), .tv_nsec = (long)(deadline_ns % NS_PER_S)}};
    return timerfd_settime(timer->fd, TFD_TIMER_ABSTIME, &at, NULL) < 0 ? -errno : 0;
}

/* True unless the timer was set again after its event had been fetched. */
static bool timer_is_due(const struct loop_source *timer)
{
    uint64_t expirations;
    return read(timer->fd, &expirations, sizeof expirations) == (ssize_t)sizeof expirations;
}

static void call(struct loop_source *source, uint32_t events)
{
    if (!source->removed && (!source->timer || timer_is_due(source))) {
        source->fn(source->arg, source->timer ? 0 : events);
    }
}

/* Gives those that are polled a watch, as far as there are any now. */
static void watch_polled(struct loop *loop)
{
    while (loop->polled && watch(loop->polled) == 0) {
        leave_polled(loop->polled);
    }
}

/* What poll() has to say of the set and of what has no place in it. Its bits are those of epoll. */
static int wait_polled(struct loop *loop, struct pollfd *fds, struct loop_source **sources, int timeout_ms)
{
    size_t n = 0;
    fds[n++] = (struct pollfd){.fd = loop->epoll, .events = POLLIN};
    for (struct loop_source *source = loop->polled; source; source = source->next) {
        sources[n] = source;
        fds[n++] = (struct pollfd){.fd = source->fd, .events = (short)source->events};
    }
    return poll(fds, n, timeout_ms);
}

static int poll_beside(struct loop *loop, int timeout_ms, struct err *reterr)
{
    size_t n = loop->n_polled + 1;
    CLEANUP(freep) struct pollfd *fds = calloc(n, sizeof *fds);
    CLEANUP(freep) struct loop_source **sources = calloc(n, sizeof(struct loop_source *));
    if (!fds || !sources) {
        return err_errno(reterr, ENOMEM, "polling");
    }
    if (wait_polled(loop, fds, sources, timeout_ms) < 0) {
        return errno == EINTR ? 0 : err_errno(reterr, errno, "poll");
    }
    for (size_t i = 1; i < n; i++) {
        if (fds[i].revents) {
            call(sources[i], (uint32_t)(unsigned short)fds[i].revents);
        }
    }
    return 0;
}

int loop_once(struct loop *loop, int timeout_ms, struct err *reterr)
{
    struct epoll_event events[EVENTS_PER_ROUND];
    watch_polled(loop);
    if (loop->polled) {
        loop->dispatching = true;
        int r = poll_beside(loop, timeout_ms, reterr);
        loop->dispatching = false;
        if (r < 0) {
            return r;
        }
        timeout_ms = 0;
    }
    int n = epoll_wait(loop->epoll, events, EVENTS_PER_ROUND, timeout_ms);
    if (n < 0) {
        return errno == EINTR ? 0 : err_errno(reterr, errno, "epoll_wait");
    }
    loop->dispatching = true;
    for (int i = 0; i < n; i++) {
        call(events[i].data.ptr, events[i].events);
    }
    loop->dispatching = false;
    free_removed(loop);
    return 0;
}

int loop_run(struct loop *loop, struct err *reterr)
{
    loop->stopped = false;
    while (!loop->stopped) {
        int r = loop_once(loop, -1, reterr);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

void loop_stop(struct loop *loop)
{
    loop->stopped = true;
}
