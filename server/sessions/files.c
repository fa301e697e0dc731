/* The files of sessions without a job: what their keys list, fetch, put and remove between two. Runs in the
 * warden, which asks a process for each of it (files_process.c) and goes on.
 *
 *     asked ──► waiting ── a process is free, and of the key nothing else is being done ──► session entered
 *                  │                                                                            │
 *                  └── who asked is gone ──► (none) ◄── answered ◄── session left ◄── done ◄────┘
 *
 * Of one key one thing is done at a time, in the order of its asking: no two write the same workspace, and a
 * key with large files is in nobody else's way. */
#include "server/sessions/sessions_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/loop.h"
#include "jail/resources/scratch.h"
#include "server/sessions/files_process.h"

/* Processes, so many keys at a time. */
#define WORKERS 4
/* How many may wait of one key's when it puts another file, and how large theirs may be together: that is a
 * descriptor, and memory that no job's limits count. One is taken whatever its size. */
#define WAITING_MAX       256
#define WAITING_BYTES_MAX (UINT64_C(128) << 20)

struct file_task {
    struct file_task *next; /* while it waits */
    struct sessions *sessions;
    struct session_file_ask ask;
    int content;    /* ours; -1: none */
    uint64_t bytes; /* of it */
    struct session_owner *owner;
    struct session *session; /* entered; NULL while it waits */
    struct file_work *work;  /* NULL: one step, on one session */
    struct msg_session_answer answer;
};

struct worker {
    struct session_files *files;
    struct files_process *process; /* NULL: not started yet, or gone */
    struct loop_source *source;
    struct file_task *task; /* NULL: nothing to do */
};

struct session_files {
    struct sessions *sessions;
    struct worker workers[WORKERS];
    struct file_task *first; /* that waits */
};

/* ---- Between a question and its answer ---- */

static void work_free(struct file_task *task)
{
    struct file_work *work = TAKE_PTR(task->work);
    if (work) {
        work->free(work);
    }
}

static void task_free(struct file_task *task)
{
    if (task) {
        fd_closep(&task->content);
        work_free(task);
        free(task);
    }
}

void session_files_leave(struct session *session, bool done)
{
    session_leave(session, done);
    if (!session->has_id) {
        fd_closep(&session->fd);
    }
    session_unref(session);
}

static void leave(struct file_task *task, bool done)
{
    struct session *session = TAKE_PTR(task->session);
    if (session) {
        session_files_leave(session, done);
    }
}

static int not_found(struct err *reterr)
{
    err_clear(reterr);
    return err_set(reterr, ERR_NOT_FOUND, ENOENT, NULL, "no such session");
}

/* The session of a key's; another key's is none. It is made for a file that is put, and only for that. */
static int enter(struct file_task *task, struct err *reterr)
{
    const struct session_file_ask *ask = &task->ask;
    const struct msg_session_query *query = &ask->query;
    struct sessions *sessions = task->sessions;
    struct session_owner *owner;
    /* Another key may have that name by now. */
    if (sessions_owner(sessions, ask->config, query->key, &owner, reterr) < 0 || owner != task->owner) {
        return not_found(reterr);
    }
    if (query->what == SESSION_FILE_PUT) {
        const struct session_ask asked = {
            .config = ask->config, .key = query->key, .session_id = query->session_id};
        int r = session_enter(sessions, &asked, &task->session, &task->answer.made,
                              &task->answer.retry_after_ms, reterr);
        return r == 0 || reterr->kind != ERR_DENIED ? r : not_found(reterr);
    }
    struct session *session;
    if (session_find(sessions, ask->config, query->key, query->session_id, &session, reterr) < 0 ||
        !session || session->lost) {
        return not_found(reterr);
    }
    session_begin(session);
    task->session = session;
    return 0;
}

/* On disk it needs no jail for that, and so no outer id. */
int session_files_open(struct session *session, struct err *reterr)
{
    if (session->lost) {
        return err_set(reterr, ERR_BUSY, EPIPE, NULL,
                       "the workspace of this session is lost; its next job is told, or delete it");
    }
    return session->fd >= 0
               ? 0
               : store_enter(session_disk_store(session->all->disk), session->name, &session->fd, reterr);
}

static int prepare(struct file_task *task, struct file_step *step, struct err *reterr)
{
    const struct msg_session_query *query = &task->ask.query;
    struct files_request *ret = &step->request;
    memset(step, 0, sizeof *step); /* all of it goes to another process */
    if (task->work) {
        return task->work->begin(task->work, &task->ask, task->owner, &task->answer, step, reterr);
    }
    int r = enter(task, reterr);
    r = r < 0 ? r : session_files_open(task->session, reterr);
    if (r < 0) {
        return r;
    }
    const struct session *session = task->session;
    step->workspace = session->fd;
    step->content = task->content;
    ret->what = query->what;
    ret->uid = session->uid;
    ret->gid = session->gid;
    /* While it is being listed, jobs may be giving files new names. */
    ret->most = query->what == SESSION_FILES ? 2 * session->inodes : task->ask.most_bytes;
    memcpy(ret->path, query->path, sizeof ret->path);
    if (query->what != SESSION_FILE_PUT || !session_is_on_disk(session)) {
        return 0;
    }
    struct stat st;
    store_owner(session_disk_store(session->all->disk), &ret->uid, &ret->gid);
    return fstat(task->content, &st) < 0 ? err_errno(reterr, errno, "putting a file into a session")
                                         : session_disk_check(session, (uint64_t)st.st_size, reterr);
}

