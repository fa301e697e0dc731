/* The part of a plan that all jobs of a policy share: identity, names, and the tree of files and mounts.
 * Built once, when the policy is compiled, and copied for each job. Pure: whether a source exists, and
 * whether it is a file or a directory, shows when the child attaches it. */
#include <errno.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <stdio.h>
#include <string.h>

#include "config/policy/policy_file.h"
#include "config/server/config.h"
#include "jail/base/bpf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/plan/plan.h"
#include "policy/compiled.h"
#include "policy/mounts.h"
#include "policy/policy.h"

/* Where the scratch's root goes if the policy does not show "tmp". */
#define SCRATCH_PLACE POLICY_SCRIPT_DIRECTORY "/scratch"

/* The root tmpfs is read-only before the program exists, so its limits bound the policy's author, not the
 * program. Pages are at most 64 KiB; every step makes at most one inode. */
#define PAGE_BYTES        65536u
#define ROOT_INODES_SPARE 16u

void policy_grow_root(struct jail_plan *plan, uint64_t size_bytes)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        struct jail_step *step = &plan->steps[i];
        if (step->kind == JAIL_STEP_ROOT) {
            step->root.size_bytes += (size_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
            step->root.inodes++;
        }
    }
}

/* Where a step attaches a mount; NULL: it attaches none. */
static const char *mount_point(const struct jail_plan *plan, const struct jail_step *step)
{
    bool mounts =
        step->kind != JAIL_STEP_MKDIR && step->kind != JAIL_STEP_FILE && step->kind != JAIL_STEP_SYMLINK;
    return mounts ? jail_step_path(plan, step) : NULL;
}

/* True if the directory is there once all steps of `plan` are done. What lies in a tree of the host is taken
 * to be there: nothing may be made in it, and the child says so if it is not. */
static bool directory_exists(const struct jail_plan *plan, const char *path)
{
    bool exists = false;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const struct jail_step *step = &plan->steps[i];
        const char *point = mount_point(plan, step);
        if (point && path_is_below(path, point)) {
            exists = step->kind == JAIL_STEP_BIND;
        } else if (point) {
            exists |= strcmp(path, point) == 0;
        } else if (step->kind == JAIL_STEP_MKDIR) {
            exists |= strcmp(path, jail_plan_string(plan, step->mkdir.path)) == 0;
        }
    }
    return exists;
}

static void make_directory(struct jail_plan *plan, const char *path)
{
    if (!directory_exists(plan, path)) {
        struct jail_step *step = jail_plan_add(plan, JAIL_STEP_MKDIR);
        step->mkdir.path = jail_plan_text(plan, path);
        step->mkdir.mode = 0755;
        policy_grow_root(plan, 0);
    }
}

bool policy_is_mounted_over(const struct jail_plan *plan, const char *path)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const char *point = mount_point(plan, &plan->steps[i]);
        if (point && path_is_below(path, point)) {
            return true;
        }
    }
    return false;
}

void policy_make_parents(struct jail_plan *plan, const char *path)
{
    CLEANUP(freep) char *above = strdup(path);
    if (!above) {
        plan->failed = true;
        return;
    }
    for (char *slash = strchr(above + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        make_directory(plan, above);
        *slash = '/';
    }
}

/* True if `path` is something that the steps put there, or lies in a tree of the host. */
static bool is_shown(const struct jail_plan *plan, const char *path)
{
    bool shown = false;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const struct jail_step *step = &plan->steps[i];
        const char *at = step->kind == JAIL_STEP_MKDIR ? NULL : jail_step_path(plan, step);
        if (at && strcmp(path, at) == 0) {
            shown = true;
        } else if (mount_point(plan, step) && path_is_below(path, at)) {
            shown = step->kind == JAIL_STEP_BIND;
        }
    }
    return shown;
}

