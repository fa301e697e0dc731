/* server/routes.c: what is found, and what is allowed. */
#include "server/routes.h"

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
        {"GET", "/", "", false, false},
        {"GET", "", "", false, false},
        {"GET", "/healthz/", "", false, false},
        {"GET", "/HEALTHZ", "", false, false},
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

static void only_jobs_take_a_body_and_only_health_is_for_anyone(void **state)
{
    (void)state;
    static const struct {
        const char *method, *path;
        enum route_access access;
        bool takes_body;
    } rows[] = {
        {"POST", "/execute", ROUTE_FOR_KEYS, true},        {"GET", "/healthz", ROUTE_FOR_ANYONE, false},
        {"GET", "/health", ROUTE_FOR_ANYONE, false},       {"GET", "/readyz", ROUTE_FOR_ANYONE, false},
        {"GET", "/openapi.json", ROUTE_FOR_ANYONE, false}, {"GET", "/metrics", ROUTE_FOR_METRICS, false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const struct route *path;
        char allow[ROUTE_ALLOW_BYTES];
        const struct route *route = route_find(rows[i].method, rows[i].path, &path, allow);
        assert_non_null(route);
        assert_int_equal(route->access, rows[i].access);
        assert_int_equal(route->takes_body, rows[i].takes_body);
        assert_non_null(route->handle);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_routes),
        cmocka_unit_test(only_jobs_take_a_body_and_only_health_is_for_anyone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
