/* struct terminal: a pseudo-terminal of a jail's own, and the caller's, which it is relayed to. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

struct err;

struct terminal {
    int master, slave;     /* -1: there is none */
    struct termios before; /* the caller's terminal, which is restored */
    char input[256];       /* typed, and not taken by the jail yet */
    size_t n_input, at_input;
    bool input_ended;
};
#define TERMINAL_NONE ((struct terminal){.master = -1, .slave = -1})

/* ERR_INVALID where descriptors 0 and 1 are no terminal. */
int terminal_check(struct err *reterr);
/* Makes it like the terminal that descriptor 0 is, and hands every key on to it from then on (raw mode). */
int terminal_open(struct terminal *ret, struct err *reterr);
/* The jail has the other end: ours is closed, so that its end is seen. */
void terminal_given(struct terminal *terminal);
/* Two entries for poll(); those of TERMINAL_NONE wait for nothing. */
void terminal_watch(const struct terminal *terminal, struct pollfd ret[2]);
void terminal_relay(struct terminal *terminal, const struct pollfd polled[2]);
/* The caller's window has changed. */
void terminal_resize(const struct terminal *terminal);
/* Shows what is left, and restores the caller's terminal. */
void terminal_close(struct terminal *terminal);
