/* config/server/environment.c: every variable, every spelling, and every way to get one wrong. */
#include "config/server/environment.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/format/digest.h"
#include "config/server/config.h"
#include "jail/base/cleanup.h"

#define KEY "SANDBOX_EXECUTOR_SERVICE_API_KEY=secret"

static int load(const char *path, const char *const *env, struct server_config **ret, struct err *reterr)
{
    /* `environ` is not const for C's sake only. */
    return server_config_load(path, (char *const *)(uintptr_t)env, ret, reterr);
}

static struct server_config *accepted(const char *const *env)
{
    struct err err = {0};
    struct server_config *config = NULL;
    if (load(NULL, env, &config, &err) < 0) {
        fail_msg("%s: %s: %s", env[0], err.item, err.text);
    }
    return config;
}
#define ACCEPTED(...) accepted((const char *const[]){__VA_ARGS__, NULL})

static void refused(const char *item, const char *text, const char *const *env)
{
    struct err err = {0};
    struct server_config *config = NULL;
    assert_true(load(NULL, env, &config, &err) < 0);
    assert_null(config);
    assert_int_equal(err.kind, ERR_CONFIG);
    assert_string_equal(err.item, item);
    assert_string_equal(err.text, text);
}
#define REFUSED(item, text, ...) refused(item, text, (const char *const[]){__VA_ARGS__, NULL})

static void test_key(void **state)
{
    (void)state;
    unsigned char sha256[SHA256_BYTES];
    struct server_config *config = ACCEPTED("PATH=/bin", KEY, "HOME=/");
    assert_int_equal(config->n_keys, 1);
    assert_false(config->open);
    assert_string_equal(config->keys[0]->name, "default");
    sha256_of("secret", 6, sha256);
    assert_memory_equal(config->keys[0]->sha256, sha256, sizeof sha256);
    assert_int_equal(config->keys[0]->n_policies, 1);
    assert_string_equal(config->keys[0]->policies[0], "*");
    assert_int_equal(config->keys[0]->n_runtimes, 0);
    server_config_free(config);
}

static void test_every_variable(void **state)
{
    (void)state;
    struct server_config *config =
        ACCEPTED(KEY, "SANDBOX_EXECUTOR_ENV=staging", "SANDBOX_EXECUTOR_ADDR=0.0.0.0:80",
                 "SANDBOX_EXECUTOR_DEFAULT_TIMEOUT_MS=5", "SANDBOX_EXECUTOR_MAX_TIMEOUT_MS=6",
                 "SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS=7", "SANDBOX_EXECUTOR_CGROUP=BEST_EFFORT",
                 "SANDBOX_PYTHON_BIN=/opt/python", "SANDBOX_MAX_OUTPUT=8", "SANDBOX_SESSION_TTL=90s",
                 "SANDBOX_SOMETHING_ELSE=1");
    assert_string_equal(config->environment, "staging");
    assert_string_equal(config->listen, "0.0.0.0:80");
    assert_int_equal(config->default_timeout_ms, 5);
    assert_int_equal(config->max_timeout_ms, 6);
    assert_int_equal(config->max_concurrent_jobs, 7);
    assert_true(config->cgroup_best_effort);
    assert_string_equal(config->runtimes[0].interpreter, "/opt/python");
    assert_int_equal(config->max_output_bytes, 8);
    assert_int_equal(config->session_ttl_ms, 90000);
    server_config_free(config);
    config = ACCEPTED(KEY, "SANDBOX_ADDR=[::1]:81", "SANDBOX_MAX_CONCURRENT=9", "SANDBOX_SESSION_TTL=30m",
                      "SANDBOX_EXECUTOR_DEFAULT_TIMEOUT_MS=5s", "SANDBOX_EXECUTOR_MAX_TIMEOUT_MS=2m",
                      "SANDBOX_MAX_OUTPUT=1MiB");
    assert_int_equal(config->default_timeout_ms, 5000);
    assert_int_equal(config->max_timeout_ms, 120000);
    assert_int_equal(config->max_output_bytes, 1 << 20);
    assert_string_equal(config->listen, "[::1]:81");
    assert_int_equal(config->max_concurrent_jobs, 9);
    assert_int_equal(config->session_ttl_ms, 30 * 60 * 1000);
    server_config_free(config);
}

