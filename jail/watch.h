/* The memory and CPU watch: what a jail uses, measured from outside, where no cgroup controller limits it.
 *
 * It looks at a jail again before the jail could have passed a limit by much, judged by the room that is
 * left. It counts anonymous memory, shared memory that is mapped, and the scratch tmpfs. It cannot see what
 * only a memory controller sees: pipe and socket buffers, page tables, anonymous files that nobody has
 * mapped. */
#pragma once

#include <stdint.h>

struct err;
struct jail;

/* How often jail_watch() wants to be called while a jail runs; most calls return at once. */
#define JAIL_WATCH_INTERVAL_MS 5

/* When it wants to be called next at the earliest, on the clock of clock_now_ns(). */
uint64_t jail_watch_due_ns(const struct jail *jail);

/* Ends the jail with JAIL_END_OOM where it has no cgroup and passes limits.memory_bytes, with JAIL_END_CPU
 * where it passes limits.cpu_ms. `scratch_fd` (-1: none) is the jail's scratch. */
void jail_watch(struct jail *jail, int scratch_fd);

/* What the jail's processes hold in memory now, in bytes: their share of everything (PSS), and what nobody
 * else maps. */
void jail_watch_memory(const struct jail *jail, uint64_t *ret_pss_bytes, uint64_t *ret_private_bytes);

/* Memory that the jail's processes and its scratch hold, and CPU time that they have used: its cgroup's
 * figures, or what jail_watch() has seen last, in which pages that processes share count for each of them. */
void jail_watch_usage(const struct jail *jail, int scratch_fd, uint64_t *ret_memory_bytes,
                      uint64_t *ret_cpu_ns);

/* 0 if this host's /proc tells what the watch needs, else ERR_HOST. */
int jail_watch_probe(struct err *reterr);
