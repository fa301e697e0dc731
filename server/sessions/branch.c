/* Copies of sessions: forks, and workspaces that become another's; and what differs between two. Runs in the
 * warden, which enters the sessions, asks the process for files for each copy (copy.c), and makes all of them
 * sessions at once, or none.
 *
 *     fork      asked ─► source held, targets staged ─► copy each ─► committed ─► all of them left
 *     restore   asked ─► both held, a workspace staged ─► copy ─► exchanged ──────┘     │
 *     diff      asked ─► both entered ─► compare ───────────────────────────────────────┘
 *
 * While sessions are held, no job begins in them. What is staged is nobody's session: where this server is
 * killed, the next one removes it. */
#include "server/sessions/sessions_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/resources/keeper.h"
#include "jail/resources/scratch.h"
#include "server/kit/log.h"

struct branching {
    struct file_work work;
    struct sessions *sessions;
    enum session_query what;
    struct session *from;                   /* NULL: not entered yet */
    struct session *to[SESSION_OTHERS_MAX]; /* of a fork the new ones; else the one that is there */
    size_t n_to, at;
    int staged_fd; /* of a restore */
    char staged_name[STORE_NAME_BYTES];
    bool done;
};

/* ---- Entering ---- */

/* The key's session that is copied or compared; `field` names it in errors. */
static int find(const struct branching *branching, const struct session_file_ask *ask, const char *field,
                const char *session_id, struct session **ret, struct err *reterr)
{
    struct session *session;
    if (session_find(branching->sessions, ask->config, ask->query.key, session_id, &session, NULL) < 0 ||
        !session || session->lost) {
        return err_set(reterr, ERR_NOT_FOUND, ENOENT, field, "%s: no such session", field);
    }
    if (branching->what != SESSION_DIFF && session->jobs > 0) {
        return err_set(reterr, ERR_CONFLICT, EBUSY, field,
                       "%s: jobs run in this session (%u): wait until they have ended, or end them", field,
                       session->jobs);
    }
    *ret = session;
    return 0;
}

static int enter(const struct branching *branching, struct session *session, struct session **ret,
                 struct err *reterr)
{
    session_begin(session);
    session->held = branching->what != SESSION_DIFF;
    *ret = session;
    return session_files_open(session, reterr);
}

static uint64_t bytes_of(const struct session *session)
{
    uint64_t bytes = 0, inodes;
    if (session_is_on_disk(session)) {
        return session->usage.bytes;
    }
    scratch_usage(session->fd, &bytes, &inodes);
    return bytes;
}

/* For so many copies, of which each takes the place of `replaced` bytes. */
static int make_room(const struct branching *branching, const struct session_file_ask *ask,
                     const struct session_owner *owner, const struct session *from, uint32_t count,
                     const struct session *replaced, struct msg_session_answer *answer, struct err *reterr)
{
    struct sessions *all = branching->sessions;
    uint64_t bytes = bytes_of(from), gone = replaced ? bytes_of(replaced) : 0;
    const struct session_want want = {.session = replaced,
                                      .count = count,
                                      .bytes = count > 0      ? count * bytes
                                               : bytes > gone ? bytes - gone
                                                              : 0};
    int r = 0;
    if (all->disk) {
        r = session_disk_check(from, 0, reterr);
        r = r < 0 ? r : session_disk_check_free(all->disk, (count > 0 ? count : 1) * bytes, reterr);
    }
    return r < 0 ? r : sessions_make_room(all, ask->config, owner, &want, &answer->retry_after_ms, reterr);
}

static int check_names(const struct branching *branching, const struct session_file_ask *ask,
                       struct err *reterr)
{
    const struct msg_session_query *query = &ask->query;
    for (size_t i = 0; i < query->n_others; i++) {
        const char *name = query->others[i].session_id;
        struct session *session;
        if (session_find(branching->sessions, ask->config, query->key, name, &session, NULL) < 0) {
            return err_set(reterr, ERR_DENIED, EACCES, "to", "to[%zu]: it is another key's session", i);
        }
        if (session) {
            return err_set(reterr, ERR_CONFLICT, EEXIST, "to",
                           "to[%zu]: there is a session of that name; delete it, or take another name", i);
        }
        for (size_t k = 0; k < i; k++) {
            if (strcmp(query->others[k].session_id, name) == 0) {
                return err_set(reterr, ERR_INVALID, EINVAL, "to", "to[%zu]: the name is there twice", i);
            }
        }
    }
    return 0;
}

