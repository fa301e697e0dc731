/* server/sessions/store.c: what is made is found again, what is broken is not, and whose directory will do.
 */
#include "server/sessions/store.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/resources/idmap.h"
#include "jail/resources/tree.h"
#include "tests/unit/jail/outer_id.h"

#define OWNER 54321u

struct world {
    struct outer_id id;
    char path[64];
    struct store *store;
    struct store_entry found[4];
    size_t n_found, n_broken;
};

static int open_pool(void **state)
{
    static struct world world;
    *state = &world;
    return outer_id_take(&world.id);
}

static int close_pool(void **state)
{
    outer_id_give_back(&((struct world *)*state)->id);
    return 0;
}

static bool is_range(const struct world *world)
{
    return idmap_pool_mode(world->id.pool) == IDMAP_RANGE;
}

static int make_directory(void **state)
{
    struct world *world = *state;
    strcpy(world->path, "/tmp/immure-store-XXXXXX");
    if (!mkdtemp(world->path)) {
        return -1;
    }
    return is_range(world) && chown(world->path, OWNER, OWNER) < 0;
}

static int remove_directory(void **state)
{
    struct world *world = *state;
    store_free(world->store);
    world->store = NULL;
    CLEANUP(fd_closep) int fd = open(world->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || tree_clear(fd) < 0 || rmdir(world->path) < 0;
}

static void must_open(struct world *world)
{
    struct err err = {0};
    if (store_open(world->path, world->id.pool, &world->store, &err) < 0) {
        fail_msg("%s: %s", err.item, err.text);
    }
}

static int on_found(void *arg, const struct store_entry *entry, struct err *reterr)
{
    (void)reterr;
    struct world *world = arg;
    world->found[world->n_found++] = *entry;
    return 0;
}

static void on_broken(void *arg, const struct err *err)
{
    print_message("%s: %s\n", err->item, err->text);
    ((struct world *)arg)->n_broken++;
}

static void visit(struct world *world)
{
    const struct store_visitor visitor = {.found = on_found, .broken = on_broken, .arg = world};
    world->n_found = world->n_broken = 0;
    assert_int_equal(store_visit(world->store, &visitor, NULL), 0);
}

static void make(struct world *world, const char *id, char ret_name[STORE_NAME_BYTES])
{
    struct stored_session session = {.created_ms = 1234};
    strcpy(session.id, id);
    memset(session.owner, 7, sizeof session.owner);
    assert_int_equal(store_make(world->store, &session, ret_name, NULL), 0);
}

static void what_is_made_is_found_again(void **state)
{
    struct world *world = *state;
    char one[STORE_NAME_BYTES], other[STORE_NAME_BYTES];
    must_open(world);
    make(world, "one", one);
    make(world, "other", other);
    assert_string_not_equal(one, other);
    assert_int_equal(store_end(world->store, other), 0);
    store_free(world->store);
    must_open(world);
    visit(world);
    assert_int_equal(world->n_found, 1);
    assert_int_equal(world->n_broken, 0);
    assert_string_equal(world->found[0].name, one);
    assert_string_equal(world->found[0].session.id, "one");
    assert_int_equal(world->found[0].session.created_ms, 1234);
    assert_true(world->found[0].used_ms > 1234);
}

/* So many descriptors more than there are now. */
static void allow_descriptors(rlim_t n, struct rlimit *ret_before)
{
    CLEANUP(fd_closep) int lowest = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    assert_true(lowest >= 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, ret_before), 0);
    struct rlimit limit = {.rlim_cur = (rlim_t)lowest + n, .rlim_max = ret_before->rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void what_could_not_be_made_is_no_session(void **state)
{
    struct world *world = *state;
    const struct stored_session session = {.id = "one"};
    char name[STORE_NAME_BYTES];
    must_open(world);
    for (rlim_t n = 0; n < 3; n++) { /* for its directory, its workspace and its file */
        struct rlimit before;
        allow_descriptors(n, &before);
        int r = store_make(world->store, &session, name, NULL);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(r, -EMFILE);
        visit(world);
        assert_int_equal(world->n_found + world->n_broken, 0);
    }
    make(world, "one", name);
    visit(world);
    assert_int_equal(world->n_found, 1);
}

static void rename_in(const struct world *world, const char *name, const char *from, const char *to)
{
    char old[160], new[160];
    snprintf(old, sizeof old, "%s/%s/%s", world->path, name, from);
    snprintf(new, sizeof new, "%s/%s/%s", world->path, name, to);
    assert_int_equal(rename(old, new), 0);
}

static void write_list(const struct world *world, const char *to, const char *one, const char *other)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", world->path, to);
    CLEANUP(fd_closep) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(dprintf(fd, "%s\n%s\n", one, other) > 0);
}

static void stage(struct world *world, struct store_staged ret[2], char names[2][STORE_NAME_BYTES])
{
    memset(ret, 0, 2 * sizeof *ret);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(store_make(world->store, NULL, names[i], NULL), 0);
        ret[i].name = names[i];
        strcpy(ret[i].session.id, i == 0 ? "one" : "other");
    }
}

