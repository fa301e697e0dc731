/* PID 1 of a jail: a few hundred bytes of state that outlive the building of it.
 *
 * It makes the program's process, answers the system calls that the filter refuses (so that a flood of them
 * burns the job's own time and nobody else's), reaps what the program leaves behind, and forwards the
 * program's exact wait status. Untrusted code is never PID 1 itself: default signals, abort() and
 * kill(getpid(), SIGKILL) behave as they do outside. When it exits, the kernel ends every other process of
 * the PID namespace. */
#include "jail/child/init.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/bpf_run.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/io.h"
#include "jail/base/slice.h"
#include "jail/child/apply.h"
#include "jail/child/child.h"
#include "jail/child/denied.h"
#include "jail/child/missing.h"

#define PROGRAM_STACK_BYTES (64 * 1024)
#define REAPED_PER_ROUND    64
#define MAKE_WAY_NS         500000 /* twice as long as a verdict takes to its caller */

struct program_start {
    struct child *child;
    uint32_t index;
};

/* The program's process. Shares PID 1's memory (until exec) and descriptor table (until exec, which unshares
 * it): so the seccomp listener made here is PID 1's too, and no descriptor has to be passed through the
 * filter. */
static int program_main(void *argument)
{
    struct program_start *start = argument;
    struct child *child = start->child;
    uint32_t index = start->index;
    int r = child_apply(child, &index, JAIL_STEP_COUNT);
    /* Only a failure comes back: the last step is EXEC. */
    child->failed_step = index;
    child->failed_error = r < 0 ? -r : ENOEXEC;
    _exit(1);
}

static pid_t start_program(struct child *child, uint32_t index)
{
    char stack[PROGRAM_STACK_BYTES] __attribute__((aligned(64)));
    struct program_start start = {.child = child, .index = index};
    child->call = "clone";
    child->failed_error = 0;
    /* CLONE_VFORK: we stand still until it has exec'd or failed. */
    pid_t pid =
        clone(program_main, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD, &start);
    return pid < 0 ? -errno : pid;
}

/* Counts it where the parent can read it, whatever becomes of us. */
static void count_denied(struct child *child, const struct seccomp_data *call, bool ends)
{
    if (!child->denied) {
        const struct child_message message = {.kind = CHILD_DENIED};
        int fd;
        if (denied_new(&child->denied, &fd, &child->call) < 0 || child_send(child, &message, fd) < 0) {
            _exit(1); /* the verdict would not name it */
        }
        close(fd);
    }
    denied_count(child->denied, call, ends);
}

/* Whether the filter's answer is that the call ends its process: it is asked again, about the same registers.
 * In doubt it is. */
static bool must_end(const struct child *child, const struct seccomp_data *call)
{
    const struct jail_plan *plan = child->plan;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const struct jail_step *step = &plan->steps[i];
        if (step->kind == JAIL_STEP_SECCOMP) {
            uint32_t answer =
                bpf_run((const void *)(plan->arena + step->seccomp.bpf), step->seccomp.length, call);
            return answer != SECCOMP_RET_USER_NOTIF;
        }
    }
    return true;
}

/* The call is not answered: nobody waits for that any more. A process of the program's own, which may have
 * handed the call on and ended, is none the worse for it. */
static void end_caller(struct child *child, pid_t program, pid_t caller)
{
    child->ended_program |= caller == program || tgkill(program, caller, 0) == 0;
    if (caller <= 1 || (kill(caller, SIGKILL) < 0 && errno != ESRCH)) {
        _exit(1); /* and all with us */
    }
}

/* Refuses one system call that the filter handed to us, or lets it go on: one that takes a lock, as long as
 * there is room for it. Which call it is stands in registers, which nobody can change any more. */
static void answer_notification(struct child *child, pid_t program)
{
    int listener = child->listener;
    struct seccomp_notif request;
    memset(&request, 0, sizeof request); /* the kernel insists */
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request) < 0) {
        return; /* the caller died meanwhile */
    }
    if (init_standby_takes(child, program, &request)) {
        return;
    }
    bool is_lock = init_locks_counts(child, &request.data);
    if (is_lock && init_locks_allow(child)) {
        child_answer(child, request.id, 0);
        return;
    }
    bool ends = must_end(child, &request.data);
    if (!init_is_standing_by(child)) {
        count_denied(child, &request.data, ends);
    }
    if (ends) {
        end_caller(child, program, (pid_t)request.pid);
        return;
    }
    child_answer(child, request.id, is_lock ? ENOLCK : EPERM);
}

