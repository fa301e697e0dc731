/* HTTP through libmicrohttpd: the only file that includes it. Runs in the front, single-threaded:
 * libmicrohttpd has no thread of its own, its epoll descriptor is one more source of our loop, and a
 * connection whose job runs is suspended.
 *
 * Refusals go past it. It cannot take a reply while a body arrives, and where it can (before the body) it
 * closes the socket with bytes unread, which makes the kernel send a reset that can overtake the reply. So a
 * refusal is written straight to the socket, our side is shut, and what still comes is read and dropped for a
 * moment. */
#include "server/http.h"

#include <arpa/inet.h>
#include <dlfcn.h>
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
#include "server/http_connection.h"
#include "server/http_syntax.h"
#include "server/http_wire.h"

/* Loaded when the HTTP server starts instead of linked: it brings GnuTLS and ten more libraries along, and
 * every `immure run` would wait a millisecond for them. */
#define LIBRARY "libmicrohttpd.so.12"

/* Of one request. Each costs a walk through all whenever one is looked up. */
#define HEADERS_MAX 100

/* How often a server without a free place looks for a connection that can be closed. */
#define FULL_POLL_MS 100

#define FUNCTIONS                                                                                            \
    X(add_response_header)                                                                                   \
    X(create_response_from_callback)                                                                         \
    X(create_response_from_buffer_with_free_callback)                                                        \
    X(destroy_response)                                                                                      \
    X(get_connection_info)                                                                                   \
    X(get_connection_values)                                                                                 \
    X(get_connection_values_n)                                                                               \
    X(get_daemon_info)                                                                                       \
    X(get_reason_phrase_for)                                                                                 \
    X(get_timeout)                                                                                           \
    X(get_version)                                                                                           \
    X(lookup_connection_value)                                                                               \
    X(queue_response)                                                                                        \
    X(quiesce_daemon)                                                                                        \
    X(resume_connection)                                                                                     \
    X(run)                                                                                                   \
    X(start_daemon)                                                                                          \
    X(stop_daemon)                                                                                           \
    X(suspend_connection)

/* Asked for at once from a stream. */
#define STREAM_BLOCK_BYTES 16384

struct microhttpd {
    void *handle;
#define X(name) __typeof__(MHD_##name) *name;
    FUNCTIONS
#undef X
};

struct http_server {
    struct microhttpd mhd;
    struct MHD_Daemon *daemon;
    struct loop *loop;
    struct loop_source *source;
    struct http_options options;
    struct http_events events;
    void *arg;
    struct http_connections connections;
    size_t bodies_bytes;
    bool draining;
    bool reads_in_place; /* see http_syntax.h */
};

struct http_request {
    struct http_server *server;
    struct http_connection *connection;
    const char *method, *path;
    struct buf body;
    bool body_announced, expects_continue;
    bool deciding; /* inside the handler's first call, where libmicrohttpd takes a reply before the body */
    bool held;     /* its reply comes later, and it is not read until then */
    bool last;     /* the connection ends with its reply */
    bool gone;     /* the caller has hung up */
    bool replied;
    bool streams;                  /* the reply comes bit by bit */
    bool refused;                  /* past libmicrohttpd */
    struct MHD_Response *response; /* made, not queued yet */
    unsigned status;
    void *user;
};

/* ---- Requests ---- */

static struct http_request *request_new(struct http_server *server, struct http_connection *connection,
                                        const char *method, const char *path)
{
    struct http_request *request = calloc(1, sizeof *request);
    if (request) {
        *request =
            (struct http_request){.server = server, .connection = connection, .method = method, .path = path};
        connection->request = request;
    }
    return request;
}

static void request_end(struct http_request *request, bool sent)
{
    request->server->events.end(request->server->arg, request, sent);
    request->connection->request = NULL;
    request->connection->served = true;
    if (request->response) {
        request->server->mhd.destroy_response(request->response);
    }
    http_free_body(request);
    free(request);
}

void http_free_body(struct http_request *request)
{
    request->server->bodies_bytes -= request->body.len;
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
        request->last = true; /* where a body in chunks ends, others may see elsewhere */
        return strcasecmp(http_header(request, "Transfer-Encoding"), "chunked") == 0;
    }
    if (io_parse_u64(http_header(request, "Content-Length"), ret_length) < 0) {
        return false;
    }
    request->body_announced = *ret_length > 0;
    return true;
}

