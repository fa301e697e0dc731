/* jail/jail.c: what the parent makes of PID 1's words, honest or not. PID 1 is played by the test, and the
 * jail is one that a template makes, so that no process is needed. */
#include "jail/jail_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/io.h"
#include "jail/child/denied.h"
#include "jail/child/message.h"
#include "jail/plan/plan.h"
#include "jail/standby.h"

#define TIMEOUT_MS 60000u

struct fixture {
    struct jail *jail;
    int childs_end, pidfd;
};

static void open_jail(struct fixture *fixture)
{
    struct jail_plan *plan = jail_plan_new();
    plan->limits.timeout_ms = TIMEOUT_MS;
    fixture->pidfd = eventfd(0, EFD_CLOEXEC); /* readable once the jail is to be gone */
    assert_int_equal(jail_new(plan, NULL, &fixture->jail, &fixture->childs_end, NULL), 0);
    fixture->jail->by_template = fixture->jail->parks = true;
    fixture->jail->cloned_ns = clock_now_ns();
    jail_plan_free(plan);
}

static void close_jail(struct fixture *fixture)
{
    uint64_t one = 1;
    assert_int_equal(write(fixture->pidfd, &one, sizeof one), sizeof one);
    close(fixture->childs_end);
    jail_free(fixture->jail);
    close(fixture->pidfd);
}

static enum jail_state say_message(struct fixture *fixture, const struct child_message *message)
{
    size_t n_fds = message->kind == CHILD_CLONED ? 1 : 0;
    assert_int_equal(io_send_fds(fixture->childs_end, message, sizeof *message, &fixture->pidfd, n_fds), 0);
    return jail_dispatch(fixture->jail);
}

static enum jail_state say(struct fixture *fixture, enum child_message_kind kind)
{
    struct child_message message;
    memset(&message, 0, sizeof message);
    message.kind = kind;
    message.time_ns = clock_now_ns();
    return say_message(fixture, &message);
}

/* The parent's part: it hands the program over. */
static void hand_over(struct fixture *fixture)
{
    assert_int_equal(jail_state(fixture->jail), JAIL_PARKED);
    fixture->jail->state = JAIL_BUILDING;
}

static void start(struct fixture *fixture)
{
    open_jail(fixture);
    assert_int_equal(say(fixture, CHILD_CLONED), JAIL_BUILDING);
    assert_int_equal(say(fixture, CHILD_PARKED), JAIL_PARKED);
    hand_over(fixture);
    assert_int_equal(say(fixture, CHILD_STARTED), JAIL_RUNNING);
}

static void an_honest_life(void **state)
{
    (void)state;
    struct fixture fixture;
    start(&fixture);
    assert_int_equal(say(&fixture, CHILD_ENDED), JAIL_RUNNING);
    struct child_message end = {.kind = CHILD_ENDED, .is_alone = true, .time_ns = clock_now_ns()};
    assert_int_equal(say_message(&fixture, &end), JAIL_ENDED);
    assert_int_equal(fixture.jail->end, JAIL_END_PROGRAM);
    close_jail(&fixture);
}

/* Parked again it would have no deadline; started again, a new one. */
static void nothing_is_said_twice(void **state)
{
    (void)state;
    static const enum child_message_kind kinds[] = {CHILD_CLONED, CHILD_PARKED, CHILD_STARTED};
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        struct fixture fixture;
        start(&fixture);
        uint64_t deadline_ns = jail_deadline_ns(fixture.jail);
        say(&fixture, kinds[i]);
        assert_int_equal(fixture.jail->end, JAIL_END_LOST);
        assert_int_equal(jail_deadline_ns(fixture.jail), deadline_ns);
        close_jail(&fixture);
    }
}

static void a_parked_jail_parks_once(void **state)
{
    (void)state;
    struct fixture fixture;
    open_jail(&fixture);
    say(&fixture, CHILD_CLONED);
    say(&fixture, CHILD_PARKED);
    hand_over(&fixture);
    say(&fixture, CHILD_PARKED);
    assert_int_equal(fixture.jail->end, JAIL_END_LOST);
    close_jail(&fixture);
}

static void nothing_starts_before_it_is_parked(void **state)
{
    (void)state;
    struct fixture fixture;
    open_jail(&fixture);
    say(&fixture, CHILD_STARTED);
    assert_int_equal(fixture.jail->end, JAIL_END_LOST);
    close_jail(&fixture);
}

