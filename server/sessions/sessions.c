/* The table of sessions. Runs in the warden, which asks it for each job that names one.
 *
 *     (none) ── first job ──► in use ── last job ends ──► idle ── time to live, room for another ──► (none)
 *                              ▲  │                        │ │    and at once, where it has no files
 *                              │  └─ ended by its key ──► dying, until its last jail is gone
 *                              └──────── next job ─────────┘ └─ ended by its key ──► (none)
 *
 * One whose workspace is lost, because the keeper has ended, is no session any more; it stays in the table
 * until its next job, which has to be told, or its time to live is over.
 *
 * The workspace is a tmpfs with limits of its own, held by descriptor, or a directory of the host
 * (disk.c); the keeper (jail/resources/keeper.h) makes the copies that jails attach. Whom a session belongs
 * to is the hash of a key, not its name: a name may be given to another key. */
#include "server/sessions/sessions_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/loop.h"
#include "jail/plan/plan.h"
#include "jail/resources/idmap.h"
#include "jail/resources/keeper.h"
#include "jail/resources/scratch.h"
#include "server/host/host.h"
#include "server/kit/log.h"

/* On disk, a session that no job runs in is attached no longer than its place is wanted. */
#define ATTACHED_MAX 256

/* ---- The life of one ---- */

/* The workspace and the id that it belongs to. */
static void give_up(struct session *session)
{
    struct sessions *all = session->all;
    struct err ignored = {0};
    if (session->number > 0 && all->keeper) {
        keeper_drop(all->keeper, session->number, &ignored);
    }
    session->number = 0;
    fd_closep(&session->fd);
    if (session->has_id) {
        idmap_give_back(all->options.host->ids, session->uid);
        session->has_id = false;
        all->attached--;
    }
}

static void session_free(struct session *session)
{
    struct sessions *all = session->all;
    give_up(session);
    if (session_is_on_disk(session) && session->dying && all->disk) {
        session_disk_end(session); /* or the next server would find it */
        session_disk_gone(all->disk);
    }
    free(session);
}

/* No file, no directory, and nothing that could make one. What cannot be looked at is not empty. */
static bool is_empty(const struct session *session)
{
    if (session->jobs > 0 || session->kept > 0 || session->fd < 0) {
        return false;
    }
    int fd = openat(session->fd, SCRATCH_WORK, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    CLEANUP(dir_closep) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        fd_closep(&fd);
        return false;
    }
    const struct dirent *entry;
    while ((errno = 0, entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            return false;
        }
    }
    return errno == 0;
}

/* With the last of its jails, its kernel may be gone. */
static void settle(struct session *session)
{
    const struct sessions *all = session->all;
    if (session->lost) {
        give_up(session); /* but for the table, nobody has it */
    } else if (session_is_on_disk(session) && !all->disk) {
        return; /* the server ends, and the session stays */
    } else if (is_empty(session)) {
        session_end(session);
    } else {
        session_recount(session);
        all->options.changed(all->options.arg);
    }
}

void session_unref(struct session *session)
{
    if (session && --session->references == 0) {
        session_free(session);
    } else if (session && !session->dying && session->references == 1) {
        settle(session);
    }
}

struct session *session_ref(struct session *session)
{
    session->references++;
    return session;
}

void session_keep(struct session *session, bool kept)
{
    session->kept += kept ? 1u : -1u;
}

const char *session_id_of(const struct session *session)
{
    return session->id;
}

/* Out of the table; whoever still uses it has a reference of his own. */
static void forget(struct session *session)
{
    struct sessions *all = session->all;
    sessions_unindex(session);
    *(session->previous ? &session->previous->next : &all->first) = session->next;
    *(session->next ? &session->next->previous : &all->last) = session->previous;
    session_count(session, 0, false);
    deadline_join(&all->deadlines, &session->deadline, NULL);
    session_unref(session);
}

