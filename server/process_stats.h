/* The process_* metrics: what this process costs, read from /proc. */
#pragma once

struct err;
struct metrics;
struct process_stats;

/* Opens what is needed, before the process loses the right to. */
int process_stats_new(struct process_stats **ret, struct err *reterr);
void process_stats_free(struct process_stats *stats);

/* Puts the current values into the process_* families. What cannot be read is left as it was. */
void process_stats_update(struct process_stats *stats, struct metrics *metrics);
