/* server/front/routes.c: what is found, and what is allowed. */
#include "server/front/routes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "jail/base/cleanup.h"

static void finds_routes(void **state)
{
    (void)state;
    static const struct {
        const char *method, *path, *allow;
        bool found, path_known;
    } rows[] = {
        {"POST", "/execute", "POST", true, true},
        {"GET", "/execute", "POST", false, true},
        {"HEAD", "/execute", "POST", false, true},
        {"GET", "/healthz", "GET, HEAD", true, true},
        {"HEAD", "/healthz", "GET, HEAD", true, true},
        {"get", "/healthz", "GET, HEAD", false, true}, /* methods are case-sensitive */
        {"POST", "/metrics", "GET, HEAD", false, true},
        {"GET", "/", "GET, HEAD", true, true},
        {"POST", "/", "GET, HEAD", false, true},
        {"GET", "/ui", "GET, HEAD", true, true},
        {"GET", "/ui/", "GET, HEAD", true, true},
        {"GET", "/ui/main.js", "GET, HEAD", true, true},
        {"GET", "", "", false, false},
        {"GET", "/healthz/", "", false, false},
        {"GET", "/HEALTHZ", "", false, false},
        {"DELETE", "/workspace/s", "DELETE", true, true},
        {"GET", "/workspace/s", "DELETE", false, true},
        {"DELETE", "/workspace/", "", false, false},
        {"HEAD", "/jobs/j", "GET, HEAD, DELETE", true, true},
        {"POST", "/jobs/j", "GET, HEAD, DELETE", false, true},
        {"DELETE", "/workspace", "", false, false},
        {"DELETE", "/workspace/s/", "", false, false},
        {"DELETE", "/workspace/s/t", "", false, false},
        {"GET", "/sessions/s/files", "GET, HEAD", true, true},
        {"PUT", "/sessions/s/files/d/f", "GET, HEAD, PUT, DELETE", true, true},
        {"GET", "/sessions/s/files/", "", false, false},
        {"GET", "/sessions//files", "", false, false},
        {"GET", "/sessions/s/t/files", "", false, false},
        {"POST", "/sessions/s/fork", "POST", true, true},
        {"GET", "/sessions/s/fork", "POST", false, true},
        {"POST", "/sessions/s/restore", "POST", true, true},
        {"GET", "/sessions/s/diff/t", "GET, HEAD", true, true},
        {"GET", "/sessions/s/diff/t/u", "", false, false},
        {"GET", "/sessions/s/diff/", "", false, false},
        {"GET", "/sessions/s", "", false, false},
        {"POST", "/run-code", "POST", true, true},
        {"POST", "/run-code/r/terminate", "POST", true, true},
        {"GET", "/run-code/r/terminate", "POST", false, true},
        {"POST", "/run-code//terminate", "", false, false},
        {"POST", "/run-code/terminate", "", false, false},
        {"POST", "/run-code/r", "", false, false},
        {"POST", "/run-code/r/terminate/", "", false, false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const struct route *path;
        char allow[ROUTE_ALLOW_BYTES];
        const struct route *route = route_find(rows[i].method, rows[i].path, &path, allow);
        assert_int_equal(route != NULL, rows[i].found);
        assert_int_equal(path != NULL, rows[i].path_known);
        assert_string_equal(allow, rows[i].allow);
    }
}

static void doors_start_jobs_and_only_health_is_for_anyone(void **state)
{
    (void)state;
    static const struct {
        const char *method, *path;
        enum route_access access;
        enum route_when when;
        bool starts_job;
    } rows[] = {
        {"POST", "/execute", ROUTE_FOR_KEYS, ROUTE_AT_END, true},
        {"POST", "/run-code", ROUTE_FOR_KEYS, ROUTE_AT_END, true},
        {"POST", "/run-code/r/terminate", ROUTE_FOR_WARDEN, ROUTE_AT_END, false},
        {"POST", "/executions/e/answers", ROUTE_FOR_WARDEN, ROUTE_AT_END, false},
        {"POST", "/api/v2/execute", ROUTE_FOR_KEYS, ROUTE_AT_END_OF_ANYTHING, true},
        {"GET", "/api/v2/runtimes", ROUTE_FOR_KEYS, ROUTE_AT_HEADERS, false},
        {"POST", "/v1/sandbox/run", ROUTE_FOR_KEYS, ROUTE_AT_END_OF_ANYTHING, true},
        {"GET", "/v1/sandbox/dependencies", ROUTE_FOR_KEYS, ROUTE_AT_HEADERS, false},
        {"POST", "/mcp", ROUTE_FOR_KEYS, ROUTE_AT_END, false},
        {"DELETE", "/mcp", ROUTE_FOR_KEYS, ROUTE_AT_END, false},
        {"GET", "/runtimes", ROUTE_FOR_KEYS, ROUTE_AT_END, false},
        {"GET", "/policies", ROUTE_FOR_KEYS, ROUTE_AT_END, false},
        {"GET", "/sessions", ROUTE_FOR_KEYS, ROUTE_AT_END, false},
        {"DELETE", "/workspace/s", ROUTE_FOR_KEYS, ROUTE_AT_END, false},
        {"GET", "/sessions/s/files", ROUTE_FOR_KEYS, ROUTE_AT_END, false},
        {"GET", "/sessions/s/files/a/b", ROUTE_FOR_KEYS, ROUTE_AT_END, false},
        {"PUT", "/sessions/s/files/f", ROUTE_FOR_KEYS, ROUTE_AT_END_OF_ANYTHING, false},
        {"POST", "/sessions/s/fork", ROUTE_FOR_KEYS, ROUTE_AT_END, false},
        {"POST", "/sessions/s/restore", ROUTE_FOR_KEYS, ROUTE_AT_END, false},
        {"GET", "/sessions/s/diff/t", ROUTE_FOR_KEYS, ROUTE_AT_END, false},
        {"DELETE", "/sessions/s/files/f", ROUTE_FOR_KEYS, ROUTE_AT_END, false},
        {"GET", "/jobs", ROUTE_FOR_WARDEN, ROUTE_AT_END, false},
        {"GET", "/jobs/j", ROUTE_FOR_WARDEN, ROUTE_AT_END, false},
        {"DELETE", "/jobs/j", ROUTE_FOR_WARDEN, ROUTE_AT_END, false},
        {"GET", "/healthz", ROUTE_FOR_ANYONE, ROUTE_AT_HEADERS, false},
        {"GET", "/health", ROUTE_FOR_ANYONE, ROUTE_AT_HEADERS, false},
        {"GET", "/readyz", ROUTE_FOR_ANYONE, ROUTE_AT_HEADERS, false},
        {"GET", "/openapi.json", ROUTE_FOR_ANYONE, ROUTE_AT_HEADERS, false},
        {"GET", "/", ROUTE_FOR_ANYONE, ROUTE_AT_HEADERS, false},
        {"GET", "/ui", ROUTE_FOR_ANYONE, ROUTE_AT_HEADERS, false},
        {"GET", "/ui/", ROUTE_FOR_ANYONE, ROUTE_AT_HEADERS, false},
        {"GET", "/ui/main.js", ROUTE_FOR_ANYONE, ROUTE_AT_HEADERS, false},
        {"GET", "/metrics", ROUTE_FOR_METRICS, ROUTE_AT_HEADERS, false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const struct route *path;
        char allow[ROUTE_ALLOW_BYTES];
        const struct route *route = route_find(rows[i].method, rows[i].path, &path, allow);
        assert_non_null(route);
        assert_int_equal(route->access, rows[i].access);
        assert_int_equal(route->when, rows[i].when);
        assert_int_equal(route->door != NULL, rows[i].starts_job);
        assert_non_null(route->handle);
    }
}

static void an_unknown_path_has_a_known_one_beside_it(void **state)
{
    (void)state;
    static const struct {
        const char *path, *meant;
    } rows[] = {
        {"/execute/", "/execute"},
        {"/v1/execute", "/execute"},
        {"/api/v1/execute//", "/execute"},
        {"/v1/jobs/a-b", "/jobs/a-b"},
        {"/Execute", "/execute"},
        {"/excute", "/execute"},
        {"/run_code", "/run-code"},
        {"/v1/run-code/r/terminate/", "/run-code/r/terminate"},
        {"/", NULL},
        {"//", NULL},
        {"", NULL},
        {"/nothing", NULL},
        {"/v1", NULL},
        {"/v1/jobs/", "/jobs"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char near[ROUTE_NEAR_BYTES];
        const char *meant = route_near(rows[i].path, near);
        assert_string_equal(meant ? meant : "none", rows[i].meant ? rows[i].meant : "none");
    }
    char large[2 * ROUTE_NEAR_BYTES] = "/execute", near[ROUTE_NEAR_BYTES];
    memset(large + 8, 'x', sizeof large - 9);
    assert_null(route_near(large, near));
    memset(large + 8, '/', sizeof large - 9);
    assert_string_equal(route_near(large, near), "/execute");
}

static void queries_have_what_the_route_takes(void **state)
{
    (void)state;
    static const struct {
        const char *method, *path, *parameter;
    } rows[] = {
        {"POST", "/execute", "wait"},
        {"POST", "/run-code", NULL},
        {"POST", "/run-code/r/terminate", "reason"},
        {"DELETE", "/jobs/j", "reason"},
        {"GET", "/jobs/j", NULL},
        {"HEAD", "/healthz", NULL},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const struct route *path;
        const char *names[ROUTE_PARAMETERS_MAX];
        char allow[ROUTE_ALLOW_BYTES];
        const struct route *route = route_find(rows[i].method, rows[i].path, &path, allow);
        assert_int_equal(route_parameters(route, names), rows[i].parameter ? 1 : 0);
        if (rows[i].parameter) {
            assert_string_equal(names[0], rows[i].parameter);
        }
    }
}

static void paths_have_arguments(void **state)
{
    (void)state;
    static const struct {
        const char *method, *path, *argument;
    } rows[] = {
        {"DELETE", "/workspace/a", "a"},
        {"DELETE", "/workspace/a%2fb", "a%2fb"}, /* not decoded */
        {"DELETE", "/workspace/{session_id}", "{session_id}"},
        {"POST", "/run-code/a/terminate", "a"},
        {"POST", "/run-code/a/b/terminate", "a/b"}, /* an execution_id may have slashes */
        {"GET", "/sessions", ""},
        {"GET", "/sessions/a%2Fb/files", "a%2Fb"},
        {"GET", "/sessions/files/files", "files"},
        {"GET", "/sessions/a/files/files", "a/files/files"},
        {"PUT", "/sessions/a/files/d/f", "a/files/d/f"},
        {"POST", "/sessions/a%2Ffork/fork", "a%2Ffork"},
        {"GET", "/sessions/a/diff/b%2Fc", "a/diff/b%2Fc"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const struct route *path;
        char allow[ROUTE_ALLOW_BYTES];
        const struct route *route = route_find(rows[i].method, rows[i].path, &path, allow);
        assert_non_null(route);
        size_t length;
        const char *argument = route_argument(route, rows[i].path, &length);
        assert_int_equal(length, strlen(rows[i].argument));
        assert_memory_equal(argument, rows[i].argument, length);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_routes),
        cmocka_unit_test(doors_start_jobs_and_only_health_is_for_anyone),
        cmocka_unit_test(paths_have_arguments),
        cmocka_unit_test(an_unknown_path_has_a_known_one_beside_it),
        cmocka_unit_test(queries_have_what_the_route_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
