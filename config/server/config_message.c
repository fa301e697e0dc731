/* struct server_config from its message: where every rule about the server's configuration is held. Runs in
 * the warden, the front and the command line. */
#include "config/server/config_message.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/check.h"
#include "config/format/source.h"
#include "config/server/server.pb-c.h"
#include "config/server/config.h"
#include "config/server/config_numbers.h"
#include "config/server/config_table.h"
#include "config/server/egress_secret.h"
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

static int check_key(struct checker *checker, struct key_config *key, const struct server_config *config)
{
    if (server_config_key(config, key->name)) {
        return check_fail(checker, "name", "\"%s\" is the name of two keys", key->name);
    }
    int r = check_name(checker, "name", key->name, true, "_.-");
    r = r < 0 || !*key->team ? r : check_name(checker, "team", key->team, true, "_.-");
    if (r < 0) {
        return r;
    }
    if (*key->expires && !key_file_read_time(key->expires, &key->expires_s)) {
        return check_fail(checker, "expires", "must be like 2027-01-31 or 2027-01-31T12:00:00Z");
    }
    if (*key->callback_secret && strlen(key->callback_secret) < CALLBACK_SECRET_BYTES_MIN) {
        return check_fail(checker, "callback_secret", "must have at least %u bytes",
                          CALLBACK_SECRET_BYTES_MIN);
    }
    for (size_t i = 0; i < key->n_policies; i++) {
        size_t before = check_enter(checker, "policy", i);
        bool all = strcmp(key->policies[i], "*") == 0;
        r = all ? 0 : check_name(checker, NULL, key->policies[i], false, "_-");
        if (r < 0) {
            return r;
        }
        check_leave(checker, before);
    }
    for (size_t i = 0; i < key->n_runtimes; i++) {
        if (!server_config_runtime(config, key->runtimes[i])) {
            check_enter(checker, "runtime", i);
            return check_fail(checker, NULL, "there is no runtime \"%.60s\"", key->runtimes[i]);
        }
    }
    return 0;
}

static int check_same_key(struct checker *checker, const struct server_config *config, size_t i)
{
    for (size_t j = 0; j < i; j++) {
        if (memcmp(config->keys[j]->sha256, config->keys[i]->sha256, KEY_HASH_BYTES) == 0) {
            return check_fail(checker, "sha256", "\"%s\" and \"%s\" are the same key", config->keys[j]->name,
                              config->keys[i]->name);
        }
    }
    return 0;
}

/* Of each list, an item's check sees as many as lie before it. */
static int check_keys(struct checker *checker, struct server_config *config)
{
    size_t n = config->n_keys;
    config->n_accounts = (unsigned)n + 1;
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        size_t before = check_enter(checker, "key", i);
        config->n_keys = i;
        config->keys[i]->account = (unsigned)i + 1;
        r = check_key(checker, config->keys[i], config);
        r = r < 0 ? r : check_same_key(checker, config, i);
        check_leave(checker, before);
    }
    config->n_keys = n;
    return r;
}

static int check_teams(struct checker *checker, struct server_config *config)
{
    size_t n = config->n_teams;
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        const char *name = config->teams[i].name;
        size_t before = check_enter(checker, "team", i);
        config->n_teams = i;
        r = check_name(checker, "name", name, true, "_.-");
        if (r == 0 && server_config_team(config, name)) {
            r = check_fail(checker, "name", "\"%s\" is the name of two teams", name);
        }
        check_leave(checker, before);
    }
    config->n_teams = n;
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

#define DRAIN_MARGIN_MS     5000 /* for a job to begin and to be answered */
#define WARM_JAILS_MAX      1000
#define TEMPLATE_TTL_MAX_MS (365ull * 24 * 3600 * 1000)

/* A path, or a file name to be looked for. */
static int check_template(struct checker *checker, const struct runtime_config *runtime)
{
    bool template = runtime->template[0] != '\0', standby = runtime->standby[0] != '\0';
    int r = 0;
    if (runtime->template[0] == '/') {
        r = check_absolute_path(checker, "template", runtime->template);
    } else if (template) {
        r = check_name(checker, "template", runtime->template, true, "._+-");
    }
    if (r < 0) {
        return r;
    }
    if (runtime->warm_jails > WARM_JAILS_MAX) {
        return check_fail(checker, "warm_jails", "must be at most %d", WARM_JAILS_MAX);
    }
    if (runtime->warm_jails > 0 && !template && !standby) {
        return check_fail(checker, "warm_jails", "needs a template to make them, or standby");
    }
    if (runtime->template_ttl_ms > TEMPLATE_TTL_MAX_MS) {
        return check_fail(checker, "template_ttl_ms", "must be at most %llu", TEMPLATE_TTL_MAX_MS);
    }
    return template && standby ? check_fail(checker, "standby", "is for runtimes without a template") : 0;
}

