/* HTTP from the socket's bytes on. What the server takes for a request, a second and stricter reader takes
 * for the same one. The first byte says in pieces of what size the rest arrives: what becomes of it must not
 * depend on that. Every request that is announced ends, once, and no body is over the limit. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/loop.h"
#include "server/http/http.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/http_reference.h"

#define BODY_MAX   300
#define HEADER_MAX 1500
#define ROUNDS     3    /* of the loop, after which something has come of what has arrived */
#define ROUNDS_MAX 1000 /* until a connection that the caller has closed must be gone */

struct world {
    struct loop *loop;
    struct http_server *server;
    struct sockaddr_un address;
    socklen_t address_size;
    unsigned open_requests, n_replies;
    struct buf *heard; /* the requests as they were understood */
    struct http_reference reference;
};

static void reply(struct world *world, struct http_request *request, unsigned status)
{
    struct buf body = BUF_INIT;
    const struct http_header headers[] = {{"Content-Type", "text/plain"}};
    buf_printf(&body, "%u", status);
    world->n_replies++;
    http_reply(request, status, headers, 1, &body);
}

static void begin(struct world *world, struct http_request *request)
{
    if (!http_user(request)) {
        http_set_user(request, world);
        world->open_requests++;
    }
}

static void require_text(const char *text, const char *expected, size_t size)
{
    REQUIRE(strlen(text) == size && memcmp(text, expected, size) == 0);
}

static void on_headers(void *arg, struct http_request *request)
{
    struct world *world = arg;
    size_t n_lengths = http_header_count(request, "Content-Length");
    size_t n_encodings = http_header_count(request, "Transfer-Encoding");
    begin(world, request);
    REQUIRE(n_lengths + n_encodings <= 1);
    REQUIRE(strlen(http_method(request)) > 0);
    buf_printf(world->heard, "%s %s %d ", http_method(request), http_path(request), http_has_body(request));
    REQUIRE(http_reference_next(&world->reference));
    require_text(http_method(request), world->reference.method, world->reference.method_size);
    require_text(http_path(request), world->reference.path, world->reference.path_size);
    http_wipe_header(request, "Authorization");
    const char *wiped = http_header(request, "Authorization");
    REQUIRE(!wiped || strspn(wiped, "*") == strlen(wiped) || strlen(wiped) == 0);
    if (strncmp(http_path(request), "/no", 3) == 0) {
        reply(world, request, 401);
    }
}

static void on_complete(void *arg, struct http_request *request)
{
    struct world *world = arg;
    const struct buf *body = http_body(request);
    REQUIRE(body->len <= BODY_MAX);
    REQUIRE(world->reference.whole && body->len == world->reference.body_size);
    REQUIRE(body->len == 0 || memcmp(body->data, world->reference.body, body->len) == 0);
    buf_printf(world->heard, "%zu ", body->len);
    buf_append(world->heard, body->data, body->len);
    buf_putc(world->heard, '\n');
    reply(world, request, 200);
}

static void on_fault(void *arg, struct http_request *request, enum http_fault fault)
{
    static const unsigned statuses[] = {
        [HTTP_FAULT_SYNTAX] = 400,         [HTTP_FAULT_FRAMING] = 400,  [HTTP_FAULT_HEADERS_TOO_LARGE] = 431,
        [HTTP_FAULT_BODY_TOO_LARGE] = 413, [HTTP_FAULT_TOO_SLOW] = 408, [HTTP_FAULT_OVERLOADED] = 503,
        [HTTP_FAULT_CHUNKS] = 400,
    };
    struct world *world = arg;
    begin(world, request);
    buf_printf(world->heard, "fault %u\n", statuses[fault]);
    reply(world, request, statuses[fault]);
}

static void on_hangup(void *arg, struct http_request *request)
{
    (void)arg;
    (void)request;
    fuzz_broken(__FILE__, __LINE__, "no request waits for anything here");
}

static void on_end(void *arg, struct http_request *request, bool sent)
{
    struct world *world = arg;
    (void)sent;
    REQUIRE(http_user(request) && world->open_requests > 0);
    world->open_requests--;
}

static void listen_somewhere(struct world *world, int *ret_fd)
{
    *ret_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    world->address.sun_family = AF_UNIX;
    world->address_size = sizeof world->address;
    /* The kernel chooses a name. */
    REQUIRE(bind(*ret_fd, (struct sockaddr *)&world->address, sizeof world->address.sun_family) == 0);
    REQUIRE(listen(*ret_fd, 10) == 0);
    REQUIRE(getsockname(*ret_fd, (struct sockaddr *)&world->address, &world->address_size) == 0);
}

