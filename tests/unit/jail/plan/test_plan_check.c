/* jail/plan/plan_check.c: a plan that is in order passes; each way to break it is refused by its own
 * sentence. */
#include "tests/unit/jail/good_plan.h"

static struct jail_step *find(struct jail_plan *plan, enum jail_step_kind kind)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        if (plan->steps[i].kind == kind) {
            return &plan->steps[i];
        }
    }
    fail_msg("no step %s", jail_step_word(kind));
    return NULL;
}

static void remove_step(struct jail_plan *plan, enum jail_step_kind kind)
{
    struct jail_step *step = find(plan, kind);
    memmove(step, step + 1, (size_t)(plan->steps + plan->n_steps - (step + 1)) * sizeof *step);
    plan->n_steps--;
}

/* Takes the step of kind `moved` out and puts it right before or right behind the one of kind `there`. */
static void move_step(struct jail_plan *plan, enum jail_step_kind moved, enum jail_step_kind there,
                      bool behind)
{
    struct jail_step step = *find(plan, moved);
    remove_step(plan, moved);
    struct jail_step *at = find(plan, there) + (behind ? 1 : 0);
    memmove(at + 1, at, (size_t)(plan->steps + plan->n_steps - at) * sizeof *at);
    *at = step;
    plan->n_steps++;
}

