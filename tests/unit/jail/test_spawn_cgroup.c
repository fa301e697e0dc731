/* Jails in cgroups: the verdicts and figures that only the kernel's controllers give, and what is left behind
 * (nothing). Needs a delegated cgroup2 subtree with all controllers; with IMMURE_TEST_CGROUP=REQUIRED nothing
 * is skipped. */
#include "tests/unit/jail/launch.h"

#include <sys/file.h>

#include "jail/resources/cgroup.h"
#include "jail/resources/cgroup_tree.h"

static struct jail_cgroup_tree *tree; /* of the running test */

static int enter_tree(void **state)
{
    struct err err = {0};
    if (set_up(state) < 0) {
        return -1;
    }
    /* Not beside another test program of this kind, whose cgroups would be counted here. */
    int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 || flock(root, LOCK_EX) < 0) {
        return -1;
    }
    const char *required = getenv("IMMURE_TEST_CGROUP");
    if (jail_cgroup_tree_open(&tree, NULL, &err) < 0) {
        print_message("%s: %s\n", required ? "failed" : "skipped", err.text);
        return required && strcmp(required, "REQUIRED") == 0 ? -1 : 0;
    }
    return 0;
}

static int leave_tree(void **state)
{
    (void)state;
    jail_cgroup_tree_free(tree);
    return 0;
}

static struct jail_cgroup *new_cgroup(const struct jail_limits *limits)
{
    struct jail_cgroup *cgroup = NULL;
    struct err err = {0};
    if (!tree) {
        skip();
    }
    if (jail_cgroup_new(tree, limits, &cgroup, &err) < 0) {
        fail_msg("%s", err.text);
    }
    return cgroup;
}

static size_t count_jobs(void)
{
    DIR *dir = opendir(jail_cgroup_tree_path(tree));
    assert_non_null(dir);
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        count += strncmp(entry->d_name, "job-", 4) == 0;
    }
    closedir(dir);
    return count;
}

static struct outcome run_in(void **state, const struct recipe *recipe, const struct jail_limits *limits)
{
    struct launch launch;
    launch_begin(state, recipe, new_cgroup(limits), &launch);
    launch_end(state, &launch);
    assert_int_equal(count_jobs(), 0);
    return launch.outcome;
}

static void assert_exited(const struct outcome *o, int code)
{
    assert_string_equal(o->err.text, "");
    assert_int_equal(o->result.end, JAIL_END_PROGRAM);
    assert_true(WIFEXITED(o->result.wstatus));
    assert_int_equal(WEXITSTATUS(o->result.wstatus), code);
}

#define MEMORY_BYTES (48ull << 20)
#define HOG          "perl -e '$n = 4096; push @a, \"x\" x $n while 1'"

static void test_oom(void **state)
{
    const struct jail_limits limits = {.memory_bytes = MEMORY_BYTES, .pids = 32};
    static const char *const scripts[] = {
        "exec " HOG,                      /* the program itself */
        HOG "; exit 0",                   /* a child of it: the whole job ends, nobody carries on */
        "(setsid " HOG " &) ; sleep 100", /* one that it has let go of */
        "cat /dev/zero > /tmp/x & exec " HOG,
    };
    /* The file pages that a first run reads in would be this job's, and the kernel would rather read them
     * again and again from a slow disk than say that memory has run out. */
    run_in(state, &(struct recipe){.script = "perl -e 1; cat /dev/null; setsid true; sleep 0"},
           &(struct jail_limits){0});
    for (size_t i = 0; i < ARRAY_SIZE(scripts); i++) {
        struct outcome o =
            run_in(state, &(struct recipe){.script = scripts[i], .timeout_ms = 120000}, &limits);
        assert_string_equal(o.err.text, "");
        assert_int_equal(o.result.end, JAIL_END_OOM);
        if (o.result.memory_peak_bytes != UINT64_MAX) {
            assert_in_range(o.result.memory_peak_bytes, MEMORY_BYTES * 9 / 10, MEMORY_BYTES);
        }
    }
}

/* What is written to the scratch is the job's memory. */
static void test_scratch_counts_as_memory(void **state)
{
    struct outcome o = run_in(state,
                              &(struct recipe){.script = "perl -e '$n = 1 << 20; $x = \"x\" x $n; open F, "
                                                         "\">/work/f\"; print F $x; close F'"},
                              &(struct jail_limits){.memory_bytes = MEMORY_BYTES});
    assert_exited(&o, 0);
}

