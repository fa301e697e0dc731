/* The client half of `immure mcp`. Single-threaded; blocks in nothing but writing lines.
 *
 * Each message is a request on a connection of its own, in HTTP/1.0, so that a reply ends where the
 * connection does. To cancel a call is to hang up on it: the server ends its job, there is no answer, and no
 * order of arrival can make the cancellation miss its call. Headers that a revision wants beside the body are
 * made from it. */
#include "server/cli/mcp_relay.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "config/format/json.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "server/doors/mcp.h"
#include "server/doors/mcp_stateless.h"
#include "server/host/listen.h"

#define READ_BYTES       65536
#define REPLY_BYTES_MAX  (256u << 20)
#define HEADER_BYTES_MAX 65536

struct call {
    int fd;
    char id[MCP_ID_BYTES];
    bool answered, has_headers, is_events;
    unsigned status;
    struct buf request; /* of which `sent` bytes have gone */
    size_t sent;
    struct buf reply; /* what has come and has not been passed on */
};

struct relay {
    struct relay_options options;
    bool unheard;
    size_t n_calls;
    struct call calls[RELAY_CALLS_MAX];
};

int relay_new(const struct relay_options *options, struct relay **ret, struct err *reterr)
{
    struct relay *relay = calloc(1, sizeof *relay);
    if (!relay) {
        return err_errno(reterr, ENOMEM, "starting");
    }
    relay->options = *options;
    *ret = relay;
    return 0;
}

static void call_clear(struct call *call)
{
    fd_closep(&call->fd);
    buf_free(&call->request);
    buf_free(&call->reply);
}

void relay_free(struct relay *relay)
{
    if (!relay) {
        return;
    }
    for (size_t i = 0; i < relay->n_calls; i++) {
        call_clear(&relay->calls[i]);
    }
    free(relay);
}

size_t relay_calls(const struct relay *relay)
{
    return relay->n_calls;
}

bool relay_is_heard(const struct relay *relay)
{
    return !relay->unheard;
}

/* ---- Lines out ---- */

/* One message, of which there must be no line feed but the last. */
static void put_line(struct relay *relay, const char *line, size_t size)
{
    while (size > 0 && (line[size - 1] == '\n' || line[size - 1] == '\r')) {
        size--;
    }
    if (size == 0 || memchr(line, '\n', size)) {
        return;
    }
    relay->unheard = relay->unheard || io_write_full(relay->options.out_fd, line, size) < 0 ||
                     io_write_full(relay->options.out_fd, "\n", 1) < 0;
}

static void put_error(struct relay *relay, const char *id, enum mcp_error code, const char *text)
{
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    mcp_write_error(id, code, text, &line);
    if (!line.failed) {
        put_line(relay, line.data, line.len);
    }
}

/* ---- Connections ---- */

static int connect_unix(const struct listen_address *address)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    memcpy(sun.sun_path, address->path, strlen(address->path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&sun, sizeof sun) < 0) {
        int code = errno;
        close(fd);
        return -code;
    }
    return fd < 0 ? -errno : fd;
}

int relay_connect(const struct listen_address *address)
{
    if (address->is_unix) {
        return connect_unix(address);
    }
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (getaddrinfo(address->host, address->port, &hints, &found) != 0) {
        return -EHOSTUNREACH;
    }
    int fd = -EHOSTUNREACH;
    for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || connect(fd, at->ai_addr, at->ai_addrlen) < 0) {
            int code = errno;
            fd_closep(&fd);
            fd = -code;
        }
    }
    freeaddrinfo(found);
    return fd;
}

static void put_request(const struct relay *relay, const char *headers, const char *line, size_t size,
                        struct buf *ret)
{
    char host[LISTEN_TEXT_BYTES];
    listen_host(relay->options.server, host);
    buf_printf(ret,
               "POST /mcp HTTP/1.0\r\nHost: %s\r\nConnection: close\r\nContent-Type: application/json\r\n"
               "Accept: application/json, text/event-stream\r\nContent-Length: %zu\r\n",
               host, size);
    if (relay->options.key[0] != '\0') {
        buf_printf(ret, "Authorization: Bearer %s\r\n", relay->options.key);
    }
    buf_printf(ret, "%s\r\n", headers);
    buf_append(ret, line, size);
}

