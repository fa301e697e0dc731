/* server/host/outer_ids.c: no two processes have one outer uid. As root only: nobody else locks any. */
#include "server/host/outer_ids.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/err.h"

/* Of this test alone: far from what servers and commands take. */
#define BASE  (1000000000u + 16384u * ((uint32_t)getpid() % 1024u))
#define COUNT 100u

static void take(uint32_t base, uint32_t count, bool fixed, int want, uint32_t want_base)
{
    struct err err = {0};
    uint32_t got;
    bool told;
    assert_int_equal(outer_ids_take(base, count, fixed, &got, &told, &err), want);
    if (want == 0) {
        assert_true(told);
        assert_int_equal(got, want_base);
    } else {
        assert_int_equal(err.kind, ERR_HOST);
        assert_string_equal(err.item, "outer_uid_base");
    }
}

static void test_nobody_has_a_uid_of_another(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        skip();
    }
    uint32_t base = BASE;
    take(base, COUNT, true, 0, base);
    take(base, COUNT, true, -EBUSY, 0);
    take(base + COUNT - 1, COUNT, true, -EBUSY, 0);
    take(base - 1, 1, true, -EBUSY, 0); /* the front's */
    take(base + COUNT, COUNT, true, -EBUSY, 0);
    take(base, COUNT, false, 0, base + OUTER_IDS_EACH + 1); /* whatever the others have */
    take(base, COUNT, false, 0, base + 2 * (OUTER_IDS_EACH + 1));
    take(base + COUNT - 1, 1, false, 0, base + COUNT - 1 + 3 * (OUTER_IDS_EACH + 1));
}

static void test_they_are_free_again_at_the_end(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        skip();
    }
    uint32_t base = BASE + 14000;
    for (int i = 0; i < 2; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            uint32_t got = 0;
            bool told = false;
            _exit(outer_ids_take(base, COUNT, true, &got, &told, NULL) == 0 && told && got == base ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_has_a_uid_of_another),
        cmocka_unit_test(test_they_are_free_again_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
