/* The cgroup v2 subtree of one immure process: found from /proc/self/cgroup up, made, swept, and taken down
 * again.
 *
 *     OWN/                      the cgroup that we were started in
 *     OWN/immure-PID/           ours, held by a lock (flock) that dies with us: an unlocked one is a leftover
 *     OWN/immure-PID/self/      every process that was in OWN: controllers can only be enabled where no
 * process is OWN/immure-PID/job-N/     one per job
 *
 * Where OWN is the real root of the hierarchy, its other processes stay: the root may hold processes beside
 * controllers, and they are the whole machine. Runs in the warden and in `immure run`. */
#include "jail/cgroup_tree.h"

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
#include <sys/statvfs.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/cgroup.h"

#define PREFIX       "immure-"
#define JOB_PREFIX   "job-"
#define SELF         "self"
#define KILL_WAIT_MS 2000

static const char *const controllers[] = {"memory", "pids", "cpu"};
#define N_CONTROLLERS ARRAY_SIZE(controllers)

struct jail_cgroup_tree {
    char *own_path;              /* OWN */
    char *path;                  /* OWN/immure-PID */
    char name[64];               /* immure-PID */
    int own, dir;                /* descriptors of both; dir holds the lock */
    bool enabled[N_CONTROLLERS]; /* by us, in OWN */
    bool moved;                  /* the processes of OWN are in SELF */
    unsigned swept;              /* cgroups of dead instances that were removed */
    uint64_t next_job;
    char (*stale)[32]; /* names of jobs' cgroups that the kernel still holds */
    size_t n_stale;
};

static const char *const remedy = "give this process a delegated cgroup v2 subtree (systemd: Delegate=yes; "
                                  "containers: a writable cgroup2 mount and "
                                  "cgroupns private)";

/* Splits off the next blank-separated word. */
static char *next_word(char **save)
{
    return strtok_r(NULL, " ", save);
}

/* One line of mountinfo: true if it is a cgroup2 mount; points `*ret_root` and `*ret_point` into the line. */
static bool parse_mountinfo_line(char *line, char **ret_root, char **ret_point)
{
    char *dash = strstr(line, " - ");
    if (!dash || strncmp(dash + 3, "cgroup2 ", 8) != 0) {
        return false;
    }
    char *save = NULL;
    if (!strtok_r(line, " ", &save) || !next_word(&save) || !next_word(&save)) {
        return false;
    }
    *ret_root = next_word(&save);
    *ret_point = next_word(&save);
    return *ret_root && *ret_point;
}

/* Our cgroup in the v2 hierarchy, as the kernel spells it ("/user.slice/..."). */
static int read_own_cgroup(char **ret, struct err *reterr)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    int r = io_read_file_at(AT_FDCWD, "/proc/self/cgroup", 1 << 20, &text);
    if (r < 0) {
        return err_set(reterr, ERR_HOST, -r, NULL, "reading /proc/self/cgroup: %s", strerror(-r));
    }
    char *save = NULL;
    for (char *line = strtok_r(text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (strncmp(line, "0::", 3) == 0) {
            *ret = strdup(line + 3);
            return *ret ? 0 : err_errno(reterr, ENOMEM, "finding our cgroup");
        }
    }
    return err_set(reterr, ERR_HOST, ENOENT, NULL, "this kernel runs without cgroup v2: %s", remedy);
}

/* The directory of our own cgroup. */
static int find_own_path(char **ret, struct err *reterr)
{
    CLEANUP(freep) char *own = NULL;
    int r = read_own_cgroup(&own, reterr);
    if (r < 0) {
        return r;
    }
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    r = io_read_file_at(AT_FDCWD, "/proc/self/mountinfo", 16 << 20, &text);
    if (r < 0) {
        return err_set(reterr, ERR_HOST, -r, NULL, "reading /proc/self/mountinfo: %s", strerror(-r));
    }
    char *save = NULL;
    for (char *line = strtok_r(text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *root, *point;
        if (!parse_mountinfo_line(line, &root, &point)) {
            continue;
        }
        size_t length = strcmp(root, "/") == 0 ? 0 : strlen(root);
        if (strncmp(own, root, length) != 0 || (own[length] != '/' && own[length] != '\0')) {
            continue;
        }
        const char *below = strcmp(own + length, "/") == 0 ? "" : own + length;
        if (asprintf(ret, "%s%s", point, below) < 0) {
            return err_errno(reterr, ENOMEM, "finding our cgroup");
        }
        return 0;
    }
    return err_set(reterr, ERR_HOST, ENOENT, NULL,
                   "no cgroup2 file system with our cgroup %s is mounted here: %s", own, remedy);
}

/* Where an instance died, the processes of OWN are still in its SELF: a supervisor that starts us again, say,
 * or the shell of a session. OWN is what we are given then, too. A living instance's SELF is an OWN like any
 * other. */
static void step_out_of_dead_instances(char *path)
{
    for (;;) {
        char *self = strrchr(path, '/');
        if (!self || strcmp(self + 1, SELF) != 0) {
            return;
        }
        *self = '\0';
        char *instance = strrchr(path, '/');
        CLEANUP(fd_closep) int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (!instance || strncmp(instance + 1, PREFIX, strlen(PREFIX)) != 0 || dir < 0 ||
            flock(dir, LOCK_EX | LOCK_NB) < 0) {
            *self = '/';
            return;
        }
        *instance = '\0';
    }
}

static bool has_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *p = text; (p = strstr(p, word)); p += length) {
        bool starts = p == text || p[-1] == ' ';
        if (starts && (p[length] == ' ' || p[length] == '\n' || p[length] == '\0')) {
            return true;
        }
    }
    return false;
}

