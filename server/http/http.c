/* Requests and replies of the HTTP server. Runs in the front.
 *
 * A connection is a machine of few states (enum http_phase), and http_serve() its only motor. What cannot be
 * taken for a request has one reply, an error's, and ends its connection. So does whatever leaves bytes
 * unread: then our side is shut, and what still comes is read and dropped for a moment, because a socket that
 * is closed with bytes in it makes the kernel send a reset, which can overtake the reply.
 *
 * A caller who sends no more (FIN) has either closed its socket or shut one direction of it and waits for the
 * reply. TCP tells which only when something is sent: a closed socket answers with a reset. So while a reply
 * is awaited, such a caller gets a "100 Continue", which every client of HTTP/1.1 passes over, and in a
 * stream a comment. */
#include "server/http/http.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "server/http/connection.h"
#include "server/http/http_internal.h"
#include "server/http/syntax.h"
#include "server/http/wire.h"

/* Of one connection in one round. */
#define STEPS_MAX 16

/* Asked for at once from a stream. */
#define STREAM_BLOCK_BYTES 16384

/* Read at once of a body, with what malloc adds. */
#define READ_BYTES 65535

static struct http_server *server_of(const struct http_connection *connection)
{
    return connection->all->arg;
}

/* ---- Requests ---- */

static struct http_request *request_new(struct http_connection *connection)
{
    struct http_request *request = calloc(1, sizeof *request);
    if (request) {
        request->server = server_of(connection);
        request->connection = connection;
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
    http_free_body(request);
    if (request->text) {
        explicit_bzero(request->text, request->text_size);
    }
    free(request->text);
    free(request);
}

void http_take_body(struct http_request *request, struct buf *ret)
{
    struct http_server *server = request->server;
    budget_give_back(request->body_is_large ? &server->bodies : &server->small_bodies, request->account,
                     request->body.len);
    request->body_is_large = false;
    *ret = request->body;
    request->body = BUF_INIT;
}

void http_free_body(struct http_request *request)
{
    struct buf body;
    http_take_body(request, &body);
    buf_free(&body);
}

static void fault(struct http_request *request, enum http_fault fault)
{
    struct http_connection *connection = request->connection;
    connection->last = true;
    request->server->events.fault(request->server->arg, request, fault);
    if (!request->replied) { /* for want of memory */
        connection->hung_up = true;
        http_connection_enter(connection, HTTP_WORKING);
    }
}

/* Takes the connection's next bytes as its text. NULL: no memory, and the connection is closed. */
static struct http_request *take_text(struct http_connection *connection, size_t size)
{
    struct http_request *request = request_new(connection);
    char *text = malloc(size > 0 ? size : 1);
    if (!request || !text) {
        free(text);
        http_connection_close(connection);
        return NULL;
    }
    if (size > 0) {
        memcpy(text, connection->in.data, size);
        http_connection_consume(connection, size);
    }
    connection->scanned = 0;
    request->text = text;
    request->text_size = size;
    return request;
}

/* A fault of what has not become a request. */
static void refuse_head(struct http_connection *connection, enum http_fault what)
{
    struct http_request *request = take_text(connection, connection->in.len);
    if (request) {
        http_syntax_guess(request->text, request->text_size, &request->head);
        fault(request, what);
    }
}

void http_on_closing(struct http_connection *connection)
{
    struct http_request *request = connection->request;
    if (!request) {
        return;
    }
    bool awaited = connection->phase == HTTP_WORKING || connection->phase == HTTP_STREAMING;
    request->gone = true;
    if (awaited) {
        request->server->events.hangup(request->server->arg, request);
    }
    request_end(request, false);
}

/* ---- What comes ---- */

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
    if (size == 0) {
        return;
    }
    if (size > server->options.max_body_bytes - request->body.len) {
        fault(request, HTTP_FAULT_BODY_TOO_LARGE);
        return;
    }
    enum budget_answer answer = count_body(request, size);
    if (answer == BUDGET_TAKEN && buf_append(&request->body, data, size) < 0) {
        budget_give_back(request->body_is_large ? &server->bodies : &server->small_bodies, request->account,
                         size);
        answer = BUDGET_FULL;
    }
    if (answer != BUDGET_TAKEN) {
        fault(request, answer == BUDGET_FULL ? HTTP_FAULT_OVERLOADED : HTTP_FAULT_NO_SHARE);
    }
}

