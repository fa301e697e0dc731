/* Steps that attach mounts below the new root, each restricted before the program can see it.
 *
 * Child side: raw system calls only. Mount trees are opened, restricted as a whole (AT_RECURSIVE, so
 * read-only holds for the mounts below as well) and only then attached: there is no moment in which a looser
 * mount is visible. */
#include "jail/child/step.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/tmpfs.h"
#include "jail/child/child.h"

static uint64_t attributes(uint32_t flags)
{
    return (flags & JAIL_MOUNT_READONLY ? MOUNT_ATTR_RDONLY : 0u) |
           (flags & JAIL_MOUNT_NOSUID ? MOUNT_ATTR_NOSUID : 0u) |
           (flags & JAIL_MOUNT_NODEV ? MOUNT_ATTR_NODEV : 0u) |
           (flags & JAIL_MOUNT_NOEXEC ? MOUNT_ATTR_NOEXEC : 0u);
}

static int restrict_tree(struct child *child, int tree, uint32_t flags, unsigned at_flags)
{
    struct mount_attr attr = {.attr_set = attributes(flags)};
    child->call = "mount_setattr";
    return mount_setattr(tree, "", AT_EMPTY_PATH | at_flags, &attr, sizeof attr) < 0 ? -errno : 0;
}

/* The mount point for a directory, or for anything else, made where it is missing. */
static int open_mount_point(struct child *child, const char *path, bool directory)
{
    const char *name;
    int parent = child_open_parent(child, path, &name);
    if (parent < 0) {
        return parent;
    }
    int made = -1;
    if (directory) {
        child->call = "mkdirat";
        made = mkdirat(parent, name, 0755);
    } else {
        child->call = "openat";
        made = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
    }
    if (made < 0 && errno != EEXIST) {
        return -errno;
    }
    return made < 0 || directory ? child_open_below(child, parent, name) : made;
}

static int attach(struct child *child, int tree, const char *path, bool directory)
{
    CLEANUP(fd_closep) int target = open_mount_point(child, path, directory);
    if (target < 0) {
        return target;
    }
    child->call = "move_mount";
    return move_mount(tree, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0 ? -errno
                                                                                                   : 0;
}

int step_PROPAGATION(struct child *child, const struct jail_step *step)
{
    (void)step;
    struct mount_attr attr = {.propagation = MS_PRIVATE};
    child->call = "mount_setattr";
    return mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &attr, sizeof attr) < 0 ? -errno : 0;
}

/* ENOTDIR: something on the way to it is a file. */
static bool is_missing(int error)
{
    return error == ENOENT || error == ENOTDIR;
}

/* A mount that the parent made can be restricted only once it is attached here. Nothing but us runs yet. */
static int attach_given(struct child *child, int tree, jail_ref path, uint32_t flags, bool directory)
{
    int r = attach(child, tree, jail_plan_string(child->plan, path), directory);
    return r < 0 ? r : restrict_tree(child, tree, flags, flags & JAIL_MOUNT_RECURSIVE ? AT_RECURSIVE : 0);
}

static int bind_given(struct child *child, const struct jail_step *step)
{
    int tree = child->fds[step->bind.given];
    struct stat st;
    child->call = "fstat";
    return fstat(tree, &st) < 0
               ? -errno
               : attach_given(child, tree, step->bind.path, step->bind.flags, S_ISDIR(st.st_mode));
}

int step_BIND(struct child *child, const struct jail_step *step)
{
    uint32_t flags = step->bind.flags;
    unsigned recursive = flags & JAIL_MOUNT_RECURSIVE ? AT_RECURSIVE : 0;
    if (step->bind.given) {
        return bind_given(child, step);
    }
    child->call = "open_tree";
    CLEANUP(fd_closep)
    int tree = open_tree(AT_FDCWD, jail_plan_string(child->plan, step->bind.source),
                         OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | recursive);
    if (tree < 0) {
        return is_missing(errno) && (flags & JAIL_MOUNT_OPTIONAL) ? 0 : -errno;
    }
    struct stat st;
    child->call = "fstat";
    if (fstat(tree, &st) < 0) {
        return -errno;
    }
    int r = restrict_tree(child, tree, flags, recursive);
    if (r < 0) {
        return r;
    }
    return attach(child, tree, jail_plan_string(child->plan, step->bind.path), S_ISDIR(st.st_mode));
}