/* A deadline that is counted from a time to come would come later, or never. */
static void times_to_come_are_now(void **state)
{
    (void)state;
    static const uint64_t told[] = {0, UINT64_MAX, UINT64_MAX - TIMEOUT_MS * NS_PER_MS + 1, 1ull << 62};
    for (size_t i = 0; i < ARRAY_SIZE(told); i++) {
        struct fixture fixture;
        open_jail(&fixture);
        say(&fixture, CHILD_CLONED);
        say(&fixture, CHILD_PARKED);
        hand_over(&fixture);
        struct child_message started = {.kind = CHILD_STARTED, .time_ns = told[i]};
        assert_int_equal(say_message(&fixture, &started), JAIL_RUNNING);
        assert_true(fixture.jail->started_ns >= fixture.jail->cloned_ns);
        assert_true(fixture.jail->started_ns <= clock_now_ns());
        assert_int_equal(jail_deadline_ns(fixture.jail), fixture.jail->started_ns + TIMEOUT_MS * NS_PER_MS);
        struct child_message ended = {.kind = CHILD_ENDED, .is_alone = true, .time_ns = told[i]};
        assert_int_equal(say_message(&fixture, &ended), JAIL_ENDED);
        assert_true(fixture.jail->ended_ns >= fixture.jail->started_ns);
        assert_true(fixture.jail->ended_ns <= clock_now_ns());
        close_jail(&fixture);
    }
}

static void bytes_that_are_no_message(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        struct fixture fixture;
        struct child_message message;
        start(&fixture);
        memset(&message, 0, sizeof message);
        message.kind = CHILD_ENDED;
        memset(&message.is_alone, round == 0 ? 2 : 0, 1);
        memset(&message.proc_absent, round == 1 ? 255 : 0, 1);
        if (round == 2) {
            message.kind = CHILD_ENDED + 1;
        }
        say_message(&fixture, &message);
        assert_int_equal(fixture.jail->end, JAIL_END_LOST);
        close_jail(&fixture);
    }
}

static void say_egress(struct fixture *fixture, int fd)
{
    const struct child_message message = {.kind = CHILD_EGRESS};
    assert_int_equal(io_send_fds(fixture->childs_end, &message, sizeof message, &fd, fd >= 0), 0);
    jail_dispatch(fixture->jail);
}

/* A jail hands over its listening socket if its plan says so, before it parks, and no other descriptor. */
static void the_way_out_is_the_plans(void **state)
{
    (void)state;
    struct fixture fixture;
    CLEANUP(fd_closep) int unbound = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    CLEANUP(fd_closep) int listening = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(listen(listening, 1), 0); /* at another place */
    const int fds[] = {-1, unbound, listening};
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        open_jail(&fixture);
        jail_plan_add(fixture.jail->plan, JAIL_STEP_EGRESS);
        say(&fixture, CHILD_CLONED);
        say_egress(&fixture, fds[i]);
        assert_int_equal(fixture.jail->end, JAIL_END_LOST);
        assert_int_equal(jail_egress_fd(fixture.jail), -1);
        close_jail(&fixture);
    }
    open_jail(&fixture); /* no such step */
    say(&fixture, CHILD_CLONED);
    say_egress(&fixture, listening);
    assert_int_equal(fixture.jail->end, JAIL_END_LOST);
    close_jail(&fixture);
    open_jail(&fixture); /* parks without it */
    jail_plan_add(fixture.jail->plan, JAIL_STEP_EGRESS);
    say(&fixture, CHILD_CLONED);
    say(&fixture, CHILD_PARKED);
    assert_int_equal(fixture.jail->end, JAIL_END_LOST);
    close_jail(&fixture);
}

static void say_denied(struct fixture *fixture, const int *fds, size_t n_fds)
{
    const struct child_message message = {.kind = CHILD_DENIED};
    assert_int_equal(io_send_fds(fixture->childs_end, &message, sizeof message, fds, n_fds), 0);
    jail_dispatch(fixture->jail);
}

static int new_table(struct denied_table **ret)
{
    const char *call;
    int fd;
    assert_int_equal(denied_new(ret, &fd, &call), 0);
    return fd;
}

static void count(struct denied_table *table, int32_t nr, uint32_t arch)
{
    const struct seccomp_data call = {.nr = nr, .arch = arch, .args = {7, 7, 7, 7, 7, 7}};
    denied_count(table, &call, false);
}

