/* server/launch/binds.c: options become mounts, each once, and none of secrets. */
#include "server/launch/binds.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "jail/base/err.h"

static void test_places(void **state)
{
    (void)state;
    struct launch_binds binds = {.n_rows = 0};
    struct err err = {0};
    assert_int_equal(chdir("/usr"), 0);
    assert_int_equal(launch_binds_add(&binds, "--ro", "share", false, &err), 0);
    assert_int_equal(launch_binds_add(&binds, "--ro", "/usr/lib:/here", false, &err), 0);
    assert_int_equal(launch_binds_add(&binds, "--rw", "./share/", true, &err), 0);
    assert_int_equal(binds.n_rows, 2);
    assert_string_equal(binds.rows[0].source, "/usr/share");
    assert_string_equal(binds.rows[0].destination, "/usr/share");
    assert_true(binds.rows[0].writable);
    assert_string_equal(binds.rows[1].destination, "/here");
    assert_false(binds.rows[1].writable);
    assert_int_equal(binds.rows[1].slot, JAIL_FD_BIND + 1);
    launch_binds_clear(&binds);
    assert_int_equal(binds.n_rows, 0);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
        enum err_kind kind;
    } cases[] = {
        {"", "not of the form DIR", ERR_INVALID},   {":/x", "not of the form DIR", ERR_INVALID},
        {"/no/such", "No such file", ERR_INVALID},  {"/usr:x", "DEST must be an absolute path", ERR_INVALID},
        {"/etc", "give --policy FILE", ERR_DENIED}, {"/proc:/p", "shows the host's processes", ERR_DENIED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct launch_binds binds = {.n_rows = 0};
        struct err err = {0};
        assert_true(launch_binds_add(&binds, "--ro", cases[i].text, false, &err) < 0);
        assert_int_equal(err.kind, cases[i].kind);
        assert_string_equal(err.item, "--ro");
        assert_non_null(strstr(err.text, cases[i].words));
        assert_int_equal(binds.n_rows, 0);
    }
    struct launch_binds binds = {.n_rows = 0};
    struct err err = {0};
    int r = 0;
    for (size_t i = 0; r == 0 && i <= JAIL_BINDS_GIVEN_MAX; i++) {
        char text[32];
        snprintf(text, sizeof text, "/usr:/place-%zu", i);
        r = launch_binds_add(&binds, "--ro", text, false, &err);
    }
    assert_true(r < 0 && binds.n_rows == JAIL_BINDS_GIVEN_MAX);
    assert_non_null(strstr(err.text, "8 directories and files at most"));
    launch_binds_clear(&binds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_places), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
