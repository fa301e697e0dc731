/* The parent side of a launch. Runs in the warden and in `immure run`, both single-threaded; never blocks but
 * for jail_wait().
 *
 *     parent                              PID 1                          program
 *     clone3 ───────────────────────────► waits for PHASE_IDMAP
 *     writes its /proc files (uid_map, …)
 *     PHASE_IDMAP ──────────────────────► applies the plan up to PROGRAM
 *     brings lo up ◄──── CHILD_LOOPBACK ─ (only if the plan says so)
 *     PHASE_LOOPBACK ───────────────────► makes the program's process ─► applies the rest, exec
 *     deadline runs ◄───── CHILD_STARTED ─
 *     verdict ◄────────────── CHILD_ENDED ─ exits; the kernel ends the rest of the PID namespace
 *
 * A failed step arrives as CHILD_FAILED instead. The control socket is close-on-exec and PID 1 cannot be
 * traced, so nothing that the program does can forge these messages. */
#include "jail/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/cgroup.h"
#include "jail/child.h"
#include "jail/jail.h"
#include "jail/netns.h"
#include "jail/watch.h"

#define SETUP_TIMEOUT_MS 10000

const char *jail_state_to_string(enum jail_state state)
{
    static const char *const names[] = {
        [JAIL_BUILDING] = "building", [JAIL_RUNNING] = "running", [JAIL_ENDED] = "ended"};
    return names[state];
}

const char *jail_end_to_string(enum jail_end end)
{
    static const char *const names[] = {
        [JAIL_END_NONE] = "none",         [JAIL_END_PROGRAM] = "program", [JAIL_END_SETUP] = "setup",
        [JAIL_END_DEADLINE] = "deadline", [JAIL_END_CPU] = "cpu",         [JAIL_END_OOM] = "oom",
        [JAIL_END_CANCEL] = "cancel",     [JAIL_END_LOST] = "lost"};
    return names[end];
}

static const struct jail_step *find_step(const struct jail_plan *plan, enum jail_step_kind kind)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        if (plan->steps[i].kind == kind) {
            return &plan->steps[i];
        }
    }
    return NULL;
}

/* A run of `count` strings in the arena as a NULL-terminated vector, which the child may not allocate. */
static char **string_vector(const struct jail_plan *plan, jail_ref run, uint32_t count)
{
    char **vector = calloc((size_t)count + 1, sizeof *vector);
    const char *text = jail_plan_string(plan, run);
    for (uint32_t i = 0; vector && i < count; i++) {
        vector[i] = (char *)(uintptr_t)text;
        text += strlen(text) + 1;
    }
    return vector;
}

static int arm(struct jail *jail, uint64_t deadline_ns)
{
    jail->deadline_ns = deadline_ns;
    struct itimerspec at = {
        .it_value = {.tv_sec = (time_t)(deadline_ns / NS_PER_S), .tv_nsec = (long)(deadline_ns % NS_PER_S)}};
    return timerfd_settime(jail->timer, TFD_TIMER_ABSTIME, &at, NULL) < 0 ? -errno : 0;
}

static int write_proc(pid_t pid, const char *file, const char *text, struct err *reterr)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    int r = io_write_file_at(AT_FDCWD, path, text);
    return r < 0 ? err_set(reterr, ERR_SETUP, -r, NULL, "writing the jail's %s: %s", file, strerror(-r)) : 0;
}

/* What only the parent may write about PID 1. */
static int write_proc_files(const struct jail *jail, const struct jail_spawn_options *options,
                            struct err *reterr)
{
    char map[64];
    int r = options->drop_groups ? 0 : write_proc(jail->pid, "setgroups", "deny", reterr);
    if (r == 0) {
        snprintf(map, sizeof map, "%u %u 1", jail->plan->uid, options->outer_uid);
        r = write_proc(jail->pid, "uid_map", map, reterr);
    }
    if (r == 0) {
        snprintf(map, sizeof map, "%u %u 1", jail->plan->gid, options->outer_gid);
        r = write_proc(jail->pid, "gid_map", map, reterr);
    }
    /* A parent that the OOM killer must spare has handed that on, and then the job's own memory limit would
     * find nobody to kill. Where the whole machine runs short, a job is what it can do without. */
    return r < 0 ? r : write_proc(jail->pid, "oom_score_adj", "1000", reterr);
}

