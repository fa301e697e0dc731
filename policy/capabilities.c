/* The kernel's capabilities, by number. All of them hold in the jail's own user namespace only; the reasons
 * say why some are dangerous even there. */
#include "policy/capabilities.h"

#include <linux/capability.h>
#include <stddef.h>
#include <string.h>

#include "config/textformat.h"
#include "jail/base/cleanup.h"

static const struct {
    const char *name, *danger;
} capabilities[] = {
    [CAP_CHOWN] = {"CAP_CHOWN", NULL},
    [CAP_DAC_OVERRIDE] = {"CAP_DAC_OVERRIDE", NULL},
    [CAP_DAC_READ_SEARCH] = {"CAP_DAC_READ_SEARCH", NULL},
    [CAP_FOWNER] = {"CAP_FOWNER", NULL},
    [CAP_FSETID] = {"CAP_FSETID", NULL},
    [CAP_KILL] = {"CAP_KILL", NULL},
    [CAP_SETGID] = {"CAP_SETGID", NULL},
    [CAP_SETUID] = {"CAP_SETUID", NULL},
    [CAP_SETPCAP] = {"CAP_SETPCAP", NULL},
    [CAP_LINUX_IMMUTABLE] = {"CAP_LINUX_IMMUTABLE", NULL},
    [CAP_NET_BIND_SERVICE] = {"CAP_NET_BIND_SERVICE", NULL},
    [CAP_NET_BROADCAST] = {"CAP_NET_BROADCAST", NULL},
    [CAP_NET_ADMIN] = {"CAP_NET_ADMIN",
                       "reaches netfilter and traffic control, where kernel exploits are found"},
    [CAP_NET_RAW] = {"CAP_NET_RAW", "reaches packet sockets, where kernel exploits are found"},
    [CAP_IPC_LOCK] = {"CAP_IPC_LOCK", NULL},
    [CAP_IPC_OWNER] = {"CAP_IPC_OWNER", NULL},
    [CAP_SYS_MODULE] = {"CAP_SYS_MODULE", "means nothing in a jail; whoever wants it wants out"},
    [CAP_SYS_RAWIO] = {"CAP_SYS_RAWIO", "means nothing in a jail; whoever wants it wants out"},
    [CAP_SYS_CHROOT] = {"CAP_SYS_CHROOT", "changes what paths mean"},
    [CAP_SYS_PTRACE] = {"CAP_SYS_PTRACE", "reads and writes PID 1 of the jail"},
    [CAP_SYS_PACCT] = {"CAP_SYS_PACCT", NULL},
    [CAP_SYS_ADMIN] = {"CAP_SYS_ADMIN",
                       "undoes the jail's mounts: everything that was read-only can be remounted"},
    [CAP_SYS_BOOT] = {"CAP_SYS_BOOT", "ends the jail's PID 1 in place of the program"},
    [CAP_SYS_NICE] = {"CAP_SYS_NICE", NULL},
    [CAP_SYS_RESOURCE] = {"CAP_SYS_RESOURCE", "raises resource limits of the jail"},
    [CAP_SYS_TIME] = {"CAP_SYS_TIME", NULL},
    [CAP_SYS_TTY_CONFIG] = {"CAP_SYS_TTY_CONFIG", NULL},
    [CAP_MKNOD] = {"CAP_MKNOD", NULL},
    [CAP_LEASE] = {"CAP_LEASE", NULL},
    [CAP_AUDIT_WRITE] = {"CAP_AUDIT_WRITE", NULL},
    [CAP_AUDIT_CONTROL] = {"CAP_AUDIT_CONTROL", NULL},
    [CAP_SETFCAP] = {"CAP_SETFCAP", NULL},
    [CAP_MAC_OVERRIDE] = {"CAP_MAC_OVERRIDE", NULL},
    [CAP_MAC_ADMIN] = {"CAP_MAC_ADMIN", NULL},
    [CAP_SYSLOG] = {"CAP_SYSLOG", NULL},
    [CAP_WAKE_ALARM] = {"CAP_WAKE_ALARM", NULL},
    [CAP_BLOCK_SUSPEND] = {"CAP_BLOCK_SUSPEND", NULL},
    [CAP_AUDIT_READ] = {"CAP_AUDIT_READ", NULL},
    [CAP_PERFMON] = {"CAP_PERFMON", NULL},
    [CAP_BPF] = {"CAP_BPF", NULL},
    [CAP_CHECKPOINT_RESTORE] = {"CAP_CHECKPOINT_RESTORE", NULL},
};
_Static_assert(ARRAY_SIZE(capabilities) == CAP_LAST_CAP + 1, "every capability has a row");

int capability_number(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(capabilities); i++) {
        if (strcmp(capabilities[i].name, name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

const char *capability_name(int number)
{
    return number >= 0 && number <= CAP_LAST_CAP ? capabilities[number].name : NULL;
}

const char *capability_danger(int number)
{
    return number >= 0 && number <= CAP_LAST_CAP ? capabilities[number].danger : NULL;
}

const char *capability_did_you_mean(const char *name)
{
    const char *names[ARRAY_SIZE(capabilities)];
    for (size_t i = 0; i < ARRAY_SIZE(capabilities); i++) {
        names[i] = capabilities[i].name;
    }
    return textformat_did_you_mean(name, names, ARRAY_SIZE(names));
}
