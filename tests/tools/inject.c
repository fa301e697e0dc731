/* Makes one system call fail: the N-th of one process, in whatever it starts and everything that comes of it.
 *
 *     inject COMMAND [ARGUMENT...]
 *     inject --arm WHO N ERROR COMMAND [ARGUMENT...]      N: or NAME:N, the N-th call of that name
 *
 * The command runs traced, with all its descendants. What is done to them is told by lines on standard input,
 * each answered by lines on standard output; the second form is told beforehand, counts from the command's
 * own start (it is new:1), says on descriptor 3 whether the call has failed, and ends as the command does:
 *
 *     record             → ok                     from now on every system call is noted
 *     end                → WHO N NAME ... ok      what has been noted
 *     arm WHO N ERROR    → ok                     the N-th call of WHO from now (NAME:N: of those of
 *                                                 that name) will fail with errno ERROR
 *     look               → as disarm, which goes on
 *     disarm             → fired NAME | idle      whether it has; `spared NAME`: it is one that cannot
 *
 * WHO is `pid:NUMBER` (one that is there already), `new:K` (the K-th process made since `record` or `arm`),
 * or `exec:K` (what comes of the K-th exec since the command's own). A process that execs has become somebody
 * else. At the end of standard input all tracees are let go.
 *
 * It is ptrace and not a user notification because jails have a listener of their own, and the kernel allows
 * a process one. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "policy/policy.h"

#if !defined(__x86_64__)
int main(void)
{
    fputs("inject: written for x86-64 only\n", stderr);
    return 77;
}
#else

#include <linux/audit.h>
#include <linux/ptrace.h>

#define TRACEES_MAX  512
#define RECORDED_MAX 65536
#define CALLS_MAX    1024 /* numbers of system calls are below this */
#define OPTIONS                                                                                              \
    (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |                \
     PTRACE_O_TRACEEXEC)

struct tracee {
    pid_t pid; /* 0: a free place */
    unsigned number;
    unsigned exec;  /* which one it is since the command's; 0: none of them */
    bool counted;   /* since the last record or arm, and has not exec'd, but for a target by its exec */
    unsigned calls; /* since then */
    unsigned named; /* of them, those of the name that is aimed at */
    bool failing;   /* the call that it is in has been replaced */
    bool interrupted;
};

struct recorded {
    pid_t pid;
    unsigned number; /* 0: was there before */
    unsigned n;
    int nr;
};

struct inject {
    struct tracee tracees[TRACEES_MAX];
    unsigned n_new, n_execs;
    bool recording, armed, fired;
    bool started; /* the command's own exec has happened */
    struct recorded *recorded;
    size_t n_recorded;
    pid_t target_pid;                                 /* 0: the target_number-th new one */
    unsigned target_number, target_exec, target_call; /* target_exec: or 0 */
    int target_nr;                                    /* any but this is not counted; -1: all are */
    int target_error, fired_nr;                       /* fired_nr: or spared */
    bool spared;
};

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "inject: %s: %s\n", what, strerror(errno));
    exit(1);
}

static struct tracee *find(struct inject *inject, pid_t pid)
{
    for (size_t i = 0; i < TRACEES_MAX; i++) {
        if (inject->tracees[i].pid == pid) {
            return &inject->tracees[i];
        }
    }
    return NULL;
}

/* A process is first heard of by its own first stop or by its parent's, whichever comes first. */
static struct tracee *find_or_add(struct inject *inject, pid_t pid)
{
    struct tracee *tracee = find(inject, pid);
    if (!tracee) {
        tracee = find(inject, 0);
        if (!tracee) {
            errno = ENOSPC;
            die("too many processes");
        }
        *tracee = (struct tracee){.pid = pid, .number = ++inject->n_new, .counted = true};
    }
    return tracee;
}

static bool is_target(const struct inject *inject, const struct tracee *tracee)
{
    if (!inject->armed || inject->fired || !tracee->counted) {
        return false;
    }
    if (inject->target_exec) {
        return tracee->exec == inject->target_exec;
    }
    return inject->target_pid ? tracee->pid == inject->target_pid && tracee->number == 0
                              : tracee->number == inject->target_number;
}

static void resume(const struct inject *inject, const struct tracee *tracee, int signal)
{
    bool watched = tracee->failing || is_target(inject, tracee) || (inject->recording && tracee->counted);
    ptrace(watched ? PTRACE_SYSCALL : PTRACE_CONT, tracee->pid, NULL, (void *)(intptr_t)signal);
}

