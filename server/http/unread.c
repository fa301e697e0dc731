/* Replies that wait to be read, and callers who do not read them. Runs in the front.
 *
 * A reply is in our memory until its caller has taken it. All of them together, and those of one key, have a
 * budget: over it the slowest reader goes, the one that has taken nothing for the longest time. A reader that
 * has taken nothing at all for a while goes in any case: the time is not for the whole reply, which may be
 * large and the line slow, but for any part of it.
 *
 * What a caller takes is seen in two places. The socket takes bytes from us, but only when a good part of its
 * buffer is empty; TCP knows besides how many have arrived at the other end. */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "jail/base/clock.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/http/connection.h"
#include "server/http/http.h"
#include "server/http/http_internal.h"

/* Looks in the time that a stalled reader has. */
#define LOOKS 4

/* Bytes; rises whenever something has been taken. */
static uint64_t progress_of(const struct http_request *request)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    bool is_tcp = getsockopt(request->connection->fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
    return request->connection->sent_in_all + (is_tcp ? info.tcpi_bytes_acked : 0);
}

/* Since when (ns of clock_now_ns()) it has taken nothing of what was there. */
static uint64_t stalled_since(struct http_request *request, uint64_t now_ns)
{
    struct http_unread *unread = &request->unread;
    uint64_t progress = progress_of(request);
    if (progress != unread->progress || request->is_quiet) {
        unread->progress = progress;
        unread->since_ns = now_ns;
    }
    return unread->since_ns;
}

/* What the kernel has not delivered goes with the socket (a reset): it would be kept for minutes. */
static void drop(struct http_request *request, enum http_drop why)
{
    struct http_server *server = request->server;
    struct http_connection *connection = request->connection;
    const struct linger at_once = {.l_onoff = 1};
    if (server->events.dropped) {
        server->events.dropped(server->arg, request, why, request->unread.bytes);
    }
    http_unread_end(request);
    setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    if (connection->phase == HTTP_REPLYING) { /* a stream's may be in use further up */
        buf_free(&connection->head);
        buf_free(&connection->body);
        connection->sent = 0;
    }
    connection->dropped = true;
    http_connection_ready(connection);
}

static struct http_request *request_of(struct deadline *deadline)
{
    return CONTAINER_OF(deadline, struct http_unread, deadline)->request;
}

static void on_look(void *arg, struct deadline *deadline)
{
    struct http_server *server = arg;
    struct http_request *request = request_of(deadline);
    uint64_t now_ns = clock_now_ns();
    if (now_ns - stalled_since(request, now_ns) >= server->options.reply_stall_ms * NS_PER_MS) {
        drop(request, HTTP_DROP_STALLED);
    } else {
        deadline_join(&server->replies, deadline, &server->replies_sent);
    }
}

/* Of one account's. NULL: none is on its way. */
static struct http_request *slowest_reader(struct http_server *server, unsigned account)
{
    struct http_request *slowest = NULL;
    uint64_t now_ns = clock_now_ns();
    for (struct deadline *each = server->replies_sent.first; each; each = each->next) {
        struct http_request *request = request_of(each);
        if (request->account != account || request->unread.bytes == 0) {
            continue;
        }
        uint64_t since_ns = stalled_since(request, now_ns);
        if (!slowest || since_ns < slowest->unread.since_ns) {
            slowest = request;
        }
    }
    return slowest;
}

void http_unread_hold(struct http_request *request, size_t bytes)
{
    struct http_server *server = request->server;
    if (request->gone || request->connection->dropped) {
        return;
    }
    budget_give_back(&server->unread, request->account, request->unread.bytes);
    budget_add(&server->unread, request->account, bytes);
    request->unread.bytes = bytes;
    int debtor;
    while ((debtor = budget_debtor(&server->unread, request->account)) >= 0) {
        struct http_request *slowest = slowest_reader(server, (unsigned)debtor);
        if (!slowest) {
            return; /* one reply alone may be larger than that */
        }
        drop(slowest, HTTP_DROP_BUDGET);
    }
}

void http_unread_begin(struct http_request *request)
{
    struct http_server *server = request->server;
    request->unread.request = request;
    request->unread.progress = progress_of(request);
    request->unread.since_ns = clock_now_ns();
    deadline_join(&server->replies, &request->unread.deadline, &server->replies_sent);
}

void http_unread_end(struct http_request *request)
{
    struct http_server *server = request->server;
    deadline_leave(&request->unread.deadline);
    budget_give_back(&server->unread, request->account, request->unread.bytes);
    request->unread.bytes = 0;
}

int http_unread_start(struct http_server *server, struct err *reterr)
{
    const struct http_options *options = &server->options;
    server->replies_sent.timeout_ns = options->reply_stall_ms * NS_PER_MS / LOOKS;
    server->replies =
        (struct deadlines){.queues = &server->replies_sent, .n_queues = 1, .passed = on_look, .arg = server};
    int r = budget_open(&server->unread, options->max_unread_bytes, options->max_unread_bytes_per_account,
                        options->n_accounts);
    return r < 0 ? err_errno(reterr, -r, "starting the HTTP server")
                 : deadlines_start(&server->replies, server->loop, reterr);
}

void http_unread_stop(struct http_server *server)
{
    deadlines_stop(&server->replies);
    budget_close(&server->unread);
}
