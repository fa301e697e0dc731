/* The HTTP server's life, and who gets a place in it. Runs in the front, single-threaded, on its loop.
 *
 * Places are short only for those who have shown no valid key: where all are taken, or all of an address, the
 * oldest connection without one makes room for the next. Whoever asks for something has mostly sent it when
 * he comes, and is looked at at once; so the oldest is one that has had its time. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "jail/base/clock.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/loop.h"
#include "server/http/connection.h"
#include "server/http/http.h"
#include "server/http/http_internal.h"

/* At once, before those are looked at that are there. */
#define ACCEPTS_MAX 64

/* Of those without a key who have had a reply, in one round: however many want more, others hardly wait. */
#define OTHERS_MAX 8

/* How often a server without room looks for some. */
#define FULL_POLL_MS 100

/* For the caller to stop sending, and to read the answer before the socket is closed. */
#define LINGER_NS (2 * NS_PER_S)

/* How often a caller who sends no more is asked whether it still reads. */
#define PROBE_NS (5 * NS_PER_S)

/* ---- Places ---- */

/* Of the connections of that account, and of that network (NULL: any): the oldest that waits for its caller,
 * idle ones first. */
static struct http_connection *waiting_of(const struct http_server *server, unsigned account,
                                          const uint64_t *network)
{
    static const enum http_phase waiting[] = {HTTP_IDLE, HTTP_HEADING, HTTP_RECEIVING};
    for (size_t i = 0; i < sizeof waiting / sizeof waiting[0]; i++) {
        for (struct http_connection *at = server->connections.known.first; at; at = at->next) {
            if (at->phase == waiting[i] && at->account == account && (!network || at->network == *network)) {
                return at;
            }
        }
    }
    return NULL;
}

/* Where there are several keys: one of the connections of the key that has most of those places, if that is
 * more than its share. NULL: there is none that could go. */
static struct http_connection *beyond_share(const struct http_server *server, unsigned places,
                                            const uint64_t *network)
{
    unsigned account = 0, most = 0;
    if (server->n_keys < 2) {
        return NULL;
    }
    memset(server->counts, 0, server->options.n_accounts * sizeof server->counts[0]);
    for (const struct http_connection *at = server->connections.known.first; at; at = at->next) {
        if ((!network || at->network == *network) && ++server->counts[at->account] > most) {
            most = server->counts[at->account];
            account = at->account;
        }
    }
    return most > places / server->n_keys ? waiting_of(server, account, network) : NULL;
}

/* Those with a key make room only where they hold most places, and one of them does nothing. */
static struct http_connection *dispensable(const struct http_server *server)
{
    const struct http_connections *all = &server->connections;
    if (all->strangers.count >= server->options.max_connections / 4 && all->strangers.first) {
        return all->strangers.first;
    }
    for (struct deadline *at = all->queues[HTTP_IDLE].first; at; at = at->next) {
        struct http_connection *connection = CONTAINER_OF(at, struct http_connection, deadline);
        if (connection->known) {
            return connection;
        }
    }
    return all->strangers.first ? all->strangers.first
                                : beyond_share(server, server->options.max_connections, NULL);
}

static bool is_full(const struct http_server *server)
{
    return http_connections_count(&server->connections) >= server->options.max_connections;
}

/* False: the address has as many as it may, has shown a key on each, and no key has more than its share of
 * them. */
static bool make_room_for(struct http_server *server, const union http_address *address)
{
    struct http_connection *dispensed;
    uint64_t network = http_address_network(address);
    unsigned most = server->options.max_connections_per_address;
    if (most == 0 || address->any.sa_family == AF_UNIX ||
        http_connections_of(&server->connections, network, &dispensed) < most) {
        return true;
    }
    dispensed = dispensed ? dispensed : beyond_share(server, most, &network);
    if (dispensed) {
        server->refused++;
        http_connection_reset(dispensed);
    }
    return dispensed;
}

static void pause_listening(struct http_server *server)
{
    server->paused_until_ns = clock_now_ns() + FULL_POLL_MS * NS_PER_MS;
    loop_modify(server->listening, 0);
}

static void stop_listening(struct http_server *server)
{
    server->paused_until_ns = 0;
    loop_remove(server->listening);
    server->listening = NULL;
}

