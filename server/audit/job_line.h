/* The audit trail: one line per job. */
#pragma once

#include <stdint.h>

struct job_result;
struct log;

struct audit_job {
    const char *key, *team, *request_id, *execution_id, *traceparent, *runtime, *code_sha256,
        *session_id;   /* NULL where unknown */
    const char *code;  /* its beginning; NULL: lines hold none */
    uint64_t total_ns; /* from the request's headers to the verdict */
};

/* Never output, arguments or keys, and code only where it is given. */
void audit_write(struct log *log, const struct audit_job *job, const struct job_result *result);
