/* The front's routes, one row each. */
#include "server/front/routes.h"

#include <stdio.h>
#include <string.h>

#include "config/format/textformat.h"
#include "jail/base/cleanup.h"
#include "server/doors/execute.h"
#include "server/doors/run_code.h"
#include "server/front/catalogue.h"
#include "server/front/handlers.h"
#include "server/front/misbehave.h"

static const struct route routes[] = {
    {"POST", "/execute", ROUTE_FOR_KEYS, ROUTE_AT_END, &execute_door, handle_job_start},
    {"POST", "/run-code", ROUTE_FOR_KEYS, ROUTE_AT_END, &run_code_door, handle_job_start},
    {"POST", "/run-code/{execution_id}/terminate", ROUTE_FOR_KEYS, ROUTE_AT_END, NULL, handle_terminate},
    {"POST", "/mcp", ROUTE_FOR_KEYS, ROUTE_AT_END, NULL, handle_mcp},
    {"DELETE", "/mcp", ROUTE_FOR_KEYS, ROUTE_AT_END, NULL, handle_mcp_end},
    {"GET", "/runtimes", ROUTE_FOR_KEYS, ROUTE_AT_END, NULL, handle_runtimes},
    {"GET", "/policies", ROUTE_FOR_KEYS, ROUTE_AT_END, NULL, handle_policies},
    {"GET", "/sessions", ROUTE_FOR_KEYS, ROUTE_AT_END, NULL, handle_sessions},
    {"DELETE", "/workspace/{session_id}", ROUTE_FOR_KEYS, ROUTE_AT_END, NULL, handle_session_end},
    {"GET", "/sessions/{session_id}/files", ROUTE_FOR_KEYS, ROUTE_AT_END, NULL, handle_session_files},
    {"GET", "/sessions/{session_id}/files/{path}", ROUTE_FOR_KEYS, ROUTE_AT_END, NULL, handle_session_file},
    {"PUT", "/sessions/{session_id}/files/{path}", ROUTE_FOR_KEYS, ROUTE_AT_END_OF_ANYTHING, NULL,
     handle_session_file_put},
    {"DELETE", "/sessions/{session_id}/files/{path}", ROUTE_FOR_KEYS, ROUTE_AT_END, NULL,
     handle_session_file_delete},
    {"GET", "/jobs", ROUTE_FOR_WARDEN, ROUTE_AT_END, NULL, handle_jobs},
    {"GET", "/jobs/{job_id}", ROUTE_FOR_WARDEN, ROUTE_AT_END, NULL, handle_job},
    {"DELETE", "/jobs/{job_id}", ROUTE_FOR_WARDEN, ROUTE_AT_END, NULL, handle_job_end},
    {"GET", "/approvals", ROUTE_FOR_WARDEN, ROUTE_AT_END, NULL, handle_approvals},
    {"GET", "/approvals/{approval_id}", ROUTE_FOR_WARDEN, ROUTE_AT_END, NULL, handle_approval},
    {"POST", "/approvals/{approval_id}", ROUTE_FOR_WARDEN, ROUTE_AT_END, NULL, handle_approval_decision},
    {"GET", "/healthz", ROUTE_FOR_ANYONE, ROUTE_AT_HEADERS, NULL, handle_healthz},
    {"GET", "/health", ROUTE_FOR_ANYONE, ROUTE_AT_HEADERS, NULL, handle_healthz},
    {"GET", "/readyz", ROUTE_FOR_ANYONE, ROUTE_AT_HEADERS, NULL, handle_readyz},
    {"GET", "/openapi.json", ROUTE_FOR_ANYONE, ROUTE_AT_HEADERS, NULL, handle_openapi},
    {"GET", "/metrics", ROUTE_FOR_METRICS, ROUTE_AT_HEADERS, NULL, handle_metrics},
#ifdef IMMURE_HOOKS
    {"POST", "/misbehave", ROUTE_FOR_KEYS, ROUTE_AT_END, NULL, handle_misbehave},
#endif
};

/* What queries may have, a row each; those of other routes have nothing. */
static const struct {
    const char *method, *path, *name;
} parameters[] = {
    {"POST", "/execute", "wait"},
    {"POST", "/run-code/{execution_id}/terminate", "reason"},
    {"DELETE", "/jobs/{job_id}", "reason"},
};

const struct route *route_at(size_t index)
{
    return index < ARRAY_SIZE(routes) ? &routes[index] : NULL;
}

/* Bytes at the beginning of the route's path that a request's must have; all of them where it has no brace.
 */
static size_t fixed_bytes(const struct route *route)
{
    return strcspn(route->path, "{");
}

/* What comes behind the last brace. */
static const char *suffix_of(const struct route *route)
{
    const char *brace = strrchr(route->path, '}');
    return brace ? brace + 1 : "";
}

const char *route_argument(const struct route *route, const char *path, size_t *ret_length)
{
    size_t fixed = fixed_bytes(route);
    if (route->path[fixed] == '\0') {
        *ret_length = 0;
        return "";
    }
    *ret_length = strlen(path) - fixed - strlen(suffix_of(route));
    return path + fixed;
}

/* Names whose values may hold slashes; of the others they end the value. */
static bool may_hold_slashes(const char *brace)
{
    return strncmp(brace, "{execution_id}", 14) == 0 || strncmp(brace, "{path}", 6) == 0;
}

/* Whether `path` is one of those that `pattern` stands for. */
static bool matches(const char *pattern, const char *path)
{
    size_t fixed = strcspn(pattern, "{");
    if (strncmp(pattern, path, fixed) != 0 || pattern[fixed] == '\0') {
        return strcmp(pattern, path) == 0;
    }
    const char *value = path + fixed, *rest = strchr(pattern, '}') + 1;
    if (may_hold_slashes(pattern + fixed)) {
        size_t length = strlen(value), tail = strlen(rest); /* it is the last name */
        return length > tail && strcmp(value + length - tail, rest) == 0;
    }
    size_t length = strcspn(value, "/");
    return length > 0 && matches(rest, value + length);
}

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
        if (!matches(routes[i].path, path)) {
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

size_t route_parameters(const struct route *route, const char *ret[ROUTE_PARAMETERS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_SIZE(parameters) && n < ROUTE_PARAMETERS_MAX; i++) {
        if (strcmp(parameters[i].path, route->path) == 0 && takes_method(route, parameters[i].method)) {
            ret[n++] = parameters[i].name;
        }
    }
    return n;
}

static bool is_path(const char *path)
{
    for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
        if (matches(routes[i].path, path)) {
            return true;
        }
    }
    return false;
}

const char *route_near(const char *path, char ret[ROUTE_NEAR_BYTES])
{
    const char *fixed[ARRAY_SIZE(routes)];
    size_t n_fixed = 0, length = strlen(path);
    while (length > 0 && path[length - 1] == '/') {
        length--;
    }
    if (length == 0 || length >= ROUTE_NEAR_BYTES) {
        return NULL;
    }
    memcpy(ret, path, length);
    ret[length] = '\0';
    for (const char *at = ret; at; at = strchr(at + 1, '/')) {
        if (is_path(at)) {
            return at;
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
        if (routes[i].path[fixed_bytes(&routes[i])] == '\0') {
            fixed[n_fixed++] = routes[i].path;
        }
    }
    return textformat_did_you_mean(ret, fixed, n_fixed);
}
