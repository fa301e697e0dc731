/* The names of the kernel's capabilities. Runs wherever a policy is read or a plan is printed. */
#include "jail/base/capability.h"

#include <linux/capability.h>
#include <stddef.h>
#include <string.h>

#include "jail/base/cleanup.h"

static const char *const names[] = {
#define X(name) [name] = #name
    X(CAP_CHOWN),
    X(CAP_DAC_OVERRIDE),
    X(CAP_DAC_READ_SEARCH),
    X(CAP_FOWNER),
    X(CAP_FSETID),
    X(CAP_KILL),
    X(CAP_SETGID),
    X(CAP_SETUID),
    X(CAP_SETPCAP),
    X(CAP_LINUX_IMMUTABLE),
    X(CAP_NET_BIND_SERVICE),
    X(CAP_NET_BROADCAST),
    X(CAP_NET_ADMIN),
    X(CAP_NET_RAW),
    X(CAP_IPC_LOCK),
    X(CAP_IPC_OWNER),
    X(CAP_SYS_MODULE),
    X(CAP_SYS_RAWIO),
    X(CAP_SYS_CHROOT),
    X(CAP_SYS_PTRACE),
    X(CAP_SYS_PACCT),
    X(CAP_SYS_ADMIN),
    X(CAP_SYS_BOOT),
    X(CAP_SYS_NICE),
    X(CAP_SYS_RESOURCE),
    X(CAP_SYS_TIME),
    X(CAP_SYS_TTY_CONFIG),
    X(CAP_MKNOD),
    X(CAP_LEASE),
    X(CAP_AUDIT_WRITE),
    X(CAP_AUDIT_CONTROL),
    X(CAP_SETFCAP),
    X(CAP_MAC_OVERRIDE),
    X(CAP_MAC_ADMIN),
    X(CAP_SYSLOG),
    X(CAP_WAKE_ALARM),
    X(CAP_BLOCK_SUSPEND),
    X(CAP_AUDIT_READ),
    X(CAP_PERFMON),
    X(CAP_BPF),
    X(CAP_CHECKPOINT_RESTORE),
#undef X
};
_Static_assert(ARRAY_SIZE(names) == CAP_LAST_CAP + 1, "every capability has a name");

const char *capability_name(unsigned number)
{
    return number < ARRAY_SIZE(names) ? names[number] : NULL;
}

int capability_number(const char *name)
{
    for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
        if (strcmp(names[i], name) == 0) {
            return (int)i;
        }
    }
    return -1;
}
