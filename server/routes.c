/* The front's routes, one row each. */
#include "server/routes.h"

#include <stdio.h>
#include <string.h>

#include "jail/base/cleanup.h"
#include "server/front_misbehave.h"
#include "server/handlers.h"

static const struct route routes[] = {
    {"POST", "/execute", ROUTE_FOR_KEYS, true, handle_execute},
    {"GET", "/healthz", ROUTE_FOR_ANYONE, false, handle_healthz},
    {"GET", "/health", ROUTE_FOR_ANYONE, false, handle_healthz},
    {"GET", "/readyz", ROUTE_FOR_ANYONE, false, handle_readyz},
    {"GET", "/openapi.json", ROUTE_FOR_ANYONE, false, handle_openapi},
    {"GET", "/metrics", ROUTE_FOR_METRICS, false, handle_metrics},
#ifdef IMMURE_HOOKS
    {"POST", "/misbehave", ROUTE_FOR_KEYS, true, handle_misbehave},
#endif
};

static bool takes_method(const struct route *route, const char *method)
{
    return strcmp(route->method, method) == 0 ||
           (strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0);
}

const struct route *route_find(const char *method, const char *path, const struct route **ret_path,
                               char ret_allow[ROUTE_ALLOW_BYTES])
{
    const struct route *found = NULL;
    size_t len = 0;
    *ret_path = NULL;
    ret_allow[0] = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
        if (strcmp(routes[i].path, path) != 0) {
            continue;
        }
        bool get = strcmp(routes[i].method, "GET") == 0;
        len += (size_t)snprintf(ret_allow + len, ROUTE_ALLOW_BYTES - len, "%s%s%s", len > 0 ? ", " : "",
                                routes[i].method, get ? ", HEAD" : "");
        *ret_path = &routes[i];
        if (takes_method(&routes[i], method)) {
            found = &routes[i];
        }
    }
    return found;
}
