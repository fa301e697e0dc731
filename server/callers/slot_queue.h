/* struct slot_queue: who waits for a slot, and whose turn it is. It knows nothing of jobs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slot_queue;

/* Part of the thing that waits. All zero: it does not. */
struct slot_wait {
    struct slot_queue *queue;
    struct slot_wait *previous, *next;
    unsigned account;       /* whose it is */
    size_t bytes;           /* that it holds in memory meanwhile */
    uint64_t since_ns;      /* when it came; who came first stands first */
    uint64_t until_ns;      /* then it gives up */
    uint64_t not_before_ns; /* it was refused once more: others go first until then; 0: it was not */
};

/* At most `most` wait, with `most_bytes` together; where there are several keys, one has at most half of
 * either. The accounts are a key each, and in front of them that of an open server. NULL: out of memory. */
struct slot_queue *slot_queue_new(size_t n_accounts, size_t most, size_t most_bytes);
/* There are so many keys now, and accounts: at least as many as before. -ENOMEM: nothing has changed. */
int slot_queue_set_keys(struct slot_queue *queue, size_t n_keys, size_t n_accounts);
void slot_queue_free(struct slot_queue *queue); /* nobody waits any more; takes NULL */

size_t slot_queue_count(const struct slot_queue *queue);
bool slot_queue_has_room(const struct slot_queue *queue, unsigned account, size_t bytes);
/* `wait` has all but its queue and its place. */
void slot_queue_join(struct slot_queue *queue, struct slot_wait *wait);
/* Also of one that does not wait. What else is in `wait` stays. */
void slot_wait_leave(struct slot_wait *wait);

/* Who came first. NULL: nobody waits. */
struct slot_wait *slot_queue_first(const struct slot_queue *queue);
/* Of those that `may` begin: whoever came first of the key that has waited longest since its last turn. NULL:
 * nobody may. */
struct slot_wait *slot_queue_next(const struct slot_queue *queue, uint64_t now_ns,
                                  bool (*may)(void *arg, const struct slot_wait *wait), void *arg);
/* It leaves, and its key has had a turn. */
void slot_queue_take(struct slot_wait *wait);

/* When there is something to be done if nobody leaves before; 0: nobody waits. */
uint64_t slot_queue_due_ns(const struct slot_queue *queue, uint64_t now_ns);
