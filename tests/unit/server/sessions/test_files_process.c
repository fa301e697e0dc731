/* server/sessions/files_process.c: what a workspace holds, by way of another process. Any directory will do
 * for one. */
#include "server/sessions/files_process.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/io.h"
#include "jail/plan/plan.h"

struct world {
    char path[32];
    int workspace;
    struct files_process *process;
};

static int set_up(void **state)
{
    static struct world world;
    struct err err = {0};
    snprintf(world.path, sizeof world.path, "/tmp/test_files.XXXXXX");
    if (!mkdtemp(world.path)) {
        return -1;
    }
    world.workspace = open(world.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = &world;
    return world.workspace < 0 || mkdirat(world.workspace, SCRATCH_WORK, 0755) < 0 ||
                   files_process_new(&world.process, &err) < 0
               ? -1
               : 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *walk)
{
    (void)st;
    (void)kind;
    (void)walk;
    return remove(path);
}

static int tear_down(void **state)
{
    struct world *world = *state;
    files_process_free(world->process);
    close(world->workspace);
    return nftw(world->path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static int content_of(const char *text)
{
    int fd = -1;
    assert_int_equal(io_memfd("content", text, strlen(text), &fd), 0);
    return fd;
}

/* Returns the kind of the answer's error. */
static enum err_kind ask(const struct world *world, enum session_query what, const char *path,
                         const char *content, uint64_t most, struct files_answer *ret, int *ret_fd)
{
    struct files_request request;
    memset(&request, 0, sizeof request);
    request.what = what;
    request.uid = getuid();
    request.gid = getgid();
    request.most = most;
    snprintf(request.path, sizeof request.path, "%s", path);
    CLEANUP(fd_closep) int file = content ? content_of(content) : -1;
    assert_int_equal(files_process_begin(world->process, &request, world->workspace, file), 0);
    assert_int_equal(files_process_end(world->process, ret, ret_fd), 0);
    return ret->err.kind;
}

static enum err_kind ask_plainly(const struct world *world, enum session_query what, const char *path,
                                 const char *content)
{
    struct files_answer answer;
    int fd = -1;
    enum err_kind kind = ask(world, what, path, content, 100, &answer, &fd);
    fd_closep(&fd);
    return kind;
}

static void puts_and_gets(void **state)
{
    const struct world *world = *state;
    struct files_answer answer;
    int fd = -1;
    assert_int_equal(ask(world, SESSION_FILE_PUT, "d/f", "hello", 0, &answer, &fd), ERR_NONE);
    assert_int_equal(answer.size, 5);
    assert_int_equal(fd, -1);
    assert_int_equal(ask(world, SESSION_FILE_GET, "d/f", NULL, 5, &answer, &fd), ERR_NONE);
    assert_int_equal(answer.size, 5);
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    assert_int_equal(io_read_fd(fd, 100, &text), 0);
    assert_memory_equal(text.data, "hello", 5);
    close(fd);
    assert_int_equal(ask(world, SESSION_FILE_GET, "d/f", NULL, 4, &answer, &fd), ERR_TOO_LARGE);
    assert_int_equal(fd, -1);
}

static void lists(void **state)
{
    const struct world *world = *state;
    struct files_answer answer;
    CLEANUP(session_rows_clear) struct session_rows rows = {0};
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    struct err err = {0};
    int fd = -1;
    assert_int_equal(ask_plainly(world, SESSION_FILE_PUT, "b", "123"), ERR_NONE);
    assert_int_equal(ask_plainly(world, SESSION_FILE_PUT, "a/a", ""), ERR_NONE);
    assert_int_equal(ask(world, SESSION_FILES, "", NULL, 100, &answer, &fd), ERR_NONE);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(io_read_fd(fd, 1000, &packed), 0);
    close(fd);
    assert_int_equal(session_rows_decode(packed.data, packed.len, &rows, &err), 0);
    assert_int_equal(rows.n_files, 2);
    assert_string_equal(rows.files[0].path, "a/a");
    assert_string_equal(rows.files[1].path, "b");
    assert_int_equal(rows.files[1].size, 3);
    assert_false(rows.truncated);
}

static void follows_no_link_and_goes_on(void **state)
{
    const struct world *world = *state;
    assert_int_equal(symlinkat("/etc", world->workspace, SCRATCH_WORK "/link"), 0);
    assert_int_equal(ask_plainly(world, SESSION_FILE_GET, "link/passwd", NULL), ERR_NOT_FOUND);
    assert_int_equal(ask_plainly(world, SESSION_FILE_PUT, "link/f", "x"), ERR_CONFLICT);
    assert_int_equal(ask_plainly(world, SESSION_FILE_DELETE, "link/passwd", NULL), ERR_NOT_FOUND);
    assert_int_equal(ask_plainly(world, SESSION_FILE_PUT, "d/f", "x"), ERR_NONE);
    assert_int_equal(ask_plainly(world, SESSION_FILE_PUT, "d", "x"), ERR_CONFLICT);
    assert_int_equal(ask_plainly(world, SESSION_FILE_DELETE, "d", NULL), ERR_CONFLICT);
    assert_int_equal(ask_plainly(world, SESSION_FILE_DELETE, "d/f", NULL), ERR_NONE);
    assert_int_equal(ask_plainly(world, SESSION_FILE_DELETE, "d/f", NULL), ERR_NOT_FOUND);
}

/* What is no request ends it; that is seen, and told. */
static void its_end_is_seen(void **state)
{
    const struct world *world = *state;
    struct files_answer answer;
    int fd = -1;
    struct pollfd ready = {.fd = files_process_fd(world->process), .events = POLLIN};
    assert_int_equal(io_send_fds(ready.fd, "x", 1, NULL, 0), 0);
    assert_int_equal(poll(&ready, 1, -1), 1);
    assert_int_equal(files_process_end(world->process, &answer, &fd), -EPIPE);
    const struct files_request request = {.what = SESSION_FILES};
    assert_int_equal(files_process_begin(world->process, &request, world->workspace, -1), -EPIPE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(puts_and_gets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lists, set_up, tear_down),
        cmocka_unit_test_setup_teardown(follows_no_link_and_goes_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(its_end_is_seen, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
