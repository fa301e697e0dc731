/* The cgroup v2 subtree. What jail_cgroup_probe() says of a host is tested anywhere, against hosts that are
 * made up in a mount namespace; the tree itself only where the host delegates one with all controllers.
 * There, with IMMURE_TEST_CGROUP=REQUIRED, nothing is skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/plan/plan.h"
#include "jail/resources/cgroup.h"
#include "jail/resources/cgroup_own.h"
#include "jail/resources/cgroup_tree.h"

/* ---- hosts that are made up ---- */

struct host {
    const char *self_cgroup, *mountinfo; /* contents; "@" in mountinfo is the made-up cgroup2 mount */
    const char *controllers;             /* of our own cgroup; NULL: no such file */
    bool read_only, read_only_files;
};

#define MOUNTINFO(root)                                                                                      \
    "22 1 0:20 / /proc rw - proc proc rw\n"                                                                  \
    "30 1 0:26 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"                              \
    "31 1 0:27 " root " @ rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"

static void write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || io_write_full(fd, text, strlen(text)) < 0) {
        _exit(100);
    }
    close(fd);
}

static void must(int r)
{
    if (r < 0) {
        _exit(101);
    }
}

/* Puts `text` in the place of a file of /proc. */
static void cover(const char *proc_file, const char *directory, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    write_file(path, text);
    must(mount(path, proc_file, NULL, MS_BIND, NULL));
}

static void enter_host(const struct host *host)
{
    char uid_map[64], gid_map[64];
    snprintf(uid_map, sizeof uid_map, "%u %u 1", geteuid(), geteuid());
    snprintf(gid_map, sizeof gid_map, "%u %u 1", getegid(), getegid());
    must(unshare(CLONE_NEWUSER | CLONE_NEWNS));
    must(io_write_file_at(AT_FDCWD, "/proc/self/setgroups", "deny"));
    must(io_write_file_at(AT_FDCWD, "/proc/self/uid_map", uid_map));
    must(io_write_file_at(AT_FDCWD, "/proc/self/gid_map", gid_map));
    must(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
    must(mount("tmpfs", "/mnt", "tmpfs", 0, NULL));
    must(mkdir("/mnt/cgroup", 0755));
    must(mkdir("/mnt/cgroup/here", 0755));
    must(mount("/mnt/cgroup", "/mnt/cgroup", NULL, MS_BIND, NULL));
    if (host->controllers) {
        write_file("/mnt/cgroup/here/cgroup.controllers", host->controllers);
        write_file("/mnt/cgroup/here/cgroup.procs", "");
        write_file("/mnt/cgroup/here/cgroup.subtree_control", "");
    }
    if (host->read_only_files) {
        must(mount("/mnt/cgroup/here/cgroup.procs", "/mnt/cgroup/here/cgroup.procs", NULL, MS_BIND, NULL));
        must(mount("none", "/mnt/cgroup/here/cgroup.procs", NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL));
    }
    if (host->read_only) {
        must(mount("none", "/mnt/cgroup", NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL));
    }
    char mountinfo[1024] = "";
    const char *at = strchr(host->mountinfo, '@');
    if (at) {
        snprintf(mountinfo, sizeof mountinfo, "%.*s/mnt/cgroup%s", (int)(at - host->mountinfo),
                 host->mountinfo, at + 1);
    } else {
        snprintf(mountinfo, sizeof mountinfo, "%s", host->mountinfo);
    }
    cover("/proc/self/cgroup", "/mnt", "self_cgroup", host->self_cgroup);
    cover("/proc/self/mountinfo", "/mnt", "mountinfo", mountinfo);
}

/* What the probe says of a host. Skips where no user namespace can be had. */
static struct err probe(const struct host *host)
{
    int pipes[2];
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        enter_host(host);
        struct err err = {0};
        int r = jail_cgroup_probe(&err);
        must((r == 0) == (err.kind == ERR_NONE) ? 0 : -1);
        _exit(io_write_full(pipes[1], &err, sizeof err) < 0);
    }
    close(pipes[1]);
    struct err err = {0};
    ssize_t n = io_read_full(pipes[0], &err, sizeof err);
    close(pipes[0]);
    int wstatus;
    assert_int_equal(waitpid(pid, &wstatus, 0), pid);
    assert_int_equal(wstatus, 0);
    assert_int_equal(n, sizeof err);
    return err;
}