void session_end(struct session *session)
{
    struct sessions *all = session->all;
    if (session_is_on_disk(session)) {
        session_disk_end(session);
    }
    session->dying = true;
    all->options.ended(all->options.arg, session, true);
    forget(session);
    all->options.changed(all->options.arg);
}

static void on_expiry(void *arg, struct deadline *deadline)
{
    (void)arg;
    session_end(CONTAINER_OF(deadline, struct session, deadline));
}

/* It has the table's reference still, until its next job has been told. */
static void lose(struct session *session)
{
    struct sessions *all = session->all;
    session_ref(session);
    session->lost = true;
    session_count(session, 0, false);
    all->options.ended(all->options.arg, session, false);
    session_unref(session);
}

/* Without its keeper no workspace in memory can be attached any more; running jobs keep what they have. What
 * lies on disk is there for the next keeper. */
static void lose_keeper(struct sessions *sessions)
{
    size_t before = sessions->count;
    loop_remove(TAKE_PTR(sessions->keeper_source));
    keeper_free(TAKE_PTR(sessions->keeper));
    for (struct session *session = sessions->first; session; session = session->next) {
        session->number = 0;
        if (!session_is_on_disk(session) && !session->lost) {
            lose(session);
        }
    }
    if (sessions->count < before) {
        LOG(*sessions->options.log, LOG_ERROR, "sessions_lost",
            LOG_FIELD_U64("sessions", before - sessions->count),
            LOG_FIELD_STR("reason", "the keeper of workspaces in memory has ended"));
    }
    sessions->options.changed(sessions->options.arg);
}

static void on_keeper_gone(void *arg, uint32_t events)
{
    (void)events;
    lose_keeper(arg);
}

/* Where there is none, or no longer one. */
static int start_keeper(struct sessions *sessions, struct err *reterr)
{
    if (sessions->keeper) {
        return 0;
    }
    int r = keeper_new(&sessions->keeper, reterr);
    r = r < 0 ? r
              : loop_add(sessions->options.loop, keeper_fd(sessions->keeper), EPOLLRDHUP, on_keeper_gone,
                         sessions, &sessions->keeper_source, reterr);
    if (r < 0) {
        keeper_free(TAKE_PTR(sessions->keeper));
    }
    return r;
}

/* On disk nothing is lost with that; the next job brings it back. */
static void detach_oldest(struct sessions *all)
{
    for (struct deadline *at = all->idle.first; at; at = at->next) {
        struct session *session = CONTAINER_OF(at, struct session, deadline);
        if (session->has_id && session->references == 1) {
            give_up(session);
            return;
        }
    }
}

/* Gives the session an outer id and its workspace, as the keeper has it. */
static int attach_workspace(struct session *session, struct err *reterr)
{
    struct sessions *all = session->all;
    CLEANUP(fd_closep) int mount = -1;
    if (session_is_on_disk(session) && all->attached >= ATTACHED_MAX) {
        detach_oldest(all);
    }
    int r = start_keeper(all, reterr);
    if (r == 0 && !session->has_id) {
        r = idmap_take(all->options.host->ids, &session->uid, &session->gid);
        session->has_id = r == 0;
        all->attached += session->has_id;
        r = r == 0 ? 0 : err_set(reterr, ERR_BUSY, EAGAIN, NULL, "server busy: execution capacity reached");
    }
    if (r < 0) {
        return r;
    }
    if (session_is_on_disk(session)) {
        r = session_disk_open(session, &mount, reterr);
    } else {
        /* Less the inode of a script, which a job's own scratch has room for and a session's does not need.
         */
        fd_closep(&session->fd);
        session->size_bytes = all->limits.bytes;
        r = scratch_open(all->limits.bytes, all->limits.files - 1, session->uid, session->gid, &session->fd,
                         reterr);
    }
    r = r < 0 ? r : keeper_add(all->keeper, all->last_number + 1, mount < 0 ? session->fd : mount, reterr);
    if (r == 0) {
        session->number = ++all->last_number;
    }
    return r;
}

