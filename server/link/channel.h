/* The socket between front and warden, and the table of who may say what in which state. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "config/message/message.h"

struct err;

enum channel_side { CHANNEL_FRONT, CHANNEL_WARDEN };

/* Where the front finds its descriptors. Only 0, 1, 2 are open besides. */
enum { FRONT_CHANNEL_FD = 3, FRONT_LISTEN_FD = 4 };

struct channel;

/* Takes the socket over. `side` is ours. */
int channel_new(int sock, enum channel_side side, struct channel **ret, struct err *reterr);
void channel_free(struct channel *channel);
int channel_fd(const struct channel *channel);

/* Sends now or, where the socket is full, queues; channel_flush() (on EPOLLOUT) sends what is queued.
 * Descriptors are duplicated into the queue as needed and stay the caller's. For MSG_DONE the attached files'
 * own fds are sent and `fds` must be NULL. A message that the table forbids is ERR_INTERNAL. */
int channel_send(struct channel *channel, const struct msg *msg, const int *fds, size_t n_fds,
                 struct err *reterr);
bool channel_wants_write(const struct channel *channel);
int channel_flush(struct channel *channel, struct err *reterr);

/* Receives one message: 1 and `*ret` filled (msg_clear() it), 0 where none is there, -EPIPE at end of file,
 * another -errno with `reterr` where the peer broke the rules (malformed, oversized, out of order, not its to
 * send, foreign descriptors): the channel is then to be closed. `fds` gets the message's own descriptors
 * (job: see MSG_JOB_FDS; config: configuration, audit log), `*n_fds` is the room before and the
 * number after.
 * CHANNEL_BARE, like 1 but without descriptors: a job, a submission, an approved job, a verdict or an answer
 * about approvals has come, for whose descriptors this process has no room. */
#define CHANNEL_BARE 2
int channel_recv(struct channel *channel, struct msg *ret, int *fds, size_t *n_fds, struct err *reterr);