/* Where `path` leads by the policy's own links: "/lib/x" to "/usr/lib/x". */
static void follow_links(const struct policy_spec *spec, const char *path, char ret[PATH_MAX])
{
    snprintf(ret, PATH_MAX, "%s", path);
    for (size_t i = 0; i < spec->n_mounts; i++) {
        const struct policy_mount *mount = &spec->mounts[i];
        if (mount->kind == POLICY_MOUNT_SYMLINK && path_is_below(path, mount->destination)) {
            bool absolute = mount->source[0] == '/';
            int above = (int)(strrchr(mount->destination, '/') - mount->destination) + 1;
            snprintf(ret, PATH_MAX, "%.*s%s%s", absolute ? 0 : above, mount->destination, mount->source,
                     path + strlen(mount->destination));
        }
    }
}

void policy_show_interpreter(struct jail_plan *plan, const struct policy_spec *spec,
                             const struct runtime_config *runtime)
{
    for (size_t i = 0; spec->interpreter[0] && runtime && i < runtime->n_needs; i++) {
        const struct interpreter_need *need = &runtime->needs[i];
        char path[PATH_MAX];
        follow_links(spec, need->path, path);
        if (is_shown(plan, path)) {
            continue;
        }
        policy_make_parents(plan, path);
        struct jail_step *step = jail_plan_add(plan, need->target ? JAIL_STEP_SYMLINK : JAIL_STEP_BIND);
        if (need->target) {
            step->symlink.target = jail_plan_text(plan, need->target);
            step->symlink.path = jail_plan_text(plan, path);
        } else {
            step->bind.source = jail_plan_text(plan, need->path);
            step->bind.path = jail_plan_text(plan, path);
            step->bind.flags =
                JAIL_MOUNT_NOSUID | JAIL_MOUNT_NODEV | JAIL_MOUNT_READONLY | JAIL_MOUNT_RECURSIVE;
        }
        policy_grow_root(plan, 1);
    }
}

static uint32_t mount_flags(const struct policy_mount *mount)
{
    uint32_t flags = JAIL_MOUNT_NOSUID;
    flags |= mount->allow_devices ? 0u : JAIL_MOUNT_NODEV;
    flags |= mount->no_exec ? JAIL_MOUNT_NOEXEC : 0u;
    flags |= mount->optional ? JAIL_MOUNT_OPTIONAL : 0u;
    switch (mount->kind) {
    case POLICY_MOUNT_BIND:
        flags |= mount->recursive ? JAIL_MOUNT_RECURSIVE : 0u;
        return flags | (mount->read_only ? JAIL_MOUNT_READONLY : 0u);
    case POLICY_MOUNT_TMPFS:
        return flags | (mount->read_only ? JAIL_MOUNT_READONLY : 0u);
    case POLICY_MOUNT_PROC:
        flags |= mount->subset_pid ? JAIL_PROC_SUBSET_PID : 0u;
        flags |= mount->hidepid ? JAIL_PROC_HIDE : 0u;
        return flags | JAIL_MOUNT_READONLY | JAIL_MOUNT_NOEXEC;
    case POLICY_MOUNT_SYMLINK:
    case POLICY_MOUNT_FILE:
    case POLICY_MOUNT_SCRATCH:
        break;
    }
    return flags;
}

static const struct policy_mount *find_scratch(const struct policy_spec *spec, const char *directory)
{
    for (size_t i = 0; i < spec->n_mounts; i++) {
        if (spec->mounts[i].kind == POLICY_MOUNT_SCRATCH && strcmp(spec->mounts[i].source, directory) == 0) {
            return &spec->mounts[i];
        }
    }
    return NULL;
}

/* One tmpfs serves up to three places. Its root goes where "tmp" is wanted, and "tmp" itself comes last and
 * covers it: no directory is needed for the root, and no path leads to it. */
