/* server/host/programs.c: programs beside our own, in libexec, and anywhere by their paths. */
#include "server/host/programs.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "jail/base/err.h"

static void test_beside_us(void **state)
{
    (void)state;
    char path[PATH_MAX];
    struct err err = {0};
    assert_int_equal(program_find("test_programs", path, &err), 0);
    struct stat found, own;
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(stat("/proc/self/exe", &own), 0);
    assert_true(found.st_dev == own.st_dev && found.st_ino == own.st_ino);
}

static void test_by_path(void **state)
{
    (void)state;
    char path[PATH_MAX];
    struct err err = {0};
    assert_int_equal(program_find("/bin/sh", path, &err), 0);
    assert_string_equal(path, "/bin/sh");
    assert_int_equal(program_find("/dev/null", path, &err), -EACCES);
    assert_string_equal(err.text, "/dev/null: Permission denied");
}

static void test_nowhere(void **state)
{
    (void)state;
    char path[PATH_MAX];
    struct err err = {0};
    assert_int_equal(program_find("no-such-program", path, &err), -ENOENT);
    assert_int_equal(err.kind, ERR_HOST);
    assert_string_equal(err.text, "no-such-program is neither beside immure nor in ../libexec/immure");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_beside_us),
        cmocka_unit_test(test_by_path),
        cmocka_unit_test(test_nowhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
