/* policy + ceilings + job -> plan. Runs in the warden for every job, and on the command line. Pure: opens
 * nothing, reads nothing. The steps that all jobs of the policy share come from policy/tree.c; here come the
 * script, the limits and the program. */
#include "policy/policy.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/plan/plan.h"
#include "policy/compiled.h"
#include "policy/env.h"
#include "policy/mounts.h"

/* Backstop where no cgroup counts memory: address space, not memory, so far more than the limit itself. Twice
 * the limit for what is reserved and never touched, and a gibibyte for libraries, thread stacks and arenas.
 * The watch holds the exact line; this stops what grows faster than the watch looks. */
#define ADDRESS_SPACE_FACTOR 2u
#define ADDRESS_SPACE_SPARE  (1ull << 30)

static void plan_freep(struct jail_plan **plan)
{
    jail_plan_free(*plan);
}

static int check_strings(const char *field, char *const *strings, size_t n_strings, size_t *total,
                         struct err *reterr)
{
    for (size_t i = 0; i < n_strings; i++) {
        size_t len = strlen(strings[i]);
        *total += len + 1 + sizeof(char *);
        if (len > STRING_BYTES_MAX || *total > STRINGS_BYTES_MAX) {
            return err_set(reterr, ERR_INVALID, E2BIG, field,
                           "must be at most %u bytes each and %u bytes in all", STRING_BYTES_MAX,
                           STRINGS_BYTES_MAX);
        }
    }
    return 0;
}

/* The script's name: "/immure/main.py". */
static int script_path(const struct runtime_config *runtime, char ret[PATH_MAX], struct err *reterr)
{
    if (strchr(runtime->extension, '/')) {
        return err_set(reterr, ERR_CONFIG, EINVAL, runtime->name, "extension %s: must not hold '/'",
                       runtime->extension);
    }
    int len = snprintf(ret, PATH_MAX, "%s/main.%s", POLICY_SCRIPT_DIRECTORY, runtime->extension);
    if (len < 0 || len >= NAME_MAX) {
        return err_set(reterr, ERR_CONFIG, EINVAL, runtime->name, "extension: is too long");
    }
    return 0;
}

static void add_script(struct jail_plan *plan, const char *path, const struct job *job)
{
    struct jail_step *step = jail_plan_add(plan, JAIL_STEP_FILE);
    step->file.path = jail_plan_text(plan, path);
    step->file.mode = 0444;
    step->file.from_input = true;
    step->file.size_bytes = job->code_size;
    policy_grow_root(plan, job->code_size);
}

static const char *prelude_path(const struct policy_program *program, const struct prelude_config *prelude)
{
    const char *startup = program->runtime->startup ? program->runtime->startup : PRELUDE_STARTUP;
    bool is_startup = program->image && program->image->startup && strcmp(prelude->path, startup) == 0;
    return is_startup ? program->image->startup : prelude->path;
}

static const char *interpreter_path(const struct policy_program *program)
{
    bool in_image = program->image && program->image->interpreter;
    return in_image ? program->image->interpreter : program->runtime->interpreter;
}

/* What is part of immure and every program of the runtime finds; but its launcher of kernels, only those. */
static void add_preludes(struct jail_plan *plan, const struct policy_program *program)
{
    const struct runtime_config *runtime = program->runtime;
    for (size_t i = 0; i < runtime->n_preludes; i++) {
        const struct prelude_config *prelude = &runtime->preludes[i];
        const char *place = prelude_path(program, prelude);
        if (place[0] != '/' || policy_is_mounted_over(plan, place) ||
            (!program->kernel && strcmp(place, runtime->kernel) == 0)) {
            continue;
        }
        policy_make_parents(plan, place);
        jail_ref path = jail_plan_text(plan, place);
        jail_ref content = jail_plan_bytes(plan, prelude->data, prelude->size, 1);
        struct jail_step *step = jail_plan_add(plan, JAIL_STEP_FILE);
        step->file.path = path;
        step->file.mode = 0444;
        step->file.content = content;
        step->file.size_bytes = prelude->size;
        policy_grow_root(plan, prelude->size);
    }
}

/* What a resource is limited to: the policy's own rlimits, and those that its limits imply. The lower one
 * holds. */
struct rlimit_row {
    bool set;
    uint64_t soft, hard;
};

/* Where a policy is silent the caller's own limits would hold, which differ from host to host. A server
 * without privileges can set each of these: none is above what hosts give an ordinary user. */
