/* What policy_compile() makes of a spec. Only policy/ looks inside. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "policy/filter/filter.h"

struct embedded_policy;
struct err;
struct jail_plan;
struct policy_program;
struct policy_spec;
struct runtime_config;

struct policy {
    const struct policy_spec *spec;
    struct policy_spec *own_spec; /* NULL: spec and filter are part of the program (policy/embedded.h) */
    struct policy_filter filter;
    uint64_t capabilities; /* bit n: the program keeps capability n */
    struct jail_plan
        *tree; /* the steps that every job shares: from PROPAGATION to the last mount, and the filter's BPF */
    uint32_t bpf; /* where in the tree's arena */
    const struct runtime_config
        *shown; /* its needs are shown beside those of a job's own runtime; NULL: none */
};

/* The call by which programs under this policy may mount, under conditions or not; NULL: they may not.
 * Landlock would deny it: such a policy goes without. */
const char *policy_mounting_call(const struct policy *policy);

/* A policy that was compiled while the program was built. */
int policy_from_embedded(const struct embedded_policy *row, struct policy **ret, struct err *reterr);

/* The first part of every plan of this policy, not yet with the script in it. */
int policy_build_tree(struct policy *policy, struct err *reterr);
/* The same where an image is the root, in two parts: what the script comes behind, and what comes behind the
 * script. `*ret_bpf` is where the filter is. */
int policy_begin_image_tree(const struct policy *policy, struct jail_plan **ret, uint32_t *ret_bpf,
                            struct err *reterr);
int policy_finish_image_tree(const struct policy *policy, struct jail_plan *plan, struct err *reterr);
/* Appends a MKDIR step for every directory above `path` that the steps before do not bring along. */
void policy_make_parents(struct jail_plan *plan, const char *path);
/* True if `path` lies below something that the steps mount. */
bool policy_is_mounted_over(const struct jail_plan *plan, const char *path);
/* What the runtime's interpreter needs of the host, as far as the steps do not show it yet. */
void policy_show_interpreter(struct jail_plan *plan, const struct policy_spec *spec,
                             const struct runtime_config *runtime);
/* The mounts of the command line: the directories that they need, then themselves. ERR_INVALID where one
 * would hide what the policy shows. */
void policy_make_bind_parents(struct jail_plan *plan, const struct policy_program *program);
int policy_add_binds(struct jail_plan *plan, const struct policy_program *program, struct err *reterr);
/* True if what the program leaves can belong to somebody outside. */
bool policy_writes_for_others(const struct policy_program *program);
/* Makes the root tmpfs of `plan` large enough for one more file of `size_bytes`. */
void policy_grow_root(struct jail_plan *plan, uint64_t size_bytes);
