/* Started interpreters in images. Runs in the warden.
 *
 * An image's interpreter is a stranger's program. A template may make namespaces and mounts, and has no
 * filter; that is for interpreters of the host. Here each jail that stands ready is, from its first
 * instruction on, the jail of the one job that it waits for (warm_standby.c): with its filter, its limits and
 * its outer id. Which interpreter an image has, and whether it can be told from a fresh one, is found out by
 * starting it there: in immure's shared object, which goes into the jail with it, or in the runtime's
 * launcher.
 *
 * What it does before it has a job is nobody's: how long it may take, how often it may fail, what CPU time it
 * may use and what memory all of them may hold is bounded here. */
#include "server/run/warm_internal.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/message/job.h"
#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/jail.h"
#include "jail/plan/template_plan.h"
#include "jail/resources/hostdir.h"
#include "jail/watch.h"
#include "policy/policy.h"
#include "server/host/host.h"

#define START_MS    10000u
#define IDLE_CPU_MS 5000u
#define SAID_BYTES  1024
#define LEAST_BYTES (8ull << 20) /* of a started interpreter */
#define IMAGE_FILES "rootfs"

static int make_plans(struct warm_template *template, const struct policy_image *image, struct err *reterr)
{
    struct policy_ceilings ceilings = {0};
    host_apply_to_ceilings(template->host, &ceilings);
    struct job job = {.runtime = template->runtime->name};
    struct policy_program program = {
        .runtime = template->runtime, .image = image, .bridge = true, .proxy = true, .standby = true};
    int r = policy_build_plan(template->policy, &ceilings, &job, &program, &template->park_plan, reterr);
    if (r < 0 || !warm_is_preloaded(template->runtime)) {
        return r;
    }
    CLEANUP(fd_closep) int fd = -1;
    uint64_t bytes = 0;
    CLEANUP(freep) char **argv = warm_template_arguments(template);
    if (!argv) {
        return err_errno(reterr, ENOMEM, "planning a template");
    }
    argv[0] = (char *)(uintptr_t)(image->interpreter ? image->interpreter : argv[0]);
    r = warm_open_program(template, &fd, &bytes, reterr);
    return r < 0 ? r
                 : jail_plan_for_standby(template->park_plan, bytes, argv, &template->image->built, reterr);
}

int warm_image_attach(struct warm_template *template, const struct warm_image *image, struct err *reterr)
{
    struct stat st;
    struct template_image *own = calloc(1, sizeof *own);
    if (!own) {
        return err_errno(reterr, ENOMEM, "making a template");
    }
    template->image = own;
    own->fd = fcntl(image->lock_fd, F_DUPFD_CLOEXEC, 3);
    if (own->fd < 0 || fstat(own->fd, &st) < 0) {
        return err_errno(reterr, errno, "holding an image");
    }
    snprintf(own->name, sizeof own->name, "%s", image->policy->name);
    own->device = st.st_dev;
    own->inode = st.st_ino;
    own->imported_ms = image->imported_ms;
    return make_plans(template, image->policy, reterr);
}

void warm_image_free(struct template_image *image)
{
    if (image) {
        fd_closep(&image->fd);
        jail_plan_free(image->built);
        free(image);
    }
}

bool warm_image_is(const struct warm_template *template, const struct warm_image *image)
{
    const struct template_image *own = template->image;
    struct stat st;
    if (!own || !image) {
        return !own && !image;
    }
    return strcmp(own->name, image->policy->name) == 0 && own->imported_ms == image->imported_ms &&
           fstat(image->lock_fd, &st) == 0 && st.st_dev == own->device && st.st_ino == own->inode;
}

bool warm_image_is_gone(const struct warm_template *template)
{
    const struct template_image *own = template->image;
    CLEANUP(freep) char *path = NULL;
    struct stat st;
    if (!own ||
        asprintf(&path, "%s/%s", template->warm->options.settings->config->image_directory, own->name) < 0) {
        return false;
    }
    return lstat(path, &st) < 0 || st.st_dev != own->device || st.st_ino != own->inode;
}

