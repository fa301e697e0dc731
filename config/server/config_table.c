/* struct server_config and its message, as tables: every field of it. Runs wherever configuration is read,
 * sent or freed. What a field's value means is checked in config_message.c. */
#include "config/server/config_table.h"

#include "config/server/config.h"
#include "config/server/config_numbers.h"
#include "config/server/server.pb-c.h"

#define ALWAYS .presence = BIND_ALWAYS

#define ROW(own, ...) BIND(struct team_config, Immure__Team, own, own, __VA_ARGS__)
static const struct bind_row team_rows[] = {ROW(name), ROW(enabled, ALWAYS),
                                            ROW(max_concurrent_jobs, ALWAYS)};
#undef ROW
static const struct bind_table team_table = {
    BIND_TABLE_OF(struct team_config, immure__team__descriptor, team_rows)};

#define ROW(own, ...)     BIND(struct key_config, Immure__Key, own, own, __VA_ARGS__)
#define TEXTS(own, field) BIND_SOME(BIND_TEXTS, struct key_config, Immure__Key, own, n_##own, field)
static const struct bind_row key_rows[] = {
    ROW(name),
    BIND_AS(BIND_HASH, struct key_config, Immure__Key, sha256, sha256),
    TEXTS(policies, policy),
    TEXTS(runtimes, runtime),
    ROW(max_concurrent_jobs, ALWAYS),
    ROW(max_sessions, ALWAYS),
    ROW(team),
    ROW(max_jobs_per_minute, ALWAYS),
#define X(limit, lowest, highest)                                                                            \
    BIND(struct key_config, Immure__Key, max.limit, max_##limit, ALWAYS, .least = (lowest),                  \
         .most = (highest), .or_zero = true),
    KEY_CEILINGS(X)
#undef X
        ROW(expires),
    ROW(approver, ALWAYS),
    ROW(callback_secret),
};
#undef TEXTS
#undef ROW
const struct bind_table key_table = {BIND_TABLE_OF(struct key_config, immure__key__descriptor, key_rows)};

static const struct bind_row callback_rows[] = {
    BIND(struct callback_config, Immure__Callback, text, url),
    BIND(struct callback_config, Immure__Callback, private_addresses, private_addresses, ALWAYS),
};
const struct bind_table callback_table = {
    BIND_TABLE_OF(struct callback_config, immure__callback__descriptor, callback_rows)};

static const struct bind_row index_rows[] = {
    BIND(struct package_index_config, Immure__PackageIndex, url, url),
    BIND_SOME(BIND_TEXTS, struct package_index_config, Immure__PackageIndex, hosts, n_hosts, host),
    BIND(struct package_index_config, Immure__PackageIndex, private_addresses, private_addresses, ALWAYS),
};
static const struct bind_table index_table = {
    BIND_TABLE_OF(struct package_index_config, immure__package_index__descriptor, index_rows)};

static const struct bind_row secret_rows[] = {
    BIND(struct egress_secret_config, Immure__EgressSecret, name, name),
    BIND(struct egress_secret_config, Immure__EgressSecret, file, file),
    BIND(struct egress_secret_config, Immure__EgressSecret, value, value),
};
static const struct bind_table secret_table = {
    BIND_TABLE_OF(struct egress_secret_config, immure__egress_secret__descriptor, secret_rows)};

static const struct bind_row prelude_rows[] = {
    BIND(struct prelude_config, Immure__Prelude, path, path),
    BIND(struct prelude_config, Immure__Prelude, file, file),
};
static const struct bind_table prelude_table = {
    BIND_TABLE_OF(struct prelude_config, immure__prelude__descriptor, prelude_rows)};

