/* `immure check`: what this host offers, layer by layer, what that means and what to do about it, and whether
 * a jail really works. Changes nothing that outlives it. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/resources/cgroup_own.h"
#include "policy/policy.h"
#include "server/cli/command.h"
#include "server/cli/options.h"
#include "server/cli/tables.h"
#include "server/probe/probe.h"
#include "server/probe/selftest_jail.h"
#include "server/host/interpreter.h"
#include "server/host/programs.h"
#include "server/kit/json_out.h"
#include "server/kit/sentence.h"
#include "server/warden/front_process.h"

#define CONFIG_VARIABLE "SANDBOX_EXECUTOR_CONFIG"

struct check_options {
    bool json;
};

static const struct option_row check_rows[] = {
    {"--json", NULL, "one JSON object instead of lines", OPTION_SWITCH, offsetof(struct check_options, json)},
};

const struct option_table check_table = {
    .command = "check",
    .examples = "immure check\n"
                "immure check --json | jq .\n",
    .synopsis = "[--json]",
    .about =
        "Tries every layer that a jail is made of, then a jail, and says what is missing and what to do.",
    .footer = "Exit code: 0 if jails work with every limit enforced by a cgroup (cgroup REQUIRED), 1 if only "
              "with cgroup\n"
              "BEST_EFFORT, 2 if none works, or if `immure serve` has no front to start.",
    .rows = check_rows,
    .n_rows = ARRAY_SIZE(check_rows),
};

/* Both the exit code and what works. */
enum check_outcome { WORKS_REQUIRED, WORKS_BEST_EFFORT, WORKS_NOT };

static const struct {
    const char *word, *sentence;
} outcomes[] = {
    [WORKS_REQUIRED] = {"required", "jails work here, with every limit enforced by a cgroup"},
    [WORKS_BEST_EFFORT] = {"best_effort", "jails work here with cgroup BEST_EFFORT only"},
    [WORKS_NOT] = {"none", "no jail works here"},
};

static void print_row(const char *name, const struct probe_result *result)
{
    printf("%-8s %-22s %s\n", probe_status_to_string(result->status), name, result->found);
    if (result->means[0] != '\0') {
        printf("%31s means: %s\n", "", result->means);
    }
    if (result->remedy[0] != '\0') {
        printf("%31s to do: %s\n", "", result->remedy);
    }
}

static void write_row(struct buf *json, const char *name, const struct probe_result *result)
{
    json_out_separator(json);
    buf_putc(json, '{');
    json_out_text(json, "name", name);
    json_out_text(json, "status", probe_status_to_string(result->status));
    json_out_text(json, "found", result->found);
    json_out_text(json, "means", result->means[0] ? result->means : NULL);
    json_out_text(json, "remedy", result->remedy[0] ? result->remedy : NULL);
    buf_putc(json, '}');
}

static void show(struct buf *json, const char *name, struct probe_result *result)
{
    result->found[strcspn(result->found, "\n")] = '\0';
    if (json) {
        write_row(json, name, result);
    } else {
        print_row(name, result);
    }
}

#define TRIAL "/usr/bin/true"

/* A trial under both modes: the one that works decides. */
static enum check_outcome try_mode(const struct runtime_config *shown, struct probe_result *ret)
{
    static const char *const argv[] = {TRIAL, NULL};
    char why[sizeof ret->found];
    struct err err = {0};
    /* Opening the subtree moves processes; only where the probe says that it will succeed. */
    if (jail_cgroup_probe(&err) == 0 &&
        selftest_jail("python", CGROUP_REQUIRED, shown, argv, why, sizeof why) == 0) {
        probe_ok(ret, TRIAL " ran under policy python, limits enforced by a cgroup");
        return WORKS_REQUIRED;
    }
    if (selftest_jail("python", CGROUP_BEST_EFFORT, shown, argv, why, sizeof why) == 0) {
        probe_ok(ret, TRIAL " ran under policy python, limits enforced by rlimits and watching");
        return WORKS_BEST_EFFORT;
    }
    probe_fail(ret, PROBE_MISSING, why, "nothing can run", "see the rows above, and the step named here");
    return WORKS_NOT;
}

