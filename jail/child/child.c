/* What both processes of a jail that is being built need, and its template's: talking to the parent, opening
 * what lies in the new root, keeping descriptors and PIDs out of the way. Between clone and exec. */
#include "jail/child/child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail/base/cleanup.h"

int child_send(const struct child *child, const struct child_message *message, int fd)
{
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)message, .iov_len = sizeof *message};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd >= 0) {
        msg.msg_control = control.space;
        msg.msg_controllen = sizeof control.space;
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
        *cmsg = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
        memcpy(CMSG_DATA(cmsg), &fd, sizeof fd);
    }
    ssize_t n;
    do {
        n = sendmsg(child->control, &msg, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

int child_receive(const struct child *child, enum jail_phase phase)
{
    struct parent_message message;
    ssize_t n;
    do {
        n = recv(child->control, &message, sizeof message, 0);
    } while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof message || message.phase != phase) {
        return n < 0 ? -errno : -EPIPE;
    }
    return -message.error;
}

static int open_beneath(int dirfd, const char *path, uint64_t flags)
{
    struct open_how how = {.flags = flags | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    long fd = syscall(SYS_openat2, dirfd, *path ? path : ".", &how, sizeof how);
    return fd < 0 ? -errno : (int)fd;
}

int child_open_path(struct child *child, const char *path)
{
    child->call = "openat2";
    return open_beneath(child->root, path + 1, O_PATH);
}

/* The step before mostly had the same parent, and what is attached meanwhile lies below it: attaching opens
 * its own parent this way as well, so that no tree is ever put over the remembered directory or one above it.
 */
int child_open_parent(struct child *child, const char *path, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash > path ? (size_t)(slash - path - 1) : 0;
    if (length >= sizeof child->parent_path) {
        return -ENAMETOOLONG;
    }
    *ret_name = slash + 1;
    if (child->parent >= 0 && strncmp(child->parent_path, path + 1, length) == 0 &&
        child->parent_path[length] == '\0') {
        return child->parent;
    }
    child_forget_parent(child);
    memcpy(child->parent_path, path + 1, length);
    child->parent_path[length] = '\0';
    child->call = "openat2";
    child->parent = open_beneath(child->root, child->parent_path, O_PATH | O_DIRECTORY);
    return child->parent;
}

int child_open_below(struct child *child, int parent, const char *name)
{
    child->call = "openat2";
    return open_beneath(parent, name, O_PATH);
}

void child_forget_parent(struct child *child)
{
    fd_closep(&child->parent);
}

/* Closes every descriptor but the standard ones and those the jail was given: the parent's table holds other
 * jobs' pipes, which would otherwise never reach end of file while this jail lives. */
int child_close_others(struct child *child)
{
    int keep[JAIL_FD_COUNT + 1];
    size_t n = 0;
    keep[n++] = child->control;
    for (size_t i = 0; i < JAIL_FD_COUNT; i++) {
        if (child->fds[i] >= 0) {
            keep[n++] = child->fds[i];
        }
    }
    unsigned next = STDERR_FILENO + 1;
    child->call = "close_range";
    for (;;) {
        unsigned lowest = UINT32_MAX;
        for (size_t i = 0; i < n; i++) {
            if (keep[i] >= (int)next && (unsigned)keep[i] < lowest) {
                lowest = (unsigned)keep[i];
            }
        }
        if (lowest > next && close_range(next, lowest == UINT32_MAX ? lowest : lowest - 1, 0) < 0) {
            return -errno;
        }
        if (lowest == UINT32_MAX) {
            return 0;
        }
        next = lowest + 1;
    }
}

/* A clone3() that fails once it has a PID: nobody runs, or is counted, or has to be waited for. That the
 * kernel does it in this order is seen when a template starts, by the PID that it gets (init_main()). */
int child_pass_over_pid(struct child *child)
{
    struct clone_args args = {.flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_PIDFD,
                              .pidfd = UINT64_MAX}; /* nobody's memory: EFAULT */
    child->call = "clone3";
    long pid = syscall(SYS_clone3, &args, sizeof args);
    return pid < 0 && errno == EFAULT ? 0 : pid < 0 ? -errno : -ESRCH;
}

void child_describe_failure(const struct child *child, uint32_t step, int error, struct child_message *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->kind = CHILD_FAILED;
    ret->step = step;
    ret->error = -error;
    for (size_t i = 0; i < CHILD_CALL_MAX - 1 && child->call[i]; i++) {
        ret->call[i] = child->call[i];
    }
}

void child_report_failure(const struct child *child, uint32_t step, int error)
{
    struct child_message message;
    child_describe_failure(child, step, error, &message);
    child_send(child, &message, -1);
}

void child_answer(const struct child *child, uint64_t id, int error)
{
    struct seccomp_notif_resp response = {
        .id = id, .error = -error, .flags = error == 0 ? SECCOMP_USER_NOTIF_FLAG_CONTINUE : 0};
    int r;
    do {
        r = ioctl(child->listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
    } while (r < 0 && errno == EINTR);
    if (r < 0 && errno != ENOENT) {
        _exit(1); /* ENOENT: it died meanwhile; else it would wait for ever */
    }
}
