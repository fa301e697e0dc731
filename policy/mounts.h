/* Paths in a jail, and what a policy's mounts must keep. */
#pragma once

#include <stdbool.h>

struct err;
struct policy_mount;
struct policy_spec;

/* Where the script lies inside the jail: "/immure/main.py" for extension "py". */
#define POLICY_SCRIPT_DIRECTORY "/immure"

/* Mounts and the working directory. ERR_CONFIG with a place of the policy's file as item. */
int policy_check_mounts(const struct policy_spec *spec, struct err *reterr);

/* NULL if `path` is absolute, in its shortest spelling and not "/"; else the sentence that says what is
 * wrong. */
const char *path_problem(const char *path);
/* Both in their shortest spelling. */
bool path_is_below(const char *path, const char *above);
bool path_is_at_or_below(const char *path, const char *above);
/* The mount that holds `path`: the last one at or above it, as seen with all mounts attached. NULL: the root.
 */
const struct policy_mount *policy_mount_over(const struct policy_spec *spec, const char *path);
