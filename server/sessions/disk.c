/* Workspaces of sessions in a directory of the host. Runs in the warden.
 *
 * No limit is in force there but RLIMIT_FSIZE for one file, so the workspaces are looked at: when a job
 * begins, again and again while jobs run, and when the last has ended. A look costs as many system calls as
 * there are names, on a disk that may be slow, so a process of its own takes it
 * (jail/resources/housekeeper.h), one after the other; it stops counting at the limit. Another such process
 * removes what has ended.
 *
 *     job begins ─► look ─► within limits: again in a while, as long as jobs run
 *                      └──► over: its jobs are ended, and none begins until it is deleted
 *
 * Where a look fails or does not come back, nobody knows what a job is doing there, and it is ended. */
#include "server/sessions/sessions_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/loop.h"
#include "jail/resources/housekeeper.h"
#include "server/host/host.h"
#include "server/kit/log.h"

#define LOOK_INTERVAL_NS (50 * NS_PER_MS)
/* A full workspace makes a look dear: the pause after it is so many times as long. */
#define PAUSE_PER_LOOK  9
#define LOOK_TIMEOUT_NS (30 * NS_PER_S)

/* One process, and what it is at. */
struct housekeeping {
    struct session_disk *disk;
    struct housekeeper *process; /* NULL: not started yet, or gone */
    struct loop_source *source;
    bool busy;
    void (*ended)(struct session_disk *disk, int r, const struct tree_usage *usage);
};

struct session_disk {
    struct sessions *sessions;
    struct session_disk_hooks hooks;
    struct store *store;
    struct housekeeping look, sweep;
    struct session *looked_at; /* NULL: nothing; we have a reference */
    uint64_t look_began_ns;
    struct loop_source *timer; /* the next look is due, or the present one overdue */
    bool sweeping, sweep_again;
};

/* ---- The processes ---- */

static void housekeeping_stop(struct housekeeping *housekeeping)
{
    loop_remove(TAKE_PTR(housekeeping->source));
    housekeeper_free(TAKE_PTR(housekeeping->process));
    housekeeping->busy = false;
}

static void on_task_ended(void *arg, uint32_t events)
{
    (void)events;
    struct housekeeping *housekeeping = arg;
    struct tree_usage usage = {0};
    int r = housekeeper_end(housekeeping->process, &usage);
    bool was_busy = housekeeping->busy;
    housekeeping->busy = false;
    if (r == -EPIPE) {
        housekeeping_stop(housekeeping);
    }
    if (was_busy) {
        housekeeping->ended(housekeeping->disk, r, &usage);
    }
}

static int housekeeping_begin(struct housekeeping *housekeeping, enum housekeeper_task task, int fd,
                              const struct tree_limits *limits, struct err *reterr)
{
    if (!housekeeping->process) {
        struct loop *loop = housekeeping->disk->sessions->options.loop;
        int r = housekeeper_new(&housekeeping->process, reterr);
        if (r < 0) {
            return r;
        }
        r = loop_add(loop, housekeeper_fd(housekeeping->process), EPOLLIN, on_task_ended, housekeeping,
                     &housekeeping->source, reterr);
        if (r < 0) {
            housekeeping_stop(housekeeping);
            return r;
        }
    }
    int r = housekeeper_begin(housekeeping->process, task, fd, limits);
    if (r < 0) {
        housekeeping_stop(housekeeping);
        return err_errno(reterr, -r, "giving the housekeeper a task");
    }
    housekeeping->busy = true;
    return 0;
}

/* ---- Looks ---- */

/* NULL, or what is wrong with a workspace, as the rest of a sentence about it. */
static const char *what_is_wrong(const struct session *session, char *ret, size_t size)
{
    const struct sessions *all = session->all;
    const struct tree_limits *limits = &all->limits;
    if (session->usage.bytes > limits->bytes) {
        snprintf(ret, size, "holds more than %" PRIu64 " bytes", limits->bytes);
    } else if (session->usage.files > limits->files) {
        snprintf(ret, size, "holds more than %" PRIu64 " files and directories", limits->files);
    } else if (session->usage.over) {
        snprintf(ret, size, "has directories more than %d deep", TREE_DEPTH_MAX);
    } else if (store_free_bytes(all->disk->store) < all->free_bytes) {
        snprintf(ret, size, "lies on a disk with less than %" PRIu64 " bytes left", all->free_bytes);
    } else {
        return NULL;
    }
    return ret;
}

static void next_look(struct session_disk *disk);

