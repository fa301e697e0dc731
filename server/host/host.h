/* struct host: what this process makes jails with: outer ids and, where the host offers them, cgroups. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "jail/resources/cgroup.h"
#include "server/host/sub_ids.h"

struct err;
struct idmap_pool;
struct policy_ceilings;

struct host {
    struct idmap_pool *ids;
    struct jail_cgroup_tree *cgroups; /* NULL: rlimits and the watch stand in */
    uint32_t landlock_abi;            /* 0: the kernel has none that we use */
    bool outer_uids_told; /* that no other server of this host has our outer uids; else nobody can tell */
    bool privileged;      /* every jail gets an outer uid of its own */
    char why_one_uid[SUB_IDS_WHY_BYTES]; /* where not: why the user's sub-ids are of no use */
    unsigned leftovers_swept;
    char degraded[512]; /* CGROUP_BEST_EFFORT: what the host lacks; "" otherwise */
};

struct host_options {
    enum cgroup_mode cgroup_mode;
    const char *best_effort; /* how the operator chooses CGROUP_BEST_EFFORT here, for the sentence */
    uint32_t outer_uid_base, n_outer_uids; /* count only for a privileged process */
    bool outer_uids_fixed;                 /* these, or none: the operator has chosen them */
    bool sub_ids;                          /* an ordinary user's own may be taken, where there are some */
};

/* Single-threaded, once per process. In CGROUP_REQUIRED a host without cgroups is ERR_HOST; in
 * CGROUP_BEST_EFFORT the reason goes to `degraded`. */
int host_open(const struct host_options *options, struct host *ret, struct err *reterr);
void host_close(struct host *host);

/* Whether our root directory is known not to be that of our mount namespace: it is no mount, or PID 1 has
 * another one in the same namespace. There the kernel makes no user namespace, and so no jail. */
bool host_is_chroot(void);
#define HOST_CHROOT_REMEDY                                                                                   \
    "start outside of the chroot, or in a root of its own: pivot_root in `unshare --mount`, or a container"

/* Gives up every capability that making jails does not need, for good. For a process that lives on;
 * privileged only. */
int host_drop_privileges(const struct host *host, struct err *reterr);

/* Joins a fresh session keyring, so that no jail sees the operator's keys. Returns 0 or -errno: not every
 * kernel has keyrings and containers may forbid them, and then there is nothing to see either. */
int host_leave_session_keyring(void);

/* Fills what the host decides of the ceilings that policies are held against. */
void host_apply_to_ceilings(const struct host *host, struct policy_ceilings *ceilings);
