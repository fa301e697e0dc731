/* One connection to a package index: bytes from the bridge to a socket and back. Runs in the front, on its
 * loop; never blocks.
 *
 * What must hold: it goes to an address that was looked up for a host and port of the configuration before
 * the front was confined. In each direction no more is on its way than a window: what the program sends
 * beyond it breaks the rules; what the index sends stays in the socket until the program has taken what it
 * has. So neither of them makes this process hold more than that. */
#include "server/bridge/egress_internal.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/loop.h"
#include "server/bridge/bridge.h"
#include "server/bridge/callback_hosts.h"
#include "server/bridge/egress.h"
#include "server/bridge/tools.h"
#include "server/kit/log.h"
#include "server/kit/metrics.h"

#define CONNECT_NS (10 * NS_PER_S) /* to all addresses together */
#define READ_BYTES 16384u

void egress_note(const struct tools *who, const char *host, uint64_t port, const char *outcome, uint64_t sent,
                 uint64_t received, uint64_t start_ns)
{
    metrics_add(who->metrics, METRIC_EGRESS_CONNECTIONS, outcome, NULL, 1);
    LOG(who->audit, LOG_INFO, "egress", LOG_FIELD_STR("key", who->key),
        LOG_FIELD_STR("request_id", who->request_id), LOG_FIELD_STR("execution_id", who->execution_id),
        LOG_FIELD_STR("traceparent", who->traceparent), LOG_FIELD_STR("host", host),
        LOG_FIELD_U64("port", port), LOG_FIELD_STR("outcome", outcome), LOG_FIELD_U64("bytes_sent", sent),
        LOG_FIELD_U64("bytes_received", received),
        LOG_FIELD_F64("duration_ms", (double)(clock_now_ns() - start_ns) / (double)NS_PER_MS));
}

/* ---- Ends ---- */

void egress_end(struct egress_connection *connection, const char *outcome)
{
    struct egress_job *job = connection->job;
    egress_note(job->who, connection->to->url.host, connection->to->url.port, outcome, connection->sent,
                connection->received, connection->start_ns);
    *(connection->previous ? &connection->previous->next : &job->connections) = connection->next;
    if (connection->next) {
        connection->next->previous = connection->previous;
    }
    job->n_open--;
    loop_remove(connection->source);
    loop_remove(connection->timer);
    fd_closep(&connection->fd);
    buf_free(&connection->waiting);
    free(connection);
}

/* The program is told why: as the answer that it waits for, or as the end of what it reads. `why` needs no
 * escapes. */
static void fail(struct egress_connection *connection, const char *outcome, const char *why)
{
    struct bridge *bridge = connection->job->bridge;
    if (connection->open) {
        char frame[256];
        int size = snprintf(frame, sizeof frame, "{\"op\":\"gone\",\"id\":%" PRIu64 ",\"error\":\"%s\"}",
                            connection->id, why);
        bridge_send(bridge, frame, (size_t)size, NULL, 0);
    } else {
        bridge_reply(bridge, connection->id, BRIDGE_ERROR, why, strlen(why));
    }
    egress_end(connection, outcome);
}

static void fail_errno(struct egress_connection *connection, int error)
{
    fail(connection, EGRESS_FAILED, strerror(error));
}

static void on_timer(void *arg, uint32_t events)
{
    (void)events;
    struct egress_connection *connection = arg;
    fail(connection, EGRESS_TIMEOUT,
         connection->open ? "the connection has lasted as long as it may" : "no answer in time");
}

/* ---- Both directions ---- */

static void on_ready(void *arg, uint32_t events);

/* Only what can be acted on is watched: the kernel would report the rest all the time. */
static bool watch(struct egress_connection *connection)
{
    struct loop *loop = connection->job->egress->loop;
    bool reads = connection->open && !connection->server_ended && connection->credit > 0;
    bool writes = !connection->open || connection->written < connection->waiting.len;
    uint32_t wanted = (reads ? EPOLLIN : 0u) | (writes ? EPOLLOUT : 0u);
    if (wanted == 0) {
        loop_remove(TAKE_PTR(connection->source));
        return true;
    }
    return connection->source
               ? loop_modify(connection->source, wanted) == 0
               : loop_add(loop, connection->fd, wanted, on_ready, connection, &connection->source, NULL) == 0;
}

