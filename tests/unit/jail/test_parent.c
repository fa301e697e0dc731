/* Circumstances of the parent: what it was started with must not change a verdict or reach the program, and
 * when it is killed, at whatever moment, its jails are gone with it. */
#include "tests/unit/jail/launch.h"

#include <sys/prctl.h>

#include "jail/base/clock.h"

static void assert_exited(const struct outcome *o, int code)
{
    assert_string_equal(o->err.text, "");
    assert_int_equal(o->result.end, JAIL_END_PROGRAM);
    assert_true(WIFEXITED(o->result.wstatus));
    assert_int_equal(WEXITSTATUS(o->result.wstatus), code);
}

/* Whoever ignores SIGCHLD hands that on through exec, and is never told of an end. */
static void test_ignored_sigchld(void **state)
{
    signal(SIGCHLD, SIG_IGN);
    struct outcome o = run(state, &(struct recipe){.script = "exit 3"});
    signal(SIGCHLD, SIG_DFL);
    assert_exited(&o, 3);
}

/* What the parent ignores or blocks, the program does not. */
static void test_signal_dispositions(void **state)
{
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGRTMIN, SIG_IGN);
    struct outcome o = run(state, &(struct recipe){.script = "sed -n '/^Sig[BI]/p' /proc/self/status"});
    signal(SIGPIPE, SIG_DFL);
    signal(SIGRTMIN, SIG_DFL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    assert_string_equal(o.output, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

static void test_closed_standard_descriptors(void **state)
{
    struct outcome o = run(state, &(struct recipe){.script = "cat; echo out; echo err >&2; exit 3",
                                                   .loopback = true,
                                                   .without_standard_fds = true});
    assert_exited(&o, 3);
    assert_string_equal(o.output, "out\nerr\n");
}

/* Wherever the parent's descriptors happen to lie, the program's are 0 to 4 and nothing else. */
static void test_bridge(void **state)
{
    static const char script[] = "read word <&3; echo $word back >&4; echo out; ls /proc/self/fd";
    for (int taken = 0; taken < 2; taken++) {
        int in[2], out[2];
        char answer[32] = "";
        assert_int_equal(pipe2(in, O_CLOEXEC), 0);
        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
        assert_int_equal(write(in[1], "there\n", 6), 6);
        struct outcome o = run(state, &(struct recipe){.script = script,
                                                       .bridge = (const int[]){in[0], out[1]},
                                                       .without_standard_fds = taken});
        assert_exited(&o, 0);
        assert_string_equal(o.output, "out\n0\n1\n2\n3\n4\n5\n");
        close(out[1]);
        assert_int_equal(read(out[0], answer, sizeof answer - 1), 11);
        assert_string_equal(answer, "there back\n");
        const int ours[] = {in[0], in[1], out[0]};
        for (size_t i = 0; i < ARRAY_SIZE(ours); i++) {
            close(ours[i]);
        }
    }
}

static void test_descriptors_without_close_on_exec(void **state)
{
    int given = open("/dev/null", O_RDONLY); /* NOLINT: that it is not close-on-exec is the point */
    int other = open("/dev/null", O_RDONLY);
    struct outcome o = run(state, &(struct recipe){.script = "ls /proc/self/fd", .extra_fd = given});
    close(given);
    close(other);
    assert_string_equal(o.output, "0\n1\n2\n3\n");
}

/* Out of descriptors at each point of a launch: an error, and nothing left. */
static void test_launch_that_cannot_clone(void **state)
{
    struct rlimit before, none;
    getrlimit(RLIMIT_NOFILE, &before);
    /* No descriptor is left for the pidfd, the last one that a launch needs. */
    for (rlim_t room = 3; room < 40; room++) {
        none = before;
        none.rlim_cur = room;
        int scratch = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (room <= (rlim_t)scratch) {
            close(scratch);
            continue;
        }
        struct jail_plan *plan = make_plan(&(struct recipe){.script = "true"});
        struct jail_spawn_options options = {.plan = plan, .outer_uid = 1, .outer_gid = 1};
        for (size_t i = 0; i < JAIL_FD_COUNT; i++) {
            options.fds[i] = scratch;
        }
        struct err err = {0};
        struct jail *jail = NULL;
        setrlimit(RLIMIT_NOFILE, &none);
        int r = jail_spawn(&jail, &options, &err);
        if (r == 0) {
            jail_free(jail);
        }
        setrlimit(RLIMIT_NOFILE, &before);
        jail_plan_free(plan);
        close(scratch);
        if (r < 0) {
            assert_true(err_is_set(&err));
        }
    }
    (void)state;
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

/* Processes that lie in another PID namespace than ours: those of jails. */
static unsigned count_jailed(void)
{
    char ours[64], path[300], theirs[64];
    ssize_t length = readlink("/proc/self/ns/pid", ours, sizeof ours);
    assert_in_range(length, 1, sizeof ours);
    CLEANUP(dir_closep) DIR *proc = opendir("/proc");
    assert_non_null(proc);
    unsigned count = 0;
    for (struct dirent *entry; (entry = readdir(proc));) {
        snprintf(path, sizeof path, "/proc/%s/ns/pid", entry->d_name);
        ssize_t n = readlink(path, theirs, sizeof theirs);
        count += n > 0 && (n != length || memcmp(ours, theirs, (size_t)n) != 0);
    }
    return count;
}

static void be_a_parent(void **state, int ready)
{
    struct launch launches[3];
    if (write(ready, "x", 1) != 1) {
        _exit(1);
    }
    for (;;) {
        for (size_t i = 0; i < ARRAY_SIZE(launches); i++) {
            launch_begin(state, &(struct recipe){.script = "(setsid sleep 100 &); exec sleep 0.01"}, NULL,
                         &launches[i]);
        }
        for (size_t i = 0; i < ARRAY_SIZE(launches); i++) {
            launch_end(state, &launches[i]);
        }
    }
}

/* Every orphan of a killed parent comes to us (PR_SET_CHILD_SUBREAPER): waiting for all of them ends only if
 * all of them end. */
static void test_killed_parent(void **state)
{
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    srand48((long)clock_now_ns());
    unsigned found_jails = 0;
    long moment_ms_max = 12; /* more where that is too short to make a jail half of the time */
    for (int i = 0; i < 200; i++) {
        int ready[2];
        assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
        pid_t parent = fork();
        if (parent == 0) {
            be_a_parent(state, ready[1]);
        }
        close(ready[1]);
        char byte;
        assert_int_equal(read(ready[0], &byte, 1), 1);
        close(ready[0]);
        /* The moment is the test's input, not something to wait for. */
        nanosleep(&(struct timespec){.tv_nsec = lrand48() % (moment_ms_max * (long)NS_PER_MS)}, NULL);
        found_jails += count_jailed() > 0;
        moment_ms_max += found_jails < (unsigned)i / 2;
        assert_int_equal(kill(parent, SIGKILL), 0);
        alarm(60); /* a jail that lives on is a failure, not a test that never ends */
        while (waitpid(-1, NULL, __WALL) > 0) {
        }
        alarm(0);
    }
    assert_true(found_jails > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ignored_sigchld),
        cmocka_unit_test(test_signal_dispositions),
        cmocka_unit_test(test_closed_standard_descriptors),
        cmocka_unit_test(test_bridge),
        cmocka_unit_test(test_descriptors_without_close_on_exec),
        cmocka_unit_test(test_launch_that_cannot_clone),
        cmocka_unit_test(test_killed_parent),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
