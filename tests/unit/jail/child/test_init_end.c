/* How a program ended, as PID 1 tells it before it can wait for the program: the same as if it had waited,
 * and never where somebody else's CPU time would be missing. */
#include "tests/unit/jail/launch.h"

#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "jail/base/clock.h"
#include "jail/census.h"

#define ATTEMPTS    20
#define PATIENCE_MS 200 /* of the first; the second has twice as much, and so on */
#define EXITS       500
#define EXITS_MIN   50
#define EXITS_NS    (2 * NS_PER_S) /* more than the least number only within this time */

#define BURN "perl -e '$i=0; $i++ while times < 0.3'"

/* Has a listener, without which PID 1 can only wait. */
#define LISTENED(words) .script = (words), HEARS_MKDIR

/* Whether a listener hangs up when its last process has ended, or only when that has been waited for as well
 * (before Linux 6.11). */
static bool hangs_up_early(void)
{
    struct sock_fprog program = {.len = ARRAY_SIZE(hear_mkdir),
                                 .filter = (struct sock_filter *)(uintptr_t)hear_mkdir};
    int numbers[2];
    long listener = -1;
    siginfo_t ended;
    assert_int_equal(pipe(numbers), 0);
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
        _exit(write(numbers[1], &listener, sizeof listener) == sizeof listener ? 0 : 1);
    }
    assert_true(pid > 0);
    assert_int_equal(read(numbers[0], &listener, sizeof listener), sizeof listener);
    assert_true(listener >= 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT), 0);
    struct pollfd watched = {.fd = (int)listener, .events = POLLIN};
    bool early = poll(&watched, 1, 0) == 1;
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close((int)listener);
    close(numbers[0]);
    close(numbers[1]);
    return early;
}

static void test_wait_status_is_exact(void **state)
{
    static const int codes[] = {0, 1, 3, 125, 137, 255};
    static const int signals[] = {SIGSEGV, SIGABRT, SIGKILL, SIGTERM, SIGPIPE};
    char script[32];
    for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
        snprintf(script, sizeof script, "exit %d", codes[i]);
        struct outcome o = run(state, &(struct recipe){LISTENED(script)});
        assert_int_equal(o.result.end, JAIL_END_PROGRAM);
        assert_int_equal(o.result.wstatus, codes[i] << 8);
    }
    for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
        snprintf(script, sizeof script, "kill -%d $$", signals[i]);
        struct outcome o = run(state, &(struct recipe){LISTENED(script)});
        assert_int_equal(o.result.end, JAIL_END_PROGRAM);
        assert_int_equal(o.result.wstatus & ~WCOREFLAG, signals[i]);
    }
}

/* The outer PID of the program, once it is a process that sleeps beside PID 1. */
static pid_t program_of(struct jail *jail)
{
    for (;;) {
        CLEANUP(census_free) struct census census;
        assert_int_not_equal(jail_dispatch(jail), JAIL_ENDED);
        census_take(&census, jail_pid(jail));
        if (census.n == 2) {
            return census.processes[1].pid;
        }
        struct pollfd ready = {.fd = jail_fd(jail), .events = POLLIN};
        poll(&ready, 1, 1);
    }
}

/* Whether the verdict on a program came before anybody could wait for it: a process that we trace can be
 * waited for by its parent only when we have done so. PID 1 looks for a moment only, and a program that did
 * not get the processor in that moment is waited for after all. */
static bool ends_before_it_can_be_waited_for(void **state, const struct recipe *recipe, int expected,
                                             int patience_ms)
{
    struct launch launch;
    char line;
    int wstatus;
    launch_begin(state, recipe, NULL, &launch);
    pid_t program = program_of(launch.jail);
    assert_int_equal(read(launch.output, &line, 1), 1);
    assert_int_equal(ptrace(PTRACE_SEIZE, program, NULL, NULL), 0);
    assert_int_equal(kill(program, SIGTERM), 0);
    assert_int_equal(waitpid(program, &wstatus, __WALL), program); /* stopped by the signal, for us */
    assert_int_equal(ptrace(PTRACE_CONT, program, NULL, (void *)(intptr_t)SIGTERM), 0);
    uint64_t until_ns = clock_now_ns() + (unsigned)patience_ms * NS_PER_MS;
    while (jail_dispatch(launch.jail) != JAIL_ENDED && clock_now_ns() < until_ns) {
        struct pollfd ready = {.fd = jail_fd(launch.jail), .events = POLLIN};
        poll(&ready, 1, patience_ms);
    }
    bool early = jail_state(launch.jail) == JAIL_ENDED;
    assert_false(jail_is_gone(launch.jail));
    assert_int_equal(waitpid(program, &wstatus, __WALL), program);
    assert_int_equal(wstatus, expected);
    launch_end(state, &launch);
    assert_int_equal(launch.outcome.result.end, JAIL_END_PROGRAM);
    assert_int_equal(launch.outcome.result.wstatus, expected);
    return early;
}