static void take_chunks(struct http_request *request)
{
    struct http_connection *connection = request->connection;
    size_t piece;
    ssize_t n = http_chunks_take(&request->chunks, connection->in.data, connection->in.len, &piece);
    if (n < 0) {
        fault(request, HTTP_FAULT_CHUNKS);
        return;
    }
    take_body(request, connection->in.data + (size_t)n - piece, piece);
    http_connection_consume(connection, (size_t)n);
    request->complete = http_chunks_ended(&request->chunks);
}

static void take_length(struct http_request *request)
{
    struct http_connection *connection = request->connection;
    size_t left = (size_t)request->framing.length - request->body.len;
    size_t n = connection->in.len < left ? connection->in.len : left;
    take_body(request, connection->in.data, n);
    http_connection_consume(connection, n);
    request->complete = n == left;
}

/* The whole body is there. */
static void complete(struct http_request *request)
{
    struct http_server *server = request->server;
    request->complete = true;
    http_connection_enter(request->connection, HTTP_WORKING);
    server->events.complete(server->arg, request);
}

/* False: more must come. */
static bool read_body(struct http_connection *connection)
{
    struct http_request *request = connection->request;
    if (connection->in.len == 0 && !http_connection_read(connection, READ_BYTES)) {
        return false;
    }
    if (request->framing.chunked) {
        take_chunks(request);
    } else {
        take_length(request);
    }
    if (request->complete && !request->replied) {
        complete(request);
    }
    return true;
}

static void ask_for_body(struct http_request *request)
{
    struct http_connection *connection = request->connection;
    if (!request->framing.chunked) {
        buf_reserve(&request->body, (size_t)request->framing.length); /* untouched memory costs nothing */
    }
    if (request->expects_continue && connection->in.len == 0) {
        buf_puts(&connection->head, HTTP_WIRE_CONTINUE);
    }
    http_connection_enter(connection, HTTP_RECEIVING);
}

static void begin_request(struct http_request *request)
{
    struct http_server *server = request->server;
    struct http_connection *connection = request->connection;
    const char *expect = http_syntax_field(&request->head, "Expect");
    request->expects_continue = expect && !request->head.is_1_0 && strcasecmp(expect, "100-continue") == 0;
    if (!http_syntax_framing(&request->head, &request->framing)) {
        fault(request, HTTP_FAULT_FRAMING);
        return;
    }
    request->body_announced = request->framing.chunked || request->framing.length > 0;
    request->complete = !request->body_announced;
    /* Where a body in chunks ends, others may see elsewhere. */
    connection->last = request->head.ends_connection || request->framing.chunked;
    connection->asked = false;
    http_connection_enter(connection, HTTP_WORKING);
    server->events.headers(server->arg, request);
    if (request->replied || request->held) {
        return;
    }
    if (request->framing.length > server->options.max_body_bytes) {
        fault(request, HTTP_FAULT_BODY_TOO_LARGE);
    } else if (request->body_announced) {
        ask_for_body(request);
    } else {
        complete(request);
    }
}

/* Copies the head, so that the connection can read on; what is wiped is wiped once then. */
static void take_head(struct http_connection *connection, size_t size)
{
    struct http_request *request = take_text(connection, size);
    if (!request) {
        return;
    }
    enum http_syntax_verdict verdict = http_syntax_read(request->text, size, &request->head);
    if (!request->head.method) {
        http_syntax_guess(request->text, size, &request->head);
    }
    if (verdict != HTTP_SYNTAX_SOUND) {
        fault(request, verdict == HTTP_SYNTAX_MALFORMED ? HTTP_FAULT_SYNTAX : HTTP_FAULT_HEADERS_TOO_LARGE);
    } else {
        begin_request(request);
    }
}

