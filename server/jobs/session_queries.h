/* Requests about sessions, which the warden answers. */
#pragma once

#include "config/message/message.h"

struct channel;
struct err;
struct front;
struct request;
struct session_queries;

/* Both stay the caller's. */
int session_queries_new(struct front *front, struct channel *channel, struct session_queries **ret,
                        struct err *reterr);
/* Forgets what is still open; the requests must have ended. Takes NULL. */
void session_queries_free(struct session_queries *queries);

/* Asks on behalf of the request's caller; the request is answered when the warden has. `asked` without `id`
 * and `key`; `content` is a sealed file of SESSION_FILE_PUT, which stays the caller's, else -1. */
int session_query_send(struct request *request, const struct msg_session_query *asked, int content,
                       struct err *reterr);
/* The request has ended, whether it waited for an answer or not. */
void session_query_forget(struct request *request);

/* `fd` came with the answer, or is -1; it stays the caller's. -ENOENT where the warden answers what it was
 * not asked. */
int session_queries_answered(struct session_queries *queries, const struct msg_session_answer *answer,
                             int fd);
