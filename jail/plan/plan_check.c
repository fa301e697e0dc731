/* Holds a plan to the rules that make it a jail: what each step says here, how they stand to each other in
 * plan_order.c. Pure; runs in the parent before every clone, and under the fuzzer, so it must be safe on any
 * plan whatsoever: no reference is followed before it is known to lie inside the arena. */
#include "jail/plan/plan.h"

#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <string.h>
#include <sys/resource.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/plan/plan_order.h"

#define STEPS_MAX     4096u
#define STRINGS_MAX   65536u /* of one argv or envp */
#define BPF_MAX       BPF_MAXINSNS
#define HOSTNAME_MAX  64u
#define MEMORY_MIN    (1ull << 20)
#define BYTES_MAX     ((uint64_t)INT64_MAX)
#define PIDS_MAX_HERE 4194304u /* PID_MAX_LIMIT */
#define CPU_MAX       100000u  /* percent: a thousand CPUs */
#define MS_MAX        (366ull * 24 * 3600 * 1000)

#define NAMESPACES_NEEDED (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID)
#define NAMESPACES_KNOWN                                                                                     \
    (NAMESPACES_NEEDED | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_NEWTIME)

/* Which flags a mount may and must have. Nothing in a jail is ever setuid, and only what is bound from the
 * host can be a device. */
static const struct flag_rule {
    enum jail_step_kind kind;
    uint32_t allowed, required;
} flag_rules[] = {
    {JAIL_STEP_BIND,
     JAIL_MOUNT_READONLY | JAIL_MOUNT_NOSUID | JAIL_MOUNT_NODEV | JAIL_MOUNT_NOEXEC | JAIL_MOUNT_OPTIONAL |
         JAIL_MOUNT_RECURSIVE | JAIL_MOUNT_FILE,
     JAIL_MOUNT_NOSUID},
    {JAIL_STEP_TMPFS, JAIL_MOUNT_READONLY | JAIL_MOUNT_NOSUID | JAIL_MOUNT_NODEV | JAIL_MOUNT_NOEXEC,
     JAIL_MOUNT_NOSUID | JAIL_MOUNT_NODEV},
    {JAIL_STEP_PROC,
     JAIL_MOUNT_READONLY | JAIL_MOUNT_NOSUID | JAIL_MOUNT_NODEV | JAIL_MOUNT_NOEXEC | JAIL_MOUNT_OPTIONAL |
         JAIL_PROC_SUBSET_PID | JAIL_PROC_HIDE | JAIL_PROC_TEMPLATE,
     JAIL_MOUNT_NOSUID | JAIL_MOUNT_NODEV | JAIL_MOUNT_NOEXEC},
    {JAIL_STEP_SCRATCH, JAIL_MOUNT_NOSUID | JAIL_MOUNT_NODEV | JAIL_MOUNT_NOEXEC,
     JAIL_MOUNT_NOSUID | JAIL_MOUNT_NODEV},
    {JAIL_STEP_SUBMOUNT, JAIL_MOUNT_READONLY | JAIL_MOUNT_NOSUID | JAIL_MOUNT_NODEV | JAIL_MOUNT_NOEXEC,
     JAIL_MOUNT_NOSUID | JAIL_MOUNT_NODEV},
    {JAIL_STEP_WORKSPACE, JAIL_MOUNT_READONLY | JAIL_MOUNT_NOSUID | JAIL_MOUNT_NODEV | JAIL_MOUNT_NOEXEC,
     JAIL_MOUNT_NOSUID | JAIL_MOUNT_NODEV},
};

/* One rule's outcome: NULL if the plan keeps it, else the sentence. */
typedef const char *verdict;

static bool in_arena(const struct jail_plan *plan, jail_ref ref, uint64_t size)
{
    return ref <= plan->arena_size && size <= plan->arena_size - ref;
}

