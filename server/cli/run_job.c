/* From the options of `immure run` to struct job. Runs in the process of the command line. */
#include "server/cli/run_job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/message/job.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"

static void job_freep(struct job **job)
{
    job_free(*job);
}

/* The '=' of NAME=VALUE. */
static const char *find_equals(const char *option, const char *text, struct err *reterr)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text) {
        err_set(reterr, ERR_INVALID, EINVAL, option, "'%s' is not of the form NAME=VALUE", text);
        return NULL;
    }
    return equals;
}

static int add_env(struct job *job, const char *text, struct err *reterr)
{
    const char *equals = find_equals("--env", text, reterr);
    if (!equals) {
        return -EINVAL;
    }
    struct job_env *env = &job->env[job->n_env++];
    env->name = strndup(text, (size_t)(equals - text));
    env->value = strdup(equals + 1);
    return env->name && env->value ? 0 : err_errno(reterr, ENOMEM, "preparing the job");
}

/* Appends the file to the input; returns its size or -errno. */
static off_t append_file(int input_fd, const char *path, struct err *reterr)
{
    struct stat st;
    CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        int code = errno;
        return err_set(reterr, ERR_INVALID, code, "--file", "%s: %s", path, strerror(code));
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(reterr, ERR_INVALID, EINVAL, "--file", "%s is not a regular file", path);
    }
    off_t copied = 0;
    while (copied < st.st_size) {
        ssize_t n = sendfile(input_fd, fd, NULL, (size_t)(st.st_size - copied));
        if (n <= 0) {
            return err_errno(reterr, n < 0 ? errno : EIO, "reading %s", path);
        }
        copied += n;
    }
    return copied;
}

static int add_file(struct job *job, int input_fd, uint64_t *offset, const char *text, struct err *reterr)
{
    const char *equals = find_equals("--file", text, reterr);
    if (!equals) {
        return -EINVAL;
    }
    off_t size = append_file(input_fd, equals + 1, reterr);
    if (size < 0) {
        return (int)size;
    }
    struct job_file *file = &job->files[job->n_files++];
    file->path = strndup(text, (size_t)(equals - text));
    file->offset = *offset;
    file->size = (uint64_t)size;
    *offset += file->size;
    return file->path ? 0 : err_errno(reterr, ENOMEM, "preparing the job");
}

static int add_files(struct job *job, const struct option_list *files, int *ret_input_fd, struct err *reterr)
{
    uint64_t offset = 0;
    if (files->n == 0) {
        return 0;
    }
    CLEANUP(fd_closep) int input_fd = memfd_create("input", MFD_CLOEXEC);
    if (input_fd < 0) {
        return err_errno(reterr, errno, "preparing the job's files");
    }
    for (size_t i = 0; i < files->n; i++) {
        int r = add_file(job, input_fd, &offset, files->items[i], reterr);
        if (r < 0) {
            return r;
        }
    }
    *ret_input_fd = TAKE_FD(input_fd);
    return 0;
}

int run_job_make(const struct run_options *options, struct job **ret, int *ret_input_fd, struct err *reterr)
{
    CLEANUP(job_freep) struct job *job = calloc(1, sizeof *job);
    if (!job) {
        return err_errno(reterr, ENOMEM, "preparing the job");
    }
    job->env = calloc(options->env.n + 1, sizeof job->env[0]);
    job->files = calloc(options->files.n + 1, sizeof job->files[0]);
    if (!job->env || !job->files) {
        return err_errno(reterr, ENOMEM, "preparing the job");
    }
    job->limits.timeout_ms = options->timeout_ms;
    job->limits.memory_bytes = options->memory_bytes;
    job->limits.pids = options->pids;
    job->limits.cpu_ms = options->cpu_ms;
    int r = 0;
    for (size_t i = 0; r == 0 && i < options->env.n; i++) {
        r = add_env(job, options->env.items[i], reterr);
    }
    if (r == 0) {
        r = add_files(job, &options->files, ret_input_fd, reterr);
    }
    if (r < 0) {
        return r;
    }
    *ret = TAKE_PTR(job);
    return 0;
}
