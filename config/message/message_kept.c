/* What front and warden say about kept jobs. As with jobs, each takes the other for hostile: ids have the
 * form that ids have, texts their length, and lists end where they have to. */
#include "config/message/message_kept.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/pool.h"
#include "config/format/wire.h"
#include "config/message/message.pb-c.h"
#include "jail/base/cleanup.h"

void keep_to_message(const struct msg_keep *keep, Immure__MsgKeep *ret)
{
    immure__msg_keep__init(ret);
    ret->id = keep->id;
    ret->status = wire_text(keep->status);
}

void kept_query_to_message(const struct msg_kept_query *query, Immure__MsgKeptQuery *ret)
{
    immure__msg_kept_query__init(ret);
    ret->id = query->id;
    ret->what = query->what;
    ret->key = (ProtobufCBinaryData){.len = strlen(query->key), .data = (uint8_t *)wire_text(query->key)};
    ret->job_id = query->what == KEPT_LIST ? NULL : wire_text(query->job_id);
    ret->reason = query->what == KEPT_DELETE ? wire_text(query->reason) : NULL;
}

static void row_to_message(const struct kept_row *row, Immure__MsgKept *ret)
{
    immure__msg_kept__init(ret);
    ret->job_id = wire_text(row->job_id);
    ret->execution_id = wire_text(row->execution_id);
    ret->runtime = wire_text(row->runtime);
    ret->status = wire_text(row->status);
    ret->created_ms = row->created_ms;
    ret->ended_ms = row->ended_ms;
    ret->expires_ms = row->expires_ms;
}

void kept_answer_to_message(const struct msg_kept_answer *answer, struct pool *pool,
                            Immure__MsgKeptAnswer *ret)
{
    ret->id = answer->id;
    if (answer->kind != ERR_NONE) {
        ret->has_kind = true;
        ret->kind = answer->kind;
        ret->text = wire_text(answer->text);
        return;
    }
    Immure__MsgKept **pointers = pool_alloc(pool, answer->n_rows, sizeof *pointers);
    Immure__MsgKept *rows = pool_alloc(pool, answer->n_rows, sizeof *rows);
    for (size_t i = 0; pointers && rows && i < answer->n_rows; i++) {
        row_to_message(&answer->rows[i], &rows[i]);
        pointers[i] = &rows[i];
    }
    ret->job = pointers;
    ret->n_job = pointers ? answer->n_rows : 0;
}

static int take_text(const char *text, char *ret, size_t size, const char *field, struct err *reterr)
{
    size_t length = strlen(text);
    if (length >= size) {
        return wire_refuse(reterr, field, "is too long");
    }
    memcpy(ret, text, length + 1);
    return 0;
}

static int take_id(const char *text, char ret[KEPT_ID_BYTES], const char *field, struct err *reterr)
{
    if (!job_id_is_valid(text)) {
        return wire_refuse(reterr, field, "is not the id of a job");
    }
    memcpy(ret, text, KEPT_ID_BYTES);
    return 0;
}

int keep_from_message(const Immure__MsgKeep *message, struct msg_keep *ret, struct err *reterr)
{
    *ret = (struct msg_keep){.id = message->id};
    if (message->status[0] == '\0') {
        return wire_refuse(reterr, "keep.status", "is empty");
    }
    return take_text(message->status, ret->status, sizeof ret->status, "keep.status", reterr);
}

int kept_query_from_message(const Immure__MsgKeptQuery *message, struct msg_kept_query *ret,
                            struct err *reterr)
{
    *ret = (struct msg_kept_query){.id = message->id};
    if (message->what >= KEPT_QUERY_COUNT) {
        return wire_refuse(reterr, "kept_query.what", "is not a known query");
    }
    ret->what = (enum kept_query)message->what;
    if (message->key.len >= sizeof ret->key ||
        (message->key.len > 0 && memchr(message->key.data, '\0', message->key.len))) {
        return wire_refuse(reterr, "kept_query.key", "is not a key");
    }
    if ((ret->what == KEPT_LIST) != !message->job_id ||
        (ret->what == KEPT_DELETE) != (message->reason != NULL)) {
        return wire_refuse(reterr, "kept_query", "has what it needs not, or has not what it needs");
    }
    if (message->key.len > 0) {
        memcpy(ret->key, message->key.data, message->key.len);
    }
    int r = message->job_id ? take_id(message->job_id, ret->job_id, "kept_query.job_id", reterr) : 0;
    if (r == 0 && message->reason) {
        r = take_text(message->reason, ret->reason, sizeof ret->reason, "kept_query.reason", reterr);
    }
    return r;
}

static int row_from_message(const Immure__MsgKept *message, struct kept_row *ret, struct err *reterr)
{
    *ret = (struct kept_row){
        .created_ms = message->created_ms, .ended_ms = message->ended_ms, .expires_ms = message->expires_ms};
    int r = take_id(message->job_id, ret->job_id, "kept_answer.job.job_id", reterr);
    r = r < 0 ? r
              : take_text(message->execution_id, ret->execution_id, sizeof ret->execution_id,
                          "kept_answer.job.execution_id", reterr);
    r = r < 0 ? r
              : take_text(message->runtime, ret->runtime, sizeof ret->runtime, "kept_answer.job.runtime",
                          reterr);
    return r < 0 ? r
                 : take_text(message->status, ret->status, sizeof ret->status, "kept_answer.job.status",
                             reterr);
}

/* A refusal has a kind and a text, anything else neither. */
static int refusal_from_message(const Immure__MsgKeptAnswer *message, struct msg_kept_answer *ret,
                                struct err *reterr)
{
    if (message->has_kind != (message->text != NULL) || (message->has_kind && message->n_job > 0)) {
        return wire_refuse(reterr, "kept_answer.text", "does not go with the rest");
    }
    if (!message->has_kind) {
        return 0;
    }
    if (message->kind == ERR_NONE || message->kind > ERR_UNAVAILABLE) {
        return wire_refuse(reterr, "kept_answer.kind", "is not a known kind of error");
    }
    ret->kind = (enum err_kind)message->kind;
    return take_text(message->text, ret->text, sizeof ret->text, "kept_answer.text", reterr);
}

int kept_answer_from_message(const Immure__MsgKeptAnswer *message, struct msg_kept_answer *ret,
                             struct err *reterr)
{
    if (message->n_job > MSG_KEPT_MAX) {
        return wire_refuse(reterr, "kept_answer.job", "has more rows than there can be");
    }
    struct msg_kept_answer answer = {.id = message->id, .n_rows = message->n_job};
    int r = refusal_from_message(message, &answer, reterr);
    if (r < 0) {
        return r;
    }
    CLEANUP(freep) struct kept_row *rows = calloc(answer.n_rows + 1, sizeof *rows);
    if (!rows) {
        return err_errno(reterr, ENOMEM, "while reading a message");
    }
    for (size_t i = 0; i < answer.n_rows; i++) {
        r = row_from_message(message->job[i], &rows[i], reterr);
        if (r < 0) {
            return r;
        }
    }
    answer.rows = TAKE_PTR(rows);
    *ret = answer;
    return 0;
}
