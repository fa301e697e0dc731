/* HTTP through libmicrohttpd: the only file that includes it. Runs in the front, single-threaded:
 * libmicrohttpd has no thread of its own, its epoll descriptor is one more source of our loop, and a
 * connection whose job runs is suspended.
 *
 * Three things are done beside it, for which each connection is a source of our loop as well:
 *  - Deadlines. Its own timeout starts again with every byte, so a request could take for ever; here one
 * deadline holds from a request's first byte to its last.
 *  - Hanging up. A suspended connection is not watched, yet a caller who leaves cancels its job.
 *  - Refusals. It cannot take a reply while a body arrives, and where it can (before the body) it closes the
 * socket with bytes unread, which makes the kernel send a reset that can overtake the reply. So a refusal
 * goes straight to the socket, then our side is shut, and what still comes is read and dropped for a moment.
 */
#include "server/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/base/loop.h"
#include "server/deadline.h"
#include "server/http_wire.h"

#define LINGER_NS (2 * NS_PER_S)

/* What a connection waits for. The first ones have deadlines, and a queue each. */
enum phase {
    PHASE_IDLE,      /* the first byte of a request */
    PHASE_RECEIVING, /* its last byte */
    PHASE_LINGERING, /* the caller's end of a refused request */
    PHASE_QUEUES,
    PHASE_WORKING = PHASE_QUEUES, /* the reply, from above */
    PHASE_REPLYING,               /* the socket to take it, or to be closed */
};

struct connection {
    struct deadline deadline; /* first, so that one is the other */
    struct http_server *server;
    struct MHD_Connection *mhd;
    int fd;
    struct loop_source *watch;
    struct http_request *request;
    enum phase phase;
    bool peer_closed;
    bool served; /* one request at least */
    struct connection *previous, *next;
};

struct http_server {
    struct MHD_Daemon *daemon;
    struct loop *loop;
    struct loop_source *source;
    struct http_options options;
    struct http_events events;
    void *arg;
    struct deadlines deadlines;
    struct deadline_queue queues[PHASE_QUEUES];
    struct connection *connections;
    size_t n_connections;
    size_t bodies_bytes;
    bool draining;
};

struct http_request {
    struct connection *connection;
    const char *method, *path;
    struct buf body;
    bool body_announced, expects_continue;
    bool deciding; /* inside the handler's first call, where libmicrohttpd takes a reply before the body */
    bool gone;     /* the caller has hung up */
    bool replied;
    bool refused;                  /* past libmicrohttpd */
    struct MHD_Response *response; /* made, not queued yet */
    unsigned status;
    void *user;
};

static void enter(struct connection *connection, enum phase phase)
{
    struct http_server *server = connection->server;
    if (connection->phase != phase) {
        connection->phase = phase;
        deadline_join(&server->deadlines, &connection->deadline,
                      phase < PHASE_QUEUES ? &server->queues[phase] : NULL);
    }
}

/* ---- Requests ---- */

static struct http_request *request_new(struct connection *connection, const char *method, const char *path)
{
    struct http_request *request = calloc(1, sizeof *request);
    if (request) {
        *request = (struct http_request){.connection = connection, .method = method, .path = path};
        connection->request = request;
    }
    return request;
}

static void request_end(struct http_request *request, bool sent)
{
    struct connection *connection = request->connection;
    struct http_server *server = connection->server;
    server->events.end(server->arg, request, sent);
    connection->request = NULL;
    connection->served = true;
    if (request->response) {
        MHD_destroy_response(request->response);
    }
    http_free_body(request);
    free(request);
}

void http_free_body(struct http_request *request)
{
    request->connection->server->bodies_bytes -= request->body.len;
    buf_free(&request->body);
}

/* libmicrohttpd takes the first of several Content-Length headers, and a Transfer-Encoding that it does not
 * know for a body without end. A proxy in front may see it otherwise and take part of a body for the next
 * request: refused. */