static void test_the_verdict_does_not_wait_for_the_programs_memory(void **state)
{
    if (!hangs_up_early()) {
        skip(); /* PID 1 waits, as the other tests show */
    }
    static const struct {
        const char *script;
        int wstatus;
    } rows[] = {{"trap 'exit 7' TERM; echo; while :; do :; done", 7 << 8},
                {"echo; exec sleep 1000", SIGTERM}};
    /* Also in a jail whose plan has no /proc: PID 1 has one of its own. */
    for (size_t i = 0; i < 2 * ARRAY_SIZE(rows); i++) {
        const struct recipe recipe = {LISTENED(rows[i / 2].script), .without_proc = i % 2 == 1};
        bool early = false;
        for (int attempt = 1; !early && attempt <= ATTEMPTS; attempt++) {
            early =
                ends_before_it_can_be_waited_for(state, &recipe, rows[i / 2].wstatus, attempt * PATIENCE_MS);
        }
        assert_true(early);
    }
}

/* How it ended is read while it ends: what was not readable a moment before is not to be taken for success.
 */
static void test_no_failure_is_ever_a_success(void **state)
{
    char plain[128], hidden[128];
    snprintf(plain, sizeof plain, "exec perl -e 'syscall(%d, 3)'", SYS_exit);
    snprintf(hidden, sizeof hidden, "exec perl -e 'syscall(%d, %d, 0); syscall(%d, 3)'", SYS_prctl,
             PR_SET_DUMPABLE, SYS_exit);
    uint64_t until_ns = clock_now_ns() + EXITS_NS;
    for (int i = 0; i < EXITS && (i < EXITS_MIN || clock_now_ns() < until_ns); i++) {
        struct outcome o =
            run(state, &(struct recipe){LISTENED(i % 2 == 0 ? hidden : plain), .without_proc = i % 4 >= 2});
        assert_int_equal(o.result.end, JAIL_END_PROGRAM);
        assert_int_equal(o.result.wstatus, 3 << 8);
    }
}

static void test_cpu_time_of_all_is_counted(void **state)
{
    static const char *const scripts[] = {
        "exec " BURN,                                          /* the program's own */
        BURN "; exit 0",                                       /* of a child that it has waited for */
        "exec perl -e 'pipe R, W; if (fork) { close W; <R> } " /* of one that it has not */
        "else { $i++ while times < 0.3 }'",
    };
    for (size_t i = 0; i < 2 * ARRAY_SIZE(scripts); i++) {
        struct outcome o = run(state, &(struct recipe){LISTENED(scripts[i / 2]), .without_proc = i % 2 == 1});
        assert_int_equal(o.result.end, JAIL_END_PROGRAM);
        assert_int_equal(o.result.wstatus, 0);
        assert_in_range(o.result.cpu_ns / 1000000, 250, 19000); /* a busy host makes it more */
    }
}

static void test_others_that_run_are_ended_first(void **state)
{
    struct outcome o = run(state, &(struct recipe){LISTENED("setsid sleep 1000 & exit 4")});
    assert_int_equal(o.result.end, JAIL_END_PROGRAM);
    assert_int_equal(o.result.wstatus, 4 << 8);
    assert_true(o.result.duration_ns < 15 * NS_PER_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wait_status_is_exact),
        cmocka_unit_test(test_the_verdict_does_not_wait_for_the_programs_memory),
        cmocka_unit_test(test_no_failure_is_ever_a_success),
        cmocka_unit_test(test_cpu_time_of_all_is_counted),
        cmocka_unit_test(test_others_that_run_are_ended_first),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