/* On disk, it is attached when its first job comes. */
static int make_workspace(struct session *session, struct err *reterr)
{
    if (session->all->disk) {
        return session_disk_make(session, reterr);
    }
    int r = attach_workspace(session, reterr);
    if (r == -EPIPE) { /* a new one has lost nothing */
        lose_keeper(session->all);
        err_clear(reterr);
        r = attach_workspace(session, reterr);
    }
    return r;
}

static struct session *session_alloc(struct sessions *sessions, const char *session_id,
                                     struct session_owner *owner, uint64_t created_ms)
{
    struct session *session = calloc(1, sizeof *session);
    if (session) {
        *session = (struct session){.all = sessions,
                                    .owner = owner,
                                    .references = 1,
                                    .fd = -1,
                                    .inodes = sessions->limits.files,
                                    .created_ms = created_ms,
                                    .used_ms = created_ms};
        memcpy(session->id, session_id, strlen(session_id) + 1);
    }
    return session;
}

static int append(struct sessions *sessions, struct session *session, struct err *reterr)
{
    if (sessions_index(session) < 0) {
        return err_errno(reterr, ENOMEM, "making a session");
    }
    session->previous = sessions->last;
    *(sessions->last ? &sessions->last->next : &sessions->first) = session;
    sessions->last = session;
    session_count(session, 0, true);
    return 0;
}

int session_new(struct sessions *sessions, struct session_owner *owner, const char *session_id, bool staged,
                struct session **ret, struct err *reterr)
{
    struct session *session = session_alloc(sessions, session_id, owner, clock_wall_ms());
    if (!session) {
        return err_errno(reterr, ENOMEM, "making a session");
    }
    session->fresh = true;
    session->held = session->staged = staged;
    int r = make_workspace(session, reterr);
    bool is_made = r == 0;
    r = r < 0 ? r : append(sessions, session, reterr);
    if (r < 0) {
        session->dying = is_made;
        session_unref(session);
        return r;
    }
    sessions->options.changed(sessions->options.arg);
    *ret = session;
    return 0;
}

uint64_t session_file_bytes(const struct server_config *config)
{
    return config->session_directory[0] ? config->session_bytes : 0;
}

void sessions_take_settings(struct sessions *sessions, const struct server_config *config)
{
    sessions->idle.timeout_ns = config->session_ttl_ms * NS_PER_MS;
    sessions->limits = (struct tree_limits){.bytes = config->session_bytes, .files = config->session_inodes};
    sessions->free_bytes = config->session_free_bytes;
}

int sessions_make_room(struct sessions *sessions, const struct server_config *config,
                       const struct session_owner *owner, const struct session_want *want,
                       uint64_t *ret_retry_after_ms, struct err *reterr)
{
    int r = sessions_check_room(sessions, config, owner, want, ret_retry_after_ms, reterr);
    struct session *oldest;
    while (r == 0 && (oldest = sessions_in_the_way(sessions, config, owner, want))) {
        LOG(*sessions->options.log, LOG_INFO, "session_evicted", LOG_FIELD_STR("session_id", oldest->id),
            LOG_FIELD_U64("bytes", oldest->counted_bytes),
            LOG_FIELD_U64("idle_ms", (clock_now_ns() - oldest->idle_ns) / NS_PER_MS));
        session_end(oldest);
    }
    return r;
}

/* What it may hold: one that finds no room gets none beyond what it has. A program that runs in it may be
 * ahead of that; then it is for the next job. */
static void fit(struct session *session, bool is_full)
{
    struct err ignored = {0};
    uint64_t bytes = 0, inodes, size_bytes = session->all->limits.bytes;
    if (is_full && scratch_usage(session->fd, &bytes, &inodes) == 0 && bytes < size_bytes) {
        size_bytes = bytes > 0 ? bytes : 4096; /* 0 would be no limit */
    }
    if (size_bytes != session->size_bytes && scratch_resize(session->fd, size_bytes, &ignored) == 0) {
        session->size_bytes = size_bytes;
    }
}