static const struct policy_rlimit default_rlimits[] = {
    {.resource = RLIMIT_CORE}, /* a handler of the host's would read cores as root */
    {.resource = RLIMIT_NOFILE, .soft = 320, .hard = 320}, /* bounds what the kernel keeps for open files */
    {.resource = RLIMIT_MEMLOCK},                          /* memory that cannot be swapped out */
    {.resource = RLIMIT_MSGQUEUE},
    {.resource = RLIMIT_NICE},
    {.resource = RLIMIT_RTPRIO},
    {.resource = RLIMIT_SIGPENDING,
     .soft = 1024,
     .hard = 1024}, /* counted for all jails of one uid together */
};

static void lower(struct rlimit_row *row, uint64_t most)
{
    row->soft = row->set && row->soft < most ? row->soft : most;
    row->hard = row->set && row->hard < most ? row->hard : most;
    row->set = true;
}

static void set_rlimits(struct rlimit_row *rows, const struct policy_rlimit *limits, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        rows[limits[i].resource] =
            (struct rlimit_row){.set = true, .soft = limits[i].soft, .hard = limits[i].hard};
    }
}

static void add_rlimits(struct jail_plan *plan, const struct policy_spec *spec,
                        const struct policy_ceilings *ceilings, const struct job_limits *limits)
{
    struct rlimit_row rows[RLIM_NLIMITS] = {0};
    set_rlimits(rows, default_rlimits, ARRAY_SIZE(default_rlimits));
    set_rlimits(rows, spec->rlimits, spec->n_rlimits);
    /* Beside pids.max too: counted per user namespace, of which every jail has its own. PID 1 counts. */
    lower(&rows[RLIMIT_NPROC], limits->pids + 1);
    if (!ceilings->cgroup && spec->limits.address_space) {
        uint64_t spare = UINT64_MAX - ADDRESS_SPACE_SPARE - 1;
        lower(&rows[RLIMIT_AS], limits->memory_bytes < spare / ADDRESS_SPACE_FACTOR
                                    ? limits->memory_bytes * ADDRESS_SPACE_FACTOR + ADDRESS_SPACE_SPARE
                                    : spare);
    }
    if (ceilings->file_bytes > 0) {
        lower(&rows[RLIMIT_FSIZE], ceilings->file_bytes);
    }
    for (uint32_t resource = 0; resource < RLIM_NLIMITS; resource++) {
        if (rows[resource].set) {
            struct jail_step *step = jail_plan_add(plan, JAIL_STEP_RLIMIT);
            step->rlimit.resource = resource;
            step->rlimit.soft = rows[resource].soft;
            step->rlimit.hard = rows[resource].hard;
        }
    }
}

bool policy_rlimit(const struct policy *policy, uint32_t resource, uint64_t *ret_soft, uint64_t *ret_hard)
{
    struct rlimit_row rows[RLIM_NLIMITS] = {0};
    const struct policy_spec *spec = policy_spec(policy);
    set_rlimits(rows, default_rlimits, ARRAY_SIZE(default_rlimits));
    set_rlimits(rows, spec->rlimits, spec->n_rlimits);
    *ret_soft = rows[resource].soft;
    *ret_hard = rows[resource].hard;
    return rows[resource].set;
}

uint64_t policy_open_files(const struct policy *policy)
{
    uint64_t soft, hard;
    policy_rlimit(policy, RLIMIT_NOFILE, &soft, &hard);
    return hard;
}

static void put_strings(struct buf *ret, char *const *strings, size_t n_strings, uint32_t *count)
{
    for (size_t i = 0; i < n_strings; i++) {
        buf_append(ret, strings[i], strlen(strings[i]) + 1);
    }
    *count += (uint32_t)n_strings;
}

/* interpreter, its arguments, the script, the job's arguments; or the command as it is, and the job's
 * arguments. */
