/* cgroup v2: one cgroup per job, limits in and figures out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct jail_limits;
struct jail_cgroup_tree;
struct jail_cgroup;

enum cgroup_mode {
    CGROUP_REQUIRED,    /* refuse to start where a controller is missing */
    CGROUP_BEST_EFFORT, /* rlimits and the memory watch instead, and say so */
};

/* One job's cgroup, empty, with its limits written. */
int jail_cgroup_new(struct jail_cgroup_tree *tree, const struct jail_limits *limits, struct jail_cgroup **ret,
                    struct err *reterr);
/* Kills what is in it and removes it. Takes NULL. */
void jail_cgroup_free(struct jail_cgroup *cgroup);
/* Writes other limits, while it is empty or parked. */
int jail_cgroup_set_limits(struct jail_cgroup *cgroup, const struct jail_limits *limits, struct err *reterr);
/* Lets processes of `uid` clone into this cgroup, if they live in another one of the tree that has been
 * opened to them too: for a template, which is not privileged. */
int jail_cgroup_open_to(struct jail_cgroup *cgroup, uint32_t uid, struct err *reterr);
/* For CLONE_INTO_CGROUP. */
int jail_cgroup_fd(const struct jail_cgroup *cgroup);
void jail_cgroup_kill(struct jail_cgroup *cgroup);

struct jail_cgroup_stat {
    uint64_t oom_kills;         /* memory.events */
    uint64_t cpu_ns;            /* cpu.stat usage_usec */
    uint64_t memory_peak_bytes; /* memory.peak; UINT64_MAX: the kernel does not tell */
    uint64_t pids_peak;         /* pids.peak, PID 1 included; UINT64_MAX likewise */
};
/* memory.current; 0 or -errno. */
int jail_cgroup_memory(const struct jail_cgroup *cgroup, uint64_t *ret_bytes);
int jail_cgroup_stat(const struct jail_cgroup *cgroup, struct jail_cgroup_stat *ret, struct err *reterr);
