/* One plan in two: what a template does once, and what is left for each job. Pure, runs in the parent. */
#include "jail/plan/template_plan.h"

#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <stdio.h>
#include <string.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/plan/plan.h"

#define PROGRAM_PATH TEMPLATE_SCRIPT_DIRECTORY "/template"
#define PRELOAD      "LD_PRELOAD="

/* Of a standby jail, beside the preludes of Python's runtime. */
#define PRELOADED_PATH "/usr/local/lib/immure/immure-python.so"

/* A template's root has room for a policy's inline files and mount points. */
#define ROOT_BYTES  (4ull << 20) /* the program aside */
#define ROOT_INODES 4096

#define TEMPORARY_INODES 256

#define FILTER_ALIGN 8

/* What becomes of a step in the two plans. */
enum fate {
    FATE_BOTH,     /* the template's own and each job's */
    FATE_TEMPLATE, /* once */
    FATE_RUN,      /* each job */
    FATE_SPECIAL,  /* see the two functions */
    FATE_NONE,     /* neither: what it does comes with the order to run */
};

static const enum fate fates[JAIL_STEP_COUNT] = {
    [JAIL_STEP_PROPAGATION] = FATE_BOTH,
    [JAIL_STEP_IDENTITY] = FATE_SPECIAL,
    [JAIL_STEP_LOOPBACK] = FATE_RUN,
    [JAIL_STEP_EGRESS] = FATE_RUN,
    [JAIL_STEP_HOSTNAME] = FATE_BOTH,
    [JAIL_STEP_ROOT] = FATE_SPECIAL,
    [JAIL_STEP_ROOT_INHERITED] = FATE_RUN,
    [JAIL_STEP_MKDIR] = FATE_TEMPLATE,
    [JAIL_STEP_FILE] = FATE_SPECIAL,
    [JAIL_STEP_SYMLINK] = FATE_TEMPLATE,
    [JAIL_STEP_IMAGE] = FATE_NONE, /* see check_fit() */
    [JAIL_STEP_BIND] = FATE_TEMPLATE,
    [JAIL_STEP_TMPFS] = FATE_BOTH,
    [JAIL_STEP_PROC] = FATE_SPECIAL,
    [JAIL_STEP_SCRATCH] = FATE_SPECIAL,
    [JAIL_STEP_SUBMOUNT] = FATE_SPECIAL,
    [JAIL_STEP_WORKSPACE] = FATE_SPECIAL,
    [JAIL_STEP_PIVOT] = FATE_TEMPLATE,
    [JAIL_STEP_ROOT_READONLY] = FATE_TEMPLATE,
    [JAIL_STEP_STDIO] = FATE_TEMPLATE,
    [JAIL_STEP_BRIDGE] = FATE_NONE,
    [JAIL_STEP_CAPABILITIES] = FATE_SPECIAL,
    [JAIL_STEP_NO_NEW_PRIVS] = FATE_BOTH,
    [JAIL_STEP_PROGRAM] = FATE_BOTH,
    [JAIL_STEP_SESSION] = FATE_BOTH,
    [JAIL_STEP_UMASK] = FATE_RUN,
    [JAIL_STEP_WORKDIR] = FATE_RUN,
    [JAIL_STEP_RLIMIT] = FATE_RUN,
    [JAIL_STEP_SPECULATION] = FATE_RUN,
    [JAIL_STEP_NO_SET_ID] = FATE_RUN,
    [JAIL_STEP_LANDLOCK] = FATE_RUN,
    [JAIL_STEP_SECCOMP] = FATE_RUN,
    [JAIL_STEP_EXEC] = FATE_SPECIAL,
    [JAIL_STEP_RUN] = FATE_RUN,
};

/* A copy of `plan` without its steps; the arena, and so every reference, stays. */
static struct jail_plan *copy_without_steps(const struct jail_plan *plan)
{
    struct jail_plan *copy = jail_plan_copy(plan);
    if (copy) {
        copy->n_steps = 0;
    }
    return copy;
}

static void add(struct jail_plan *plan, const struct jail_step *step)
{
    *jail_plan_add(plan, step->kind) = *step;
}

static void add_mkdir(struct jail_plan *plan, jail_ref path)
{
    jail_plan_add(plan, JAIL_STEP_MKDIR)->mkdir =
        (__typeof__(((struct jail_step *)0)->mkdir)){.path = path, .mode = 0755};
}