static int tell(const struct jail *jail, enum jail_phase phase, int error)
{
    struct parent_message message = {.phase = phase, .error = error};
    return io_send_fds(jail->control, &message, sizeof message, NULL, 0);
}

static int clone_child(struct jail *jail, struct child *child, struct err *reterr)
{
    uint64_t cgroup = jail->cgroup ? (uint64_t)jail_cgroup_fd(jail->cgroup) : 0u;
    struct clone_args args = {
        /* CLONE_NEWCGROUP is the child's to make (child.c). */
        .flags = (jail->plan->namespaces & ~(uint64_t)CLONE_NEWCGROUP) | (uint64_t)CLONE_PIDFD |
                 CLONE_CLEAR_SIGHAND | (jail->cgroup ? CLONE_INTO_CGROUP : 0),
        .pidfd = (uint64_t)(uintptr_t)&jail->pidfd,
        .exit_signal = SIGCHLD,
        .cgroup = cgroup,
    };
    jail->cloned_ns = clock_now_ns();
    long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid < 0) {
        int code = errno;
        /* Where it fails late (pids.max of a cgroup), the kernel has written a number that it then took back.
         */
        jail->pidfd = -1;
        return err_set(reterr, ERR_SETUP, code, NULL, "clone3 into new namespaces: %s", strerror(code));
    }
    if (pid == 0) {
        child_main(child);
    }
    jail->pid = (pid_t)pid;
    return 0;
}

/* Everything between the check of the plan and PHASE_IDMAP. */
static int launch(struct jail *jail, const struct jail_spawn_options *options, struct err *reterr)
{
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0) {
        return err_errno(reterr, errno, "making the control socket of a jail");
    }
    jail->control = sockets[0];
    CLEANUP(fd_closep) int childs_end = sockets[1];
    if (fcntl(jail->control, F_SETFL, O_NONBLOCK) < 0) {
        return err_errno(reterr, errno, "making the control socket of a jail");
    }
    jail->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (jail->timer < 0) {
        return err_errno(reterr, errno, "making the deadline of a jail");
    }
    uint64_t setup_ms = options->setup_timeout_ms ? options->setup_timeout_ms : SETUP_TIMEOUT_MS;
    int r = arm(jail, clock_now_ns() + setup_ms * NS_PER_MS);
    if (r < 0) {
        return err_errno(reterr, -r, "arming the deadline of a jail");
    }
    const struct jail_step *exec = find_step(jail->plan, JAIL_STEP_EXEC);
    CLEANUP(freep) char **argv = string_vector(jail->plan, exec->exec.argv, exec->exec.argc);
    CLEANUP(freep) char **envp = string_vector(jail->plan, exec->exec.envp, exec->exec.envc);
    if (!argv || !envp) {
        return err_errno(reterr, ENOMEM, "preparing a jail");
    }
    struct child child = {.plan = jail->plan,
                          .control = childs_end,
                          .drop_groups = options->drop_groups,
                          .argv = argv,
                          .envp = envp};
    memcpy(child.fds, options->fds, sizeof child.fds);
    r = clone_child(jail, &child, reterr);
    if (r == 0) {
        r = write_proc_files(jail, options, reterr);
    }
    if (r == 0) {
        r = tell(jail, PHASE_IDMAP, 0);
        r = r < 0 ? err_errno(reterr, -r, "starting the building of a jail") : 0;
    }
    return r;
}

