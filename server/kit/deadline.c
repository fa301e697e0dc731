/* Deadline queues. Runs in the front, and in the warden. Joining and leaving cost a few pointers: there are
 * several per request. */
#include "server/kit/deadline.h"

#include "jail/base/clock.h"
#include "jail/base/loop.h"

/* A timer that goes off too early costs less than setting it again for every request, so it is never moved
 * back. */
static void arm(struct deadlines *deadlines)
{
    uint64_t earliest = 0;
    for (size_t i = 0; i < deadlines->n_queues; i++) {
        const struct deadline *first = deadlines->queues[i].first;
        if (first && (earliest == 0 || first->at_ns < earliest)) {
            earliest = first->at_ns;
        }
    }
    if (earliest > 0 && (deadlines->timer_ns == 0 || earliest < deadlines->timer_ns)) {
        deadlines->timer_ns = earliest;
        loop_timer_set(deadlines->timer, earliest);
    }
}

void deadline_leave(struct deadline *deadline)
{
    struct deadline_queue *queue = deadline->queue;
    if (queue) {
        *(deadline->previous ? &deadline->previous->next : &queue->first) = deadline->next;
        *(deadline->next ? &deadline->next->previous : &queue->last) = deadline->previous;
        queue->count--;
        *deadline = (struct deadline){0};
    }
}

void deadline_join_late(struct deadlines *deadlines, struct deadline *deadline, struct deadline_queue *queue,
                        uint64_t late_ns)
{
    deadline_leave(deadline);
    uint64_t at_ns = clock_now_ns() + queue->timeout_ns - late_ns;
    struct deadline *before = queue->last;
    while (before && before->at_ns > at_ns) {
        before = before->previous;
    }
    struct deadline *after = before ? before->next : queue->first;
    *deadline = (struct deadline){.at_ns = at_ns, .previous = before, .next = after, .queue = queue};
    *(before ? &before->next : &queue->first) = deadline;
    *(after ? &after->previous : &queue->last) = deadline;
    queue->count++;
    arm(deadlines);
}

void deadline_join(struct deadlines *deadlines, struct deadline *deadline, struct deadline_queue *queue)
{
    deadline_leave(deadline);
    if (queue) {
        deadline_join_late(deadlines, deadline, queue, 0);
    }
}

static void on_timer(void *arg, uint32_t events)
{
    (void)events;
    struct deadlines *deadlines = arg;
    uint64_t now = clock_now_ns();
    deadlines->timer_ns = 0;
    for (size_t i = 0; i < deadlines->n_queues; i++) {
        struct deadline *first;
        while ((first = deadlines->queues[i].first) && first->at_ns <= now) {
            deadline_leave(first);
            deadlines->passed(deadlines->arg, first);
        }
    }
    arm(deadlines);
}

int deadlines_start(struct deadlines *deadlines, struct loop *loop, struct err *reterr)
{
    return loop_add_timer(loop, on_timer, deadlines, &deadlines->timer, reterr);
}

void deadlines_stop(struct deadlines *deadlines)
{
    loop_remove(deadlines->timer);
    deadlines->timer = NULL;
}
