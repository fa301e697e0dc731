/* What front and warden say about approvals, as messages; message.c is alone in calling this. */
#pragma once

struct Immure__MsgApprovalAnswer;
struct Immure__MsgApprovalChanged;
struct Immure__MsgApprovalQuery;
struct Immure__MsgApprovalRun;
struct Immure__MsgRun;
struct Immure__MsgSubmit;
struct err;
struct msg;

/* Texts stay the message's own. */
void submit_to_message(const struct msg *msg, struct Immure__MsgSubmit *ret);
void approval_query_to_message(const struct msg *msg, struct Immure__MsgApprovalQuery *ret);
void approval_answer_to_message(const struct msg *msg, struct Immure__MsgApprovalAnswer *ret);
void approval_changed_to_message(const struct msg *msg, struct Immure__MsgApprovalChanged *ret);
void approval_run_to_message(const struct msg *msg, struct Immure__MsgApprovalRun *ret);
void run_to_message(const struct msg *msg, struct Immure__MsgRun *ret);

/* Check and copy. ERR_INVALID names the field that no honest peer would have sent. */
int approval_query_from_message(const struct Immure__MsgApprovalQuery *message, struct msg *ret,
                                struct err *reterr);
int approval_answer_from_message(const struct Immure__MsgApprovalAnswer *message, struct msg *ret,
                                 struct err *reterr);
int approval_changed_from_message(const struct Immure__MsgApprovalChanged *message, struct msg *ret,
                                  struct err *reterr);
int approval_run_from_message(const struct Immure__MsgApprovalRun *message, struct msg *ret,
                              struct err *reterr);
int run_from_message(const struct Immure__MsgRun *message, struct msg *ret, struct err *reterr);
