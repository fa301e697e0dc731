/* The tool calls of one job: from the bridge to its callback URL and back. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bridge_call;
struct callback_client;
struct function_ids;
struct log;
struct metrics;

/* With what, and on whose behalf; none of it is owned, and all of it outlives the job's calls. */
struct tools {
    struct callback_client *callbacks; /* NULL: there is nothing that could be called */
    struct log *audit;
    struct metrics *metrics;
    uint64_t timeout_ms;      /* of one call */
    const char *callback_url; /* that the configuration allows; NULL: none */
    const char *execution_id, *key, *request_id, *traceparent;
    /* What is called are functions of the caller's, which this run has been given; their errors are passed on
     * as they are. NULL: tools. */
    const struct function_ids *functions;
    uint64_t deadline_ns; /* of the job */
};

/* Answers at once or later. `tools` stays until the call is answered or cancelled. */
void tools_call(const struct tools *tools, struct bridge_call *call);
void tools_cancel(const struct tools *tools, struct bridge_call *call);
