/* The loop that makes a jail of a plan. Between clone and exec. */
#pragma once

#include <stdint.h>

#include "jail/plan/plan.h"

struct child;

/* Applies steps from `*index` on, up to and without the first one of kind `stop` (JAIL_STEP_COUNT: to the
 * end). `*index` is where it stopped or failed. */
int child_apply(struct child *child, uint32_t *index, enum jail_step_kind stop);

/* Applies one step. */
int child_apply_step(struct child *child, const struct jail_step *step);
