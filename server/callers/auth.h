/* Who calls, and what that key may use. */
#pragma once

#include <stdbool.h>

struct key_config;
struct runtime_config;
struct server_config;
struct team_config;

struct caller {
    const struct key_config *key; /* NULL: the server is open */
    const char *name;             /* for logs: never the key itself */
};

/* The three ways to show a key: X-Service-API-Key, Authorization: Bearer, Authorization: Basic (as the
 * password). Either header may be NULL; the first wins where both are there. False: no key or a wrong one. */
bool auth_identify(const struct server_config *config, const char *service_api_key, const char *authorization,
                   struct caller *ret);

/* The key that was shown, malloc'ed, to be wiped; NULL: none, or no memory. */
char *auth_shown_key(const char *service_api_key, const char *authorization);

/* The caller's team as the configuration knows it; NULL: none, or an unknown one. */
const struct team_config *auth_team(const struct server_config *config, const struct caller *caller);
/* False for keys of a team that the configuration has not turned on. */
bool auth_team_may(const struct server_config *config, const struct caller *caller);

bool auth_may_use_runtime(const struct server_config *config, const struct caller *caller,
                          const struct runtime_config *runtime);

/* `policy` NULL: the runtime's own. A key without a list may use the policies that its runtimes use by
 * default. */
bool auth_may_use_policy(const struct server_config *config, const struct caller *caller,
                         const struct runtime_config *runtime, const char *policy);
