/* What front and warden say about sessions. As with jobs, each takes the other for hostile: names have the
 * form that names of sessions have, and lists end where they have to. */
#include "config/message/message_session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/pool.h"
#include "config/format/wire.h"
#include "config/message/message.pb-c.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"

static bool is_about_a_file(unsigned what)
{
    return what == SESSION_FILE_GET || what == SESSION_FILE_PUT || what == SESSION_FILE_DELETE;
}

static ProtobufCBinaryData bytes_of(const char *text)
{
    return (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)wire_text(text)};
}

void session_query_to_message(const struct msg_session_query *query, Immure__MsgSessionQuery *ret)
{
    ret->id = query->id;
    ret->what = query->what;
    ret->key = wire_text(query->key);
    ret->session_id = query->what == SESSION_LIST ? NULL : wire_text(query->session_id);
    ret->has_path = is_about_a_file(query->what);
    ret->path = bytes_of(query->path);
}

void session_answer_to_message(const struct msg_session_answer *answer, Immure__MsgSessionAnswer *ret)
{
    ret->id = answer->id;
    ret->has_kind = answer->kind != ERR_NONE;
    ret->kind = answer->kind;
    ret->text = ret->has_kind ? wire_text(answer->text) : NULL;
    ret->retry_after_ms = answer->retry_after_ms;
    ret->size = answer->size;
    ret->made = answer->made;
}

static int take_session_id(const char *text, char ret[SESSION_ID_BYTES], const char *field,
                           struct err *reterr)
{
    if (!session_id_is_valid(text)) {
        return wire_refuse(reterr, field, "is not a session's name");
    }
    memcpy(ret, text, strlen(text) + 1);
    return 0;
}

int session_query_from_message(const Immure__MsgSessionQuery *message, struct msg_session_query *ret,
                               struct err *reterr)
{
    if (message->what >= SESSION_QUERY_COUNT) {
        return wire_refuse(reterr, "session_query.what", "is not a known query");
    }
    if (strlen(message->key) >= sizeof ret->key) {
        return wire_refuse(reterr, "session_query.key", "is longer than a key's name");
    }
    if ((message->what == SESSION_LIST) == (message->session_id != NULL)) {
        return wire_refuse(reterr, "session_query.session_id", "is there without need, or missing");
    }
    if (is_about_a_file(message->what) != message->has_path || message->path.len >= sizeof ret->path ||
        (message->path.len > 0 && memchr(message->path.data, '\0', message->path.len))) {
        return wire_refuse(reterr, "session_query.path", "is there without need, missing, or no path");
    }
    *ret = (struct msg_session_query){.id = message->id, .what = (enum session_query)message->what};
    memcpy(ret->key, message->key, strlen(message->key) + 1);
    if (message->path.len > 0) {
        memcpy(ret->path, message->path.data, message->path.len);
    }
    return message->session_id
               ? take_session_id(message->session_id, ret->session_id, "session_query.session_id", reterr)
               : 0;
}

/* A refusal has a kind and a text, anything else neither. */
int session_answer_from_message(const Immure__MsgSessionAnswer *message, struct msg_session_answer *ret,
                                struct err *reterr)
{
    if (message->has_kind != (message->text != NULL)) {
        return wire_refuse(reterr, "session_answer.text", "does not go with the rest");
    }
    if (message->has_kind && (message->kind == ERR_NONE || message->kind > ERR_UNAVAILABLE)) {
        return wire_refuse(reterr, "session_answer.kind", "is not a known kind of error");
    }
    if (message->text && strlen(message->text) >= sizeof ret->text) {
        return wire_refuse(reterr, "session_answer.text", "is too long");
    }
    *ret = (struct msg_session_answer){.id = message->id,
                                       .retry_after_ms = message->retry_after_ms,
                                       .size = message->size,
                                       .made = message->made};
    if (message->has_kind) {
        ret->kind = (enum err_kind)message->kind;
        memcpy(ret->text, message->text, strlen(message->text) + 1);
    }
    return 0;
}

/* ---- Lists ---- */

static void row_to_message(const struct session_row *row, Immure__MsgSession *ret)
{
    immure__msg_session__init(ret);
    ret->session_id = wire_text(row->session_id);
    ret->created_ms = row->created_ms;
    ret->used_ms = row->used_ms;
    ret->has_expires_ms = row->expires_ms != 0;
    ret->expires_ms = row->expires_ms;
    ret->bytes = row->bytes;
    ret->files = row->files;
    ret->jobs = row->jobs;
}

