/* server/run/verdict.c: every way in which a jail can end, and the one verdict for it. */
#include "server/run/verdict.h"

#include <setjmp.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "jail/base/bpf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/jail.h"

#define EXITED(code) ((code) << 8)
#define SIGNALLED(n) (n)
#define DUMPED(n)    ((n) | 0x80)
#define NO_SENTENCE  NULL

static const struct verdict_case {
    const char *what;
    enum jail_end end;
    int wstatus;
    enum job_status status;
    int exit_code, signal;
    bool killed, oom;
    const char *sentence;
} cases[] = {
    {"exit 0", JAIL_END_PROGRAM, EXITED(0), JOB_SUCCESS, 0, 0, false, false, NO_SENTENCE},
    {"exit 1", JAIL_END_PROGRAM, EXITED(1), JOB_EXECUTION_ERROR, 1, 0, false, false, NO_SENTENCE},
    {"exit 3", JAIL_END_PROGRAM, EXITED(3), JOB_EXECUTION_ERROR, 3, 0, false, false, NO_SENTENCE},
    {"exit 125", JAIL_END_PROGRAM, EXITED(125), JOB_EXECUTION_ERROR, 125, 0, false, false, NO_SENTENCE},
    {"exit 137, which is no signal", JAIL_END_PROGRAM, EXITED(137), JOB_EXECUTION_ERROR, 137, 0, false, false,
     NO_SENTENCE},
    {"exit 255", JAIL_END_PROGRAM, EXITED(255), JOB_EXECUTION_ERROR, 255, 0, false, false, NO_SENTENCE},
    {"kill -9 of itself", JAIL_END_PROGRAM, SIGNALLED(SIGKILL), JOB_EXECUTION_ERROR, 137, SIGKILL, false,
     false, "The program was ended by SIGKILL."},
    {"segmentation fault", JAIL_END_PROGRAM, SIGNALLED(SIGSEGV), JOB_EXECUTION_ERROR, 139, SIGSEGV, false,
     false, "The program was ended by SIGSEGV."},
    {"abort with a core", JAIL_END_PROGRAM, DUMPED(SIGABRT), JOB_EXECUTION_ERROR, 134, SIGABRT, false, false,
     "The program was ended by SIGABRT."},
    {"a forbidden call", JAIL_END_PROGRAM, DUMPED(SIGSYS), JOB_EXECUTION_ERROR, 128 + SIGSYS, SIGSYS, false,
     false, "The program was ended by SIGSYS, a system call that the policy forbids."},
    {"a signal without a name", JAIL_END_PROGRAM, SIGNALLED(40), JOB_EXECUTION_ERROR, 168, 40, false, false,
     "The program was ended by SIG40."},
    {"deadline", JAIL_END_DEADLINE, 0, JOB_TIMEOUT, -1, 0, true, false,
     "Execution timed out after 30 seconds."},
    {"CPU time", JAIL_END_CPU, 0, JOB_EXECUTION_ERROR, 152, SIGXCPU, false, false,
     "CPU time limit of 1500 ms used up."},
    {"memory", JAIL_END_OOM, 0, JOB_OOM, 137, SIGKILL, false, true,
     "Memory limit of 1048576 bytes exceeded."},
    {"cancelled", JAIL_END_CANCEL, 0, JOB_CANCELLED, 137, SIGKILL, false, false, "Execution was cancelled."},
    {"setup", JAIL_END_SETUP, 0, JOB_SETUP_ERROR, -1, 0, false, false,
     "step 7 (bind /usr): Permission denied"},
    {"workspace", JAIL_END_WORKSPACE, 0, JOB_EXECUTION_ERROR, 153, SIGXFSZ, false, false,
     "The session's workspace Permission denied."},
    {"floor", JAIL_END_FLOOR, 0, JOB_OOM, 137, SIGKILL, false, true,
     "The host ran short of memory, and this job had grown most."},
    {"lost", JAIL_END_LOST, 0, JOB_EXECUTION_ERROR, 137, SIGKILL, false, false,
     "The jail was killed from outside."},
    {"no end at all", JAIL_END_NONE, 0, JOB_SETUP_ERROR, -1, 0, false, false,
     "step 7 (bind /usr): Permission denied"},
};

static const struct err setup_error = {
    .kind = ERR_SETUP, .code = 13, .step = "step 7 (bind /usr)", .text = "Permission denied"};

static struct job_result verdict_of(const struct jail_result *jail, uint64_t timeout_ms)
{
    struct job_result result = {
        .id = 5, .limits = {.timeout_ms = timeout_ms, .cpu_ms = 1500, .memory_bytes = 1 << 20}};
    assert_int_equal(verdict_from_jail(jail, &setup_error, &result), 0);
    return result;
}

