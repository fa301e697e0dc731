/* The end of an execution: its verdict, and the files that go with it. Runs in the warden and in `immure
 * run`; what takes long with many files is a process's of its own. */
#include "server/run/execution_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/run/collector.h"
#include "server/run/kernels.h"
#include "server/run/verdict.h"

void execution_advance(struct execution *execution, enum execution_state state)
{
    if (state > execution->state) {
        execution->state = state;
    }
}

/* Before there is a jail to end, or a program in it: as soon as there is. The first word counts. */
static bool end_early_on(struct execution *execution, enum jail_end end)
{
    if (execution->filler && execution->early_end == JAIL_END_NONE) {
        execution->early_end = end;
    }
    return execution->filler != NULL;
}

void execution_cancel(struct execution *execution)
{
    if (!end_early_on(execution, JAIL_END_CANCEL)) {
        jail_interrupt(execution->jail, JAIL_END_CANCEL);
    }
}

static void kill_jail(struct execution *execution, enum jail_end end)
{
    if (!end_early_on(execution, end)) {
        jail_kill(execution->jail, end);
    }
}

void execution_kill(struct execution *execution)
{
    kill_jail(execution, JAIL_END_CANCEL);
}

void execution_end_for_memory(struct execution *execution)
{
    kill_jail(execution, JAIL_END_FLOOR);
}

void execution_end_over_workspace(struct execution *execution, const char *why)
{
    err_set(&execution->workspace_err, ERR_TOO_LARGE, EDQUOT, NULL, "%s", why);
    kill_jail(execution, JAIL_END_WORKSPACE);
}

/* What is left of a path below the workspace; NULL where it does not lie there. */
static const char *in_workspace(const struct execution *execution, const char *path)
{
    size_t length = execution->workspace ? strlen(execution->workspace) : 0;
    if (length == 0 || strncmp(path, execution->workspace, length) != 0 || path[length] != '/') {
        return NULL;
    }
    return path + length + 1;
}

void execution_name_outputs(struct execution *execution, char ***paths, size_t *n)
{
    struct job *job = execution->job;
    job_clear_named(job);
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++) {
        char *path = (*paths)[i];
        const char *relative = in_workspace(execution, path);
        if (relative) {
            memmove(path, relative, strlen(relative) + 1);
            (*paths)[kept++] = path;
        } else {
            free(path);
        }
    }
    job->named = TAKE_PTR(*paths);
    job->n_named = kept;
    *n = 0;
}

/* All of the verdict but the files. */
static int read_verdict(struct execution *execution, struct job_result *ret, struct err *reterr)
{
    struct jail_result jail = {0};
    struct err setup = {0};
    *ret = (struct job_result){
        .id = execution->job->id,
        .limits = execution->limits,
        .enforced_by_cgroup = execution->enforced_by_cgroup,
        .policy = strdup(execution->policy),
        .policy_sha256 = strdup(execution->policy_sha256),
        .image = execution->image[0] ? strdup(execution->image) : NULL,
    };
    if (!execution->enforced_by_cgroup) {
        ret->limits.cpu_percent = 0; /* nothing but cpu.max does that */
    }
    int r = jail_collect(execution->jail, &jail, &setup);
    ret->kernel = execution->kernel ? kernel_end_call(execution->kernel) : JOB_KERNEL_NONE;
    if (err_is_set(&execution->run_err)) {
        setup = execution->run_err;
    } else if (jail.end == JAIL_END_WORKSPACE) {
        setup = execution->workspace_err;
    }
    if (r < 0) {
        return err_set(reterr, ERR_INTERNAL, -r, NULL, "reading the verdict: %s", setup.text);
    }
    r = ret->policy && ret->policy_sha256 ? verdict_from_jail(&jail, &setup, ret) : -ENOMEM;
    return r < 0 ? err_errno(reterr, -r, "reading the verdict") : 0;
}

/* 1: a process of its own has begun to. */
static int list_files(struct execution *execution, struct job_result *result, struct err *reterr)
{
    if (!execution->list_outputs || execution->work_fd < 0 || result->status == JOB_SETUP_ERROR) {
        return 0;
    }
    const struct filled *filled = &execution->filled;
    int r = filled->before_fd >= 0
                ? 1
                : outputs_collect_quick(execution->work_fd, execution->job, &filled->before,
                                        &execution->output_limits, result, reterr);
    if (r == 1) {
        r = collector_start(execution->work_fd, execution->job, filled, &execution->output_limits,
                            &execution->collector, reterr);
        r = r < 0 ? r : 1;
    }
    return r;
}

int execution_files_fd(const struct execution *execution)
{
    return collector_fd(execution->collector);
}

int execution_finish(struct execution *execution, struct job_result *ret, struct err *reterr)
{
    struct job_result *result = &execution->result;
    int r;
    if (execution->collector) {
        r = collector_end(execution->collector, result, reterr);
        collector_free(TAKE_PTR(execution->collector));
    } else {
        r = read_verdict(execution, result, reterr);
        r = r < 0 ? r : list_files(execution, result, reterr);
    }
    if (r == 1) {
        return 1;
    }
    if (r < 0) {
        job_result_clear(result);
        return r;
    }
    execution_advance(execution, EXECUTION_FINISHED);
    *ret = *result;
    *result = (struct job_result){0};
    return 0;
}
