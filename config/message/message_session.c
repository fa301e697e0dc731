/* What front and warden say about sessions. As with jobs, each takes the other for hostile: names have the
 * form that names of sessions have, and lists end where they have to. */
#include "config/message/message_session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/pool.h"
#include "config/format/wire.h"
#include "config/message/message.pb-c.h"
#include "jail/base/cleanup.h"

void session_query_to_message(const struct msg_session_query *query, Immure__MsgSessionQuery *ret)
{
    ret->id = query->id;
    ret->what = query->what;
    ret->key = wire_text(query->key);
    ret->session_id = query->what == SESSION_DELETE ? wire_text(query->session_id) : NULL;
}

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

void session_answer_to_message(const struct msg_session_answer *answer, struct pool *pool,
                               Immure__MsgSessionAnswer *ret)
{
    ret->id = answer->id;
    if (answer->kind != ERR_NONE) {
        ret->has_kind = true;
        ret->kind = answer->kind;
        ret->text = wire_text(answer->text);
        return;
    }
    Immure__MsgSession **pointers = pool_alloc(pool, answer->n_rows, sizeof *pointers);
    Immure__MsgSession *rows = pool_alloc(pool, answer->n_rows, sizeof *rows);
    for (size_t i = 0; pointers && rows && i < answer->n_rows; i++) {
        row_to_message(&answer->rows[i], &rows[i]);
        pointers[i] = &rows[i];
    }
    ret->session = pointers;
    ret->n_session = pointers ? answer->n_rows : 0;
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
    if ((message->what == SESSION_DELETE) != (message->session_id != NULL)) {
        return wire_refuse(reterr, "session_query.session_id", "is there without need, or missing");
    }
    *ret = (struct msg_session_query){.id = message->id, .what = (enum session_query)message->what};
    memcpy(ret->key, message->key, strlen(message->key) + 1);
    return message->session_id
               ? take_session_id(message->session_id, ret->session_id, "session_query.session_id", reterr)
               : 0;
}

static int row_from_message(const Immure__MsgSession *message, struct session_row *ret, struct err *reterr)
{
    if (message->has_expires_ms && message->expires_ms == 0) {
        return wire_refuse(reterr, "session_answer.session.expires_ms", "is 0");
    }
    *ret = (struct session_row){.created_ms = message->created_ms,
                                .used_ms = message->used_ms,
                                .expires_ms = message->expires_ms,
                                .bytes = message->bytes,
                                .files = message->files,
                                .jobs = message->jobs};
    return take_session_id(message->session_id, ret->session_id, "session_answer.session.session_id", reterr);
}

/* A refusal has a kind and a text, anything else neither. */
static int refusal_from_message(const Immure__MsgSessionAnswer *message, struct msg_session_answer *ret,
                                struct err *reterr)
{
    if (message->has_kind != (message->text != NULL) || (message->has_kind && message->n_session > 0)) {
        return wire_refuse(reterr, "session_answer.text", "does not go with the rest");
    }
    if (!message->has_kind) {
        return 0;
    }
    if (message->kind == ERR_NONE || message->kind > ERR_UNAVAILABLE) {
        return wire_refuse(reterr, "session_answer.kind", "is not a known kind of error");
    }
    if (strlen(message->text) >= sizeof ret->text) {
        return wire_refuse(reterr, "session_answer.text", "is too long");
    }
    ret->kind = (enum err_kind)message->kind;
    memcpy(ret->text, message->text, strlen(message->text) + 1);
    return 0;
}

int session_answer_from_message(const Immure__MsgSessionAnswer *message, struct msg_session_answer *ret,
                                struct err *reterr)
{
    if (message->n_session > MSG_SESSIONS_MAX) {
        return wire_refuse(reterr, "session_answer.session", "has more rows than there can be");
    }
    struct msg_session_answer answer = {.id = message->id, .n_rows = message->n_session};
    int r = refusal_from_message(message, &answer, reterr);
    if (r < 0) {
        return r;
    }
    CLEANUP(freep) struct session_row *rows = calloc(answer.n_rows + 1, sizeof *rows);
    if (!rows) {
        return err_errno(reterr, ENOMEM, "while reading a message");
    }
    for (size_t i = 0; i < answer.n_rows; i++) {
        r = row_from_message(message->session[i], &rows[i], reterr);
        if (r < 0) {
            return r;
        }
    }
    answer.rows = TAKE_PTR(rows);
    *ret = answer;
    return 0;
}
