/* Compiling one policy: a decoded file is held to its rules, its filter built, and the steps that all its
 * jobs share laid out. What is wrong stops the policy from being loaded; nothing is corrected or ignored.
 * Runs once per policy at start (and on reload), so that a request meets no error that its operator could
 * have seen. */
#include <errno.h>
#include <linux/filter.h>
#include <stdlib.h>
#include <string.h>

#include "config/policy/policy_file.h"
#include "jail/base/capability.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/plan/plan.h"
#include "policy/compiled.h"
#include "policy/embedded.h"
#include "policy/filter/names.h"
#include "policy/filter/seccomp.h"
#include "policy/mounts.h"
#include "policy/policy.h"

static void policy_freep(struct policy **policy)
{
    policy_free(*policy);
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

/* A kernel waits for its next program in a system call that PID 1 is asked about (jail/standby.h). */
static int check_state(const struct policy *policy, struct err *reterr)
{
    int nr = policy_syscall_number("inotify_init1", NULL);
    if (policy->spec->state != POLICY_STATE_KERNEL) {
        return 0;
    }
    if (!policy_workspace(policy)) {
        return policy_bad(policy->spec, NULL, reterr,
                          "state: KERNEL needs a scratch mount of the directory WORK");
    }
    return policy_answer(policy, nr, (uint64_t[6]){0}).action == ACTION_NOTIFY
               ? 0
               : policy_bad(policy->spec, NULL, reterr,
                            "state: KERNEL needs a filter that answers inotify_init1 with NOTIFY");
}

/* The rules themselves are policy/filter/'s to check. */
static int check_seccomp(const struct policy_spec *spec, struct err *reterr)
{
    if (!spec->has_seccomp) {
        return policy_bad(
            spec, NULL, reterr,
            "seccomp: missing; a policy without a filter says so: seccomp { default_action: ALLOW }");
    }
    return 0;
}

/* Copies a filter that was compiled while the program was built. */
static int copy_filter(const struct policy_filter *from, struct policy_filter *ret)
{
    struct policy_filter filter = *from;
    filter.instructions = malloc(from->length * sizeof *from->instructions);
    filter.entries = malloc((from->n_entries + 1) * sizeof *from->entries);
    if (!filter.instructions || !filter.entries) {
        policy_filter_clear(&filter);
        return -ENOMEM;
    }
    memcpy(filter.instructions, from->instructions, from->length * sizeof *from->instructions);
    memcpy(filter.entries, from->entries, from->n_entries * sizeof *from->entries);
    *ret = filter;
    return 0;
}

/* The filter that was compiled from the same file, and checked as below, while the program was built. */
static const struct policy_filter *find_embedded(const struct policy_spec *spec)
{
    for (const struct embedded_policy *row = policy_embedded; row->name; row++) {
        if (row->arch == policy_native_arch() && strcmp(row->spec.sha256, spec->sha256) == 0) {
            return &row->filter;
        }
    }
    return NULL;
}

static int make_filter(const struct policy_spec *spec, struct policy_filter *ret, struct err *reterr)
{
    const struct policy_filter *embedded = find_embedded(spec);
    if (!embedded) {
        return policy_filter_compile(spec, ret, reterr);
    }
    int r = copy_filter(embedded, ret);
    return r < 0 ? err_errno(reterr, -r, "compiling the filter") : 0;
}

int policy_compile(struct policy_spec *spec, struct policy **ret, struct err *reterr)
{
    CLEANUP(policy_freep) struct policy *policy = calloc(1, sizeof *policy);
    if (!policy) {
        policy_spec_free(spec);
        return err_errno(reterr, ENOMEM, "compiling a policy");
    }
    policy->spec = policy->own_spec = spec;
    int r = spec->part ? policy_bad(spec, NULL, reterr,
                                    "part: is for policies to use; no job can run under it alone")
                       : policy_check_mounts(spec, reterr);
    r = r < 0 ? r : check_seccomp(spec, reterr);
    r = r < 0 ? r : make_filter(spec, &policy->filter, reterr);
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
