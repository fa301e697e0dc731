/* The interpreters of a configuration's runtimes: found, asked what they need, and shown to the policies
 * whose jails run them. Runs in the warden, at start, for --check-config, on SIGHUP. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/policy/policy_file.h"
#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/mounts.h"
#include "server/host/interpreter.h"
#include "server/kit/log.h"
#include "server/run/settings.h"

/* The same versions as in jail/runtime/python/template.c. */
#define PYTHON_TEMPLATE    "immure-python.so"
#define PYTHON_MINOR_LEAST 9
#define PYTHON_MINOR_MOST  13

/* Debian's package of an interpreter, by its name or its place there. */
static const char *package_of(const char *interpreter)
{
    static const char *const rows[][2] = {
        {"node", "nodejs"}, {"nodejs", "nodejs"},       {"python3", "python3"}, {"bash", "bash"},
        {"perl", "perl"},   {"Rscript", "r-base-core"}, {"ruby", "ruby"},       {"php", "php-cli"},
    };
    interpreter += strncmp(interpreter, "/usr/bin/", 9) == 0 ? 9 : 0;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (strcmp(rows[i][0], interpreter) == 0) {
            return rows[i][1];
        }
    }
    return NULL;
}

static void say_absent(const char *interpreter, const char *why, char ret[ABSENT_INTERPRETER_BYTES])
{
    const char *package = package_of(interpreter);
    snprintf(ret, ABSENT_INTERPRETER_BYTES, "%.160s; install %s%s, or name another one (interpreter)", why,
             package ? "Debian's package " : "it", package ? package : "");
}

/* One whose path leads to nothing of the host's is for the self-test to judge. */
bool settings_interpreter_absent(const struct settings *settings, const struct runtime_config *runtime,
                                 char ret[ABSENT_INTERPRETER_BYTES])
{
    char path[PATH_MAX], why[ABSENT_INTERPRETER_BYTES];
    const struct policy *policy = policy_set_find(settings->policies, runtime->policy);
    snprintf(path, sizeof path, "%s", runtime->interpreter);
    if ((runtime->n_needs == 0 && !policy_find_on_host(policy, runtime->interpreter, path)) ||
        access(path, X_OK) == 0) {
        return false;
    }
    snprintf(why, sizeof why, "%.120s %s", path, errno == ENOENT ? "is not there" : "cannot be executed");
    say_absent(path, why, ret);
    return true;
}

/* Where the policy says itself what of the host lies at this path, that counts and nothing is looked for. */
static bool is_the_policys(const struct policy *policy, const char *interpreter)
{
    char path[PATH_MAX];
    const struct policy_spec *spec = policy_spec(policy);
    if (spec->image[0] || interpreter[0] != '/') {
        return spec->image[0] != '\0';
    }
    bool on_host = policy_find_on_host(policy, interpreter, path);
    return !spec->interpreter[0] || (on_host && strcmp(path, interpreter) != 0);
}

