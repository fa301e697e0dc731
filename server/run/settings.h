/* struct settings: one reading of the configuration and its policies. A reload makes a new one; fronts and
 * jobs of the old one keep theirs until they have ended. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "policy/policy.h"

struct err;
struct host;
struct job;
struct log;
struct server_config;

struct settings {
    unsigned references;
    struct server_config *config;
    struct policy_set *policies;
    struct runtime_config *shown; /* one for each policy: the interpreter that it names and no runtime has */
};

/* Loads everything or nothing. `path` and `env` as server_config_load() takes them. Every policy that a
 * runtime or a key names must exist, and every interpreter of a runtime that is not optional. What `before`
 * (NULL: none) knows of interpreters is not asked again. The new settings have one reference. */
int settings_load(const char *path, char *const *env, const struct settings *before, struct settings **ret,
                  struct err *reterr);
struct settings *settings_ref(struct settings *settings);
/* Takes NULL. */
void settings_unref(struct settings *settings);
static inline void settings_unrefp(struct settings **settings)
{
    settings_unref(*settings);
}

/* A sentence that names the interpreter, if it is not there to be executed, and what to do; false: it is, or
 * only a jail can tell. */
#define ABSENT_INTERPRETER_BYTES 384
bool settings_interpreter_absent(const struct settings *settings, const struct runtime_config *runtime,
                                 char ret[ABSENT_INTERPRETER_BYTES]);

/* Whether what the runtime's packages need, as far as that is known, can be shown under that policy.
 * ERR_HOST. */
int settings_check_packages(const struct policy_spec *spec, const struct runtime_config *runtime,
                            struct err *reterr);

/* Finds the interpreters of all runtimes; part of settings_load(). */
int settings_find_interpreters(struct settings *settings, const struct settings *before, struct err *reterr);

/* Says which optional runtimes are not offered and why, and which run cold. */
void settings_log_absent(const struct settings *settings, struct log *log);

/* What a server must have to be started, although one that runs may lose it: a key, unless it is open. */
int settings_check_start(const struct settings *settings, struct err *reterr);

/* Warns where nobody may call, because there is no key or every key has expired. */
void settings_log_no_caller(const struct settings *settings, struct log *log);

enum settings_change { SETTINGS_SAME, SETTINGS_CALLERS /* keys and teams */, SETTINGS_MORE };
/* What has changed; SETTINGS_MORE where that cannot be told. */
enum settings_change settings_change(const struct settings *old, const struct settings *new);

/* Warns of teams that have keys and are off, and says where to turn them on. */
void settings_log_teams_off(const struct settings *settings, struct log *log);

/* ERR_HOST where the limit of open files is too low for the configuration's jobs, whatever the connections.
 */
int settings_check_open_files(const struct settings *settings, struct err *reterr);

/* The field that a running server cannot change and that differs, or NULL. */
const char *settings_fixed_difference(const struct settings *old, const struct settings *new);

/* What the server allows jobs of that key at most. In an open server it is none's. */
struct policy_ceilings settings_ceilings(const struct settings *settings, const struct host *host,
                                         const char *key);

/* Whose jobs a job of that key may share a template with: `ret` holds a word for them, "" for those of all
 * keys. */
#define TEMPLATE_OWNER_BYTES 80
void settings_template_owner(const struct settings *settings, const char *key,
                             char ret[static TEMPLATE_OWNER_BYTES]);

/* The policy that a runtime's template and the jails that stand ready are made for; NULL: it has none. */
const struct policy *settings_warm_policy(const struct settings *settings,
                                          const struct runtime_config *runtime);

/* The runtime and policy that a job names. ERR_INVALID for one that is not there. */
int settings_find(const struct settings *settings, const struct job *job,
                  const struct runtime_config **ret_runtime, const struct policy **ret_policy,
                  struct err *reterr);