static enum MHD_Result check_header(void *arg, enum MHD_ValueKind kind, const char *name, size_t name_size,
                                    const char *value, size_t value_size)
{
    (void)kind;
    http_syntax_header(arg, name, name_size, value ? value : "", value ? value_size : 0);
    return MHD_YES;
}

/* False: answered. */
static bool check_syntax(struct http_request *request, const char *version)
{
    struct http_server *server = request->server;
    struct http_syntax syntax;
    struct MHD_Connection *mhd = request->connection->mhd;
    const union MHD_ConnectionInfo *info =
        server->mhd.get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    size_t size = info ? info->header_size : 0;
    http_syntax_begin(&syntax, request->method, request->path, request->connection->target_end, version,
                      server->reads_in_place);
    server->mhd.get_connection_values_n(mhd, MHD_HEADER_KIND, check_header, &syntax);
    bool fits = size <= server->options.max_header_bytes && syntax.n_headers <= HEADERS_MAX;
    if (fits && request->connection->target_is_sound && http_syntax_end(&syntax, size)) {
        return true;
    }
    request->last = true;
    server->events.fault(server->arg, request, fits ? HTTP_FAULT_SYNTAX : HTTP_FAULT_HEADERS_TOO_LARGE);
    return false;
}

static void begin_request(struct http_request *request, const char *version)
{
    struct http_server *server = request->server;
    uint64_t length;
    const char *expect = http_header(request, "Expect");
    request->expects_continue = expect && strcasecmp(expect, "100-continue") == 0;
    bool framed = read_framing(request, &length); /* first: it tells how any refusal is to be sent */
    if (!check_syntax(request, version)) {
        return;
    }
    if (!framed) {
        server->events.fault(server->arg, request, HTTP_FAULT_FRAMING);
    } else {
        server->events.headers(server->arg, request);
        if (!request->replied && length > server->options.max_body_bytes) {
            server->events.fault(server->arg, request, HTTP_FAULT_BODY_TOO_LARGE);
        } else if (!request->replied && !request->held && length > 0) {
            buf_reserve(&request->body, (size_t)length); /* untouched memory costs nothing */
        }
    }
}

