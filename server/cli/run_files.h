/* What a command is shown of its caller's files: by options, and by its own arguments. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "server/launch/binds.h"

struct err;
struct host;
struct job_result;
struct policy;
struct run_options;

struct run_files {
    struct launch_binds binds;
    char *working_directory; /* the caller's, with --cwd; NULL: the policy's */
    char *program;           /* the command itself, where it is a file that is shown */
    char **copies;           /* NAME=PATH, which `options->files` refers to */
    size_t n_copies;
};

/* Adds copies to `options->files`, and puts the place of a program that lies here into `argv[0]`. */
int run_files_find(struct run_files *files, struct run_options *options, const struct policy *policy,
                   char **argv, size_t n_argv, struct err *reterr);
/* Opens what is to be shown. */
int run_files_open(struct run_files *files, const struct host *host, struct err *reterr);
void run_files_clear(struct run_files *files);

/* Copies what --out names into the caller's directory, and says on stderr what cannot be. True if all is
 * there. */
bool run_files_take(const char *command, const struct run_options *options, const struct job_result *result);