static int add_scratch(struct jail_plan *plan, const struct policy_spec *spec, struct err *reterr)
{
    static const char *const directories[] = {SCRATCH_WORK, SCRATCH_SHM, SCRATCH_TMP};
    const struct policy_mount *tmp = find_scratch(spec, SCRATCH_TMP);
    const char *place = tmp ? tmp->destination : SCRATCH_PLACE;
    policy_make_parents(plan, place);
    struct jail_step *step = jail_plan_add(plan, JAIL_STEP_SCRATCH);
    step->scratch.path = jail_plan_text(plan, place);
    step->scratch.flags = JAIL_MOUNT_NOSUID | JAIL_MOUNT_NODEV;
    policy_grow_root(plan, 0);
    for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
        const struct policy_mount *mount = find_scratch(spec, directories[i]);
        if (!mount) {
            continue;
        }
        char source[PATH_MAX];
        int len = snprintf(source, sizeof source, "%s/%s", place, directories[i]);
        if (len < 0 || (size_t)len >= sizeof source) {
            return policy_bad(spec, &mount->at, reterr, "mount %s: is too long", place);
        }
        policy_make_parents(plan, mount->destination);
        step = jail_plan_add(plan, JAIL_STEP_SUBMOUNT);
        step->submount.source = jail_plan_text(plan, source);
        step->submount.path = jail_plan_text(plan, mount->destination);
        step->submount.flags = mount_flags(mount);
        policy_grow_root(plan, 0);
    }
    return 0;
}

static void add_tmpfs(struct jail_plan *plan, const struct policy_mount *mount)
{
    struct jail_step *step = jail_plan_add(plan, JAIL_STEP_TMPFS);
    step->tmpfs.path = jail_plan_text(plan, mount->destination);
    step->tmpfs.size_bytes = mount->size_bytes;
    step->tmpfs.inodes = mount->inodes;
    step->tmpfs.mode = mount->mode;
    step->tmpfs.flags = mount_flags(mount);
}

static void add_file(struct jail_plan *plan, const struct policy_mount *mount)
{
    struct jail_step *step = jail_plan_add(plan, JAIL_STEP_FILE);
    step->file.path = jail_plan_text(plan, mount->destination);
    step->file.mode = mount->mode;
    step->file.content = jail_plan_bytes(plan, mount->content, mount->content_size, 1);
    step->file.size_bytes = mount->content_size;
    policy_grow_root(plan, mount->content_size);
}

static void add_mount(struct jail_plan *plan, const struct policy_mount *mount)
{
    policy_make_parents(plan, mount->destination);
    struct jail_step *step;
    switch (mount->kind) {
    case POLICY_MOUNT_BIND:
        step = jail_plan_add(plan, JAIL_STEP_BIND);
        step->bind.source = jail_plan_text(plan, mount->source);
        step->bind.path = jail_plan_text(plan, mount->destination);
        step->bind.flags = mount_flags(mount);
        break;
    case POLICY_MOUNT_TMPFS:
        add_tmpfs(plan, mount);
        break;
    case POLICY_MOUNT_PROC:
        step = jail_plan_add(plan, JAIL_STEP_PROC);
        step->proc.path = jail_plan_text(plan, mount->destination);
        step->proc.flags = mount_flags(mount);
        break;
    case POLICY_MOUNT_SYMLINK:
        step = jail_plan_add(plan, JAIL_STEP_SYMLINK);
        step->symlink.target = jail_plan_text(plan, mount->source);
        step->symlink.path = jail_plan_text(plan, mount->destination);
        break;
    case POLICY_MOUNT_FILE:
        add_file(plan, mount);
        break;
    case POLICY_MOUNT_SCRATCH:
        break; /* add_scratch() */
    }
    /* The link, or the mount point; a long link takes a page. */
    policy_grow_root(plan, 1);
}

static size_t find_last_scratch(const struct policy_spec *spec)
{
    size_t last = SIZE_MAX;
    for (size_t i = 0; i < spec->n_mounts; i++) {
        last = spec->mounts[i].kind == POLICY_MOUNT_SCRATCH ? i : last;
    }
    return last;
}

