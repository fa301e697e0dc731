/* What the processor would speculate on across programs, turned off for the program and all that it starts,
 * for good. Child side: raw system calls only.
 *
 * The kernel offers each control where the processor needs it and the host has left it to programs; what is
 * off for the whole host, or what the processor does not do, is as good. */
#include "jail/child/step.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/prctl.h>

#include "jail/child/child.h"

static bool is_harmless(unsigned state)
{
    return state == PR_SPEC_NOT_AFFECTED || (state & (PR_SPEC_DISABLE | PR_SPEC_FORCE_DISABLE)) != 0;
}

/* 0 where it is off now, or was. */
static int force_off(struct child *child, unsigned long control)
{
    child->call = "PR_GET_SPECULATION_CTRL";
    int state = prctl(PR_GET_SPECULATION_CTRL, control, 0, 0, 0);
    if (state < 0) {
        return -errno;
    }
    /* Off for this process alone can be undone; off for the host has no such bit. */
    if (is_harmless((unsigned)state) && !((unsigned)state & PR_SPEC_PRCTL)) {
        return 0;
    }
    child->call = "PR_SET_SPECULATION_CTRL";
    return prctl(PR_SET_SPECULATION_CTRL, control, PR_SPEC_FORCE_DISABLE, 0, 0) < 0 ? -errno : 0;
}

/* A cookie that no other jail has. ENODEV: cores have one thread each. */
static int own_core(struct child *child)
{
    child->call = "PR_SCHED_CORE";
    int r =
        prctl(PR_SCHED_CORE, PR_SCHED_CORE_CREATE, 0, PR_SCHED_CORE_SCOPE_THREAD_GROUP, 0) < 0 ? -errno : 0;
    return r == -ENODEV ? 0 : r;
}

/* What a kernel, a processor or the host's administrator answers that does not offer it. */
static bool is_not_offered(int r)
{
    return r == -ENXIO || r == -ENODEV || r == -EPERM || r == -EINVAL;
}

static int unless_offered(enum jail_speculation how, int r)
{
    return how == JAIL_SPECULATION_IF_OFFERED && is_not_offered(r) ? 0 : r;
}

int step_SPECULATION(struct child *child, const struct jail_step *step)
{
    int r = 0;
    if (step->speculation.store_bypass != JAIL_SPECULATION_LEAVE) {
        r = unless_offered(step->speculation.store_bypass, force_off(child, PR_SPEC_STORE_BYPASS));
    }
    if (r == 0 && step->speculation.indirect_branch != JAIL_SPECULATION_LEAVE) {
        r = unless_offered(step->speculation.indirect_branch, force_off(child, PR_SPEC_INDIRECT_BRANCH));
    }
    if (r == 0 && step->speculation.core_sharing != JAIL_SPECULATION_LEAVE) {
        r = unless_offered(step->speculation.core_sharing, own_core(child));
    }
    return r;
}
