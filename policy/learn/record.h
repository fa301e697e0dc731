/* Runs a trusted program and writes down what it does. */
#pragma once

#include <stddef.h>

struct err;
struct observed;

struct record_options {
    char *const *argv; /* ends with NULL; argv[0] without a '/' is looked for in PATH of `env` */
    char *const *env;  /* NAME=VALUE; ends with NULL */
    int stdin_fd;      /* from its beginning, where it has one */
    int stdout_fd;
};

/* Adds to `observed`, which may hold earlier runs. `*ret_status`: how the program ended, as waitpid() says
 * it; exit code 127: it could not be started. When it ends, so does all that it has started. A Ctrl-C is
 * noted in `observed`; other signals end the program and then this process. ERR_HOST: this host lets nobody
 * watch. */
int record_run(const struct record_options *options, struct observed *observed, int *ret_status,
               struct err *reterr);
