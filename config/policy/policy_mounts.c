/* The mounts of a policy from their messages. Runs in the warden and the command line.
 *
 * What a mount's kind cannot do is refused where it is asked for: a policy that says `read_only: true` about
 * a scratch directory would otherwise look stricter than the jail is. */
#include "config/policy/policy_message.h"

#include <stdlib.h>
#include <string.h>

#include "config/format/check.h"
#include "config/policy/policy.pb-c.h"
#include "config/policy/policy_file.h"
#include "jail/base/cleanup.h"

/* What can be asked of each kind. Optional: the kind's own reason not to be there. */
static const struct kind_rules {
    bool read_only, writable, devices, no_exec, optional;
} kinds[] = {
    [POLICY_MOUNT_BIND] =
        {.read_only = true, .writable = true, .devices = true, .no_exec = true, .optional = true},
    [POLICY_MOUNT_TMPFS] = {.read_only = true, .writable = true, .no_exec = true},
    [POLICY_MOUNT_PROC] = {.read_only = true, .no_exec = true, .optional = true},
    [POLICY_MOUNT_SYMLINK] = {.read_only = true},
    [POLICY_MOUNT_FILE] = {.read_only = true},
    [POLICY_MOUNT_SCRATCH] = {.writable = true, .no_exec = true},
};

static int check_options(struct checker *checker, const Immure__Mount *message,
                         const struct kind_rules *rules)
{
    if (message->has_read_only && message->read_only && !rules->read_only) {
        return check_fail(checker, "read_only", "a scratch directory is always writable");
    }
    if (message->has_read_only && !message->read_only && !rules->writable) {
        return check_fail(checker, "read_only", "this kind of mount is never writable");
    }
    if (message->allow_devices && !rules->devices) {
        return check_fail(checker, "allow_devices", "only a bind mount can have devices");
    }
    if (message->no_exec && !rules->no_exec) {
        return check_fail(checker, "no_exec", "this kind of mount has no such restriction");
    }
    if (message->optional && !rules->optional) {
        return check_fail(checker, "optional", "only bind and proc can be optional");
    }
    return 0;
}

static int bind_from_message(struct checker *checker, const Immure__BindMount *message,
                             struct policy_mount *ret)
{
    ret->kind = POLICY_MOUNT_BIND;
    ret->recursive = message->recursive;
    int r = check_absolute_path(checker, "bind.source", message->source);
    return r < 0 ? r : check_copy(checker, message->source, &ret->source);
}

static int tmpfs_from_message(struct checker *checker, const Immure__TmpfsMount *message,
                              struct policy_mount *ret)
{
    ret->kind = POLICY_MOUNT_TMPFS;
    ret->size_bytes = message->size_bytes;
    ret->inodes = message->inodes;
    ret->mode = message->mode;
    /* 0 would mean "no limit" to the kernel; the root directory takes an inode. */
    int r = check_range(checker, "tmpfs.size_bytes", message->size_bytes, 1, (uint64_t)1 << 50);
    r = r < 0 ? r : check_range(checker, "tmpfs.inodes", message->inodes, 1, (uint64_t)1 << 32);
    return r < 0 ? r : check_mode(checker, "tmpfs.mode", message->mode, 01777);
}

static int symlink_from_message(struct checker *checker, const Immure__SymlinkMount *message,
                                struct policy_mount *ret)
{
    static const size_t target_max = 1024;
    ret->kind = POLICY_MOUNT_SYMLINK;
    size_t len = strlen(message->target);
    if (len == 0 || len > target_max) {
        return check_fail(checker, "symlink.target", "must be 1 to %zu bytes long", target_max);
    }
    return check_copy(checker, message->target, &ret->source);
}

static int file_from_message(struct checker *checker, const Immure__FileMount *message,
                             struct policy_mount *ret)
{
    static const size_t content_max = 65536;
    ret->kind = POLICY_MOUNT_FILE;
    ret->mode = message->mode;
    if (message->content.len > content_max) {
        return check_fail(checker, "file.content", "must not be longer than %zu bytes", content_max);
    }
    int r = check_mode(checker, "file.mode", message->mode, 0777);
    r = r < 0 ? r : check_new_array(checker, message->content.len + 1, 1, &ret->content);
    if (r == 0 && message->content.len > 0) {
        memcpy(ret->content, message->content.data, message->content.len);
        ret->content_size = message->content.len;
    }
    return r;
}

static int scratch_from_message(struct checker *checker, const Immure__ScratchMount *message,
                                struct policy_mount *ret)
{
    static const char *const directories[] = {
        [IMMURE__SCRATCH_DIRECTORY__WORK] = "work",
        [IMMURE__SCRATCH_DIRECTORY__TMP] = "tmp",
        [IMMURE__SCRATCH_DIRECTORY__SHM] = "shm",
    };
    ret->kind = POLICY_MOUNT_SCRATCH;
    if ((size_t)message->directory >= ARRAY_SIZE(directories) || !directories[message->directory]) {
        return check_fail(checker, "scratch.directory", "there is no such directory");
    }
    return check_copy(checker, directories[message->directory], &ret->source);
}