static bool read_framing(struct http_request *request, uint64_t *ret_length)
{
    size_t n_lengths = http_header_count(request, "Content-Length");
    size_t n_encodings = http_header_count(request, "Transfer-Encoding");
    *ret_length = 0;
    request->body_announced = n_lengths + n_encodings > 0;
    if (n_lengths + n_encodings != 1) {
        return !request->body_announced;
    }
    if (n_encodings == 1) {
        return strcasecmp(http_header(request, "Transfer-Encoding"), "chunked") == 0;
    }
    if (io_parse_u64(http_header(request, "Content-Length"), ret_length) < 0) {
        return false;
    }
    request->body_announced = *ret_length > 0;
    return true;
}

static void begin_request(struct http_request *request)
{
    struct http_server *server = request->connection->server;
    uint64_t length;
    const union MHD_ConnectionInfo *header_size =
        MHD_get_connection_info(request->connection->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    const char *expect = http_header(request, "Expect");
    request->expects_continue = expect && strcasecmp(expect, "100-continue") == 0;
    if (!read_framing(request, &length)) {
        server->events.fault(server->arg, request, HTTP_FAULT_FRAMING);
    } else if (header_size && header_size->header_size > server->options.max_header_bytes) {
        server->events.fault(server->arg, request, HTTP_FAULT_HEADERS_TOO_LARGE);
    } else {
        server->events.headers(server->arg, request);
        if (!request->replied && length > server->options.max_body_bytes) {
            server->events.fault(server->arg, request, HTTP_FAULT_BODY_TOO_LARGE);
        } else if (!request->replied && length > 0) {
            buf_reserve(&request->body, (size_t)length); /* untouched memory costs nothing */
        }
    }
}

static void take_body(struct http_request *request, const char *data, size_t size)
{
    struct http_server *server = request->connection->server;
    if (request->replied) {
        return;
    }
    if (size > server->options.max_body_bytes - request->body.len) {
        server->events.fault(server->arg, request, HTTP_FAULT_BODY_TOO_LARGE);
    } else if (size > server->options.max_bodies_bytes - server->bodies_bytes ||
               buf_append(&request->body, data, size) < 0) {
        server->events.fault(server->arg, request, HTTP_FAULT_OVERLOADED);
    } else {
        server->bodies_bytes += size;
    }
}

static void hang_up(struct http_request *request)
{
    struct http_server *server = request->connection->server;
    if (!request->gone && !request->replied) {
        request->gone = true;
        server->events.hangup(server->arg, request);
        MHD_resume_connection(request->connection->mhd);
    }
}

static enum MHD_Result queue_response(struct http_request *request)
{
    enum MHD_Result result = MHD_queue_response(request->connection->mhd, request->status, request->response);
    MHD_destroy_response(request->response);
    request->response = NULL;
    return result;
}

/* The request is complete: its reply, now or when it is there. */
static enum MHD_Result serve(struct http_request *request)
{
    struct connection *connection = request->connection;
    struct http_server *server = connection->server;
    if (request->refused || request->gone) {
        return MHD_NO; /* closes the connection */
    }
    if (!request->replied && connection->phase != PHASE_WORKING) {
        enter(connection, PHASE_WORKING);
        server->events.complete(server->arg, request);
        if (!request->replied) {
            MHD_suspend_connection(connection->mhd);
            if (connection->peer_closed) {
                hang_up(request);
            }
            return MHD_YES;
        }
    }
    if (!request->response) {
        return request->replied ? MHD_NO : MHD_YES;
    }
    enter(connection, PHASE_REPLYING);
    return queue_response(request);
}

/* libmicrohttpd calls this when the headers are there, for each piece of the body, and when the request is
 * complete. */
static enum MHD_Result handle(void *arg, struct MHD_Connection *mhd, const char *path, const char *method,
                              const char *version, const char *data, size_t *size, void **request_slot)
{
    (void)arg;
    (void)version;
    struct http_request *request = *request_slot;
    if (request && *size > 0) {
        take_body(request, data, *size);
        *size = 0;
        return MHD_YES;
    }
    if (request) {
        return serve(request);
    }
    struct connection *connection =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    if (!connection || connection->phase == PHASE_LINGERING) {
        return MHD_NO; /* no memory, or its headers came too late */
    }
    request = request_new(connection, method, path);
    if (!request) {
        return MHD_NO;
    }
    *request_slot = request;
    enter(connection, PHASE_RECEIVING);
    request->deciding = true;
    begin_request(request);
    request->deciding = false;
    return MHD_YES;
}

static void completed(void *arg, struct MHD_Connection *mhd, void **request_slot,
                      enum MHD_RequestTerminationCode code)
{
    (void)arg;
    (void)mhd;
    struct http_request *request = *request_slot;
    if (!request) {
        return;
    }
    struct connection *connection = request->connection;
    bool refused = request->refused;
    *request_slot = NULL;
    request_end(request, refused || code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    if (!refused) {
        enter(connection, PHASE_IDLE);
    }
}

/* ---- Replies ---- */

/* Past libmicrohttpd, straight onto the socket: small, and the first thing in it since the last reply, so it
 * fits. */
static void refuse(struct http_request *request, const struct http_header *headers, size_t n_headers,
                   const struct buf *body)
{
    struct connection *connection = request->connection;
    CLEANUP(buf_free) struct buf head = BUF_INIT;
    http_wire_head(&head, request->status, MHD_get_reason_phrase_for(request->status), headers, n_headers,
                   body->len);
    http_wire_send(connection->fd, &head, strcmp(request->method, "HEAD") == 0 ? NULL : body);
    http_free_body(request);
    request->refused = true;
    shutdown(connection->fd, SHUT_WR);
    enter(connection, PHASE_LINGERING);
}

static struct MHD_Response *make_response(const struct http_server *server, const struct http_header *headers,
                                          size_t n_headers, struct buf *body)
{
    if (body->failed || !body->data) {
        return NULL;
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer_with_free_callback(body->len, body->data, free);
    if (!response) {
        return NULL;
    }
    *body = BUF_INIT; /* the response's now */
    bool complete = true;
    for (size_t i = 0; i < n_headers; i++) {
        complete =
            MHD_add_response_header(response, headers[i].name, headers[i].value) == MHD_YES && complete;
    }
    if (server->draining) {
        complete = MHD_add_response_header(response, "Connection", "close") == MHD_YES && complete;
    }
    if (!complete) {
        MHD_destroy_response(response);
        return NULL;
    }
    return response;
}

static bool is_suspended(const struct connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection->mhd, MHD_CONNECTION_INFO_CONNECTION_SUSPENDED);
    return info && info->suspended == MHD_YES;
}

void http_reply(struct http_request *request, unsigned status, const struct http_header *headers,
                size_t n_headers, struct buf *body)
{
    struct connection *connection = request->connection;
    if (request->replied || request->gone) {
        buf_free(body);
        return;
    }
    request->replied = true;
    request->status = status;
    bool arriving = connection->phase == PHASE_RECEIVING && (request->body_announced || !*request->method);
    bool early = arriving && request->deciding && request->expects_continue;
    if (arriving && !early) {
        refuse(request, headers, n_headers, body);
    } else {
        request->response = make_response(connection->server, headers, n_headers, body);
    }
    if (early && request->response) {
        /* The caller has sent nothing yet and will not: libmicrohttpd can say no and close without harm. */
        enter(connection, PHASE_REPLYING);
        queue_response(request);
    } else if (connection->phase == PHASE_WORKING && is_suspended(connection)) {
        MHD_resume_connection(connection->mhd);
    }
    buf_free(body);
}

/* ---- Connections ---- */

static void on_watch(void *arg, uint32_t events)
{
    struct connection *connection = arg;
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        connection->peer_closed = true;
        if (connection->phase == PHASE_WORKING) {
            hang_up(connection->request);
        }
    } else if (connection->phase == PHASE_IDLE) {
        enter(connection, PHASE_RECEIVING);
    }
}

static void too_slow(struct connection *connection)
{
    struct http_server *server = connection->server;
    bool in_headers = !connection->request;
    struct http_request *request = in_headers ? request_new(connection, "", "") : connection->request;
    if (request) {
        server->events.fault(server->arg, request, HTTP_FAULT_TOO_SLOW);
    }
    if (request && in_headers) {
        request_end(request, true); /* libmicrohttpd knows of no request that could be completed */
    }
}

static void on_deadline(void *arg, struct deadline *deadline)
{
    (void)arg;
    struct connection *connection = (struct connection *)(void *)deadline;
    if (connection->phase == PHASE_RECEIVING) {
        too_slow(connection);
    }
    if (!connection->deadline.queue) {
        /* Idle or lingering for too long, or no reply was possible. libmicrohttpd sees the end and closes. */
        connection->phase = PHASE_REPLYING;
        shutdown(connection->fd, SHUT_RDWR);
    }
}

static void connection_free(struct connection *connection)
{
    struct http_server *server = connection->server;
    deadline_join(&server->deadlines, &connection->deadline, NULL);
    loop_remove(connection->watch);
    *(connection->previous ? &connection->previous->next : &server->connections) = connection->next;
    if (connection->next) {
        connection->next->previous = connection->previous;
    }
    server->n_connections--;
    free(connection);
}

static struct connection *connection_new(struct http_server *server, struct MHD_Connection *mhd)
{
    struct connection *connection = calloc(1, sizeof *connection);
    if (!connection) {
        return NULL;
    }
    *connection = (struct connection){.server = server, .mhd = mhd, .phase = PHASE_REPLYING};
    connection->fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    if (loop_add(server->loop, connection->fd, EPOLLIN | EPOLLRDHUP | EPOLLET, on_watch, connection,
                 &connection->watch, NULL) < 0) {
        free(connection);
        return NULL;
    }
    connection->next = server->connections;
    if (connection->next) {
        connection->next->previous = connection;
    }
    server->connections = connection;
    server->n_connections++;
    enter(connection, PHASE_IDLE);
    return connection;
}

/* A connection for which there is no memory has no context, and its first request closes it. */
static void on_connection(void *arg, struct MHD_Connection *mhd, void **slot,
                          enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *slot = connection_new(arg, mhd);
    } else if (*slot) {
        connection_free(*slot);
        *slot = NULL;
    }
}