static enum check_outcome try_jail(struct probe_result *ret)
{
    struct runtime_config shown = {.interpreter = strdup(TRIAL)};
    struct err err = {0};
    if (shown.interpreter) {
        interpreter_examine(&shown, false, &err);
    }
    enum check_outcome outcome = try_mode(&shown, ret);
    runtime_config_forget(&shown);
    return outcome;
}

static const char not_offered[] = "the shipped runtime of this name is not offered";

/* The shipped runtimes: each one's smallest program, under its policy. */
static const struct {
    const char *name, *policy, *interpreter; /* NULL: the runtime's of that name */
    const char *args[2];
    const char *missing, *remedy;
} runtimes[] = {
    {"python", "python", NULL, {"-c", "pass"}, NULL, "install python3, or name another: SANDBOX_PYTHON_BIN"},
    {"node", "node", NULL, {"-e", "0"}, not_offered, "install nodejs, or name another: SANDBOX_NODE_BIN"},
    {"isolate", "isolate", NULL, {"-e", "0"}, not_offered, "install nodejs"},
    {"typescript",
     "isolate",
     "/usr/bin/esbuild",
     {"--version", NULL},
     "POST /run-code takes JavaScript only",
     "install esbuild"},
    {"bash", "bash", NULL, {"-c", ":"}, not_offered, "install bash"},
};

static bool says_interpreter(const char *variable)
{
    return strncmp(variable, "SANDBOX_PYTHON_BIN", strlen("SANDBOX_PYTHON_BIN")) == 0 ||
           strncmp(variable, "SANDBOX_NODE_BIN", strlen("SANDBOX_NODE_BIN")) == 0;
}

/* The shipped configuration, or the one that is named, with the interpreters that the environment names: of
 * all else, a key above all, there need be nothing yet. */
static int load_with(bool named, struct server_config **ret, struct err *reterr)
{
    char no_key[] = "SANDBOX_EXECUTOR_ENV=test";
    size_t n = 0;
    while (environ[n]) {
        n++;
    }
    CLEANUP(freep) char **env = calloc(n + 2, sizeof *env);
    if (!env) {
        return err_errno(reterr, ENOMEM, "reading the shipped configuration");
    }
    size_t taken = 0;
    env[taken++] = no_key;
    for (size_t i = 0; i < n; i++) {
        if (says_interpreter(environ[i])) {
            env[taken++] = environ[i];
        }
    }
    return server_config_load(named ? getenv(CONFIG_VARIABLE) : NULL, env, ret, reterr);
}

/* What it is, and the directories that it needs; with packages, all that it needs. */
static void describe(const struct runtime_config *found, char *ret, size_t size)
{
    size_t used = (size_t)snprintf(ret, size, "%s%s%s starts in a jail", found->interpreter,
                                   *found->version ? " " : "", found->version);
    const char *before = "; it needs ";
    for (size_t i = 0; i < found->n_needs && used < size; i++) {
        const struct interpreter_need *need = &found->needs[i];
        struct stat st;
        bool is_directory = !need->target && stat(need->path, &st) == 0 && S_ISDIR(st.st_mode);
        if (is_directory || found->python_environment) {
            used += (size_t)snprintf(ret + used, size - used, "%s%s", before, need->path);
            before = ", ";
        }
    }
}

static void try_interpreter(size_t i, const char *interpreter, bool optional, struct probe_result *ret)
{
    struct runtime_config found = {.interpreter = strdup(interpreter)};
    char why[sizeof ret->found];
    struct err err = {0};
    if (!found.interpreter || interpreter_locate(&found, &err) < 0 ||
        interpreter_examine(&found, true, &err) < 0) {
        snprintf(why, sizeof why, "%s: %.300s", optional ? "not installed" : "not usable", err.text);
        probe_fail(ret, PROBE_WARN, why, runtimes[i].missing, runtimes[i].remedy);
    } else {
        const char *argv[] = {found.interpreter, runtimes[i].args[0], runtimes[i].args[1], NULL};
        if (selftest_jail(runtimes[i].policy, CGROUP_BEST_EFFORT, &found, argv, why, sizeof why) == 0) {
            describe(&found, why, sizeof why);
            probe_ok(ret, "%s", why);
        } else {
            probe_fail(ret, PROBE_WARN, why, "the shipped runtime of this name does not work",
                       runtimes[i].remedy);
        }
    }
    runtime_config_forget(&found);
}

