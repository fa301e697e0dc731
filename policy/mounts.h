/* Paths in a jail, and what a policy's mounts must keep. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct err;
struct policy_mount;
struct policy_spec;

/* Where the script lies inside the jail: "/immure/main.py" for extension "py". */
#define POLICY_SCRIPT_DIRECTORY "/immure"

/* Mounts and the working directory. ERR_CONFIG with a place of the policy's file as item. */
int policy_check_mounts(const struct policy_spec *spec, struct err *reterr);

/* One mount, with those that come before it. */
int policy_check_mount(const struct policy_spec *spec, size_t index, struct err *reterr);

/* NULL if `path` is absolute, in its shortest spelling and not "/"; else the sentence that says what is
 * wrong. */
const char *path_problem(const char *path);
/* Both in their shortest spelling. */
bool path_is_below(const char *path, const char *above);
bool path_is_at_or_below(const char *path, const char *above);
/* Devices without memory of their own, which every program may have. */
bool path_is_harmless_device(const char *path);
/* The mount that holds `path`: the last one at or above it, as seen with all mounts attached. NULL: the root.
 */
const struct policy_mount *policy_mount_over(const struct policy_spec *spec, const char *path);
