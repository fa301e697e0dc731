/* Requests about sessions and their files. Runs in the front, which knows of no session itself: it asks the
 * warden, and a request waits for the answer as one does for a verdict. */
#include "server/jobs/session_queries.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "server/http/http.h"
#include "server/jobs/front_context.h"
#include "server/jobs/request.h"
#include "server/kit/json_out.h"
#include "server/link/channel.h"

struct session_query_pending {
    struct session_query_pending *next;
    struct request *request; /* NULL: the caller has gone */
    enum session_query what;
    session_query_then then; /* NULL: the request is answered with it */
    uint64_t id;
};

struct session_queries {
    struct front *front;
    struct channel *channel;
    struct session_query_pending *first;
    uint64_t last_id;
};

int session_queries_new(struct front *front, struct channel *channel, struct session_queries **ret,
                        struct err *reterr)
{
    struct session_queries *queries = calloc(1, sizeof *queries);
    if (!queries) {
        return err_errno(reterr, ENOMEM, "making the table of queries");
    }
    *queries = (struct session_queries){.front = front, .channel = channel};
    *ret = queries;
    return 0;
}

void session_queries_free(struct session_queries *queries)
{
    while (queries && queries->first) {
        struct session_query_pending *query = queries->first;
        queries->first = query->next;
        free(query);
    }
    free(queries);
}

static int send_one(struct request *request, const struct msg_session_query *asked, int content,
                    struct session_query_pending **ret, struct err *reterr)
{
    struct session_queries *queries = request->front->session_queries;
    struct session_query_pending *query = calloc(1, sizeof *query);
    if (!query) {
        return err_errno(reterr, ENOMEM, "asking about sessions");
    }
    *query =
        (struct session_query_pending){.next = queries->first, .what = asked->what, .id = ++queries->last_id};
    struct msg msg = {.type = MSG_SESSION_QUERY, .session_query = *asked};
    msg.session_query.id = query->id;
    snprintf(msg.session_query.key, sizeof msg.session_query.key, "%s", request->caller.name);
    int r = channel_send(queries->channel, &msg, &content, content >= 0 ? 1 : 0, reterr);
    if (r < 0) {
        free(query);
        return r;
    }
    queries->first = query;
    *ret = query;
    return 0;
}

int session_query_ask(struct request *request, const struct msg_session_query *asked, int content,
                      session_query_then then, struct err *reterr)
{
    struct session_query_pending *query;
    int r = send_one(request, asked, content, &query, reterr);
    if (r == 0) {
        query->request = request;
        query->then = then;
        request->query = query;
    }
    return r;
}

int session_query_send(struct request *request, const struct msg_session_query *asked, int content,
                       struct err *reterr)
{
    return session_query_ask(request, asked, content, NULL, reterr);
}

int session_query_put(struct request *request, const struct msg_session_query *asked, const char *data,
                      size_t size, session_query_then then, struct err *reterr)
{
    CLEANUP(fd_closep) int fd = -1;
    int r = io_memfd("session file", data, size, &fd);
    r = r < 0 ? r : io_memfd_seal(&fd, size);
    if (r == -EBUSY) {
        return err_set(reterr, ERR_BUSY, EBUSY, NULL, "server busy: the file could not be sealed");
    }
    return r < 0 ? err_errno(reterr, -r, "putting a file into a session")
                 : session_query_ask(request, asked, fd, then, reterr);
}

int session_query_tell(struct request *request, const struct msg_session_query *asked, struct err *reterr)
{
    struct session_query_pending *query;
    return send_one(request, asked, -1, &query, reterr);
}

void session_query_forget(struct request *request)
{
    if (request->query) {
        request->query->request = NULL;
        request->query = NULL;
    }
}