/* Whoever sends itself the OOM killer's signal has not run out of memory. */
static void test_other_ends_are_not_oom(void **state)
{
    const struct jail_limits limits = {.memory_bytes = MEMORY_BYTES, .pids = 32};
    struct outcome o = run_in(state, &(struct recipe){.script = "kill -KILL $$"}, &limits);
    assert_int_equal(o.result.end, JAIL_END_PROGRAM);
    assert_true(WIFSIGNALED(o.result.wstatus) && WTERMSIG(o.result.wstatus) == SIGKILL);
    o = run_in(state, &(struct recipe){.script = "sleep 100", .timeout_ms = 100}, &limits);
    assert_int_equal(o.result.end, JAIL_END_DEADLINE);
    o = run_in(state, &(struct recipe){.script = "exit 137"}, &limits);
    assert_exited(&o, 137);
}

/* A parent with oom_score_adj -1000 must not have handed that on. */
static void test_oom_of_a_spared_parent(void **state)
{
    struct jail_cgroup *cgroup = new_cgroup(&(struct jail_limits){.memory_bytes = MEMORY_BYTES});
    struct buf before = BUF_INIT;
    assert_int_equal(io_read_file_at(AT_FDCWD, "/proc/self/oom_score_adj", 64, &before), 0);
    if (io_write_file_at(AT_FDCWD, "/proc/self/oom_score_adj", "-1000") < 0) {
        print_message("an ordinary user cannot be spared by the OOM killer\n");
    }
    struct launch launch;
    launch_begin(state, &(struct recipe){.script = "exec " HOG, .timeout_ms = 60000}, cgroup, &launch);
    launch_end(state, &launch);
    assert_int_equal(io_write_file_at(AT_FDCWD, "/proc/self/oom_score_adj", before.data), 0);
    buf_free(&before);
    assert_int_equal(launch.outcome.result.end, JAIL_END_OOM);
}

/* Too little memory to become a program at all: the limit ended it, and no step failed. */
static void test_oom_while_building(void **state)
{
    struct outcome o =
        run_in(state, &(struct recipe){.script = "true"}, &(struct jail_limits){.memory_bytes = 64 << 10});
    assert_int_equal(o.result.end, JAIL_END_OOM);
}

static void test_figures(void **state)
{
    static const char script[] = "sleep 100 & sleep 100 & "
                                 "perl -e '$n = 20 << 20; $x = \"x\" x $n; $i++ while times < 0.3'";
    struct outcome o = run_in(state, &(struct recipe){.script = script},
                              &(struct jail_limits){.memory_bytes = 200 << 20, .pids = 32});
    assert_exited(&o, 0);
    assert_in_range(o.result.cpu_ns / 1000000, 280, 20000);
    if (o.result.memory_peak_bytes != UINT64_MAX) {
        assert_in_range(o.result.memory_peak_bytes, 20 << 20, 100 << 20);
    }
    if (o.result.pids_peak != UINT64_MAX) {
        assert_int_equal(o.result.pids_peak, 4); /* sh, two sleeps, perl; not PID 1 */
    }
}

/* `pids` is how many the program may have, itself included. */
static void test_pids(void **state)
{
    static const char script[] =
        "exec perl -e 'while (defined($p = fork)) { if (!$p) { sleep 100; exit } $n++ } print $n'";
    struct outcome o = run_in(state, &(struct recipe){.script = script}, &(struct jail_limits){.pids = 7});
    assert_exited(&o, 0);
    assert_string_equal(o.output, "6");
    if (o.result.pids_peak != UINT64_MAX) {
        assert_int_equal(o.result.pids_peak, 7);
    }
}

static void test_fork_bomb(void **state)
{
    struct outcome o = run_in(state, &(struct recipe){.script = "perl -e 'fork while 1'", .timeout_ms = 500},
                              &(struct jail_limits){.pids = 30, .memory_bytes = 256 << 20});
    assert_int_equal(o.result.end, JAIL_END_DEADLINE);
}