static const char *string_at(const struct jail_plan *plan, jail_ref ref)
{
    if (ref >= plan->arena_size || !memchr(plan->arena + ref, '\0', plan->arena_size - ref)) {
        return NULL;
    }
    return (const char *)plan->arena + ref;
}

/* `count` NUL-terminated strings, one behind the other, the first at `ref`. */
static bool run_in_arena(const struct jail_plan *plan, jail_ref ref, uint32_t count)
{
    uint64_t at = ref;
    for (uint32_t i = 0; i < count; i++) {
        const char *string = at < plan->arena_size ? string_at(plan, (jail_ref)at) : NULL;
        if (!string) {
            return false;
        }
        at += strlen(string) + 1;
    }
    return true;
}

/* Absolute, in the shortest spelling: no part is empty, "." or "..". "/" alone only where `root_too`. */
static verdict check_path(const struct jail_plan *plan, jail_ref ref, bool root_too)
{
    const char *path = string_at(plan, ref);
    if (!path) {
        return "every reference lies inside the arena and ends with a NUL";
    }
    if (path[0] != '/') {
        return "every path is absolute";
    }
    if (strlen(path) >= PATH_MAX) {
        return "every path is shorter than PATH_MAX";
    }
    if (path[1] == '\0') {
        return root_too ? NULL : "the root itself is not a mount point";
    }
    for (const char *part = path; *part == '/';) {
        size_t len = strcspn(++part, "/");
        if (len == 0 || (len == 1 && part[0] == '.') || (len == 2 && part[0] == '.' && part[1] == '.')) {
            return "no path has an empty part, '.' or '..'";
        }
        if (len > NAME_MAX) {
            return "every part of a path fits NAME_MAX";
        }
        part += len;
    }
    return NULL;
}

static verdict check_flags(enum jail_step_kind kind, uint32_t flags)
{
    for (size_t i = 0; i < ARRAY_SIZE(flag_rules); i++) {
        if (flag_rules[i].kind != kind) {
            continue;
        }
        if (flags & ~flag_rules[i].allowed) {
            return "a mount has only flags that its kind knows";
        }
        bool writable = !(flags & (JAIL_MOUNT_READONLY | JAIL_PROC_TEMPLATE));
        if ((flags & flag_rules[i].required) != flag_rules[i].required ||
            (kind == JAIL_STEP_PROC && writable)) {
            return "every mount is nosuid; all but binds are nodev; proc is read-only and noexec";
        }
    }
    return NULL;
}

static verdict check_identity(const struct jail_plan *plan, const struct jail_step *step)
{
    if (step->identity.uid != plan->uid || step->identity.gid != plan->gid) {
        return "the identity is the one that the id map maps";
    }
    return NULL;
}

static verdict check_hostname(const struct jail_plan *plan, const struct jail_step *step)
{
    const char *name = string_at(plan, step->hostname.name);
    if (!name) {
        return "every reference lies inside the arena and ends with a NUL";
    }
    size_t len = strlen(name);
    if (len == 0 || len > HOSTNAME_MAX) {
        return "a host name has 1 to 64 bytes";
    }
    return plan->namespaces & CLONE_NEWUTS ? NULL : "a host name needs a UTS namespace";
}

static verdict check_file(const struct jail_plan *plan, const struct jail_step *step)
{
    verdict words = check_path(plan, step->file.path, false);
    if (words) {
        return words;
    }
    if (step->file.mode & ~0777u) {
        return "a file's mode has permission bits only";
    }
    if (!step->file.from_input && !in_arena(plan, step->file.content, step->file.size_bytes)) {
        return "a file's content lies inside the arena";
    }
    if (step->file.offset > BYTES_MAX || step->file.size_bytes > BYTES_MAX - step->file.offset) {
        return "a file's place in the input does not overflow";
    }
    return NULL;
}

