/* What front and warden say about sessions. As with jobs, each takes the other for hostile: names have the
 * form that names of sessions have, and lists end where they have to. */
#include "config/message/message_session.h"

#include <errno.h>

#include "config/message/message.pb-c.h"

#define ID .valid = session_id_is_valid, .why = "is not a session's name"

static const struct bind_row name_rows[] = {
    BIND(struct session_name, Immure__MsgSessionName, session_id, session_id, ID)};
static const struct bind_table name_table = {
    .name = "session_query.other",
    BIND_TABLE_OF(struct session_name, immure__msg_session_name__descriptor, name_rows)};

static int check_query(const void *object, struct err *reterr)
{
    const struct msg_session_query *query = object;
    bool is_fork = query->what == SESSION_FORK;
    bool has_other = query->what == SESSION_DIFF || query->what == SESSION_RESTORE;
    return (is_fork ? query->n_others > 0 : query->n_others == has_other)
               ? 0
               : err_set(reterr, ERR_INVALID, EBADMSG, "session_query.other", "is not what is asked for");
}

#define ROW(own, ...) BIND(struct msg_session_query, Immure__MsgSessionQuery, own, own, __VA_ARGS__)
#define OF(...)       BIND_CASES(struct msg_session_query, what, __VA_ARGS__)
static const struct bind_row query_rows[] = {
    ROW(id),
    ROW(what, .most = SESSION_QUERY_COUNT - 1),
    ROW(key),
    ROW(session_id, OF(~(1u << SESSION_LIST)), ID),
    ROW(path, OF(1u << SESSION_FILE_GET | 1u << SESSION_FILE_PUT | 1u << SESSION_FILE_DELETE)),
    BIND_SOME(BIND_EACH_ROOM, struct msg_session_query, Immure__MsgSessionQuery, others, n_others, other,
              .table = &name_table),
};
#undef OF
#undef ROW
const struct bind_table session_query_table = {
    .name = "session_query",
    BIND_TABLE_OF(struct msg_session_query, immure__msg_session_query__descriptor, query_rows),
    .check = check_query};

/* A refusal has a kind and a text, anything else neither. */
#define ROW(own, ...) BIND(struct msg_session_answer, Immure__MsgSessionAnswer, own, own, __VA_ARGS__)
static const struct bind_row answer_rows[] = {
    ROW(id),
    ROW(kind, .most = ERR_UNAVAILABLE),
    ROW(text, BIND_CASES(struct msg_session_answer, kind, ~(1u << ERR_NONE))),
    ROW(retry_after_ms),
    ROW(size),
    ROW(made),
    ROW(files),
    ROW(left_out),
    ROW(kernel, .most = SESSION_KERNEL_COUNT - 1),
};
#undef ROW
const struct bind_table session_answer_table = {
    .name = "session_answer",
    BIND_TABLE_OF(struct msg_session_answer, immure__msg_session_answer__descriptor, answer_rows)};

/* ---- Lists ---- */

#define ROW(own, ...) BIND(struct session_row, Immure__MsgSession, own, own, __VA_ARGS__)
static const struct bind_row session_rows[] = {
    ROW(session_id, ID), ROW(created_ms), ROW(used_ms), ROW(expires_ms), ROW(bytes), ROW(files), ROW(jobs),
};
#undef ROW
static const struct bind_table session_table = {
    .name = "session", BIND_TABLE_OF(struct session_row, immure__msg_session__descriptor, session_rows)};

#define ROW(own, ...) BIND(struct session_file, Immure__MsgSessionFile, own, own, __VA_ARGS__)
static const struct bind_row file_rows[] = {
    ROW(path, .least = 1), ROW(size), ROW(modified_ms), ROW(change, .most = SESSION_CHANGE_COUNT - 1),
    ROW(size_before),
};
#undef ROW
static const struct bind_table file_table = {
    .name = "file", BIND_TABLE_OF(struct session_file, immure__msg_session_file__descriptor, file_rows)};

#define SOME(own, theirs, ...)                                                                               \
    BIND_SOME(BIND_EACH, struct session_rows, Immure__MsgSessionRows, own, n_##own, theirs, __VA_ARGS__)
static const struct bind_row list_rows[] = {
    SOME(sessions, session, .table = &session_table, .most = MSG_SESSIONS_MAX),
    SOME(files, file, .table = &file_table, .most = MSG_SESSION_FILES_MAX),
    BIND(struct session_rows, Immure__MsgSessionRows, truncated, truncated),
};
#undef SOME
static const struct bind_table list_table = {
    .name = "rows", BIND_TABLE_OF(struct session_rows, immure__msg_session_rows__descriptor, list_rows)};

int session_rows_encode(const struct session_rows *rows, struct buf *ret, struct err *reterr)
{
    return bind_encode(&list_table, rows, ret) < 0 ? err_errno(reterr, ENOMEM, "writing a list") : 0;
}

void session_rows_clear(struct session_rows *rows)
{
    bind_clear(&list_table, rows);
}

int session_rows_decode(const void *data, size_t size, struct session_rows *ret, struct err *reterr)
{
    return bind_decode(&list_table, data, size, ret, reterr);
}
