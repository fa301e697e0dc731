/* The keeper of shared workspaces: what it copies, what it forgets, and what is left when it dies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/plan/plan.h"
#include "jail/resources/keeper.h"
#include "jail/resources/scratch.h"
#include "tests/unit/jail/outer_id.h"

struct fixture {
    struct outer_id id;
    struct keeper *keeper;
    int first, second; /* workspaces */
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

static int make_scratch(const struct fixture *f)
{
    struct err err = {0};
    int fd;
    if (scratch_open(65536, 20, f->id.uid, f->id.gid, &fd, &err) < 0) {
        fail_msg("%s", err.text);
    }
    return fd;
}

static int start(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    if (keeper_new(&f->keeper, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return -1;
    }
    f->first = make_scratch(f);
    f->second = make_scratch(f);
    return 0;
}

static int stop(void **state)
{
    struct fixture *f = *state;
    keeper_free(f->keeper);
    f->keeper = NULL;
    close(f->first);
    close(f->second);
    return 0;
}

static int count_fds(void)
{
    int n = 0;
    for (int fd = 0; fd < 1024; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    return n;
}

static void write_name(int directory, const char *name)
{
    int fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static bool has_name(int directory, const char *name)
{
    return faccessat(directory, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void must_add(struct fixture *f, uint64_t number, int fd)
{
    struct err err = {0};
    if (keeper_add(f->keeper, number, fd, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

static int must_copy(struct fixture *f, uint64_t number)
{
    struct err err = {0};
    int fd = -1;
    if (keeper_copy(f->keeper, number, &fd, &err) < 0) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    return fd;
}

static void test_copies_show_one_workspace(void **state)
{
    struct fixture *f = *state;
    must_add(f, 7, f->first);
    must_add(f, 8, f->second);
    CLEANUP(fd_closep) int one = must_copy(f, 7);
    CLEANUP(fd_closep) int same = must_copy(f, 7);
    CLEANUP(fd_closep) int other = must_copy(f, 8);
    write_name(f->first, SCRATCH_WORK "/before");
    write_name(one, "inside");
    assert_true(has_name(one, "before") && has_name(same, "before") && has_name(same, "inside"));
    assert_true(has_name(f->first, SCRATCH_WORK "/inside"));
    assert_false(has_name(other, "before") || has_name(other, "inside"));
    /* The root of a copy is the working directory, with nothing above it. */
    assert_true(has_name(one, "../inside"));
    assert_false(has_name(one, "../" SCRATCH_TMP));
}

static void test_what_was_dropped_lives_on_in_its_copies(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    int fd = -1;
    must_add(f, 1, f->first);
    CLEANUP(fd_closep) int copy = must_copy(f, 1);
    assert_int_equal(keeper_drop(f->keeper, 1, &err), 0);
    write_name(copy, "still");
    assert_true(has_name(f->first, SCRATCH_WORK "/still"));
    assert_int_equal(keeper_copy(f->keeper, 1, &fd, &err), -ENOENT);
    assert_int_equal(err.kind, ERR_SETUP);
    assert_int_equal(fd, -1);
}

/* Too few descriptors here are no end of the keeper, and no answer is taken for another's. */
static void test_want_of_descriptors(void **state)
{
    struct fixture *f = *state;
    struct rlimit files;
    struct err err = {0};
    must_add(f, 3, f->first);
    must_add(f, 4, f->second);
    write_name(f->second, SCRATCH_WORK "/second");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    int lowest = open("/dev/null", O_RDONLY | O_CLOEXEC), fd = -1;
    close(lowest);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)lowest, files.rlim_max}), 0);
    int r = keeper_copy(f->keeper, 3, &fd, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    assert_int_equal(r, -EMFILE);
    assert_int_equal(fd, -1);
    CLEANUP(fd_closep) int copy = must_copy(f, 4);
    assert_true(has_name(copy, "second"));
}

static void test_wrong_requests(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    int fd = -1;
    assert_int_equal(keeper_copy(f->keeper, 1, &fd, &err), -ENOENT);
    assert_true(keeper_drop(f->keeper, 1, &err) < 0);
    must_add(f, 1, f->first);
    assert_int_equal(keeper_add(f->keeper, 1, f->second, &err), -EEXIST);
    CLEANUP(fd_closep) int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(keeper_add(f->keeper, 3, null, &err) < 0);
    assert_int_equal(keeper_add(f->keeper, 4, -1, &err), -EINVAL);
    CLEANUP(fd_closep) int copy = must_copy(f, 1);
    assert_true(copy >= 0);
    must_add(f, 2, f->second); /* no failure has left anything there */
}

static pid_t only_child(void)
{
    char path[64];
    int pid = -1;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    CLEANUP(file_closep) FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &pid), 1);
    return pid;
}

static void test_a_keeper_that_dies(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    int fd = -1;
    must_add(f, 1, f->first);
    CLEANUP(fd_closep) int copy = must_copy(f, 1);
    assert_int_equal(kill(only_child(), SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)only_child(), NULL, WEXITED | WNOWAIT), 0);
    assert_int_equal(keeper_copy(f->keeper, 1, &fd, &err), -EPIPE);
    assert_int_equal(keeper_add(f->keeper, 2, f->second, &err), -EPIPE);
    write_name(copy, "still"); /* what has its copy keeps it */
}

static void test_nothing_is_left(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    int before = count_fds();
    for (int i = 0; i < 20; i++) {
        must_add(f, 1, f->first);
        close(must_copy(f, 1));
        assert_int_equal(keeper_drop(f->keeper, 1, &err), 0);
        close(f->first);
        f->first = make_scratch(f);
    }
    assert_int_equal(count_fds(), before);
    keeper_free(f->keeper);
    f->keeper = NULL;
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_copies_show_one_workspace, start, stop),
        cmocka_unit_test_setup_teardown(test_what_was_dropped_lives_on_in_its_copies, start, stop),
        cmocka_unit_test_setup_teardown(test_want_of_descriptors, start, stop),
        cmocka_unit_test_setup_teardown(test_wrong_requests, start, stop),
        cmocka_unit_test_setup_teardown(test_a_keeper_that_dies, start, stop),
        cmocka_unit_test_setup_teardown(test_nothing_is_left, start, stop),
    };
    return cmocka_run_group_tests(tests, open_pool, close_pool);
}
