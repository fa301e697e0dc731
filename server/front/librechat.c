/* The routes of LibreChat's code interpreter. Runs in the front, which asks the warden for files one after
 * the other; each answer leads to the next question, and the last one to the reply:
 *
 *     exec       for each session named: list it; for each file: get it, put it; then the job starts
 *     upload     for each file of the body: put it
 *     files      list; the same of one file. download: list, get
 *
 * A session that has been filled for a job that does not run then, or for an upload that fails, is ended. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/message/message_session.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "server/doors/input_files.h"
#include "server/doors/librechat.h"
#include "server/doors/multipart.h"
#include "server/front/handlers.h"
#include "server/http/http.h"
#include "server/jobs/front_context.h"
#include "server/jobs/request.h"
#include "server/jobs/session_queries.h"
#include "server/kit/json_out.h"

struct steps {
    struct request *request;
    char session_id[LIBRECHAT_ID_BYTES]; /* that is being filled */
    bool filled;                         /* something has been put there */

    const struct librechat *job; /* exec: the body's, until the job starts */
    char **paths;                /* of its files, where they lie; NULL: not looked for yet */
    size_t n_files, next;

    struct multipart multipart; /* upload: the body, which stays until the end */
    struct multipart_part part; /* that is being put */
    char *path;
    bool batch;
    size_t succeeded, failed;
    struct buf rows;
};

static void steps_free(void *arg)
{
    struct steps *steps = arg;
    unsigned status = steps->request->status;
    if (steps->filled && (status == 0 || status >= 400)) {
        struct msg_session_query query = {.what = SESSION_DELETE};
        struct err err = {0}; /* it ends with its time, then */
        snprintf(query.session_id, sizeof query.session_id, "%s", steps->session_id);
        session_query_tell(steps->request, &query, &err);
    }
    for (size_t i = 0; i < steps->n_files; i++) {
        free(steps->paths[i]);
    }
    free(steps->paths);
    free(steps->path);
    buf_free(&steps->rows);
    free(steps);
}

/* Answers and returns NULL where there is no memory. */
static struct steps *begin(struct request *request)
{
    struct err err = {0};
    struct steps *steps = calloc(1, sizeof *steps);
    if (!steps) {
        err_errno(&err, ENOMEM, "asking for files");
        request_refuse_err(request, &err, 0);
        return NULL;
    }
    steps->request = request;
    request->steps = steps;
    request->steps_free = steps_free;
    return steps;
}

static void ask(struct request *request, enum session_query what, const char *session_id, const char *path,
                session_query_then then)
{
    struct msg_session_query query = {.what = what};
    struct err err = {0};
    snprintf(query.session_id, sizeof query.session_id, "%s", session_id);
    snprintf(query.path, sizeof query.path, "%s", path);
    if (session_query_ask(request, &query, -1, then, &err) < 0) {
        request_refuse_err(request, &err, 0);
    }
}

/* Into the session that is being filled. */
static void put(struct steps *steps, const char *path, const char *data, size_t size, session_query_then then)
{
    struct msg_session_query query = {.what = SESSION_FILE_PUT};
    struct err err = {0};
    snprintf(query.session_id, sizeof query.session_id, "%s", steps->session_id);
    snprintf(query.path, sizeof query.path, "%s", path);
    if (session_query_put(steps->request, &query, data, size, then, &err) < 0) {
        request_refuse_err(steps->request, &err, 0);
    }
}

/* The rows of an answer. Answers and returns false where there are none. */
static bool read_rows(struct request *request, const struct msg_session_answer *answer, int fd,
                      struct session_rows *ret)
{
    struct err err = {0};
    if (answer->kind != ERR_NONE) {
        session_query_refuse(request, answer, "");
        return false;
    }
    if (session_query_read_rows(fd, ret, &err) < 0) {
        request_refuse_err(request, &err, 0);
        return false;
    }
    return true;
}

/* ---- exec ---- */

static void fetch_next(struct request *request);