static void start_call(struct relay *relay, const struct mcp_message *message, const char *line, size_t size)
{
    char text[160];
    const char *id = message->id;
    CLEANUP(buf_free) struct buf headers = BUF_INIT;
    if (!mcp_put_headers(message, &headers)) {
        put_error(relay, id, MCP_NO_SUCH_METHOD, "Method not found");
        return;
    }
    CLEANUP(fd_closep) int fd = relay_connect(relay->options.server);
    if (fd < 0) {
        snprintf(text, sizeof text, "cannot connect to the server: %s", strerror(-fd));
        put_error(relay, id, MCP_INTERNAL_ERROR, text);
        return;
    }
    CLEANUP(buf_free) struct buf request = BUF_INIT;
    put_request(relay, headers.data ? headers.data : "", line, size, &request);
    bool failed = request.failed || headers.failed;
    if (relay->n_calls == RELAY_CALLS_MAX || failed) {
        put_error(relay, id, MCP_INTERNAL_ERROR, failed ? "out of memory" : "too many calls at once");
        return;
    }
    struct call *call = &relay->calls[relay->n_calls++];
    *call = (struct call){.fd = TAKE_FD(fd), .request = request};
    snprintf(call->id, sizeof call->id, "%s", id);
    request = BUF_INIT;
}

/* The last one takes its place. */
static void end_call(struct relay *relay, size_t i)
{
    call_clear(&relay->calls[i]);
    relay->calls[i] = relay->calls[--relay->n_calls];
    relay->calls[relay->n_calls] = (struct call){.fd = -1};
}

static void cancel(struct relay *relay, const struct json *params)
{
    char id[MCP_ID_BYTES];
    if (!mcp_id_text(json_get(params, "requestId"), id)) {
        return;
    }
    for (size_t i = relay->n_calls; i-- > 0;) {
        if (strcmp(relay->calls[i].id, id) == 0) {
            end_call(relay, i);
        }
    }
}

static void json_freep(struct json_doc **doc)
{
    json_free(*doc);
}

void relay_take(struct relay *relay, const char *line, size_t size)
{
    CLEANUP(json_freep) struct json_doc *doc = NULL;
    struct mcp_message message;
    struct err err = {0};
    if (json_parse(line, size, &doc, &err) < 0) {
        put_error(relay, "null", MCP_PARSE_ERROR, err.text);
    } else if (mcp_decode(json_root(doc), &message, &err) < 0) {
        put_error(relay, message.id, MCP_INVALID_REQUEST, err.text);
    } else if (message.kind == MCP_REQUEST) {
        start_call(relay, &message, line, size);
    } else if (message.kind == MCP_NOTIFICATION && strcmp(message.method, "notifications/cancelled") == 0) {
        cancel(relay, message.params);
    }
}

/* ---- Replies ---- */

/* "HTTP/1.x NNN ..." and the one header that matters. False: the server speaks something else. */
static bool read_headers(struct call *call, size_t size)
{
    char *text = call->reply.data;
    text[size - 1] = '\0'; /* ends the last header's line */
    if (strncmp(text, "HTTP/1.", 7) != 0 || size < 13 || text[8] != ' ') {
        return false;
    }
    call->status = (unsigned)strtoul(text + 9, NULL, 10);
    const char *type = strcasestr(text, "\r\nContent-Type:");
    if (type) {
        type += strlen("\r\nContent-Type:");
        type += strspn(type, " \t");
        call->is_events = strncasecmp(type, "text/event-stream", strlen("text/event-stream")) == 0;
    }
    call->has_headers = true;
    return true;
}

static void drop(struct buf *buf, size_t n)
{
    memmove(buf->data, buf->data + n, buf->len - n);
    buf->len -= n;
}

