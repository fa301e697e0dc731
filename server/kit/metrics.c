/* Metrics of the front, in memory, for GET /metrics. One row per family; label values come from small sets of
 * our own (routes, statuses, configured runtimes, names of system calls), and a ceiling per family holds
 * where they do not. */
#include "server/kit/metrics.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"

#define LABELS_MAX  2
#define BUCKETS_MAX 16
#define SERIES_MAX  256 /* per family, "other" not counted */

enum family_kind { COUNTER, GAUGE, HISTOGRAM };

struct family {
    const char *name;
    enum family_kind kind;
    const char *help;
    const char *labels[LABELS_MAX];
    double buckets[BUCKETS_MAX]; /* upper bounds, ascending, 0 past the last; +Inf is understood */
};

#define SECONDS_BUCKETS                                                                                      \
    {                                                                                                        \
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60                       \
    }
#define SETUP_BUCKETS                                                                                        \
    {                                                                                                        \
        0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1                                           \
    }
#define MEMORY_BUCKETS                                                                                       \
    {                                                                                                        \
        1048576, 4194304, 16777216, 67108864, 268435456, 1073741824, 4294967296                              \
    }

static const struct family families[] = {
    [METRIC_JOBS] =
        {"immure_jobs_total", COUNTER, "Jobs that ended, by verdict.", {"runtime", "status"}, {0}},
    [METRIC_TEAM_JOBS] =
        {"immure_team_jobs_total", COUNTER, "Jobs that ended, by their key's team.", {"team", "status"}, {0}},
    [METRIC_JOBS_RUNNING] =
        {"immure_jobs_running", GAUGE, "Jobs given to the warden and not yet ended.", {0}, {0}},
    [METRIC_JOBS_QUEUED] = {"immure_jobs_queued", GAUGE, "Jobs that wait for a slot.", {0}, {0}},
    [METRIC_JOB_SLOTS] = {"immure_job_slots", GAUGE, "Jobs that may run at once.", {0}, {0}},
    [METRIC_JOBS_REJECTED] =
        {"immure_jobs_rejected_total", COUNTER, "Job requests that were refused.", {"reason"}, {0}},
    [METRIC_JOB_QUEUE] = {"immure_job_queue_seconds",
                          HISTOGRAM,
                          "How long jobs that began had waited for a slot.",
                          {0},
                          SECONDS_BUCKETS},
    [METRIC_JOB_DURATION] =
        {"immure_job_duration_seconds", HISTOGRAM, "Wall clock of programs.", {0}, SECONDS_BUCKETS},
    [METRIC_JAIL_SETUP] = {"immure_jail_setup_seconds", HISTOGRAM, "From clone to exec.", {0}, SETUP_BUCKETS},
    [METRIC_JOB_CPU] = {"immure_job_cpu_seconds_total", COUNTER, "Processor time of jobs.", {0}, {0}},
    [METRIC_JOB_MEMORY_PEAK] = {"immure_job_memory_peak_bytes",
                                HISTOGRAM,
                                "Most memory that a job used, where cgroups count it.",
                                {0},
                                MEMORY_BUCKETS},
    [METRIC_DENIED_SYSCALLS] =
        {"immure_denied_syscalls_total", COUNTER, "System calls that a filter denied.", {"syscall"}, {0}},
    [METRIC_SPANS] =
        {"immure_spans_total",
         COUNTER,
         "Spans of OpenTelemetry: sent, not taken by the collector (failed), too many (dropped).",
         {"outcome"},
         {0}},
    [METRIC_TOOL_CALLS] =
        {"immure_tool_calls_total", COUNTER, "Tool calls of jobs, by how they ended.", {"outcome"}, {0}},
    [METRIC_EGRESS_CONNECTIONS] =
        {"immure_egress_connections_total",
         COUNTER,
         "Connections of jobs to package indexes and hosts of policies, by how they ended.",
         {"outcome"},
         {0}},
    [METRIC_EGRESS_BYTES] =
        {"immure_egress_bytes_total",
         COUNTER,
         "Bytes that jobs sent to and received from package indexes and hosts of policies.",
         {"direction"},
         {0}},
    [METRIC_HTTP_REQUESTS] =
        {"immure_http_requests_total", COUNTER, "HTTP requests, by route and status.", {"path", "code"}, {0}},
    [METRIC_HTTP_DURATION] = {"immure_http_request_duration_seconds",
                              HISTOGRAM,
                              "From the end of a request's headers to its answer's last byte.",
                              {0},
                              SECONDS_BUCKETS},
    [METRIC_HTTP_CONNECTIONS] = {"immure_http_connections", GAUGE, "Open connections.", {0}, {0}},
    [METRIC_HTTP_REFUSED] = {"immure_http_connections_refused_total",
                             COUNTER,
                             "Connections closed unheard, or idle ones that made room for another.",
                             {0},
                             {0}},
    [METRIC_HTTP_UNREAD] =
        {"immure_http_unread_bytes", GAUGE, "Of replies that wait for their callers to read them.", {0}, {0}},
    [METRIC_REPLIES_DROPPED] = {"immure_http_replies_dropped_total",
                                COUNTER,
                                "Replies whose callers did not read them (stalled), or most slowly (budget).",
                                {"reason"},
                                {0}},
    [METRIC_AUTH_FAILURES] = {"immure_auth_failures_total",
                              COUNTER,
                              "Requests without a key (missing) or with none of ours (wrong).",
                              {"reason"},
                              {0}},
    [METRIC_LIMITS_ENFORCED_BY] =
        {"immure_limits_enforced_by", GAUGE, "1 for what holds jobs to their limits.", {"backend"}, {0}},
    [METRIC_READY] = {"immure_ready", GAUGE, "1 if /readyz answers 200.", {0}, {0}},
    [METRIC_FRONT_RESTARTS] =
        {"immure_front_restarts_total", COUNTER, "Starts of the HTTP process after its first.", {0}, {0}},
    [METRIC_AUDIT_STOPPED] = {"immure_audit_stopped",
                              GAUGE,
                              "1 while no job begins because the audit log cannot be written.",
                              {0},
                              {0}},
    [METRIC_SHORT_OF_MEMORY] = {"immure_host_short_of_memory",
                                GAUGE,
                                "1 while no job begins for want of the host's memory.",
                                {0},
                                {0}},
    [METRIC_ENDED_FOR_MEMORY] = {"immure_ended_for_host_memory_total",
                                 COUNTER,
                                 "Jobs and idle kernels ended because the host was short of memory.",
                                 {0},
                                 {0}},
    [METRIC_LEFTOVERS_SWEPT] = {"immure_leftovers_swept_total",
                                COUNTER,
                                "Things of an earlier run that were found and removed.",
                                {0},
                                {0}},
    [METRIC_WARM_JAILS] =
        {"immure_warm_jails", GAUGE, "Jails made in advance, by state.", {"runtime", "state"}, {0}},
    [METRIC_WARM_JAIL_PSS] = {"immure_warm_jail_pss_bytes",
                              GAUGE,
                              "What one parked jail holds in memory, its share of shared pages included.",
                              {"runtime"},
                              {0}},
    [METRIC_WARM_TEMPLATES_REPLACED] =
        {"immure_warm_templates_replaced_total",
         COUNTER,
         "Templates in whose place another has been put, by age or number of jobs.",
         {"runtime"},
         {0}},
    [METRIC_HEAP] =
        {"immure_heap_bytes", GAUGE, "What a process has allocated and not freed.", {"process"}, {0}},
    [METRIC_SESSIONS] = {"immure_sessions", GAUGE, "Sessions that there are.", {0}, {0}},
    [METRIC_SESSION_BYTES] = {"immure_session_bytes", GAUGE, "Bytes that sessions hold.", {0}, {0}},
    [METRIC_SESSION_BYTES_MOST] = {"immure_session_bytes_max",
                                   GAUGE,
                                   "Bytes that sessions may hold together; 0: no such bound.",
                                   {0},
                                   {0}},
    [METRIC_KERNELS] = {"immure_kernels", GAUGE, "Interpreters of sessions that live on.", {0}, {0}},
    [METRIC_KERNEL_SLOTS] = {"immure_kernel_slots", GAUGE, "Interpreters that may live on.", {0}, {0}},
    [METRIC_APPROVALS_PENDING] =
        {"immure_approvals_pending", GAUGE, "Jobs that wait for an approval.", {0}, {0}},
    [METRIC_APPROVALS] = {"immure_approvals_total",
                          COUNTER,
                          "What became of jobs that waited for an approval.",
                          {"decision"},
                          {0}},
    [METRIC_RELOAD_SUCCESSFUL] = {"immure_config_last_reload_successful",
                                  GAUGE,
                                  "0 if the last configuration that was read was refused.",
                                  {0},
                                  {0}},
    [METRIC_RELOAD_TIME] = {"immure_config_last_reload_success_timestamp_seconds",
                            GAUGE,
                            "When the configuration in force was taken, since the epoch.",
                            {0},
                            {0}},
    [METRIC_LOG_LINES_LOST] =
        {"immure_log_lines_lost_total", COUNTER, "Lines of the log that nobody read.", {"process"}, {0}},
    [METRIC_AUDIT_LINES_LOST] = {"immure_audit_lines_lost_total",
                                 COUNTER,
                                 "Lines of the audit log that could not be written.",
                                 {0},
                                 {0}},
    [METRIC_BUILD_INFO] =
        {"immure_build_info", GAUGE, "1, with version and commit as labels.", {"version", "commit"}, {0}},
    [METRIC_PROCESS_CPU] =
        {"process_cpu_seconds_total", COUNTER, "Processor time of the HTTP process.", {0}, {0}},
    [METRIC_PROCESS_OPEN_FDS] =
        {"process_open_fds", GAUGE, "Open descriptors of the HTTP process.", {0}, {0}},
    [METRIC_PROCESS_MAX_FDS] = {"process_max_fds", GAUGE, "Descriptors that it may open.", {0}, {0}},
    [METRIC_PROCESS_VIRTUAL_MEMORY] = {"process_virtual_memory_bytes", GAUGE, "Its address space.", {0}, {0}},
    [METRIC_PROCESS_RESIDENT_MEMORY] =
        {"process_resident_memory_bytes", GAUGE, "Its resident memory.", {0}, {0}},
    [METRIC_PROCESS_START_TIME] =
        {"process_start_time_seconds", GAUGE, "When it started, since the epoch.", {0}, {0}},
};
_Static_assert(ARRAY_SIZE(families) == METRIC_COUNT, "every metric has a row");

