/* The environment as it was at start, kept where no child can see it, so that a reload reads the same
 * variables. */
#pragma once

#include <stddef.h>

struct err;

/* Copies `env` into an anonymous file. */
int environment_save(char *const *env, int *ret_fd, struct err *reterr);

struct environment {
    char **vars; /* `environ`-shaped */
    char *text;
    size_t size;
};

/* Reads it back; environment_wipe() overwrites and frees the copy. */
int environment_restore(int fd, struct environment *ret, struct err *reterr);
void environment_wipe(struct environment *environment);