static void set_registers(pid_t pid, const struct user_regs_struct *registers)
{
    ptrace(PTRACE_SETREGS, pid, NULL, registers);
}

/* close(2) has always closed when it fails: it happens, and only what it says is replaced. Anything else does
 * not happen; in its place runs a call that every filter lets through. */
static void fail_at_entry(struct inject *inject, struct tracee *tracee, int nr)
{
    struct user_regs_struct registers;
    if (nr != SYS_close) {
        ptrace(PTRACE_GETREGS, tracee->pid, NULL, &registers);
        registers.orig_rax = SYS_getpid;
        set_registers(tracee->pid, &registers);
    }
    tracee->failing = true;
    inject->fired = true;
    inject->fired_nr = nr;
}

static void fail_at_exit(const struct inject *inject, struct tracee *tracee)
{
    struct user_regs_struct registers;
    ptrace(PTRACE_GETREGS, tracee->pid, NULL, &registers);
    /* brk(2) says no by another end than was asked for. */
    registers.rax = inject->fired_nr == SYS_brk ? 0 : (unsigned long long)-inject->target_error;
    set_registers(tracee->pid, &registers);
    tracee->failing = false;
}

static void note(struct inject *inject, const struct tracee *tracee, int nr)
{
    if (inject->n_recorded < RECORDED_MAX) {
        inject->recorded[inject->n_recorded++] =
            (struct recorded){.pid = tracee->pid, .number = tracee->number, .n = tracee->calls, .nr = nr};
    }
}

/* What these answer is never a failure, or only that they were interrupted: the kernel knows no other. */
static bool can_fail(const struct __ptrace_syscall_info *info, int error)
{
    switch (info->entry.nr) {
    case SYS_epoll_ctl:
        return info->entry.args[1] != EPOLL_CTL_DEL;
    case SYS_umask:
    case SYS_getrandom:       /* of up to 256 bytes */
    case SYS_timerfd_settime: /* for wrong arguments alone */
    case SYS_getpid:
    case SYS_getppid:
    case SYS_gettid:
    case SYS_getuid:
    case SYS_geteuid:
    case SYS_getgid:
    case SYS_getegid:
        return false;
    case SYS_wait4:
    case SYS_waitid:
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case SYS_poll:
    case SYS_ppoll:
        return error == EINTR;
    default:
        return true;
    }
}

static void on_syscall(struct inject *inject, struct tracee *tracee)
{
    struct __ptrace_syscall_info info;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, tracee->pid, (void *)sizeof info, &info) <= 0) {
        return;
    }
    if (info.op == PTRACE_SYSCALL_INFO_EXIT && tracee->failing) {
        fail_at_exit(inject, tracee);
    }
    /* What never returns cannot fail. */
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY || info.entry.nr == SYS_exit ||
        info.entry.nr == SYS_exit_group || info.entry.nr == SYS_rt_sigreturn ||
        info.entry.nr == SYS_restart_syscall || !tracee->counted) {
        return;
    }
    tracee->calls++;
    if (inject->recording) {
        note(inject, tracee, (int)info.entry.nr);
    }
    bool fits = inject->target_nr < 0 || info.entry.nr == (uint64_t)inject->target_nr;
    tracee->named += fits;
    if (fits && is_target(inject, tracee) && tracee->named == inject->target_call) {
        if (can_fail(&info, inject->target_error)) {
            fail_at_entry(inject, tracee, (int)info.entry.nr);
        } else {
            inject->spared = true;
            inject->fired_nr = (int)info.entry.nr;
        }
    }
}

static void on_stop(struct inject *inject, pid_t pid, int status)
{
    struct tracee *tracee = find_or_add(inject, pid);
    int signal = WSTOPSIG(status);
    int event = status >> 16;
    unsigned long made = 0;
    tracee->interrupted = false;
    if (signal == (SIGTRAP | 0x80)) {
        on_syscall(inject, tracee);
        signal = 0;
    } else if (event == PTRACE_EVENT_CLONE || event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK) {
        ptrace(PTRACE_GETEVENTMSG, pid, NULL, &made);
        find_or_add(inject, (pid_t)made);
        signal = 0;
    } else if (event == PTRACE_EVENT_EXEC) {
        tracee->exec = inject->started ? ++inject->n_execs : 0;
        tracee->counted = !inject->started || (tracee->exec && tracee->exec == inject->target_exec);
        tracee->calls = tracee->named = 0;
        inject->started = true;
        signal = 0;
    } else if (event == PTRACE_EVENT_STOP) {
        if (signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU) {
            ptrace(PTRACE_LISTEN, pid, NULL, NULL); /* really stopped, by somebody */
            return;
        }
        signal = 0;
    }
    if (signal == SIGSEGV && inject->target_exec > 0) {
        /* Not even this ends a PID 1 that is traced; otherwise it would. */
        kill(pid, SIGKILL);
        signal = 0;
    }
    resume(inject, tracee, signal);
}

