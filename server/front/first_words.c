/* The warden's first words to a front. Runs in the front before it is confined and before it serves. */
#include "server/front/first_words.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "server/front/callers.h"
#include "server/jobs/front_context.h"
#include "server/link/channel.h"

#define CONFIG_TIMEOUT_MS 10000

void first_words_clear(struct first_words *words)
{
    for (size_t i = 0; words->held && i < words->n_held; i++) {
        free(words->held[i]);
    }
    free(words->held);
    fd_closep(&words->audit_fd);
}

/* Waits for one message. The channel's table says which may come at that point. */
static int receive_first(struct channel *channel, struct msg *msg, int fds[MSG_CONFIG_FDS], size_t *n_fds,
                         struct err *reterr)
{
    struct pollfd ready = {.fd = channel_fd(channel), .events = POLLIN};
    int r = 0;
    while (r == 0) {
        int n = poll(&ready, 1, CONFIG_TIMEOUT_MS);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return err_set(reterr, ERR_UNAVAILABLE, ETIMEDOUT, NULL, "no configuration came from the warden");
        }
        *n_fds = MSG_CONFIG_FDS;
        r = channel_recv(channel, msg, fds, n_fds, reterr);
    }
    return r < 0 ? err_set(reterr, ERR_UNAVAILABLE, -r, NULL, "the channel to the warden is closed") : 0;
}

static int read_hosts(int fd, struct egress_policies *ret, struct err *reterr)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT;
    int r = lseek(fd, 0, SEEK_SET) < 0 ? -errno : io_read_fd(fd, EGRESS_POLICIES_BYTES, &data);
    if (r < 0) {
        return err_errno(reterr, -r, "reading the policies' hosts");
    }
    return bind_decode(&egress_policies_table, data.data, data.len, ret, reterr);
}

static void close_all(int (*fds)[MSG_CONFIG_FDS])
{
    for (size_t i = 0; i < MSG_CONFIG_FDS; i++) {
        fd_closep(&(*fds)[i]);
    }
}

/* The configuration, with the hosts of policies and the audit log where there are any. */
static int receive_config(struct channel *channel, struct front *front, struct first_words *ret,
                          struct err *reterr)
{
    CLEANUP(close_all) int fds[MSG_CONFIG_FDS] = {-1, -1, -1};
    size_t n_fds = 0;
    struct msg msg = {.type = MSG_NONE};
    int r = receive_first(channel, &msg, fds, &n_fds, reterr);
    if (r < 0) {
        return r;
    }
    bool egress = msg.config.egress, audit = msg.config.audit;
    ret->held = TAKE_PTR(msg.config.held);
    ret->n_held = msg.config.n_held;
    msg.config.n_held = 0;
    front->policies = TAKE_PTR(msg.config.policies);
    front->n_policies = msg.config.n_policies;
    msg.config.n_policies = 0;
    msg_clear(&msg);
    if (n_fds != 1 + (size_t)egress + (size_t)audit) {
        return err_set(reterr, ERR_INTERNAL, EPROTO, NULL, "the configuration came without all of it");
    }
    ret->audit_fd = audit ? TAKE_FD(fds[n_fds - 1]) : -1;
    r = egress ? read_hosts(fds[1], &front->egress_policies, reterr) : 0;
    return r < 0 ? r : callers_read_config(fds[0], &front->config, reterr);
}

/* The second: how things stand. Nobody is served before, so that a reload is seen by nobody. */
static int receive_state(struct channel *channel, struct front *front, struct err *reterr)
{
    int no_fds[MSG_CONFIG_FDS];
    size_t n_fds = 0;
    struct msg msg = {.type = MSG_NONE};
    int r = receive_first(channel, &msg, no_fds, &n_fds, reterr);
    if (r == 0 && msg.type != MSG_STATE) {
        r = err_set(reterr, ERR_INTERNAL, EPROTO, NULL, "the warden did not say how things stand");
    }
    if (r == 0) {
        front->state = msg.state;
    }
    msg_clear(&msg);
    return r;
}

int first_words_receive(struct channel *channel, struct front *front, struct first_words *ret,
                        struct err *reterr)
{
    int r = receive_config(channel, front, ret, reterr);
    return r < 0 ? r : receive_state(channel, front, reterr);
}
