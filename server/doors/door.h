/* struct door: one wire contract, as those know it who start jobs and answer for them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/format/digest.h"
#include "server/kit/input.h"

struct buf;
struct capture;
struct content_types;
struct door;
struct err;
struct function_ids;
struct job;
struct job_result;
struct json;
struct json_slice;
struct rich_results;
struct runtime_config;
struct server_config;

/* What a door makes of a request. */
struct execute_request {
    const struct door *door;
    void *state;                          /* the door's own, of this job; NULL: it needs none */
    const struct function_ids *functions; /* of the state: what alone may be called; NULL: any tool */
    struct job *job;                      /* without `id` and `key` */
    const struct runtime_config *runtime;
    struct input input; /* the program's text, then the files */
    char *stdin_data;
    size_t stdin_size;
    uint64_t wait_ms;   /* for an approval, where it needs one */
    uint64_t queue_ms;  /* for a slot; QUEUE_MS_DEFAULT: as the server says */
    char *callback_url; /* where its tool calls go; NULL: nowhere */
    char code_sha256[SHA256_HEX];
    bool stream;     /* the caller wants to hear of what happens */
    bool calls_held; /* he is told of tool calls, too, and answers them */
};
#define QUEUE_MS_DEFAULT     UINT64_MAX
#define EXECUTE_REQUEST_INIT ((struct execute_request){.input = {.fd = -1}, .queue_ms = QUEUE_MS_DEFAULT})

void execute_request_clear(struct execute_request *request);

/* What a job has said, beside its verdict. */
struct job_texts {
    const char *execution_id;
    const struct capture *capture; /* finished */
    const char *output;            /* JSON text of its result; "": none */
    size_t output_size;
    const struct rich_results *results; /* what it has shown; NULL: nothing */
    bool results_asked;                 /* by its request */
    uint64_t queued_ms;                 /* that it has waited for a slot */
    const struct content_types *types;  /* NULL: names alone tell a file's type */
    const void *state;                  /* of its execute_request */
    bool brief;       /* without what stands elsewhere in the same reply: `logs`, `error`, files' contents */
    const void *call; /* which of the door's calls is answered; NULL: it has none */
};

/* A constant. What a door does not need is NULL. */
struct door {
    const char *name;  /* in the configuration's `door`, without which it is closed; NULL: always open */
    bool keeps;        /* a caller may ask for the result later, by the job's id */
    bool tells_output; /* as it comes, to a caller that hears of what happens; likewise tool calls */
    bool evaluator;    /* what runs is one, and no other door understands what it says */
    const char *reply_event; /* which event the reply is */

    /* Everything that can be checked without a policy. `text` is the body, and `root` what it says.
     * ERR_INVALID: `item` is the field, `text` the whole sentence. */
    int (*decode)(const struct json *root, const char *text, size_t size, const struct server_config *config,
                  struct execute_request *ret, struct err *reterr);
    /* Appends the reply of a job that ran, one line. Reads the result's files. */
    int (*encode)(const struct job_result *result, const struct job_texts *texts, struct buf *ret,
                  struct err *reterr);
    /* The reply of a job that did not, with status 200. NULL: it is told as every error is
     * (server/doors/error_reply.h). */
    void (*encode_refusal)(const void *call, const struct err *err, struct buf *ret);
    /* An error in the door's own words, whose status is the usual one. NULL: as every error is told. */
    void (*encode_error)(unsigned status, const char *text, struct buf *ret);
    /* The policy has refused the field `item`: sets the caller's own name for it, and what to say. False: it
     * has none. */
    bool (*rename_refusal)(const char *item, const char *why, struct err *ret);
    /* While it runs: appends the data of a `reply_event`. False: nobody has asked for that. */
    bool (*encode_progress)(const void *call, const char *text, struct buf *ret);
    /* Something that an evaluator tells of. Returns its event's name, and what is to be told, which stays the
     * state's until the next call; NULL: nothing. */
    const char *(*note)(void *state, const struct json_slice *kind, const struct json_slice *data,
                        const struct buf **ret_data);
    void (*state_free)(void *state);
    void (*call_free)(void *call); /* at the end of its request */
};
