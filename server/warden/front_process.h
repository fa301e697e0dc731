/* Starts the front: a program of its own, without privileges, with two descriptors. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

/* Its file, which is looked for beside our own binary (server/host/programs.h). */
#define FRONT_PROGRAM "immure-front"

struct front_process_options {
    int executable_fd; /* of FRONT_PROGRAM; O_PATH will do */
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
