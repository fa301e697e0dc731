/* Lint of limits, environment, namespaces and capabilities. On the command line alone. */
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "config/policy/constants.h"
#include "config/server/config.h"
#include "jail/base/capability.h"
#include "jail/base/cleanup.h"
#include "policy/capabilities.h"
#include "policy/compiled.h"
#include "policy/env.h"
#include "policy/lint/lint_internal.h"
#include "policy/mounts.h"
#include "policy/policy.h"

#define MIB (1024ull * 1024)

/* ---- Namespaces and capabilities ---- */

static void check_namespaces(struct lint *lint)
{
    static const struct {
        uint64_t bit;
        const char *name, *consequence;
    } rows[] = {
        {CLONE_NEWNET, "NET",
         "the program has the host's network, with its abstract sockets and its loopback"},
        {CLONE_NEWIPC, "IPC", "the program shares System V IPC and message queues with the host"},
        {CLONE_NEWUTS, "UTS", "the program sees the host's name"},
        {CLONE_NEWCGROUP, "CGROUP", "the program sees where in the host's cgroups it is"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (!(lint->spec->namespaces & rows[i].bit)) {
            const struct lint_spot spot = lint_spot(rows[i].name, "namespace");
            lint_find(lint, LINT_HOST_NAMESPACE, &spot, "without %s %s", rows[i].name, rows[i].consequence);
        }
    }
}

static void check_capabilities(struct lint *lint)
{
    for (size_t i = 0; i < lint->spec->n_capabilities; i++) {
        const char *name = lint->spec->capabilities[i], *danger = capability_danger(capability_number(name));
        if (danger) {
            const struct lint_spot spot = lint_spot(name, "capability[%zu]", i);
            lint_find(lint, LINT_CAPABILITY, &spot, "%s: %s", name, danger);
        }
    }
}

/* ---- Environment ---- */

static void check_env_allow(struct lint *lint)
{
    for (size_t i = 0; i < lint->spec->n_env_allow; i++) {
        const char *name = lint->spec->env_allow[i], *reason = env_loader_reason(name);
        if (reason && !strchr(name, '*')) {
            const struct lint_spot spot = lint_spot(name, "env_allow[%zu]", i);
            lint_find(lint, LINT_ENV_ALLOW_LOADER, &spot, "%s: %s", name, reason);
        }
    }
}

/* A list of directories or files: what it names that can be written. An empty or relative one is looked for
 * in the working directory. */
static void check_loaded_from(struct lint *lint, const struct policy_env *env, size_t index)
{
    static const char *const lists[] = {"PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "NODE_PATH", "PERL5LIB"};
    const char *reason = env_loader_reason(env->name);
    bool is_list = false;
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
        is_list |= strcmp(env->name, lists[i]) == 0;
    }
    for (const char *at = env->value; reason && *at;) {
        size_t length = strcspn(at, ": ");
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%.*s", (int)(length < PATH_MAX ? length : 0), at);
        bool relative = is_list && path[0] != '/';
        if (lint_is_writable(lint, relative ? lint->spec->working_directory : path) &&
            (relative || path[0] == '/')) {
            const struct lint_spot spot = lint_spot(env->name, "env[%zu].value", index);
            lint_find(lint, LINT_ENV_WRITABLE, &spot, "%s has %s, where the job can write: %s", env->name,
                      *path ? path : "the working directory", reason);
            return;
        }
        at += length + (at[length] != '\0');
    }
}

static void check_path(struct lint *lint, const struct policy_env *env, size_t index)
{
    for (const char *at = env->value; *at;) {
        size_t length = strcspn(at, ":");
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%.*s", (int)(length < PATH_MAX ? length : 0), at);
        if (path[0] == '/' && !lint_shows(lint, path)) {
            const struct lint_spot spot = lint_spot(path, "env[%zu].value", index);
            lint_find(lint, LINT_PATH_MISSING, &spot, "PATH has %s, which is not in the jail", path);
        }
        at += length + (at[length] != '\0');
    }
}

/* Nobody makes a directory in what is fresh for each job. */
static bool is_there(const struct lint *lint, const char *path)
{
    const struct policy_mount *over = policy_mount_over(lint->spec, path);
    bool fresh = over && (over->kind == POLICY_MOUNT_SCRATCH || over->kind == POLICY_MOUNT_TMPFS) &&
                 path_is_below(path, over->destination);
    bool above = false;
    for (size_t i = 0; i < lint->spec->n_mounts; i++) {
        above |= path_is_at_or_below(lint->spec->mounts[i].destination, path);
    }
    return above || (!fresh && lint_shows(lint, path));
}

static void check_directories(struct lint *lint)
{
    static const char *const names[] = {"HOME", "TMPDIR", "TMP", "TEMP"};
    const struct policy_spec *spec = lint->spec;
    if (!is_there(lint, spec->working_directory)) {
        const struct lint_spot spot = lint_spot(spec->working_directory, "working_directory");
        lint_find(lint, LINT_DIRECTORY_MISSING, &spot, "%s is not there when a job starts",
                  spec->working_directory);
    }
    for (size_t i = 0; i < spec->n_env; i++) {
        for (size_t k = 0; k < ARRAY_SIZE(names); k++) {
            if (strcmp(spec->env[i].name, names[k]) == 0 && spec->env[i].value[0] == '/' &&
                !is_there(lint, spec->env[i].value)) {
                const struct lint_spot spot = lint_spot(names[k], "env[%zu].value", i);
                lint_find(lint, LINT_DIRECTORY_MISSING, &spot,
                          "%s is %s, which is not there when a job starts", names[k], spec->env[i].value);
            }
        }
    }
}

/* ---- Modules ---- */

/* Modules that some builds of CPython have no file for. */
static bool may_be_builtin(const char *module)
{
    static const char *const names[] = {
        "_",           "array",        "atexit",      "binascii",  "builtins", "cmath",
        "errno",       "faulthandler", "fcntl",       "gc",        "grp",      "itertools",
        "marshal",     "math",         "mmap",        "posix",     "pwd",      "pyexpat",
        "readline",    "resource",     "select",      "spwd",      "sys",      "syslog",
        "termios",     "time",         "unicodedata", "xxsubtype", "zlib",     "audioop",
        "ossaudiodev", "nis",          "winreg",      "signal",
    };
    size_t length = strcspn(module, ".");
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (strlen(names[i]) == length && memcmp(names[i], module, length) == 0) {
            return true;
        }
    }
    return module[0] == '_';
}