/* Each line of data is a message. The last one is the answer; those before it are notifications. */
static void pass_events(struct relay *relay, struct call *call)
{
    char *end;
    while ((end = call->reply.len > 0 ? memchr(call->reply.data, '\n', call->reply.len) : NULL)) {
        size_t size = (size_t)(end - call->reply.data);
        if (size > 6 && memcmp(call->reply.data, "data: ", 6) == 0) {
            static const char answers[] = "{\"jsonrpc\":\"2.0\",\"id\":";
            call->answered =
                call->answered || (size > 6 + sizeof answers - 1 &&
                                   memcmp(call->reply.data + 6, answers, sizeof answers - 1) == 0);
            put_line(relay, call->reply.data + 6, size - 6);
        }
        drop(&call->reply, size + 1);
    }
}

/* -1: it is not to be read further. */
static int take_bytes(struct relay *relay, struct call *call)
{
    if (!call->has_headers) {
        const char *end =
            call->reply.len > 0 ? memmem(call->reply.data, call->reply.len, "\r\n\r\n", 4) : NULL;
        if (!end) {
            return call->reply.len > HEADER_BYTES_MAX ? -1 : 0;
        }
        size_t size = (size_t)(end - call->reply.data) + 4;
        if (!read_headers(call, size)) {
            return -1;
        }
        drop(&call->reply, size);
    }
    if (call->is_events) {
        pass_events(relay, call);
    }
    return call->reply.len > REPLY_BYTES_MAX ? -1 : 0;
}

/* The server's own words where it refused the request as a whole. */
static void put_refusal(struct relay *relay, const struct call *call)
{
    CLEANUP(json_freep) struct json_doc *doc = NULL;
    char text[300];
    const char *why = NULL;
    if (call->reply.len > 0 && json_parse(call->reply.data, call->reply.len, &doc, NULL) == 0) {
        why = json_string(json_get(json_root(doc), "error"));
    }
    if (call->has_headers) {
        snprintf(text, sizeof text, "the server answered %u%s%.200s", call->status, why ? ": " : "",
                 why ? why : "");
    } else {
        snprintf(text, sizeof text, "the server closed the connection without an answer");
    }
    put_error(relay, call->id, MCP_INTERNAL_ERROR, text);
}

static void put_reply(struct relay *relay, const struct call *call)
{
    static const char begins[] = "{\"jsonrpc\":";
    if (call->answered) {
        return;
    }
    if (!call->is_events && call->reply.len > sizeof begins &&
        call->reply.data[call->reply.len - 1] == '\n' &&
        memcmp(call->reply.data, begins, sizeof begins - 1) == 0) {
        put_line(relay, call->reply.data, call->reply.len);
    } else {
        put_refusal(relay, call);
    }
}

/* True once there is nothing more to come. */
static bool receive(struct relay *relay, struct call *call)
{
    char *to = buf_reserve(&call->reply, READ_BYTES);
    ssize_t n = to ? recv(call->fd, to, READ_BYTES, MSG_DONTWAIT) : -1;
    if (n < 0 && to && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    if (n > 0) {
        call->reply.len += (size_t)n;
        return take_bytes(relay, call) < 0;
    }
    return true;
}

/* A server that answers before it has read everything has its reasons, which stand in the answer. */
static void send_more(struct call *call)
{
    ssize_t n = send(call->fd, call->request.data + call->sent, call->request.len - call->sent,
                     MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) {
        call->sent += (size_t)n;
    } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
        call->sent = call->request.len;
    }
    if (call->sent == call->request.len) {
        buf_free(&call->request);
        call->request = BUF_INIT;
        call->sent = 0;
    }
}

size_t relay_poll(const struct relay *relay, struct pollfd fds[RELAY_CALLS_MAX])
{
    for (size_t i = 0; i < relay->n_calls; i++) {
        const struct call *call = &relay->calls[i];
        fds[i] = (struct pollfd){.fd = call->fd};
        fds[i].events = (short)(POLLIN | (call->request.len > 0 ? POLLOUT : 0));
    }
    return relay->n_calls;
}

void relay_run(struct relay *relay, const struct pollfd *fds, size_t n)
{
    /* From the last: one that ends is replaced by one that has been looked at. */
    for (size_t i = n; i-- > 0;) {
        struct call *call = &relay->calls[i];
        if (fds[i].revents & POLLOUT) {
            send_more(call);
        }
        if ((fds[i].revents & (POLLIN | POLLHUP | POLLERR)) && receive(relay, call)) {
            put_reply(relay, call);
            end_call(relay, i);
        }
    }
}
