/* server/image/open.c: what a name that cannot be opened is called. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/resources/tree.h"
#include "server/image/open.h"

static char directory[64];

static int make_directory(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/immure-images-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    (void)state;
    CLEANUP(fd_closep) int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return tree_clear(fd) < 0 || rmdir(directory) < 0 ? -1 : 0;
}

static void make_image(int store, const char *name)
{
    char text[] = "", form[] = "directory";
    const struct image_record record = {.digest = text, .source = text, .form = form};
    assert_int_equal(mkdirat(store, name, 0755), 0);
    CLEANUP(fd_closep) int image = image_open_below(store, name, O_RDONLY | O_DIRECTORY);
    assert_int_equal(image_record_write(image, &record, NULL), 0);
    assert_int_equal(mkdirat(image, IMAGE_ROOT, 0755), 0);
}

/* It has a name: whoever has it locked is about to give it another, or does what nobody should. */
static void test_locked_is_not_gone(void **state)
{
    (void)state;
    struct image image;
    struct err err = {0};
    CLEANUP(fd_closep) int store = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    make_image(store, "one");
    CLEANUP(fd_closep) int other = image_open_below(store, "one", O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(other, LOCK_EX), 0);
    assert_true(image_open(directory, "one", NULL, &image, &err) < 0);
    assert_int_equal(err.kind, ERR_SETUP);
    assert_string_equal(err.text, "the image 'one' cannot be used: Resource temporarily unavailable");
}

static void test_names_that_are_not_there(void **state)
{
    (void)state;
    static const char *const names[] = {"one", "", ".", "..", ".staging", "../images"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct image image;
        struct err err = {0};
        assert_true(image_open(directory, names[i], NULL, &image, &err) < 0);
        assert_int_equal(err.kind, ERR_INVALID);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_directory, remove_directory)
    const struct CMUnitTest tests[] = {
        TEST(test_locked_is_not_gone),
        TEST(test_names_that_are_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
