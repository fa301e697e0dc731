/* server/sessions/room.c: what each key may have, and which of its sessions goes for another one. */
#include "server/sessions/sessions_internal.h"

#include <search.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"

#define MIB (UINT64_C(1) << 20)
/* What room.c counts for each beside its files. */
#define OWN_BYTES UINT64_C(16384)

struct world {
    struct key_config keys[2], *pointers[2];
    struct server_config config;
    struct sessions sessions;
    struct session_owner *owners[2];
    struct session made[8];
    size_t n_made;
};

static int set_up(void **state)
{
    static struct world world;
    struct err err = {0};
    world = (struct world){.config = {.n_keys = 2,
                                      .max_sessions = 100,
                                      .max_session_bytes_total = 16 * MIB,
                                      .session_evict_after_ms = 1000},
                           .sessions = {.most = UINT64_MAX, .idle = {.timeout_ns = NS_PER_S}}};
    world.config.keys = world.pointers;
    for (size_t i = 0; i < 2; i++) {
        world.pointers[i] = &world.keys[i];
        memset(world.keys[i].sha256, (int)i + 1, sizeof world.keys[i].sha256);
        if (sessions_owner_of(&world.sessions, world.keys[i].sha256, &world.owners[i], &err) < 0) {
            return -1;
        }
    }
    *state = &world;
    return 0;
}

static int tear_down(void **state)
{
    tdestroy(((struct world *)*state)->sessions.owners, free);
    return 0;
}

/* A session of the key's that has been idle for so long. */
static struct session *add(struct world *world, size_t key, uint64_t bytes, uint64_t idle_ms)
{
    struct session *session = &world->made[world->n_made++];
    *session = (struct session){.all = &world->sessions, .owner = world->owners[key], .name = "on disk"};
    session->idle_ns = clock_now_ns() - idle_ms * NS_PER_MS;
    session_count(session, bytes, true);
    deadline_join(&world->sessions.deadlines, &session->deadline, &world->sessions.idle);
    return session;
}

/* ERR_NONE: there is room for that of the key's, or will be when `*ret_first` has gone. */
static enum err_kind ask_for(const struct world *world, size_t key, const struct session_want *want,
                             struct session **ret_first, uint64_t *ret_retry_after_ms)
{
    struct err err = {0};
    *ret_retry_after_ms = 0;
    sessions_check_room(&world->sessions, &world->config, world->owners[key], want, ret_retry_after_ms, &err);
    *ret_first = err.kind == ERR_NONE
                     ? sessions_in_the_way(&world->sessions, &world->config, world->owners[key], want)
                     : NULL;
    return err.kind;
}

/* The same for a job, in that session or, NULL, in another one. */
static enum err_kind ask(const struct world *world, size_t key, const struct session *within,
                         struct session **ret_first, uint64_t *ret_retry_after_ms)
{
    const struct session_want want = {.session = within, .count = !within};
    return ask_for(world, key, &want, ret_first, ret_retry_after_ms);
}

static void counts_what_there_is(void **state)
{
    struct world *world = *state;
    struct session *one = add(world, 0, MIB, 0);
    add(world, 1, 2 * MIB, 0);
    assert_int_equal(world->sessions.count, 2);
    assert_int_equal(world->sessions.bytes, 3 * MIB + 2 * OWN_BYTES);
    assert_int_equal(world->owners[0]->bytes, MIB + OWN_BYTES);
    session_count(one, 5, true);
    assert_int_equal(world->owners[0]->bytes, 5 + OWN_BYTES);
    session_count(one, 0, false);
    session_count(one, 0, false);
    assert_int_equal(world->owners[0]->count, 0);
    assert_int_equal(world->owners[0]->bytes, 0);
    assert_int_equal(world->sessions.count, 1);
}

/* One may have all but a quarter, and the other that quarter at any time. */
static void each_key_has_a_share(void **state)
{
    struct world *world = *state;
    struct session *first;
    uint64_t retry_after_ms;
    add(world, 0, 11 * MIB, 0);
    assert_int_equal(ask(world, 0, NULL, &first, &retry_after_ms), ERR_NONE);
    assert_null(first);
    add(world, 0, MIB, 0);
    assert_int_equal(ask(world, 0, NULL, &first, &retry_after_ms), ERR_RATE);
    assert_true(retry_after_ms > 0 && retry_after_ms <= 1000);
    assert_int_equal(ask(world, 1, NULL, &first, &retry_after_ms), ERR_NONE);
    add(world, 1, 3 * MIB, 0);
    assert_int_equal(ask(world, 1, NULL, &first, &retry_after_ms), ERR_NONE);
    add(world, 1, MIB, 0);
    assert_int_equal(ask(world, 1, NULL, &first, &retry_after_ms), ERR_RATE);
}

