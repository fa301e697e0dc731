/* server/launch/outputs.c: a program's files come into a directory, and nowhere else. */
#include "server/launch/outputs.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/message/job.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"

struct fixture {
    char top[32];
    int fd, content;
};

static int make(void **state)
{
    static struct fixture f;
    snprintf(f.top, sizeof f.top, "/tmp/immure-out-XXXXXX");
    f.content = memfd_create("content", MFD_CLOEXEC);
    if (!mkdtemp(f.top) || write(f.content, "hello", 5) != 5) {
        return -1;
    }
    f.fd = open(f.top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = &f;
    return mkdirat(f.fd, "dir", 0755) < 0 || symlinkat("/tmp", f.fd, "link") < 0 ? -1 : 0;
}

static int drop(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = {"dir/made/a.txt", "dir/made", "dir", "link", "there", "dangling"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (unlinkat(f->fd, names[i], 0) < 0) {
            unlinkat(f->fd, names[i], AT_REMOVEDIR);
        }
    }
    close(f->fd);
    close(f->content);
    return rmdir(f->top);
}

static int copy(const struct fixture *f, const char *path, int content, struct err *reterr)
{
    char name[64];
    snprintf(name, sizeof name, "%s", path);
    const struct job_output_file file = {
        .path = name, .size = 5, .fd = content, .asked = true, .written = true};
    return launch_output_copy(f->fd, &file, reterr);
}

static void test_directories_are_made(void **state)
{
    const struct fixture *f = *state;
    char text[8] = "";
    struct err err = {0};
    assert_int_equal(copy(f, "dir/made/a.txt", f->content, &err), 0);
    CLEANUP(fd_closep) int fd = openat(f->fd, "dir/made/a.txt", O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, text, sizeof text), 5);
    assert_string_equal(text, "hello");
}

static void test_what_is_refused(void **state)
{
    const struct fixture *f = *state;
    CLEANUP(fd_closep) int there = openat(f->fd, "there", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(symlinkat("/tmp/immure-nowhere", f->fd, "dangling"), 0);
    static const struct {
        const char *path, *words;
    } cases[] = {
        {"there", "is here already"},    {"dangling", "is here already"}, {"link/x", "a link or a file"},
        {"there/x", "a link or a file"}, {"../x", "Invalid argument"},    {"dir/..", "Invalid argument"},
        {"dir//x", "Invalid argument"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct err err = {0};
        assert_true(copy(f, cases[i].path, f->content, &err) < 0);
        assert_string_equal(err.item, cases[i].path);
        assert_non_null(strstr(err.text, cases[i].words));
    }
    struct stat st;
    assert_int_equal(fstat(there, &st), 0);
    assert_int_equal(st.st_size, 0);
    assert_int_equal(access("/tmp/immure-nowhere", F_OK), -1);
    struct err err = {0};
    assert_true(copy(f, "large", -1, &err) < 0);
    assert_non_null(strstr(err.text, "output_file_bytes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_directories_are_made, make, drop),
        cmocka_unit_test_setup_teardown(test_what_is_refused, make, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
