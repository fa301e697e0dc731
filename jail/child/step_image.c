/* The step that makes an image's files the root: an overlay of what the plan has put into the root so far
 * (the script, preludes, mount points) above the image, without an upper layer, so that nothing can be
 * written to either of them.
 *
 * Child side: raw system calls only. The image is hostile: what is laid over it is a tree of ours that hides
 * whatever the image has in the same places, links included, and nothing is looked up in it before it lies
 * below the new root. overlayfs takes its layers by name and from mounts of our own namespace alone, so the
 * image is attached for that moment over a directory of the root so far; the layers themselves are copies of
 * mounts without what is attached to them. */
#include "jail/child/step.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/child/child.h"

#define LAYERS_ABOVE ".:" /* the root so far, by the working directory; then the image */

/* Nothing can be made in an image: what binds will be attached to is made beside the rest. Those that lie
 * on another mount find their place there. */
static int make_bind_point(struct child *child, const struct jail_step *step)
{
    struct stat st;
    const char *name;
    child->call = "open";
    CLEANUP(fd_closep)
    int source = step->bind.given
                     ? fcntl(child->fds[step->bind.given], F_DUPFD_CLOEXEC, JAIL_PROGRAM_FDS)
                     : open(jail_plan_string(child->plan, step->bind.source), O_PATH | O_CLOEXEC);
    if (source < 0) {
        return errno == ENOENT && (step->bind.flags & JAIL_MOUNT_OPTIONAL) ? 0 : -errno;
    }
    if (fstat(source, &st) < 0) {
        return -errno;
    }
    int parent = child_open_parent(child, jail_plan_string(child->plan, step->bind.path), &name);
    if (parent == -ENOENT) {
        return 0;
    }
    if (parent < 0) {
        return parent;
    }
    child->call = "mknodat";
    int r = S_ISDIR(st.st_mode) ? mkdirat(parent, name, 0755) : mknodat(parent, name, S_IFREG | 0444, 0);
    return r < 0 && errno != EEXIST ? -errno : 0;
}

static int make_bind_points(struct child *child)
{
    const struct jail_plan *plan = child->plan;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        int r = plan->steps[i].kind == JAIL_STEP_BIND ? make_bind_point(child, &plan->steps[i]) : 0;
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int attach_image(struct child *child, const char *path)
{
    int image = child->fds[JAIL_FD_IMAGE];
    CLEANUP(fd_closep) int place = child_open_path(child, path);
    if (place < 0) {
        return place;
    }
    child->call = "move_mount";
    if (move_mount(image, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0) {
        return -errno;
    }
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    child->call = "mount_setattr";
    return mount_setattr(image, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0 ? -errno : 0;
}

/* `name` is relative to the working directory, which is the root so far. */
static int overlay_new(struct child *child, const char *name)
{
    char layers[sizeof LAYERS_ABOVE + JAIL_IMAGE_NAME_MAX] = LAYERS_ABOVE;
    memcpy(layers + strlen(LAYERS_ABOVE), name, strlen(name) + 1); /* the plan's check knows its length */
    child->call = "fsopen overlay";
    CLEANUP(fd_closep) int context = fsopen("overlay", FSOPEN_CLOEXEC);
    if (context < 0) {
        return -errno;
    }
    child->call = "fsconfig overlay";
    if (fsconfig(context, FSCONFIG_SET_STRING, "lowerdir", layers, 0) < 0 ||
        fsconfig(context, FSCONFIG_SET_STRING, "redirect_dir", "nofollow", 0) < 0 ||
        fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0) {
        return -errno;
    }
    child->call = "fsmount overlay";
    int mount = fsmount(context, FSMOUNT_CLOEXEC, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    return mount < 0 ? -errno : mount;
}

int step_IMAGE(struct child *child, const struct jail_step *step)
{
    const char *path = jail_plan_string(child->plan, step->image.path);
    int r = make_bind_points(child);
    r = r < 0 ? r : attach_image(child, path);
    if (r < 0) {
        return r;
    }
    child->call = "fchdir";
    if (fchdir(child->root) < 0) {
        return -errno;
    }
    CLEANUP(fd_closep) int overlay = overlay_new(child, path + 1);
    if (overlay < 0) {
        return overlay;
    }
    /* The root so far is gone, with the image on it, before the new one takes its place: stacked between that
     * and the old root, it would be what the pivot detaches, and the old root would stay. */
    child->call = "umount2";
    if (umount2(".", MNT_DETACH) < 0) {
        return -errno;
    }
    child->call = "move_mount";
    if (move_mount(overlay, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0) {
        return -errno;
    }
    child_forget_parent(child);
    fd_closep(&child->fds[JAIL_FD_IMAGE]);
    close(child->root);
    child->root = TAKE_FD(overlay);
    return 0;
}