/* In words of this session's. */
static void explain(const struct session *session, enum session_query what, struct err *err)
{
    if (what == SESSION_FILE_PUT && err->kind == ERR_TOO_LARGE && !session_is_on_disk(session)) {
        err_clear(err);
        err_set(err, ERR_TOO_LARGE, ENOSPC, NULL,
                "the file does not fit into the session's workspace of %" PRIu64 " bytes",
                session->size_bytes);
    }
}

/* Leaves the session, answers, and forgets the task. Takes `fd`. */
static void conclude(struct session_files *files, struct file_task *task, const struct err *err, int fd)
{
    const struct sessions_options *options = &files->sessions->options;
    bool is_put = task->ask.query.what == SESSION_FILE_PUT;
    leave(task, is_put ? err->kind == ERR_NONE : true);
    work_free(task);
    task->answer.id = task->ask.query.id;
    task->answer.kind = err->kind;
    snprintf(task->answer.text, sizeof task->answer.text, "%s", err->text);
    if (task->ask.asker) {
        options->answered(options->arg, task->ask.asker, &task->answer, fd);
    }
    fd_closep(&fd);
    task_free(task);
}

/* ---- The processes ---- */

static void worker_stop(struct worker *worker)
{
    loop_remove(TAKE_PTR(worker->source));
    files_process_free(TAKE_PTR(worker->process));
}

static void next_tasks(struct session_files *files);
static int worker_send(struct worker *worker, const struct file_step *step, struct err *reterr);

/* Whether another step of the same task has begun; else `answer->err` says how it ended. */
static bool go_on(struct worker *worker, struct file_task *task, struct files_answer *answer)
{
    struct file_step step;
    struct err err = {0};
    memset(&step, 0, sizeof step);
    int r = task->work->next(task->work, answer, &task->answer, &step, &err);
    r = r == 1 ? worker_send(worker, &step, &err) : r;
    answer->err = err;
    if (r == 1) {
        worker->task = task;
    }
    return r == 1;
}

static void on_done(void *arg, uint32_t events)
{
    (void)events;
    struct worker *worker = arg;
    struct session_files *files = worker->files;
    struct file_task *task = TAKE_PTR(worker->task);
    struct files_answer answer = {0};
    int fd = -1;
    if (files_process_end(worker->process, &answer, &fd) < 0) {
        worker_stop(worker);
        err_set(&answer.err, ERR_INTERNAL, EPIPE, NULL, "the process for files of sessions has ended");
    }
    if (!task) {
        fd_closep(&fd);
        return;
    }
    if (task->work && go_on(worker, task, &answer)) {
        return;
    }
    task->owner->files_busy = false;
    if (answer.err.kind != ERR_NONE && task->session) {
        explain(task->session, task->ask.query.what, &answer.err);
    } else if (task->ask.query.what == SESSION_FILE_GET) {
        task->answer.size = answer.size;
    } else if (task->ask.query.what == SESSION_FILE_PUT && session_is_on_disk(task->session)) {
        task->session->usage.bytes += answer.size; /* until the next look */
    }
    conclude(files, task, &answer.err, fd);
    next_tasks(files);
}

static int worker_start(struct worker *worker, struct err *reterr)
{
    if (worker->process) {
        return 0;
    }
    int r = files_process_new(&worker->process, reterr);
    r = r < 0 ? r
              : loop_add(worker->files->sessions->options.loop, files_process_fd(worker->process), EPOLLIN,
                         on_done, worker, &worker->source, reterr);
    if (r < 0) {
        worker_stop(worker);
    }
    return r;
}

/* 1: it is being done. */
static int worker_send(struct worker *worker, const struct file_step *step, struct err *reterr)
{
    int r = worker_start(worker, reterr);
    if (r < 0) {
        return r;
    }
    if (files_process_begin(worker->process, &step->request, step->workspace, step->content) < 0) {
        worker_stop(worker); /* it has ended since; another one has not */
        r = worker_start(worker, reterr);
        r = r < 0 ? r : files_process_begin(worker->process, &step->request, step->workspace, step->content);
    }
    return r < 0 ? err_errno(reterr, -r, "asking for a file of a session") : 1;
}

static int worker_begin(struct worker *worker, struct file_task *task, struct err *reterr)
{
    struct file_step step;
    int r = prepare(task, &step, reterr);
    r = r < 0 ? r : worker_send(worker, &step, reterr);
    if (r < 0) {
        return r;
    }
    worker->task = task;
    task->owner->files_busy = true;
    return 0;
}

