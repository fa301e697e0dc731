/* struct server_config from its message: where every rule about the server's configuration is held. Runs in
 * the warden, the front and the command line. */
#include "config/server/config_message.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/check.h"
#include "config/format/digest.h"
#include "config/format/source.h"
#include "config/server/server.pb-c.h"
#include "config/server/config.h"
#include "config/server/config_numbers.h"
#include "config/server/key_file.h"
#include "config/server/package_index.h"
#include "config/shipped.h"
#include "jail/base/cleanup.h"
#include "jail/base/io.h"

static bool environment_is_local(const char *environment)
{
    static const char *const local[] = {"development", "dev", "local", "test"};
    for (size_t i = 0; i < ARRAY_SIZE(local); i++) {
        if (strcmp(environment, local[i]) == 0) {
            return true;
        }
    }
    return false;
}

static int check_port(struct checker *checker, const char *port)
{
    uint64_t number;
    if (io_parse_u64(port, &number) < 0 || number > 65535) {
        return check_fail(checker, "listen", "the port must be a number from 0 to 65535, not \"%.20s\"",
                          port);
    }
    return 0;
}

static bool is_ipv6(const char *text, size_t len)
{
    char copy[INET6_ADDRSTRLEN];
    struct in6_addr address;
    return (size_t)snprintf(copy, sizeof copy, "%.*s", (int)(len < sizeof copy ? len : sizeof copy), text) ==
               len &&
           inet_pton(AF_INET6, copy, &address) == 1;
}

/* Says what may have been meant by a port alone, a host alone, and an IPv6 address without brackets. */
static int fail_listen(struct checker *checker, const char *listen)
{
    char meant[96] = "";
    const char *colon = strrchr(listen, ':');
    size_t len = strlen(listen), host = colon ? (size_t)(colon - listen) : 0;
    if (len > 0 && len < 64 && !strpbrk(listen, ":[] \t/")) {
        bool is_port = strspn(listen, "0123456789") == len;
        snprintf(meant, sizeof meant, is_port ? "127.0.0.1:%.60s" : "%.60s:9099", listen);
    } else if (is_ipv6(listen, host)) {
        snprintf(meant, sizeof meant, "[%.*s]%.20s", (int)host, listen, colon);
    } else if (is_ipv6(listen, len)) {
        snprintf(meant, sizeof meant, "[%.50s]:9099", listen);
    }
    return check_fail(checker, "listen", "must be HOST:PORT, [HOST]:PORT or unix:/PATH, not \"%.60s\"%s%s%s",
                      listen, meant[0] ? "; did you mean " : "", meant, meant[0] ? "?" : "");
}

/* HOST:PORT, [HOST]:PORT or unix:/absolute/path. */
static int check_listen(struct checker *checker, const char *listen)
{
    static const size_t unix_path_max = 107; /* sun_path, with its NUL */
    if (strncmp(listen, "unix:", 5) == 0) {
        return strlen(listen + 5) > unix_path_max
                   ? check_fail(checker, "listen", "a socket's path must not be longer than %zu bytes",
                                unix_path_max)
                   : check_absolute_path(checker, "listen", listen + 5);
    }
    const char *colon = strrchr(listen, ':');
    if (!colon) {
        return fail_listen(checker, listen);
    }
    if (colon == listen) {
        return check_fail(checker, "listen", "names no host; 0.0.0.0%.20s listens on all addresses", listen);
    }
    bool bracketed = listen[0] == '[' && colon[-1] == ']';
    if (!bracketed && (memchr(listen, ':', (size_t)(colon - listen)) || strpbrk(listen, "[] \t/"))) {
        return fail_listen(checker, listen);
    }
    return check_port(checker, colon + 1);
}

static int read_sha256(struct checker *checker, const char *hex, unsigned char ret[KEY_HASH_BYTES])
{
    return sha256_from_hex(hex, ret) < 0
               ? check_fail(checker, "sha256", "must be %d hexadecimal digits", 2 * KEY_HASH_BYTES)
               : 0;
}

