/* Runs a trusted program under a filter that asks about every call, and lets it go on. Runs in the command
 * line; the program is its child, with the caller's own rights. Nothing here is a protection: what is read of
 * the program's memory may have changed when the kernel reads it.
 *
 * The listener that the filter returns is sent over a socket. The one call that does so, on that descriptor,
 * passes the filter: otherwise it would wait for the answer of a parent that has no listener yet. */
#include "policy/learn/record.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/base/signals.h"
#include "policy/learn/observed.h"
#include "policy/learn/trace.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1ul << 5)
#endif

/* A number that programs seldom come to. */
#define SOCKET_FD_MIN 200

#define NOT_STARTED 127

struct recording {
    pid_t child;
    int listener, child_fd, signal_fd;
    sigset_t before; /* what was blocked */
    struct tracer *tracer;
    bool *interrupted;
};

static void tracer_freep(struct tracer **tracer)
{
    tracer_free(*tracer);
}

/* The listener, or -1. A signal that a program sends itself often must not make its calls begin anew. */
static int install_filter(int socket_fd)
{
    struct sock_filter instructions[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendmsg, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)socket_fd, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
    };
    struct sock_fprog program = {.len = ARRAY_SIZE(instructions), .filter = instructions};
    unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    long listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    if (listener < 0 && errno == EINVAL) {
        flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
        listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    }
    return (int)listener;
}

/* In the child: never returns. */
static void start_program(const struct record_options *options, const sigset_t *mask, int socket_fd)
{
    sigprocmask(SIG_SETMASK, mask, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* otherwise its calls would have no answer */
    int sock = fcntl(socket_fd, F_DUPFD_CLOEXEC, SOCKET_FD_MIN);
    sock = sock < 0 ? socket_fd : sock;
    if (dup2(options->stdin_fd, STDIN_FILENO) < 0 || dup2(options->stdout_fd, STDOUT_FILENO) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        _exit(NOT_STARTED);
    }
    int listener = install_filter(sock);
    int code = listener < 0 ? errno : 0;
    if (io_send_fds(sock, &code, sizeof code, &listener, listener >= 0) < 0 || code != 0) {
        _exit(NOT_STARTED);
    }
    environ = (char **)(uintptr_t)options->env; /* its PATH is the one that is searched */
    execvp(options->argv[0], options->argv);
    static const char sentence[] = "immure policy learn: the program cannot be started\n";
    io_write_full(STDERR_FILENO, sentence, sizeof sentence - 1);
    _exit(NOT_STARTED);
}

static int receive_listener(struct recording *recording, int socket_fd, struct err *reterr)
{
    int code = 0;
    size_t n_fds = 1;
    ssize_t n = io_recv_fds(socket_fd, &code, sizeof code, &recording->listener, &n_fds);
    if (n != sizeof code || code != 0 || n_fds != 1) {
        code = code != 0 ? code : n < 0 ? (int)-n : EPROTO;
        return err_set(reterr, ERR_HOST, code, NULL, "this host lets no program be watched (seccomp: %s)",
                       strerror(code));
    }
    return 0;
}

/* Ctrl-C is for the program, whose policy is written all the same. What ends us stays pending until what we
 * have started has ended; but for what whoever started us has had ignored (nohup). */
static int watch_signals(struct recording *recording, struct err *reterr)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t set = signals_to_heed(ending, ARRAY_SIZE(ending));
    sigprocmask(SIG_BLOCK, &set, &recording->before);
    recording->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return recording->signal_fd < 0 ? err_errno(reterr, errno, "watching signals") : 0;
}

/* True if it is to end us. */
static bool take_signal(const struct recording *recording)
{
    sigset_t pending;
    struct signalfd_siginfo info;
    sigpending(&pending);
    if (sigismember(&pending, SIGTERM) || sigismember(&pending, SIGHUP) || sigismember(&pending, SIGQUIT)) {
        return true;
    }
    *recording->interrupted |= read(recording->signal_fd, &info, sizeof info) == (ssize_t)sizeof info;
    return false;
}

