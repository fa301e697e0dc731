/* The copy of a workspace. Runs in the process for files of sessions.
 *
 * What is copied unread programs have made, and an interpreter of the session may still be changing it: any
 * name may become anything at any moment. So no link is followed, nothing leaves the tree, no FIFO is waited
 * for, and number, bytes, depth and time have bounds. The copy is ours alone until it is done. */
#include "server/sessions/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <search.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/plan/plan.h"
#include "jail/resources/scratch.h"
#include "jail/resources/tree.h"

#define MODE_BITS   01777u /* no program gets somebody's rights by one */
#define CHUNK_BYTES (UINT64_C(4) << 20)
#define NO_PATH     SIZE_MAX

/* The first name of a file that has several. */
struct first_name {
    ino_t inode;
    char path[];
};

struct copying {
    const struct copy_order *order;
    struct copy_counts counts;
    uint64_t bytes, entries; /* so far */
    uint64_t deadline_ns;
    bool no_clones;      /* the file system shares no blocks between files */
    int top;             /* of the copy */
    void *firsts;        /* search.h */
    struct err *err;     /* of a bound; other failures are numbers */
    char path[PATH_MAX]; /* below `top`, where it fits */
};

static int open_beneath(int dirfd, const char *name, uint64_t flags)
{
    struct open_how how = {.flags = flags | O_NOFOLLOW | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |
                                      RESOLVE_NO_XDEV};
    long fd = syscall(SYS_openat2, dirfd, name, &how, sizeof how);
    return fd < 0 ? -errno : (int)fd;
}

static int check_time(const struct copying *copying)
{
    return clock_now_ns() < copying->deadline_ns
               ? 0
               : err_set(copying->err, ERR_BUSY, ETIMEDOUT, NULL,
                         "copying the workspace took longer than %" PRIu64 " s",
                         (uint64_t)(COPY_TIMEOUT_NS / NS_PER_S));
}

static int charge(struct copying *copying, uint64_t bytes)
{
    copying->bytes += bytes;
    return copying->bytes <= copying->order->bytes
               ? check_time(copying)
               : err_set(copying->err, ERR_TOO_LARGE, EDQUOT, NULL,
                         "the copy does not fit into a session's workspace of %" PRIu64 " bytes",
                         copying->order->bytes);
}

static int charge_entry(struct copying *copying)
{
    return ++copying->entries <= copying->order->entries
               ? check_time(copying)
               : err_set(copying->err, ERR_TOO_LARGE, EDQUOT, NULL,
                         "the copy would hold more than %" PRIu64 " files and directories",
                         copying->order->entries);
}

/* What has gone since its name was read, become something else, or moved to where it is met again, is
 * nobody's. */
static bool is_gone(int r)
{
    return r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EXDEV || r == -ENXIO || r == -EEXIST;
}

/* ---- One file ---- */

