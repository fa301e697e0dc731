/* Outer ids. Runs in the parent (warden, `immure run`), once at start and then for every job.
 *
 * What must hold: no jail is ever uid 0 outside (such a jail can write /proc/sys/kernel/core_pattern without
 * a single capability), and with privileges no two concurrent jails share an outer uid. */
#include "jail/resources/idmap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/base/proc_text.h"

struct idmap_pool {
    enum idmap_mode mode;
    uint32_t base, count;
    uint32_t next; /* where the search for a free one starts: an id is reused as late as possible */
    bool *taken;
    uint32_t uid, gid; /* IDMAP_SELF */
};

static bool has_capabilities(uint64_t wanted)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    if (syscall(SYS_capget, &header, data) < 0) {
        return false;
    }
    uint64_t effective = data[0].effective | (uint64_t)data[1].effective << 32;
    return (effective & wanted) == wanted;
}

/* Every id of the pool must exist in our user namespace. */
static int check_range(const struct idmap_pool *pool, const char *map_path, struct err *reterr)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    int r = io_read_file_at(AT_FDCWD, map_path, 1 << 20, &text);
    if (r < 0) {
        return err_set(reterr, ERR_HOST, -r, NULL, "reading %s: %s", map_path, strerror(-r));
    }
    if (pool->base > 0 && pool->count > 0 && proc_text_maps_range(text.data, pool->base, pool->count)) {
        return 0;
    }
    return err_set(reterr, ERR_HOST, ERANGE, "outer_uid_base",
                   "outer uids %u to %lu are not all mapped in this user namespace: set outer_uid_base to a "
                   "range that /proc/self/uid_map holds and nobody else uses",
                   pool->base, (unsigned long)pool->base + pool->count - 1);
}

static int write_self(const char *path, const char *text, struct err *reterr)
{
    int r = io_write_file_at(AT_FDCWD, path, text);
    return r < 0 ? err_errno(reterr, -r, "writing %s", path) : 0;
}

/* A user namespace of our own, in which we are still ourselves but may make mounts and further namespaces. */
static int enter_own_namespace(const struct idmap_pool *pool, struct err *reterr)
{
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) {
        int code = errno;
        if (code == ENOSPC) {
            return err_set(reterr, ERR_HOST, code, NULL,
                           "there may be no more namespaces here: raise user.max_user_namespaces and "
                           "user.max_mnt_namespaces (sysctl)");
        }
        return err_set(
            reterr, ERR_HOST, code, NULL,
            "an ordinary user may not make user namespaces here (%s): see user.max_user_namespaces, "
            "kernel.unprivileged_userns_clone and kernel.apparmor_restrict_unprivileged_userns, or `immure "
            "check`; in a chroot nobody may",
            strerror(code));
    }
    char map[64];
    int r = write_self("/proc/self/setgroups", "deny", reterr);
    if (r == 0) {
        snprintf(map, sizeof map, "%u %u 1", pool->uid, pool->uid);
        r = write_self("/proc/self/uid_map", map, reterr);
    }
    if (r == 0) {
        snprintf(map, sizeof map, "%u %u 1", pool->gid, pool->gid);
        r = write_self("/proc/self/gid_map", map, reterr);
    }
    if (r == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        r = err_errno(reterr, errno, "making the mounts of our own namespace private");
    }
    return r;
}

static int open_self(struct idmap_pool *pool, struct err *reterr)
{
    pool->mode = IDMAP_SELF;
    pool->uid = geteuid();
    pool->gid = getegid();
    if (pool->uid == 0) {
        return err_set(reterr, ERR_HOST, EPERM, NULL,
                       "uid 0 without CAP_SYS_ADMIN, CAP_SETUID and CAP_SETGID: jobs would be root outside "
                       "their jail; run as "
                       "another user (an ordinary one needs no capability), or with these capabilities");
    }
    return enter_own_namespace(pool, reterr);
}

static int open_range(struct idmap_pool *pool, struct err *reterr)
{
    pool->mode = IDMAP_RANGE;
    int r = check_range(pool, "/proc/self/uid_map", reterr);
    r = r < 0 ? r : check_range(pool, "/proc/self/gid_map", reterr);
    if (r < 0) {
        return r;
    }
    pool->taken = calloc(pool->count, sizeof *pool->taken);
    return pool->taken ? 0 : err_errno(reterr, ENOMEM, "making the pool of outer ids");
}

int idmap_pool_new(uint32_t base, uint32_t count, struct idmap_pool **ret, struct err *reterr)
{
    struct idmap_pool *pool = calloc(1, sizeof *pool);
    if (!pool) {
        return err_errno(reterr, ENOMEM, "making the pool of outer ids");
    }
    pool->base = base;
    pool->count = count;
    const uint64_t needed =
        1ull << CAP_SYS_ADMIN | 1ull << CAP_SETUID | 1ull << CAP_SETGID | 1ull << CAP_CHOWN;
    int r = has_capabilities(needed) ? open_range(pool, reterr) : open_self(pool, reterr);
    if (r < 0) {
        idmap_pool_free(pool);
        return r;
    }
    *ret = pool;
    return 0;
}

void idmap_pool_free(struct idmap_pool *pool)
{
    if (pool) {
        free(pool->taken);
        free(pool);
    }
}

enum idmap_mode idmap_pool_mode(const struct idmap_pool *pool)
{
    return pool->mode;
}

void idmap_pool_range(const struct idmap_pool *pool, uint32_t *ret_base, uint32_t *ret_count)
{
    *ret_base = pool->mode == IDMAP_RANGE ? pool->base : 0;
    *ret_count = pool->mode == IDMAP_RANGE ? pool->count : 0;
}

int idmap_take(struct idmap_pool *pool, uint32_t *ret_uid, uint32_t *ret_gid)
{
    if (pool->mode == IDMAP_SELF) {
        *ret_uid = pool->uid;
        *ret_gid = pool->gid;
        return 0;
    }
    for (uint32_t i = 0; i < pool->count; i++) {
        uint32_t slot = (pool->next + i) % pool->count;
        if (!pool->taken[slot]) {
            pool->taken[slot] = true;
            pool->next = (slot + 1) % pool->count;
            *ret_uid = *ret_gid = pool->base + slot;
            return 0;
        }
    }
    return -EAGAIN;
}

void idmap_give_back(struct idmap_pool *pool, uint32_t uid)
{
    if (pool->mode == IDMAP_RANGE && uid >= pool->base && uid - pool->base < pool->count) {
        pool->taken[uid - pool->base] = false;
    }
}
