/* struct server_config to its message, every field of it. Runs in the warden, which sends its configuration
 * to the front, and in the command line. */
#include "config/server/config_message.h"

#include "config/format/digest.h"
#include "config/format/pool.h"
#include "config/server/server.pb-c.h"
#include "config/server/config.h"
#include "config/server/config_numbers.h"
#include "config/server/package_index.h"

static Immure__Team **teams_to_messages(const struct server_config *config, struct pool *pool)
{
    Immure__Team **pointers = pool_alloc(pool, config->n_teams, sizeof *pointers);
    for (size_t i = 0; pointers && i < config->n_teams; i++) {
        Immure__Team *message = pool_alloc(pool, 1, sizeof *message);
        if (!message) {
            return NULL;
        }
        immure__team__init(message);
        message->name = config->teams[i].name;
        message->has_enabled = true;
        message->enabled = config->teams[i].enabled;
        message->has_max_concurrent_jobs = true;
        message->max_concurrent_jobs = config->teams[i].max_concurrent_jobs;
        pointers[i] = message;
    }
    return pointers;
}

static Immure__Key **keys_to_messages(const struct server_config *config, struct pool *pool)
{
    Immure__Key **pointers = pool_alloc(pool, config->n_keys, sizeof *pointers);
    for (size_t i = 0; pointers && i < config->n_keys; i++) {
        const struct key_config *key = config->keys[i];
        Immure__Key *message = pool_alloc(pool, 1, sizeof *message);
        char *hex = pool_alloc(pool, 1, SHA256_HEX);
        if (!message || !hex) {
            return NULL;
        }
        sha256_to_hex(key->sha256, hex);
        immure__key__init(message);
        message->name = key->name;
        message->sha256 = hex;
        message->policy = key->policies;
        message->n_policy = key->n_policies;
        message->runtime = key->runtimes;
        message->n_runtime = key->n_runtimes;
        message->has_max_concurrent_jobs = true;
        message->max_concurrent_jobs = key->max_concurrent_jobs;
        message->has_max_sessions = true;
        message->max_sessions = key->max_sessions;
        message->team = key->team;
        message->has_max_jobs_per_minute = true;
        message->max_jobs_per_minute = key->max_jobs_per_minute;
#define X(limit, least, most)                                                                                \
    message->has_max_##limit = true;                                                                         \
    message->max_##limit = key->max.limit;
        KEY_CEILINGS(X)
#undef X
        message->expires = key->expires;
        message->has_approver = true;
        message->approver = key->approver;
        pointers[i] = message;
    }
    return pointers;
}

static Immure__Callback **callbacks_to_messages(const struct server_config *config, struct pool *pool)
{
    Immure__Callback **pointers = pool_alloc(pool, config->n_callbacks, sizeof *pointers);
    Immure__Callback *rows = pool_alloc(pool, config->n_callbacks, sizeof *rows);
    for (size_t i = 0; pointers && rows && i < config->n_callbacks; i++) {
        immure__callback__init(&rows[i]);
        rows[i].url = config->callbacks[i].text;
        rows[i].has_private_addresses = true;
        rows[i].private_addresses = config->callbacks[i].private_addresses;
        pointers[i] = &rows[i];
    }
    return pointers;
}

static Immure__Prelude **preludes_to_messages(const struct runtime_config *runtime, struct pool *pool)
{
    Immure__Prelude **pointers = pool_alloc(pool, runtime->n_preludes, sizeof *pointers);
    Immure__Prelude *rows = pool_alloc(pool, runtime->n_preludes, sizeof *rows);
    for (size_t i = 0; pointers && rows && i < runtime->n_preludes; i++) {
        immure__prelude__init(&rows[i]);
        rows[i].path = runtime->preludes[i].path;
        rows[i].file = runtime->preludes[i].file;
        pointers[i] = &rows[i];
    }
    return pointers;
}

