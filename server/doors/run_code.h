/* The door POST /run-code: a request's JSON into struct job for the evaluator, and what the evaluator says
 * into the reply's JSON. Nothing of the source is looked at here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct capture;
struct err;
struct execute_request;
struct function_ids;
struct job_result;
struct json;
struct json_slice;
struct run_code;
struct server_config;

/* Malformed options: ERR_INVALID, `item` is the field. ERR_NOT_FOUND: there is no evaluator here. `text` is
 * the body, and `root` what it says. */
int run_code_decode(const struct json *root, const char *text, size_t size,
                    const struct server_config *config, struct execute_request *ret, bool *ret_stream,
                    struct err *reterr);

/* What one run may call, and what it has said until now. Takes the ids out of `functions`. */
int run_code_new(struct function_ids *functions, struct run_code **ret, struct err *reterr);
/* The functions that the request has given; the run's. */
const struct function_ids *run_code_functions(const struct run_code *run);
/* Takes NULL. */
void run_code_free(struct run_code *run);
/* What is wrong with the job's limit of memory, by the caller's name for it: sets the item and the text. */
void run_code_refuse_memory(const char *why, struct err *ret);

/* A report or a log, as the evaluator told of it. Returns its event's name, and what is to be told, which
 * stays the run's until the next call; NULL where it is neither, or where the run has said too much. */
const char *run_code_note(struct run_code *run, const struct json_slice *kind, const struct json_slice *data,
                          const struct buf **ret_data);

/* Appends the reply. `output` is what the evaluator gave as its result: nothing, where it has not come to
 * that. */
int run_code_encode(const struct run_code *run, const struct job_result *result, const char *output,
                    size_t output_size, const struct capture *capture, struct buf *ret, struct err *reterr);
