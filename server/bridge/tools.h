/* The tool calls of one job: from the bridge to its callback URL and back. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bridge_call;
struct callback_client;
struct function_ids;
struct held_calls;
struct key_config;
struct log;
struct metrics;
struct spans;
struct trace;

/* With what, and on whose behalf; none of it is owned, and all of it outlives the job's calls. */
struct tools {
    struct callback_client *callbacks; /* NULL: there is nothing that could be called */
    struct log *audit;
    struct metrics *metrics;
    uint64_t timeout_ms;      /* of one call */
    const char *callback_url; /* that the configuration allows; NULL: none */
    const char *execution_id, *key, *request_id, *traceparent;
    const struct trace *trace;      /* the program's span, which its calls lie below */
    struct spans *spans;            /* NULL: none are wanted */
    const struct key_config *owner; /* whose secret signs calls, as it is then; NULL: nobody */
    /* What is called are functions of the caller's, which this run has been given; their errors are passed on
     * as they are. NULL: tools. */
    const struct function_ids *functions;
    uint64_t deadline_ns; /* of the job */
    /* Calls are told to the caller, and answered by him: no URL is called. NULL: as `callback_url` says. */
    struct held_calls *held;
    uint64_t max_answer_bytes;
    void (*tell)(void *arg, const char *id, const struct bridge_call *call);
    void *tell_arg;
};

/* Answers at once or later. `tools` stays until the call is answered or cancelled. */
void tools_call(const struct tools *tools, struct bridge_call *call);
void tools_cancel(const struct tools *tools, struct bridge_call *call);

/* The id under which the caller was told of a call; NULL: he was not, or has answered it. */
const char *tools_told_id(const struct bridge_call *call);
/* The caller's answer to a call that he was told of, or why it failed, as it stands between the quotes of a
 * JSON string. The call is gone. */
void tools_answer(struct bridge_call *call, bool failed, const char *json_text, size_t size);