static void refuse_file(struct request *request, size_t index, const char *member)
{
    char field[64], text[160];
    snprintf(field, sizeof field, "files[%zu].%s", index, member);
    snprintf(text, sizeof text, "%s: there is no such file any more; upload it again", field);
    request_refuse(request, ERROR_NO_SUCH_PATH, text, field);
}

/* Where those files of a session are that are wanted of it. Each name is hashed once: callers choose how many
 * there are. -ENOMEM. */
static int note_paths(struct steps *steps, const char *session_id, const struct session_rows *rows)
{
    for (size_t i = 0; i < rows->n_files; i++) {
        char id[LIBRECHAT_ID_BYTES];
        librechat_file_id(rows->files[i].path, id);
        for (size_t j = 0; j < steps->n_files; j++) {
            const struct librechat_file *wanted = &steps->job->files[j];
            if (strcmp(wanted->id, id) != 0 || steps->paths[j] ||
                strcmp(wanted->session_id, session_id) != 0) {
                continue;
            }
            steps->paths[j] = strdup(rows->files[i].path);
            if (!steps->paths[j]) {
                return -ENOMEM;
            }
        }
    }
    return 0;
}

/* The first one that nobody has looked for. */
static size_t first_unknown(const struct steps *steps)
{
    size_t i = 0;
    while (i < steps->n_files && steps->paths[i]) {
        i++;
    }
    return i;
}

static void on_listed(struct request *request, const struct msg_session_answer *answer, int fd)
{
    CLEANUP(session_rows_clear) struct session_rows rows = {0};
    struct steps *steps = request->steps;
    size_t first = first_unknown(steps);
    struct err err = {0};
    if (answer->kind == ERR_NOT_FOUND) {
        refuse_file(request, first, "session_id");
    } else if (!read_rows(request, answer, fd, &rows)) {
        return;
    } else if (note_paths(steps, steps->job->files[first].session_id, &rows) < 0) {
        err_errno(&err, ENOMEM, "asking for files");
        request_refuse_err(request, &err, 0);
    } else if (!steps->paths[first]) {
        refuse_file(request, first, "id");
    } else {
        fetch_next(request);
    }
}

static void on_put(struct request *request, const struct msg_session_answer *answer, int fd)
{
    (void)fd;
    struct steps *steps = request->steps;
    if (answer->kind != ERR_NONE) {
        session_query_refuse(request, answer, "files");
        return;
    }
    steps->filled = true;
    steps->next++;
    fetch_next(request);
}

/* A job of that session may be writing to it: it is what it was when it was opened, at most. */
static void on_got(struct request *request, const struct msg_session_answer *answer, int fd)
{
    CLEANUP(buf_free) struct buf content = BUF_INIT;
    struct steps *steps = request->steps;
    struct err err = {0};
    if (answer->kind == ERR_NOT_FOUND) {
        refuse_file(request, steps->next, "id");
        return;
    }
    if (answer->kind != ERR_NONE) {
        session_query_refuse(request, answer, "files");
        return;
    }
    char *to = fd < 0 ? NULL : buf_reserve(&content, (size_t)answer->size);
    ssize_t n = to ? io_read_full(fd, to, (size_t)answer->size) : -ENOMEM;
    if (n < 0) {
        err_errno(&err, (int)-n, "reading a file of a session");
        request_refuse_err(request, &err, 0);
        return;
    }
    put(steps, steps->job->files[steps->next].name, to, (size_t)n, on_put);
}

/* Keys may have changed meanwhile, and nothing new is begun while the server shuts down. */
static void start(struct request *request)
{
    if (!server_config_has_key(request->front->config, request->caller.key)) {
        request_refuse(request, ERROR_UNAUTHORIZED, NULL, NULL);
    } else if (request->front->state.begins_nothing) {
        request_refuse(request, ERROR_UNAVAILABLE, NULL, NULL);
    } else {
        handle_job_start(request);
    }
}

