/* struct decoder: bodies that take so long to decode that others would notice. */
#pragma once

#include <stdbool.h>

#include "jail/base/buf.h"
#include "server/jobs/body.h"

struct decoder;
struct err;
struct loop;
struct server_config;

/* One body, and whoever waits for what it says. */
struct decoding {
    struct decoder *decoder;
    struct decoding *previous, *next; /* of those that wait */
    unsigned account;                 /* whose it is */
    const struct door *door;
    const char *text; /* the owner's, or of `kept` */
    size_t size;
    struct buf kept;
    void *owner; /* NULL: has gone */
    struct body_reading reading;
};

/* Makes the thread, in which nothing of the calling thread's but its limits and its sandbox holds: call it
 * behind Landlock, and before the filter that forbids threads. `done` is called from the loop; what it does
 * not take of the reading is cleared afterwards. */
int decoder_new(struct loop *loop, const struct server_config *config,
                void (*done)(void *owner, struct body_reading *reading), struct decoder **ret,
                struct err *reterr);
/* Waits for the body that is being decoded, if one is; nobody hears of it. Takes NULL. */
void decoder_free(struct decoder *decoder);

/* At least as many as before. -ENOMEM: nothing has changed. */
int decoder_set_accounts(struct decoder *decoder, size_t n_accounts);

/* `text` stays as it is until `done`, or decoder_leave(). NULL: no memory. */
struct decoding *decoder_wait(struct decoder *decoder, unsigned account, const struct door *door,
                              const char *text, size_t size, void *owner);
/* The owner goes before `done`. Where the text is being read, it is taken from `text`, which is empty then.
 */
void decoder_leave(struct decoding *decoding, struct buf *text);
