/* The files of sessions without a job: what their keys list, fetch, put and remove between two. Runs in the
 * warden, by the same descriptor and the same functions by which jobs get input files and results are found,
 * so that no link is followed and what a program made of the workspace is no trap. */
#include "server/sessions/sessions_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/resources/scratch.h"

/* Of all paths of one list. */
#define LIST_PATHS_BYTES_MAX (16u << 20)

/* On disk it needs no jail for that, and so no outer id. */
static int open_workspace(struct session *session, struct err *reterr)
{
    return session->fd >= 0
               ? 0
               : store_enter(session_disk_store(session->all->disk), session->name, &session->fd, reterr);
}

static void end(struct session *session, bool done)
{
    session_leave(session, done);
    if (!session->has_id) {
        fd_closep(&session->fd);
    }
    session_unref(session);
}

/* Until end(). Another key's session is none. */
static int begin(struct sessions *sessions, const struct server_config *config, const char *key,
                 const char *session_id, struct session **ret, struct err *reterr)
{
    struct session *session;
    if (session_find(sessions, config, key, session_id, &session, NULL) < 0 || !session || session->lost) {
        return err_set(reterr, ERR_NOT_FOUND, ENOENT, NULL, "no such session");
    }
    session_begin(session);
    int r = open_workspace(session, reterr);
    if (r < 0) {
        end(session, false);
        return r;
    }
    *ret = session;
    return 0;
}

static int no_such_file(int r, const char *what, struct err *reterr)
{
    return scratch_error_is_ours(r) ? err_errno(reterr, -r, "%s a file of a session", what)
                                    : err_set(reterr, ERR_NOT_FOUND, -r, NULL, "no such file");
}

static int to_rows(struct scratch_list *list, struct session_rows *ret, struct err *reterr)
{
    size_t left = LIST_PATHS_BYTES_MAX;
    ret->truncated = list->truncated;
    ret->files = calloc(list->n_files + 1, sizeof *ret->files);
    if (!ret->files) {
        return err_errno(reterr, ENOMEM, "listing the files of a session");
    }
    for (size_t i = 0; i < list->n_files; i++) {
        struct scratch_file *file = &list->files[i];
        size_t bytes = strlen(file->path) + 32; /* and two numbers */
        if (bytes > left || ret->n_files == MSG_SESSION_FILES_MAX) {
            ret->truncated = true;
            break;
        }
        left -= bytes;
        struct session_file *row = &ret->files[ret->n_files++];
        row->path = TAKE_PTR(file->path);
        row->size = file->size_bytes;
        row->modified_ms = (uint64_t)file->mtime.tv_sec * 1000 + (uint64_t)file->mtime.tv_nsec / NS_PER_MS;
    }
    return 0;
}

int session_list_files(struct sessions *sessions, const struct server_config *config, const char *key,
                       const char *session_id, struct session_rows *ret, struct err *reterr)
{
    CLEANUP(scratch_list_free) struct scratch_list list = {0};
    struct session *session;
    int r = begin(sessions, config, key, session_id, &session, reterr);
    if (r < 0) {
        return r;
    }
    size_t most = 2 * session->inodes; /* while it is being listed, jobs may be giving files new names */
    r = scratch_list(session->fd, most, most, &list, reterr);
    end(session, true);
    return r < 0 ? r : to_rows(&list, ret, reterr);
}

int session_get_file(struct sessions *sessions, const struct server_config *config, const char *key,
                     const char *session_id, const char *path, uint64_t most_bytes, int *ret_fd,
                     uint64_t *ret_size, struct err *reterr)
{
    CLEANUP(fd_closep) int fd = -1;
    uint64_t size;
    struct session *session;
    int r = begin(sessions, config, key, session_id, &session, reterr);
    if (r < 0) {
        return r;
    }
    r = scratch_open_file(session->fd, path, &fd, &size);
    end(session, true);
    if (r < 0) {
        return no_such_file(r, "opening", reterr);
    }
    if (size > most_bytes) {
        return err_set(reterr, ERR_TOO_LARGE, EFBIG, NULL,
                       "the file has %" PRIu64 " bytes, and at most %" PRIu64 " are returned", size,
                       most_bytes);
    }
    *ret_size = size;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

static int put(struct session *session, const char *path, int from, struct err *reterr)
{
    const struct sessions *all = session->all;
    uint32_t uid = session->uid, gid = session->gid;
    struct stat st;
    int r = open_workspace(session, reterr);
    if (r == 0 && session_is_on_disk(session)) {
        store_owner(session_disk_store(all->disk), &uid, &gid);
        r = fstat(from, &st) < 0 ? err_errno(reterr, errno, "putting a file into a session")
                                 : session_disk_check(session, (uint64_t)st.st_size, reterr);
    }
    if (r < 0) {
        return r;
    }
    scratch_reset_mode(session->fd); /* where that fails, so does the next line, and says so */
    r = scratch_replace(session->fd, path, from, uid, gid, reterr);
    if (r == 0 && session_is_on_disk(session)) {
        session->usage.bytes += (uint64_t)st.st_size; /* until the next look */
    }
    if (r < 0 && reterr->kind == ERR_TOO_LARGE && !session_is_on_disk(session)) {
        err_clear(reterr);
        return err_set(reterr, ERR_TOO_LARGE, ENOSPC, NULL,
                       "the file does not fit into the session's workspace of %" PRIu64 " bytes",
                       session->size_bytes);
    }
    return r;
}

int session_put_file(struct sessions *sessions, const struct session_ask *ask, const char *path, int from,
                     bool *ret_new, uint64_t *ret_retry_after_ms, struct err *reterr)
{
    struct session *session;
    int r = session_enter(sessions, ask, &session, ret_new, ret_retry_after_ms, reterr);
    if (r < 0) {
        if (reterr->kind == ERR_DENIED) {
            err_clear(reterr);
            err_set(reterr, ERR_NOT_FOUND, ENOENT, NULL, "no such session");
        }
        return r;
    }
    r = session->lost ? err_set(reterr, ERR_BUSY, EPIPE, NULL,
                                "the workspace of this session is lost; its next job is told, or delete it")
                      : put(session, path, from, reterr);
    end(session, r == 0);
    return r;
}

int session_delete_file(struct sessions *sessions, const struct server_config *config, const char *key,
                        const char *session_id, const char *path, struct err *reterr)
{
    struct session *session;
    int r = begin(sessions, config, key, session_id, &session, reterr);
    if (r < 0) {
        return r;
    }
    r = scratch_remove(session->fd, path);
    end(session, true);
    if (r == -EISDIR) {
        return err_set(reterr, ERR_CONFLICT, EISDIR, NULL, "a directory stands there");
    }
    return r < 0 ? no_such_file(r, "removing", reterr) : 0;
}