static verdict check_rlimit(const struct jail_plan *plan, const struct jail_step *step)
{
    if (step->rlimit.resource >= RLIM_NLIMITS) {
        return "a resource limit names a resource of the kernel";
    }
    if (step->rlimit.soft > step->rlimit.hard) {
        return "a soft limit is not above its hard limit";
    }
    for (const struct jail_step *other = plan->steps; other < step; other++) {
        if (other->kind == JAIL_STEP_RLIMIT && other->rlimit.resource == step->rlimit.resource) {
            return "each resource limit is set once";
        }
    }
    return NULL;
}

static verdict check_paths(const struct jail_plan *plan, jail_ref run, uint32_t count)
{
    if (count > STRINGS_MAX || !run_in_arena(plan, run, count)) {
        return "every reference lies inside the arena and ends with a NUL";
    }
    verdict words = NULL;
    for (uint32_t i = 0; !words && i < count; i++) {
        words = check_path(plan, run, false);
        run += (jail_ref)strlen(jail_plan_string(plan, run)) + 1;
    }
    return words;
}

static verdict check_speculation(const struct jail_step *step)
{
    const enum jail_speculation most = JAIL_SPECULATION_INSIST;
    return step->speculation.store_bypass > most || step->speculation.indirect_branch > most ||
                   step->speculation.core_sharing > most
               ? "speculation is left, restricted if offered, or insisted on"
               : NULL;
}

static verdict check_landlock(const struct jail_plan *plan, const struct jail_step *step)
{
    if (step->landlock.abi < 2 || step->landlock.abi > JAIL_LANDLOCK_NEWEST) {
        return "Landlock's interface has a version that we know";
    }
    verdict words = check_paths(plan, step->landlock.writable, step->landlock.n_writable);
    return words ? words : check_paths(plan, step->landlock.devices, step->landlock.n_devices);
}

static verdict check_seccomp(const struct jail_plan *plan, const struct jail_step *step)
{
    if (step->seccomp.length == 0 || step->seccomp.length > BPF_MAX) {
        return "a filter has 1 to 4096 instructions";
    }
    if (step->seccomp.bpf % 8 != 0) {
        return "a filter is aligned to 8 bytes";
    }
    if (!in_arena(plan, step->seccomp.bpf, step->seccomp.length * sizeof(struct sock_filter))) {
        return "a filter lies inside the arena";
    }
    if ((step->seccomp.locks & ~(uint32_t)JAIL_LOCK_ALL) || (step->seccomp.locks && !step->seccomp.notify) ||
        !step->seccomp.locks != !step->seccomp.file_locks) {
        return "locks that are counted have a limit, and come to PID 1";
    }
    return NULL;
}

static verdict check_exec(const struct jail_plan *plan, const struct jail_step *step)
{
    /* Inside the jail any path will do, and a bare name is looked up along the program's own PATH. */
    const char *path = string_at(plan, step->exec.path);
    if (!path || *path == '\0' || strlen(path) >= PATH_MAX) {
        return "a program has a path or a name";
    }
    if (step->exec.argc == 0 || step->exec.argc > STRINGS_MAX || step->exec.envc > STRINGS_MAX) {
        return "a program has at least its own name as an argument, and at most 65536 arguments or variables";
    }
    if (!run_in_arena(plan, step->exec.argv, step->exec.argc) ||
        !run_in_arena(plan, step->exec.envp, step->exec.envc)) {
        return "arguments and environment lie inside the arena";
    }
    return NULL;
}

static verdict check_tmpfs(const struct jail_plan *plan, const struct jail_step *step)
{
    if (step->tmpfs.size_bytes == 0 || step->tmpfs.size_bytes > BYTES_MAX || step->tmpfs.inodes == 0) {
        return "a tmpfs has a size and an inode limit";
    }
    if (step->tmpfs.mode & ~01777u) {
        return "a tmpfs's mode has permission bits and the sticky bit only";
    }
    return check_path(plan, step->tmpfs.path, false);
}

static verdict check_submount(const struct jail_plan *plan, const struct jail_step *step)
{
    verdict words = check_path(plan, step->submount.source, false);
    return words ? words : check_path(plan, step->submount.path, false);
}

