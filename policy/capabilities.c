/* What a policy says about the kernel's capabilities. All of them hold in the jail's own user namespace only;
 * the reasons say why some are dangerous even there. */
#include "policy/capabilities.h"

#include <linux/capability.h>
#include <stddef.h>

static const char *const dangers[CAP_LAST_CAP + 1] = {
    [CAP_NET_ADMIN] = "reaches netfilter and traffic control, where kernel exploits are found",
    [CAP_NET_RAW] = "reaches packet sockets, where kernel exploits are found",
    [CAP_SYS_MODULE] = "means nothing in a jail; whoever wants it wants out",
    [CAP_SYS_RAWIO] = "means nothing in a jail; whoever wants it wants out",
    [CAP_SYS_CHROOT] = "changes what paths mean",
    [CAP_SYS_PTRACE] = "reads and writes PID 1 of the jail",
    [CAP_SYS_ADMIN] = "undoes the jail's mounts: everything that was read-only can be remounted",
    [CAP_SYS_BOOT] = "ends the jail's PID 1 in place of the program",
    [CAP_SYS_RESOURCE] = "raises resource limits of the jail",
};

const char *capability_danger(int number)
{
    return number >= 0 && number <= CAP_LAST_CAP ? dangers[number] : NULL;
}
