/* server/sessions/copy.c, compare.c: what becomes of a tree of any names, and what is told of two. Any
 * directory will do for a workspace. */
#include "server/sessions/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/message/message_session.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/plan/plan.h"
#include "jail/resources/tree.h"

struct world {
    char path[32];
    int top, from, to;           /* two of them, */
    int from_work, to_work;      /* and what is in them */
    struct copy_counts counts;   /* of the last copy, */
    struct err err;              /* or why there was none */
    struct session_rows changes; /* of the last comparison */
};

static int open_at(int dirfd, const char *name)
{
    return mkdirat(dirfd, name, 0755) < 0 ? -1 : openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int set_up(void **state)
{
    static struct world world;
    world = (struct world){.path = "/tmp/test_copy.XXXXXX"};
    *state = &world;
    if (!mkdtemp(world.path)) {
        return -1;
    }
    world.top = open(world.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    world.from = open_at(world.top, "from");
    world.to = open_at(world.top, "to");
    world.from_work = open_at(world.from, SCRATCH_WORK);
    world.to_work = open_at(world.to, SCRATCH_WORK);
    return world.to_work < 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    session_rows_clear(&world->changes);
    int r = tree_clear(world->top);
    close(world->from_work);
    close(world->to_work);
    close(world->from);
    close(world->to);
    close(world->top);
    return r < 0 || rmdir(world->path) < 0;
}

static void write_at(int dirfd, const char *name, const char *text, off_t at)
{
    CLEANUP(fd_closep) int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, text, strlen(text), at), strlen(text));
}

static struct stat stat_of(int dirfd, const char *name)
{
    struct stat st;
    assert_int_equal(fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
    return st;
}

static enum err_kind copy(struct world *world, uint64_t bytes, uint64_t entries)
{
    const struct copy_order order = {.uid = getuid(), .gid = getgid(), .bytes = bytes, .entries = entries};
    err_clear(&world->err);
    int r = workspace_copy(world->from, world->to, &order, &world->counts, &world->err);
    assert_int_equal(r < 0, world->err.kind != ERR_NONE);
    return world->err.kind;
}

/* As "+added:size -removed:size *changed:size". */
static const char *changes(struct world *world)
{
    static const char signs[] = {[SESSION_ADDED] = '+', [SESSION_REMOVED] = '-', [SESSION_CHANGED] = '*'};
    static char text[400];
    struct err err = {0};
    size_t len = 0;
    session_rows_clear(&world->changes);
    assert_int_equal(workspace_compare(world->from, world->to, 100, &world->changes, &err), 0);
    text[0] = '\0';
    for (size_t i = 0; i < world->changes.n_files; i++) {
        const struct session_file *file = &world->changes.files[i];
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%c%s:%llu", i > 0 ? " " : "",
                                signs[file->change], file->path, (unsigned long long)file->size);
    }
    return text;
}

static void what_is_kept_and_what_is_not(void **state)
{
    struct world *world = *state;
    const struct timespec times[] = {{.tv_sec = 5}, {.tv_sec = 6}};
    close(open_at(world->from_work, "d"));
    write_at(world->from_work, "d/f", "text", 0);
    write_at(world->from_work, "sparse", "end", 8 << 20);
    assert_int_equal(fchmodat(world->from_work, "d/f", 06751, 0), 0);
    assert_int_equal(linkat(world->from_work, "d/f", world->from_work, "again", 0), 0);
    assert_int_equal(symlinkat("/etc/passwd", world->from_work, "out"), 0);
    assert_int_equal(mkfifoat(world->from_work, "fifo", 0644), 0);
    assert_int_equal(utimensat(world->from_work, "d/f", times, 0), 0);
    assert_int_equal(utimensat(world->from_work, "d", times, 0), 0);
    assert_int_equal(fchmodat(world->from_work, "d", 01711, 0), 0);
    assert_int_equal(copy(world, 1 << 20, 6), ERR_NONE);
    assert_int_equal(world->counts.files, 3);
    assert_int_equal(world->counts.left_out, 1);
    struct stat file = stat_of(world->to_work, "again"), other = stat_of(world->to_work, "d/f");
    assert_int_equal(file.st_ino, other.st_ino);
    assert_int_equal(file.st_mode, S_IFREG | 0751);
    assert_int_equal(file.st_mtim.tv_sec, 6);
    assert_int_equal(stat_of(world->to_work, "d").st_mode, S_IFDIR | 01711);
    assert_int_equal(stat_of(world->to_work, "d").st_mtim.tv_sec, 6);
    assert_true(stat_of(world->to_work, "sparse").st_blocks < 256);
    char target[32] = "";
    assert_int_equal(readlinkat(world->to_work, "out", target, sizeof target), 11);
    assert_string_equal(target, "/etc/passwd");
    assert_int_equal(faccessat(world->to_work, "fifo", F_OK, 0), -1);
    assert_string_equal(changes(world), "");
}