static int check_controllers(int own, const char *path, struct err *reterr)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    int r = io_read_file_at(own, "cgroup.controllers", 4096, &text);
    if (r < 0) {
        return err_set(reterr, ERR_HOST, -r, NULL, "reading cgroup.controllers of %s: %s", path,
                       strerror(-r));
    }
    char missing[64] = "";
    for (size_t i = 0; i < N_CONTROLLERS; i++) {
        if (!has_word(text.data, controllers[i])) {
            snprintf(missing + strlen(missing), sizeof missing - strlen(missing), "%s%s",
                     *missing ? ", " : "", controllers[i]);
        }
    }
    if (!*missing) {
        return 0;
    }
    return err_set(reterr, ERR_HOST, ENOENT, NULL,
                   "cgroup v2 at %s does not offer: %s (held by cgroup v1 hierarchies, or not enabled in "
                   "cgroup.subtree_control of the cgroups above); %s",
                   path, missing, remedy);
}

/* Held against what a process needs to make cgroups below `path` and to move itself there. */
static int check_writable(int own, const char *path, struct err *reterr)
{
    struct statvfs fs;
    if (fstatvfs(own, &fs) == 0 && (fs.f_flag & ST_RDONLY)) {
        return err_set(reterr, ERR_HOST, EROFS, NULL, "cgroup v2 at %s is mounted read-only: %s", path,
                       remedy);
    }
    static const char *const files[] = {".", "cgroup.procs", "cgroup.subtree_control"};
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        if (faccessat(own, files[i], W_OK, AT_EACCESS) < 0) {
            int code = errno;
            return err_set(reterr, ERR_HOST, code, NULL, "%s/%s is not writable for uid %u (%s): %s", path,
                           files[i], geteuid(), strerror(code), remedy);
        }
    }
    return 0;
}

static int open_own(char **ret_path, int *ret_own, struct err *reterr)
{
    CLEANUP(freep) char *path = NULL;
    int r = find_own_path(&path, reterr);
    if (r < 0) {
        return r;
    }
    step_out_of_dead_instances(path);
    CLEANUP(fd_closep) int own = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (own < 0) {
        int code = errno;
        return err_set(reterr, ERR_HOST, code, NULL, "opening our cgroup %s: %s", path, strerror(code));
    }
    r = check_controllers(own, path, reterr);
    if (r == 0) {
        r = check_writable(own, path, reterr);
    }
    if (r < 0) {
        return r;
    }
    *ret_path = TAKE_PTR(path);
    *ret_own = TAKE_FD(own);
    return 0;
}

int jail_cgroup_probe(struct err *reterr)
{
    CLEANUP(freep) char *path = NULL;
    CLEANUP(fd_closep) int own = -1;
    return open_own(&path, &own, reterr);
}

bool jail_cgroup_host_swaps(void)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    if (io_read_file_at(AT_FDCWD, "/proc/swaps", 65536, &text) < 0) {
        return true; /* in doubt, yes */
    }
    char *header_end = strchr(text.data, '\n');
    return header_end && header_end[1] != '\0';
}

/* Waits until no process is left in the cgroup behind `dir`. cgroup.events signals changes as POLLPRI. */
static void wait_until_empty(int dir)
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
        if (poll(&change, 1, KILL_WAIT_MS) == 0) {
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
    wait_until_empty(job);
    return unlinkat(dir, name, AT_REMOVEDIR) == 0;
}

/* Moves every process listed in `from`'s cgroup.procs to the cgroup behind `to`. Forks may add some
 * meanwhile: again until a round finds none. */
static int move_processes(int from, int to, struct err *reterr)
{
    for (int round = 0; round < 100; round++) {
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
                               pid, strerror(-r), remedy);
            }
        }
    }
    return err_set(reterr, ERR_HOST, EAGAIN, NULL, "our own cgroup does not become empty; %s", remedy);
}

static bool is_real_root(int own)
{
    return faccessat(own, "cgroup.type", F_OK, 0) < 0;
}

/* The subtree of an instance, unless that instance lives. The processes in its SELF are not ours to end: they
 * come to ours, unless OWN is the real root, where they may as well stay. */
