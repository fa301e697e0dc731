/* What the tests of jail/ launch jails with: a plan made by hand from a recipe, and one launch of it from
 * beginning to end. The host's /usr serves as the jail's. Works as root and as an ordinary user. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/jail.h"
#include "jail/resources/idmap.h"
#include "jail/resources/landlock.h"
#include "jail/resources/scratch.h"
#include "jail/watch.h"

#define SCRATCH_BYTES (1ull << 20)

/* What mkdir(2) calls: newer architectures have one call for it and mkdirat(2). */
#ifdef SYS_mkdir
#define CALL_OF_MKDIR SYS_mkdir
#else
#define CALL_OF_MKDIR SYS_mkdirat
#endif

/* A filter whose listener hears of each mkdir(2), and of nothing else. */
static const struct sock_filter hear_mkdir[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CALL_OF_MKDIR, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};
#define HEARS_MKDIR .bpf = hear_mkdir, .bpf_length = ARRAY_SIZE(hear_mkdir), .notify = true

/* The number of a call as text, for a script. */
#define NUMBER_TEXT(call) NUMBER_TEXT_OF(call)
#define NUMBER_TEXT_OF(n) #n

struct fixture {
    struct idmap_pool *pool;
};

static inline int set_up(void **state)
{
    static struct fixture fixture;
    struct err err = {0};
    if (!fixture.pool && idmap_pool_new(1879048192u, 256, &fixture.pool, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return -1;
    }
    *state = &fixture;
    return 0;
}

/* Changes to the plan below, per test. */
struct recipe {
    const char *script;
    const char *exec_path;
    const char *bind_source;
    bool loopback;
    const int *bridge; /* the program's two ends */
    uint64_t timeout_ms, memory_bytes, cpu_ms;
    const struct sock_filter *bpf;
    uint32_t bpf_length;
    bool notify;
    bool limited;
    int limited_resource; /* RLIMIT_*, with `limit`; only where `limited` or the limit is not 0 */
    struct rlimit limit;
    bool without_standard_fds; /* the parent has 0, 1 and 2 closed while it launches */
    bool without_proc;
    enum jail_speculation speculation; /* of all three */
    bool landlocked;                   /* may write below /work alone */
    bool no_set_id;
    int extra_fd; /* given as the input descriptor; 0: none */
};

#define ADD(plan, kind, member, ...)                                                                         \
    (jail_plan_add(plan, JAIL_STEP_##kind)->member =                                                         \
         (__typeof__(((struct jail_step *)0)->member)){__VA_ARGS__})

static inline void add_mounts(struct jail_plan *plan, const struct recipe *recipe)
{
    static const char *const directories[] = {"/usr", "/tmp", "/proc", "/dev"};
    uint32_t safe = JAIL_MOUNT_READONLY | JAIL_MOUNT_NOSUID | JAIL_MOUNT_NODEV;
    for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
        ADD(plan, MKDIR, mkdir, .path = jail_plan_text(plan, directories[i]), .mode = 0755);
    }
    ADD(plan, BIND, bind, .source = jail_plan_text(plan, recipe->bind_source ? recipe->bind_source : "/usr"),
        .path = jail_plan_text(plan, "/usr"), .flags = safe | JAIL_MOUNT_RECURSIVE);
    static const char *const links[] = {"/bin", "/lib", "/lib64"};
    for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
        char target[32];
        snprintf(target, sizeof target, "usr%s", links[i]);
        ADD(plan, SYMLINK, symlink, .target = jail_plan_text(plan, target),
            .path = jail_plan_text(plan, links[i]));
    }
    ADD(plan, BIND, bind, .source = jail_plan_text(plan, "/dev/null"),
        .path = jail_plan_text(plan, "/dev/null"), .flags = JAIL_MOUNT_NOSUID);
    if (!recipe->without_proc) {
        ADD(plan, PROC, proc, .path = jail_plan_text(plan, "/proc"),
            .flags = safe | JAIL_MOUNT_NOEXEC | JAIL_PROC_HIDE | JAIL_PROC_SUBSET_PID);
    }
    ADD(plan, SCRATCH, scratch, .path = jail_plan_text(plan, "/tmp"),
        .flags = JAIL_MOUNT_NOSUID | JAIL_MOUNT_NODEV);
    ADD(plan, SUBMOUNT, submount, .source = jail_plan_text(plan, "/tmp/work"),
        .path = jail_plan_text(plan, "/work"), .flags = JAIL_MOUNT_NOSUID | JAIL_MOUNT_NODEV);
    ADD(plan, SUBMOUNT, submount, .source = jail_plan_text(plan, "/tmp/tmp"),
        .path = jail_plan_text(plan, "/tmp"), .flags = JAIL_MOUNT_NOSUID | JAIL_MOUNT_NODEV);
}

