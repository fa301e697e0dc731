/* server/callers/auth.c: who may call, and what a key may use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config/format/digest.h"
#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "server/callers/auth.h"

static char name_a[] = "a", name_b[] = "b", python[] = "python", node[] = "node", strict[] = "strict",
            other[] = "other", python_alias[] = "py";
static char *python_aliases[] = {python_alias};

static void set_up(struct server_config *config, struct key_config keys[2], struct runtime_config runtimes[2])
{
    static struct key_config *pointers[2];
    pointers[0] = &keys[0];
    pointers[1] = &keys[1];
    keys[0] = (struct key_config){.name = name_a};
    keys[1] = (struct key_config){.name = name_b};
    sha256_of("key-a", 5, keys[0].sha256);
    sha256_of("key:b", 5, keys[1].sha256);
    runtimes[0] =
        (struct runtime_config){.name = python, .policy = python, .aliases = python_aliases, .n_aliases = 1};
    runtimes[1] = (struct runtime_config){.name = node, .policy = node};
    *config = (struct server_config){.keys = pointers, .n_keys = 2, .runtimes = runtimes, .n_runtimes = 2};
}

static void takes_each_form(void **state)
{
    (void)state;
    static const struct {
        const char *header, *authorization, *name;
    } rows[] = {
        {"key-a", NULL, "a"},
        {"key:b", NULL, "b"},
        {NULL, "Bearer key-a", "a"},
        {NULL, "bearer  key-a", "a"},
        {NULL, "Basic YW55OmtleS1h", "a"},      /* any:key-a */
        {NULL, "basic OmtleS1h", "a"},          /* :key-a */
        {NULL, "Basic YW55OmtleTpi", "b"},      /* any:key:b */
        {"key-a", "Bearer another one's", "a"}, /* a proxy's own */
    };
    struct server_config config;
    struct key_config keys[2];
    struct runtime_config runtimes[2];
    set_up(&config, keys, runtimes);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct caller caller = {0};
        assert_true(auth_identify(&config, rows[i].header, rows[i].authorization, &caller));
        assert_string_equal(caller.name, rows[i].name);
        assert_string_equal(caller.key->name, rows[i].name);
    }
}

static void refuses_everything_else(void **state)
{
    (void)state;
    static const struct {
        const char *header, *authorization;
    } rows[] = {
        {NULL, NULL},
        {"", NULL},
        {"key-", NULL},
        {"key-aa", NULL},
        {"KEY-A", NULL},
        {"wrong", "Bearer key-a"},
        {NULL, ""},
        {NULL, "key-a"},
        {NULL, "Bearer"},
        {NULL, "Bearer "},
        {NULL, "Bearerkey-a"},
        {NULL, "Digest key-a"},
        {NULL, "Basic "},
        {NULL, "Basic a2V5LWE="},    /* no colon */
        {NULL, "Basic YW55OmtleS1"}, /* not base64 */
        {NULL, "Basic a2V5LWE6"},    /* key-a as the user */
    };
    struct server_config config;
    struct key_config keys[2];
    struct runtime_config runtimes[2];
    set_up(&config, keys, runtimes);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct caller caller = {0};
        assert_false(auth_identify(&config, rows[i].header, rows[i].authorization, &caller));
        assert_null(caller.name);
    }
}

static void an_open_server_takes_anyone(void **state)
{
    (void)state;
    struct server_config config = {.open = true};
    struct caller caller;
    assert_true(auth_identify(&config, NULL, NULL, &caller));
    assert_null(caller.key);
    assert_true(auth_identify(&config, "some key", NULL, &caller));
    assert_true(auth_may_use_policy(&config, &caller, &(struct runtime_config){.policy = python}, "strict"));
}

static void keys_without_lists_use_what_runtimes_use(void **state)
{
    (void)state;
    struct server_config config;
    struct key_config keys[2];
    struct runtime_config runtimes[2];
    set_up(&config, keys, runtimes);
    struct caller caller = {.key = &keys[0]};
    assert_true(auth_may_use_runtime(&config, &caller, &runtimes[1]));
    assert_true(auth_may_use_policy(&config, &caller, &runtimes[0], NULL));
    assert_true(auth_may_use_policy(&config, &caller, &runtimes[0], "node"));
    assert_false(auth_may_use_policy(&config, &caller, &runtimes[0], "strict"));
}

static void lists_are_all_that_a_key_may_use(void **state)
{
    (void)state;
    struct server_config config;
    struct key_config keys[2];
    struct runtime_config runtimes[2];
    char *only_python[] = {python_alias}, *two[] = {strict, other}, *all[] = {(char[]){"*"}};
    set_up(&config, keys, runtimes);
    struct caller caller = {.key = &keys[0]};
    keys[0].runtimes = only_python;
    keys[0].n_runtimes = 1;
    assert_true(auth_may_use_runtime(&config, &caller, &runtimes[0]));
    assert_false(auth_may_use_runtime(&config, &caller, &runtimes[1]));
    assert_false(
        auth_may_use_policy(&config, &caller, &runtimes[0], "node")); /* of a runtime that it may not use */
    keys[0].policies = two;
    keys[0].n_policies = 2;
    assert_true(auth_may_use_policy(&config, &caller, &runtimes[0], "other"));
    assert_false(auth_may_use_policy(&config, &caller, &runtimes[0], "python"));
    assert_false(
        auth_may_use_policy(&config, &caller, &runtimes[0], NULL)); /* the runtime's own is not listed */
    keys[0].policies = all;
    keys[0].n_policies = 1;
    assert_true(auth_may_use_policy(&config, &caller, &runtimes[0], "anything"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_each_form),
        cmocka_unit_test(refuses_everything_else),
        cmocka_unit_test(an_open_server_takes_anyone),
        cmocka_unit_test(keys_without_lists_use_what_runtimes_use),
        cmocka_unit_test(lists_are_all_that_a_key_may_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
