/* Connections: sockets, deadlines, who is there. Runs in the front; knows no HTTP.
 *
 * An event is noted, and what follows from it done after the round (http_server_run()), so that nobody's
 * request ends while somebody above works with it. */
#include "server/http/connection.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/loop.h"

/* In the upper half of an IPv4 address's number, where no network of IPv6 has it. */
#define IP4_NETWORK 0xffffffff00000000ull

#define DROP_BYTES   65536
#define UNSENT_BYTES 131072 /* of a reply in the kernel, beside what is on its way */

/* ---- Lists ---- */

static void list_add(struct http_connection_list *list, struct http_connection *connection)
{
    connection->previous = list->last;
    connection->next = NULL;
    *(list->last ? &list->last->next : &list->first) = connection;
    list->last = connection;
    list->count++;
}

static void list_remove(struct http_connection_list *list, struct http_connection *connection)
{
    *(connection->previous ? &connection->previous->next : &list->first) = connection->next;
    *(connection->next ? &connection->next->previous : &list->last) = connection->previous;
    list->count--;
}

static struct http_connection_list *list_of(struct http_connection *connection)
{
    return connection->known ? &connection->all->known : &connection->all->strangers;
}

/* Whoever has many addresses cannot choose which share a list. */
static size_t hash_of(const struct http_connections *all, uint64_t network)
{
    return (((network ^ all->seed) * 0x9e3779b97f4a7c15ull) >> 54) % HTTP_NETWORK_LISTS;
}

static void join_network(struct http_connection *connection)
{
    struct http_connection **first =
        &connection->all->networks[hash_of(connection->all, connection->network)];
    connection->same_behind = *first;
    if (*first) {
        (*first)->same_before = connection;
    }
    *first = connection;
}

static void leave_network(struct http_connection *connection)
{
    struct http_connection **first =
        &connection->all->networks[hash_of(connection->all, connection->network)];
    *(connection->same_before ? &connection->same_before->same_behind : first) = connection->same_behind;
    if (connection->same_behind) {
        connection->same_behind->same_before = connection->same_before;
    }
}

size_t http_connections_of(const struct http_connections *all, uint64_t network,
                           struct http_connection **ret_stranger)
{
    size_t count = 0;
    *ret_stranger = NULL;
    for (struct http_connection *at = all->networks[hash_of(all, network)]; at; at = at->same_behind) {
        if (at->network == network) {
            count++;
            *ret_stranger = at->known ? *ret_stranger : at;
        }
    }
    return count;
}

uint64_t http_address_network(const union http_address *address)
{
    uint64_t network = 0;
    if (address->any.sa_family == AF_INET) {
        network = IP4_NETWORK | address->ip4.sin_addr.s_addr;
    } else if (address->any.sa_family == AF_INET6) {
        const struct in6_addr *ip6 = &address->ip6.sin6_addr;
        memcpy(&network, ip6, sizeof network);
        if (IN6_IS_ADDR_V4MAPPED(ip6)) {
            network = IP4_NETWORK | ip6->s6_addr32[3];
        }
    }
    return network;
}

size_t http_connections_count(const struct http_connections *all)
{
    return all->known.count + all->strangers.count;
}

void http_connection_know(struct http_connection *connection)
{
    if (!connection->known) {
        list_remove(&connection->all->strangers, connection);
        connection->known = true;
        list_add(&connection->all->known, connection);
    }
}

/* ---- What is to be looked at ---- */

void http_connection_ready(struct http_connection *connection)
{
    struct http_connections *all = connection->all;
    struct http_connection_queue *queue =
        connection->known || !connection->served ? &all->ready : &all->others;
    if (connection->waiting || connection->closed) {
        return;
    }
    connection->waiting = true;
    connection->next_ready = NULL;
    *(queue->last ? &queue->last->next_ready : &queue->first) = connection;
    queue->last = connection;
}

struct http_connection *http_connections_take(struct http_connections *all,
                                              struct http_connection_queue *queue)
{
    struct http_connection *connection;
    while ((connection = queue->first)) {
        queue->first = connection->next_ready;
        queue->last = queue->first ? queue->last : NULL;
        connection->waiting = false;
        if (!connection->closed) {
            return connection;
        }
        connection->next_ready = all->dead;
        all->dead = connection;
    }
    return NULL;
}