static int add_arguments(struct jail_plan *plan, const struct policy_program *program, const char *script,
                         const struct job *job, struct jail_step *exec, struct err *reterr)
{
    const struct runtime_config *runtime = program->runtime;
    size_t total = 0;
    int r = check_strings("args", job->args, job->n_args, &total, reterr);
    r = r < 0 ? r : check_strings("command", program->argv, program->n_argv, &total, reterr);
    if (r < 0) {
        return r;
    }
    CLEANUP(buf_free) struct buf run = BUF_INIT;
    uint32_t count = 0;
    const char *path = runtime ? interpreter_path(program) : program->argv[0];
    if (runtime) {
        buf_append(&run, path, strlen(path) + 1);
        count++;
        put_strings(&run, runtime->args, runtime->n_args, &count);
        const char *last = program->kernel ? runtime->kernel : program->standby ? runtime->standby : script;
        buf_append(&run, last, strlen(last) + 1);
        count++;
    } else {
        put_strings(&run, program->argv, program->n_argv, &count);
    }
    put_strings(&run, job->args, job->n_args, &count);
    if (run.failed) {
        return err_errno(reterr, ENOMEM, "building the plan");
    }
    exec->exec.path = jail_plan_text(plan, path);
    exec->exec.argv = jail_plan_bytes(plan, run.data, run.len, 1);
    exec->exec.argc = count;
    return 0;
}

/* A runtime's interpreter is named by its whole path: which one a search would find could depend on what the
 * job wrote. A command may be any path, or a name that is looked up along the program's own PATH. */
static int check_program(const struct policy_program *program, struct err *reterr)
{
    if (program->runtime) {
        const char *path = interpreter_path(program);
        const char *problem = path_problem(path);
        return problem ? err_set(reterr, ERR_CONFIG, EINVAL, program->runtime->name, "interpreter %s: %s",
                                 path, problem)
                       : 0;
    }
    if (program->n_argv == 0 || program->argv[0][0] == '\0') {
        return err_set(reterr, ERR_INVALID, EINVAL, "command", "is missing");
    }
    return strlen(program->argv[0]) < PATH_MAX
               ? 0
               : err_set(reterr, ERR_INVALID, ENAMETOOLONG, "command", "is longer than a path can be");
}

static int check_files(const struct policy *policy, const struct job *job, struct err *reterr)
{
    return job->n_files == 0 || policy_workspace(policy)
               ? 0
               : err_set(reterr, ERR_INVALID, ENOTDIR, "files",
                         "policy %s has no scratch directory to put files into", policy->spec->name);
}

/* In a session, what would be a directory of the job's own scratch is the workspace that its jobs share. */
static int share_workspace(struct jail_plan *plan, const struct policy_spec *spec, struct err *reterr)
{
    const struct policy_mount *work = NULL;
    for (size_t i = 0; i < spec->n_mounts; i++) {
        const struct policy_mount *mount = &spec->mounts[i];
        work = mount->kind == POLICY_MOUNT_SCRATCH && strcmp(mount->source, "work") == 0 ? mount : work;
    }
    for (uint32_t i = 0; work && i < plan->n_steps; i++) {
        struct jail_step *step = &plan->steps[i];
        if (step->kind == JAIL_STEP_SUBMOUNT &&
            strcmp(jail_plan_string(plan, step->submount.path), work->destination) == 0) {
            jail_ref path = step->submount.path;
            uint32_t flags = step->submount.flags;
            *step = (struct jail_step){.kind = JAIL_STEP_WORKSPACE, .workspace = {path, flags}};
            return 0;
        }
    }
    return err_set(reterr, ERR_INVALID, ENOTDIR, "session_id", "policy %s has no scratch directory to share",
                   spec->name);
}

static void add_speculation(struct jail_plan *plan, const struct policy_spec *spec)
{
    _Static_assert((int)POLICY_SPECULATION_INSIST == (int)JAIL_SPECULATION_INSIST, "the same words");
    if (spec->store_bypass || spec->indirect_branch || spec->core_sharing) {
        struct jail_step *step = jail_plan_add(plan, JAIL_STEP_SPECULATION);
        step->speculation.store_bypass = (enum jail_speculation)spec->store_bypass;
        step->speculation.indirect_branch = (enum jail_speculation)spec->indirect_branch;
        step->speculation.core_sharing = (enum jail_speculation)spec->core_sharing;
    }
}

/* Where a step lets the program write; NULL: it does not. */
static const char *writable_path(const struct jail_plan *plan, const struct jail_step *step)
{
    bool read_only = true;
    switch (step->kind) {
    case JAIL_STEP_BIND:
        read_only = (step->bind.flags & JAIL_MOUNT_READONLY) != 0;
        break;
    case JAIL_STEP_TMPFS:
        read_only = (step->tmpfs.flags & JAIL_MOUNT_READONLY) != 0;
        break;
    case JAIL_STEP_SUBMOUNT:
        read_only = (step->submount.flags & JAIL_MOUNT_READONLY) != 0;
        break;
    case JAIL_STEP_WORKSPACE:
        read_only = (step->workspace.flags & JAIL_MOUNT_READONLY) != 0;
        break;
    default:
        break;
    }
    return read_only ? NULL : jail_step_path(plan, step);
}

