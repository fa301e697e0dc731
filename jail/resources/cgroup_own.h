/* The cgroup that this process was given, and the names of what immure makes in it. */
#pragma once

#include <stdbool.h>

struct err;

#define CGROUP_PREFIX "immure-" /* of an instance's directory */
#define CGROUP_SELF   "self" /* in it: the instance itself, and whoever was in the cgroup that it was given */

#define CGROUP_CONTROLLERS 3
extern const char *const cgroup_controllers[CGROUP_CONTROLLERS];

/* What to do where something is missing, to be put behind a sentence that says what. */
extern const char *const cgroup_remedy;

/* Opens that cgroup's directory. ERR_HOST where there is none, or where it lacks a controller or a
 * permission. */
int cgroup_own_open(char **ret_path, int *ret_dir, struct err *reterr);

/* True if `word` is among the blank-separated words of `text`. */
bool cgroup_has_word(const char *text, const char *word);

/* Looks without changing anything: 0 if jail_cgroup_tree_open() would find all it needs, else the same error.
 */
int jail_cgroup_probe(struct err *reterr);

/* True if the host has swap space in use. */
bool jail_cgroup_host_swaps(void);
