/* One connection of a program to its proxy: a request, the host that it goes to, its end. Runs in the front,
 * on its loop; never blocks.
 *
 * What must hold: nothing is sent to a host but what a rule allows. What was cut short does not look
 * complete. Each connection is told of once, and a refusal says why. */
#include "server/bridge/proxy_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/message/egress.h"
#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/loop.h"
#include "server/bridge/callback.h"
#include "server/bridge/egress_internal.h"
#include "server/bridge/tools.h"
#include "server/kit/log.h"
#include "server/kit/metrics.h"

#define HEAD_NS       (10 * NS_PER_S) /* from accept to the end of the request's head */
#define LEAVE_NS      (5 * NS_PER_S)  /* until a program has taken the last bytes, and hung up */
#define LEAVE_BYTES   (1u << 20)      /* that it may say meanwhile */
#define SENTENCE_SIZE 512

/* ---- Ends ---- */

static void note(struct proxy_connection *connection, const char *outcome)
{
    const struct tools *who = connection->job->who;
    if (connection->noted) {
        return;
    }
    connection->noted = true;
    metrics_add(who->metrics, METRIC_EGRESS_CONNECTIONS, outcome, NULL, 1);
    LOG(who->audit, LOG_INFO, "egress", LOG_FIELD_STR("key", who->key),
        LOG_FIELD_STR("request_id", who->request_id), LOG_FIELD_STR("execution_id", who->execution_id),
        LOG_FIELD_STR("traceparent", who->traceparent), LOG_FIELD_STR("host", connection->name),
        LOG_FIELD_U64("port", connection->port), LOG_FIELD_STR("method", connection->method),
        LOG_FIELD_U64("status", connection->status), LOG_FIELD_STR("outcome", outcome),
        LOG_FIELD_U64("bytes_sent", connection->sent), LOG_FIELD_U64("bytes_received", connection->received),
        LOG_FIELD_F64("duration_ms", (double)(clock_now_ns() - connection->start_ns) / (double)NS_PER_MS));
}

static void leave_host(struct proxy_connection *connection)
{
    loop_remove(TAKE_PTR(connection->host_source));
    if (connection->host) {
        callback_cancel(TAKE_PTR(connection->host));
    }
}

void proxy_connection_end(struct proxy_connection *connection, const char *outcome)
{
    struct proxy_job *job = connection->job;
    struct proxy_flow *flows[] = {&connection->in, &connection->up, &connection->down};
    note(connection, outcome);
    *(connection->previous ? &connection->previous->next : &job->connections) = connection->next;
    if (connection->next) {
        connection->next->previous = connection->previous;
    }
    leave_host(connection);
    loop_remove(connection->source);
    loop_remove(connection->timer);
    fd_closep(&connection->fd);
    for (size_t i = 0; i < ARRAY_SIZE(flows); i++) {
        proxy_flow_clear(flows[i]);
        buf_free(&flows[i]->buf);
    }
    free(connection);
    job->n_open--;
    job->ended(job);
}

/* In the middle of something: the program must not take what it has for all. */
static void cut(struct proxy_connection *connection, const char *outcome)
{
    const struct linger at_once = {.l_onoff = 1};
    setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    proxy_connection_end(connection, outcome);
}

static bool watch(struct proxy_connection *connection);

/* What the program still says is not heard: closing on it would take the last bytes away from it. */
static void leave(struct proxy_connection *connection)
{
    leave_host(connection);
    proxy_flow_clear(&connection->in);
    proxy_flow_clear(&connection->up);
    connection->state = PROXY_LEAVING;
    loop_timer_set(connection->timer, clock_now_ns() + LEAVE_NS);
    if (!watch(connection)) {
        proxy_connection_end(connection, EGRESS_FAILED);
    }
}

