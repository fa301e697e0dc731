/* The processes of a jail, as /proc tells of them from outside. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct census_process {
    pid_t pid;
    pid_t memory_tid; /* a thread that has the memory: the first one may have ended before the others */
    uint64_t resident_bytes; /* shared pages included, and what the host has swapped out */
    uint64_t cpu_ns;         /* its own and that of all it has reaped */
    uint64_t clock_ns;       /* its CPU clock, to the nanosecond; read before all else */
};

struct census {
    struct census_process *processes;
    size_t n, cap;
    bool host_swaps; /* something of somebody's is swapped out */
};

/* Finds `first` and everything below it. What is gone by the time it is looked at counts nothing. */
void census_take(struct census *ret, pid_t first);
void census_free(struct census *census);
/* False if no process of the jail has run since: then there are no others, and nothing has grown. */
bool census_is_outdated(const struct census *census);

uint64_t census_resident_bytes(const struct census *census);
uint64_t census_cpu_ns(const struct census *census);
/* The same of a census taken now: `first` and everything below it that lives, and all that these have reaped.
 */
uint64_t census_cpu_ns_now(pid_t first);
/* Memory that is these processes' own: each page shared among them is counted once, file pages not at all.
 * Dear: reads every mapping. May reorder the census. */
void census_measure(struct census *census, uint64_t *ret_anonymous_bytes, uint64_t *ret_shmem_bytes);
/* What these processes cost: their share of every page (PSS), and the pages that nobody else maps. */
void census_footprint(struct census *census, uint64_t *ret_pss_bytes, uint64_t *ret_private_bytes);
