/* struct turns: requests whose work takes the front so long that others would notice: one at a time, keys by
 * turns, with a rest after each. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct err;
struct loop;
struct turns;

/* Part of the thing that waits. All zero: it does not. */
struct turn {
    struct turns *turns;
    struct turn *previous, *next;
    unsigned account; /* whose it is */
};

/* `run` does the work of what has waited, which has left by then. */
int turns_new(struct loop *loop, size_t n_accounts, void (*run)(struct turn *turn), struct turns **ret,
              struct err *reterr);
/* Nobody waits any more. Takes NULL. */
void turns_free(struct turns *turns);

/* `run` is called later, from the loop. */
void turn_wait(struct turns *turns, struct turn *turn, unsigned account);
/* Also of one that does not wait. */
void turn_leave(struct turn *turn);
