/* The process for files of sessions. Both sides: the warden's, which asks and goes on, and the process's,
 * which does one thing after the other by the same functions by which jobs get input files and results are
 * found, so that no link is followed and what a program made of the workspace is no trap. */
#include "server/sessions/files_process.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/helper.h"
#include "jail/base/io.h"
#include "jail/resources/scratch.h"
#include "server/sessions/copy.h"

#define PRIORITY 10
/* Of all paths of one list. */
#define LIST_PATHS_BYTES_MAX (16u << 20)

struct files_process {
    struct helper helper;
};

/* ---- The process ---- */

/* What it was given, and what goes back. */
struct files_task {
    struct files_request request;
    int workspace, content; /* -1: none */
    struct files_answer answer;
    int ret_fd;
};

/* As many as one list may have. */
static void cut_rows(struct session_rows *rows)
{
    size_t left = LIST_PATHS_BYTES_MAX, n = 0;
    while (n < rows->n_files && n < MSG_SESSION_FILES_MAX && strlen(rows->files[n].path) + 32 <= left) {
        left -= strlen(rows->files[n++].path) + 32; /* and two numbers */
    }
    for (size_t i = n; i < rows->n_files; i++) {
        rows->truncated = true;
        free(rows->files[i].path);
    }
    rows->n_files = n;
}

static int to_rows(struct scratch_list *list, struct session_rows *ret, struct err *reterr)
{
    ret->truncated = list->truncated;
    ret->files = calloc(list->n_files + 1, sizeof *ret->files);
    if (!ret->files) {
        return err_errno(reterr, ENOMEM, "listing the files of a session");
    }
    for (size_t i = 0; i < list->n_files; i++) {
        struct scratch_file *file = &list->files[i];
        struct session_file *row = &ret->files[ret->n_files++];
        row->path = TAKE_PTR(file->path);
        row->size = file->size_bytes;
        row->modified_ms = (uint64_t)file->mtime.tv_sec * 1000 + (uint64_t)file->mtime.tv_nsec / NS_PER_MS;
    }
    cut_rows(ret);
    return 0;
}

static int give_rows(struct files_task *task, const struct session_rows *rows, struct err *reterr)
{
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    int r = session_rows_encode(rows, &packed, reterr);
    if (r < 0) {
        return r;
    }
    r = io_memfd("sessions", packed.data ? packed.data : "", packed.len, &task->ret_fd);
    return r < 0 ? err_errno(reterr, -r, "telling of sessions") : 0;
}

static int list_files(struct files_task *task, struct err *reterr)
{
    CLEANUP(scratch_list_free) struct scratch_list list = {0};
    CLEANUP(session_rows_clear) struct session_rows rows = {0};
    int r = scratch_list(task->workspace, task->request.most, task->request.most, &list, reterr);
    r = r < 0 ? r : to_rows(&list, &rows, reterr);
    return r < 0 ? r : give_rows(task, &rows, reterr);
}

static int no_such_file(int r, const char *what, struct err *reterr)
{
    return scratch_error_is_ours(r) ? err_errno(reterr, -r, "%s a file of a session", what)
                                    : err_set(reterr, ERR_NOT_FOUND, -r, NULL, "no such file");
}

static int get_file(struct files_task *task, struct err *reterr)
{
    CLEANUP(fd_closep) int fd = -1;
    uint64_t size, most = task->request.most;
    int r = scratch_open_file(task->workspace, task->request.path, &fd, &size);
    if (r < 0) {
        return no_such_file(r, "opening", reterr);
    }
    if (size > most) {
        return err_set(reterr, ERR_TOO_LARGE, EFBIG, NULL,
                       "the file has %" PRIu64 " bytes, and at most %" PRIu64 " are returned", size, most);
    }
    task->answer.size = size;
    task->ret_fd = TAKE_FD(fd);
    return 0;
}

static int put_file(struct files_task *task, struct err *reterr)
{
    const struct files_request *request = &task->request;
    struct stat st;
    if (fstat(task->content, &st) < 0) {
        return err_errno(reterr, errno, "putting a file into a session");
    }
    CLEANUP(fd_closep) int lock = scratch_lock(task->workspace, true);
    if (lock < 0) {
        return err_errno(reterr, -lock, "locking a workspace");
    }
    task->answer.size = (uint64_t)st.st_size;
    scratch_reset_mode(task->workspace); /* where that fails, so does the next line, and says so */
    return scratch_replace(task->workspace, request->path, task->content, request->uid, request->gid, reterr);
}

