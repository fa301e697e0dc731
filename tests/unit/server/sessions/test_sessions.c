/* server/sessions/sessions.c, lookup.c, files.c: a session's life, whose it is, and its files without a job.
 * Workspaces are real ones, in memory; no jail is. */
#include "server/sessions/sessions.h"

#include <sys/mman.h>

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

/* -> ERR_NONE: it is in the key's session of that name, which is made where there is none. */
static enum err_kind put(struct sessions_world *world, const char *key, const char *name, const char *path,
                         const char *text)
{
    const struct session_ask ask = {.config = world->config, .key = key, .session_id = name};
    CLEANUP(fd_closep) int from = memfd_create("file", MFD_CLOEXEC);
    bool is_new;
    uint64_t retry_after_ms;
    struct err err = {0};
    assert_int_equal(io_write_full(from, text, strlen(text)), 0);
    session_put_file(world->sessions, &ask, path, from, &is_new, &retry_after_ms, &err);
    return err.kind;
}

/* -> ERR_NONE: it is there, and says what is expected */
static enum err_kind get(struct sessions_world *world, const char *key, const char *name, const char *path,
                         const char *expected)
{
    CLEANUP(fd_closep) int fd = -1;
    uint64_t size;
    char text[256];
    struct err err = {0};
    if (session_get_file(world->sessions, world->config, key, name, path, sizeof text, &fd, &size, &err) ==
        0) {
        assert_int_equal(size, strlen(expected));
        assert_int_equal(read(fd, text, sizeof text), size);
        assert_memory_equal(text, expected, size);
    }
    return err.kind;
}

static enum err_kind remove_file(struct sessions_world *world, const char *key, const char *name,
                                 const char *path)
{
    struct err err = {0};
    session_delete_file(world->sessions, world->config, key, name, path, &err);
    return err.kind;
}

static size_t count_of(struct sessions_world *world, const char *key)
{
    struct session_row rows[8];
    return sessions_list(world->sessions, world->config, key, rows, 8);
}

static void the_first_job_makes_it_and_the_last_one_ends_it(void **state)
{
    struct sessions_world *world = *state;
    bool is_new;
    struct session *first = enter_session(world, "a", "s", &is_new);
    assert_true(is_new);
    assert_string_equal(session_id_of(first), "s");
    assert_ptr_equal(enter_session(world, "a", "s", &is_new), first);
    assert_false(is_new);
    assert_int_equal(sessions_count(world->sessions), 1);
    leave_session(first, true);
    assert_int_equal(sessions_count(world->sessions), 1);
    leave_session(first, true); /* without a file nothing is worth keeping */
    assert_int_equal(sessions_count(world->sessions), 0);
    assert_int_equal(world->n_ended, 1);
    assert_int_equal(world->n_changes, 2);
}

static void one_with_files_stays(void **state)
{
    struct sessions_world *world = *state;
    bool is_new;
    assert_int_equal(put(world, "a", "s", "in", "1"), ERR_NONE);
    leave_session(enter_session(world, "a", "s", &is_new), true);
    assert_false(is_new);
    assert_int_equal(get(world, "a", "s", "in", "1"), ERR_NONE);
    assert_int_equal(remove_file(world, "a", "s", "in"), ERR_NONE); /* with its last file it goes */
    assert_int_equal(sessions_count(world->sessions), 0);
}

static void what_goes_on_between_jobs_keeps_it(void **state)
{
    struct sessions_world *world = *state;
    bool is_new;
    struct session *session = enter_session(world, "a", "s", &is_new);
    session_keep(session, true);
    session_leave(session, true);
    assert_int_equal(sessions_count(world->sessions), 1);
    session_keep(session, false);
    session_unref(session);
    leave_session(enter_session(world, "a", "s", &is_new), true);
    assert_int_equal(sessions_count(world->sessions), 0);
}

/* A job that never began leaves nothing that was not there before it. */
static void a_job_that_never_began(void **state)
{
    struct sessions_world *world = *state;
    bool is_new;
    leave_session(enter_session(world, "a", "s", &is_new), false);
    assert_int_equal(sessions_count(world->sessions), 0);
    assert_int_equal(put(world, "a", "s", "in", "1"), ERR_NONE);
    leave_session(enter_session(world, "a", "s", &is_new), false);
    assert_int_equal(get(world, "a", "s", "in", "1"), ERR_NONE);
}

/* To other keys it is as if it were not there, but that its name is taken. */
static void it_is_one_keys_own(void **state)
{
    struct sessions_world *world = *state;
    const struct session_ask ask = {.config = world->config, .key = "b", .session_id = "s"};
    struct session *session;
    bool is_new;
    uint64_t retry_after_ms;
    struct err err = {0};
    assert_int_equal(put(world, "a", "s", "in", "1"), ERR_NONE);
    assert_true(session_enter(world->sessions, &ask, &session, &is_new, &retry_after_ms, &err) < 0);
    assert_int_equal(err.kind, ERR_DENIED);
    assert_int_equal(get(world, "b", "s", "in", "1"), ERR_NOT_FOUND);
    assert_int_equal(put(world, "b", "s", "in", "2"), ERR_NOT_FOUND);
    assert_int_equal(remove_file(world, "b", "s", "in"), ERR_NOT_FOUND);
    assert_int_equal(get(world, "a", "s", "in", "1"), ERR_NONE);
    assert_int_equal(count_of(world, "a"), 1);
    assert_int_equal(count_of(world, "b"), 0);
}

