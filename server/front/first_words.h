/* What the warden says to a front before that serves: the configuration, and how things stand. */
#pragma once

#include <stddef.h>

struct channel;
struct err;
struct front;

/* What the front does not keep itself. */
struct first_words {
    char **held; /* policies whose jobs may need an approval, until front.approvals has them */
    size_t n_held;
    int audit_fd; /* -1: none */
};
void first_words_clear(struct first_words *words);

/* Waits for both, and puts the rest into `front`: configuration, policies and their hosts, state. */
int first_words_receive(struct channel *channel, struct front *front, struct first_words *ret,
                        struct err *reterr);