static void test_empty_key(void **state)
{
    (void)state;
    struct server_config *config = ACCEPTED("SANDBOX_EXECUTOR_SERVICE_API_KEY=", "SANDBOX_EXECUTOR_ENV=test");
    assert_true(config->open);
    assert_int_equal(config->n_keys, 0);
    server_config_free(config);
    struct err err = {0};
    assert_int_equal(
        load(NULL, (const char *const[]){"SANDBOX_EXECUTOR_SERVICE_API_KEY=", NULL}, &config, &err), -EINVAL);
    assert_string_equal(err.item, "SANDBOX_EXECUTOR_SERVICE_API_KEY");
    assert_non_null(strstr(err.text, "there is no key"));
}

static void test_refused(void **state)
{
    (void)state;
    REFUSED("SANDBOX_EXECUTOR_SERVICE_API_KEY",
            "holds a blank or a control character, which a caller cannot send",
            "SANDBOX_EXECUTOR_SERVICE_API_KEY=se cret");
    REFUSED("SANDBOX_EXECUTOR_SERVICE_API_KEY",
            "holds a blank or a control character, which a caller cannot send",
            "SANDBOX_EXECUTOR_SERVICE_API_KEY=secret\n");
    REFUSED("SANDBOX_EXECUTOR_ENV", "is empty", KEY, "SANDBOX_EXECUTOR_ENV=");
    REFUSED("SANDBOX_ADDR", "listen: must be HOST:PORT, [HOST]:PORT or unix:/PATH, not \"x/y\"", KEY,
            "SANDBOX_ADDR=x/y");
    REFUSED("SANDBOX_EXECUTOR_MAX_TIMEOUT_MS",
            "\"1MiB\" is a size; this is a number of milliseconds, alone or with ms, s, m or h (\"30s\")",
            KEY, "SANDBOX_EXECUTOR_MAX_TIMEOUT_MS=1MiB");
    REFUSED("SANDBOX_EXECUTOR_MAX_TIMEOUT_MS",
            "\"-1\" is not a whole number of milliseconds, alone or with ms, s, m or h (\"30s\")", KEY,
            "SANDBOX_EXECUTOR_MAX_TIMEOUT_MS=-1");
    REFUSED("SANDBOX_MAX_CONCURRENT", "\"4s\" is not a whole number", KEY, "SANDBOX_MAX_CONCURRENT=4s");
    REFUSED("SANDBOX_EXECUTOR_MAX_TIMEOUT_MS", "is empty", KEY, "SANDBOX_EXECUTOR_MAX_TIMEOUT_MS=");
    REFUSED("SANDBOX_MAX_CONCURRENT", "\"4294967296\" is not a whole number that the setting can hold", KEY,
            "SANDBOX_MAX_CONCURRENT=4294967296");
    REFUSED("SANDBOX_MAX_OUTPUT", "\"18446744073709551616\" is not a whole number that the setting can hold",
            KEY, "SANDBOX_MAX_OUTPUT=18446744073709551616");
    REFUSED("SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS", "max_concurrent_jobs: must be 1 to 4096, not 0", KEY,
            "SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS=0");
    REFUSED("SANDBOX_EXECUTOR_DEFAULT_TIMEOUT_MS", "default_timeout_ms: must be 1 to 60000, not 60001", KEY,
            "SANDBOX_EXECUTOR_DEFAULT_TIMEOUT_MS=60001");
    static const char *const times[] = {"", "1", "s", "1d", "1 h", "-1s", "1.5h", "1H", "5124095576031h"};
    for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
        char setting[64], text[64];
        snprintf(setting, sizeof setting, "SANDBOX_SESSION_TTL=%s", times[i]);
        snprintf(text, sizeof text, "\"%s\" is not a time such as 90s, 30m or 1h", times[i]);
        REFUSED("SANDBOX_SESSION_TTL", text, KEY, setting);
    }
    REFUSED("SANDBOX_SESSION_TTL", "session_ttl_ms: must be 1 to 31622400000, not 0", KEY,
            "SANDBOX_SESSION_TTL=0s");
    REFUSED("SANDBOX_EXECUTOR_CGROUP",
            "\"besteffort\" is not REQUIRED or BEST_EFFORT; did you mean BEST_EFFORT?", KEY,
            "SANDBOX_EXECUTOR_CGROUP=besteffort");
    REFUSED("SANDBOX_EXECUTOR_CGROUP", "\"none\" is not REQUIRED or BEST_EFFORT", KEY,
            "SANDBOX_EXECUTOR_CGROUP=none");
    REFUSED("SANDBOX_PYTHON_BIN", "runtime[0].interpreter: must be an absolute path", KEY,
            "SANDBOX_PYTHON_BIN=bin/python3");
    REFUSED("SANDBOX_PYTHON_BIN", "is empty", KEY, "SANDBOX_PYTHON_BIN=");
    REFUSED("SANDBOX_EXECUTOR_CONFIG", "is empty", KEY, "SANDBOX_EXECUTOR_CONFIG=");
    REFUSED("/nonexistent", "cannot be read: No such file or directory", KEY,
            "SANDBOX_EXECUTOR_CONFIG=/nonexistent");
}