static void what_is_to_be_kept_must_be_there(void **state)
{
    struct sessions_world *world = *state;
    const struct session_ask ask = {.config = world->config, .key = "a", .session_id = "s", .kept = true};
    struct session *session;
    bool is_new;
    uint64_t retry_after_ms;
    struct err err = {0};
    assert_true(session_try(world->sessions, &ask, &session, &err) < 0);
    assert_int_equal(err.kind, ERR_CONFLICT);
    err_clear(&err);
    assert_true(session_enter(world->sessions, &ask, &session, &is_new, &retry_after_ms, &err) < 0);
    assert_int_equal(err.kind, ERR_CONFLICT);
    err_clear(&err);
    assert_int_equal(put(world, "a", "s", "in", "1"), ERR_NONE);
    assert_int_equal(session_enter(world->sessions, &ask, &session, &is_new, &retry_after_ms, &err), 0);
    assert_false(is_new);
    leave_session(session, true);
}

/* Its name is free at once; its jobs still have their workspace, and what they do in it is nobody else's. */
static void one_that_is_ended_while_a_job_runs(void **state)
{
    struct sessions_world *world = *state;
    bool is_new;
    struct session *first = enter_session(world, "a", "s", &is_new);
    session_end(first);
    assert_ptr_equal(world->last, first);
    assert_true(world->at_once);
    assert_int_equal(count_of(world, "a"), 0);
    struct session *second = enter_session(world, "a", "s", &is_new);
    assert_true(is_new);
    assert_ptr_not_equal(first, second);
    struct session_workspace one, other;
    struct err err = {0};
    assert_int_equal(session_open(second, 0, &other, &err), 0);
    assert_int_equal(session_open(first, 0, &one, &err), 0);
    assert_int_not_equal(one.fd, other.fd);
    fd_closep(&one.mount_fd);
    fd_closep(&other.mount_fd);
    leave_session(first, true);
    assert_int_equal(count_of(world, "a"), 1);
    leave_session(second, true);
    assert_int_equal(world->n_ended, 2);
}

static void its_time_to_live(void **state)
{
    struct sessions_world *world = *state;
    world->config->session_ttl_ms = 1;
    assert_int_equal(put(world, "a", "s", "in", "1"), ERR_NONE);
    while (sessions_count(world->sessions) > 0) {
        assert_int_equal(loop_once(world->loop, 60000, NULL), 0);
    }
    assert_int_equal(world->n_ended, 1);
    assert_int_equal(get(world, "a", "s", "in", "1"), ERR_NOT_FOUND);
}

static void files_without_a_job(void **state)
{
    struct sessions_world *world = *state;
    struct session_rows rows = {0};
    struct err err = {0};
    int fd = -1;
    uint64_t size;
    assert_int_equal(put(world, "a", "s", "d/in", "one"), ERR_NONE);
    assert_int_equal(put(world, "a", "s", "d/in", "and two"), ERR_NONE); /* in the place of the first */
    assert_int_equal(get(world, "a", "s", "d/in", "and two"), ERR_NONE);
    assert_int_equal(put(world, "a", "s", "d", "a file"), ERR_CONFLICT);
    assert_int_equal(remove_file(world, "a", "s", "d"), ERR_CONFLICT);
    assert_int_equal(get(world, "a", "s", "d", ""), ERR_NOT_FOUND);
    assert_int_equal(get(world, "a", "s", "none", ""), ERR_NOT_FOUND);
    assert_int_equal(get(world, "a", "another", "d/in", ""), ERR_NOT_FOUND);
    session_get_file(world->sessions, world->config, "a", "s", "d/in", 6, &fd, &size, &err);
    assert_int_equal(err.kind, ERR_TOO_LARGE);
    assert_int_equal(fd, -1);
    assert_int_equal(session_list_files(world->sessions, world->config, "a", "s", &rows, NULL), 0);
    assert_int_equal(rows.n_files, 1);
    assert_string_equal(rows.files[0].path, "d/in");
    assert_int_equal(rows.files[0].size, 7);
    assert_false(rows.truncated);
    session_rows_clear(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_first_job_makes_it_and_the_last_one_ends_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_with_files_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_goes_on_between_jobs_keeps_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_job_that_never_began, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_is_one_keys_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_to_be_kept_must_be_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_is_ended_while_a_job_runs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(its_time_to_live, set_up, tear_down),
        cmocka_unit_test_setup_teardown(files_without_a_job, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, open_host, close_host);
}