#define ALL_CONTROLLERS "cpuset cpu io memory hugetlb pids rdma\n"

static void test_probe(void **state)
{
    (void)state;
    static const struct {
        struct host host;
        int code; /* 0: all is there */
        const char *words;
    } cases[] = {
        {{.self_cgroup = "4:memory:/x\n0::/here\n",
          .mountinfo = MOUNTINFO("/"),
          .controllers = ALL_CONTROLLERS},
         0,
         ""},
        {{.self_cgroup = "0::/outer/here\n",
          .mountinfo = MOUNTINFO("/outer"),
          .controllers = ALL_CONTROLLERS},
         0,
         ""},
        /* Started from within another instance's leaf: what counts is the cgroup that it was given. */
        {{.self_cgroup = "0::/here/immure-17-0/self\n",
          .mountinfo = MOUNTINFO("/"),
          .controllers = ALL_CONTROLLERS},
         0,
         ""},
        {{.self_cgroup = "4:memory:/x\n1:name=systemd:/here\n",
          .mountinfo = MOUNTINFO("/"),
          .controllers = ALL_CONTROLLERS},
         ENOENT,
         "this kernel runs without cgroup v2: give this process a delegated cgroup v2 subtree"},
        {{.self_cgroup = "0::/here\n", .mountinfo = "22 1 0:20 / /proc rw - proc proc rw\n"},
         ENOENT,
         "no cgroup2 file system with our cgroup /here is mounted here: "},
        {{.self_cgroup = "0::/other/here\n", .mountinfo = MOUNTINFO("/oth"), .controllers = ALL_CONTROLLERS},
         ENOENT,
         "no cgroup2 file system with our cgroup /other/here is mounted here: "},
        {{.self_cgroup = "0::/elsewhere\n", .mountinfo = MOUNTINFO("/"), .controllers = ALL_CONTROLLERS},
         ENOENT,
         "opening our cgroup /mnt/cgroup/elsewhere: No such file or directory"},
        {{.self_cgroup = "0::/here\n", .mountinfo = MOUNTINFO("/")},
         ENOENT,
         "reading cgroup.controllers of /mnt/cgroup/here: No such file or directory"},
        {{.self_cgroup = "0::/here\n", .mountinfo = MOUNTINFO("/"), .controllers = "\n"},
         ENOENT,
         "cgroup v2 at /mnt/cgroup/here does not offer: memory, pids, cpu (held by cgroup v1 hierarchies"},
        /* cpuset is not cpu. */
        {{.self_cgroup = "0::/here\n", .mountinfo = MOUNTINFO("/"), .controllers = "cpuset io memory\n"},
         ENOENT,
         "cgroup v2 at /mnt/cgroup/here does not offer: pids, cpu ("},
        {{.self_cgroup = "0::/here\n",
          .mountinfo = MOUNTINFO("/"),
          .controllers = ALL_CONTROLLERS,
          .read_only = true},
         EROFS,
         "cgroup v2 at /mnt/cgroup/here is mounted read-only: "},
        {{.self_cgroup = "0::/here\n",
          .mountinfo = MOUNTINFO("/"),
          .controllers = ALL_CONTROLLERS,
          .read_only_files = true},
         EROFS,
         "/mnt/cgroup/here/cgroup.procs is not writable for uid "},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct err err = probe(&cases[i].host);
        assert_int_equal(err.code, cases[i].code);
        assert_int_equal(err.kind, cases[i].code ? ERR_HOST : ERR_NONE);
        if (strncmp(err.text, cases[i].words, strlen(cases[i].words)) != 0) {
            fail_msg("case %zu: %s", i, err.text);
        }
    }
}

/* ---- the real tree ---- */

/* Instances beside ours would change what is counted here: one test program of this kind at a time. */
static int take_turns(void **state)
{
    (void)state;
    int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return root < 0 ? -1 : flock(root, LOCK_EX);
}