static void try_runtime(size_t i, const struct server_config *config, struct probe_result *ret)
{
    const struct runtime_config *runtime = server_config_runtime(config, runtimes[i].name);
    const char *interpreter = runtime ? runtime->interpreter : NULL;
    try_interpreter(i, runtimes[i].interpreter ? runtimes[i].interpreter : interpreter,
                    !runtime || runtime->optional, ret);
}

/* Those with packages of the configuration that the server would read. A policy that is not shipped is tried
 * by the server alone. */
static void try_packages(struct runtime_config *runtime, struct probe_result *ret)
{
    char why[sizeof ret->found];
    struct err err = {0};
    if (interpreter_locate(runtime, &err) < 0 || interpreter_examine(runtime, true, &err) < 0) {
        snprintf(why, sizeof why, "not usable: %.400s", err.text);
        probe_fail(ret, PROBE_WARN, why,
                   runtime->optional ? "it is not offered" : "the server does not start",
                   "correct its python_environment or preload, or `immure env create` one");
        return;
    }
    CLEANUP(freep) const char **argv = calloc(runtime->n_preload + 4, sizeof *argv);
    struct policy *policy = NULL;
    if (argv && policy_resolve(runtime->policy, &policy, &err) == 0) {
        argv[0] = runtime->interpreter;
        argv[1] = "-c";
        argv[2] = "import sys\nfor name in sys.argv[1:]: __import__(name)";
        memcpy(argv + 3, runtime->preload, runtime->n_preload * sizeof *argv);
    }
    policy_free(policy);
    if (argv && argv[0] &&
        selftest_jail(runtime->policy, CGROUP_BEST_EFFORT, runtime, argv, why, sizeof why) < 0) {
        probe_fail(ret, PROBE_WARN, why, "what it preloads cannot be imported in a jail",
                   "mount what is missing in its policy");
        return;
    }
    describe(runtime, why, sizeof why);
    probe_ok(ret, "%s", why);
}

static void try_all_packages(struct buf *to)
{
    struct server_config *config = NULL;
    struct err err = {0};
    if (!getenv(CONFIG_VARIABLE)) {
        return;
    }
    if (load_with(true, &config, &err) < 0) {
        struct probe_result result = {0};
        probe_fail(&result, PROBE_WARN, err.text, "the server does not start with it",
                   "correct " CONFIG_VARIABLE);
        show(to, "configuration", &result);
        return;
    }
    for (size_t i = 0; i < config->n_runtimes; i++) {
        struct probe_result result = {0};
        if (config->runtimes[i].python_environment[0] != '\0') {
            try_packages(&config->runtimes[i], &result);
            show(to, config->runtimes[i].name, &result);
        }
    }
    server_config_free(config);
}

/* From the ground up. The cgroup row is last: it is the one that a host lacks most often, and the only one
 * that BEST_EFFORT can do without. */
static const struct probe probes[] = {
    {"kernel", probe_kernel, 0},
    {"identity", probe_identity, 0},
    {"supplementary groups", probe_groups, 0},
    {"no_new_privs", probe_no_new_privs, 0},
    {"seccomp around us", probe_own_seccomp, 0},
    {"AppArmor", probe_apparmor, 0},
    {"security modules", probe_lsm, 0},
    {"root directory", probe_chroot, 0},
    {"clone3", probe_clone3, 0},
    {"pidfd", probe_pidfd, 0},
    {"seccomp notification", probe_seccomp_notify, 0},
    {"user namespace", probe_user_namespace, CLONE_NEWUSER},
    {"mount namespace", probe_namespace, CLONE_NEWNS},
    {"pid namespace", probe_namespace, CLONE_NEWPID},
    {"net namespace", probe_namespace, CLONE_NEWNET},
    {"ipc namespace", probe_namespace, CLONE_NEWIPC},
    {"uts namespace", probe_namespace, CLONE_NEWUTS},
    {"cgroup namespace", probe_namespace, CLONE_NEWCGROUP},
    {"mount API", probe_mount_api, 0},
    {"pivot_root", probe_pivot_root, 0},
    {"procfs", probe_proc, 0},
    {"overlayfs", probe_overlay, 0},
    {"Landlock", probe_landlock, 0},
    {"cgroup v2", probe_cgroup, 0},
};