static int key_ceilings_from_message(struct checker *checker, const Immure__Key *message,
                                     struct job_limits *ret)
{
    int r = 0;
#define X(limit, least, most)                                                                                \
    if (r == 0 && message->max_##limit > 0) {                                                                \
        r = check_range(checker, "max_" #limit, message->max_##limit, least, most);                          \
    }                                                                                                        \
    ret->limit = message->max_##limit;
    KEY_CEILINGS(X)
#undef X
    return r;
}

static int key_from_message(struct checker *checker, const Immure__Key *message,
                            const struct server_config *config, struct key_config *ret)
{
    for (size_t i = 0; i < config->n_keys; i++) {
        if (strcmp(config->keys[i]->name, message->name) == 0) {
            return check_fail(checker, "name", "\"%s\" is the name of two keys", message->name);
        }
    }
    int r = check_name(checker, "name", message->name, true, "_.-");
    r = r < 0 ? r : check_copy(checker, message->name, &ret->name);
    r = r < 0 ? r : read_sha256(checker, message->sha256, ret->sha256);
    r = r < 0 ? r
              : check_copy_all(checker, message->policy, message->n_policy, &ret->policies, &ret->n_policies);
    r = r < 0
            ? r
            : check_copy_all(checker, message->runtime, message->n_runtime, &ret->runtimes, &ret->n_runtimes);
    ret->max_concurrent_jobs = message->max_concurrent_jobs;
    ret->max_sessions = message->max_sessions;
    ret->max_jobs_per_minute = message->max_jobs_per_minute;
    r = r < 0 ? r : key_ceilings_from_message(checker, message, &ret->max);
    ret->approver = message->approver;
    r = r < 0 || !*message->team ? r : check_name(checker, "team", message->team, true, "_.-");
    r = r < 0 ? r : check_copy(checker, message->team, &ret->team);
    r = r < 0 ? r : check_copy(checker, message->expires, &ret->expires);
    if (r == 0 && *message->expires && !key_file_read_time(message->expires, &ret->expires_s)) {
        r = check_fail(checker, "expires", "must be like 2027-01-31 or 2027-01-31T12:00:00Z");
    }
    for (size_t i = 0; r == 0 && i < message->n_policy; i++) {
        size_t before = check_enter(checker, "policy", i);
        bool all = strcmp(message->policy[i], "*") == 0;
        r = all ? 0 : check_name(checker, NULL, message->policy[i], false, "_-");
        check_leave(checker, before);
    }
    for (size_t i = 0; r == 0 && i < message->n_runtime; i++) {
        size_t before = check_enter(checker, "runtime", i);
        bool known = server_config_runtime(config, message->runtime[i]) != NULL;
        r = known ? 0 : check_fail(checker, NULL, "there is no runtime \"%.60s\"", message->runtime[i]);
        check_leave(checker, before);
    }
    return r;
}

/* After the runtimes, which it looks at. */
static int keys_from_message(struct checker *checker, const Immure__Server *message,
                             struct server_config *config)
{
    int r = check_new_array(checker, message->n_key, sizeof *config->keys, &config->keys);
    config->n_accounts = (unsigned)message->n_key + 1;
    for (size_t i = 0; r == 0 && i < message->n_key; i++) {
        struct key_config *key = NULL;
        if ((r = check_new_array(checker, 1, sizeof *key, &key)) < 0) {
            break;
        }
        size_t before = check_enter(checker, "key", i);
        key->account = (unsigned)i + 1;
        r = key_from_message(checker, message->key[i], config, key);
        config->keys[i] = key;
        config->n_keys = i + 1;
        for (size_t j = 0; r == 0 && j < i; j++) {
            if (memcmp(config->keys[j]->sha256, key->sha256, KEY_HASH_BYTES) == 0) {
                r = check_fail(checker, "sha256", "\"%s\" and \"%s\" are the same key", config->keys[j]->name,
                               key->name);
            }
        }
        check_leave(checker, before);
    }
    return r;
}

static int teams_from_message(struct checker *checker, const Immure__Server *message,
                              struct server_config *config)
{
    int r = check_new_array(checker, message->n_team, sizeof *config->teams, &config->teams);
    for (size_t i = 0; r == 0 && i < message->n_team; i++) {
        const Immure__Team *team = message->team[i];
        size_t before = check_enter(checker, "team", i);
        r = check_name(checker, "name", team->name, true, "_.-");
        if (r == 0 && server_config_team(config, team->name)) {
            r = check_fail(checker, "name", "\"%s\" is the name of two teams", team->name);
        }
        config->teams[i] =
            (struct team_config){.enabled = team->enabled, .max_concurrent_jobs = team->max_concurrent_jobs};
        r = r < 0 ? r : check_copy(checker, team->name, &config->teams[i].name);
        config->n_teams = i + (r == 0);
        check_leave(checker, before);
    }
    return r;
}

/* A name that no runtime before this one has. `field` NULL: the current path. */
static int check_runtime_name(struct checker *checker, const char *field, const char *name,
                              const struct server_config *config)
{
    if (server_config_runtime(config, name)) {
        return check_fail(checker, field, "\"%.60s\" names two runtimes", name);
    }
    return check_name(checker, field, name, true, "_.+-");
}

#define WARM_JAILS_MAX      1000
#define TEMPLATE_TTL_MAX_MS (365ull * 24 * 3600 * 1000)

/* A path, or a file name to be looked for. */
static int template_from_message(struct checker *checker, const Immure__Runtime *message,
                                 struct runtime_config *ret)
{
    int r = 0;
    if (message->template_[0] == '/') {
        r = check_absolute_path(checker, "template", message->template_);
    } else if (message->template_[0] != '\0') {
        r = check_name(checker, "template", message->template_, true, "._+-");
    }
    if (r == 0 && message->warm_jails > WARM_JAILS_MAX) {
        r = check_fail(checker, "warm_jails", "must be at most %d", WARM_JAILS_MAX);
    }
    bool template = message->template_[0] != '\0', standby = message->standby[0] != '\0';
    if (r == 0 && message->warm_jails > 0 && !template && !standby) {
        r = check_fail(checker, "warm_jails", "needs a template to make them, or standby");
    }
    if (r == 0 && message->template_ttl_ms > TEMPLATE_TTL_MAX_MS) {
        r = check_fail(checker, "template_ttl_ms", "must be at most %llu", TEMPLATE_TTL_MAX_MS);
    }
    if (r == 0 && template && standby) {
        r = check_fail(checker, "standby", "is for runtimes without a template");
    }
    ret->warm_jails = message->warm_jails;
    ret->template_max_jobs = message->template_max_jobs;
    ret->template_ttl_ms = message->template_ttl_ms;
    r = r < 0 ? r : check_copy(checker, message->standby, &ret->standby);
    r = r < 0 ? r : check_copy(checker, message->kernel, &ret->kernel);
    return r < 0 ? r : check_copy(checker, message->template_, &ret->template);
}

static int preludes_from_message(struct checker *checker, const Immure__Runtime *message,
                                 struct runtime_config *ret)
{
    int r = check_new_array(checker, message->n_prelude, sizeof *ret->preludes, &ret->preludes);
    for (size_t i = 0; r == 0 && i < message->n_prelude; i++) {
        const Immure__Prelude *row = message->prelude[i];
        const struct shipped_file *shipped = shipped_prelude(row->file);
        size_t before = check_enter(checker, "prelude", i);
        struct prelude_config *prelude = &ret->preludes[i];
        ret->n_preludes = i + 1;
        r = shipped ? check_absolute_path(checker, "path", row->path)
                    : check_fail(checker, "file", "there is no such file in immure: \"%.100s\"", row->file);
        r = r < 0 ? r : check_copy(checker, row->path, &prelude->path);
        r = r < 0 ? r : check_copy(checker, row->file, &prelude->file);
        if (r == 0) {
            prelude->data = shipped->data;
            prelude->size = shipped->size;
        }
        check_leave(checker, before);
    }
    return r;
}

static int check_aliases(struct checker *checker, const Immure__Runtime *message,
                         const struct server_config *config)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < message->n_alias; i++) {
        const char *alias = message->alias[i];
        size_t before = check_enter(checker, "alias", i);
        bool repeated = strcmp(alias, message->name) == 0;
        for (size_t j = 0; j < i; j++) {
            repeated = repeated || strcmp(alias, message->alias[j]) == 0;
        }
        r = repeated ? check_fail(checker, NULL, "\"%.60s\" names this runtime already", alias)
                     : check_runtime_name(checker, NULL, alias, config);
        check_leave(checker, before);
    }
    return r;
}

