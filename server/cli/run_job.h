/* The options of `immure run`, and the job they make. */
#pragma once

#include <stdint.h>

#include "server/cli/options.h"

struct err;
struct job;

struct run_options {
    const char *policy, *cgroup, *report;
    uint64_t timeout_ms, memory_bytes, pids, cpu_ms, outer_uid;
    struct option_list env, files;
};

/* The job that the options wish for. `*ret_input_fd` holds the contents of its files, -1 where it has none.
 */
int run_job_make(const struct run_options *options, struct job **ret, int *ret_input_fd, struct err *reterr);
