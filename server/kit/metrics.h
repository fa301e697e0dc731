/* Counters, gauges and histograms in Prometheus' text format 0.0.4. The families are a table in metrics.c. */
#pragma once

#include <stdint.h>

struct buf;
struct metrics;

enum metric {
    METRIC_JOBS,
    METRIC_JOBS_RUNNING,
    METRIC_JOBS_QUEUED,
    METRIC_JOB_SLOTS,
    METRIC_TEAM_JOBS,
    METRIC_JOBS_REJECTED,
    METRIC_JOB_QUEUE,
    METRIC_JOB_DURATION,
    METRIC_JAIL_SETUP,
    METRIC_JOB_CPU,
    METRIC_JOB_MEMORY_PEAK,
    METRIC_DENIED_SYSCALLS,
    METRIC_TOOL_CALLS,
    METRIC_SPANS,
    METRIC_EGRESS_CONNECTIONS,
    METRIC_EGRESS_BYTES,
    METRIC_HTTP_REQUESTS,
    METRIC_HTTP_DURATION,
    METRIC_HTTP_CONNECTIONS,
    METRIC_HTTP_REFUSED,
    METRIC_HTTP_UNREAD,
    METRIC_REPLIES_DROPPED,
    METRIC_AUTH_FAILURES,
    METRIC_LIMITS_ENFORCED_BY,
    METRIC_READY,
    METRIC_FRONT_RESTARTS,
    METRIC_LEFTOVERS_SWEPT,
    METRIC_SHORT_OF_MEMORY,
    METRIC_AUDIT_STOPPED,
    METRIC_ENDED_FOR_MEMORY,
    METRIC_WARM_JAILS,
    METRIC_WARM_JAIL_PSS,
    METRIC_WARM_TEMPLATES_REPLACED,
    METRIC_SESSIONS,
    METRIC_SESSION_BYTES,
    METRIC_SESSION_BYTES_MOST,
    METRIC_KERNELS,
    METRIC_KERNEL_SLOTS,
    METRIC_HEAP,
    METRIC_APPROVALS_PENDING,
    METRIC_APPROVALS,
    METRIC_RELOAD_SUCCESSFUL,
    METRIC_RELOAD_TIME,
    METRIC_LOG_LINES_LOST,
    METRIC_AUDIT_LINES_LOST,
    METRIC_BUILD_INFO,
    METRIC_PROCESS_CPU,
    METRIC_PROCESS_OPEN_FDS,
    METRIC_PROCESS_MAX_FDS,
    METRIC_PROCESS_VIRTUAL_MEMORY,
    METRIC_PROCESS_RESIDENT_MEMORY,
    METRIC_PROCESS_START_TIME,
    METRIC_COUNT,
};

/* NULL: out of memory. Families without labels start at 0; others have no series until one is touched. */
struct metrics *metrics_new(void);
void metrics_free(struct metrics *metrics);

/* The labels' values, in the order of the family's label names; NULL past the last. A family holds a bounded
 * number of series: what comes after counts under the value "other". */
void metrics_add(struct metrics *metrics, enum metric metric, const char *label, const char *label2,
                 double by);
void metrics_set(struct metrics *metrics, enum metric metric, const char *label, const char *label2,
                 double value);
void metrics_observe(struct metrics *metrics, enum metric metric, double value); /* histograms */

/* Appends the whole exposition. */
void metrics_write(const struct metrics *metrics, struct buf *ret);