static void test_unknown_and_unsupported(void **state)
{
    (void)state;
    REFUSED("SANDBOX_EXECUTOR_SERVICE_APIKEY",
            "there is no such variable; did you mean SANDBOX_EXECUTOR_SERVICE_API_KEY?",
            "SANDBOX_EXECUTOR_SERVICE_APIKEY=x", KEY);
    REFUSED("SANDBOX_EXECUTOR_", "there is no such variable", KEY, "SANDBOX_EXECUTOR_=x");
    REFUSED("SANDBOX_EXECUTOR_ADRR", "there is no such variable; did you mean SANDBOX_EXECUTOR_ADDR?", KEY,
            "SANDBOX_EXECUTOR_ADRR=x");
    REFUSED("SANDBOX_EXECUTOR_ENV_FILES", "there is no such variable", KEY, "SANDBOX_EXECUTOR_ENV_FILES=x");
    REFUSED("SANDBOX_WORKSPACE", "session_directory: must be an absolute path", KEY, "SANDBOX_WORKSPACE=w");
}

/* A file is held to its format; a variable says it as variables do. */
static void test_words_in_any_case(void **state)
{
    (void)state;
    static const char *const words[] = {"best-effort", "best_effort", "Best-Effort", "BEST-EFFORT"};
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        char setting[64];
        snprintf(setting, sizeof setting, "SANDBOX_EXECUTOR_CGROUP=%s", words[i]);
        struct server_config *config = ACCEPTED(KEY, setting);
        assert_true(config->cgroup_best_effort);
        server_config_free(config);
    }
    struct server_config *config = ACCEPTED(KEY, "SANDBOX_EXECUTOR_CGROUP=required");
    assert_false(config->cgroup_best_effort);
    server_config_free(config);
}

static void test_names_that_are_nearly_ours(void **state)
{
    (void)state;
    REFUSED("SANDBOX_MAX_CONCURENT", "there is no such variable; did you mean SANDBOX_MAX_CONCURRENT?", KEY,
            "SANDBOX_MAX_CONCURENT=3");
    REFUSED("SANDBOX_EXECUTOR_IMAGE_DIRECTRY_FILE",
            "there is no such variable; did you mean SANDBOX_EXECUTOR_IMAGE_DIRECTORY_FILE?", KEY,
            "SANDBOX_EXECUTOR_IMAGE_DIRECTRY_FILE=/x");
    REFUSED("IMMURE_CGROUP", "there is no such variable; did you mean SANDBOX_EXECUTOR_CGROUP?", KEY,
            "IMMURE_CGROUP=REQUIRED");
    REFUSED("IMMURE_MAX_OUTPUT", "there is no such variable; did you mean SANDBOX_MAX_OUTPUT?", KEY,
            "IMMURE_MAX_OUTPUT=1");
    /* Others' variables, and what Kubernetes says of services with our names. */
    server_config_free(
        ACCEPTED(KEY, "SANDBOX_SESSION_ID=x", "SANDBOX_WORKSPACE_ID=x", "SANDBOX_ENV=x", "SANDBOX=x",
                 "IMMURE_TEST_WARM=off", "IMMURE_PORT=tcp://10.0.0.1:9099", "IMMURE_SERVICE_HOST=10.0.0.1",
                 "SANDBOX_EXECUTOR_SERVICE_HOST=10.0.0.1", "SANDBOX_EXECUTOR_SERVICE_PORT=9099",
                 "SANDBOX_EXECUTOR_SERVICE_PORT_HTTP=9099", "SANDBOX_EXECUTOR_PORT=tcp://10.0.0.1:9099",
                 "SANDBOX_EXECUTOR_PORT_9099_TCP=tcp://10.0.0.1:9099",
                 "SANDBOX_EXECUTOR_PORT_9099_TCP_ADDR=10.0.0.1"));
    REFUSED("SANDBOX_EXECUTOR_SERVICE_HOSTS", "there is no such variable", KEY,
            "SANDBOX_EXECUTOR_SERVICE_HOSTS=x");
    REFUSED("SANDBOX_EXECUTOR_PORTS", "there is no such variable", KEY, "SANDBOX_EXECUTOR_PORTS=9099");
}

