/* Makes the front's process. Runs in the warden, and, between clone and exec, in the child.
 *
 * What must hold when the front's first instruction runs: an uid that owns nothing (or, without privileges, a
 * user namespace of its own), no other process to be seen or signalled, no network but the sockets it is
 * given, no capability in any set, no way to gain one, no descriptor but its own, no environment that could
 * hold a secret, and a signal that ends it when the warden dies. A step that fails is reported by name and
 * the front does not start. */
#include "server/warden/front_process.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "server/link/channel.h"

/* What the child still needs, on descriptors above all that it is about to give away. */
struct child_setup {
    const struct front_process_options *options;
    int channel_fd, executable_fd, listen_fd;
};

/* Variables that reach the front: none that could hold a key. */
static const char *const kept_variables[] = {"TZ",           "LANG",          "LC_ALL",
                                             "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"};

/* dup3(2) leaves close-on-exec off, so exactly these survive the exec. */
static int move_descriptors(const struct child_setup *setup)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup3(setup->channel_fd, FRONT_CHANNEL_FD, 0) < 0 ||
        dup3(setup->listen_fd, FRONT_LISTEN_FD, 0) < 0 || dup3(null, STDIN_FILENO, 0) < 0 ||
        dup3(null, STDOUT_FILENO, 0) < 0) {
        return -errno;
    }
    return close_range(FRONT_LISTEN_FD + 1, ~0u, CLOSE_RANGE_CLOEXEC) < 0 ? -errno : 0;
}

static int empty_bounding_set(const struct child_setup *setup)
{
    (void)setup;
    for (unsigned long number = 0; number < 64 && prctl(PR_CAPBSET_READ, number, 0, 0, 0) >= 0; number++) {
        /* Without CAP_SETPCAP the set stays, and no_new_privs makes it meaningless. */
        if (prctl(PR_CAPBSET_DROP, number, 0, 0, 0) < 0 && errno != EPERM) {
            return -errno;
        }
    }
    return 0;
}

static int change_ids(const struct child_setup *setup)
{
    uint32_t id = setup->options->uid;
    if (!setup->options->change_ids) {
        return 0;
    }
    return setgroups(0, NULL) < 0 || setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0 ? -errno : 0;
}

static int drop_capabilities(const struct child_setup *setup)
{
    (void)setup;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL) {
        return -errno;
    }
    return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

static int set_no_new_privs(const struct child_setup *setup)
{
    (void)setup;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

static int set_limits(const struct child_setup *setup)
{
    (void)setup;
    /* No limit on the size of files: the audit log may be one. Processes: server/front/sandbox.c. */
    static const struct {
        int resource;
        rlim_t limit;
    } limits[] = {
        {RLIMIT_CORE, 1}, /* 0 would still start a handler of core_pattern; see step_RLIMIT() */
        {RLIMIT_MEMLOCK, 0}, {RLIMIT_MSGQUEUE, 0}, {RLIMIT_NICE, 0}, {RLIMIT_RTPRIO, 0},
    };
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
        const struct rlimit limit = {limits[i].limit, limits[i].limit};
        if (setrlimit((__rlimit_resource_t)limits[i].resource, &limit) < 0) {
            return -errno;
        }
    }
    return 0;
}

/* After the ids have changed, since that clears it. Had the parent died before, the channel would be at its
 * end, and the front would exit by itself. */
static int die_with_parent(const struct child_setup *setup)
{
    (void)setup;
    return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 ? -errno : 0;
}

static int reset_signals(const struct child_setup *setup)
{
    (void)setup;
    sigset_t none;
    sigemptyset(&none);
    signal(SIGPIPE, SIG_DFL);
    return sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? -errno : 0;
}

static int execute(const struct child_setup *setup)
{
    char *argv[] = {(char[]){FRONT_PROGRAM}, NULL};
    /* A name server that does not answer must not keep the front from serving. */
    char quick_names[] = "RES_OPTIONS=timeout:1 attempts:2";
    char *envp[ARRAY_SIZE(kept_variables) + 2] = {quick_names};
    size_t n = 1;
    for (size_t i = 0; i < ARRAY_SIZE(kept_variables); i++) {
        const char *value = getenv(kept_variables[i]);
        if (value) {
            envp[n++] =
                (char *)(uintptr_t)value - strlen(kept_variables[i]) - 1; /* "NAME=" lies right before it */
        }
    }
    execveat(setup->executable_fd, "", argv, envp, AT_EMPTY_PATH);
    return -errno;
}

