/* Who has the front to itself next. Runs in the front, which is single-threaded: a body of megabytes is
 * decoded in one go, and nothing else happens meanwhile.
 *
 * So only one is decoded between two rounds of the loop, and then for as long as it took none: whoever else
 * has something to ask waits for one of them, however many have come. The next one is of the key that has
 * waited longest since its last turn, so that a key's large request does not wait for all of another's. */
#include "server/jobs/turns.h"

#include <errno.h>
#include <stdlib.h>

#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/loop.h"

struct turns {
    void (*run)(struct turn *turn);
    struct loop_source *timer;
    struct turn *first, *last;
    uint64_t rest_until_ns;
    uint64_t last_ns[]; /* of each account: its last turn */
};

static struct turn *choose(const struct turns *turns)
{
    struct turn *chosen = turns->first;
    for (struct turn *each = chosen; each; each = each->next) {
        if (turns->last_ns[each->account] < turns->last_ns[chosen->account]) {
            chosen = each;
        }
    }
    return chosen;
}

/* Never 0, which would disarm it. */
static void arm(const struct turns *turns)
{
    if (turns->first) {
        loop_timer_set(turns->timer, turns->rest_until_ns + 1);
    }
}

static void on_timer(void *arg, uint32_t events)
{
    (void)events;
    struct turns *turns = arg;
    struct turn *turn = choose(turns);
    if (!turn) {
        return;
    }
    uint64_t began_ns = clock_now_ns();
    turns->last_ns[turn->account] = began_ns;
    turn_leave(turn);
    turns->run(turn);
    uint64_t now_ns = clock_now_ns();
    turns->rest_until_ns = now_ns + (now_ns - began_ns);
    arm(turns);
}

int turns_new(struct loop *loop, size_t n_accounts, void (*run)(struct turn *turn), struct turns **ret,
              struct err *reterr)
{
    struct turns *turns = calloc(1, sizeof *turns + n_accounts * sizeof turns->last_ns[0]);
    if (!turns) {
        return err_errno(reterr, ENOMEM, "making the table of turns");
    }
    turns->run = run;
    int r = loop_add_timer(loop, on_timer, turns, &turns->timer, reterr);
    if (r < 0) {
        free(turns);
        return r;
    }
    *ret = turns;
    return 0;
}

void turns_free(struct turns *turns)
{
    if (turns) {
        loop_remove(turns->timer);
        free(turns);
    }
}

void turn_wait(struct turns *turns, struct turn *turn, unsigned account)
{
    *turn = (struct turn){.turns = turns, .previous = turns->last, .account = account};
    *(turns->last ? &turns->last->next : &turns->first) = turn;
    turns->last = turn;
    if (turns->first == turn) {
        arm(turns);
    }
}

void turn_leave(struct turn *turn)
{
    struct turns *turns = turn->turns;
    if (!turns) {
        return;
    }
    *(turn->previous ? &turn->previous->next : &turns->first) = turn->next;
    *(turn->next ? &turn->next->previous : &turns->last) = turn->previous;
    *turn = (struct turn){0};
}
