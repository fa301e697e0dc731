/* The front's routes, one row each. */
#include "server/front/routes.h"

#include <stdio.h>
#include <string.h>

#include "config/format/textformat.h"
#include "jail/base/cleanup.h"
#include "server/doors/dify.h"
#include "server/doors/execute.h"
#include "server/doors/librechat.h"
#include "server/doors/piston.h"
#include "server/doors/run_code.h"
#include "server/front/catalogue.h"
#include "server/front/handlers.h"
#include "server/front/misbehave.h"

static const struct route routes[] = {
    {"POST", "/execute", ROUTE_FOR_KEYS, ROUTE_AT_END, &execute_door, handle_job_start, NULL},
    {"POST", "/run-code", ROUTE_FOR_KEYS, ROUTE_AT_END, &run_code_door, handle_job_start, NULL},
    {"POST", "/run-code/{execution_id}/terminate", ROUTE_FOR_WARDEN, ROUTE_AT_END, NULL, handle_terminate,
     NULL},
    {"POST", "/executions/{execution_id}/answers", ROUTE_FOR_WARDEN, ROUTE_AT_END, NULL, handle_answers,
     NULL},
    {"POST", "/mcp", ROUTE_FOR_KEYS, ROUTE_AT_END, NULL, handle_mcp, NULL},
    {"DELETE", "/mcp", ROUTE_FOR_KEYS, ROUTE_AT_END, NULL, handle_mcp_end, NULL},
    {"GET", "/runtimes", ROUTE_FOR_KEYS, ROUTE_AT_END, NULL, handle_runtimes, NULL},
    {"GET", "/policies", ROUTE_FOR_KEYS, ROUTE_AT_END, NULL, handle_policies, NULL},
    {"GET", "/sessions", ROUTE_FOR_KEYS, ROUTE_AT_END, NULL, handle_sessions, NULL},
    {"DELETE", "/workspace/{session_id}", ROUTE_FOR_KEYS, ROUTE_AT_END, NULL, handle_session_end, NULL},
    {"GET", "/sessions/{session_id}/files", ROUTE_FOR_KEYS, ROUTE_AT_END, NULL, handle_session_files, NULL},
    {"GET", "/sessions/{session_id}/files/{path}", ROUTE_FOR_KEYS, ROUTE_AT_END, NULL, handle_session_file,
     NULL},
    {"PUT", "/sessions/{session_id}/files/{path}", ROUTE_FOR_KEYS, ROUTE_AT_END_OF_ANYTHING, NULL,
     handle_session_file_put, NULL},
    {"DELETE", "/sessions/{session_id}/files/{path}", ROUTE_FOR_KEYS, ROUTE_AT_END, NULL,
     handle_session_file_delete, NULL},
    {"POST", "/sessions/{session_id}/fork", ROUTE_FOR_KEYS, ROUTE_AT_END, NULL, handle_session_fork, NULL},
    {"GET", "/sessions/{session_id}/diff/{other}", ROUTE_FOR_KEYS, ROUTE_AT_END, NULL, handle_session_diff,
     NULL},
    {"POST", "/sessions/{session_id}/restore", ROUTE_FOR_KEYS, ROUTE_AT_END, NULL, handle_session_restore,
     NULL},
    {"GET", "/jobs", ROUTE_FOR_WARDEN, ROUTE_AT_END, NULL, handle_jobs, NULL},
    {"GET", "/jobs/{job_id}", ROUTE_FOR_WARDEN, ROUTE_AT_END, NULL, handle_job, NULL},
    {"DELETE", "/jobs/{job_id}", ROUTE_FOR_WARDEN, ROUTE_AT_END, NULL, handle_job_end, NULL},
    {"GET", "/approvals", ROUTE_FOR_WARDEN, ROUTE_AT_END, NULL, handle_approvals, NULL},
    {"GET", "/approvals/{approval_id}", ROUTE_FOR_WARDEN, ROUTE_AT_END, NULL, handle_approval, NULL},
    {"POST", "/approvals/{approval_id}", ROUTE_FOR_WARDEN, ROUTE_AT_END, NULL, handle_approval_decision,
     NULL},
    {"GET", "/", ROUTE_FOR_ANYONE, ROUTE_AT_HEADERS, NULL, handle_root, NULL},
    {"GET", "/ui", ROUTE_FOR_ANYONE, ROUTE_AT_HEADERS, NULL, handle_console_place, "console"},
    {"GET", "/ui/", ROUTE_FOR_ANYONE, ROUTE_AT_HEADERS, NULL, handle_console, "console"},
    {"GET", "/ui/{path}", ROUTE_FOR_ANYONE, ROUTE_AT_HEADERS, NULL, handle_console, "console"},
    {"GET", "/healthz", ROUTE_FOR_ANYONE, ROUTE_AT_HEADERS, NULL, handle_healthz, NULL},
    {"GET", "/health", ROUTE_FOR_ANYONE, ROUTE_AT_HEADERS, NULL, handle_healthz, NULL},
    {"GET", "/readyz", ROUTE_FOR_ANYONE, ROUTE_AT_HEADERS, NULL, handle_readyz, NULL},
    {"GET", "/openapi.json", ROUTE_FOR_ANYONE, ROUTE_AT_HEADERS, NULL, handle_openapi, NULL},
    {"GET", "/metrics", ROUTE_FOR_METRICS, ROUTE_AT_HEADERS, NULL, handle_metrics, NULL},
    {"GET", "/api/v2/runtimes", ROUTE_FOR_KEYS, ROUTE_AT_HEADERS, NULL, handle_piston_runtimes, "piston"},
    {"POST", "/api/v2/execute", ROUTE_FOR_KEYS, ROUTE_AT_END_OF_ANYTHING, &piston_door, handle_job_start,
     "piston"},
    {"GET", "/v1/sandbox/dependencies", ROUTE_FOR_KEYS, ROUTE_AT_HEADERS, NULL, handle_dify_dependencies,
     "dify"},
    {"POST", "/v1/sandbox/run", ROUTE_FOR_KEYS, ROUTE_AT_END_OF_ANYTHING, &dify_door, handle_job_start,
     "dify"},
    {"POST", "/exec", ROUTE_FOR_KEYS, ROUTE_AT_END, &librechat_door, handle_librechat_exec, "librechat"},
    {"POST", "/upload", ROUTE_FOR_KEYS, ROUTE_AT_END_OF_ANYTHING, NULL, handle_librechat_upload, "librechat"},
    {"POST", "/upload/batch", ROUTE_FOR_KEYS, ROUTE_AT_END_OF_ANYTHING, NULL, handle_librechat_upload_batch,
     "librechat"},
    {"GET", "/files/{session_id}", ROUTE_FOR_KEYS, ROUTE_AT_END, NULL, handle_librechat_files, "librechat"},
    {"GET", "/sessions/{session_id}/objects/{file_id}", ROUTE_FOR_KEYS, ROUTE_AT_END, NULL,
     handle_librechat_file, "librechat"},
    {"GET", "/download/{session_id}/{file_id}", ROUTE_FOR_KEYS, ROUTE_AT_END, NULL, handle_librechat_download,
     "librechat"},
#ifdef IMMURE_HOOKS
    {"POST", "/misbehave", ROUTE_FOR_KEYS, ROUTE_AT_END, NULL, handle_misbehave, NULL},
#endif
};

/* What queries may have, a row each; those of other routes have nothing. */
static const struct {
    const char *method, *path, *name;
} parameters[] = {
    {"POST", "/execute", "wait"},
    {"POST", "/run-code/{execution_id}/terminate", "reason"},
    {"DELETE", "/jobs/{job_id}", "reason"},
    {"GET", "/v1/sandbox/dependencies", "language"},
    /* For whom a chat is: what a file belongs to is the key. */
    {"GET", "/files/{session_id}", "detail"},
    {"GET", "/files/{session_id}", "kind"},
    {"GET", "/files/{session_id}", "id"},
    {"GET", "/files/{session_id}", "version"},
    {"GET", "/files/{session_id}", "entity_id"},
    {"GET", "/sessions/{session_id}/objects/{file_id}", "kind"},
    {"GET", "/sessions/{session_id}/objects/{file_id}", "id"},
    {"GET", "/sessions/{session_id}/objects/{file_id}", "version"},
    {"GET", "/download/{session_id}/{file_id}", "kind"},
    {"GET", "/download/{session_id}/{file_id}", "id"},
    {"GET", "/download/{session_id}/{file_id}", "version"},
    {"GET", "/download/{session_id}/{file_id}", "entity_id"},
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
