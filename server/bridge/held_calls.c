/* Tool calls that wait for the caller's answer. Runs in the front, on its loop. */
#include "server/bridge/held_calls.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "server/kit/deadline.h"

struct held_calls {
    struct deadlines deadlines;
    struct deadline_queue queue;
    uint64_t last_id;
};

struct held_call {
    struct deadline deadline;
    char id[HELD_CALL_ID_BYTES];
    held_fn done;
    void *arg;
};

static void on_passed(void *arg, struct deadline *deadline)
{
    (void)arg;
    held_call_answer(CONTAINER_OF(deadline, struct held_call, deadline), HELD_FAILED,
                     "no answer came in time", 0);
}

int held_calls_new(struct loop *loop, uint64_t timeout_ms, struct held_calls **ret, struct err *reterr)
{
    struct held_calls *all = calloc(1, sizeof *all);
    if (!all) {
        return err_errno(reterr, ENOMEM, "making the table of tool calls");
    }
    /* Ids are unique over restarts of the front: none has a call per nanosecond. */
    *all = (struct held_calls){.queue.timeout_ns = timeout_ms * NS_PER_MS, .last_id = clock_now_ns()};
    all->deadlines = (struct deadlines){.queues = &all->queue, .n_queues = 1, .passed = on_passed};
    int r = deadlines_start(&all->deadlines, loop, reterr);
    if (r < 0) {
        free(all);
        return r;
    }
    *ret = all;
    return 0;
}

void held_calls_free(struct held_calls *all)
{
    if (all) {
        deadlines_stop(&all->deadlines);
        free(all);
    }
}

int held_call_new(struct held_calls *all, held_fn done, void *arg, struct held_call **ret)
{
    struct held_call *held = calloc(1, sizeof *held);
    if (!held) {
        return -ENOMEM;
    }
    *held = (struct held_call){.done = done, .arg = arg};
    snprintf(held->id, sizeof held->id, "%" PRIx64, ++all->last_id);
    deadline_join(&all->deadlines, &held->deadline, &all->queue);
    *ret = held;
    return 0;
}

const char *held_call_id(const struct held_call *held)
{
    return held->id;
}

void held_call_answer(struct held_call *held, enum held_answer kind, const char *text, size_t size)
{
    held_fn done = held->done;
    void *arg = held->arg;
    held_call_drop(held);
    done(arg, kind, text, size);
}

void held_call_drop(struct held_call *held)
{
    deadline_leave(&held->deadline);
    free(held);
}
