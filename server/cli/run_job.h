/* The options of `immure run` and `immure shell`, and the job they make. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "jail/resources/cgroup.h"
#include "server/cli/options.h"

#define CGROUP_VARIABLE "SANDBOX_EXECUTOR_CGROUP"

struct err;
struct job;

struct run_options {
    const char *policy, *cgroup, *report, *image, *net;
    bool cwd;
    uint64_t timeout_ms, memory_bytes, pids, cpu_ms, outer_uid;
    struct option_list env, files, read_only, writable, out;
};

/* The job that the options wish for. `*ret_input_fd` holds the contents of its files, -1 where it has none.
 */
int run_job_make(const struct run_options *options, struct job **ret, int *ret_input_fd, struct err *reterr);

/* From the option `--cgroup`, else from the variable that sets it for a server: 1; 0: none of both is given,
 * and `*ret` is as it was. */
int run_cgroup_mode(const char *option, enum cgroup_mode *ret, struct err *reterr);