/* POST /run-code would not know which one to take. */
static int check_evaluator(struct checker *checker, const Immure__Runtime *message,
                           const struct server_config *config)
{
    for (size_t i = 0; message->evaluator && i < config->n_runtimes; i++) {
        if (config->runtimes[i].evaluator) {
            return check_fail(checker, "evaluator",
                              "runtime \"%.60s\" is the evaluator of POST /run-code already",
                              config->runtimes[i].name);
        }
    }
    return 0;
}

static int runtime_from_message(struct checker *checker, const Immure__Runtime *message,
                                struct server_config *config, struct runtime_config *ret)
{
    ret->optional = message->optional;
    ret->evaluator = message->evaluator;
    ret->memory_bytes = message->memory_bytes;
    int r = check_runtime_name(checker, "name", message->name, config);
    r = r < 0 ? r : check_aliases(checker, message, config);
    r = r < 0 ? r : check_evaluator(checker, message, config);
    r = r < 0 ? r : check_absolute_path(checker, "interpreter", message->interpreter);
    r = r < 0 ? r : check_name(checker, "extension", message->extension, true, "");
    r = r < 0 ? r : check_name(checker, "policy", message->policy, false, "_-");
    r = r < 0 ? r : check_copy(checker, message->name, &ret->name);
    r = r < 0 ? r : check_copy_all(checker, message->alias, message->n_alias, &ret->aliases, &ret->n_aliases);
    r = r < 0 ? r : check_copy(checker, message->interpreter, &ret->interpreter);
    r = r < 0 ? r : check_copy_all(checker, message->arg, message->n_arg, &ret->args, &ret->n_args);
    r = r < 0 ? r : check_copy(checker, message->extension, &ret->extension);
    r = r < 0 ? r : check_copy(checker, message->policy, &ret->policy);
    r = r < 0 ? r : check_copy(checker, message->description, &ret->description);
    r = r < 0 ? r : check_copy(checker, message->self_test, &ret->self_test);
    r = r < 0 ? r : preludes_from_message(checker, message, ret);
    return r < 0 ? r : template_from_message(checker, message, ret);
}

