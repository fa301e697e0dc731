/* Files of the caller's that a command is shown: from options to mounts. Runs in the process of the command
 * line, which opens them with its caller's rights: the jail has others.
 *
 * Where the jail has an outer uid of its own, each mount is id-mapped: the owner of what is shown is the
 * program's user inside, and what the program writes belongs to that owner. Where the jail is its caller
 * outside, that is so by itself. */
#include "server/launch/binds.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/resources/hostdir.h"
#include "server/launch/secrets.h"

static int refuse_secrets(const char *option, const char *source, struct err *reterr)
{
    char why[SECRETS_TEXT_BYTES];
    char home[PATH_MAX];
    const char *named = getenv("HOME");
    const char *shown = secrets_shown_by(source, named && realpath(named, home) ? home : NULL, why);
    return shown ? err_set(reterr, ERR_DENIED, EPERM, option,
                           "%s: %s; to show it all the same, give --policy FILE with a mount of it", source,
                           shown)
                 : 0;
}

/* The row of that place; NULL: there is none. */
static struct policy_bind *find_place(struct launch_binds *binds, const char *source, const char *destination)
{
    for (size_t i = 0; i < binds->n_rows; i++) {
        struct policy_bind *row = &binds->rows[i];
        if (strcmp(row->source, source) == 0 && strcmp(row->destination, destination) == 0) {
            return row;
        }
    }
    return NULL;
}

static int add_row(struct launch_binds *binds, const char *option, const char *source,
                   const char *destination, bool writable, struct err *reterr)
{
    struct policy_bind *row = find_place(binds, source, destination);
    if (row) {
        row->writable |= writable;
        return 0;
    }
    if (binds->n_rows == JAIL_BINDS_GIVEN_MAX) {
        return err_set(reterr, ERR_INVALID, E2BIG, option,
                       "a command is shown %zu directories and files at most", JAIL_BINDS_GIVEN_MAX);
    }
    row = &binds->rows[binds->n_rows];
    binds->fds[binds->n_rows] = -1;
    *row = (struct policy_bind){.source = strdup(source),
                                .destination = strdup(destination),
                                .writable = writable,
                                .slot = JAIL_FD_BIND + (uint32_t)binds->n_rows};
    binds->n_rows++;
    return row->source && row->destination ? 0 : err_errno(reterr, ENOMEM, "preparing the mounts");
}

int launch_binds_add(struct launch_binds *binds, const char *option, const char *text, bool writable,
                     struct err *reterr)
{
    char source[PATH_MAX], given[PATH_MAX];
    size_t length = strcspn(text, ":");
    if (length == 0 || length >= sizeof given) {
        return err_set(reterr, ERR_INVALID, EINVAL, option, "'%.256s' is not of the form DIR or DIR:DEST",
                       text);
    }
    snprintf(given, sizeof given, "%.*s", (int)length, text);
    if (!realpath(given, source)) {
        int code = errno;
        return err_set(reterr, ERR_INVALID, code, option, "%s: %s", given, strerror(code));
    }
    const char *destination = text[length] == ':' ? text + length + 1 : source;
    if (destination[0] != '/') {
        return err_set(reterr, ERR_INVALID, EINVAL, option, "'%.256s': DEST must be an absolute path", text);
    }
    int r = refuse_secrets(option, source, reterr);
    return r < 0 ? r : add_row(binds, option, source, destination, writable, reterr);
}

/* What was found to hold no secret: a link that somebody has put in its place since is not followed. */
static int open_source(const char *path)
{
    const struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
    return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
}

/* A mount whose owner is the program; or, of what is only shown and lies where ids cannot be mapped, one of
 * which it reads what everybody may read. */
static int open_one(const struct policy_bind *row, bool mapped, uint32_t outer_uid, uint32_t outer_gid,
                    int *ret_fd, struct err *reterr)
{
    struct stat st;
    CLEANUP(fd_closep) int fd = open_source(row->source);
    if (fd < 0 || fstat(fd, &st) < 0) {
        int code = errno;
        return err_set(reterr, ERR_INVALID, code, row->source, "%s", strerror(code));
    }
    const struct hostdir_ids ids = {
        .disk_uid = st.st_uid, .disk_gid = st.st_gid, .uid = outer_uid, .gid = outer_gid};
    struct err err = {0};
    int r = hostdir_mount(fd, mapped ? &ids : NULL, true, ret_fd, &err);
    if (r < 0 && mapped && !row->writable) {
        err_clear(&err);
        r = hostdir_mount(fd, NULL, true, ret_fd, &err);
    }
    return r < 0 ? err_set(reterr, ERR_HOST, -r, row->source, "cannot be shown%s: %s",
                           row->writable ? " for writing" : "", err.text)
                 : 0;
}

int launch_binds_open(struct launch_binds *binds, bool mapped, uint32_t outer_uid, uint32_t outer_gid,
                      struct err *reterr)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < binds->n_rows; i++) {
        r = open_one(&binds->rows[i], mapped, outer_uid, outer_gid, &binds->fds[i], reterr);
    }
    return r;
}

void launch_binds_clear(struct launch_binds *binds)
{
    for (size_t i = 0; i < binds->n_rows; i++) {
        free(binds->rows[i].source);
        free(binds->rows[i].destination);
        fd_closep(&binds->fds[i]);
    }
    binds->n_rows = 0;
}
