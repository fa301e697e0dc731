/* The configuration together with the policies it names. Runs in the warden: at start, for --check-config, on
 * SIGHUP. */
#include "server/run/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/message/egress.h"
#include "config/message/job.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/plan/plan.h"
#include "server/host/certificates.h"
#include "server/host/host.h"
#include "server/kit/log.h"
#include "server/kit/sentence.h"

/* A runtime's own policy must be there, and one that its jobs can run under. */
static int check_runtime(const struct settings *settings, size_t i, struct err *reterr)
{
    const struct runtime_config *runtime = &settings->config->runtimes[i];
    const struct policy *policy = policy_set_find(settings->policies, runtime->policy);
    char path[48];
    snprintf(path, sizeof path, "runtime[%zu].policy", i);
    if (!policy) {
        return server_config_fail(settings->config, path, reterr,
                                  "runtime '%s' names policy '%s', which is not among the policies loaded",
                                  runtime->name, runtime->policy);
    }
    if (policy_spec(policy)->state == POLICY_STATE_KERNEL && runtime->kernel[0] == '\0') {
        return server_config_fail(
            settings->config, path, reterr,
            "runtime '%s' has no kernel, which its policy '%s' (state: KERNEL) asks for", runtime->name,
            runtime->policy);
    }
    return 0;
}

static int check_key(const struct settings *settings, size_t i, struct err *reterr)
{
    const struct key_config *key = settings->config->keys[i];
    for (size_t j = 0; j < key->n_policies; j++) {
        const char *policy = key->policies[j];
        char path[64];
        snprintf(path, sizeof path, "key[%zu].policy[%zu]", i, j);
        if (strcmp(policy, "*") != 0 && !policy_set_find(settings->policies, policy)) {
            return server_config_fail(settings->config, path, reterr,
                                      "key '%s' names policy '%s', which is not among the policies loaded",
                                      key->name, policy);
        }
    }
    return 0;
}

static int check_secrets(const struct settings *settings, const struct policy_spec *spec, struct err *reterr)
{
    for (size_t i = 0; i < spec->n_egress; i++) {
        const struct egress_rule *rule = &spec->egress[i];
        for (size_t j = 0; j < rule->n_headers; j++) {
            const char *secret = rule->headers[j].secret;
            if (!server_config_egress_secret(settings->config, secret)) {
                return server_config_fail(
                    settings->config, "egress_secret", reterr,
                    "policy %s: egress[%zu]: header[%zu]: secret \"%s\" is not configured; add egress_secret "
                    "{ name: \"%s\" file: \"/...\" }",
                    spec->name, i, j, secret, secret);
            }
        }
    }
    return 0;
}

/* What config/ cannot know: that the names of policies and of secrets lead somewhere. */
static int check_references(const struct settings *settings, struct err *reterr)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < settings->config->n_runtimes; i++) {
        r = check_runtime(settings, i, reterr);
    }
    for (size_t i = 0; r == 0 && i < settings->config->n_keys; i++) {
        r = check_key(settings, i, reterr);
    }
    for (size_t i = 0; r == 0 && i < policy_set_count(settings->policies); i++) {
        r = check_secrets(settings, policy_spec(policy_set_at(settings->policies, i)), reterr);
    }
    return r;
}

/* Here, because policy/ knows no field; what is wrong in a policy is told with its own place. */
static int check_policy_paths(const struct server_config *config, struct err *reterr)
{
    for (size_t i = 0; i < config->n_policy_paths; i++) {
        struct stat st;
        char path[48];
        snprintf(path, sizeof path, "policy_path[%zu]", i);
        if (stat(config->policy_paths[i], &st) < 0) {
            char why[IO_PATH_ERROR_BYTES];
            return server_config_fail(config, path, reterr, "\"%.200s\" cannot be read: %s",
                                      config->policy_paths[i],
                                      io_path_error(config->policy_paths[i], errno, why));
        }
    }
    return 0;
}

/* The front reads them, and could only end where it cannot. */
static int check_certificates(const struct server_config *config, struct err *reterr)
{
    const struct {
        const char *field, *path;
    } files[] = {{"callback_ca_file", config->callback_ca_file},
                 {"package_index_ca_file", config->package_index_ca_file}};
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        const char *path = files[i].path;
        int r = *path ? io_read_file_at(AT_FDCWD, path, CERTIFICATES_BYTES_MAX, &text) : 0;
        if (r < 0) {
            char why[IO_PATH_ERROR_BYTES];
            return server_config_fail(config, files[i].field, reterr, "\"%.200s\" cannot be read: %s", path,
                                      io_path_error(path, -r, why));
        }
    }
    return 0;
}

