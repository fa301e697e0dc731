/* server/jobs/turns.c: one at a time, keys by turns, and a rest after each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "jail/base/clock.h"
#include "jail/base/loop.h"
#include "server/jobs/turns.h"

#define WORK_NS (20 * NS_PER_MS)

struct work {
    struct turn turn; /* first, so that one is the other */
    uint64_t began_ns;
    int *order, place;
};

static void work(struct turn *turn)
{
    struct work *one = (struct work *)(void *)turn;
    one->began_ns = clock_now_ns();
    one->place = ++*one->order;
    while (clock_now_ns() < one->began_ns + WORK_NS) {
    }
}

static void keys_by_turns(void **state)
{
    (void)state;
    static const unsigned accounts[] = {1, 1, 1, 2, 2, 0};
    static const int places[] = {1, 4, 0, 2, 5, 3}; /* 0: it has left */
    struct work works[6];
    struct loop *loop;
    struct turns *turns;
    int order = 0;
    assert_int_equal(loop_new(&loop, NULL), 0);
    assert_int_equal(turns_new(loop, 3, work, &turns, NULL), 0);
    for (int i = 0; i < 6; i++) {
        works[i] = (struct work){.order = &order};
        turn_wait(turns, &works[i].turn, accounts[i]);
    }
    turn_leave(&works[2].turn);
    turn_leave(&works[2].turn);
    assert_int_equal(order, 0); /* nothing happens but in the loop */
    while (order < 5) {
        int before = order;
        assert_int_equal(loop_once(loop, -1, NULL), 0);
        assert_true(order <= before + 1); /* whatever else is due has its round between two */
    }
    uint64_t began_ns[6] = {0};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(works[i].place, places[i]);
        began_ns[works[i].place] = works[i].began_ns;
    }
    for (int place = 2; place <= 5; place++) {
        assert_true(began_ns[place] - began_ns[place - 1] >= 2 * WORK_NS);
    }
    /* All have gone; the next one does not wait for ever. */
    works[0].place = 0;
    turn_wait(turns, &works[0].turn, 1);
    while (works[0].place == 0) {
        assert_int_equal(loop_once(loop, -1, NULL), 0);
    }
    turns_free(turns);
    loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(keys_by_turns)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