/* False: nobody waits, or there is no room for who does. */
static bool accept_one(struct http_server *server)
{
    union http_address address = {0};
    socklen_t size = sizeof address;
    if (is_full(server) && !dispensable(server)) {
        pause_listening(server);
        return false;
    }
    int fd = accept4(server->options.listen_fd, &address.any, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        bool gone = errno == ECONNABORTED || errno == EINTR;
        if (!gone && errno != EAGAIN && errno != EWOULDBLOCK) {
            pause_listening(server); /* no descriptor, no memory */
        }
        return gone;
    }
    bool welcome = make_room_for(server, &address);
    if (welcome && is_full(server)) {
        http_connection_reset(dispensable(server));
        server->refused++;
    }
    if (!welcome || !http_connection_new(&server->connections, fd, &address)) {
        close(fd);
        server->refused++;
    }
    return true;
}

static void on_listening(void *arg, uint32_t events)
{
    (void)events;
    struct http_server *server = arg;
    for (unsigned i = 0; i < ACCEPTS_MAX && accept_one(server); i++) {
    }
}

/* ---- Life ---- */

static void set_timeouts(struct http_server *server)
{
    const struct http_options *options = &server->options;
    struct deadline_queue *queues = server->connections.queues;
    uint64_t request_ms = options->request_timeout_ms, idle_ms = options->idle_timeout_ms;
    uint64_t header_ms = options->header_timeout_ms < request_ms ? options->header_timeout_ms : request_ms;
    queues[HTTP_NEW].timeout_ns = (idle_ms < request_ms ? idle_ms : request_ms) * NS_PER_MS;
    queues[HTTP_IDLE].timeout_ns = idle_ms * NS_PER_MS;
    queues[HTTP_HEADING].timeout_ns = header_ms * NS_PER_MS;
    queues[HTTP_RECEIVING].timeout_ns = request_ms * NS_PER_MS;
    queues[HTTP_WORKING].timeout_ns = PROBE_NS;
    queues[HTTP_REPLYING].timeout_ns = queues[HTTP_STREAMING].timeout_ns = 0; /* see unread.c */
    queues[HTTP_LINGERING].timeout_ns = LINGER_NS;
}

static int open_budgets(struct http_server *server, struct err *reterr)
{
    const struct http_options *options = &server->options;
    int r = budget_open(&server->bodies, options->max_bodies_bytes, SIZE_MAX, options->n_accounts);
    r = r < 0 ? r
              : budget_open(&server->small_bodies, options->max_small_bodies_bytes, SIZE_MAX,
                            options->n_accounts);
    server->counts = calloc(options->n_accounts, sizeof server->counts[0]);
    r = r < 0 || server->counts ? r : -ENOMEM;
    return r < 0 ? err_errno(reterr, -r, "starting the HTTP server") : http_unread_start(server, reterr);
}

int http_server_new(struct loop *loop, const struct http_options *options, const struct http_events *events,
                    void *arg, struct http_server **ret, struct err *reterr)
{
    struct http_server *server = calloc(1, sizeof *server);
    if (!server) {
        return err_errno(reterr, ENOMEM, "starting the HTTP server");
    }
    *server = (struct http_server){.loop = loop, .options = *options, .events = *events, .arg = arg};
    server->n_keys = options->n_accounts - 1;
    server->connections.loop = loop;
    server->connections.arg = server;
    server->connections.late = http_on_late;
    server->connections.closing = http_on_closing;
    set_timeouts(server);
    int r = open_budgets(server, reterr);
    r = r < 0 ? r : http_connections_start(&server->connections, reterr);
    if (r == 0) {
        r = loop_add(loop, options->listen_fd, EPOLLIN, on_listening, server, &server->listening, reterr);
    }
    if (r < 0) {
        http_server_free(server);
        return r;
    }
    *ret = server;
    return 0;
}

