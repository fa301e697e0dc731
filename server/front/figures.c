/* Figures of GET /metrics that are not counted where they happen. Runs in the front.
 *
 * A series that appears with its first event has no rate: Prometheus takes what it sees first for what was
 * always there. So each whose labels come from a closed set is there from the start. */
#include "server/front/figures.h"

#include <stddef.h>

#include "config/message/job.h"
#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "server/doors/error_reply.h"
#include "server/host/process_stats.h"
#include "server/http/http.h"
#include "server/jobs/front_context.h"
#include "server/kit/log.h"
#include "server/kit/metrics.h"

#ifndef IMMURE_COMMIT
#define IMMURE_COMMIT "unknown"
#endif

/* Families of one label, with all its values. */
static const struct {
    enum metric metric;
    const char *values[7];
} closed[] = {
    {METRIC_SPANS, {"sent", "failed", "dropped"}},
    {METRIC_TOOL_CALLS, {"success", "tool_error", "http_error", "request_failed", "refused", "cancelled"}},
    {METRIC_EGRESS_CONNECTIONS, {"closed", "refused", "failed", "limit", "timeout", "cancelled"}},
    {METRIC_EGRESS_BYTES, {"sent", "received"}},
    {METRIC_REPLIES_DROPPED, {"stalled", "budget"}},
    {METRIC_AUTH_FAILURES, {"missing", "wrong"}},
    {METRIC_LOG_LINES_LOST, {"warden", "front"}},
};

void figures_of_teams(struct front *front)
{
    const struct server_config *config = front->config;
    for (size_t i = 0; i < config->n_teams; i++) {
        for (int status = 0; config->teams[i].enabled && status < JOB_STATUS_COUNT; status++) {
            metrics_add(front->metrics, METRIC_TEAM_JOBS, config->teams[i].name,
                        job_status_to_string((enum job_status)status), 0);
        }
    }
}

static void begin_jobs(const struct front *front)
{
    const struct server_config *config = front->config;
    for (int status = 0; status < JOB_STATUS_COUNT; status++) {
        const char *name = job_status_to_string((enum job_status)status);
        for (size_t i = 0; i < config->n_runtimes; i++) {
            metrics_add(front->metrics, METRIC_JOBS, config->runtimes[i].name, name, 0);
        }
    }
    for (int class = 0; class < ERROR_CLASS_COUNT; class ++) {
        bool of_jobs = class != ERROR_NO_SUCH_PATH && class != ERROR_METHOD && class != ERROR_SETUP &&
                       class != ERROR_NOT_READY;
        if (of_jobs) {
            metrics_add(front->metrics, METRIC_JOBS_REJECTED, error_code((enum error_class) class), NULL, 0);
        }
    }
}

void figures_begin(struct front *front)
{
    for (size_t i = 0; i < ARRAY_SIZE(closed); i++) {
        for (size_t j = 0; closed[i].values[j]; j++) {
            metrics_add(front->metrics, closed[i].metric, closed[i].values[j], NULL, 0);
        }
    }
    begin_jobs(front);
    figures_of_teams(front);
    metrics_set(front->metrics, METRIC_BUILD_INFO, IMMURE_VERSION, IMMURE_COMMIT, 1);
    metrics_set(front->metrics, METRIC_JOB_SLOTS, NULL, NULL, front->config->max_concurrent_jobs);
    metrics_set(front->metrics, METRIC_KERNEL_SLOTS, NULL, NULL, front->config->max_kernels);
}

