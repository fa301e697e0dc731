/* The process_* metrics: what this process costs, read from /proc. */
#pragma once

#include <stdint.h>

struct err;
struct metrics;
struct process_stats;

/* Opens what is needed, before the process loses the right to. */
int process_stats_new(struct process_stats **ret, struct err *reterr);
void process_stats_free(struct process_stats *stats);

/* What this process has allocated and not freed, as malloc counts it: to the byte, where the resident size
 * also holds what was freed and what lies between. */
uint64_t process_heap_bytes(void);

/* Puts the current values into the process_* families. What cannot be read is left as it was. */
void process_stats_update(struct process_stats *stats, struct metrics *metrics);