/* What no package is alone in: an interpreter that asks for it says anything. */
static bool is_too_much(const char *path)
{
    static const char *const directories[] = {"/",    "/boot", "/dev",  "/etc",  "/home", "/media",
                                              "/mnt", "/opt",  "/proc", "/root", "/run",  "/srv",
                                              "/sys", "/tmp",  "/usr",  "/var"};
    for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
        if (strcmp(path, directories[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* What a job could write to would not be the environment any more; and what a policy runs in must be the
 * host's.
 */
int settings_check_packages(const struct policy_spec *spec, const struct runtime_config *runtime,
                            struct err *reterr)
{
    if (runtime->python_environment[0] == '\0') {
        return 0;
    }
    if (spec->image[0] || !spec->interpreter[0]) {
        return err_set(reterr, ERR_HOST, EINVAL, NULL, "its policy %.60s %s", spec->name,
                       spec->image[0] ? "runs in an image: install the packages in there"
                                      : "shows no interpreter of the host");
    }
    for (size_t i = 0; i < runtime->n_needs; i++) {
        const char *path = runtime->needs[i].path;
        if (is_too_much(path)) {
            return err_set(reterr, ERR_HOST, EINVAL, NULL, "its interpreter asks for all of %.60s", path);
        }
        const struct policy_mount *mount = policy_mount_over(spec, path);
        bool is_writable = mount &&
                           (mount->kind == POLICY_MOUNT_SCRATCH || mount->kind == POLICY_MOUNT_TMPFS ||
                            mount->kind == POLICY_MOUNT_BIND) &&
                           !mount->read_only;
        if (is_writable) {
            return err_set(reterr, ERR_HOST, EINVAL, NULL,
                           "%.120s lies in %.80s, where jobs under the policy %.60s can write", path,
                           mount->destination, spec->name);
        }
    }
    return 0;
}

/* What is shown there would be the job's to write. */
static int check_place(const struct policy_spec *spec, const char *interpreter, struct err *reterr)
{
    for (size_t i = 0; spec->interpreter[0] && i < spec->n_mounts; i++) {
        const struct policy_mount *mount = &spec->mounts[i];
        size_t length = strlen(mount->destination);
        if (mount->kind == POLICY_MOUNT_SCRATCH && strncmp(interpreter, mount->destination, length) == 0 &&
            interpreter[length] == '/') {
            return err_set(reterr, ERR_HOST, EINVAL, NULL, "%.120s lies in %s, of which each job has its own",
                           interpreter, mount->destination);
        }
    }
    return 0;
}

/* What an earlier reading, or another runtime of this one, knows of the same interpreter; NULL: nothing. */
static const struct runtime_config *find_known(const struct settings *settings, const struct settings *before,
                                               const struct runtime_config *runtime)
{
    const struct runtime_config *known = before ? server_config_runtime(before->config, runtime->name) : NULL;
    for (size_t i = 0; !known && i < settings->config->n_runtimes; i++) {
        const struct runtime_config *other = &settings->config->runtimes[i];
        bool same = other != runtime && strcmp(other->interpreter, runtime->interpreter) == 0;
        known = same && other->n_needs > 0 ? other : NULL;
    }
    return known;
}

static bool is_short_of_something(const struct err *err)
{
    return err->code == EMFILE || err->code == ENFILE || err->code == ENOMEM || err->code == EAGAIN;
}

/* 1: it is there, or only a jail can tell. 0: it is not, and `ret` says why. */
static int find(const struct settings *settings, const struct settings *before,
                struct runtime_config *runtime, char ret[ABSENT_INTERPRETER_BYTES], struct err *reterr)
{
    const struct policy *policy = policy_set_find(settings->policies, runtime->policy);
    struct err err = {0};
    bool has_environment = runtime->python_environment[0] != '\0';
    if (!has_environment && is_the_policys(policy, runtime->interpreter)) {
        return !settings_interpreter_absent(settings, runtime, ret);
    }
    int r = settings_check_packages(policy_spec(policy), runtime, &err);
    r = r < 0 ? r : interpreter_locate(runtime, &err);
    if (r < 0) {
        if (has_environment) {
            snprintf(ret, ABSENT_INTERPRETER_BYTES, "%.300s", err.text);
        } else {
            say_absent(runtime->interpreter, err.text, ret);
        }
        return 0;
    }
    r = check_place(policy_spec(policy), runtime->interpreter, &err);
    if (r == 0 && policy_spec(policy)->interpreter[0]) {
        const struct runtime_config *known = find_known(settings, before, runtime);
        r = known && interpreter_remember(runtime, known) ? 0 : interpreter_examine(runtime, true, &err);
    }
    r = r < 0 ? r : settings_check_packages(policy_spec(policy), runtime, &err);
    if (r < 0 && is_short_of_something(&err)) {
        return err_set(reterr, ERR_INTERNAL, err.code, NULL, "%s", err.text);
    }
    if (r < 0) {
        snprintf(ret, ABSENT_INTERPRETER_BYTES, "%.300s%s", err.text,
                 has_environment ? "" : "; name another one (interpreter)");
    }
    return r == 0;
}

/* What is preloaded was tried with some versions, and says no to others: better before than after a start. */
static void leave_out_template(struct runtime_config *runtime)
{
    const char *name = strrchr(runtime->template, '/');
    name = name ? name + 1 : runtime->template;
    unsigned minor;
    runtime->cold = strcmp(name, PYTHON_TEMPLATE) == 0 && sscanf(runtime->version, "3.%u", &minor) == 1 &&
                    (minor < PYTHON_MINOR_LEAST || minor > PYTHON_MINOR_MOST);
    if (runtime->cold) {
        runtime->template[0] = '\0';
        runtime->warm_jails = 0;
    }
}

static int name_startup(struct runtime_config *runtime, struct err *reterr)
{
    for (size_t i = 0; runtime->startup && i < runtime->n_preludes; i++) {
        struct prelude_config *prelude = &runtime->preludes[i];
        char *path = strcmp(prelude->path, PRELUDE_STARTUP) == 0 ? strdup(runtime->startup) : prelude->path;
        if (!path) {
            return err_errno(reterr, ENOMEM, "loading the configuration");
        }
        if (path != prelude->path) {
            free(prelude->path);
            prelude->path = path;
        }
    }
    return 0;
}

/* That of a runtime of its own, or else the one that it names. One with packages only where there is no
 * other: they are for jobs of that runtime, in which they are shown anyway. */
static const struct runtime_config *interpreter_of(const struct server_config *config,
                                                   const struct policy_spec *spec)
{
    enum { OTHER, NAMED, OWN };
    const struct runtime_config *best = NULL;
    int best_rank = 0;
    for (size_t i = 0; i < config->n_runtimes; i++) {
        const struct runtime_config *runtime = &config->runtimes[i];
        bool is_named = strcmp(runtime->interpreter, spec->interpreter) == 0 ||
                        (runtime->wanted && strcmp(runtime->wanted, spec->interpreter) == 0);
        int kind = strcmp(runtime->policy, spec->name) == 0 ? OWN : is_named ? NAMED : OTHER;
        int rank = kind == OTHER || runtime->n_needs == 0 ? 0
                   : runtime->python_environment[0]       ? kind
                                                          : kind + OWN;
        best = rank > best_rank ? runtime : best;
        best_rank = rank > best_rank ? rank : best_rank;
    }
    return best;
}

static bool is_used(const struct server_config *config, const struct policy_spec *spec)
{
    for (size_t i = 0; i < config->n_runtimes; i++) {
        if (strcmp(config->runtimes[i].policy, spec->name) == 0) {
            return true;
        }
    }
    return false;
}

/* Runtimes may have an interpreter that is not the host's, in a mount of the policy's own: it shows the one
 * that it names. Where nobody needs that, it need not be there. */
static int show_named(const struct server_config *config, struct policy *policy, struct runtime_config *ret,
                      struct err *reterr)
{
    const struct policy_spec *spec = policy_spec(policy);
    struct err err = {0};
    if (!is_used(config, spec)) {
        interpreter_show(policy, ret);
        return 0;
    }
    ret->interpreter = strdup(spec->interpreter);
    int r = ret->interpreter ? interpreter_locate(ret, &err)
                             : err_errno(&err, ENOMEM, "loading the configuration");
    r = r < 0 ? r : interpreter_examine(ret, false, &err);
    if (r < 0) {
        return err_set(reterr, is_short_of_something(&err) ? ERR_INTERNAL : ERR_CONFIG, err.code, NULL,
                       "policy %s: interpreter: %.200s", spec->name, err.text);
    }
    policy_set_interpreter(policy, ret);
    return 0;
}

static int show_to_policies(struct settings *settings, struct err *reterr)
{
    size_t n = policy_set_count(settings->policies);
    settings->shown = calloc(n + 1, sizeof *settings->shown);
    if (!settings->shown) {
        return err_errno(reterr, ENOMEM, "loading the configuration");
    }
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        struct policy *policy = policy_set_edit(settings->policies, i);
        const struct policy_spec *spec = policy_spec(policy);
        if (!spec->interpreter[0] || spec->image[0]) {
            continue;
        }
        const struct runtime_config *runtime = interpreter_of(settings->config, spec);
        if (runtime) {
            policy_set_interpreter(policy, runtime);
        } else {
            r = show_named(settings->config, policy, &settings->shown[i], reterr);
        }
    }
    return r;
}

/* An optional one without an interpreter is not offered. `written`: its index in the file. */
static int set_aside(struct server_config *config, size_t i, size_t written, const char *why,
                     struct err *reterr)
{
    struct runtime_config *runtime = &config->runtimes[i];
    char path[48];
    snprintf(path, sizeof path, "runtime[%zu].%s", written,
             runtime->python_environment[0] ? "python_environment" : "interpreter");
    if (!runtime->optional) {
        return server_config_fail(config, path, reterr, "%s", why);
    }
    if (runtime == server_config_runtime(config, config->default_runtime)) {
        return server_config_fail(config, "default_runtime", reterr,
                                  "the interpreter of the runtime '%s' is not installed: %s",
                                  config->default_runtime, why);
    }
    runtime->absent = strdup(why);
    server_config_set_runtime_aside(config, i);
    return 0;
}

int settings_find_interpreters(struct settings *settings, const struct settings *before, struct err *reterr)
{
    struct server_config *config = settings->config;
    char why[ABSENT_INTERPRETER_BYTES];
    int r = 0;
    for (size_t i = 0, written = 0; r == 0 && i < config->n_runtimes; written++) {
        struct runtime_config *runtime = &config->runtimes[i];
        int found = find(settings, before, runtime, why, reterr);
        if (found > 0) {
            leave_out_template(runtime);
            r = name_startup(runtime, reterr);
            i++;
        } else {
            r = found < 0 ? found : set_aside(config, i, written, why, reterr);
        }
    }
    return r < 0 ? r : show_to_policies(settings, reterr);
}

void settings_log_absent(const struct settings *settings, struct log *log)
{
    const struct server_config *config = settings->config;
    for (size_t i = 0; i < config->n_runtimes + config->n_runtimes_aside; i++) {
        const struct runtime_config *runtime = &config->runtimes[i];
        if (runtime->cold) {
            LOG(log, LOG_WARNING, "runtime_cold", LOG_FIELD_STR("runtime", runtime->name),
                LOG_FIELD_STR("interpreter", runtime->interpreter),
                LOG_FIELD_STR("means", "its template was not made for this version: jobs start their own"));
        }
        if (i >= config->n_runtimes) {
            LOG(log, LOG_WARNING, "runtime_absent", LOG_FIELD_STR("runtime", runtime->name),
                LOG_FIELD_STR("interpreter", runtime->interpreter), LOG_FIELD_STR("why", runtime->absent),
                LOG_FIELD_STR("means", "it is optional and not offered"));
        }
    }
}
