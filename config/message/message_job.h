/* Jobs and results as messages: the large ones of message.c, which is alone in calling this. */
#pragma once

#include <stddef.h>

struct Immure__MsgDone;
struct Immure__MsgJob;
struct Immure__MsgOutputs;
struct err;
struct job;
struct job_result;
struct msg_outputs;
struct pool;

/* Fill a message whose texts are the struct's own and whose arrays lie in the pool. A failure sticks in the
 * pool. */
void job_to_message(const struct job *job, struct pool *pool, struct Immure__MsgJob *ret);
void job_result_to_message(const struct job_result *result, struct pool *pool, struct Immure__MsgDone *ret);

void outputs_to_message(const struct msg_outputs *outputs, struct pool *pool, struct Immure__MsgOutputs *ret);

/* Check and copy. ERR_INVALID names the field that no honest peer would have sent. */
int job_from_message(const struct Immure__MsgJob *message, struct job **ret, struct err *reterr);
int outputs_from_message(const struct Immure__MsgOutputs *message, struct msg_outputs *ret,
                         struct err *reterr);
int job_result_from_message(const struct Immure__MsgDone *message, const int *fds, size_t n_fds,
                            struct job_result *ret, struct err *reterr);
