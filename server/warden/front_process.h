/* Starts the front: our own binary again, without privileges, with two descriptors. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

struct front_process_options {
    int executable_fd; /* of our own binary */
    int listen_fd;
    bool change_ids; /* become `uid`:`uid`; else stay who we are, in a user namespace */
    uint32_t uid;
    bool host_network; /* may connect; else it has an empty network, and the listening socket */
};

struct front_process {
    pid_t pid;
    int pidfd;
    int channel_fd; /* our end */
};

/* Clones and executes. Returns once the front's exec has happened; a failure names the step. Single-threaded
 * callers only. */
int front_process_start(const struct front_process_options *options, struct front_process *ret,
                        struct err *reterr);
