/* A directory of the host as a mount of its own that jails can be given. */
#pragma once

#include <stdint.h>

struct err;

/* Files of disk_uid:disk_gid appear, and are made, as uid:gid. */
struct hostdir_ids {
    uint32_t disk_uid, disk_gid, uid, gid;
};

/* A detached mount of the directory, nosuid and nodev. `ids` NULL: owners are what they are on disk.
 * ERR_HOST where the kernel or the file system cannot map ids. */
int hostdir_mount(int dirfd, const struct hostdir_ids *ids, int *ret_fd, struct err *reterr);
