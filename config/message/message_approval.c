/* What front and warden say about approvals. As with jobs, each takes the other for hostile: names have the
 * form that names of approvals have, and what does not belong together is refused. */
#include "config/message/message_approval.h"

#include <string.h>

#include "config/format/wire.h"
#include "config/message/message.pb-c.h"

void approval_query_to_message(const struct msg_approval_query *query, Immure__MsgApprovalQuery *ret)
{
    immure__msg_approval_query__init(ret);
    ret->id = query->id;
    ret->what = query->what;
    ret->key = (ProtobufCBinaryData){.len = strlen(query->key), .data = (uint8_t *)wire_text(query->key)};
    ret->approval_id = query->what == APPROVAL_LIST ? NULL : wire_text(query->approval_id);
    if (query->what == APPROVAL_DECIDE) {
        ret->has_approve = true;
        ret->approve = query->approve;
        ret->reason = wire_text(query->reason);
    }
}

void approval_answer_to_message(const struct msg_approval_answer *answer, Immure__MsgApprovalAnswer *ret)
{
    immure__msg_approval_answer__init(ret);
    ret->id = answer->id;
    if (answer->kind != ERR_NONE) {
        ret->has_kind = true;
        ret->kind = answer->kind;
        ret->item = wire_text(answer->item);
        ret->text = wire_text(answer->text);
    }
    ret->has_not_needed = ret->not_needed = answer->not_needed;
}

void approval_changed_to_message(const struct msg_approval_changed *changed, Immure__MsgApprovalChanged *ret)
{
    immure__msg_approval_changed__init(ret);
    ret->approval_id = wire_text(changed->approval_id);
    ret->state = changed->state;
    ret->reason = wire_text(changed->reason);
}

void approval_run_to_message(const struct msg_approval_run *run, Immure__MsgApprovalRun *ret)
{
    immure__msg_approval_run__init(ret);
    ret->approval_id = wire_text(run->approval_id);
}

void run_to_message(const struct msg_approval_run *run, Immure__MsgRun *ret)
{
    immure__msg_run__init(ret);
    ret->id = run->id;
    ret->approval_id = wire_text(run->approval_id);
}

static int take_id(const char *text, char ret[APPROVAL_ID_BYTES], const char *field, struct err *reterr)
{
    if (!approval_id_is_valid(text)) {
        return wire_refuse(reterr, field, "is not the name of an approval");
    }
    memcpy(ret, text, APPROVAL_ID_BYTES);
    return 0;
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

int approval_query_from_message(const Immure__MsgApprovalQuery *message, struct msg_approval_query *ret,
                                struct err *reterr)
{
    struct msg_approval_query query = {.id = message->id};
    if (message->what >= APPROVAL_QUERY_COUNT) {
        return wire_refuse(reterr, "approval_query.what", "is not a known query");
    }
    query.what = (enum approval_query)message->what;
    bool decides = query.what == APPROVAL_DECIDE;
    if (message->key.len >= sizeof query.key ||
        (message->key.len > 0 && memchr(message->key.data, '\0', message->key.len))) {
        return wire_refuse(reterr, "approval_query.key", "is not a key");
    }
    if ((query.what == APPROVAL_LIST) != !message->approval_id || decides != message->has_approve ||
        decides != (message->reason != NULL)) {
        return wire_refuse(reterr, "approval_query", "has what it needs not, or has not what it needs");
    }
    if (message->key.len > 0) {
        memcpy(query.key, message->key.data, message->key.len);
    }
    query.approve = message->approve;
    int r = message->approval_id
                ? take_id(message->approval_id, query.approval_id, "approval_query.approval_id", reterr)
                : 0;
    if (r == 0 && decides) {
        r = take_text(message->reason, query.reason, sizeof query.reason, "approval_query.reason", reterr);
    }
    if (r == 0) {
        *ret = query;
    }
    return r;
}

/* A refusal has a kind, an item and a text; anything else none of them. */
int approval_answer_from_message(const Immure__MsgApprovalAnswer *message, struct msg_approval_answer *ret,
                                 struct err *reterr)
{
    struct msg_approval_answer answer = {.id = message->id, .not_needed = message->not_needed};
    bool refusal = message->has_kind;
    if (refusal != (message->text != NULL) || refusal != (message->item != NULL) ||
        (refusal && message->has_not_needed) || message->has_not_needed != message->not_needed) {
        return wire_refuse(reterr, "approval_answer", "has what does not go together");
    }
    if (refusal && (message->kind == ERR_NONE || message->kind > ERR_UNAVAILABLE)) {
        return wire_refuse(reterr, "approval_answer.kind", "is not a known kind of error");
    }
    int r = 0;
    if (refusal) {
        answer.kind = (enum err_kind)message->kind;
        r = take_text(message->item, answer.item, sizeof answer.item, "approval_answer.item", reterr);
        r = r < 0 ? r
                  : take_text(message->text, answer.text, sizeof answer.text, "approval_answer.text", reterr);
    }
    if (r == 0) {
        *ret = answer;
    }
    return r;
}

int approval_changed_from_message(const Immure__MsgApprovalChanged *message, struct msg_approval_changed *ret,
                                  struct err *reterr)
{
    if (message->state >= APPROVAL_STATE_COUNT) {
        return wire_refuse(reterr, "approval_changed.state", "is not a known state");
    }
    ret->state = (enum approval_state)message->state;
    int r = take_id(message->approval_id, ret->approval_id, "approval_changed.approval_id", reterr);
    return r < 0 ? r
                 : take_text(message->reason, ret->reason, sizeof ret->reason, "approval_changed.reason",
                             reterr);
}

int approval_run_from_message(const Immure__MsgApprovalRun *message, struct msg_approval_run *ret,
                              struct err *reterr)
{
    return take_id(message->approval_id, ret->approval_id, "approval_run.approval_id", reterr);
}

int run_from_message(const Immure__MsgRun *message, struct msg_approval_run *ret, struct err *reterr)
{
    ret->id = message->id;
    return take_id(message->approval_id, ret->approval_id, "run.approval_id", reterr);
}
