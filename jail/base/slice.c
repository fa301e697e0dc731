/* Short turns. Runs in the warden, the front, and PID 1 of jails.
 *
 * Whoever wakes is often put on the processor of whoever woke it. There it would wait until that one has had
 * its turn of some milliseconds, or has been taken apart by the kernel, although it would be done in a
 * hundredth of that. Raw system calls only, as in jail/child. */
#include "jail/base/slice.h"

#include <linux/sched.h>
#include <linux/sched/types.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHORT_SLICE_NS 100000 /* the shortest that there is */

void slice_shorten(void)
{
    struct sched_attr attr = {.size = sizeof attr};
    /* What somebody has chosen for us stays, and is handed on. */
    if (syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0) < 0 || attr.sched_policy != SCHED_NORMAL ||
        attr.sched_nice < 0) {
        return;
    }
    attr.sched_flags = SCHED_FLAG_RESET_ON_FORK;
    attr.sched_runtime = SHORT_SLICE_NS;
    syscall(SYS_sched_setattr, 0, &attr, 0);
}