int step_TMPFS(struct child *child, const struct jail_step *step)
{
    CLEANUP(fd_closep)
    int tree = tmpfs_new(step->tmpfs.size_bytes, step->tmpfs.inodes, step->tmpfs.mode,
                         (uint32_t)attributes(step->tmpfs.flags), &child->call);
    if (tree < 0) {
        return tree;
    }
    return attach(child, tree, jail_plan_string(child->plan, step->tmpfs.path), true);
}

static int proc_new(struct child *child, uint32_t flags)
{
    child->call = "fsopen";
    CLEANUP(fd_closep) int context = fsopen("proc", FSOPEN_CLOEXEC);
    if (context < 0) {
        return -errno;
    }
    child->call = "fsconfig";
    if ((flags & JAIL_PROC_HIDE) && fsconfig(context, FSCONFIG_SET_STRING, "hidepid", "invisible", 0) < 0) {
        return -errno;
    }
    if ((flags & JAIL_PROC_SUBSET_PID) && fsconfig(context, FSCONFIG_SET_STRING, "subset", "pid", 0) < 0) {
        return -errno;
    }
    if (fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0) {
        return -errno;
    }
    child->call = "fsmount";
    int mount = fsmount(context, FSMOUNT_CLOEXEC, (unsigned)attributes(flags));
    return mount < 0 ? -errno : mount;
}

/* Where a plan shows no /proc, or one that hides some processes though locks are to be counted, PID 1 alone
 * has a procfs, by a descriptor: nothing is attached that a path could lead to, and no program gets PID 1's
 * descriptors. Where the kernel gives none, the end is learned later (init_end.c), and locks are not counted
 * again (init_locks.c). */
void step_mount_own_proc(struct child *child)
{
    int tree =
        proc_new(child, JAIL_MOUNT_READONLY | JAIL_MOUNT_NOSUID | JAIL_MOUNT_NODEV | JAIL_MOUNT_NOEXEC);
    child->proc = tree < 0 ? -1 : tree;
}

static bool counts_locks(const struct jail_plan *plan)
{
    uint32_t i = 0;
    while (i < plan->n_steps && plan->steps[i].kind != JAIL_STEP_SECCOMP) {
        i++;
    }
    return i < plan->n_steps && plan->steps[i].seccomp.locks != 0;
}

int step_PROC(struct child *child, const struct jail_step *step)
{
    CLEANUP(fd_closep) int tree = proc_new(child, step->proc.flags);
    if (tree == -EPERM && (step->proc.flags & JAIL_MOUNT_OPTIONAL)) {
        /* The kernel gives no fresh procfs to a user namespace whose own is partly covered, as in most
         * containers. */
        child->proc_absent = true;
        return 0;
    }
    if (tree < 0) {
        return tree;
    }
    if (counts_locks(child->plan)) {
        step_mount_own_proc(child);
    }
    return attach(child, tree, jail_plan_string(child->plan, step->proc.path), true);
}

int step_SCRATCH(struct child *child, const struct jail_step *step)
{
    return attach_given(child, child->fds[JAIL_FD_SCRATCH], step->scratch.path, step->scratch.flags, true);
}

int step_WORKSPACE(struct child *child, const struct jail_step *step)
{
    return attach_given(child, child->fds[JAIL_FD_WORKSPACE], step->workspace.path, step->workspace.flags,
                        true);
}

int step_SUBMOUNT(struct child *child, const struct jail_step *step)
{
    CLEANUP(fd_closep)
    int source = child_open_path(child, jail_plan_string(child->plan, step->submount.source));
    if (source < 0) {
        return source;
    }
    child->call = "open_tree";
    CLEANUP(fd_closep) int tree = open_tree(source, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    if (tree < 0) {
        return -errno;
    }
    int r = restrict_tree(child, tree, step->submount.flags, 0);
    if (r < 0) {
        return r;
    }
    return attach(child, tree, jail_plan_string(child->plan, step->submount.path), true);
}
