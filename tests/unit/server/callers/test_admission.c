/* server/callers/admission.c: who may start a job, and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config/server/config.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "server/callers/admission.h"
#include "server/callers/auth.h"

#define NOW (1000 * NS_PER_S)

static char name[] = "k", on[] = "on", off[] = "off", unknown[] = "unknown", none[] = "";
static const struct admission_load idle = {.earliest_end_ns = UINT64_MAX};

static int check(const struct server_config *of, const struct admission *admission,
                 const struct caller *caller, const struct admission_load *load, uint64_t now_ns,
                 uint64_t *ret_retry_ms, struct err *ret)
{
    *ret = (struct err){0};
    int r = admission_check(admission, caller, now_ns, ret_retry_ms, ret);
    return r < 0 ? r : admission_check_load(of, caller, load, now_ns, ret_retry_ms, ret);
}

/* When to ask again: what most of the last jobs took, and never later than a job has to end. */
static void a_median_of_recent_times(void **state)
{
    (void)state;
    const struct server_config config = {.n_accounts = 1};
    struct admission *admission = admission_new(&config);
    assert_int_equal(admission_retry_after_ms(admission, 0), 1000);
    assert_int_equal(admission_retry_after_ms(admission, 29000), 1000);
    assert_int_equal(admission_retry_after_ms(admission, 300), 300);
    static const uint64_t times_ms[] = {6000, 60000, 5000, 6100, 10};
    for (size_t i = 0; i < sizeof times_ms / sizeof times_ms[0]; i++) {
        admission_note_time(admission, times_ms[i]);
    }
    assert_int_equal(admission_retry_after_ms(admission, 29000), 6000);
    assert_int_equal(admission_retry_after_ms(admission, 2000), 2000);
    for (int i = 0; i < 31; i++) { /* those before are forgotten */
        admission_note_time(admission, 20);
    }
    for (int i = 0; i < 15; i++) {
        admission_note_time(admission, 90000);
    }
    assert_int_equal(admission_retry_after_ms(admission, 0), 20);
    admission_note_time(admission, 90000);
    assert_int_equal(admission_retry_after_ms(admission, 0), 90000);
    admission_free(admission);
}

static void a_rate_is_a_bucket_of_one_minute(void **state)
{
    (void)state;
    struct key_config keys[] = {{.name = name, .team = none},
                                {.name = name, .team = none, .account = 1, .max_jobs_per_minute = 4}};
    const struct server_config config = {.n_keys = 2, .n_accounts = 3, .max_concurrent_jobs = 4};
    const struct caller free_one = {.key = &keys[0]}, limited = {.key = &keys[1]}, open = {.key = NULL};
    struct admission *admission = admission_new(&config);
    struct err err;
    uint64_t retry_ms;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(check(&config, admission, &limited, &idle, NOW, &retry_ms, &err), 0);
        assert_int_equal(check(&config, admission, &limited, &idle, NOW, &retry_ms, &err),
                         0); /* asking takes nothing */
        admission_take(admission, &limited, NOW);
    }
    assert_true(check(&config, admission, &limited, &idle, NOW, &retry_ms, &err) < 0);
    assert_int_equal(err.kind, ERR_RATE);
    assert_in_range(retry_ms, 15000, 15001);
    assert_true(check(&config, admission, &limited, &idle, NOW + 14 * NS_PER_S, &retry_ms, &err) < 0);
    assert_int_equal(check(&config, admission, &limited, &idle, NOW + 15 * NS_PER_S, &retry_ms, &err), 0);
    admission_take(admission, &limited, NOW + 15 * NS_PER_S);
    assert_true(check(&config, admission, &limited, &idle, NOW + 15 * NS_PER_S, &retry_ms, &err) < 0);
    /* After a quiet hour it is a minute's jobs, not an hour's. */
    uint64_t later = NOW + 3600 * NS_PER_S;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(check(&config, admission, &limited, &idle, later, &retry_ms, &err), 0);
        admission_take(admission, &limited, later);
    }
    assert_true(check(&config, admission, &limited, &idle, later, &retry_ms, &err) < 0);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(check(&config, admission, &free_one, &idle, NOW, &retry_ms, &err), 0);
        admission_take(admission, &free_one, NOW);
        assert_int_equal(check(&config, admission, &open, &idle, NOW, &retry_ms, &err), 0);
        admission_take(admission, &open, NOW);
    }
    admission_free(admission);
}

static void a_rate_goes_on_beside_another_key(void **state)
{
    (void)state;
    struct key_config key = {.name = name, .account = 1, .max_jobs_per_minute = 1},
                      next = {.name = name, .account = 2, .max_jobs_per_minute = 1};
    struct server_config config = {.n_keys = 1, .n_accounts = 2, .max_concurrent_jobs = 4};
    const struct caller caller = {.key = &key}, other = {.key = &next};
    struct admission *admission = admission_new(&config);
    struct err err;
    uint64_t retry_ms;
    admission_take(admission, &caller, NOW);
    config.n_keys = 2;
    config.n_accounts = 3;
    assert_int_equal(admission_set_accounts(admission), 0);
    assert_true(check(&config, admission, &caller, &idle, NOW, &retry_ms, &err) < 0);
    assert_int_equal(check(&config, admission, &other, &idle, NOW, &retry_ms, &err), 0);
    admission_take(admission, &other, NOW);
    assert_true(check(&config, admission, &other, &idle, NOW, &retry_ms, &err) < 0);
    admission_free(admission);
}

