/* The second wall: Landlock denies the program every write but where the plan says so, so that a mistake in a
 * mount is no hole, and keeps its signals and abstract sockets among its own.
 *
 * Reading and executing are not handled: the whole root is there to be read. Child side: raw system calls
 * only. */
#include "jail/child/step.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/child/child.h"

/* Of newer versions than the headers may have. */
#define ABI_TRUNCATE 3u
#define ABI_IOCTL    5u
#define ABI_SCOPED   6u
#define ABI_LOG      7u
#define FS_TRUNCATE  (1ull << 14)
#define FS_IOCTL     (1ull << 15)

#define SCOPED_ALL 3u /* abstract sockets and signals */
/* A program that is denied something must not write to the host's audit log with it. */
#define LOG_NOTHING (1u << 0 | 1u << 2)

#define ON_DIRECTORIES                                                                                       \
    (LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |          \
     LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |             \
     LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER)
#define ON_FILES    (LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE)
#define MAKE_DEVICE (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)

/* The kernel's struct, which grows with its versions: a newer one than the headers know is told by its size.
 */
struct ruleset {
    uint64_t handled_access_fs, handled_access_net, scoped;
};

static uint64_t known(uint32_t abi, uint64_t access)
{
    access &= ~(abi < ABI_TRUNCATE ? FS_TRUNCATE : 0);
    return access & ~(abi < ABI_IOCTL ? FS_IOCTL : 0);
}

static int add_rule(struct child *child, int ruleset, int fd, uint64_t access)
{
    const struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = fd};
    child->call = "landlock_add_rule";
    return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0 ? -errno : 0;
}

/* The root is ours by now. Nothing of the job's can have put a link there yet; none is followed. */
static int open_path(struct child *child, const char *path)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    child->call = "openat2";
    long fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    return fd < 0 ? -errno : (int)fd;
}

/* What is optional and missing needs no rule. */
static int allow_path(struct child *child, int ruleset, uint32_t abi, const char *path, bool device)
{
    struct stat st;
    CLEANUP(fd_closep) int fd = open_path(child, path);
    if (fd < 0) {
        return fd == -ENOENT ? 0 : fd;
    }
    child->call = "fstat";
    if (fstat(fd, &st) < 0) {
        return -errno;
    }
    uint64_t access =
        ON_FILES | (device ? FS_IOCTL : 0) | (S_ISDIR(st.st_mode) && !device ? ON_DIRECTORIES : 0);
    return add_rule(child, ruleset, fd, known(abi, access));
}

static int allow_run(struct child *child, int ruleset, uint32_t abi, jail_ref run, uint32_t count,
                     bool device)
{
    int r = 0;
    const char *path = jail_plan_string(child->plan, run);
    for (uint32_t i = 0; r == 0 && i < count; i++) {
        r = allow_path(child, ruleset, abi, path, device);
        path += strlen(path) + 1;
    }
    return r;
}

/* What the program is given open to write to, it may open again (/dev/stdout): a terminal or a file, as
 * `immure run` has them. Pipes and sockets are nobody's files and always may be. */
static int allow_given(struct child *child, int ruleset, uint32_t abi)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        struct stat st;
        int flags = fcntl(fd, F_GETFL);
        if (flags < 0 || (flags & O_PATH) || (flags & O_ACCMODE) == O_RDONLY || fstat(fd, &st) < 0 ||
            !(S_ISREG(st.st_mode) || S_ISCHR(st.st_mode))) {
            continue;
        }
        int r = add_rule(child, ruleset, fd, known(abi, ON_FILES | (S_ISCHR(st.st_mode) ? FS_IOCTL : 0)));
        if (r < 0 && r != -EBADFD) { /* an anonymous file */
            return r;
        }
    }
    return 0;
}

int step_LANDLOCK(struct child *child, const struct jail_step *step)
{
    uint32_t abi = step->landlock.abi;
    const struct ruleset handled = {.handled_access_fs =
                                        known(abi, ON_DIRECTORIES | ON_FILES | MAKE_DEVICE | FS_IOCTL),
                                    .scoped = SCOPED_ALL};
    size_t size = abi < ABI_SCOPED ? sizeof handled.handled_access_fs : sizeof handled;
    child->call = "landlock_create_ruleset";
    CLEANUP(fd_closep) int ruleset = (int)syscall(SYS_landlock_create_ruleset, &handled, size, 0);
    if (ruleset < 0) {
        return -errno;
    }
    int r = allow_run(child, ruleset, abi, step->landlock.writable, step->landlock.n_writable, false);
    r = r < 0 ? r : allow_run(child, ruleset, abi, step->landlock.devices, step->landlock.n_devices, true);
    r = r < 0 ? r : allow_given(child, ruleset, abi);
    if (r < 0) {
        return r;
    }
    child->call = "landlock_restrict_self";
    unsigned flags = abi < ABI_LOG ? 0 : LOG_NOTHING;
    return syscall(SYS_landlock_restrict_self, ruleset, flags) < 0 ? -errno : 0;
}