static void append_path(struct buf *run, const char *path, uint32_t *count)
{
    if (path) {
        buf_append(run, path, strlen(path) + 1);
        (*count)++;
    }
}

static void add_landlock(struct jail_plan *plan, const struct policy *policy,
                         const struct policy_ceilings *ceilings)
{
    if (ceilings->landlock_abi == 0 || policy_mounting_call(policy)) {
        return;
    }
    CLEANUP(buf_free) struct buf writable = BUF_INIT;
    CLEANUP(buf_free) struct buf devices = BUF_INIT;
    uint32_t n_writable = 0, n_devices = 0;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const struct jail_step *step = &plan->steps[i];
        bool device = step->kind == JAIL_STEP_BIND && !(step->bind.flags & JAIL_MOUNT_NODEV);
        append_path(&writable, writable_path(plan, step), &n_writable);
        append_path(&devices, device ? jail_step_path(plan, step) : NULL, &n_devices);
    }
    jail_ref writable_at = jail_plan_bytes(plan, writable.data, writable.len, 1);
    jail_ref devices_at = jail_plan_bytes(plan, devices.data, devices.len, 1);
    plan->failed |= writable.failed || devices.failed;
    struct jail_step *step = jail_plan_add(plan, JAIL_STEP_LANDLOCK);
    step->landlock.writable = writable_at;
    step->landlock.n_writable = n_writable;
    step->landlock.devices = devices_at;
    step->landlock.n_devices = n_devices;
    step->landlock.abi = ceilings->landlock_abi;
}

static void add_between_tree_and_exec(struct jail_plan *plan, const struct policy *policy, jail_ref bpf,
                                      const struct policy_ceilings *ceilings, const struct job_limits *limits,
                                      const struct policy_program *program)
{
    jail_plan_add(plan, JAIL_STEP_PIVOT);
    jail_plan_add(plan, JAIL_STEP_ROOT_READONLY);
    jail_plan_add(plan, JAIL_STEP_STDIO);
    if (program->bridge) {
        jail_plan_add(plan, JAIL_STEP_BRIDGE);
    }
    if (program->proxy && policy->spec->n_egress > 0) {
        jail_plan_add(plan, JAIL_STEP_EGRESS);
    }
    jail_plan_add(plan, JAIL_STEP_CAPABILITIES)->capabilities.keep = policy->capabilities;
    jail_plan_add(plan, JAIL_STEP_NO_NEW_PRIVS);
    jail_plan_add(plan, JAIL_STEP_PROGRAM);
    jail_plan_add(plan, JAIL_STEP_SESSION)->session.terminal = program->terminal;
    jail_plan_add(plan, JAIL_STEP_UMASK)->umask.mask = policy->spec->umask;
    jail_ref working_directory = jail_plan_text(
        plan, program->working_directory ? program->working_directory : policy->spec->working_directory);
    jail_plan_add(plan, JAIL_STEP_WORKDIR)->workdir.path = working_directory;
    add_landlock(plan, policy, ceilings); /* it needs a descriptor, of which the job may have no more */
    add_rlimits(plan, policy->spec, ceilings, limits);
    add_speculation(plan, policy->spec);
    if (policy_writes_for_others(program)) {
        jail_plan_add(plan, JAIL_STEP_NO_SET_ID);
    }
    struct jail_step *step = jail_plan_add(plan, JAIL_STEP_SECCOMP);
    step->seccomp.bpf = bpf;
    step->seccomp.length = policy->filter.length;
    step->seccomp.notify = policy->filter.notify;
    step->seccomp.locks = policy->filter.locks;
    step->seccomp.file_locks = policy->filter.locks ? policy->spec->limits.file_locks : 0;
}

static void put_limits(struct jail_plan *plan, const struct policy_spec *spec,
                       const struct job_limits *limits)
{
    plan->limits = (struct jail_limits){
        .memory_bytes = limits->memory_bytes,
        .pids = limits->pids,
        .cpu_percent = (uint32_t)limits->cpu_percent,
        .cpu_ms = limits->cpu_ms,
        .timeout_ms = limits->timeout_ms,
        .scratch_bytes = limits->scratch_bytes,
        .scratch_inodes = spec->limits.scratch_inodes,
    };
}

