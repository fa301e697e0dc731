/* GET /sessions and DELETE /workspace/{session_id}. Runs in the front, which knows of no session itself: it
 * asks the warden, and a request waits for the answer as one does for a verdict. */
#include "server/jobs/session_queries.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "server/jobs/front_context.h"
#include "server/jobs/request.h"
#include "server/kit/json_out.h"
#include "server/link/channel.h"

struct session_query_pending {
    struct session_query_pending *next;
    struct request *request; /* NULL: the caller has gone */
    enum session_query what;
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

int session_query_send(struct request *request, enum session_query what, const char *session_id,
                       struct err *reterr)
{
    struct session_queries *queries = request->front->session_queries;
    struct session_query_pending *query = calloc(1, sizeof *query);
    if (!query) {
        return err_errno(reterr, ENOMEM, "asking about sessions");
    }
    *query = (struct session_query_pending){
        .next = queries->first, .request = request, .what = what, .id = ++queries->last_id};
    struct msg msg = {.type = MSG_SESSION_QUERY, .session_query = {.id = query->id, .what = what}};
    snprintf(msg.session_query.key, sizeof msg.session_query.key, "%s", request->caller.name);
    snprintf(msg.session_query.session_id, sizeof msg.session_query.session_id, "%s",
             session_id ? session_id : "");
    int r = channel_send(queries->channel, &msg, NULL, 0, reterr);
    if (r < 0) {
        free(query);
        return r;
    }
    queries->first = query;
    request->query = query;
    return 0;
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

static void reply_list(struct request *request, const struct msg_session_answer *answer)
{
    struct buf body = BUF_INIT;
    buf_putc(&body, '{');
    json_out_open(&body, "sessions", '[');
    for (size_t i = 0; i < answer->n_rows; i++) {
        put_row(&body, &answer->rows[i]);
    }
    buf_puts(&body, "]}\n");
    request_reply(request, 200, "application/json", &body);
}

static void reply(struct request *request, enum session_query what, const struct msg_session_answer *answer)
{
    if (answer->kind != ERR_NONE) {
        struct err err = {.kind = answer->kind};
        snprintf(err.item, sizeof err.item, "%s", what == SESSION_DELETE ? "session_id" : "");
        memcpy(err.text, answer->text, sizeof err.text);
        request_refuse_err(request, &err, 0);
    } else if (what == SESSION_DELETE) {
        request_reply_empty(request);
    } else {
        reply_list(request, answer);
    }
}

int session_queries_answered(struct session_queries *queries, const struct msg_session_answer *answer)
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
        reply(query->request, query->what, answer);
    }
    free(query);
    return 0;
}