/* True if a directory of that name is made by `plan` already. */
static bool makes_directory(const struct jail_plan *plan, const char *path)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const struct jail_step *step = &plan->steps[i];
        if (step->kind == JAIL_STEP_MKDIR && strcmp(jail_plan_string(plan, step->mkdir.path), path) == 0) {
            return true;
        }
    }
    return false;
}

static int refuse(struct err *reterr, const char *why)
{
    return err_set(reterr, ERR_HOST, EOPNOTSUPP, NULL, "this policy cannot run from a template: %s", why);
}

/* What only the template does, once. The script is none of it: each job has its own. */
static bool is_done_once(const struct jail_step *step)
{
    return fates[step->kind] == FATE_TEMPLATE || (step->kind == JAIL_STEP_FILE && !step->file.from_input);
}

/* What each job attaches for itself, over whatever the template has there. */
static bool is_attached_anew(const struct jail_step *step)
{
    return step->kind == JAIL_STEP_TMPFS || step->kind == JAIL_STEP_SCRATCH ||
           step->kind == JAIL_STEP_SUBMOUNT || step->kind == JAIL_STEP_WORKSPACE;
}

static bool lies_below(const char *path, const char *directory)
{
    size_t length = strlen(directory);
    return strncmp(path, directory, length) == 0 && path[length] == '/';
}

/* True if a job would not see what is at `path` in its template. */
static bool is_hidden(const struct jail_plan *plan, const char *path)
{
    bool hidden = lies_below(path, TEMPLATE_SCRIPT_DIRECTORY);
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const struct jail_step *step = &plan->steps[i];
        hidden = hidden || (is_attached_anew(step) && lies_below(path, jail_step_path(plan, step)));
    }
    return hidden;
}

static int check_nothing_is_hidden(const struct jail_plan *plan, struct err *reterr)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const struct jail_step *step = &plan->steps[i];
        const char *path = is_done_once(step) ? jail_step_path(plan, step) : NULL;
        if (path && is_hidden(plan, path)) {
            char why[160];
            snprintf(why, sizeof why, "%.80s lies in a directory that each job has of its own", path);
            return refuse(reterr, why);
        }
    }
    return 0;
}

static int check_fit(const struct jail_plan *plan, struct err *reterr)
{
    if (!jail_plan_has(plan, JAIL_STEP_PROC)) {
        return refuse(reterr, "it has no procfs");
    }
    if (!jail_plan_has(plan, JAIL_STEP_SCRATCH)) {
        return refuse(reterr, "it has no scratch");
    }
    if (jail_plan_has(plan, JAIL_STEP_IMAGE)) {
        return refuse(reterr, "its root is an image");
    }
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const struct jail_step *step = &plan->steps[i];
        if (step->kind == JAIL_STEP_CAPABILITIES && step->capabilities.keep != 0) {
            return refuse(reterr, "it grants capabilities");
        }
        if (step->kind == JAIL_STEP_SCRATCH &&
            lies_below(jail_plan_string(plan, step->scratch.path), TEMPLATE_SCRIPT_DIRECTORY)) {
            return refuse(reterr, "its scratch has no place of its own, as TMP would be");
        }
    }
    return check_nothing_is_hidden(plan, reterr);
}

/* How the template begins: its program with its name before `argv`; or, with what lies at `preloaded` (NULL:
 * nothing), the interpreter with `argv` as it is. */
static void add_exec(struct jail_plan *plan, const struct jail_step *exec, char *const *argv,
                     const char *preloaded)
{
    CLEANUP(buf_free) struct buf words = BUF_INIT;
    CLEANUP(buf_free) struct buf variables = BUF_INIT;
    struct jail_step template = *exec;
    const char *variable = jail_plan_string(plan, exec->exec.envp);
    template.exec.argc = 0;
    if (!preloaded) {
        buf_append(&words, PROGRAM_PATH, sizeof PROGRAM_PATH);
        template.exec.argc++;
    }
    for (; *argv; argv++, template.exec.argc++) {
        buf_append(&words, *argv, strlen(*argv) + 1);
    }
    for (uint32_t i = 0; i < exec->exec.envc; i++, variable += strlen(variable) + 1) {
        buf_append(&variables, variable, strlen(variable) + 1);
    }
    if (preloaded) {
        buf_append(&variables, PRELOAD, strlen(PRELOAD));
        buf_append(&variables, preloaded, strlen(preloaded) + 1);
        template.exec.envc++;
        template.exec.envp = jail_plan_bytes(plan, variables.data, variables.len, 1);
    } else {
        template.exec.path = jail_plan_text(plan, PROGRAM_PATH);
    }
    template.exec.argv = jail_plan_bytes(plan, words.data, words.len, 1);
    plan->failed |= words.failed || variables.failed;
    *jail_plan_add(plan, JAIL_STEP_EXEC) = template;
}