enum reaped {
    REAPED_ALL,     /* nobody else has ended */
    REAPED_SOME,    /* perhaps more have: look again */
    REAPED_PROGRAM, /* the program itself has */
};

/* A process that called PTRACE_TRACEME made us its tracer, and every signal for it a stop that the same wait
 * reports as an end. We trace nobody: the signal goes on to where it was going. */
static void let_go(pid_t pid, int stop_signal)
{
    /* SIGTRAP is what an exec under a tracer brings; nobody sent it. */
    ptrace(PTRACE_DETACH, pid, NULL, (void *)(intptr_t)(stop_signal == SIGTRAP ? 0 : stop_signal));
}

/* Reaps what has ended, a round at a time: a program whose orphans die faster than we bury them would
 * otherwise keep us from answering its refused calls. */
static enum reaped reap(pid_t program, int32_t *ret_wstatus)
{
    for (unsigned i = 0; i < REAPED_PER_ROUND; i++) {
        int wstatus;
        pid_t pid = waitpid(-1, &wstatus, WNOHANG | __WALL);
        if (pid < 0 && errno != ECHILD) {
            _exit(1); /* whoever cannot tell ends must not keep anybody waiting for one */
        }
        if (pid <= 0) {
            return REAPED_ALL;
        }
        if (WIFSTOPPED(wstatus)) {
            let_go(pid, WSTOPSIG(wstatus));
        } else if (pid == program) {
            *ret_wstatus = wstatus;
            return REAPED_PROGRAM;
        }
    }
    return REAPED_SOME;
}

/* Closes all but what PID 1 still needs: it must not keep the job's pipes or the scratch alive. */
static void keep_only(const int *keep, size_t n)
{
    for (unsigned fd = 0;;) {
        unsigned next = UINT32_MAX;
        for (size_t i = 0; i < n; i++) {
            if (keep[i] >= (int)fd && (unsigned)keep[i] < next) {
                next = (unsigned)keep[i];
            }
        }
        if (next > fd) {
            close_range(fd, next == UINT32_MAX ? next : next - 1, 0);
        }
        if (next == UINT32_MAX) {
            return;
        }
        fd = next + 1;
    }
}

/* A parked program's filter is made long after its process: the listener follows in a message. */
static void receive_listener(struct child *child, int from)
{
    char byte;
    size_t n_fds = 1;
    int fd = -1;
    ssize_t n = io_recv_fds(from, &byte, sizeof byte, &fd, &n_fds);
    if (n < 0 || (n > 0 && n_fds != 1)) {
        _exit(1); /* a filter whose calls nobody answers */
    }
    child->listener = fd; /* -1 at end of file: a filter that asks nobody */
}

