/* The life of a jail as its parent sees it, from the first message to the end. Runs in the warden and in
 * `immure run`, both single-threaded; nothing here blocks but jail_wait() and jail_free(). How a jail comes
 * to be is spawn.c's (by clone) and template.c's (by a template); what is said of its end, collect.c's. */
#include "jail/jail_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/io.h"
#include "jail/child/denied.h"
#include "jail/resources/cgroup.h"
#include "jail/resources/netns.h"

#define TICK_NS (5 * (long)NS_PER_MS)

/* An ordinary user's jails are that user, and so are we: one job can have all the epoll watches that there
 * are (fs.epoll.max_user_watches). What cannot be watched then is looked at every few milliseconds. */
static int watch(struct jail *jail, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    if (jail->ready < 0 || epoll_ctl(jail->ready, EPOLL_CTL_ADD, fd, &event) == 0) {
        return 0;
    }
    if (errno != ENOSPC) {
        return -errno;
    }
    jail->ticks = true;
    return jail_arm(jail, jail->deadline_ns);
}

int jail_watch_pidfd(struct jail *jail)
{
    return watch(jail, jail->pidfd);
}

static int open_descriptors(struct jail *jail, int *ret_childs_end)
{
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0) {
        return -errno;
    }
    jail->control = sockets[0];
    CLEANUP(fd_closep) int childs_end = sockets[1];
    jail->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    jail->ready = epoll_create1(EPOLL_CLOEXEC);
    if (jail->timer < 0 || jail->ready < 0 || fcntl(jail->control, F_SETFL, O_NONBLOCK) < 0) {
        return -errno;
    }
    int r = watch(jail, jail->timer);
    if (jail->ticks) {
        fd_closep(&jail->ready); /* not even that one: it is what callers watch, then */
    }
    r = r < 0 ? r : watch(jail, jail->control);
    if (r == 0) {
        *ret_childs_end = TAKE_FD(childs_end);
    }
    return r;
}

int jail_new(const struct jail_plan *plan, struct jail_cgroup *cgroup, struct jail **ret, int *ret_childs_end,
             struct err *reterr)
{
    struct jail *jail = calloc(1, sizeof *jail);
    if (!jail) {
        jail_cgroup_free(cgroup);
        return err_errno(reterr, ENOMEM, "making a jail");
    }
    jail->pidfd = jail->control = jail->timer = jail->ready = jail->denied = jail->egress = -1;
    jail->cgroup = cgroup;
    jail->plan = jail_plan_copy(plan);
    int r = jail->plan ? open_descriptors(jail, ret_childs_end) : -ENOMEM;
    if (r < 0) {
        jail_free(jail);
        return err_errno(reterr, -r, "making a jail");
    }
    *ret = jail;
    return 0;
}

int jail_arm(struct jail *jail, uint64_t deadline_ns)
{
    jail->deadline_ns = deadline_ns;
    uint64_t tick_ns = jail->ticks ? clock_now_ns() + TICK_NS : UINT64_MAX;
    uint64_t at_ns = jail->ticks && (deadline_ns == 0 || tick_ns < deadline_ns) ? tick_ns : deadline_ns;
    struct itimerspec at = {
        .it_value = {.tv_sec = (time_t)(at_ns / NS_PER_S), .tv_nsec = (long)(at_ns % NS_PER_S)},
        .it_interval = {.tv_nsec = jail->ticks ? TICK_NS : 0}};
    return timerfd_settime(jail->timer, TFD_TIMER_ABSTIME, &at, NULL) < 0 ? -errno : 0;
}

int jail_tell(const struct jail *jail, enum jail_phase phase, int error)
{
    struct parent_message message = {.phase = phase, .error = error};
    return io_send_fds(jail->control, &message, sizeof message, NULL, 0);
}

int jail_fd(const struct jail *jail)
{
    return jail->ready >= 0 ? jail->ready : jail->timer;
}

enum jail_state jail_state(const struct jail *jail)
{
    return jail->state;
}

bool jail_is_gone(const struct jail *jail)
{
    return jail->gone;
}

int jail_pid(const struct jail *jail)
{
    return jail->pid;
}

int jail_egress_fd(const struct jail *jail)
{
    return jail->egress;
}

uint64_t jail_deadline_ns(const struct jail *jail)
{
    return jail->deadline_ns;
}