struct series {
    char *values[LABELS_MAX];
    double value;                     /* a histogram's sum */
    uint64_t count;                   /* histograms: observations */
    uint64_t per_bucket[BUCKETS_MAX]; /* histograms: not cumulative */
};

struct metrics {
    struct {
        struct series *series;
        size_t n;
    } families[METRIC_COUNT];
};

static bool same_label(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static struct series *append_series(struct metrics *metrics, enum metric metric,
                                    const char *const labels[LABELS_MAX])
{
    struct series *all =
        realloc(metrics->families[metric].series, (metrics->families[metric].n + 1) * sizeof *all);
    if (!all) {
        return NULL;
    }
    metrics->families[metric].series = all;
    struct series added = {0};
    for (size_t i = 0; i < LABELS_MAX && labels[i]; i++) {
        added.values[i] = strdup(labels[i]);
        if (!added.values[i]) {
            free(added.values[0]);
            return NULL;
        }
    }
    struct series *to = &all[metrics->families[metric].n++];
    *to = added;
    return to;
}

/* The series with these labels, made if need be. NULL: out of memory, and this one observation is lost. */
static struct series *find_series(struct metrics *metrics, enum metric metric, const char *label,
                                  const char *label2)
{
    for (size_t i = 0; i < metrics->families[metric].n; i++) {
        struct series *series = &metrics->families[metric].series[i];
        if (same_label(series->values[0], label) && same_label(series->values[1], label2)) {
            return series;
        }
    }
    const char *labels[LABELS_MAX] = {label, label2};
    if (metrics->families[metric].n < SERIES_MAX) {
        return append_series(metrics, metric, labels);
    }
    const char *other[LABELS_MAX] = {label ? "other" : NULL, label2 ? "other" : NULL};
    for (size_t i = 0; i < metrics->families[metric].n; i++) {
        struct series *series = &metrics->families[metric].series[i];
        if (same_label(series->values[0], other[0]) && same_label(series->values[1], other[1])) {
            return series;
        }
    }
    return append_series(metrics, metric, other);
}

struct metrics *metrics_new(void)
{
    struct metrics *metrics = calloc(1, sizeof *metrics);
    for (int i = 0; metrics && i < METRIC_COUNT; i++) {
        if (!families[i].labels[0] && !find_series(metrics, (enum metric)i, NULL, NULL)) {
            metrics_free(metrics);
            return NULL;
        }
    }
    return metrics;
}

void metrics_free(struct metrics *metrics)
{
    for (int i = 0; metrics && i < METRIC_COUNT; i++) {
        for (size_t j = 0; j < metrics->families[i].n; j++) {
            for (size_t k = 0; k < LABELS_MAX; k++) {
                free(metrics->families[i].series[j].values[k]);
            }
        }
        free(metrics->families[i].series);
    }
    free(metrics);
}

void metrics_add(struct metrics *metrics, enum metric metric, const char *label, const char *label2,
                 double by)
{
    struct series *series = find_series(metrics, metric, label, label2);
    if (series) {
        series->value += by;
    }
}

void metrics_set(struct metrics *metrics, enum metric metric, const char *label, const char *label2,
                 double value)
{
    struct series *series = find_series(metrics, metric, label, label2);
    if (series) {
        series->value = value;
    }
}

void metrics_observe(struct metrics *metrics, enum metric metric, double value)
{
    struct series *series = find_series(metrics, metric, NULL, NULL);
    if (!series) {
        return;
    }
    series->value += value;
    series->count++;
    const double *bounds = families[metric].buckets;
    for (size_t i = 0; i < BUCKETS_MAX && bounds[i] > 0; i++) {
        if (value <= bounds[i]) {
            series->per_bucket[i]++;
            break;
        }
    }
}

static void write_label_value(struct buf *ret, const char *value)
{
    for (const char *p = value; *p; p++) {
        if (*p == '\\' || *p == '"') {
            buf_putc(ret, '\\');
        }
        if (*p == '\n') {
            buf_puts(ret, "\\n");
        } else {
            buf_putc(ret, *p);
        }
    }
}

static void write_labels(struct buf *ret, const struct family *family, const struct series *series)
{
    for (size_t i = 0; i < LABELS_MAX && family->labels[i]; i++) {
        buf_printf(ret, "%s%s=\"", i == 0 ? "{" : ",", family->labels[i]);
        write_label_value(ret, series->values[i]);
        buf_puts(ret, "\"");
    }
    if (family->labels[0]) {
        buf_putc(ret, '}');
    }
}

static void write_histogram(struct buf *ret, const struct family *family, const struct series *series)
{
    uint64_t cumulative = 0;
    for (size_t i = 0; i < BUCKETS_MAX && family->buckets[i] > 0; i++) {
        cumulative += series->per_bucket[i];
        buf_printf(ret, "%s_bucket{le=\"%.15g\"} %llu\n", family->name, family->buckets[i],
                   (unsigned long long)cumulative);
    }
    unsigned long long count = series->count;
    buf_printf(ret, "%s_bucket{le=\"+Inf\"} %llu\n", family->name, count);
    buf_printf(ret, "%s_sum %.15g\n%s_count %llu\n", family->name, series->value, family->name, count);
}

static void write_family(struct buf *ret, const struct family *family, const struct series *series, size_t n)
{
    static const char *const kinds[] = {[COUNTER] = "counter", [GAUGE] = "gauge", [HISTOGRAM] = "histogram"};
    buf_printf(ret, "# HELP %s %s\n# TYPE %s %s\n", family->name, family->help, family->name,
               kinds[family->kind]);
    for (size_t i = 0; i < n; i++) {
        if (family->kind == HISTOGRAM) {
            write_histogram(ret, family, &series[i]);
            continue;
        }
        buf_puts(ret, family->name);
        write_labels(ret, family, &series[i]);
        buf_printf(ret, " %.15g\n", series[i].value);
    }
}

void metrics_write(const struct metrics *metrics, struct buf *ret)
{
    for (int i = 0; i < METRIC_COUNT; i++) {
        write_family(ret, &families[i], metrics->families[i].series, metrics->families[i].n);
    }
}
