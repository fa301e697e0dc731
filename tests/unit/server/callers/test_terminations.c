/* server/callers/terminations.c: kept for a while, for one run of one key, and not beyond the key's share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "config/server/config.h"
#include "jail/base/clock.h"
#include "server/callers/terminations.h"

#define NOW (1000 * NS_PER_S)

static const struct key_config keys[2];

static void note(struct terminations *all, const struct key_config *key, const char *id, const char *reason,
                 bool is_late, uint64_t now_ns)
{
    assert_int_equal(terminations_note(all, key, id, reason, is_late, now_ns, NULL), 0);
}

static void is_kept_for_its_run_and_key(void **state)
{
    (void)state;
    struct terminations all = {0};
    note(&all, &keys[0], "a", "enough", false, NOW);
    const struct termination *one = terminations_find(&all, &keys[0], "a", NOW + TERMINATIONS_KEPT_NS);
    assert_non_null(one);
    assert_string_equal(one->reason, "enough");
    assert_false(one->is_late);
    assert_null(terminations_find(&all, &keys[0], "b", NOW));
    assert_null(terminations_find(&all, &keys[1], "a", NOW));
    assert_null(terminations_find(&all, NULL, "a", NOW));
    assert_null(terminations_find(&all, &keys[0], "a", NOW + TERMINATIONS_KEPT_NS + 1));
    terminations_clear(&all);
    assert_null(all.newest);
}

static void the_last_word_counts(void **state)
{
    (void)state;
    struct terminations all = {0};
    note(&all, &keys[0], "a", NULL, false, NOW);
    note(&all, &keys[0], "a", NULL, true, NOW + 1);
    assert_true(terminations_find(&all, &keys[0], "a", NOW + 1)->is_late);
    assert_null(all.newest->next);
    terminations_clear(&all);
}

static void what_has_expired_goes(void **state)
{
    (void)state;
    struct terminations all = {0};
    note(&all, &keys[0], "a", "enough", false, NOW);
    note(&all, &keys[1], "b", NULL, false, NOW + TERMINATIONS_KEPT_NS + 1);
    assert_null(all.newest->next);
    terminations_clear(&all);
}

static void a_key_has_its_share(void **state)
{
    (void)state;
    struct terminations all = {0};
    char id[16];
    note(&all, &keys[1], "other", NULL, false, NOW);
    for (unsigned i = 0; i <= TERMINATIONS_PER_KEY; i++) {
        snprintf(id, sizeof id, "%u", i);
        note(&all, &keys[0], id, NULL, false, NOW + i);
    }
    assert_null(terminations_find(&all, &keys[0], "0", NOW + 1000));
    assert_non_null(terminations_find(&all, &keys[0], "1", NOW + 1000));
    assert_non_null(terminations_find(&all, &keys[0], id, NOW + 1000));
    assert_non_null(terminations_find(&all, &keys[1], "other", NOW + 1000));
    terminations_clear(&all);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_kept_for_its_run_and_key),
        cmocka_unit_test(the_last_word_counts),
        cmocka_unit_test(what_has_expired_goes),
        cmocka_unit_test(a_key_has_its_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