static int check_image_directory(const struct server_config *config, struct err *reterr)
{
    const char *path = config->image_directory;
    char why[IO_PATH_ERROR_BYTES];
    CLEANUP(fd_closep) int fd = *path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0 || !*path) {
        return 0;
    }
    return server_config_fail(config, "image_directory", reterr, "\"%.200s\" cannot be read: %s%s", path,
                              io_path_error(path, errno, why),
                              errno == ENOENT ? "; make it, or let `immure image import` make it" : "");
}

/* What the front, which knows no policy, tells of each runtime that does not say it itself. */
static int describe_runtimes(const struct settings *settings, struct err *reterr)
{
    struct server_config *config = settings->config;
    for (size_t i = 0; i < config->n_runtimes; i++) {
        struct runtime_config *runtime = &config->runtimes[i];
        const struct policy_spec *spec = policy_spec(policy_set_find(settings->policies, runtime->policy));
        if (runtime->memory_bytes == 0) {
            runtime->memory_bytes = spec->limits.memory_bytes;
        }
        if (runtime->description[0] != '\0') {
            continue;
        }
        free(runtime->description);
        runtime->description = strdup(spec->description ? spec->description : "");
        if (!runtime->description) {
            return err_errno(reterr, ENOMEM, "loading the configuration");
        }
    }
    return 0;
}

int settings_check_start(const struct settings *settings, struct err *reterr)
{
    const struct server_config *config = settings->config;
    if (config->open || config->n_keys > 0) {
        return 0;
    }
    return server_config_fail(config, "key_file", reterr,
                              "\"%s\" holds no key, and there is no other, so nobody could call; `immure key "
                              "add` makes one",
                              config->key_file);
}

void settings_log_no_caller(const struct settings *settings, struct log *log)
{
    const struct server_config *config = settings->config;
    bool may_call = config->open;
    for (size_t i = 0; i < config->n_keys; i++) {
        may_call = may_call || !key_has_expired(config->keys[i]);
    }
    if (!may_call) {
        LOG(log, LOG_WARNING, "no_valid_key", LOG_FIELD_U64("keys", config->n_keys),
            LOG_FIELD_STR("means", config->n_keys == 0 ? "there is no key: nobody may call"
                                                       : "every key has expired: nobody may call"));
    }
}

static void log_team_off(const struct server_config *config, const char *team, struct log *log)
{
    char path[48] = "", remedy[160];
    struct err at = {0};
    const struct team_config *named = server_config_team(config, team);
    if (named) {
        snprintf(path, sizeof path, "team[%zu].enabled", (size_t)(named - config->teams));
    }
    server_config_fail(config, path, &at, "is not true");
    snprintf(remedy, sizeof remedy, "%s%.64s%s",
             named ? "write `enabled: true` there" : "add `team { name: \"", named ? "" : team,
             named ? "" : "\" enabled: true }` there");
    LOG(log, LOG_WARNING, "team_off", LOG_FIELD_STR("team", team), LOG_FIELD_STR("at", at.item),
        LOG_FIELD_STR("means", "all that its keys ask for is refused"), LOG_FIELD_STR("remedy", remedy));
}

void settings_log_teams_off(const struct settings *settings, struct log *log)
{
    const struct server_config *config = settings->config;
    for (size_t i = 0; i < config->n_keys; i++) {
        const char *name = config->keys[i]->team;
        const struct team_config *team = server_config_team(config, name);
        bool is_told = *name == '\0' || (team && team->enabled);
        for (size_t j = 0; j < i && !is_told; j++) {
            is_told = strcmp(config->keys[j]->team, name) == 0;
        }
        if (!is_told) {
            log_team_off(config, name, log);
        }
    }
}

/* The warden's own: logs, timers, fronts; and of a job: its pipes, its jail's and its files. */
#define OPEN_FILES_OWN     64
#define OPEN_FILES_PER_JOB 16