static Immure__Runtime **runtimes_to_messages(const struct server_config *config, struct pool *pool)
{
    Immure__Runtime **pointers = pool_alloc(pool, config->n_runtimes, sizeof *pointers);
    for (size_t i = 0; pointers && i < config->n_runtimes; i++) {
        const struct runtime_config *runtime = &config->runtimes[i];
        Immure__Runtime *message = pool_alloc(pool, 1, sizeof *message);
        if (!message) {
            return NULL;
        }
        immure__runtime__init(message);
        message->name = runtime->name;
        message->alias = runtime->aliases;
        message->n_alias = runtime->n_aliases;
        message->interpreter = runtime->interpreter;
        message->arg = runtime->args;
        message->n_arg = runtime->n_args;
        message->extension = runtime->extension;
        message->policy = runtime->policy;
        message->template_ = runtime->template;
        message->has_warm_jails = true;
        message->warm_jails = runtime->warm_jails;
        message->has_template_max_jobs = true;
        message->template_max_jobs = runtime->template_max_jobs;
        message->has_template_ttl_ms = true;
        message->template_ttl_ms = runtime->template_ttl_ms;
        message->standby = runtime->standby;
        message->kernel = runtime->kernel;
        message->self_test = runtime->self_test;
        message->has_optional = true;
        message->optional = runtime->optional;
        message->has_evaluator = true;
        message->evaluator = runtime->evaluator;
        message->prelude = preludes_to_messages(runtime, pool);
        message->n_prelude = runtime->n_preludes;
        message->description = runtime->description;
        message->has_memory_bytes = true;
        message->memory_bytes = runtime->memory_bytes;
        pointers[i] = message;
    }
    return pointers;
}

void config_to_message(const struct server_config *config, struct pool *pool, Immure__Server *ret)
{
    ret->listen = config->listen;
    ret->environment = config->environment;
    ret->default_runtime = config->default_runtime;
    ret->audit_log = config->audit_log;
    ret->image_directory = config->image_directory;
    ret->session_directory = config->session_directory;
    ret->approval_directory = config->approval_directory;
#define X(field, min, max)                                                                                   \
    ret->has_##field = true;                                                                                 \
    ret->field = config->field;
    NUMBERS(X)
#undef X
    ret->has_default_timeout_ms = true;
    ret->default_timeout_ms = config->default_timeout_ms;
    ret->has_cgroup = true;
    ret->cgroup =
        config->cgroup_best_effort ? IMMURE__CGROUP_MODE__BEST_EFFORT : IMMURE__CGROUP_MODE__REQUIRED;
    ret->has_log_format = true;
    ret->log_format =
        config->log_format == LOG_FORMAT_JSON ? IMMURE__LOG_FORMAT__JSON : IMMURE__LOG_FORMAT__LOGFMT;
    ret->has_log_level = true;
    ret->log_level = (Immure__LogLevel)((int)config->log_level + (int)IMMURE__LOG_LEVEL__ERROR);
    ret->has_template_scope = true;
    ret->template_scope =
        (Immure__TemplateScope)((int)config->template_scope + (int)IMMURE__TEMPLATE_SCOPE__ALL);
    ret->has_sub_uids = true;
    ret->sub_uids = config->sub_uids;
    ret->has_metrics_open = true;
    ret->metrics_open = config->metrics_open;
    ret->callback = callbacks_to_messages(config, pool);
    ret->n_callback = config->n_callbacks;
    ret->callback_ca_file = config->callback_ca_file;
    package_indexes_to_message(config, pool, ret);
    ret->policy_path = config->policy_paths;
    ret->n_policy_path = config->n_policy_paths;
    ret->key = keys_to_messages(config, pool);
    ret->n_key = config->n_keys;
    ret->key_file = config->key_file;
    ret->team = teams_to_messages(config, pool);
    ret->n_team = config->n_teams;
    ret->runtime = runtimes_to_messages(config, pool);
    ret->n_runtime = config->n_runtimes;
    ret->has_shipped_runtimes = true;
    ret->shipped_runtimes = false; /* they are among these */
}
