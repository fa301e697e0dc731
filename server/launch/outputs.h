/* Files that a program has left, copied into its caller's directory. */
#pragma once

struct err;
struct job_output_file;

/* Below `dirfd`, under the file's own path, whose directories are made; no link is followed, and nothing that
 * is there is written to. ERR_INVALID says why one was not copied; nothing of it is left then. */
int launch_output_copy(int dirfd, const struct job_output_file *file, struct err *reterr);