static const char *reason_phrase(int status)
{
    static const struct {
        int status;
        const char *phrase;
    } phrases[] = {
        {400, "Bad Request"},
        {403, "Forbidden"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {431, "Request Header Fields Too Large"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(phrases); i++) {
        if (phrases[i].status == status) {
            return phrases[i].phrase;
        }
    }
    return "";
}

/* The proxy's own reply, of one sentence, where the host has not answered. */
static void reply(struct proxy_connection *connection, int status, const char *outcome, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void reply(struct proxy_connection *connection, int status, const char *outcome, const char *fmt, ...)
{
    char sentence[SENTENCE_SIZE];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sentence, sizeof sentence - 1, fmt, ap);
    va_end(ap);
    connection->status = (unsigned)status;
    note(connection, outcome);
    proxy_flow_clear(&connection->down);
    bool bodiless = strcmp(connection->method, "HEAD") == 0;
    buf_printf(&connection->down.buf,
               "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n"
               "Connection: close\r\n\r\n%s%s",
               status, reason_phrase(status), strlen(sentence) + 1, bodiless ? "" : sentence,
               bodiless ? "" : "\n");
    if (connection->down.buf.failed) {
        cut(connection, outcome);
    } else {
        leave(connection);
    }
}

/* Without an answer yet, the program is told; else what it has is cut off. */
static void fail(struct proxy_connection *connection, const struct proxy_fault *fault)
{
    if (fault->status == 0) {
        proxy_connection_end(connection, fault->outcome);
    } else if (connection->received > 0 || (connection->tunnel && connection->state == PROXY_OPEN)) {
        cut(connection, fault->outcome);
    } else {
        reply(connection, fault->status, fault->outcome, "host \"%s\" port %u: %s", connection->name,
              connection->port, fault->why);
    }
}

static void on_timer(void *arg, uint32_t events)
{
    (void)events;
    struct proxy_connection *connection = arg;
    if (connection->state == PROXY_HEAD) {
        reply(connection, 408, EGRESS_TIMEOUT, "the request did not come in time");
    } else if (connection->state == PROXY_LEAVING) {
        proxy_connection_end(connection, EGRESS_CLOSED);
    } else {
        fail(connection, &(struct proxy_fault){504, EGRESS_TIMEOUT, "no answer in time"});
    }
}

static const struct proxy_fault out_of_memory = {502, EGRESS_FAILED, "out of memory"};

/* ---- Watching ---- */

static void on_program(void *arg, uint32_t events);
static void on_host(void *arg, uint32_t events);

/* Only what can be acted on is watched: the kernel would report the rest all the time. */
static bool watch_fd(struct proxy_connection *connection, int fd, uint32_t wanted, loop_fn fn,
                     struct loop_source **source)
{
    struct loop *loop = connection->job->proxy->loop;
    if (wanted == 0) {
        loop_remove(TAKE_PTR(*source));
        return true;
    }
    return *source ? loop_modify(*source, wanted) == 0
                   : loop_add(loop, fd, wanted, fn, connection, source, NULL) == 0;
}

static bool watch(struct proxy_connection *connection)
{
    enum proxy_state state = connection->state;
    bool open = state == PROXY_OPEN;
    bool idle = proxy_flow_left(&connection->in) == 0 && proxy_flow_left(&connection->up) == 0;
    bool reads = state == PROXY_HEAD || (state == PROXY_LEAVING && !connection->program_ended) ||
                 (open && idle && proxy_hears_program(connection));
    bool writes = state >= PROXY_OPEN && proxy_flow_left(&connection->down) > 0;
    bool host_reads = open && !connection->host_ended && proxy_flow_left(&connection->down) == 0;
    bool host_writes = open && (proxy_flow_left(&connection->up) > 0 || (host_reads && connection->more));
    return watch_fd(connection, connection->fd, (reads ? EPOLLIN : 0u) | (writes ? EPOLLOUT : 0u), on_program,
                    &connection->source) &&
           (!connection->host || watch_fd(connection, callback_fd(connection->host),
                                          (host_reads ? EPOLLIN : 0u) | (host_writes ? EPOLLOUT : 0u),
                                          on_host, &connection->host_source));
}

/* ---- Both ---- */

static void tell_program(struct proxy_connection *connection)
{
    if (!connection->program_told) {
        connection->program_told = true;
        shutdown(connection->fd, SHUT_WR);
    }
}

/* After each round: over, or to be watched for the next. */
static void go_on(struct proxy_connection *connection)
{
    if (connection->host_ended && proxy_flow_left(&connection->down) == 0) {
        if (connection->received == 0 && !connection->tunnel) {
            fail(connection, &(struct proxy_fault){502, EGRESS_FAILED, "it has ended without an answer"});
            return;
        }
        tell_program(connection);
        if (!connection->tunnel) {
            note(connection, EGRESS_CLOSED);
            leave(connection);
            return;
        }
        if (connection->host_told || connection->host_deaf) {
            proxy_connection_end(connection, EGRESS_CLOSED);
            return;
        }
    }
    if (!watch(connection)) {
        fail(connection, &out_of_memory);
    }
}

static void pump(struct proxy_connection *connection)
{
    struct proxy_fault fault;
    if (proxy_pump(connection, &fault)) {
        go_on(connection);
    } else {
        fail(connection, &fault);
    }
}

static void on_host(void *arg, uint32_t events)
{
    (void)events;
    pump(arg);
}

/* ---- Connecting ---- */

/* NULL: it was not among those that the front was started with. */
static const struct callback_config *find_host(const struct proxy *proxy, const struct egress_rule *rule)
{
    bool https = rule->mode == EGRESS_TLS_ORIGINATION;
    for (size_t i = 0; i < proxy->n_hosts; i++) {
        const struct callback_url *url = &proxy->hosts[i].url;
        if (url->https == https && url->port == rule->port && strcasecmp(url->host, rule->host) == 0) {
            return &proxy->hosts[i];
        }
    }
    return NULL;
}

static void on_connected(void *arg, const struct callback_answer *answer)
{
    struct proxy_connection *connection = arg;
    const struct server_config *config = connection->job->proxy->config;
    if (answer->outcome != CALLBACK_ANSWERED) {
        connection->host = NULL;
        reply(connection, 502, EGRESS_FAILED, "host \"%s\" port %u: %s", connection->name, connection->port,
              answer->why);
        return;
    }
    int on = 1;
    setsockopt(callback_fd(connection->host), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connection->state = PROXY_OPEN;
    loop_timer_set(connection->timer, connection->start_ns + config->egress_timeout_ms * NS_PER_MS);
    if (connection->tunnel) {
        connection->status = 200;
        buf_puts(&connection->down.buf, "HTTP/1.1 200 Connection established\r\n\r\n");
    }
    pump(connection);
}

static void connect_to(struct proxy_connection *connection, const struct callback_config *to)
{
    static const struct proxy_fault unknown = {
        502, EGRESS_FAILED, "when the server started, its name stood for no address that it may have"};
    struct callback_client *client = connection->job->proxy->client;
    int r = callback_connect(client, to, on_connected, connection, &connection->host);
    if (r < 0) {
        fail(connection, r == -EHOSTUNREACH ? &unknown : &out_of_memory);
        return;
    }
    connection->state = PROXY_CONNECTING;
    loop_timer_set(connection->timer, 0);
    loop_remove(TAKE_PTR(connection->source));
    callback_client_run(client); /* may have ended it */
}

static void begin(struct proxy_connection *connection, const struct proxy_request *request)
{
    struct proxy_job *job = connection->job;
    const struct egress_rule *rule = connection->rule;
    const struct callback_config *to = find_host(job->proxy, rule);
    uint64_t moved = job->rule_bytes[rule - job->rules];
    connection->port = rule->port;
    connection->tunnel = request->tunnel;
    connection->chunked = request->framing.chunked;
    connection->body_left = request->framing.length;
    connection->body_ended = !request->tunnel && !request->framing.chunked && request->framing.length == 0;
    if (!to) {
        fail(connection, &(struct proxy_fault){502, EGRESS_FAILED, "the server may not reach it"});
    } else if (job->bytes >= job->proxy->config->max_egress_bytes || moved >= rule->max_bytes) {
        fail(connection,
             &(struct proxy_fault){403, EGRESS_LIMIT, "this job has moved as many bytes as it may"});
    } else if (!request->tunnel &&
               !proxy_request_write(request, rule, job->proxy->config, &connection->up.buf)) {
        fail(connection, &out_of_memory);
    } else {
        connect_to(connection, to);
    }
}

/* ---- The request ---- */

static void take_request(struct proxy_connection *connection, size_t size)
{
    struct proxy_job *job = connection->job;
    struct proxy_request request;
    const char *why = "";
    int status = proxy_request_read(connection->in.buf.data, size, &request, &why);
    connection->in.at = size;
    snprintf(connection->method, sizeof connection->method, "%s",
             request.head.method ? request.head.method : "");
    snprintf(connection->name, sizeof connection->name, "%s", request.host);
    connection->port = request.port;
    if (status != 0) {
        reply(connection, status, EGRESS_REFUSED, "%s", why);
        return;
    }
    CLEANUP(buf_free) struct buf sentence = BUF_INIT;
    connection->rule = proxy_request_rule(&request, job->rules, job->n_rules, &status, &sentence);
    if (!connection->rule) {
        reply(connection, status, EGRESS_REFUSED, "%s", sentence.failed ? "" : sentence.data);
    } else {
        begin(connection, &request);
    }
}

static void read_head(struct proxy_connection *connection)
{
    struct buf *in = &connection->in.buf;
    char *room = buf_reserve(in, PROXY_BUFFER_BYTES - in->len);
    ssize_t n = room ? recv(connection->fd, room, PROXY_BUFFER_BYTES - in->len, 0) : -1;
    if (n < 0 && room && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        proxy_connection_end(connection, EGRESS_CLOSED);
        return;
    }
    in->len += (size_t)n;
    ssize_t size = http_syntax_head_size(in->data, in->len, &connection->scanned);
    if (size > 0) {
        take_request(connection, (size_t)size);
    } else if (size < 0) {
        reply(connection, 400, EGRESS_REFUSED, "this is no sound HTTP/1.1 request");
    } else if (in->len == PROXY_BUFFER_BYTES) {
        reply(connection, 431, EGRESS_REFUSED, "the request's head is longer than %u bytes",
              PROXY_BUFFER_BYTES);
    }
}

/* The rest for the program; what it says is thrown away. */
static void leave_program(struct proxy_connection *connection)
{
    if (proxy_tell(connection) < 0 || (!connection->program_ended && proxy_hear(connection) < 0)) {
        proxy_connection_end(connection, EGRESS_CLOSED);
        return;
    }
    if (proxy_flow_left(&connection->down) == 0) {
        tell_program(connection);
    }
    connection->ignored += proxy_flow_left(&connection->in);
    connection->in.at = connection->in.buf.len;
    if (connection->ignored > LEAVE_BYTES ||
        (connection->program_ended && proxy_flow_left(&connection->down) == 0) || !watch(connection)) {
        proxy_connection_end(connection, EGRESS_CLOSED);
    }
}

static void on_program(void *arg, uint32_t events)
{
    (void)events;
    struct proxy_connection *connection = arg;
    if (connection->state == PROXY_HEAD) {
        read_head(connection);
    } else if (connection->state == PROXY_LEAVING) {
        leave_program(connection);
    } else {
        pump(connection);
    }
}

void proxy_connection_new(struct proxy_job *job, int fd)
{
    const uint64_t max = job->proxy->config->max_egress_connections;
    struct proxy_connection *connection = calloc(1, sizeof *connection);
    if (!connection) {
        close(fd);
        return;
    }
    *connection = (struct proxy_connection){.job = job, .fd = fd, .start_ns = clock_now_ns()};
    connection->next = job->connections;
    if (connection->next) {
        connection->next->previous = connection;
    }
    job->connections = connection;
    job->n_open++;
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connection->noted = job->n_connections >= max; /* there have been lines enough */
    if (loop_add_timer(job->proxy->loop, on_timer, connection, &connection->timer, NULL) < 0 ||
        !watch(connection)) {
        proxy_connection_end(connection, EGRESS_FAILED);
        return;
    }
    loop_timer_set(connection->timer, connection->start_ns + HEAD_NS);
    if (job->n_connections >= max) {
        reply(connection, 503, EGRESS_LIMIT, "this job has made as many connections as it may");
        return;
    }
    job->n_connections++;
}
