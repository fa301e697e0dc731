/* The verdict: what a jail reports, put into the words of the contract. Pure. */
#pragma once

#include <stddef.h>

#include "config/message/job.h"

struct err;
struct jail_result;

/* Fills status, exit code, signal, killed, oom, times, usage, denied calls, step and sentence of `*ret` from
 * how the jail ended; the other members stay as they are. `setup` is jail_collect()'s error of a
 * JAIL_END_SETUP. `ret->limits` must hold what applied, since sentences name it. Returns 0 or -ENOMEM;
 * job_result_clear() takes both. */
int verdict_from_jail(const struct jail_result *jail, const struct err *setup, struct job_result *ret);

/* The same for a jail that never came to be. */
int verdict_from_setup_error(const struct err *setup, struct job_result *ret);
