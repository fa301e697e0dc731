/* policy/limits.c: a wish can only lower, the timeout is clamped, and only allowed variables pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/policy/helper.h"

#define LIMITED                                                                                              \
    LEAST "limits { memory_bytes: 104857600 pids: 10 cpu_percent: 50 scratch_bytes: 1048576 output_bytes: "  \
          "1000 "                                                                                            \
          "timeout_ms: 5000 }\nenv_allow: ['TZ', 'APP_*']"

static const struct policy_ceilings server = {
    .default_timeout_ms = 3000, .max_timeout_ms = 6000, .max_output_bytes = 500, .cgroup = true};

static void test_defaults(void **state)
{
    (void)state;
    CLEANUP(policy_freep) struct policy *policy = compile(LIMITED);
    const struct job job = {0};
    struct job_limits limits;
    assert_int_equal(policy_limits_for(policy, &server, &job, &limits, NULL), 0);
    assert_int_equal(limits.memory_bytes, 104857600);
    assert_int_equal(limits.pids, 10);
    assert_int_equal(limits.cpu_percent, 50);
    assert_int_equal(limits.cpu_ms, 0);
    assert_int_equal(limits.scratch_bytes, 1048576);
    assert_int_equal(limits.output_bytes, 500);
    assert_int_equal(limits.timeout_ms, 3000);

    const struct policy_ceilings none = {0};
    assert_int_equal(policy_limits_for(policy, &none, &job, &limits, NULL), 0);
    assert_int_equal(limits.output_bytes, 1000);
    assert_int_equal(limits.timeout_ms, 5000);
}

static void test_lower(void **state)
{
    (void)state;
    CLEANUP(policy_freep) struct policy *policy = compile(LIMITED);
    const struct job job = {.limits = {.memory_bytes = 2 << 20,
                                       .pids = 1,
                                       .cpu_percent = 1,
                                       .cpu_ms = 7,
                                       .scratch_bytes = 4096,
                                       .output_bytes = 1,
                                       .timeout_ms = 1}};
    struct job_limits limits;
    assert_int_equal(policy_limits_for(policy, &server, &job, &limits, NULL), 0);
    assert_memory_equal(&limits, &job.limits, sizeof limits);
}

static void test_higher_is_refused(void **state)
{
    (void)state;
    static const struct {
        struct job_limits wish;
        const char *field, *text;
    } rows[] = {
        {{.memory_bytes = 104857601},
         "limits.memory_bytes",
         "must be from 1048576 to 104857600, the policy's limit"},
        {{.memory_bytes = 4096},
         "limits.memory_bytes",
         "must be from 1048576 to 104857600, the policy's limit"},
        {{.pids = 11}, "limits.pids", "must be from 1 to 10, the policy's limit"},
        {{.cpu_percent = 51}, "limits.cpu_percent", "must be from 1 to 50, the policy's limit"},
        {{.cpu_percent = 1ull << 32}, "limits.cpu_percent", "must be from 1 to 50, the policy's limit"},
        {{.scratch_bytes = 1048577},
         "limits.scratch_bytes",
         "must be from 4096 to 1048576, the policy's limit"},
        {{.output_bytes = 501}, "limits.output_bytes", "must be from 1 to 500, the policy's limit"},
    };
    CLEANUP(policy_freep) struct policy *policy = compile(LIMITED);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const struct job job = {.limits = rows[i].wish};
        struct job_limits limits;
        struct err err = {0};
        assert_true(policy_limits_for(policy, &server, &job, &limits, &err) < 0);
        assert_int_equal(err.kind, ERR_INVALID);
        assert_string_equal(err.item, rows[i].field);
        assert_string_equal(err.text, rows[i].text);
    }
}

static void test_timeout_is_clamped(void **state)
{
    (void)state;
    static const struct {
        uint64_t policy, standard, most, wish, want;
    } rows[] = {
        {0, 3000, 6000, 0, 3000},
        {0, 3000, 6000, 4000, 4000},
        {0, 3000, 6000, 9000, 6000},
        {2000, 3000, 6000, 0, 2000},
        {2000, 3000, 6000, 9000, 2000},
        {9000, 3000, 6000, 9000, 6000},
        {0, 0, 0, 0, 0},
        {0, 0, 0, 9000, 9000},
        {2000, 0, 0, 0, 2000},
        {0, 0, 6000, 0, 6000},
        {0, 0, 0, UINT64_MAX, 31622400000},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char text[512];
        snprintf(text, sizeof text, LEAST "limits { timeout_ms: %lu }", (unsigned long)rows[i].policy);
        CLEANUP(policy_freep) struct policy *policy = compile(text);
        const struct policy_ceilings ceilings = {.default_timeout_ms = rows[i].standard,
                                                 .max_timeout_ms = rows[i].most};
        const struct job job = {.limits = {.timeout_ms = rows[i].wish}};
        struct job_limits limits;
        assert_int_equal(policy_limits_for(policy, &ceilings, &job, &limits, NULL), 0);
        assert_int_equal(limits.timeout_ms, rows[i].want);
    }
}

/* The less of the two; what is asked for beyond it is refused in the name of whose it is. */
static void test_a_keys_ceilings(void **state)
{
    (void)state;
    CLEANUP(policy_freep) struct policy *policy = compile(LIMITED);
    struct policy_ceilings ceilings = server;
    ceilings.key = (struct job_limits){.memory_bytes = 2 << 20,
                                       .pids = 20,
                                       .cpu_percent = 7,
                                       .cpu_ms = 8,
                                       .scratch_bytes = 4096,
                                       .output_bytes = 9};
    const struct job none = {0};
    struct job_limits limits;
    assert_int_equal(policy_limits_for(policy, &ceilings, &none, &limits, NULL), 0);
    assert_int_equal(limits.memory_bytes, 2 << 20);
    assert_int_equal(limits.pids, 10); /* the policy's */
    assert_int_equal(limits.cpu_percent, 7);
    assert_int_equal(limits.cpu_ms, 8);
    assert_int_equal(limits.scratch_bytes, 4096);
    assert_int_equal(limits.output_bytes, 9);
    static const struct {
        struct job_limits wish;
        const char *field, *whose;
    } rows[] = {{{.memory_bytes = (2 << 20) + 1}, "limits.memory_bytes", "the key's limit"},
                {{.pids = 11}, "limits.pids", "the policy's limit"},
                {{.cpu_percent = 8}, "limits.cpu_percent", "the key's limit"},
                {{.cpu_ms = 9}, "limits.cpu_ms", "the key's limit"},
                {{.scratch_bytes = 4097}, "limits.scratch_bytes", "the key's limit"},
                {{.output_bytes = 10}, "limits.output_bytes", "the key's limit"}};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const struct job job = {.limits = rows[i].wish};
        struct err err = {0};
        assert_true(policy_limits_for(policy, &ceilings, &job, &limits, &err) < 0);
        assert_int_equal(err.kind, ERR_INVALID);
        assert_string_equal(err.item, rows[i].field);
        assert_non_null(strstr(err.text, rows[i].whose));
    }
}