/* ---- The server ---- */

/* Paths stay as they were sent: "%2f" in one must not become a separator, nor "%00" its end. */
static size_t keep_escapes(void *arg, struct MHD_Connection *mhd, char *text)
{
    (void)arg;
    (void)mhd;
    return strlen(text);
}

static int start_daemon(struct http_server *server, struct err *reterr)
{
    const struct http_options *options = &server->options;
    /* libmicrohttpd answers headers that do not fit into a connection's memory itself, as HTML; ours is JSON
     * and comes first as long as they fit here. */
    size_t memory = options->max_header_bytes * 4 + 65536;
    uint64_t stalled_ms = options->idle_timeout_ms > options->request_timeout_ms
                              ? options->idle_timeout_ms
                              : options->request_timeout_ms;
    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, handle, server, /* */
        MHD_OPTION_LISTEN_SOCKET, options->listen_fd,                            /* */
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, memory,                              /* */
        MHD_OPTION_CONNECTION_LIMIT, options->max_connections,                   /* */
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(stalled_ms / 1000 + 1), /* for replies that nobody reads */
        MHD_OPTION_STRICT_FOR_CLIENT, 1,                                  /* */
        MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,                 /* */
        MHD_OPTION_NOTIFY_COMPLETED, completed, NULL,                     /* */
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, server,              /* */
        MHD_OPTION_END);
    if (!server->daemon) {
        return err_set(reterr, ERR_INTERNAL, errno, NULL, "libmicrohttpd did not start: %s", strerror(errno));
    }
    return 0;
}

