/* Queries about sessions, their answers, and both as messages; message.c is alone in calling these functions.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "config/message/job.h"
#include "jail/base/err.h"

struct Immure__MsgSessionAnswer;
struct Immure__MsgSessionQuery;
struct pool;

enum session_query { SESSION_LIST, SESSION_DELETE, SESSION_QUERY_COUNT };

struct msg_session_query {
    uint64_t id;
    enum session_query what;
    char key[65];                      /* the calling key's name */
    char session_id[SESSION_ID_BYTES]; /* DELETE; else "" */
};

/* Times are milliseconds since the epoch. */
struct session_row {
    char session_id[SESSION_ID_BYTES];
    uint64_t created_ms, used_ms, expires_ms; /* expires_ms 0: not while its jobs run */
    uint64_t bytes, files;
    uint32_t jobs;
};
#define MSG_SESSIONS_MAX 512

struct msg_session_answer {
    uint64_t id;
    enum err_kind kind; /* ERR_NONE: done */
    char text[512];
    struct session_row *rows; /* owned */
    size_t n_rows;
};

/* Texts stay the struct's own; rows lie in the pool, where a failure sticks. */
void session_query_to_message(const struct msg_session_query *query, struct Immure__MsgSessionQuery *ret);
void session_answer_to_message(const struct msg_session_answer *answer, struct pool *pool,
                               struct Immure__MsgSessionAnswer *ret);

/* Check and copy. ERR_INVALID names the field that no honest peer would have sent. */
int session_query_from_message(const struct Immure__MsgSessionQuery *message, struct msg_session_query *ret,
                               struct err *reterr);
int session_answer_from_message(const struct Immure__MsgSessionAnswer *message,
                                struct msg_session_answer *ret, struct err *reterr);