static int check_fds(const struct jail_plan *plan, const int fds[JAIL_FD_COUNT], struct err *reterr)
{
    static const struct {
        enum jail_step_kind kind;
        enum jail_fd first, last;
    } needs[] = {{JAIL_STEP_STDIO, JAIL_FD_STDIN, JAIL_FD_STDERR},
                 {JAIL_STEP_SCRATCH, JAIL_FD_SCRATCH, JAIL_FD_SCRATCH}};
    for (size_t i = 0; i < ARRAY_SIZE(needs); i++) {
        if (!find_step(plan, needs[i].kind)) {
            continue;
        }
        for (unsigned slot = needs[i].first; slot <= needs[i].last; slot++) {
            if (fds[slot] < 0) {
                return err_set(reterr, ERR_SETUP, EBADF, NULL, "the %s step has no descriptor",
                               jail_step_word(needs[i].kind));
            }
        }
    }
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        if (plan->steps[i].kind == JAIL_STEP_FILE && plan->steps[i].file.from_input &&
            fds[JAIL_FD_INPUT] < 0) {
            return err_set(reterr, ERR_SETUP, EBADF, NULL, "a file step has no input descriptor");
        }
    }
    return 0;
}

int jail_spawn(struct jail **ret, const struct jail_spawn_options *options, struct err *reterr)
{
    struct jail *jail = calloc(1, sizeof *jail);
    if (!jail) {
        jail_cgroup_free(options->cgroup);
        return err_errno(reterr, ENOMEM, "making a jail");
    }
    jail->pidfd = jail->control = jail->timer = -1;
    jail->cgroup = options->cgroup;
    int r = jail_plan_check(options->plan, reterr);
    if (r == 0) {
        r = check_fds(options->plan, options->fds, reterr);
    }
    if (r == 0) {
        jail->plan = jail_plan_copy(options->plan);
        r = jail->plan ? launch(jail, options, reterr) : err_errno(reterr, ENOMEM, "making a jail");
    }
    if (r < 0) {
        jail_free(jail);
        return r;
    }
    *ret = jail;
    return 0;
}

void jail_fds(const struct jail *jail, int ret[JAIL_WATCH_FDS])
{
    ret[0] = jail->control_closed ? -1 : jail->control;
    ret[1] = jail->pidfd;
    ret[2] = jail->timer;
}

enum jail_state jail_state(const struct jail *jail)
{
    return jail->state;
}

int jail_pid(const struct jail *jail)
{
    return jail->pid;
}

uint64_t jail_deadline_ns(const struct jail *jail)
{
    return jail->deadline_ns;
}

const struct jail_limits *jail_limits(const struct jail *jail)
{
    return &jail->plan->limits;
}

void jail_kill(struct jail *jail, enum jail_end end)
{
    if (jail->state == JAIL_ENDED) {
        return;
    }
    if (jail->end == JAIL_END_NONE) {
        jail->end = end;
        jail->ended_ns = clock_now_ns();
    }
    if (!jail->cgroup && jail->state == JAIL_RUNNING && jail->seen_cpu_ns == 0) {
        /* Whoever is killed along with PID 1 is not added to what it used. */
        jail->seen_cpu_ns = jail_watch_cpu_ns(jail);
    }
    /* PID 1 takes its whole PID namespace along. */
    pidfd_send_signal(jail->pidfd, SIGKILL, NULL, 0);
}

static void fail_setup(struct jail *jail, uint32_t step, int error, const char *call)
{
    if (jail->end != JAIL_END_NONE) {
        return;
    }
    jail->end = JAIL_END_SETUP;
    err_set(&jail->err, ERR_SETUP, error, NULL, "%s%s%s", call, *call ? ": " : "", strerror(error));
    jail_plan_describe_step(jail->plan, step, jail->err.step, sizeof jail->err.step);
}

static void bring_loopback_up(struct jail *jail, int netlink)
{
    struct err err = {0};
    if (netlink < 0) {
        tell(jail, PHASE_LOOPBACK, EPROTO);
        return;
    }
    int r = netns_loopback_up(netlink, &err);
    tell(jail, PHASE_LOOPBACK, r < 0 ? -r : 0);
}