static void make_parents(struct jail_plan *plan, const char *path)
{
    char parent[PATH_MAX];
    for (const char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        snprintf(parent, sizeof parent, "%.*s", (int)(at - path), path);
        if (!makes_directory(plan, parent)) {
            add_mkdir(plan, jail_plan_text(plan, parent));
        }
    }
}

/* Copied rather than bound: where it lies on the host, the template's uid may have no way to. */
static void add_program(struct jail_plan *plan, const char *at, uint64_t size_bytes)
{
    make_parents(plan, at);
    jail_ref path = jail_plan_text(plan, at);
    struct jail_step *file = jail_plan_add(plan, JAIL_STEP_FILE);
    file->file.path = path;
    file->file.mode = 0555;
    file->file.from_input = true;
    file->file.size_bytes = size_bytes;
}

static uint64_t template_capabilities(bool keep_setid)
{
    return keep_setid ? 1ull << CAP_SETUID | 1ull << CAP_SETGID : 0;
}

/* Under the scratch that each job attaches. */
static void add_temporary(struct jail_plan *plan, jail_ref path, uint64_t size_bytes)
{
    struct jail_step *step = jail_plan_add(plan, JAIL_STEP_TMPFS);
    step->tmpfs.path = path;
    step->tmpfs.size_bytes = size_bytes;
    step->tmpfs.inodes = TEMPORARY_INODES;
    step->tmpfs.mode = 01777;
    step->tmpfs.flags = JAIL_MOUNT_NOSUID | JAIL_MOUNT_NODEV | JAIL_MOUNT_NOEXEC;
}

int jail_plan_for_template(const struct jail_plan *plan, uint64_t size_bytes, uint64_t temporary_bytes,
                           char *const *argv, bool preloaded, uint32_t uid, bool keep_setid,
                           struct jail_plan **ret, struct err *reterr)
{
    int r = check_fit(plan, reterr);
    if (r < 0) {
        return r;
    }
    struct jail_plan *own = copy_without_steps(plan);
    if (!own) {
        return err_errno(reterr, ENOMEM, "planning a template");
    }
    own->uid = own->gid = uid;
    own->limits = (struct jail_limits){0};
    /* Its jobs' cgroups must lie inside the cgroup namespace of whoever clones into them. */
    own->namespaces &= ~(uint64_t)CLONE_NEWCGROUP;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        struct jail_step step = plan->steps[i];
        if (step.kind == JAIL_STEP_PIVOT) {
            add_program(own, PROGRAM_PATH, size_bytes);
        }
        if (fates[step.kind] == FATE_BOTH || fates[step.kind] == FATE_TEMPLATE) {
            add(own, &step);
        } else if (step.kind == JAIL_STEP_IDENTITY) {
            step.identity.uid = step.identity.gid = uid;
            add(own, &step);
        } else if (step.kind == JAIL_STEP_ROOT) {
            step.root.size_bytes = ROOT_BYTES + size_bytes;
            step.root.inodes = ROOT_INODES;
            add(own, &step);
        } else if (step.kind == JAIL_STEP_PROC) {
            step.proc.flags &= ~(uint32_t)(JAIL_MOUNT_READONLY | JAIL_MOUNT_OPTIONAL);
            step.proc.flags |= JAIL_PROC_TEMPLATE;
            add(own, &step);
        } else if (step.kind == JAIL_STEP_FILE && !step.file.from_input) {
            add(own, &step);
        } else if (step.kind == JAIL_STEP_SCRATCH) {
            add_mkdir(own, step.scratch.path);
            if (temporary_bytes > 0) {
                add_temporary(own, step.scratch.path, temporary_bytes);
            }
        } else if (step.kind == JAIL_STEP_SUBMOUNT &&
                   !makes_directory(own, jail_plan_string(own, step.submount.path))) {
            add_mkdir(own, step.submount.path);
        } else if (step.kind == JAIL_STEP_CAPABILITIES) {
            step.capabilities.keep = template_capabilities(keep_setid);
            add(own, &step);
        } else if (step.kind == JAIL_STEP_EXEC) {
            add_exec(own, &step, argv, preloaded ? PROGRAM_PATH : NULL);
        }
    }
    r = jail_plan_check(own, reterr);
    if (r < 0) {
        jail_plan_free(own);
        return r;
    }
    *ret = own;
    return 0;
}

