/* The routes about sessions and their files. Runs in the front, on paths that callers chose: what they name
 * is decoded here, and looked up by the warden. */
#include <errno.h>
#include <string.h>

#include "config/format/json.h"
#include "config/message/job.h"
#include "config/message/message.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/resources/scratch.h"
#include "server/doors/branch.h"
#include "server/front/handlers.h"
#include "server/http/http.h"
#include "server/jobs/reason.h"
#include "server/jobs/request.h"
#include "server/jobs/session_queries.h"

static void send_query(struct request *request, const struct msg_session_query *query)
{
    struct err err = {0};
    if (session_query_send(request, query, -1, &err) < 0) {
        request_refuse_err(request, &err, 0);
    }
}

bool handlers_read_session_id(struct request *request, struct msg_session_query *query)
{
    const char *slash = memchr(request->argument, '/', request->argument_length);
    size_t length = slash ? (size_t)(slash - request->argument) : request->argument_length;
    if (!reason_decode_percent(request->argument, length, false, query->session_id,
                               sizeof query->session_id) ||
        !session_id_is_valid(query->session_id)) {
        request_refuse(request, ERROR_BAD_FIELD, "session_id: " SESSION_ID_RULE, "session_id");
        return false;
    }
    struct err err = {0};
    if (request_check_session(request, query->session_id, &err) < 0) {
        request_refuse_err(request, &err, 0);
        return false;
    }
    return true;
}

/* The file, which is what comes behind /files/. */
static bool read_path(struct request *request, struct msg_session_query *query)
{
    static const char between[] = "/files/";
    struct err err = {0};
    const char *end = request->argument + request->argument_length;
    const char *path = memmem(request->argument, request->argument_length, between, sizeof between - 1);
    path = path ? path + sizeof between - 1 : end;
    if (!reason_decode_percent(path, (size_t)(end - path), false, query->path, sizeof query->path)) {
        request_refuse(request, ERROR_BAD_FIELD, "path: must be percent-encoded, and at most 4095 bytes",
                       "path");
        return false;
    }
    if (scratch_check_path(query->path, &err) < 0) {
        char text[sizeof err.text + 8];
        snprintf(text, sizeof text, "path: %s", err.text);
        request_refuse(request, ERROR_BAD_FIELD, text, "path");
        return false;
    }
    return true;
}

void handle_sessions(struct request *request)
{
    send_query(request, &(struct msg_session_query){.what = SESSION_LIST});
}

void handle_session_end(struct request *request)
{
    struct msg_session_query query = {.what = SESSION_DELETE};
    if (handlers_read_session_id(request, &query)) {
        send_query(request, &query);
    }
}

void handle_session_files(struct request *request)
{
    struct msg_session_query query = {.what = SESSION_FILES};
    if (handlers_read_session_id(request, &query)) {
        send_query(request, &query);
    }
}

void handle_session_file(struct request *request)
{
    struct msg_session_query query = {.what = SESSION_FILE_GET};
    if (handlers_read_session_id(request, &query) && read_path(request, &query)) {
        send_query(request, &query);
    }
}

void handle_session_file_delete(struct request *request)
{
    struct msg_session_query query = {.what = SESSION_FILE_DELETE};
    if (handlers_read_session_id(request, &query) && read_path(request, &query)) {
        send_query(request, &query);
    }
}

void handle_session_file_put(struct request *request)
{
    struct msg_session_query query = {.what = SESSION_FILE_PUT};
    struct err err = {0};
    if (!handlers_read_session_id(request, &query) || !read_path(request, &query)) {
        return;
    }
    const struct buf *body = http_body(request->http);
    int r = session_query_put(request, &query, body->data ? body->data : "", body->len, NULL, &err);
    http_free_body(request->http);
    if (r < 0) {
        request_refuse_err(request, &err, 0);
    }
}

static void copy_session(struct request *request, enum session_query what,
                         int (*decode)(const struct json *root, struct msg_session_query *ret,
                                       struct err *reterr))
{
    struct msg_session_query query = {.what = what};
    const struct body_reading *body = handlers_read_session_id(request, &query) ? read_body(request) : NULL;
    struct err err = {0};
    if (!body) {
        return;
    }
    if (decode(json_root(body->doc), &query, &err) < 0) {
        request_refuse_err(request, &err, 0);
    } else {
        send_query(request, &query);
    }
}

void handle_session_fork(struct request *request)
{
    copy_session(request, SESSION_FORK, fork_decode);
}

void handle_session_restore(struct request *request)
{
    copy_session(request, SESSION_RESTORE, restore_decode);
}

/* The other one is what comes behind /diff/, which no name before it holds: its slashes are encoded. */
void handle_session_diff(struct request *request)
{
    struct msg_session_query query = {.what = SESSION_DIFF, .n_others = 1};
    if (!handlers_read_session_id(request, &query)) {
        return;
    }
    const char *end = request->argument + request->argument_length;
    const char *other = (const char *)memrchr(request->argument, '/', request->argument_length) + 1;
    char *name = query.others[0].session_id;
    if (!reason_decode_percent(other, (size_t)(end - other), false, name, SESSION_ID_BYTES) ||
        !session_id_is_valid(name)) {
        request_refuse(request, ERROR_BAD_FIELD, "other: " SESSION_ID_RULE, "other");
    } else {
        send_query(request, &query);
    }
}
