/* Trees of the host that programs have filled: counted, removed, given to jails as mounts; and the process
 * that does the first two. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/resources/hostdir.h"
#include "jail/resources/housekeeper.h"
#include "jail/resources/tree.h"
#include "tests/unit/jail/outer_id.h"

#define OWNER 54321u /* of files on disk */

static const struct tree_limits plenty = {.bytes = 1 << 30, .files = 1 << 20};

struct fixture {
    struct outer_id id;
    char path[64];
    int top;
};

static int open_pool(void **state)
{
    static struct fixture fixture;
    *state = &fixture;
    return outer_id_take(&fixture.id);
}

static int close_pool(void **state)
{
    outer_id_give_back(&((struct fixture *)*state)->id);
    return 0;
}

static int make_top(void **state)
{
    struct fixture *f = *state;
    strcpy(f->path, "/tmp/immure-tree-XXXXXX");
    f->top = mkdtemp(f->path) ? open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    return f->top < 0;
}

static int remove_top(void **state)
{
    struct fixture *f = *state;
    int r = tree_clear(f->top);
    fd_closep(&f->top);
    return r < 0 || rmdir(f->path) < 0;
}

static void put(int dirfd, const char *name, size_t size)
{
    CLEANUP(fd_closep) int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CLEANUP(freep) char *data = calloc(1, size + 1);
    assert_true(fd >= 0);
    memset(data, 'x', size);
    assert_int_equal(write(fd, data, size), size);
}

/* `depth` directories, one in the other. */
static void put_deep(int top, unsigned depth)
{
    CLEANUP(fd_closep) int at = dup(top);
    for (unsigned i = 0; i < depth; i++) {
        assert_int_equal(mkdirat(at, "d", 0700), 0);
        int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        close(at);
        at = next;
    }
}

static struct tree_usage measure(int top, const struct tree_limits *limits)
{
    struct tree_usage usage = {0};
    assert_int_equal(tree_measure(top, limits, &usage), 0);
    return usage;
}

static void test_counting(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(measure(f->top, &plenty).files, 0);
    put(f->top, "a", 100000);
    assert_int_equal(mkdirat(f->top, "d", 0700), 0);
    put(f->top, "d/b", 1);
    assert_int_equal(symlinkat("/", f->top, "root"), 0);
    assert_int_equal(mkfifoat(f->top, "fifo", 0600), 0);
    struct tree_usage before = measure(f->top, &plenty);
    assert_int_equal(before.files, 5);
    assert_true(before.bytes >= 100000 && before.bytes < 200000 && !before.over);
    /* Another name is no more bytes. */
    assert_int_equal(linkat(f->top, "a", f->top, "d/a", 0), 0);
    struct tree_usage after = measure(f->top, &plenty);
    assert_int_equal(after.files, 6);
    assert_true(after.bytes <= before.bytes);
    /* Nor is a hole. */
    CLEANUP(fd_closep) int hole = openat(f->top, "hole", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(hole, 1 << 28), 0);
    assert_true(measure(f->top, &plenty).bytes < 1 << 20);
}

static void test_it_stops_at_a_limit(void **state)
{
    struct fixture *f = *state;
    for (unsigned i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "%u", i);
        put(f->top, name, 5000);
    }
    assert_false(measure(f->top, &(struct tree_limits){.bytes = 1 << 20, .files = 20}).over);
    struct tree_usage usage = measure(f->top, &(struct tree_limits){.bytes = 1 << 20, .files = 10});
    assert_true(usage.over);
    assert_int_equal(usage.files, 11);
    assert_true(measure(f->top, &(struct tree_limits){.bytes = 50000, .files = 20}).over);
}

static void test_depth(void **state)
{
    struct fixture *f = *state;
    put_deep(f->top, TREE_DEPTH_MAX);
    assert_false(measure(f->top, &plenty).over);
    assert_int_equal(tree_clear(f->top), 0);
    put_deep(f->top, TREE_DEPTH_MAX + 2);
    assert_true(measure(f->top, &plenty).over);
}

