/* server/sessions/sessions.c, lookup.c, files.c: a session's life, whose it is, and its files without a job.
 * Workspaces are real ones, in memory; no jail is. */
#include "server/sessions/sessions.h"

#include "config/message/message_session.h"
#include "jail/base/buf.h"
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

/* What is answered, and by `ret_fd`, the caller's to close, what came along. `text` of a file that is put. */
static enum err_kind ask(struct sessions_world *world, const char *key, const char *name,
                         enum session_query what, const char *path, const char *text, int *ret_fd)
{
    struct session_file_ask ask = {.config = world->config, .most_bytes = 8, .asker = world};
    CLEANUP(fd_closep) int content = -1;
    struct err err = {0};
    ask.query.what = what;
    snprintf(ask.query.key, sizeof ask.query.key, "%s", key);
    snprintf(ask.query.session_id, sizeof ask.query.session_id, "%s", name);
    snprintf(ask.query.path, sizeof ask.query.path, "%s", path);
    if (text) {
        assert_int_equal(io_memfd("file", text, strlen(text), &content), 0);
    }
    world->answered = false;
    assert_int_equal(session_files_ask(world->sessions, &ask, content, &err), 0);
    while (!world->answered) {
        assert_int_equal(loop_once(world->loop, 60000, NULL), 0);
    }
    *ret_fd = world->answer_fd;
    return world->answer.kind;
}

static enum err_kind ask_plainly(struct sessions_world *world, const char *key, const char *name,
                                 enum session_query what, const char *path, const char *text)
{
    CLEANUP(fd_closep) int fd = -1;
    enum err_kind kind = ask(world, key, name, what, path, text, &fd);
    assert_int_equal(fd, -1);
    return kind;
}

/* -> ERR_NONE: it is in the key's session of that name, which is made where there is none. */
static enum err_kind put(struct sessions_world *world, const char *key, const char *name, const char *path,
                         const char *text)
{
    return ask_plainly(world, key, name, SESSION_FILE_PUT, path, text);
}

/* -> ERR_NONE: it is there, and says what is expected */
static enum err_kind get(struct sessions_world *world, const char *key, const char *name, const char *path,
                         const char *expected)
{
    CLEANUP(fd_closep) int fd = -1;
    char text[256];
    if (ask(world, key, name, SESSION_FILE_GET, path, NULL, &fd) == ERR_NONE) {
        assert_int_equal(world->answer.size, strlen(expected));
        assert_int_equal(read(fd, text, sizeof text), strlen(expected));
        assert_memory_equal(text, expected, strlen(expected));
    } else {
        assert_int_equal(fd, -1);
    }
    return world->answer.kind;
}

static enum err_kind remove_file(struct sessions_world *world, const char *key, const char *name,
                                 const char *path)
{
    return ask_plainly(world, key, name, SESSION_FILE_DELETE, path, NULL);
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
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    CLEANUP(fd_closep) int fd = -1;
    struct err err = {0};
    assert_int_equal(put(world, "a", "s", "d/in", "one"), ERR_NONE);
    assert_int_equal(put(world, "a", "s", "d/in", "and two"), ERR_NONE); /* in the place of the first */
    assert_int_equal(get(world, "a", "s", "d/in", "and two"), ERR_NONE);
    assert_int_equal(put(world, "a", "s", "d", "a file"), ERR_CONFLICT);
    assert_int_equal(remove_file(world, "a", "s", "d"), ERR_CONFLICT);
    assert_int_equal(get(world, "a", "s", "d", ""), ERR_NOT_FOUND);
    assert_int_equal(get(world, "a", "s", "none", ""), ERR_NOT_FOUND);
    assert_int_equal(get(world, "a", "another", "d/in", ""), ERR_NOT_FOUND);
    assert_int_equal(put(world, "a", "s", "large", "nine bytes"), ERR_NONE);
    assert_int_equal(get(world, "a", "s", "large", ""), ERR_TOO_LARGE);
    assert_int_equal(remove_file(world, "a", "s", "large"), ERR_NONE);
    assert_int_equal(ask(world, "a", "s", SESSION_FILES, "", NULL, &fd), ERR_NONE);
    assert_int_equal(io_read_fd(fd, 1000, &packed), 0);
    assert_int_equal(session_rows_decode(packed.data, packed.len, &rows, &err), 0);
    assert_int_equal(rows.n_files, 1);
    assert_string_equal(rows.files[0].path, "d/in");
    assert_int_equal(rows.files[0].size, 7);
    assert_false(rows.truncated);
    session_rows_clear(&rows);
}

/* What one key's files that wait take of memory is bounded; once they are gone there is room again. */
static void files_that_wait(void **state)
{
    struct sessions_world *world = *state;
    struct session_file_ask ask = {.config = world->config, .asker = world};
    struct err err = {0};
    int asked = 0;
    ask.query =
        (struct msg_session_query){.what = SESSION_FILE_PUT, .key = "a", .session_id = "s", .path = "f"};
    CLEANUP(fd_closep) int content = -1;
    assert_int_equal(io_memfd("file", "", 0, &content), 0);
    assert_int_equal(ftruncate(content, 48 << 20), 0);
    while (asked < 10 && session_files_ask(world->sessions, &ask, content, &err) == 0) {
        asked++;
    }
    assert_int_equal(asked, 3); /* one is being worked on */
    assert_int_equal(err.kind, ERR_RATE);
    session_files_forget(world->sessions, world);
    err_clear(&err);
    assert_int_equal(session_files_ask(world->sessions, &ask, content, &err), 0);
    session_files_forget(world->sessions, world);
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
        cmocka_unit_test_setup_teardown(files_that_wait, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, open_host, close_host);
}
