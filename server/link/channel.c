/* The channel between front and warden. Runs in both processes, single-threaded in each, never blocking.
 *
 * Neither side trusts the other: the front may have been taken over by a request, the warden's messages must
 * not be forged by a front's successor. What may be said is one table, (type, sender, states, descriptors),
 * and each end holds what it sends and what it receives against it. Both ends walk through the same states,
 * since a SOCK_SEQPACKET socket keeps the order: each message that the table says so moves the state on. */
#include "server/link/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"

/* How far the two have come. A message is allowed in a set of states. */
enum channel_state {
    CHANNEL_NEW = 1 << 0,        /* nothing said yet */
    CHANNEL_CONFIGURED = 1 << 1, /* the front has its configuration */
    CHANNEL_SERVING = 1 << 2,    /* the front has said hello */
};

struct channel_rule {
    enum msg_type type;
    enum channel_side sender;
    unsigned states;         /* of enum channel_state, in which it may be sent */
    enum channel_state next; /* 0: stays */
    size_t fds_min, fds_max; /* descriptors beside it */
};

static const struct channel_rule channel_rules[] = {
    /* configuration, policies' hosts and audit log if there are any */
    {MSG_CONFIG, CHANNEL_WARDEN, CHANNEL_NEW, CHANNEL_CONFIGURED, 1, MSG_CONFIG_FDS},
    /* configuration */
    {MSG_CALLERS, CHANNEL_WARDEN, CHANNEL_CONFIGURED | CHANNEL_SERVING, 0, 1, 1},
    /* where the kernel reports the front's denied calls, if it does */
    {MSG_HELLO, CHANNEL_FRONT, CHANNEL_CONFIGURED, CHANNEL_SERVING, 0, 1},
    {MSG_STATE, CHANNEL_WARDEN, CHANNEL_CONFIGURED | CHANNEL_SERVING, 0, 0, 0},
    /* input, stdin, stdout, stderr, bridge */
    {MSG_JOB, CHANNEL_FRONT, CHANNEL_SERVING, 0, MSG_JOB_FDS, MSG_JOB_FDS},
    {MSG_CANCEL, CHANNEL_FRONT, CHANNEL_SERVING, 0, 0, 0},
    {MSG_OUTPUTS, CHANNEL_FRONT, CHANNEL_SERVING, 0, 0, 0},
    {MSG_REFUSED, CHANNEL_WARDEN, CHANNEL_SERVING, 0, 0, 0},
    /* a submission */
    {MSG_SUBMIT, CHANNEL_FRONT, CHANNEL_SERVING, 0, 1, 1},
    {MSG_APPROVAL_QUERY, CHANNEL_FRONT, CHANNEL_SERVING, 0, 0, 0},
    /* rows; a submission */
    {MSG_APPROVAL_ANSWER, CHANNEL_WARDEN, CHANNEL_SERVING, 0, 0, 2},
    {MSG_APPROVAL_CHANGED, CHANNEL_WARDEN, CHANNEL_SERVING, 0, 0, 0},
    /* a submission */
    {MSG_APPROVAL_RUN, CHANNEL_WARDEN, CHANNEL_SERVING, 0, 1, 1},
    /* stdin, stdout, stderr, bridge */
    {MSG_RUN, CHANNEL_FRONT, CHANNEL_SERVING, 0, MSG_RUN_FDS, MSG_RUN_FDS},
    /* the content of a file */
    {MSG_SESSION_QUERY, CHANNEL_FRONT, CHANNEL_SERVING, 0, 0, 1},
    {MSG_STARTED, CHANNEL_WARDEN, CHANNEL_SERVING, 0, 0, 0},
    /* a listening socket */
    {MSG_EGRESS, CHANNEL_WARDEN, CHANNEL_SERVING, 0, 1, 1},
    /* rows; a file */
    {MSG_SESSION_ANSWER, CHANNEL_WARDEN, CHANNEL_SERVING, 0, 0, 1},
    /* output files */
    {MSG_DONE, CHANNEL_WARDEN, CHANNEL_SERVING, 0, 0, IO_FDS_MAX},
    /* a reply, unless it is lost */
    {MSG_KEEP, CHANNEL_FRONT, CHANNEL_SERVING, 0, 0, 1},
    {MSG_KEPT_QUERY, CHANNEL_FRONT, CHANNEL_SERVING, 0, 0, 0},
    /* a reply */
    {MSG_KEPT_ANSWER, CHANNEL_WARDEN, CHANNEL_SERVING, 0, 0, 1},
    /* a request's body */
    {MSG_RELAY, CHANNEL_FRONT, CHANNEL_SERVING, 0, 0, 1},
    {MSG_RELAY, CHANNEL_WARDEN, CHANNEL_SERVING, 0, 0, 1},
    /* a reply's */
    {MSG_RELAY_ANSWER, CHANNEL_FRONT, CHANNEL_SERVING, 0, 0, 1},
    {MSG_RELAY_ANSWER, CHANNEL_WARDEN, CHANNEL_SERVING, 0, 0, 1},
    {MSG_PING, CHANNEL_WARDEN, CHANNEL_SERVING, 0, 0, 0},
    {MSG_PONG, CHANNEL_FRONT, CHANNEL_SERVING, 0, 0, 0},
};

