/* Rows of `immure check`: what the kernel can do, each tried for real, since a container's filter or a sysctl
 * may take away what the version promises. */
#include "server/probe/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/io.h"
#include "jail/resources/landlock.h"
#include "server/host/host.h"

#define UPDATE_KERNEL "run a kernel of version 5.15 or newer"
#define CONTAINER_FILTER                                                                                     \
    "if this is a container, its seccomp profile forbids the call: run it with a newer runtime or with "     \
    "a profile that allows what user namespaces need"

void probe_kernel(const struct probe *probe, struct probe_result *ret)
{
    (void)probe;
    struct utsname name;
    unsigned major = 0, minor = 0;
    uname(&name);
    sscanf(name.release, "%u.%u", &major, &minor);
    if (major > 5 || (major == 5 && minor >= 15)) {
        probe_ok(ret, "Linux %s", name.release);
    } else {
        probe_fail(ret, PROBE_MISSING, name.release, "jails need Linux 5.15", UPDATE_KERNEL);
    }
}

/* Arguments that clone3 refuses after it has understood them: nothing is ever cloned. */
void probe_clone3(const struct probe *probe, struct probe_result *ret)
{
    (void)probe;
    struct clone_args args = {.flags = CLONE_INTO_CGROUP, .exit_signal = 0, .cgroup = INT_MAX};
    long r = syscall(SYS_clone3, &args, sizeof args);
    if (r == 0) {
        _exit(0);
    }
    int code = errno;
    if (r < 0 && code == EBADF) {
        probe_ok(ret, "with CLONE_INTO_CGROUP");
    } else {
        probe_fail(ret, PROBE_MISSING, r < 0 ? strerror(code) : "an odd answer", "no jail can be made",
                   CONTAINER_FILTER);
    }
}

void probe_pidfd(const struct probe *probe, struct probe_result *ret)
{
    (void)probe;
    CLEANUP(fd_closep) int fd = pidfd_open(getpid(), 0);
    if (fd >= 0) {
        probe_ok(ret, "pidfd_open");
    } else {
        probe_fail(ret, PROBE_MISSING, strerror(errno), "the end of a jail could not be told safely",
                   CONTAINER_FILTER);
    }
}

void probe_seccomp_notify(const struct probe *probe, struct probe_result *ret)
{
    (void)probe;
    uint32_t action = SECCOMP_RET_USER_NOTIF;
    if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0) {
        probe_ok(ret, "SECCOMP_RET_USER_NOTIF");
    } else {
        probe_fail(ret, PROBE_MISSING, strerror(errno),
                   "denied system calls cannot be named; policies that say NOTIFY fail",
                   UPDATE_KERNEL " with CONFIG_SECCOMP_FILTER");
    }
}

/* Who may enter its own mount namespace again gets the root of that. */
static int try_real_root(unsigned long argument)
{
    (void)argument;
    struct statx ours, real;
    const unsigned wanted = STATX_INO | STATX_MNT_ID;
    CLEANUP(fd_closep) int self = pidfd_open(getpid(), 0);
    if (statx(AT_FDCWD, "/", 0, wanted, &ours) < 0 || self < 0 || setns(self, CLONE_NEWNS) < 0 ||
        statx(AT_FDCWD, "/", 0, wanted, &real) < 0 || !(real.stx_mask & STATX_MNT_ID)) {
        return 0;
    }
    return ours.stx_ino == real.stx_ino && ours.stx_mnt_id == real.stx_mnt_id ? 0 : -EXDEV;
}

static bool is_chroot(void)
{
    return host_is_chroot() || probe_in_child(try_real_root, 0) == -EXDEV;
}

void probe_chroot(const struct probe *probe, struct probe_result *ret)
{
    (void)probe;
    if (is_chroot()) {
        probe_fail(ret, PROBE_MISSING, "a chroot, where the kernel makes no user namespaces",
                   "no jail can be made", HOST_CHROOT_REMEDY);
    } else {
        probe_ok(ret, "that of our mount namespace");
    }
}

/* What forbids a call that the kernel has. Only root can tell every chroot. */
static const char *forbids(int code)
{
    return code != EPERM    ? CONTAINER_FILTER
           : is_chroot()    ? HOST_CHROOT_REMEDY
           : geteuid() == 0 ? CONTAINER_FILTER
                            : CONTAINER_FILTER "; if it is a chroot: " HOST_CHROOT_REMEDY;
}

static int try_unshare(unsigned long flags)
{
    return unshare((int)(flags | CLONE_NEWUSER)) < 0 ? -errno : 0;
}

/* A sysctl that closes user namespaces, and the value that opens them. */
struct gate {
    const char *path;
    uint64_t closed;
    const char *remedy;
};

static const struct gate gates[] = {
    {"/proc/sys/user/max_user_namespaces", 0, "sysctl -w user.max_user_namespaces=15000"},
    {"/proc/sys/kernel/unprivileged_userns_clone", 0, "sysctl -w kernel.unprivileged_userns_clone=1"},
    {"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 1,
     "load an AppArmor profile that allows immure userns (a file in /etc/apparmor.d with `userns,`), or "
     "sysctl -w "
     "kernel.apparmor_restrict_unprivileged_userns=0"},
};

