/* The half of jail_plan_check() that is about all steps together. */
#pragma once

#include <stdint.h>

struct err;
struct jail_plan;

/* Of a plan whose steps are whole, each for itself: every reference lies inside the arena. 0 or -EINVAL. */
int plan_check_order(const struct jail_plan *plan, struct err *reterr);

/* Says `words` about the step at `index`; beyond the last one: about the plan. -EINVAL. */
int plan_broken(const struct jail_plan *plan, uint32_t index, const char *words, struct err *reterr);
