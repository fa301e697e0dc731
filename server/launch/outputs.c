/* From a job's scratch to the directory of whoever started it. Runs in the process of the command line, when
 * nothing of the program's runs any more.
 *
 * The names are the program's choice. What is there already stays as it is, and a name leads nowhere but
 * below the directory. */
#include "server/launch/outputs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/message/job.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"

#define CHUNK_BYTES (1u << 20)

static bool leads_elsewhere(const char *name)
{
    return name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* The directory that `path` lies in, made as far as it is missing; `*ret_name` is its last part, in `path`.
 */
static int open_directory_of(int dirfd, char *path, const char **ret_name)
{
    CLEANUP(fd_closep) int at = fcntl(dirfd, F_DUPFD_CLOEXEC, 3);
    char *part = path;
    for (char *slash; at >= 0 && (slash = strchr(part, '/')); part = slash + 1) {
        *slash = '\0';
        if (leads_elsewhere(part)) {
            return -EINVAL;
        }
        if (mkdirat(at, part, 0777) < 0 && errno != EEXIST) {
            return -errno;
        }
        int next = openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int code = errno;
        close(at);
        at = next;
        errno = code;
    }
    *ret_name = part;
    return at < 0 ? -errno : leads_elsewhere(part) ? -EINVAL : TAKE_FD(at);
}

static int copy_content(int from, int to)
{
    off_t offset = 0;
    for (;;) {
        ssize_t n = sendfile(to, from, &offset, CHUNK_BYTES);
        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        if (n == 0) {
            return 0;
        }
    }
}

static int copy(int dirfd, const struct job_output_file *file)
{
    const char *name = NULL;
    CLEANUP(freep) char *path = strdup(file->path);
    CLEANUP(fd_closep) int directory = path ? open_directory_of(dirfd, path, &name) : -ENOMEM;
    if (directory < 0) {
        return directory;
    }
    CLEANUP(fd_closep)
    int to = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (to < 0) {
        return -errno;
    }
    int r = copy_content(file->fd, to);
    if (r < 0) {
        unlinkat(directory, name, 0);
    }
    return r;
}

int launch_output_copy(int dirfd, const struct job_output_file *file, struct err *reterr)
{
    if (file->fd < 0) {
        return err_set(reterr, ERR_INVALID, EFBIG, file->path,
                       "is larger than the policy's output_file_bytes, or all are together than its "
                       "scratch_bytes; not copied");
    }
    int r = copy(dirfd, file);
    return r < 0 ? err_set(reterr, ERR_INVALID, -r, file->path, "%s; not copied",
                           r == -EEXIST                   ? "is here already"
                           : r == -ELOOP || r == -ENOTDIR ? "its directory here is a link or a file"
                                                          : strerror(-r))
                 : 0;
}
