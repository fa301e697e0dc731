/* A tmpfs through the new mount API, with a size and an inode limit. Runs in the parent (scratch) and in the
 * child (root, tmpfs mounts): raw system calls only. */
#include "jail/base/tmpfs.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mount.h>
#include <unistd.h>

#include "jail/base/cleanup.h"

#define NUMBER_CHARS 24

/* Decimal or octal digits of `value`, written to the end of `text`. snprintf is not to be used here. */
static const char *digits(uint64_t value, unsigned radix, char text[NUMBER_CHARS])
{
    char *p = &text[NUMBER_CHARS - 1];
    *p = '\0';
    do {
        *--p = (char)('0' + value % radix);
        value /= radix;
    } while (value > 0);
    return p;
}

int tmpfs_new(uint64_t size_bytes, uint64_t inodes, uint32_t mode, uint32_t attr, const char **ret_call)
{
    *ret_call = "tmpfs";
    if (size_bytes == 0 || size_bytes > INT64_MAX || inodes == 0 || inodes > INT64_MAX) {
        return -EINVAL; /* the kernel takes 0, and a size that overflows its pages, for no limit at all */
    }
    *ret_call = "fsopen";
    CLEANUP(fd_closep) int context = fsopen("tmpfs", FSOPEN_CLOEXEC);
    if (context < 0) {
        return -errno;
    }
    const struct {
        const char *key;
        uint64_t value;
        unsigned radix;
    } options[] = {{"size", size_bytes, 10}, {"nr_inodes", inodes, 10}, {"mode", mode, 8}};
    *ret_call = "fsconfig";
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        char text[NUMBER_CHARS];
        const char *value = digits(options[i].value, options[i].radix, text);
        if (fsconfig(context, FSCONFIG_SET_STRING, options[i].key, value, 0) < 0) {
            return -errno;
        }
    }
    if (fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0) {
        return -errno;
    }
    *ret_call = "fsmount";
    int mount = fsmount(context, FSMOUNT_CLOEXEC, attr);
    return mount < 0 ? -errno : mount;
}

int tmpfs_resize(int mount, uint64_t size_bytes, const char **ret_call)
{
    *ret_call = "fspick";
    CLEANUP(fd_closep) int context = fspick(mount, "", FSPICK_EMPTY_PATH | FSPICK_CLOEXEC);
    if (context < 0) {
        return -errno;
    }
    char text[NUMBER_CHARS];
    *ret_call = "fsconfig";
    if (fsconfig(context, FSCONFIG_SET_STRING, "size", digits(size_bytes, 10, text), 0) < 0 ||
        fsconfig(context, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0) {
        return -errno;
    }
    return 0;
}
