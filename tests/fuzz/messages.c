/* Conversations between front and warden, of which one end is the input. */
#include "tests/fuzz/messages.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/message/message.h"
#include "config/message/message.pb-c.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "tests/fuzz/datagrams.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

static size_t change(uint8_t *data, size_t size, size_t max_size, uint64_t *series)
{
    return mutate_packed(&immure__msg__descriptor, data, size, max_size, series);
}

size_t messages_mutate(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return datagrams_mutate(change, data, size, max_size, seed);
}

/* What the warden may hear at all; the rest is the front's, and what fronts ask each other goes both ways. */
static bool may_hear(enum channel_side receiver, enum msg_type type)
{
    bool to_warden = type == MSG_HELLO || type == MSG_JOB || type == MSG_CANCEL || type == MSG_OUTPUTS ||
                     type == MSG_PONG || type == MSG_SESSION_QUERY || type == MSG_SUBMIT ||
                     type == MSG_APPROVAL_QUERY || type == MSG_RUN || type == MSG_KEEP ||
                     type == MSG_KEPT_QUERY;
    bool is_relayed = type == MSG_RELAY || type == MSG_RELAY_ANSWER;
    return type != MSG_NONE && (is_relayed || to_warden == (receiver == CHANNEL_WARDEN));
}

static size_t attached(const struct msg *msg)
{
    size_t n = 0;
    for (size_t i = 0; msg->type == MSG_DONE && i < msg->done.n_files; i++) {
        n += msg->done.files[i].fd >= 0;
    }
    return n;
}

static void require_accepted(enum channel_side receiver, struct msg *msg, const struct datagram *datagram,
                             int *fds, size_t n_fds)
{
    CLEANUP(buf_free) struct buf again = BUF_INIT;
    REQUIRE(may_hear(receiver, msg->type));
    REQUIRE(msg_encode(msg, &again, NULL) == 0);
    REQUIRE(again.len == datagram->size && memcmp(again.data, datagram->data, again.len) == 0);
    REQUIRE(n_fds + attached(msg) == datagram->n_fds);
    REQUIRE(msg->type != MSG_JOB || n_fds == MSG_JOB_FDS);
    REQUIRE(msg->type != MSG_RUN || n_fds == MSG_RUN_FDS);
    for (size_t i = 0; i < n_fds; i++) {
        REQUIRE(close(fds[i]) == 0);
    }
    msg_clear(msg);
}

/* False: the channel is to be closed. */
static bool hear(struct channel *channel, enum channel_side receiver, const struct datagram *datagram)
{
    struct msg msg = {.type = MSG_NONE};
    struct err err = {0};
    int fds[IO_FDS_MAX];
    size_t n_fds = IO_FDS_MAX;
    int r = channel_recv(channel, &msg, fds, &n_fds, &err);
    if (r == 1) {
        require_accepted(receiver, &msg, datagram, fds, n_fds);
        return true;
    }
    REQUIRE(r < 0 && msg.type == MSG_NONE);
    REQUIRE(r == -EPIPE ? datagram->size == 0 : err.kind != ERR_NONE && err.text[0] != '\0');
    return false;
}

/* The warden speaks first. */
static void send_config(struct channel *channel)
{
    struct msg config = {.type = MSG_CONFIG};
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    REQUIRE(channel_send(channel, &config, &fd, 1, NULL) == 0);
    close(fd);
}

void messages_run(enum channel_side receiver, const uint8_t *data, size_t size)
{
    int ends[2];
    struct channel *channel = NULL;
    struct datagram datagram;
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    REQUIRE(channel_new(ends[0], receiver, &channel, NULL) == 0);
    if (receiver == CHANNEL_WARDEN) {
        send_config(channel);
    }
    while (datagram_next(&data, &size, &datagram)) {
        datagram_send(ends[1], &datagram);
        if (!hear(channel, receiver, &datagram)) {
            break;
        }
        if (receiver == CHANNEL_FRONT) {
            struct msg hello = {.type = MSG_HELLO};
            channel_send(channel, &hello, NULL, 0, NULL); /* where it may be said by now */
        }
    }
    channel_free(channel);
    close(ends[1]);
}