static struct jail_cgroup_tree *open_cgroups(void)
{
    struct jail_cgroup_tree *tree = NULL;
    struct err err = {0};
    if (jail_cgroup_tree_open(&tree, NULL, &err) == 0) {
        return tree;
    }
    const char *required = getenv("IMMURE_TEST_CGROUP");
    if (required && strcmp(required, "REQUIRED") == 0) {
        fail_msg("%s", err.text);
    }
    print_message("skipped: %s\n", err.text);
    skip();
    return NULL;
}

/* For tests that make something first: skip() frees nothing. */
static void need_cgroups(void)
{
    jail_cgroup_tree_free(open_cgroups());
}

static struct jail_cgroup *new_job(struct jail_cgroup_tree *tree, const struct jail_limits *limits)
{
    struct jail_cgroup *job = NULL;
    struct err err = {0};
    if (jail_cgroup_new(tree, limits, &job, &err) < 0) {
        fail_msg("%s", err.text);
    }
    return job;
}

static char *read_text(int dirfd, const char *path)
{
    struct buf text = BUF_INIT;
    if (io_read_file_at(dirfd, path, 1 << 20, &text) < 0) {
        fail_msg("%s cannot be read", path);
    }
    return text.data;
}

static void assert_file(int dirfd, const char *path, const char *expected)
{
    char *text = read_text(dirfd, path);
    assert_string_equal(text, expected);
    free(text);
}

static unsigned count_below(const char *path, const char *prefix)
{
    DIR *dir = opendir(path);
    assert_non_null(dir);
    unsigned count = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        count += strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    }
    closedir(dir);
    return count;
}

/* The directory above a tree's, where the processes were found. */
static char *own_of(const struct jail_cgroup_tree *tree)
{
    char *own = strdup(jail_cgroup_tree_path(tree));
    assert_non_null(own);
    *strrchr(own, '/') = '\0';
    return own;
}

static void test_tree_comes_and_goes(void **state)
{
    (void)state;
    need_cgroups();
    char *before = read_text(AT_FDCWD, "/proc/self/cgroup");
    struct jail_cgroup_tree *tree = open_cgroups();
    CLEANUP(freep) char *own = own_of(tree);
    char *inside = read_text(AT_FDCWD, "/proc/self/cgroup");
    assert_non_null(strstr(inside, "/self\n"));
    assert_int_equal(count_below(own, "immure-"), 1);
    jail_cgroup_tree_free(tree);
    assert_int_equal(count_below(own, "immure-"), 0);
    assert_file(AT_FDCWD, "/proc/self/cgroup", before);
    free(before);
    free(inside);
}

static void test_limits_are_written(void **state)
{
    (void)state;
    struct jail_cgroup_tree *tree = open_cgroups();
    struct jail_cgroup *job = new_job(
        tree,
        &(struct jail_limits){.memory_bytes = 64 << 20, .pids = 7, .cpu_percent = 250, .timeout_ms = 1});
    int dir = jail_cgroup_fd(job);
    assert_file(dir, "memory.max", "67108864\n");
    assert_file(dir, "memory.oom.group", "1\n");
    if (faccessat(dir, "memory.swap.max", F_OK, 0) == 0) {
        assert_file(dir, "memory.swap.max", "0\n");
    }
    assert_file(dir, "pids.max", "8\n"); /* and PID 1 */
    assert_file(dir, "cpu.max", "250000 100000\n");
    struct jail_cgroup_stat stat;
    struct err err = {0};
    assert_int_equal(jail_cgroup_stat(job, &stat, &err), 0);
    assert_int_equal(stat.oom_kills, 0);
    assert_int_equal(stat.cpu_ns, 0);
    jail_cgroup_free(job);
    job = new_job(tree, &(struct jail_limits){0});
    assert_file(jail_cgroup_fd(job), "memory.max", "max\n");
    assert_file(jail_cgroup_fd(job), "pids.max", "max\n");
    jail_cgroup_free(job);
    assert_int_equal(count_below(jail_cgroup_tree_path(tree), "job-"), 0);
    jail_cgroup_tree_free(tree);
}