/* True: the job may move so many bytes more. */
static bool count(struct egress_connection *connection, const char *direction, size_t n)
{
    struct egress_job *job = connection->job;
    job->bytes += n;
    metrics_add(job->who->metrics, METRIC_EGRESS_BYTES, direction, NULL, (double)n);
    return job->bytes <= job->egress->config->max_egress_bytes;
}

static void grant_program(const struct egress_connection *connection, size_t bytes)
{
    char frame[96];
    int size = snprintf(frame, sizeof frame, "{\"op\":\"window\",\"id\":%" PRIu64 ",\"bytes\":%zu}",
                        connection->id, bytes);
    bridge_send(connection->job->bridge, frame, (size_t)size, NULL, 0);
}

static void send_to_program(const struct egress_connection *connection, const char *data, size_t size)
{
    unsigned char head[1 + sizeof connection->id] = {BRIDGE_BINARY};
    uint64_t id = htobe64(connection->id);
    memcpy(head + 1, &id, sizeof id);
    bridge_send(connection->job->bridge, head, sizeof head, data, size);
}

static const char too_many_bytes[] = "this job has moved as many bytes as it may";

/* 0, 1: the connection is gone. */
static int write_waiting(struct egress_connection *connection)
{
    struct buf *waiting = &connection->waiting;
    while (connection->written < waiting->len) {
        ssize_t n = send(connection->fd, waiting->data + connection->written,
                         waiting->len - connection->written, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            return 0;
        }
        if (n < 0) {
            fail_errno(connection, errno);
            return 1;
        }
        connection->written += (size_t)n;
        connection->sent += (uint64_t)n;
        if (!count(connection, "sent", (size_t)n)) {
            fail(connection, EGRESS_LIMIT, too_many_bytes);
            return 1;
        }
        grant_program(connection, (size_t)n);
    }
    buf_free(waiting);
    connection->written = 0;
    if (connection->program_ended && !connection->was_shut) {
        connection->was_shut = true;
        shutdown(connection->fd, SHUT_WR);
    }
    return 0;
}

/* One read a round, so that an index that sends without end does not keep others waiting. */
static int receive(struct egress_connection *connection)
{
    char data[READ_BYTES];
    size_t room = connection->credit < sizeof data ? connection->credit : sizeof data;
    ssize_t n = recv(connection->fd, data, room, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    if (n < 0) {
        fail_errno(connection, errno);
        return 1;
    }
    connection->credit -= (uint32_t)n;
    connection->received += (uint64_t)n;
    connection->server_ended = n == 0;
    send_to_program(connection, data, (size_t)n);
    if (n > 0 && !count(connection, "received", (size_t)n)) {
        fail(connection, EGRESS_LIMIT, too_many_bytes);
        return 1;
    }
    return 0;
}

/* After each step: over, or to be watched for the next. */
static void go_on(struct egress_connection *connection)
{
    if (connection->server_ended && connection->was_shut) {
        egress_end(connection, EGRESS_CLOSED);
    } else if (!watch(connection)) {
        fail_errno(connection, ENOMEM);
    }
}

/* ---- Connecting ---- */

/* The next address that can be tried; -errno of the last one where there is none. */
static int try_next(struct egress_connection *connection)
{
    int error = EHOSTUNREACH;
    while (connection->next_address < connection->n_addresses) {
        const struct sockaddr_storage *address = &connection->addresses[connection->next_address++];
        socklen_t size =
            address->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        loop_remove(TAKE_PTR(connection->source));
        fd_closep(&connection->fd);
        connection->fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (connection->fd < 0 ||
            (connect(connection->fd, (const struct sockaddr *)address, size) < 0 && errno != EINPROGRESS)) {
            error = errno;
            continue;
        }
        return watch(connection) ? 0 : -ENOMEM;
    }
    return -error;
}

static void connected(struct egress_connection *connection)
{
    struct egress_job *job = connection->job;
    int on = 1;
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connection->open = true;
    loop_timer_set(connection->timer,
                   connection->start_ns + job->egress->config->egress_timeout_ms * NS_PER_MS);
    bridge_reply(job->bridge, connection->id, BRIDGE_DONE, NULL, 0);
    if (write_waiting(connection) == 0) {
        go_on(connection);
    }
}

static void on_connecting(struct egress_connection *connection)
{
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) {
        connected(connection);
    } else if (connection->next_address == connection->n_addresses || try_next(connection) < 0) {
        fail_errno(connection, error);
    }
}