/* False: more must come. */
static bool read_head(struct http_connection *connection)
{
    struct buf *in = &connection->in;
    size_t most = server_of(connection)->options.max_header_bytes;
    ssize_t size = http_syntax_head_size(in->data, in->len < most ? in->len : most, &connection->scanned);
    if (size < 0) {
        refuse_head(connection, HTTP_FAULT_SYNTAX);
    } else if (size == 0 && in->len > most) {
        refuse_head(connection, HTTP_FAULT_HEADERS_TOO_LARGE);
    } else if (size > 0) {
        take_head(connection, (size_t)size);
    } else {
        bool more = http_connection_read(connection, most + 1 - in->len);
        if (!connection->closed && in->len > 0) {
            http_connection_enter(connection, HTTP_HEADING);
        }
        return more;
    }
    return true;
}

/* ---- What goes ---- */

/* Nothing of the caller's is left, or what is left is read and dropped. */
static void end_connection(struct http_connection *connection, bool complete)
{
    if (complete && connection->in.len == 0 && !connection->readable &&
        !http_connection_is_sending(connection, &connection->acknowledged)) {
        http_connection_close(connection);
    } else {
        http_connection_shut_output(connection);
        http_connection_enter(connection, HTTP_LINGERING);
    }
}

/* The reply has been sent. */
static void finish(struct http_connection *connection)
{
    bool complete = connection->request->complete;
    request_end(connection->request, true);
    if (connection->last) {
        end_connection(connection, complete);
    } else {
        http_connection_enter(connection, HTTP_IDLE);
    }
}

/* The next piece of a stream. False: there is none now. */
static bool fill(struct http_connection *connection)
{
    struct http_request *request = connection->request;
    struct http_server *server = request->server;
    bool chunked = !request->head.is_1_0;
    char *to = buf_reserve(&connection->body, STREAM_BLOCK_BYTES);
    ssize_t n = to ? server->events.fill(server->arg, request, to, STREAM_BLOCK_BYTES) : -1;
    request->is_quiet = n == 0;
    if (n > 0) {
        connection->body.len = (size_t)n;
    }
    if (n > 0 && chunked) {
        buf_printf(&connection->head, "%zx\r\n", (size_t)n);
        buf_puts(&connection->body, "\r\n");
    } else if (n < 0) {
        buf_puts(&connection->head, chunked ? "0\r\n\r\n" : "");
        http_connection_enter(connection, HTTP_REPLYING);
    }
    if (n == 0) {
        buf_free(&connection->body);
    }
    if (connection->head.failed || connection->body.failed) {
        http_connection_close(connection);
    }
    return n != 0;
}

/* While the reply is awaited. */
static void look_for_caller(struct http_connection *connection)
{
    struct http_request *request = connection->request;
    bool is_unix = connection->address.any.sa_family == AF_UNIX; /* which tells by itself */
    if (connection->hung_up || (connection->half_closed && request->head.is_1_0 && !is_unix)) {
        http_connection_close(connection);
    } else if (connection->half_closed && !connection->asked && !is_unix) {
        connection->asked = true;
        if (connection->phase == HTTP_STREAMING) {
            request->server->events.half_closed(request->server->arg, request);
        } else {
            buf_puts(&connection->head, HTTP_WIRE_CONTINUE);
            http_connection_flush(connection);
        }
    }
}

/* What is left after so many steps is for the next round: others wait. */
void http_serve(struct http_connection *connection)
{
    bool more = true;
    if (connection->dropped) {
        http_connection_close(connection);
    }
    for (unsigned step = 0; more && !connection->closed; step++) {
        if (step == STEPS_MAX) {
            http_connection_ready(connection);
            return;
        }
        if (connection->phase == HTTP_WORKING || connection->phase == HTTP_STREAMING) {
            look_for_caller(connection);
        }
        if (connection->closed || !http_connection_flush(connection)) {
            return;
        }
        switch (connection->phase) {
        case HTTP_NEW:
        case HTTP_IDLE:
        case HTTP_HEADING:
            more = read_head(connection);
            break;
        case HTTP_RECEIVING:
            more = read_body(connection);
            break;
        case HTTP_REPLYING:
            finish(connection);
            break;
        case HTTP_STREAMING:
            more = fill(connection);
            break;
        case HTTP_LINGERING:
            http_connection_drop_input(connection);
            more = false;
            break;
        default:
            more = false; /* the reply comes from above */
        }
    }
}

