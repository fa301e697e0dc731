/* What is left of a job that has ended: its line in the audit log, and the figures. Runs in the front. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/format/utf8.h"
#include "config/message/job.h"
#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "server/audit/job_line.h"
#include "server/jobs/dispatch_internal.h"
#include "server/jobs/front_context.h"
#include "server/kit/log.h"
#include "server/kit/metrics.h"

static void count_status(struct front *front, const struct running *job, enum job_status status)
{
    metrics_add(front->metrics, METRIC_JOBS, job->runtime->name, job_status_to_string(status), 1);
    const struct team_config *team = auth_team(front->config, &job->caller);
    if (team) {
        metrics_add(front->metrics, METRIC_TEAM_JOBS, team->name, job_status_to_string(status), 1);
    }
}

static void count(struct front *front, const struct running *job, const struct job_result *result)
{
    struct metrics *metrics = front->metrics;
    count_status(front, job, result->status);
    if (result->status == JOB_SETUP_ERROR) {
        return;
    }
    metrics_observe(metrics, METRIC_JOB_QUEUE, (double)job->queued_ns / (double)NS_PER_S);
    metrics_observe(metrics, METRIC_JOB_DURATION, (double)result->duration_ns / (double)NS_PER_S);
    metrics_observe(metrics, METRIC_JAIL_SETUP, (double)result->setup_ns / (double)NS_PER_S);
    if (result->has_cpu) {
        metrics_add(metrics, METRIC_JOB_CPU, NULL, NULL, (double)result->cpu_ns / (double)NS_PER_S);
    }
    if (result->has_memory_peak) {
        metrics_observe(metrics, METRIC_JOB_MEMORY_PEAK, (double)result->memory_peak_bytes);
    }
    for (size_t i = 0; i < result->n_denied; i++) {
        const char *name = result->denied[i].name;
        metrics_add(metrics, METRIC_DENIED_SYSCALLS, strcmp(name, "?") == 0 ? "other" : name, NULL,
                    (double)result->denied[i].count);
    }
}

static void audit(struct front *front, const struct running *job, const struct job_result *result)
{
    audit_write(front->audit,
                &(struct audit_job){
                    .key = job->caller.name,
                    .team = job->caller.key ? job->caller.key->team : NULL,
                    .request_id = job->request_id,
                    .execution_id = job->execution_id,
                    .traceparent = job->traceparent,
                    .runtime = job->runtime->name,
                    .code_sha256 = job->code_sha256,
                    .code = job->code,
                    .session_id = job->session_id,
                    .total_ns = clock_now_ns() - job->start_ns,
                },
                result);
}

/* No character is cut in two. */
int dispatch_keep_code(struct running *job, struct err *reterr)
{
    const struct execute_request *execute = &job->execute;
    size_t most = job->dispatch->front->config->audit_code_bytes;
    if (most == 0) {
        return 0;
    }
    size_t size = execute->job->code_size < most ? (size_t)execute->job->code_size : most;
    job->code = calloc(1, size + 1);
    ssize_t n = job->code ? pread(execute->input.fd, job->code, size, 0) : -1;
    if (n != (ssize_t)size) {
        return err_errno(reterr, job->code ? EIO : ENOMEM, "keeping a job's code");
    }
    if (size < execute->job->code_size) {
        job->code[size - utf8_unfinished(job->code, size)] = '\0';
    }
    return 0;
}

static void note_span(const struct running *job, const struct trace *trace, const char *name,
                      uint64_t start_ns, uint64_t end_ns)
{
    spans_add(job->dispatch->front->spans, trace,
              &(struct span){.name = name, .kind = SPAN_INTERNAL, .start_ns = start_ns, .end_ns = end_ns});
}

/* What the warden has measured, laid before this moment, and never before the job came. */
static void note_spans(const struct running *job, const struct job_result *result)
{
    const uint64_t now_ns = clock_now_ns(), came_ns = job->wait.since_ns;
    uint64_t lived_ns = now_ns - came_ns;
    uint64_t begun_ns = now_ns - (result->duration_ns < lived_ns ? result->duration_ns : lived_ns);
    uint64_t setup_ns = result->setup_ns < begun_ns - came_ns ? begun_ns - result->setup_ns : came_ns;
    struct trace trace = job->trace;
    const struct log_field attributes[] = {
        LOG_FIELD_STR("immure.execution_id", job->execution_id),
        LOG_FIELD_STR("immure.runtime", job->runtime->name),
        LOG_FIELD_STR("immure.policy", result->policy),
        LOG_FIELD_STR("immure.status", job_status_to_string(result->status)),
    };
    if (job->queued_ns > 0) {
        memcpy(trace.span_id, job->trace.parent_id, sizeof trace.span_id); /* beside it */
        trace_child(&trace, &trace);
        note_span(job, &trace, "queue", came_ns,
                  came_ns + (job->queued_ns < setup_ns - came_ns ? job->queued_ns : setup_ns - came_ns));
    }
    memcpy(trace.span_id, job->trace.parent_id, sizeof trace.span_id);
    trace_child(&trace, &trace);
    note_span(job, &trace, "jail set-up", setup_ns, begun_ns);
    spans_add(job->dispatch->front->spans, &job->trace,
              &(struct span){.name = "program",
                             .kind = SPAN_INTERNAL,
                             .start_ns = begun_ns,
                             .end_ns = now_ns,
                             .failed = result->status != JOB_SUCCESS,
                             .attributes = attributes,
                             .n_attributes = ARRAY_SIZE(attributes)});
}

void dispatch_record(const struct running *job, const struct job_result *result)
{
    count(job->dispatch->front, job, result);
    audit(job->dispatch->front, job, result);
    if (job->trace.sampled) {
        note_spans(job, result);
    }
}

void dispatch_note_waited(const struct running *job, bool refused)
{
    const struct job_result result = {.status = JOB_CANCELLED, .exit_code = -1};
    struct front *front = job->dispatch->front;
    if (!refused) {
        count_status(front, job, result.status);
    }
    metrics_observe(front->metrics, METRIC_JOB_QUEUE,
                    (double)(clock_now_ns() - job->wait.since_ns) / (double)NS_PER_S);
    audit(front, job, &result);
}
