/* The cgroup v2 subtree of one immure process: made, swept, and taken down again.
 *
 *     OWN/                        the cgroup that we were given
 *     OWN/immure-PID-N/           an instance, held by a lock (flock) that dies with it
 *     OWN/immure-PID-N/self/      every process that was in OWN
 *     OWN/immure-PID-N/job-N/     one per job
 *
 * The processes of OWN move, because controllers can only be enabled where no process is. An instance that is
 * not locked is a leftover.
 *
 * Instances in one OWN stand side by side. The first one enables the controllers there and takes OWN's
 * processes into its SELF; whoever leaves hands what is in its SELF to one that lives, and the last one puts
 * everything back. Where OWN is the real root of the hierarchy, its other processes stay: the root may hold
 * processes beside controllers, and they are the whole machine. Runs in the warden and in `immure run`. */
#include "jail/resources/cgroup_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/resources/cgroup_own.h"

#define JOB_PREFIX    "job-"
#define KILL_WAIT_MS  2000
#define MOVE_WAIT_MS  50
#define MOVE_TRIES    40
#define MOVE_ROUNDS   500
#define MOVE_PAUSE_MS 10
#define LOCK_TRIES    2000
#define LOCK_WAIT_MS  5

struct jail_cgroup_tree {
    char *own_path;                   /* OWN */
    char *path;                       /* OWN/immure-PID-N */
    char name[64];                    /* immure-PID-N */
    int own, dir;                     /* descriptors of both; dir holds the lock */
    bool enabled[CGROUP_CONTROLLERS]; /* by us, in OWN */
    char neighbour[64];               /* an instance that lives beside us, while we leave */
    unsigned swept;                   /* cgroups of dead instances that were removed */
    uint64_t next_job;
    char (*stale)[32]; /* names of jobs' cgroups that the kernel still holds */
    size_t n_stale;
};

/* Instances come and go one at a time: one would otherwise take down what the other is just building on.
 * Since anybody who can see the directory can hold this lock, it is not waited for for ever. */
static void lock(int own)
{
    for (unsigned tries = 0; tries < LOCK_TRIES && flock(own, LOCK_EX | LOCK_NB) < 0; tries++) {
        nanosleep(&(struct timespec){.tv_nsec = LOCK_WAIT_MS * (long)NS_PER_MS}, NULL);
    }
}

/* Waits until no process is left in the cgroup behind `dir`, at most `wait_ms` for each change of it.
 * cgroup.events signals changes as POLLPRI. */
static void wait_until_empty(int dir, int wait_ms)
{
    CLEANUP(fd_closep) int events = openat(dir, "cgroup.events", O_RDONLY | O_CLOEXEC);
    for (int tries = 0; events >= 0 && tries < 8; tries++) {
        char text[256];
        ssize_t n = pread(events, text, sizeof text - 1, 0);
        if (n <= 0) {
            return;
        }
        text[n] = '\0';
        if (strstr(text, "populated 0")) {
            return;
        }
        struct pollfd change = {.fd = events, .events = POLLPRI};
        if (poll(&change, 1, wait_ms) == 0) {
            return;
        }
    }
}

typedef bool (*entry_fn)(int dir, const char *name, void *arg);

/* Calls `fn` for each directory below `dir` whose name starts with `prefix`; returns how often it returned
 * true. */
static unsigned for_each_below(int dir, const char *prefix, entry_fn fn, void *arg)
{
    unsigned count = 0;
    int again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(dir_closep) DIR *entries = again < 0 ? NULL : fdopendir(again);
    if (!entries) {
        fd_closep(&again);
        return 0;
    }
    for (struct dirent *entry; (entry = readdir(entries));) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 && entry->d_name[0] != '.') {
            count += fn(dir, entry->d_name, arg);
        }
    }
    return count;
}

/* A job's cgroup that somebody died over: whatever is in it is a job, and ends. */
static bool sweep_job(int dir, const char *name, void *arg)
{
    (void)arg;
    CLEANUP(fd_closep) int job = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (job < 0) {
        return false;
    }
    io_write_file_at(job, "cgroup.kill", "1");
    wait_until_empty(job, KILL_WAIT_MS);
    return unlinkat(dir, name, AT_REMOVEDIR) == 0;
}

