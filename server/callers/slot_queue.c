/* Who waits for a slot. Runs in the front, in the one place that every door's jobs pass.
 *
 * A key's jobs begin in the order in which they came, and keys by turns, so that a key with one job does not
 * wait for all of another's. Who may not begin yet, because its key runs as many as it may, is passed by. */
#include "server/callers/slot_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct account {
    uint64_t turn; /* its last one */
    size_t count, bytes;
};

struct slot_queue {
    struct slot_wait *first, *last;
    struct account all;
    size_t most, most_bytes, n_accounts;
    bool is_shared; /* by several keys */
    uint64_t turns;
    struct account *accounts;
};

int slot_queue_set_keys(struct slot_queue *queue, size_t n_keys, size_t n_accounts)
{
    struct account *accounts = reallocarray(queue->accounts, n_accounts, sizeof *accounts);
    if (!accounts) {
        return -ENOMEM;
    }
    memset(accounts + queue->n_accounts, 0, (n_accounts - queue->n_accounts) * sizeof *accounts);
    queue->accounts = accounts;
    queue->n_accounts = n_accounts;
    queue->is_shared = n_keys > 1;
    return 0;
}

struct slot_queue *slot_queue_new(size_t n_accounts, size_t most, size_t most_bytes)
{
    struct slot_queue *queue = calloc(1, sizeof *queue);
    if (!queue || slot_queue_set_keys(queue, n_accounts - 1, n_accounts) < 0) {
        free(queue);
        return NULL;
    }
    queue->most = most;
    queue->most_bytes = most_bytes;
    return queue;
}

void slot_queue_free(struct slot_queue *queue)
{
    if (queue) {
        free(queue->accounts);
    }
    free(queue);
}

size_t slot_queue_count(const struct slot_queue *queue)
{
    return queue->all.count;
}

/* Half of it, and at least one. */
static size_t share(const struct slot_queue *queue, size_t most)
{
    return queue->is_shared ? most - most / 2 : most;
}

static bool fits(const struct account *account, size_t most, size_t most_bytes, size_t bytes)
{
    return account->count < most && account->bytes <= most_bytes && bytes <= most_bytes - account->bytes;
}

bool slot_queue_has_room(const struct slot_queue *queue, unsigned account, size_t bytes)
{
    return fits(&queue->all, queue->most, queue->most_bytes, bytes) &&
           fits(&queue->accounts[account], share(queue, queue->most), share(queue, queue->most_bytes), bytes);
}

void slot_queue_join(struct slot_queue *queue, struct slot_wait *wait)
{
    struct slot_wait *before = queue->last;
    while (before && before->since_ns > wait->since_ns) {
        before = before->previous;
    }
    wait->queue = queue;
    wait->previous = before;
    wait->next = before ? before->next : queue->first;
    *(wait->previous ? &wait->previous->next : &queue->first) = wait;
    *(wait->next ? &wait->next->previous : &queue->last) = wait;
    queue->all.count++;
    queue->all.bytes += wait->bytes;
    queue->accounts[wait->account].count++;
    queue->accounts[wait->account].bytes += wait->bytes;
}

void slot_wait_leave(struct slot_wait *wait)
{
    struct slot_queue *queue = wait->queue;
    if (!queue) {
        return;
    }
    *(wait->previous ? &wait->previous->next : &queue->first) = wait->next;
    *(wait->next ? &wait->next->previous : &queue->last) = wait->previous;
    queue->all.count--;
    queue->all.bytes -= wait->bytes;
    queue->accounts[wait->account].count--;
    queue->accounts[wait->account].bytes -= wait->bytes;
    wait->queue = NULL;
    wait->previous = wait->next = NULL;
}

struct slot_wait *slot_queue_first(const struct slot_queue *queue)
{
    return queue->first;
}

struct slot_wait *slot_queue_next(const struct slot_queue *queue, uint64_t now_ns,
                                  bool (*may)(void *arg, const struct slot_wait *wait), void *arg)
{
    struct slot_wait *chosen = NULL;
    for (struct slot_wait *wait = queue->first; wait; wait = wait->next) {
        bool better = !chosen || queue->accounts[wait->account].turn < queue->accounts[chosen->account].turn;
        if (better && wait->not_before_ns <= now_ns && may(arg, wait)) {
            chosen = wait;
        }
    }
    return chosen;
}

void slot_queue_take(struct slot_wait *wait)
{
    struct slot_queue *queue = wait->queue;
    queue->accounts[wait->account].turn = ++queue->turns;
    slot_wait_leave(wait);
}

uint64_t slot_queue_due_ns(const struct slot_queue *queue, uint64_t now_ns)
{
    uint64_t due_ns = UINT64_MAX;
    for (const struct slot_wait *wait = queue->first; wait; wait = wait->next) {
        bool again = wait->not_before_ns > now_ns && wait->not_before_ns < wait->until_ns;
        uint64_t next_ns = again ? wait->not_before_ns : wait->until_ns;
        due_ns = next_ns < due_ns ? next_ns : due_ns;
    }
    return due_ns == UINT64_MAX ? 0 : due_ns;
}
