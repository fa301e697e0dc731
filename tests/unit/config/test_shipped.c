/* config/shipped.c: the files in the binary are the files in the source, and every one of them can be loaded.
 * Run from the source root. */
#include "config/shipped.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "config/policy/policy_file.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/io.h"

static void is_the_file(const struct shipped_file *shipped, const char *path)
{
    CLEANUP(buf_free) struct buf content = BUF_INIT;
    assert_int_equal(io_read_file_at(AT_FDCWD, path, 1 << 20, &content), 0);
    assert_int_equal(shipped->size, content.len);
    assert_memory_equal(shipped->data, content.data, content.len);
    assert_int_equal(shipped->data[shipped->size], 0);
}

static void test_server(void **state)
{
    (void)state;
    struct err err = {0};
    struct server_config *config = NULL;
    static char local[] = "SANDBOX_EXECUTOR_ENV=local";
    assert_string_equal(shipped_server()->name, "server");
    is_the_file(shipped_server(), "config/server.textproto");
    if (server_config_load(NULL, (char *const[]){local, NULL}, &config, &err) < 0) {
        fail_msg("%s: %s", err.item, err.text);
    }
    for (size_t i = 0; i < config->n_runtimes; i++) {
        assert_non_null(shipped_policy(config->runtimes[i].policy));
    }
    server_config_free(config);
}

static size_t lines_of(const struct shipped_file *file)
{
    size_t n = 0;
    for (size_t i = 0; i < file->size; i++) {
        n += file->data[i] == '\n';
    }
    return n;
}

static void test_policies(void **state)
{
    (void)state;
    size_t n = 0;
    for (const struct shipped_file *file = shipped_policies(); file->name; file++, n++) {
        struct err err = {0};
        struct policy_spec *spec = NULL;
        char path[128];
        snprintf(path, sizeof path, "config/policies/%s.textproto", file->name);
        is_the_file(file, path);
        assert_ptr_equal(shipped_policy(file->name), file);
        if (policy_spec_decode_text(file->name, file->data, file->size, &spec, &err) < 0) {
            fail_msg("%s: %s", err.item, err.text);
        }
        assert_string_equal(spec->name, file->name);
        policy_spec_free(spec);
    }
    assert_int_equal(n, 10);
    for (const struct shipped_file *file = shipped_parts(); file->name; file++) {
        struct policy_spec *spec = NULL;
        char path[128];
        snprintf(path, sizeof path, "config/policies/parts/%s.textproto", file->name);
        is_the_file(file, path);
        assert_ptr_equal(shipped_part(file->name), file);
        assert_null(shipped_policy(file->name));
        assert_int_equal(policy_spec_decode_text(file->name, file->data, file->size, &spec, NULL), 0);
        assert_string_equal(spec->name, file->name);
        assert_true(spec->part);
        policy_spec_free(spec);
    }
    assert_in_range(lines_of(shipped_policy("python")), 1, 40);
    assert_in_range(lines_of(shipped_policy("python-kernel")), 1, 8);
    assert_in_range(lines_of(shipped_policy("python-data")), 1, 24);
    assert_null(shipped_policy("none"));
    assert_null(shipped_policy("server"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_server), cmocka_unit_test(test_policies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