static int delete_file(struct files_task *task, struct err *reterr)
{
    int r = scratch_remove(task->workspace, task->request.path);
    if (r == -EISDIR) {
        return err_set(reterr, ERR_CONFLICT, EISDIR, NULL, "a directory stands there");
    }
    return r < 0 ? no_such_file(r, "removing", reterr) : 0;
}

static int copy_all(struct files_task *task, struct err *reterr)
{
    const struct files_request *request = &task->request;
    const struct copy_order order = {
        .uid = request->uid, .gid = request->gid, .bytes = request->bytes, .entries = request->most};
    struct copy_counts counts = {0};
    int r = workspace_copy(task->workspace, task->content, &order, &counts, reterr);
    task->answer.files = counts.files;
    task->answer.left_out = counts.left_out;
    return r;
}

static int compare_all(struct files_task *task, struct err *reterr)
{
    CLEANUP(session_rows_clear) struct session_rows rows = {0};
    int r = workspace_compare(task->workspace, task->content, task->request.most, &rows, reterr);
    if (r == 0) {
        cut_rows(&rows);
    }
    return r < 0 ? r : give_rows(task, &rows, reterr);
}

static int (*const doers[SESSION_QUERY_COUNT])(struct files_task *task, struct err *reterr) = {
    [SESSION_FILES] = list_files,        [SESSION_FILE_GET] = get_file, [SESSION_FILE_PUT] = put_file,
    [SESSION_FILE_DELETE] = delete_file, [SESSION_FORK] = copy_all,     [SESSION_DIFF] = compare_all,
};

static bool takes_two(enum session_query what)
{
    return what == SESSION_FILE_PUT || what == SESSION_FORK || what == SESSION_DIFF;
}

static int serve_one(int sock)
{
    struct files_task task;
    memset(&task, 0, sizeof task);
    int given[] = {-1, -1};
    size_t n_given = ARRAY_SIZE(given);
    ssize_t n = io_recv_fds(sock, &task.request, sizeof task.request, given, &n_given);
    CLEANUP(fd_closep) int workspace = given[0];
    CLEANUP(fd_closep) int content = given[1];
    CLEANUP(fd_closep) int found = -1;
    if (n != (ssize_t)sizeof task.request || n_given != (takes_two(task.request.what) ? 2 : 1)) {
        return -EPIPE;
    }
    task.workspace = workspace;
    task.content = content;
    task.ret_fd = -1;
    doers[task.request.what](&task, &task.answer.err);
    found = task.ret_fd;
    return io_send_fds(sock, &task.answer, sizeof task.answer, &found, found >= 0 ? 1 : 0);
}

static void files_main(int sock, void *arg)
{
    (void)arg;
    setpriority(PRIO_PROCESS, 0, PRIORITY);
    while (serve_one(sock) == 0) {
    }
}

/* ---- The warden ---- */

int files_process_new(struct files_process **ret, struct err *reterr)
{
    struct files_process *process = calloc(1, sizeof *process);
    int r = process ? helper_start("immure-files", files_main, NULL, &process->helper) : -ENOMEM;
    if (r < 0) {
        free(process);
        return err_errno(reterr, -r, "starting a process for files of sessions");
    }
    *ret = process;
    return 0;
}

void files_process_free(struct files_process *process)
{
    if (process) {
        helper_stop(&process->helper);
        free(process);
    }
}

int files_process_fd(const struct files_process *process)
{
    return process->helper.sock;
}

int files_process_begin(struct files_process *process, const struct files_request *request, int workspace,
                        int content)
{
    const int fds[] = {workspace, content};
    size_t n_fds = content >= 0 ? 2 : 1;
    return io_send_fds(process->helper.sock, request, sizeof *request, fds, n_fds) < 0 ? -EPIPE : 0;
}

int files_process_end(struct files_process *process, struct files_answer *ret, int *ret_fd)
{
    struct files_answer answer;
    int fd = -1;
    size_t n_fds = 1;
    bool bare = false;
    ssize_t n = io_recv_fds_or_bare(process->helper.sock, &answer, sizeof answer, &fd, &n_fds, &bare);
    if (n != (ssize_t)sizeof answer) {
        fd_closep(&fd);
        return -EPIPE;
    }
    if (bare) {
        err_clear(&answer.err);
        err_errno(&answer.err, EMFILE, "receiving a file of a session");
    }
    *ret = answer;
    *ret_fd = fd;
    return 0;
}
