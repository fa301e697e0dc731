/* server/host/memory.c: the least of the limits that hold. */
#include "server/host/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void write_limit(const char *directory, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/memory.max", directory);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void the_least_limit_counts(void **state)
{
    (void)state;
    char top[] = "/tmp/immure-memory-XXXXXX", inner[64], leaf[80], path[128];
    assert_non_null(mkdtemp(top));
    snprintf(inner, sizeof inner, "%s/inner", top);
    snprintf(leaf, sizeof leaf, "%s/leaf", inner);
    assert_true(mkdir(inner, 0700) == 0 && mkdir(leaf, 0700) == 0);
    uint64_t all = host_memory_bytes(NULL);
    assert_true(all > UINT64_C(64) << 20);
    assert_true(host_memory_bytes(leaf) >= all);
    write_limit(top, "max\n");
    write_limit(leaf, "2097152\n");
    assert_int_equal(host_memory_bytes(leaf), 2097152);
    write_limit(inner, "1048576\n");
    assert_int_equal(host_memory_bytes(leaf), 1048576);
    write_limit(leaf, "garbage");
    assert_int_equal(host_memory_bytes(leaf), 1048576);
    const char *const all_of_it[] = {leaf, inner, top};
    for (size_t i = 0; i < sizeof all_of_it / sizeof all_of_it[0]; i++) {
        snprintf(path, sizeof path, "%s/memory.max", all_of_it[i]);
        unlink(path);
        assert_int_equal(rmdir(all_of_it[i]), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_least_limit_counts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
