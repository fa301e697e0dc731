/* A detached tmpfs with hard limits. Safe between clone and exec. */
#pragma once

#include <stdint.h>

/* Returns the mount's descriptor, or -errno with `*ret_call` naming the system call. `attr` are MOUNT_ATTR_*
 * bits; the root directory belongs to the caller and has `mode`. */
int tmpfs_new(uint64_t size_bytes, uint64_t inodes, uint32_t mode, uint32_t attr, const char **ret_call);

/* Changes the size limit of a tmpfs made by the same process. As above. */
int tmpfs_resize(int mount, uint64_t size_bytes, const char **ret_call);
