/* Bytes between a program and a host, through its proxy: a tunnel's as they are, a request's body as it was
 * announced, an answer as it comes. Runs in the front; never blocks.
 *
 * What must hold: in each direction one buffer is held, and more is read when it has been passed on. Of a
 * request's body the host gets what belongs to it, in chunks made here, and nothing behind it. */
#include "server/bridge/proxy_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "config/message/egress.h"
#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "server/bridge/callback.h"
#include "server/bridge/egress_internal.h"
#include "server/bridge/tools.h"
#include "server/kit/metrics.h"

#define ROUNDS 4 /* before it is others' turn */

size_t proxy_flow_left(const struct proxy_flow *flow)
{
    return flow->buf.len - flow->at;
}

void proxy_flow_clear(struct proxy_flow *flow)
{
    if (flow->buf.data) {
        explicit_bzero(flow->buf.data, flow->buf.cap);
    }
    flow->buf.len = flow->at = 0;
}

bool proxy_hears_program(const struct proxy_connection *connection)
{
    return !connection->program_ended && !connection->host_deaf && !connection->body_ended;
}

/* Each step returns 1: something has moved; 0: nothing can; -1: the connection is to end. */

static int fault(struct proxy_fault *ret, int status, const char *outcome, const char *why)
{
    *ret = (struct proxy_fault){status, outcome, why};
    return -1;
}

/* ---- From the program to the host ---- */

int proxy_hear(struct proxy_connection *connection)
{
    struct proxy_flow *in = &connection->in;
    in->buf.len = in->at = 0;
    char *room = buf_reserve(&in->buf, PROXY_BUFFER_BYTES);
    ssize_t n = room ? recv(connection->fd, room, PROXY_BUFFER_BYTES, 0) : -1;
    if (n < 0) {
        return room && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
    }
    in->buf.len = (size_t)n;
    connection->program_ended = n == 0;
    return 1;
}

/* Chunks are made anew, without extensions and trailers. */
static int take_chunks(struct proxy_connection *connection, struct proxy_fault *ret)
{
    struct proxy_flow *in = &connection->in;
    struct buf *up = &connection->up.buf;
    while (proxy_flow_left(in) > 0 && !http_chunks_ended(&connection->chunks)) {
        size_t piece;
        ssize_t n = http_chunks_take(&connection->chunks, in->buf.data + in->at, proxy_flow_left(in), &piece);
        if (n < 0) {
            return fault(ret, 400, EGRESS_REFUSED, "the request's body is not in sound chunks");
        }
        in->at += (size_t)n;
        if (piece > 0) {
            buf_printf(up, "%zx\r\n", piece);
            buf_append(up, in->buf.data + in->at - piece, piece);
            buf_puts(up, "\r\n");
        }
    }
    connection->body_ended = http_chunks_ended(&connection->chunks);
    if (connection->body_ended) {
        buf_puts(up, "0\r\n\r\n");
    }
    return 1;
}

static int take_body(struct proxy_connection *connection, struct proxy_fault *ret)
{
    struct proxy_flow *in = &connection->in;
    size_t n = proxy_flow_left(in);
    if (connection->chunked) {
        return take_chunks(connection, ret);
    }
    if (!connection->tunnel) {
        n = n < connection->body_left ? n : (size_t)connection->body_left;
        connection->body_left -= n;
        connection->body_ended = connection->body_left == 0;
    }
    buf_append(&connection->up.buf, in->buf.data + in->at, n);
    in->at += n;
    return 1;
}

/* A request that ends in its middle is none: closing is how the host learns it. */
static int take_from_program(struct proxy_connection *connection, struct proxy_fault *ret)
{
    if (proxy_flow_left(&connection->up) > 0 || connection->body_ended || connection->host_deaf) {
        return 0;
    }
    if (proxy_flow_left(&connection->in) == 0) {
        int r = proxy_hears_program(connection) ? proxy_hear(connection) : 0;
        if (r < 0 || (r > 0 && connection->program_ended && !connection->tunnel)) {
            return fault(ret, 0, EGRESS_CLOSED, "");
        }
        if (r == 0 || connection->program_ended) {
            return r;
        }
    }
    proxy_flow_clear(&connection->up);
    int r = take_body(connection, ret);
    return connection->up.buf.failed ? fault(ret, 502, EGRESS_FAILED, "out of memory") : r;
}