/* No jail may have more than its maker. */
static void try_open_files(struct probe_result *ret)
{
    struct rlimit files = {0};
    uint64_t needed = 0;
    for (size_t i = 0; i < ARRAY_SIZE(runtimes); i++) {
        struct policy *policy = NULL;
        struct err err = {0};
        if (policy_resolve(runtimes[i].policy, &policy, &err) == 0 && policy_open_files(policy) > needed) {
            needed = policy_open_files(policy);
        }
        policy_free(policy);
    }
    getrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_max >= needed) {
        probe_ok(ret, "at most %" PRIu64, (uint64_t)files.rlim_max);
        return;
    }
    char found[128];
    snprintf(found, sizeof found, "at most %" PRIu64 ", and jobs may have %" PRIu64, (uint64_t)files.rlim_max,
             needed);
    probe_fail(ret, PROBE_MISSING, found, "no job can be given its own limit", SENTENCE_RAISE_OPEN_FILES);
}

static void try_front(struct probe_result *ret)
{
    char path[PATH_MAX];
    struct err err = {0};
    if (program_find(FRONT_PROGRAM, path, &err) == 0) {
        probe_ok(ret, "%s", path);
    } else {
        probe_fail(ret, PROBE_MISSING, err.text, "`immure serve` cannot start; `immure run` does without",
                   "install it there, as `make install` does");
    }
}

static int check(bool as_json, const struct server_config *config)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT;
    struct buf *to = as_json ? &json : NULL;
    buf_putc(&json, '{');
    json_out_open(&json, "checks", '[');
    for (const struct probe *probe = probes; probe < probes + ARRAY_SIZE(probes); probe++) {
        struct probe_result result = {0};
        probe->run(probe, &result);
        show(to, probe->name, &result);
    }
    struct probe_result files = {0}, jail = {0};
    try_open_files(&files);
    show(to, "open files", &files);
    enum check_outcome outcome = try_jail(&jail);
    show(to, "jail", &jail);
    for (size_t i = 0; outcome != WORKS_NOT && i < ARRAY_SIZE(runtimes); i++) {
        struct probe_result result = {0};
        try_runtime(i, config, &result);
        show(to, runtimes[i].name, &result);
    }
    if (outcome != WORKS_NOT) {
        try_all_packages(to);
    }
    struct probe_result front = {0};
    try_front(&front);
    show(to, "front", &front);
    buf_putc(&json, ']');
    json_out_text(&json, "jail", outcomes[outcome].word);
    buf_puts(&json, "}\n");
    if (as_json && json.failed) {
        return WORKS_NOT;
    }
    if (as_json) {
        fputs(json.data, stdout);
    } else {
        printf("\n%s\n", outcomes[outcome].sentence);
    }
    return front.status == PROBE_OK ? (int)outcome : WORKS_NOT;
}

int cmd_check(int argc, char **argv)
{
    struct check_options options = {0};
    struct err err = {0};
    int n_arguments;
    int r = options_parse(&check_table, argc, argv, &options, &n_arguments, &err);
    if (r == OPTIONS_HELP) {
        options_print_help(&check_table, stdout);
        return EXIT_CODE_OK;
    }
    if (r == 0 && n_arguments > 0) {
        r = err_set(&err, ERR_INVALID, 0, argv[1], "check takes no arguments");
    }
    struct server_config *config = NULL;
    r = r < 0 ? r : load_with(false, &config, &err);
    r = r < 0 ? command_fail("check", &err, EXIT_CODE_USAGE) : check(options.json, config);
    server_config_free(config);
    return r;
}
