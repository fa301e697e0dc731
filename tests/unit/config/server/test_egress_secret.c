/* config/server/egress_secret.c: what a file with a secret may hold, and that errors do not show it. */
#include "config/server/egress_secret.h"

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
#include "jail/base/err.h"

static char key[] = "SANDBOX_EXECUTOR_SERVICE_API_KEY=secret";
static char *const env[] = {key, NULL};

static void write_file(char *path, const char *data, size_t size)
{
    int fd = mkstemps(path, (int)strlen(".textproto"));
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), size);
    close(fd);
}

static int load(const char *text, struct server_config **ret, struct err *reterr)
{
    char path[] = "/tmp/immure-secret-XXXXXX.textproto";
    write_file(path, text, strlen(text));
    int r = server_config_load(path, env, ret, reterr);
    unlink(path);
    return r;
}

/* Of a configuration whose secret's file holds this. */
static int load_secret(const char *data, size_t size, struct server_config **ret, struct err *reterr)
{
    char path[] = "/tmp/immure-secret-XXXXXX.textproto", text[128];
    write_file(path, data, size);
    snprintf(text, sizeof text, "egress_secret { name: \"api\" file: \"%s\" }", path);
    int r = load(text, ret, reterr);
    unlink(path);
    return r;
}

static void test_values(void **state)
{
    (void)state;
    static char longest[EGRESS_SECRET_BYTES_MAX + 2];
    memset(longest, 'x', EGRESS_SECRET_BYTES_MAX);
    const struct {
        const char *data;
        size_t size;
        const char *value; /* NULL: refused */
    } rows[] = {
        {"Bearer s3cret", 13, "Bearer s3cret"},
        {"s3cret\r\n\n", 9, "s3cret"},
        {longest, EGRESS_SECRET_BYTES_MAX, longest},
        {longest, EGRESS_SECRET_BYTES_MAX + 1, NULL},
        {"s3cret\0x", 8, NULL},
        {"", 0, NULL},
        {"\n", 1, NULL},
        {" s3cret", 7, NULL},
        {"s3cret ", 7, NULL},
        {"s3cret\r\nX-Other: a", 18, NULL},
        {"s3cret\nmore", 11, NULL},
        {"s3cret\t", 7, NULL},
        {"s3cr\xc3\xa9t", 7, NULL},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct server_config *config = NULL;
        struct err err = {0};
        if (i == 3) {
            longest[EGRESS_SECRET_BYTES_MAX] = 'x';
        }
        int r = load_secret(rows[i].data, rows[i].size, &config, &err);
        if ((r == 0) != (rows[i].value != NULL)) {
            fail_msg("row %zu: %s", i, err.text);
        }
        if (r == 0) {
            assert_string_equal(server_config_egress_secret(config, "api")->value, rows[i].value);
            assert_null(server_config_egress_secret(config, "other"));
        } else {
            assert_non_null(strstr(err.text, "egress_secret[0].file: "));
            assert_non_null(strstr(err.text, "must hold one line of 1 to 4096 visible ASCII characters"));
            assert_null(strstr(err.text, "s3c"));
        }
        server_config_free(config);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"egress_secret { name: \"a\" file: \"relative\" }",
         "egress_secret[0].file: must be an absolute path"},
        {"egress_secret { name: \"a\" file: \"/no/such\" }",
         "egress_secret[0].file: \"/no/such\" cannot be read"},
        {"egress_secret { name: \"a b\" file: \"/etc/hostname\" }", "egress_secret[0].name: "},
        {"egress_secret { name: \"a\" file: \"/etc/hostname\" value: \"s3cret\" }",
         "egress_secret[0].value: is read from `file`"},
        {"egress_secret { name: \"a\" file: \"/proc/sys/kernel/ostype\" }\n"
         "egress_secret { name: \"a\" file: \"/proc/sys/kernel/ostype\" }",
         "egress_secret[1].name: \"a\" is the name of two secrets"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct server_config *config = NULL;
        struct err err = {0};
        assert_true(load(rows[i].text, &config, &err) < 0);
        if (!strstr(err.text, rows[i].why) || strstr(err.text, "s3cret")) {
            fail_msg("row %zu: %s", i, err.text);
        }
    }
}

/* It reaches the front as it is. */
static void test_packed(void **state)
{
    (void)state;
    struct server_config *config = NULL, *unpacked = NULL;
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    struct err err = {0};
    if (load_secret("s3cret\n", 7, &config, &err) < 0) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(server_config_encode(config, &packed, NULL), 0);
    assert_int_equal(server_config_decode(packed.data, packed.len, &unpacked, NULL), 0);
    assert_string_equal(server_config_egress_secret(unpacked, "api")->value, "s3cret");
    server_config_free(config);
    server_config_free(unpacked);
}

static void test_private_hosts(void **state)
{
    (void)state;
    struct server_config *config = NULL;
    assert_int_equal(load("egress_private_host: \"registry.internal\"", &config, NULL), 0);
    assert_true(server_config_egress_is_private(config, "Registry.internal"));
    assert_false(server_config_egress_is_private(config, "internal"));
    server_config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_private_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
