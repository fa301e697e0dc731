/* Connections beside libmicrohttpd, each a source of our loop as well as of its. Runs in the front.
 *
 * Some things it cannot do are done here. Its timeout starts again with every byte, so that a request could
 * take for ever: here one deadline holds from a request's first byte to its last. It does not watch a
 * suspended connection, yet a caller who leaves cancels its job. And it misses the end of a connection that
 * arrives together with the last bytes: it reads those, and then waits for an event that has been.
 *
 * It reads a new connection as soon as it has accepted it, so that we may never see its first bytes come: the
 * time for a first request runs from there, and at its end the kernel is asked whether any came. */
#include "server/http_connection.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/loop.h"

/* A caller who has just connected gets this long to say something, however many others wait. */
#define SPEAK_NS NS_PER_S

/* For the caller of a refused request to stop sending, and to read the answer before the socket is closed. */
#define LINGER_NS (2 * NS_PER_S)

void http_connection_enter(struct http_connection *connection, enum http_phase phase)
{
    struct http_connections *all = connection->all;
    if (connection->phase != phase) {
        connection->phase = phase;
        deadline_join(&all->deadlines, &connection->deadline,
                      phase < HTTP_PHASES_WITH_DEADLINE ? &all->queues[phase] : NULL);
    }
}

void http_connection_give_up(struct http_connection *connection)
{
    http_connection_enter(connection, HTTP_REPLYING);
    shutdown(connection->fd, SHUT_RDWR);
}

/* Only TCP can tell. */
static bool has_received(const struct http_connection *connection)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    return getsockopt(connection->fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
           info.tcpi_bytes_received > 0;
}

static void on_deadline(void *arg, struct deadline *deadline)
{
    struct http_connections *all = arg;
    struct http_connection *connection = (struct http_connection *)(void *)deadline;
    if (connection->phase == HTTP_NEW && has_received(connection)) {
        http_connection_enter(connection, HTTP_RECEIVING);
        deadline_leave(deadline);
    }
    if (connection->phase == HTTP_RECEIVING) {
        all->too_slow(connection);
    }
    if (!connection->deadline.queue) {
        http_connection_give_up(connection);
    }
}

/* Edge-triggered: one call for each arrival, and one for the end. */
static void on_watch(void *arg, uint32_t events)
{
    struct http_connection *connection = arg;
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        connection->peer_closed = true;
        connection->all->some_peer_closed = true;
        if (connection->phase == HTTP_WORKING || connection->phase == HTTP_STREAMING) {
            connection->all->hung_up(connection);
        }
    } else if (connection->phase == HTTP_NEW || connection->phase == HTTP_IDLE) {
        http_connection_enter(connection, HTTP_RECEIVING);
    }
}

int http_connections_start(struct http_connections *all, uint64_t idle_timeout_ms,
                           uint64_t request_timeout_ms, struct err *reterr)
{
    uint64_t first_ms = idle_timeout_ms < request_timeout_ms ? idle_timeout_ms : request_timeout_ms;
    all->queues[HTTP_NEW].timeout_ns = first_ms * NS_PER_MS;
    all->queues[HTTP_IDLE].timeout_ns = idle_timeout_ms * NS_PER_MS;
    all->queues[HTTP_RECEIVING].timeout_ns = request_timeout_ms * NS_PER_MS;
    all->queues[HTTP_LINGERING].timeout_ns = LINGER_NS;
    all->deadlines = (struct deadlines){
        .queues = all->queues, .n_queues = HTTP_PHASES_WITH_DEADLINE, .passed = on_deadline, .arg = all};
    return deadlines_start(&all->deadlines, all->loop, reterr);
}

void http_connections_stop(struct http_connections *all)
{
    deadlines_stop(&all->deadlines);
}

struct http_connection *http_connection_new(struct http_connections *all, struct MHD_Connection *mhd, int fd)
{
    struct http_connection *connection = calloc(1, sizeof *connection);
    if (!connection) {
        return NULL;
    }
    *connection = (struct http_connection){.all = all, .mhd = mhd, .fd = fd, .phase = HTTP_REPLYING};
    if (loop_add(all->loop, fd, EPOLLIN | EPOLLRDHUP | EPOLLET, on_watch, connection, &connection->watch,
                 NULL) < 0) {
        free(connection);
        return NULL;
    }
    connection->next = all->first;
    if (connection->next) {
        connection->next->previous = connection;
    }
    all->first = connection;
    all->count++;
    http_connection_enter(connection, HTTP_NEW);
    return connection;
}

void http_connection_free(struct http_connection *connection)
{
    struct http_connections *all = connection->all;
    deadline_join(&all->deadlines, &connection->deadline, NULL);
    loop_remove(connection->watch);
    *(connection->previous ? &connection->previous->next : &all->first) = connection->next;
    if (connection->next) {
        connection->next->previous = connection->previous;
    }
    all->count--;
    free(connection);
}

void http_connections_close_ended(struct http_connections *all)
{
    if (!all->some_peer_closed) {
        return;
    }
    all->some_peer_closed = false;
    for (struct http_connection *connection = all->first; connection; connection = connection->next) {
        int unread = 0;
        if (!connection->peer_closed) {
            continue;
        }
        all->some_peer_closed = true;
        if (connection->phase < HTTP_PHASES_WITH_DEADLINE && ioctl(connection->fd, FIONREAD, &unread) == 0 &&
            unread == 0) {
            http_connection_give_up(connection);
        }
    }
}

size_t http_connections_waiting(const struct http_connections *all)
{
    return all->queues[HTTP_NEW].count + all->queues[HTTP_IDLE].count;
}

void http_connections_close_oldest(struct http_connections *all)
{
    static const enum http_phase waiting[] = {HTTP_NEW, HTTP_IDLE};
    struct deadline *oldest = NULL;
    uint64_t oldest_ns = clock_now_ns() - SPEAK_NS;
    for (size_t i = 0; i < ARRAY_SIZE(waiting); i++) {
        const struct deadline_queue *queue = &all->queues[waiting[i]];
        if (queue->first && queue->first->at_ns - queue->timeout_ns < oldest_ns) {
            oldest = queue->first;
            oldest_ns = oldest->at_ns - queue->timeout_ns;
        }
    }
    if (oldest) {
        http_connection_give_up((struct http_connection *)(void *)oldest);
    }
}

void http_connections_close_idle(struct http_connections *all)
{
    for (struct http_connection *connection = all->first; connection; connection = connection->next) {
        if (connection->phase == HTTP_IDLE && connection->served) {
            http_connection_give_up(connection);
        }
    }
}
