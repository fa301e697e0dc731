/* The tool calls of one job: from the bridge to its callback URL and back. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct bridge_call;
struct front;

/* On whose behalf; all of it the job's. */
struct tools {
    struct front *front;
    const char *callback_url; /* that the configuration allows; NULL: none */
    const char *execution_id, *key, *request_id, *traceparent;
    uint64_t deadline_ns; /* of the job */
};

/* Answers at once or later. `tools` stays until the call is answered or cancelled. */
void tools_call(const struct tools *tools, struct bridge_call *call);
void tools_cancel(const struct tools *tools, struct bridge_call *call);
