/* Lint of mounts: what they show of the host, and what programs will look for and not find. On the command
 * line alone; looks at the host's files, but changes nothing. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "policy/compiled.h"
#include "policy/lint/lint_internal.h"
#include "policy/mounts.h"

/* ---- What is the host's ---- */

/* Trees of the host that hold secrets or tell of it; all of it, "/", is refused by policy/mounts.c. Of
 * several that a source lies in, the last one speaks. */
static const struct {
    const char *path;
    bool whole; /* what lies below it is no better */
    const char *consequence;
} telling_sources[] = {
    {"/proc", true, "shows the host's processes"},
    {"/sys", true, "shows the host's devices and kernel"},
    {"/sys/fs/cgroup", true, "shows the limits of the host's services"},
    {"/dev", true, "is or shows a device of the host's"},
    {"/root", true, "may hold keys and histories"},
    {"/home", true, "may hold keys and histories"},
    {"/etc", false, "may hold keys and passwords"},
    {"/etc/shadow", true, "holds passwords"},
    {"/etc/gshadow", true, "holds passwords"},
    {"/etc/ssh", true, "holds keys of the host's"},
    {"/etc/ssl/private", true, "holds keys of the host's"},
    {"/etc/sudoers", true, "says who may become root"},
    {"/etc/kubernetes", true, "holds keys of the host's"},
    {"/etc/immure", true, "holds this server's keys"},
    {"/run", true, "holds sockets of the host's services"},
    {"/var/run", true, "holds sockets of the host's services"},
    {"/var/lib", false, "holds the data of the host's services"},
    {"/var/lib/containerd", true, "holds the files of other containers"},
    {"/var/lib/containers", true, "holds the files of other containers"},
    {"/var/lib/docker", true, "holds the files of other containers"},
    {"/var/lib/kubelet", true, "holds the secrets of other containers"},
    {"/var/log", true, "holds the host's logs"},
    {"/var/spool/cron", true, "says what the host runs"},
    {"/boot", true, "shows the host's kernel"},
};

static void check_source(struct lint *lint, const struct policy_mount *mount, const struct lint_spot *spot)
{
    const char *consequence = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(telling_sources); i++) {
        bool same = strcmp(mount->source, telling_sources[i].path) == 0;
        if (same || (telling_sources[i].whole && path_is_below(mount->source, telling_sources[i].path))) {
            consequence = telling_sources[i].consequence;
        }
    }
    if (consequence && !path_is_harmless_device(mount->source)) {
        lint_find(lint, LINT_HOST_SECRET, spot, "%s %s", mount->source, consequence);
    }
    size_t len = strlen(mount->source);
    if (len > 5 && strcmp(mount->source + len - 5, ".sock") == 0) {
        lint_find(lint, LINT_HOST_SOCKET, spot,
                  "%s is a socket: the program that listens there trusts its callers", mount->source);
    }
}

/* Directories below /dev that hold no devices. */
static bool holds_devices(const char *source)
{
    static const char *const rows[] = {"/dev/shm", "/dev/mqueue", "/dev/hugepages"};
    bool other = !path_is_at_or_below(source, "/dev");
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        other |= path_is_at_or_below(source, rows[i]);
    }
    return !other;
}

static void check_bind(struct lint *lint, const struct policy_mount *mount, size_t index)
{
    const struct lint_spot source = lint_spot(mount->destination, "mount[%zu].bind.source", index),
                           whole = lint_spot(mount->destination, "mount[%zu]", index);
    check_source(lint, mount, &source);
    if (!mount->read_only) {
        const struct lint_spot spot = lint_spot(mount->destination, "mount[%zu].read_only", index);
        lint_find(lint, LINT_BIND_WRITABLE, &spot, "%s is writable: the program changes the host's %s",
                  mount->destination, mount->source);
    }
    if (mount->allow_devices && !path_is_below(mount->source, "/dev")) {
        const struct lint_spot spot = lint_spot(mount->destination, "mount[%zu].allow_devices", index);
        lint_find(lint, LINT_DEVICES_MISPLACED, &spot, "%s is not below /dev", mount->source);
    }
    if (!mount->allow_devices && holds_devices(mount->source)) {
        lint_find(lint, LINT_DEVICE_BLOCKED, &whole, "%s cannot be opened as a device", mount->source);
    }
    if (!mount->optional && access(mount->source, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR)) {
        lint_find(lint, LINT_BIND_MISSING, &source, "%s is not on this host, so that no job could start",
                  mount->source);
    }
}

/* ---- What programs look for ---- */

static void check_symlink(struct lint *lint, const struct policy_mount *mount, size_t index)
{
    char target[PATH_MAX];
    const struct lint_spot spot = lint_spot(mount->destination, "mount[%zu].symlink.target", index);
    bool good = lint_follow(lint->spec, mount->destination, target);
    const struct policy_mount *over = good ? policy_mount_over(lint->spec, target) : NULL;
    if (good && path_is_at_or_below(target, "/proc") && !over && !lint->spec->image[0]) {
        lint_find(lint, LINT_PROC_MISSING, &spot, "%s leads into /proc, which is not mounted",
                  mount->destination);
    } else if (!good || !lint_shows(lint, target)) {
        lint_find(lint, LINT_SYMLINK_DANGLING, &spot, "%s leads to %s, which is not in the jail",
                  mount->destination, good ? target : "itself");
    }
}

static void check_proc(struct lint *lint, const struct policy_mount *mount, size_t index)
{
    if (!mount->subset_pid || !mount->hidepid) {
        const struct lint_spot spot = lint_spot(mount->destination, "mount[%zu].proc.%s", index,
                                                mount->subset_pid ? "hidepid" : "subset_pid");
        lint_find(lint, LINT_PROC_WIDE, &spot, "without %s the program sees %s",
                  mount->subset_pid ? "hidepid" : "subset_pid",
                  mount->subset_pid ? "PID 1 of the jail" : "the host's memory, CPUs and kernel");
    }
}

