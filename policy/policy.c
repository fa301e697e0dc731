/* Compiling one policy: a decoded file is held to its rules, its filter built, and the steps that all its
 * jobs share laid out. Runs once per policy at start (and on reload), so that a request meets no error that
 * its operator could have seen. */
#include "policy/policy.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/shipped.h"
#include "jail/base/capability.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/plan/plan.h"
#include "policy/check.h"
#include "policy/compiled.h"
#include "policy/embedded.h"
#include "policy/filter/bpf.h"
#include "policy/filter/conditions.h"
#include "policy/filter/seccomp.h"

static void policy_freep(struct policy **policy)
{
    policy_free(*policy);
}

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

static int check_plan(const struct policy *policy, const struct policy_image *image, struct err *reterr)
{
    char path[] = "/program";
    char *const argv[] = {path};
    const struct policy_program program = {.argv = argv, .n_argv = 1, .image = image};
    const struct policy_ceilings ceilings = {.landlock_abi = JAIL_LANDLOCK_NEWEST};
    const struct job job = {0};
    struct jail_plan *plan = NULL;
    int r = policy_build_plan(policy, &ceilings, &job, &program, &plan, reterr);
    if (r < 0) {
        return r;
    }
    struct err err = {0};
    r = jail_plan_check(plan, &err);
    jail_plan_free(plan);
    return r < 0 ? policy_bad(policy->spec, NULL, reterr, "%s: %s", err.step, err.text) : 0;
}

/* The plans of a job that asks for nothing, but maybe an image: what is wrong with them is wrong with the
 * policy. */
static int check_samples(const struct policy *policy, struct err *reterr)
{
    const struct policy_spec *spec = policy->spec;
    const struct policy_image image = {.name = spec->image};
    int r = spec->image[0] ? 0 : check_plan(policy, NULL, reterr);
    bool may_have_one = spec->image[0] || spec->n_images > 0;
    return r < 0 || !may_have_one ? r : check_plan(policy, &image, reterr);
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

/* A kernel waits for its next program in a system call that PID 1 is asked about (jail/standby.h). */
static int check_state(const struct policy *policy, struct err *reterr)
{
    const struct seccomp_data data = {.nr = policy_syscall_number("inotify_init1", NULL),
                                      .arch = policy_native_arch()};
    if (policy->spec->state != POLICY_STATE_KERNEL) {
        return 0;
    }
    if (!policy_workspace(policy)) {
        return policy_bad(policy->spec, NULL, reterr,
                          "state: KERNEL needs a scratch mount of the directory WORK");
    }
    return bpf_run(policy->filter.instructions, policy->filter.length, &data) == SECCOMP_RET_USER_NOTIF
               ? 0
               : policy_bad(policy->spec, NULL, reterr,
                            "state: KERNEL needs a filter that answers inotify_init1 with NOTIFY");
}

int policy_compile(struct policy_spec *spec, struct policy **ret, struct err *reterr)
{
    CLEANUP(policy_freep) struct policy *policy = calloc(1, sizeof *policy);
    if (!policy) {
        policy_spec_free(spec);
        return err_errno(reterr, ENOMEM, "compiling a policy");
    }
    policy->spec = policy->own_spec = spec;
    int r = policy_check_spec(spec, reterr);
    r = r < 0 ? r : policy_filter_compile(spec, &policy->filter, reterr);
    for (size_t i = 0; r == 0 && i < spec->n_capabilities; i++) {
        policy->capabilities |= 1ull << capability_number(spec->capabilities[i]);
    }
    r = r < 0 ? r : check_state(policy, reterr);
    r = r < 0 ? r : policy_build_tree(policy, reterr);
    r = r < 0 ? r : check_samples(policy, reterr);
    if (r < 0) {
        return r;
    }
    *ret = TAKE_PTR(policy);
    return 0;
}

int policy_from_embedded(const struct embedded_policy *row, struct policy **ret, struct err *reterr)
{
    CLEANUP(policy_freep) struct policy *policy = calloc(1, sizeof *policy);
    int r = policy ? jail_plan_decode(row->tree, row->tree_size, &policy->tree) : -ENOMEM;
    if (r < 0) {
        return err_errno(reterr, -r, "making a shipped policy");
    }
    policy->spec = &row->spec;
    policy->filter = row->filter;
    policy->capabilities = row->capabilities;
    policy->bpf = row->bpf;
    *ret = TAKE_PTR(policy);
    return 0;
}

const char *policy_name(const struct policy *policy)
{
    return policy->spec->name;
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

bool policy_allows_call(const struct policy *policy, const char *syscall, const uint64_t arguments[6])
{
    int nr = policy_syscall_number(syscall, NULL);
    struct seccomp_data data = {.nr = nr, .arch = policy_native_arch()};
    memcpy(data.args, arguments, sizeof data.args);
    uint32_t answer = bpf_run(policy->filter.instructions, policy->filter.length, &data);
    return nr >= 0 && (answer == SECCOMP_RET_ALLOW || answer == SECCOMP_RET_LOG);
}

static bool is_allowing(enum seccomp_action_kind action)
{
    return action == ACTION_ALLOW || action == ACTION_LOG;
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
