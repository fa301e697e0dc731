/* The steps of a plan, one function each; steps.def says what each does. They return 0 or -errno, and the
 * parent writes the sentence. Between clone and exec. */
#pragma once

#include <stdbool.h>

#include "jail/plan/plan.h"

struct child;

/* Gives PID 1 a procfs of its own, where the kernel does: `child->proc`. */
void step_mount_own_proc(struct child *child);

/* Where a program that is named without a '/' is looked for. */
const char *step_search_path(char *const *envp);
/* The next place there, into `full`, which is empty where it is too long. False: there are no more. */
bool step_next_on_path(const char **from, const char *name, char *full);

#define X(name, word, where, doc) int step_##name(struct child *child, const struct jail_step *step);
#include "jail/plan/steps.def"
#undef X