static verdict check_scratch(const struct jail_plan *plan, const struct jail_step *step)
{
    if (plan->limits.scratch_bytes == 0 || plan->limits.scratch_inodes == 0) {
        return "a scratch has a size and an inode limit";
    }
    return check_path(plan, step->scratch.path, false);
}

static verdict check_given(const struct jail_step *step)
{
    uint32_t slot = step->bind.given;
    return slot == 0 || (slot >= JAIL_FD_BIND && slot <= JAIL_FD_BIND_LAST)
               ? NULL
               : "a mount that is given has one of the slots for them";
}

/* The name becomes part of an option of overlayfs, in which ':', ',' and '\\' mean something. */
static verdict check_image(const struct jail_plan *plan, const struct jail_step *step)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    verdict words = check_path(plan, step->image.path, false);
    if (words) {
        return words;
    }
    const char *name = jail_plan_string(plan, step->image.path) + 1;
    return strlen(name) > JAIL_IMAGE_NAME_MAX || name[strspn(name, plain)] != '\0'
               ? "an image is laid over a directory with a short and plain name"
               : NULL;
}

static verdict check_symlink(const struct jail_plan *plan, const struct jail_step *step)
{
    const char *target = string_at(plan, step->symlink.target);
    if (!target || *target == '\0' || strlen(target) >= PATH_MAX) {
        return "a symlink has a target";
    }
    return check_path(plan, step->symlink.path, false);
}

/* A network that is shared is the host's: its loopback is nobody's to listen on. */
static verdict check_egress(const struct jail_plan *plan)
{
    return (plan->namespaces & CLONE_NEWNET) && jail_plan_has(plan, JAIL_STEP_LOOPBACK)
               ? NULL
               : "egress needs a network namespace whose lo is up";
}

/* What a step holds, whatever stands around it. */
static verdict check_content(const struct jail_plan *plan, const struct jail_step *step)
{
    verdict words = NULL;
    switch (step->kind) {
    case JAIL_STEP_IDENTITY:
        return check_identity(plan, step);
    case JAIL_STEP_LOOPBACK:
        return plan->namespaces & CLONE_NEWNET ? NULL : "loopback needs a network namespace";
    case JAIL_STEP_EGRESS:
        return check_egress(plan);
    case JAIL_STEP_HOSTNAME:
        return check_hostname(plan, step);
    case JAIL_STEP_ROOT:
        return step->root.size_bytes && step->root.inodes && step->root.size_bytes <= BYTES_MAX
                   ? NULL
                   : "the root has a size and an inode limit";
    case JAIL_STEP_MKDIR:
        return step->mkdir.mode & ~01777u ? "a directory's mode has permission bits and the sticky bit only"
                                          : check_path(plan, step->mkdir.path, false);
    case JAIL_STEP_FILE:
        return check_file(plan, step);
    case JAIL_STEP_SYMLINK:
        return check_symlink(plan, step);
    case JAIL_STEP_BIND:
        words = check_path(plan, step->bind.source, true);
        words = words ? words : check_path(plan, step->bind.path, false);
        words = words ? words : check_given(step);
        return words ? words : check_flags(step->kind, step->bind.flags);
    case JAIL_STEP_TMPFS:
        words = check_tmpfs(plan, step);
        return words ? words : check_flags(step->kind, step->tmpfs.flags);
    case JAIL_STEP_PROC:
        words = check_path(plan, step->proc.path, false);
        return words ? words : check_flags(step->kind, step->proc.flags);
    case JAIL_STEP_SCRATCH:
        words = check_scratch(plan, step);
        return words ? words : check_flags(step->kind, step->scratch.flags);
    case JAIL_STEP_SUBMOUNT:
        words = check_submount(plan, step);
        return words ? words : check_flags(step->kind, step->submount.flags);
    case JAIL_STEP_WORKSPACE:
        words = check_path(plan, step->workspace.path, false);
        return words ? words : check_flags(step->kind, step->workspace.flags);
    case JAIL_STEP_IMAGE:
        return check_image(plan, step);
    case JAIL_STEP_CAPABILITIES:
        return step->capabilities.keep >> (CAP_LAST_CAP + 1) ? "capabilities are ones that the kernel has"
                                                             : NULL;
    case JAIL_STEP_UMASK:
        return step->umask.mask & ~0777u ? "a umask has permission bits only" : NULL;
    case JAIL_STEP_WORKDIR:
        return check_path(plan, step->workdir.path, true);
    case JAIL_STEP_RLIMIT:
        return check_rlimit(plan, step);
    case JAIL_STEP_SPECULATION:
        return check_speculation(step);
    case JAIL_STEP_LANDLOCK:
        return check_landlock(plan, step);
    case JAIL_STEP_SECCOMP:
        return check_seccomp(plan, step);
    case JAIL_STEP_EXEC:
    case JAIL_STEP_RUN:
        return check_exec(plan, step);
    case JAIL_STEP_PROPAGATION:
    case JAIL_STEP_ROOT_INHERITED:
    case JAIL_STEP_PIVOT:
    case JAIL_STEP_ROOT_READONLY:
    case JAIL_STEP_STDIO:
    case JAIL_STEP_BRIDGE:
    case JAIL_STEP_NO_NEW_PRIVS:
    case JAIL_STEP_PROGRAM:
    case JAIL_STEP_SESSION:
    case JAIL_STEP_NO_SET_ID:
        return NULL;
    case JAIL_STEP_COUNT:
        break;
    }
    return "every step is of a known kind";
}