int settings_check_open_files(const struct settings *settings, struct err *reterr)
{
    const struct server_config *config = settings->config;
    uint64_t needed = OPEN_FILES_OWN + OPEN_FILES_PER_JOB * (uint64_t)config->max_concurrent_jobs;
    const char *policy = NULL;
    for (size_t i = 0; i < config->n_runtimes; i++) {
        uint64_t of_job = policy_open_files(policy_set_find(settings->policies, config->runtimes[i].policy));
        if (of_job > needed) {
            needed = of_job;
            policy = config->runtimes[i].policy;
        }
    }
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_max >= needed) {
        return 0;
    }
    return err_set(reterr, ERR_HOST, EMFILE, NULL,
                   "the limit of open files is %" PRIu64 ", and %s%s %s %" PRIu64
                   ": " SENTENCE_RAISE_OPEN_FILES,
                   (uint64_t)files.rlim_max, policy ? "jobs under policy " : "max_concurrent_jobs",
                   policy ? policy : "", policy ? "may have" : "needs", needed);
}

int settings_load(const char *path, char *const *env, const struct settings *before, struct settings **ret,
                  struct err *reterr)
{
    CLEANUP(settings_unrefp) struct settings *settings = calloc(1, sizeof *settings);
    if (!settings) {
        return err_errno(reterr, ENOMEM, "loading the configuration");
    }
    settings->references = 1;
    int r = server_config_load(path, env, &settings->config, reterr);
    r = r < 0 ? r : check_policy_paths(settings->config, reterr);
    if (r < 0) {
        return r;
    }
    r = policy_set_load(settings->config->policy_paths, settings->config->n_policy_paths, &settings->policies,
                        reterr);
    if (r < 0) {
        return r;
    }
    r = check_references(settings, reterr);
    r = r < 0 ? r : check_certificates(settings->config, reterr);
    r = r < 0 ? r : check_image_directory(settings->config, reterr);
    r = r < 0 ? r : settings_find_interpreters(settings, before, reterr);
    r = r < 0 ? r : describe_runtimes(settings, reterr);
    if (r < 0) {
        return r;
    }
    *ret = TAKE_PTR(settings);
    return 0;
}

struct settings *settings_ref(struct settings *settings)
{
    settings->references++;
    return settings;
}

void settings_unref(struct settings *settings)
{
    if (!settings || --settings->references > 0) {
        return;
    }
    for (size_t i = 0; settings->shown && i < policy_set_count(settings->policies); i++) {
        runtime_config_forget(&settings->shown[i]);
    }
    free(settings->shown);
    policy_set_free(settings->policies);
    server_config_free(settings->config);
    free(settings);
}

const char *settings_fixed_difference(const struct settings *old, const struct settings *new)
{
    if (strcmp(old->config->listen, new->config->listen) != 0) {
        return "listen";
    }
    if (old->config->cgroup_best_effort != new->config->cgroup_best_effort) {
        return "cgroup";
    }
    if (old->config->outer_uid_base != new->config->outer_uid_base) {
        return "outer_uid_base";
    }
    if (old->config->sub_uids != new->config->sub_uids) {
        return "sub_uids";
    }
    if (strcmp(old->config->session_directory, new->config->session_directory) != 0) {
        return "session_directory";
    }
    if (strcmp(old->config->approval_directory, new->config->approval_directory) != 0) {
        return "approval_directory";
    }
    return NULL;
}

/* False where that cannot be told. */
static bool same_config(const struct server_config *a, const struct server_config *b)
{
    CLEANUP(buf_free) struct buf packed_a = BUF_INIT, packed_b = BUF_INIT;
    return server_config_encode(a, &packed_a, NULL) == 0 && server_config_encode(b, &packed_b, NULL) == 0 &&
           packed_a.len == packed_b.len && memcmp(packed_a.data, packed_b.data, packed_a.len) == 0;
}

static bool same_policies(const struct policy_set *old, const struct policy_set *new)
{
    size_t n = policy_set_count(old);
    if (n != policy_set_count(new)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const struct policy *policy = policy_set_at(old, i);
        const struct policy *other = policy_set_find(new, policy_spec(policy)->name);
        if (!other || strcmp(policy_sha256(policy), policy_sha256(other)) != 0) {
            return false;
        }
    }
    return true;
}

/* Where an interpreter was replaced by another one of the same version, what it needs may differ. */
static bool same_interpreters(const struct server_config *old, const struct server_config *new)
{
    for (size_t i = 0; i < old->n_runtimes; i++) {
        if (memcmp(old->runtimes[i].file, new->runtimes[i].file, sizeof old->runtimes[i].file) != 0) {
            return false;
        }
    }
    return true;
}

