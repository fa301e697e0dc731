/* The audit trail: one line per job. */
#pragma once

#include <stdint.h>

struct job_result;
struct log;

struct audit_job {
    const char *key, *request_id, *execution_id, *traceparent, *runtime, *code_sha256,
        *session_id;   /* NULL where unknown */
    uint64_t total_ns; /* from the request's headers to the verdict */
};

/* Never code, output, arguments or keys. */
void audit_write(struct log *log, const struct audit_job *job, const struct job_result *result);