static void what_is_staged_is_a_session_once_it_is_committed(void **state)
{
    struct world *world = *state;
    struct store_staged staged[2];
    char names[2][STORE_NAME_BYTES];
    must_open(world);
    stage(world, staged, names);
    assert_int_equal(store_commit(world->store, staged, 2, NULL), 0);
    visit(world);
    assert_int_equal(world->n_found, 2);
    assert_int_equal(world->n_broken, 0);
    assert_int_equal(store_end(world->store, names[0]), 0);
    visit(world);
    assert_int_equal(world->n_found, 1);
    assert_string_equal(world->found[0].session.id, "other");
}

/* Whatever a server had done when it was killed: all of them, or none. */
static void servers_that_are_killed_while_they_commit(void **state)
{
    struct world *world = *state;
    for (unsigned moment = 0; moment < 7; moment++) {
        struct store_staged staged[2];
        char names[2][STORE_NAME_BYTES], path[160];
        bool is_committed = moment >= 4;
        must_open(world);
        stage(world, staged, names);
        assert_int_equal(store_commit(world->store, staged, 2, NULL), 0);
        store_free(world->store);
        world->store = NULL;
        /* Back to where it was: nothing, one `.session`, both, the list being written; the list, one
         * `session`, both. */
        for (unsigned i = 0; i < 2; i++) {
            if (moment < 5 + i) {
                rename_in(world, names[i], "session", ".session");
            }
            snprintf(path, sizeof path, "%s/%s/.session", world->path, names[i]);
            if (moment <= i) {
                assert_int_equal(unlink(path), 0);
            }
        }
        if (moment >= 3) {
            write_list(world, is_committed ? ".committed" : ".committing", names[0], names[1]);
        }
        must_open(world);
        visit(world);
        assert_int_equal(world->n_found, is_committed ? 2 : 0);
        assert_int_equal(world->n_broken, is_committed ? 0 : 2);
        visit(world);
        assert_int_equal(world->n_found, is_committed ? 2 : 0);
        /* The next ones are not held up by what was left. */
        struct store_staged next[2];
        char next_names[2][STORE_NAME_BYTES];
        stage(world, next, next_names);
        assert_int_equal(store_commit(world->store, next, 2, NULL), 0);
        for (unsigned i = 0; i < 2; i++) {
            assert_int_equal(store_end(world->store, next_names[i]), 0);
            assert_int_equal(store_end(world->store, names[i]), is_committed ? 0 : -ENOENT);
        }
        snprintf(path, sizeof path, "%s/.committed", world->path);
        assert_int_equal(access(path, F_OK), -1);
        store_free(world->store);
        world->store = NULL;
    }
}

static void workspaces_are_swapped(void **state)
{
    struct world *world = *state;
    char name[STORE_NAME_BYTES], staged[STORE_NAME_BYTES], path[160];
    must_open(world);
    make(world, "one", name);
    assert_int_equal(store_make(world->store, NULL, staged, NULL), 0);
    snprintf(path, sizeof path, "%s/%s/work/new", world->path, staged);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(store_swap(world->store, staged, name, NULL), 0);
    snprintf(path, sizeof path, "%s/%s/work/new", world->path, name);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(store_end(world->store, staged), 0);
    assert_true(store_swap(world->store, staged, name, NULL) < 0);
    visit(world);
    assert_int_equal(world->n_found, 1);
    assert_int_equal(world->n_broken, 0);
}

