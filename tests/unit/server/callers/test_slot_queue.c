/* server/callers/slot_queue.c: first come first served within a key, keys by turns, and no more than there is
 * room for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/callers/slot_queue.h"

#define BYTES 1000

static bool anybody(void *arg, const struct slot_wait *wait)
{
    (void)arg;
    (void)wait;
    return true;
}

static bool not_of(void *arg, const struct slot_wait *wait)
{
    return wait->account != *(const unsigned *)arg;
}

static struct slot_wait *take_next(struct slot_queue *queue)
{
    struct slot_wait *wait = slot_queue_next(queue, 0, anybody, NULL);
    if (wait) {
        slot_queue_take(wait);
        assert_null(wait->queue);
    }
    return wait;
}

static void join_all(struct slot_queue *queue, struct slot_wait *waits, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        waits[i].since_ns = i + 1;
        slot_queue_join(queue, &waits[i]);
    }
    assert_int_equal(slot_queue_count(queue), n);
}

static void keys_by_turns(void **state)
{
    (void)state;
    static const size_t order[] = {0, 3, 5, 1, 4, 2};
    struct slot_wait waits[] = {{.account = 1}, {.account = 1}, {.account = 1},
                                {.account = 2}, {.account = 2}, {.account = 0}};
    struct slot_queue *queue = slot_queue_new(3, 16, BYTES);
    join_all(queue, waits, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_ptr_equal(take_next(queue), &waits[order[i]]);
    }
    assert_null(take_next(queue));
    /* Who had a turn stands behind who had none for longer. */
    struct slot_wait more[] = {{.account = 1}, {.account = 0}, {.account = 2}};
    join_all(queue, more, 3);
    assert_ptr_equal(take_next(queue), &more[1]);
    assert_ptr_equal(take_next(queue), &more[2]);
    assert_ptr_equal(take_next(queue), &more[0]);
    slot_queue_free(queue);
}

static void who_may_not_is_passed_by(void **state)
{
    (void)state;
    unsigned account = 1;
    struct slot_wait waits[] = {{.account = 1}, {.account = 2}};
    struct slot_queue *queue = slot_queue_new(3, 16, BYTES);
    join_all(queue, waits, 2);
    assert_ptr_equal(slot_queue_next(queue, 0, not_of, &account), &waits[1]);
    slot_wait_leave(&waits[1]);
    slot_wait_leave(&waits[1]);
    assert_null(slot_queue_next(queue, 0, not_of, &account));
    assert_ptr_equal(slot_queue_next(queue, 0, anybody, NULL), &waits[0]);
    slot_queue_free(queue);
}

static void who_comes_back_has_the_place_of_before(void **state)
{
    (void)state;
    struct slot_wait waits[3] = {{.until_ns = 70}, {.until_ns = 90}, {.until_ns = 80}};
    struct slot_queue *queue = slot_queue_new(1, 16, BYTES);
    assert_int_equal(slot_queue_due_ns(queue, 0), 0);
    join_all(queue, waits, 3);
    assert_int_equal(slot_queue_due_ns(queue, 0), 70);
    assert_ptr_equal(take_next(queue), &waits[0]);
    waits[0].not_before_ns = 50;
    slot_queue_join(queue, &waits[0]);
    assert_ptr_equal(slot_queue_first(queue), &waits[0]);
    assert_int_equal(slot_queue_due_ns(queue, 49), 50);
    assert_int_equal(slot_queue_due_ns(queue, 50), 70); /* not again and again */
    assert_ptr_equal(slot_queue_next(queue, 49, anybody, NULL), &waits[1]);
    assert_ptr_equal(slot_queue_next(queue, 50, anybody, NULL), &waits[0]);
    slot_queue_free(queue);
}

static void only_so_many_and_so_much(void **state)
{
    (void)state;
    struct slot_wait waits[4] = {{.bytes = 100}, {.bytes = 800}, {.bytes = 50}, {.bytes = 50}};
    struct slot_queue *queue = slot_queue_new(2, 4, BYTES); /* one key: all of it */
    assert_false(slot_queue_has_room(queue, 1, BYTES + 1));
    assert_true(slot_queue_has_room(queue, 1, BYTES));
    join_all(queue, waits, 2);
    assert_false(slot_queue_has_room(queue, 1, 101));
    assert_true(slot_queue_has_room(queue, 1, 100));
    for (int i = 2; i < 4; i++) {
        waits[i].since_ns = 9;
        slot_queue_join(queue, &waits[i]);
    }
    assert_false(slot_queue_has_room(queue, 1, 0));
    slot_wait_leave(&waits[1]);
    assert_true(slot_queue_has_room(queue, 1, 800));
    assert_false(slot_queue_has_room(queue, 1, 801));
    slot_queue_free(queue);
    queue = slot_queue_new(1, 0, BYTES);
    assert_false(slot_queue_has_room(queue, 0, 0));
    slot_queue_free(queue);
}

static void half_of_it_where_there_are_several_keys(void **state)
{
    (void)state;
    struct slot_wait waits[] = {{.account = 1}, {.account = 1}, {.account = 1, .bytes = 500}};
    struct slot_queue *queue = slot_queue_new(3, 5, BYTES);
    assert_false(slot_queue_has_room(queue, 1, 501));
    join_all(queue, waits, 3);
    assert_false(slot_queue_has_room(queue, 1, 0));
    assert_true(slot_queue_has_room(queue, 2, 500));
    slot_queue_free(queue);
    queue = slot_queue_new(3, 1, BYTES);
    assert_true(slot_queue_has_room(queue, 1, 0)); /* at least one */
    slot_queue_free(queue);
}

static void keys_that_come_and_go(void **state)
{
    (void)state;
    struct slot_wait waits[] = {{.account = 1, .bytes = 600}, {.account = 3, .bytes = 500}};
    struct slot_queue *queue = slot_queue_new(2, 4, 2 * BYTES);
    slot_queue_join(queue, &waits[0]);
    assert_int_equal(slot_queue_set_keys(queue, 2, 4), 0);
    slot_queue_join(queue, &waits[1]);
    assert_false(slot_queue_has_room(queue, 1, BYTES - 599)); /* what it has counts on */
    assert_true(slot_queue_has_room(queue, 3, BYTES - 500));
    assert_int_equal(slot_queue_set_keys(queue, 1, 4), 0);
    assert_true(slot_queue_has_room(queue, 1, BYTES - 599));
    slot_queue_free(queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_by_turns),
        cmocka_unit_test(who_may_not_is_passed_by),
        cmocka_unit_test(who_comes_back_has_the_place_of_before),
        cmocka_unit_test(only_so_many_and_so_much),
        cmocka_unit_test(half_of_it_where_there_are_several_keys),
        cmocka_unit_test(keys_that_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
