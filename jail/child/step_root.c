/* Steps that make the new root: the tmpfs, the directories, files and links in it, and the pivot into it.
 *
 * Child side: raw system calls only. Paths are resolved beneath the new root's descriptor and through no
 * link, although nothing hostile has been able to write there yet. */
#include "jail/child/step.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/tmpfs.h"
#include "jail/child/child.h"

int step_ROOT(struct child *child, const struct jail_step *step)
{
    int root = tmpfs_new(step->root.size_bytes, step->root.inodes, 0755, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
                         &child->call);
    if (root < 0) {
        return root;
    }
    child->root = root;
    /* On top of the old root: needs no directory of the host, and absolute paths still resolve in the old
     * one, because the walk starts at our root directory without looking at what is mounted over it. */
    child->call = "move_mount";
    return move_mount(root, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}

int step_ROOT_INHERITED(struct child *child, const struct jail_step *step)
{
    (void)step;
    child->call = "open";
    child->root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return child->root < 0 ? -errno : 0;
}

int step_MKDIR(struct child *child, const struct jail_step *step)
{
    const char *name;
    int parent = child_open_parent(child, jail_plan_string(child->plan, step->mkdir.path), &name);
    if (parent < 0) {
        return parent;
    }
    child->call = "mkdirat";
    if (mkdirat(parent, name, step->mkdir.mode) == 0) {
        return 0;
    }
    if (errno != EEXIST && errno != EROFS) {
        return -errno;
    }
    /* It may be there already, as part of a tree that was attached before. */
    CLEANUP(fd_closep) int there = child_open_below(child, parent, name);
    struct stat st;
    if (there < 0 || fstat(there, &st) < 0 || !S_ISDIR(st.st_mode)) {
        return there < 0 ? there : -ENOTDIR;
    }
    return 0;
}

static int copy_from_input(struct child *child, const struct jail_step *step, int to)
{
    off_t offset = (off_t)step->file.offset;
    uint64_t left = step->file.size_bytes;
    child->call = "sendfile";
    while (left > 0) {
        ssize_t n = sendfile(to, child->fds[JAIL_FD_INPUT], &offset, left);
        if (n <= 0) {
            return n < 0 ? -errno : -ENODATA;
        }
        left -= (uint64_t)n;
    }
    return 0;
}

static int write_all(struct child *child, int to, const unsigned char *data, uint64_t size)
{
    child->call = "write";
    while (size > 0) {
        ssize_t n = write(to, data, size);
        if (n < 0) {
            return -errno;
        }
        data += n;
        size -= (uint64_t)n;
    }
    return 0;
}

int step_FILE(struct child *child, const struct jail_step *step)
{
    const char *name;
    int parent = child_open_parent(child, jail_plan_string(child->plan, step->file.path), &name);
    if (parent < 0) {
        return parent;
    }
    child->call = "openat";
    CLEANUP(fd_closep)
    int fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, step->file.mode);
    if (fd < 0) {
        return -errno;
    }
    if (step->file.from_input) {
        return copy_from_input(child, step, fd);
    }
    return write_all(child, fd, child->plan->arena + step->file.content, step->file.size_bytes);
}

int step_SYMLINK(struct child *child, const struct jail_step *step)
{
    const char *name;
    int parent = child_open_parent(child, jail_plan_string(child->plan, step->symlink.path), &name);
    if (parent < 0) {
        return parent;
    }
    child->call = "symlinkat";
    return symlinkat(jail_plan_string(child->plan, step->symlink.target), parent, name) < 0 ? -errno : 0;
}

/* That nothing of the old root is left on top of the new one, from where ".." would lead into it. */
static int is_alone(struct child *child)
{
    struct stat root, above;
    child->call = "stat";
    if (stat("/", &root) < 0 || stat("/..", &above) < 0) {
        return -errno;
    }
    return root.st_dev == above.st_dev && root.st_ino == above.st_ino ? 0 : -EBUSY;
}

int step_PIVOT(struct child *child, const struct jail_step *step)
{
    (void)step;
    if (!jail_plan_has(child->plan, JAIL_STEP_PROC)) {
        step_mount_own_proc(child);
    }
    child->call = "fchdir";
    if (fchdir(child->root) < 0) {
        return -errno;
    }
    /* The old root ends up on top of the new one, at the same place: pivot_root(2), "pivot_root(".", ".")".
     */
    child->call = "pivot_root";
    if (syscall(SYS_pivot_root, ".", ".") < 0) {
        return -errno;
    }
    child->call = "umount2";
    if (umount2(".", MNT_DETACH) < 0) {
        return -errno;
    }
    child->call = "chdir";
    return chdir("/") < 0 ? -errno : is_alone(child);
}

int step_ROOT_READONLY(struct child *child, const struct jail_step *step)
{
    (void)step;
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    child->call = "mount_setattr";
    return mount_setattr(child->root, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0 ? -errno : 0;
}
