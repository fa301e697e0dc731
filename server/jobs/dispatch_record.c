/* What is left of a job that has ended: its line in the audit log, and the figures. Runs in the front. */
#include <string.h>

#include "config/message/job.h"
#include "config/server/config.h"
#include "jail/base/clock.h"
#include "server/audit/job_line.h"
#include "server/jobs/dispatch_internal.h"
#include "server/jobs/front_context.h"
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

void dispatch_record(const struct running *job, const struct job_result *result)
{
    count(job->dispatch->front, job, result);
    audit(job->dispatch->front, job, result);
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
