/* server/image/tree.c: what a copy and a settled tree are made of, whatever was there before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/resources/tree.h"
#include "server/image/tree.h"

static const struct image_limits plenty = {.bytes = 1 << 20, .files = 1000};

struct fixture {
    char path[64];
    int from, to;
};

static int make_trees(void **state)
{
    static struct fixture fixture;
    struct fixture *f = *state = &fixture;
    strcpy(f->path, "/tmp/immure-tree-XXXXXX");
    if (!mkdtemp(f->path)) {
        return -1;
    }
    CLEANUP(fd_closep) int top = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = mkdirat(top, "from", 0755) | mkdirat(top, "to", 0755);
    f->from = openat(top, "from", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    f->to = openat(top, "to", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return r < 0 || f->from < 0 || f->to < 0 ? -1 : 0;
}

static int remove_trees(void **state)
{
    struct fixture *f = *state;
    CLEANUP(fd_closep) int top = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fd_closep(&f->from);
    fd_closep(&f->to);
    image_tree_open_up(top);
    return tree_clear(top) < 0 || rmdir(f->path) < 0 ? -1 : 0;
}

static void put(int at, const char *name, const char *content, mode_t mode)
{
    CLEANUP(fd_closep) int fd = openat(at, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, content, strlen(content)), (ssize_t)strlen(content));
    assert_int_equal(fchmod(fd, mode), 0);
}

static mode_t mode_of(int at, const char *name)
{
    struct stat st;
    assert_int_equal(fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW), 0);
    return st.st_mode;
}

static void fill(int at)
{
    assert_int_equal(mkdirat(at, "d", 0700), 0);
    put(at, "d/file", "12345", 0600);
    put(at, "d/program", "67", 04755);
    put(at, "open", "8", 0666);
    assert_int_equal(symlinkat("/etc/passwd", at, "link"), 0);
    assert_int_equal(mkfifoat(at, "pipe", 0666), 0);
    /* Not every file system has them. */
    int fd = openat(at, "open", O_RDONLY | O_CLOEXEC);
    fsetxattr(fd, "user.kept", "no", 2, 0);
    close(fd);
}

static void assert_settled(int at, const struct image_counts *counts)
{
    static const struct {
        const char *name;
        mode_t mode;
    } want[] = {{"d", S_IFDIR | 0755},
                {"d/file", S_IFREG | 0644},
                {"d/program", S_IFREG | 0755},
                {"open", S_IFREG | 0644},
                {"link", S_IFLNK | 0777}};
    for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
        assert_int_equal(mode_of(at, want[i].name), want[i].mode);
    }
    assert_int_equal(faccessat(at, "pipe", F_OK, AT_SYMLINK_NOFOLLOW), -1);
    assert_int_equal(counts->files, 5);
    assert_int_equal(counts->bytes, 8);
    assert_int_equal(counts->dropped, 1);
    assert_int_equal(counts->set_ids, 1);
}

static void test_copy(void **state)
{
    const struct fixture *f = *state;
    struct image_counts counts = {0};
    fill(f->from);
    assert_int_equal(image_tree_copy(f->from, f->to, &plenty, &counts, NULL), 0);
    assert_settled(f->to, &counts);
    CLEANUP(fd_closep) int fd = openat(f->to, "d/file", O_RDONLY | O_CLOEXEC);
    char content[8] = "";
    assert_int_equal(read(fd, content, sizeof content), 5);
    assert_string_equal(content, "12345");
    CLEANUP(fd_closep) int open = openat(f->to, "open", O_RDONLY | O_CLOEXEC);
    assert_true(fgetxattr(open, "user.kept", content, sizeof content) < 0);
    assert_int_equal(mode_of(f->from, "d/program") & 07777, 04755);
}

static void test_settle(void **state)
{
    const struct fixture *f = *state;
    struct image_counts counts;
    fill(f->from);
    assert_int_equal(image_tree_settle(f->from, geteuid(), getegid(), &plenty, &counts, NULL), 0);
    assert_settled(f->from, &counts);
}

static void test_limits(void **state)
{
    const struct fixture *f = *state;
    static const struct image_limits few = {.bytes = 100, .files = 4}, small = {.bytes = 7, .files = 100};
    struct image_counts counts = {0};
    struct err err = {0};
    fill(f->from);
    assert_true(image_tree_copy(f->from, f->to, &few, &counts, &err) < 0);
    assert_int_equal(err.kind, ERR_TOO_LARGE);
    err_clear(&err);
    assert_true(image_tree_settle(f->from, geteuid(), getegid(), &small, &counts, &err) < 0);
    assert_int_equal(err.kind, ERR_TOO_LARGE);
}

static void test_depth(void **state)
{
    const struct fixture *f = *state;
    struct image_counts counts = {0};
    struct err err = {0};
    int at = fcntl(f->from, F_DUPFD_CLOEXEC, 3);
    for (int i = 0; i <= TREE_DEPTH_MAX; i++) {
        assert_int_equal(mkdirat(at, "d", 0755), 0);
        int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = next;
    }
    close(at);
    assert_true(image_tree_copy(f->from, f->to, &plenty, &counts, &err) < 0);
    assert_int_equal(err.kind, ERR_TOO_LARGE);
}

/* The name of what went wrong is the archive's, and is read on a terminal. */
static void test_a_failure_names_it_plainly(void **state)
{
    const struct fixture *f = *state;
    struct image_counts counts = {0};
    struct err err = {0};
    put(f->from, "\x1b[2J\xc2\x9b", "1", 0644);
    put(f->to, "\x1b[2J\xc2\x9b", "there already", 0644);
    assert_true(image_tree_copy(f->from, f->to, &plenty, &counts, &err) < 0);
    assert_string_equal(err.text, "?[2J??: File exists");
}

/* As after a crash in the midst of unpacking. */
static void test_closed_directories(void **state)
{
    const struct fixture *f = *state;
    assert_int_equal(mkdirat(f->from, "a", 0700), 0);
    assert_int_equal(mkdirat(f->from, "a/b", 0700), 0);
    put(f->from, "a/b/c", "1", 0);
    assert_int_equal(fchmodat(f->from, "a/b", 0, 0), 0);
    assert_int_equal(fchmodat(f->from, "a", 0, 0), 0);
    image_tree_open_up(f->from);
    assert_int_equal(tree_clear(f->from), 0);
    assert_int_equal(faccessat(f->from, "a", F_OK, 0), -1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_trees, remove_trees)
    const struct CMUnitTest tests[] = {
        TEST(test_copy),
        TEST(test_settle),
        TEST(test_limits),
        TEST(test_depth),
        TEST(test_a_failure_names_it_plainly),
        TEST(test_closed_directories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