static int kind_from_message(struct checker *checker, const Immure__Mount *message, struct policy_mount *ret)
{
    switch (message->kind_case) {
    case IMMURE__MOUNT__KIND_BIND:
        return bind_from_message(checker, message->bind, ret);
    case IMMURE__MOUNT__KIND_TMPFS:
        return tmpfs_from_message(checker, message->tmpfs, ret);
    case IMMURE__MOUNT__KIND_PROC:
        ret->kind = POLICY_MOUNT_PROC;
        ret->subset_pid = message->proc->subset_pid;
        ret->hidepid = message->proc->hidepid;
        return 0;
    case IMMURE__MOUNT__KIND_SYMLINK:
        return symlink_from_message(checker, message->symlink, ret);
    case IMMURE__MOUNT__KIND_FILE:
        return file_from_message(checker, message->file, ret);
    case IMMURE__MOUNT__KIND_SCRATCH:
        return scratch_from_message(checker, message->scratch, ret);
    case IMMURE__MOUNT__KIND__NOT_SET:
    default:
        return check_fail(checker, NULL, "needs one of bind, tmpfs, proc, symlink, file and scratch");
    }
}

static int check_destination(struct checker *checker, const char *destination)
{
    int r = check_absolute_path(checker, "destination", destination);
    size_t len = strlen(destination);
    if (r == 0 && len == 1) {
        return check_fail(checker, "destination", "must not be the root, which is the jail's own");
    }
    if (r == 0 && destination[len - 1] == '/') {
        return check_fail(checker, "destination", "must not end with '/'");
    }
    return r;
}

static bool lies_below(const char *path, const char *directory)
{
    size_t len = strlen(directory);
    return strncmp(path, directory, len) == 0 && path[len] == '/';
}

/* Against the mounts before it: no place twice, no scratch directory twice, nothing through a symlink. */
static int check_against_earlier(struct checker *checker, const struct policy_spec *spec,
                                 const struct policy_mount *mount)
{
    for (size_t i = 0; i < spec->n_mounts; i++) {
        const struct policy_mount *earlier = &spec->mounts[i];
        char other[SOURCE_PLACE_TEXT_MAX];
        check_other_file(checker, earlier->at, other);
        if (strcmp(earlier->destination, mount->destination) == 0) {
            return check_fail(checker, "destination", "%s is the destination of mount[%zu] already%s",
                              mount->destination, i, other);
        }
        if (earlier->kind == POLICY_MOUNT_SCRATCH && mount->kind == POLICY_MOUNT_SCRATCH &&
            strcmp(earlier->source, mount->source) == 0) {
            return check_fail(checker, "scratch.directory", "is at %s already%s", earlier->destination,
                              other);
        }
        const struct policy_mount *links[] = {earlier, mount}, *others[] = {mount, earlier};
        for (size_t j = 0; j < ARRAY_SIZE(links); j++) {
            if (links[j]->kind == POLICY_MOUNT_SYMLINK &&
                lies_below(others[j]->destination, links[j]->destination)) {
                return check_fail(checker, "destination", "%s would lie below the symlink %s%s",
                                  others[j]->destination, links[j]->destination, other);
            }
        }
    }
    return 0;
}

static int mount_from_message(struct checker *checker, const Immure__Mount *message,
                              const struct policy_spec *spec, struct policy_mount *ret)
{
    ret->at = check_position(checker, "destination");
    int r = check_destination(checker, message->destination);
    r = r < 0 ? r : check_copy(checker, message->destination, &ret->destination);
    r = r < 0 ? r : kind_from_message(checker, message, ret);
    r = r < 0 ? r : check_options(checker, message, &kinds[ret->kind]);
    if (r < 0) {
        return r;
    }
    ret->read_only = kinds[ret->kind].read_only && message->read_only;
    ret->allow_devices = message->allow_devices;
    ret->no_exec = message->no_exec;
    ret->optional = message->optional;
    return check_against_earlier(checker, spec, ret);
}

static void mount_clear(struct policy_mount *mount)
{
    free(mount->destination);
    free(mount->source);
    free(mount->content);
    *mount = (struct policy_mount){0};
}

int policy_mounts_from_message(struct checker *checker, const Immure__Policy *message,
                               struct policy_spec *spec)
{
    int r = check_new_array(checker, message->n_mount, sizeof *spec->mounts, &spec->mounts);
    for (size_t i = 0; r == 0 && i < message->n_mount; i++) {
        size_t before = check_enter(checker, "mount", i);
        struct policy_mount *mount = &spec->mounts[spec->n_mounts];
        r = mount_from_message(checker, message->mount[i], spec, mount);
        check_leave(checker, before);
        if (r < 0) {
            mount_clear(mount);
            r = check_go_on(checker, r);
        } else {
            spec->n_mounts++;
        }
    }
    return r;
}

void policy_mounts_free(struct policy_spec *spec)
{
    for (size_t i = 0; i < spec->n_mounts; i++) {
        mount_clear(&spec->mounts[i]);
    }
    free(spec->mounts);
}