static inline struct jail_plan *make_plan(const struct recipe *recipe)
{
    struct jail_plan *plan = jail_plan_new();
    plan->namespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                       CLONE_NEWUTS | CLONE_NEWCGROUP;
    plan->uid = plan->gid = 1000;
    plan->limits = (struct jail_limits){.timeout_ms = recipe->timeout_ms ? recipe->timeout_ms : 20000,
                                        .memory_bytes = recipe->memory_bytes,
                                        .cpu_ms = recipe->cpu_ms,
                                        .scratch_bytes = SCRATCH_BYTES,
                                        .scratch_inodes = 64};
    jail_plan_add(plan, JAIL_STEP_PROPAGATION);
    ADD(plan, IDENTITY, identity, .uid = 1000, .gid = 1000);
    if (recipe->loopback) {
        jail_plan_add(plan, JAIL_STEP_LOOPBACK);
    }
    ADD(plan, HOSTNAME, hostname, .name = jail_plan_text(plan, "jailed"));
    ADD(plan, ROOT, root, .size_bytes = 1 << 20, .inodes = 64);
    add_mounts(plan, recipe);
    jail_plan_add(plan, JAIL_STEP_PIVOT);
    jail_plan_add(plan, JAIL_STEP_ROOT_READONLY);
    jail_plan_add(plan, JAIL_STEP_STDIO);
    if (recipe->bridge) {
        jail_plan_add(plan, JAIL_STEP_BRIDGE);
    }
    ADD(plan, CAPABILITIES, capabilities, .keep = 0);
    jail_plan_add(plan, JAIL_STEP_NO_NEW_PRIVS);
    jail_plan_add(plan, JAIL_STEP_PROGRAM);
    jail_plan_add(plan, JAIL_STEP_SESSION);
    ADD(plan, UMASK, umask, .mask = 022);
    ADD(plan, WORKDIR, workdir, .path = jail_plan_text(plan, "/work"));
    if (recipe->limited || recipe->limit.rlim_max > 0) {
        ADD(plan, RLIMIT, rlimit, .resource = (uint32_t)recipe->limited_resource,
            .soft = recipe->limit.rlim_cur, .hard = recipe->limit.rlim_max);
    }
    if (recipe->speculation) {
        ADD(plan, SPECULATION, speculation, .store_bypass = recipe->speculation,
            .indirect_branch = recipe->speculation, .core_sharing = recipe->speculation);
    }
    if (recipe->landlocked) {
        ADD(plan, LANDLOCK, landlock, .writable = jail_plan_text(plan, "/work"), .n_writable = 1,
            .devices = jail_plan_text(plan, "/dev/null"), .n_devices = 1, .abi = landlock_abi());
    }
    if (recipe->no_set_id) {
        jail_plan_add(plan, JAIL_STEP_NO_SET_ID);
    }
    if (recipe->bpf) {
        ADD(plan, SECCOMP, seccomp,
            .bpf = jail_plan_bytes(plan, recipe->bpf, recipe->bpf_length * sizeof *recipe->bpf, 8),
            .length = recipe->bpf_length, .notify = recipe->notify);
    }
    CLEANUP(buf_free) struct buf argv = BUF_INIT;
    const char *const words[] = {"sh", "-c", recipe->script};
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        buf_append(&argv, words[i], strlen(words[i]) + 1);
    }
    static const char environment[] = "PATH=/usr/bin:/bin";
    ADD(plan, EXEC, exec, .path = jail_plan_text(plan, recipe->exec_path ? recipe->exec_path : "/bin/sh"),
        .argv = jail_plan_bytes(plan, argv.data, argv.len, 1), .argc = ARRAY_SIZE(words),
        .envp = jail_plan_bytes(plan, environment, sizeof environment, 1), .envc = 1);
    return plan;
}