/* Only the outermost name is looked for: what a package has is made by code, now and then. */
static bool is_in(const char *directory, const char *module)
{
    static const char *const forms[] = {"%s/%.*s", "%s/%.*s.*", "%s/lib-dynload/%.*s.*",
                                        "%s/lib/python3*/site-packages/%.*s*"};
    bool found = false;
    for (size_t i = 0; i < ARRAY_SIZE(forms) && !found; i++) {
        char pattern[2 * PATH_MAX];
        glob_t matches;
        snprintf(pattern, sizeof pattern, forms[i], directory, (int)strcspn(module, "."), module);
        found = glob(pattern, GLOB_NOSORT, NULL, &matches) == 0;
        globfree(&matches);
    }
    return found;
}

static bool is_anywhere(const struct lint *lint, const char *module)
{
    const struct runtime_config *shown = lint->policy->shown;
    bool found = may_be_builtin(module);
    for (size_t i = 0; i < shown->n_needs && !found; i++) {
        found = is_in(shown->needs[i].path, module);
    }
    for (size_t i = 0; i < lint->spec->n_mounts && !found; i++) {
        const struct policy_mount *mount = &lint->spec->mounts[i];
        found = mount->kind == POLICY_MOUNT_BIND && is_in(mount->source, module);
    }
    return found;
}

