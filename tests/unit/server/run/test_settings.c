/* server/run/settings.c: names in the configuration must lead somewhere, and what cannot change while running
 * is named. */
#include "server/run/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/message/job.h"
#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"

static char *text(const char *constant)
{
    return (char *)(uintptr_t)constant;
}

/* Loads a configuration that has this text, with a key in the environment. */
static int load(const char *config, struct settings **ret, struct err *reterr)
{
    char path[] = "/tmp/immure-settings-XXXXXX";
    char *env[] = {text("SANDBOX_EXECUTOR_SERVICE_API_KEY=k"), NULL};
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(io_write_full(fd, config, strlen(config)), 0);
    close(fd);
    int r = settings_load(path, env, NULL, ret, reterr);
    unlink(path);
    return r;
}

static struct settings *load_good(const char *config)
{
    struct settings *settings = NULL;
    struct err err = {0};
    if (load(config, &settings, &err) < 0) {
        fail_msg("%s", err.text);
    }
    return settings;
}

static void expect_refused(const char *config, const char *words, const char *place)
{
    struct settings *settings = NULL;
    struct err err = {0};
    assert_true(load(config, &settings, &err) < 0);
    assert_null(settings);
    assert_int_equal(err.kind, ERR_CONFIG);
    print_message("%s: %s\n", err.item, err.text);
    assert_non_null(strstr(err.text, words));
    assert_non_null(strstr(err.item, place));
}

static void test_the_shipped_configuration(void **state)
{
    (void)state;
    struct settings *settings = load_good("");
    assert_non_null(server_config_runtime(settings->config, "python"));
    assert_non_null(policy_set_find(settings->policies, "python"));
    settings_unref(settings);
}

static void test_names_must_lead_somewhere(void **state)
{
    (void)state;
    static const char key[] = "name: \"a\" sha256: "
                              "\"0000000000000000000000000000000000000000000000000000000000000000\"";
    char config[512];
    expect_refused("\nruntime { name: \"python\" interpreter: \"/x\" policy: \"nope\" }",
                   "runtime[0].policy: runtime 'python' names policy 'nope'", ":2:52");
    snprintf(config, sizeof config, "key { %s\npolicy: \"*\" policy: \"nope\" }", key);
    expect_refused(config, "key[0].policy[1]: key 'a' names policy 'nope'", ":2:21");
    expect_refused("\npolicy_path: \"/\"\npolicy_path: \"/no/such\"",
                   "policy_path[1]: \"/no/such\" cannot be read: No such file", ":3:14");
    expect_refused("\nkey_file: \"/no/such\"", "key_file: \"/no/such\" cannot be read: No such file",
                   ":2:11");
    expect_refused(
        "\ndefault_runtime: \"a\" runtime { name: \"a\" interpreter: \"/usr/bin/no-such\" policy: "
        "\"python\" optional: true }",
        "default_runtime: the interpreter of the runtime 'a' is not installed: /usr/bin/no-such is not "
        "there; install it,",
        ":2:18");
    expect_refused(
        "\nimage_directory: \"/no/such\"",
        "image_directory: \"/no/such\" cannot be read: No such file or directory: there is no /no; make it",
        ":2:18");
    expect_refused("runtime { name: \"python\" interpreter: \"/x\"\npolicy: \"python-kernel\" }",
                   "runtime[0].policy: runtime 'python' has no kernel", ":2:9");
}

#define DATA "runtime { name: \"data\" interpreter: \"python3\" policy: \"python-data\""

/* It asks for what it should not have. Whoever is root asks as nobody. */
static void write_interpreter(const char *path)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs("#!/bin/sh\necho need /etc\necho end of answer\n", file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0755), 0);
}

