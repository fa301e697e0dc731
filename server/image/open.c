/* Images as jobs find them: looked up by name for each of them, so that what is imported is there and what is
 * removed is not. Runs in the warden and in `immure run`.
 *
 * The directory is the operator's, its content a stranger's: nothing in an image is looked up but beneath it,
 * and links in it are followed within it alone, as the jail is going to. */
#include "server/image/open.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/message/job.h"
#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/resources/hostdir.h"

/* `import --replace` may come between looking up a name and having what it was. */
#define LOOKUPS_MAX 3

_Static_assert(sizeof((struct image *)0)->name == IMAGE_NAME_BYTES, "an image's name has its room");

static int no_such_image(const char *name, struct err *reterr)
{
    return err_set(reterr, ERR_INVALID, ENOENT, "image", "there is no image '%.64s'", name);
}

/* `code` tells what may be otherwise soon (a want of descriptors, say) from what will not. */
static int unusable(const char *name, int code, const char *why, struct err *reterr)
{
    return err_set(reterr, ERR_SETUP, code, NULL, "the image '%.64s' cannot be used: %.300s", name, why);
}

/* A descriptor, or -errno; -EWOULDBLOCK where it is being removed, or another has just taken its place. */
static int lock_by_name(int store, const char *name)
{
    struct stat opened, named;
    CLEANUP(fd_closep) int fd = image_open_below(store, name, O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
        return fd;
    }
    /* Whoever removes it has it alone. A file system without locks has jobs that may lose their files. */
    if (flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
        return -EWOULDBLOCK;
    }
    if (fstat(fd, &opened) < 0 || fstatat(store, name, &named, AT_SYMLINK_NOFOLLOW) < 0) {
        return -errno;
    }
    bool same = opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
    return same ? TAKE_FD(fd) : -EWOULDBLOCK;
}

static int open_by_name(const char *directory, const char *name, struct image *image, struct err *reterr)
{
    if (directory[0] == '\0') {
        return err_set(reterr, ERR_INVALID, ENOENT, "image", "this server has no images");
    }
    CLEANUP(fd_closep) int store = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (store < 0) {
        return unusable(name, errno, strerror(errno), reterr);
    }
    int fd = image_name_is_valid(name) ? lock_by_name(store, name) : -ENOENT;
    for (int tries = 1; fd == -EWOULDBLOCK && tries < LOOKUPS_MAX; tries++) {
        fd = lock_by_name(store, name);
    }
    if (fd < 0) {
        return fd == -ENOENT ? no_such_image(name, reterr) : unusable(name, -fd, strerror(-fd), reterr);
    }
    image->lock_fd = fd;
    return 0;
}

/* As exec is going to find it, but for what a prelude or a mount may put in its place. */
static int check_interpreter(const struct image *image, int root, const struct runtime_config *runtime,
                             struct err *reterr)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    struct stat st;
    CLEANUP(fd_closep) int fd = (int)syscall(SYS_openat2, root, runtime->interpreter, &how, sizeof how);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == EINTR)) {
        return unusable(image->name, errno, strerror(errno), reterr);
    }
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !(st.st_mode & 0111)) {
        return err_set(reterr, ERR_SETUP, ENOENT, NULL,
                       "the image '%s' has no program %.200s, which the runtime '%s' starts", image->name,
                       runtime->interpreter, runtime->name);
    }
    return 0;
}

int image_open(const char *directory, const char *name, const struct runtime_config *runtime,
               struct image *ret, struct err *reterr)
{
    *ret = IMAGE_CLOSED;
    snprintf(ret->name, sizeof ret->name, "%s", name);
    struct err err = {0};
    CLEANUP(fd_closep) int root = -1;
    int r = open_by_name(directory, name, ret, reterr);
    if (r == 0 && image_record_read(ret->lock_fd, &ret->record, &err) < 0) {
        r = unusable(name, err.code, err.text, reterr);
    }
    if (r == 0 && (root = image_open_below(ret->lock_fd, IMAGE_ROOT, O_RDONLY | O_DIRECTORY)) < 0) {
        r = unusable(name, -root, strerror(-root), reterr);
    }
    if (r == 0 && runtime) {
        r = check_interpreter(ret, root, runtime, reterr);
    }
    if (r == 0 && hostdir_mount(root, NULL, &ret->mount_fd, &err) < 0) {
        r = unusable(name, err.code, err.text, reterr);
    }
    if (r < 0) {
        image_close(ret);
        return r;
    }
    ret->policy = (struct policy_image){
        .name = ret->name, .digest = ret->record.digest, .env = ret->record.env, .n_env = ret->record.n_env};
    return 0;
}

void image_close(struct image *image)
{
    image_record_clear(&image->record);
    fd_closep(&image->lock_fd);
    fd_closep(&image->mount_fd);
}
