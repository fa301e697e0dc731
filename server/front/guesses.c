/* Guessing keys. Runs in the front. A guess against 32 random bytes is hopeless, but keys are chosen by
 * people, and guessing costs us work. An address may be wrong a few times at once and then once a second;
 * further answers are held back, without anybody else waiting for them. A right key is never held back: its
 * owner may live behind the same address.
 *
 * Addresses are in a table of fixed size, in sets of a few: whoever has many addresses displaces those that
 * have guessed least. */
#include "server/front/guesses.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "server/kit/deadline.h"

#define SETS    512
#define WAYS    4
#define DEBT_NS (60 * NS_PER_S) /* no address is remembered for longer */

struct guesser {
    uint64_t network;
    uint64_t paid_ns; /* when its guesses so far will be paid for, one GUESS_INTERVAL_NS each */
};

struct guesses {
    struct guesser table[SETS][WAYS];
    uint64_t seed; /* so that nobody can choose whom he displaces */
    struct deadline_queue queue;
    struct deadlines deadlines;
};

int guesses_new(struct loop *loop, void (*refuse)(void *arg, struct deadline *held), struct guesses **ret,
                struct err *reterr)
{
    struct guesses *guesses = calloc(1, sizeof *guesses);
    if (!guesses) {
        return err_errno(reterr, ENOMEM, "making the table of guesses");
    }
    if (getrandom(&guesses->seed, sizeof guesses->seed, 0) < 0) {
        int code = errno;
        free(guesses);
        return err_errno(reterr, code, "making the table of guesses");
    }
    guesses->queue.timeout_ns = GUESS_DELAY_NS;
    guesses->deadlines = (struct deadlines){.queues = &guesses->queue, .n_queues = 1, .passed = refuse};
    int r = deadlines_start(&guesses->deadlines, loop, reterr);
    if (r < 0) {
        free(guesses);
        return r;
    }
    *ret = guesses;
    return 0;
}

void guesses_free(struct guesses *guesses)
{
    if (guesses) {
        deadlines_stop(&guesses->deadlines);
        free(guesses);
    }
}

/* Its place in the table, or that of the one in its set who owes least. */
static struct guesser *find(struct guesses *guesses, uint64_t network)
{
    uint64_t mixed = (network ^ guesses->seed) * 0x9e3779b97f4a7c15ull;
    struct guesser *set = guesses->table[(mixed >> 55) % SETS];
    struct guesser *least = set;
    for (size_t i = 0; i < WAYS; i++) {
        if (set[i].network == network) {
            return &set[i];
        }
        least = set[i].paid_ns < least->paid_ns ? &set[i] : least;
    }
    *least = (struct guesser){.network = network};
    return least;
}

uint64_t guesses_note(struct guesses *guesses, uint64_t network, uint64_t now_ns)
{
    struct guesser *guesser = find(guesses, network);
    uint64_t paid_ns = (guesser->paid_ns > now_ns ? guesser->paid_ns : now_ns) + GUESS_INTERVAL_NS;
    guesser->paid_ns = paid_ns < now_ns + DEBT_NS ? paid_ns : now_ns + DEBT_NS;
    return guesser->paid_ns - now_ns > GUESS_BURST * GUESS_INTERVAL_NS ? GUESS_DELAY_NS : 0;
}

void guesses_hold(struct guesses *guesses, struct deadline *held)
{
    deadline_join(&guesses->deadlines, held, &guesses->queue);
}
