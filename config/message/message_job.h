/* Jobs and results as messages, the large ones, for message.c and approval.c; and what else is said of a job
 * that runs. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "config/message/job.h"

struct Immure__MsgDone;
struct Immure__MsgJob;
struct Immure__MsgLimits;
struct Immure__MsgOutputs;
struct err;
struct pool;

/* Paths in the jail of files that a running job wants returned, instead of those that it named before. */
struct msg_outputs {
    uint64_t id;
    char **paths;
    size_t n_paths;
};
void msg_outputs_clear(struct msg_outputs *outputs); /* of a received one */

/* As a number of descriptors: those of a MSG_DONE could not be received, and its files have none. */
#define MSG_FDS_LOST SIZE_MAX

/* Fill a message whose texts are the struct's own and whose arrays lie in the pool. A failure sticks in the
 * pool. */
void job_to_message(const struct job *job, struct pool *pool, struct Immure__MsgJob *ret);
void job_result_to_message(const struct job_result *result, struct pool *pool, struct Immure__MsgDone *ret);

void outputs_to_message(const struct msg_outputs *outputs, struct pool *pool, struct Immure__MsgOutputs *ret);

struct Immure__MsgLimits *limits_to_message(const struct job_limits *limits, struct pool *pool);
int limits_from_message(const struct Immure__MsgLimits *message, struct job_limits *ret, struct err *reterr);

/* Check and copy. ERR_INVALID names the field that no honest peer would have sent. */
int job_from_message(const struct Immure__MsgJob *message, struct job **ret, struct err *reterr);
int outputs_from_message(const struct Immure__MsgOutputs *message, struct msg_outputs *ret,
                         struct err *reterr);
int job_result_from_message(const struct Immure__MsgDone *message, const int *fds, size_t n_fds,
                            struct job_result *ret, struct err *reterr);