/* Handles what has happened; -1 once nobody is left, else 0. */
static int reap(struct inject *inject)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0) {
        if (WIFSTOPPED(status)) {
            on_stop(inject, pid, status);
        } else {
            struct tracee *tracee = find(inject, pid);
            if (tracee) {
                *tracee = (struct tracee){0};
            }
        }
    }
    return pid < 0 && errno == ECHILD ? -1 : 0;
}

/* From here on counts begin anew, and `pid` (0: everybody) is stopped at each call. */
static void begin(struct inject *inject, pid_t pid)
{
    inject->n_new = 0;
    for (size_t i = 0; i < TRACEES_MAX; i++) {
        struct tracee *tracee = &inject->tracees[i];
        if (tracee->pid > 0) {
            tracee->number = 0;
            tracee->calls = tracee->named = 0;
            tracee->counted = true;
            tracee->interrupted =
                (pid == 0 || pid == tracee->pid) && ptrace(PTRACE_INTERRUPT, tracee->pid, NULL, NULL) == 0;
        }
    }
    bool waiting = true;
    while (waiting) {
        int status;
        waiting = false;
        for (size_t i = 0; i < TRACEES_MAX; i++) {
            waiting = waiting || (inject->tracees[i].pid > 0 && inject->tracees[i].interrupted);
        }
        pid_t stopped = waiting ? waitpid(-1, &status, __WALL) : 0;
        if (stopped > 0 && WIFSTOPPED(status)) {
            on_stop(inject, stopped, status);
        } else if (stopped > 0 && find(inject, stopped)) {
            *find(inject, stopped) = (struct tracee){0};
        }
    }
}

static const char *name_of(int nr, char buffer[64])
{
    return policy_syscall_name(AUDIT_ARCH_X86_64, nr, buffer, 64);
}

static void print_outcome(const struct inject *inject, int fd)
{
    char name[64];
    const char *word = inject->fired ? "fired" : inject->spared ? "spared" : "idle";
    dprintf(fd, "%s%s%s\n", word, *word == 'i' ? "" : " ",
            *word == 'i' ? "" : name_of(inject->fired_nr, name));
}

static void print_recorded(struct inject *inject)
{
    char name[64];
    for (size_t i = 0; i < inject->n_recorded; i++) {
        const struct recorded *recorded = &inject->recorded[i];
        if (recorded->number > 0) {
            printf("new:%u", recorded->number);
        } else {
            printf("pid:%d", (int)recorded->pid);
        }
        printf(" %u %s\n", recorded->n, name_of(recorded->nr, name));
    }
    inject->n_recorded = 0;
    puts("ok");
}

/* "N" or "NAME:N"; -1 and nothing else where there is no call of that name. */
static int read_call(const char *text, int *ret_nr, unsigned *ret_call)
{
    char buffer[64];
    const char *colon = strchr(text, ':');
    int nr = colon ? 0 : -1;
    while (colon && nr < CALLS_MAX) {
        const char *name = name_of(nr, buffer);
        if (strlen(name) == (size_t)(colon - text) && memcmp(name, text, (size_t)(colon - text)) == 0) {
            break;
        }
        nr++;
    }
    *ret_nr = nr;
    *ret_call = (unsigned)strtoul(colon ? colon + 1 : text, NULL, 10);
    return nr == CALLS_MAX ? -1 : 0;
}

static void aim(struct inject *inject, const char *who, int nr, unsigned call, int error)
{
    unsigned number = (unsigned)strtoul(who + 4, NULL, 10);
    bool by_pid = strncmp(who, "pid:", 4) == 0, by_exec = strncmp(who, "exec:", 5) == 0;
    inject->target_pid = by_pid ? (pid_t)number : 0;
    inject->target_exec = by_exec ? (unsigned)strtoul(who + 5, NULL, 10) : 0;
    inject->target_number = by_pid || by_exec ? 0 : number;
    inject->target_nr = nr;
    inject->target_call = call;
    inject->target_error = error;
    inject->fired = inject->spared = false;
    inject->armed = true;
}