static void test_every_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const struct verdict_case *c = &cases[i];
        const struct jail_result jail = {.end = c->end, .wstatus = c->wstatus};
        struct job_result result = verdict_of(&jail, 30000);
        print_message("%s\n", c->what);
        assert_int_equal(result.status, c->status);
        assert_int_equal(result.exit_code, c->exit_code);
        assert_int_equal(result.signal, c->signal);
        assert_int_equal(result.killed, c->killed);
        assert_int_equal(result.oom, c->oom);
        if (c->sentence) {
            assert_string_equal(result.error_text, c->sentence);
        } else {
            assert_null(result.error_text);
        }
        if (c->status == JOB_SETUP_ERROR) {
            assert_string_equal(result.step, "step 7 (bind /usr)");
        } else {
            assert_null(result.step);
        }
        assert_int_equal(result.id, 5);
        job_result_clear(&result);
    }
}

/* The wait status of a jail that did not end by its program must not leak into the verdict. */
static void test_wait_status_counts_only_for_the_program(void **state)
{
    (void)state;
    for (enum jail_end end = JAIL_END_NONE; end <= JAIL_END_LOST; end++) {
        if (end == JAIL_END_PROGRAM) {
            continue;
        }
        const struct jail_result calm = {.end = end}, odd = {.end = end, .wstatus = EXITED(77)};
        struct job_result a = verdict_of(&calm, 1000), b = verdict_of(&odd, 1000);
        assert_int_equal(a.exit_code, b.exit_code);
        assert_int_equal(a.signal, b.signal);
        assert_int_equal(a.status, b.status);
        job_result_clear(&a);
        job_result_clear(&b);
    }
}

static void test_seconds_in_words(void **state)
{
    (void)state;
    static const struct {
        uint64_t ms;
        const char *sentence;
    } times[] = {
        {30000, "Execution timed out after 30 seconds."},
        {1000, "Execution timed out after 1 seconds."},
        {1500, "Execution timed out after 1.5 seconds."},
        {1, "Execution timed out after 0.001 seconds."},
        {2050, "Execution timed out after 2.05 seconds."},
        {60010, "Execution timed out after 60.01 seconds."},
    };
    for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
        const struct jail_result jail = {.end = JAIL_END_DEADLINE};
        struct job_result result = verdict_of(&jail, times[i].ms);
        assert_string_equal(result.error_text, times[i].sentence);
        job_result_clear(&result);
    }
}

static void test_usage(void **state)
{
    (void)state;
    const struct jail_result jail = {.end = JAIL_END_PROGRAM,
                                     .setup_ns = 1,
                                     .duration_ns = 2,
                                     .cpu_ns = 3,
                                     .memory_peak_bytes = 4,
                                     .pids_peak = 5};
    struct job_result result = verdict_of(&jail, 1000);
    assert_true(result.has_cpu && result.has_memory_peak && result.has_pids_peak);
    assert_int_equal(result.setup_ns, 1);
    assert_int_equal(result.duration_ns, 2);
    assert_int_equal(result.cpu_ns, 3);
    assert_int_equal(result.memory_peak_bytes, 4);
    assert_int_equal(result.pids_peak, 5);
    job_result_clear(&result);
}

static void test_unknown_usage(void **state)
{
    (void)state;
    const struct jail_result jail = {
        .end = JAIL_END_PROGRAM, .memory_peak_bytes = UINT64_MAX, .pids_peak = UINT64_MAX};
    struct job_result result = verdict_of(&jail, 1000);
    assert_true(result.has_cpu);
    assert_false(result.has_memory_peak);
    assert_false(result.has_pids_peak);
    job_result_clear(&result);
}

static void test_setup_errors_have_no_usage(void **state)
{
    (void)state;
    const struct jail_result jail = {
        .end = JAIL_END_SETUP, .setup_ns = 9, .cpu_ns = 3, .memory_peak_bytes = 4};
    struct job_result result = verdict_of(&jail, 1000);
    assert_false(result.has_cpu || result.has_memory_peak || result.has_pids_peak);
    assert_int_equal(result.setup_ns, 9);
    job_result_clear(&result);
}

static void test_denied_calls_are_named(void **state)
{
    (void)state;
    struct jail_result jail = {.end = JAIL_END_PROGRAM, .denied.n_rows = 3};
    jail.denied.rows[0] = (struct jail_denied){.nr = SYS_mount, .arch = BPF_OUR_ARCHITECTURE, .count = 2};
    jail.denied.rows[1] = (struct jail_denied){.nr = 100000, .arch = BPF_OUR_ARCHITECTURE, .count = 1};
    jail.denied.rows[2] = (struct jail_denied){.nr = -1, .count = 7};
    struct job_result result = verdict_of(&jail, 1000);
    assert_int_equal(result.n_denied, 3);
    assert_string_equal(result.denied[0].name, "mount");
    assert_int_equal(result.denied[0].count, 2);
    assert_non_null(strstr(result.denied[1].name, "100000"));
    assert_string_equal(result.denied[2].name, "?");
    assert_int_equal(result.denied[2].count, 7);
    assert_null(result.hint);
    job_result_clear(&result);
}

