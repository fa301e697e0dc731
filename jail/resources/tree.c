/* A tree that unread programs have made, on the host's own file system. Runs in the housekeeper.
 *
 * Any name may be anything, replaced at any moment, in any number and to any depth. So nothing here follows a
 * link or leaves the tree, nothing is opened but directories, counting stops at a limit, and removing needs
 * no more memory or descriptors for a tree of a million levels than for one. */
#include "jail/resources/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail/base/cleanup.h"

#define STAT_BLOCK_BYTES 512u

static int open_directory(int dirfd, const char *name)
{
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |
                                      RESOLVE_NO_XDEV};
    long fd = syscall(SYS_openat2, dirfd, name, &how, sizeof how);
    return fd < 0 ? -errno : (int)fd;
}

/* The next name but `.` and `..`; NULL at the end, or with errno set. */
static const char *next_name(DIR *dir)
{
    const struct dirent *entry;
    do {
        errno = 0;
        entry = readdir(dir);
    } while (entry && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
    return entry ? entry->d_name : NULL;
}

/* What has gone since its name was read is nobody's. */
static bool is_gone(int code)
{
    return code == ENOENT || code == ENOTDIR || code == ELOOP || code == EXDEV;
}

/* ---- Counting ---- */

struct count {
    const struct tree_limits *limits;
    struct tree_usage usage;
};

static void add(struct count *count, const struct stat *st)
{
    struct tree_usage *usage = &count->usage;
    /* Every name of a file lies in the tree: a mount is as far as link(2) goes. */
    uint64_t names = S_ISDIR(st->st_mode) || st->st_nlink == 0 ? 1 : (uint64_t)st->st_nlink;
    usage->files++;
    usage->bytes += (uint64_t)st->st_blocks * STAT_BLOCK_BYTES / names;
    usage->over = usage->over || usage->files > count->limits->files || usage->bytes > count->limits->bytes;
}

/* Takes `dirfd` over. */
static int count_directory(struct count *count, int dirfd, unsigned depth)
{
    CLEANUP(dir_closep) DIR *dir = fdopendir(dirfd);
    if (!dir) {
        int code = errno;
        close(dirfd);
        return -code;
    }
    int r = 0;
    const char *name;
    while (r == 0 && !count->usage.over && (name = next_name(dir))) {
        struct stat st;
        if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            r = is_gone(errno) ? 0 : -errno;
            continue;
        }
        add(count, &st);
        if (!S_ISDIR(st.st_mode)) {
            continue;
        }
        if (depth == TREE_DEPTH_MAX) {
            count->usage.over = true;
            continue;
        }
        int sub = open_directory(dirfd, name);
        if (sub >= 0) {
            r = count_directory(count, sub, depth + 1);
        } else {
            r = is_gone(-sub) ? 0 : sub;
        }
    }
    return r == 0 && !count->usage.over ? -errno : r;
}

int tree_measure(int dirfd, const struct tree_limits *limits, struct tree_usage *ret)
{
    struct count count = {.limits = limits};
    int top = open_directory(dirfd, ".");
    int r = top < 0 ? top : count_directory(&count, top, 0);
    if (r == 0) {
        *ret = count.usage;
    }
    return r;
}

/* ---- Removing ---- */

struct clearing {
    int top;
    unsigned number; /* of the last name given */
    bool progress;   /* there is one name less, or one level */
};

/* Gives a directory that is not empty a name of its own at the top, where its turn comes. */
static int move_up(struct clearing *clearing, int from, const char *name)
{
    char fresh[32];
    int r;
    do {
        snprintf(fresh, sizeof fresh, "moved-%u", ++clearing->number);
        r = renameat2(from, name, clearing->top, fresh, RENAME_NOREPLACE) < 0 ? -errno : 0;
    } while (r == -EEXIST);
    return r;
}

static int remove_name(struct clearing *clearing, int dirfd, const char *name)
{
    int r = unlinkat(dirfd, name, 0) < 0 ? -errno : 0;
    if (r == -EISDIR) {
        r = unlinkat(dirfd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
    }
    clearing->progress = clearing->progress || r == 0;
    return r == -ENOENT ? 0 : r;
}

static bool is_not_empty(int r)
{
    return r == -ENOTEMPTY || r == -EEXIST;
}

/* Empties the directory `name` of the top, and removes it. */
static int flatten(struct clearing *clearing, const char *name)
{
    int sub = open_directory(clearing->top, name);
    if (sub < 0) {
        return sub;
    }
    CLEANUP(dir_closep) DIR *dir = fdopendir(sub);
    if (!dir) {
        int code = errno;
        close(sub);
        return -code;
    }
    int first = 0;
    const char *inner;
    while ((inner = next_name(dir))) {
        int r = remove_name(clearing, sub, inner);
        if (is_not_empty(r)) {
            r = move_up(clearing, sub, inner);
            clearing->progress = clearing->progress || r == 0;
        }
        first = first < 0 ? first : r;
    }
    int r = remove_name(clearing, clearing->top, name);
    return first < 0 ? first : r;
}

int tree_clear(int dirfd)
{
    struct clearing clearing = {.top = open_directory(dirfd, ".")};
    CLEANUP(dir_closep) DIR *dir = clearing.top < 0 ? NULL : fdopendir(clearing.top);
    if (!dir) {
        int r = clearing.top < 0 ? clearing.top : -errno;
        fd_closep(&clearing.top);
        return r;
    }
    int first;
    do {
        first = 0;
        clearing.progress = false;
        rewinddir(dir);
        const char *name;
        while ((name = next_name(dir))) {
            int r = remove_name(&clearing, clearing.top, name);
            r = is_not_empty(r) ? flatten(&clearing, name) : r;
            first = first < 0 ? first : r;
        }
    } while (clearing.progress);
    return first;
}
