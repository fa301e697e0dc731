/* Requests and replies of the HTTP server, through libmicrohttpd. Runs in the front; a connection whose job
 * runs is suspended.
 *
 * Refusals go past libmicrohttpd. It cannot take a reply while a body arrives, and where it can (before the
 * body) it closes the socket with bytes unread, which makes the kernel send a reset that can overtake the
 * reply. So a refusal is written straight to the socket, our side is shut, and what still comes is read and
 * dropped for a moment. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/io.h"
#include "server/http.h"
#include "server/http_connection.h"
#include "server/http_internal.h"
#include "server/http_syntax.h"
#include "server/http_wire.h"

/* Of one request. Each costs a walk through all whenever one is looked up. */
#define HEADERS_MAX 100

/* Asked for at once from a stream. */
#define STREAM_BLOCK_BYTES 16384

/* The same of a reply that is larger. */
#define LARGE_REPLY_BYTES 65536

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
    request->gone = true;
    request->server->events.end(request->server->arg, request, sent);
    http_unread_end(request);
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
    struct http_server *server = request->server;
    budget_give_back(request->body_is_large ? &server->bodies : &server->small_bodies, request->account,
                     request->body.len);
    request->body_is_large = false;
    buf_free(&request->body);
}

/* As it came, and as libmicrohttpd has taken it: blanks behind it included. */
static const char *raw_header(const struct http_request *request, const char *name)
{
    return request->server->mhd.lookup_connection_value(request->connection->mhd, MHD_HEADER_KIND, name);
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
        return strcasecmp(raw_header(request, "Transfer-Encoding"), "chunked") == 0;
    }
    if (io_parse_u64(raw_header(request, "Content-Length"), ret_length) < 0) {
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
    const char *expect = raw_header(request, "Expect");
    request->expects_continue = expect && strcasecmp(expect, "100-continue") == 0;
    bool framed = read_framing(request, &length); /* first: it tells how any refusal is to be sent */
    bool sound = check_syntax(request, version);
    if (!request->body_announced) {
        /* Of a body that is not there, libmicrohttpd would take what is behind the request. */
        http_wipe_header(request, "Expect");
    }
    if (!sound) {
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

/* A body begins among the small ones, in the room that is kept for those, and becomes a large one when it has
 * grown or there is none left. */
static enum budget_answer count_body(struct http_request *request, size_t size)
{
    struct http_server *server = request->server;
    size_t before = request->body.len;
    if (request->body_is_large) {
        return budget_take(&server->bodies, request->account, size);
    }
    if (before + size <= server->options.small_body_bytes &&
        budget_take(&server->small_bodies, request->account, size) == BUDGET_TAKEN) {
        return BUDGET_TAKEN;
    }
    enum budget_answer answer = budget_take(&server->bodies, request->account, before + size);
    if (answer == BUDGET_TAKEN) {
        budget_give_back(&server->small_bodies, request->account, before);
        request->body_is_large = true;
    }
    return answer;
}

static void take_body(struct http_request *request, const char *data, size_t size)
{
    struct http_server *server = request->server;
    if (request->replied) {
        return;
    }
    if (size > server->options.max_body_bytes - request->body.len) {
        server->events.fault(server->arg, request, HTTP_FAULT_BODY_TOO_LARGE);
        return;
    }
    enum budget_answer answer = count_body(request, size);
    if (answer == BUDGET_TAKEN && buf_append(&request->body, data, size) < 0) {
        budget_give_back(request->body_is_large ? &server->bodies : &server->small_bodies, request->account,
                         size);
        answer = BUDGET_FULL;
    }
    if (answer != BUDGET_TAKEN) {
        server->events.fault(server->arg, request,
                             answer == BUDGET_FULL ? HTTP_FAULT_OVERLOADED : HTTP_FAULT_NO_SHARE);
    }
}

bool http_is_suspended(const struct http_server *server, const struct http_connection *connection)
{
    const union MHD_ConnectionInfo *info =
        server->mhd.get_connection_info(connection->mhd, MHD_CONNECTION_INFO_CONNECTION_SUSPENDED);
    return info && info->suspended == MHD_YES;
}

static void wake(struct http_request *request)
{
    if (http_is_suspended(request->server, request->connection)) {
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
    http_unread_begin(request);
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
enum MHD_Result http_handle(void *arg, struct MHD_Connection *mhd, const char *path, const char *method,
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

void http_completed(void *arg, struct MHD_Connection *mhd, void **request_slot,
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

struct large_reply {
    struct http_request *request;
    struct buf body;
};

static ssize_t read_large_reply(void *arg, uint64_t position, char *data, size_t size)
{
    struct large_reply *reply = arg;
    size_t left = reply->body.len - (size_t)position;
    if (reply->request->gone) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    size = size < left ? size : left;
    memcpy(data, reply->body.data + position, size);
    reply->request->handed_bytes += size;
    return (ssize_t)size;
}

static void free_large_reply(void *arg)
{
    struct large_reply *reply = arg;
    buf_free(&reply->body);
    free(reply);
}

/* One that a socket may not take at once is handed over piece by piece: nothing else would tell how much of
 * it has gone. */
static struct MHD_Response *make_large_response(struct http_request *request, struct buf *body)
{
    struct large_reply *reply = malloc(sizeof *reply);
    if (!reply) {
        return NULL;
    }
    *reply = (struct large_reply){.request = request, .body = *body};
    *body = BUF_INIT;
    struct MHD_Response *response = request->server->mhd.create_response_from_callback(
        reply->body.len, LARGE_REPLY_BYTES, read_large_reply, reply, free_large_reply);
    if (!response) {
        free_large_reply(reply);
    }
    return response;
}

static struct MHD_Response *make_response(struct http_request *request, const struct http_header *headers,
                                          size_t n_headers, struct buf *body)
{
    const struct http_server *server = request->server;
    struct MHD_Response *response;
    if (body->failed || !body->data) {
        return NULL;
    }
    http_unread_hold(request, body->len);
    if (body->len > LARGE_REPLY_BYTES) {
        response = make_large_response(request, body);
    } else {
        response = server->mhd.create_response_from_buffer_with_free_callback(body->len, body->data, free);
        *body = response ? BUF_INIT /* the response's now */ : *body;
    }
    return add_headers(server, response, request->last, headers, n_headers);
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
        request->response = make_response(request, headers, n_headers, body);
    }
    if (early && request->response) {
        /* The caller has sent nothing yet and will not: libmicrohttpd can say no and close without harm. */
        http_connection_enter(connection, HTTP_REPLYING);
        queue_response(request);
    } else if (http_is_suspended(request->server, connection)) {
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
    request->is_quiet = n == 0;
    if (n < 0) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    if (n == 0) {
        server->mhd.suspend_connection(request->connection->mhd);
    }
    request->handed_bytes += n > 0 ? (size_t)n : 0;
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

void http_stream_holds(struct http_request *request, size_t bytes)
{
    http_unread_hold(request, bytes);
}

size_t http_server_unread_bytes(const struct http_server *server)
{
    return server->unread.used_bytes;
}

/* ---- Connections ---- */

void http_on_hung_up(struct http_connection *connection)
{
    hang_up(connection->request);
}

void http_on_too_slow(struct http_connection *connection)
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