void session_begin(struct session *session)
{
    session->jobs++;
    session->references++;
    deadline_join(&session->all->deadlines, &session->deadline, NULL);
}

int session_enter(struct sessions *sessions, const struct session_ask *ask, struct session **ret,
                  bool *ret_new, uint64_t *ret_retry_after_ms, struct err *reterr)
{
    struct session *session;
    struct session_owner *owner;
    sessions_take_settings(sessions, ask->config);
    *ret_retry_after_ms = 0;
    int r = sessions_find_asked(sessions, ask, &session, reterr);
    r = r < 0 ? r : sessions_owner(sessions, ask->config, ask->key, &owner, reterr);
    if (r < 0) {
        return r;
    }
    bool is_new = !session, is_there = session && !session->lost;
    if (is_there) {
        session_recount(session);
    }
    const struct session_want want = {.session = session, .count = is_new};
    r = sessions_make_room(sessions, ask->config, owner, &want, ret_retry_after_ms, reterr);
    if (is_there && !session_is_on_disk(session)) {
        fit(session, r < 0);
        err_clear(reterr);
        r = 0;
    }
    r = r == 0 && is_new ? session_new(sessions, owner, ask->session_id, false, &session, reterr) : r;
    if (r < 0) {
        return r;
    }
    session_begin(session);
    *ret_new = is_new;
    *ret = session;
    return 0;
}

/* For the next server, and because files may have changed or are about to. */
static void note_use(struct session *session)
{
    if (session_is_on_disk(session) && session->fd >= 0) {
        store_touch(session->fd);
        session_disk_changed(session);
    }
}

void session_leave(struct session *session, bool ran)
{
    if (!session) {
        return;
    }
    struct sessions *all = session->all;
    session->jobs--;
    if (ran) {
        session->fresh = false;
        session->used_ms = clock_wall_ms();
        note_use(session);
    }
    if (session->jobs > 0 || session->dying) {
        return;
    }
    if (session->fresh || (!session->lost && is_empty(session))) {
        session_end(session);
    } else {
        session_recount(session);
        session->idle_ns = clock_now_ns();
        deadline_join(&all->deadlines, &session->deadline, &all->idle);
    }
}

/* A copy of the workspace's mount for one jail. */
static int share(struct session *session, int *ret_fd, struct err *reterr)
{
    struct sessions *all = session->all;
    int r = session_is_on_disk(session) && session->number == 0 ? attach_workspace(session, reterr) : 0;
    if (r == 0) {
        r = all->keeper ? keeper_copy(all->keeper, session->number, ret_fd, reterr) : -EPIPE;
    }
    return r;
}

/* A keeper that is gone takes along what lies in memory: the job that comes next must not take an empty
 * workspace for its session's. What lies on disk another keeper shares. */
static int share_or_lose(struct session *session, int *ret_fd, struct err *reterr)
{
    int r = session->lost ? -EPIPE : share(session, ret_fd, reterr);
    if (r == -EPIPE && !session->lost) {
        lose_keeper(session->all);
        err_clear(reterr);
        r = session->lost ? r : share(session, ret_fd, reterr);
    }
    if (session->lost) {
        session_end(session);
        return err_set(
            reterr, ERR_SETUP, EPIPE, NULL,
            "the keeper of workspaces is gone, and what this session had with it: its next job finds an "
            "empty workspace");
    }
    return r;
}