struct outcome {
    struct jail_result result;
    struct err err;
    char output[4096];
};

/* A launch under way. */
struct launch {
    struct jail *jail; /* NULL: jail_spawn() failed */
    int scratch, output;
    uint32_t outer_uid;
    int standard[3]; /* 0, 1 and 2, while they are closed */
    struct outcome outcome;
};

/* `cgroup` (NULL: none) is given away. */
static inline void launch_begin(void **state, const struct recipe *recipe, struct jail_cgroup *cgroup,
                                struct launch *launch)
{
    struct fixture *fixture = *state;
    memset(launch, 0, sizeof *launch);
    struct jail_plan *plan = make_plan(recipe);
    struct jail_spawn_options options = {
        .plan = plan, .cgroup = cgroup, .drop_groups = idmap_pool_mode(fixture->pool) == IDMAP_RANGE};
    assert_int_equal(idmap_take(fixture->pool, &options.outer_uid, &options.outer_gid), 0);
    launch->outer_uid = options.outer_uid;
    struct err err = {0};
    int pipes[2];
    if (scratch_open(SCRATCH_BYTES, 64, options.outer_uid, options.outer_gid, &launch->scratch, &err) < 0) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    launch->output = pipes[0];
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    options.fds[JAIL_FD_STDIN] = null;
    options.fds[JAIL_FD_STDOUT] = options.fds[JAIL_FD_STDERR] = pipes[1];
    options.fds[JAIL_FD_SCRATCH] = launch->scratch;
    options.fds[JAIL_FD_INPUT] = recipe->extra_fd ? recipe->extra_fd : -1;
    options.fds[JAIL_FD_BRIDGE_IN] = recipe->bridge ? recipe->bridge[0] : -1;
    options.fds[JAIL_FD_BRIDGE_OUT] = recipe->bridge ? recipe->bridge[1] : -1;
    options.fds[JAIL_FD_WORKSPACE] = -1;
    options.fds[JAIL_FD_IMAGE] = -1;
    for (size_t slot = JAIL_FD_BIND; slot <= JAIL_FD_BIND_LAST; slot++) {
        options.fds[slot] = -1;
    }
    for (int i = 0; i < 3 && recipe->without_standard_fds; i++) {
        launch->standard[i] = fcntl(i, F_DUPFD_CLOEXEC, 3);
        close(i);
    }
    if (jail_spawn(&launch->jail, &options, &launch->outcome.err) < 0) {
        launch->jail = NULL;
        launch->outcome.result.end = JAIL_END_SETUP;
    }
    close(pipes[1]);
    close(null);
    jail_plan_free(plan);
}

static inline void launch_end(void **state, struct launch *launch)
{
    struct fixture *fixture = *state;
    struct outcome *outcome = &launch->outcome;
    if (launch->jail) {
        while (jail_dispatch(launch->jail) != JAIL_ENDED) {
            jail_watch(launch->jail, launch->scratch);
            struct pollfd watched = {.fd = jail_fd(launch->jail), .events = POLLIN};
            poll(&watched, 1, JAIL_WATCH_INTERVAL_MS);
        }
        assert_int_equal(jail_collect(launch->jail, &outcome->result, &outcome->err), 0);
        jail_free(launch->jail);
    }
    for (int i = 0; i < 3; i++) {
        if (launch->standard[i] > 0) {
            dup2(launch->standard[i], i);
            close(launch->standard[i]);
        }
    }
    if (outcome->err.kind != ERR_NONE && getenv("SHOW_ERRORS")) {
        fprintf(stderr, "%s: %s\n", outcome->err.step, outcome->err.text);
    }
    ssize_t n = io_read_full(launch->output, outcome->output, sizeof outcome->output - 1);
    assert_true(n >= 0);
    close(launch->output);
    close(launch->scratch);
    idmap_give_back(fixture->pool, launch->outer_uid);
}

static inline struct outcome run(void **state, const struct recipe *recipe)
{
    struct launch launch;
    launch_begin(state, recipe, NULL, &launch);
    launch_end(state, &launch);
    return launch.outcome;
}
