/* server/launch/named_files.c: which arguments are files that a command is to find. */
#include "server/launch/named_files.h"

#include <fcntl.h>
#include <limits.h>
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

#include "jail/base/cleanup.h"

static char top[] = "/tmp/immure-named-XXXXXX";

static void touch(const char *name)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static int enter(void **state)
{
    (void)state;
    if (!mkdtemp(top) || chdir(top) < 0 || mkdir("d", 0700) < 0 || mkdir(".ssh", 0700) < 0) {
        return -1;
    }
    touch("a.py");
    touch("d/b");
    touch(".ssh/id");
    return symlink(".ssh/id", "link");
}

static int leave(void **state)
{
    (void)state;
    static const char *const names[] = {"a.py", "d/b", ".ssh/id", "link", "d", ".ssh"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        remove(names[i]);
    }
    return chdir("/") < 0 ? -1 : rmdir(top);
}

static void test_arguments(void **state)
{
    (void)state;
    static const struct {
        const char *argument;
        bool is_program;
        enum named_file what;
        const char *path;
    } cases[] = {
        {"a.py", false, NAMED_COPY, "a.py"},
        {"./d//b", false, NAMED_COPY, "d/b"},
        {"a.py", true, NAMED_NONE, NULL}, /* looked up along PATH */
        {"d", false, NAMED_NONE, NULL},
        {"d/../a.py", false, NAMED_NONE, NULL},
        {"no-such-file", false, NAMED_NONE, NULL},
        {"", false, NAMED_NONE, NULL},
        {"-a.py", false, NAMED_NONE, NULL},
        {"/usr/bin/env", false, NAMED_SHOWN, "/usr/bin/env"},
        {".ssh/id", false, NAMED_NONE, NULL},
        {"link", false, NAMED_NONE, NULL}, /* to a secret */
        {"/etc/shadow", false, NAMED_NONE, NULL},
        {"/dev/null", false, NAMED_NONE, NULL},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char path[PATH_MAX] = "";
        assert_int_equal(named_file_find(cases[i].argument, cases[i].is_program, path), cases[i].what);
        if (cases[i].path) {
            assert_string_equal(path, cases[i].path);
        }
    }
    char path[PATH_MAX], want[PATH_MAX];
    assert_int_equal(named_file_find("./a.py", true, path), NAMED_SHOWN);
    snprintf(want, sizeof want, "%s/a.py", top);
    assert_string_equal(path, want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_arguments, enter, leave)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
