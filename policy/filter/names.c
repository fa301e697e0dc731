/* What the kernel and a policy call things: system calls and their numbers, the architecture, what a filter
 * returns for an action. With policy/filter/seccomp.c the part of the program that knows libseccomp. Runs in
 * the warden and on the command line, never in a jail. */
#include "policy/filter/names.h"

#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "jail/base/cleanup.h"
#include "policy/filter/errno_names.h"

/* Calls that are younger than the oldest libseccomp we build with. Since Linux 5.1 a new call has the same
 * distance from its neighbours on every architecture, so futex_waitv (5.16) is the anchor. */
static const struct young_call {
    const char *name;
    int behind_futex_waitv;
} young_calls[] = {
    {"set_mempolicy_home_node", 1},
    {"cachestat", 2},
    {"fchmodat2", 3},
    {"map_shadow_stack", 4},
    {"futex_wake", 5},
    {"futex_wait", 6},
    {"futex_requeue", 7},
    {"statmount", 8},
    {"listmount", 9},
    {"lsm_get_self_attr", 10},
    {"lsm_set_self_attr", 11},
    {"lsm_list_modules", 12},
    {"mseal", 13},
    {"setxattrat", 14},
    {"getxattrat", 15},
    {"listxattrat", 16},
    {"removexattrat", 17},
    {"open_tree_attr", 18},
    {"file_getattr", 19},
    {"file_setattr", 20},
};

uint32_t policy_native_arch(void)
{
    return seccomp_arch_native();
}

const char *policy_native_architecture(void)
{
    switch (seccomp_arch_native()) {
    case SCMP_ARCH_X86_64:
        return "x86_64";
    case SCMP_ARCH_AARCH64:
        return "aarch64";
    case SCMP_ARCH_RISCV64:
        return "riscv64";
    case SCMP_ARCH_PPC64LE:
        return "ppc64le";
    case SCMP_ARCH_S390X:
        return "s390x";
    default:
        return "unknown";
    }
}

int policy_syscall_number(const char *name, bool *ret_known)
{
    int nr = seccomp_syscall_resolve_name_arch(SCMP_ARCH_NATIVE, name);
    for (size_t i = 0; nr == __NR_SCMP_ERROR && i < ARRAY_SIZE(young_calls); i++) {
        if (strcmp(young_calls[i].name, name) == 0) {
            nr = SYS_futex_waitv + young_calls[i].behind_futex_waitv;
        }
    }
    if (ret_known) {
        *ret_known = nr != __NR_SCMP_ERROR;
    }
    /* libseccomp's pseudo numbers for calls of other architectures are below -1. */
    return nr >= 0 ? nr : -1;
}

bool policy_syscall_is_of(const char *architecture, const char *name)
{
    return seccomp_syscall_resolve_name_arch(seccomp_arch_resolve_name(architecture), name) >= 0;
}

const char *policy_syscall_name(uint32_t arch, int nr, char *ret, size_t size)
{
    /* 0 would be libseccomp's word for the native one. */
    char *name = nr >= 0 && arch != 0 ? seccomp_syscall_resolve_num_arch(arch, nr) : NULL;
    if (name) {
        snprintf(ret, size, "%s", name);
        free(name);
        return ret;
    }
    for (size_t i = 0; i < ARRAY_SIZE(young_calls); i++) {
        if (arch == seccomp_arch_native() && nr == SYS_futex_waitv + young_calls[i].behind_futex_waitv) {
            snprintf(ret, size, "%s", young_calls[i].name);
            return ret;
        }
    }
    snprintf(ret, size, "syscall_%d", nr);
    return ret;
}

uint32_t seccomp_answer(enum seccomp_action_kind kind, const char *errno_name)
{
    switch (kind) {
    case ACTION_ALLOW:
        return SCMP_ACT_ALLOW;
    case ACTION_ERRNO:
        return SCMP_ACT_ERRNO(policy_errno_number(errno_name));
    case ACTION_KILL_PROCESS:
        return SCMP_ACT_KILL_PROCESS;
    case ACTION_LOG:
        return SCMP_ACT_LOG;
    case ACTION_NOTIFY:
    case ACTION_COUNT:
        return SCMP_ACT_NOTIFY;
    }
    return SCMP_ACT_KILL_PROCESS;
}

const char *policy_no_such(const char *what, const char *near, char ret[POLICY_NO_SUCH_MAX])
{
    snprintf(ret, POLICY_NO_SUCH_MAX, "no such %s%s%s%s", what, near ? "; did you mean " : "",
             near ? near : "", near ? "?" : "");
    return ret;
}