void probe_user_namespace(const struct probe *probe, struct probe_result *ret)
{
    int r = probe_in_child(try_unshare, probe->argument);
    if (r == 0) {
        probe_ok(ret, "can be made");
        return;
    }
    char found[256];
    snprintf(found, sizeof found, "%s", strerror(-r));
    const char *remedy = forbids(-r);
    for (size_t i = 0; i < ARRAY_SIZE(gates); i++) {
        uint64_t value;
        if (io_read_u64_at(AT_FDCWD, gates[i].path, &value) == 0 && value == gates[i].closed) {
            snprintf(found, sizeof found, "%s; %s is %" PRIu64, strerror(-r), gates[i].path, value);
            remedy = gates[i].remedy;
            break;
        }
    }
    probe_fail(ret, PROBE_MISSING, found, "no jail can be made", remedy);
}

void probe_namespace(const struct probe *probe, struct probe_result *ret)
{
    int r = probe_in_child(try_unshare, probe->argument);
    if (r == 0) {
        probe_ok(ret, "can be made");
    } else {
        probe_fail(ret, PROBE_MISSING, strerror(-r), "policies that name this namespace fail",
                   r == -ENOSPC ? "raise the limit of its kind in /proc/sys/user" : forbids(-r));
    }
}

/* A detached tmpfs, read-only recursively through mount_setattr. */
static int try_mount_api(unsigned long argument)
{
    (void)argument;
    int r = try_unshare(CLONE_NEWNS);
    if (r < 0) {
        return r;
    }
    int fs = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);
    if (fs < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0) {
        return -errno;
    }
    int mount_fd = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, 0);
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    if (mount_fd < 0 ||
        syscall(SYS_mount_setattr, mount_fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr) < 0) {
        return -errno;
    }
    return 0;
}

void probe_mount_api(const struct probe *probe, struct probe_result *ret)
{
    (void)probe;
    int r = probe_in_child(try_mount_api, 0);
    if (r == 0) {
        probe_ok(ret, "fsopen, fsmount, mount_setattr");
    } else {
        probe_fail(ret, PROBE_MISSING, strerror(-r), "no file system for a jail can be made",
                   r == -ENOSYS ? UPDATE_KERNEL "; " CONTAINER_FILTER : forbids(-r));
    }
}

static int try_pivot_root(unsigned long argument)
{
    (void)argument;
    int r = try_unshare(CLONE_NEWNS);
    if (r < 0) {
        return r;
    }
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", "/proc", "tmpfs", 0, "size=4k,nr_inodes=4") < 0 || chdir("/proc") < 0 ||
        syscall(SYS_pivot_root, ".", ".") < 0) {
        return -errno;
    }
    return 0;
}

void probe_pivot_root(const struct probe *probe, struct probe_result *ret)
{
    (void)probe;
    int r = probe_in_child(try_pivot_root, 0);
    if (r == 0) {
        probe_ok(ret, "works");
    } else {
        probe_fail(
            ret, PROBE_MISSING, strerror(-r), "a jail could not leave the host's root",
            r == -EINVAL
                ? "our root is not a mount of its own (a chroot or an initramfs): start from a real root"
                : forbids(-r));
    }
}

static int try_proc_in_pid_namespace(unsigned long argument)
{
    (void)argument;
    int fs = (int)syscall(SYS_fsopen, "proc", FSOPEN_CLOEXEC);
    return fs < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0 ? -errno : 0;
}

static int try_proc(unsigned long argument)
{
    int r = try_unshare(CLONE_NEWNS | CLONE_NEWPID);
    return r < 0 ? r : probe_in_child(try_proc_in_pid_namespace, argument);
}

void probe_proc(const struct probe *probe, struct probe_result *ret)
{
    (void)probe;
    int r = probe_in_child(try_proc, 0);
    if (r == 0) {
        probe_ok(ret, "a new one can be mounted");
    } else {
        probe_fail(ret, PROBE_WARN, strerror(-r),
                   "jobs get no /proc; a policy whose proc mount is required instead of optional fails",
                   r == -EPERM && is_chroot()
                       ? HOST_CHROOT_REMEDY
                       : "the host's own /proc is masked in part, as containers do: give the container an "
                         "unmasked one "
                         "(docker: --security-opt systempaths=unconfined; Kubernetes: procMount: Unmasked)");
    }
}

/* As the root of a job in an image: layers, and nothing to write to above them. */
static int try_overlay(unsigned long argument)
{
    (void)argument;
    int r = try_unshare(CLONE_NEWNS);
    if (r < 0) {
        return r;
    }
    CLEANUP(fd_closep) int context = (int)syscall(SYS_fsopen, "overlay", FSOPEN_CLOEXEC);
    return context < 0 ||
                   syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, "lowerdir", "/usr/bin:/usr/lib", 0) <
                       0 ||
                   syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0
               ? -errno
               : 0;
}

void probe_landlock(const struct probe *probe, struct probe_result *ret)
{
    (void)probe;
    uint32_t abi = landlock_abi();
    if (abi > 0) {
        probe_ok(ret, "version %u: jails are behind it", abi);
        return;
    }
    probe_fail(
        ret, PROBE_WARN, "the kernel has none, or an old one",
        "what a program may write to is held by its mounts alone, and it may signal PID 1 of its jail",
        "Linux 5.19 or newer with CONFIG_SECURITY_LANDLOCK, and landlock among lsm= on its command line");
}

void probe_overlay(const struct probe *probe, struct probe_result *ret)
{
    (void)probe;
    int r = probe_in_child(try_overlay, 0);
    if (r == 0) {
        probe_ok(ret, "can be mounted in a user namespace");
    } else {
        probe_fail(ret, PROBE_WARN, strerror(-r), "jobs in images fail; all others work",
                   r == -ENODEV ? "modprobe overlay, or a kernel with CONFIG_OVERLAY_FS" : forbids(-r));
    }
}
