/* server/run/filler.c: a workspace is filled alike by a process and without one. */
#include "server/run/filler.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/message/job.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/plan/plan.h"

#define CONTENT "0123456789"

/* A directory stands in for the scratch, as in test_outputs.c. */
struct world {
    char path[64];
    struct job_file files[3];
    struct job job;
    struct filling filling;
};

static int set_up(void **state)
{
    static struct world world;
    snprintf(world.path, sizeof world.path, "/tmp/immure-filler-XXXXXX");
    world.files[0] = (struct job_file){.path = (char *)(uintptr_t) "b", .offset = 2, .size = 3};
    world.files[1] = (struct job_file){.path = (char *)(uintptr_t) "a/b/c", .offset = 0, .size = 10};
    world.files[2] = (struct job_file){.path = (char *)(uintptr_t) "a/d", .offset = 9, .size = 1};
    world.job = (struct job){.files = world.files, .n_files = 3};
    int input = -1,
        directory = mkdtemp(world.path) ? open(world.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (directory < 0 || mkdirat(directory, SCRATCH_WORK, 0755) < 0 ||
        io_memfd("input", CONTENT, strlen(CONTENT), &input) < 0) {
        return -1;
    }
    world.filling = (struct filling){.job = &world.job,
                                     .shared = true,
                                     .entries_max = 100,
                                     .file_uid = getuid(),
                                     .file_gid = getgid(),
                                     .work_fd = directory,
                                     .scratch_fd = directory,
                                     .input_fd = input};
    *state = &world;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static int tear_down(void **state)
{
    struct world *world = *state;
    close(world->filling.work_fd);
    close(world->filling.input_fd);
    return nftw(world->path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static int fill_by_process(const struct world *world, struct filled *ret, struct err *reterr)
{
    struct filler *filler;
    *ret = FILLED_NOTHING;
    assert_int_equal(filler_start(&world->filling, &filler, NULL), 0);
    int r = filler_end(filler, ret, reterr);
    filler_free(filler);
    return r;
}

static void a_process_does_the_same(void **state)
{
    const struct world *world = *state;
    struct err err = {0};
    struct scratch_list packed;
    CLEANUP(filled_clear) struct filled beside, here = FILLED_NOTHING;
    assert_int_equal(fill_by_process(world, &beside, &err), 0);
    assert_int_equal(filler_unpack(beside.before_fd, &packed), 0);
    assert_int_equal(packed.n_files, 3);
    assert_string_equal(packed.files[0].path, "a/b/c");
    assert_string_equal(packed.files[1].path, "a/d");
    assert_int_equal(packed.files[2].size_bytes, 3);
    struct stat st;
    assert_int_equal(fstatat(world->filling.work_fd, SCRATCH_WORK "/a/b/c", &st, 0), 0);
    assert_int_equal(packed.files[0].inode, st.st_ino);
    assert_int_equal(packed.files[0].mtime.tv_nsec, st.st_mtim.tv_nsec);
    assert_int_equal(packed.files[0].ctime.tv_nsec, st.st_ctim.tv_nsec);
    scratch_list_free(&packed);
    assert_int_equal(filling_do(&world->filling, false, &here, &err), 0);
    assert_int_equal(here.before.n_files, 3);
    assert_int_equal(here.before_fd, -1);
}

static void its_errors_are_told(void **state)
{
    const struct world *world = *state;
    struct filled filled;
    struct err err = {0};
    assert_int_equal(symlinkat("/tmp", world->filling.work_fd, SCRATCH_WORK "/a"), 0);
    assert_true(fill_by_process(world, &filled, &err) < 0);
    assert_int_equal(err.kind, ERR_INVALID);
    assert_string_equal(err.item, "files");
    struct filler *filler;
    assert_int_equal(filler_start(&world->filling, &filler, NULL), 0);
    filler_free(filler); /* in the midst of it */
}

/* Where another one fills the same workspace, a process waits for that, and nobody else does. */
static void one_at_a_time(void **state)
{
    const struct world *world = *state;
    struct filled filled = FILLED_NOTHING;
    struct filler *filler;
    struct err err = {0};
    int lock = scratch_lock(world->filling.work_fd, true);
    assert_true(lock >= 0);
    assert_int_equal(scratch_lock(world->filling.work_fd, false), -EWOULDBLOCK);
    assert_int_equal(filling_do(&world->filling, false, &filled, &err), 1);
    assert_int_equal(filler_start(&world->filling, &filler, NULL), 0);
    close(lock);
    assert_int_equal(filler_end(filler, &filled, &err), 0);
    filler_free(filler);
    filled_clear(&filled);
}

static void what_takes_long(void **state)
{
    const struct world *world = *state;
    struct filling filling = world->filling;
    struct job job = world->job;
    struct job_file many[80] = {0};
    filling.job = &job;
    assert_false(filling_takes_long(&filling));
    filling.entries = 5000;
    assert_true(filling_takes_long(&filling));
    filling.shared = false;
    assert_false(filling_takes_long(&filling));
    job.code_size = 1 << 20;
    assert_false(filling_takes_long(&filling)); /* the jail copies it */
    filling.script = true;
    assert_true(filling_takes_long(&filling));
    job.code_size = 0;
    for (size_t i = 0; i < ARRAY_SIZE(many); i++) {
        many[i].path = (char *)(uintptr_t) "f";
    }
    job.files = many;
    job.n_files = 60;
    assert_false(filling_takes_long(&filling));
    many[0].path = (char *)(uintptr_t) "a/a/a/a/a/f";
    assert_true(filling_takes_long(&filling));
    many[0].size = 32 << 20;
    job.n_files = 1;
    assert_true(filling_takes_long(&filling));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_process_does_the_same, set_up, tear_down),
        cmocka_unit_test_setup_teardown(its_errors_are_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_at_a_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_takes_long, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
