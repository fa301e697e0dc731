/* The door POST /execute: a request's JSON into struct job, a verdict and the captured output into the
 * reply's JSON. Decides nothing that needs a policy. */
#pragma once

#include <stddef.h>

#include "config/format/digest.h"
#include "server/kit/input.h"

struct buf;
struct capture;
struct content_types;
struct err;
struct job;
struct job_result;
struct json;
struct run_code;
struct runtime_config;
struct server_config;

struct execute_request {
    struct job *job; /* without `id` and `key` */
    const struct runtime_config *runtime;
    struct input input; /* the program's text, then the files */
    char *stdin_data;
    size_t stdin_size;
    uint64_t wait_ms;   /* for an approval, where it needs one */
    char *callback_url; /* where its tool calls go; NULL: nowhere */
    char code_sha256[SHA256_HEX];
    struct run_code
        *run_code; /* of POST /run-code (server/doors/run_code.h); NULL: it came through /execute */
};
#define EXECUTE_REQUEST_INIT ((struct execute_request){.input = {.fd = -1}})

/* Everything that can be checked without a policy. ERR_INVALID: `item` is the field, `text` the whole
 * sentence. */
int execute_decode(const struct json *root, const struct server_config *config, struct execute_request *ret,
                   struct err *reterr);
/* A URL that the configuration allows; an empty one, or none, is none. */
int execute_decode_callback(const char *text, const struct server_config *config, char **ret,
                            struct err *reterr);
/* ERR_INVALID where an array or object has more items than that. */
int execute_check_count(const struct json *value, const char *field, size_t most, struct err *reterr);
void execute_request_clear(struct execute_request *request);

/* What a job has said, beside its verdict. */
struct job_texts {
    const char *execution_id;
    const struct capture *capture; /* finished */
    const char *output;            /* JSON text of its result; "": none */
    size_t output_size;
    const struct content_types *types; /* NULL: names alone tell a file's type */
};

/* Appends the reply of a job that ran. Reads the result's files. */
int execute_encode(const struct job_result *result, const struct job_texts *texts, struct buf *ret,
                   struct err *reterr);