static void handle_message(struct jail *jail, const struct child_message *message, int fd)
{
    switch (message->kind) {
    case CHILD_LOOPBACK:
        bring_loopback_up(jail, fd);
        return;
    case CHILD_FAILED:
        fail_setup(jail, message->step, message->error, message->call);
        break;
    case CHILD_STARTED:
        jail->state = JAIL_RUNNING;
        jail->started_ns = message->time_ns;
        jail->proc_absent = message->proc_absent;
        arm(jail,
            jail->plan->limits.timeout_ms ? message->time_ns + jail->plan->limits.timeout_ms * NS_PER_MS : 0);
        break;
    case CHILD_ENDED:
        jail->last = *message;
        jail->has_ended_message = true;
        if (jail->end == JAIL_END_NONE) {
            jail->end = JAIL_END_PROGRAM;
            jail->ended_ns = message->time_ns;
        }
        break;
    }
    if (fd >= 0) {
        close(fd);
    }
}

static void read_messages(struct jail *jail)
{
    while (!jail->control_closed) {
        struct child_message message;
        int fd = -1;
        size_t n_fds = 1;
        ssize_t n = io_recv_fds(jail->control, &message, sizeof message, &fd, &n_fds);
        if (n == -EAGAIN) {
            return;
        }
        if (n == (ssize_t)sizeof message) {
            message.call[CHILD_CALL_MAX - 1] = '\0';
            handle_message(jail, &message, n_fds == 1 ? fd : -1);
            continue;
        }
        /* End of file: PID 1 is exiting, its pidfd tells the rest. Anything else is no message of ours, or
         * one whose descriptor found no room here: nothing that follows could be relied on. */
        fd_closep(&fd);
        /* It would be ready for ever: jail_fds() leaves it out from here on. It stays open all the same,
         * since an epoll set knows it by its number, and by more than that: a jail that is being cloned
         * meanwhile holds a copy. */
        jail->control_closed = true;
        if (n != 0) {
            jail_kill(jail, JAIL_END_LOST);
        }
    }
}

static void expire(struct jail *jail)
{
    if (jail->end != JAIL_END_NONE || jail->deadline_ns == 0 || clock_now_ns() < jail->deadline_ns) {
        return;
    }
    uint64_t expirations;
    if (read(jail->timer, &expirations, sizeof expirations) < 0) {
        return; /* armed anew meanwhile */
    }
    if (jail->state == JAIL_BUILDING) {
        jail->end = JAIL_END_SETUP;
        err_set(&jail->err, ERR_SETUP, ETIMEDOUT, NULL, "the jail was not built in time");
        jail_kill(jail, JAIL_END_SETUP);
        return;
    }
    jail_kill(jail, JAIL_END_DEADLINE);
}

/* The system call rather than glibc's wrapper: only it tells the resources used. */
static void reap(struct jail *jail)
{
    siginfo_t info = {0};
    long r = syscall(SYS_waitid, P_PIDFD, jail->pidfd, &info, WEXITED | WNOHANG, &jail->rusage);
    /* ECHILD: gone without us, because this process ignores SIGCHLD or reaps whatever it finds. */
    if ((r < 0 && errno != ECHILD) || (r == 0 && info.si_pid == 0)) {
        return;
    }
    read_messages(jail); /* its last words may have come between the last look and its end */
    if (jail->end == JAIL_END_NONE) {
        jail->ended_ns = clock_now_ns();
        jail->end = JAIL_END_LOST;
    }
    jail->state = JAIL_ENDED;
}

enum jail_state jail_dispatch(struct jail *jail)
{
    if (jail->state == JAIL_ENDED) {
        return jail->state;
    }
    read_messages(jail);
    expire(jail);
    reap(jail);
    return jail->state;
}

void jail_wait(struct jail *jail, int interrupt_fd)
{
    while (jail_dispatch(jail) != JAIL_ENDED) {
        struct pollfd fds[] = {{.fd = jail->control, .events = POLLIN},
                               {.fd = jail->pidfd, .events = POLLIN},
                               {.fd = jail->timer, .events = POLLIN},
                               {.fd = interrupt_fd, .events = POLLIN}};
        poll(fds, ARRAY_SIZE(fds), -1);
        if (fds[3].revents) {
            jail_kill(jail, JAIL_END_CANCEL);
            interrupt_fd = -1;
        }
    }
}

