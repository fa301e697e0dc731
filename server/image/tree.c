/* The files of an image. Runs in `immure image`, with the operator's rights, over trees that somebody else
 * made: a root directory as it is copied, and what was unpacked from an archive, once nothing that unpacked
 * it runs any more.
 *
 * What must hold: nothing is followed, nothing but directories and regular files is opened, no other mount is
 * entered, and what comes out has no device, no set-user-ID bit and no file or directory that some job
 * could not read. A copy has no attributes, and the jail that unpacks cannot set any. Links stay as they are:
 * they are only ever looked up in a jail, whose root this is. */
#include "server/image/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/resources/tree.h"

#define DIRECTORY_MODE 0755u
#define PROGRAM_MODE   0755u
#define FILE_MODE      0644u
#define COPY_CHUNK     (64u << 20)

/* One tree, or two of the same shape, on the way through. */
struct walk {
    const struct image_limits *limits;
    struct image_counts *counts;
    uid_t uid;
    gid_t gid;
    bool lenient; /* modes of directories alone, and whatever fails is passed over */
    struct err *reterr;
};

typedef int (*visit_fn)(struct walk *walk, int from, int to, const char *name, const struct stat *st,
                        unsigned depth);

static int open_in(int dirfd, const char *name, uint64_t flags)
{
    struct open_how how = {.flags = flags | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |
                                      RESOLVE_NO_XDEV};
    long fd = syscall(SYS_openat2, dirfd, name, &how, sizeof how);
    return fd < 0 ? -errno : (int)fd;
}

/* A name may hold anything, and so may a terminal obey it. */
static int fail(const struct walk *walk, int r, const char *name)
{
    char plain[201];
    snprintf(plain, sizeof plain, "%s", name);
    for (char *at = plain; *at; at++) {
        *at = *at < ' ' || *at > '~' ? '?' : *at;
    }
    return walk->lenient ? 0 : err_set(walk->reterr, ERR_INTERNAL, -r, NULL, "%s: %s", plain, strerror(-r));
}

static int count(const struct walk *walk, uint64_t bytes)
{
    struct image_counts *counts = walk->counts;
    if (walk->lenient) {
        return 0;
    }
    counts->files++;
    counts->bytes += bytes;
    if (counts->bytes > walk->limits->bytes) {
        return err_set(walk->reterr, ERR_TOO_LARGE, EFBIG, NULL,
                       "it has more than %" PRIu64 " bytes (--max-bytes)", walk->limits->bytes);
    }
    if (counts->files > walk->limits->files) {
        return err_set(walk->reterr, ERR_TOO_LARGE, EFBIG, NULL,
                       "it has more than %" PRIu64 " files (--max-files)", walk->limits->files);
    }
    return 0;
}

/* Each name but `.` and `..`. */
static int for_each(struct walk *walk, visit_fn visit, int from, int to, unsigned depth)
{
    CLEANUP(fd_closep) int fd = open_in(from, ".", O_RDONLY | O_DIRECTORY);
    CLEANUP(dir_closep) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        return fail(walk, fd < 0 ? fd : -errno, "a directory");
    }
    TAKE_FD(fd);
    int r = 0;
    while (r == 0) {
        struct stat st;
        errno = 0; /* the end of a directory and one that cannot be read further look alike otherwise */
        const struct dirent *entry = readdir(dir);
        if (!entry) {
            return errno ? fail(walk, -errno, "a directory") : 0;
        }
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
            continue;
        }
        r = fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? fail(walk, -errno, name)
                                                              : visit(walk, from, to, name, &st, depth);
    }
    return r;
}

/* Goes down one level. */
static int enter(struct walk *walk, visit_fn visit, int from, int to, const char *name, unsigned depth)
{
    if (depth == TREE_DEPTH_MAX) {
        return walk->lenient ? 0
                             : err_set(walk->reterr, ERR_TOO_LARGE, ELOOP, NULL,
                                       "its directories are more than %d levels deep", TREE_DEPTH_MAX);
    }
    CLEANUP(fd_closep) int inner = open_in(from, name, O_RDONLY | O_DIRECTORY);
    if (inner == -EXDEV) {
        return 0; /* something is mounted there: it is not part of this */
    }
    CLEANUP(fd_closep) int other = to < 0 || inner < 0 ? -1 : open_in(to, name, O_RDONLY | O_DIRECTORY);
    if (inner < 0 || (to >= 0 && other < 0)) {
        return fail(walk, inner < 0 ? inner : other, name);
    }
    return for_each(walk, visit, inner, other, depth + 1);
}

/* ---- Copying ---- */

static int copy_content(const struct walk *walk, int from, int to, const char *name, uint64_t size)
{
    while (size > 0) {
        size_t chunk = size < COPY_CHUNK ? (size_t)size : COPY_CHUNK;
        ssize_t n = copy_file_range(from, NULL, to, NULL, chunk, 0);
        if (n < 0 && errno != EINTR) {
            n = sendfile(to, from, NULL, chunk); /* not between all file systems, nor from a pipe-like one */
        }
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return fail(walk, n < 0 ? -errno : -EIO, name);
        }
        size -= (uint64_t)n;
    }
    return 0;
}