static void teams_are_off_by_default(void **state)
{
    (void)state;
    struct key_config keys[] = {{.name = name, .team = on},
                                {.name = name, .team = off},
                                {.name = name, .team = unknown},
                                {.name = name, .team = none},
                                {.name = name}};
    struct team_config teams[] = {{.name = on, .enabled = true}, {.name = off}};
    const struct server_config config = {
        .n_keys = 5, .n_accounts = 6, .max_concurrent_jobs = 4, .teams = teams, .n_teams = 2};
    static const bool may[] = {true, false, false, true, true};
    struct admission *admission = admission_new(&config);
    for (size_t i = 0; i < 5; i++) {
        const struct caller caller = {.key = &keys[i]};
        struct err err;
        uint64_t retry_ms;
        assert_int_equal(check(&config, admission, &caller, &idle, NOW, &retry_ms, &err) == 0, may[i]);
        assert_int_equal(err.kind, may[i] ? ERR_NONE : ERR_DENIED);
        assert_int_equal(auth_team_may(&config, &caller), may[i]);
    }
    admission_free(admission);
}

static void jobs_at_once(void **state)
{
    (void)state;
    struct key_config keys[] = {{.name = name, .team = on, .max_concurrent_jobs = 2}};
    struct team_config teams[] = {{.name = on, .enabled = true, .max_concurrent_jobs = 3}};
    const struct server_config config = {.n_keys = 1, .n_accounts = 2, .teams = teams, .n_teams = 1};
    const struct caller caller = {.key = &keys[0]};
    static const struct {
        uint32_t of_key, of_team;
        const char *refused;
    } rows[] = {{0, 0, NULL}, {1, 2, NULL}, {2, 2, "key 'k' may have 2"}, {0, 3, "team 'on' may have 3"}};
    struct admission *admission = admission_new(&config);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct admission_load load = {rows[i].of_key, rows[i].of_team, NOW + 5 * NS_PER_S};
        struct err err;
        uint64_t retry_ms;
        int r = check(&config, admission, &caller, &load, NOW, &retry_ms, &err);
        assert_int_equal(r < 0, rows[i].refused != NULL);
        assert_int_equal(retry_ms, rows[i].refused ? 5000 : 0);
        assert_true(!rows[i].refused || strstr(err.text, rows[i].refused));
    }
    admission_free(admission);
}

static void the_last_slot_is_for_other_keys(void **state)
{
    (void)state;
    static const struct {
        size_t n_keys;
        uint32_t slots, own, most; /* 0: as many as there are */
        const char *refused;
    } rows[] = {
        {1, 4, 0, 0, NULL},
        {2, 4, 0, 3, "key 'k' may have 3 jobs at once; the last slot is kept for other keys"},
        {3, 2, 0, 1, "key 'k' may have 1 jobs at once; the last slot is kept for other keys"},
        {2, 1, 0, 1, "key 'k' may have 1 jobs at once; the last slot is kept for other keys"},
        {2, 4, 4, 4, "key 'k' may have 4 jobs at once"},
        {2, 4, 9, 9, "key 'k' may have 9 jobs at once"},
        {1, 4, 2, 2, "key 'k' may have 2 jobs at once"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct key_config keys[3] = {{.name = name, .max_concurrent_jobs = rows[i].own}};
        const struct server_config config = {
            .n_keys = rows[i].n_keys, .n_accounts = 4, .max_concurrent_jobs = rows[i].slots};
        const struct caller caller = {.key = &keys[0]}, other = {.key = &keys[1]};
        struct admission *admission = admission_new(&config);
        for (uint32_t running = 0; running < 12; running++) {
            const struct admission_load load = {.of_key = running, .earliest_end_ns = UINT64_MAX};
            struct err err;
            uint64_t retry_ms;
            bool allowed = rows[i].most == 0 || running < rows[i].most;
            assert_int_equal(check(&config, admission, &caller, &load, NOW, &retry_ms, &err) == 0, allowed);
            assert_int_equal(err.kind, allowed ? ERR_NONE : ERR_RATE);
            assert_true(allowed || strcmp(err.text, rows[i].refused) == 0);
            if (rows[i].n_keys > 1) {
                assert_int_equal(check(&config, admission, &other, &idle, NOW, &retry_ms, &err), 0);
            }
        }
        admission_free(admission);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rate_is_a_bucket_of_one_minute),
        cmocka_unit_test(a_rate_goes_on_beside_another_key),
        cmocka_unit_test(teams_are_off_by_default),
        cmocka_unit_test(a_median_of_recent_times),
        cmocka_unit_test(jobs_at_once),
        cmocka_unit_test(the_last_slot_is_for_other_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