static void test_packages_that_cannot_be_shown(void **state)
{
    (void)state;
    expect_refused(DATA "\npython_environment: \"debain\" }",
                   "runtime[0].python_environment: \"debain\" is neither \"debian\" nor the absolute path",
                   ":2:21");
    expect_refused(DATA "\npython_environment: \"/no/such\" }",
                   "runtime[0].python_environment: /no/such is no virtual environment", ":2:21");
    expect_refused(DATA "\npreload: \"num py\" }", "runtime[0].preload[0]: ", ":2:10");
    expect_refused(DATA "\npython_environment: \"debian\" preload: \"no_such_module\" }",
                   "no_such_module cannot be imported: ModuleNotFoundError", ":2:21");

    char place[] = "/tmp/immure-environment-XXXXXX", path[64], config[512];
    assert_non_null(mkdtemp(place));
    assert_int_equal(chmod(place, 0755), 0);
    snprintf(path, sizeof path, "%s/bin", place);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(path, sizeof path, "%s/bin/python3", place);
    write_interpreter(path);
    snprintf(path, sizeof path, "%s/pyvenv.cfg", place);
    assert_true(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644)) == 0);
    snprintf(config, sizeof config, DATA "\npython_environment: \"%s\" }", place);
    expect_refused(config, "lies in /tmp, of which each job has its own", ":2:21");
    /* A policy in which nothing lies in its way. */
    snprintf(config, sizeof config,
             "runtime { name: \"data\" interpreter: \"python3\" policy: \"greedy\"\n"
             "python_environment: \"%s\" }\npolicy_path: \"%s/greedy.textproto\"",
             place, place);
    char greedy[80];
    snprintf(greedy, sizeof greedy, "%s/greedy.textproto", place);
    FILE *file = fopen(greedy, "we");
    assert_non_null(file);
    fputs("name: \"greedy\" use: \"python\" without { mount: \"/tmp\" }", file);
    assert_int_equal(fclose(file), 0);
    expect_refused(config, "its interpreter asks for all of /etc", ":2:21");
    unlink(greedy);
    unlink(path);
    snprintf(path, sizeof path, "%s/bin/python3", place);
    unlink(path);
    snprintf(path, sizeof path, "%s/bin", place);
    rmdir(path);
    rmdir(place);
}

/* Not only by the front, which reads them: it could only end. */
static void test_runtimes_are_described(void **state)
{
    (void)state;
    struct settings *settings =
        load_good("runtime { name: \"a\" interpreter: \"/bin/sh\" policy: \"strict\" }\n"
                  "runtime { name: \"b\" interpreter: \"sh\" policy: \"strict\" description: \"mine\" "
                  "memory_bytes: 7 }\n"
                  "default_runtime: \"a\"");
    const struct policy_spec *spec = policy_spec(policy_set_find(settings->policies, "strict"));
    const struct runtime_config *runtimes = settings->config->runtimes;
    assert_string_equal(runtimes[0].description, spec->description);
    assert_string_equal(runtimes[1].description, "mine");
    assert_true(runtimes[0].memory_bytes > 0);
    assert_int_equal(runtimes[0].memory_bytes, spec->limits.memory_bytes);
    assert_int_equal(runtimes[1].memory_bytes, 7);
    settings_unref(settings);
}

/* The file of a secret and a policy that names it. */
static void test_secrets_must_be_configured(void **state)
{
    (void)state;
    char place[] = "/tmp/immure-secrets-XXXXXX", policy[64], secret[64], config[512];
    assert_non_null(mkdtemp(place));
    snprintf(policy, sizeof policy, "%s/reach.textproto", place);
    snprintf(secret, sizeof secret, "%s/api", place);
    FILE *file = fopen(policy, "we");
    assert_non_null(file);
    fputs("name: \"reach\" use: \"strict\" egress { host: \"api.example.com\" mode: TLS_ORIGINATION\n"
          "header { name: \"X-Key\" secret: \"api\" } }",
          file);
    assert_int_equal(fclose(file), 0);
    snprintf(config, sizeof config, "policy_path: \"%s\"", policy);
    expect_refused(
        config,
        "policy reach: egress[0]: header[0]: secret \"api\" is not configured; add egress_secret { "
        "name: \"api\" file: \"/...\" }",
        "");
    file = fopen(secret, "we");
    assert_non_null(file);
    fputs("s3cret\n", file);
    assert_int_equal(fclose(file), 0);
    snprintf(config, sizeof config, "policy_path: \"%s\" egress_secret { name: \"api\" file: \"%s\" }",
             policy, secret);
    struct settings *settings = load_good(config);
    assert_string_equal(server_config_egress_secret(settings->config, "api")->value, "s3cret");
    settings_unref(settings);
    unlink(policy);
    unlink(secret);
    rmdir(place);
}