/* A peer that reads nothing must not make us keep everything. */
#define CHANNEL_QUEUE_MAX 1024

/* A message that did not fit into the socket yet, with descriptors of its own. */
struct channel_queued {
    struct channel_queued *next;
    struct buf data;
    int fds[IO_FDS_MAX];
    size_t n_fds;
};

struct channel {
    int sock;
    enum channel_side side;
    enum channel_state state;
    struct channel_queued *first, **last;
    size_t n_queued;
    unsigned char received[MSG_BYTES_MAX];
};

static void queued_free(struct channel_queued *queued)
{
    for (size_t i = 0; i < queued->n_fds; i++) {
        close(queued->fds[i]);
    }
    buf_free(&queued->data);
    free(queued);
}

int channel_new(int sock, enum channel_side side, struct channel **ret, struct err *reterr)
{
    struct channel *channel = calloc(1, sizeof *channel);
    if (!channel) {
        close(sock);
        return err_errno(reterr, ENOMEM, "making a channel");
    }
    channel->sock = sock;
    channel->side = side;
    channel->state = CHANNEL_NEW;
    channel->last = &channel->first;
    int flags = fcntl(sock, F_GETFL);
    if (flags < 0 || fcntl(sock, F_SETFL, flags | O_NONBLOCK) < 0 || fcntl(sock, F_SETFD, FD_CLOEXEC) < 0) {
        int code = errno;
        channel_free(channel);
        return err_errno(reterr, code, "setting up the channel's socket");
    }
    /* The largest message must fit; where the host's ceiling is lower it is the host's that counts. */
    int size = 2 * (int)MSG_BYTES_MAX;
    setsockopt(sock, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    *ret = channel;
    return 0;
}

void channel_free(struct channel *channel)
{
    if (!channel) {
        return;
    }
    while (channel->first) {
        struct channel_queued *queued = channel->first;
        channel->first = queued->next;
        queued_free(queued);
    }
    close(channel->sock);
    free(channel);
}

int channel_fd(const struct channel *channel)
{
    return channel->sock;
}

bool channel_wants_write(const struct channel *channel)
{
    return channel->first != NULL;
}

/* The rule under which `sender` may say this now, with so many descriptors; NULL and `*ret_why` where there
 * is none. */
static const struct channel_rule *permitted(const struct channel *channel, enum msg_type type,
                                            enum channel_side sender, size_t n_fds, const char **ret_why)
{
    *ret_why = "not a message of this channel";
    for (size_t i = 0; i < ARRAY_SIZE(channel_rules); i++) {
        const struct channel_rule *rule = &channel_rules[i];
        if (rule->type != type) {
            continue;
        }
        if (rule->sender != sender) {
            *ret_why = "not the sender's to say";
        } else if (!(rule->states & channel->state)) {
            *ret_why = "out of order";
        } else if (n_fds < rule->fds_min || n_fds > rule->fds_max) {
            *ret_why = "wrong number of descriptors";
        } else {
            return rule;
        }
    }
    return NULL;
}

static void move_on(struct channel *channel, const struct channel_rule *rule)
{
    if (rule->next != 0) {
        channel->state = rule->next;
    }
}

static int refuse(const char *verb, enum msg_type type, const char *why, struct err *reterr)
{
    return err_set(reterr, ERR_INTERNAL, EPROTO, NULL, "%s a '%s' message: %s", verb,
                   msg_type_to_string(type), why);
}

/* Keeps the message and duplicates of its descriptors until the socket has room. */
static int enqueue(struct channel *channel, struct buf *data, const int *fds, size_t n_fds,
                   struct err *reterr)
{
    if (channel->n_queued == CHANNEL_QUEUE_MAX) {
        return err_set(reterr, ERR_UNAVAILABLE, ENOBUFS, NULL,
                       "the other process does not read its messages");
    }
    struct channel_queued *queued = calloc(1, sizeof *queued);
    if (!queued) {
        return err_errno(reterr, ENOMEM, "keeping a message");
    }
    for (size_t i = 0; i < n_fds; i++) {
        int fd = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
        if (fd < 0) {
            int code = errno;
            queued_free(queued);
            return err_errno(reterr, code, "keeping a message's descriptors");
        }
        queued->fds[queued->n_fds++] = fd;
    }
    queued->data = *data;
    *data = BUF_INIT;
    *channel->last = queued;
    channel->last = &queued->next;
    channel->n_queued++;
    return 0;
}

/* The descriptors that go with a message: a verdict's are its attached files. Returns how many. */
static size_t collect_fds(const struct msg *msg, const int *fds, size_t n_fds, int ret[static IO_FDS_MAX])
{
    size_t n = 0;
    if (msg->type == MSG_DONE) {
        for (size_t i = 0; i < msg->done.n_files && n < IO_FDS_MAX; i++) {
            if (msg->done.files[i].fd >= 0) {
                ret[n++] = msg->done.files[i].fd;
            }
        }
        return n;
    }
    for (; n < n_fds && n < IO_FDS_MAX; n++) {
        ret[n] = fds[n];
    }
    return n;
}

/* The message stays where it is, and the next attempt may succeed. */
static bool is_passing(int r)
{
    return r == -EAGAIN || r == -ENOMEM || r == -ENOBUFS;
}

int channel_send(struct channel *channel, const struct msg *msg, const int *fds, size_t n_fds,
                 struct err *reterr)
{
    int all[IO_FDS_MAX];
    if (n_fds > IO_FDS_MAX || (msg->type == MSG_DONE && fds)) {
        return refuse("may not send", msg->type, "wrong number of descriptors", reterr);
    }
    size_t n_all = collect_fds(msg, fds, n_fds, all);
    const char *why;
    const struct channel_rule *rule = permitted(channel, msg->type, channel->side, n_all, &why);
    if (!rule) {
        return refuse("may not send", msg->type, why, reterr);
    }
    CLEANUP(buf_free) struct buf data = BUF_INIT;
    int r = msg_encode(msg, &data, reterr);
    if (r < 0) {
        return r;
    }
    r = channel->first ? -EAGAIN : io_send_fds(channel->sock, data.data, data.len, all, n_all);
    if (is_passing(r)) {
        r = enqueue(channel, &data, all, n_all, reterr);
    } else if (r < 0) {
        err_errno(reterr, -r, "sending a '%s' message", msg_type_to_string(msg->type));
    }
    if (r < 0) {
        return r;
    }
    move_on(channel, rule);
    return 0;
}

int channel_flush(struct channel *channel, struct err *reterr)
{
    while (channel->first) {
        struct channel_queued *queued = channel->first;
        int r = io_send_fds(channel->sock, queued->data.data, queued->data.len, queued->fds, queued->n_fds);
        if (is_passing(r)) {
            return 0;
        }
        if (r < 0) {
            return err_errno(reterr, -r, "sending a queued message");
        }
        channel->first = queued->next;
        if (!channel->first) {
            channel->last = &channel->first;
        }
        channel->n_queued--;
        queued_free(queued);
    }
    return 0;
}

static enum channel_side peer_of(const struct channel *channel)
{
    return channel->side == CHANNEL_FRONT ? CHANNEL_WARDEN : CHANNEL_FRONT;
}

static void close_all(int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fd_closep(&fds[i]);
    }
}

