/* Queries about sessions, and their answers, as messages; message.c is alone in calling this. */
#pragma once

struct Immure__MsgSessionAnswer;
struct Immure__MsgSessionQuery;
struct err;
struct msg_session_answer;
struct msg_session_query;
struct pool;

/* Texts stay the struct's own; rows lie in the pool, where a failure sticks. */
void session_query_to_message(const struct msg_session_query *query, struct Immure__MsgSessionQuery *ret);
void session_answer_to_message(const struct msg_session_answer *answer, struct pool *pool,
                               struct Immure__MsgSessionAnswer *ret);

/* Check and copy. ERR_INVALID names the field that no honest peer would have sent. */
int session_query_from_message(const struct Immure__MsgSessionQuery *message, struct msg_session_query *ret,
                               struct err *reterr);
int session_answer_from_message(const struct Immure__MsgSessionAnswer *message,
                                struct msg_session_answer *ret, struct err *reterr);