/* Known only where the interpreter has been found, and says where its library is. */
static void check_preload(struct lint *lint)
{
    const struct runtime_config *shown = lint->policy->shown;
    bool python = shown && shown->n_needs > 0 && lint_interprets(lint, "python") && is_anywhere(lint, "os");
    for (size_t i = 0; i < lint->spec->n_preload; i++) {
        const char *module = lint->spec->preload[i];
        const struct lint_spot spot = lint_spot(module, "preload[%zu]", i);
        if (python && !is_anywhere(lint, module)) {
            lint_find(lint, LINT_PRELOAD_MISSING, &spot, "there is no module %s for %s", module,
                      shown->interpreter);
        }
    }
}

void lint_check_environment(struct lint *lint)
{
    check_env_allow(lint);
    for (size_t i = 0; i < lint->spec->n_env; i++) {
        check_loaded_from(lint, &lint->spec->env[i], i);
        if (strcmp(lint->spec->env[i].name, "PATH") == 0) {
            check_path(lint, &lint->spec->env[i], i);
        }
    }
    check_directories(lint);
    check_preload(lint);
}

/* ---- Limits ---- */

static uint64_t rlimit_of(const struct lint *lint, uint32_t resource, size_t *ret_index)
{
    for (size_t i = 0; i < lint->spec->n_rlimits; i++) {
        if (lint->spec->rlimits[i].resource == resource) {
            *ret_index = i;
            return lint->spec->rlimits[i].soft;
        }
    }
    return UINT64_MAX;
}

