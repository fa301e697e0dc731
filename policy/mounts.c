/* Rules for a policy's mounts beyond the schema's own (config/policy/policy_mounts.c: destinations are
 * absolute and lie below no symlink, no place and no scratch directory is used twice): nothing is hidden by a
 * later mount, and nothing is ever made in a tree of the host. Pure: looks at no file system. */
#include "policy/mounts.h"

#include <limits.h>
#include <string.h>

#include "config/policy/policy_file.h"
#include "jail/base/cleanup.h"

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

bool path_is_harmless_device(const char *path)
{
    static const char *const rows[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (strcmp(path, rows[i]) == 0) {
            return true;
        }
    }
    return false;
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

/* What is wrong with a mount that lies below another. */
static const char *below_problem(const struct policy_mount *mount, const struct policy_mount *over)
{
    switch (over->kind) {
    case POLICY_MOUNT_SYMLINK:
    case POLICY_MOUNT_FILE:
        return "lies below what is no directory";
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
        if (path_is_below(before->destination, mount->destination)) {
            return policy_bad(spec, &mount->at, reterr, "mount %s: hides a mount that comes before it (%s)",
                              mount->destination, before->destination);
        }
        /* Of those above, a later one lies deeper: it would hide an earlier one otherwise. */
        over = path_is_below(mount->destination, before->destination) ? before : over;
    }
    const char *problem = over ? below_problem(mount, over) : NULL;
    if (problem) {
        return policy_bad(spec, &mount->at, reterr, "mount %s: %s (%s)", mount->destination, problem,
                          over->destination);
    }
    return 0;
}

int policy_check_mount(const struct policy_spec *spec, size_t index, struct err *reterr)
{
    const struct policy_mount *mount = &spec->mounts[index];
    if (path_is_at_or_below(mount->destination, POLICY_SCRIPT_DIRECTORY)) {
        return policy_bad(spec, &mount->at, reterr, "mount %s: %s is where the script is put",
                          mount->destination, POLICY_SCRIPT_DIRECTORY);
    }
    bool bind = mount->kind == POLICY_MOUNT_BIND;
    /* The jail's own root lies on the host's when the source is opened: it would be shown, and read-only no
     * longer. */
    if (bind && strcmp(mount->source, "/") == 0) {
        return policy_bad(
            spec, &mount->at, reterr,
            "mount %s: source / would be the jail's own root; name the host's directories, each "
            "in a mount of its own",
            mount->destination);
    }
    const char *problem = bind ? path_problem(mount->source) : NULL;
    if (problem) {
        return policy_bad(spec, &mount->at, reterr, "mount %s: source %s: %s", mount->destination,
                          mount->source, problem);
    }
    return check_place(spec, index, reterr);
}

/* The scratch's directories are attached work first, then shm, then tmp, whose place holds the scratch's root
 * until then: of two that lie in each other, only shm in work would be seen, with its files, by the jail. */
static bool can_hold(const struct policy_mount *outer, const struct policy_mount *inner)
{
    return strcmp(outer->source, "work") == 0 && strcmp(inner->source, "shm") == 0;
}

static int check_scratch_nesting(const struct policy_spec *spec, struct err *reterr)
{
    for (size_t i = 0; i < spec->n_mounts * spec->n_mounts; i++) {
        const struct policy_mount *inner = &spec->mounts[i / spec->n_mounts],
                                  *outer = &spec->mounts[i % spec->n_mounts];
        if (inner->kind == POLICY_MOUNT_SCRATCH && outer->kind == POLICY_MOUNT_SCRATCH &&
            path_is_below(inner->destination, outer->destination) && !can_hold(outer, inner)) {
            return policy_bad(
                spec, &inner->at, reterr,
                "mount %s: the scratch directory %s cannot lie in the scratch directory %s (%s)",
                inner->destination, inner->source, outer->source, outer->destination);
        }
    }
    return 0;
}

/* All scratch directories are attached together, where the last of them stands: what else is to lie in one
 * comes later. */
static int check_scratch_order(const struct policy_spec *spec, struct err *reterr)
{
    size_t last = 0;
    for (size_t i = 0; i < spec->n_mounts; i++) {
        last = spec->mounts[i].kind == POLICY_MOUNT_SCRATCH ? i : last;
    }
    for (size_t i = 0; i < last; i++) {
        for (size_t n = 0; n <= last; n++) {
            const struct policy_mount *mount = &spec->mounts[i], *other = &spec->mounts[n];
            if (mount->kind != POLICY_MOUNT_SCRATCH && other->kind == POLICY_MOUNT_SCRATCH &&
                path_is_below(mount->destination, other->destination)) {
                return policy_bad(
                    spec, &mount->at, reterr,
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
        return policy_bad(spec, &spec->working_directory_at, reterr, "working_directory %s: %s",
                          spec->working_directory, problem);
    }
    const struct policy_mount *mount = policy_mount_over(spec, spec->working_directory);
    if (!mount || mount->kind == POLICY_MOUNT_SYMLINK || mount->kind == POLICY_MOUNT_FILE) {
        return policy_bad(spec, &spec->working_directory_at, reterr,
                          "working_directory %s: does not lie on a mount of this policy",
                          spec->working_directory);
    }
    return 0;
}

int policy_check_mounts(const struct policy_spec *spec, struct err *reterr)
{
    /* Before the order of the mounts: no order helps here. */
    int r = check_scratch_nesting(spec, reterr);
    for (size_t i = 0; r == 0 && i < spec->n_mounts; i++) {
        r = policy_check_mount(spec, i, reterr);
    }
    r = r < 0 ? r : check_scratch_order(spec, reterr);
    return r < 0 ? r : check_working_directory(spec, reterr);
}