static int add_mounts(struct jail_plan *plan, const struct policy_spec *spec, struct err *reterr)
{
    size_t last_scratch = find_last_scratch(spec);
    for (size_t i = 0; i < spec->n_mounts; i++) {
        if (spec->mounts[i].kind != POLICY_MOUNT_SCRATCH) {
            add_mount(plan, &spec->mounts[i]);
            continue;
        }
        int r = i == last_scratch ? add_scratch(plan, spec, reterr) : 0;
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* Who is to be killed, PID 1 of the jail kills: the kernel would not say for which call. */
static jail_ref add_filter(struct jail_plan *plan, const struct policy_filter *filter)
{
    jail_ref ref =
        jail_plan_bytes(plan, filter->instructions, filter->length * sizeof *filter->instructions, 8);
    struct sock_filter *instructions = (void *)(plan->arena + ref);
    for (uint32_t i = 0; !plan->failed && i < filter->length; i++) {
        if (instructions[i].code == BPF_DO_RETURN && instructions[i].k == SECCOMP_RET_KILL_PROCESS) {
            instructions[i].k = BPF_ANSWER_END;
        }
    }
    return ref;
}

/* Up to the root, and nothing in it. */
static struct jail_plan *begin(const struct policy *policy, uint32_t *ret_bpf, struct err *reterr)
{
    const struct policy_spec *spec = policy->spec;
    struct jail_plan *plan = jail_plan_new();
    if (!plan) {
        err_errno(reterr, ENOMEM, "building the plan");
        return NULL;
    }
    plan->namespaces = spec->namespaces;
    plan->uid = spec->uid;
    plan->gid = spec->gid;
    jail_plan_add(plan, JAIL_STEP_PROPAGATION);
    struct jail_step *step = jail_plan_add(plan, JAIL_STEP_IDENTITY);
    step->identity.uid = spec->uid;
    step->identity.gid = spec->gid;
    if (spec->loopback || spec->n_egress > 0) {
        jail_plan_add(plan, JAIL_STEP_LOOPBACK);
    }
    if (spec->namespaces & CLONE_NEWUTS) {
        step = jail_plan_add(plan, JAIL_STEP_HOSTNAME);
        step->hostname.name = jail_plan_text(plan, spec->hostname);
    }
    step = jail_plan_add(plan, JAIL_STEP_ROOT);
    step->root.size_bytes = PAGE_BYTES;
    step->root.inodes = ROOT_INODES_SPARE;
    *ret_bpf = add_filter(plan, &policy->filter);
    return plan;
}

int policy_build_tree(struct policy *policy, struct err *reterr)
{
    policy->tree = begin(policy, &policy->bpf, reterr);
    if (!policy->tree) {
        return -ENOMEM;
    }
    int r = add_mounts(policy->tree, policy->spec, reterr);
    return r < 0 ? r : policy->tree->failed ? err_errno(reterr, ENOMEM, "building the plan") : 0;
}

/* ---- What the command line adds ---- */

void policy_make_bind_parents(struct jail_plan *plan, const struct policy_program *program)
{
    for (size_t i = 0; i < program->n_binds; i++) {
        policy_make_parents(plan, program->binds[i].destination);
    }
}

/* Something that the steps so far put below `path`; NULL: nothing. */
static const char *shown_below(const struct jail_plan *plan, const char *path)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const struct jail_step *step = &plan->steps[i];
        const char *at = step->kind == JAIL_STEP_MKDIR ? NULL : jail_step_path(plan, step);
        if (at && path_is_below(at, path)) {
            return at;
        }
    }
    return NULL;
}

int policy_add_binds(struct jail_plan *plan, const struct policy_program *program, struct err *reterr)
{
    for (size_t i = 0; i < program->n_binds; i++) {
        const struct policy_bind *bind = &program->binds[i];
        const char *problem = path_problem(bind->destination);
        const char *below = problem ? NULL : shown_below(plan, bind->destination);
        if (problem || path_is_at_or_below(bind->destination, POLICY_SCRIPT_DIRECTORY)) {
            return err_set(reterr, ERR_INVALID, EINVAL, bind->destination, "%s",
                           problem ? problem : "is immure's own place in a jail");
        }
        if (below) {
            return err_set(reterr, ERR_INVALID, EBUSY, bind->destination,
                           "would hide %s, which the jail shows already; another place: DIR:DEST", below);
        }
        jail_ref source = jail_plan_text(plan, bind->source), path = jail_plan_text(plan, bind->destination);
        struct jail_step *step = jail_plan_add(plan, JAIL_STEP_BIND);
        step->bind.source = source;
        step->bind.path = path;
        step->bind.flags = JAIL_MOUNT_NOSUID | JAIL_MOUNT_NODEV | JAIL_MOUNT_RECURSIVE |
                           (bind->writable ? 0u : JAIL_MOUNT_READONLY);
        step->bind.given = bind->slot;
        policy_grow_root(plan, 1);
    }
    return 0;
}