static int find_preludes(struct checker *checker, struct runtime_config *runtime)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < runtime->n_preludes; i++) {
        struct prelude_config *prelude = &runtime->preludes[i];
        const struct shipped_file *shipped = shipped_prelude(prelude->file);
        size_t before = check_enter(checker, "prelude", i);
        if (!shipped) {
            return check_fail(checker, "file", "there is no such file in immure: \"%.100s\"", prelude->file);
        }
        r = strcmp(prelude->path, PRELUDE_STARTUP) == 0 ? 0
                                                        : check_absolute_path(checker, "path", prelude->path);
        prelude->data = shipped->data;
        prelude->size = shipped->size;
        check_leave(checker, before);
    }
    return r;
}

static int check_aliases(struct checker *checker, const struct runtime_config *runtime,
                         const struct server_config *config)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < runtime->n_aliases; i++) {
        const char *alias = runtime->aliases[i];
        size_t before = check_enter(checker, "alias", i);
        bool repeated = strcmp(alias, runtime->name) == 0;
        for (size_t j = 0; j < i; j++) {
            repeated = repeated || strcmp(alias, runtime->aliases[j]) == 0;
        }
        r = repeated ? check_fail(checker, NULL, "\"%.60s\" names this runtime already", alias)
                     : check_runtime_name(checker, NULL, alias, config);
        check_leave(checker, before);
    }
    return r;
}

/* POST /run-code would not know which one to take. */
static int check_evaluator(struct checker *checker, const struct runtime_config *runtime,
                           const struct server_config *config)
{
    for (size_t i = 0; runtime->evaluator && i < config->n_runtimes; i++) {
        if (config->runtimes[i].evaluator) {
            return check_fail(checker, "evaluator",
                              "runtime \"%.60s\" is the evaluator of POST /run-code already",
                              config->runtimes[i].name);
        }
    }
    return 0;
}

/* A name is looked for on the host, or in the image. */
static int check_interpreter(struct checker *checker, const char *interpreter)
{
    return strchr(interpreter, '/') ? check_absolute_path(checker, "interpreter", interpreter)
                                    : check_name(checker, "interpreter", interpreter, true, "+-._");
}

static int check_packages(struct checker *checker, const struct runtime_config *runtime)
{
    const char *environment = runtime->python_environment;
    int r = check_names(checker, "preload", runtime->preload, runtime->n_preload, true, "_./@-");
    if (r < 0 || environment[0] == '\0' || strcmp(environment, PYTHON_ENVIRONMENT_DEBIAN) == 0) {
        return r;
    }
    return environment[0] == '/' ? check_absolute_path(checker, "python_environment", environment)
                                 : check_fail(checker, "python_environment",
                                              "\"%.60s\" is neither \"" PYTHON_ENVIRONMENT_DEBIAN
                                              "\" nor the absolute path of a virtual environment",
                                              environment);
}

/* What is printed stays in a pipe until the program has ended. */
static int check_self_test(struct checker *checker, const struct runtime_config *runtime)
{
    if (runtime->self_test_output[0] != '\0' && runtime->self_test[0] == '\0') {
        return check_fail(checker, "self_test_output", "there is no self_test that would print it; add one");
    }
    if (strlen(runtime->self_test_output) > SELF_TEST_OUTPUT_MAX_BYTES) {
        return check_fail(checker, "self_test_output", "more than %u bytes; print less",
                          SELF_TEST_OUTPUT_MAX_BYTES);
    }
    return 0;
}

static int check_runtime(struct checker *checker, struct runtime_config *runtime,
                         const struct server_config *config)
{
    int r = check_runtime_name(checker, "name", runtime->name, config);
    r = r < 0 ? r : check_aliases(checker, runtime, config);
    r = r < 0 ? r : check_evaluator(checker, runtime, config);
    r = r < 0 ? r : check_interpreter(checker, runtime->interpreter);
    r = r < 0 ? r : check_name(checker, "extension", runtime->extension, true, "");
    r = r < 0 ? r : check_name(checker, "policy", runtime->policy, false, "_-");
    r = r < 0 ? r : check_packages(checker, runtime);
    r = r < 0 ? r : check_self_test(checker, runtime);
    r = r < 0 ? r : find_preludes(checker, runtime);
    return r < 0 ? r : check_template(checker, runtime);
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

static int check_runtimes(struct checker *checker, struct server_config *config)
{
    size_t n = config->n_runtimes;
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        size_t before = check_enter(checker, "runtime", i);
        config->n_runtimes = i;
        r = check_runtime(checker, &config->runtimes[i], config);
        check_leave(checker, before);
    }
    config->n_runtimes = n;
    return r < 0 ? r : check_default_runtime(checker, config->default_runtime, config);
}

