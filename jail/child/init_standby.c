/* PID 1 of a standby jail (standby.h): keeps its launcher waiting in one denied system call, and puts the
 * job's descriptors into it before the answer. Where the jail is a kernel's, the launcher comes back to that
 * call with each program that it has run; the program owns the launcher, so what is said there may be a lie,
 * but one about itself alone: it is a wait like any other, and what runs in the jail runs under its limits.
 *
 * Raw system calls only, as in init.c. Whatever is not as it should be ends the jail: the parent finds it
 * lost, and no job ever runs with descriptors that are not its own. */
#include "jail/child/init.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/io.h"
#include "jail/child/child.h"
#include "jail/child/denied.h"

#define EXIT_MASK 0xff

/* What a launcher does (jail/standby.h): the call by which it says that it waits, and where it finds its
 * program: beyond what an interpreter has open when it has started. */
#define LAUNCHER_CALL SYS_inotify_init1
#define LAUNCHER_FD   63

bool init_is_standing_by(const struct child *child)
{
    return child->standby == STANDBY_STARTING || child->standby == STANDBY_PARKED;
}

/* Puts one descriptor into the launcher. Like those of a job that starts its own interpreter, none is handed
 * on by an exec unless the program says so: Node sees to that itself when it starts. A kernel's standard
 * descriptors are, as any program's. */
static int place(struct child *child, int fd, int number)
{
    bool inherited = child->kernel && number <= STDERR_FILENO;
    struct seccomp_notif_addfd add = {.id = child->standby_call,
                                      .flags = SECCOMP_ADDFD_FLAG_SETFD,
                                      .srcfd = (uint32_t)fd,
                                      .newfd = (uint32_t)number,
                                      .newfd_flags = inherited ? 0 : O_CLOEXEC};
    child->call = "ioctl";
    int r;
    do {
        r = ioctl(child->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add);
    } while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : 0;
}

/* Takes the pipes of its last program from a kernel before anybody hears that it has ended: what its threads
 * print from here on is nobody's. */
static int take_pipes(struct child *child)
{
    int r = 0;
    for (int number = 0; r == 0 && number < JAIL_PROGRAM_FDS; number++) {
        r = place(child, STDIN_FILENO, number);
    }
    return r;
}

/* How a kernel's program has ended; -1: it has not, and this call is one of its own. The launcher says it
 * with the argument; one that cannot choose that (Node's has the flags of fs.watch()) in the file that the
 * program came in: 0 and the status, where others begin with a digit. */
static int end_status(const struct child *child, uint64_t argument)
{
    unsigned char end[2];
    if (argument <= EXIT_MASK) {
        return (int)argument;
    }
    return pread(child->program_fd, end, sizeof end, 0) == sizeof end && end[0] == 0 ? end[1] : -1;
}

bool init_standby_takes(struct child *child, pid_t program, const struct seccomp_notif *request)
{
    bool again = child->standby == STANDBY_PARKED;
    bool ends = child->kernel && child->standby == STANDBY_DONE;
    if (request->data.nr != LAUNCHER_CALL || (pid_t)request->pid != program ||
        !(init_is_standing_by(child) || ends)) {
        return false;
    }
    int status = ends ? end_status(child, request->data.args[0]) : 0;
    if (status < 0) {
        return false;
    }
    if (again && !child->kernel) {
        _exit(1); /* a launcher that waits cannot call again: a signal has brought it here */
    }
    if (ends && child->interrupted) {
        /* Its signal may have come too late for this program, and must not be the next one's: the launcher
         * takes it, which is there by now, and calls again. */
        child->interrupted = false;
        child_answer(child, request->id, EINTR);
        return true;
    }
    child->standby_call = request->id;
    if (again) {
        return true; /* a kernel may wait long enough to be frozen and thawed, which makes it call again */
    }
    const struct child_message parked = {
        .kind = CHILD_PARKED, .time_ns = clock_now_ns(), .wstatus = W_EXITCODE(status, 0)};
    int r = ends ? take_pipes(child) : 0;
    if (r == -ENOENT) {
        return true; /* a signal has ended the call: it comes again */
    }
    child->standby = STANDBY_PARKED;
    if (r < 0 || child_send(child, &parked, -1) < 0) {
        _exit(1);
    }
    return true;
}

static void run(struct child *child, const int fds[JAIL_PROGRAM_FDS + 1])
{
    int r = 0;
    for (int i = 0; r == 0 && i <= JAIL_PROGRAM_FDS; i++) {
        r = place(child, fds[i], i < JAIL_PROGRAM_FDS ? i : LAUNCHER_FD);
    }
    if (r < 0) {
        child_report_failure(child, child->plan->n_steps - 1, r);
        _exit(1);
    }
    for (int i = 0; i < JAIL_PROGRAM_FDS; i++) {
        close(fds[i]);
    }
    fd_closep(&child->program_fd);
    child->program_fd = fds[JAIL_PROGRAM_FDS];
    if (!child->kernel) {
        fd_closep(&child->program_fd);
    }
    child->standby = STANDBY_DONE;
    child->interrupted = false;
    if (child->denied) {
        denied_clear(child->denied); /* those of a kernel's earlier programs */
    }
    struct child_message started = {
        .kind = CHILD_STARTED, .time_ns = clock_now_ns(), .proc_absent = child->proc_absent};
    if (child_send(child, &started, -1) < 0) {
        _exit(1);
    }
    child_answer(child, child->standby_call, EPERM);
}

void init_standby_hear(struct child *child, pid_t program)
{
    struct parent_message message;
    int fds[JAIL_PROGRAM_FDS + 1];
    size_t n_fds = JAIL_PROGRAM_FDS + 1;
    ssize_t n = io_recv_fds(child->control, &message, sizeof message, fds, &n_fds);
    if (n != (ssize_t)sizeof message) {
        _exit(1);
    }
    if (message.phase == PHASE_SIGNAL && n_fds == 0 && !init_is_standing_by(child)) {
        kill(-program, message.error);
        return;
    }
    if (child->kernel && message.phase == PHASE_INTERRUPT && n_fds == 0) {
        if (child->standby == STANDBY_DONE) {
            child->interrupted = true;
            kill(-program, SIGINT); /* its process group, as ^C at a terminal */
        }
        return;
    }
    if (child->standby != STANDBY_PARKED || message.phase != PHASE_RUN || n_fds != JAIL_PROGRAM_FDS + 1) {
        _exit(1);
    }
    run(child, fds);
}