static void fetch_next(struct request *request)
{
    const struct steps *steps = request->steps;
    const struct librechat_file *files = steps->job->files;
    size_t first = first_unknown(steps);
    if (first < steps->n_files) {
        ask(request, SESSION_FILES, files[first].session_id, "", on_listed);
    } else if (steps->next < steps->n_files) {
        ask(request, SESSION_FILE_GET, files[steps->next].session_id, steps->paths[steps->next], on_got);
    } else {
        start(request);
    }
}

void handle_librechat_exec(struct request *request)
{
    if (!handlers_check_job(request)) {
        return;
    }
    const struct librechat *job = request->body.execute.state;
    if (job->n_files == 0) {
        handle_job_start(request);
        return;
    }
    struct steps *steps = begin(request);
    if (!steps) {
        return;
    }
    memcpy(steps->session_id, job->session_id, sizeof steps->session_id);
    steps->job = job;
    steps->paths = calloc(job->n_files, sizeof *steps->paths);
    if (!steps->paths) {
        struct err err = {0};
        err_errno(&err, ENOMEM, "asking for files");
        request_refuse_err(request, &err, 0);
        return;
    }
    steps->n_files = job->n_files;
    fetch_next(request);
}

/* ---- upload ---- */

static void put_next(struct request *request);

/* `err` NULL: it is there. */
static void add_row(struct steps *steps, const struct err *err)
{
    struct buf *rows = &steps->rows;
    char id[LIBRECHAT_ID_BYTES];
    json_out_separator(rows);
    buf_putc(rows, '{');
    json_out_text(rows, "status", err ? "error" : "success");
    json_out_text(rows, "filename", steps->part.filename);
    if (err) {
        steps->failed++;
        json_out_text(rows, "error", err->text);
    } else {
        steps->succeeded++;
        librechat_file_id(steps->path, id);
        json_out_text(rows, "fileId", id);
    }
    buf_putc(rows, '}');
}

static void on_uploaded(struct request *request, const struct msg_session_answer *answer, int fd)
{
    (void)fd;
    struct steps *steps = request->steps;
    struct err err = {.kind = answer->kind};
    memcpy(err.text, answer->text, sizeof err.text);
    if (answer->kind != ERR_NONE && !steps->batch) {
        session_query_refuse(request, answer, "file");
        return;
    }
    steps->filled = steps->filled || answer->kind == ERR_NONE;
    add_row(steps, answer->kind != ERR_NONE ? &err : NULL);
    put_next(request);
}

static void finish_upload(struct steps *steps)
{
    struct buf body = BUF_INIT;
    if (steps->succeeded + steps->failed == 0) {
        request_refuse(steps->request, ERROR_BAD_FIELD, "file: the body must have one, with a filename",
                       "file");
        return;
    }
    const char *message = steps->failed == 0      ? "success"
                          : steps->succeeded == 0 ? "error"
                                                  : "partial_success";
    buf_putc(&body, '{');
    json_out_text(&body, "message", message);
    json_out_text(&body, "session_id", steps->session_id);
    json_out_text(&body, "storage_session_id", steps->session_id);
    json_out_open(&body, "files", '[');
    buf_append(&body, steps->rows.data, steps->rows.len);
    buf_putc(&body, ']');
    json_out_u64(&body, "succeeded", steps->succeeded);
    json_out_u64(&body, "failed", steps->failed);
    buf_puts(&body, "}\n");
    request_reply(steps->request, 200, "application/json", &body);
}

/* The next part that is a file. 1: there is one; 0: there is none; ERR_INVALID. Files that cannot be are told
 * in a batch. */
static int next_file(struct steps *steps, struct err *reterr)
{
    for (;;) {
        struct err err = {0};
        int r = multipart_next(&steps->multipart, &steps->part, reterr);
        if (r <= 0) {
            return r;
        }
        if (*steps->part.filename == '\0') {
            continue; /* for whom it is */
        }
        if (!steps->batch && steps->succeeded > 0) {
            return err_set(reterr, ERR_INVALID, E2BIG, "file",
                           "file: must be there once; POST /upload/batch takes more");
        }
        free(steps->path);
        steps->path = strdup(steps->part.filename);
        r = steps->path ? input_path_clean(steps->path, "filename", &err)
                        : err_errno(&err, ENOMEM, "reading an upload");
        if (r == 0) {
            return 1;
        }
        if (!steps->batch) {
            *reterr = err;
            return r;
        }
        add_row(steps, &err);
    }
}

