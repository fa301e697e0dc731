/* config/server/config.c: keys that become others while somebody serves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/server/config.h"

#define ZEROS                   "00000000000000000000000000000000000000000000000000000000000000"
#define KEY(name, digits, more) "key { name: '" name "' sha256: '" ZEROS digits "' " more "} "

static struct server_config *read_config(const char *text)
{
    static char *const no_env[] = {NULL};
    char path[] = "/tmp/immure-callers-XXXXXX";
    struct server_config *config = NULL;
    int fd = mkstemp(path);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    int r = server_config_load(path, no_env, &config, NULL);
    unlink(path);
    assert_int_equal(r, 0);
    return config;
}

static void take(struct server_config *config, const char *text)
{
    struct server_config *next = read_config(text);
    assert_int_equal(server_config_take_callers(config, next), 0);
    server_config_free(next);
}

static void who_is_known_stays_the_same_one(void **state)
{
    (void)state;
    struct server_config *config = read_config(KEY("a", "0a", "team: 't'") KEY("b", "0b", ""));
    const struct key_config *a = server_config_key(config, "a"), *b = server_config_key(config, "b");
    const char *name = a->name;
    assert_int_equal(a->account, 1);
    assert_int_equal(b->account, 2);
    assert_int_equal(config->n_accounts, 3);

    take(config, "team { name: 'u' enabled: true } " KEY("c", "0c", "") KEY("a", "0a", "team: 'u'"));
    assert_int_equal(config->n_keys, 2);
    assert_ptr_equal(server_config_key(config, "a"), a);
    assert_ptr_equal(a->name, name);
    assert_string_equal(a->team, "u");
    assert_int_equal(a->account, 1);
    assert_non_null(server_config_team(config, "u"));
    assert_int_equal(server_config_key(config, "c")->account, 3);
    assert_null(server_config_key(config, "b"));
    assert_string_equal(b->name, "b"); /* of whoever has begun something with it */

    /* Another secret is another caller; one that comes back is the one that it was. */
    take(config, KEY("a", "0d", "") KEY("b", "0b", "team: 'u'"));
    assert_ptr_not_equal(server_config_key(config, "a"), a);
    assert_int_equal(server_config_key(config, "a")->account, 4);
    assert_ptr_equal(server_config_key(config, "b"), b);
    assert_string_equal(b->team, "u");
    assert_int_equal(config->n_accounts, 5);
    assert_int_equal(config->n_former_keys, 2);

    take(config, "environment: 'production' key_file: '/dev/null'");
    assert_int_equal(config->n_keys, 0);
    assert_int_equal(config->n_former_keys, 4);
    server_config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(who_is_known_stays_the_same_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