static bool sweep_instance(int own, const char *name, void *arg)
{
    struct jail_cgroup_tree *tree = arg;
    CLEANUP(fd_closep) int dir = openat(own, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || flock(dir, LOCK_EX | LOCK_NB) < 0) {
        return false;
    }
    tree->swept += for_each_below(dir, JOB_PREFIX, sweep_job, NULL);
    if (!is_real_root(own)) {
        CLEANUP(fd_closep) int from = openat(dir, SELF, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CLEANUP(fd_closep) int to = openat(tree->dir, SELF, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (from >= 0 && to >= 0) {
            move_processes(from, to, NULL);
        }
        /* It found no controller enabled in OWN, where processes were; so it was the one who did that. */
        memset(tree->enabled, true, sizeof tree->enabled);
    }
    unlinkat(dir, SELF, AT_REMOVEDIR);
    return unlinkat(own, name, AT_REMOVEDIR) == 0;
}

/* Makes and locks OWN/immure-PID. Another instance's sweep may remove it between the two: then again. */
static int make_instance(struct jail_cgroup_tree *tree, struct err *reterr)
{
    for (unsigned attempt = 0; attempt < 100; attempt++) {
        snprintf(tree->name, sizeof tree->name, PREFIX "%d-%u", (int)getpid(), attempt);
        if (mkdirat(tree->own, tree->name, 0755) < 0) {
            if (errno == EEXIST) {
                continue;
            }
            int code = errno;
            return err_set(reterr, ERR_HOST, code, NULL, "making a cgroup in %s: %s; %s", tree->own_path,
                           strerror(code), remedy);
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
    if (mkdirat(tree->dir, SELF, 0755) < 0) {
        return err_errno(reterr, errno, "making the cgroup %s/" SELF, tree->path);
    }
    CLEANUP(fd_closep) int self = openat(tree->dir, SELF, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (self < 0) {
        return err_errno(reterr, errno, "opening the cgroup %s/" SELF, tree->path);
    }
    if (!is_real_root(tree->own)) {
        tree->moved = true;
        return move_processes(tree->own, self, reterr);
    }
    int r = io_write_file_at(self, "cgroup.procs", "0");
    if (r < 0) {
        return err_set(reterr, ERR_HOST, -r, NULL, "moving ourselves into %s/" SELF ": %s; %s", tree->path,
                       strerror(-r), remedy);
    }
    tree->moved = true;
    return 0;
}

/* Enables the controllers for the children of `dir`; `enabled` (may be NULL) tells which were not before. */
static int enable_controllers(int dir, const char *path, bool *enabled, struct err *reterr)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    int r = io_read_file_at(dir, "cgroup.subtree_control", 4096, &text);
    for (size_t i = 0; r == 0 && i < N_CONTROLLERS; i++) {
        if (has_word(text.data, controllers[i])) {
            continue;
        }
        char word[32];
        snprintf(word, sizeof word, "+%s", controllers[i]);
        r = io_write_file_at(dir, "cgroup.subtree_control", word);
        if (r < 0) {
            return err_set(reterr, ERR_HOST, -r, NULL, "enabling the %s controller in %s: %s; %s",
                           controllers[i], path, strerror(-r), remedy);
        }
        if (enabled) {
            enabled[i] = true;
        }
    }
    return r < 0 ? err_errno(reterr, -r, "reading cgroup.subtree_control of %s", path) : 0;
}

int jail_cgroup_tree_open(struct jail_cgroup_tree **ret, unsigned *ret_swept, struct err *reterr)
{
    struct jail_cgroup_tree *tree = calloc(1, sizeof *tree);
    if (!tree) {
        return err_errno(reterr, ENOMEM, "making the cgroup tree");
    }
    tree->own = tree->dir = -1;
    int r = open_own(&tree->own_path, &tree->own, reterr);
    if (r == 0) {
        r = make_instance(tree, reterr);
    }
    if (r == 0) {
        r = occupy(tree, reterr);
    }
    if (r == 0) {
        tree->swept += for_each_below(tree->own, PREFIX, sweep_instance, tree);
        r = enable_controllers(tree->own, tree->own_path, tree->enabled, reterr);
    }
    if (r == 0) {
        r = enable_controllers(tree->dir, tree->path, NULL, reterr);
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

/* Puts OWN back as it was found, as far as nobody else relies on it meanwhile. */
static void leave(struct jail_cgroup_tree *tree)
{
    for (size_t i = 0; i < N_CONTROLLERS; i++) {
        char word[32];
        snprintf(word, sizeof word, "-%s", controllers[i]);
        io_write_file_at(tree->dir, "cgroup.subtree_control", word);
        if (tree->enabled[i]) {
            io_write_file_at(tree->own, "cgroup.subtree_control", word);
        }
    }
    CLEANUP(fd_closep) int self = openat(tree->dir, SELF, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (self >= 0 && tree->moved) {
        move_processes(self, tree->own, NULL);
    }
    unlinkat(tree->dir, SELF, AT_REMOVEDIR);
    unlinkat(tree->own, tree->name, AT_REMOVEDIR);
}

void jail_cgroup_tree_free(struct jail_cgroup_tree *tree)
{
    if (!tree) {
        return;
    }
    if (tree->dir >= 0) {
        for_each_below(tree->dir, JOB_PREFIX, sweep_job, NULL);
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
