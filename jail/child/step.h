/* The steps of a plan, one function each; steps.def says what each does. They return 0 or -errno, and the
 * parent writes the sentence. Between clone and exec. */
#pragma once

#include "jail/plan/plan.h"

struct child;

/* Gives PID 1 a procfs of its own, where the kernel does: `child->proc`. */
void step_mount_own_proc(struct child *child);

#define X(name, word, where, doc) int step_##name(struct child *child, const struct jail_step *step);
#include "jail/plan/steps.def"
#undef X
