/* What the host lets us make jails with. Runs in the warden, `immure run` and `immure check`, before the
 * first jail. */
#include "server/host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/resources/cgroup_tree.h"
#include "jail/resources/idmap.h"
#include "jail/resources/landlock.h"
#include "policy/policy.h"
#include "server/host/outer_ids.h"

/* A host without cgroups: fatal or not, but never unsaid. */
static int without_cgroups(const struct host_options *options, const struct err *cgroup_err,
                           struct host *host, struct err *reterr)
{
    if (options->cgroup_mode == CGROUP_REQUIRED) {
        return err_set(reterr, cgroup_err->kind, cgroup_err->code, cgroup_err->item, "%.380s%s%s",
                       cgroup_err->text, cgroup_err->kind == ERR_HOST ? "; or choose less: " : "",
                       cgroup_err->kind == ERR_HOST ? options->best_effort : "");
    }
    host->cgroups = NULL;
    snprintf(host->degraded, sizeof host->degraded, "%s", cgroup_err->text);
    return 0;
}

static bool same_place(const char *path, const char *other)
{
    struct statx a, b;
    const unsigned wanted = STATX_INO | STATX_MNT_ID;
    return statx(AT_FDCWD, path, 0, wanted, &a) == 0 && statx(AT_FDCWD, other, 0, wanted, &b) == 0 &&
           a.stx_ino == b.stx_ino && a.stx_mnt_id == b.stx_mnt_id;
}

bool host_is_chroot(void)
{
    struct statx root;
    bool known = statx(AT_FDCWD, "/", 0, STATX_INO, &root) == 0;
    if (known && root.stx_attributes_mask & ~root.stx_attributes & STATX_ATTR_MOUNT_ROOT) {
        return true;
    }
    return same_place("/proc/self/ns/mnt", "/proc/1/ns/mnt") && access("/proc/1/root/", X_OK) == 0 &&
           !same_place("/proc/1/root/", "/");
}

int host_open(const struct host_options *options, struct host *ret, struct err *reterr)
{
    struct host host = {.landlock_abi = landlock_abi()};
    uint32_t base;
    if (host_is_chroot()) {
        return err_set(reterr, ERR_HOST, EPERM, NULL,
                       "we are in a chroot, where the kernel makes no user namespaces, and so no "
                       "jails; " HOST_CHROOT_REMEDY);
    }
    int r = outer_ids_take(options->outer_uid_base, options->n_outer_uids, options->outer_uids_fixed, &base,
                           &host.outer_uids_told, reterr);
    if (r == 0 && options->sub_ids && geteuid() != 0) {
        r = sub_ids_enter(base - 1, options->n_outer_uids + 1, host.why_one_uid, reterr);
    }
    r = r < 0 ? r : idmap_pool_new(base, options->n_outer_uids, &host.ids, reterr);
    if (r < 0) {
        return r;
    }
    host.privileged = idmap_pool_mode(host.ids) == IDMAP_RANGE;
    struct err cgroup_err = {0};
    r = jail_cgroup_tree_open(&host.cgroups, &host.leftovers_swept, &cgroup_err);
    if (r < 0) {
        r = without_cgroups(options, &cgroup_err, &host, reterr);
    }
    if (r < 0) {
        host_close(&host);
        return r;
    }
    *ret = host;
    return 0;
}

void host_close(struct host *host)
{
    jail_cgroup_tree_free(host->cgroups);
    idmap_pool_free(host->ids);
    *host = (struct host){0};
}

/* What the warden still needs as root, and why. */
static const struct {
    unsigned number;
    const char *reason;
} kept_capabilities[] = {
    {CAP_SYS_ADMIN, "namespaces, mounts and cgroups"},
    {CAP_SETUID, "uid_map of a jail; becoming the front's uid"},
    {CAP_SETGID, "gid_map of a jail; becoming the front's gid"},
    {CAP_SETPCAP, "emptying the bounding set of the front"},
    {CAP_CHOWN, "the scratch belongs to the jail's outer uid"},
    {CAP_DAC_OVERRIDE, "files in the scratch, cgroup files"},
    {CAP_DAC_READ_SEARCH, "reading output files of any mode"},
    {CAP_FOWNER, "modes of files in the scratch"},
    {CAP_KILL, "ending jails and fronts, which have other uids"},
    {CAP_SYS_PTRACE, "the memory watch reads /proc of jails"},
    {CAP_SYS_RESOURCE, "rlimits of a jail above our own"},
    {CAP_NET_ADMIN, "loopback of a jail's network namespace"},
};

int host_drop_privileges(const struct host *host, struct err *reterr)
{
    if (!host->privileged) {
        return 0;
    }
    uint64_t keep = 0;
    for (size_t i = 0; i < ARRAY_SIZE(kept_capabilities); i++) {
        keep |= 1ull << kept_capabilities[i].number;
    }
    for (unsigned number = 0; number < 64 && prctl(PR_CAPBSET_READ, number, 0, 0, 0) >= 0; number++) {
        if (!(keep >> number & 1) && prctl(PR_CAPBSET_DROP, number, 0, 0, 0) < 0 && errno != EPERM) {
            return err_errno(reterr, errno, "dropping capability %u from the bounding set", number);
        }
    }
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    if (syscall(SYS_capget, &header, data) < 0) {
        return err_errno(reterr, errno, "reading our capabilities");
    }
    for (unsigned i = 0; i < 2; i++) {
        uint32_t mask = (uint32_t)(keep >> (32 * i));
        data[i].permitted &= mask;
        data[i].effective = data[i].permitted;
        data[i].inheritable = 0;
    }
    return syscall(SYS_capset, &header, data) < 0 ? err_errno(reterr, errno, "dropping capabilities") : 0;
}

int host_leave_session_keyring(void)
{
    return syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 ? -errno : 0;
}

void host_apply_to_ceilings(const struct host *host, struct policy_ceilings *ceilings)
{
    ceilings->cgroup = host->cgroups != NULL;
    ceilings->landlock_abi = host->landlock_abi;
}
