/* Asynchronous jobs: GET /jobs, GET and DELETE /jobs/{job_id}. Runs in the front, which keeps no result: the
 * warden does, and is asked, and a request waits for its answer as one does for a verdict. */
#include "server/jobs/kept_jobs.h"

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
#include "server/jobs/dispatch.h"
#include "server/jobs/front_context.h"
#include "server/jobs/relays.h"
#include "server/jobs/request.h"
#include "server/kit/ident.h"
#include "server/kit/json_out.h"
#include "server/kit/log.h"
#include "server/link/channel.h"

struct kept_query_pending {
    struct kept_query_pending *next;
    struct request *request; /* NULL: the caller has gone */
    enum kept_query what;
    uint64_t id;
};

struct kept_queries {
    struct front *front;
    struct channel *channel;
    struct kept_query_pending *first;
    uint64_t last_id;
};

int kept_queries_new(struct front *front, struct channel *channel, struct kept_queries **ret,
                     struct err *reterr)
{
    struct kept_queries *queries = calloc(1, sizeof *queries);
    if (!queries) {
        return err_errno(reterr, ENOMEM, "making the table of queries");
    }
    *queries = (struct kept_queries){.front = front, .channel = channel};
    *ret = queries;
    return 0;
}

void kept_queries_free(struct kept_queries *queries)
{
    while (queries && queries->first) {
        struct kept_query_pending *query = queries->first;
        queries->first = query->next;
        free(query);
    }
    free(queries);
}

void kept_row_begin(struct kept_row *ret, const char *execution_id, const char *runtime)
{
    char id[IDENT_BYTES];
    ident_fresh(id);
    *ret = (struct kept_row){.status = "running", .created_ms = clock_wall_ms()};
    snprintf(ret->job_id, sizeof ret->job_id, "%.36s", id);
    snprintf(ret->execution_id, sizeof ret->execution_id, "%s", execution_id);
    snprintf(ret->runtime, sizeof ret->runtime, "%s", runtime);
}

static void put_row(struct buf *ret, const struct kept_row *row)
{
    json_out_text(ret, "job_id", row->job_id);
    json_out_text(ret, "execution_id", row->execution_id);
    json_out_text(ret, "runtime", row->runtime);
    json_out_text(ret, "status", row->status);
    json_out_time(ret, "created_at", row->created_ms);
    json_out_time(ret, "ended_at", row->ended_ms);
    json_out_time(ret, "expires_at", row->expires_ms);
}

/* `calls`: the member of that name; empty: none. */
static void put_job(struct buf *ret, const struct kept_row *row, const struct buf *calls,
                    const struct buf *reply)
{
    buf_putc(ret, '{');
    put_row(ret, row);
    if (calls && calls->len > 0) {
        json_out_separator(ret);
        buf_append(ret, calls->data, calls->len);
    }
    if (reply && reply->len > 0) {
        json_out_key(ret, "reply");
        size_t end_of_line = reply->data[reply->len - 1] == '\n';
        buf_append(ret, reply->data, reply->len - end_of_line);
    } else {
        json_out_null(ret, "reply");
    }
    buf_puts(ret, "}\n");
}

void kept_row_reply_accepted(const struct kept_row *row, struct request *request)
{
    struct buf body = BUF_INIT;
    char location[KEPT_ID_BYTES + 8];
    snprintf(location, sizeof location, "/jobs/%s", row->job_id);
    put_job(&body, row, NULL, NULL);
    request_reply_accepted(request, location, &body);
}

static int pack_reply(const struct kept_queries *queries, const struct buf *reply, int *ret_fd)
{
    CLEANUP(fd_closep) int fd = -1;
    if (reply->failed || reply->len == 0 || reply->len > queries->front->config->max_kept_bytes) {
        return 0;
    }
    int r = io_memfd("reply", reply->data, reply->len, &fd);
    r = r < 0 ? r : io_memfd_seal(&fd, reply->len);
    if (r == 0) {
        *ret_fd = TAKE_FD(fd);
    }
    return r;
}

void kept_result_send(struct kept_queries *queries, uint64_t id, const char *status, struct buf *reply)
{
    CLEANUP(fd_closep) int fd = -1;
    struct msg msg = {.type = MSG_KEEP, .keep = {.id = id}};
    struct err err = {0};
    snprintf(msg.keep.status, sizeof msg.keep.status, "%s", status);
    int r = pack_reply(queries, reply, &fd);
    if (r < 0) {
        err_errno(&err, -r, "keeping a reply");
        log_err(queries->front->log, LOG_ERROR, "reply_lost", &err);
    }
    if (channel_send(queries->channel, &msg, &fd, fd >= 0, &err) < 0) {
        log_err(queries->front->log, LOG_ERROR, "reply_lost", &err);
    }
    buf_free(reply);
    *reply = BUF_INIT;
}