static void test_listen(void **state)
{
    (void)state;
    static const char *const rows[][2] = {{"127.0.0.1", "127.0.0.1:9099"},
                                          {"localhost", "localhost:9099"},
                                          {"9099", "127.0.0.1:9099"},
                                          {"::1", "[::1]:9099"}};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char setting[64], text[160];
        snprintf(setting, sizeof setting, "SANDBOX_EXECUTOR_ADDR=%s", rows[i][0]);
        snprintf(text, sizeof text,
                 "listen: must be HOST:PORT, [HOST]:PORT or unix:/PATH, not \"%s\"; did you mean %s?",
                 rows[i][0], rows[i][1]);
        REFUSED("SANDBOX_EXECUTOR_ADDR", text, KEY, setting);
    }
}

static void test_two_spellings(void **state)
{
    (void)state;
    REFUSED("SANDBOX_ADDR", "and SANDBOX_EXECUTOR_ADDR have different values for the same setting", KEY,
            "SANDBOX_ADDR=a:1", "SANDBOX_EXECUTOR_ADDR=a:2");
    REFUSED("SANDBOX_EXECUTOR_ENV", "and SANDBOX_EXECUTOR_ENV have different values for the same setting",
            KEY, "SANDBOX_EXECUTOR_ENV=a", "SANDBOX_EXECUTOR_ENV=b");
    struct server_config *config = ACCEPTED(KEY, "SANDBOX_ADDR=a:1", "SANDBOX_EXECUTOR_ADDR=a:1");
    assert_string_equal(config->listen, "a:1");
    server_config_free(config);
}