static int begin_fork(struct branching *branching, const struct session_file_ask *ask,
                      struct session_owner *owner, struct msg_session_answer *answer, struct err *reterr)
{
    struct sessions *all = branching->sessions;
    const struct msg_session_query *query = &ask->query;
    struct session *from = NULL;
    int r = find(branching, ask, "session_id", query->session_id, &from, reterr);
    r = r < 0 ? r : check_names(branching, ask, reterr);
    r = r < 0 ? r : enter(branching, from, &branching->from, reterr);
    r = r < 0 ? r : make_room(branching, ask, owner, from, (uint32_t)query->n_others, NULL, answer, reterr);
    uint64_t bytes = r < 0 ? 0 : bytes_of(from);
    for (size_t i = 0; i < query->n_others && r == 0; i++) {
        struct session *to;
        r = session_new(all, owner, query->others[i].session_id, true, &to, reterr);
        if (r == 0) {
            session_count(to, bytes, true);
            r = enter(branching, to, &branching->to[branching->n_to++], reterr);
        }
    }
    return r;
}

static int stage(struct branching *branching, struct err *reterr)
{
    struct sessions *all = branching->sessions;
    const struct session *to = branching->to[0];
    return all->disk ? session_disk_stage(all->disk, branching->staged_name, &branching->staged_fd, reterr)
                     : scratch_open(all->limits.bytes, all->limits.files - 1, to->uid, to->gid,
                                    &branching->staged_fd, reterr);
}

static int begin_two(struct branching *branching, const struct session_file_ask *ask,
                     struct session_owner *owner, struct msg_session_answer *answer, struct err *reterr)
{
    const struct msg_session_query *query = &ask->query;
    const char *own = query->session_id, *other = query->others[0].session_id;
    bool is_diff = branching->what == SESSION_DIFF;
    struct session *from = NULL, *to = NULL;
    int r = find(branching, ask, "session_id", own, is_diff ? &from : &to, reterr);
    r = r < 0 ? r : find(branching, ask, is_diff ? "other" : "from", other, is_diff ? &to : &from, reterr);
    if (r == 0 && from == to && !is_diff) {
        r = err_set(reterr, ERR_INVALID, EINVAL, "from", "from: it is the session itself");
    }
    r = r < 0 ? r : enter(branching, from, &branching->from, reterr);
    if (r == 0) {
        branching->n_to = 1;
        r = enter(branching, to, &branching->to[0], reterr);
    }
    if (is_diff) {
        return r;
    }
    r = r < 0 ? r : make_room(branching, ask, owner, from, 0, to, answer, reterr);
    return r < 0 ? r : stage(branching, reterr);
}

/* ---- Steps ---- */

static void take_step(const struct branching *branching, struct file_step *ret)
{
    const struct sessions *all = branching->sessions;
    const struct session *from = branching->from, *to = branching->to[branching->at];
    uint64_t inodes = from->inodes > to->inodes ? from->inodes : to->inodes;
    struct files_request *request = &ret->request;
    ret->workspace = from->fd;
    ret->content = branching->what == SESSION_RESTORE ? branching->staged_fd : to->fd;
    request->what = branching->what == SESSION_DIFF ? SESSION_DIFF : SESSION_FORK;
    request->uid = to->uid;
    request->gid = to->gid;
    if (all->disk) {
        store_owner(session_disk_store(all->disk), &request->uid, &request->gid);
    }
    /* While they are compared, jobs may be giving files new names. */
    request->most = branching->what == SESSION_DIFF ? 2 * inodes : all->limits.files;
    request->bytes = all->limits.bytes;
}

static int begin(struct file_work *work, const struct session_file_ask *ask, struct session_owner *owner,
                 struct msg_session_answer *answer, struct file_step *ret, struct err *reterr)
{
    struct branching *branching = CONTAINER_OF(work, struct branching, work);
    struct session_owner *now;
    /* Another key may have that name by now. */
    if (sessions_owner(branching->sessions, ask->config, ask->query.key, &now, reterr) < 0 || now != owner) {
        err_clear(reterr);
        return err_set(reterr, ERR_NOT_FOUND, ENOENT, "session_id", "session_id: no such session");
    }
    sessions_take_settings(branching->sessions, ask->config);
    int r = branching->what == SESSION_FORK ? begin_fork(branching, ask, owner, answer, reterr)
                                            : begin_two(branching, ask, owner, answer, reterr);
    if (r == 0) {
        take_step(branching, ret);
    }
    return r;
}

/* In memory another tmpfs takes the place of its workspace. Takes it on success. */
static int exchange(struct session *session, int fd, struct err *reterr)
{
    struct sessions *all = session->all;
    struct err ignored = {0};
    int r = all->keeper ? keeper_add(all->keeper, all->last_number + 1, fd, reterr) : -EPIPE;
    if (r < 0) {
        return err_errno(reterr, -r, "replacing the workspace of a session");
    }
    keeper_drop(all->keeper, session->number, &ignored);
    close(session->fd);
    session->fd = fd;
    session->number = ++all->last_number;
    session->size_bytes = all->limits.bytes;
    session->inodes = all->limits.files;
    return 0;
}

static bool is_any_lost(const struct branching *branching)
{
    bool lost = false;
    for (size_t i = 0; i < branching->n_to; i++) {
        lost = lost || branching->to[i]->lost;
    }
    return lost;
}

