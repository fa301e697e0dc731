/* The event loop: epoll with a callback per descriptor, timers as timerfds. Single-threaded, one in the
 * warden and one in the front. A source that is removed while its event is already fetched must not be
 * called: removed sources are kept on a list until the round is over. */
#include "jail/base/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

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
    struct loop_source *next; /* in loop->removed */
};

struct loop {
    int epoll;
    bool stopped;
    bool dispatching;
    struct loop_source *removed;
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

int loop_add(struct loop *loop, int fd, uint32_t events, loop_fn fn, void *arg, struct loop_source **ret,
             struct err *reterr)
{
    struct loop_source *source = calloc(1, sizeof *source);
    if (!source) {
        return err_errno(reterr, ENOMEM, "watching a descriptor");
    }
    *source = (struct loop_source){.loop = loop, .fd = fd, .fn = fn, .arg = arg};
    struct epoll_event event = {.events = events, .data.ptr = source};
    if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
        int code = errno;
        free(source);
        return err_errno(reterr, code, "epoll_ctl");
    }
    *ret = source;
    return 0;
}

int loop_modify(struct loop_source *source, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};
    return epoll_ctl(source->loop->epoll, EPOLL_CTL_MOD, source->fd, &event) < 0 ? -errno : 0;
}

void loop_remove(struct loop_source *source)
{
    if (!source || source->removed) {
        return;
    }
    struct loop *loop = source->loop;
    epoll_ctl(loop->epoll, EPOLL_CTL_DEL, source->fd, NULL);
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

int loop_once(struct loop *loop, int timeout_ms, struct err *reterr)
{
    struct epoll_event events[EVENTS_PER_ROUND];
    int n = epoll_wait(loop->epoll, events, EVENTS_PER_ROUND, timeout_ms);
    if (n < 0) {
        return errno == EINTR ? 0 : err_errno(reterr, errno, "epoll_wait");
    }
    loop->dispatching = true;
    for (int i = 0; i < n; i++) {
        struct loop_source *source = events[i].data.ptr;
        if (source->removed || (source->timer && !timer_is_due(source))) {
            continue;
        }
        source->fn(source->arg, source->timer ? 0 : events[i].events);
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