/* The path of a new file with this content, until the next call. */
static const char *file_with(const char *content, size_t size)
{
    static char path[64];
    if (path[0]) {
        unlink(path);
    }
    strcpy(path, "/tmp/immure-environment-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, size), (ssize_t)size);
    close(fd);
    return path;
}

static void test_values_in_files(void **state)
{
    (void)state;
    char variable[128], other[128];
    unsigned char sha256[SHA256_BYTES];
    static const char *const contents[] = {"secret", "secret\n", "secret\r\n"};
    sha256_of("secret", 6, sha256);
    for (size_t i = 0; i < ARRAY_SIZE(contents); i++) {
        snprintf(variable, sizeof variable, "SANDBOX_EXECUTOR_SERVICE_API_KEY_FILE=%s",
                 file_with(contents[i], strlen(contents[i])));
        struct server_config *config = ACCEPTED(variable);
        assert_memory_equal(config->keys[0]->sha256, sha256, sizeof sha256);
        server_config_free(config);
        config = ACCEPTED(variable, KEY);
        server_config_free(config);
        REFUSED("SANDBOX_EXECUTOR_SERVICE_API_KEY_FILE",
                "and SANDBOX_EXECUTOR_SERVICE_API_KEY have different values for the same setting", variable,
                "SANDBOX_EXECUTOR_SERVICE_API_KEY=other");
    }
    snprintf(variable, sizeof variable, "SANDBOX_MAX_CONCURRENT_FILE=%s", file_with("12\n", 3));
    struct server_config *config = ACCEPTED(KEY, variable);
    assert_int_equal(config->max_concurrent_jobs, 12);
    server_config_free(config);
    REFUSED("SANDBOX_MAX_CONCURRENT_FILE",
            "and SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS have different values for the same setting", KEY,
            variable, "SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS=13");

    const char *path = file_with("\n", 1);
    snprintf(variable, sizeof variable, "SANDBOX_EXECUTOR_SERVICE_API_KEY_FILE=%s", path);
    snprintf(other, sizeof other, "\"%s\" is empty", path);
    REFUSED("SANDBOX_EXECUTOR_SERVICE_API_KEY_FILE", other, variable, "SANDBOX_EXECUTOR_ENV=dev");
    path = file_with("a\0b", 3);
    snprintf(variable, sizeof variable, "SANDBOX_EXECUTOR_SERVICE_API_KEY_FILE=%s", path);
    snprintf(other, sizeof other, "\"%s\" holds a NUL", path);
    REFUSED("SANDBOX_EXECUTOR_SERVICE_API_KEY_FILE", other, variable);
    unlink(path);
    snprintf(other, sizeof other, "\"%s\" cannot be read: No such file or directory", path);
    REFUSED("SANDBOX_EXECUTOR_SERVICE_API_KEY_FILE", other, variable);
}

static void test_config_path(void **state)
{
    (void)state;
    static const char text[] = "max_concurrent_jobs: 3 shipped_runtimes: false runtime { name: 'sh' "
                               "interpreter: '/bin/sh' policy: 'p' } "
                               "default_runtime: 'sh'";
    char variable[128];
    const char *path = file_with(text, sizeof text - 1);
    snprintf(variable, sizeof variable, "SANDBOX_EXECUTOR_CONFIG=%s", path);
    struct server_config *config = ACCEPTED(KEY, variable);
    assert_int_equal(config->max_concurrent_jobs, 3);
    assert_null(server_config_runtime(config, "python"));
    server_config_free(config);
    config = ACCEPTED(KEY, variable, "SANDBOX_MAX_CONCURRENT=5");
    assert_int_equal(config->max_concurrent_jobs, 5);
    server_config_free(config);
    REFUSED("SANDBOX_PYTHON_BIN", "the configuration has no runtime named \"python\"", KEY, variable,
            "SANDBOX_PYTHON_BIN=/usr/bin/python3");
    /* A path given by the caller goes before the variable. */
    struct err err = {0};
    assert_int_equal(
        load(path, (const char *const[]){KEY, "SANDBOX_EXECUTOR_CONFIG=/nonexistent", NULL}, &config, &err),
        0);
    server_config_free(config);
    unlink(path);
}

/* The value is gone where it lay, not only from getenv(). */
static void test_scrub(void **state)
{
    (void)state;
    static char secret[] = "SANDBOX_EXECUTOR_SERVICE_API_KEY=secret", kept[] = "SANDBOX_EXECUTOR_ADDR=a:1";
    assert_int_equal(putenv(secret), 0);
    assert_int_equal(putenv(kept), 0);
    server_config_scrub_environment();
    assert_null(getenv("SANDBOX_EXECUTOR_SERVICE_API_KEY"));
    assert_string_equal(getenv("SANDBOX_EXECUTOR_ADDR"), "a:1");
    for (size_t i = sizeof "SANDBOX_EXECUTOR_SERVICE_API_KEY=" - 1; i < sizeof secret; i++) {
        assert_int_equal(secret[i], 0);
    }
    server_config_scrub_environment();
    unsetenv("SANDBOX_EXECUTOR_ADDR");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_key),
        cmocka_unit_test(test_every_variable),
        cmocka_unit_test(test_empty_key),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_unknown_and_unsupported),
        cmocka_unit_test(test_words_in_any_case),
        cmocka_unit_test(test_names_that_are_nearly_ours),
        cmocka_unit_test(test_listen),
        cmocka_unit_test(test_two_spellings),
        cmocka_unit_test(test_values_in_files),
        cmocka_unit_test(test_config_path),
        cmocka_unit_test(test_scrub),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