int http_server_set_keys(struct http_server *server, size_t n_keys, size_t n_accounts,
                         size_t max_unread_bytes_per_account)
{
    unsigned *counts = reallocarray(server->counts, n_accounts, sizeof *counts);
    if (!counts) {
        return -ENOMEM;
    }
    server->counts = counts;
    server->options.n_accounts = n_accounts;
    server->n_keys = n_keys;
    server->unread.most_of_one_bytes = max_unread_bytes_per_account;
    int r = budget_set_keys(&server->bodies, n_keys, n_accounts);
    r = r < 0 ? r : budget_set_keys(&server->small_bodies, n_keys, n_accounts);
    return r < 0 ? r : budget_set_keys(&server->unread, n_keys, n_accounts);
}

void http_server_free(struct http_server *server)
{
    if (server) {
        loop_remove(server->listening);
        http_connections_stop(&server->connections);
        http_unread_stop(server);
        budget_close(&server->bodies);
        budget_close(&server->small_bodies);
        free(server->counts);
        free(server);
    }
}

int http_server_timeout_ms(const struct http_server *server)
{
    bool more = server->connections.ready.first || server->connections.others.first;
    return more ? 0 : server->paused_until_ns > 0 ? FULL_POLL_MS : -1;
}

/* Those that come meanwhile have their turn in the next round. */
static void serve(struct http_connections *all, struct http_connection_queue *queue, unsigned most)
{
    struct http_connection_queue round = *queue;
    struct http_connection *connection;
    *queue = (struct http_connection_queue){0};
    for (unsigned i = 0; i < most && (connection = http_connections_take(all, &round)); i++) {
        http_serve(connection);
    }
    if (round.first) { /* whoever had no turn is first in the next */
        round.last->next_ready = queue->first;
        *queue = (struct http_connection_queue){.first = round.first,
                                                .last = queue->last ? queue->last : round.last};
    }
}

void http_server_run(struct http_server *server)
{
    struct http_connections *all = &server->connections;
    serve(all, &all->ready, UINT_MAX);
    serve(all, &all->others, OTHERS_MAX);
    http_connections_free_closed(&server->connections);
    if (server->paused_until_ns > 0 && server->paused_until_ns <= clock_now_ns()) {
        server->paused_until_ns = 0;
        loop_modify(server->listening, EPOLLIN);
    }
    if (server->draining && server->listening && all->queues[HTTP_IDLE].count == 0) {
        stop_listening(server); /* the heir takes those that come now */
    }
}

/* Gives up those that have been served and wait for another request. */
static void close_idle(struct http_server *server)
{
    struct deadline *next;
    for (struct deadline *at = server->connections.queues[HTTP_IDLE].first; at; at = next) {
        struct http_connection *connection = CONTAINER_OF(at, struct http_connection, deadline);
        next = at->next;
        if (!http_connection_has_spoken(connection)) {
            http_connection_close(connection);
        }
    }
}

/* Those that say nothing have that long from now on, and never longer than they had. */
static void shorten(struct http_server *server, enum http_phase phase, uint64_t quiet_ms)
{
    struct http_connections *all = &server->connections;
    struct deadline_queue *queue = &all->queues[phase];
    uint64_t quiet_ns = quiet_ms * NS_PER_MS;
    queue->timeout_ns = quiet_ns < queue->timeout_ns ? quiet_ns : queue->timeout_ns;
    for (size_t n = queue->count; n > 0; n--) {
        deadline_join(&all->deadlines, queue->first, queue);
    }
}

void http_server_drain(struct http_server *server, enum http_heir heir, uint64_t quiet_ms)
{
    unsigned most = server->options.max_connections;
    for (unsigned i = 0; heir == HTTP_HEIR_NONE && i < most && accept_one(server); i++) {
        /* what the kernel has accepted is not turned away */
    }
    server->draining = true;
    if (heir == HTTP_HEIR_NONE) {
        close_idle(server);
    } else {
        shorten(server, HTTP_NEW, quiet_ms);
        shorten(server, HTTP_IDLE, quiet_ms);
    }
    if (heir != HTTP_HEIR_COMES) {
        stop_listening(server);
    }
}

size_t http_server_busy(const struct http_server *server)
{
    const struct deadline_queue *queues = server->connections.queues;
    return http_server_connections(server) - queues[HTTP_NEW].count - queues[HTTP_IDLE].count;
}

size_t http_server_connections(const struct http_server *server)
{
    return http_connections_count(&server->connections);
}