static void on_ready(void *arg, uint32_t events)
{
    struct egress_connection *connection = arg;
    if (!connection->open) {
        on_connecting(connection);
        return;
    }
    bool broken = (events & (EPOLLERR | EPOLLHUP)) != 0;
    if (((events & EPOLLOUT) || broken) && write_waiting(connection) != 0) {
        return;
    }
    if (((events & EPOLLIN) || broken) && !connection->server_ended && connection->credit > 0 &&
        receive(connection) != 0) {
        return;
    }
    go_on(connection);
}

int egress_connect(struct egress_job *job, uint64_t id, const struct callback_config *to)
{
    const struct egress *egress = job->egress;
    struct egress_connection *connection = calloc(1, sizeof *connection);
    if (!connection) {
        return -ENOMEM;
    }
    *connection = (struct egress_connection){
        .job = job, .id = id, .to = to, .fd = -1, .credit = EGRESS_WINDOW_BYTES, .start_ns = clock_now_ns()};
    connection->next = job->connections;
    if (connection->next) {
        connection->next->previous = connection;
    }
    job->connections = connection;
    job->n_open++;
    connection->n_addresses =
        callback_hosts_addresses(egress->hosts, &to->url, connection->addresses, EGRESS_ADDRESSES_MAX);
    int r = loop_add_timer(egress->loop, on_timer, connection, &connection->timer, NULL);
    if (r == 0) {
        loop_timer_set(connection->timer, connection->start_ns + CONNECT_NS);
        r = connection->n_addresses == 0 ? -EHOSTUNREACH : try_next(connection);
    }
    if (r < 0) {
        fail_errno(connection, -r);
    }
    return 0;
}

/* ---- What the program says ---- */

struct egress_connection *egress_find(const struct egress_job *job, uint64_t id)
{
    struct egress_connection *connection = job->connections;
    while (connection && connection->id != id) {
        connection = connection->next;
    }
    return connection;
}

const char *egress_send(struct egress_connection *connection, const char *data, size_t size)
{
    if (connection->program_ended) {
        return "bytes for a connection that the program has ended";
    }
    if (connection->waiting.len - connection->written + size > EGRESS_WINDOW_BYTES) {
        return "more bytes for a connection than its window";
    }
    connection->program_ended = size == 0;
    if (connection->written > 0) {
        struct buf *waiting = &connection->waiting;
        memmove(waiting->data, waiting->data + connection->written, waiting->len - connection->written);
        waiting->len -= connection->written;
        connection->written = 0;
    }
    if (size > 0 && buf_append(&connection->waiting, data, size) < 0) {
        fail_errno(connection, ENOMEM);
        return NULL;
    }
    if (connection->open && write_waiting(connection) == 0) {
        go_on(connection);
    }
    return NULL;
}

const char *egress_grant(struct egress_connection *connection, uint64_t bytes)
{
    if (bytes > EGRESS_WINDOW_BYTES - connection->credit) {
        return "a window that is larger than it may be";
    }
    connection->credit += (uint32_t)bytes;
    go_on(connection);
    return NULL;
}
