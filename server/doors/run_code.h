/* The door POST /run-code: a request's JSON into struct job for the evaluator, and what the evaluator says
 * into the reply's JSON. Nothing of the source is looked at here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "server/doors/door.h"

struct function_ids;
struct run_code;

extern const struct door run_code_door;

/* See struct door, whose state is a struct run_code. ERR_NOT_FOUND: there is no evaluator here. */
int run_code_decode(const struct json *root, const char *text, size_t size,
                    const struct server_config *config, struct execute_request *ret, struct err *reterr);
/* The result is what the evaluator gave: nothing, where it has not come to that. */
int run_code_encode(const struct job_result *result, const struct job_texts *texts, struct buf *ret,
                    struct err *reterr);
/* A report or a log, as the evaluator told of it. NULL where it is neither, or where the run has said too
 * much. */
const char *run_code_note(void *state, const struct json_slice *kind, const struct json_slice *data,
                          const struct buf **ret_data);
void run_code_free(void *state);

/* What one run may call, and what it has said until now. Takes the ids out of `functions`. */
int run_code_new(struct function_ids *functions, struct run_code **ret, struct err *reterr);
/* The functions that the request has given; the run's. */
const struct function_ids *run_code_functions(const struct run_code *run);