int init_watch_children(struct child *child)
{
    sigset_t chld;
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    /* A parent that ignores SIGCHLD has handed that on, and whoever ignores it is never told of an end. */
    child->call = "sigaction";
    if (signal(SIGCHLD, SIG_DFL) == SIG_ERR) {
        return -errno;
    }
    child->call = "sigprocmask";
    if (sigprocmask(SIG_BLOCK, &chld, NULL) < 0) {
        return -errno;
    }
    child->call = "signalfd";
    int fd = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

/* Returns true if nobody is left but PID 1, and the program need not be waited for: `end` tells its CPU time.
 */
static bool serve_until_end(struct child *child, pid_t program, int signals, int listener_source,
                            struct child_message *end)
{
    /* A kernel's own stdin is the /dev/null that its launcher has between two programs. */
    const int keep[] = {
        child->control, child->listener, signals, listener_source, child->kernel ? STDIN_FILENO : -1,
        child->proc};
    keep_only(keep, ARRAY_SIZE(keep));
    struct end_sight sight = END_SIGHT_NONE;
    enum { SIGNALS, LISTENER, LISTENER_SOURCE, CONTROL, WATCHED };
    struct pollfd watched[WATCHED] = {
        [SIGNALS] = {.fd = signals, .events = POLLIN},
        [LISTENER] = {.fd = child->listener, .events = POLLIN},
        [LISTENER_SOURCE] = {.fd = listener_source, .events = POLLIN},
        /* Of a template's jail, only whether the parent is gone: what comes there is the parked process's. */
        [CONTROL] = {.fd = child->control, .events = child->in_process ? 0 : POLLIN},
    };
    /* The program may have ended before SIGCHLD was blocked. */
    for (enum reaped reaped; (reaped = reap(program, &end->wstatus)) != REAPED_PROGRAM;) {
        if (poll(watched, WATCHED, reaped == REAPED_ALL ? -1 : 0) < 0) {
            if (errno != EINTR) {
                _exit(1);
            }
            continue; /* what is in `watched` is the last round's */
        }
        if (watched[CONTROL].revents & ~POLLIN) {
            _exit(1);
        }
        if (watched[CONTROL].revents & POLLIN) {
            init_standby_hear(child, program);
        }
        struct signalfd_siginfo info;
        if (watched[SIGNALS].revents && read(signals, &info, sizeof info) < 0 && errno != EAGAIN) {
            _exit(1);
        }
        if (watched[LISTENER].revents & POLLIN) {
            answer_notification(child, program);
        } else if (watched[LISTENER].revents) {
            watched[LISTENER].fd = -1; /* no process that could run has the filter any more */
            if (init_end_known(child, program, &sight, &end->wstatus, &end->cpu_ns)) {
                return true;
            }
        }
        if (watched[LISTENER_SOURCE].revents) {
            receive_listener(child, listener_source);
            watched[LISTENER] = (struct pollfd){.fd = child->listener, .events = POLLIN};
            watched[LISTENER_SOURCE].fd = -1;
            init_end_prepare(child, program, &sight);
        }
    }
    return false;
}

/* The kernel would end them when we exit, but without adding their CPU time to ours, which the parent reads.
 */
static void end_others(void)
{
    kill(-1, SIGKILL);
    while (waitpid(-1, NULL, __WALL) > 0) {
    }
}

static bool is_alone(void)
{
    return waitpid(-1, NULL, WNOHANG | __WALL) < 0 && errno == ECHILD;
}

static uint64_t used_cpu_ns(void)
{
    struct rusage self, children;
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    return rusage_cpu_ns(&self) + rusage_cpu_ns(&children);
}

/* Where those who pass the verdict on have to share our processor, they go first: the kernel ends a process
 * that it has begun to end before it runs another. */
static void make_way(void)
{
    nanosleep(&(struct timespec){.tv_nsec = MAKE_WAY_NS}, NULL);
}

void init_serve(struct child *child, pid_t program, int signals, int listener_source,
                struct child_message *end)
{
    slice_shorten(); /* the verdict waits for us */
    init_locks_begin(child);
    bool is_known = serve_until_end(child, program, signals, listener_source, end);
    end->kind = CHILD_ENDED;
    end->time_ns = clock_now_ns();
    if (child->ended_program && WIFSIGNALED(end->wstatus) && WTERMSIG(end->wstatus) == SIGKILL) {
        end->wstatus = SIGSYS; /* what the kernel ends it by */
    }
    if (!is_known && !is_alone()) {
        /* At once: what is left may take long to end, and the deadline with it in the middle. */
        child_send(child, end, -1);
        end_others();
    }
    /* Whoever waits for the verdict need not wait for our own end: to take the namespaces apart takes the
     * kernel longer than many a program. */
    end->is_alone = true;
    end->cpu_ns += used_cpu_ns();
    child_send(child, end, -1);
    if (!child->waits_for_all) {
        make_way();
    }
    _exit(0);
}

/* The program's process has failed, in one of its steps. */
static void report_program(const struct child *child)
{
    struct child_message message;
    const struct jail_step *step = &child->plan->steps[child->failed_step];
    child_describe_failure(child, child->failed_step, -child->failed_error, &message);
    if (step->kind == JAIL_STEP_EXEC && child->failed_error == ENOENT) {
        missing_find(child, step, &message);
    }
    child_send(child, &message, -1);
}

void init_main(struct child *child, uint32_t index)
{
    /* Before there is a program, so that its failure is one of the building. */
    int signals = init_watch_children(child);
    pid_t program = signals < 0 || !child->template ? signals : child_pass_over_pid(child);
    program = program < 0 ? program : start_program(child, index);
    if (program >= 0 && child->template && program != TEMPLATE_PID) {
        program = -ESRCH;
    }
    if (program < 0) {
        child_report_failure(child, index - 1, program);
        _exit(1);
    }
    if (child->failed_error > 0) {
        report_program(child);
        _exit(1);
    }
    struct child_message end;
    memset(&end, 0, sizeof end);
    end.kind = CHILD_STARTED;
    end.time_ns = clock_now_ns();
    end.proc_absent = child->proc_absent;
    /* A launcher that starts is not the job's program yet. */
    int r = child->standby == STANDBY_NONE ? child_send(child, &end, -1) : 0;
    if (r < 0) {
        child->call = "sendmsg";
        child_report_failure(child, index - 1, r); /* may find more room than the other found */
        _exit(1);
    }
    init_serve(child, program, signals, -1, &end);
}