/* Takes `count` strings along that lie one behind the other. */
static void carry(struct jail_plan *to, const struct jail_plan *from, jail_ref *ref, uint32_t count)
{
    uint64_t end = *ref;
    for (uint32_t i = 0; i < count; i++) {
        const unsigned char *text = end < from->arena_size ? from->arena + end : NULL;
        const unsigned char *nul = text ? memchr(text, '\0', from->arena_size - end) : NULL;
        if (!nul) {
            to->failed = true;
            return;
        }
        end += (uint64_t)(nul - text) + 1;
    }
    *ref = count > 0 ? jail_plan_bytes(to, from->arena + *ref, end - *ref, 1) : 0;
}

static void carry_filter(struct jail_plan *to, const struct jail_plan *from, struct jail_step *step)
{
    uint64_t size_bytes = (uint64_t)step->seccomp.length * sizeof(struct sock_filter);
    if (step->seccomp.bpf + size_bytes > from->arena_size) {
        to->failed = true;
        return;
    }
    step->seccomp.bpf = jail_plan_bytes(to, from->arena + step->seccomp.bpf, size_bytes, FILTER_ALIGN);
}

/* Adds a step with what it refers to, and nothing else: a job's plan is copied and sent more often than
 * looked at, and most of a policy's text is the files that only the template's root has. */
static void add_carried(struct jail_plan *to, const struct jail_plan *from, struct jail_step *step)
{
    switch (step->kind) {
    case JAIL_STEP_HOSTNAME:
        carry(to, from, &step->hostname.name, 1);
        break;
    case JAIL_STEP_TMPFS:
        carry(to, from, &step->tmpfs.path, 1);
        break;
    case JAIL_STEP_PROC:
        carry(to, from, &step->proc.path, 1);
        break;
    case JAIL_STEP_SCRATCH:
        carry(to, from, &step->scratch.path, 1);
        break;
    case JAIL_STEP_SUBMOUNT:
        carry(to, from, &step->submount.source, 1);
        carry(to, from, &step->submount.path, 1);
        break;
    case JAIL_STEP_WORKSPACE:
        carry(to, from, &step->workspace.path, 1);
        break;
    case JAIL_STEP_WORKDIR:
        carry(to, from, &step->workdir.path, 1);
        break;
    case JAIL_STEP_LANDLOCK:
        carry(to, from, &step->landlock.writable, step->landlock.n_writable);
        carry(to, from, &step->landlock.devices, step->landlock.n_devices);
        break;
    case JAIL_STEP_SECCOMP:
        carry_filter(to, from, step);
        break;
    case JAIL_STEP_RUN:
        carry(to, from, &step->exec.path, 1);
        carry(to, from, &step->exec.argv, step->exec.argc);
        carry(to, from, &step->exec.envp, step->exec.envc);
        break;
    case JAIL_STEP_PROPAGATION:
    case JAIL_STEP_IDENTITY:
    case JAIL_STEP_LOOPBACK:
    case JAIL_STEP_EGRESS:
    case JAIL_STEP_ROOT_INHERITED:
    case JAIL_STEP_CAPABILITIES:
    case JAIL_STEP_NO_NEW_PRIVS:
    case JAIL_STEP_PROGRAM:
    case JAIL_STEP_SESSION:
    case JAIL_STEP_UMASK:
    case JAIL_STEP_RLIMIT:
    case JAIL_STEP_SPECULATION:
    case JAIL_STEP_NO_SET_ID:
        break; /* refer to nothing */
    default:
        to->failed = true; /* what it refers to would be left behind */
    }
    add(to, step);
}