/* Moves every process listed in `from`'s cgroup.procs to the cgroup behind `to`. Forks may add some
 * meanwhile, and one that is just ending stays where it is although its move succeeds: again until a round
 * finds none. */
static int move_processes(int from, int to, struct err *reterr)
{
    for (int round = 0; round < MOVE_ROUNDS; round++) {
        if (round > 1) {
            nanosleep(&(struct timespec){.tv_nsec = MOVE_PAUSE_MS * (long)NS_PER_MS}, NULL);
        }
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        int r = io_read_file_at(from, "cgroup.procs", 16 << 20, &text);
        if (r < 0) {
            return err_set(reterr, ERR_HOST, -r, NULL, "reading cgroup.procs: %s", strerror(-r));
        }
        if (text.len == 0) {
            return 0;
        }
        char *save = NULL;
        for (char *pid = strtok_r(text.data, "\n", &save); pid; pid = strtok_r(NULL, "\n", &save)) {
            r = io_write_file_at(to, "cgroup.procs", pid);
            if (r < 0 && r != -ESRCH) {
                return err_set(reterr, ERR_HOST, -r, NULL, "moving process %s out of our own cgroup: %s; %s",
                               pid, strerror(-r), cgroup_remedy);
            }
        }
    }
    return err_set(reterr, ERR_HOST, EAGAIN, NULL, "our own cgroup does not become empty; %s", cgroup_remedy);
}

static bool is_real_root(int own)
{
    return faccessat(own, "cgroup.type", F_OK, 0) < 0;
}