static void watch(struct http_connection *connection, uint32_t events)
{
    if (connection->watched != events && loop_modify(connection->watch, events) == 0) {
        connection->watched = events;
    }
}

static bool reads(const struct http_connection *connection)
{
    return connection->phase <= HTTP_RECEIVING || connection->phase == HTTP_LINGERING;
}

/* What is known is not told again and again. */
static void on_event(void *arg, uint32_t events)
{
    struct http_connection *connection = arg;
    uint32_t watched = connection->watched;
    if (events & (EPOLLIN | EPOLLRDHUP)) {
        connection->readable = true;
        watched &= reads(connection) && !connection->waiting ? ~0u : ~(uint32_t)EPOLLIN;
    }
    if (events & EPOLLRDHUP) {
        connection->half_closed = true;
        watched &= ~(uint32_t)EPOLLRDHUP;
    }
    if (events & EPOLLOUT) {
        watched &= ~(uint32_t)EPOLLOUT;
    }
    if (events & (EPOLLHUP | EPOLLERR)) {
        connection->readable = connection->hung_up = true;
    }
    watch(connection, watched);
    http_connection_ready(connection);
}

/* ---- Life ---- */

static void on_deadline(void *arg, struct deadline *deadline)
{
    struct http_connections *all = arg;
    all->late(CONTAINER_OF(deadline, struct http_connection, deadline));
}

int http_connections_start(struct http_connections *all, struct err *reterr)
{
    if (getrandom(&all->seed, sizeof all->seed, 0) < 0) {
        return err_errno(reterr, errno, "starting the HTTP server");
    }
    all->deadlines =
        (struct deadlines){.queues = all->queues, .n_queues = HTTP_PHASES, .passed = on_deadline, .arg = all};
    return deadlines_start(&all->deadlines, all->loop, reterr);
}

void http_connections_stop(struct http_connections *all)
{
    struct http_connection_list *lists[] = {&all->strangers, &all->known};
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
        while (lists[i]->first) {
            http_connection_close(lists[i]->first);
        }
    }
    http_connections_take(all, &all->ready); /* there is none that lives */
    http_connections_take(all, &all->others);
    http_connections_free_closed(all);
    deadlines_stop(&all->deadlines);
}

/* Small pieces of a stream are not held back to be sent together; and the kernel keeps little for who does
 * not read. */
static void tune(int fd)
{
    const int on = 1, unsent_bytes = UNSENT_BYTES;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_bytes, sizeof unsent_bytes);
}

struct http_connection *http_connection_new(struct http_connections *all, int fd,
                                            const union http_address *address)
{
    struct http_connection *connection = calloc(1, sizeof *connection);
    if (!connection) {
        return NULL;
    }
    *connection = (struct http_connection){.all = all,
                                           .fd = fd,
                                           .address = *address,
                                           .network = http_address_network(address),
                                           .watched = EPOLLIN | EPOLLRDHUP,
                                           .phase = HTTP_PHASES,
                                           .readable = true};
    if (loop_add(all->loop, fd, connection->watched, on_event, connection, &connection->watch, NULL) < 0) {
        free(connection);
        return NULL;
    }
    if (address->any.sa_family != AF_UNIX) {
        tune(fd);
    }
    list_add(&all->strangers, connection);
    join_network(connection);
    http_connection_enter(connection, HTTP_NEW);
    http_connection_ready(connection); /* most have sent something already */
    return connection;
}

void http_connection_close(struct http_connection *connection)
{
    struct http_connections *all = connection->all;
    if (connection->closed) {
        return;
    }
    connection->closed = true;
    all->closing(connection);
    deadline_leave(&connection->deadline);
    list_remove(list_of(connection), connection);
    leave_network(connection);
    loop_remove(connection->watch);
    close(connection->fd);
    connection->fd = -1;
    if (connection->in.data) {
        explicit_bzero(connection->in.data, connection->in.cap);
    }
    buf_free(&connection->in);
    buf_free(&connection->head);
    buf_free(&connection->body);
    if (!connection->waiting) {
        connection->next_ready = all->dead;
        all->dead = connection;
    }
}

