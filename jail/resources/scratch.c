/* The scratch tmpfs, from the parent's side: made, filled and read through a descriptor of its root.
 *
 * The program owns everything below that root and may have replaced any name by anything, at any moment. So
 * nothing here follows a link or leaves the tree: openat2 with RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and
 * RESOLVE_NO_XDEV, never a path that starts anywhere else. */
#include "jail/resources/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/tmpfs.h"
#include "jail/plan/plan.h"

/* Room for the four directories, a script and the root itself, so that a policy's limit is the program's own.
 */
#define OWN_INODES 6
#define WORK_MODE  0755

static int open_beneath(int dirfd, const char *path, uint64_t flags, uint64_t mode)
{
    struct open_how how = {.flags = flags | O_CLOEXEC,
                           .mode = mode,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |
                                      RESOLVE_NO_XDEV};
    long fd = syscall(SYS_openat2, dirfd, path, &how, sizeof how);
    return fd < 0 ? -errno : (int)fd;
}

static int make_directory(int dirfd, const char *name, uint32_t mode, uint32_t uid, uint32_t gid)
{
    mode_t mask = umask(0); /* not the parent's business */
    int r = mkdirat(dirfd, name, mode) < 0 ? -errno : 0;
    umask(mask);
    if (r < 0) {
        return r;
    }
    return fchownat(dirfd, name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

int scratch_open(uint64_t size_bytes, uint64_t inodes, uint32_t uid, uint32_t gid, int *ret_fd,
                 struct err *reterr)
{
    const char *call;
    /* 0 is no limit to the kernel: it stays 0, which tmpfs_new() refuses. */
    uint64_t all_inodes = inodes == 0 || inodes > UINT64_MAX - OWN_INODES ? 0 : inodes + OWN_INODES;
    int fd = tmpfs_new(size_bytes, all_inodes, 0755, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, &call);
    if (fd < 0) {
        return err_set(reterr, ERR_SETUP, -fd, NULL, "making the scratch tmpfs: %s: %s%s", call,
                       strerror(-fd),
                       fd == -ENOSPC ? "; it needs more mount namespaces (user.max_mnt_namespaces)" : "");
    }
    CLEANUP(fd_closep) int scratch = fd;
    static const struct {
        const char *name;
        uint32_t mode;
    } directories[] = {
        {SCRATCH_WORK, WORK_MODE}, {SCRATCH_TMP, 01777}, {SCRATCH_SHM, 01777}, {SCRATCH_CODE, 0755}};
    int r = 0;
    for (size_t i = 0; i < ARRAY_SIZE(directories) && r == 0; i++) {
        r = make_directory(scratch, directories[i].name, directories[i].mode, uid, gid);
    }
    if (r < 0) {
        return err_set(reterr, ERR_SETUP, -r, NULL, "making the directories of the scratch tmpfs: %s",
                       strerror(-r));
    }
    *ret_fd = TAKE_FD(scratch);
    return 0;
}

int scratch_check_path(const char *path, struct err *reterr)
{
    if (!*path) {
        return err_set(reterr, ERR_INVALID, EINVAL, NULL, "a file name may not be empty");
    }
    if (*path == '/') {
        return err_set(reterr, ERR_INVALID, EINVAL, NULL, "a file name may not start with '/'");
    }
    if (strlen(path) > PATH_MAX - 256) {
        return err_set(reterr, ERR_INVALID, EINVAL, NULL, "a file name may have at most %d bytes",
                       PATH_MAX - 256);
    }
    for (const char *part = path;;) {
        size_t length = strcspn(part, "/");
        if (length == 0) {
            return err_set(reterr, ERR_INVALID, EINVAL, NULL, "a file name may not have an empty part");
        }
        if (length <= 2 && strspn(part, ".") >= length) {
            return err_set(reterr, ERR_INVALID, EINVAL, NULL, "a file name may not have a part '.' or '..'");
        }
        if (length > NAME_MAX) {
            return err_set(reterr, ERR_INVALID, EINVAL, NULL,
                           "a part of a file name may have at most %d bytes", NAME_MAX);
        }
        if (!part[length]) {
            return 0;
        }
        part += length + 1;
    }
}

static int fail_put(struct err *reterr, int code, const char *path)
{
    if (code == ENOSPC || code == EDQUOT) {
        return err_set(reterr, ERR_TOO_LARGE, code, path,
                       "the input files do not fit into the scratch limit");
    }
    if (code == EEXIST || code == ENOTDIR || code == EISDIR) {
        return err_set(reterr, ERR_INVALID, code, "files", "%s: a file and a directory have the same name",
                       path);
    }
    if (code == ELOOP || code == EXDEV) {
        return err_set(reterr, ERR_INVALID, code, "files", "%s: the name leads through a link", path);
    }
    return err_set(reterr, ERR_SETUP, code, path, "writing an input file: %s", strerror(code));
}

/* Opens the directory `part` of `parent`, made where it is missing. */
static int enter_directory(int parent, const char *part, uint32_t uid, uint32_t gid)
{
    int r = make_directory(parent, part, 0755, uid, gid);
    if (r < 0 && r != -EEXIST) {
        return r;
    }
    return open_beneath(parent, part, O_RDONLY | O_DIRECTORY, 0);
}

static int copy(int from, uint64_t offset, uint64_t size, int to)
{
    off_t at = (off_t)offset;
    while (size > 0) {
        ssize_t n = sendfile(to, from, &at, size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? -errno : -ENODATA;
        }
        size -= (uint64_t)n;
    }
    return 0;
}

/* Before 6.13 Linux dates a change by its last tick: one that follows soon has the same date, and would leave
 * no trace. So a file that is to be looked at for changes has a date that no tick gives it. */
static int date_apart(int file)
{
    struct stat st;
    if (fstat(file, &st) < 0) {
        return -errno;
    }
    struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, st.st_mtim};
    times[1].tv_nsec ^= 1;
    return futimens(file, times) < 0 ? -errno : 0;
}

/* Returns the file, or -errno. */
static int write_file(int directory, const char *name, int from, uint64_t offset, uint64_t size)
{
    CLEANUP(fd_closep)
    int file = open_beneath(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
    int r = file < 0 ? file : copy(from, offset, size, file);
    return r < 0 ? r : TAKE_FD(file);
}

static int hand_over(int file, uint32_t uid, uint32_t gid)
{
    return fchmod(file, 0644) < 0 || fchown(file, uid, gid) < 0 ? -errno : 0;
}

/* Opens the directory that `path` lies in and points `*ret_name` at its last part. Directories that are
 * missing are made for uid and gid; UINT32_MAX: none are made. */
static int enter_parents(int scratch_fd, const char *path, uint32_t uid, uint32_t gid, const char **ret_name)
{
    CLEANUP(fd_closep) int directory = open_beneath(scratch_fd, SCRATCH_WORK, O_RDONLY | O_DIRECTORY, 0);
    if (directory < 0) {
        return directory;
    }
    const char *part = path;
    for (const char *slash; (slash = strchr(part, '/')); part = slash + 1) {
        char name[NAME_MAX + 1] = "";
        memcpy(name, part, (size_t)(slash - part));
        int next = uid == UINT32_MAX ? open_beneath(directory, name, O_RDONLY | O_DIRECTORY, 0)
                                     : enter_directory(directory, name, uid, gid);
        if (next < 0) {
            return next;
        }
        close(directory);
        directory = next;
    }
    *ret_name = part;
    return TAKE_FD(directory);
}

int scratch_lock(int scratch_fd, bool wait)
{
    CLEANUP(fd_closep) int lock = open_beneath(scratch_fd, ".", O_RDONLY | O_DIRECTORY, 0);
    int r = lock;
    while (r >= 0 && flock(lock, LOCK_EX | (wait ? 0 : LOCK_NB)) < 0) {
        r = errno == EINTR ? lock : -errno;
    }
    return r < 0 ? r : TAKE_FD(lock);
}

int scratch_put(int scratch_fd, const char *path, int from, uint64_t offset, uint64_t size, uint32_t uid,
                uint32_t gid, struct err *reterr)
{
    int r = scratch_check_path(path, reterr);
    if (r < 0) {
        return r;
    }
    const char *name;
    CLEANUP(fd_closep) int directory = enter_parents(scratch_fd, path, uid, gid, &name);
    CLEANUP(fd_closep) int file = directory < 0 ? directory : write_file(directory, name, from, offset, size);
    r = file < 0 ? file : date_apart(file);
    r = r < 0 ? r : hand_over(file, uid, gid);
    return r < 0 ? fail_put(reterr, -r, path) : 0;
}

/* Beside the directories that programs see, so that none of them meets half a file. */
#define REPLACEMENT ".replacement"

int scratch_replace(int scratch_fd, const char *path, int from, uint32_t uid, uint32_t gid,
                    struct err *reterr)
{
    int r = scratch_check_path(path, reterr);
    if (r < 0) {
        return r;
    }
    struct stat st;
    const char *name;
    unlinkat(scratch_fd, REPLACEMENT, 0); /* of somebody who was killed */
    r = fstat(from, &st) < 0 ? -errno : 0;
    CLEANUP(fd_closep)
    int file = r < 0 ? r : write_file(scratch_fd, REPLACEMENT, from, 0, (uint64_t)st.st_size);
    r = file < 0 ? file : date_apart(file);
    r = r < 0 ? r : hand_over(file, uid, gid);
    CLEANUP(fd_closep) int directory = r < 0 ? r : enter_parents(scratch_fd, path, uid, gid, &name);
    r = directory;
    if (r >= 0) {
        r = renameat(scratch_fd, REPLACEMENT, directory, name) < 0 ? -errno : 0;
    }
    if (r < 0) {
        unlinkat(scratch_fd, REPLACEMENT, 0);
        fail_put(reterr, -r, path);
        if (reterr && reterr->kind == ERR_INVALID) {
            reterr->kind = ERR_CONFLICT;
        }
    }
    return r;
}

int scratch_remove(int scratch_fd, const char *path)
{
    const char *name = NULL;
    int r = scratch_check_path(path, NULL);
    if (r < 0) {
        return r;
    }
    CLEANUP(fd_closep) int directory = enter_parents(scratch_fd, path, UINT32_MAX, UINT32_MAX, &name);
    if (directory < 0) {
        return directory;
    }
    return unlinkat(directory, name, 0) < 0 ? -errno : 0;
}

int scratch_put_script(int scratch_fd, const char *name, int from, uint64_t size, uint32_t uid, uint32_t gid,
                       struct err *reterr)
{
    CLEANUP(fd_closep) int directory = open_beneath(scratch_fd, SCRATCH_CODE, O_RDONLY | O_DIRECTORY, 0);
    CLEANUP(fd_closep) int file = directory < 0 ? directory : write_file(directory, name, from, 0, size);
    int r = file < 0 ? file : hand_over(file, uid, gid);
    return r < 0 ? fail_put(reterr, -r, name) : 0;
}

int scratch_resize(int scratch_fd, uint64_t size_bytes, struct err *reterr)
{
    const char *call;
    int r = tmpfs_resize(scratch_fd, size_bytes, &call);
    return r < 0 ? err_set(reterr, ERR_SETUP, -r, NULL, "limiting the scratch tmpfs: %s: %s", call,
                           strerror(-r))
                 : 0;
}

int scratch_reset_mode(int scratch_fd)
{
    /* Its name cannot be replaced by a link: it is a mount of every job's, and what is above it no job's. */
    return fchmodat(scratch_fd, SCRATCH_WORK, WORK_MODE, 0) < 0 ? -errno : 0;
}

int scratch_usage(int scratch_fd, uint64_t *ret_bytes, uint64_t *ret_inodes)
{
    struct statfs st;
    if (fstatfs(scratch_fd, &st) < 0) {
        return -errno;
    }
    *ret_bytes = (uint64_t)(st.f_blocks - st.f_bfree) * (uint64_t)st.f_bsize;
    *ret_inodes = (uint64_t)(st.f_files - st.f_ffree);
    return 0;
}

struct walk {
    struct scratch_list *list;
    size_t max_files, entries_left, cap;
    char path[PATH_MAX];
};

static int add_file(struct walk *walk, const struct stat *st)
{
    struct scratch_list *list = walk->list;
    if (list->n_files == walk->max_files) {
        list->truncated = true;
        return 0;
    }
    if (list->n_files == walk->cap) {
        size_t cap = walk->cap ? 2 * walk->cap : 16;
        struct scratch_file *files = realloc(list->files, cap * sizeof *files);
        if (!files) {
            return -ENOMEM;
        }
        list->files = files;
        walk->cap = cap;
    }
    char *path = strdup(walk->path);
    if (!path) {
        return -ENOMEM;
    }
    list->files[list->n_files++] = (struct scratch_file){.path = path,
                                                         .size_bytes = (uint64_t)st->st_size,
                                                         .mtime = st->st_mtim,
                                                         .ctime = st->st_ctim,
                                                         .inode = st->st_ino};
    return 0;
}

static int walk_directory(struct walk *walk, int dirfd, size_t length, unsigned depth);

bool scratch_error_is_ours(int r)
{
    return r == -EMFILE || r == -ENFILE || r == -ENOMEM || r == -EINTR || r == -EPERM || r == -EIO;
}

/* One entry whose name has just been put behind `length` bytes of walk->path. Vanished or unreadable ones are
 * nobody's. */
static int walk_entry(struct walk *walk, int dirfd, const char *name, size_t length, unsigned depth)
{
    struct stat st;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return scratch_error_is_ours(-errno) ? -errno : 0;
    }
    if (S_ISREG(st.st_mode)) {
        return add_file(walk, &st);
    }
    if (!S_ISDIR(st.st_mode)) {
        return 0;
    }
    if (depth == SCRATCH_DEPTH_MAX) {
        walk->list->truncated = true;
        return 0;
    }
    int sub = open_beneath(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (sub < 0) {
        return scratch_error_is_ours(sub) ? sub : 0;
    }
    return walk_directory(walk, sub, length, depth + 1);
}

/* Takes `dirfd` over. */
static int walk_directory(struct walk *walk, int dirfd, size_t length, unsigned depth)
{
    CLEANUP(dir_closep) DIR *dir = fdopendir(dirfd);
    if (!dir) {
        close(dirfd);
        return -errno;
    }
    int r = 0;
    struct dirent *entry = NULL;
    while (r == 0 && !walk->list->truncated && (errno = 0, entry = readdir(dir))) {
        size_t name_length = strlen(entry->d_name);
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (walk->entries_left-- == 0) {
            walk->entries_left = 0;
            walk->list->truncated = true;
            break;
        }
        size_t start = length > 0 ? length + 1 : 0;
        if (start + name_length + 1 > sizeof walk->path) {
            walk->list->truncated = true;
            break;
        }
        if (length > 0) {
            walk->path[length] = '/';
        }
        memcpy(walk->path + start, entry->d_name, name_length + 1);
        r = walk_entry(walk, dirfd, entry->d_name, start + name_length, depth);
    }
    return r == 0 && !walk->list->truncated && !entry ? -errno : r;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct scratch_file *)a)->path, ((const struct scratch_file *)b)->path);
}

