/* Asynchronous jobs, which the warden keeps: what it is told of them, and what callers ask it. Each belongs
 * to the key that started it. */
#pragma once

#include "config/message/message.h"

struct buf;
struct channel;
struct err;
struct front;
struct kept_queries;
struct request;

/* Both stay the caller's. */
int kept_queries_new(struct front *front, struct channel *channel, struct kept_queries **ret,
                     struct err *reterr);
/* Forgets what is still open; the requests must have ended. Takes NULL. */
void kept_queries_free(struct kept_queries *queries);

/* A row for a job that starts now, under an id of its own. */
void kept_row_begin(struct kept_row *ret, const char *execution_id, const char *runtime);
/* 202: it runs. */
void kept_row_reply_accepted(const struct kept_row *row, struct request *request);
/* Tells the warden what the job of this number has come to; takes the reply, an empty one if it was lost. */
void kept_result_send(struct kept_queries *queries, uint64_t id, const char *status, struct buf *reply);

/* Asks with the key that the request's caller has shown; the request is answered when the warden has.
 * `job_id` is of all but LIST, `reason` ("": none) of DELETE. */
int kept_query_send(struct request *request, enum kept_query what, const char *job_id, const char *reason,
                    struct err *reterr);
/* The request has ended, whether it waited for an answer or not. */
void kept_query_forget(struct request *request);
/* `reply_fd` -1: there is no reply. -ENOENT where the warden answers what it was not asked. */
int kept_queries_answered(struct kept_queries *queries, const struct msg_kept_answer *answer, int reply_fd);
