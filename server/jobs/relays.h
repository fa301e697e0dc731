/* Requests about jobs of another front of this server: after a reload those go on, while their callers'
 * requests come here. The warden passes them on, for the key that the request's caller has shown. */
#pragma once

#include <stdbool.h>

#include "config/message/message_relay.h"

struct buf;
struct channel;
struct err;
struct front;
struct relays;
struct request;

/* Both stay the caller's. */
int relays_new(struct front *front, struct channel *channel, struct relays **ret, struct err *reterr);
/* Forgets what is still open; the requests must have ended. Takes NULL. */
void relays_free(struct relays *relays);

/* Whether a job that is unknown here may be another front's. */
bool relays_may_help(const struct request *request);

/* What has come of it: answers the request. ERR_NOT_FOUND: no front knows the job. */
typedef void (*relay_fn)(struct request *request, const struct msg_relay *asked,
                         const struct msg_relay_answer *answer, struct buf *body, void *context);

/* `body` NULL: none; `reason` NULL: none. Takes `context`, which is freed after `done`, if that is called.
 * ERR_BUSY, ERR_TOO_LARGE: then `context` stays the caller's. */
int relay_send(struct request *request, enum relay what, const char *about, const struct buf *body,
               const char *reason, relay_fn done, void *context, struct err *reterr);
/* Its caller has gone. */
void relay_forget(struct request *request);
/* -ENOENT where nothing was asked. */
int relays_answered(struct relays *relays, const struct msg_relay_answer *answer, int fd);
/* What is beside a question or an answer. */
int relay_read(int fd, struct buf *ret, struct err *reterr);
/* To another front's question, with an empty `body` or one of RELAY_BODY_MAX at most. -errno: the channel is
 * broken. */
int relays_reply(struct relays *relays, const struct msg_relay_answer *answer, const struct buf *body);