/* Whether the job may move so many bytes more. */
static bool has_room(const struct proxy_connection *connection, size_t n)
{
    const struct proxy_job *job = connection->job;
    uint64_t all = job->proxy->config->max_egress_bytes, most = connection->rule->max_bytes;
    uint64_t rule_bytes = job->rule_bytes[connection->rule - job->rules];
    return job->bytes <= all && n <= all - job->bytes && rule_bytes <= most && n <= most - rule_bytes;
}

static void count(struct proxy_connection *connection, const char *direction, size_t n)
{
    struct proxy_job *job = connection->job;
    job->bytes += n;
    job->rule_bytes[connection->rule - job->rules] += n;
    metrics_add(job->who->metrics, METRIC_EGRESS_BYTES, direction, NULL, (double)n);
}

static int fault_of_limit(struct proxy_fault *ret)
{
    return fault(ret, 403, EGRESS_LIMIT, "this job has moved as many bytes as it may");
}

static int give_to_host(struct proxy_connection *connection, struct proxy_fault *ret)
{
    struct proxy_flow *up = &connection->up;
    if (proxy_flow_left(up) == 0) {
        if (connection->tunnel && connection->program_ended && !connection->host_told) {
            connection->host_told = true;
            shutdown(callback_fd(connection->host), SHUT_WR);
        }
        return 0;
    }
    if (!has_room(connection, proxy_flow_left(up))) {
        return fault_of_limit(ret); /* before anything of it has left */
    }
    ssize_t n = callback_send(connection->host, up->buf.data + up->at, proxy_flow_left(up));
    if (n == -EAGAIN) {
        return 0;
    }
    if (n < 0) { /* it may have answered before */
        connection->host_deaf = true;
        proxy_flow_clear(up);
        return 1;
    }
    up->at += (size_t)n;
    connection->sent += (uint64_t)n;
    if (proxy_flow_left(up) == 0) {
        proxy_flow_clear(up);
    }
    count(connection, "sent", (size_t)n);
    return n > 0;
}

/* ---- From the host to the program ---- */

/* For the audit trail. */
static void read_status(struct proxy_connection *connection, const char *data, size_t size)
{
    if (!connection->tunnel && connection->received == 0 && size >= 12 && memcmp(data, "HTTP/1.", 7) == 0) {
        for (size_t i = 9; i < 12 && data[i] >= '0' && data[i] <= '9'; i++) {
            connection->status = connection->status * 10 + (unsigned)(data[i] - '0');
        }
    }
}

static int take_from_host(struct proxy_connection *connection, struct proxy_fault *ret)
{
    struct proxy_flow *down = &connection->down;
    if (proxy_flow_left(down) > 0 || connection->host_ended) {
        return 0;
    }
    connection->more = false;
    down->buf.len = down->at = 0;
    char *room = buf_reserve(&down->buf, PROXY_BUFFER_BYTES);
    ssize_t n = room ? callback_receive(connection->host, room, PROXY_BUFFER_BYTES) : -ENOMEM;
    if (n == -EAGAIN) {
        return 0;
    }
    if (n < 0) {
        return fault(ret, 502, EGRESS_FAILED, "it has broken the connection off");
    }
    read_status(connection, room, (size_t)n);
    count(connection, "received", (size_t)n);
    if (!has_room(connection, 0)) {
        return fault_of_limit(ret);
    }
    down->buf.len = (size_t)n;
    connection->received += (uint64_t)n;
    connection->more = n > 0;
    connection->host_ended = n == 0;
    return 1;
}

int proxy_tell(struct proxy_connection *connection)
{
    struct proxy_flow *down = &connection->down;
    if (proxy_flow_left(down) == 0) {
        return 0;
    }
    ssize_t n = send(connection->fd, down->buf.data + down->at, proxy_flow_left(down), MSG_NOSIGNAL);
    if (n < 0) {
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    }
    down->at += (size_t)n;
    return n > 0;
}

static int give_to_program(struct proxy_connection *connection, struct proxy_fault *ret)
{
    int r = proxy_tell(connection);
    return r < 0 ? fault(ret, 0, EGRESS_CLOSED, "") : r;
}

/* ---- Both ---- */

bool proxy_pump(struct proxy_connection *connection, struct proxy_fault *ret)
{
    static int (*const steps[])(struct proxy_connection *, struct proxy_fault *) = {
        take_from_program, give_to_host, take_from_host, give_to_program};
    bool moved = true;
    for (int round = 0; moved && round < ROUNDS; round++) {
        moved = false;
        for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
            int r = steps[i](connection, ret);
            if (r < 0) {
                return false;
            }
            moved = moved || r > 0;
        }
    }
    return true;
}