static unsigned descriptors(void)
{
    unsigned n = 0;
    for (int fd = 0; fd < 1024; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    return n;
}

static void test_removing(void **state)
{
    struct fixture *f = *state;
    CLEANUP(fd_closep) int outside = -1;
    char path[80];
    snprintf(path, sizeof path, "%s-outside", f->path);
    assert_int_equal(mkdir(path, 0700), 0);
    outside = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    put(outside, "stays", 1);
    put_deep(f->top, 5000);
    put(f->top, "moved-1", 1); /* a name that it would give itself */
    assert_int_equal(mkdirat(f->top, "shut", 0700), 0);
    put(f->top, "shut/x", 1);
    assert_int_equal(mkdirat(f->top, "shut/d", 0700), 0);
    put(f->top, "shut/d/x", 1);
    assert_int_equal(symlinkat(path, f->top, "shut/link"), 0);
    assert_int_equal(symlinkat(path, f->top, "link"), 0);
    assert_int_equal(mkfifoat(f->top, "fifo", 0600), 0);
    assert_int_equal(fchmodat(f->top, "shut/d", 0, 0), 0);
    assert_int_equal(fchmodat(f->top, "shut", 0, 0), 0);
    unsigned before = descriptors();
    assert_int_equal(tree_clear(f->top), 0);
    assert_int_equal(descriptors(), before);
    assert_int_equal(measure(f->top, &plenty).files, 0);
    assert_int_equal(faccessat(outside, "stays", F_OK, 0), 0);
    assert_int_equal(tree_clear(outside), 0);
    assert_int_equal(rmdir(path), 0);
}

static int task(struct housekeeper *housekeeper, enum housekeeper_task what, int top, struct tree_usage *ret)
{
    assert_int_equal(housekeeper_begin(housekeeper, what, top, &plenty), 0);
    struct pollfd pollfd = {.fd = housekeeper_fd(housekeeper), .events = POLLIN};
    assert_int_equal(poll(&pollfd, 1, 60000), 1);
    return housekeeper_end(housekeeper, ret);
}

static void test_the_housekeeper(void **state)
{
    struct fixture *f = *state;
    struct housekeeper *housekeeper;
    struct err err = {0};
    struct tree_usage usage;
    assert_int_equal(housekeeper_new(&housekeeper, &err), 0);
    put(f->top, "a", 1);
    put_deep(f->top, 3);
    assert_int_equal(task(housekeeper, HOUSEKEEPER_MEASURE, f->top, &usage), 0);
    assert_int_equal(usage.files, 4);
    assert_int_equal(task(housekeeper, HOUSEKEEPER_CLEAR, f->top, &usage), 0);
    assert_int_equal(task(housekeeper, HOUSEKEEPER_MEASURE, f->top, &usage), 0);
    assert_int_equal(usage.files, 0);
    /* What is no directory is told, and the next task is done all the same. */
    put(f->top, "a", 1);
    CLEANUP(fd_closep) int file = openat(f->top, "a", O_RDONLY | O_CLOEXEC);
    assert_int_equal(task(housekeeper, HOUSEKEEPER_MEASURE, file, &usage), -ENOTDIR);
    assert_int_equal(task(housekeeper, HOUSEKEEPER_MEASURE, f->top, &usage), 0);
    housekeeper_free(housekeeper);
}

/* With privileges, what is made in the mount as one id is another's on disk. */
static void test_a_mount_of_it(void **state)
{
    struct fixture *f = *state;
    const bool maps = idmap_pool_mode(f->id.pool) == IDMAP_RANGE;
    const struct hostdir_ids ids = {.disk_uid = OWNER, .disk_gid = OWNER, .uid = f->id.uid, .gid = f->id.gid};
    struct err err = {0};
    struct statvfs fs;
    struct stat st;
    CLEANUP(fd_closep) int mount = -1;
    if (maps) {
        assert_int_equal(fchown(f->top, OWNER, OWNER), 0);
    }
    put(f->top, "before", 1);
    if (hostdir_mount(f->top, maps ? &ids : NULL, false, &mount, &err) < 0) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(fcntl(mount, F_GETFD), FD_CLOEXEC);
    assert_int_equal(fstatvfs(mount, &fs), 0);
    assert_int_equal(fs.f_flag & (ST_NOSUID | ST_NODEV), ST_NOSUID | ST_NODEV);
    assert_int_equal(fstat(mount, &st), 0);
    assert_int_equal(st.st_uid, f->id.uid);
    if (maps) {
        assert_int_equal(syscall(SYS_setfsgid, f->id.gid) >= 0, 1);
        assert_int_equal(syscall(SYS_setfsuid, f->id.uid) >= 0, 1);
    }
    int fd = openat(mount, "made", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (maps) {
        syscall(SYS_setfsuid, 0);
        syscall(SYS_setfsgid, 0);
    }
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(fstatat(f->top, "made", &st, 0), 0);
    assert_int_equal(st.st_uid, maps ? OWNER : f->id.uid);
    assert_int_equal(st.st_gid, maps ? OWNER : f->id.gid);
}

static void test_what_cannot_be_a_mount(void **state)
{
    (void)state;
    struct err err = {0};
    int pipes[2], mount = -1;
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    assert_true(hostdir_mount(pipes[0], NULL, false, &mount, &err) < 0);
    assert_int_equal(err.kind, ERR_HOST);
    assert_int_equal(mount, -1);
    close(pipes[0]);
    close(pipes[1]);
}

#define WITH_TOP(test) cmocka_unit_test_setup_teardown(test, make_top, remove_top)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_TOP(test_counting),
        WITH_TOP(test_it_stops_at_a_limit),
        WITH_TOP(test_depth),
        WITH_TOP(test_removing),
        WITH_TOP(test_the_housekeeper),
        WITH_TOP(test_a_mount_of_it),
        WITH_TOP(test_what_cannot_be_a_mount),
    };
    return cmocka_run_group_tests(tests, open_pool, close_pool);
}