static int put_nothing(const char *path)
{
    return access(path, F_OK) < 0 ? 0 : -1;
}

static int put_link(const char *path)
{
    return symlink("/etc/passwd", path);
}

static int put_fifo(const char *path)
{
    return mkfifo(path, 0600);
}

static int put_directory(const char *path)
{
    return mkdir(path, 0700);
}

static int put_long_text(const char *path)
{
    static const char text[5000] = "# ";
    CLEANUP(fd_closep) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd >= 0 && write(fd, text, sizeof text) == (ssize_t)sizeof text ? 0 : -1;
}

static void what_is_broken_is_ended(void **state)
{
    static int (*const put[])(const char *path) = {put_nothing, put_link, put_fifo, put_directory,
                                                   put_long_text};
    struct world *world = *state;
    char name[STORE_NAME_BYTES], path[160];
    must_open(world);
    make(world, "one", name);
    for (size_t i = 0; i < ARRAY_SIZE(put); i++) {
        char again[STORE_NAME_BYTES];
        make(world, "other", again);
        snprintf(path, sizeof path, "%s/%s/session", world->path, again);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(put[i](path), 0);
        visit(world);
        assert_int_equal(world->n_found, 1);
        assert_int_equal(world->n_broken, 1);
        visit(world);
        assert_int_equal(world->n_broken, 0);
    }
    assert_string_equal(world->found[0].name, name);
}

static void refused(struct world *world, const char *sentence)
{
    struct err err = {0};
    struct store *store = NULL;
    assert_true(store_open(world->path, world->id.pool, &store, &err) < 0);
    assert_null(store);
    assert_string_equal(err.item, "session_directory");
    if (!strstr(err.text, sentence)) {
        fail_msg("%s, not %s", err.text, sentence);
    }
}

static void directories_that_will_not_do(void **state)
{
    struct world *world = *state;
    assert_int_equal(chmod(world->path, 0710), 0);
    refused(world, "chmod 700");
    assert_int_equal(chmod(world->path, 0700), 0);
    if (is_range(world)) {
        assert_int_equal(chown(world->path, 0, OWNER), 0);
        refused(world, "chown");
        assert_int_equal(chown(world->path, OWNER, 0), 0);
        refused(world, "chown");
        assert_int_equal(chown(world->path, world->id.uid, OWNER), 0);
        refused(world, "chown");
        assert_int_equal(chown(world->path, OWNER, OWNER), 0);
    }
    assert_int_equal(rmdir(world->path), 0);
    assert_int_equal(symlink("/tmp", world->path), 0);
    refused(world, world->path);
    assert_int_equal(unlink(world->path), 0);
    assert_int_equal(mkdir(world->path, 0700), 0);
}

/* A lock of the process: another one has to try. */
static void one_server_at_a_time(void **state)
{
    struct world *world = *state;
    must_open(world);
    pid_t pid = fork();
    if (pid == 0) {
        struct err err = {0};
        struct store *store;
        int r = store_open(world->path, world->id.pool, &store, &err);
        _exit(r < 0 && strstr(err.text, "another server uses it") ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

#define WITH_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, make_directory, remove_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DIRECTORY(what_is_made_is_found_again),
        WITH_DIRECTORY(what_could_not_be_made_is_no_session),
        WITH_DIRECTORY(what_is_broken_is_ended),
        WITH_DIRECTORY(directories_that_will_not_do),
        WITH_DIRECTORY(one_server_at_a_time),
        WITH_DIRECTORY(what_is_staged_is_a_session_once_it_is_committed),
        WITH_DIRECTORY(servers_that_are_killed_while_they_commit),
        WITH_DIRECTORY(workspaces_are_swapped),
    };
    return cmocka_run_group_tests(tests, open_pool, close_pool);
}