static void enter(int dir)
{
    must(io_write_file_at(dir, "cgroup.procs", "0"));
}

static void test_free_ends_what_is_inside(void **state)
{
    (void)state;
    struct jail_cgroup_tree *tree = open_cgroups();
    struct jail_cgroup *job = new_job(tree, &(struct jail_limits){.pids = 4});
    int ready[2];
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        enter(jail_cgroup_fd(job));
        close(ready[1]);
        pause();
        _exit(0);
    }
    close(ready[1]);
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 0);
    close(ready[0]);
    jail_cgroup_free(job);
    int wstatus;
    assert_int_equal(waitpid(pid, &wstatus, 0), pid);
    assert_true(WIFSIGNALED(wstatus) && WTERMSIG(wstatus) == SIGKILL);
    /* It was still populated when it was freed, so the next job's making removes it. */
    job = new_job(tree, &(struct jail_limits){0});
    assert_int_equal(count_below(jail_cgroup_tree_path(tree), "job-"), 1);
    jail_cgroup_free(job);
    assert_int_equal(count_below(jail_cgroup_tree_path(tree), "job-"), 0);
    jail_cgroup_tree_free(tree);
}

/* Another instance: opens a tree of its own and a job with a process in it, and waits. */
struct instance {
    pid_t pid;
    char path[512]; /* of its tree */
    pid_t job;      /* the process in the job */
};

static void be_instance(int ready)
{
    struct instance self = {.pid = getpid()};
    struct jail_cgroup_tree *tree = NULL;
    struct jail_cgroup *job = NULL;
    struct err err = {0};
    int r = jail_cgroup_tree_open(&tree, NULL, &err);
    r = r < 0 ? r : jail_cgroup_new(tree, &(struct jail_limits){0}, &job, &err);
    if (r < 0) {
        fprintf(stderr, "%s\n", err.text);
    }
    must(r);
    snprintf(self.path, sizeof self.path, "%s", jail_cgroup_tree_path(tree));
    int inside[2];
    must(pipe2(inside, O_CLOEXEC));
    self.job = fork();
    if (self.job == 0) {
        enter(jail_cgroup_fd(job));
        close_range(STDERR_FILENO + 1, ~0u, 0); /* the lock of the tree, too */
        pause();
        _exit(0);
    }
    close(inside[1]);
    char byte;
    must(read(inside[0], &byte, 1) == 0 ? 0 : -1);
    must(io_write_full(ready, &self, sizeof self));
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    int signal_number;
    sigwait(&term, &signal_number);
    jail_cgroup_free(job);
    jail_cgroup_tree_free(tree);
    _exit(0);
}

static struct instance start_instance(void)
{
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    int ready[2];
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    struct instance instance;
    pid_t pid = fork();
    if (pid == 0) {
        be_instance(ready[1]);
    }
    sigprocmask(SIG_UNBLOCK, &term, NULL);
    close(ready[1]);
    assert_int_equal(io_read_full(ready[0], &instance, sizeof instance), sizeof instance);
    close(ready[0]);
    return instance;
}

static void assert_ends(pid_t pid)
{
    int wstatus;
    assert_int_equal(waitpid(pid, &wstatus, 0), pid);
    assert_int_equal(wstatus, 0);
}

static void test_leftovers_are_swept(void **state)
{
    (void)state;
    need_cgroups();
    char *before = read_text(AT_FDCWD, "/proc/self/cgroup");
    jail_cgroup_tree_free(open_cgroups());
    struct instance dead = start_instance();
    assert_int_equal(kill(dead.pid, SIGKILL), 0);
    assert_int_equal(waitpid(dead.pid, NULL, 0), dead.pid);
    assert_int_equal(kill(dead.job, 0), 0);
    struct jail_cgroup_tree *tree = NULL;
    unsigned swept = 0;
    struct err err = {0};
    assert_int_equal(jail_cgroup_tree_open(&tree, &swept, &err), 0);
    assert_int_equal(swept, 2); /* its job's and its own */
    assert_int_equal(access(dead.path, F_OK), -1);
    CLEANUP(freep) char *own = own_of(tree);
    assert_int_equal(count_below(own, "immure-"), 1);
    jail_cgroup_tree_free(tree);
    assert_int_equal(count_below(own, "immure-"), 0);
    assert_file(AT_FDCWD, "/proc/self/cgroup", before); /* we were in the dead one's leaf for a while */
    free(before);
}