/* In this order. */
static const struct child_step {
    const char *name;
    int (*run)(const struct child_setup *setup);
} child_steps[] = {
    {"handing over descriptors", move_descriptors},
    {"emptying the capability bounding set", empty_bounding_set},
    {"becoming the front's uid", change_ids},
    {"dropping capabilities", drop_capabilities},
    {"setting no_new_privs", set_no_new_privs},
    {"setting limits", set_limits},
    {"binding its life to ours", die_with_parent},
    {"resetting signals", reset_signals},
    {"executing " FRONT_PROGRAM " (the front's uid must be allowed to)", execute},
};

/* What a failing child writes. */
struct child_failure {
    uint32_t step;
    int32_t error;
};

static _Noreturn void child_main(const struct child_setup *setup, int status_fd)
{
    for (uint32_t i = 0; i < ARRAY_SIZE(child_steps); i++) {
        int r = child_steps[i].run(setup);
        if (r < 0) {
            struct child_failure failure = {i, -r};
            io_write_full(status_fd, &failure, sizeof failure);
            _exit(1);
        }
    }
    _exit(1); /* never: the last step executes or fails */
}

/* A copy above the numbers that move_descriptors() fills. */
static int copy_high(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, FRONT_LISTEN_FD + 1);
}

static int wait_for_exec(int status_fd, struct err *reterr)
{
    struct child_failure failure;
    ssize_t n = io_read_full(status_fd, &failure, sizeof failure);
    if (n == 0) {
        return 0; /* close-on-exec has closed it */
    }
    if (n != (ssize_t)sizeof failure || failure.step >= ARRAY_SIZE(child_steps)) {
        return err_set(reterr, ERR_INTERNAL, EPROTO, NULL, "starting the front: its process died");
    }
    return err_errno(reterr, failure.error, "starting the front: %s", child_steps[failure.step].name);
}

/* As for a jail, with two exceptions: the front needs files until server/front/sandbox.c takes them from it,
 * and a network of the host's if it is to call back. Where there are no ids to change, a user namespace in
 * which nobody is mapped keeps it from what the warden's uid may do to the warden. */
static uint64_t namespaces(const struct front_process_options *options)
{
    return CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP |
           (options->host_network ? 0 : CLONE_NEWNET) | (options->change_ids ? 0 : CLONE_NEWUSER);
}

static int clone_front(const struct child_setup *setup, struct front_process *process, struct err *reterr)
{
    int status[2];
    if (pipe2(status, O_CLOEXEC) < 0) {
        return err_errno(reterr, errno, "starting the front");
    }
    CLEANUP(fd_closep) int status_read = status[0];
    CLEANUP(fd_closep) int status_write = copy_high(status[1]);
    close(status[1]);
    if (status_write < 0) {
        return err_errno(reterr, errno, "starting the front");
    }
    struct clone_args args = {
        .flags = namespaces(setup->options) | CLONE_PIDFD,
        .pidfd = (uint64_t)(uintptr_t)&process->pidfd,
        .exit_signal = SIGCHLD,
    };
    process->pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (process->pid == 0) {
        child_main(setup, status_write);
    }
    if (process->pid < 0) {
        process->pidfd = -1; /* the kernel may have written a number that it took back */
        return errno == ENOSPC
                   ? err_set(reterr, ERR_HOST, errno, NULL,
                             "no namespaces can be had for the front: %s; raise the limits of their kinds "
                             "(/proc/sys/user/max_*_namespaces)",
                             strerror(errno))
                   : err_errno(reterr, errno, "starting the front in namespaces of its own");
    }
    fd_closep(&status_write);
    int r = wait_for_exec(status_read, reterr);
    if (r < 0) {
        kill(process->pid, SIGKILL); /* our unreaped child, so the number is still its own */
        waitpid(process->pid, NULL, 0);
        fd_closep(&process->pidfd);
    }
    return r;
}

int front_process_start(const struct front_process_options *options, struct front_process *ret,
                        struct err *reterr)
{
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0) {
        return err_errno(reterr, errno, "making the front's channel");
    }
    CLEANUP(fd_closep) int ours = sockets[0];
    CLEANUP(fd_closep) int channel = copy_high(sockets[1]);
    CLEANUP(fd_closep) int executable = copy_high(options->executable_fd);
    CLEANUP(fd_closep) int listener = copy_high(options->listen_fd);
    close(sockets[1]);
    if (channel < 0 || executable < 0 || listener < 0) {
        return err_errno(reterr, errno, "copying the front's descriptors");
    }
    struct child_setup setup = {options, channel, executable, listener};
    struct front_process process = {.pidfd = -1};
    int r = clone_front(&setup, &process, reterr);
    if (r < 0) {
        return r;
    }
    process.channel_fd = TAKE_FD(ours);
    *ret = process;
    return 0;
}