static void put_row(struct buf *ret, const struct session_row *row)
{
    json_out_separator(ret);
    buf_putc(ret, '{');
    json_out_text(ret, "session_id", row->session_id);
    json_out_time(ret, "created_at", row->created_ms);
    json_out_time(ret, "last_used_at", row->used_ms);
    json_out_time(ret, "expires_at", row->expires_ms);
    json_out_u64(ret, "jobs_running", row->jobs);
    json_out_u64(ret, "bytes", row->bytes);
    json_out_u64(ret, "files", row->files);
    buf_putc(ret, '}');
}

static void put_file(struct buf *ret, const struct session_file *file)
{
    json_out_separator(ret);
    buf_putc(ret, '{');
    json_out_text(ret, "path", file->path);
    json_out_u64(ret, "size", file->size);
    json_out_time(ret, "modified_at", file->modified_ms);
    buf_putc(ret, '}');
}

int session_query_read_rows(int fd, struct session_rows *ret, struct err *reterr)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT;
    int r = fd < 0 ? -EPROTO : lseek(fd, 0, SEEK_SET) < 0 ? -errno : 0;
    r = r < 0 ? r : io_read_fd(fd, MSG_SESSION_ROWS_BYTES_MAX, &data);
    return r < 0 ? err_errno(reterr, -r, "reading of sessions")
                 : session_rows_decode(data.data ? data.data : "", data.len, ret, reterr);
}

static int reply_list(struct request *request, enum session_query what, int fd, struct err *reterr)
{
    CLEANUP(session_rows_clear) struct session_rows rows = {0};
    struct buf body = BUF_INIT;
    int r = session_query_read_rows(fd, &rows, reterr);
    if (r < 0) {
        return r;
    }
    buf_putc(&body, '{');
    json_out_open(&body, what == SESSION_LIST ? "sessions" : "files", '[');
    for (size_t i = 0; i < rows.n_sessions; i++) {
        put_row(&body, &rows.sessions[i]);
    }
    for (size_t i = 0; i < rows.n_files; i++) {
        put_file(&body, &rows.files[i]);
    }
    buf_putc(&body, ']');
    if (what == SESSION_FILES) {
        json_out_bool(&body, "truncated", rows.truncated);
    }
    buf_puts(&body, "}\n");
    request_reply(request, 200, "application/json", &body);
    return 0;
}

static void put_change(struct buf *ret, const struct session_file *file)
{
    json_out_separator(ret);
    buf_putc(ret, '{');
    json_out_text(ret, "path", file->path);
    json_out_u64(ret, "size", file->size);
    if (file->change == SESSION_CHANGED) {
        json_out_u64(ret, "size_before", file->size_before);
    }
    buf_putc(ret, '}');
}

static int reply_diff(struct request *request, int fd, struct err *reterr)
{
    static const char *const names[SESSION_CHANGE_COUNT] = {
        [SESSION_ADDED] = "added", [SESSION_REMOVED] = "removed", [SESSION_CHANGED] = "changed"};
    CLEANUP(session_rows_clear) struct session_rows rows = {0};
    struct buf body = BUF_INIT;
    int r = session_query_read_rows(fd, &rows, reterr);
    if (r < 0) {
        return r;
    }
    buf_putc(&body, '{');
    for (unsigned change = SESSION_ADDED; change < SESSION_CHANGE_COUNT; change++) {
        json_out_open(&body, names[change], '[');
        for (size_t i = 0; i < rows.n_files; i++) {
            if (rows.files[i].change == change) {
                put_change(&body, &rows.files[i]);
            }
        }
        buf_putc(&body, ']');
    }
    json_out_bool(&body, "truncated", rows.truncated);
    buf_puts(&body, "}\n");
    request_reply(request, 200, "application/json", &body);
    return 0;
}

static void reply_copied(struct request *request, const struct msg_session_answer *answer)
{
    static const char *const kernels[SESSION_KERNEL_COUNT] = {
        [SESSION_KERNEL_NOT_COPIED] = "not_copied", [SESSION_KERNEL_ENDED] = "ended"};
    struct buf body = BUF_INIT;
    buf_putc(&body, '{');
    json_out_u64(&body, "files", answer->files);
    json_out_u64(&body, "left_out", answer->left_out);
    json_out_text(&body, "kernel", kernels[answer->kernel]);
    buf_puts(&body, "}\n");
    request_reply(request, 200, "application/json", &body);
}

