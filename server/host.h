/* struct host: what this process makes jails with: outer ids and, where the host offers them, cgroups. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "jail/cgroup.h"

struct err;
struct idmap_pool;
struct policy_ceilings;

struct host {
    struct idmap_pool *ids;
    struct jail_cgroup_tree *cgroups; /* NULL: rlimits and the watch stand in */
    bool privileged;                  /* every jail gets an outer uid of its own */
    unsigned leftovers_swept;
    char degraded[512]; /* CGROUP_BEST_EFFORT: what the host lacks; "" otherwise */
};

/* Single-threaded, once per process. In CGROUP_REQUIRED a host without cgroups is ERR_HOST; in
 * CGROUP_BEST_EFFORT the reason goes to `degraded`. `outer_uid_base` and `n_outer_uids` count only for a
 * privileged process. */
int host_open(struct host *ret, enum cgroup_mode mode, uint32_t outer_uid_base, uint32_t n_outer_uids,
              struct err *reterr);
void host_close(struct host *host);

/* Gives up every capability that making jails does not need, for good. For a process that lives on;
 * privileged only. */
int host_drop_privileges(const struct host *host, struct err *reterr);

/* Fills what the host decides of the ceilings that policies are held against. */
void host_apply_to_ceilings(const struct host *host, struct policy_ceilings *ceilings);
