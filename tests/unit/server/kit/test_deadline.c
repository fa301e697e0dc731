/* server/kit/deadline.c: several queues, one timer, and callbacks that change the queues. */
#include "server/kit/deadline.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "jail/base/clock.h"
#include "jail/base/loop.h"

enum { SHORT, LONG, QUEUES };

/* Far enough apart for their order to be certain on a busy machine. */
#define SHORT_NS (10 * NS_PER_MS)
#define LONG_NS  (400 * NS_PER_MS)

struct world {
    struct loop *loop;
    struct deadline_queue queues[QUEUES];
    struct deadlines deadlines;
    struct deadline *passed[8];
    size_t n_passed;
    struct deadline *rejoins; /* joins the long queue when it has passed */
};

static void on_passed(void *arg, struct deadline *deadline)
{
    struct world *world = arg;
    assert_null(deadline->queue);
    world->passed[world->n_passed++] = deadline;
    if (deadline == world->rejoins) {
        world->rejoins = NULL;
        deadline_join(&world->deadlines, deadline, &world->queues[LONG]);
    }
}

static void open_world(struct world *world)
{
    *world = (struct world){.queues = {{.timeout_ns = SHORT_NS}, {.timeout_ns = LONG_NS}}};
    world->deadlines =
        (struct deadlines){.queues = world->queues, .n_queues = QUEUES, .passed = on_passed, .arg = world};
    assert_int_equal(loop_new(&world->loop, NULL), 0);
    assert_int_equal(deadlines_start(&world->deadlines, world->loop, NULL), 0);
}

static void close_world(struct world *world)
{
    deadlines_stop(&world->deadlines);
    loop_free(world->loop);
}

static void wait_for(struct world *world, size_t n_passed)
{
    while (world->n_passed < n_passed) {
        assert_int_equal(loop_once(world->loop, 5000, NULL), 0);
    }
    assert_int_equal(world->n_passed, n_passed);
}

static void pass_in_order_and_not_too_early(void **state)
{
    (void)state;
    struct world world;
    struct deadline first = {0}, second = {0}, third = {0};
    open_world(&world);
    uint64_t start = clock_now_ns();
    deadline_join(&world.deadlines, &third, &world.queues[LONG]);
    deadline_join(&world.deadlines, &first, &world.queues[SHORT]);
    deadline_join(&world.deadlines, &second, &world.queues[SHORT]);
    wait_for(&world, 3);
    assert_true(clock_now_ns() - start >= LONG_NS);
    assert_ptr_equal(world.passed[0], &first);
    assert_ptr_equal(world.passed[1], &second);
    assert_ptr_equal(world.passed[2], &third);
    close_world(&world);
}

static void latecomers_find_their_place(void **state)
{
    (void)state;
    struct world world;
    struct deadline now = {0}, latest = {0}, later = {0}, other = {0};
    open_world(&world);
    deadline_join(&world.deadlines, &now, &world.queues[LONG]);
    deadline_join_late(&world.deadlines, &later, &world.queues[LONG], LONG_NS / 4);
    deadline_join_late(&world.deadlines, &latest, &world.queues[LONG], LONG_NS / 4 * 3);
    deadline_join_late(&world.deadlines, &other, &world.queues[LONG], LONG_NS / 2);
    struct deadline *const expected[] = {&latest, &other, &later, &now};
    struct deadline *at = world.queues[LONG].first;
    for (size_t i = 0; i < 4; i++, at = at->next) {
        assert_ptr_equal(at, expected[i]);
    }
    assert_null(at);
    assert_ptr_equal(world.queues[LONG].last, &now);
    wait_for(&world, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_ptr_equal(world.passed[i], expected[i]);
    }
    close_world(&world);
}

static void those_that_leave_do_not_pass(void **state)
{
    (void)state;
    struct world world;
    struct deadline things[4] = {{0}};
    open_world(&world);
    for (size_t i = 0; i < 4; i++) {
        deadline_join(&world.deadlines, &things[i], &world.queues[SHORT]);
    }
    assert_int_equal(world.queues[SHORT].count, 4);
    deadline_join(&world.deadlines, &things[0], NULL); /* the first */
    deadline_join(&world.deadlines, &things[2], NULL); /* one between */
    deadline_join(&world.deadlines, &things[3], NULL); /* the last */
    deadline_join(&world.deadlines, &things[3], NULL); /* twice */
    assert_int_equal(world.queues[SHORT].count, 1);
    wait_for(&world, 1);
    assert_ptr_equal(world.passed[0], &things[1]);
    assert_int_equal(world.queues[SHORT].count, 0);
    close_world(&world);
}

static void may_join_again_when_passed(void **state)
{
    (void)state;
    struct world world;
    struct deadline thing = {0};
    open_world(&world);
    world.rejoins = &thing;
    deadline_join(&world.deadlines, &thing, &world.queues[SHORT]);
    wait_for(&world, 2);
    assert_ptr_equal(world.passed[1], &thing);
    close_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pass_in_order_and_not_too_early),
        cmocka_unit_test(latecomers_find_their_place),
        cmocka_unit_test(those_that_leave_do_not_pass),
        cmocka_unit_test(may_join_again_when_passed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
