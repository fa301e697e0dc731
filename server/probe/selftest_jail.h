/* A trial jail, for `immure check`. */
#pragma once

#include <stddef.h>

#include "jail/resources/cgroup.h"

struct runtime_config;

/* Runs `argv`, a path with up to two arguments, under the shipped `policy` in a forked child, since making
 * jails changes what this process is. The jail shows `interpreter`, which was examined. 0 if it succeeded;
 * else -1 and `ret` holds a sentence. */
int selftest_jail(const char *policy, enum cgroup_mode mode, const struct runtime_config *interpreter,
                  const char *const argv[], char *ret, size_t size);
