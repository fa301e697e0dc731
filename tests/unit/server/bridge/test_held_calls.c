/* server/bridge/held_calls.c: a call ends once: answered, too late, or dropped. */
#include "server/bridge/held_calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "jail/base/err.h"
#include "jail/base/loop.h"

#define TIMEOUT_MS 20

struct told {
    unsigned times;
    enum held_answer kind;
    char text[64];
    struct loop *loop;
};

static void on_done(void *arg, enum held_answer kind, const char *text, size_t size)
{
    struct told *told = arg;
    told->times++;
    told->kind = kind;
    memcpy(told->text, text, kind == HELD_FAILED ? strlen(text) : size);
    loop_stop(told->loop);
}

struct fixture {
    struct loop *loop;
    struct held_calls *all;
};

static int setup(void **state)
{
    static struct fixture fixture;
    *state = &fixture;
    assert_int_equal(loop_new(&fixture.loop, NULL), 0);
    assert_int_equal(held_calls_new(fixture.loop, TIMEOUT_MS, &fixture.all, NULL), 0);
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    held_calls_free(fixture->all);
    loop_free(fixture->loop);
    return 0;
}

static void test_answered(void **state)
{
    struct fixture *fixture = *state;
    struct told told = {.loop = fixture->loop};
    struct held_call *held;
    assert_int_equal(held_call_new(fixture->all, on_done, &told, &held), 0);
    held_call_answer(held, HELD_DATA, "text and more", strlen("text"));
    assert_int_equal(told.times, 1);
    assert_int_equal(told.kind, HELD_DATA);
    assert_string_equal(told.text, "text");
}

static void test_nobody_answers(void **state)
{
    struct fixture *fixture = *state;
    struct told told = {.loop = fixture->loop}, dropped = {.loop = fixture->loop};
    struct held_call *held, *other;
    assert_int_equal(held_call_new(fixture->all, on_done, &dropped, &other), 0);
    assert_int_equal(held_call_new(fixture->all, on_done, &told, &held), 0);
    held_call_drop(other);
    assert_int_equal(loop_run(fixture->loop, NULL), 0);
    assert_int_equal(told.times, 1);
    assert_int_equal(dropped.times, 0);
    assert_int_equal(told.kind, HELD_FAILED);
    assert_string_equal(told.text, "no answer came in time");
}

static void test_ids_differ(void **state)
{
    struct fixture *fixture = *state;
    struct held_call *one, *other;
    assert_int_equal(held_call_new(fixture->all, on_done, NULL, &one), 0);
    assert_int_equal(held_call_new(fixture->all, on_done, NULL, &other), 0);
    assert_string_not_equal(held_call_id(one), held_call_id(other));
    held_call_drop(one);
    held_call_drop(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_answered, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobody_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ids_differ, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
