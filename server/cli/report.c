/* Writes a verdict as JSON, for `immure run --report`. Runs in the process of the command line. */
#include "server/cli/report.h"

#include <inttypes.h>

#include "config/message/job.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "server/kit/json_out.h"
#include "server/kit/signals.h"

/* Milliseconds with three decimals: a jail is built in less than one. */
static void write_ms(struct buf *ret, const char *key, uint64_t ns)
{
    json_out_key(ret, key);
    buf_printf(ret, "%" PRIu64 ".%03u", (uint64_t)(ns / NS_PER_MS), (unsigned)(ns % NS_PER_MS / 1000));
}

static void write_usage(const struct job_result *result, struct buf *ret)
{
    json_out_open(ret, "usage", '{');
    if (result->has_cpu) {
        write_ms(ret, "cpu_ms", result->cpu_ns);
    } else {
        json_out_null(ret, "cpu_ms");
    }
    json_out_known(ret, "memory_peak_bytes", result->has_memory_peak, result->memory_peak_bytes);
    json_out_known(ret, "pids_peak", result->has_pids_peak, result->pids_peak);
    buf_putc(ret, '}');
}

/* A limit of 0 is none: null. */
static void write_limits(const struct job_limits *limits, struct buf *ret)
{
    const struct {
        const char *key;
        uint64_t value;
    } rows[] = {
        {"memory_bytes", limits->memory_bytes}, {"pids", limits->pids},
        {"cpu_percent", limits->cpu_percent},   {"cpu_ms", limits->cpu_ms},
        {"timeout_ms", limits->timeout_ms},     {"scratch_bytes", limits->scratch_bytes},
    };
    json_out_open(ret, "limits", '{');
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        json_out_known(ret, rows[i].key, rows[i].value != 0, rows[i].value);
    }
    buf_putc(ret, '}');
}

void report_write(const struct job_result *result, struct buf *ret)
{
    char name[SIGNAL_NAME_BYTES];
    buf_putc(ret, '{');
    json_out_text(ret, "status", job_status_to_string(result->status));
    json_out_i64(ret, "exit_code", result->exit_code);
    json_out_text(ret, "signal", result->signal ? signal_name(result->signal, name) : NULL);
    json_out_bool(ret, "killed", result->killed);
    json_out_bool(ret, "oom", result->oom);
    write_ms(ret, "setup_ms", result->setup_ns);
    write_ms(ret, "duration_ms", result->duration_ns);
    write_usage(result, ret);
    json_out_denied(ret, result);
    json_out_text(ret, "step", result->step);
    json_out_text(ret, "error_message", result->error_text);
    write_limits(&result->limits, ret);
    json_out_text(ret, "enforced_by", result->enforced_by_cgroup ? "cgroup2" : "rlimit");
    json_out_text(ret, "policy", result->policy);
    json_out_text(ret, "policy_sha256", result->policy_sha256);
    buf_puts(ret, "}\n");
}
