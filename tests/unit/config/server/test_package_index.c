/* config/server/package_index.c: what is read of package indexes, from the file and the environment, what is
 * refused, and that the packed form gives the same. */
#include "config/server/package_index.h"

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
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"

#define KEY "SANDBOX_EXECUTOR_SERVICE_API_KEY=secret"

static int load(const char *text, const char *const *env, struct server_config **ret, struct err *reterr)
{
    char path[] = "/tmp/immure-index-XXXXXX.textproto";
    int fd = mkstemps(path, (int)strlen(".textproto"));
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    int r = server_config_load(path, (char *const *)(uintptr_t)env, ret, reterr);
    unlink(path);
    return r;
}

static struct server_config *accepted(const char *text, const char *const *env)
{
    struct err err = {0};
    struct server_config *config = NULL;
    if (load(text, env, &config, &err) < 0) {
        fail_msg("%s: %s: %s", text, err.item, err.text);
    }
    return config;
}
#define ACCEPTED(text, ...) accepted(text, (const char *const[]){__VA_ARGS__, NULL})

static void refused(const char *text, const char *field, const char *why)
{
    static const char *const env[] = {KEY, NULL};
    struct err err = {0};
    struct server_config *config = NULL;
    assert_true(load(text, env, &config, &err) < 0);
    assert_int_equal(err.kind, ERR_CONFIG);
    if (!strstr(err.text, field) || !strstr(err.text, why)) {
        fail_msg("%s: %s: %s", text, err.item, err.text);
    }
}

static void expect(const struct server_config *config, size_t i, const char *host, uint16_t port,
                   bool private_addresses)
{
    assert_true(i < config->n_egress);
    assert_string_equal(config->egress[i].url.host, host);
    assert_int_equal(config->egress[i].url.port, port);
    assert_int_equal(config->egress[i].private_addresses, private_addresses);
}

static void expect_both(const struct server_config *config)
{
    assert_string_equal(config->package_indexes[INSTALLER_PIP].url, "https://Index.example/simple/");
    assert_string_equal(config->package_indexes[INSTALLER_NPM].url, "http://10.0.0.1:4873");
    assert_int_equal(config->n_egress, 5);
    expect(config, 0, "index.example", 443, false);
    expect(config, 1, "files.example", 443, false);
    expect(config, 2, "files.example", 8443, false);
    expect(config, 3, "10.0.0.1", 4873, true);
    expect(config, 4, "::1", 80, true);
    assert_string_equal(config->package_index_ca_file, "/etc/ca.pem");
    assert_int_equal(config->max_egress_bytes, 5000);
    assert_true(server_config_connects(config));
    assert_false(server_config_has_callbacks(config));
}

static void test_both(void **state)
{
    (void)state;
    struct server_config *config =
        ACCEPTED("pip_index { url: 'https://Index.example/simple/' host: ['files.example', "
                 "'files.example:8443'] } npm_registry { url: 'http://10.0.0.1:4873' host: '[::1]:80' "
                 "private_addresses: true } package_index_ca_file: '/etc/ca.pem' max_egress_bytes: 5000",
                 KEY);
    expect_both(config);
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    struct server_config *again;
    assert_int_equal(server_config_encode(config, &packed, NULL), 0);
    assert_int_equal(server_config_decode(packed.data, packed.len, &again, NULL), 0);
    expect_both(again);
    server_config_free(again);
    server_config_free(config);
}

static void test_none(void **state)
{
    (void)state;
    struct server_config *config = ACCEPTED("", KEY);
    assert_null(config->package_indexes[INSTALLER_PIP].url);
    assert_null(config->package_indexes[INSTALLER_NPM].url);
    assert_int_equal(config->n_egress, 0);
    assert_false(server_config_connects(config));
    server_config_free(config);
}

static void test_environment(void **state)
{
    (void)state;
    struct server_config *config =
        ACCEPTED("pip_index { url: 'http://a.example' host: 'b.example' private_addresses: true }", KEY,
                 "SANDBOX_EXECUTOR_PIP_INDEX_URL=http://c.example:81/simple",
                 "SANDBOX_EXECUTOR_NPM_REGISTRY_URL=https://d.example");
    assert_int_equal(config->n_egress, 3);
    expect(config, 0, "c.example", 81, true);
    expect(config, 1, "b.example", 443, true);
    expect(config, 2, "d.example", 443, false);
    server_config_free(config);
    static const char *const env[] = {KEY, "SANDBOX_EXECUTOR_PIP_INDEX_URL=nonsense", NULL};
    struct err err = {0};
    assert_true(load("", env, &config, &err) < 0);
    assert_string_equal(err.item, "SANDBOX_EXECUTOR_PIP_INDEX_URL");
}

static void test_refused(void **state)
{
    (void)state;
    refused("pip_index { url: 'ftp://a' }", "pip_index.url", "\"ftp://a\"");
    refused("pip_index { url: 'https://user:word@a/' }", "pip_index.url", "\"https://user:word@a/\"");
    refused("npm_registry { url: 'https://a/?x' }", "npm_registry.url", "must not hold a query");
    refused("npm_registry { url: 'https://a' host: 'https://b' }", "npm_registry.host[0]",
            "HOST or HOST:PORT");
    refused("pip_index { url: 'https://a' host: ['b', 'c:0'] }", "pip_index.host[1]", "\"c:0\"");
    refused("pip_index { url: 'https://a' host: '' }", "pip_index.host[0]", "");
    refused("pip_index { url: 'https://a' host: 'b@c' }", "pip_index.host[0]", "HOST or HOST:PORT");
    refused("pip_index { }", "pip_index", "url");
    refused("package_index_ca_file: 'relative'", "package_index_ca_file", "");
    refused("max_egress_bytes: 1", "max_egress_bytes", "must be");
    refused("egress_timeout_ms: 0", "egress_timeout_ms", "must be");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
