/* A directory of the host as a mount of its own that jails can be given. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct err;

/* Files of disk_uid:disk_gid appear, and are made, as uid:gid. */
struct hostdir_ids {
    uint32_t disk_uid, disk_gid, uid, gid;
};

/* A detached mount of the directory (or file), nosuid and nodev; `recursive`: with the mounts below it. `ids`
 * NULL: owners are what they are on disk. ERR_HOST where the kernel or the file system cannot map ids. */
int hostdir_mount(int dirfd, const struct hostdir_ids *ids, bool recursive, int *ret_fd, struct err *reterr);
