/* One job from request to verdict. Runs in the warden and in `immure run`; never blocks, but that `immure
 * run` writes all input files itself.
 *
 * The order matters: everything that can be the caller's fault (limits, environment, file names) is found
 * before the first resource is made, and whatever has been made by the time something fails is torn down
 * whole. */
#include "server/run/execution_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "config/policy/policy_file.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/plan/template_plan.h"
#include "jail/resources/cgroup.h"
#include "jail/resources/idmap.h"
#include "jail/resources/scratch.h"
#include "jail/standby.h"
#include "jail/template.h"
#include "jail/watch.h"
#include "policy/policy.h"
#include "server/host/host.h"
#include "server/run/collector.h"
#include "server/run/kernels.h"
#include "server/run/warm.h"

static void copy_policy_facts(struct execution *execution, const struct policy *policy)
{
    const struct policy_limits *limits = &policy_spec(policy)->limits;
    execution->output_limits.files_max = limits->output_files;
    execution->output_limits.file_bytes_max = limits->output_file_bytes;
    execution->policy = strdup(policy_name(policy));
    const char *workspace = policy_workspace(policy);
    execution->workspace = workspace ? strdup(workspace) : NULL;
    snprintf(execution->policy_sha256, sizeof execution->policy_sha256, "%s", policy_sha256(policy));
}

static void copy_image_facts(struct execution *execution, const struct policy_image *image)
{
    if (image) {
        snprintf(execution->image, sizeof execution->image, "%s%s%s", image->name,
                 image->digest[0] ? "@" : "", image->digest);
    }
}

