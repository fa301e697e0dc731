/* server/sessions/branch.c: forks and restores all or nothing, and who may not begin meanwhile. Workspaces
 * are real ones, in memory; no jail is. */
#include "server/sessions/sessions.h"

#include "config/message/message_session.h"
#include "tests/unit/server/sessions_world.h"

static int set_up(void **state)
{
    static struct sessions_world world;
    *state = &world;
    return sessions_world_open(&world, "");
}

static int tear_down(void **state)
{
    sessions_world_close(*state);
    return 0;
}

static void begin(struct sessions_world *world, enum session_query what, const char *name, const char *one,
                  const char *other)
{
    struct session_file_ask ask = {.config = world->config, .most_bytes = 8, .asker = world};
    struct err err = {0};
    ask.query.what = what;
    strcpy(ask.query.key, "a");
    strcpy(ask.query.session_id, name);
    const char *const others[] = {one, other, NULL};
    for (const char *const *next = others; *next; next++) {
        strcpy(ask.query.others[ask.query.n_others++].session_id, *next);
    }
    world->answered = false;
    assert_int_equal(session_branch_ask(world->sessions, &ask, &err), 0);
}

static enum err_kind end(struct sessions_world *world)
{
    while (!world->answered) {
        assert_int_equal(loop_once(world->loop, 60000, NULL), 0);
    }
    fd_closep(&world->answer_fd);
    return world->answer.kind;
}

static enum err_kind ask(struct sessions_world *world, enum session_query what, const char *name,
                         const char *one, const char *other)
{
    begin(world, what, name, one, other);
    return end(world);
}

static void put(struct sessions_world *world, const char *name, const char *path)
{
    struct session_file_ask ask = {.config = world->config, .most_bytes = 8, .asker = world};
    CLEANUP(fd_closep) int content = -1;
    struct err err = {0};
    ask.query.what = SESSION_FILE_PUT;
    strcpy(ask.query.key, "a");
    strcpy(ask.query.session_id, name);
    strcpy(ask.query.path, path);
    assert_int_equal(io_memfd("file", "1", 1, &content), 0);
    world->answered = false;
    assert_int_equal(session_files_ask(world->sessions, &ask, content, &err), 0);
    assert_int_equal(end(world), ERR_NONE);
}

static enum err_kind try(const struct sessions_world *world, const char *name)
{
    const struct session_ask ask = {.config = world->config, .key = "a", .session_id = name};
    struct session *session;
    struct err err = {0};
    session_try(world->sessions, &ask, &session, &err);
    return err.kind;
}

static size_t count(struct sessions_world *world)
{
    struct session_row rows[8];
    return sessions_list(world->sessions, world->config, "a", rows, 8);
}

static void no_job_begins_meanwhile(void **state)
{
    struct sessions_world *world = *state;
    put(world, "main", "f");
    begin(world, SESSION_FORK, "main", "one", "two");
    for (const char *const *name = (const char *const[]){"main", "one", "two", NULL}; *name; name++) {
        assert_int_equal(try(world, *name), ERR_BUSY);
    }
    assert_int_equal(try(world, "another"), ERR_NONE);
    assert_int_equal(count(world), 1); /* the copies are none yet */
    assert_int_equal(end(world), ERR_NONE);
    assert_int_equal(world->answer.files, 1);
    assert_int_equal(count(world), 3);
    assert_int_equal(try(world, "two"), ERR_NONE);
    put(world, "two", "g");
    assert_int_equal(ask(world, SESSION_RESTORE, "main", "two", NULL), ERR_NONE);
    assert_int_equal(world->answer.files, 2);
    assert_int_equal(ask(world, SESSION_DIFF, "main", "two", NULL), ERR_NONE);
    assert_int_equal(world->n_ended, 0);
}

static void what_fails_leaves_nothing(void **state)
{
    struct sessions_world *world = *state;
    bool is_new;
    put(world, "main", "f");
    put(world, "there", "f");
    assert_int_equal(ask(world, SESSION_FORK, "main", "one", "there"), ERR_CONFLICT);
    assert_int_equal(ask(world, SESSION_FORK, "main", "one", "one"), ERR_INVALID);
    assert_int_equal(ask(world, SESSION_FORK, "none", "one", "two"), ERR_NOT_FOUND);
    assert_int_equal(ask(world, SESSION_RESTORE, "main", "main", NULL), ERR_INVALID);
    struct session *session = enter_session(world, "a", "main", &is_new);
    assert_int_equal(ask(world, SESSION_FORK, "main", "one", "two"), ERR_CONFLICT);
    assert_int_equal(ask(world, SESSION_RESTORE, "there", "main", NULL), ERR_CONFLICT);
    assert_int_equal(ask(world, SESSION_DIFF, "there", "main", NULL), ERR_NONE);
    leave_session(session, true);
    assert_int_equal(count(world), 2);
    assert_int_equal(sessions_count(world->sessions), 2);
    assert_int_equal(ask(world, SESSION_FORK, "main", "one", "two"), ERR_NONE);
}

/* An interpreter stays with its session, and ends where its files are replaced. */
static void kernels(void **state)
{
    struct sessions_world *world = *state;
    bool is_new;
    put(world, "main", "f");
    struct session *session = enter_session(world, "a", "main", &is_new);
    session_keep(session, true);
    leave_session(session, true);
    assert_int_equal(ask(world, SESSION_FORK, "main", "one", NULL), ERR_NONE);
    assert_int_equal(world->answer.kernel, SESSION_KERNEL_NOT_COPIED);
    assert_int_equal(ask(world, SESSION_RESTORE, "one", "main", NULL), ERR_NONE);
    assert_int_equal(world->answer.kernel, SESSION_KERNEL_NOT_COPIED);
    assert_int_equal(ask(world, SESSION_RESTORE, "main", "one", NULL), ERR_NONE);
    assert_int_equal(world->answer.kernel, SESSION_KERNEL_ENDED);
    assert_int_equal(ask(world, SESSION_FORK, "one", "two", NULL), ERR_NONE);
    assert_int_equal(world->answer.kernel, SESSION_KERNEL_NONE);
    session_keep(session, false);
}

/* Nobody waits for it any more, or the server ends. */
static void whoever_asked_goes(void **state)
{
    struct sessions_world *world = *state;
    put(world, "main", "f");
    begin(world, SESSION_FORK, "main", "one", NULL);
    begin(world, SESSION_FORK, "main", "dropped", NULL); /* its turn has not come */
    session_files_forget(world->sessions, world);
    while (count(world) < 2) {
        assert_int_equal(loop_once(world->loop, 60000, NULL), 0);
    }
    assert_false(world->answered);
    assert_int_equal(try(world, "one"), ERR_NONE);
    begin(world, SESSION_FORK, "main", "two", "three");
    begin(world, SESSION_RESTORE, "main", "one", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_job_begins_meanwhile, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_fails_leaves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(kernels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(whoever_asked_goes, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, open_host, close_host);
}