static void on_socket(void *arg, uint32_t events)
{
    (void)arg;
    (void)events; /* http_server_run() follows */
}

int http_server_new(struct loop *loop, const struct http_options *options, const struct http_events *events,
                    void *arg, struct http_server **ret, struct err *reterr)
{
    struct http_server *server = calloc(1, sizeof *server);
    if (!server) {
        return err_errno(reterr, ENOMEM, "starting the HTTP server");
    }
    *server = (struct http_server){.loop = loop, .options = *options, .events = *events, .arg = arg};
    server->queues[PHASE_IDLE].timeout_ns = options->idle_timeout_ms * NS_PER_MS;
    server->queues[PHASE_RECEIVING].timeout_ns = options->request_timeout_ms * NS_PER_MS;
    server->queues[PHASE_LINGERING].timeout_ns = LINGER_NS;
    server->deadlines = (struct deadlines){
        .queues = server->queues, .n_queues = PHASE_QUEUES, .passed = on_deadline, .arg = server};
    int r = deadlines_start(&server->deadlines, loop, reterr);
    if (r == 0) {
        r = start_daemon(server, reterr);
    }
    if (r == 0) {
        int epoll = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
        r = loop_add(loop, epoll, EPOLLIN, on_socket, server, &server->source, reterr);
    }
    if (r < 0) {
        http_server_free(server);
        return r;
    }
    *ret = server;
    return 0;
}