static int check_texts(struct checker *checker, const struct server_config *config)
{
    const struct {
        const char *field, *path;
    } paths[] = {
        {"key_file", config->key_file},
        {"image_directory", config->image_directory},
        {"session_directory", config->session_directory},
        {"approval_directory", config->approval_directory},
        {"callback_ca_file", config->callback_ca_file},
    };
    int r = check_listen(checker, config->listen);
    r = r < 0 ? r : check_name(checker, "environment", config->environment, true, "_.-");
    for (size_t i = 0; r == 0 && i < config->n_policy_paths; i++) {
        if (!*config->policy_paths[i]) {
            check_enter(checker, "policy_path", i);
            return check_fail(checker, NULL, "must not be empty");
        }
    }
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(paths); i++) {
        r = *paths[i].path ? check_absolute_path(checker, paths[i].field, paths[i].path) : 0;
    }
    if (r == 0 && config->audit_code_bytes > 0 && !*config->audit_log) {
        return check_fail(checker, "audit_code_bytes",
                          "code goes to the file of `audit_log`, and there is none");
    }
    if (r == 0 && config->audit_stop && !*config->audit_log) {
        return check_fail(checker, "audit_on_failure",
                          "STOP needs the file of `audit_log`, and there is none");
    }
    return r;
}

static int check_callbacks(struct checker *checker, struct server_config *config)
{
    for (size_t i = 0; i < config->n_callbacks; i++) {
        struct callback_config *callback = &config->callbacks[i];
        size_t before = check_enter(checker, "callback", i);
        const char *why = NULL;
        if (callback_url_parse(callback->text, &callback->url, &why) < 0) {
            return check_fail(checker, "url", "\"%.100s\" %s", callback->text, why);
        }
        if (strchr(callback->text, '?')) {
            return check_fail(checker, "url", "\"%.100s\" must not hold a query", callback->text);
        }
        check_leave(checker, before);
    }
    config->callback_any = config->n_callbacks == 0 && environment_is_local(config->environment);
    return 0;
}

static int check_otlp(struct checker *checker, struct server_config *config)
{
    const char *why = NULL;
    if (*config->otlp_endpoint && callback_url_parse(config->otlp_endpoint, &config->otlp_url, &why) < 0) {
        return check_fail(checker, "otlp_endpoint", "\"%.100s\" %s", config->otlp_endpoint, why);
    }
    if (strchr(config->otlp_endpoint, '?')) {
        return check_fail(checker, "otlp_endpoint", "\"%.100s\" must not hold a query",
                          config->otlp_endpoint);
    }
    if (!*config->otlp_header != !*config->otlp_secret) {
        return check_fail(checker, *config->otlp_header ? "otlp_header" : "otlp_secret",
                          "otlp_header and otlp_secret need each other; set both or none");
    }
    if (config->otlp_header[strspn(config->otlp_header,
                                   "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")] !=
        '\0') {
        return check_fail(checker, "otlp_header", "must be a header's name: letters, digits, - and _");
    }
    if (*config->otlp_secret && !server_config_egress_secret(config, config->otlp_secret)) {
        return check_fail(checker, "otlp_secret", "there is no egress_secret \"%.100s\"",
                          config->otlp_secret);
    }
    return 0;
}

static int check_doors(struct checker *checker, const struct server_config *config)
{
    static const char *const known[] = {"piston", "dify", "librechat"};
    for (size_t i = 0; i < config->n_doors; i++) {
        size_t j = 0;
        while (j < ARRAY_SIZE(known) && strcmp(config->doors[i], known[j]) != 0) {
            j++;
        }
        if (j == ARRAY_SIZE(known)) {
            check_enter(checker, "door", i);
            return check_fail(checker, NULL, "must be \"piston\", \"dify\" or \"librechat\", not \"%.60s\"",
                              config->doors[i]);
        }
    }
    return 0;
}

static int check_default_timeout(struct checker *checker, bool is_given, struct server_config *config)
{
    if (!is_given && config->default_timeout_ms > config->max_timeout_ms) {
        config->default_timeout_ms = config->max_timeout_ms;
    }
    return check_range(checker, "default_timeout_ms", config->default_timeout_ms, 1, config->max_timeout_ms);
}

/* No job is to be cut short by a shutdown where nobody has said so. */
static void choose_drain_timeout(bool is_given, struct server_config *config)
{
    if (!is_given) {
        uint64_t enough_ms = config->max_timeout_ms + DRAIN_MARGIN_MS;
        config->drain_timeout_ms = enough_ms < MS_PER_DAY ? enough_ms : MS_PER_DAY;
    }
}

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
    int r = bind_read_config(&server_table, message, &checker, config);
    r = r < 0 ? r : check_texts(&checker, config);
    r = r < 0 ? r : check_default_timeout(&checker, message->has_default_timeout_ms, config);
    choose_drain_timeout(message->has_drain_timeout_ms, config);
    r = r < 0 ? r : check_callbacks(&checker, config);
    r = r < 0 ? r : check_doors(&checker, config);
    r = r < 0 ? r : package_indexes_check(&checker, config);
    r = r < 0 ? r : egress_secrets_check(&checker, config);
    r = r < 0 ? r : check_otlp(&checker, config);
    r = r < 0 ? r : check_runtimes(&checker, config);
    r = r < 0 ? r : check_keys(&checker, config);
    r = r < 0 ? r : check_teams(&checker, config);
    if (r < 0) {
        return r;
    }
    r = decide_open(config, reterr);
    if (r == 0) {
        *ret = TAKE_PTR(config);
    }
    return r;
}