#define ROW(own, ...) BIND(struct runtime_config, Immure__Runtime, own, own, __VA_ARGS__)
#define SOME(as, own, field, ...)                                                                            \
    BIND_SOME(as, struct runtime_config, Immure__Runtime, own, n_##own, field, __VA_ARGS__)
static const struct bind_row runtime_rows[] = {
    ROW(name),
    SOME(BIND_TEXTS, aliases, alias),
    ROW(interpreter),
    SOME(BIND_TEXTS, args, arg),
    ROW(extension),
    ROW(policy),
    BIND(struct runtime_config, Immure__Runtime, template, template_),
    ROW(warm_jails, ALWAYS),
    ROW(template_max_jobs, ALWAYS),
    ROW(template_ttl_ms, ALWAYS),
    ROW(standby),
    ROW(kernel),
    ROW(self_test),
    ROW(self_test_output),
    ROW(optional, ALWAYS),
    ROW(evaluator, ALWAYS),
    SOME(BIND_EACH, preludes, prelude, .table = &prelude_table),
    ROW(description),
    ROW(memory_bytes, ALWAYS),
    ROW(version),
    ROW(python_environment),
    SOME(BIND_TEXTS, preload, preload),
    SOME(BIND_TEXTS, packages, package),
};
#undef SOME
#undef ROW
static const struct bind_table runtime_table = {
    BIND_TABLE_OF(struct runtime_config, immure__runtime__descriptor, runtime_rows)};

#define ROW(own, ...) BIND(struct server_config, Immure__Server, own, own, __VA_ARGS__)
#define SOME(as, own, field, ...)                                                                            \
    BIND_SOME(as, struct server_config, Immure__Server, own, n_##own, field, __VA_ARGS__)
#define INDEX(installer, field)                                                                              \
    BIND_AS(BIND_ONE, struct server_config, Immure__Server, package_indexes[installer], field,               \
            .table = &index_table, BIND_WITH(struct server_config, package_indexes[installer].url))
/* The schema's values count from 1, ours from 0. A binary file can hold any number where one is meant. */
#define ENUM(own, field, n)                                                                                  \
    BIND(struct server_config, Immure__Server, own, field, ALWAYS, .shift = 1, .least = 1, .most = (n))
static const struct bind_row server_rows[] = {
    ROW(listen),
    ROW(environment),
    ROW(default_runtime),
    ROW(audit_log),
    ROW(otlp_endpoint),
    ROW(otlp_header),
    ROW(otlp_secret),
    ROW(image_directory),
    ROW(session_directory),
    ROW(approval_directory),
#define X(field, lowest, highest) ROW(field, ALWAYS, .least = (lowest), .most = (highest)),
    NUMBERS(X)
#undef X
        ROW(default_timeout_ms, ALWAYS),
    ENUM(cgroup_best_effort, cgroup, 2),
    ENUM(audit_stop, audit_on_failure, 2),
    ENUM(log_format, log_format, 2),
    ENUM(log_level, log_level, 4),
    ENUM(template_scope, template_scope, 3),
    ROW(sub_uids, ALWAYS),
    ROW(metrics_open, ALWAYS),
    ROW(console, ALWAYS),
    SOME(BIND_EACH, callbacks, callback, .table = &callback_table),
    ROW(callback_ca_file),
    INDEX(INSTALLER_PIP, pip_index),
    INDEX(INSTALLER_NPM, npm_registry),
    ROW(package_index_ca_file),
    SOME(BIND_EACH, egress_secrets, egress_secret, .table = &secret_table),
    SOME(BIND_TEXTS, egress_private_hosts, egress_private_host),
    SOME(BIND_TEXTS, doors, door),
    SOME(BIND_TEXTS, policy_paths, policy_path),
    SOME(BIND_EACH_OWN, keys, key, .table = &key_table),
    ROW(key_file),
    SOME(BIND_EACH, teams, team, .table = &team_table),
    SOME(BIND_EACH, runtimes, runtime, .table = &runtime_table),
};
const struct bind_table server_table = {
    BIND_TABLE_OF(struct server_config, immure__server__descriptor, server_rows)};

_Static_assert((int)LOG_DEBUG == (int)IMMURE__LOG_LEVEL__DEBUG - 1, "levels differ");
_Static_assert((int)IMMURE__AUDIT_ON_FAILURE__STOP == 2, "ways to fail differ");
_Static_assert((int)LOG_FORMAT_JSON == (int)IMMURE__LOG_FORMAT__JSON - 1, "formats differ");
_Static_assert((int)TEMPLATE_SCOPE_KEY == (int)IMMURE__TEMPLATE_SCOPE__KEY - 1, "scopes differ");
_Static_assert((int)IMMURE__CGROUP_MODE__BEST_EFFORT == 2, "cgroup modes differ");