int session_open(struct session *session, uint64_t input_bytes, struct session_workspace *ret,
                 struct err *reterr)
{
    struct sessions *all = session->all;
    int mount_fd = -1;
    int r = 0;
    if (session_is_on_disk(session)) {
        r = session_disk_check(session, input_bytes, reterr);
        if (r < 0) {
            session_disk_changed(session); /* whether that is still so */
        }
    }
    r = r < 0 ? r : share_or_lose(session, &mount_fd, reterr);
    if (r < 0) {
        return r;
    }
    *ret = (struct session_workspace){.fd = session->fd,
                                      .mount_fd = mount_fd,
                                      .uid = session->uid,
                                      .gid = session->gid,
                                      .file_uid = session->uid,
                                      .file_gid = session->gid,
                                      .inodes = session->inodes};
    if (session_is_on_disk(session)) {
        store_owner(session_disk_store(all->disk), &ret->file_uid, &ret->file_gid);
        ret->entries = session->usage.files;
        note_use(session);
    } else {
        uint64_t bytes;
        scratch_usage(session->fd, &bytes, &ret->entries);
    }
    return 0;
}

/* ---- All of them ---- */

/* Puts a session that is found on disk into the table. 1: its time is over. */
static int add_stored(struct sessions *sessions, const struct store_entry *entry, struct err *reterr)
{
    const struct stored_session *stored = &entry->session;
    uint64_t now_ms = clock_wall_ms(), used_ms = entry->used_ms < now_ms ? entry->used_ms : now_ms;
    uint64_t idle_ns = (now_ms - used_ms) * NS_PER_MS;
    if (idle_ns >= sessions->idle.timeout_ns || sessions_named(sessions, stored->id)) {
        return 1;
    }
    struct session_owner *owner;
    int r = sessions_owner_of(sessions, stored->owner, &owner, reterr);
    if (r < 0) {
        return r;
    }
    struct session *session = session_alloc(sessions, stored->id, owner, stored->created_ms);
    if (!session) {
        return err_errno(reterr, ENOMEM, "reading sessions back");
    }
    uint64_t now_ns = clock_now_ns();
    memcpy(session->name, entry->name, sizeof session->name);
    session->used_ms = used_ms;
    session->look_due_ns = now_ns;
    session->idle_ns = now_ns > idle_ns ? now_ns - idle_ns : 0;
    r = append(sessions, session, reterr);
    if (r < 0) {
        session_unref(session);
        return r;
    }
    deadline_join_late(&sessions->deadlines, &session->deadline, &sessions->idle, idle_ns);
    return 0;
}

int sessions_new(const struct sessions_options *options, const struct server_config *config,
                 struct sessions **ret, struct err *reterr)
{
    const struct session_disk_hooks hooks = {.unref = session_unref, .found = add_stored};
    struct sessions *sessions = calloc(1, sizeof *sessions);
    if (!sessions) {
        return err_errno(reterr, ENOMEM, "making the table of sessions");
    }
    sessions->options = *options;
    sessions->deadlines =
        (struct deadlines){.queues = &sessions->idle, .n_queues = 1, .passed = on_expiry, .arg = sessions};
    sessions_take_settings(sessions, config);
    int r = deadlines_start(&sessions->deadlines, options->loop, reterr);
    r = r < 0 ? r : session_files_new(sessions, &sessions->files, reterr);
    if (r == 0 && config->session_directory[0]) {
        r = session_disk_new(sessions, config->session_directory, &hooks, &sessions->disk, reterr);
    }
    sessions_measure_host(sessions);
    if (r == 0 && sessions->disk) {
        r = session_disk_load(sessions->disk, reterr);
    }
    if (r < 0) {
        sessions_free(sessions);
        return r;
    }
    *ret = sessions;
    return 0;
}

void sessions_free(struct sessions *sessions)
{
    if (!sessions) {
        return;
    }
    session_files_free(TAKE_PTR(sessions->files));
    session_disk_free(TAKE_PTR(sessions->disk));
    while (sessions->first) {
        if (session_is_on_disk(sessions->first)) {
            forget(sessions->first);
        } else {
            session_end(sessions->first);
        }
    }
    deadlines_stop(&sessions->deadlines);
    loop_remove(sessions->keeper_source);
    keeper_free(sessions->keeper);
    tdestroy(sessions->owners, free);
    free(sessions);
}