void jail_free(struct jail *jail)
{
    if (!jail) {
        return;
    }
    if (jail->pidfd >= 0 && jail->state != JAIL_ENDED) {
        jail_kill(jail, JAIL_END_CANCEL);
        jail_wait(jail, -1);
    }
    fd_closep(&jail->pidfd);
    fd_closep(&jail->control);
    fd_closep(&jail->timer);
    jail_cgroup_free(jail->cgroup);
    jail_plan_free(jail->plan);
    free(jail);
}

static uint64_t timeval_ns(struct timeval tv)
{
    return (uint64_t)tv.tv_sec * NS_PER_S + (uint64_t)tv.tv_usec * 1000;
}

/* The kernel's word on memory outranks how the end looked: the OOM killer's SIGKILL takes PID 1 along, or the
 * program alone when PID 1 was quicker to report it. */
static void apply_oom(struct jail *jail, const struct jail_cgroup_stat *stat)
{
    bool killed =
        jail->has_ended_message && WIFSIGNALED(jail->last.wstatus) && WTERMSIG(jail->last.wstatus) == SIGKILL;
    if (stat->oom_kills > 0 && (jail->end == JAIL_END_LOST || (jail->end == JAIL_END_PROGRAM && killed))) {
        jail->end = JAIL_END_OOM;
    }
}

/* A jail that was lost before there was a program was not built. */
static void apply_unbuilt(struct jail *jail)
{
    if (jail->end == JAIL_END_LOST && jail->started_ns == 0) {
        jail->end = JAIL_END_SETUP;
        err_set(&jail->err, ERR_SETUP, ECHILD, NULL, "PID 1 of the jail died while building it");
    }
}

int jail_collect(struct jail *jail, struct jail_result *ret, struct err *reterr)
{
    if (jail->state != JAIL_ENDED) {
        return err_errno(reterr, EBUSY, "collecting a jail that is %s", jail_state_to_string(jail->state));
    }
    struct jail_cgroup_stat stat = {.memory_peak_bytes = UINT64_MAX, .pids_peak = UINT64_MAX};
    uint64_t cpu_ns = timeval_ns(jail->rusage.ru_utime) + timeval_ns(jail->rusage.ru_stime);
    if (jail->cgroup) {
        int r = jail_cgroup_stat(jail->cgroup, &stat, reterr);
        if (r < 0) {
            return r;
        }
        apply_oom(jail, &stat);
        cpu_ns = stat.cpu_ns;
    } else if (jail->seen_cpu_ns > cpu_ns) {
        cpu_ns = jail->seen_cpu_ns;
    }
    apply_unbuilt(jail);
    memset(ret, 0, sizeof *ret);
    ret->end = jail->end;
    ret->wstatus = jail->last.wstatus;
    ret->setup_ns = jail->started_ns ? jail->started_ns - jail->cloned_ns : 0;
    ret->duration_ns =
        jail->started_ns && jail->ended_ns > jail->started_ns ? jail->ended_ns - jail->started_ns : 0;
    ret->cpu_ns = cpu_ns;
    ret->memory_peak_bytes = stat.memory_peak_bytes;
    ret->pids_peak =
        stat.pids_peak == UINT64_MAX || stat.pids_peak == 0 ? stat.pids_peak : stat.pids_peak - 1;
    ret->n_denied = jail->last.n_denied <= JAIL_DENIED_MAX ? jail->last.n_denied : 0;
    memcpy(ret->denied, jail->last.denied, sizeof ret->denied);
    ret->proc_absent = jail->proc_absent;
    if (jail->end == JAIL_END_SETUP && reterr) {
        *reterr = jail->err;
    }
    jail_cgroup_free(TAKE_PTR(jail->cgroup));
    return 0;
}
