/* The part of the cgroup v2 hierarchy that belongs to this process. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct err;
struct jail_cgroup_tree;

/* Finds our own cgroup from /proc/self/cgroup up, sweeps what dead instances left, moves every process of it
 * into a leaf, enables the memory, pids and cpu controllers below. ERR_HOST where the host does not offer
 * that, with a sentence that names what is missing and the remedy. `*ret_swept` counts the cgroups removed
 * (may be NULL). */
int jail_cgroup_tree_open(struct jail_cgroup_tree **ret, unsigned *ret_swept, struct err *reterr);
/* Removes what it made. Takes NULL. */
void jail_cgroup_tree_free(struct jail_cgroup_tree *tree);
/* The absolute path of the directory under which jobs' cgroups lie. */
const char *jail_cgroup_tree_path(const struct jail_cgroup_tree *tree);

/* The rest is for cgroup.c. */

/* Makes a job's cgroup under a fresh name. 0 or -errno. */
int jail_cgroup_tree_add(struct jail_cgroup_tree *tree, char *ret_name, size_t name_size, int *ret_dir);
/* Gives cgroup.procs of the instance's directory to `uid`. 0 or -errno. */
int jail_cgroup_tree_open_to(struct jail_cgroup_tree *tree, uint32_t uid);
/* Removes it, killing what is in it; where the kernel still holds it, later. */
void jail_cgroup_tree_remove(struct jail_cgroup_tree *tree, const char *name, int dir);
/* Tries again what could not be removed before. */
void jail_cgroup_tree_remove_stale(struct jail_cgroup_tree *tree);
