/* PID 1 of a standby jail (standby.h): keeps its launcher waiting in one denied system call, and puts the
 * job's descriptors into it before the answer.
 *
 * Raw system calls only, as in init.c. Whatever is not as it should be ends the jail: the parent finds it
 * lost, and no job ever runs with descriptors that are not its own. */
#include "jail/child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "jail/base/clock.h"
#include "jail/base/io.h"
#include "jail/standby.h"

bool init_is_standing_by(const struct child *child)
{
    return child->standby == STANDBY_STARTING || child->standby == STANDBY_PARKED;
}

bool init_standby_takes(struct child *child, pid_t program, const struct seccomp_notif *request)
{
    if (request->data.nr != JAIL_STANDBY_CALL || (pid_t)request->pid != program ||
        !init_is_standing_by(child)) {
        return false;
    }
    if (child->standby == STANDBY_PARKED) {
        _exit(1); /* a launcher that waits cannot call again: a signal has brought it here */
    }
    struct child_message parked = {.kind = CHILD_PARKED};
    child->standby = STANDBY_PARKED;
    child->standby_call = request->id;
    if (child_send(child, &parked, -1) < 0) {
        _exit(1);
    }
    return true;
}

/* Puts one descriptor into the launcher. Like those of a job that starts its own interpreter, none is handed
 * on by an exec unless the program says so: Node sees to that itself when it starts. */
static int place(struct child *child, int fd, int number)
{
    struct seccomp_notif_addfd add = {.id = child->standby_call,
                                      .flags = SECCOMP_ADDFD_FLAG_SETFD,
                                      .srcfd = (uint32_t)fd,
                                      .newfd = (uint32_t)number,
                                      .newfd_flags = O_CLOEXEC};
    child->call = "ioctl";
    int r;
    do {
        r = ioctl(child->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add);
    } while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : 0;
}

void init_standby_run(struct child *child)
{
    struct parent_message message;
    int fds[JAIL_PROGRAM_FDS + 1];
    size_t n_fds = JAIL_PROGRAM_FDS + 1;
    if (io_recv_fds(child->control, &message, sizeof message, fds, &n_fds) != (ssize_t)sizeof message ||
        message.phase != PHASE_RUN || n_fds != JAIL_PROGRAM_FDS + 1) {
        _exit(1);
    }
    int r = 0;
    for (int i = 0; r == 0 && i <= JAIL_PROGRAM_FDS; i++) {
        r = place(child, fds[i], i < JAIL_PROGRAM_FDS ? i : JAIL_STANDBY_FD);
    }
    if (r < 0) {
        child_report_failure(child, child->plan->n_steps - 1, r);
        _exit(1);
    }
    for (int i = 0; i <= JAIL_PROGRAM_FDS; i++) {
        close(fds[i]);
    }
    child->standby = STANDBY_DONE;
    struct child_message started = {
        .kind = CHILD_STARTED, .time_ns = clock_now_ns(), .proc_absent = child->proc_absent};
    if (child_send(child, &started, -1) < 0) {
        _exit(1);
    }
    init_deny(child, child->standby_call);
}