static void check_tmpfs(struct lint *lint, const struct policy_mount *mount, size_t index)
{
    struct lint_spot spot = lint_spot(mount->destination, "mount[%zu]", index);
    if (mount->read_only) {
        return;
    }
    lint_find(lint, LINT_TMPFS_UNCOUNTED, &spot,
              "without cgroup v2 what is written to %s is not counted as the job's memory",
              mount->destination);
    if (mount->size_bytes > lint->spec->limits.memory_bytes) {
        spot = lint_spot(mount->destination, "mount[%zu].tmpfs.size_bytes", index);
        lint_find(lint, LINT_TMPFS_LARGE, &spot,
                  "may hold more than limits.memory_bytes, to which it is charged");
    }
}

static void check_mount(struct lint *lint, const struct policy_mount *mount, size_t index)
{
    const struct lint_spot spot = lint_spot(mount->destination, "mount[%zu]", index);
    switch (mount->kind) {
    case POLICY_MOUNT_BIND:
        check_bind(lint, mount, index);
        break;
    case POLICY_MOUNT_TMPFS:
        check_tmpfs(lint, mount, index);
        break;
    case POLICY_MOUNT_PROC:
        check_proc(lint, mount, index);
        break;
    case POLICY_MOUNT_SYMLINK:
        check_symlink(lint, mount, index);
        break;
    case POLICY_MOUNT_SCRATCH:
        if (!mount->no_exec) {
            lint_find(lint, LINT_SCRATCH_EXEC, &spot, "programs that the job writes to %s can be run",
                      mount->destination);
        }
        break;
    case POLICY_MOUNT_FILE:
        break;
    }
}

/* The loader that a 64-bit program asks for; false: none, or it is no such program. */
static bool loader_of(const char *path, char ret[PATH_MAX])
{
    Elf64_Ehdr header;
    CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) {
        return false;
    }
    for (unsigned i = 0; i < header.e_phnum && i < 64; i++) {
        Elf64_Phdr part;
        off_t at = (off_t)(header.e_phoff + i * sizeof part);
        if (pread(fd, &part, sizeof part, at) == (ssize_t)sizeof part && part.p_type == PT_INTERP &&
            part.p_filesz > 1 && part.p_filesz < PATH_MAX) {
            ret[part.p_filesz - 1] = '\0';
            return pread(fd, ret, part.p_filesz - 1, (off_t)part.p_offset) == (ssize_t)part.p_filesz - 1;
        }
    }
    return false;
}

/* A program of a bind: the file itself, or, of a directory of programs, a shell or what every host has. */
static bool program_of(const struct policy_mount *mount, char ret[2 * PATH_MAX])
{
    static const char *const below[] = {"", "/sh", "/env", "/bin/sh", "/bin/env"};
    struct stat st;
    for (size_t i = 0; i < ARRAY_SIZE(below); i++) {
        snprintf(ret, 2 * PATH_MAX, "%s%s", mount->source, below[i]);
        if (stat(ret, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0111)) {
            return true;
        }
    }
    return false;
}

static void check_loader(struct lint *lint)
{
    const struct policy_spec *spec = lint->spec;
    for (size_t i = 0; i < spec->n_mounts && !spec->interpreter[0]; i++) {
        const struct policy_mount *mount = &spec->mounts[i];
        char program[2 * PATH_MAX], loader[PATH_MAX];
        if (mount->kind != POLICY_MOUNT_BIND || mount->no_exec || !program_of(mount, program) ||
            strstr(mount->destination, ".so") || !loader_of(program, loader) || lint_shows(lint, loader)) {
            continue;
        }
        const struct lint_spot spot = lint_spot(mount->destination, "mount[%zu]", i);
        lint_find(lint, LINT_LOADER_MISSING, &spot,
                  "programs of %s are started by %s, which is not in the jail", mount->source, loader);
        return;
    }
}

static void check_devices_and_proc(struct lint *lint)
{
    const struct lint_spot spot = lint_spot(NULL, "mount");
    bool starts = lint_makes_processes(lint) && !lint->spec->image[0];
    struct lint_spot dev_null = spot, proc = spot;
    dev_null.about = "/dev/null";
    proc.about = "/proc";
    if (starts && !lint_shows(lint, "/dev/null")) {
        lint_find(lint, LINT_DEV_NULL_MISSING, &dev_null,
                  "programs can be started, but there is no /dev/null for their input and output");
    }
    if (starts && lint->spec->interpreter[0] && !lint_shows(lint, "/proc")) {
        lint_find(lint, LINT_PROC_MISSING, &proc,
                  "%s and the programs that it starts look into /proc, which is not mounted",
                  lint->spec->interpreter);
    }
}

static void check_work(struct lint *lint)
{
    const struct policy_spec *spec = lint->spec;
    bool work = false;
    for (size_t i = 0; i < spec->n_mounts; i++) {
        work |= spec->mounts[i].kind == POLICY_MOUNT_SCRATCH && strcmp(spec->mounts[i].source, "work") == 0;
    }
    if (!work) {
        const struct lint_spot spot = lint_spot("work", "mount");
        lint_find(lint, LINT_NO_WORK, &spot,
                  "there is no scratch directory WORK, so that requests cannot bring files");
    }
}

void lint_check_files(struct lint *lint)
{
    for (size_t i = 0; i < lint->spec->n_mounts; i++) {
        check_mount(lint, &lint->spec->mounts[i], i);
    }
    check_loader(lint);
    check_devices_and_proc(lint);
    check_work(lint);
}
