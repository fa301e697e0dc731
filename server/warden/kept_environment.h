/* The environment as it was at start, kept where no child can see it, so that a reload reads the same
 * variables. */
#pragma once

#include <stddef.h>

struct err;

/* Copies `env` into an anonymous file. */
int kept_environment_save(char *const *env, int *ret_fd, struct err *reterr);

struct kept_environment {
    char **vars; /* `environ`-shaped */
    char *text;
    size_t size;
};

/* Reads it back; kept_environment_wipe() overwrites and frees the copy. */
int kept_environment_restore(int fd, struct kept_environment *ret, struct err *reterr);
void kept_environment_wipe(struct kept_environment *environment);