enum settings_change settings_change(const struct settings *old, const struct settings *new)
{
    struct server_config bare_old = *old->config, bare_new = *new->config;
    bare_old.n_keys = bare_old.n_teams = bare_new.n_keys = bare_new.n_teams = 0;
    if (bare_old.open != bare_new.open || !same_config(&bare_old, &bare_new) ||
        !same_policies(old->policies, new->policies) || !same_interpreters(old->config, new->config)) {
        return SETTINGS_MORE;
    }
    return same_config(old->config, new->config) ? SETTINGS_SAME : SETTINGS_CALLERS;
}

static int unsupported_runtime(const struct server_config *config, const char *name, struct err *reterr)
{
    CLEANUP(buf_free) struct buf names = BUF_INIT;
    for (size_t i = 0; i < config->n_runtimes; i++) {
        buf_printf(&names, "%s%s", i == 0 ? "" : ", ", config->runtimes[i].name);
    }
    return err_set(reterr, ERR_INVALID, ENOENT, "runtime", "unsupported runtime: %.64s; supported: %s", name,
                   names.data ? names.data : "");
}

int settings_find(const struct settings *settings, const struct job *job,
                  const struct runtime_config **ret_runtime, const struct policy **ret_policy,
                  struct err *reterr)
{
    const struct runtime_config *runtime = server_config_runtime(settings->config, job->runtime);
    if (!runtime) {
        return unsupported_runtime(settings->config, job->runtime, reterr);
    }
    const char *name = job->policy ? job->policy : runtime->policy;
    const struct policy *policy = policy_set_find(settings->policies, name);
    if (!policy) {
        return err_set(reterr, ERR_INVALID, ENOENT, "policy", "there is no policy '%.64s'", name);
    }
    /* A runtime whose own policy it is also takes jobs without a session: they are ordinary ones. */
    if (job->policy && !job->session_id && policy_spec(policy)->state == POLICY_STATE_KERNEL) {
        return err_set(reterr, ERR_INVALID, EINVAL, "session_id",
                       "session_id: is required: the policy '%.64s' keeps an interpreter for the jobs of one "
                       "session",
                       name);
    }
    struct err err = {0};
    if (job->policy && settings_check_packages(policy_spec(policy), runtime, &err) < 0) {
        return err_set(reterr, ERR_INVALID, EINVAL, "policy",
                       "policy: the packages of the runtime '%.64s': %s", runtime->name, err.text);
    }
    *ret_runtime = runtime;
    *ret_policy = policy;
    return 0;
}

/* No name has a colon: a team's is never a key's. */
void settings_template_owner(const struct settings *settings, const char *key,
                             char ret[static TEMPLATE_OWNER_BYTES])
{
    enum template_scope scope = settings->config->template_scope;
    const struct key_config *caller = server_config_key(settings->config, key);
    bool of_team = scope == TEMPLATE_SCOPE_TEAM && caller && caller->team[0];
    if (scope == TEMPLATE_SCOPE_ALL) {
        *ret = '\0';
    } else {
        snprintf(ret, TEMPLATE_OWNER_BYTES, "%s:%s", of_team ? "team" : "key", of_team ? caller->team : key);
    }
}

const struct policy *settings_warm_policy(const struct settings *settings,
                                          const struct runtime_config *runtime)
{
    bool warm = runtime->template[0] || (runtime->standby[0] && runtime->warm_jails > 0);
    const struct policy *policy = warm ? policy_set_find(settings->policies, runtime->policy) : NULL;
    /* An image is looked for anew for each job. */
    return policy && !policy_spec(policy)->image[0] ? policy : NULL;
}

struct policy_ceilings settings_ceilings(const struct settings *settings, const struct host *host,
                                         const char *key)
{
    struct policy_ceilings ceilings = {
        .default_timeout_ms = settings->config->default_timeout_ms,
        .max_timeout_ms = settings->config->max_timeout_ms,
        .max_output_bytes = settings->config->max_output_bytes,
    };
    const struct key_config *caller = server_config_key(settings->config, key);
    if (caller) {
        ceilings.key = caller->max;
    }
    host_apply_to_ceilings(host, &ceilings);
    return ceilings;
}
