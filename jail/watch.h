/* The memory and CPU watch: what a jail uses, measured from outside, where no cgroup controller does it. */
#pragma once

#include <stdint.h>

struct jail;

/* Reads the jail's process tree once and ends the jail with JAIL_END_OOM or JAIL_END_CPU where a limit is passed.
 * `scratch_fd` (-1: none) adds the scratch tmpfs's pages. Cheap unless the jail is near its limit. Call every
 * JAIL_WATCH_INTERVAL_MS while the jail runs. */
#define JAIL_WATCH_INTERVAL_MS 10
void jail_watch(struct jail *jail, int scratch_fd);
