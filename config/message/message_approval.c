/* What front and warden say about approvals. As with jobs, each takes the other for hostile: names have the
 * form that names of approvals have, and what does not belong together is refused. */
#include "config/message/message_approval.h"

#include "config/format/wire.h"
#include "config/message/message.pb-c.h"

#define ID .valid = approval_id_is_valid, .why = "is not the name of an approval"

#define ROW(own, ...) BIND(struct msg_approval_query, Immure__MsgApprovalQuery, own, own, __VA_ARGS__)
#define OF(...)       BIND_CASES(struct msg_approval_query, what, __VA_ARGS__)
static const struct bind_row query_rows[] = {
    ROW(id),
    ROW(what, .most = APPROVAL_QUERY_COUNT - 1),
    ROW(key),
    ROW(approval_id, OF(1u << APPROVAL_GET | 1u << APPROVAL_DECIDE), ID),
    ROW(approve, OF(1u << APPROVAL_DECIDE)),
    ROW(reason, OF(1u << APPROVAL_DECIDE)),
};
#undef OF
#undef ROW
const struct bind_table approval_query_table = {
    .name = "approval_query",
    BIND_TABLE_OF(struct msg_approval_query, immure__msg_approval_query__descriptor, query_rows),
    .whole = true,
};

static int check_answer(const void *object, struct err *reterr)
{
    const struct msg_approval_answer *answer = object;
    return answer->kind != ERR_NONE && answer->not_needed
               ? wire_refuse(reterr, "approval_answer", "has what does not go together")
               : 0;
}

/* A refusal has a kind, an item and a text; anything else none of them. */
#define ROW(own, ...) BIND(struct msg_approval_answer, Immure__MsgApprovalAnswer, own, own, __VA_ARGS__)
static const struct bind_row answer_rows[] = {
    ROW(id),
    ROW(kind, .most = ERR_UNAVAILABLE),
    ROW(item, BIND_CASES(struct msg_approval_answer, kind, ~(1u << ERR_NONE))),
    ROW(text, BIND_CASES(struct msg_approval_answer, kind, ~(1u << ERR_NONE))),
    ROW(not_needed),
};
#undef ROW
const struct bind_table approval_answer_table = {
    .name = "approval_answer",
    BIND_TABLE_OF(struct msg_approval_answer, immure__msg_approval_answer__descriptor, answer_rows),
    .check = check_answer,
    .whole = true,
};

#define ROW(own, ...) BIND(struct msg_approval_changed, Immure__MsgApprovalChanged, own, own, __VA_ARGS__)
static const struct bind_row changed_rows[] = {ROW(approval_id, ID),
                                               ROW(state, .most = APPROVAL_STATE_COUNT - 1), ROW(reason)};
#undef ROW
const struct bind_table approval_changed_table = {
    .name = "approval_changed",
    BIND_TABLE_OF(struct msg_approval_changed, immure__msg_approval_changed__descriptor, changed_rows),
};

static const struct bind_row approval_run_rows[] = {
    BIND(struct msg_approval_run, Immure__MsgApprovalRun, approval_id, approval_id, ID)};
const struct bind_table approval_run_table = {
    .name = "approval_run",
    BIND_TABLE_OF(struct msg_approval_run, immure__msg_approval_run__descriptor, approval_run_rows),
};

static const struct bind_row run_rows[] = {
    BIND(struct msg_approval_run, Immure__MsgRun, id, id),
    BIND(struct msg_approval_run, Immure__MsgRun, approval_id, approval_id, ID),
};
const struct bind_table run_table = {
    .name = "run", BIND_TABLE_OF(struct msg_approval_run, immure__msg_run__descriptor, run_rows)};