static verdict check_limits(const struct jail_limits *limits)
{
    if (limits->memory_bytes && (limits->memory_bytes < MEMORY_MIN || limits->memory_bytes > BYTES_MAX)) {
        return "a memory limit is at least 1 MiB";
    }
    if (limits->pids > PIDS_MAX_HERE) {
        return "a limit of processes is at most 4194304";
    }
    if (limits->cpu_percent > CPU_MAX) {
        return "a CPU limit is at most 100000 percent";
    }
    if (limits->timeout_ms > MS_MAX || limits->cpu_ms > MS_MAX) {
        return "a time limit is at most a year";
    }
    if (limits->scratch_bytes > BYTES_MAX || limits->scratch_inodes > BYTES_MAX) {
        return "a scratch limit fits a signed 64-bit number";
    }
    return NULL;
}

static verdict check_whole(const struct jail_plan *plan)
{
    if (plan->failed) {
        return "no allocation failed while it was built";
    }
    if (!plan->arena || plan->arena_size == 0 || plan->arena_size > JAIL_ARENA_MAX ||
        plan->arena[0] != '\0') {
        return "the arena begins with the empty string";
    }
    if (!plan->steps || plan->n_steps == 0 || plan->n_steps > STEPS_MAX) {
        return "there are 1 to 4096 steps";
    }
    if ((plan->namespaces & NAMESPACES_NEEDED) != NAMESPACES_NEEDED) {
        return "the namespaces contain USER, MOUNT and PID";
    }
    if (plan->namespaces & ~(uint64_t)NAMESPACES_KNOWN) {
        return "the namespaces are ones of clone3";
    }
    if (plan->uid == 0 || plan->gid == 0 || plan->uid == UINT32_MAX || plan->gid == UINT32_MAX) {
        return "uid and gid are not 0";
    }
    return check_limits(&plan->limits);
}

int jail_plan_check(const struct jail_plan *plan, struct err *reterr)
{
    verdict words = check_whole(plan);
    if (words) {
        return plan_broken(plan, UINT32_MAX, words, reterr);
    }
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        words = check_content(plan, &plan->steps[i]);
        if (words) {
            return plan_broken(plan, i, words, reterr);
        }
    }
    return plan_check_order(plan, reterr);
}
