/* Rows of `immure check`: what confines this very process, and what it was given. */
#include "server/probe/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/resources/cgroup_own.h"

void probe_cgroup(const struct probe *probe, struct probe_result *ret)
{
    (void)probe;
    struct err err = {0};
    if (jail_cgroup_probe(&err) == 0) {
        probe_ok(ret, "memory, pids and cpu are delegated to us");
    } else {
        probe_fail(ret, PROBE_MISSING, err.text,
                   "with cgroup REQUIRED nothing starts; with BEST_EFFORT limits are enforced by rlimits and "
                   "by watching",
                   "systemd: Delegate=yes in the unit, or `systemd-run --user --scope -p Delegate=yes ...`; "
                   "containers: a "
                   "writable cgroup2 mount in a cgroup namespace of its own; or choose BEST_EFFORT");
    }
}

static bool has_capability(unsigned number)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    return syscall(SYS_capget, &header, data) == 0 && (data[number / 32].effective >> (number % 32) & 1);
}

void probe_identity(const struct probe *probe, struct probe_result *ret)
{
    (void)probe;
    bool capable = has_capability(CAP_SYS_ADMIN) && has_capability(CAP_SETUID) &&
                   has_capability(CAP_SETGID) && has_capability(CAP_CHOWN);
    if (capable) {
        probe_ok(ret, "uid %u with capabilities: every concurrent jail gets an outer uid of its own",
                 geteuid());
    } else if (geteuid() != 0) {
        probe_ok(ret, "uid %u without capabilities: outside, every jail is this user", geteuid());
    } else {
        probe_fail(ret, PROBE_MISSING, "uid 0 without CAP_SYS_ADMIN, CAP_SETUID, CAP_SETGID and CAP_CHOWN",
                   "a jail would be root outside", "run as an ordinary user, which needs no capability");
    }
}

void probe_groups(const struct probe *probe, struct probe_result *ret)
{
    (void)probe;
    int n = getgroups(0, NULL);
    bool dropped = has_capability(CAP_SETGID) && has_capability(CAP_SYS_ADMIN);
    gid_t only;
    if (n <= 0 || dropped || (n == 1 && getgroups(1, &only) == 1 && only == getegid())) {
        probe_ok(ret, dropped ? "jails drop them" : "there are none");
        return;
    }
    char found[64];
    snprintf(found, sizeof found, "%d besides our own", n);
    probe_fail(ret, PROBE_WARN, found,
               "an ordinary user cannot drop them, so files that a policy binds are open to jobs as far as "
               "these groups go",
               "start the server without them (systemd: SupplementaryGroups=; setpriv --clear-groups)");
}

void probe_no_new_privs(const struct probe *probe, struct probe_result *ret)
{
    (void)probe;
    probe_ok(ret, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? "set" : "unset; the server sets it");
}

void probe_own_seccomp(const struct probe *probe, struct probe_result *ret)
{
    (void)probe;
    CLEANUP(buf_free) struct buf status = BUF_INIT;
    int r = io_read_file_at(AT_FDCWD, "/proc/self/status", 1 << 16, &status);
    const char *line = r == 0 ? strstr(status.data, "\nSeccomp:") : NULL;
    if (!line) {
        probe_fail(ret, PROBE_WARN, "/proc/self/status does not tell", "a filter may be around us",
                   "mount /proc");
    } else if (strtol(line + strlen("\nSeccomp:"), NULL, 10) == 2) {
        probe_fail(ret, PROBE_WARN, "a filter is in force",
                   "what it forbids is forbidden to jobs too, without being named in denied_syscalls",
                   "nothing, if the rows below are OK; else loosen the container's seccomp profile");
    } else {
        probe_ok(ret, "none");
    }
}

void probe_apparmor(const struct probe *probe, struct probe_result *ret)
{
    (void)probe;
    CLEANUP(buf_free) struct buf profile = BUF_INIT;
    if (access("/sys/module/apparmor", F_OK) < 0 ||
        (io_read_file_at(AT_FDCWD, "/proc/self/attr/apparmor/current", 4096, &profile) < 0 &&
         io_read_file_at(AT_FDCWD, "/proc/self/attr/current", 4096, &profile) < 0) ||
        profile.len == 0) {
        probe_ok(ret, "inactive");
        return;
    }
    profile.data[strcspn(profile.data, "\n")] = '\0';
    if (strncmp(profile.data, "unconfined", strlen("unconfined")) == 0) {
        probe_ok(ret, "unconfined");
    } else {
        probe_fail(
            ret, PROBE_WARN, profile.data,
            "the profile may forbid mounts and user namespaces, to us and to jobs",
            "nothing, if the rows below are OK; else a profile with `userns,`, `mount,` and `pivot_root,`");
    }
}

void probe_lsm(const struct probe *probe, struct probe_result *ret)
{
    (void)probe;
    CLEANUP(buf_free) struct buf list = BUF_INIT;
    bool readable = io_read_file_at(AT_FDCWD, "/sys/kernel/security/lsm", 4096, &list) == 0 && list.len > 0;
    probe_ok(ret, "%s", readable ? list.data : "unknown (securityfs is hidden from us)");
}