/* An evaluator would take a program for one of its own requests, and tell nothing that came of it. */
static int check_default_runtime(struct checker *checker, const char *name,
                                 const struct server_config *config)
{
    const struct runtime_config *runtime = server_config_runtime(config, name);
    if (!runtime) {
        return check_fail(checker, "default_runtime", "there is no runtime \"%.60s\"", name);
    }
    return runtime->evaluator
               ? check_fail(checker, "default_runtime",
                            "\"%.60s\" runs no programs: it is the evaluator of POST /run-code", name)
               : 0;
}

static int runtimes_from_message(struct checker *checker, const Immure__Server *message,
                                 struct server_config *config)
{
    int r = check_new_array(checker, message->n_runtime, sizeof *config->runtimes, &config->runtimes);
    for (size_t i = 0; r == 0 && i < message->n_runtime; i++) {
        size_t before = check_enter(checker, "runtime", i);
        r = runtime_from_message(checker, message->runtime[i], config, &config->runtimes[i]);
        config->n_runtimes = i + 1;
        check_leave(checker, before);
    }
    return r < 0 ? r : check_default_runtime(checker, message->default_runtime, config);
}

static int texts_from_message(struct checker *checker, const Immure__Server *message,
                              struct server_config *config)
{
    int r = check_listen(checker, message->listen);
    r = r < 0 ? r : check_name(checker, "environment", message->environment, true, "_.-");
    for (size_t i = 0; r == 0 && i < message->n_policy_path; i++) {
        size_t before = check_enter(checker, "policy_path", i);
        r = message->policy_path[i][0] ? 0 : check_fail(checker, NULL, "must not be empty");
        check_leave(checker, before);
    }
    r = r < 0 ? r : check_copy(checker, message->listen, &config->listen);
    r = r < 0 ? r : check_copy(checker, message->environment, &config->environment);
    r = r < 0 ? r : check_copy(checker, message->default_runtime, &config->default_runtime);
    r = r < 0 ? r : check_copy(checker, message->audit_log, &config->audit_log);
    r = r < 0 || !*message->key_file ? r : check_absolute_path(checker, "key_file", message->key_file);
    r = r < 0 ? r : check_copy(checker, message->key_file, &config->key_file);
    if (r == 0 && message->audit_code_bytes > 0 && message->audit_log[0] == '\0') {
        r = check_fail(checker, "audit_code_bytes",
                       "code goes to the file of `audit_log`, and there is none");
    }
    if (r == 0 && message->image_directory[0]) {
        r = check_absolute_path(checker, "image_directory", message->image_directory);
    }
    r = r < 0 ? r : check_copy(checker, message->image_directory, &config->image_directory);
    if (r == 0 && message->session_directory[0]) {
        r = check_absolute_path(checker, "session_directory", message->session_directory);
    }
    r = r < 0 ? r : check_copy(checker, message->session_directory, &config->session_directory);
    if (r == 0 && message->approval_directory[0]) {
        r = check_absolute_path(checker, "approval_directory", message->approval_directory);
    }
    r = r < 0 ? r : check_copy(checker, message->approval_directory, &config->approval_directory);
    return r < 0 ? r
                 : check_copy_all(checker, message->policy_path, message->n_policy_path,
                                  &config->policy_paths, &config->n_policy_paths);
}

