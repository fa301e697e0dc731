/* The tool calls of one job: from the bridge to its callback URL and back. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bridge_call;
struct front;
struct run_code;

/* On whose behalf; all of it the job's. */
struct tools {
    struct front *front;
    const char *callback_url; /* that the configuration allows; NULL: none */
    const char *execution_id, *key, *request_id, *traceparent;
    /* What is called are functions of the caller's, which this run has been given; their errors are passed on
     * as they are. NULL: tools. */
    const struct run_code *functions;
    uint64_t deadline_ns; /* of the job */
};

/* Answers at once or later. `tools` stays until the call is answered or cancelled. */
void tools_call(const struct tools *tools, struct bridge_call *call);
void tools_cancel(const struct tools *tools, struct bridge_call *call);
