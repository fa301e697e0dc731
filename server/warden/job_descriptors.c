/* The descriptors that come with a job. Runs in the warden, on what a front sends, whose word is not taken:
 * the input must be an anonymous file, since reading anything else could block this single thread, and what
 * becomes the program's stdio and bridge must be pipes, since a socket in a jail would be a way out of it. */
#include "server/warden/job_descriptors.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/statfs.h>

/* An end of a pipe, open that way. Not a FIFO, which has a name on the host, nor a mere handle of one
 * (O_PATH). */
static bool is_pipe_end(int fd, int access_mode)
{
    struct statfs fs;
    int flags = fcntl(fd, F_GETFL);
    return fstatfs(fd, &fs) == 0 && fs.f_type == PIPEFS_MAGIC && flags >= 0 && !(flags & O_PATH) &&
           (flags & O_ACCMODE) == access_mode;
}

const char *job_descriptors_check_pipes(const int fds[JOB_FD_COUNT])
{
    for (int i = JOB_FD_STDIN; i < JOB_FD_COUNT; i++) {
        if (!is_pipe_end(fds[i], i == JOB_FD_STDIN || i == JOB_FD_BRIDGE_IN ? O_RDONLY : O_WRONLY)) {
            return "what a program is given is not a pipe";
        }
    }
    return NULL;
}

/* Only anonymous memory has seals; reading anything else could block, and what is not sealed could change
 * under our eyes. */
bool job_descriptors_is_sealed(int fd)
{
    const int sealed = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && seals >= 0 && (seals & sealed) == sealed;
}

const char *job_descriptors_check(const int fds[JOB_FD_COUNT])
{
    if (!job_descriptors_is_sealed(fds[JOB_FD_INPUT])) {
        return "a job's input is not a sealed anonymous file";
    }
    return job_descriptors_check_pipes(fds);
}