static void check_rlimits(struct lint *lint)
{
    static const struct {
        uint32_t resource;
        uint64_t least;
        const char *interpreter; /* NULL: any program */
        const char *why;
    } rows[] = {
        {RLIMIT_STACK, MIB, NULL, "it is the stack of every thread, too; most programs end with SIGSEGV"},
        {RLIMIT_NOFILE, 16, NULL, "the loader and the program itself need some"},
        {RLIMIT_NOFILE, 32, "python", "Python's imports and pipes need more"},
        {RLIMIT_NOFILE, 64, "node", "Node opens some forty as it starts"},
        {RLIMIT_FSIZE, 4096, NULL, "a program that writes more into a file ends with SIGXFSZ"},
        {RLIMIT_AS, 64 * MIB, NULL, "the C library alone takes some of it"},
        {RLIMIT_DATA, 16 * MIB, NULL, "no allocator gets along with it"},
        {RLIMIT_NPROC, 2, NULL, "nothing can be started, nor a thread"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        size_t index = 0;
        uint64_t soft = rlimit_of(lint, rows[i].resource, &index);
        bool is_meant =
            rows[i].resource != RLIMIT_NPROC || lint_makes_processes(lint) || lint_makes_threads(lint);
        if (soft < rows[i].least && is_meant &&
            (!rows[i].interpreter || lint_interprets(lint, rows[i].interpreter))) {
            const char *name = constant_name("resource", rows[i].resource) + strlen("RLIMIT_");
            const struct lint_spot spot = lint_spot(name, "rlimit[%zu].soft", index);
            lint_find(lint, LINT_RLIMIT_SMALL, &spot, "%s of %" PRIu64 " is less than %" PRIu64 ": %s", name,
                      soft, rows[i].least, rows[i].why);
        }
    }
}

/* Of two limits that do not fit each other, the one that the file itself has. */
static struct lint_spot spot_of_two(const struct lint *lint, const char *name, const char *other)
{
    struct lint_spot spot = lint_spot(name, "limits.%s", name), second = lint_spot(name, "limits.%s", other);
    bool own = source_has(&lint->source, spot.path) && source_position(&lint->source, spot.path).file == 0;
    return !own && source_has(&lint->source, second.path) ? second : spot;
}

static void check_sizes(struct lint *lint)
{
    const struct policy_limits *limits = &lint->spec->limits;
    struct lint_spot spot = spot_of_two(lint, "scratch_bytes", "memory_bytes");
    if (limits->scratch_bytes > limits->memory_bytes) {
        lint_find(lint, LINT_TMPFS_LARGE, &spot,
                  "the scratch may hold more than memory_bytes, to which it is charged");
    }
    spot = spot_of_two(lint, "output_bytes", "memory_bytes");
    if (limits->output_bytes > limits->memory_bytes) {
        lint_find(lint, LINT_OUTPUT_LARGE, &spot, "more output would be kept than the job has memory");
    }
    spot = lint_spot("output_file_bytes", "limits.output_file_bytes");
    if (limits->output_file_bytes > limits->scratch_bytes && source_has(&lint->source, spot.path)) {
        lint_find(lint, LINT_OUTPUT_LARGE, &spot, "no file can be larger than the scratch that it lies in");
    }
}

static void check_programs(struct lint *lint)
{
    static const struct {
        const char *name;
        uint64_t memory_bytes;
        uint32_t pids;
    } rows[] = {{"python", 32 * MIB, 2}, {"node", 64 * MIB, 12}, {"", 0, 2}};
    const struct policy_limits *limits = &lint->spec->limits;
    bool starts = lint_makes_processes(lint) || lint_makes_threads(lint);
    size_t i = 0;
    while (!lint_interprets(lint, rows[i].name)) {
        i++;
    }
    if (starts && limits->pids < rows[i].pids) {
        const struct lint_spot spot = lint_spot("pids", "limits.pids");
        lint_find(lint, LINT_PIDS_SMALL, &spot,
                  "%" PRIu32 " is less than the %" PRIu32
                  " processes and threads that the program starts, and the "
                  "filter lets it start",
                  limits->pids, rows[i].pids);
    }
    if (limits->memory_bytes < rows[i].memory_bytes) {
        const struct lint_spot spot = lint_spot("memory_bytes", "limits.memory_bytes");
        lint_find(lint, LINT_MEMORY_SMALL, &spot, "%s needs %" PRIu64 " MiB to start",
                  lint->spec->interpreter, (uint64_t)(rows[i].memory_bytes / MIB));
    }
    if (limits->address_space && lint_interprets(lint, "node")) {
        const struct lint_spot spot = lint_spot("address_space", "limits.address_space");
        lint_find(lint, LINT_ADDRESS_SPACE, &spot,
                  "where no cgroup counts, Node does not start: it reserves address space by the gibibyte");
    }
}

static void check_times(struct lint *lint)
{
    const struct policy_limits *limits = &lint->spec->limits;
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {{"timeout_ms", limits->timeout_ms}, {"cpu_ms", limits->cpu_ms}};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const struct lint_spot spot = lint_spot(rows[i].name, "limits.%s", rows[i].name);
        if (rows[i].value == 0 && source_has(&lint->source, spot.path)) {
            lint_find(lint, LINT_TIME_ZERO, &spot, "0 sets no limit");
        }
    }
    uint64_t reachable = limits->timeout_ms * limits->cpu_percent / 100;
    if (limits->timeout_ms > 0 && limits->cpu_ms > reachable) {
        const struct lint_spot spot = lint_spot("cpu_ms", "limits.cpu_ms");
        lint_find(lint, LINT_TIME_UNREACHABLE, &spot,
                  "in timeout_ms and with cpu_percent a job gets %" PRIu64 " ms at most", reachable);
    }
    size_t index = 0;
    if (rlimit_of(lint, RLIMIT_CPU, &index) == 0) {
        const struct lint_spot spot = lint_spot("CPU", "rlimit[%zu].soft", index);
        lint_find(lint, LINT_TIME_ZERO, &spot, "CPU of 0 ends every job in its first second");
    }
}

void lint_check_limits(struct lint *lint)
{
    check_namespaces(lint);
    check_capabilities(lint);
    check_rlimits(lint);
    check_sizes(lint);
    check_programs(lint);
    check_times(lint);
}