static void its_bounds(void **state)
{
    struct world *world = *state;
    write_at(world->from_work, "a", "12345", 0);
    write_at(world->from_work, "b", "67890", 0);
    assert_int_equal(copy(world, 9, 2), ERR_TOO_LARGE);
    assert_non_null(strstr(world->err.text, "of 9 bytes"));
    assert_int_equal(tree_clear(world->to_work), 0);
    assert_int_equal(copy(world, 10, 1), ERR_TOO_LARGE);
    assert_non_null(strstr(world->err.text, "more than 1 files"));
    assert_int_equal(tree_clear(world->to_work), 0);
    assert_int_equal(copy(world, 10, 2), ERR_NONE);
}

/* So many directories in each other, with a file in the last. */
static void dig(int dirfd, unsigned depth)
{
    CLEANUP(fd_closep) int fd = fcntl(dirfd, F_DUPFD_CLOEXEC, 0);
    for (unsigned i = 0; i < depth; i++) {
        int next = open_at(fd, "a name that is long enough for a path that no call would take");
        assert_true(next >= 0);
        close(fd);
        fd = next;
    }
    write_at(fd, "f", "1", 0);
    assert_int_equal(linkat(fd, "f", fd, "g", 0), 0);
}

static void its_depth(void **state)
{
    struct world *world = *state;
    dig(world->from_work, TREE_DEPTH_MAX);
    assert_int_equal(copy(world, 100, 1000), ERR_NONE);
    assert_int_equal(world->counts.files, 2);
    assert_int_equal(tree_clear(world->from_work), 0);
    assert_int_equal(tree_clear(world->to_work), 0);
    dig(world->from_work, TREE_DEPTH_MAX + 1);
    assert_int_equal(copy(world, 100, 1000), ERR_TOO_LARGE);
    assert_non_null(strstr(world->err.text, "deep"));
}

/* A program may exchange names all the while: what comes of it is not more than was there. */
static void names_that_change_meanwhile(void **state)
{
    struct world *world = *state;
    int stop[2];
    char end;
    close(open_at(world->from_work, "d"));
    write_at(world->from_work, "d/f", "text", 0);
    assert_int_equal(symlinkat("/", world->from_work, "link"), 0);
    assert_int_equal(pipe2(stop, O_CLOEXEC | O_NONBLOCK), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(stop[1]);
        while (read(stop[0], &end, 1) < 0) {
            renameat2(world->from_work, "d", world->from_work, "link", RENAME_EXCHANGE);
        }
        _exit(0);
    }
    close(stop[0]);
    for (unsigned i = 0; i < 300; i++) {
        assert_int_equal(copy(world, 100, 10), ERR_NONE);
        assert_true(world->counts.files <= 2);
        assert_int_equal(tree_clear(world->to_work), 0);
    }
    close(stop[1]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void what_differs(void **state)
{
    struct world *world = *state;
    for (size_t i = 0; i < 2; i++) {
        int work = i == 0 ? world->from_work : world->to_work;
        write_at(work, "same", "same", 1 << 20);
        write_at(work, "byte", "x", 200000);
        write_at(work, "size", "x", 0);
        assert_int_equal(symlinkat("same", work, "link"), 0);
    }
    assert_string_equal(changes(world), "");
    write_at(world->to_work, "byte", "y", 100000);
    write_at(world->to_work, "size", "yz", 0);
    write_at(world->from_work, "old", "1", 0);
    write_at(world->to_work, "new", "22", 0);
    close(open_at(world->to_work, "a"));
    write_at(world->to_work, "a/b", "", 0);
    assert_string_equal(changes(world), "+a/b:0 *byte:200001 +new:2 -old:1 *size:2");
    assert_int_equal(world->changes.files[4].size_before, 1);
    assert_false(world->changes.truncated);
    /* Holes are zeros, wherever they are. */
    assert_int_equal(tree_clear(world->from_work), 0);
    assert_int_equal(tree_clear(world->to_work), 0);
    write_at(world->from_work, "hole", "x", (off_t)1 << 40);
    write_at(world->to_work, "hole", "x", (off_t)1 << 40);
    CLEANUP(fd_closep) int fd = openat(world->to_work, "hole", O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "\0\0", 2, 1 << 30), 2);
    assert_string_equal(changes(world), "");
    assert_int_equal(pwrite(fd, "\0\1", 2, 1 << 30), 2);
    assert_string_equal(changes(world), "*hole:1099511627777");
}

#define WITH_TWO(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_TWO(what_is_kept_and_what_is_not), WITH_TWO(its_bounds),   WITH_TWO(its_depth),
        WITH_TWO(names_that_change_meanwhile),  WITH_TWO(what_differs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