void figures_of_state(struct front *front)
{
    const struct msg_state *state = &front->state;
    metrics_set(front->metrics, METRIC_LIMITS_ENFORCED_BY, "cgroup2", NULL, state->enforced_by_cgroup);
    metrics_set(front->metrics, METRIC_LIMITS_ENFORCED_BY, "rlimit", NULL, !state->enforced_by_cgroup);
    metrics_set(front->metrics, METRIC_FRONT_RESTARTS, NULL, NULL, (double)state->front_restarts);
    metrics_set(front->metrics, METRIC_LEFTOVERS_SWEPT, NULL, NULL, (double)state->leftovers_swept);
    metrics_set(front->metrics, METRIC_SHORT_OF_MEMORY, NULL, NULL, state->short_of_memory);
    metrics_set(front->metrics, METRIC_AUDIT_STOPPED, NULL, NULL, state->audit_stopped);
    metrics_set(front->metrics, METRIC_ENDED_FOR_MEMORY, NULL, NULL, (double)state->ended_for_memory);
    metrics_set(front->metrics, METRIC_SESSIONS, NULL, NULL, state->sessions);
    metrics_set(front->metrics, METRIC_SESSION_BYTES, NULL, NULL, (double)state->session_bytes);
    metrics_set(front->metrics, METRIC_SESSION_BYTES_MOST, NULL, NULL, (double)state->session_bytes_most);
    metrics_set(front->metrics, METRIC_KERNELS, NULL, NULL, state->kernels);
    metrics_set(front->metrics, METRIC_HEAP, "warden", NULL, (double)state->heap_bytes);
    metrics_set(front->metrics, METRIC_APPROVALS_PENDING, NULL, NULL, state->approvals_pending);
    metrics_set(front->metrics, METRIC_APPROVALS, "approved", NULL, (double)state->approvals_approved);
    metrics_set(front->metrics, METRIC_APPROVALS, "rejected", NULL, (double)state->approvals_rejected);
    metrics_set(front->metrics, METRIC_APPROVALS, "expired", NULL, (double)state->approvals_expired);
    metrics_set(front->metrics, METRIC_APPROVALS, "lost", NULL, (double)state->approvals_lost);
    metrics_set(front->metrics, METRIC_RELOAD_SUCCESSFUL, NULL, NULL, !state->reload_refused);
    metrics_set(front->metrics, METRIC_RELOAD_TIME, NULL, NULL, (double)state->reloaded_ms / 1000);
    for (size_t i = 0; i < state->n_warm; i++) {
        const struct msg_warm *warm = &state->warm[i];
        metrics_set(front->metrics, METRIC_WARM_JAILS, warm->runtime, "parked", warm->parked);
        metrics_set(front->metrics, METRIC_WARM_JAILS, warm->runtime, "building", warm->building);
        metrics_set(front->metrics, METRIC_WARM_JAILS, warm->runtime, "in_image", warm->in_images);
        metrics_set(front->metrics, METRIC_WARM_JAIL_PSS, warm->runtime, NULL, (double)warm->pss_bytes);
        metrics_set(front->metrics, METRIC_WARM_TEMPLATES_REPLACED, warm->runtime, NULL,
                    (double)warm->templates_replaced);
    }
}

void figures_of_now(struct front *front)
{
    const struct msg_state *state = &front->state;
    bool ready = state->ready && !front->draining && !state->short_of_memory && !state->audit_stopped;
    metrics_set(front->metrics, METRIC_READY, NULL, NULL, ready);
    metrics_set(front->metrics, METRIC_HTTP_CONNECTIONS, NULL, NULL,
                (double)http_server_connections(front->http));
    metrics_set(front->metrics, METRIC_HTTP_UNREAD, NULL, NULL,
                (double)http_server_unread_bytes(front->http));
    process_stats_update(front->process, front->metrics);
    metrics_set(front->metrics, METRIC_HTTP_REFUSED, NULL, NULL, (double)http_server_refused(front->http));
    metrics_set(front->metrics, METRIC_LOG_LINES_LOST, "front", NULL, (double)log_lost(front->log));
    metrics_set(front->metrics, METRIC_LOG_LINES_LOST, "warden", NULL, (double)front->state.log_lines_lost);
    metrics_set(front->metrics, METRIC_AUDIT_LINES_LOST, NULL, NULL,
                (double)(front->state.audit_lines_lost + log_lost(front->audit)));
}