static int start(const struct record_options *options, struct recording *recording, struct err *reterr)
{
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0) {
        return err_errno(reterr, errno, "starting the program");
    }
    recording->child = fork();
    if (recording->child == 0) {
        close(sockets[0]);
        start_program(options, &recording->before, sockets[1]);
    }
    CLEANUP(fd_closep) int ours = sockets[0];
    close(sockets[1]);
    recording->child_fd = recording->child < 0 ? -1 : pidfd_open(recording->child, 0);
    if (recording->child_fd < 0) {
        return err_errno(reterr, errno, "starting the program");
    }
    return receive_listener(recording, ours, reterr);
}

/* -ENOENT: whoever called has ended meanwhile. */
static int answer_one(struct recording *recording)
{
    struct seccomp_notif call;
    memset(&call, 0, sizeof call);
    if (ioctl(recording->listener, SECCOMP_IOCTL_NOTIF_RECV, &call) < 0) {
        return errno == EINTR || errno == ENOENT ? 0 : -errno;
    }
    int code = tracer_look(recording->tracer, &call);
    struct seccomp_notif_resp response = {
        .id = call.id, .error = -code, .flags = code == 0 ? SECCOMP_USER_NOTIF_FLAG_CONTINUE : 0};
    int r;
    do {
        r = ioctl(recording->listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
    } while (r < 0 && errno == EINTR);
    return r < 0 && errno != ENOENT ? -errno : 0;
}

/* Until the program itself has ended. */
static int answer_all(struct recording *recording, struct err *reterr)
{
    for (;;) {
        struct pollfd polled[] = {{.fd = recording->child_fd, .events = POLLIN},
                                  {.fd = recording->listener, .events = POLLIN},
                                  {.fd = recording->signal_fd, .events = POLLIN}};
        if (poll(polled, ARRAY_SIZE(polled), -1) < 0 && errno != EINTR) {
            return err_errno(reterr, errno, "watching the program");
        }
        int r = polled[1].revents & POLLIN ? answer_one(recording) : 0;
        if (r < 0) {
            return err_errno(reterr, -r, "watching the program");
        }
        if (polled[2].revents & POLLIN && take_signal(recording)) {
            return err_set(reterr, ERR_INVALID, EINTR, NULL, "ended by a signal");
        }
        if (polled[0].revents) {
            return 0;
        }
    }
}

/* What it left behind has become ours (a subreaper's). */
static void end_children(void)
{
    CLEANUP(freep) char *line = NULL;
    for (;;) {
        size_t size = 0;
        CLEANUP(file_closep) FILE *children = fopen("/proc/thread-self/children", "re");
        if (!children || getline(&line, &size, children) <= 0) {
            return;
        }
        char *rest = NULL;
        for (char *word = strtok_r(line, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest)) {
            pid_t child = (pid_t)strtol(word, NULL, 10);
            kill(child, SIGKILL);
            waitpid(child, NULL,
                    0); /* and no other: those below it are ours, and killed, from the next round */
        }
        freep(&line);
    }
}

int record_run(const struct record_options *options, struct observed *observed, int *ret_status,
               struct err *reterr)
{
    CLEANUP(tracer_freep) struct tracer *tracer = NULL;
    if (!getcwd(observed->cwd, sizeof observed->cwd)) {
        return err_errno(reterr, errno, "finding the working directory");
    }
    int r = tracer_new(observed, &tracer, reterr);
    if (r < 0) {
        return r;
    }
    struct recording recording = {.listener = -1,
                                  .child_fd = -1,
                                  .signal_fd = -1,
                                  .child = -1,
                                  .tracer = tracer,
                                  .interrupted = &observed->interrupted};
    observed->tasks = 1;
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    r = watch_signals(&recording, reterr);
    r = r < 0 ? r : start(options, &recording, reterr);
    if (r == 0) {
        r = answer_all(&recording, reterr);
    }
    int status = 0;
    if (recording.child > 0) {
        kill(recording.child, SIGKILL); /* it has ended, or is of no more use */
        waitpid(recording.child, &status, 0);
    }
    fd_closep(&recording.child_fd);
    fd_closep(&recording.listener);
    end_children();
    take_signal(&recording); /* a Ctrl-C that came with the end */
    fd_closep(&recording.signal_fd);
    sigprocmask(SIG_SETMASK, &recording.before, NULL);
    *ret_status = status;
    return r;
}