int scratch_list(int scratch_fd, size_t max_files, size_t max_entries, struct scratch_list *ret,
                 struct err *reterr)
{
    *ret = (struct scratch_list){0};
    int work = open_beneath(scratch_fd, SCRATCH_WORK, O_RDONLY | O_DIRECTORY, 0);
    struct walk walk = {.list = ret, .max_files = max_files, .entries_left = max_entries};
    /* No program can remove it: it went with its session, which was ended while the job ran. */
    int r = work == -ENOENT ? 0 : work < 0 ? work : walk_directory(&walk, work, 0, 0);
    if (r < 0) {
        scratch_list_free(ret);
        return err_errno(reterr, -r, "listing output files");
    }
    if (ret->n_files > 0) {
        qsort(ret->files, ret->n_files, sizeof *ret->files, by_path);
    }
    return 0;
}

void scratch_list_free(struct scratch_list *list)
{
    for (size_t i = 0; i < list->n_files; i++) {
        free(list->files[i].path);
    }
    free(list->files);
    *list = (struct scratch_list){0};
}

int scratch_open_file(int scratch_fd, const char *path, int *ret_fd, uint64_t *ret_size)
{
    CLEANUP(fd_closep) int work = open_beneath(scratch_fd, SCRATCH_WORK, O_RDONLY | O_DIRECTORY, 0);
    if (work < 0) {
        return work;
    }
    /* O_NONBLOCK: a FIFO must not hold us up before its kind is known. */
    CLEANUP(fd_closep) int fd = open_beneath(work, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0) {
        return fd;
    }
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return -errno;
    }
    if (!S_ISREG(st.st_mode)) {
        return -EINVAL;
    }
    *ret_size = (uint64_t)st.st_size;
    *ret_fd = TAKE_FD(fd);
    return 0;
}