static bool may_choose_image(const struct policy_spec *spec, const char *name)
{
    for (size_t i = 0; i < spec->n_images; i++) {
        if (strcmp(spec->images[i], "*") == 0 || strcmp(spec->images[i], name) == 0) {
            return true;
        }
    }
    return false;
}

int policy_image_for(const struct policy *policy, const struct job *job, const char **ret, struct err *reterr)
{
    const struct policy_spec *spec = policy->spec;
    const char *wish = job->image ? job->image : "";
    *ret = spec->image[0] ? spec->image : job->image;
    if (spec->image[0] && wish[0] && strcmp(spec->image, wish) != 0) {
        return err_set(reterr, ERR_DENIED, EPERM, "image", "policy '%s' runs in the image '%s' alone",
                       spec->name, spec->image);
    }
    if (!spec->image[0] && job->image && !wish[0]) {
        return err_set(reterr, ERR_INVALID, EINVAL, "image", "policy '%s' fixes none: which one?",
                       spec->name);
    }
    if (!spec->image[0] && wish[0] && !may_choose_image(spec, wish)) {
        return err_set(reterr, ERR_DENIED, EPERM, "image", "policy '%s' does not allow the image '%.64s'",
                       spec->name, wish);
    }
    return 0;
}

static void add_runtime_files(struct jail_plan *plan, const struct policy_program *program,
                              const char *script, const struct job *job)
{
    if (program->runtime) {
        policy_make_parents(plan, script);
        if (!program->standby && !program->kernel) {
            add_script(plan, script, job);
        }
        add_preludes(plan, program);
    }
}

/* Everything that is in the jail's root. */
static int build_tree(const struct policy *policy, const struct job *job,
                      const struct policy_program *program, const char *script, struct jail_plan **ret,
                      jail_ref *ret_bpf, struct err *reterr)
{
    if (program->image) {
        int r = policy_begin_image_tree(policy, ret, ret_bpf, reterr);
        if (r < 0) {
            return r;
        }
        add_runtime_files(*ret, program, script, job);
        policy_make_bind_parents(*ret, program);
        r = policy_finish_image_tree(policy, *ret, reterr);
        return r < 0 ? r : policy_add_binds(*ret, program, reterr);
    }
    if (policy->spec->image[0]) {
        return err_set(reterr, ERR_INVALID, EINVAL, "image",
                       "policy '%s' runs in the image '%s', and there is none here", policy->spec->name,
                       policy->spec->image);
    }
    *ret = jail_plan_copy(policy->tree);
    *ret_bpf = policy->bpf;
    if (!*ret) {
        return err_errno(reterr, ENOMEM, "building the plan");
    }
    policy_show_interpreter(*ret, policy->spec, program->runtime);
    policy_show_interpreter(*ret, policy->spec, policy->shown);
    add_runtime_files(*ret, program, script, job);
    policy_make_bind_parents(*ret, program);
    return policy_add_binds(*ret, program, reterr);
}

int policy_build_plan(const struct policy *policy, const struct policy_ceilings *ceilings,
                      const struct job *job, const struct policy_program *program, struct jail_plan **ret,
                      struct err *reterr)
{
    struct job_limits limits;
    int r = check_program(program, reterr);
    r = r < 0 ? r : check_files(policy, job, reterr);
    r = r < 0 ? r : policy_limits_for(policy, ceilings, job, &limits, reterr);
    char script[PATH_MAX] = "";
    r = r < 0 || !program->runtime ? r : script_path(program->runtime, script, reterr);
    if (r < 0) {
        return r;
    }
    CLEANUP(plan_freep) struct jail_plan *plan = NULL;
    jail_ref bpf;
    r = build_tree(policy, job, program, script, &plan, &bpf, reterr);
    r = r < 0 || !job->session_id ? r : share_workspace(plan, policy->spec, reterr);
    if (r < 0) {
        return r;
    }
    put_limits(plan, policy->spec, &limits);
    add_between_tree_and_exec(plan, policy, bpf, ceilings, &limits, program);
    struct jail_step *exec = jail_plan_add(plan, JAIL_STEP_EXEC);
    r = add_arguments(plan, program, script, job, exec, reterr);
    r = r < 0 ? r : env_add(plan, policy->spec, program, job, exec, reterr);
    if (r < 0) {
        return r;
    }
    if (plan->failed) {
        return err_errno(reterr, ENOMEM, "building the plan");
    }
    *ret = TAKE_PTR(plan);
    return 0;
}