/* Not one that was merely denied. */
static void test_the_call_that_ended_it_is_named(void **state)
{
    (void)state;
    struct jail_result jail = {.end = JAIL_END_PROGRAM, .wstatus = SIGSYS, .denied = {.n_calls = 2}};
    jail.denied.calls[0] =
        (struct jail_denied_call){.nr = SYS_mount, .arch = BPF_OUR_ARCHITECTURE, .count = 2};
    jail.denied.calls[1] = (struct jail_denied_call){
        .nr = SYS_unshare, .arch = BPF_OUR_ARCHITECTURE, .count = 1, .ended = 1, .args = {CLONE_NEWUSER}};
    struct job_result result = verdict_of(&jail, 1000);
    assert_string_equal(result.error_text, "The program was ended by SIGSYS, a system call that the policy "
                                           "forbids: unshare(CLONE_NEWUSER).");
    job_result_clear(&result);
}

/* Where arguments say more than the name; the hint is about each. */
static void test_denied_calls_are_told_apart(void **state)
{
    (void)state;
    struct jail_result jail = {.end = JAIL_END_PROGRAM, .denied = {.n_rows = 2, .n_calls = 3}};
    jail.denied.rows[0] = (struct jail_denied){.nr = SYS_ioctl, .arch = BPF_OUR_ARCHITECTURE, .count = 9};
    jail.denied.rows[1] = (struct jail_denied){.nr = SYS_mount, .arch = BPF_OUR_ARCHITECTURE, .count = 2};
    jail.denied.calls[0] = (struct jail_denied_call){
        .nr = SYS_ioctl, .arch = BPF_OUR_ARCHITECTURE, .count = 4, .args = {0, TIOCNOTTY}};
    jail.denied.calls[1] =
        (struct jail_denied_call){.nr = SYS_mount, .arch = BPF_OUR_ARCHITECTURE, .count = 2};
    jail.denied.calls[2] = (struct jail_denied_call){
        .nr = SYS_ioctl, .arch = BPF_OUR_ARCHITECTURE, .count = 1, .args = {0, 0x12345678}};
    struct job_result result = verdict_of(&jail, 1000);
    assert_int_equal(result.denied[0].n_calls, 2);
    assert_string_equal(result.denied[0].calls[0].call, "ioctl(TIOCNOTTY)");
    assert_int_equal(result.denied[0].calls[0].count, 4);
    assert_string_equal(result.denied[0].calls[1].call, "ioctl(0x12345678)");
    assert_int_equal(result.denied[1].n_calls, 0);
    assert_non_null(strstr(result.hint, "denied ioctl(TIOCNOTTY), 4 times; "));
    assert_non_null(strstr(result.hint, "denied mount, 2 times; no policy should allow it: "));
    job_result_clear(&result);
}

static void test_a_jail_that_never_was(void **state)
{
    (void)state;
    struct job_result result = {.id = 1};
    assert_int_equal(verdict_from_setup_error(&setup_error, &result), 0);
    assert_int_equal(result.status, JOB_SETUP_ERROR);
    assert_int_equal(result.exit_code, -1);
    assert_string_equal(result.step, "step 7 (bind /usr)");
    assert_string_equal(result.error_text, "step 7 (bind /usr): Permission denied");
    job_result_clear(&result);
}

static void test_a_setup_error_without_a_step(void **state)
{
    (void)state;
    const struct err err = {.kind = ERR_SETUP, .text = "clone3 into new namespaces: No space left on device"};
    struct job_result result = {.id = 1};
    assert_int_equal(verdict_from_setup_error(&err, &result), 0);
    assert_null(result.step);
    assert_string_equal(result.error_text, err.text);
    job_result_clear(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_end),
        cmocka_unit_test(test_wait_status_counts_only_for_the_program),
        cmocka_unit_test(test_seconds_in_words),
        cmocka_unit_test(test_usage),
        cmocka_unit_test(test_unknown_usage),
        cmocka_unit_test(test_setup_errors_have_no_usage),
        cmocka_unit_test(test_denied_calls_are_named),
        cmocka_unit_test(test_denied_calls_are_told_apart),
        cmocka_unit_test(test_the_call_that_ended_it_is_named),
        cmocka_unit_test(test_a_jail_that_never_was),
        cmocka_unit_test(test_a_setup_error_without_a_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
