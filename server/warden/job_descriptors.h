/* What a front gives along with a job. */
#pragma once

#include "config/message/message.h"

/* The descriptors of MSG_JOB, in their order. */
enum {
    JOB_FD_INPUT,
    JOB_FD_STDIN,
    JOB_FD_STDOUT,
    JOB_FD_STDERR,
    JOB_FD_BRIDGE_IN, /* of the program: -1 in the self-test's jobs */
    JOB_FD_BRIDGE_OUT,
    JOB_FD_COUNT,
};
_Static_assert(JOB_FD_COUNT == MSG_JOB_FDS, "the message and its reader count differently");

/* NULL, or which rule the front has broken. */
/* An anonymous file that nobody can change any more. */
bool job_descriptors_is_sealed(int fd);
const char *job_descriptors_check(const int fds[JOB_FD_COUNT]);
/* The same for all but the input. */
const char *job_descriptors_check_pipes(const int fds[JOB_FD_COUNT]);
