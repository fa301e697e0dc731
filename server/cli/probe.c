/* The table of `immure check`, and what its rows share. Runs in the process of the command line; whatever
 * changes namespaces or mounts does so in a forked child. */
#include "server/cli/probe.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/cleanup.h"

/* From the ground up. The cgroup row is last: it is the one that a host lacks most often, and the only one
 * that BEST_EFFORT can do without. */
const struct probe probes[] = {
    {"kernel", probe_kernel, 0},
    {"identity", probe_identity, 0},
    {"supplementary groups", probe_groups, 0},
    {"no_new_privs", probe_no_new_privs, 0},
    {"seccomp around us", probe_own_seccomp, 0},
    {"AppArmor", probe_apparmor, 0},
    {"security modules", probe_lsm, 0},
    {"clone3", probe_clone3, 0},
    {"pidfd", probe_pidfd, 0},
    {"seccomp notification", probe_seccomp_notify, 0},
    {"user namespace", probe_user_namespace, CLONE_NEWUSER},
    {"mount namespace", probe_namespace, CLONE_NEWNS},
    {"pid namespace", probe_namespace, CLONE_NEWPID},
    {"net namespace", probe_namespace, CLONE_NEWNET},
    {"ipc namespace", probe_namespace, CLONE_NEWIPC},
    {"uts namespace", probe_namespace, CLONE_NEWUTS},
    {"cgroup namespace", probe_namespace, CLONE_NEWCGROUP},
    {"mount API", probe_mount_api, 0},
    {"pivot_root", probe_pivot_root, 0},
    {"procfs", probe_proc, 0},
    {"overlayfs", probe_overlay, 0},
    {"Landlock", probe_landlock, 0},
    {"cgroup v2", probe_cgroup, 0},
    {NULL, NULL, 0},
};

const char *probe_status_to_string(enum probe_status status)
{
    static const char *const names[] = {
        [PROBE_OK] = "OK", [PROBE_WARN] = "WARN", [PROBE_MISSING] = "MISSING"};
    return names[status];
}

void probe_ok(struct probe_result *ret, const char *found, ...)
{
    va_list ap;
    ret->status = PROBE_OK;
    va_start(ap, found);
    vsnprintf(ret->found, sizeof ret->found, found, ap);
    va_end(ap);
}

void probe_fail(struct probe_result *ret, enum probe_status status, const char *found, const char *means,
                const char *remedy)
{
    ret->status = status;
    snprintf(ret->found, sizeof ret->found, "%s", found);
    snprintf(ret->means, sizeof ret->means, "%s", means);
    snprintf(ret->remedy, sizeof ret->remedy, "%s", remedy);
}

int probe_in_child(int (*fn)(unsigned long argument), unsigned long argument)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        return -errno;
    }
    if (pid == 0) {
        int r = fn(argument);
        _exit(r < 0 && r > -256 ? -r : r == 0 ? 0 : 255);
    }
    int status;
    if (waitpid(pid, &status, 0) < 0) {
        return -errno;
    }
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -EINTR;
}