static int copy_opened(const struct walk *walk, int from, int to_directory, const char *name)
{
    struct stat st;
    if (fstat(from, &st) < 0 || !S_ISREG(st.st_mode)) {
        return fail(walk, -EINVAL, name);
    }
    int r = count(walk, (uint64_t)st.st_size);
    if (r < 0) {
        return r;
    }
    uint32_t mode = st.st_mode & 0111 ? PROGRAM_MODE : FILE_MODE;
    CLEANUP(fd_closep)
    int to = openat(to_directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (to < 0 || fchmod(to, mode) < 0) {
        return fail(walk, -errno, name);
    }
    walk->counts->set_ids += (st.st_mode & (S_ISUID | S_ISGID)) != 0;
    return copy_content(walk, from, to, name, (uint64_t)st.st_size);
}

static int copy_link(const struct walk *walk, int from, int to, const char *name)
{
    char target[PATH_MAX];
    ssize_t len = readlinkat(from, name, target, sizeof target - 1);
    if (len < 0) {
        return fail(walk, -errno, name);
    }
    target[len] = '\0';
    int r = count(walk, 0);
    return r < 0 ? r : symlinkat(target, to, name) < 0 ? fail(walk, -errno, name) : 0;
}

static int copy_one(struct walk *walk, int from, int to, const char *name, const struct stat *st,
                    unsigned depth)
{
    if (S_ISDIR(st->st_mode)) {
        int r = count(walk, 0);
        if (r == 0 && (mkdirat(to, name, DIRECTORY_MODE) < 0 || fchmodat(to, name, DIRECTORY_MODE, 0) < 0)) {
            r = fail(walk, -errno, name);
        }
        return r < 0 ? r : enter(walk, copy_one, from, to, name, depth);
    }
    if (S_ISLNK(st->st_mode)) {
        return copy_link(walk, from, to, name);
    }
    if (!S_ISREG(st->st_mode)) {
        walk->counts->dropped++;
        return 0;
    }
    CLEANUP(fd_closep) int file = open_in(from, name, O_RDONLY | O_NONBLOCK);
    if (file == -EXDEV) {
        return 0;
    }
    return file < 0 ? fail(walk, file, name) : copy_opened(walk, file, to, name);
}

int image_tree_copy(int from, int to, const struct image_limits *limits, struct image_counts *counts,
                    struct err *reterr)
{
    struct walk walk = {.limits = limits, .counts = counts, .reterr = reterr};
    return for_each(&walk, copy_one, from, to, 0);
}

int image_tree_copy_file(int from, int to_directory, const char *name, const struct image_limits *limits,
                         struct image_counts *counts, struct err *reterr)
{
    struct walk walk = {.limits = limits, .counts = counts, .reterr = reterr};
    return copy_opened(&walk, from, to_directory, name);
}

/* ---- Settling ---- */

static int settle_one(struct walk *walk, int from, int to, const char *name, const struct stat *st,
                      unsigned depth)
{
    (void)to;
    bool directory = S_ISDIR(st->st_mode), regular = S_ISREG(st->st_mode);
    if (!directory && !regular && !S_ISLNK(st->st_mode)) {
        walk->counts->dropped++;
        return unlinkat(from, name, 0) < 0 ? fail(walk, -errno, name) : 0;
    }
    int r = count(walk, regular ? (uint64_t)st->st_size : 0);
    if (r < 0) {
        return r;
    }
    if ((st->st_uid != walk->uid || st->st_gid != walk->gid) &&
        fchownat(from, name, walk->uid, walk->gid, AT_SYMLINK_NOFOLLOW) < 0) {
        return fail(walk, -errno, name);
    }
    uint32_t mode = directory || (st->st_mode & 0111) ? PROGRAM_MODE : FILE_MODE;
    if ((directory || regular) && (st->st_mode & 07777) != mode &&
        fchmodat(from, name, mode, AT_SYMLINK_NOFOLLOW) < 0) {
        return fail(walk, -errno, name);
    }
    walk->counts->set_ids += regular && (st->st_mode & (S_ISUID | S_ISGID)) != 0;
    return directory ? enter(walk, settle_one, from, -1, name, depth) : 0;
}

int image_tree_settle(int dirfd, uid_t uid, gid_t gid, const struct image_limits *limits,
                      struct image_counts *ret, struct err *reterr)
{
    struct walk walk = {.limits = limits, .counts = ret, .uid = uid, .gid = gid, .reterr = reterr};
    *ret = (struct image_counts){0};
    if (fchown(dirfd, uid, gid) < 0 || fchmod(dirfd, DIRECTORY_MODE) < 0) {
        return err_errno(reterr, errno, "settling an image's files");
    }
    return for_each(&walk, settle_one, dirfd, -1, 0);
}

static int open_up_one(struct walk *walk, int from, int to, const char *name, const struct stat *st,
                       unsigned depth)
{
    (void)to;
    if (S_ISDIR(st->st_mode) &&
        ((st->st_mode & 0700) == 0700 || fchmodat(from, name, 0700, AT_SYMLINK_NOFOLLOW) == 0)) {
        enter(walk, open_up_one, from, -1, name, depth);
    }
    return 0;
}

void image_tree_open_up(int dirfd)
{
    struct walk walk = {.lenient = true};
    for_each(&walk, open_up_one, dirfd, -1, 0);
}