static int open_self(int instance)
{
    return openat(instance, CGROUP_SELF, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Moves what is in SELF of the instance behind `dir` to the cgroup behind `to` (-1: none) and removes it. */
static void remove_self(int dir, int to)
{
    CLEANUP(fd_closep) int self = open_self(dir);
    for (unsigned tries = 0; tries < MOVE_TRIES; tries++) {
        int r = self < 0 || to < 0 ? -EBADF : move_processes(self, to, NULL);
        if (unlinkat(dir, CGROUP_SELF, AT_REMOVEDIR) == 0 || errno != EBUSY || r < 0) {
            return;
        }
        wait_until_empty(self, MOVE_WAIT_MS);
    }
}

/* Takes down the subtree of an instance that is dead. The processes in its SELF are not ours to end. */
static bool sweep_instance(int own, const char *name, void *arg)
{
    struct jail_cgroup_tree *tree = arg;
    CLEANUP(fd_closep) int dir = openat(own, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || flock(dir, LOCK_EX | LOCK_NB) < 0) {
        return false;
    }
    tree->swept += for_each_below(dir, JOB_PREFIX, sweep_job, NULL);
    CLEANUP(fd_closep) int ours = open_self(tree->dir);
    remove_self(dir, is_real_root(own) ? own : ours);
    return unlinkat(own, name, AT_REMOVEDIR) == 0;
}

/* Stores the name of an instance that lives. */
static bool find_living(int own, const char *name, void *arg)
{
    CLEANUP(fd_closep) int dir = openat(own, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || flock(dir, LOCK_EX | LOCK_NB) == 0) {
        return false;
    }
    struct jail_cgroup_tree *tree = arg;
    if (strcmp(name, tree->name) == 0) {
        return false;
    }
    snprintf(tree->neighbour, sizeof tree->neighbour, "%s", name);
    return true;
}

/* Makes and locks OWN/immure-PID. Another instance's sweep may remove it between the two: then again. */
static int make_instance(struct jail_cgroup_tree *tree, struct err *reterr)
{
    for (unsigned attempt = 0; attempt < 100; attempt++) {
        snprintf(tree->name, sizeof tree->name, CGROUP_PREFIX "%d-%u", (int)getpid(), attempt);
        if (mkdirat(tree->own, tree->name, 0755) < 0) {
            if (errno == EEXIST) {
                continue;
            }
            int code = errno;
            return err_set(reterr, ERR_HOST, code, NULL, "making a cgroup in %s: %s; %s", tree->own_path,
                           strerror(code), cgroup_remedy);
        }
        tree->dir = openat(tree->own, tree->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct stat st;
        if (tree->dir >= 0 && flock(tree->dir, LOCK_EX | LOCK_NB) == 0 &&
            fstatat(tree->own, tree->name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            if (asprintf(&tree->path, "%s/%s", tree->own_path, tree->name) < 0) {
                tree->path = NULL;
                return err_errno(reterr, ENOMEM, "making a cgroup");
            }
            return 0;
        }
        fd_closep(&tree->dir);
    }
    return err_set(reterr, ERR_HOST, EEXIST, NULL, "making a cgroup in %s: every name is taken",
                   tree->own_path);
}

static int occupy(struct jail_cgroup_tree *tree, struct err *reterr)
{
    if (mkdirat(tree->dir, CGROUP_SELF, 0755) < 0) {
        return err_errno(reterr, errno, "making the cgroup %s/" CGROUP_SELF, tree->path);
    }
    CLEANUP(fd_closep) int self = open_self(tree->dir);
    if (self < 0) {
        return err_errno(reterr, errno, "opening the cgroup %s/" CGROUP_SELF, tree->path);
    }
    /* Ourselves first: we may be in another instance's SELF. */
    int r = io_write_file_at(self, "cgroup.procs", "0");
    if (r < 0) {
        return err_set(reterr, ERR_HOST, -r, NULL, "moving ourselves into %s/" CGROUP_SELF ": %s; %s",
                       tree->path, strerror(-r), cgroup_remedy);
    }
    return is_real_root(tree->own) ? 0 : move_processes(tree->own, self, reterr);
}

/* Enables the controllers for the children of `dir`; `enabled` (may be NULL) tells which were not before. */
static int enable_controllers(int dir, const char *path, bool *enabled, struct err *reterr)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    int r = io_read_file_at(dir, "cgroup.subtree_control", 4096, &text);
    for (size_t i = 0; r == 0 && i < CGROUP_CONTROLLERS; i++) {
        if (cgroup_has_word(text.data, cgroup_controllers[i])) {
            continue;
        }
        char word[32];
        snprintf(word, sizeof word, "+%s", cgroup_controllers[i]);
        r = io_write_file_at(dir, "cgroup.subtree_control", word);
        if (r < 0) {
            return err_set(reterr, ERR_HOST, -r, NULL, "enabling the %s controller in %s: %s; %s",
                           cgroup_controllers[i], path, strerror(-r), cgroup_remedy);
        }
        if (enabled) {
            enabled[i] = true;
        }
    }
    return r < 0 ? err_errno(reterr, -r, "reading cgroup.subtree_control of %s", path) : 0;
}

static int build(struct jail_cgroup_tree *tree, struct err *reterr)
{
    int r = make_instance(tree, reterr);
    if (r == 0) {
        r = occupy(tree, reterr);
    }
    if (r == 0) {
        tree->swept += for_each_below(tree->own, CGROUP_PREFIX, sweep_instance, tree);
        r = enable_controllers(tree->own, tree->own_path, tree->enabled, reterr);
    }
    return r < 0 ? r : enable_controllers(tree->dir, tree->path, NULL, reterr);
}

int jail_cgroup_tree_open(struct jail_cgroup_tree **ret, unsigned *ret_swept, struct err *reterr)
{
    struct jail_cgroup_tree *tree = calloc(1, sizeof *tree);
    if (!tree) {
        return err_errno(reterr, ENOMEM, "making the cgroup tree");
    }
    tree->own = tree->dir = -1;
    int r = cgroup_own_open(&tree->own_path, &tree->own, reterr);
    if (r == 0) {
        lock(tree->own);
        r = build(tree, reterr);
        flock(tree->own, LOCK_UN);
    }
    if (r < 0) {
        jail_cgroup_tree_free(tree);
        return r;
    }
    if (ret_swept) {
        *ret_swept = tree->swept;
    }
    *ret = tree;
    return 0;
}

static void disable_controllers(int dir, const bool *which)
{
    for (size_t i = 0; i < CGROUP_CONTROLLERS; i++) {
        char word[32];
        snprintf(word, sizeof word, "-%s", cgroup_controllers[i]);
        if (!which || which[i]) {
            io_write_file_at(dir, "cgroup.subtree_control", word);
        }
    }
}

/* Hands on or puts back what was taken, and takes down the rest. */
static void leave(struct jail_cgroup_tree *tree)
{
    disable_controllers(tree->dir, NULL);
    for_each_below(tree->own, CGROUP_PREFIX, sweep_instance, tree);
    bool root = is_real_root(tree->own);
    bool last = for_each_below(tree->own, CGROUP_PREFIX, find_living, tree) == 0;
    if (last) {
        /* Below the real root, a cgroup with processes had no controllers enabled before us. */
        disable_controllers(tree->own, root ? tree->enabled : NULL);
    }
    CLEANUP(fd_closep)
    int neighbour = last ? -1 : openat(tree->own, tree->neighbour, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(fd_closep) int neighbours_self = neighbour < 0 ? -1 : open_self(neighbour);
    remove_self(tree->dir, root || last ? tree->own : neighbours_self);
    unlinkat(tree->own, tree->name, AT_REMOVEDIR);
}

void jail_cgroup_tree_free(struct jail_cgroup_tree *tree)
{
    if (!tree) {
        return;
    }
    if (tree->dir >= 0) {
        for_each_below(tree->dir, JOB_PREFIX, sweep_job, NULL);
        lock(tree->own);
        leave(tree);
    }
    fd_closep(&tree->dir);
    fd_closep(&tree->own);
    free(tree->stale);
    free(tree->own_path);
    free(tree->path);
    free(tree);
}

const char *jail_cgroup_tree_path(const struct jail_cgroup_tree *tree)
{
    return tree->path;
}

int jail_cgroup_tree_add(struct jail_cgroup_tree *tree, char *ret_name, size_t name_size, int *ret_dir)
{
    snprintf(ret_name, name_size, JOB_PREFIX "%lu", tree->next_job++);
    if (mkdirat(tree->dir, ret_name, 0755) < 0) {
        return -errno;
    }
    int dir = openat(tree->dir, ret_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) {
        int code = errno;
        unlinkat(tree->dir, ret_name, AT_REMOVEDIR);
        return -code;
    }
    *ret_dir = dir;
    return 0;
}

int jail_cgroup_tree_open_to(struct jail_cgroup_tree *tree, uint32_t uid)
{
    return fchownat(tree->dir, "cgroup.procs", uid, (gid_t)-1, 0) < 0 ? -errno : 0;
}

void jail_cgroup_tree_remove(struct jail_cgroup_tree *tree, const char *name, int dir)
{
    if (unlinkat(tree->dir, name, AT_REMOVEDIR) == 0) {
        return;
    }
    /* Something is in it still, or the kernel has not quite let go of what was. */
    io_write_file_at(dir, "cgroup.kill", "1");
    if (unlinkat(tree->dir, name, AT_REMOVEDIR) == 0) {
        return;
    }
    void *grown = realloc(tree->stale, (tree->n_stale + 1) * sizeof *tree->stale);
    if (grown) {
        tree->stale = grown;
        snprintf(tree->stale[tree->n_stale++], sizeof *tree->stale, "%s", name);
    }
}

void jail_cgroup_tree_remove_stale(struct jail_cgroup_tree *tree)
{
    size_t kept = 0;
    for (size_t i = 0; i < tree->n_stale; i++) {
        if (unlinkat(tree->dir, tree->stale[i], AT_REMOVEDIR) < 0 && errno == EBUSY) {
            memmove(tree->stale[kept++], tree->stale[i], sizeof *tree->stale);
        }
    }
    tree->n_stale = kept;
}
