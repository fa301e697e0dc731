/* What the kernel offers of Landlock. Runs in the parent, which plans by it; the step itself is
 * jail/child/step_landlock.c. */
#include "jail/resources/landlock.h"

#include <linux/landlock.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail/plan/plan.h"

uint32_t landlock_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    return abi < 2 ? 0 : abi > (long)JAIL_LANDLOCK_NEWEST ? JAIL_LANDLOCK_NEWEST : (uint32_t)abi;
}