static int commit_fork(struct branching *branching, struct msg_session_answer *answer, struct err *reterr)
{
    struct sessions *all = branching->sessions;
    int r = all->disk ? session_disk_commit(all->disk, branching->to, branching->n_to, reterr) : 0;
    for (size_t i = 0; i < branching->n_to && r == 0; i++) {
        branching->to[i]->usage = branching->from->usage; /* until the next look */
    }
    if (r == 0) {
        LOG(*all->options.log, LOG_DEBUG, "session_forked", LOG_FIELD_STR("session_id", branching->from->id),
            LOG_FIELD_U64("copies", branching->n_to));
        answer->kernel = branching->from->kept > 0 ? SESSION_KERNEL_NOT_COPIED : SESSION_KERNEL_NONE;
    }
    return r;
}

static int commit_restore(struct branching *branching, struct msg_session_answer *answer, struct err *reterr)
{
    struct sessions *all = branching->sessions;
    struct session *to = branching->to[0];
    if (to->dying) {
        return err_set(reterr, ERR_NOT_FOUND, ENOENT, "session_id",
                       "session_id: the session was deleted meanwhile");
    }
    bool had_kernel = to->kept > 0;
    int r = all->disk ? session_disk_exchange(to, branching->staged_name, reterr)
                      : exchange(to, branching->staged_fd, reterr);
    if (r < 0) {
        return r;
    }
    if (!all->disk) {
        branching->staged_fd = -1;
    }
    to->usage = branching->from->usage; /* until the next look */
    LOG(*all->options.log, LOG_DEBUG, "session_restored", LOG_FIELD_STR("session_id", to->id),
        LOG_FIELD_STR("from", branching->from->id));
    /* It has the files of before. */
    all->options.over(all->options.arg, to, "has become a copy of another one");
    answer->kernel = had_kernel                  ? SESSION_KERNEL_ENDED
                     : branching->from->kept > 0 ? SESSION_KERNEL_NOT_COPIED
                                                 : SESSION_KERNEL_NONE;
    return 0;
}

/* On disk its files go with its name: what has been read of them may be a part. */
static const char *find_deleted(const struct branching *branching)
{
    if (branching->sessions->disk && branching->from->dying) {
        return branching->what == SESSION_RESTORE ? "from" : "session_id";
    }
    return branching->sessions->disk && branching->what == SESSION_DIFF && branching->to[0]->dying ? "other"
                                                                                                   : NULL;
}

static int next(struct file_work *work, const struct files_answer *done, struct msg_session_answer *answer,
                struct file_step *ret, struct err *reterr)
{
    struct branching *branching = CONTAINER_OF(work, struct branching, work);
    bool is_diff = branching->what == SESSION_DIFF;
    const char *deleted = find_deleted(branching);
    if (deleted) {
        return err_set(reterr, ERR_NOT_FOUND, ENOENT, deleted, "%s: the session was deleted meanwhile",
                       deleted);
    }
    /* One that has been deleted while it was made has been made and deleted. */
    if (done->err.kind != ERR_NONE && (is_diff || !branching->to[branching->at]->dying)) {
        *reterr = done->err;
        return -EIO;
    }
    if (is_diff) {
        branching->done = true;
        return 0;
    }
    answer->files = done->files;
    answer->left_out = done->left_out;
    if (++branching->at < branching->n_to) {
        take_step(branching, ret);
        return 1;
    }
    if (is_any_lost(branching)) {
        return err_set(reterr, ERR_BUSY, EPIPE, NULL,
                       "the keeper of workspaces is gone, and the copy with it; try again");
    }
    int r = branching->what == SESSION_FORK ? commit_fork(branching, answer, reterr)
                                            : commit_restore(branching, answer, reterr);
    branching->done = r == 0;
    return r;
}

static void leave(struct session *session, bool done)
{
    session->held = session->staged = false;
    session_files_leave(session, done);
}

static void branching_free(struct file_work *work)
{
    struct branching *branching = CONTAINER_OF(work, struct branching, work);
    bool is_fork = branching->what == SESSION_FORK;
    for (size_t i = 0; i < branching->n_to; i++) {
        leave(branching->to[i], branching->done || !is_fork);
    }
    if (branching->from) {
        leave(branching->from, true);
    }
    fd_closep(&branching->staged_fd);
    if (branching->staged_name[0] != '\0' && branching->sessions->disk) {
        session_disk_unstage(branching->sessions->disk, branching->staged_name);
    }
    free(branching);
}

int session_branch_ask(struct sessions *sessions, const struct session_file_ask *ask, struct err *reterr)
{
    struct branching *branching = calloc(1, sizeof *branching);
    if (!branching) {
        return err_errno(reterr, ENOMEM, "copying a session");
    }
    *branching = (struct branching){.work = {.begin = begin, .next = next, .free = branching_free},
                                    .sessions = sessions,
                                    .what = ask->query.what,
                                    .staged_fd = -1};
    return session_files_ask_work(sessions, ask, &branching->work, reterr);
}