static void test_cpu_time(void **state)
{
    struct outcome o = run_in(state, &(struct recipe){.script = "while :; do :; done", .cpu_ms = 200},
                              &(struct jail_limits){.pids = 30});
    assert_int_equal(o.result.end, JAIL_END_CPU);
    assert_in_range(o.result.cpu_ns / 1000000, 200, 19000);
    /* Half a CPU; a machine that stands still for a moment notices late that it is used up. */
    bool halved = false;
    for (int i = 0; i < 5 && !halved; i++) {
        o = run_in(state, &(struct recipe){.script = "while :; do :; done", .timeout_ms = 2000},
                   &(struct jail_limits){.cpu_percent = 50});
        assert_int_equal(o.result.end, JAIL_END_DEADLINE);
        assert_true(o.result.cpu_ns > 0);
        halved = o.result.cpu_ns <= o.result.duration_ns / 4 * 3;
    }
    assert_true(halved);
}

static void test_cgroup_namespace(void **state)
{
    struct outcome o =
        run_in(state, &(struct recipe){.script = "cat /proc/self/cgroup"}, &(struct jail_limits){.pids = 3});
    assert_string_equal(o.output, "0::/\n");
}

static void test_failed_step_leaves_no_cgroup(void **state)
{
    struct outcome o = run_in(state, &(struct recipe){.script = "true", .bind_source = "/nowhere"},
                              &(struct jail_limits){.pids = 3});
    assert_int_equal(o.result.end, JAIL_END_SETUP);
    assert_non_null(strstr(o.err.step, "bind"));
}

/* The kernel refuses this clone after it has already handed out a pidfd's number. */
static void test_clone_refused_by_a_limit_above(void **state)
{
    struct jail_cgroup *cgroup = new_cgroup(&(struct jail_limits){.pids = 3});
    int dir = open(jail_cgroup_tree_path(tree), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(io_write_file_at(dir, "pids.max", "1"), 0);
    struct launch launch;
    launch_begin(state, &(struct recipe){.script = "true"}, cgroup, &launch);
    assert_int_equal(io_write_file_at(dir, "pids.max", "max"), 0);
    close(dir);
    assert_null(launch.jail);
    assert_int_equal(launch.outcome.err.code, EAGAIN);
    assert_non_null(strstr(launch.outcome.err.text, "clone3"));
    launch_end(state, &launch);
    assert_int_equal(count_jobs(), 0);
}

#define MANY 100

static void test_many_at_once_share_nothing(void **state)
{
    if (!tree) {
        skip(); /* which frees nothing */
    }
    struct launch *launches = calloc(MANY, sizeof *launches);
    assert_non_null(launches);
    for (size_t i = 0; i < MANY; i++) {
        struct jail_cgroup *cgroup = new_cgroup(&(struct jail_limits){.memory_bytes = 64 << 20, .pids = 5});
        char script[256];
        snprintf(
            script, sizeof script,
            "ls /work /tmp /dev/shm 2>/dev/null | grep -v : | grep . ; echo %zu > /work/mine; ls /proc | "
            "grep -c '^[0-9]'; cat /work/mine; exit %zu",
            i, i);
        launch_begin(state, &(struct recipe){.script = script, .timeout_ms = 300000}, cgroup, &launches[i]);
        for (size_t n = 0; n < i && geteuid() == 0; n++) {
            assert_int_not_equal(launches[n].outer_uid, launches[i].outer_uid);
        }
    }
    for (size_t i = 0; i < MANY; i++) {
        launch_end(state, &launches[i]);
        assert_exited(&launches[i].outcome, (int)i);
        char expected[64];
        snprintf(expected, sizeof expected, "3\n%zu\n", i); /* sh, ls, grep */
        assert_string_equal(launches[i].outcome.output, expected);
    }
    assert_int_equal(count_jobs(), 0);
    free(launches);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oom),
        cmocka_unit_test(test_scratch_counts_as_memory),
        cmocka_unit_test(test_other_ends_are_not_oom),
        cmocka_unit_test(test_oom_of_a_spared_parent),
        cmocka_unit_test(test_oom_while_building),
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_pids),
        cmocka_unit_test(test_fork_bomb),
        cmocka_unit_test(test_cpu_time),
        cmocka_unit_test(test_cgroup_namespace),
        cmocka_unit_test(test_failed_step_leaves_no_cgroup),
        cmocka_unit_test(test_clone_refused_by_a_limit_above),
        cmocka_unit_test(test_many_at_once_share_nothing),
    };
    return cmocka_run_group_tests(tests, enter_tree, leave_tree);
}