static void end_look(struct session_disk *disk, int r, const struct tree_usage *usage)
{
    struct session *session = TAKE_PTR(disk->looked_at);
    struct sessions *all = disk->sessions;
    char text[200];
    const char *wrong = "cannot be looked at";
    if (r == 0) {
        session->usage = *usage;
        if (!session->dying) {
            session_count(session, usage->bytes, true);
        }
        wrong = what_is_wrong(session, text, sizeof text);
    } else {
        LOG(*all->options.log, LOG_WARNING, "session_not_looked_at", LOG_FIELD_STR("session_id", session->id),
            LOG_FIELD_STR("error", strerror(-r)));
    }
    if (session->jobs > 0 || session->kept > 0) {
        uint64_t now_ns = clock_now_ns();
        uint64_t pause_ns = PAUSE_PER_LOOK * (now_ns - disk->look_began_ns);
        session->look_due_ns = now_ns + (pause_ns > LOOK_INTERVAL_NS ? pause_ns : LOOK_INTERVAL_NS);
        if (wrong) {
            all->options.over(all->options.arg, session, wrong);
        }
    }
    disk->hooks.unref(session);
    next_look(disk);
}

static int begin_look(struct session_disk *disk, struct session *session)
{
    struct err err = {0};
    CLEANUP(fd_closep) int fd = -1;
    session->look_due_ns = 0;
    session->references++;
    disk->looked_at = session;
    disk->look_began_ns = clock_now_ns();
    int r = store_workspace(disk->store, session->name, &fd, &err);
    r = r < 0 ? r : housekeeping_begin(&disk->look, HOUSEKEEPER_MEASURE, fd, &disk->sessions->limits, &err);
    if (r < 0) {
        log_err(*disk->sessions->options.log, LOG_WARNING, "session_not_looked_at", &err);
        return r;
    }
    loop_timer_set(disk->timer, disk->look_began_ns + LOOK_TIMEOUT_NS);
    return 0;
}

static struct session *first_due(const struct sessions *sessions)
{
    struct session *first = NULL;
    for (struct session *session = sessions->first; session; session = session->next) {
        if (session->look_due_ns > 0 && (!first || session->look_due_ns < first->look_due_ns)) {
            first = session;
        }
    }
    return first;
}

static void next_look(struct session_disk *disk)
{
    if (disk->looked_at) {
        return;
    }
    struct session *session = first_due(disk->sessions);
    if (!session) {
        loop_timer_set(disk->timer, 0);
    } else if (session->look_due_ns > clock_now_ns()) {
        loop_timer_set(disk->timer, session->look_due_ns);
    } else if (begin_look(disk, session) < 0) {
        /* Not from here, where another one would begin and fail at once. */
        loop_timer_set(disk->timer, clock_now_ns() + LOOK_INTERVAL_NS);
    }
}

static void on_timer(void *arg, uint32_t events)
{
    (void)events;
    struct session_disk *disk = arg;
    if (!disk->looked_at) {
        next_look(disk);
    } else {
        housekeeping_stop(&disk->look);
        end_look(disk, -ETIMEDOUT, NULL);
    }
}

void session_disk_changed(struct session *session)
{
    session->look_due_ns = clock_now_ns();
    if (!session->dying) {
        next_look(session->all->disk);
    }
}

int session_disk_check_free(const struct session_disk *disk, uint64_t bytes, struct err *reterr)
{
    uint64_t kept = disk->sessions->free_bytes, left = store_free_bytes(disk->store);
    return left >= kept && left - kept >= bytes
               ? 0
               : err_set(reterr, ERR_BUSY, ENOSPC, NULL,
                         "the disk has %" PRIu64 " bytes left, of which %" PRIu64
                         " stay free: not enough for %" PRIu64 " more",
                         left, kept, bytes);
}

int session_disk_check(const struct session *session, uint64_t input_bytes, struct err *reterr)
{
    char text[200];
    const char *wrong = what_is_wrong(session, text, sizeof text);
    if (wrong) {
        bool own = session->usage.over;
        return err_set(reterr, own ? ERR_TOO_LARGE : ERR_BUSY, EDQUOT, NULL, "the session's workspace %s%s",
                       wrong, own ? "; delete the session" : "");
    }
    const struct tree_limits *limits = &session->all->limits;
    if (input_bytes > limits->bytes - session->usage.bytes) {
        return err_set(reterr, ERR_TOO_LARGE, EDQUOT, NULL,
                       "the input files do not fit into the session's limit of %" PRIu64 " bytes",
                       limits->bytes);
    }
    return 0;
}

/* ---- Removing ---- */

void session_disk_gone(struct session_disk *disk)
{
    struct err err = {0};
    if (disk->sweeping) {
        disk->sweep_again = true;
        return;
    }
    disk->sweep_again = false;
    disk->sweeping =
        housekeeping_begin(&disk->sweep, HOUSEKEEPER_CLEAR, store_ended_fd(disk->store), NULL, &err) == 0;
    if (!disk->sweeping) {
        log_err(*disk->sessions->options.log, LOG_WARNING, "sessions_not_removed", &err);
    }
}

static void end_sweep(struct session_disk *disk, int r, const struct tree_usage *usage)
{
    (void)usage;
    disk->sweeping = false;
    if (r < 0 && !disk->sweep_again) {
        LOG(*disk->sessions->options.log, LOG_WARNING, "sessions_not_removed",
            LOG_FIELD_STR("error", strerror(-r)));
    }
    if (disk->sweep_again) {
        session_disk_gone(disk);
    }
}

