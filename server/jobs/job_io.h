/* struct job_io: the front's ends of a job's stdin, stdout and stderr. */
#pragma once

#include <stddef.h>

struct capture;
struct err;
struct job_io;
struct loop;

/* The program's ends, in this order; the caller closes them once they are with the warden. */
enum job_io_end { JOB_IO_STDIN, JOB_IO_STDOUT, JOB_IO_STDERR, JOB_IO_ENDS };

/* Three pipes. What stdin's takes of `stdin_data` is written at once, the rest as the program reads it. Takes
 * `stdin_data` (malloc'ed, NULL: nothing) where it succeeds. */
int job_io_new(struct loop *loop, size_t output_limit_bytes, char *stdin_data, size_t stdin_size,
               int ret_ends[JOB_IO_ENDS], struct job_io **ret, struct err *reterr);
void job_io_free(struct job_io *io); /* takes NULL */

/* Called after output has come. */
void job_io_on_output(struct job_io *io, void (*output)(void *arg), void *arg);

/* The program has ended: takes what is still in the pipes and cuts the output at `output_limit_bytes` (0: as
 * it is). Never waits, even if somebody still held the other end. */
int job_io_finish(struct job_io *io, size_t output_limit_bytes, struct err *reterr);
const struct capture *job_io_capture(const struct job_io *io);