static void test_certificates_must_be_readable(void **state)
{
    (void)state;
    static const char *const fields[] = {"callback_ca_file", "package_index_ca_file"};
    static const struct {
        const char *path, *why;
    } cases[] = {{"/no/such.pem", "No such file or directory"}, {"/tmp", "Is a directory"}};
    for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
        char config[128], words[128];
        for (size_t j = 0; j < ARRAY_SIZE(cases); j++) {
            snprintf(config, sizeof config, "\n  %s: \"%s\"", fields[i], cases[j].path);
            snprintf(words, sizeof words, "%s: \"%s\" cannot be read: %s", fields[i], cases[j].path,
                     cases[j].why);
            expect_refused(config, words, ":2:");
        }
        snprintf(config, sizeof config, "%s: \"/dev/null\"", fields[i]);
        settings_unref(load_good(config));
    }
}

static void test_fixed_fields(void **state)
{
    (void)state;
    static const struct {
        const char *config, *field;
    } cases[] = {
        {"", NULL},
        {"default_timeout_ms: 5", NULL},
        {"listen: \"127.0.0.1:1\"", "listen"},
        {"cgroup: BEST_EFFORT", "cgroup"},
        {"outer_uid_base: 5000000", "outer_uid_base"},
        {"sub_uids: false", "sub_uids"},
    };
    struct settings *old = load_good("");
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct settings *new = load_good(cases[i].config);
        const char *field = settings_fixed_difference(old, new);
        if (cases[i].field) {
            assert_string_equal(field, cases[i].field);
        } else {
            assert_null(field);
        }
        settings_unref(new);
    }
    settings_unref(old);
}

static void test_find(void **state)
{
    (void)state;
    struct settings *settings = load_good("");
    const struct runtime_config *runtime;
    const struct policy *policy;
    struct job job = {.runtime = text("python")};
    assert_int_equal(settings_find(settings, &job, &runtime, &policy, NULL), 0);
    assert_string_equal(policy_name(policy), "python");
    job.policy = text("strict");
    assert_int_equal(settings_find(settings, &job, &runtime, &policy, NULL), 0);
    assert_string_equal(policy_name(policy), "strict");

    struct err err = {0};
    job.policy = text("nope");
    assert_int_equal(settings_find(settings, &job, &runtime, &policy, &err), -ENOENT);
    assert_int_equal(err.kind, ERR_INVALID);
    assert_string_equal(err.item, "policy");
    err_clear(&err);
    job.runtime = text("cobol");
    assert_int_equal(settings_find(settings, &job, &runtime, &policy, &err), -ENOENT);
    assert_string_equal(err.item, "runtime");
    /* Whether others follow depends on what the host has. */
    static const char beginning[] = "unsupported runtime: cobol; supported: python";
    assert_memory_equal(err.text, beginning, sizeof beginning - 1);
    settings_unref(settings);
}

static void test_references(void **state)
{
    (void)state;
    struct settings *settings = load_good("");
    assert_ptr_equal(settings_ref(settings), settings);
    settings_unref(settings);
    assert_non_null(server_config_runtime(settings->config, "python"));
    settings_unref(settings);
    settings_unref(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_shipped_configuration),
        cmocka_unit_test(test_names_must_lead_somewhere),
        cmocka_unit_test(test_packages_that_cannot_be_shown),
        cmocka_unit_test(test_runtimes_are_described),
        cmocka_unit_test(test_secrets_must_be_configured),
        cmocka_unit_test(test_certificates_must_be_readable),
        cmocka_unit_test(test_fixed_fields),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_references),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