int kept_query_send(struct request *request, enum kept_query what, const char *job_id, const char *reason,
                    struct err *reterr)
{
    struct kept_queries *queries = request->front->kept_queries;
    struct msg msg = {.type = MSG_KEPT_QUERY, .kept_query = {.what = what}};
    const char *key = request->shown_key ? request->shown_key : "";
    if (strlen(key) >= sizeof msg.kept_query.key) {
        return err_set(reterr, ERR_NOT_FOUND, ENOENT, NULL, "no such job"); /* a longer key starts none */
    }
    struct kept_query_pending *query = calloc(1, sizeof *query);
    if (!query) {
        return err_errno(reterr, ENOMEM, "asking about jobs");
    }
    *query = (struct kept_query_pending){
        .next = queries->first, .request = request, .what = what, .id = ++queries->last_id};
    msg.kept_query.id = query->id;
    memcpy(msg.kept_query.key, key, strlen(key) + 1);
    snprintf(msg.kept_query.job_id, sizeof msg.kept_query.job_id, "%s", job_id ? job_id : "");
    snprintf(msg.kept_query.reason, sizeof msg.kept_query.reason, "%s", reason ? reason : "");
    int r = channel_send(queries->channel, &msg, NULL, 0, reterr);
    explicit_bzero(msg.kept_query.key, sizeof msg.kept_query.key);
    if (r < 0) {
        free(query);
        return r;
    }
    queries->first = query;
    request->kept_query = query;
    return 0;
}

void kept_query_forget(struct request *request)
{
    if (request->kept_query) {
        request->kept_query->request = NULL;
        request->kept_query = NULL;
    }
}

/* Whoever has it shares its offset, so that is not used. */
static int read_reply(int fd, struct buf *ret, struct err *reterr)
{
    off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    if (size < 0 || !buf_reserve(ret, (size_t)size)) {
        return err_errno(reterr, size < 0 ? errno : ENOMEM, "reading a kept reply");
    }
    while (ret->len < (size_t)size) {
        ssize_t n = pread(fd, ret->data + ret->len, (size_t)size - ret->len, (off_t)ret->len);
        if (n == 0 || (n < 0 && errno != EINTR)) {
            return err_errno(reterr, n < 0 ? errno : EIO, "reading a kept reply");
        }
        ret->len += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* The front that was replaced may run it: what it says of its calls. */
static void reply_running(struct request *request, const struct msg_relay *asked,
                          const struct msg_relay_answer *answer, struct buf *calls, void *context)
{
    (void)asked;
    (void)answer;
    struct buf body = BUF_INIT;
    put_job(&body, context, calls, NULL);
    request_reply(request, 200, "application/json", &body);
}

/* True: another front is asked. */
static bool ask_elsewhere(struct request *request, const struct kept_row *row)
{
    struct err err = {0};
    CLEANUP(freep)
    struct kept_row *context =
        strcmp(row->status, "running") == 0 && relays_may_help(request) ? malloc(sizeof *context) : NULL;
    if (!context) {
        return false;
    }
    *context = *row;
    if (relay_send(request, RELAY_CALLS, row->job_id, NULL, NULL, reply_running, context, &err) < 0) {
        return false;
    }
    context = NULL;
    return true;
}

static void reply_job(struct request *request, const struct kept_row *row, int reply_fd)
{
    CLEANUP(buf_free) struct buf reply = BUF_INIT, calls = BUF_INIT;
    struct buf body = BUF_INIT;
    struct err err = {0};
    if (read_reply(reply_fd, &reply, &err) < 0) {
        request_refuse_err(request, &err, 0);
        return;
    }
    bool is_here = dispatch_write_calls(request->front->dispatch, request->caller.key, row->job_id, &calls);
    if (!is_here && ask_elsewhere(request, row)) {
        return;
    }
    put_job(&body, row, &calls, &reply);
    request_reply(request, 200, "application/json", &body);
}

static void reply_list(struct request *request, const struct msg_kept_answer *answer)
{
    struct buf body = BUF_INIT;
    buf_putc(&body, '{');
    json_out_open(&body, "jobs", '[');
    for (size_t i = 0; i < answer->n_rows; i++) {
        json_out_separator(&body);
        buf_putc(&body, '{');
        put_row(&body, &answer->rows[i]);
        buf_putc(&body, '}');
    }
    buf_puts(&body, "]}\n");
    request_reply(request, 200, "application/json", &body);
}

static void reply(struct request *request, enum kept_query what, const struct msg_kept_answer *answer,
                  int reply_fd)
{
    if (answer->kind != ERR_NONE) {
        struct err err = {.kind = answer->kind};
        memcpy(err.text, answer->text, sizeof err.text);
        request_refuse_err(request, &err, 0);
    } else if (what == KEPT_DELETE) {
        request_reply_empty(request);
    } else if (what == KEPT_LIST) {
        reply_list(request, answer);
    } else {
        reply_job(request, &answer->rows[0], reply_fd);
    }
}

int kept_queries_answered(struct kept_queries *queries, const struct msg_kept_answer *answer, int reply_fd)
{
    struct kept_query_pending **at = &queries->first;
    while (*at && (*at)->id != answer->id) {
        at = &(*at)->next;
    }
    struct kept_query_pending *query = *at;
    if (!query || (query->what == KEPT_GET && answer->kind == ERR_NONE && answer->n_rows != 1)) {
        return -ENOENT;
    }
    *at = query->next;
    if (query->request) {
        query->request->kept_query = NULL;
        reply(query->request, query->what, answer, reply_fd);
    }
    free(query);
    return 0;
}
