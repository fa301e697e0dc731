/* Images as jobs find them: looked up by name for each of them, so that what is imported is there and what is
 * removed is not. Runs in the warden and in `immure run`.
 *
 * The directory is the operator's, its content a stranger's: nothing in an image is looked up but beneath it,
 * and links in it are followed within it alone, as the jail is going to. */
#include "server/image/open.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

/* A program of the image; -1 and errno. As exec is going to find it, but for what a prelude or a mount may
 * put in its place. */
static int open_program(int root, const char *path)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    struct stat st;
    CLEANUP(fd_closep) int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof how);
    if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !(st.st_mode & 0111))) {
        errno = ENOENT;
        return -1;
    }
    return TAKE_FD(fd);
}

/* Where Python 3.N looks: its file's name and place tell, and nothing of the image is run. */
static void find_startup(int root, int program, char ret[PATH_MAX])
{
    char link[32], top[PATH_MAX], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", root);
    ssize_t above = readlink(link, top, sizeof top - 1);
    snprintf(link, sizeof link, "/proc/self/fd/%d", program);
    ssize_t length = readlink(link, path, sizeof path - 1);
    ret[0] = '\0';
    if (above < 0 || length <= above) {
        return;
    }
    path[length] = '\0';
    const char *file = strrchr(path, '/') + 1, *inside = path + above;
    int prefix = (int)(file - 1 - inside) - (int)strlen("/bin");
    if (strncmp(file, "python3.", strlen("python3.")) != 0 || prefix < 0 ||
        strncmp(inside + prefix, "/bin/", strlen("/bin/")) != 0) {
        return;
    }
    bool is_debians = prefix == (int)strlen("/usr") && strncmp(inside, "/usr", 4) == 0;
    int n = is_debians
                ? snprintf(ret, PATH_MAX, "/usr/local/lib/%s/dist-packages/immure.pth", file)
                : snprintf(ret, PATH_MAX, "%.*s/lib/%s/site-packages/immure.pth", prefix, inside, file);
    ret[n < PATH_MAX ? n : 0] = '\0';
}

/* A name is looked for where it is on the host, but along no PATH; a path is taken as it is. */
static int find_interpreter(struct image *image, int root, const struct runtime_config *runtime,
                            struct err *reterr)
{
    static const char *const directories[] = {"/usr/bin/", "/usr/local/bin/", "/bin/", ""};
    const char *wanted = runtime->wanted ? runtime->wanted : runtime->interpreter;
    CLEANUP(fd_closep) int fd = -1;
    for (size_t i = wanted[0] == '/' ? ARRAY_SIZE(directories) - 1 : 0; fd < 0 && i < ARRAY_SIZE(directories);
         i++) {
        /* Last, the path that it has on the host. */
        snprintf(image->interpreter, sizeof image->interpreter, "%s%s", directories[i],
                 directories[i][0] ? wanted : runtime->interpreter);
        fd = open_program(root, image->interpreter);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == EINTR)) {
            return unusable(image->name, errno, strerror(errno), reterr);
        }
    }
    if (fd < 0) {
        return err_set(reterr, ERR_SETUP, ENOENT, NULL,
                       "the image '%s' has no program %.200s, which the runtime '%s' starts", image->name,
                       wanted, runtime->name);
    }
    find_startup(root, fd, image->startup);
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
        r = find_interpreter(ret, root, runtime, reterr);
    }
    if (r == 0 && hostdir_mount(root, NULL, false, &ret->mount_fd, &err) < 0) {
        r = unusable(name, err.code, err.text, reterr);
    }
    if (r < 0) {
        image_close(ret);
        return r;
    }
    ret->policy = (struct policy_image){.name = ret->name,
                                        .digest = ret->record.digest,
                                        .env = ret->record.env,
                                        .n_env = ret->record.n_env,
                                        .interpreter = ret->interpreter[0] ? ret->interpreter : NULL,
                                        .startup = ret->startup[0] ? ret->startup : NULL};
    return 0;
}

void image_close(struct image *image)
{
    image_record_clear(&image->record);
    fd_closep(&image->lock_fd);
    fd_closep(&image->mount_fd);
}
