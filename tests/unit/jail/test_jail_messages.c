/* jail/jail.c: what the parent makes of PID 1's words, honest or not. PID 1 is played by the test, and the
 * jail is one that a template makes, so that no process is needed. */
#include "jail/jail.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <sys/eventfd.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/io.h"
#include "jail/child.h"
#include "jail/plan.h"
#include "jail/spawn.h"

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
    for (int round = 0; round < 4; round++) {
        struct fixture fixture;
        struct child_message message;
        start(&fixture);
        memset(&message, 0, sizeof message);
        message.kind = CHILD_ENDED;
        memset(&message.is_alone, round == 0 ? 2 : 0, 1);
        memset(&message.proc_absent, round == 1 ? 255 : 0, 1);
        message.n_denied = round == 2 ? JAIL_DENIED_MAX + 1 : 0;
        if (round == 3) {
            message.kind = CHILD_ENDED + 1;
        }
        say_message(&fixture, &message);
        assert_int_equal(fixture.jail->end, JAIL_END_LOST);
        close_jail(&fixture);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_honest_life),           cmocka_unit_test(nothing_is_said_twice),
        cmocka_unit_test(a_parked_jail_parks_once), cmocka_unit_test(nothing_starts_before_it_is_parked),
        cmocka_unit_test(times_to_come_are_now),    cmocka_unit_test(bytes_that_are_no_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