bool http_connection_is_sending(const struct http_connection *connection, uint64_t *ret_acknowledged)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    *ret_acknowledged = 0;
    if (connection->address.any.sa_family == AF_UNIX ||
        getsockopt(connection->fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0) {
        return false;
    }
    *ret_acknowledged = info.tcpi_bytes_acked;
    return info.tcpi_unacked > 0 || info.tcpi_notsent_bytes > 0;
}

void http_connection_reset(struct http_connection *connection)
{
    const struct linger at_once = {.l_onoff = 1};
    uint64_t acknowledged;
    if (!connection->closed && http_connection_is_sending(connection, &acknowledged)) {
        setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
    http_connection_close(connection);
}

void http_connections_free_closed(struct http_connections *all)
{
    while (all->dead) {
        struct http_connection *connection = all->dead;
        all->dead = connection->next_ready;
        free(connection);
    }
}

void http_connection_enter(struct http_connection *connection, enum http_phase phase)
{
    struct http_connections *all = connection->all;
    if (connection->phase != phase) {
        connection->phase = phase;
        deadline_join(&all->deadlines, &connection->deadline,
                      all->queues[phase].timeout_ns > 0 ? &all->queues[phase] : NULL);
    }
}

/* ---- Bytes ---- */

static bool would_block(int code)
{
    return code == EAGAIN || code == EWOULDBLOCK || code == EINTR;
}

bool http_connection_read(struct http_connection *connection, size_t size)
{
    if (!connection->readable) {
        return false;
    }
    char *to = buf_reserve(&connection->in, size);
    ssize_t n = to ? recv(connection->fd, to, size, MSG_DONTWAIT) : 0;
    if (n > 0) {
        connection->in.len += (size_t)n;
        connection->readable = (size_t)n == size || connection->half_closed || connection->hung_up;
    } else if (n == 0 || !would_block(errno)) {
        http_connection_close(connection);
        return false;
    } else {
        connection->readable = false;
    }
    watch(connection, connection->watched | EPOLLIN);
    return n > 0;
}

void http_connection_consume(struct http_connection *connection, size_t size)
{
    struct buf *in = &connection->in;
    memmove(in->data, in->data + size, in->len - size);
    explicit_bzero(in->data + in->len - size, size);
    in->len -= size;
    if (in->len == 0) {
        buf_free(in);
    }
}

/* What is left of head and body, as far as the socket takes it. */
static ssize_t send_rest(const struct http_connection *connection)
{
    const struct buf *head = &connection->head, *body = &connection->body;
    size_t of_head = connection->sent < head->len ? connection->sent : head->len;
    size_t of_body = connection->sent - of_head;
    struct iovec parts[2];
    struct msghdr message = {.msg_iov = parts};
    if (of_head < head->len) {
        parts[message.msg_iovlen++] = (struct iovec){head->data + of_head, head->len - of_head};
    }
    if (of_body < body->len) {
        parts[message.msg_iovlen++] = (struct iovec){body->data + of_body, body->len - of_body};
    }
    return sendmsg(connection->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool http_connection_flush(struct http_connection *connection)
{
    while (connection->sent < connection->head.len + connection->body.len) {
        ssize_t n = send_rest(connection);
        if (n < 0 && would_block(errno)) {
            watch(connection, connection->watched | EPOLLOUT);
            return false;
        }
        if (n < 0) {
            http_connection_close(connection);
            return false;
        }
        connection->sent += (size_t)n;
        connection->sent_in_all += (uint64_t)n;
    }
    buf_free(&connection->head);
    buf_free(&connection->body);
    connection->sent = 0;
    return true;
}

void http_connection_drop_input(struct http_connection *connection)
{
    char data[DROP_BYTES];
    if (connection->in.len > 0) {
        http_connection_consume(connection, connection->in.len);
    }
    if (!connection->readable) {
        return;
    }
    ssize_t n = recv(connection->fd, data, sizeof data, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && !would_block(errno))) {
        http_connection_close(connection);
        return;
    }
    explicit_bzero(data, n > 0 ? (size_t)n : 0); /* there may be a key in it */
    connection->readable = false;                /* epoll tells of the rest */
    watch(connection, connection->watched | EPOLLIN);
}

bool http_connection_has_spoken(const struct http_connection *connection)
{
    char byte;
    return connection->in.len > 0 || recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

void http_connection_shut_output(struct http_connection *connection)
{
    shutdown(connection->fd, SHUT_WR);
}
