/* One loop applies a plan's steps. Runs in PID 1 and in the program's process, between clone and exec. */
#include "jail/child/apply.h"

#include "jail/child/child.h"
#include "jail/child/step.h"

typedef int (*step_fn)(struct child *child, const struct jail_step *step);

static const step_fn step_functions[JAIL_STEP_COUNT] = {
#define X(name, word, where, doc) [JAIL_STEP_##name] = step_##name,
#include "jail/plan/steps.def"
#undef X
};

int child_apply_step(struct child *child, const struct jail_step *step)
{
    child->call = "";
    return step_functions[step->kind](child, step);
}

int child_apply(struct child *child, uint32_t *index, enum jail_step_kind stop)
{
    const struct jail_plan *plan = child->plan;
    for (; *index < plan->n_steps; (*index)++) {
        const struct jail_step *step = &plan->steps[*index];
        if (step->kind == stop) {
            break;
        }
        int r = child_apply_step(child, step);
        if (r < 0) {
            child_forget_parent(child);
            return r;
        }
    }
    child_forget_parent(child);
    return 0;
}
