/* The keeper of shared workspaces: a process that does nothing but answer its parent, the warden.
 *
 *     warden ── {add, number} + mount ──► attaches the mount at /NUMBER of its own root
 *            ── {copy, number} ─────────► answers with a detached copy of /NUMBER/work
 *            ── {drop, number} ─────────► detaches it
 *
 * It is forked, never exec'd, and has a mount namespace whose root is an empty tmpfs: no path in it leads to
 * the host, and no jail is ever cloned from it. Linux before 6.15 copies no mount that is attached nowhere;
 * this is the way around that works on all. */
#include "jail/resources/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/helper.h"
#include "jail/base/io.h"
#include "jail/base/tmpfs.h"
#include "jail/plan/plan.h"
#include "jail/resources/scratch.h"

/* Its root holds mount points and nothing else. */
#define ROOT_BYTES  65536
#define ROOT_INODES 65536

#define PATH_BYTES 64

enum keeper_verb { KEEPER_READY, KEEPER_ADD, KEEPER_COPY, KEEPER_DROP };

struct keeper_request {
    enum keeper_verb verb;
    uint64_t number;
};

/* A copy comes along with its answer. */
struct keeper_answer {
    int32_t error; /* positive errno; 0: done */
};

struct keeper {
    struct helper helper;
};

/* ---- The process ---- */

/* The same way into a fresh root as a jail's: on top of the old one, pivot, detach the old one. */
static int enter_own_root(void)
{
    struct mount_attr private = {.propagation = MS_PRIVATE};
    const char *call;
    if (unshare(CLONE_NEWNS) < 0 ||
        mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &private, sizeof private) < 0) {
        return -errno;
    }
    CLEANUP(fd_closep)
    int root = tmpfs_new(ROOT_BYTES, ROOT_INODES, 0700, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, &call);
    if (root < 0) {
        return root;
    }
    if (move_mount(root, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0 || fchdir(root) < 0 ||
        syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0) {
        return -errno;
    }
    return 0;
}