static void test_cpu_time(void **state)
{
    (void)state;
    CLEANUP(policy_freep) struct policy *policy = compile(LEAST "limits { cpu_ms: 100 }");
    struct job_limits limits;
    const struct job none = {0}, less = {.limits = {.cpu_ms = 99}}, more = {.limits = {.cpu_ms = 101}};
    assert_int_equal(policy_limits_for(policy, &server, &none, &limits, NULL), 0);
    assert_int_equal(limits.cpu_ms, 100);
    assert_int_equal(policy_limits_for(policy, &server, &less, &limits, NULL), 0);
    assert_int_equal(limits.cpu_ms, 99);
    assert_true(policy_limits_for(policy, &server, &more, &limits, NULL) < 0);
    CLEANUP(policy_freep) struct policy *free_policy = compile(LEAST);
    assert_int_equal(policy_limits_for(free_policy, &server, &more, &limits, NULL), 0);
    assert_int_equal(limits.cpu_ms, 101);
}

static void test_environment(void **state)
{
    (void)state;
    static const struct {
        const char *first, *second, *words;
    } rows[] = {
        {"TZ", "APP_KEY", NULL},
        {"HOME", "TZ", "policy test does not allow the variable HOME"},
        {"LD_PRELOAD", "TZ",
         "policy test does not allow the variable LD_PRELOAD (the dynamic linker loads what it names)"},
        {"TZ", "TZ", "the variable TZ is given twice"},
        {"", "TZ", "a variable's name is not empty"},
        {"TZ=1", "TZ", "a variable's name holds no '='"},
    };
    CLEANUP(policy_freep) struct policy *policy = compile(LIMITED);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char first[32], second[32], value[] = "x";
        snprintf(first, sizeof first, "%s", rows[i].first);
        snprintf(second, sizeof second, "%s", rows[i].second);
        struct job_env env[] = {{first, value}, {second, value}};
        const struct job job = {.env = env, .n_env = 2};
        struct job_limits limits;
        struct err err = {0};
        int r = policy_limits_for(policy, &server, &job, &limits, &err);
        if (!rows[i].words) {
            assert_int_equal(r, 0);
            continue;
        }
        assert_true(r < 0);
        assert_int_equal(err.kind, ERR_INVALID);
        assert_string_equal(err.item, "env");
        assert_string_equal(err.text, rows[i].words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),          cmocka_unit_test(test_lower),
        cmocka_unit_test(test_higher_is_refused), cmocka_unit_test(test_timeout_is_clamped),
        cmocka_unit_test(test_a_keys_ceilings),   cmocka_unit_test(test_cpu_time),
        cmocka_unit_test(test_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
