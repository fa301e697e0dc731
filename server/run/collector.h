/* struct collector: lists the output files of one job beside the warden, where that takes a while. */
#pragma once

struct collector;
struct err;
struct filled;
struct job;
struct job_result;
struct output_limits;

/* Forks the process; call while single-threaded. It ends with its parent. */
int collector_start(int scratch_fd, const struct job *job, const struct filled *filled,
                    const struct output_limits *limits, struct collector **ret, struct err *reterr);
/* Readable when it has ended. */
int collector_fd(const struct collector *collector);
/* What outputs_collect() gave, which is now the caller's: `files`, `n_files` and `files_truncated`. */
int collector_end(struct collector *collector, struct job_result *ret, struct err *reterr);
/* Ends it, in the midst of its work if need be. Takes NULL. */
void collector_free(struct collector *collector);