static void obey(struct inject *inject, const char *line)
{
    char who[32], which[64];
    unsigned call;
    int nr, error;
    if (strcmp(line, "record\n") == 0) {
        inject->recording = true;
        begin(inject, 0);
        puts("ok");
    } else if (strcmp(line, "end\n") == 0) {
        inject->recording = false;
        print_recorded(inject);
    } else if (sscanf(line, "arm %31s %63s %d", who, which, &error) == 3 &&
               read_call(which, &nr, &call) == 0) {
        aim(inject, who, nr, call, error);
        begin(inject, inject->target_pid > 0 ? inject->target_pid : -1);
        puts("ok");
    } else if (strcmp(line, "disarm\n") == 0 || strcmp(line, "look\n") == 0) {
        print_outcome(inject, STDOUT_FILENO);
        inject->armed = inject->armed && *line == 'l';
    } else {
        printf("what is %s", line);
    }
    fflush(stdout);
}

static void let_go(struct inject *inject)
{
    begin(inject, 0);
    for (size_t i = 0; i < TRACEES_MAX; i++) {
        pid_t pid = inject->tracees[i].pid;
        int status;
        if (pid > 0 && ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) == 0 &&
            waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status)) {
            ptrace(PTRACE_DETACH, pid, NULL, NULL);
        }
    }
}

static pid_t start(char **argv, int output)
{
    pid_t pid = fork();
    if (pid == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        dup2(output, STDOUT_FILENO);
        raise(SIGSTOP);
        execvp(argv[0], argv);
        die(argv[0]);
    }
    int status;
    if (pid < 0 || waitpid(pid, &status, WUNTRACED) != pid ||
        ptrace(PTRACE_SEIZE, pid, NULL, (void *)(intptr_t)(OPTIONS | PTRACE_O_EXITKILL)) < 0) {
        die("starting the command");
    }
    kill(pid, SIGCONT);
    return pid;
}

/* Until the command has ended, and its descendants with it; ends as it did. */
static int run_armed(struct inject *inject, pid_t command)
{
    int status, code = 0;
    for (pid_t pid; (pid = waitpid(-1, &status, __WALL)) > 0;) {
        if (WIFSTOPPED(status)) {
            on_stop(inject, pid, status);
            continue;
        }
        if (pid == command) {
            code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        struct tracee *tracee = find(inject, pid);
        if (tracee) {
            *tracee = (struct tracee){0};
        }
    }
    print_outcome(inject, 3);
    return code;
}

/* Reads what is to be done, byte by byte, between what happens to the tracees. */
static int run_told(struct inject *inject, int signals)
{
    struct signalfd_siginfo info;
    char line[256];
    size_t length = 0;
    struct pollfd polled[] = {{.fd = signals, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
    while (reap(inject) == 0) {
        if (poll(polled, ARRAY_SIZE(polled), -1) < 0 && errno != EINTR) {
            die("poll");
        }
        while (read(signals, &info, sizeof info) > 0) {
        }
        if (polled[1].revents == 0) {
            continue;
        }
        if (read(STDIN_FILENO, line + length, 1) <= 0) {
            let_go(inject);
            return 0;
        }
        line[++length] = '\0';
        if (line[length - 1] == '\n' || length == sizeof line - 1) {
            obey(inject, line);
            length = 0;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    static struct inject inject;
    inject.recorded = calloc(RECORDED_MAX, sizeof *inject.recorded);
    if (!inject.recorded) {
        die("starting");
    }
    if (argc > 5 && strcmp(argv[1], "--arm") == 0) {
        unsigned call;
        int nr;
        if (read_call(argv[3], &nr, &call) < 0) {
            fprintf(stderr, "inject: what is %s\n", argv[3]);
            return 2;
        }
        aim(&inject, argv[2], nr, call, atoi(argv[4]));
        pid_t command = start(argv + 5, STDOUT_FILENO);
        find_or_add(&inject, command);
        return run_armed(&inject, command);
    }
    if (argc < 2) {
        fputs("usage: inject [--arm WHO N ERROR] COMMAND [ARGUMENT...]\n", stderr);
        return 2;
    }
    sigset_t chld;
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    sigprocmask(SIG_BLOCK, &chld, NULL);
    int signals = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0) {
        die("starting");
    }
    find_or_add(&inject, start(argv + 1, STDERR_FILENO)); /* standard output is for answers */
    return run_told(&inject, signals);
}
#endif
