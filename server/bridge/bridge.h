/* struct bridge: the front's ends of the two pipes between a program and its tools, and the frames on them
 * (jail/runtime/README.md). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bridge;
struct err;
struct json_slice;
struct loop;
struct rich_results;

/* The program's ends, in the order of their descriptors in the jail. The caller closes them once they are
 * with the warden. */
enum bridge_end { BRIDGE_END_IN, BRIDGE_END_OUT, BRIDGE_ENDS };

/* The first byte of a frame that is not JSON. */
#define BRIDGE_BINARY 1

struct bridge_limits {
    size_t frame_bytes;       /* of one frame from the program */
    uint64_t total_bytes;     /* of all of them */
    uint64_t calls;           /* tool calls of one job */
    unsigned calls_in_flight; /* at once; what comes beyond waits in the pipe */
    size_t result_bytes;      /* JSON text of one result */
    bool evaluator;           /* it may send events, and its calls' arguments are a list */
    size_t other_bytes; /* that bridge_send() may have waiting without the program being held up for it */
};

/* A call that waits for its answer. Its texts are the bridge's, until it is answered. */
struct bridge_call {
    struct bridge *bridge;
    struct bridge_call *previous, *next;
    uint64_t id; /* the program's own */
    char *name;  /* of the tool; UTF-8 */
    char *args;  /* JSON text of an object; of an array where an evaluator calls */
    size_t args_size;
    void *user; /* the handler's */
};

/* Called with `arg`. */
struct bridge_events {
    /* The program calls a tool. Answered with bridge_answer(), at once or later. */
    void (*call)(void *arg, struct bridge_call *call);
    /* The bridge is going, and this call with it: whatever was begun for it is to end. */
    void (*cancel)(void *arg, struct bridge_call *call);
    /* The program has given a result: these paths are to be returned with it, instead of those given before.
     */
    void (*outputs)(void *arg, char *const *paths, size_t n);
    /* An evaluator tells of something: a word, in its quotes, and any JSON. */
    void (*event)(void *arg, const struct json_slice *kind, const struct json_slice *data);
    /* The program shows something: an object of the reply's `results`. */
    void (*show)(void *arg, const char *json_text, size_t size);
    /* A frame that is none of these: a JSON object with a number and another `op`, or one that
     * begins with BRIDGE_BINARY. Returns NULL, or why the bridge is to be closed. */
    const char *(*other)(void *arg, const char *data, size_t size);
    /* The program does not keep to the rules: the bridge is closed, the job goes on. */
    void (*broken)(void *arg, const char *why);
};

int bridge_new(struct loop *loop, const struct bridge_limits *limits, const struct bridge_events *events,
               void *arg, int ret_ends[BRIDGE_ENDS], struct bridge **ret, struct err *reterr);
/* Cancels what is open. Takes NULL. */
void bridge_free(struct bridge *bridge);

/* The answer's text, as what stands between the quotes of a JSON string: what comes from a tool is passed on
 * as it came. Ends the call, which is freed. */
enum bridge_answer { BRIDGE_DATA, BRIDGE_ERROR, BRIDGE_DONE };
void bridge_answer(struct bridge_call *call, enum bridge_answer kind, const char *json_text, size_t size);

/* The same for a number of `other`; BRIDGE_DONE is an answer without text. */
void bridge_reply(struct bridge *bridge, uint64_t id, enum bridge_answer kind, const char *json_text,
                  size_t size);
/* A frame of any kind, in two parts. The program may not fetch it: whoever sends sees to it that only so much
 * waits. */
void bridge_send(struct bridge *bridge, const void *head, size_t head_size, const void *data, size_t size);

/* Of the calls without an answer, the one that has waited longest; `previous` is the next. NULL: none. */
struct bridge_call *bridge_oldest_call(const struct bridge *bridge);

/* A whole number below 2^53, which every language's JSON holds. */
bool bridge_read_number(const struct json_slice *slice, uint64_t *ret);
/* A JSON string as it reads; NULL where it is none, or holds a NUL. */
char *bridge_decode_string(const struct json_slice *slice);

/* The program has ended: takes the results that are still in the pipe, and cancels what is open. */
void bridge_finish(struct bridge *bridge);

/* JSON text of the last result; "" where there is none. */
const char *bridge_output(const struct bridge *bridge, size_t *ret_size);
/* What it has shown. */
const struct rich_results *bridge_results(const struct bridge *bridge);