/* What it has grown by since it was opened has been held against no limit. */
static int reply_file(struct request *request, uint64_t size, int fd, struct err *reterr)
{
    struct buf body = BUF_INIT;
    char *to = fd < 0 ? NULL : buf_reserve(&body, (size_t)size);
    ssize_t n = to ? io_read_full(fd, to, (size_t)size) : -ENOMEM;
    if (n < 0) {
        buf_free(&body);
        return err_errno(reterr, (int)-n, "reading a file of a session");
    }
    to[n] = '\0';
    body.len += (size_t)n;
    /* A program wrote it: no browser is to take it for a page. */
    static const struct http_header headers[] = {{"Content-Type", "application/octet-stream"},
                                                 {"X-Content-Type-Options", "nosniff"},
                                                 {"Cache-Control", "no-store"}};
    request_reply_headers(request, 200, headers, ARRAY_SIZE(headers), &body);
    return 0;
}

static void reply_put(struct request *request, bool made)
{
    struct buf body = BUF_INIT;
    buf_putc(&body, '{');
    json_out_text(&body, "session", job_session_to_string(made ? JOB_SESSION_NEW : JOB_SESSION_KEPT));
    buf_puts(&body, "}\n");
    request_reply(request, 200, "application/json", &body);
}

void session_query_refuse(struct request *request, const struct msg_session_answer *answer, const char *field)
{
    struct err err = {.kind = answer->kind};
    snprintf(err.item, sizeof err.item, "%s", field);
    memcpy(err.text, answer->text, sizeof err.text);
    request_refuse_err(request, &err, answer->retry_after_ms);
}

/* Of an answer that refuses what a field says: that which the text begins with. */
static const char *field_of(enum session_query what, const struct msg_session_answer *answer)
{
    static const char *const fields[] = {"session_id", "to", "from"};
    bool is_copy = what == SESSION_FORK || what == SESSION_RESTORE;
    bool names_field = answer->kind == ERR_INVALID || answer->kind == ERR_DENIED;
    for (size_t i = 0; i < ARRAY_SIZE(fields) && is_copy && names_field; i++) {
        if (strncmp(answer->text, fields[i], strlen(fields[i])) == 0) {
            return fields[i];
        }
    }
    return what == SESSION_DELETE ? fields[0] : "";
}

static void reply(struct request *request, enum session_query what, const struct msg_session_answer *answer,
                  int fd)
{
    struct err err = {0};
    int r = 0;
    if (answer->kind != ERR_NONE) {
        session_query_refuse(request, answer, field_of(what, answer));
    } else if (what == SESSION_LIST || what == SESSION_FILES) {
        r = reply_list(request, what, fd, &err);
    } else if (what == SESSION_FILE_GET) {
        r = reply_file(request, answer->size, fd, &err);
    } else if (what == SESSION_DIFF) {
        r = reply_diff(request, fd, &err);
    } else if (what == SESSION_FORK || what == SESSION_RESTORE) {
        reply_copied(request, answer);
    } else if (what == SESSION_FILE_PUT) {
        reply_put(request, answer->made);
    } else {
        request_reply_empty(request);
    }
    if (r < 0) {
        request_refuse_err(request, &err, answer->retry_after_ms);
    }
}

int session_queries_answered(struct session_queries *queries, const struct msg_session_answer *answer, int fd)
{
    struct session_query_pending **at = &queries->first;
    while (*at && (*at)->id != answer->id) {
        at = &(*at)->next;
    }
    struct session_query_pending *query = *at;
    if (!query) {
        return -ENOENT;
    }
    *at = query->next;
    if (query->request) {
        query->request->query = NULL;
        if (query->then) {
            query->then(query->request, answer, fd);
        } else {
            reply(query->request, query->what, answer, fd);
        }
    }
    free(query);
    return 0;
}
