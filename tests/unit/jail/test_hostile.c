/* Programs that mean harm: to PID 1 of their jail, to their verdict, to the process that watches them. Each
 * test is one attack; what holds is that the verdict stays exact and the jail ends. */
#include "jail/base/bpf.h"
#include "tests/unit/jail/launch.h"

#include <linux/seccomp.h>
#include <sys/syscall.h>

static void assert_exited(const struct outcome *o, int code)
{
    assert_string_equal(o->err.text, "");
    assert_int_equal(o->result.end, JAIL_END_PROGRAM);
    assert_true(WIFEXITED(o->result.wstatus));
    assert_int_equal(WEXITSTATUS(o->result.wstatus), code);
}

/* ptrace(PTRACE_TRACEME) makes the parent, PID 1, the tracer, and then every signal is a stop that PID 1 is
 * told of by the same wait as of an end. */
#define TRACE_ME "exec perl -e 'syscall(" NUMBER_TEXT(SYS_ptrace) ", 0, 0, 0, 0) == 0 or exit 9; "

static void test_traced_program_has_not_ended(void **state)
{
    struct outcome o =
        run(state, &(struct recipe){.script = TRACE_ME "$SIG{USR1} = sub { $seen = 1 }; kill \"USR1\", $$; "
                                                       "exit($seen ? 5 : 6)'"});
    assert_exited(&o, 5);
    o = run(state, &(struct recipe){.script = TRACE_ME "exec \"sh\", \"-c\", \"exit 7\"'"});
    assert_exited(&o, 7);
    o = run(state, &(struct recipe){.script = TRACE_ME "kill \"TERM\", $$'"});
    assert_int_equal(o.result.end, JAIL_END_PROGRAM);
    assert_true(WIFSIGNALED(o.result.wstatus));
    assert_int_equal(WTERMSIG(o.result.wstatus), SIGTERM);
}

static void test_signals_do_not_reach_init(void **state)
{
    struct outcome o = run(
        state, &(struct recipe){.script = "for s in KILL STOP TERM INT SEGV ABRT CHLD USR1; do kill -$s 1; "
                                          "done; kill -KILL -1; exit 6"});
    assert_exited(&o, 6);
}

static void test_stopped_program_meets_its_deadline(void **state)
{
    struct outcome o = run(state, &(struct recipe){.script = "kill -STOP $$", .timeout_ms = 100});
    assert_int_equal(o.result.end, JAIL_END_DEADLINE);
}

/* PID 1 has the program's uid, so the program may lower its limits. That ends the jail and nothing else. It
 * is kept busy, on a busy machine too, until it has used up the second of processor time that is left to it.
 */
static void test_limits_put_on_init_end_the_jail_alone(void **state)
{
    struct outcome o =
        run(state, &(struct recipe){.script = "exec perl -e '$l = pack(\"QQ\", 0, 0); syscall(" NUMBER_TEXT(
                                        SYS_prlimit64) ", 1, 0, $l, 0); "
                                                       "fork for 1 .. 3; mkdir \"/work/x\" while 1'",
                                    HEARS_MKDIR,
                                    .timeout_ms = 120000});
    /* If PID 1 was gone before it could say that there is a program, nobody outside knows of one. */
    assert_true(o.result.end == JAIL_END_LOST || o.result.end == JAIL_END_SETUP);
}

/* Orphans that die faster than they can be buried must neither hide the program's own end nor keep its
 * refused calls from being answered. */
static void test_flood_of_orphans(void **state)
{
    static const char script[] =
        "exec perl -e 'sub f { my $p = fork; defined $p ? $p : -1 }"
        "for (1 .. 20) { if (f() == 0) { while (1) { if (f() == 0) { f(); exit 0 } } } }"
        "mkdir \"/work/x\" for 1 .. 500; exit 8'";
    struct outcome o = run(state, &(struct recipe){.script = script,
                                                   .timeout_ms = 120000,
                                                   HEARS_MKDIR,
                                                   .limited_resource = RLIMIT_NPROC,
                                                   .limit = {200, 200}});
    assert_exited(&o, 8);
    assert_int_equal(o.result.denied.n_rows, 1);
    assert_int_equal(o.result.denied.rows[0].count, 500);
}

/* The kernel would not say which call it was: PID 1 does. Any process of the jail, any thread. */
static void test_who_makes_a_forbidden_call_is_ended(void **state)
{
    static const struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 1000, 0, 3),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 2000, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, BPF_ANSWER_END),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct recipe recipe = {.script = "exec perl -e 'syscall(1001); syscall(2002); print \"on\"'",
                            .timeout_ms = 120000,
                            .bpf = filter,
                            .bpf_length = ARRAY_SIZE(filter),
                            .notify = true};
    struct outcome o = run(state, &recipe);
    assert_int_equal(o.result.end, JAIL_END_PROGRAM);
    assert_true(WIFSIGNALED(o.result.wstatus));
    assert_int_equal(WTERMSIG(o.result.wstatus), SIGSYS);
    assert_null(strstr(o.output, "on"));
    assert_int_equal(o.result.denied.n_rows, 2);
    assert_int_equal(o.result.denied.calls[0].nr, 1001);
    assert_int_equal(o.result.denied.calls[0].ended, 0);
    assert_int_equal(o.result.denied.calls[1].nr, 2002);
    assert_int_equal(o.result.denied.calls[1].ended, 1);
    /* Of a child, its parent sees who did it. And a program that is killed otherwise has not been. */
    recipe.script = "perl -e 'syscall(2000)'; [ $? = 137 ] && exec perl -e 'kill 9, $$; sleep 60'";
    o = run(state, &recipe);
    assert_int_equal(WTERMSIG(o.result.wstatus), SIGKILL);
    assert_int_equal(o.result.denied.calls[0].ended, 1);
    /* More different ones than are told: this one is. */
    recipe.script = "exec perl -e 'syscall(1000 + $_) for 0 .. 99; syscall(3000)'";
    o = run(state, &recipe);
    assert_int_equal(WTERMSIG(o.result.wstatus), SIGSYS);
    assert_int_equal(o.result.denied.calls[JAIL_DENIED_CALLS_MAX - 1].nr, 3000);
}