const struct jail_limits *jail_limits(const struct jail *jail)
{
    return &jail->plan->limits;
}

static void close_control(struct jail *jail)
{
    /* Closing would not take it out of the set while a jail that is being cloned holds a copy. */
    epoll_ctl(jail->ready, EPOLL_CTL_DEL, jail->control, NULL);
    fd_closep(&jail->control);
}

void jail_kill(struct jail *jail, enum jail_end end)
{
    if (jail->state == JAIL_ENDED) {
        return;
    }
    jail->killed = true;
    if (jail->end == JAIL_END_NONE) {
        jail->end = end;
        jail->ended_ns = clock_now_ns();
    }
    if (jail->pidfd < 0) {
        /* The template has not told us of it yet. Without its control socket it ends by itself. */
        close_control(jail);
        jail->state = JAIL_ENDED;
        jail->gone = true;
        jail_arm(jail, 1); /* whoever watches it is told at once: nothing else will happen any more */
        return;
    }
    if (!jail->cgroup && jail->state == JAIL_RUNNING && jail->seen_cpu_ns == 0) {
        /* Whoever is killed along with PID 1 is not added to what it used. */
        jail->seen_cpu_ns = census_cpu_ns_now(jail->pid);
    }
    /* PID 1 takes its whole PID namespace along. Should the signal be refused, the end of its socket tells
     * it. */
    if (pidfd_send_signal(jail->pidfd, SIGKILL, NULL, 0) < 0 && errno != ESRCH) {
        close_control(jail);
    }
    if (jail->cgroup) {
        /* And at once: a program can have seen to it that PID 1 hardly gets the CPU, even to die. */
        jail_cgroup_kill(jail->cgroup);
    }
}

void jail_interrupt(struct jail *jail, enum jail_end end)
{
    if (!jail->kernel || !jail->has_parked || jail->state == JAIL_ENDED) {
        jail_kill(jail, end);
        return;
    }
    if (jail->state == JAIL_PARKED || jail->interrupted) {
        return; /* it has ended, or is about to */
    }
    jail->interrupted = true;
    if (jail->end == JAIL_END_NONE) {
        jail->end = end;
        jail->ended_ns = clock_now_ns();
    }
    if (jail_arm(jail, clock_now_ns() + jail->grace_ms * NS_PER_MS) < 0 ||
        jail_tell(jail, PHASE_INTERRUPT, 0) < 0) {
        jail_kill(jail, end);
    }
}

int jail_signal(const struct jail *jail, int signal)
{
    bool hears = jail->state == JAIL_RUNNING && jail->end == JAIL_END_NONE && !jail->by_template;
    return hears ? jail_tell(jail, PHASE_SIGNAL, signal) : -ESRCH;
}

bool jail_has_called(const struct jail *jail)
{
    return jail->called;
}

/* What an error of a step is likely to mean, where the kernel's word for it does not tell. */
static const char *setup_hint(const struct jail_plan *plan, uint32_t index, int error, const char *call)
{
    const struct jail_step *step = index < plan->n_steps ? &plan->steps[index] : NULL;
    /* In a user namespace mounts are locked to what they hide. */
    bool alone = step && step->kind == JAIL_STEP_BIND && !(step->bind.flags & JAIL_MOUNT_RECURSIVE);
    if (step && step->kind == JAIL_STEP_RLIMIT && error == EPERM) {
        return "; a job cannot have more than its jail's maker, whose own hard limit (ulimit -H, systemd: "
               "Limit...=) is lower";
    }
    if (error == ENOSPC && strcmp(call, "unshare") == 0) {
        return JAIL_MORE_NAMESPACES;
    }
    return alone && error == EINVAL && strcmp(call, "open_tree") == 0
               ? "; a source with mounts below it can be bound together with them only (recursive)"
               : "";
}

/* What an exec did not find: "... : ", or nothing. The path may be of a file that a job has written. */
static void describe_missing(struct child_message *message, char *ret, size_t size)
{
    static const char *const words[MISSING_COUNT] = {
        [MISSING_ABSENT] = "not in the jail, where there is no %s: ",
        [MISSING_ON_PATH] = "not in the jail, in no directory of its PATH%s: ",
        [MISSING_LINK] = "a link leads to %s, which is not in the jail: ",
        [MISSING_LOADER] = "its loader %s is not in the jail: ",
        [MISSING_INTERPRETER] = "its interpreter %s is not in the jail: ",
    };
    for (char *c = message->path; *c; c++) {
        *c = *c < ' ' || *c > '~' ? '?' : *c;
    }
    ret[0] = '\0';
    if (words[message->missing]) {
        snprintf(ret, size, words[message->missing], message->path);
    }
}

