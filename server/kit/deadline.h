/* Deadlines for many things with few different timeouts: a queue per timeout, one timer for all of them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct err;
struct loop;
struct loop_source;

/* Part of the thing that has a deadline. All zero: in no queue. */
struct deadline {
    uint64_t at_ns;
    struct deadline *previous, *next;
    struct deadline_queue *queue;
};

/* Everything in it got the same timeout when it joined, so it stays sorted by itself. */
struct deadline_queue {
    uint64_t timeout_ns;
    struct deadline *first, *last;
    size_t count;
};

struct deadlines {
    struct deadline_queue *queues;
    size_t n_queues;
    void (*passed)(void *arg, struct deadline *deadline); /* it has left its queue already */
    void *arg;
    struct loop_source *timer;
    uint64_t timer_ns; /* 0: not set */
};

/* `queues` and the callback are set; adds the timer to the loop. */
int deadlines_start(struct deadlines *deadlines, struct loop *loop, struct err *reterr);
void deadlines_stop(struct deadlines *deadlines);

/* Leaves the queue it is in, if any. */
void deadline_leave(struct deadline *deadline);

/* As if it had joined so long ago, less than the queue's timeout; finds its place among the others. */
void deadline_join_late(struct deadlines *deadlines, struct deadline *deadline, struct deadline_queue *queue,
                        uint64_t late_ns);

/* From now on; leaves the queue it was in. `queue` NULL: no deadline. */
void deadline_join(struct deadlines *deadlines, struct deadline *deadline, struct deadline_queue *queue);