static int copy_extent(struct copying *copying, int from, int to, off_t at, off_t end)
{
    if (lseek(to, at, SEEK_SET) < 0) {
        return -errno;
    }
    while (at < end) {
        uint64_t left = (uint64_t)(end - at);
        ssize_t n = sendfile(to, from, &at, left < CHUNK_BYTES ? left : CHUNK_BYTES);
        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        if (n == 0) {
            return 0; /* it has been cut meanwhile */
        }
        int r = charge(copying, n > 0 ? (uint64_t)n : 0);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* What is not written to has no storage. */
static int copy_data(struct copying *copying, int from, int to, off_t size)
{
    off_t at = 0;
    int r = ftruncate(to, size) < 0 ? -errno : 0;
    while (r == 0 && at < size) {
        off_t data = lseek(from, at, SEEK_DATA);
        if (data < 0 || data >= size) {
            return data >= 0 || errno == ENXIO ? 0 : -errno;
        }
        off_t hole = lseek(from, data, SEEK_HOLE);
        if (hole < 0) {
            return errno == ENXIO ? 0 : -errno;
        }
        at = hole < size ? hole : size;
        r = copy_extent(copying, from, to, data, at);
    }
    return r;
}

static int clone_or_copy(struct copying *copying, int from, int to, const struct stat *st)
{
    if (!copying->no_clones && st->st_size > 0) {
        if (ioctl(to, FICLONE, from) == 0) {
            return charge(copying, (uint64_t)st->st_blocks * 512);
        }
        copying->no_clones = true;
    }
    return copy_data(copying, from, to, st->st_size);
}

static int hand_over(const struct copying *copying, int fd, const struct stat *st)
{
    const struct timespec times[] = {st->st_atim, st->st_mtim};
    /* The mode after the owner, whose change may take bits away. */
    return fchown(fd, copying->order->uid, copying->order->gid) < 0 ||
                   fchmod(fd, st->st_mode & MODE_BITS) < 0 || futimens(fd, times) < 0
               ? -errno
               : 0;
}

static int by_inode(const void *a, const void *b)
{
    ino_t one = ((const struct first_name *)a)->inode, other = ((const struct first_name *)b)->inode;
    return one < other ? -1 : one > other;
}

/* 1: the file has been copied under another name, and has this one too now. */
static int link_to_first(struct copying *copying, const struct stat *st, int to, const char *name,
                         size_t length)
{
    if (st->st_nlink < 2 || length == NO_PATH) {
        return 0;
    }
    struct first_name *first = malloc(sizeof *first + length + 1);
    if (!first) {
        return -ENOMEM;
    }
    first->inode = st->st_ino;
    memcpy(first->path, copying->path, length + 1);
    struct first_name **found = tsearch(first, &copying->firsts, by_inode);
    if (found && *found == first) {
        return 0;
    }
    free(first);
    if (!found) {
        return -ENOMEM;
    }
    return linkat(copying->top, (*found)->path, to, name, 0) < 0 ? -errno : 1;
}

static int copy_file(struct copying *copying, int from_dir, int to_dir, const char *name, size_t length)
{
    struct stat st;
    CLEANUP(fd_closep) int from = open_beneath(from_dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (from < 0) {
        return from;
    }
    if (fstat(from, &st) < 0) {
        return -errno;
    }
    if (!S_ISREG(st.st_mode)) {
        return -ENOENT;
    }
    copying->counts.files++;
    int r = link_to_first(copying, &st, to_dir, name, length);
    if (r != 0) {
        return r < 0 ? r : 0;
    }
    CLEANUP(fd_closep)
    int to = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    r = to < 0 ? -errno : clone_or_copy(copying, from, to, &st);
    return r < 0 ? r : hand_over(copying, to, &st);
}

static int copy_link(const struct copying *copying, int from_dir, int to_dir, const char *name)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(from_dir, name, target, sizeof target - 1);
    if (n < 0) {
        return errno == EINVAL ? -ENOENT : -errno;
    }
    target[n] = '\0';
    return symlinkat(target, to_dir, name) < 0 ||
                   fchownat(to_dir, name, copying->order->uid, copying->order->gid, AT_SYMLINK_NOFOLLOW) < 0
               ? -errno
               : 0;
}

/* ---- All of them ---- */

static int copy_names(struct copying *copying, int from, int to, size_t length, unsigned depth);

static int copy_directory(struct copying *copying, int from_dir, int to_dir, const char *name, size_t length,
                          unsigned depth)
{
    struct stat st;
    int from = open_beneath(from_dir, name, O_RDONLY | O_DIRECTORY);
    if (from < 0) {
        return from;
    }
    int r = depth < TREE_DEPTH_MAX
                ? 0
                : err_set(copying->err, ERR_TOO_LARGE, ELOOP, NULL,
                          "the workspace has directories more than %d deep", TREE_DEPTH_MAX);
    if (r == 0 && (fstat(from, &st) < 0 || mkdirat(to_dir, name, 0700) < 0)) {
        r = -errno;
    }
    CLEANUP(fd_closep) int to = r < 0 ? -1 : open_beneath(to_dir, name, O_RDONLY | O_DIRECTORY);
    if (r < 0 || to < 0) {
        close(from);
        return r < 0 ? r : to;
    }
    r = copy_names(copying, from, to, length, depth + 1);
    return r < 0 ? r : hand_over(copying, to, &st);
}

static int copy_name(struct copying *copying, int from, int to, const char *name, size_t length,
                     unsigned depth)
{
    struct stat st;
    int r = charge_entry(copying);
    if (r < 0) {
        return r;
    }
    r = fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
    if (r == 0 && S_ISREG(st.st_mode)) {
        r = copy_file(copying, from, to, name, length);
    } else if (r == 0 && S_ISDIR(st.st_mode)) {
        r = copy_directory(copying, from, to, name, length, depth);
    } else if (r == 0 && S_ISLNK(st.st_mode)) {
        r = copy_link(copying, from, to, name);
    } else if (r == 0) {
        copying->counts.left_out++;
    }
    return is_gone(r) && !err_is_set(copying->err) ? 0 : r;
}

/* Puts the name behind `length` bytes of the path. Returns how long that is, or NO_PATH. */
static size_t extend_path(struct copying *copying, size_t length, const char *name)
{
    size_t start = length > 0 && length != NO_PATH ? length + 1 : 0, size = strlen(name);
    if (length == NO_PATH || start + size >= sizeof copying->path) {
        return NO_PATH;
    }
    if (start > 0) {
        copying->path[length] = '/';
    }
    memcpy(copying->path + start, name, size + 1);
    return start + size;
}

/* Takes `from` over. */
static int copy_names(struct copying *copying, int from, int to, size_t length, unsigned depth)
{
    CLEANUP(dir_closep) DIR *dir = fdopendir(from);
    if (!dir) {
        int code = errno;
        close(from);
        return -code;
    }
    int r = 0;
    const struct dirent *entry = NULL;
    while (r == 0 && (errno = 0, entry = readdir(dir))) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
            r = copy_name(copying, from, to, name, extend_path(copying, length, name), depth);
        }
    }
    return r == 0 && !entry ? -errno : r;
}

