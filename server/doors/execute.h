/* The door POST /execute: a request's JSON into struct job, a verdict and the captured output into the
 * reply's JSON. Decides nothing that needs a policy. Results that are kept are in its words, too. */
#pragma once

#include <stddef.h>

#include "server/doors/door.h"

extern const struct door execute_door;

/* See struct door. */
int execute_decode(const struct json *root, const struct server_config *config, struct execute_request *ret,
                   struct err *reterr);
int execute_encode(const struct job_result *result, const struct job_texts *texts, struct buf *ret,
                   struct err *reterr);

/* ERR_INVALID naming the field, or for an evaluator ERR_NOT_FOUND, and why, where the runtime's self-test
 * fails.
 */
int execute_check_offered(const struct runtime_config *runtime, const char *field, struct err *reterr);

#define EXECUTE_SENTENCE_BYTES 512
/* One sentence for every end but a good one. */
void execute_failure_sentence(const struct job_result *result, char *ret, size_t size);

/* A URL that the configuration allows; an empty one, or none, is none. */
int execute_decode_callback(const char *text, const struct server_config *config, char **ret,
                            struct err *reterr);
/* "callback", "stream" or NULL; after the callback's URL. */
int execute_decode_calls(const char *text, struct execute_request *ret, struct err *reterr);
/* ERR_INVALID where an array or object has more items than that. */
int execute_check_count(const struct json *value, const char *field, size_t most, struct err *reterr);