void session_disk_end(struct session *session)
{
    struct sessions *all = session->all;
    int r = session->ended ? 0 : store_end(all->disk->store, session->name);
    session->ended = r == 0;
    if (r < 0) {
        LOG(*all->options.log, LOG_ERROR, "session_not_ended", LOG_FIELD_STR("session_id", session->id),
            LOG_FIELD_STR("directory", session->name), LOG_FIELD_STR("error", strerror(-r)));
    }
}

/* ---- Making and opening ---- */

static struct stored_session stored_of(const struct session *session)
{
    struct stored_session stored = {.created_ms = session->created_ms};
    memcpy(stored.id, session->id, sizeof stored.id);
    memcpy(stored.owner, session->owner->hash, sizeof stored.owner);
    return stored;
}

int session_disk_make(struct session *session, struct err *reterr)
{
    struct stored_session stored = stored_of(session);
    int r = store_make(session->all->disk->store, session->staged ? NULL : &stored, session->name, reterr);
    if (r < 0) {
        session_disk_gone(session->all->disk); /* what there is of it */
    }
    return r;
}

int session_disk_commit(struct session_disk *disk, struct session *const *staged, size_t n,
                        struct err *reterr)
{
    struct store_staged rows[SESSION_OTHERS_MAX];
    size_t n_rows = 0;
    for (size_t i = 0; i < n && i < SESSION_OTHERS_MAX; i++) {
        if (!staged[i]->dying) {
            rows[n_rows++] = (struct store_staged){.name = staged[i]->name, .session = stored_of(staged[i])};
        }
    }
    return n_rows > 0 ? store_commit(disk->store, rows, n_rows, reterr) : 0;
}

int session_disk_stage(struct session_disk *disk, char ret_name[STORE_NAME_BYTES], int *ret_fd,
                       struct err *reterr)
{
    int r = store_make(disk->store, NULL, ret_name, reterr);
    return r < 0 ? r : store_enter(disk->store, ret_name, ret_fd, reterr);
}

int session_disk_exchange(struct session *session, const char *staged, struct err *reterr)
{
    return store_swap(session->all->disk->store, staged, session->name, reterr);
}

void session_disk_unstage(struct session_disk *disk, const char *staged)
{
    if (store_end(disk->store, staged) == 0) {
        session_disk_gone(disk);
    }
}

int session_disk_open(struct session *session, int *ret_mount_fd, struct err *reterr)
{
    const struct store *store = session->all->disk->store;
    CLEANUP(fd_closep) int fd = -1;
    int r = store_enter(store, session->name, &fd, reterr);
    r = r < 0 ? r : store_mount(store, fd, session->uid, session->gid, ret_mount_fd, reterr);
    if (r == 0) {
        fd_closep(&session->fd);
        session->fd = TAKE_FD(fd);
    }
    return r;
}

/* ---- All of it ---- */

const struct store *session_disk_store(const struct session_disk *disk)
{
    return disk->store;
}

static int add_found(void *arg, const struct store_entry *entry, struct err *reterr)
{
    struct session_disk *disk = arg;
    int r = disk->hooks.found(disk->sessions, entry, reterr);
    if (r == 1) {
        r = store_end(disk->store, entry->name);
        r = r < 0 ? err_errno(reterr, -r, "ending the session %s", entry->session.id) : 0;
    }
    return r;
}

static void log_broken(void *arg, const struct err *err)
{
    struct session_disk *disk = arg;
    log_err(*disk->sessions->options.log, LOG_WARNING, "session_broken", err);
}

int session_disk_load(struct session_disk *disk, struct err *reterr)
{
    const struct store_visitor visitor = {.found = add_found, .broken = log_broken, .arg = disk};
    int r = store_visit(disk->store, &visitor, reterr);
    if (r == 0) {
        next_look(disk);
        session_disk_gone(disk); /* what a server before us left */
    }
    return r;
}

int session_disk_new(struct sessions *sessions, const char *path, const struct session_disk_hooks *hooks,
                     struct session_disk **ret, struct err *reterr)
{
    struct session_disk *disk = calloc(1, sizeof *disk);
    if (!disk) {
        return err_errno(reterr, ENOMEM, "opening the directory of sessions");
    }
    disk->sessions = sessions;
    disk->hooks = *hooks;
    disk->look = (struct housekeeping){.disk = disk, .ended = end_look};
    disk->sweep = (struct housekeeping){.disk = disk, .ended = end_sweep};
    int r = store_open(path, sessions->options.host->ids, &disk->store, reterr);
    r = r < 0 ? r : loop_add_timer(sessions->options.loop, on_timer, disk, &disk->timer, reterr);
    if (r < 0) {
        session_disk_free(disk);
        return r;
    }
    *ret = disk;
    return 0;
}

void session_disk_free(struct session_disk *disk)
{
    if (!disk) {
        return;
    }
    disk->hooks.unref(TAKE_PTR(disk->looked_at));
    housekeeping_stop(&disk->look);
    housekeeping_stop(&disk->sweep);
    loop_remove(disk->timer);
    store_free(disk->store);
    free(disk);
}