static void take_body(struct http_request *request, const char *data, size_t size)
{
    struct http_server *server = request->server;
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

static bool is_suspended(const struct http_server *server, const struct http_connection *connection)
{
    const union MHD_ConnectionInfo *info =
        server->mhd.get_connection_info(connection->mhd, MHD_CONNECTION_INFO_CONNECTION_SUSPENDED);
    return info && info->suspended == MHD_YES;
}

static void wake(struct http_request *request)
{
    if (is_suspended(request->server, request->connection)) {
        request->server->mhd.resume_connection(request->connection->mhd);
    }
}

static void hang_up(struct http_request *request)
{
    struct http_server *server = request->server;
    if (!request->gone && (!request->replied || request->streams)) {
        request->gone = true;
        server->events.hangup(server->arg, request);
        wake(request);
    }
}

static enum MHD_Result queue_response(struct http_request *request)
{
    enum MHD_Result result =
        request->server->mhd.queue_response(request->connection->mhd, request->status, request->response);
    request->server->mhd.destroy_response(request->response);
    request->response = NULL;
    return result;
}

/* The request is complete: its reply, now or when it is there. */
static enum MHD_Result serve(struct http_request *request)
{
    struct http_connection *connection = request->connection;
    struct http_server *server = request->server;
    if (request->refused || request->gone) {
        return MHD_NO; /* closes the connection */
    }
    if (!request->replied && connection->phase != HTTP_WORKING) {
        http_connection_enter(connection, HTTP_WORKING);
        server->events.complete(server->arg, request);
        if (!request->replied) {
            server->mhd.suspend_connection(connection->mhd);
            if (connection->peer_closed) {
                hang_up(request);
            }
            return MHD_YES;
        }
    }
    if (!request->response) {
        return request->replied ? MHD_NO : MHD_YES;
    }
    http_connection_enter(connection, request->streams ? HTTP_STREAMING : HTTP_REPLYING);
    return queue_response(request);
}

/* libmicrohttpd calls this when the headers are there, for each piece of the body, and when the request is
 * complete. */
static enum MHD_Result handle(void *arg, struct MHD_Connection *mhd, const char *path, const char *method,
                              const char *version, const char *data, size_t *size, void **request_slot)
{
    struct http_server *server = arg;
    struct http_request *request = *request_slot;
    if (request && *size > 0) {
        take_body(request, data, *size);
        *size = 0;
        return MHD_YES;
    }
    if (request) {
        return serve(request);
    }
    struct http_connection *connection =
        server->mhd.get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    if (!connection || connection->phase == HTTP_LINGERING) {
        return MHD_NO; /* no memory, or its headers came too late */
    }
    request = request_new(server, connection, method, path);
    if (!request) {
        return MHD_NO;
    }
    *request_slot = request;
    http_connection_enter(connection, HTTP_RECEIVING);
    request->deciding = true;
    begin_request(request, version);
    request->deciding = false;
    if (request->held && !request->replied) {
        server->mhd.suspend_connection(mhd);
    }
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
    struct http_connection *connection = request->connection;
    bool refused = request->refused;
    *request_slot = NULL;
    request_end(request, refused || code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    if (!refused) {
        http_connection_enter(connection, HTTP_IDLE);
    }
}

/* ---- Replies ---- */

/* Past libmicrohttpd, straight onto the socket: small, and the first thing in it since the last reply, so it
 * fits. */
static void refuse(struct http_request *request, const struct http_header *headers, size_t n_headers,
                   const struct buf *body)
{
    struct http_connection *connection = request->connection;
    CLEANUP(buf_free) struct buf head = BUF_INIT;
    http_wire_head(&head, request->status, request->server->mhd.get_reason_phrase_for(request->status),
                   headers, n_headers, body->len);
    http_wire_send(connection->fd, &head, strcmp(request->method, "HEAD") == 0 ? NULL : body);
    http_free_body(request);
    request->refused = true;
    shutdown(connection->fd, SHUT_WR);
    http_connection_enter(connection, HTTP_LINGERING);
}

/* Takes the response, NULL included, and gives it back with its headers, or NULL. */
static struct MHD_Response *add_headers(const struct http_server *server, struct MHD_Response *response,
                                        bool last, const struct http_header *headers, size_t n_headers)
{
    bool complete = response != NULL;
    for (size_t i = 0; i < n_headers && complete; i++) {
        complete = server->mhd.add_response_header(response, headers[i].name, headers[i].value) == MHD_YES;
    }
    if (complete && (server->draining || last)) {
        complete = server->mhd.add_response_header(response, "Connection", "close") == MHD_YES;
    }
    if (response && !complete) {
        server->mhd.destroy_response(response);
    }
    return complete ? response : NULL;
}

static struct MHD_Response *make_response(const struct http_server *server, bool last,
                                          const struct http_header *headers, size_t n_headers,
                                          struct buf *body)
{
    if (body->failed || !body->data) {
        return NULL;
    }
    struct MHD_Response *response =
        server->mhd.create_response_from_buffer_with_free_callback(body->len, body->data, free);
    if (response) {
        *body = BUF_INIT; /* the response's now */
    }
    return add_headers(server, response, last, headers, n_headers);
}

void http_hold(struct http_request *request)
{
    request->held = true;
}

void http_reply(struct http_request *request, unsigned status, const struct http_header *headers,
                size_t n_headers, struct buf *body)
{
    struct http_connection *connection = request->connection;
    if (request->replied || request->gone) {
        buf_free(body);
        return;
    }
    request->replied = true;
    request->status = status;
    bool arriving = connection->phase == HTTP_RECEIVING && (request->body_announced || !*request->method);
    bool early = arriving && request->deciding && request->expects_continue;
    if (arriving && !early) {
        refuse(request, headers, n_headers, body);
    } else {
        request->response = make_response(request->server, request->last, headers, n_headers, body);
    }
    if (early && request->response) {
        /* The caller has sent nothing yet and will not: libmicrohttpd can say no and close without harm. */
        http_connection_enter(connection, HTTP_REPLYING);
        queue_response(request);
    } else if (is_suspended(request->server, connection)) {
        request->server->mhd.resume_connection(connection->mhd);
    }
    buf_free(body);
}

/* libmicrohttpd asks for more whenever the socket has room; where there is none, it is not asked again until
 * something has come. */
static ssize_t read_stream(void *arg, uint64_t position, char *data, size_t size)
{
    (void)position;
    struct http_request *request = arg;
    struct http_server *server = request->server;
    if (request->gone) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    ssize_t n = server->events.fill(server->arg, request, data, size);
    if (n < 0) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    if (n == 0) {
        server->mhd.suspend_connection(request->connection->mhd);
    }
    return n;
}

void http_stream(struct http_request *request, unsigned status, const struct http_header *headers,
                 size_t n_headers)
{
    struct http_server *server = request->server;
    if (request->replied || request->gone) {
        return;
    }
    request->replied = request->streams = true;
    request->status = status;
    request->response = add_headers(server,
                                    server->mhd.create_response_from_callback(
                                        MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, read_stream, request, NULL),
                                    request->last, headers, n_headers);
    wake(request);
}

void http_stream_wake(struct http_request *request)
{
    wake(request);
}

/* ---- Connections ---- */

static void on_hung_up(struct http_connection *connection)
{
    hang_up(connection->request);
}

static void on_too_slow(struct http_connection *connection)
{
    struct http_server *server = connection->all->arg;
    bool in_headers = !connection->request;
    struct http_request *request = in_headers ? request_new(server, connection, "", "") : connection->request;
    if (request) {
        server->events.fault(server->arg, request, HTTP_FAULT_TOO_SLOW);
    }
    if (request && in_headers) {
        request_end(request, true); /* libmicrohttpd knows of no request that could be completed */
    }
}

/* A connection for which there is no memory has no context, and its first request closes it. */
static void on_connection(void *arg, struct MHD_Connection *mhd, void **slot,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = arg;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        int fd = server->mhd.get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        *slot = http_connection_new(&server->connections, mhd, fd);
    } else if (*slot) {
        http_connection_free(*slot);
        *slot = NULL;
    }
}

/* ---- The server ---- */

/* The target, before libmicrohttpd cuts its query off and hides where it ended. What this returns would be
 * the request's slot. */
static void *note_target(void *arg, const char *target, struct MHD_Connection *mhd)
{
    struct http_server *server = arg;
    struct http_connection *connection =
        server->mhd.get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    if (connection) {
        connection->target_end = target + strlen(target);
        connection->target_is_sound = http_syntax_is_target(target);
    }
    return NULL;
}

/* Paths stay as they were sent: "%2f" in one must not become a separator, nor "%00" its end. */
static size_t keep_escapes(void *arg, struct MHD_Connection *mhd, char *text)
{
    (void)arg;
    (void)mhd;
    return strlen(text);
}

static int load_library(struct microhttpd *mhd, struct err *reterr)
{
    mhd->handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    const char *missing = NULL;
#define X(name)                                                                                              \
    if (mhd->handle && !missing) {                                                                           \
        *(void **)&mhd->name = dlsym(mhd->handle, "MHD_" #name);                                             \
        missing = mhd->name ? NULL : "MHD_" #name;                                                           \
    }
    FUNCTIONS
#undef X
    if (!mhd->handle || missing) {
        return err_set(reterr, ERR_HOST, ENOENT, LIBRARY, "cannot load %s: %s; install libmicrohttpd",
                       LIBRARY, dlerror());
    }
    return 0;
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
    server->daemon = server->mhd.start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, handle, server,  /* */
        MHD_OPTION_LISTEN_SOCKET, options->listen_fd,                             /* */
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, memory,                               /* */
        MHD_OPTION_CONNECTION_LIMIT, options->max_connections,                    /* */
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, options->max_connections_per_address, /* */
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(stalled_ms / 1000 + 1), /* for replies that nobody reads */
        MHD_OPTION_STRICT_FOR_CLIENT, 1,                                  /* */
        MHD_OPTION_URI_LOG_CALLBACK, note_target, server,                 /* */
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
    server->connections = (struct http_connections){
        .loop = loop, .arg = server, .too_slow = on_too_slow, .hung_up = on_hung_up};
    int r = load_library(&server->mhd, reterr);
    server->reads_in_place = r == 0 && strncmp(server->mhd.get_version(), "0.9.", 4) == 0;
    r = r < 0 ? r
              : http_connections_start(&server->connections, options->idle_timeout_ms,
                                       options->request_timeout_ms, reterr);
    if (r == 0) {
        r = start_daemon(server, reterr);
    }
    if (r == 0) {
        int epoll = server->mhd.get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
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
        for (struct http_connection *connection = server->connections.first; connection;
             connection = connection->next) {
            if (is_suspended(server, connection)) {
                hang_up(connection->request);
            }
        }
        server->mhd.quiesce_daemon(server->daemon);
        server->mhd.run(server->daemon);
        loop_remove(server->source);
        server->mhd.stop_daemon(server->daemon);
    }
    http_connections_stop(&server->connections);
    if (server->mhd.handle) {
        dlclose(server->mhd.handle);
    }
    free(server);
}

static bool is_full(const struct http_server *server)
{
    return server->connections.count >= server->options.max_connections && !server->draining;
}

int http_server_timeout_ms(const struct http_server *server)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms;
    int longest_ms = is_full(server) ? FULL_POLL_MS : -1;
    if (server->mhd.get_timeout(server->daemon, &timeout_ms) != MHD_YES) {
        return longest_ms;
    }
    longest_ms = longest_ms < 0 ? INT32_MAX : longest_ms;
    return timeout_ms > (unsigned)longest_ms ? longest_ms : (int)timeout_ms;
}

void http_server_run(struct http_server *server)
{
    size_t before = server->connections.count;
    server->mhd.run(server->daemon);
    if (server->connections.count < before) {
        /* At its limit libmicrohttpd stops listening, and it listens again only when it runs once more:
         * nothing would wake it. */
        server->mhd.run(server->daemon);
    }
    http_connections_close_ended(&server->connections);
    if (is_full(server)) {
        http_connections_close_oldest(&server->connections);
    }
}

void http_server_drain(struct http_server *server, bool take_waiting)
{
    bool more = take_waiting;
    while (more) { /* what the kernel has accepted for us is not turned away */
        size_t before = server->connections.count;
        server->mhd.run(server->daemon);
        more = server->connections.count > before;
    }
    server->draining = true;
    server->mhd.quiesce_daemon(server->daemon);
    http_connections_close_idle(&server->connections);
}

size_t http_server_busy(const struct http_server *server)
{
    return server->connections.count - http_connections_waiting(&server->connections);
}

size_t http_server_connections(const struct http_server *server)
{
    return server->connections.count;
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
    return *request->method
               ? request->server->mhd.lookup_connection_value(request->connection->mhd, MHD_HEADER_KIND, name)
               : NULL;
}

const char *http_argument(const struct http_request *request, const char *name)
{
    return *request->method ? request->server->mhd.lookup_connection_value(request->connection->mhd,
                                                                           MHD_GET_ARGUMENT_KIND, name)
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
    request->server->mhd.get_connection_values(request->connection->mhd, MHD_HEADER_KIND, visit_header,
                                               &visit);
    return visit.count;
}

void http_wipe_header(struct http_request *request, const char *name)
{
    struct header_visit visit = {.name = name, .wipe = true};
    request->server->mhd.get_connection_values(request->connection->mhd, MHD_HEADER_KIND, visit_header,
                                               &visit);
}

bool http_has_body(const struct http_request *request)
{
    return request->body_announced || request->body.len > 0;
}

const struct buf *http_body(const struct http_request *request)
{
    return &request->body;
}

static const struct sockaddr *client_address(const struct http_request *request)
{
    const union MHD_ConnectionInfo *info = request->server->mhd.get_connection_info(
        request->connection->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    return info ? info->client_addr : NULL;
}

uint64_t http_client_network(const struct http_request *request)
{
    const struct sockaddr *address = client_address(request);
    uint64_t network = 0;
    if (address && address->sa_family == AF_INET) {
        network = ((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr;
    } else if (address && address->sa_family == AF_INET6) {
        const struct in6_addr *ip6 = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
        memcpy(&network, ip6, sizeof network);
        network ^= IN6_IS_ADDR_V4MAPPED(ip6) ? ip6->s6_addr32[3] : 0;
    }
    return network;
}

void http_client(const struct http_request *request, char *ret, size_t size)
{
    const struct sockaddr *address = client_address(request);
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