static void test_good_plan_passes(void **state)
{
    (void)state;
    CLEANUP(plan_freep) struct jail_plan *plan = good_plan();
    struct err err = {0};
    int r = jail_plan_check(plan, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(r, 0);
}

static void test_counts(void **state)
{
    (void)state;
    static const struct {
        enum jail_step_kind kind;
        const char *words;
    } needed[] = {
        {JAIL_STEP_PROPAGATION, "cut off from the host's exactly once"},
        {JAIL_STEP_IDENTITY, "identity is taken exactly once"},
        {JAIL_STEP_ROOT, "exactly one root"},
        {JAIL_STEP_PIVOT, "exactly one pivot"},
        {JAIL_STEP_ROOT_READONLY, "read-only exactly once"},
        {JAIL_STEP_STDIO, "descriptors 0, 1 and 2"},
        {JAIL_STEP_CAPABILITIES, "capabilities are dropped exactly once"},
        {JAIL_STEP_NO_NEW_PRIVS, "no_new_privs is set exactly once"},
        {JAIL_STEP_PROGRAM, "process is made exactly once"},
        {JAIL_STEP_SESSION, "session is made exactly once"},
        {JAIL_STEP_EXEC, "exactly one exec"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
        CLEANUP(plan_freep) struct jail_plan *without = good_plan();
        remove_step(without, needed[i].kind);
        assert_refused(without, needed[i].words);

        CLEANUP(plan_freep) struct jail_plan *twice = good_plan();
        struct jail_step step = *find(twice, needed[i].kind);
        *jail_plan_add(twice, step.kind) = step;
        assert_refused(twice, needed[i].words);
    }
    static const enum jail_step_kind optional[] = {
        JAIL_STEP_LOOPBACK, JAIL_STEP_HOSTNAME, JAIL_STEP_SCRATCH,   JAIL_STEP_UMASK,    JAIL_STEP_WORKDIR,
        JAIL_STEP_SECCOMP,  JAIL_STEP_BRIDGE,   JAIL_STEP_WORKSPACE, JAIL_STEP_NO_SET_ID};
    for (size_t i = 0; i < ARRAY_SIZE(optional); i++) {
        CLEANUP(plan_freep) struct jail_plan *without = good_plan();
        remove_step(without, optional[i]);
        assert_int_equal(jail_plan_check(without, NULL), 0);

        CLEANUP(plan_freep) struct jail_plan *twice = good_plan();
        struct jail_step step = *find(twice, optional[i]);
        *jail_plan_add(twice, step.kind) = step;
        assert_refused(twice, "at most on");
    }
}

static void test_way_out(void **state)
{
    (void)state;
    CLEANUP(plan_freep) struct jail_plan *plan = good_plan();
    *jail_plan_add(plan, JAIL_STEP_EGRESS) = (struct jail_step){.kind = JAIL_STEP_EGRESS};
    move_step(plan, JAIL_STEP_EGRESS, JAIL_STEP_HOSTNAME, true);
    assert_int_equal(jail_plan_check(plan, NULL), 0);

    CLEANUP(plan_freep) struct jail_plan *early = good_plan();
    *jail_plan_add(early, JAIL_STEP_EGRESS) = (struct jail_step){.kind = JAIL_STEP_EGRESS};
    move_step(early, JAIL_STEP_EGRESS, JAIL_STEP_LOOPBACK, false);
    assert_refused(early, "lo is up before anything listens on it");

    remove_step(plan, JAIL_STEP_LOOPBACK);
    assert_refused(plan, "egress needs a network namespace whose lo is up");
}

static void test_order(void **state)
{
    (void)state;
    static const struct {
        enum jail_step_kind moved, there;
        bool behind;
        const char *words;
    } moves[] = {
        {JAIL_STEP_PROPAGATION, JAIL_STEP_ROOT, true, "propagation is cut before anything is mounted"},
        {JAIL_STEP_IDENTITY, JAIL_STEP_ROOT, true, "the identity comes before the root"},
        {JAIL_STEP_MKDIR, JAIL_STEP_ROOT, false, "before there is one"},
        {JAIL_STEP_BIND, JAIL_STEP_PIVOT, true, "nothing is mounted or made after the pivot"},
        {JAIL_STEP_FILE, JAIL_STEP_PIVOT, true, "nothing is mounted or made after the pivot"},
        {JAIL_STEP_SUBMOUNT, JAIL_STEP_SCRATCH, false, "the scratch is attached before its directories"},
        {JAIL_STEP_ROOT_READONLY, JAIL_STEP_PIVOT, false, "read-only after the pivot"},
        {JAIL_STEP_CAPABILITIES, JAIL_STEP_ROOT_READONLY, false, "after the last step that needs one"},
        {JAIL_STEP_HOSTNAME, JAIL_STEP_CAPABILITIES, true, "host name come before capabilities"},
        {JAIL_STEP_LOOPBACK, JAIL_STEP_CAPABILITIES, true, "network and host name come before"},
        {JAIL_STEP_NO_NEW_PRIVS, JAIL_STEP_CAPABILITIES, false,
         "capabilities are dropped before no_new_privs"},
        {JAIL_STEP_SECCOMP, JAIL_STEP_NO_NEW_PRIVS, false, "no_new_privs comes before Landlock and seccomp"},
        {JAIL_STEP_NO_SET_ID, JAIL_STEP_SECCOMP, true, "seccomp is last but exec"},
        {JAIL_STEP_NO_SET_ID, JAIL_STEP_NO_NEW_PRIVS, false, "no_new_privs comes before"},
        {JAIL_STEP_STDIO, JAIL_STEP_PROGRAM, true, "the bridge comes after stdio"},
        {JAIL_STEP_BRIDGE, JAIL_STEP_PROGRAM, true, "what PID 1 does stands before"},
        {JAIL_STEP_BRIDGE, JAIL_STEP_PIVOT, false, "the bridge comes after stdio"},
        {JAIL_STEP_NO_NEW_PRIVS, JAIL_STEP_PROGRAM, true, "what PID 1 does stands before"},
        {JAIL_STEP_RLIMIT, JAIL_STEP_PROGRAM, false, "stands behind its birth"},
        {JAIL_STEP_UMASK, JAIL_STEP_PROPAGATION, false, "stands behind its birth"},
        {JAIL_STEP_SECCOMP, JAIL_STEP_RLIMIT, false, "seccomp is last but exec"},
        {JAIL_STEP_EXEC, JAIL_STEP_SECCOMP, false, "exec is the last step"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(moves); i++) {
        CLEANUP(plan_freep) struct jail_plan *plan = good_plan();
        move_step(plan, moves[i].moved, moves[i].there, moves[i].behind);
        assert_refused(plan, moves[i].words);
    }
}

/* A plan in which everything that is mounted is mounted on an image. */
static struct jail_plan *image_plan(void)
{
    struct jail_plan *plan = good_plan();
    jail_ref path = jail_plan_text(plan, "/immure");
    jail_plan_add(plan, JAIL_STEP_IMAGE)->image.path = path;
    uint32_t first = 0;
    while (plan->steps[first].kind != JAIL_STEP_ROOT) {
        first++;
    }
    struct jail_step step = plan->steps[plan->n_steps - 1];
    memmove(&plan->steps[first + 2], &plan->steps[first + 1], (plan->n_steps - first - 2) * sizeof step);
    plan->steps[first + 1] = step;
    return plan;
}

static void test_image(void **state)
{
    (void)state;
    CLEANUP(plan_freep) struct jail_plan *plan = image_plan();
    struct err err = {0};
    jail_plan_check(plan, &err);
    assert_string_equal(err.text, "");

    CLEANUP(plan_freep) struct jail_plan *twice = image_plan();
    struct jail_step step = *find(twice, JAIL_STEP_IMAGE);
    *jail_plan_add(twice, step.kind) = step;
    assert_refused(twice, "there is at most one image");

    CLEANUP(plan_freep) struct jail_plan *early = image_plan();
    move_step(early, JAIL_STEP_IMAGE, JAIL_STEP_ROOT, false);
    assert_refused(early, "before there is one");
    CLEANUP(plan_freep) struct jail_plan *late = image_plan();
    move_step(late, JAIL_STEP_IMAGE, JAIL_STEP_BIND, true);
    assert_refused(late, "an image comes before everything that is mounted on it");

    static const char *const names[] = {
        "/a:b", "/a,b", "/a\\b", "/a/b", "a", "/", "/..", "", "/a-name-that-has-more-bytes-than-its-place"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        CLEANUP(plan_freep) struct jail_plan *named = image_plan();
        jail_ref path = jail_plan_text(named, names[i]);
        find(named, JAIL_STEP_IMAGE)->image.path = path;
        assert_true(jail_plan_check(named, NULL) < 0);
    }
}

/* Ways to break one thing in the good plan: a name, the kind of step that `step` points to, words of the
 * sentence that refuses it, and the statement that does it. */
#define BREAKS(X)                                                                                            \
    X(identity_uid, JAIL_STEP_IDENTITY, "the one that the id map maps", step->identity.uid = 1)              \
    X(identity_gid, JAIL_STEP_IDENTITY, "the one that the id map maps", step->identity.gid = 1)              \
    X(loopback, JAIL_STEP_LOOPBACK, "needs a network namespace",                                             \
      plan->namespaces &= ~(uint64_t)CLONE_NEWNET)                                                           \
    X(hostname_namespace, JAIL_STEP_HOSTNAME, "needs a UTS", plan->namespaces &= ~(uint64_t)CLONE_NEWUTS)    \
    X(hostname_empty, JAIL_STEP_HOSTNAME, "1 to 64 bytes", step->hostname.name = 0)                          \
    X(hostname_ref, JAIL_STEP_HOSTNAME, "inside the arena", step->hostname.name = plan->arena_size)          \
    X(root_size, JAIL_STEP_ROOT, "size and an inode limit", step->root.size_bytes = 0)                       \
    X(root_inodes, JAIL_STEP_ROOT, "size and an inode limit", step->root.inodes = 0)                         \
    X(mkdir_mode, JAIL_STEP_MKDIR, "permission bits", step->mkdir.mode = 04755)                              \
    X(path_relative, JAIL_STEP_MKDIR, "absolute", step->mkdir.path = jail_plan_text(plan, "usr"))            \
    X(path_empty, JAIL_STEP_MKDIR, "absolute", step->mkdir.path = 0)                                         \
    X(path_root, JAIL_STEP_MKDIR, "not a mount point", step->mkdir.path = jail_plan_text(plan, "/"))         \
    X(path_dotdot, JAIL_STEP_MKDIR, "'.' or '..'", step->mkdir.path = jail_plan_text(plan, "/usr/.."))       \
    X(path_dot, JAIL_STEP_MKDIR, "'.' or '..'", step->mkdir.path = jail_plan_text(plan, "/./usr"))           \
    X(path_double, JAIL_STEP_MKDIR, "empty part", step->mkdir.path = jail_plan_text(plan, "/usr//lib"))      \
    X(path_trailing, JAIL_STEP_MKDIR, "empty part", step->mkdir.path = jail_plan_text(plan, "/usr/"))        \
    X(path_outside, JAIL_STEP_MKDIR, "inside the arena", step->mkdir.path = UINT32_MAX)                      \
    X(path_open, JAIL_STEP_MKDIR, "inside the arena", step->mkdir.path = jail_plan_bytes(plan, "/x", 2, 1))  \
    X(bind_source, JAIL_STEP_BIND, "'.' or '..'", step->bind.source = jail_plan_text(plan, "/usr/../etc"))   \
    X(bind_suid, JAIL_STEP_BIND, "nosuid", step->bind.flags = JAIL_MOUNT_READONLY)                           \
    X(bind_flags, JAIL_STEP_BIND, "flags that its kind knows", step->bind.flags |= JAIL_PROC_HIDE)           \
    X(symlink_target, JAIL_STEP_SYMLINK, "has a target", step->symlink.target = 0)                           \
    X(symlink_below, JAIL_STEP_FILE, "below a symlink", step->file.path = jail_plan_text(plan, "/lib/x"))    \
    X(symlink_same, JAIL_STEP_FILE, "below a symlink", step->file.path = jail_plan_text(plan, "/lib"))       \
    X(file_mode, JAIL_STEP_FILE, "permission bits only", step->file.mode = 04555)                            \
    X(file_content, JAIL_STEP_FILE, "content lies inside", step->file.size_bytes = 1 << 24)                  \
    X(file_content_ref, JAIL_STEP_FILE, "content lies inside", step->file.content = UINT32_MAX)              \
    X(file_overflow, JAIL_STEP_FILE, "does not overflow", step->file.from_input = true,                      \
      step->file.offset = UINT64_MAX)                                                                        \
    X(tmpfs_size, JAIL_STEP_TMPFS, "size and an inode limit", step->tmpfs.size_bytes = 0)                    \
    X(tmpfs_mode, JAIL_STEP_TMPFS, "sticky bit only", step->tmpfs.mode = 02755)                              \
    X(tmpfs_devices, JAIL_STEP_TMPFS, "nodev", step->tmpfs.flags = JAIL_MOUNT_NOSUID)                        \
    X(proc_writable, JAIL_STEP_PROC, "proc is read-only",                                                    \
      step->proc.flags &= ~(uint32_t)JAIL_MOUNT_READONLY)                                                    \
    X(scratch_limits, JAIL_STEP_SCRATCH, "size and an inode limit", plan->limits.scratch_inodes = 0)         \
    X(scratch_readonly, JAIL_STEP_SCRATCH, "its kind knows", step->scratch.flags |= JAIL_MOUNT_READONLY)     \
    X(workspace_path, JAIL_STEP_WORKSPACE, "absolute", step->workspace.path = 0)                             \
    X(workspace_devices, JAIL_STEP_WORKSPACE, "nodev", step->workspace.flags = JAIL_MOUNT_NOSUID)            \
    X(workspace_flags, JAIL_STEP_WORKSPACE, "its kind knows", step->workspace.flags |= JAIL_PROC_HIDE)       \
    X(bind_given_low, JAIL_STEP_BIND, "one of the slots", step->bind.given = JAIL_FD_IMAGE)                  \
    X(bind_given_high, JAIL_STEP_BIND, "one of the slots", step->bind.given = JAIL_FD_COUNT)                 \
    X(submount_source, JAIL_STEP_SUBMOUNT, "absolute", step->submount.source = 0)                            \
    X(capability, JAIL_STEP_CAPABILITIES, "the kernel has", step->capabilities.keep = 1ull << 41)            \
    X(umask, JAIL_STEP_UMASK, "permission bits only", step->umask.mask = 01000)                              \
    X(workdir, JAIL_STEP_WORKDIR, "absolute", step->workdir.path = 0)                                        \
    X(rlimit_resource, JAIL_STEP_RLIMIT, "of the kernel", step->rlimit.resource = 16)                        \
    X(rlimit_order, JAIL_STEP_RLIMIT, "not above its hard", step->rlimit.hard = 1)                           \
    X(speculation, JAIL_STEP_SPECULATION, "insisted on", step->speculation.indirect_branch = 3)              \
    X(landlock_version, JAIL_STEP_LANDLOCK, "a version that we know", step->landlock.abi = 1)                \
    X(landlock_path, JAIL_STEP_LANDLOCK, "absolute", step->landlock.devices = 0)                             \
    X(landlock_count, JAIL_STEP_LANDLOCK, "inside the arena", step->landlock.n_writable = 60000)             \
    X(landlock_ref, JAIL_STEP_LANDLOCK, "inside the arena", step->landlock.writable = UINT32_MAX)            \
    X(seccomp_empty, JAIL_STEP_SECCOMP, "1 to 4096", step->seccomp.length = 0)                               \
    X(seccomp_long, JAIL_STEP_SECCOMP, "1 to 4096", step->seccomp.length = 4097)                             \
    X(seccomp_unaligned, JAIL_STEP_SECCOMP, "aligned", step->seccomp.bpf += 4)                               \
    X(seccomp_locks, JAIL_STEP_SECCOMP, "have a limit", step->seccomp.locks = JAIL_LOCK_FLOCK)               \
    X(seccomp_no_lock, JAIL_STEP_SECCOMP, "have a limit", step->seccomp.file_locks = 5)                      \
    X(seccomp_outside, JAIL_STEP_SECCOMP, "inside the arena", step->seccomp.length = 4096)                   \
    X(exec_path, JAIL_STEP_EXEC, "a path or a name", step->exec.path = 0)                                    \
    X(exec_no_args, JAIL_STEP_EXEC, "its own name", step->exec.argc = 0)                                     \
    X(exec_args, JAIL_STEP_EXEC, "inside the arena", step->exec.argc = 60000)                                \
    X(exec_environment, JAIL_STEP_EXEC, "inside the arena", step->exec.envp = plan->arena_size - 1,          \
      step->exec.envc = 2)                                                                                   \
    X(unknown_kind, JAIL_STEP_UMASK, "known kind", step->kind = JAIL_STEP_COUNT)                             \
    X(namespaces_few, JAIL_STEP_ROOT, "USER, MOUNT and PID", plan->namespaces &= ~(uint64_t)CLONE_NEWUSER)   \
    X(namespaces_other, JAIL_STEP_ROOT, "ones of clone3", plan->namespaces |= CLONE_VM)                      \
    X(uid_root, JAIL_STEP_ROOT, "not 0", plan->uid = 0)                                                      \
    X(gid_root, JAIL_STEP_ROOT, "not 0", plan->gid = 0)                                                      \
    X(memory, JAIL_STEP_ROOT, "at least 1 MiB", plan->limits.memory_bytes = 4096)                            \
    X(pids, JAIL_STEP_ROOT, "at most 4194304", plan->limits.pids = UINT64_MAX)                               \
    X(cpu, JAIL_STEP_ROOT, "100000 percent", plan->limits.cpu_percent = UINT32_MAX)                          \
    X(timeout, JAIL_STEP_ROOT, "at most a year", plan->limits.timeout_ms = UINT64_MAX)                       \
    X(cpu_time, JAIL_STEP_ROOT, "at most a year", plan->limits.cpu_ms = UINT64_MAX)                          \
    X(scratch_bytes, JAIL_STEP_ROOT, "signed 64-bit", plan->limits.scratch_bytes = UINT64_MAX)               \
    X(failed, JAIL_STEP_ROOT, "no allocation failed", plan->failed = true)                                   \
    X(no_steps, JAIL_STEP_ROOT, "1 to 4096 steps", plan->n_steps = 0)

#define X(name, step_kind, words, ...)                                                                       \
    static void test_break_##name(void **state)                                                              \
    {                                                                                                        \
        (void)state;                                                                                         \
        CLEANUP(plan_freep) struct jail_plan *plan = good_plan();                                            \
        struct jail_step *step = find(plan, step_kind);                                                      \
        __VA_ARGS__;                                                                                         \
        (void)step;                                                                                          \
        assert_refused(plan, words);                                                                         \
    }
BREAKS(X)
#undef X

static void test_rlimit_twice(void **state)
{
    (void)state;
    CLEANUP(plan_freep) struct jail_plan *plan = good_plan();
    jail_plan_add(plan, JAIL_STEP_UMASK);
    remove_step(plan, JAIL_STEP_UMASK);
    struct jail_step copy = *find(plan, JAIL_STEP_RLIMIT);
    plan->steps[plan->n_steps - 1] = copy;
    assert_refused(plan, "each resource limit is set once");
}

static void test_broken_step_is_named(void **state)
{
    (void)state;
    CLEANUP(plan_freep) struct jail_plan *plan = good_plan();
    find(plan, JAIL_STEP_BIND)->bind.flags = 0;
    struct err err = {0};
    jail_plan_check(plan, &err);
    assert_string_equal(err.step, "step 7 (bind /usr/lib)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_plan_passes),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_way_out),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_image),
#define X(name, step_kind, words, ...) cmocka_unit_test(test_break_##name),
        BREAKS(X)
#undef X
            cmocka_unit_test(test_rlimit_twice),
        cmocka_unit_test(test_broken_step_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