static void fail_setup(struct jail *jail, struct child_message *message)
{
    char missing[CHILD_PATH_MAX + 64];
    if (jail->end != JAIL_END_NONE) {
        return;
    }
    jail->end = JAIL_END_SETUP;
    describe_missing(message, missing, sizeof missing);
    err_set(&jail->err, ERR_SETUP, message->error, NULL, "%s%s%s%s%s", message->call,
            *message->call ? ": " : "", missing, strerror(message->error),
            setup_hint(jail->plan, message->step, message->error, message->call));
    jail_plan_describe_step(jail->plan, message->step, jail->err.step, sizeof jail->err.step);
}

static void bring_loopback_up(struct jail *jail, int netlink)
{
    struct err err = {0};
    if (netlink < 0) {
        jail_tell(jail, PHASE_LOOPBACK, EPROTO);
        return;
    }
    int r = netns_loopback_up(netlink, &err);
    jail_tell(jail, PHASE_LOOPBACK, r < 0 ? -r : 0);
}

/* The pid behind a pidfd, as our own PID namespace counts; 0 where it has ended. */
static pid_t pid_of(int pidfd)
{
    char path[64];
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
    if (io_read_file_at(AT_FDCWD, path, 4096, &text) < 0) {
        return 0;
    }
    const char *line = strstr(text.data, "\nPid:");
    int pid = line ? atoi(line + strlen("\nPid:")) : 0;
    return pid > 0 ? pid : 0;
}

/* Takes the pidfd of a PID 1 that a template has cloned for us. */
static void adopt(struct jail *jail, int pidfd)
{
    if (pidfd < 0 || jail->pidfd >= 0) {
        fd_closep(&pidfd);
        return;
    }
    int r = watch(jail, pidfd);
    if (r < 0) {
        /* Its end would not be noticed. */
        err_set(&jail->err, ERR_SETUP, -r, NULL, "watching a jail: %s", strerror(-r));
        pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
        close(pidfd);
        jail_kill(jail, JAIL_END_LOST);
        return;
    }
    jail->pidfd = pidfd;
    jail->pid = pid_of(pidfd);
}

/* What a jail may say in which state. PID 1 is our own code, and one that was taken over gains nothing by
 * saying what an honest one would not: no second start with a deadline of its own, no parking with none. */
static bool is_due(const struct jail *jail, const struct child_message *message, size_t n_fds)
{
    bool building = jail->state == JAIL_BUILDING && jail->started_ns == 0;
    bool has_way_out = jail->egress >= 0 || !jail_plan_has(jail->plan, JAIL_STEP_EGRESS);
    if (!io_is_bool(&message->proc_absent) || !io_is_bool(&message->is_alone)) {
        return false;
    }
    switch (message->kind) {
    case CHILD_CLONED:
        return building && n_fds == 1 && jail->by_template && jail->pidfd < 0;
    case CHILD_PARKED:
        return n_fds == 0 && ((building && jail->parks && !jail->has_parked && has_way_out) ||
                              (jail->kernel && jail->state == JAIL_RUNNING && !jail->has_ended_message));
    case CHILD_LOOPBACK:
        return building && n_fds == 1;
    case CHILD_EGRESS:
        return building && n_fds == 1 && !jail->has_parked && !has_way_out;
    case CHILD_STARTED:
        return building && n_fds == 0 && jail->has_parked == jail->parks && has_way_out;
    case CHILD_FAILED:
        return n_fds == 0 && (unsigned)message->missing < MISSING_COUNT;
    case CHILD_DENIED:
        return n_fds == 1 && (jail->started_ns > 0 || jail->parks) && jail->denied < 0;
    case CHILD_ENDED:
        return n_fds == 0 && (jail->started_ns > 0 || jail->parks);
    }
    return false;
}