static void the_one_unused_for_longest_goes(void **state)
{
    struct world *world = *state;
    struct session *first;
    uint64_t retry_after_ms;
    add(world, 1, MIB, 9000); /* another key's */
    struct session *oldest = add(world, 0, 4 * MIB, 3000), *older = add(world, 0, 4 * MIB, 2000);
    add(world, 0, 4 * MIB, 10);
    assert_int_equal(ask(world, 0, NULL, &first, &retry_after_ms), ERR_NONE);
    assert_ptr_equal(first, oldest);
    /* A job's own does not go for it. */
    assert_int_equal(ask(world, 0, oldest, &first, &retry_after_ms), ERR_NONE);
    assert_ptr_equal(first, older);
    /* Those that may go would not be enough. */
    world->config.max_session_bytes_total = 5 * MIB;
    assert_int_equal(ask(world, 0, NULL, &first, &retry_after_ms), ERR_RATE);
    /* In use. */
    world->config.max_session_bytes_total = 16 * MIB;
    deadline_leave(&oldest->deadline);
    assert_int_equal(ask(world, 0, NULL, &first, &retry_after_ms), ERR_NONE);
    assert_ptr_equal(first, older);
    deadline_leave(&older->deadline);
    assert_int_equal(ask(world, 0, NULL, &first, &retry_after_ms), ERR_RATE);
}

/* All of them or none, with what they are to hold. */
static void several_at_once(void **state)
{
    struct world *world = *state;
    struct session *first;
    uint64_t retry_after_ms;
    struct session_want want = {.count = 3, .bytes = 6 * MIB};
    add(world, 0, 5 * MIB, 0);
    assert_int_equal(ask_for(world, 0, &want, &first, &retry_after_ms), ERR_NONE);
    assert_null(first);
    want.bytes = 7 * MIB;
    assert_int_equal(ask_for(world, 0, &want, &first, &retry_after_ms), ERR_RATE);
    want.count = 0; /* in one that is there */
    assert_int_equal(ask_for(world, 0, &want, &first, &retry_after_ms), ERR_RATE);
    struct session *oldest = add(world, 0, MIB, 3000);
    assert_int_equal(ask_for(world, 0, &want, &first, &retry_after_ms), ERR_RATE);
    want = (struct session_want){.count = 3, .bytes = 6 * MIB};
    assert_int_equal(ask_for(world, 0, &want, &first, &retry_after_ms), ERR_NONE);
    assert_ptr_equal(first, oldest);
    world->config.max_sessions = 6; /* of which the other key has its part */
    want = (struct session_want){.count = 4};
    assert_int_equal(ask_for(world, 0, &want, &first, &retry_after_ms), ERR_NONE);
    assert_ptr_equal(first, oldest);
    want.count = 5;
    assert_int_equal(ask_for(world, 0, &want, &first, &retry_after_ms), ERR_RATE);
}

static void the_number_is_bounded_in_the_same_way(void **state)
{
    struct world *world = *state;
    struct session *first;
    uint64_t retry_after_ms;
    world->config.max_sessions = 4;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ask(world, 0, NULL, &first, &retry_after_ms), ERR_NONE);
        add(world, 0, 0, 0);
    }
    assert_int_equal(ask(world, 0, NULL, &first, &retry_after_ms), ERR_RATE); /* the other's */
    assert_int_equal(ask(world, 0, &world->made[0], &first, &retry_after_ms), ERR_NONE);
    assert_int_equal(ask(world, 1, NULL, &first, &retry_after_ms), ERR_NONE);
    world->config.max_sessions = 100;
    world->sessions.most = 3; /* all that this process has descriptors for */
    assert_int_equal(ask(world, 0, NULL, &first, &retry_after_ms), ERR_RATE);
    world->sessions.most = UINT64_MAX;
    world->keys[0].max_sessions = 3;
    assert_int_equal(ask(world, 0, NULL, &first, &retry_after_ms), ERR_RATE);
    world->keys[0].max_sessions = 4;
    assert_int_equal(ask(world, 0, NULL, &first, &retry_after_ms), ERR_NONE);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(counts_what_there_is),
        TEST(each_key_has_a_share),
        TEST(the_one_unused_for_longest_goes),
        TEST(several_at_once),
        TEST(the_number_is_bounded_in_the_same_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
