/* One line per job that was given to the warden and ended, whatever its verdict: who ran what (by its hash),
 * under which policy, and what it cost. Runs in the front, onto the log or towards the warden, which has a
 * file for it (server/warden/audit.c). */
#include "server/audit/job_line.h"

#include "config/message/job.h"
#include "config/server/config.h"
#include "jail/base/clock.h"
#include "server/kit/log.h"
#include "server/kit/signals.h"

void audit_write(struct log *log, const struct audit_job *job, const struct job_result *result)
{
    char name[SIGNAL_NAME_BYTES];
    const bool has[] = {result->has_cpu,       result->has_memory_peak,
                        result->has_pids_peak, result->kernel != JOB_KERNEL_NONE,
                        result->image != NULL, job->code != NULL};
    const struct log_field fields[] = {
        LOG_FIELD_STR("key", job->key),
        LOG_FIELD_STR("team", job->team),
        LOG_FIELD_STR("request_id", job->request_id),
        LOG_FIELD_STR("execution_id", job->execution_id),
        LOG_FIELD_STR("traceparent", job->traceparent),
        LOG_FIELD_STR("runtime", job->runtime),
        LOG_FIELD_STR("code_sha256", job->code_sha256),
        LOG_FIELD_STR("session_id", job->session_id),
        LOG_FIELD_STR("policy", result->policy),
        LOG_FIELD_STR("policy_sha256", result->policy_sha256),
        LOG_FIELD_STR("status", job_status_to_string(result->status)),
        LOG_FIELD_I64("exit_code", result->exit_code),
        LOG_FIELD_STR("signal", result->signal ? signal_name(result->signal, name) : NULL),
        LOG_FIELD_STR("step", result->step),
        LOG_FIELD_STR("enforced_by", result->enforced_by_cgroup ? "cgroup2" : "rlimit"),
        LOG_FIELD_F64("duration_ms", (double)result->duration_ns / (double)NS_PER_MS),
        LOG_FIELD_F64("setup_ms", (double)result->setup_ns / (double)NS_PER_MS),
        LOG_FIELD_F64("total_ms", (double)job->total_ns / (double)NS_PER_MS),
        LOG_FIELD_U64("denied_syscalls", result->n_denied),
        /* What the host cannot tell is not there. */
        LOG_FIELD_F64("cpu_ms", (double)result->cpu_ns / (double)NS_PER_MS),
        LOG_FIELD_U64("memory_peak_bytes", result->memory_peak_bytes),
        LOG_FIELD_U64("pids_peak", result->pids_peak),
        LOG_FIELD_STR("kernel", job_kernel_to_string(result->kernel)),
        /* Nor what is not asked for. */
        LOG_FIELD_STR("image", result->image),
        LOG_FIELD_STR("code", job->code),
    };
    size_t n = sizeof fields / sizeof fields[0] - sizeof has / sizeof has[0];
    struct log_field known[sizeof fields / sizeof fields[0]];
    for (size_t i = 0; i < n; i++) {
        known[i] = fields[i];
    }
    size_t used = n;
    for (size_t i = 0; i < sizeof has / sizeof has[0]; i++) {
        if (has[i]) {
            known[used++] = fields[n + i];
        }
    }
    log_write(log, LOG_INFO, "audit", known, used);
}
