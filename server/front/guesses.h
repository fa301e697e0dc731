/* struct guesses: wrong keys by address, and answers to them that take their time. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct deadline;
struct err;
struct guesses;
struct loop;

/* `refuse` gives the answer whose time has come. */
int guesses_new(struct loop *loop, void (*refuse)(void *arg, struct deadline *held), struct guesses **ret,
                struct err *reterr);
void guesses_free(struct guesses *guesses);

/* A wrong key came from `network`. Returns how long the answer is to be held back: 0, or GUESS_DELAY_NS for
 * an address that has guessed more than it may. */
uint64_t guesses_note(struct guesses *guesses, uint64_t network, uint64_t now_ns);
#define GUESS_BURST       20                  /* at once, by one address */
#define GUESS_INTERVAL_NS (1ull * 1000000000) /* and then one in this time */
#define GUESS_DELAY_NS    (1ull * 1000000000)

/* Refuses it in GUESS_DELAY_NS, unless deadline_leave() comes before. */
void guesses_hold(struct guesses *guesses, struct deadline *held);