/* A time that the jail tells, not before `earliest_ns` and not to come: the deadline hangs on it. */
static uint64_t believable_ns(uint64_t told_ns, uint64_t earliest_ns)
{
    uint64_t now_ns = clock_now_ns();
    return told_ns > now_ns ? now_ns : told_ns < earliest_ns ? earliest_ns : told_ns;
}

/* A kernel has run its program, whatever the kernel says of that: only PID 1's word reaches us, and a program
 * that makes it say so too early is interrupted by nobody but itself. */
static void note_call(struct jail *jail, const struct child_message *message)
{
    jail->last = *message;
    jail->called = true;
    jail->interrupted = false;
    jail->ended_ns = believable_ns(message->time_ns, jail->started_ns);
    if (jail->end == JAIL_END_NONE) {
        jail->end = JAIL_END_PROGRAM;
    }
    if (!jail->cgroup) {
        jail->seen_cpu_ns = census_cpu_ns_now(jail->pid);
    }
}

static void handle_message(struct jail *jail, struct child_message *message, int fd)
{
    switch (message->kind) {
    case CHILD_CLONED:
        adopt(jail, fd);
        return;
    case CHILD_PARKED:
        if (jail->killed) {
            break; /* said before it was */
        }
        if (jail->state == JAIL_RUNNING) {
            note_call(jail, message);
        }
        jail->state = JAIL_PARKED;
        jail->has_parked = true;
        jail_arm(jail, 0);
        break;
    case CHILD_LOOPBACK:
        bring_loopback_up(jail, fd);
        return;
    case CHILD_EGRESS:
        if (netns_is_way_out(fd)) {
            jail->egress = fd;
            return;
        }
        jail_kill(jail, JAIL_END_LOST);
        break;
    case CHILD_FAILED:
        fail_setup(jail, message);
        break;
    case CHILD_STARTED:
        jail->state = JAIL_RUNNING;
        jail->started_ns = believable_ns(message->time_ns, jail->cloned_ns);
        jail->proc_absent = message->proc_absent;
        if (jail->interrupted) {
            break; /* its grace has begun */
        }
        if (jail_arm(jail, jail->plan->limits.timeout_ms
                               ? jail->started_ns + jail->plan->limits.timeout_ms * NS_PER_MS
                               : 0) < 0) {
            jail_kill(jail, JAIL_END_LOST); /* nothing runs without its deadline */
        }
        break;
    case CHILD_DENIED:
        if (denied_is_table(fd)) {
            jail->denied = fd;
            return;
        }
        jail_kill(jail, JAIL_END_LOST); /* it is no PID 1 of ours any more */
        break;
    case CHILD_ENDED:
        jail->last = *message;
        jail->has_ended_message = true;
        if (jail->end == JAIL_END_NONE) {
            jail->end = JAIL_END_PROGRAM;
            jail->ended_ns = believable_ns(message->time_ns, jail->started_ns);
        }
        if (message->is_alone) {
            jail->used_cpu_ns = message->cpu_ns;
            jail->state = JAIL_ENDED;
            close_control(jail); /* it has nothing more to say */
        }
        break;
    }
    if (fd >= 0) {
        close(fd);
    }
}

static void read_messages(struct jail *jail)
{
    while (jail->control >= 0) {
        struct child_message message;
        int fd = -1;
        size_t n_fds = 1;
        ssize_t n = io_recv_fds(jail->control, &message, sizeof message, &fd, &n_fds);
        if (n == -EAGAIN || n == -ENOMEM) {
            return; /* nothing there, or it stays there for the next attempt */
        }
        if (n == -ECONNRESET) {
            continue; /* PID 1 ended without having read all; what it has sent comes behind this */
        }
        if (n == (ssize_t)sizeof message && is_due(jail, &message, n_fds)) {
            message.call[CHILD_CALL_MAX - 1] = '\0';
            message.path[CHILD_PATH_MAX - 1] = '\0';
            handle_message(jail, &message, n_fds == 1 ? fd : -1);
            continue;
        }
        /* End of file: PID 1 is exiting, its pidfd tells the rest. Anything else is no message of ours, or
         * one out of its turn, or one whose descriptor found no room here: nothing that follows could be
         * relied on. */
        fd_closep(&fd);
        close_control(jail);
        if (n < 0) {
            err_set(&jail->err, ERR_SETUP, (int)-n, NULL, "hearing from the jail: %s", strerror((int)-n));
        }
        if (n != 0) {
            jail_kill(jail, JAIL_END_LOST);
        }
    }
}

