/* policy/env.c and capabilities.c: tables that say what they should. */
#include "policy/env.h"

#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config/policy/policy_file.h"
#include "jail/base/cleanup.h"
#include "policy/capabilities.h"

static void test_capabilities(void **state)
{
    (void)state;
    assert_non_null(capability_danger(CAP_SYS_ADMIN));
    assert_null(capability_danger(CAP_NET_BIND_SERVICE));
    assert_null(capability_danger(-1));
    assert_null(capability_danger(CAP_LAST_CAP + 1));
}

static void test_env_names(void **state)
{
    (void)state;
    assert_null(env_name_problem("HOME"));
    assert_non_null(env_name_problem(""));
    assert_non_null(env_name_problem("A=B"));
    char name[300];
    memset(name, 'A', sizeof name);
    name[255] = '\0';
    assert_null(env_name_problem(name));
    name[255] = 'A';
    name[256] = '\0';
    assert_non_null(env_name_problem(name));
}

static void test_env_allowed(void **state)
{
    (void)state;
    char *patterns[] = {(char[]){"TZ"}, (char[]){"LC_*"}, (char[]){"LD_*"}, (char[]){"NODE_PATH"}};
    struct policy_spec spec = {.env_allow = patterns, .n_env_allow = ARRAY_SIZE(patterns)};
    assert_true(env_allowed(&spec, "TZ"));
    assert_true(env_allowed(&spec, "LC_ALL"));
    assert_true(env_allowed(&spec, "LC_"));
    assert_true(env_allowed(&spec, "NODE_PATH"));
    assert_false(env_allowed(&spec, "TZDIR"));
    assert_false(env_allowed(&spec, "tz"));
    assert_false(env_allowed(&spec, "LC"));
    /* A loader's variable is named in full or not at all. */
    assert_false(env_allowed(&spec, "LD_PRELOAD"));

    char *everything[] = {(char[]){"*"}};
    spec = (struct policy_spec){.env_allow = everything, .n_env_allow = 1};
    assert_true(env_allowed(&spec, "FOO"));
    static const char *const never[] = {"LD_PRELOAD",
                                        "LD_LIBRARY_PATH",
                                        "PATH",
                                        "PYTHONPATH",
                                        "PYTHONHOME",
                                        "BASH_ENV",
                                        "PYTHONPYCACHEPREFIX",
                                        "OPENSSL_CONF",
                                        "OPENSSL_MODULES",
                                        "NODE_COMPILE_CACHE",
                                        "PERL5DB",
                                        "PERLLIB",
                                        "BASHOPTS"};
    for (size_t i = 0; i < ARRAY_SIZE(never); i++) {
        assert_false(env_allowed(&spec, never[i]));
        assert_non_null(env_loader_reason(never[i]));
    }
    assert_null(env_loader_reason("PATHS"));
    assert_null(env_loader_reason("LDFLAGS"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_capabilities),
        cmocka_unit_test(test_env_names),
        cmocka_unit_test(test_env_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