/* ---- From above ---- */

void http_hold(struct http_request *request)
{
    request->held = true;
}

/* Of a body that has not been read nobody believes the end. */
static bool begin_reply(struct http_request *request)
{
    struct http_connection *connection = request->connection;
    if (request->replied || request->gone) {
        return false;
    }
    request->replied = true;
    connection->last = connection->last || !request->complete || request->server->draining;
    return true;
}

void http_reply(struct http_request *request, unsigned status, const struct http_header *headers,
                size_t n_headers, struct buf *body)
{
    struct http_connection *connection = request->connection;
    if (!begin_reply(request)) {
        buf_free(body);
        return;
    }
    if (!request->complete) {
        http_free_body(request);
    }
    http_wire_head(&connection->head, status, headers, n_headers, (ssize_t)body->len, connection->last);
    if (strcmp(http_method(request), "HEAD") == 0) {
        buf_free(body);
    } else {
        connection->body = *body;
        *body = BUF_INIT;
    }
    if (connection->head.failed || connection->body.failed) {
        buf_free(&connection->head);
        buf_free(&connection->body);
        connection->last = true;
    }
    http_unread_hold(request, connection->body.len);
    http_unread_begin(request);
    http_connection_enter(connection, HTTP_REPLYING);
    http_connection_ready(connection);
}

void http_stream(struct http_request *request, unsigned status, const struct http_header *headers,
                 size_t n_headers)
{
    struct http_connection *connection = request->connection;
    if (!begin_reply(request)) {
        return;
    }
    connection->last = connection->last || request->head.is_1_0;
    http_wire_head(&connection->head, status, headers, n_headers,
                   request->head.is_1_0 ? HTTP_WIRE_UNBOUND : HTTP_WIRE_CHUNKED, connection->last);
    connection->asked = false; /* in the words of a stream */
    http_unread_begin(request);
    http_connection_enter(connection, HTTP_STREAMING);
    http_connection_ready(connection);
}

void http_stream_wake(struct http_request *request)
{
    http_connection_ready(request->connection);
}

void http_stream_holds(struct http_request *request, size_t bytes)
{
    http_unread_hold(request, bytes);
}

uint64_t http_server_refused(const struct http_server *server)
{
    return server->refused;
}

size_t http_server_unread_bytes(const struct http_server *server)
{
    return server->unread.used_bytes;
}

/* ---- Deadlines ---- */

/* Its caller has more time as long as it takes something of what the kernel still has of the reply. */
static void linger_on(struct http_connection *connection)
{
    struct http_connections *all = connection->all;
    uint64_t before = connection->acknowledged;
    if (http_connection_is_sending(connection, &connection->acknowledged) &&
        connection->acknowledged > before) {
        deadline_join(&all->deadlines, &connection->deadline, &all->queues[HTTP_LINGERING]);
    } else {
        http_connection_reset(connection);
    }
}

void http_on_late(struct http_connection *connection)
{
    struct http_connections *all = connection->all;
    switch (connection->phase) {
    case HTTP_NEW:
    case HTTP_IDLE:
        if (http_connection_has_spoken(connection)) { /* just now */
            connection->readable = true;
            http_connection_ready(connection);
        } else {
            http_connection_close(connection);
        }
        break;
    case HTTP_HEADING:
        refuse_head(connection, HTTP_FAULT_TOO_SLOW);
        break;
    case HTTP_RECEIVING:
        fault(connection->request, HTTP_FAULT_TOO_SLOW);
        break;
    case HTTP_WORKING:
        connection->asked = false;
        deadline_join(&all->deadlines, &connection->deadline, &all->queues[HTTP_WORKING]);
        if (connection->half_closed) {
            http_connection_ready(connection);
        }
        break;
    case HTTP_LINGERING:
        linger_on(connection);
        break;
    default:
        http_connection_close(connection);
    }
}