static void test_flood_of_denied_calls_is_counted_exactly(void **state)
{
    static const struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 1000, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    /* Eight processes at once, signals flying. A signal may end a call before PID 1 has picked it up: then
     * it has not been refused (EINTR) and must not count. */
    static const char script[] =
        "exec perl -e '$SIG{USR1} = sub {}; for (1 .. 8) { if (fork == 0) { for (1 .. 1000) {"
        "do { $r = syscall(1000) } while ($r == -1 && $!{EINTR}); $r == -1 && $!{EPERM} or exit 1;"
        "kill \"USR1\", -getpgrp if $_ % 100 == 0 } syscall(" NUMBER_TEXT(
            SYS_exit_group) ", 0) } }"
                            "while (($p = wait) != -1 || $!{EINTR}) { $bad += $? if $p != -1 } exit($bad ? 1 "
                            ": 4)'";
    struct recipe recipe = {.script = script,
                            .timeout_ms = 120000,
                            .bpf = filter,
                            .bpf_length = ARRAY_SIZE(filter),
                            .notify = true};
    struct outcome o = run(state, &recipe);
    assert_exited(&o, 4);
    assert_int_equal(o.result.denied.n_rows, 1);
    assert_int_equal(o.result.denied.rows[0].nr, 1000);
    assert_int_equal(o.result.denied.rows[0].count, 8000);
    /* More different ones than there are rows. */
    recipe.script = "exec perl -e 'syscall(1000 + $_) for 1 .. 100; exit 4'";
    o = run(state, &recipe);
    assert_exited(&o, 4);
    assert_int_equal(o.result.denied.n_rows, JAIL_DENIED_MAX);
    assert_int_equal(o.result.denied.rows[JAIL_DENIED_MAX - 2].nr, 1000 + JAIL_DENIED_MAX - 1);
    assert_int_equal(o.result.denied.rows[JAIL_DENIED_MAX - 1].nr, -1);
    assert_int_equal(o.result.denied.rows[JAIL_DENIED_MAX - 1].count, 100 - (JAIL_DENIED_MAX - 1));
}

static void test_listener_is_out_of_reach(void **state)
{
    struct outcome o = run(state, &(struct recipe){.script = "ls /proc/self/fd", HEARS_MKDIR});
    assert_string_equal(o.output, "0\n1\n2\n3\n");
}

/* The watch reads lists of children; one that is longer than a page must not hide anybody. */
static void test_memory_watch_sees_every_child(void **state)
{
    struct outcome o =
        run(state, &(struct recipe){.script = "i=0; while [ $i -lt 1500 ]; do sleep 30 & i=$((i+1)); done; "
                                              "perl -e '$x = \"x\" x ($n = 900 << 20); sleep 30' & wait",
                                    .memory_bytes = 800 << 20,
                                    .timeout_ms = 120000,
                                    .limited_resource = RLIMIT_NPROC,
                                    .limit = {3000, 3000}});
    assert_int_equal(o.result.end, JAIL_END_OOM);
}

/* A main thread that has ended has no memory any more, its process does. */
static void test_memory_watch_sees_past_the_main_thread(void **state)
{
    static const char script[] = "exec python3 -c 'import ctypes, threading, time\n"
                                 "def hog():\n"
                                 "    time.sleep(0.1)\n"
                                 "    x = bytearray(300 << 20)\n"
                                 "    time.sleep(30)\n"
                                 "threading.Thread(target=hog).start()\n"
                                 "ctypes.CDLL(None).syscall(" NUMBER_TEXT(SYS_exit) ", 0)'";
    struct outcome o = run(state, &(struct recipe){.script = script, .memory_bytes = 150 << 20});
    assert_int_equal(o.result.end, JAIL_END_OOM);
}

/* Between vfork and exec two processes have one memory. Room is left for PID 1, which is a copy of this test:
 * of one with sanitizers, tens of MiB. */
static void test_memory_watch_counts_shared_memory_once(void **state)
{
    static const char script[] = "exec python3 -c 'import subprocess, time\n"
                                 "x = bytearray(300 << 20)\n"
                                 "end = time.monotonic() + 20\n"
                                 "for i in range(1500):\n"
                                 "    if time.monotonic() < end: subprocess.run([\"true\"])'";
    struct outcome o =
        run(state, &(struct recipe){.script = script, .memory_bytes = 500 << 20, .timeout_ms = 120000});
    assert_exited(&o, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_traced_program_has_not_ended),
        cmocka_unit_test(test_signals_do_not_reach_init),
        cmocka_unit_test(test_stopped_program_meets_its_deadline),
        cmocka_unit_test(test_limits_put_on_init_end_the_jail_alone),
        cmocka_unit_test(test_flood_of_orphans),
        cmocka_unit_test(test_who_makes_a_forbidden_call_is_ended),
        cmocka_unit_test(test_flood_of_denied_calls_is_counted_exactly),
        cmocka_unit_test(test_listener_is_out_of_reach),
        cmocka_unit_test(test_memory_watch_sees_every_child),
        cmocka_unit_test(test_memory_watch_sees_past_the_main_thread),
        cmocka_unit_test(test_memory_watch_counts_shared_memory_once),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