static void put_next(struct request *request)
{
    struct steps *steps = request->steps;
    struct err err = {0};
    int r = next_file(steps, &err);
    if (r < 0) {
        request_refuse_err(request, &err, 0);
    } else if (r == 0) {
        finish_upload(steps);
    } else {
        put(steps, steps->path, steps->part.data, steps->part.size, on_uploaded);
    }
}

static void upload(struct request *request, bool batch)
{
    struct steps *steps = begin(request);
    if (!steps) {
        return;
    }
    const struct buf *body = http_body(request->http);
    struct err err = {0};
    steps->batch = batch;
    librechat_fresh_id(steps->session_id);
    if (multipart_begin(&steps->multipart, http_header(request->http, "Content-Type"),
                        body->data ? body->data : "", body->len, &err) < 0) {
        request_refuse_err(request, &err, 0);
        return;
    }
    put_next(request);
}

void handle_librechat_upload(struct request *request)
{
    upload(request, false);
}

void handle_librechat_upload_batch(struct request *request)
{
    upload(request, true);
}

/* ---- files ---- */

static void on_files(struct request *request, const struct msg_session_answer *answer, int fd)
{
    CLEANUP(session_rows_clear) struct session_rows rows = {0};
    struct msg_session_query query;
    struct buf body = BUF_INIT;
    if (!read_rows(request, answer, fd, &rows) || !handlers_read_session_id(request, &query)) {
        return;
    }
    buf_putc(&body, '[');
    for (size_t i = 0; i < rows.n_files; i++) {
        json_out_separator(&body);
        librechat_write_file(&rows.files[i], query.session_id, &body);
    }
    buf_puts(&body, "]\n");
    request_reply(request, 200, "application/json", &body);
}

/* The file that the path names by its last part. Answers and returns NULL where there is none. */
static const struct session_file *find_file(struct request *request, const struct session_rows *rows)
{
    const struct session_file *file = librechat_find(rows, strrchr(request->argument, '/') + 1);
    if (!file) {
        request_refuse(request, ERROR_NO_SUCH_PATH, "there is no such file in this session", "file_id");
    }
    return file;
}

static void on_file(struct request *request, const struct msg_session_answer *answer, int fd)
{
    CLEANUP(session_rows_clear) struct session_rows rows = {0};
    struct msg_session_query query;
    struct buf body = BUF_INIT;
    const struct session_file *file;
    if (!read_rows(request, answer, fd, &rows) || !(file = find_file(request, &rows)) ||
        !handlers_read_session_id(request, &query)) {
        return;
    }
    librechat_write_file(file, query.session_id, &body);
    buf_putc(&body, '\n');
    request_reply(request, 200, "application/json", &body);
}

static void on_download(struct request *request, const struct msg_session_answer *answer, int fd)
{
    CLEANUP(session_rows_clear) struct session_rows rows = {0};
    struct msg_session_query query;
    const struct session_file *file;
    if (read_rows(request, answer, fd, &rows) && (file = find_file(request, &rows)) &&
        handlers_read_session_id(request, &query)) {
        ask(request, SESSION_FILE_GET, query.session_id, file->path, NULL);
    }
}

static void list(struct request *request, session_query_then then)
{
    struct msg_session_query query = {0};
    if (handlers_read_session_id(request, &query)) {
        ask(request, SESSION_FILES, query.session_id, "", then);
    }
}

void handle_librechat_files(struct request *request)
{
    list(request, on_files);
}

void handle_librechat_file(struct request *request)
{
    list(request, on_file);
}

void handle_librechat_download(struct request *request)
{
    list(request, on_download);
}