static int explain(const struct copying *copying, int r, struct err *reterr)
{
    if (r == -ENOSPC || r == -EDQUOT || r == -EFBIG) {
        return err_set(reterr, ERR_TOO_LARGE, -r, NULL,
                       "the copy does not fit into a session's workspace of %" PRIu64 " bytes",
                       copying->order->bytes);
    }
    if (r == -EACCES) { /* an ordinary user's server is held by the modes that its programs set */
        return err_set(
            reterr, ERR_CONFLICT, -r, NULL,
            "the workspace has files or directories that their owner may not read; change their modes");
    }
    return err_errno(reterr, -r, "copying a workspace"); /* the first cause wins */
}

int workspace_copy(int from, int to, const struct copy_order *order, struct copy_counts *ret,
                   struct err *reterr)
{
    struct err err = {0};
    struct copying copying = {
        .order = order, .deadline_ns = clock_now_ns() + COPY_TIMEOUT_NS, .err = reterr ? reterr : &err};
    CLEANUP(fd_closep) int top = open_beneath(to, SCRATCH_WORK, O_RDONLY | O_DIRECTORY);
    int work = open_beneath(from, SCRATCH_WORK, O_RDONLY | O_DIRECTORY);
    copying.top = top;
    int r = top < 0 ? top : work;
    if (r < 0) {
        fd_closep(&work);
    } else {
        r = copy_names(&copying, work, top, 0, 0);
    }
    tdestroy(copying.firsts, free);
    if (r < 0) {
        return explain(&copying, r, reterr);
    }
    *ret = copying.counts;
    return 0;
}