/* The messages that can be refused, or say enough without them, so that a want of descriptors need not end
 * the channel: how many there must have been beside one. 0: any other. */
static size_t fds_of_bare(enum msg_type type)
{
    switch (type) {
    case MSG_JOB:
        return MSG_JOB_FDS;
    case MSG_RUN:
        return MSG_RUN_FDS;
    case MSG_SUBMIT:
    case MSG_EGRESS:
    case MSG_DONE:
    case MSG_APPROVAL_ANSWER:
    case MSG_APPROVAL_RUN:
    case MSG_KEEP:
    case MSG_KEPT_ANSWER:
    case MSG_SESSION_QUERY:
    case MSG_SESSION_ANSWER:
    case MSG_RELAY:
    case MSG_RELAY_ANSWER:
        return 1;
    default:
        return 0;
    }
}

/* Decodes what has arrived and holds it against the table; `bare`: its descriptors are lost. On failure those
 * that there are are still the caller's. */
static int accept_message(struct channel *channel, size_t size, const int *fds, size_t n_fds, bool bare,
                          struct msg *ret, struct err *reterr)
{
    struct msg msg = {.type = MSG_NONE};
    int r = msg_decode(channel->received, size, fds, bare ? MSG_FDS_LOST : n_fds, &msg, reterr);
    if (r < 0) {
        return r;
    }
    const char *why;
    size_t n_sent = bare ? fds_of_bare(msg.type) : n_fds;
    const struct channel_rule *rule = permitted(channel, msg.type, peer_of(channel), n_sent, &why);
    if (rule && bare && n_sent == 0) {
        rule = NULL;
        why = "no room for its descriptors";
    }
    if (rule && msg.type == MSG_CONFIG && n_fds != 1u + msg.config.egress + msg.config.audit) {
        rule = NULL;
        why = "wrong number of descriptors";
    }
    if (!rule) {
        refuse("received", msg.type, why, reterr);
        if (msg.type == MSG_DONE) {
            for (size_t i = 0; i < msg.done.n_files; i++) {
                msg.done.files[i].fd = -1; /* closed by the caller, like every other descriptor */
            }
        }
        msg_clear(&msg);
        return -EPROTO;
    }
    move_on(channel, rule);
    *ret = msg;
    return 0;
}

