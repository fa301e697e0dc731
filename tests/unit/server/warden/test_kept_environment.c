/* server/warden/kept_environment.c: what was saved comes back, however odd, and as often as it is asked for.
 */
#include "server/warden/kept_environment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "jail/base/cleanup.h"

static void check(char *const *env)
{
    CLEANUP(fd_closep) int fd = -1;
    assert_int_equal(kept_environment_save(env, &fd, NULL), 0);
    for (int round = 0; round < 2; round++) {
        CLEANUP(kept_environment_wipe) struct kept_environment environment = {0};
        assert_int_equal(kept_environment_restore(fd, &environment, NULL), 0);
        size_t i = 0;
        for (; env[i]; i++) {
            assert_string_equal(environment.vars[i], env[i]);
        }
        assert_null(environment.vars[i]);
    }
}

static void test_round_trip(void **state)
{
    (void)state;
    char *env[] = {(char[]){"A=1"}, (char[]){"EMPTY="},  (char[]){""},
                   (char[]){"odd"}, (char[]){"B=x=y\n"}, NULL};
    check(env);
}

static void test_empty(void **state)
{
    (void)state;
    check((char *[]){NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip), cmocka_unit_test(test_empty)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
