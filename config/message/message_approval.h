/* What front and warden say about approvals, and that as messages; message.c is alone in calling these
 * functions. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/message/approval.h"
#include "jail/base/err.h"

struct Immure__MsgApprovalAnswer;
struct Immure__MsgApprovalChanged;
struct Immure__MsgApprovalQuery;
struct Immure__MsgApprovalRun;
struct Immure__MsgRun;

enum approval_query { APPROVAL_LIST, APPROVAL_GET, APPROVAL_DECIDE, APPROVAL_QUERY_COUNT };

struct msg_approval_query {
    uint64_t id;
    enum approval_query what;
    char key[APPROVAL_KEY_BYTES]; /* as it was shown; "" where the server is open */
    char approval_id[APPROVAL_ID_BYTES];
    bool approve;                       /* of DECIDE */
    char reason[APPROVAL_REASON_BYTES]; /* of DECIDE; else "" */
};

struct msg_approval_answer {
    uint64_t id;
    enum err_kind kind; /* ERR_NONE: done */
    char item[256], text[512];
    bool not_needed;
};

struct msg_approval_changed {
    char approval_id[APPROVAL_ID_BYTES];
    enum approval_state state;
    char reason[APPROVAL_REASON_BYTES];
};

/* Of MSG_APPROVAL_RUN, which tells no id, and of MSG_RUN. */
struct msg_approval_run {
    uint64_t id;
    char approval_id[APPROVAL_ID_BYTES];
};

/* Texts stay the message's own. */
void approval_query_to_message(const struct msg_approval_query *query, struct Immure__MsgApprovalQuery *ret);
void approval_answer_to_message(const struct msg_approval_answer *answer,
                                struct Immure__MsgApprovalAnswer *ret);
void approval_changed_to_message(const struct msg_approval_changed *changed,
                                 struct Immure__MsgApprovalChanged *ret);
void approval_run_to_message(const struct msg_approval_run *run, struct Immure__MsgApprovalRun *ret);
void run_to_message(const struct msg_approval_run *run, struct Immure__MsgRun *ret);

/* Check and copy. ERR_INVALID names the field that no honest peer would have sent. */
int approval_query_from_message(const struct Immure__MsgApprovalQuery *message,
                                struct msg_approval_query *ret, struct err *reterr);
int approval_answer_from_message(const struct Immure__MsgApprovalAnswer *message,
                                 struct msg_approval_answer *ret, struct err *reterr);
int approval_changed_from_message(const struct Immure__MsgApprovalChanged *message,
                                  struct msg_approval_changed *ret, struct err *reterr);
int approval_run_from_message(const struct Immure__MsgApprovalRun *message, struct msg_approval_run *ret,
                              struct err *reterr);
int run_from_message(const struct Immure__MsgRun *message, struct msg_approval_run *ret, struct err *reterr);
