/* What a decoded policy must keep before anything is made of it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct err;
struct policy_mount;
struct policy_spec;
struct source_position;

/* ERR_CONFIG with a place of the policy's file as item: "mount /proc: ...", "limits: ...". Everything but the
 * filter.
 */
int policy_check_spec(const struct policy_spec *spec, struct err *reterr);
/* The part about mounts and the working directory. */
int policy_check_mounts(const struct policy_spec *spec, struct err *reterr);

/* Fails with ERR_CONFIG for this policy, and for this place in its file; NULL: for the file as a whole. */
int policy_bad(const struct policy_spec *spec, const struct source_position *at, struct err *reterr,
               const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* "no such WHAT; did you mean NEAR?", or without a question where `near` is NULL. */
#define POLICY_NO_SUCH_MAX 160
const char *policy_no_such(const char *what, const char *near, char ret[POLICY_NO_SUCH_MAX]);

/* NULL if `path` is absolute, in its shortest spelling and not "/"; else the sentence that says what is
 * wrong. */
const char *path_problem(const char *path);
/* Both in their shortest spelling. */
bool path_is_below(const char *path, const char *above);
bool path_is_at_or_below(const char *path, const char *above);
/* The mount that holds `path`: the last one at or above it, as seen with all mounts attached. NULL: the root.
 */
const struct policy_mount *policy_mount_over(const struct policy_spec *spec, const char *path);
