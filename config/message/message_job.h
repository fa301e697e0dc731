/* Jobs and results as tables of their messages, the large ones, for message.c and approval.c; and what else
 * is said of a job that runs. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "config/format/bind.h"
#include "config/message/job.h"

struct err;

/* Paths in the jail of files that a running job wants returned, instead of those that it named before. */
struct msg_outputs {
    uint64_t id;
    char **paths;
    size_t n_paths;
};
void msg_outputs_clear(struct msg_outputs *outputs); /* of a received one */

/* As a number of descriptors: those of a MSG_DONE could not be received, and its files have none. */
#define MSG_FDS_LOST SIZE_MAX

extern const struct bind_table limits_table, job_table, outputs_table, job_result_table;

/* Puts the descriptors that came beside a result that was read into their places. ERR_INVALID where they are
 * not as many as it says; then they are still the caller's, and the result has none of them. */
int job_result_attach(struct job_result *result, const int *fds, size_t n_fds, struct err *reterr);