static int callbacks_from_message(struct checker *checker, const Immure__Server *message,
                                  struct server_config *config)
{
    int r = check_new_array(checker, message->n_callback, sizeof *config->callbacks, &config->callbacks);
    for (size_t i = 0; r == 0 && i < message->n_callback; i++) {
        const Immure__Callback *row = message->callback[i];
        struct callback_config *callback = &config->callbacks[i];
        size_t before = check_enter(checker, "callback", i);
        const char *why = NULL;
        config->n_callbacks = i + 1;
        callback->private_addresses = row->private_addresses;
        r = check_copy(checker, row->url, &callback->text);
        if (r == 0 && callback_url_parse(row->url, &callback->url, &why) < 0) {
            r = check_fail(checker, "url", "\"%.100s\" %s", row->url, why);
        }
        if (r == 0 && strchr(row->url, '?')) {
            r = check_fail(checker, "url", "\"%.100s\" must not hold a query", row->url);
        }
        check_leave(checker, before);
    }
    config->callback_any = message->n_callback == 0 && environment_is_local(message->environment);
    const char *ca_file = message->callback_ca_file;
    r = r < 0 || !*ca_file ? r : check_absolute_path(checker, "callback_ca_file", ca_file);
    return r < 0 ? r : check_copy(checker, ca_file, &config->callback_ca_file);
}

