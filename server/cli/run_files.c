/* The caller's files on their way into a jail, and the program's on their way out. Runs in the process of the
 * command line; what does the work is server/launch. */
#include "server/cli/run_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/message/job.h"
#include "config/policy/policy_file.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/resources/idmap.h"
#include "policy/mounts.h"
#include "policy/policy.h"
#include "server/cli/command.h"
#include "server/cli/run_job.h"
#include "server/host/host.h"
#include "server/launch/named_files.h"
#include "server/launch/outputs.h"
#include "server/run/glob.h"

static int add_options(struct run_files *files, const struct run_options *options, struct err *reterr)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < options->read_only.n; i++) {
        r = launch_binds_add(&files->binds, "--ro", options->read_only.items[i], false, reterr);
    }
    for (size_t i = 0; r == 0 && i < options->writable.n; i++) {
        r = launch_binds_add(&files->binds, "--rw", options->writable.items[i], true, reterr);
    }
    if (r < 0 || !options->cwd) {
        return r;
    }
    files->working_directory = getcwd(NULL, 0);
    if (!files->working_directory) {
        return err_set(reterr, ERR_INVALID, errno, "--cwd", "where is this directory? %s", strerror(errno));
    }
    return launch_binds_add(&files->binds, "--cwd", ".", false, reterr);
}

static bool is_shown(const struct run_files *files, const struct policy *policy, const char *path)
{
    const struct policy_mount *over = policy_mount_over(policy_spec(policy), path);
    for (size_t i = 0; i < files->binds.n_rows; i++) {
        if (path_is_at_or_below(path, files->binds.rows[i].destination)) {
            return true;
        }
    }
    return over && over->kind != POLICY_MOUNT_SCRATCH;
}

static bool is_copied(const struct option_list *copies, const char *name)
{
    for (size_t i = 0; i < copies->n; i++) {
        size_t length = strcspn(copies->items[i], "=");
        if (strlen(name) == length && memcmp(copies->items[i], name, length) == 0) {
            return true;
        }
    }
    return false;
}

static int add_copy(struct run_files *files, struct run_options *options, const char *name,
                    struct err *reterr)
{
    char *copy;
    if (strchr(name, '=') || is_copied(&options->files, name) || options->files.n == OPTION_LIST_MAX) {
        return 0;
    }
    if (asprintf(&copy, "%s=%s", name, name) < 0) {
        return err_errno(reterr, ENOMEM, "preparing the job");
    }
    files->copies[files->n_copies++] = copy;
    options->files.items[options->files.n++] = copy;
    return 0;
}

/* `path` has room for one. (Not on the stack: what a frame there could need, every start would touch.) */
static int add_argument(struct run_files *files, struct run_options *options, const struct policy *policy,
                        char **argument, bool is_program, char *path, struct err *reterr)
{
    switch (named_file_find(*argument, is_program, path)) {
    case NAMED_NONE:
        break;
    case NAMED_COPY:
        return add_copy(files, options, path, reterr);
    case NAMED_SHOWN:
        if (strchr(path, ':') || is_shown(files, policy, path) ||
            (!is_program && (options->image || files->binds.n_rows == JAIL_BINDS_GIVEN_MAX))) {
            break;
        }
        if (is_program) {
            *argument = files->program = strdup(path);
        }
        if (!*argument) {
            return err_errno(reterr, ENOMEM, "preparing the job");
        }
        return launch_binds_add(&files->binds, "command", path, false, reterr);
    }
    return 0;
}

/* Nobody has said what the command may see: what its arguments name, it may. */
static int add_arguments(struct run_files *files, struct run_options *options, const struct policy *policy,
                         char **argv, size_t n_argv, struct err *reterr)
{
    const char *workspace = policy_workspace(policy);
    bool works_there = workspace && strcmp(workspace, policy_spec(policy)->working_directory) == 0;
    files->copies = calloc(n_argv + 1, sizeof files->copies[0]);
    CLEANUP(freep) char *path = malloc(PATH_MAX);
    if (!files->copies || !path) {
        return err_errno(reterr, ENOMEM, "preparing the job");
    }
    int r = 0;
    for (size_t i = 0; r == 0 && works_there && i < n_argv; i++) {
        r = add_argument(files, options, policy, &argv[i], i == 0, path, reterr);
    }
    return r;
}

int run_files_find(struct run_files *files, struct run_options *options, const struct policy *policy,
                   char **argv, size_t n_argv, struct err *reterr)
{
    int r = add_options(files, options, reterr);
    return r < 0 || options->policy || options->cwd
               ? r
               : add_arguments(files, options, policy, argv, n_argv, reterr);
}

int run_files_open(struct run_files *files, const struct host *host, struct err *reterr)
{
    uint32_t outer_id, count;
    if (files->binds.n_rows == 0) {
        return 0;
    }
    idmap_pool_range(host->ids, &outer_id, &count);
    return launch_binds_open(&files->binds, host->privileged, outer_id, outer_id, reterr);
}

void run_files_clear(struct run_files *files)
{
    launch_binds_clear(&files->binds);
    for (size_t i = 0; i < files->n_copies; i++) {
        free(files->copies[i]);
    }
    freep(&files->copies);
    freep(&files->working_directory);
    freep(&files->program);
}

/* A glob that has found nothing is likely a slip. */
static void tell_of_nothing(const char *command, const struct run_options *options,
                            const struct job_result *result)
{
    for (size_t i = 0; i < options->out.n; i++) {
        bool found = false;
        for (size_t n = 0; n < result->n_files && !found; n++) {
            uint64_t steps = 1u << 20;
            found = strcmp(options->out.items[i], result->files[n].path) == 0 ||
                    glob_match(options->out.items[i], result->files[n].path, &steps);
        }
        if (!found) {
            fprintf(stderr, "immure %s: --out %s: there is no such file\n", command, options->out.items[i]);
        }
    }
}

bool run_files_take(const char *command, const struct run_options *options, const struct job_result *result)
{
    bool all = !result->files_truncated || options->out.n == 0;
    if (options->out.n == 0 || result->status == JOB_SETUP_ERROR) {
        return true;
    }
    if (!all) {
        fprintf(stderr, "immure %s: --out: there are more files than the policy's output_files\n", command);
    }
    CLEANUP(fd_closep) int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < result->n_files; i++) {
        struct err err = {0};
        const struct job_output_file *file = &result->files[i];
        if (file->asked && file->written && launch_output_copy(here, file, &err) < 0) {
            command_fail(command, &err, EXIT_CODE_FAILED);
            all = false;
        }
    }
    tell_of_nothing(command, options, result);
    return all;
}
