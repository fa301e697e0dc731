/* server/front/guesses.c: who may be wrong how often, and that nobody else pays for it. */
#include "server/front/guesses.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "jail/base/clock.h"
#include "jail/base/loop.h"
#include "server/kit/deadline.h"

#define NOW (1000 * NS_PER_S)

struct world {
    struct loop *loop;
    struct guesses *guesses;
};

struct asker {
    struct deadline held; /* first, so that one is the other */
    bool refused;
};

static void refuse(void *arg, struct deadline *held)
{
    (void)arg;
    ((struct asker *)(void *)held)->refused = true;
}

static void open_world(struct world *world)
{
    assert_int_equal(loop_new(&world->loop, NULL), 0);
    assert_int_equal(guesses_new(world->loop, refuse, &world->guesses, NULL), 0);
}

static void close_world(struct world *world)
{
    guesses_free(world->guesses);
    loop_free(world->loop);
}

static void a_few_at_once_then_slowly(void **state)
{
    (void)state;
    struct world world;
    open_world(&world);
    for (int i = 0; i < GUESS_BURST; i++) {
        assert_int_equal(guesses_note(world.guesses, 7, NOW), 0);
    }
    assert_int_equal(guesses_note(world.guesses, 7, NOW), GUESS_DELAY_NS);
    assert_int_equal(guesses_note(world.guesses, 8, NOW), 0); /* another address */
    assert_int_equal(guesses_note(world.guesses, 7, NOW + 2 * GUESS_INTERVAL_NS), 0);
    close_world(&world);
}

static void even_the_worst_is_forgiven(void **state)
{
    (void)state;
    struct world world;
    open_world(&world);
    for (int i = 0; i < 100000; i++) {
        guesses_note(world.guesses, 7, NOW);
    }
    assert_int_equal(guesses_note(world.guesses, 7, NOW), GUESS_DELAY_NS);
    assert_int_equal(guesses_note(world.guesses, 7, NOW + 60 * NS_PER_S), 0);
    close_world(&world);
}

/* Whoever owes much stays in the table, however many others come once. */
static void many_addresses_do_not_hide_one(void **state)
{
    (void)state;
    struct world world;
    open_world(&world);
    for (int i = 0; i < 40; i++) {
        guesses_note(world.guesses, 7, NOW);
    }
    for (uint64_t i = 1000; i < 100000; i++) {
        guesses_note(world.guesses, i, NOW);
    }
    assert_int_equal(guesses_note(world.guesses, 7, NOW), GUESS_DELAY_NS);
    close_world(&world);
}

static void what_is_held_is_refused_in_time(void **state)
{
    (void)state;
    struct world world;
    struct asker held = {0}, gone = {0};
    open_world(&world);
    uint64_t start = clock_now_ns();
    guesses_hold(world.guesses, &held.held);
    guesses_hold(world.guesses, &gone.held);
    deadline_leave(&gone.held);
    deadline_leave(&gone.held); /* harmless */
    while (!held.refused) {
        assert_int_equal(loop_once(world.loop, 10000, NULL), 0);
    }
    assert_false(gone.refused);
    assert_true(clock_now_ns() - start >= GUESS_DELAY_NS);
    close_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_few_at_once_then_slowly),
        cmocka_unit_test(even_the_worst_is_forgiven),
        cmocka_unit_test(many_addresses_do_not_hide_one),
        cmocka_unit_test(what_is_held_is_refused_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