/* The next one whose key has nothing else done. */
static struct file_task *take_next(struct session_files *files)
{
    struct file_task **at = &files->first;
    while (*at && (*at)->owner->files_busy) {
        at = &(*at)->next;
    }
    struct file_task *task = *at;
    if (task) {
        *at = task->next;
        task->owner->files_waiting--;
        task->owner->files_waiting_bytes -= task->bytes;
    }
    return task;
}

static void next_tasks(struct session_files *files)
{
    for (size_t i = 0; i < WORKERS; i++) {
        struct worker *worker = &files->workers[i];
        struct file_task *task;
        while (!worker->task && (task = take_next(files))) {
            struct err err = {0};
            if (worker_begin(worker, task, &err) < 0) {
                conclude(files, task, &err, -1);
            }
        }
    }
}

/* ---- What the warden asks ---- */

static int task_new(struct sessions *sessions, const struct session_file_ask *ask, int content,
                    struct session_owner *owner, struct file_task **ret, struct err *reterr)
{
    struct stat st = {0};
    if (content >= 0 && fstat(content, &st) < 0) {
        return err_errno(reterr, errno, "asking for a file of a session");
    }
    uint64_t bytes = (uint64_t)st.st_size;
    if (owner->files_waiting >= WAITING_MAX || (content >= 0 && owner->files_waiting_bytes > 0 &&
                                                owner->files_waiting_bytes + bytes > WAITING_BYTES_MAX)) {
        return err_set(reterr, ERR_RATE, EAGAIN, NULL,
                       "too many requests for files of this key's sessions wait already");
    }
    struct file_task *task = calloc(1, sizeof *task);
    if (!task) {
        return err_errno(reterr, ENOMEM, "asking for a file of a session");
    }
    *task =
        (struct file_task){.sessions = sessions, .ask = *ask, .bytes = bytes, .owner = owner, .content = -1};
    if (content >= 0 && (task->content = fcntl(content, F_DUPFD_CLOEXEC, 3)) < 0) {
        int code = errno;
        free(task);
        return err_errno(reterr, code, "asking for a file of a session");
    }
    *ret = task;
    return 0;
}

static int enqueue(struct sessions *sessions, const struct session_file_ask *ask, int content,
                   struct file_work *work, struct err *reterr)
{
    struct session_files *files = sessions->files;
    struct session_owner *owner;
    struct file_task *task;
    int r = sessions_owner(sessions, ask->config, ask->query.key, &owner, reterr);
    r = r < 0 ? r : task_new(sessions, ask, content, owner, &task, reterr);
    if (r < 0) {
        return r;
    }
    task->work = work;
    struct file_task **at = &files->first;
    while (*at) {
        at = &(*at)->next;
    }
    *at = task;
    owner->files_waiting++;
    owner->files_waiting_bytes += task->bytes;
    next_tasks(files);
    return 0;
}

int session_files_ask(struct sessions *sessions, const struct session_file_ask *ask, int content,
                      struct err *reterr)
{
    return enqueue(sessions, ask, content, NULL, reterr);
}

int session_files_ask_work(struct sessions *sessions, const struct session_file_ask *ask,
                           struct file_work *work, struct err *reterr)
{
    int r = enqueue(sessions, ask, -1, work, reterr);
    if (r < 0) {
        work->free(work);
    }
    return r;
}

void session_files_forget(struct sessions *sessions, const void *asker)
{
    if (!sessions) {
        return;
    }
    struct session_files *files = sessions->files;
    for (struct file_task **at = &files->first; *at;) {
        struct file_task *task = *at;
        if (task->ask.asker != asker) {
            at = &task->next;
            continue;
        }
        *at = task->next;
        task->owner->files_waiting--;
        task->owner->files_waiting_bytes -= task->bytes;
        task_free(task);
    }
    for (size_t i = 0; i < WORKERS; i++) {
        if (files->workers[i].task && files->workers[i].task->ask.asker == asker) {
            files->workers[i].task->ask.asker = NULL;
        }
    }
}

int session_files_new(struct sessions *sessions, struct session_files **ret, struct err *reterr)
{
    struct session_files *files = calloc(1, sizeof *files);
    if (!files) {
        return err_errno(reterr, ENOMEM, "making the table of sessions");
    }
    files->sessions = sessions;
    for (size_t i = 0; i < WORKERS; i++) {
        files->workers[i].files = files;
    }
    *ret = files;
    return 0;
}

void session_files_free(struct session_files *files)
{
    if (!files) {
        return;
    }
    while (files->first) {
        struct file_task *task = files->first;
        files->first = task->next;
        task_free(task);
    }
    for (size_t i = 0; i < WORKERS; i++) {
        struct worker *worker = &files->workers[i];
        worker_stop(worker);
        if (worker->task) {
            leave(worker->task, true);
            task_free(TAKE_PTR(worker->task));
        }
    }
    free(files);
}
