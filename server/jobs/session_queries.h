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
/* The same, but what the warden says is handed to `then`, which answers the request or asks on; `fd` came
 * with it, or is -1, and stays the caller's. `then` is not called where the request has ended before. */
typedef void (*session_query_then)(struct request *request, const struct msg_session_answer *answer, int fd);
int session_query_ask(struct request *request, const struct msg_session_query *asked, int content,
                      session_query_then then, struct err *reterr);
/* The same for the content of a file, SESSION_FILE_PUT; `then` NULL: as session_query_send(). */
int session_query_put(struct request *request, const struct msg_session_query *asked, const char *data,
                      size_t size, session_query_then then, struct err *reterr);
/* The request no longer wants to know: the query is sent, and nobody hears the answer. */
int session_query_tell(struct request *request, const struct msg_session_query *asked, struct err *reterr);

/* Reads what comes with an answer to SESSION_LIST or SESSION_FILES. */
int session_query_read_rows(int fd, struct session_rows *ret, struct err *reterr);
/* Refuses the request in the words of an answer that is none; `field` may be "". */
void session_query_refuse(struct request *request, const struct msg_session_answer *answer,
                          const char *field);
/* The request has ended, whether it waited for an answer or not. */
void session_query_forget(struct request *request);

/* `fd` came with the answer, or is -1; it stays the caller's. -ENOENT where the warden answers what it was
 * not asked. */
int session_queries_answered(struct session_queries *queries, const struct msg_session_answer *answer,
                             int fd);