static void expire(struct jail *jail)
{
    bool ends = jail->end != JAIL_END_NONE && !jail->interrupted;
    bool due = !ends && jail->deadline_ns != 0 && clock_now_ns() >= jail->deadline_ns;
    uint64_t expirations;
    if ((due || jail->ticks) && read(jail->timer, &expirations, sizeof expirations) < 0 && !jail->ticks) {
        return; /* armed anew meanwhile */
    }
    if (!due) {
        return;
    }
    if (jail->interrupted) {
        jail->ended_ns = clock_now_ns();
        jail_kill(jail, jail->end);
        return;
    }
    if (jail->state != JAIL_RUNNING) {
        jail->end = JAIL_END_SETUP;
        err_set(&jail->err, ERR_SETUP, ETIMEDOUT, NULL, "the jail was not built in time");
        jail_kill(jail, JAIL_END_SETUP);
        return;
    }
    if (jail->kernel) {
        jail_interrupt(jail, JAIL_END_DEADLINE);
    } else {
        jail_kill(jail, JAIL_END_DEADLINE);
    }
}

/* True once PID 1 is gone, and with it its PID namespace. */
static bool has_exited(struct jail *jail)
{
    if (jail->by_template) {
        struct pollfd exited = {.fd = jail->pidfd, .events = POLLIN};
        return jail->pidfd < 0 ? jail->control < 0 : poll(&exited, 1, 0) == 1;
    }
    siginfo_t info = {0};
    /* The system call rather than glibc's wrapper: only it tells the resources used. */
    long r = syscall(SYS_waitid, P_PIDFD, jail->pidfd, &info, WEXITED | WNOHANG, &jail->rusage);
    /* ECHILD: gone without us, because this process ignores SIGCHLD or reaps whatever it finds. */
    return (r < 0 && errno == ECHILD) || (r == 0 && info.si_pid != 0);
}

static void reap(struct jail *jail)
{
    if (!has_exited(jail)) {
        return;
    }
    jail->gone = true;
    read_messages(jail); /* its last words may have come between the last look and its end */
    if (jail->end == JAIL_END_NONE) {
        jail->ended_ns = clock_now_ns();
        jail->end = JAIL_END_LOST;
    }
    jail->state = JAIL_ENDED;
}

enum jail_state jail_dispatch(struct jail *jail)
{
    if (!jail->gone) {
        read_messages(jail);
        expire(jail);
        reap(jail);
    }
    return jail->state;
}

void jail_wait(struct jail *jail, int interrupt_fd)
{
    while (jail_dispatch(jail) != JAIL_ENDED) {
        struct pollfd fds[] = {{.fd = jail_fd(jail), .events = POLLIN},
                               {.fd = interrupt_fd, .events = POLLIN},
                               {.fd = jail->pidfd, .events = POLLIN}}; /* in `ready` only if all went well */
        poll(fds, ARRAY_SIZE(fds), -1);
        if (fds[1].revents) {
            jail_kill(jail, JAIL_END_CANCEL);
            interrupt_fd = -1;
        }
    }
}

static void wait_until_gone(struct jail *jail)
{
    for (jail_dispatch(jail); !jail->gone; jail_dispatch(jail)) {
        /* The pidfd too: it may be that which could not be put into the set. */
        struct pollfd awaited[] = {{.fd = jail_fd(jail), .events = POLLIN},
                                   {.fd = jail->pidfd, .events = POLLIN}};
        poll(awaited, ARRAY_SIZE(awaited), -1);
    }
}

void jail_free(struct jail *jail)
{
    if (!jail) {
        return;
    }
    if (jail->pidfd >= 0 || jail->by_template) {
        jail_kill(jail, JAIL_END_CANCEL);
        wait_until_gone(jail);
    }
    fd_closep(&jail->pidfd);
    fd_closep(&jail->control);
    fd_closep(&jail->timer);
    fd_closep(&jail->ready);
    fd_closep(&jail->denied);
    fd_closep(&jail->egress);
    jail_cgroup_free(jail->cgroup);
    jail_plan_free(jail->plan);
    census_free(&jail->census);
    free(jail);
}