/* The script lies on the scratch, in a directory of its own that the program sees read-only. */
static void add_script_directory(struct jail_plan *plan, const char *scratch_path)
{
    CLEANUP(buf_free) struct buf source = BUF_INIT;
    buf_printf(&source, "%s/" SCRATCH_CODE, scratch_path);
    plan->failed |= source.failed;
    jail_ref from = source.failed ? 0 : jail_plan_text(plan, source.data);
    jail_ref path = jail_plan_text(plan, TEMPLATE_SCRIPT_DIRECTORY);
    struct jail_step *step = jail_plan_add(plan, JAIL_STEP_SUBMOUNT);
    step->submount.source = from;
    step->submount.path = path;
    step->submount.flags = JAIL_MOUNT_READONLY | JAIL_MOUNT_NOSUID | JAIL_MOUNT_NODEV;
}

int jail_plan_for_run(const struct jail_plan *plan, struct jail_plan **ret, struct err *reterr)
{
    struct jail_plan *run = jail_plan_new();
    if (!run) {
        return err_errno(reterr, ENOMEM, "planning a job from a template");
    }
    run->namespaces = plan->namespaces;
    run->uid = plan->uid;
    run->gid = plan->gid;
    run->limits = plan->limits;
    run->failed = plan->failed;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        struct jail_step step = plan->steps[i];
        switch (step.kind) {
        case JAIL_STEP_ROOT:
            step.kind = JAIL_STEP_ROOT_INHERITED;
            add_carried(run, plan, &step);
            break;
        case JAIL_STEP_PROC:
            /* Left out, it would leave the template's own in its place. */
            step.proc.flags &= ~(uint32_t)JAIL_MOUNT_OPTIONAL;
            add_carried(run, plan, &step);
            break;
        case JAIL_STEP_SCRATCH:
            add_carried(run, plan, &step);
            add_script_directory(run, jail_plan_string(run, step.scratch.path));
            break;
        case JAIL_STEP_EXEC:
            step.kind = JAIL_STEP_RUN;
            add_carried(run, plan, &step);
            break;
        case JAIL_STEP_IDENTITY:
        case JAIL_STEP_SUBMOUNT:
        case JAIL_STEP_WORKSPACE:
        case JAIL_STEP_CAPABILITIES:
            add_carried(run, plan, &step);
            break;
        default:
            if (fates[step.kind] == FATE_BOTH || fates[step.kind] == FATE_RUN) {
                add_carried(run, plan, &step);
            }
        }
    }
    int r = jail_plan_check(run, reterr);
    if (r < 0) {
        jail_plan_free(run);
        return r;
    }
    *ret = run;
    return 0;
}

static int check_standby_fit(const struct jail_plan *plan, struct err *reterr)
{
    if (!jail_plan_has(plan, JAIL_STEP_SCRATCH)) {
        return refuse(reterr, "it has no scratch");
    }
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const char *path = jail_step_path(plan, &plan->steps[i]);
        if (path && lies_below(path, TEMPLATE_SCRIPT_DIRECTORY)) {
            return refuse(reterr, "it puts something beside the script");
        }
        if (path && lies_below(PRELOADED_PATH, path) && plan->steps[i].kind != JAIL_STEP_MKDIR) {
            return refuse(reterr, "it mounts something over immure's files");
        }
    }
    return 0;
}

int jail_plan_for_standby(const struct jail_plan *plan, uint64_t size_bytes, char *const *argv,
                          struct jail_plan **ret, struct err *reterr)
{
    int r = check_standby_fit(plan, reterr);
    struct jail_plan *own = r < 0 ? NULL : copy_without_steps(plan);
    if (!own) {
        return r < 0 ? r : err_errno(reterr, ENOMEM, "planning a standby jail");
    }
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        struct jail_step step = plan->steps[i];
        if (step.kind == JAIL_STEP_ROOT) {
            step.root.size_bytes += size_bytes + ROOT_BYTES;
            step.root.inodes += ROOT_INODES;
        }
        if (step.kind == JAIL_STEP_IMAGE) {
            add_program(own, PRELOADED_PATH, size_bytes);
        }
        if (step.kind == JAIL_STEP_EXEC) {
            add_exec(own, &step, argv, PRELOADED_PATH);
        } else {
            add(own, &step);
        }
        if (step.kind == JAIL_STEP_SCRATCH) {
            add_script_directory(own, jail_plan_string(own, step.scratch.path));
        }
    }
    r = jail_plan_check(own, reterr);
    if (r < 0) {
        jail_plan_free(own);
        return r;
    }
    *ret = own;
    return 0;
}