static int check_file_names(const struct job *job, struct err *reterr)
{
    for (size_t i = 0; i < job->n_files; i++) {
        int r = scratch_check_path(job->files[i].path, reterr);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Files, and directories that their names lead through, each once. */
static uint64_t count_nodes(const char **sorted, size_t n)
{
    uint64_t nodes = n;
    for (size_t i = 0; i < n; i++) {
        size_t common = 0;
        while (i > 0 && sorted[i][common] && sorted[i][common] == sorted[i - 1][common]) {
            common++;
        }
        for (const char *at = strchr(sorted[i] + common, '/'); at; at = strchr(at + 1, '/')) {
            nodes++;
        }
    }
    return nodes;
}

/* What cannot fit is refused before a jail is taken for it: writing until it is full, and taking all of that
 * down, would cost the other jobs more than this one. */
static int check_files_fit(const struct job *job, const struct jail_limits *limits, struct err *reterr)
{
    uint64_t bytes = 0;
    CLEANUP(freep) const char **sorted = calloc(job->n_files + 1, sizeof *sorted);
    if (!sorted) {
        return err_errno(reterr, ENOMEM, "preparing a job");
    }
    for (size_t i = 0; i < job->n_files; i++) {
        sorted[i] = job->files[i].path;
        bytes += job->files[i].size;
    }
    qsort(sorted, job->n_files, sizeof *sorted, by_name);
    if (count_nodes(sorted, job->n_files) > limits->scratch_inodes || bytes > limits->scratch_bytes) {
        return err_set(reterr, ERR_TOO_LARGE, ENOSPC, "files",
                       "the input files do not fit into the scratch limit");
    }
    return 0;
}

/* The verdict still names the whole of the time. */
static void end_early(const struct job *job, struct jail_limits *limits)
{
    uint64_t most_ms = limits->timeout_ms / 10;
    limits->timeout_ms -= job->early_ms < most_ms ? job->early_ms : most_ms;
}

/* The pure part: what applies, and the plan. */
static int prepare_plan(struct execution *execution, const struct execution_request *request,
                        struct err *reterr)
{
    copy_policy_facts(execution, request->policy);
    copy_image_facts(execution, request->program->image);
    if (!execution->policy) {
        return err_errno(reterr, ENOMEM, "preparing a job");
    }
    int r = policy_limits_for(request->policy, request->ceilings, execution->job, &execution->limits, reterr);
    execution->output_limits.all_bytes_max = execution->limits.scratch_bytes;
    if (r == 0) {
        r = check_file_names(execution->job, reterr);
    }
    if (r == 0) {
        r = policy_build_plan(request->policy, request->ceilings, execution->job, request->program,
                              &execution->plan, reterr);
    }
    if (r == 0) {
        end_early(execution->job, &execution->plan->limits);
    }
    if (r == 0 && !execution->job->session_id && execution->job->n_files > 0) {
        r = check_files_fit(execution->job, &execution->plan->limits, reterr);
    }
    return r;
}

int execution_check(const struct policy *policy, const struct policy_ceilings *ceilings,
                    const struct policy_program *program, const struct job *job, struct err *reterr)
{
    struct job_limits limits;
    struct jail_plan *plan = NULL;
    int r = policy_limits_for(policy, ceilings, job, &limits, reterr);
    r = r < 0 ? r : check_file_names(job, reterr);
    r = r < 0 || !program ? r : policy_build_plan(policy, ceilings, job, program, &plan, reterr);
    jail_plan_free(plan);
    return r;
}

/* The files of a session belong to one outer id as long as it lasts, so its jobs all have that one. */
static void join_session(struct execution *execution, const struct session_workspace *session)
{
    execution->outer_uid = session->uid;
    execution->outer_gid = session->gid;
    execution->file_uid = session->file_uid;
    execution->file_gid = session->file_gid;
    execution->work_fd = session->fd;
    execution->session_entries = session->entries;
    /* Twice: while it is being listed, other jobs may be giving its files new names. */
    execution->output_limits.entries_max = 2 * session->inodes;
    /* Where that fails, so does the job's chdir, and says so. */
    scratch_reset_mode(session->fd);
}

static int take_outer_id(struct execution *execution, struct err *reterr)
{
    int r = idmap_take(execution->host->ids, &execution->outer_uid, &execution->outer_gid);
    if (r == -EAGAIN) {
        return err_set(reterr, ERR_BUSY, EAGAIN, NULL, "server busy: execution capacity reached");
    }
    if (r < 0) {
        return err_errno(reterr, -r, "taking an outer uid");
    }
    execution->has_outer_id = true;
    return 0;
}

static bool plan_has_scratch(const struct jail_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        if (plan->steps[i].kind == JAIL_STEP_SCRATCH) {
            return true;
        }
    }
    return false;
}

static bool is_shared(const struct execution *execution)
{
    return execution->job->session_id != NULL;
}

/* A job that shares no workspace works in its scratch. */
static void own_workspace(struct execution *execution)
{
    if (!is_shared(execution)) {
        execution->work_fd = execution->scratch_fd;
        execution->file_uid = execution->outer_uid;
        execution->file_gid = execution->outer_gid;
    }
}

#define SCRIPT_PAGE_BYTES 4096u

/* A parked scratch has the policy's size and room for a small script. */
static int fit_scratch(struct execution *execution, struct err *reterr)
{
    uint64_t size_bytes = execution->plan->limits.scratch_bytes;
    uint64_t script_bytes = execution->job->code_size;
    if (size_bytes == warm_jail_scratch_bytes(execution->warm) && script_bytes <= SCRIPT_PAGE_BYTES) {
        return 0;
    }
    uint64_t pages = (script_bytes + SCRIPT_PAGE_BYTES - 1) / SCRIPT_PAGE_BYTES;
    return scratch_resize(execution->scratch_fd, size_bytes + pages * SCRIPT_PAGE_BYTES, reterr);
}

static int keep_fds(struct execution *execution, const int fds[JAIL_FD_COUNT], struct err *reterr)
{
    static const enum jail_fd slots[JAIL_PROGRAM_FDS] = {JAIL_FD_STDIN, JAIL_FD_STDOUT, JAIL_FD_STDERR,
                                                         JAIL_FD_BRIDGE_IN, JAIL_FD_BRIDGE_OUT};
    execution->n_fds = fds[JAIL_FD_BRIDGE_IN] >= 0 ? JAIL_PROGRAM_FDS : 3;
    for (size_t i = 0; i < execution->n_fds; i++) {
        execution->fds[i] = fcntl(fds[slots[i]], F_DUPFD_CLOEXEC, 3);
        if (execution->fds[i] < 0) {
            return err_errno(reterr, errno, "keeping a job's pipes");
        }
    }
    return 0;
}

static void close_fds(struct execution *execution)
{
    for (size_t i = 0; i < ARRAY_SIZE(execution->fds); i++) {
        fd_closep(&execution->fds[i]);
    }
    fd_closep(&execution->filled.program_fd);
    for (size_t i = 0; execution->owns_spawn_fds && i < ARRAY_SIZE(execution->spawn_fds); i++) {
        fd_closep(&execution->spawn_fds[i]);
    }
}

/* Hands the program over as soon as the jail is parked. */
static int run_when_parked(struct execution *execution, struct err *reterr)
{
    if (jail_state(execution->jail) != JAIL_PARKED || execution->fds[0] < 0) {
        return 0;
    }
    struct jail_plan *plan;
    int r;
    if (execution->filled.program_fd >= 0) {
        r = jail_standby_run(execution->jail, execution->plan, execution->fds, execution->filled.program_fd,
                             reterr);
    } else if ((r = jail_plan_for_run(execution->plan, &plan, reterr)) == 0) {
        r = jail_run(execution->jail, plan, execution->fds, execution->n_fds, reterr);
        jail_plan_free(plan);
    }
    close_fds(execution);
    return r;
}

static int spawn(struct execution *execution, struct err *reterr)
{
    struct jail_spawn_options options = {
        .plan = execution->plan,
        .outer_uid = execution->outer_uid,
        .outer_gid = execution->outer_gid,
        .drop_groups = execution->host->privileged,
        .waits_for_all = execution->waits_for_all,
    };
    memcpy(options.fds, execution->spawn_fds, sizeof options.fds);
    options.fds[JAIL_FD_SCRATCH] = execution->scratch_fd;
    if (execution->host->cgroups) {
        int r = jail_cgroup_new(execution->host->cgroups, &execution->plan->limits, &options.cgroup, reterr);
        if (r < 0) {
            return r;
        }
        execution->enforced_by_cgroup = true;
    }
    execution->started_ns = clock_now_ns();
    int r = jail_spawn(&execution->jail, &options, reterr);
    if (r == 0) {
        execution_advance(execution, EXECUTION_BUILDING);
    }
    return r;
}

int execution_signal(const struct execution *execution, int signal)
{
    return execution->jail && !execution->kernel ? jail_signal(execution->jail, signal) : -ESRCH;
}

/* Its input is where it belongs. */
static int go_on(struct execution *execution, struct err *reterr)
{
    if (!execution->jail) {
        int r = spawn(execution, reterr);
        close_fds(execution);
        return r;
    }
    execution_advance(execution, EXECUTION_BUILDING);
    return run_when_parked(execution, reterr);
}

/* Those of the caller that are needed later. */
static int own_spawn_fds(struct execution *execution, struct err *reterr)
{
    int copies[JAIL_FD_COUNT] = {0}, code = 0;
    for (size_t i = 0; i < ARRAY_SIZE(copies); i++) {
        int fd = execution->spawn_fds[i];
        copies[i] = fd < 0 || code ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
        code = fd >= 0 && !code && copies[i] < 0 ? errno : code;
    }
    memcpy(execution->spawn_fds, copies, sizeof copies);
    execution->owns_spawn_fds = true;
    return code ? err_errno(reterr, code, "keeping a job's descriptors") : 0;
}

/* Writes the input and goes on; 1: a process does, and execution_go_on() comes later. */
static int fill(struct execution *execution, const struct jail_plan *standby, struct err *reterr)
{
    const struct filling filling = {.job = execution->job,
                                    .plan = execution->plan,
                                    .standby = standby,
                                    .script = execution->warm &&
                                              (!standby || warm_jail_has_script(execution->warm)),
                                    .shared = is_shared(execution),
                                    .entries = execution->session_entries,
                                    .entries_max = execution->output_limits.entries_max,
                                    .file_uid = execution->file_uid,
                                    .file_gid = execution->file_gid,
                                    .outer_uid = execution->outer_uid,
                                    .outer_gid = execution->outer_gid,
                                    .work_fd = execution->work_fd,
                                    .scratch_fd = execution->scratch_fd,
                                    .input_fd = execution->spawn_fds[JAIL_FD_INPUT]};
    bool is_alone = !execution->list_outputs;
    int r = is_alone || !filling_takes_long(&filling)
                ? filling_do(&filling, is_alone, &execution->filled, reterr)
                : 1;
    if (r <= 0) {
        return r < 0 ? r : go_on(execution, reterr);
    }
    execution->started_ns = clock_now_ns();
    r = filler_start(&filling, &execution->filler, reterr);
    r = r < 0 || execution->jail ? r : own_spawn_fds(execution, reterr);
    return r < 0 ? r : 1;
}

int execution_go_on(struct execution *execution, struct err *reterr)
{
    int r = filler_end(execution->filler, &execution->filled, reterr);
    filler_free(TAKE_PTR(execution->filler));
    r = r < 0 ? r : go_on(execution, reterr);
    if (r < 0 && execution->jail && execution->early_end != JAIL_END_NONE) {
        /* Its kernel, for one, has ended with its session: that is why. */
        err_clear(reterr);
        jail_kill(execution->jail, execution->early_end);
        return 0;
    }
    if (r == 0 && execution->early_end == JAIL_END_CANCEL) {
        jail_interrupt(execution->jail, JAIL_END_CANCEL);
    } else if (r == 0 && execution->early_end != JAIL_END_NONE) {
        jail_kill(execution->jail, execution->early_end);
    }
    return r;
}

/* `*ret_taken`: the job is on its way in a jail of a template; otherwise it has to start its interpreter
 * itself. 1: as of fill(). */
static int start_warm(struct execution *execution, const struct execution_request *request, bool *ret_taken,
                      struct err *reterr)
{
    execution->warm =
        request->warm ? warm_take(request->warm, request->program->runtime, request->policy, execution->plan,
                                  request->session, request->template_owner, request->image)
                      : NULL;
    *ret_taken = execution->warm != NULL;
    if (!execution->warm) {
        return 0;
    }
    execution->jail = warm_jail_jail(execution->warm);
    execution->scratch_fd = warm_jail_scratch(execution->warm);
    warm_jail_ids(execution->warm, &execution->outer_uid, &execution->outer_gid);
    own_workspace(execution);
    execution->enforced_by_cgroup = execution->host->cgroups != NULL;
    execution->started_ns = clock_now_ns();
    const struct jail_plan *standby = warm_jail_standby_plan(execution->warm);
    int r = standby && !warm_jail_has_script(execution->warm) ? 0 : fit_scratch(execution, reterr);
    r = r < 0 ? r : keep_fds(execution, request->fds, reterr);
    return r < 0 ? r : fill(execution, standby, reterr);
}

/* Its session's kernel begins with all of the job's plan but the script and the arguments. */
static int start_kernel(struct execution *execution, const struct execution_request *request,
                        struct err *reterr)
{
    struct job job = *execution->job;
    struct policy_program program = *request->program;
    struct jail_plan *plan;
    job.n_args = 0;
    job.code_size = 0;
    program.kernel = true;
    int r = policy_build_plan(request->policy, request->ceilings, &job, &program, &plan, reterr);
    return r < 0 ? r : kernel_start(execution->kernel, plan, request->session, reterr);
}

/* The job is a call of its session's kernel, whose jail is there already or made for this. */
static int start_in_kernel(struct execution *execution, const struct execution_request *request,
                           struct err *reterr)
{
    execution->started_ns = clock_now_ns();
    int r = kernel_jail(execution->kernel) ? kernel_fits(execution->kernel, execution->plan, reterr)
                                           : start_kernel(execution, request, reterr);
    if (r < 0) {
        return r;
    }
    execution->jail = kernel_jail(execution->kernel);
    execution->scratch_fd = kernel_scratch(execution->kernel);
    execution->enforced_by_cgroup = execution->host->cgroups != NULL;
    r = keep_fds(execution, request->fds, reterr);
    return r < 0 ? r : fill(execution, kernel_plan(execution->kernel), reterr);
}

/* The job makes a jail of its own. 1: as of fill(). */
static int start_cold(struct execution *execution, const struct execution_request *request,
                      struct err *reterr)
{
    int r = request->session ? 0 : take_outer_id(execution, reterr);
    if (r < 0) {
        return r;
    }
    if (!plan_has_scratch(execution->plan)) {
        return execution->job->n_files > 0
                   ? err_set(reterr, ERR_INVALID, EINVAL, "files",
                             "policy '%s' has no scratch mount to put files on", execution->policy)
                   : spawn(execution, reterr);
    }
    const struct jail_limits *limits = &execution->plan->limits;
    r = scratch_open(limits->scratch_bytes, limits->scratch_inodes, execution->outer_uid,
                     execution->outer_gid, &execution->scratch_fd, reterr);
    own_workspace(execution);
    return r < 0 ? r : fill(execution, NULL, reterr);
}

int execution_start(const struct execution_request *request, struct execution **ret, struct err *reterr)
{
    CLEANUP(execution_freep) struct execution *execution = calloc(1, sizeof *execution);
    if (!execution) {
        job_free(request->job);
        kernel_leave(request->kernel);
        return err_errno(reterr, ENOMEM, "preparing a job");
    }
    execution->job = request->job;
    execution->host = request->host;
    execution->scratch_fd = execution->work_fd = -1;
    execution->filled = FILLED_NOTHING;
    execution->waits_for_all = request->waits_for_all;
    memcpy(execution->spawn_fds, request->fds, sizeof execution->spawn_fds);
    execution->spawn_fds[JAIL_FD_WORKSPACE] = request->session ? request->session->mount_fd : -1;
    execution->list_outputs = request->list_outputs;
    execution->kernel = request->kernel;
    memset(execution->fds, 0xff, sizeof execution->fds);
    int r = prepare_plan(execution, request, reterr);
    if (request->session) {
        join_session(execution, request->session);
    }
    bool is_warm = false;
    if (r == 0 && execution->kernel) {
        r = start_in_kernel(execution, request, reterr);
    } else if (r == 0) {
        r = start_warm(execution, request, &is_warm, reterr);
        r = r == 0 && !is_warm ? start_cold(execution, request, reterr) : r;
    }
    if (r < 0) {
        return r;
    }
    *ret = TAKE_PTR(execution);
    return r;
}

void execution_free(struct execution *execution)
{
    if (!execution) {
        return;
    }
    close_fds(execution);
    filler_free(execution->filler);
    collector_free(execution->collector);
    job_result_clear(&execution->result);
    if (execution->warm || execution->kernel) {
        execution->jail = NULL; /* the warm jail's or the kernel's, like the scratch */
        execution->scratch_fd = -1;
    }
    warm_jail_free(execution->warm);
    kernel_leave(execution->kernel);
    jail_free(execution->jail);
    /* Only now is no process left that has the id. */
    if (execution->has_outer_id) {
        idmap_give_back(execution->host->ids, execution->outer_uid);
    }
    filled_clear(&execution->filled);
    fd_closep(&execution->scratch_fd);
    jail_plan_free(execution->plan);
    job_free(execution->job);
    free(execution->policy);
    free(execution->workspace);
    free(execution);
}

enum execution_state execution_state(const struct execution *execution)
{
    return execution->state;
}

const char *execution_policy(const struct execution *execution)
{
    return execution->policy;
}

const struct job *execution_job(const struct execution *execution)
{
    return execution->job;
}

int execution_filler_fd(const struct execution *execution)
{
    return filler_fd(execution->filler);
}

int execution_egress_fd(const struct execution *execution)
{
    return jail_egress_fd(execution->jail);
}

int execution_fd(const struct execution *execution)
{
    return jail_fd(execution->jail);
}

enum execution_state execution_dispatch(struct execution *execution)
{
    static const enum execution_state states[] = {[JAIL_BUILDING] = EXECUTION_BUILDING,
                                                  [JAIL_PARKED] = EXECUTION_BUILDING,
                                                  [JAIL_RUNNING] = EXECUTION_RUNNING,
                                                  [JAIL_ENDED] = EXECUTION_ENDED};
    enum jail_state state = jail_dispatch(execution->jail);
    if (jail_has_called(execution->jail)) {
        execution_advance(execution, EXECUTION_ENDED);
        return execution->state;
    }
    if (state == JAIL_PARKED && run_when_parked(execution, &execution->run_err) < 0) {
        jail_kill(execution->jail, JAIL_END_SETUP);
    }
    execution_advance(execution, states[state]);
    return execution->state;
}

bool execution_is_gone(const struct execution *execution)
{
    return jail_is_gone(execution->jail) || execution->kernel; /* which sees to its own */
}

bool execution_needs_watch(const struct execution *execution)
{
    return !execution->enforced_by_cgroup || execution->limits.cpu_ms > 0;
}

uint64_t execution_watch(struct execution *execution)
{
    if (execution->state != EXECUTION_RUNNING) {
        return 0;
    }
    jail_watch(execution->jail, execution->scratch_fd);
    return jail_watch_due_ns(execution->jail);
}

void execution_usage(const struct execution *execution, uint64_t *ret_memory_bytes, uint64_t *ret_cpu_ns)
{
    jail_watch_usage(execution->jail, execution->scratch_fd, ret_memory_bytes, ret_cpu_ns);
}

struct floor_account *execution_account(struct execution *execution)
{
    return execution->kernel ? kernel_account(execution->kernel) : &execution->account;
}

uint64_t execution_remaining_ms(const struct execution *execution, uint64_t now_ns)
{
    if (execution->limits.timeout_ms == 0) {
        return UINT64_MAX;
    }
    /* While the jail is being built its deadline is the builder's; the job's own follows it. */
    uint64_t deadline_ns = execution->state == EXECUTION_RUNNING
                               ? jail_deadline_ns(execution->jail)
                               : execution->started_ns + execution->limits.timeout_ms * NS_PER_MS;
    return deadline_ns > now_ns ? (deadline_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS : 0;
}
