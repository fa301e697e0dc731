/* Requests about jobs of another front. Runs in the front: in the new one, which asks, and in the one that
 * was replaced, which answers as if the request had come to it. */
#include "server/jobs/relays.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/message/message.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "server/jobs/front_context.h"
#include "server/jobs/request.h"
#include "server/link/channel.h"

/* Of one key, of the RELAYS_MAX that there may be. */
#define RELAYS_PER_KEY 16u

struct relay_pending {
    struct relay_pending *next;
    struct request *request; /* NULL: the caller has gone */
    const struct key_config *key;
    struct msg_relay asked; /* without the key */
    relay_fn done;
    void *context;
};

struct relays {
    struct front *front;
    struct channel *channel;
    struct relay_pending *first;
    uint64_t last_id;
};

int relays_new(struct front *front, struct channel *channel, struct relays **ret, struct err *reterr)
{
    struct relays *relays = calloc(1, sizeof *relays);
    if (!relays) {
        return err_errno(reterr, ENOMEM, "making the table of relays");
    }
    *relays = (struct relays){.front = front, .channel = channel};
    *ret = relays;
    return 0;
}

static void pending_free(struct relay_pending *pending)
{
    free(pending->context);
    free(pending);
}

void relays_free(struct relays *relays)
{
    while (relays && relays->first) {
        struct relay_pending *pending = relays->first;
        relays->first = pending->next;
        pending_free(pending);
    }
    free(relays);
}

bool relays_may_help(const struct request *request)
{
    return request->front->state.jobs_elsewhere > 0;
}

static int sealed_copy(const struct buf *text, int *ret_fd)
{
    CLEANUP(fd_closep) int fd = -1;
    int r = io_memfd("relay", text->data ? text->data : "", text->len, &fd);
    r = r < 0 ? r : io_memfd_seal(&fd, text->len);
    if (r == 0) {
        *ret_fd = TAKE_FD(fd);
    }
    return r;
}

static int check_room(const struct relays *relays, const struct request *request, const struct buf *body,
                      struct err *reterr)
{
    unsigned n = 0, of_key = 0;
    for (const struct relay_pending *one = relays->first; one; one = one->next) {
        n++;
        of_key += one->key == request->caller.key;
    }
    if (n >= RELAYS_MAX || of_key >= RELAYS_PER_KEY) {
        return err_set(reterr, ERR_BUSY, EBUSY, NULL, "server busy: it is being reloaded, ask again");
    }
    return body && body->len > RELAY_BODY_MAX
               ? err_set(
                     reterr, ERR_TOO_LARGE, EFBIG, NULL,
                     "a body of more than %d bytes reaches no job that began before the server was reloaded",
                     RELAY_BODY_MAX)
               : 0;
}

int relay_send(struct request *request, enum relay what, const char *about, const struct buf *body,
               const char *reason, relay_fn done, void *context, struct err *reterr)
{
    struct relays *relays = request->front->relays;
    CLEANUP(fd_closep) int fd = -1;
    int r = check_room(relays, request, body, reterr);
    if (r < 0) {
        return r;
    }
    CLEANUP(freep) struct relay_pending *pending = calloc(1, sizeof *pending);
    r = !pending ? -ENOMEM : body ? sealed_copy(body, &fd) : 0;
    if (r < 0) {
        return err_errno(reterr, -r, "passing a request on");
    }
    *pending = (struct relay_pending){
        .next = relays->first, .request = request, .key = request->caller.key, .done = done};
    pending->asked = (struct msg_relay){.id = ++relays->last_id, .what = what};
    snprintf(pending->asked.about, sizeof pending->asked.about, "%s", about);
    snprintf(pending->asked.reason, sizeof pending->asked.reason, "%s", reason ? reason : "");
    struct msg msg = {.type = MSG_RELAY, .relay = pending->asked};
    snprintf(msg.relay.key, sizeof msg.relay.key, "%s", request->shown_key ? request->shown_key : "");
    r = channel_send(relays->channel, &msg, &fd, fd >= 0, reterr);
    explicit_bzero(msg.relay.key, sizeof msg.relay.key);
    if (r == 0) {
        pending->context = context;
        request->relay = relays->first = TAKE_PTR(pending);
    }
    return r;
}

void relay_forget(struct request *request)
{
    if (request->relay) {
        request->relay->request = NULL;
        request->relay = NULL;
    }
}

int relay_read(int fd, struct buf *ret, struct err *reterr)
{
    int r = lseek(fd, 0, SEEK_SET) < 0 ? -errno : io_read_fd(fd, RELAY_BODY_MAX, ret);
    return r < 0 ? err_errno(reterr, -r, "reading what was passed on") : 0;
}

int relays_answered(struct relays *relays, const struct msg_relay_answer *answer, int fd)
{
    struct relay_pending **at = &relays->first;
    CLEANUP(buf_free) struct buf body = BUF_INIT;
    struct err err = {0};
    while (*at && (*at)->asked.id != answer->id) {
        at = &(*at)->next;
    }
    struct relay_pending *pending = *at;
    if (!pending) {
        return -ENOENT;
    }
    *at = pending->next;
    struct request *request = pending->request;
    if (request) {
        request->relay = NULL;
        if (fd >= 0 && relay_read(fd, &body, &err) < 0) {
            request_refuse_err(request, &err, 0);
        } else {
            pending->done(request, &pending->asked, answer, &body, pending->context);
        }
    }
    pending_free(pending);
    return 0;
}

int relays_reply(struct relays *relays, const struct msg_relay_answer *answer, const struct buf *body)
{
    CLEANUP(fd_closep) int fd = -1;
    struct msg msg = {.type = MSG_RELAY_ANSWER, .relay_answer = *answer};
    if (body->len > 0 && sealed_copy(body, &fd) < 0) {
        msg.relay_answer.kind = ERR_BUSY;
        snprintf(msg.relay_answer.text, sizeof msg.relay_answer.text, "server busy: no descriptor is free");
    }
    return channel_send(relays->channel, &msg, &fd, fd >= 0, NULL);
}