int channel_recv(struct channel *channel, struct msg *ret, int *fds, size_t *n_fds, struct err *reterr)
{
    int all[IO_FDS_MAX];
    size_t n_all = IO_FDS_MAX;
    bool bare = false;
    ssize_t size =
        io_recv_fds_or_bare(channel->sock, channel->received, sizeof channel->received, all, &n_all, &bare);
    if (is_passing((int)size)) {
        return 0;
    }
    if (size == 0 || size == -ECONNRESET) {
        close_all(all, size == 0 ? n_all : 0); /* an empty datagram may carry some, and looks like the end */
        return -EPIPE;
    }
    if (size < 0) {
        return err_errno(reterr, (int)-size, "receiving a message");
    }
    int r = accept_message(channel, (size_t)size, all, n_all, bare, ret, reterr);
    if (r < 0) {
        close_all(all, n_all);
        return r;
    }
    if (ret->type == MSG_DONE) {
        n_all = 0; /* the message holds them */
    }
    if (n_all > *n_fds) {
        close_all(all, n_all);
        msg_clear(ret);
        return err_set(reterr, ERR_INTERNAL, EINVAL, NULL, "no room for a message's descriptors");
    }
    memcpy(fds, all, n_all * sizeof all[0]);
    *n_fds = n_all;
    return bare ? CHANNEL_BARE : 1;
}
