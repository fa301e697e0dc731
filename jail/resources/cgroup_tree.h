/* The part of the cgroup v2 hierarchy that belongs to this process, as cgroup.c needs it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jail_cgroup_tree;

/* Makes a job's cgroup under a fresh name. 0 or -errno. */
int jail_cgroup_tree_add(struct jail_cgroup_tree *tree, char *ret_name, size_t name_size, int *ret_dir);
/* Gives cgroup.procs of the instance's directory to `uid`. 0 or -errno. */
int jail_cgroup_tree_open_to(struct jail_cgroup_tree *tree, uint32_t uid);
/* Removes it, killing what is in it; where the kernel still holds it, later. */
void jail_cgroup_tree_remove(struct jail_cgroup_tree *tree, const char *name, int dir);
/* Tries again what could not be removed before. */
void jail_cgroup_tree_remove_stale(struct jail_cgroup_tree *tree);
/* True if the host has swap space in use. */
bool jail_cgroup_host_swaps(void);