void http_server_free(struct http_server *server)
{
    if (!server) {
        return;
    }
    if (server->daemon) {
        /* libmicrohttpd does not stop while a connection is suspended. */
        for (struct connection *connection = server->connections; connection; connection = connection->next) {
            if (connection->phase == PHASE_WORKING) {
                hang_up(connection->request);
            }
        }
        MHD_quiesce_daemon(server->daemon);
        MHD_run(server->daemon);
        loop_remove(server->source);
        MHD_stop_daemon(server->daemon);
    }
    deadlines_stop(&server->deadlines);
    free(server);
}

int http_server_timeout_ms(const struct http_server *server)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms;
    if (MHD_get_timeout(server->daemon, &timeout_ms) != MHD_YES) {
        return -1;
    }
    return timeout_ms > INT32_MAX ? INT32_MAX : (int)timeout_ms;
}

void http_server_run(struct http_server *server)
{
    MHD_run(server->daemon);
}

void http_server_drain(struct http_server *server)
{
    size_t before;
    do { /* what the kernel has accepted for us is not turned away */
        before = server->n_connections;
        MHD_run(server->daemon);
    } while (server->n_connections > before);
    server->draining = true;
    MHD_quiesce_daemon(server->daemon);
    for (struct connection *connection = server->connections; connection; connection = connection->next) {
        if (connection->phase == PHASE_IDLE && connection->served) {
            shutdown(connection->fd, SHUT_RDWR);
        }
    }
}

size_t http_server_busy(const struct http_server *server)
{
    return server->n_connections - server->queues[PHASE_IDLE].count;
}

size_t http_server_connections(const struct http_server *server)
{
    return server->n_connections;
}

/* ---- What a request says ---- */

const char *http_method(const struct http_request *request)
{
    return request->method;
}

const char *http_path(const struct http_request *request)
{
    return request->path;
}

const char *http_header(const struct http_request *request, const char *name)
{
    return *request->method ? MHD_lookup_connection_value(request->connection->mhd, MHD_HEADER_KIND, name)
                            : NULL;
}

struct header_visit {
    const char *name;
    size_t count;
    bool wipe;
};

static enum MHD_Result visit_header(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    struct header_visit *visit = arg;
    if (strcasecmp(name, visit->name) == 0) {
        visit->count++;
        if (visit->wipe && value) {
            /* It lies in the connection's own memory, which libmicrohttpd clears only with the next request.
             */
            explicit_bzero((char *)(uintptr_t)value, strlen(value));
        }
    }
    return MHD_YES;
}

size_t http_header_count(const struct http_request *request, const char *name)
{
    struct header_visit visit = {.name = name};
    MHD_get_connection_values(request->connection->mhd, MHD_HEADER_KIND, visit_header, &visit);
    return visit.count;
}

void http_wipe_header(struct http_request *request, const char *name)
{
    struct header_visit visit = {.name = name, .wipe = true};
    MHD_get_connection_values(request->connection->mhd, MHD_HEADER_KIND, visit_header, &visit);
}

bool http_has_body(const struct http_request *request)
{
    return request->body_announced || request->body.len > 0;
}

const struct buf *http_body(const struct http_request *request)
{
    return &request->body;
}

void http_client(const struct http_request *request, char *ret, size_t size)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->connection->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info ? info->client_addr : NULL;
    snprintf(ret, size, "unix");
    if (address && address->sa_family == AF_INET) {
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)address)->sin_addr, ret,
                  (socklen_t)size);
    } else if (address && address->sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, ret,
                  (socklen_t)size);
    }
}

void http_set_user(struct http_request *request, void *user)
{
    request->user = user;
}

void *http_user(const struct http_request *request)
{
    return request->user;
}
