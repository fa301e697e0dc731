/* struct held_calls: tool calls that are with the caller, who was told of them in the job's events and
 * answers each by its id. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct err;
struct held_call;
struct held_calls;
struct loop;

#define HELD_CALL_ID_BYTES 24

/* All of a front's: they share a timer. `timeout_ms`: of one call. */
int held_calls_new(struct loop *loop, uint64_t timeout_ms, struct held_calls **ret, struct err *reterr);
/* No call is left. Takes NULL. */
void held_calls_free(struct held_calls *all);

enum held_answer {
    HELD_DATA, /* both as they stand between the quotes of a JSON string */
    HELD_ERROR,
    HELD_FAILED, /* there was no answer: `text` says why in plain words */
};
typedef void (*held_fn)(void *arg, enum held_answer kind, const char *text, size_t size);

/* `done` is called once, by held_call_answer() or when nobody has answered in time, unless the call is
 * dropped before. -ENOMEM. */
int held_call_new(struct held_calls *all, held_fn done, void *arg, struct held_call **ret);
/* No other call of any front has it: letters and digits. */
const char *held_call_id(const struct held_call *held);
/* Ends it. */
void held_call_answer(struct held_call *held, enum held_answer kind, const char *text, size_t size);
/* `done` is not called any more. */
void held_call_drop(struct held_call *held);