/* Where an interpreter that does not come to stand ready says why: a few words, and no more. */
static int open_said(int *ret_fd, struct err *reterr)
{
    CLEANUP(fd_closep) int fd = memfd_create("said", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, SAID_BYTES) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0) {
        return err_errno(reterr, errno, "preparing a jail");
    }
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int warm_image_prepare(const struct warm_template *template, struct warm_jail *jail,
                       struct jail_spawn_options *options, int *ret_mount_fd, int *ret_program_fd,
                       struct err *reterr)
{
    uint64_t bytes;
    const struct template_image *image = template->image;
    CLEANUP(fd_closep)
    int root = openat(image->fd, IMAGE_FILES, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (root < 0) {
        return err_errno(reterr, errno, "opening an image");
    }
    int r = open_said(&jail->said_fd, reterr);
    r = r < 0 ? r : hostdir_mount(root, NULL, false, ret_mount_fd, reterr);
    r = r < 0 || !image->built ? r : warm_open_program(template, ret_program_fd, &bytes, reterr);
    options->fds[JAIL_FD_STDERR] = jail->said_fd;
    options->fds[JAIL_FD_IMAGE] = *ret_mount_fd;
    options->setup_timeout_ms = START_MS;
    options->idle_cpu_ms = IDLE_CPU_MS;
    if (image->built) {
        options->fds[JAIL_FD_INPUT] = *ret_program_fd;
        options->plan = image->built;
        options->standby_plan = template->park_plan;
    }
    return r;
}

void warm_image_said(const struct warm_jail *jail, char *ret, size_t size)
{
    ssize_t n = jail->said_fd < 0 ? 0 : pread(jail->said_fd, ret, size - 1, 0);
    ret[n < 0 ? 0 : n] = '\0';
    for (char *at = ret; *at; at++) {
        *at = isprint((unsigned char)*at) ? *at : ' ';
    }
    for (size_t length = strlen(ret); length > 0 && ret[length - 1] == ' '; length--) {
        ret[length - 1] = '\0';
    }
}

static uint64_t held_bytes(const struct warm_jail *jail)
{
    uint64_t bytes, cpu_ns;
    jail_watch_usage(jail->jail, jail->scratch_fd, &bytes, &cpu_ns);
    return bytes;
}

/* What all of them hold; NULL: there is none. */
static struct warm_jail *find_largest(const struct warm *warm, uint64_t *ret_all, uint64_t *ret_most)
{
    struct warm_jail *largest = NULL;
    *ret_all = *ret_most = 0;
    for (struct warm_template *template = warm->templates; template; template = template->next) {
        for (struct warm_jail *jail = template->image ? template->stock : NULL; jail; jail = jail->next) {
            uint64_t bytes = held_bytes(jail);
            *ret_all += bytes;
            largest = !largest || bytes > *ret_most ? jail : largest;
            *ret_most = bytes > *ret_most ? bytes : *ret_most;
        }
    }
    return largest;
}

/* The oldest jail of another image, whose last job was before this one's; NULL: there is none. */
static struct warm_jail *find_idlest(const struct warm_template *asker)
{
    const struct warm_template *idlest = asker;
    for (const struct warm_template *other = asker->warm->templates; other; other = other->next) {
        idlest = other->image && other->stock && other->asked_ns < idlest->asked_ns ? other : idlest;
    }
    return idlest == asker ? NULL : idlest->stock;
}

bool warm_image_has_room(const struct warm_template *template, struct warm_jail **ret_makes_way)
{
    uint64_t all, most;
    find_largest(template->warm, &all, &most);
    most = most > LEAST_BYTES ? most : LEAST_BYTES;
    bool has_room = all + most <= template->warm->options.settings->config->max_image_template_bytes;
    *ret_makes_way = has_room || template->stock ? NULL : find_idlest(template);
    return has_room;
}

struct warm_jail *warm_image_watch(const struct warm *warm, bool *ret_any)
{
    uint64_t all, most;
    for (struct warm_template *template = warm->templates; template; template = template->next) {
        for (struct warm_jail *jail = template->image ? template->stock : NULL; jail; jail = jail->next) {
            jail_watch(jail->jail, jail->scratch_fd);
        }
    }
    struct warm_jail *largest = find_largest(warm, &all, &most);
    *ret_any = largest != NULL;
    return all > warm->options.settings->config->max_image_template_bytes ? largest : NULL;
}

bool warm_jail_has_script(const struct warm_jail *jail)
{
    return jail->template->image && jail->template->image->built;
}
