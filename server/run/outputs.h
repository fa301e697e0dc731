/* Which files of a job's workspace go into its result. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct err;
struct job;
struct job_result;
struct scratch_list;

struct output_limits {
    size_t files_max;        /* names listed */
    uint64_t file_bytes_max; /* of one file whose content is attached */
    uint64_t all_bytes_max;  /* of all of them */
    size_t entries_max;      /* names looked at; 0: as many as a scratch can hold */
};

/* How much matching one result may cost (server/run/glob.h); what is looked at then counts as cut off. */
#define OUTPUTS_STEPS_MAX (UINT64_C(1) << 28)
/* What the warden does itself: matching of some milliseconds, and so many names. */
#define OUTPUTS_QUICK_STEPS   (UINT64_C(1) << 20)
#define OUTPUTS_QUICK_ENTRIES 512u

/* Lists the workspace behind `scratch_fd` into `ret->files`: files that `job->outputs` or `job->named` names,
 * with their content open where it is within the limit, and files that the program wrote, told from unchanged
 * inputs by `before` (the workspace as the program found it). Sorted by path; asked ones first where not all
 * fit. Sets `ret->files_truncated`. */
int outputs_collect(int scratch_fd, const struct job *job, const struct scratch_list *before,
                    const struct output_limits *limits, struct job_result *ret, struct err *reterr);
/* The same if it is done at once; 1: it is not, and `*ret` is as it was. */
int outputs_collect_quick(int scratch_fd, const struct job *job, const struct scratch_list *before,
                          const struct output_limits *limits, struct job_result *ret, struct err *reterr);