static int numbers_from_message(struct checker *checker, const Immure__Server *message,
                                struct server_config *config)
{
    int r = 0;
#define X(field, min, max)                                                                                   \
    r = r < 0 ? r : check_range(checker, #field, message->field, min, max);                                  \
    config->field = message->field;
    NUMBERS(X)
#undef X
    config->default_timeout_ms = message->default_timeout_ms;
    if (!message->has_default_timeout_ms && config->default_timeout_ms > config->max_timeout_ms) {
        config->default_timeout_ms = config->max_timeout_ms;
    }
    return r < 0 ? r
                 : check_range(checker, "default_timeout_ms", config->default_timeout_ms, 1,
                               config->max_timeout_ms);
}

/* A binary file can hold any number where an enum is meant. The values of ours count from 1, in the struct
 * from 0. */
static int enums_from_message(struct checker *checker, const Immure__Server *message,
                              struct server_config *config)
{
    int r = check_range(checker, "cgroup", (uint64_t)message->cgroup, 1, 2);
    r = r < 0 ? r : check_range(checker, "log_format", (uint64_t)message->log_format, 1, 2);
    r = r < 0 ? r : check_range(checker, "log_level", (uint64_t)message->log_level, 1, 4);
    r = r < 0 ? r : check_range(checker, "template_scope", (uint64_t)message->template_scope, 1, 3);
    config->cgroup_best_effort = message->cgroup == IMMURE__CGROUP_MODE__BEST_EFFORT;
    config->log_format =
        message->log_format == IMMURE__LOG_FORMAT__JSON ? LOG_FORMAT_JSON : LOG_FORMAT_LOGFMT;
    config->log_level = (enum log_level)(message->log_level - IMMURE__LOG_LEVEL__ERROR);
    config->template_scope = (enum template_scope)(message->template_scope - IMMURE__TEMPLATE_SCOPE__ALL);
    return r;
}

_Static_assert((int)LOG_DEBUG == (int)IMMURE__LOG_LEVEL__DEBUG - (int)IMMURE__LOG_LEVEL__ERROR,
               "levels differ");

/* A file of keys says that callers are to have one, so that taking the last one out of it opens nothing. */
static int decide_open(struct server_config *config, struct err *reterr)
{
    bool names_keys = config->n_keys > 0 || config->key_file[0] != '\0';
    if (!names_keys && !environment_is_local(config->environment)) {
        return err_set(reterr, ERR_CONFIG, EINVAL, "SANDBOX_EXECUTOR_SERVICE_API_KEY",
                       "there is no key, so nobody could call: set it (or add `key` to the configuration); "
                       "without one the server starts only where the environment is development, dev, local "
                       "or test, not \"%s\"",
                       config->environment);
    }
    config->open = !names_keys;
    return 0;
}

static void server_config_freep(struct server_config **config)
{
    server_config_free(*config);
}

int config_from_message(const Immure__Server *message, const struct source *source,
                        struct server_config **ret, struct err *reterr)
{
    struct checker checker = {.source = source, .reterr = reterr};
    CLEANUP(server_config_freep) struct server_config *config = calloc(1, sizeof *config);
    if (!config) {
        return check_memory(&checker);
    }
    config->sub_uids = message->sub_uids;
    config->metrics_open = message->metrics_open;
    int r = texts_from_message(&checker, message, config);
    r = r < 0 ? r : numbers_from_message(&checker, message, config);
    r = r < 0 ? r : enums_from_message(&checker, message, config);
    r = r < 0 ? r : callbacks_from_message(&checker, message, config);
    r = r < 0 ? r : package_indexes_from_message(&checker, message, config);
    r = r < 0 ? r : runtimes_from_message(&checker, message, config);
    r = r < 0 ? r : keys_from_message(&checker, message, config);
    r = r < 0 ? r : teams_from_message(&checker, message, config);
    if (r < 0) {
        return r;
    }
    r = decide_open(config, reterr);
    if (r == 0) {
        *ret = TAKE_PTR(config);
    }
    return r;
}