static void test_living_instance_is_let_be(void **state)
{
    (void)state;
    need_cgroups();
    char *before = read_text(AT_FDCWD, "/proc/self/cgroup");
    jail_cgroup_tree_free(open_cgroups());
    struct instance other = start_instance();
    struct jail_cgroup_tree *tree = NULL;
    unsigned swept = 7;
    struct err err = {0};
    assert_int_equal(jail_cgroup_tree_open(&tree, &swept, &err), 0);
    assert_int_equal(swept, 0);
    assert_int_equal(kill(other.job, 0), 0);
    CLEANUP(freep) char *own = own_of(tree);
    CLEANUP(freep) char *mine = strdup(jail_cgroup_tree_path(tree));
    /* Side by side, however it came that we were started in the other's leaf. */
    assert_int_equal(strncmp(other.path, own, strlen(own)), 0);
    assert_null(strchr(other.path + strlen(own) + 1, '/'));
    struct jail_cgroup *job = new_job(tree, &(struct jail_limits){.memory_bytes = 1 << 20});
    jail_cgroup_free(job);
    /* We leave first, then it; and then the other way round. */
    jail_cgroup_tree_free(tree);
    assert_int_equal(access(mine, F_OK), -1);
    assert_int_equal(kill(other.job, 0), 0);
    assert_int_equal(kill(other.pid, SIGTERM), 0);
    assert_ends(other.pid);
    assert_int_equal(count_below(own, "immure-"), 0);
    assert_file(AT_FDCWD, "/proc/self/cgroup", before);
    other = start_instance();
    tree = open_cgroups();
    assert_int_equal(kill(other.pid, SIGTERM), 0);
    assert_ends(other.pid);
    assert_int_equal(access(other.path, F_OK), -1);
    job = new_job(tree, &(struct jail_limits){.memory_bytes = 1 << 20});
    jail_cgroup_free(job);
    jail_cgroup_tree_free(tree);
    assert_int_equal(count_below(own, "immure-"), 0);
    assert_file(AT_FDCWD, "/proc/self/cgroup", before);
    free(before);
}

static void come_and_go(unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        struct jail_cgroup_tree *tree = NULL;
        struct jail_cgroup *job = NULL;
        struct err err = {0};
        int r = jail_cgroup_tree_open(&tree, NULL, &err);
        if (r == 0) {
            r = jail_cgroup_new(tree, &(struct jail_limits){.memory_bytes = 1 << 20, .pids = 2}, &job, &err);
        }
        if (r < 0) {
            fprintf(stderr, "%s\n", err.text);
            _exit(1);
        }
        jail_cgroup_free(job);
        jail_cgroup_tree_free(tree);
    }
    _exit(0);
}

/* As when a shell starts several of `immure run` at once. */
static void test_many_instances_at_once(void **state)
{
    (void)state;
    need_cgroups();
    char *before = read_text(AT_FDCWD, "/proc/self/cgroup");
    struct jail_cgroup_tree *tree = open_cgroups();
    CLEANUP(freep) char *own = own_of(tree);
    jail_cgroup_tree_free(tree);
    pid_t pids[6];
    for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            come_and_go(25);
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
        assert_ends(pids[i]);
    }
    assert_int_equal(count_below(own, "immure-"), 0);
    assert_file(AT_FDCWD, "/proc/self/cgroup", before);
    free(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probe),
        cmocka_unit_test(test_tree_comes_and_goes),
        cmocka_unit_test(test_limits_are_written),
        cmocka_unit_test(test_free_ends_what_is_inside),
        cmocka_unit_test(test_leftovers_are_swept),
        cmocka_unit_test(test_living_instance_is_let_be),
        cmocka_unit_test(test_many_instances_at_once),
    };
    return cmocka_run_group_tests(tests, take_turns, NULL);
}
