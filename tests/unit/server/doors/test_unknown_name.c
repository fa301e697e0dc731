/* server/doors/unknown_name.c: what is meant depends on which names there are. */
#include "server/doors/unknown_name.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"

static const char *const request[] = {"code", "args", "limits", "timeout", "timeout_ms", "outputs"};
static const char *const limits[] = {"memory_bytes", "pids", "cpu_ms"};
static const char *const query[] = {"wait"};
static const char *const module[] = {"source", "options", "timeout_ms"};

#define NAMES(names) names, ARRAY_SIZE(names)

static void what_is_meant(void **state)
{
    (void)state;
    static const struct {
        const char *prefix, *name;
        const char *const *names;
        size_t n_names;
        const char *text;
    } rows[] = {
        {"", "memory", NAMES(request), "memory: unknown field; did you mean 'limits.memory_bytes'?"},
        {"limits.", "memory", NAMES(limits), "limits.memory: unknown field; did you mean 'memory_bytes'?"},
        {"", "memory", NAMES(module), "memory: unknown field; did you mean 'options.memoryLimitBytes'?"},
        {"", "memory", NAMES(query), "memory: unknown field"},
        {"", "MemoryLimit", NAMES(request),
         "MemoryLimit: unknown field; did you mean 'limits.memory_bytes'?"},
        {"", "memory-limit", NAMES(request),
         "memory-limit: unknown field; did you mean 'limits.memory_bytes'?"},
        {"", "memory_limits", NAMES(request), "memory_limits: unknown field"},
        {"", "command", NAMES(request),
         "command: unknown field; the program is `code`, its arguments are `args`"},
        {"", "code", NAMES(module), "code: unknown field; did you mean 'source'?"},
        {"", "source", NAMES(request), "source: unknown field; did you mean 'code'?"},
        {"", "async", NAMES(request),
         "async: unknown field; do not wait for the job with the query ?wait=false"},
        {"", "async", NAMES(query), "async: unknown field; do not wait for the job with ?wait=false"},
        {"", "timeuot", NAMES(request), "timeuot: unknown field; did you mean 'timeout'?"},
        {"", "bogus", NAMES(request), "bogus: unknown field"},
        {"", "", NAMES(request), ": unknown field"},
        {"", "_", NAMES(request), "_: unknown field"},
        {"", "wait", NULL, 0, "wait: unknown field"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct err err = {0};
        assert_int_equal(
            unknown_name("field", rows[i].prefix, rows[i].name, rows[i].names, rows[i].n_names, &err),
            -EINVAL);
        assert_int_equal(err.kind, ERR_INVALID);
        assert_string_equal(err.text, rows[i].text);
        assert_memory_equal(err.item, rows[i].text, strlen(err.item));
    }
}

static void long_names_are_cut(void **state)
{
    (void)state;
    char name[1000];
    struct err err = {0};
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    unknown_name("argument", "", name, NAMES(request), &err);
    assert_int_equal(strlen(err.item), sizeof err.item - 1);
    assert_string_equal(err.text + 200, ": unknown argument");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_meant), cmocka_unit_test(long_names_are_cut)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
