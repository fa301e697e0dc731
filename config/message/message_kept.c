/* What front and warden say about kept jobs. As with jobs, each takes the other for hostile: ids have the
 * form that ids have, texts their length, and lists end where they have to. */
#include "config/message/message_kept.h"

#include "config/format/wire.h"
#include "config/message/message.pb-c.h"

#define ID .valid = job_id_is_valid, .why = "is not the id of a job"

#define ROW(own, ...) BIND(struct msg_keep, Immure__MsgKeep, own, own, __VA_ARGS__)
static const struct bind_row keep_rows[] = {ROW(id), ROW(status, .least = 1)};
#undef ROW
const struct bind_table keep_table = {
    .name = "keep", BIND_TABLE_OF(struct msg_keep, immure__msg_keep__descriptor, keep_rows)};

#define ROW(own, ...) BIND(struct msg_kept_query, Immure__MsgKeptQuery, own, own, __VA_ARGS__)
#define OF(...)       BIND_CASES(struct msg_kept_query, what, __VA_ARGS__)
static const struct bind_row query_rows[] = {
    ROW(id),
    ROW(what, .most = KEPT_QUERY_COUNT - 1),
    ROW(key),
    ROW(job_id, OF(1u << KEPT_GET | 1u << KEPT_DELETE), ID),
    ROW(reason, OF(1u << KEPT_DELETE)),
};
#undef OF
#undef ROW
const struct bind_table kept_query_table = {
    .name = "kept_query",
    BIND_TABLE_OF(struct msg_kept_query, immure__msg_kept_query__descriptor, query_rows),
    .whole = true,
};

#define ROW(own, ...) BIND(struct kept_row, Immure__MsgKept, own, own, __VA_ARGS__)
static const struct bind_row job_rows[] = {
    ROW(job_id, ID), ROW(execution_id), ROW(runtime),    ROW(status),
    ROW(created_ms), ROW(ended_ms),     ROW(expires_ms),
};
#undef ROW
static const struct bind_table job_row_table = {
    .name = "kept_answer.job", BIND_TABLE_OF(struct kept_row, immure__msg_kept__descriptor, job_rows)};

static int check_answer(const void *object, struct err *reterr)
{
    const struct msg_kept_answer *answer = object;
    return answer->kind != ERR_NONE && answer->n_rows > 0
               ? wire_refuse(reterr, "kept_answer.text", "does not go with the rest")
               : 0;
}

/* A refusal has a kind and a text, anything else neither. */
#define ROW(own, ...) BIND(struct msg_kept_answer, Immure__MsgKeptAnswer, own, own, __VA_ARGS__)
static const struct bind_row answer_rows[] = {
    ROW(id),
    ROW(kind, .most = ERR_UNAVAILABLE),
    ROW(text, BIND_CASES(struct msg_kept_answer, kind, ~(1u << ERR_NONE))),
    BIND_SOME(BIND_EACH, struct msg_kept_answer, Immure__MsgKeptAnswer, rows, n_rows, job,
              .table = &job_row_table, .most = MSG_KEPT_MAX),
};
#undef ROW
const struct bind_table kept_answer_table = {
    .name = "kept_answer",
    BIND_TABLE_OF(struct msg_kept_answer, immure__msg_kept_answer__descriptor, answer_rows),
    .check = check_answer,
};
