/* A directory of the host for jails. Runs in the parent.
 *
 * With privileges, programs of a session run under an outer uid that is the session's for a while, and
 * somebody else's later. On disk their files must not belong to it: an id-mapped mount has them belong to one
 * unprivileged owner there. The kernel takes the mapping from a user namespace, so one is made for it, by a
 * process that lives until the mount has it. */
#include "jail/resources/hostdir.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"

static int write_map(pid_t pid, const char *file, uint32_t inside, uint32_t outside)
{
    char path[64], map[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    snprintf(map, sizeof map, "%u %u 1", inside, outside);
    return io_write_file_at(AT_FDCWD, path, map);
}

static int open_namespace(pid_t pid, const struct hostdir_ids *ids)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
    int r = write_map(pid, "uid_map", ids->disk_uid, ids->uid);
    r = r < 0 ? r : write_map(pid, "gid_map", ids->disk_gid, ids->gid);
    if (r < 0) {
        return r;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* The process: it is there until nobody holds the other end of its pipe. That end must not be its own. */
static void hold_namespace(int pipe_end) __attribute__((noreturn));
static void hold_namespace(int pipe_end)
{
    char nothing;
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (dup2(pipe_end, STDIN_FILENO) >= 0 && close_range(STDIN_FILENO + 1, UINT32_MAX, 0) == 0) {
        while (read(STDIN_FILENO, &nothing, 1) < 0 && errno == EINTR) {
        }
    }
    _exit(EXIT_SUCCESS);
}

/* A user namespace that maps ids as wanted, or -errno. */
static int namespace_for(const struct hostdir_ids *ids)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return -errno;
    }
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        hold_namespace(ends[0]);
    }
    int r = pid < 0 ? -errno : open_namespace(pid, ids);
    /* It ends by this, not by a signal: one that could not be sent would be waited for for ever. */
    close(ends[0]);
    close(ends[1]);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
    return r;
}

static int map_ids(int mount, const struct hostdir_ids *ids, unsigned recursive, struct err *reterr)
{
    CLEANUP(fd_closep) int userns = namespace_for(ids);
    if (userns < 0) {
        return err_errno(reterr, -userns, "making a user namespace for a directory's owners");
    }
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (unsigned)userns};
    if (mount_setattr(mount, "", AT_EMPTY_PATH | recursive, &attr, sizeof attr) < 0) {
        int code = errno;
        return err_set(reterr, ERR_HOST, code, NULL,
                       "id-mapped mounts do not work on its file system here (%s)", strerror(code));
    }
    return 0;
}

int hostdir_mount(int dirfd, const struct hostdir_ids *ids, bool recursive, int *ret_fd, struct err *reterr)
{
    unsigned below = recursive ? AT_RECURSIVE : 0;
    CLEANUP(fd_closep)
    int mount = open_tree(dirfd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | below);
    if (mount < 0) {
        int code = errno;
        return err_set(reterr, ERR_HOST, code, NULL, "it cannot be made a mount of its own (%s)",
                       strerror(code));
    }
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, .propagation = MS_PRIVATE};
    if (mount_setattr(mount, "", AT_EMPTY_PATH | below, &attr, sizeof attr) < 0) {
        return err_errno(reterr, errno, "restricting the mount of a directory");
    }
    int r = ids ? map_ids(mount, ids, below, reterr) : 0;
    if (r == 0) {
        *ret_fd = TAKE_FD(mount);
    }
    return r;
}