static Immure__MsgSession **sessions_to_messages(const struct session_rows *rows, struct pool *pool)
{
    Immure__MsgSession **pointers = pool_alloc(pool, rows->n_sessions, sizeof *pointers);
    Immure__MsgSession *messages = pool_alloc(pool, rows->n_sessions, sizeof *messages);
    for (size_t i = 0; pointers && messages && i < rows->n_sessions; i++) {
        row_to_message(&rows->sessions[i], &messages[i]);
        pointers[i] = &messages[i];
    }
    return pointers;
}

static Immure__MsgSessionFile **files_to_messages(const struct session_rows *rows, struct pool *pool)
{
    Immure__MsgSessionFile **pointers = pool_alloc(pool, rows->n_files, sizeof *pointers);
    Immure__MsgSessionFile *messages = pool_alloc(pool, rows->n_files, sizeof *messages);
    for (size_t i = 0; pointers && messages && i < rows->n_files; i++) {
        immure__msg_session_file__init(&messages[i]);
        messages[i].path = bytes_of(rows->files[i].path);
        messages[i].size = rows->files[i].size;
        messages[i].modified_ms = rows->files[i].modified_ms;
        pointers[i] = &messages[i];
    }
    return pointers;
}

int session_rows_encode(const struct session_rows *rows, struct buf *ret, struct err *reterr)
{
    CLEANUP(pool_free) struct pool pool = POOL_INIT;
    Immure__MsgSessionRows message;
    immure__msg_session_rows__init(&message);
    message.session = sessions_to_messages(rows, &pool);
    message.n_session = rows->n_sessions;
    message.file = files_to_messages(rows, &pool);
    message.n_file = rows->n_files;
    message.truncated = rows->truncated;
    return pool.failed || wire_pack(&message.base, ret) < 0 ? err_errno(reterr, ENOMEM, "writing a list") : 0;
}

void session_rows_clear(struct session_rows *rows)
{
    for (size_t i = 0; i < rows->n_files; i++) {
        free(rows->files[i].path);
    }
    free(rows->files);
    free(rows->sessions);
    *rows = (struct session_rows){0};
}

static int row_from_message(const Immure__MsgSession *message, struct session_row *ret, struct err *reterr)
{
    if (message->has_expires_ms && message->expires_ms == 0) {
        return wire_refuse(reterr, "session.expires_ms", "is 0");
    }
    *ret = (struct session_row){.created_ms = message->created_ms,
                                .used_ms = message->used_ms,
                                .expires_ms = message->expires_ms,
                                .bytes = message->bytes,
                                .files = message->files,
                                .jobs = message->jobs};
    return take_session_id(message->session_id, ret->session_id, "session.session_id", reterr);
}

static int file_from_message(const Immure__MsgSessionFile *message, struct session_file *ret,
                             struct err *reterr)
{
    if (message->path.len == 0 || memchr(message->path.data, '\0', message->path.len)) {
        return wire_refuse(reterr, "file.path", "is no path");
    }
    *ret = (struct session_file){.path = strndup((const char *)message->path.data, message->path.len),
                                 .size = message->size,
                                 .modified_ms = message->modified_ms};
    return ret->path ? 0 : err_errno(reterr, ENOMEM, "while reading a list");
}

static int rows_from_message(const Immure__MsgSessionRows *message, struct session_rows *ret,
                             struct err *reterr)
{
    if (message->n_session > MSG_SESSIONS_MAX || message->n_file > MSG_SESSION_FILES_MAX) {
        return wire_refuse(reterr, "session", "has more rows than there can be");
    }
    *ret = (struct session_rows){.sessions = calloc(message->n_session + 1, sizeof *ret->sessions),
                                 .files = calloc(message->n_file + 1, sizeof *ret->files),
                                 .truncated = message->truncated};
    int r = ret->sessions && ret->files ? 0 : err_errno(reterr, ENOMEM, "while reading a list");
    for (size_t i = 0; r == 0 && i < message->n_session; i++) {
        r = row_from_message(message->session[i], &ret->sessions[ret->n_sessions++], reterr);
    }
    for (size_t i = 0; r == 0 && i < message->n_file; i++) {
        r = file_from_message(message->file[i], &ret->files[ret->n_files++], reterr);
    }
    return r;
}

int session_rows_decode(const void *data, size_t size, struct session_rows *ret, struct err *reterr)
{
    ProtobufCMessage *message;
    int r = wire_unpack(&immure__msg_session_rows__descriptor, data, size, &message);
    if (r < 0) {
        return r == -ENOMEM ? err_errno(reterr, ENOMEM, "while reading a list")
                            : wire_refuse(reterr, "session", "is no list");
    }
    CLEANUP(session_rows_clear) struct session_rows rows = {0};
    r = rows_from_message((Immure__MsgSessionRows *)message, &rows, reterr);
    protobuf_c_message_free_unpacked(message, NULL);
    if (r < 0) {
        return r;
    }
    *ret = rows;
    rows = (struct session_rows){0};
    return 0;
}
