/* Rules for a policy's plain values. What is wrong stops the policy from being loaded; nothing is corrected
 * or ignored. Mounts have a file of their own, policy/mounts.c, and so has the filter. */
#include "policy/check.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "config/policy_file.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/capabilities.h"
#include "policy/env.h"

#define NAME_CHARACTERS     "abcdefghijklmnopqrstuvwxyz0123456789_-"
#define HOSTNAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-."
#define NAME_BYTES_MAX      64u
#define HOSTNAME_BYTES_MAX  64u

#define NAMESPACES_NEEDED ((uint64_t)(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID))

int policy_bad(const struct policy_spec *spec, struct err *reterr, const char *fmt, ...)
{
    char text[sizeof reterr->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(reterr, ERR_CONFIG, EINVAL, spec->origin, "%s", text);
}

static bool made_of(const char *text, const char *characters, size_t max_bytes)
{
    size_t len = strlen(text);
    return len > 0 && len <= max_bytes && strspn(text, characters) == len;
}

static int check_identity(const struct policy_spec *spec, struct err *reterr)
{
    if (!made_of(spec->name, NAME_CHARACTERS, NAME_BYTES_MAX)) {
        return policy_bad(spec, reterr, "name %s: must be 1 to 64 of a-z, 0-9, '_' and '-'", spec->name);
    }
    if (!made_of(spec->hostname, HOSTNAME_CHARACTERS, HOSTNAME_BYTES_MAX)) {
        return policy_bad(spec, reterr, "hostname %s: must be 1 to 64 letters, digits, '-' and '.'",
                          spec->hostname);
    }
    if (spec->uid == 0 || spec->gid == 0 || spec->uid == UINT32_MAX || spec->gid == UINT32_MAX) {
        return policy_bad(spec, reterr, "uid, gid: must not be 0, nor 4294967295");
    }
    if ((spec->namespaces & NAMESPACES_NEEDED) != NAMESPACES_NEEDED) {
        return policy_bad(spec, reterr, "namespace: USER, MOUNT and PID cannot be left out");
    }
    if (spec->loopback && !(spec->namespaces & CLONE_NEWNET)) {
        return policy_bad(spec, reterr, "loopback: needs the NET namespace");
    }
    if (spec->umask > 0777) {
        return policy_bad(spec, reterr, "umask: must be at most 0777");
    }
    return 0;
}

static int check_capabilities(const struct policy_spec *spec, struct err *reterr)
{
    for (size_t i = 0; i < spec->n_capabilities; i++) {
        const char *name = spec->capabilities[i];
        if (capability_number(name) < 0) {
            const char *near = capability_did_you_mean(name);
            return policy_bad(spec, reterr, "capability %s: no such capability%s%s%s", name,
                              near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
        }
        for (size_t n = 0; n < i; n++) {
            if (strcmp(spec->capabilities[n], name) == 0) {
                return policy_bad(spec, reterr, "capability %s: named twice", name);
            }
        }
    }
    return 0;
}

static int check_environment(const struct policy_spec *spec, struct err *reterr)
{
    for (size_t i = 0; i < spec->n_env; i++) {
        const char *problem = env_name_problem(spec->env[i].name);
        if (problem) {
            return policy_bad(spec, reterr, "env %s: %s", spec->env[i].name, problem);
        }
        for (size_t n = 0; n < i; n++) {
            if (strcmp(spec->env[n].name, spec->env[i].name) == 0) {
                return policy_bad(spec, reterr, "env %s: given twice", spec->env[i].name);
            }
        }
    }
    for (size_t i = 0; i < spec->n_env_allow; i++) {
        const char *problem = env_pattern_problem(spec->env_allow[i]);
        if (problem) {
            return policy_bad(spec, reterr, "env_allow %s: %s", spec->env_allow[i], problem);
        }
    }
    return 0;
}

static int check_rlimits(const struct policy_spec *spec, struct err *reterr)
{
    for (size_t i = 0; i < spec->n_rlimits; i++) {
        const struct policy_rlimit *limit = &spec->rlimits[i];
        if (limit->resource >= RLIM_NLIMITS) {
            return policy_bad(spec, reterr, "rlimit %" PRIu32 ": no such resource", limit->resource);
        }
        if (limit->soft > limit->hard) {
            return policy_bad(spec, reterr, "rlimit %zu: soft %" PRIu64 " is above hard %" PRIu64, i + 1,
                              limit->soft, limit->hard);
        }
        for (size_t n = 0; n < i; n++) {
            if (spec->rlimits[n].resource == limit->resource) {
                return policy_bad(spec, reterr, "rlimit %zu: its resource is limited already by rlimit %zu",
                                  i + 1, n + 1);
            }
        }
    }
    return 0;
}

static int check_limits(const struct policy_spec *spec, struct err *reterr)
{
    const struct policy_limits *limits = &spec->limits;
    const uint64_t largest = INT64_MAX;
    const uint64_t year_ms = 366ull * 24 * 3600 * 1000;
    const struct {
        const char *field;
        uint64_t value, least, most;
    } rows[] = {
        /* Less than a mebibyte does not hold a process. */
        {"memory_bytes", limits->memory_bytes, 1 << 20, largest},
        {"pids", limits->pids, 1, 1 << 22},
        {"cpu_percent", limits->cpu_percent, 1, 100000},
        {"cpu_ms", limits->cpu_ms, 0, year_ms},
        {"scratch_bytes", limits->scratch_bytes, 4096, largest},
        /* Its root and its three directories. */
        {"scratch_inodes", limits->scratch_inodes, 8, 1ull << 32},
        {"output_bytes", limits->output_bytes, 1, largest},
        {"timeout_ms", limits->timeout_ms, 0, year_ms},
        {"output_files", limits->output_files, 0, 1 << 20},
        {"output_file_bytes", limits->output_file_bytes, 0, largest},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (rows[i].value < rows[i].least || rows[i].value > rows[i].most) {
            return policy_bad(spec, reterr, "limits.%s: must be from %" PRIu64 " to %" PRIu64, rows[i].field,
                              rows[i].least, rows[i].most);
        }
    }
    return 0;
}

int policy_check_spec(const struct policy_spec *spec, struct err *reterr)
{
    int r = check_identity(spec, reterr);
    r = r < 0 ? r : check_capabilities(spec, reterr);
    r = r < 0 ? r : check_environment(spec, reterr);
    r = r < 0 ? r : check_rlimits(spec, reterr);
    r = r < 0 ? r : check_limits(spec, reterr);
    r = r < 0 ? r : policy_check_mounts(spec, reterr);
    if (r < 0) {
        return r;
    }
    if (!spec->has_seccomp) {
        return policy_bad(
            spec, reterr,
            "seccomp: missing; a policy without a filter says so: seccomp { default_action: ALLOW }");
    }
    return 0;
}