/* What `table` holds when the jail is killed is in the verdict, what is counted after the message too. */
static void what_was_denied_outlives_the_jail(void **state)
{
    (void)state;
    struct fixture fixture;
    struct jail_result result;
    struct denied_table *table;
    start(&fixture);
    int fd = new_table(&table);
    count(table, 7, 1);
    say_denied(&fixture, &fd, 1);
    close(fd);
    count(table, 7, 1);
    count(table, 8, 1);
    jail_kill(fixture.jail, JAIL_END_DEADLINE);
    uint64_t one = 1;
    assert_int_equal(write(fixture.pidfd, &one, sizeof one), sizeof one);
    assert_int_equal(jail_dispatch(fixture.jail), JAIL_ENDED);
    assert_int_equal(jail_collect(fixture.jail, &result, NULL), 0);
    assert_int_equal(result.end, JAIL_END_DEADLINE);
    assert_int_equal(result.denied.n_rows, 2);
    assert_int_equal(result.denied.rows[0].nr, 7);
    assert_int_equal(result.denied.rows[0].count, 2);
    assert_int_equal(result.denied.rows[1].nr, 8);
    munmap(table, sizeof *table);
    close_jail(&fixture);
}

/* Files that could block their reader, end early or change their size, and a table said twice. */
static void what_is_no_table(void **state)
{
    (void)state;
    struct denied_table *table;
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    int unsealed = memfd_create("unsealed", MFD_ALLOW_SEALING),
        small = memfd_create("small", MFD_ALLOW_SEALING);
    int good = new_table(&table);
    assert_int_equal(ftruncate(unsealed, sizeof *table), 0);
    assert_int_equal(ftruncate(small, sizeof *table - 1), 0);
    assert_int_equal(fcntl(small, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", good);
    int unreadable = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(unreadable >= 0);
    const int files[] = {pipes[0], unsealed, small, unreadable};
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        struct fixture fixture;
        start(&fixture);
        say_denied(&fixture, &files[i], 1);
        assert_int_equal(fixture.jail->end, JAIL_END_LOST);
        close_jail(&fixture);
    }
    for (size_t n = 0; n < 3; n += 2) { /* without a file, and with one too many */
        struct fixture fixture;
        start(&fixture);
        say_denied(&fixture, (const int[]){good, good}, n);
        assert_int_equal(fixture.jail->end, JAIL_END_LOST);
        close_jail(&fixture);
    }
    struct fixture fixture;
    start(&fixture);
    say_denied(&fixture, &good, 1);
    assert_int_equal(fixture.jail->end, JAIL_END_NONE);
    say_denied(&fixture, &good, 1);
    assert_int_equal(fixture.jail->end, JAIL_END_LOST);
    close_jail(&fixture);
    munmap(table, sizeof *table);
    close(pipes[0]);
    close(pipes[1]);
    close(unsealed);
    close(small);
    close(unreadable);
    close(good);
}

static void rows_that_cannot_be(void **state)
{
    (void)state;
    struct denied_table *table, read;
    int fd = new_table(&table);
    assert_int_equal(denied_read(fd, &read), 0);
    assert_int_equal(read.n_rows + read.n_calls, 0);
    for (int32_t nr = 0; nr < 200; nr++) {
        count(table, nr, 3);
    }
    assert_int_equal(denied_read(fd, &read), 0);
    assert_int_equal(read.n_rows, JAIL_DENIED_MAX);
    assert_int_equal(read.n_calls, JAIL_DENIED_CALLS_MAX);
    assert_int_equal(read.rows[0].arch, 3);
    assert_int_equal(read.rows[JAIL_DENIED_MAX - 1].nr, -1);
    assert_int_equal(read.rows[JAIL_DENIED_MAX - 1].count, 200 - (JAIL_DENIED_MAX - 1));
    table->n_rows = JAIL_DENIED_MAX + 1;
    assert_int_equal(denied_read(fd, &read), 0);
    assert_int_equal(read.n_rows + read.n_calls, 0);
    table->n_rows = 1;
    table->n_calls = JAIL_DENIED_CALLS_MAX + 1;
    assert_int_equal(denied_read(fd, &read), 0);
    assert_int_equal(read.n_rows + read.n_calls, 0);
    munmap(table, sizeof *table);
    close(fd);
}

/* Those arguments tell calls apart that say what is wanted, and no call takes all the room. */
static void calls_are_told_by_their_arguments(void **state)
{
    (void)state;
    struct denied_table *table;
    int fd = new_table(&table);
    struct seccomp_data call = {.nr = SYS_ioctl, .arch = 3, .args = {0, 1, 2}};
    for (uint64_t request = 0; request < 100; request++) {
        call.args[1] = request;
        for (uint64_t address = 0; address <= request; address++) {
            call.args[0] = call.args[2] = address;
            denied_count(table, &call, false);
        }
    }
    assert_int_equal(table->n_rows, 1);
    assert_int_equal(table->rows[0].count, 100 * 101 / 2);
    assert_int_equal(table->n_calls, JAIL_DENIED_EACH_MAX);
    for (uint64_t i = 0; i < JAIL_DENIED_EACH_MAX; i++) {
        assert_int_equal(table->calls[i].args[0] + table->calls[i].args[2], 0);
        assert_int_equal(table->calls[i].args[1], i);
        assert_int_equal(table->calls[i].count, i + 1);
    }
    count(table, SYS_socket, 3);
    assert_int_equal(table->n_calls, JAIL_DENIED_EACH_MAX + 1);
    assert_int_equal(table->calls[JAIL_DENIED_EACH_MAX].args[2], 7);
    assert_int_equal(table->calls[JAIL_DENIED_EACH_MAX].args[3], 0);
    denied_clear(table);
    assert_int_equal(table->n_rows + table->n_calls, 0);
    munmap(table, sizeof *table);
    close(fd);
}

/* The parent's part of a kernel's next program. */
static void call_again(struct fixture *fixture)
{
    const int fds[JAIL_PROGRAM_FDS] = {0, 1, 2, 0, 1};
    struct jail_plan *plan = jail_plan_copy(fixture->jail->plan);
    assert_int_equal(jail_standby_run(fixture->jail, plan, fds, 0, NULL), 0);
    assert_int_equal(say(fixture, CHILD_STARTED), JAIL_RUNNING);
    jail_plan_free(plan);
}

static void start_kernel(struct fixture *fixture)
{
    open_jail(fixture);
    jail_ref launcher = jail_plan_text(fixture->jail->plan, "launcher");
    struct jail_step *exec = jail_plan_add(fixture->jail->plan, JAIL_STEP_EXEC);
    exec->exec.path = exec->exec.argv = launcher;
    exec->exec.argc = 1;
    fixture->jail->kernel = true;
    fixture->jail->grace_ms = TIMEOUT_MS;
    assert_int_equal(say(fixture, CHILD_CLONED), JAIL_BUILDING);
    assert_int_equal(say(fixture, CHILD_PARKED), JAIL_PARKED);
    assert_false(jail_has_called(fixture->jail));
    call_again(fixture);
}

/* What was of the call before is not of the next one. */
static void a_kernel_parks_after_each_program(void **state)
{
    (void)state;
    struct fixture fixture;
    struct jail_result result;
    struct denied_table *table;
    start_kernel(&fixture);
    int fd = new_table(&table);
    count(table, 7, 1);
    say_denied(&fixture, &fd, 1);
    const struct child_message first = {.kind = CHILD_PARKED, .wstatus = 3 << 8, .time_ns = clock_now_ns()};
    assert_int_equal(jail_collect(fixture.jail, &result, NULL), -EBUSY);
    assert_int_equal(say_message(&fixture, &first), JAIL_PARKED);
    assert_true(jail_has_called(fixture.jail));
    assert_int_equal(jail_deadline_ns(fixture.jail), 0);
    assert_int_equal(jail_collect(fixture.jail, &result, NULL), 0);
    assert_int_equal(result.end, JAIL_END_PROGRAM);
    assert_int_equal(result.wstatus, 3 << 8);
    assert_int_equal(result.denied.n_rows, 1);
    jail_idle(fixture.jail, 0);
    assert_int_equal(jail_collect(fixture.jail, &result, NULL), -EBUSY);
    denied_clear(table);
    call_again(&fixture);
    assert_int_equal(jail_deadline_ns(fixture.jail), fixture.jail->started_ns + TIMEOUT_MS * NS_PER_MS);
    assert_int_equal(say(&fixture, CHILD_PARKED), JAIL_PARKED);
    assert_int_equal(jail_collect(fixture.jail, &result, NULL), 0);
    assert_int_equal(result.wstatus, 0);
    assert_int_equal(result.denied.n_rows, 0);
    assert_int_equal(say(&fixture, CHILD_PARKED), JAIL_PARKED); /* nobody asked */
    assert_int_equal(fixture.jail->control, -1);
    munmap(table, sizeof *table);
    close(fd);
    close_jail(&fixture);
}

/* Once, and with a grace; whatever ends it afterwards, that is what it ended for. */
static void a_kernels_program_is_interrupted_first(void **state)
{
    (void)state;
    struct parent_message told;
    struct fixture fixture;
    struct jail_result result;
    start_kernel(&fixture);
    assert_int_equal(recv(fixture.childs_end, &told, sizeof told, MSG_DONTWAIT), sizeof told);
    assert_int_equal(told.phase, PHASE_RUN);
    jail_interrupt(fixture.jail, JAIL_END_DEADLINE);
    uint64_t deadline_ns = jail_deadline_ns(fixture.jail);
    jail_interrupt(fixture.jail, JAIL_END_CANCEL);
    assert_int_equal(jail_deadline_ns(fixture.jail), deadline_ns);
    assert_int_equal(recv(fixture.childs_end, &told, sizeof told, MSG_DONTWAIT), sizeof told);
    assert_int_equal(told.phase, PHASE_INTERRUPT);
    assert_int_equal(recv(fixture.childs_end, &told, sizeof told, MSG_DONTWAIT), -1);
    assert_int_equal(say(&fixture, CHILD_PARKED), JAIL_PARKED);
    assert_int_equal(jail_collect(fixture.jail, &result, NULL), 0);
    assert_int_equal(result.end, JAIL_END_DEADLINE);
    call_again(&fixture);
    assert_int_equal(recv(fixture.childs_end, &told, sizeof told, MSG_DONTWAIT), sizeof told);
    fixture.jail->grace_ms = 0;
    jail_interrupt(fixture.jail, JAIL_END_CANCEL);
    jail_dispatch(fixture.jail); /* the grace is over: killed */
    assert_int_equal(fixture.jail->end, JAIL_END_CANCEL);
    close_jail(&fixture);
}

/* Killed when it had just said that its program had ended, and before anybody read that. */
static void a_kernel_that_was_killed_is_not_kept(void **state)
{
    (void)state;
    struct fixture fixture;
    start_kernel(&fixture);
    close(fixture.jail->pidfd);
    pid_t pid = fork();
    if (pid == 0) {
        pause();
        _exit(0);
    }
    assert_true(pid > 0);
    fixture.jail->pidfd = pidfd_open(pid, 0); /* what can be killed */
    assert_true(fixture.jail->pidfd >= 0);
    const struct child_message parked = {.kind = CHILD_PARKED, .time_ns = clock_now_ns()};
    assert_int_equal(io_send_fds(fixture.childs_end, &parked, sizeof parked, NULL, 0), 0);
    jail_kill(fixture.jail, JAIL_END_OOM);
    jail_wait(fixture.jail, -1);
    assert_false(jail_has_called(fixture.jail));
    assert_int_equal(fixture.jail->end, JAIL_END_OOM);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close_jail(&fixture);
}

/* A kernel that has said that its program has ended, or has never parked, does not park. */
static void a_kernel_does_not_park_out_of_turn(void **state)
{
    (void)state;
    struct fixture fixture;
    start_kernel(&fixture);
    assert_int_equal(say(&fixture, CHILD_ENDED), JAIL_RUNNING);
    say(&fixture, CHILD_PARKED);
    assert_false(jail_has_called(fixture.jail));
    assert_int_equal(fixture.jail->control, -1);
    close_jail(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_honest_life),
        cmocka_unit_test(the_way_out_is_the_plans),
        cmocka_unit_test(nothing_is_said_twice),
        cmocka_unit_test(a_parked_jail_parks_once),
        cmocka_unit_test(nothing_starts_before_it_is_parked),
        cmocka_unit_test(times_to_come_are_now),
        cmocka_unit_test(bytes_that_are_no_message),
        cmocka_unit_test(what_was_denied_outlives_the_jail),
        cmocka_unit_test(what_is_no_table),
        cmocka_unit_test(rows_that_cannot_be),
        cmocka_unit_test(calls_are_told_by_their_arguments),
        cmocka_unit_test(a_kernel_parks_after_each_program),
        cmocka_unit_test(a_kernels_program_is_interrupted_first),
        cmocka_unit_test(a_kernel_that_was_killed_is_not_kept),
        cmocka_unit_test(a_kernel_does_not_park_out_of_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
