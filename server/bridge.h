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

/* The program's ends, in the order of their descriptors in the jail. The caller closes them once they are
 * with the warden. */
enum bridge_end { BRIDGE_END_IN, BRIDGE_END_OUT, BRIDGE_ENDS };

struct bridge_limits {
    size_t frame_bytes;       /* of one frame from the program */
    uint64_t total_bytes;     /* of all of them */
    uint64_t calls;           /* tool calls of one job */
    unsigned calls_in_flight; /* at once; what comes beyond waits in the pipe */
    size_t result_bytes;      /* JSON text of one result */
    bool evaluator;           /* it may send events, and its calls' arguments are a list */
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
    /* The program does not keep to the rules: the bridge is closed, the job goes on. */
    void (*broken)(void *arg, const char *why);
};

int bridge_new(struct loop *loop, const struct bridge_limits *limits, const struct bridge_events *events,
               void *arg, int ret_ends[BRIDGE_ENDS], struct bridge **ret, struct err *reterr);
/* Cancels what is open. Takes NULL. */
void bridge_free(struct bridge *bridge);

/* The answer's text, as what stands between the quotes of a JSON string: what comes from a tool is passed on
 * as it came. Ends the call, which is freed. */
enum bridge_answer { BRIDGE_DATA, BRIDGE_ERROR };
void bridge_answer(struct bridge_call *call, enum bridge_answer kind, const char *json_text, size_t size);

/* The program has ended: takes the results that are still in the pipe, and cancels what is open. */
void bridge_finish(struct bridge *bridge);

/* JSON text of the last result; "" where there is none. */
const char *bridge_output(const struct bridge *bridge, size_t *ret_size);
