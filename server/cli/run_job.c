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

/* The '=' of NAME=PATH. */
static const char *find_equals(const char *option, const char *text, struct err *reterr)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text) {
        err_set(reterr, ERR_INVALID, EINVAL, option, "'%s' is not of the form NAME=PATH", text);
        return NULL;
    }
    return equals;
}

/* NAME=VALUE, or NAME with the value that it has here. */
static int add_env(struct job *job, const char *text, struct err *reterr)
{
    size_t length = strcspn(text, "=");
    const char *value = text[length] == '=' ? text + length + 1 : getenv(text);
    if (length == 0) {
        return err_set(reterr, ERR_INVALID, EINVAL, "--env", "'%s' is not of the form NAME or NAME=VALUE",
                       text);
    }
    if (!value) {
        return err_set(reterr, ERR_INVALID, ENOENT, "--env", "%s is not set here; NAME=VALUE sets it", text);
    }
    struct job_env *env = &job->env[job->n_env++];
    env->name = strndup(text, length);
    env->value = strdup(value);
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

/* What to return of the working directory. */
static int add_outputs(struct job *job, const struct option_list *out, struct err *reterr)
{
    for (size_t i = 0; i < out->n; i++) {
        const char *glob = out->items[i];
        if (glob[0] == '\0' || glob[0] == '/') {
            return err_set(reterr, ERR_INVALID, EINVAL, "--out",
                           "'%s' must be a name or a glob below the jail's working directory", glob);
        }
        job->outputs[job->n_outputs] = strdup(glob);
        if (!job->outputs[job->n_outputs++]) {
            return err_errno(reterr, ENOMEM, "preparing the job");
        }
    }
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
    job->outputs = calloc(options->out.n + 1, sizeof job->outputs[0]);
    job->image = options->image ? strdup(options->image) : NULL;
    if (!job->env || !job->files || !job->outputs || (options->image && !job->image)) {
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
    r = r < 0 ? r : add_outputs(job, &options->out, reterr);
    if (r < 0) {
        return r;
    }
    *ret = TAKE_PTR(job);
    return 0;
}

int run_cgroup_mode(const char *option, enum cgroup_mode *ret, struct err *reterr)
{
    static const struct {
        const char *name;
        enum cgroup_mode mode;
    } modes[] = {
        {"required", CGROUP_REQUIRED},
        {"best-effort", CGROUP_BEST_EFFORT},
        {"REQUIRED", CGROUP_REQUIRED},
        {"BEST_EFFORT", CGROUP_BEST_EFFORT},
    };
    const char *name = option ? option : getenv(CGROUP_VARIABLE);
    if (!name || !*name) {
        return 0;
    }
    for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
        if (strcmp(modes[i].name, name) == 0) {
            *ret = modes[i].mode;
            return 1;
        }
    }
    return err_set(reterr, ERR_INVALID, EINVAL, option ? "--cgroup" : CGROUP_VARIABLE,
                   "'%s' is neither required nor best-effort", name);
}