bool policy_writes_for_others(const struct policy_program *program)
{
    bool writes = false;
    for (size_t i = 0; i < program->n_binds; i++) {
        writes |= program->binds[i].writable;
    }
    return writes;
}

/* ---- Where an image is the root ---- */

/* A policy for one image was written with its files in mind. Where the request chooses, what would show files
 * of the host among the image's is left out. */
static bool is_put_on_image(const struct policy_spec *spec, const struct policy_mount *mount)
{
    return spec->image[0] != '\0' || mount->kind == POLICY_MOUNT_PROC ||
           mount->kind == POLICY_MOUNT_SCRATCH || mount->kind == POLICY_MOUNT_TMPFS ||
           path_is_at_or_below(mount->destination, "/dev");
}

static bool makes_an_inode(const struct policy_mount *mount)
{
    return mount->kind == POLICY_MOUNT_FILE || mount->kind == POLICY_MOUNT_SYMLINK;
}

static bool lies_on_another(const struct policy_spec *spec, const struct policy_mount *mount)
{
    for (size_t i = 0; i < spec->n_mounts; i++) {
        const struct policy_mount *other = &spec->mounts[i];
        if (is_put_on_image(spec, other) && !makes_an_inode(other) &&
            path_is_below(mount->destination, other->destination)) {
            return true;
        }
    }
    return false;
}

int policy_begin_image_tree(const struct policy *policy, struct jail_plan **ret, uint32_t *ret_bpf,
                            struct err *reterr)
{
    const struct policy_spec *spec = policy->spec;
    struct jail_plan *plan = begin(policy, ret_bpf, reterr);
    if (!plan) {
        return -ENOMEM;
    }
    make_directory(plan, POLICY_SCRIPT_DIRECTORY);
    if (find_last_scratch(spec) != SIZE_MAX && !find_scratch(spec, SCRATCH_TMP)) {
        make_directory(plan, SCRATCH_PLACE);
    }
    for (size_t i = 0; i < spec->n_mounts; i++) {
        const struct policy_mount *mount = &spec->mounts[i];
        if (!is_put_on_image(spec, mount) || lies_on_another(spec, mount)) {
            continue;
        }
        if (makes_an_inode(mount)) {
            add_mount(plan, mount);
            continue;
        }
        policy_make_parents(plan, mount->destination);
        if (mount->kind != POLICY_MOUNT_BIND) {
            make_directory(plan, mount->destination);
        }
    }
    *ret = plan;
    return 0;
}

int policy_finish_image_tree(const struct policy *policy, struct jail_plan *plan, struct err *reterr)
{
    const struct policy_spec *spec = policy->spec;
    size_t last_scratch = find_last_scratch(spec);
    jail_ref path = jail_plan_text(plan, POLICY_SCRIPT_DIRECTORY);
    jail_plan_add(plan, JAIL_STEP_IMAGE)->image.path = path;
    int r = 0;
    for (size_t i = 0; r == 0 && i < spec->n_mounts; i++) {
        const struct policy_mount *mount = &spec->mounts[i];
        if (i == last_scratch) {
            r = add_scratch(plan, spec, reterr);
        } else if (mount->kind != POLICY_MOUNT_SCRATCH && is_put_on_image(spec, mount) &&
                   (!makes_an_inode(mount) || lies_on_another(spec, mount))) {
            add_mount(plan, mount);
        }
    }
    return r;
}
