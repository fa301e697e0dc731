/* Rules for a policy's mounts: each lands exactly where its destination says, nothing is hidden by a later
 * one, nothing is written into the host, and every flag that is given means something. Pure: looks at no file
 * system.
 *
 * Attacks these rules stop: a destination that leaves the new root ("..") or goes through a link of the
 * policy itself; a directory or file made in a tree of the host; devices on what the program can write to. */
#include "policy/check.h"

#include <limits.h>
#include <string.h>

#include "config/policy_file.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/policy.h"

#define FILE_BYTES_MAX (1u << 20)

const char *path_problem(const char *path)
{
    if (path[0] != '/') {
        return "must be absolute";
    }
    if (path[1] == '\0') {
        return "must not be the root itself";
    }
    if (strlen(path) >= PATH_MAX) {
        return "is longer than a path can be";
    }
    for (const char *part = path; *part == '/';) {
        size_t len = strcspn(++part, "/");
        if (len == 0) {
            return "must not hold an empty part, nor end with '/'";
        }
        if (len > NAME_MAX) {
            return "has a part that is longer than a name can be";
        }
        if (len <= 2 && strncmp(part, "..", len) == 0) {
            return "must not hold '.' or '..'";
        }
        part += len;
    }
    return NULL;
}

bool path_is_at_or_below(const char *path, const char *above)
{
    size_t len = strlen(above);
    return strncmp(path, above, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

bool path_is_below(const char *path, const char *above)
{
    return path_is_at_or_below(path, above) && path[strlen(above)] == '/';
}

const struct policy_mount *policy_mount_over(const struct policy_spec *spec, const char *path)
{
    const struct policy_mount *over = NULL;
    for (size_t i = 0; i < spec->n_mounts; i++) {
        const struct policy_mount *mount = &spec->mounts[i];
        if (path_is_at_or_below(path, mount->destination) &&
            (!over || strlen(mount->destination) > strlen(over->destination))) {
            over = mount;
        }
    }
    return over;
}

/* Which flags a kind of mount knows. `read_only` has a default and so cannot be told from not being given. */
static const struct {
    const char *word;
    bool devices, no_exec, optional;
} kinds[] = {
    [POLICY_MOUNT_BIND] = {"bind", true, true, true},
    [POLICY_MOUNT_TMPFS] = {"tmpfs", false, true, false},
    [POLICY_MOUNT_PROC] = {"proc", false, true, true},
    [POLICY_MOUNT_SYMLINK] = {"symlink", false, false, false},
    [POLICY_MOUNT_FILE] = {"file", false, false, false},
    [POLICY_MOUNT_SCRATCH] = {"scratch", false, true, false},
};

static const char *flags_problem(const struct policy_mount *mount)
{
    if (mount->allow_devices && !kinds[mount->kind].devices) {
        return "allow_devices is for bind only";
    }
    if (mount->no_exec && !kinds[mount->kind].no_exec) {
        return "no_exec means nothing here";
    }
    if (mount->optional && !kinds[mount->kind].optional) {
        return "optional is for bind and proc only";
    }
    return NULL;
}

static const char *kind_problem(const struct policy_mount *mount)
{
    switch (mount->kind) {
    case POLICY_MOUNT_BIND:
        /* "/" as a source is a path like any other; lint has an opinion about it. */
        return strcmp(mount->source, "/") == 0 || !path_problem(mount->source)
                   ? NULL
                   : "the source must be an absolute path without '.', '..' and empty parts";
    case POLICY_MOUNT_TMPFS:
        if (mount->size_bytes == 0 || mount->size_bytes > INT64_MAX || mount->inodes == 0) {
            return "size_bytes and inodes must not be 0";
        }
        return mount->mode > 01777 ? "mode must be at most 01777" : NULL;
    case POLICY_MOUNT_SYMLINK:
        return mount->source[0] == '\0' || strlen(mount->source) >= PATH_MAX ? "target must be a path" : NULL;
    case POLICY_MOUNT_FILE:
        if (mount->content_size > FILE_BYTES_MAX) {
            return "content is larger than 1 MiB";
        }
        return mount->mode > 0777 ? "mode must be at most 0777" : NULL;
    case POLICY_MOUNT_PROC:
    case POLICY_MOUNT_SCRATCH:
        break;
    }
    return NULL;
}

/* What is wrong with two mounts in this order, wherever they lie. */
static const char *pair_problem(const struct policy_mount *mount, const struct policy_mount *before)
{
    if (strcmp(mount->destination, before->destination) == 0) {
        return "is the destination of two mounts";
    }
    if (path_is_below(before->destination, mount->destination)) {
        return mount->kind == POLICY_MOUNT_SYMLINK ? "is a symlink above a mount that comes before it"
                                                   : "hides a mount that comes before it";
    }
    if (mount->kind == POLICY_MOUNT_SCRATCH && before->kind == POLICY_MOUNT_SCRATCH &&
        strcmp(mount->source, before->source) == 0) {
        return "is a second place for one scratch directory";
    }
    return NULL;
}

/* What is wrong with a mount that lies below another. */
static const char *below_problem(const struct policy_mount *mount, const struct policy_mount *over)
{
    switch (over->kind) {
    case POLICY_MOUNT_SYMLINK:
        return "lies below a symlink";
    case POLICY_MOUNT_FILE:
        return "lies below a file";
    case POLICY_MOUNT_PROC:
        return "lies below a proc";
    case POLICY_MOUNT_TMPFS:
        return over->read_only ? "lies below a tmpfs that is read-only" : NULL;
    case POLICY_MOUNT_BIND:
        /* A mount point that is there already is fine; making one, or a file, would write to the host. */
        return mount->kind == POLICY_MOUNT_FILE || mount->kind == POLICY_MOUNT_SYMLINK || !over->read_only
                   ? "would be made in a directory of the host"
                   : NULL;
    case POLICY_MOUNT_SCRATCH:
        break;
    }
    return NULL;
}

static int check_place(const struct policy_spec *spec, size_t index, struct err *reterr)
{
    const struct policy_mount *mount = &spec->mounts[index], *over = NULL;
    for (size_t i = 0; i < index; i++) {
        const struct policy_mount *before = &spec->mounts[i];
        const char *problem = pair_problem(mount, before);
        if (problem) {
            return policy_bad(spec, reterr, "mount %s: %s (%s)", mount->destination, problem,
                              before->destination);
        }
        /* Of those above, a later one lies deeper: it would hide an earlier one otherwise. */
        over = path_is_below(mount->destination, before->destination) ? before : over;
    }
    const char *problem = over ? below_problem(mount, over) : NULL;
    if (problem) {
        return policy_bad(spec, reterr, "mount %s: %s (%s)", mount->destination, problem, over->destination);
    }
    return 0;
}

static int check_one(const struct policy_spec *spec, size_t index, struct err *reterr)
{
    const struct policy_mount *mount = &spec->mounts[index];
    const char *problem = path_problem(mount->destination);
    problem = problem ? problem : flags_problem(mount);
    problem = problem ? problem : kind_problem(mount);
    if (!problem && path_is_at_or_below(mount->destination, POLICY_SCRIPT_DIRECTORY)) {
        problem = POLICY_SCRIPT_DIRECTORY " is where the script is put";
    }
    if (problem) {
        return policy_bad(spec, reterr, "mount %s: %s", mount->destination, problem);
    }
    return check_place(spec, index, reterr);
}

/* All scratch directories are attached together, where the last of them stands: what is to lie in one comes
 * later. */
static int check_scratch_order(const struct policy_spec *spec, struct err *reterr)
{
    size_t last = 0;
    for (size_t i = 0; i < spec->n_mounts; i++) {
        last = spec->mounts[i].kind == POLICY_MOUNT_SCRATCH ? i : last;
    }
    for (size_t i = 0; i < last; i++) {
        for (size_t n = 0; n <= last; n++) {
            const struct policy_mount *mount = &spec->mounts[i], *other = &spec->mounts[n];
            if (other->kind == POLICY_MOUNT_SCRATCH &&
                path_is_below(mount->destination, other->destination)) {
                return policy_bad(
                    spec, reterr,
                    "mount %s: lies in a scratch directory and must come after %s, the last of them",
                    mount->destination, spec->mounts[last].destination);
            }
        }
    }
    return 0;
}

static int check_working_directory(const struct policy_spec *spec, struct err *reterr)
{
    const char *problem = path_problem(spec->working_directory);
    if (problem) {
        return policy_bad(spec, reterr, "working_directory %s: %s", spec->working_directory, problem);
    }
    const struct policy_mount *mount = policy_mount_over(spec, spec->working_directory);
    if (!mount || mount->kind == POLICY_MOUNT_SYMLINK || mount->kind == POLICY_MOUNT_FILE) {
        return policy_bad(spec, reterr, "working_directory %s: does not lie on a mount of this policy",
                          spec->working_directory);
    }
    return 0;
}

int policy_check_mounts(const struct policy_spec *spec, struct err *reterr)
{
    for (size_t i = 0; i < spec->n_mounts; i++) {
        int r = check_one(spec, i, reterr);
        if (r < 0) {
            return r;
        }
    }
    int r = check_scratch_order(spec, reterr);
    return r < 0 ? r : check_working_directory(spec, reterr);
}