static int add(const char *path, int mount_fd)
{
    if (mount_fd < 0) {
        return -EINVAL;
    }
    if (mkdir(path, 0700) < 0) {
        return -errno;
    }
    if (move_mount(mount_fd, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0) {
        int code = errno;
        rmdir(path);
        return -code;
    }
    return 0;
}

static int copy(const char *path, int *ret_fd)
{
    char work[PATH_BYTES + sizeof SCRATCH_WORK];
    snprintf(work, sizeof work, "%s/" SCRATCH_WORK, path);
    int fd = open_tree(AT_FDCWD, work, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
    *ret_fd = fd;
    return fd < 0 ? -errno : 0;
}

static int drop(const char *path)
{
    return umount2(path, MNT_DETACH) < 0 || rmdir(path) < 0 ? -errno : 0;
}

static int answer(int sock, int error, int fd)
{
    struct keeper_answer message = {.error = -error};
    size_t n_fds = error == 0 && fd >= 0 ? 1 : 0;
    int r = io_send_fds(sock, &message, sizeof message, &fd, n_fds);
    if (r < 0 && r != -EPIPE && n_fds > 0) {
        message.error = -r; /* too many descriptors on their way: not a reason to end */
        r = io_send_fds(sock, &message, sizeof message, NULL, 0);
    }
    return r;
}

/* One request; negative when the parent has gone. */
static int serve_one(int sock)
{
    struct keeper_request request;
    char path[PATH_BYTES];
    int given[1] = {-1};
    size_t n_fds = ARRAY_SIZE(given);
    ssize_t n = io_recv_fds(sock, &request, sizeof request, given, &n_fds);
    if (n != (ssize_t)sizeof request) {
        return -EPIPE;
    }
    CLEANUP(fd_closep) int mount_fd = n_fds > 0 ? given[0] : -1;
    CLEANUP(fd_closep) int made = -1;
    int r = -EINVAL;
    snprintf(path, sizeof path, "/%" PRIu64, request.number);
    if (request.verb == KEEPER_ADD) {
        r = add(path, mount_fd);
    } else if (request.verb == KEEPER_COPY) {
        r = copy(path, &made);
    } else if (request.verb == KEEPER_DROP) {
        r = drop(path);
    }
    return answer(sock, r, made);
}

static void keeper_main(int sock, void *arg)
{
    (void)arg;
    umask(0);
    int r = enter_own_root();
    int sent = answer(sock, r, -1);
    while (r == 0 && sent == 0) {
        sent = serve_one(sock);
    }
}

/* ---- The parent ---- */

/* -EPIPE: the keeper is gone, or it is not certain which request its next answer is to. -EMFILE: it has
 * answered, and there is no room for the descriptor here. */
static int receive(struct keeper *keeper, int *ret_fd)
{
    struct keeper_answer message;
    bool bare = false;
    int fds[1] = {-1};
    size_t n_fds = ARRAY_SIZE(fds);
    ssize_t n = io_recv_fds_or_bare(keeper->helper.sock, &message, sizeof message, fds, &n_fds, &bare);
    CLEANUP(fd_closep) int fd = n_fds > 0 ? fds[0] : -1;
    if (n != (ssize_t)sizeof message) {
        return -EPIPE;
    }
    if (bare) {
        return -EMFILE;
    }
    if (message.error == 0 && ret_fd) {
        *ret_fd = TAKE_FD(fd);
    }
    return -message.error;
}

static int ask(struct keeper *keeper, enum keeper_verb verb, uint64_t number, int mount_fd, int *ret_fd,
               struct err *reterr)
{
    static const char *const doing[] = {[KEEPER_READY] = "making the mount namespace of workspaces",
                                        [KEEPER_ADD] = "keeping a workspace",
                                        [KEEPER_COPY] = "sharing a workspace",
                                        [KEEPER_DROP] = "giving up a workspace"};
    struct keeper_request request;
    memset(&request, 0, sizeof request);
    request.verb = verb;
    request.number = number;
    int fd = -1;
    int r = verb == KEEPER_READY ? 0
                                 : io_send_fds(keeper->helper.sock, &request, sizeof request, &mount_fd,
                                               mount_fd >= 0 ? 1 : 0);
    r = r == -ECONNRESET ? -EPIPE : r;
    r = r < 0 ? r : receive(keeper, &fd);
    if (r == 0 && ret_fd && fd < 0) {
        r = -EPIPE;
    }
    if (r < 0) {
        fd_closep(&fd);
        err_set(reterr, ERR_SETUP, -r, NULL, "%s: %s", doing[verb], strerror(-r));
        return r;
    }
    if (ret_fd) {
        *ret_fd = TAKE_FD(fd);
    }
    fd_closep(&fd);
    return 0;
}

int keeper_new(struct keeper **ret, struct err *reterr)
{
    struct keeper *keeper = calloc(1, sizeof *keeper);
    if (!keeper) {
        return err_errno(reterr, ENOMEM, "starting the keeper of workspaces");
    }
    keeper->helper = HELPER_NONE;
    int r = helper_start("immure-keeper", keeper_main, NULL, &keeper->helper);
    r = r < 0 ? err_errno(reterr, -r, "starting the keeper of workspaces")
              : ask(keeper, KEEPER_READY, 0, -1, NULL, reterr);
    if (r < 0) {
        keeper_free(keeper);
        return r;
    }
    *ret = keeper;
    return 0;
}

void keeper_free(struct keeper *keeper)
{
    if (keeper) {
        helper_stop(&keeper->helper);
        free(keeper);
    }
}

int keeper_fd(const struct keeper *keeper)
{
    return keeper->helper.sock;
}

int keeper_add(struct keeper *keeper, uint64_t number, int mount_fd, struct err *reterr)
{
    return ask(keeper, KEEPER_ADD, number, mount_fd, NULL, reterr);
}

int keeper_copy(struct keeper *keeper, uint64_t number, int *ret_fd, struct err *reterr)
{
    return ask(keeper, KEEPER_COPY, number, -1, ret_fd, reterr);
}

int keeper_drop(struct keeper *keeper, uint64_t number, struct err *reterr)
{
    return ask(keeper, KEEPER_DROP, number, -1, NULL, reterr);
}
