/* A compiled policy: its memory, what it is called, and what its filter says about a call. Runs in the warden
 * and on the command line. */
#include "policy/policy.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jail/plan/plan.h"
#include "policy/compiled.h"
#include "jail/base/bpf_run.h"
#include "policy/filter/conditions.h"
#include "policy/filter/names.h"
#include "policy/mounts.h"

void policy_free(struct policy *policy)
{
    if (policy) {
        if (policy->own_spec) {
            policy_spec_free(policy->own_spec);
            policy_filter_clear(&policy->filter);
        }
        jail_plan_free(policy->tree);
        free(policy);
    }
}

bool policy_find_on_host(const struct policy *policy, const char *path, char *ret)
{
    const struct policy_mount *mount = policy_mount_over(policy->spec, path);
    if (policy->spec->image[0] || !mount || mount->kind != POLICY_MOUNT_BIND) {
        return false;
    }
    int length = snprintf(ret, PATH_MAX, "%s%s", mount->source, path + strlen(mount->destination));
    return length > 0 && length < PATH_MAX;
}

const char *policy_name(const struct policy *policy)
{
    return policy->spec->name;
}

void policy_set_interpreter(struct policy *policy, const struct runtime_config *interpreter)
{
    policy->shown = interpreter;
}

const char *policy_workspace(const struct policy *policy)
{
    const struct policy_spec *spec = policy->spec;
    for (size_t i = 0; i < spec->n_mounts; i++) {
        if (spec->mounts[i].kind == POLICY_MOUNT_SCRATCH && strcmp(spec->mounts[i].source, "work") == 0) {
            return spec->mounts[i].destination;
        }
    }
    return NULL;
}

const char *policy_sha256(const struct policy *policy)
{
    return policy->spec->sha256;
}

const struct policy_spec *policy_spec(const struct policy *policy)
{
    return policy->spec;
}

static bool is_allowing(enum seccomp_action_kind action)
{
    return action == ACTION_ALLOW || action == ACTION_LOG;
}

/* PID 1 of the jail, which both are handed to, tells them apart (jail/child/init_locks.c). */
static bool is_counted(const struct policy *policy, int nr, const uint64_t arguments[6])
{
    uint32_t lock = 0;
    if (nr == policy_syscall_number("flock", NULL)) {
        lock = JAIL_LOCK_FLOCK;
    } else if (nr == policy_syscall_number("fcntl", NULL)) {
        uint32_t command = (uint32_t)arguments[1];
        lock = command == F_SETLK ? JAIL_LOCK_SETLK : command == F_SETLKW ? JAIL_LOCK_SETLKW : 0;
    }
    return (policy->filter.locks & lock) != 0;
}

struct policy_answer policy_answer(const struct policy *policy, int nr, const uint64_t arguments[6])
{
    struct seccomp_data data = {.nr = nr, .arch = policy_native_arch()};
    memcpy(data.args, arguments, sizeof data.args);
    uint32_t answer = bpf_run(policy->filter.instructions, policy->filter.length, &data);
    switch (answer & SECCOMP_RET_ACTION_FULL) {
    case SECCOMP_RET_ALLOW:
        return (struct policy_answer){ACTION_ALLOW, 0};
    case SECCOMP_RET_LOG:
        return (struct policy_answer){ACTION_LOG, 0};
    case SECCOMP_RET_ERRNO:
        return (struct policy_answer){ACTION_ERRNO, answer & SECCOMP_RET_DATA};
    case SECCOMP_RET_USER_NOTIF:
        return (struct policy_answer){is_counted(policy, nr, arguments) ? ACTION_COUNT : ACTION_NOTIFY, 0};
    default:
        return (struct policy_answer){ACTION_KILL_PROCESS, 0};
    }
}

bool policy_allows_call(const struct policy *policy, const char *syscall, const uint64_t arguments[6])
{
    int nr = policy_syscall_number(syscall, NULL);
    return nr >= 0 && is_allowing(policy_answer(policy, nr, arguments).action);
}

/* With some arguments. */
static bool may_allow(const struct policy *policy, const char *syscall)
{
    int nr = policy_syscall_number(syscall, NULL);
    for (size_t i = 0; i < policy->filter.n_entries; i++) {
        const struct filter_entry *entry = &policy->filter.entries[i];
        const struct seccomp_rule rule = policy_filter_rule(policy->spec, entry);
        if (entry->nr == nr && (is_allowing(rule.action) || rule.n_conditions == 0)) {
            return is_allowing(rule.action);
        }
    }
    return nr >= 0 && is_allowing(policy->spec->seccomp_default);
}

const char *policy_mounting_call(const struct policy *policy)
{
    return may_allow(policy, "mount") ? "mount" : may_allow(policy, "move_mount") ? "move_mount" : NULL;
}

bool policy_allows(const struct policy *policy, const char *syscall, unsigned known,
                   const uint64_t arguments[6])
{
    int nr = policy_syscall_number(syscall, NULL);
    for (size_t i = 0; i < policy->filter.n_entries; i++) {
        const struct filter_entry *entry = &policy->filter.entries[i];
        const struct seccomp_rule rule = policy_filter_rule(policy->spec, entry);
        bool sure;
        if (entry->nr != nr || !conditions_may_hold(&rule, known, arguments, &sure)) {
            continue;
        }
        /* Of rules with different actions never two hold: where this one is sure to, no other may. */
        if (sure || !is_allowing(rule.action)) {
            return nr >= 0 && is_allowing(rule.action);
        }
    }
    return nr >= 0 && is_allowing(policy->spec->seccomp_default);
}
