/* The environment of a program that is watched: what a jail of the part "debian" has, and what its caller
 * adds. */
#pragma once

#include <stddef.h>

struct err;

#define GIVEN_ENV_MAX      256u
#define GIVEN_LEFT_OUT_MAX 6u

/* All end with NULL. learn_given_clear(). */
struct learn_given {
    char *env[GIVEN_ENV_MAX + 1];           /* NAME=VALUE, each name once */
    char *own[GIVEN_ENV_MAX + 1];           /* of these, what the policy has to set; not owned */
    char *left_out[GIVEN_LEFT_OUT_MAX + 1]; /* names that the caller has and the program has not */
    size_t n_env, n_own, n_left_out;
};

/* For `program`, which is looked for in a jail's PATH and then in the caller's. `chosen`: NAME=VALUE, or NAME
 * for the caller's value; the last of one name counts. ERR_INVALID: with what is wrong. */
int learn_given_make(const char *program, const char *const *chosen, size_t n_chosen, struct learn_given *ret,
                     struct err *reterr);
void learn_given_clear(struct learn_given *given);