/* The server, one for all inputs. */
static struct world *the_world(void)
{
    static struct world world;
    static const struct http_events events = {.headers = on_headers,
                                              .complete = on_complete,
                                              .fault = on_fault,
                                              .hangup = on_hangup,
                                              .end = on_end};
    if (!world.server) {
        struct http_options options = {.max_body_bytes = BODY_MAX,
                                       .max_header_bytes = HEADER_MAX,
                                       .n_accounts = 1,
                                       .max_bodies_bytes = BODY_MAX,
                                       .max_unread_bytes = 1 << 20,
                                       .max_unread_bytes_per_account = 1 << 20,
                                       .reply_stall_ms = 3600000,
                                       .header_timeout_ms = 3600000,
                                       .request_timeout_ms = 3600000,
                                       .idle_timeout_ms = 3600000,
                                       .max_connections = 10};
        listen_somewhere(&world, &options.listen_fd);
        REQUIRE(loop_new(&world.loop, NULL) == 0);
        REQUIRE(http_server_new(world.loop, &options, &events, &world, &world.server, NULL) == 0);
    }
    return &world;
}

static void pump(struct world *world, unsigned rounds)
{
    for (; rounds > 0; rounds--) {
        loop_once(world->loop, 0, NULL);
        http_server_run(world->server);
    }
}

/* What the server says: one reply after the other, each as long as it claims to be, and none that was not
 * given above. */
static void require_replies(const struct world *world, const char *text, const char *end)
{
    unsigned n = 0;
    while (text < end) {
        unsigned status = 0;
        const char *behind = strstr(text, "\r\n\r\n");
        const char *length = strstr(text, "\r\nContent-Length: ");
        REQUIRE(sscanf(text, "HTTP/1.1 %u ", &status) == 1 || sscanf(text, "HTTP/1.0 %u ", &status) == 1);
        REQUIRE(status >= 100 && status < 600 && behind);
        text = behind + 4;
        if (status != 100) {
            REQUIRE(length && length < behind);
            REQUIRE(++n <= world->n_replies);
            size_t size = strtoul(length + strlen("\r\nContent-Length: "), NULL, 10);
            /* A reply to HEAD has none of what it announces. */
            text += strncmp(text, "HTTP/1.", 7) == 0 || text == end ? 0 : size;
            REQUIRE(text <= end);
        }
    }
}

static void receive(int fd, struct buf *ret)
{
    char data[4096];
    for (ssize_t n; (n = recv(fd, data, sizeof data, MSG_DONTWAIT)) > 0;) {
        buf_append(ret, data, (size_t)n);
    }
}

/* Until nothing comes of what has been sent: of several requests in one piece, a round may take one. */
static void settle(struct world *world, int fd, struct buf *replies)
{
    size_t before;
    do {
        before = world->heard->len;
        pump(world, ROUNDS);
        receive(fd, replies);
    } while (world->heard->len > before);
}

/* The conversation of one connection. */
static void talk(struct world *world, const uint8_t *data, size_t size, size_t piece, struct buf *heard)
{
    CLEANUP(buf_free) struct buf replies = BUF_INIT;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    world->heard = heard;
    world->n_replies = 0;
    world->reference = (struct http_reference){.at = (const char *)data, .end = (const char *)data + size};
    REQUIRE(connect(fd, (struct sockaddr *)&world->address, world->address_size) == 0);
    for (size_t at = 0; at < size; at += piece) {
        size_t n = size - at < piece ? size - at : piece;
        /* Closed already, or the buffer of one that reads no more is full: as good as sent. */
        ssize_t sent = send(fd, data + at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        REQUIRE(sent >= 0 || errno == EPIPE || errno == EAGAIN || errno == ECONNRESET);
        settle(world, fd, &replies);
    }
    close(fd);
    for (unsigned round = 0; http_server_connections(world->server) > 0; round++) {
        REQUIRE(round < ROUNDS_MAX);
        pump(world, 1);
    }
    REQUIRE(world->open_requests == 0);
    if (replies.len > 0) {
        require_replies(world, replies.data, replies.data + replies.len);
    }
}

void fuzz_one(const uint8_t *data, size_t size)
{
    CLEANUP(buf_free) struct buf whole = BUF_INIT, pieces = BUF_INIT;
    struct world *world = the_world();
    if (size < 2) {
        return;
    }
    size_t piece = data[0] % 64 + 1;
    talk(world, data + 1, size - 1, size, &whole);
    talk(world, data + 1, size - 1, size / 64 + piece, &pieces);
    REQUIRE(whole.len == pieces.len);
    REQUIRE(whole.len == 0 || memcmp(whole.data, pieces.data, whole.len) == 0);
}
