/* server/http.c: requests, replies, refusals, deadlines and hang-ups, over real sockets and in one thread:
 * the test pumps the server's loop while it waits for what its client is to see. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/loop.h"
#include "server/http.h"

#define WAIT_NS (10 * NS_PER_S)

struct world {
    struct loop *loop;
    struct http_server *server;
    int listen_fd;
    struct sockaddr_in address;
    struct http_request *waiting; /* of path /later */
    char secret[64];              /* the header X-Secret, after it was wiped */
    int n_headers, n_complete, n_hangups, n_ends, n_sent;
    int last_fault;
};

static void reply_text(struct http_request *request, unsigned status, const char *text)
{
    struct buf body = BUF_INIT;
    buf_puts(&body, text);
    const struct http_header headers[] = {{"Content-Type", "text/plain"}};
    http_reply(request, status, headers, 1, &body);
}

static void on_headers(void *arg, struct http_request *request)
{
    struct world *world = arg;
    world->n_headers++;
    http_set_user(request, world);
    if (strcmp(http_path(request), "/get") == 0) {
        reply_text(request, 200, "got");
    } else if (strcmp(http_path(request), "/refuse") == 0) {
        reply_text(request, 401, "no");
    } else if (strcmp(http_path(request), "/hold") == 0) {
        http_hold(request);
        world->waiting = request;
    } else if (strcmp(http_path(request), "/wipe") == 0) {
        http_wipe_header(request, "X-Secret");
        snprintf(world->secret, sizeof world->secret, "<%s>", http_header(request, "X-Secret"));
    }
}

static void on_complete(void *arg, struct http_request *request)
{
    struct world *world = arg;
    world->n_complete++;
    if (strcmp(http_path(request), "/later") == 0) {
        world->waiting = request;
        return;
    }
    char text[64];
    snprintf(text, sizeof text, "%s %zu bytes", http_method(request), http_body(request)->len);
    reply_text(request, 200, text);
}

static void on_fault(void *arg, struct http_request *request, enum http_fault fault)
{
    static const unsigned statuses[] = {
        [HTTP_FAULT_SYNTAX] = 400,         [HTTP_FAULT_FRAMING] = 400,  [HTTP_FAULT_HEADERS_TOO_LARGE] = 431,
        [HTTP_FAULT_BODY_TOO_LARGE] = 413, [HTTP_FAULT_TOO_SLOW] = 408, [HTTP_FAULT_OVERLOADED] = 503,
    };
    struct world *world = arg;
    world->last_fault = (int)fault;
    reply_text(request, statuses[fault], "fault");
}

static void on_hangup(void *arg, struct http_request *request)
{
    struct world *world = arg;
    world->n_hangups++;
    assert_ptr_equal(world->waiting, request);
    world->waiting = NULL;
}

static void on_end(void *arg, struct http_request *request, bool sent)
{
    struct world *world = arg;
    world->n_ends++;
    world->n_sent += sent;
    if (world->waiting == request) {
        world->waiting = NULL;
    }
}

static const struct http_options default_options = {
    .max_body_bytes = 1000,
    .max_header_bytes = 2000,
    .max_bodies_bytes = 1500,
    .request_timeout_ms = 60000,
    .idle_timeout_ms = 60000,
    .max_connections = 10,
};

static void open_world(struct world *world, struct http_options options)
{
    static const struct http_events events = {.headers = on_headers,
                                              .complete = on_complete,
                                              .fault = on_fault,
                                              .hangup = on_hangup,
                                              .end = on_end};
    *world = (struct world){.last_fault = -1};
    world->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    world->address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof world->address;
    assert_int_equal(bind(world->listen_fd, (struct sockaddr *)&world->address, size), 0);
    assert_int_equal(listen(world->listen_fd, 10), 0);
    assert_int_equal(getsockname(world->listen_fd, (struct sockaddr *)&world->address, &size), 0);
    assert_int_equal(loop_new(&world->loop, NULL), 0);
    options.listen_fd = world->listen_fd;
    assert_int_equal(http_server_new(world->loop, &options, &events, world, &world->server, NULL), 0);
}

static void close_world(struct world *world)
{
    http_server_free(world->server);
    loop_free(world->loop);
    close(world->listen_fd);
}

static void pump(struct world *world)
{
    int timeout_ms = http_server_timeout_ms(world->server);
    loop_once(world->loop, timeout_ms < 0 || timeout_ms > 10 ? 10 : timeout_ms, NULL);
    http_server_run(world->server);
}

/* Pumps until the condition holds; fails after ten seconds. */
#define PUMP_UNTIL(world, condition)                                                                         \
    do {                                                                                                     \
        uint64_t until_ = clock_now_ns() + WAIT_NS;                                                          \
        while (!(condition)) {                                                                               \
            assert_true(clock_now_ns() < until_);                                                            \
            pump(world);                                                                                     \
        }                                                                                                    \
    } while (0)

struct client {
    struct world *world;
    int fd;
    bool ended;
    struct buf got;
};

static void client_open(struct client *client, struct world *world)
{
    *client = (struct client){.world = world};
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(client->fd, (struct sockaddr *)&world->address, sizeof world->address), 0);
}

static void client_close(struct client *client)
{
    close(client->fd);
    buf_free(&client->got);
}

static void client_send(struct client *client, const char *text)
{
    size_t len = strlen(text), done = 0;
    while (done < len) {
        ssize_t n = send(client->fd, text + done, len - done, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0) {
            done += (size_t)n;
        } else {
            assert_int_equal(errno, EAGAIN);
        }
        pump(client->world);
    }
}

static bool client_has(struct client *client, const char *text)
{
    char data[4096];
    ssize_t n = recv(client->fd, data, sizeof data, MSG_DONTWAIT);
    if (n > 0) {
        buf_append(&client->got, data, (size_t)n);
    }
    client->ended = client->ended || n == 0;
    assert_true(n >= 0 || errno == EAGAIN); /* a reset would have lost the reply */
    return client->got.data && strstr(client->got.data, text);
}

static void client_expect(struct client *client, const char *text)
{
    PUMP_UNTIL(client->world, client_has(client, text));
    client->got.len = 0;
    client->got.data[0] = '\0';
}

static void client_expect_end(struct client *client)
{
    PUMP_UNTIL(client->world, (client_has(client, "\n"), client->ended));
}

static void answers_many_requests_on_one_connection(void **state)
{
    (void)state;
    struct world world;
    struct client client;
    open_world(&world, default_options);
    client_open(&client, &world);
    for (int i = 0; i < 3; i++) {
        client_send(&client, "GET /get HTTP/1.1\r\nHost: x\r\n\r\n");
        client_expect(&client, "\r\n\r\ngot");
    }
    client_send(&client, "POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
    client_expect(&client, "POST 5 bytes");
    client_send(&client, "HEAD /get HTTP/1.1\r\nHost: x\r\n\r\n");
    client_expect(&client, "Content-Length: 3");
    assert_int_equal(world.n_ends, 5);
    assert_int_equal(world.n_sent, 5);
    assert_int_equal(http_server_busy(world.server), 0);
    assert_int_equal(http_server_connections(world.server), 1);
    client_close(&client);
    close_world(&world);
}

/* After a body in chunks or a malformed request nothing that comes behind is taken for a request. */
static void believes_nothing_behind_what_is_ambiguous(void **state)
{
    (void)state;
    static const char *const first[][2] = {
        {"POST /now HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
         "chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n",
         "POST 7 bytes"},
        {"GET /get HTTP/1.1\r\nHost: x\nA: b\r\n\r\n", "fault"},
        {"GET /get HTTP/1.1\r\nHost: x\r\nContent-Length : 30\r\n\r\n", "fault"},
        {"GET /get HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", "fault"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(first); i++) {
        struct world world;
        struct client client;
        open_world(&world, default_options);
        client_open(&client, &world);
        char text[512];
        snprintf(text, sizeof text, "%sGET /get HTTP/1.1\r\nHost: x\r\n\r\n", first[i][0]);
        client_send(&client, text);
        client_expect(&client, first[i][1]);
        client_expect_end(&client);
        assert_int_equal(world.n_ends, 1);
        client_close(&client);
        close_world(&world);
    }
}

static void holds_back_a_reply(void **state)
{
    (void)state;
    static const char *const requests[] = {
        "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /hold HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\nhello",
    };
    for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
        struct world world;
        struct client client, other;
        open_world(&world, default_options);
        client_open(&client, &world);
        client_send(&client, requests[i]);
        PUMP_UNTIL(&world, world.waiting != NULL);
        client_open(&other, &world);
        client_send(&other, "GET /get HTTP/1.1\r\nHost: x\r\n\r\n");
        client_expect(&other, "\r\n\r\ngot"); /* nobody else waits */
        reply_text(world.waiting, 401, "no");
        world.waiting = NULL;
        client_expect(&client, "\r\n\r\nno");
        client_close(&client);
        client_close(&other);
        close_world(&world);
    }
}

/* The caller leaves, or the server ends, while a reply is held back. */
static void forgets_what_is_held_back(void **state)
{
    (void)state;
    for (int leaves = 0; leaves < 2; leaves++) {
        struct world world;
        struct client client;
        open_world(&world, default_options);
        client_open(&client, &world);
        client_send(&client, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
        PUMP_UNTIL(&world, world.waiting != NULL);
        if (leaves) {
            client_close(&client);
            reply_text(world.waiting, 401, "no");
            PUMP_UNTIL(&world, world.n_ends == 1);
        } else {
            http_server_drain(world.server, false);
        }
        close_world(&world);
        if (!leaves) {
            client_close(&client);
        }
    }
}

static void closes_the_oldest_for_the_newest(void **state)
{
    (void)state;
    struct world world;
    struct client clients[4];
    struct http_options options = default_options;
    options.max_connections = 3;
    open_world(&world, options);
    for (size_t i = 0; i < ARRAY_SIZE(clients); i++) {
        client_open(&clients[i], &world);
        client_send(&clients[i], "GET /get HTTP/1.1\r\nHost: x\r\n\r\n");
        client_expect(&clients[i], "\r\n\r\ngot");
    }
    client_expect_end(&clients[0]);
    client_send(&clients[3], "GET /get HTTP/1.1\r\nHost: x\r\n\r\n");
    client_expect(&clients[3], "\r\n\r\ngot");
    for (size_t i = 0; i < ARRAY_SIZE(clients); i++) {
        client_close(&clients[i]);
    }
    close_world(&world);
}

static void takes_requests_one_behind_the_other(void **state)
{
    (void)state;
    struct world world;
    struct client client;
    open_world(&world, default_options);
    client_open(&client, &world);
    client_send(
        &client,
        "GET /get HTTP/1.1\r\nHost: x\r\n\r\nPOST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"
        "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n");
    client_expect(&client, "GET 0 bytes");
    PUMP_UNTIL(&world, world.n_sent == 3);
    client_close(&client);
    close_world(&world);
}

static void refuses_before_the_body(void **state)
{
    (void)state;
    struct world world;
    struct client client;
    open_world(&world, default_options);
    client_open(&client, &world);
    client_send(&client, "POST /refuse HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n");
    client_expect(&client, "HTTP/1.1 401 Unauthorized\r\n"); /* although no byte of it was sent */
    assert_int_equal(world.n_complete, 0);
    client_expect_end(&client);
    client_close(&client);
    PUMP_UNTIL(&world, world.n_ends == 1);
    assert_int_equal(world.n_sent, 1);
    close_world(&world);
}

/* The reply must not be lost to a reset because the caller was still sending. */
static void refuses_a_caller_who_goes_on_sending(void **state)
{
    (void)state;
    struct http_options options = default_options;
    struct world world;
    struct client client;
    options.max_body_bytes = 1 << 20;
    open_world(&world, options);
    client_open(&client, &world);
    client_send(&client, "POST /refuse HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\n");
    char piece[1001];
    memset(piece, 'x', sizeof piece - 1);
    piece[sizeof piece - 1] = '\0';
    for (int i = 0; i < 500; i++) {
        client_send(&client, piece);
    }
    client_expect(&client, "\r\n\r\nno");
    client_expect_end(&client);
    client_close(&client);
    close_world(&world);
    assert_int_equal(world.n_ends, 1);
}

static void asks_to_continue_only_who_may(void **state)
{
    (void)state;
    struct world world;
    struct client client;
    open_world(&world, default_options);
    client_open(&client, &world);
    client_send(&client,
                "POST /now HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    client_expect(&client, "HTTP/1.1 100 Continue\r\n\r\n");
    client_send(&client, "hi");
    client_expect(&client, "POST 2 bytes");
    client_send(&client,
                "POST /refuse HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    PUMP_UNTIL(&world, client_has(&client, "\r\n\r\nno"));
    assert_int_equal(memcmp(client.got.data, "HTTP/1.1 401", 12), 0);
    client_expect_end(&client);
    client_close(&client);
    close_world(&world);
}

static void limits_bodies(void **state)
{
    (void)state;
    struct world world;
    struct client client;
    char body[1200];
    memset(body, 'x', sizeof body - 1);
    body[sizeof body - 1] = '\0';
    open_world(&world, default_options);

    client_open(&client, &world);
    client_send(&client, "POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n");
    client_expect(&client, "413 Content Too Large");
    client_expect_end(&client);
    client_close(&client);

    client_open(&client, &world);
    client_send(&client, "POST /now HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4af\r\n");
    client_send(&client, body);
    client_expect(&client, "413 Content Too Large");
    client_expect_end(&client);
    client_close(&client);
    PUMP_UNTIL(&world, world.n_ends == 2);
    assert_int_equal(world.n_complete, 0);
    close_world(&world);
}

static void limits_all_bodies_together(void **state)
{
    (void)state;
    struct world world;
    struct client one, two;
    char body[901];
    memset(body, 'x', sizeof body - 1);
    body[sizeof body - 1] = '\0';
    open_world(&world, default_options);
    client_open(&one, &world);
    client_send(&one, "POST /later HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n");
    client_send(&one, body);
    PUMP_UNTIL(&world, world.waiting);
    client_open(&two, &world);
    client_send(&two, "POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n");
    client_send(&two, body);
    client_expect(&two, "503 Service Unavailable");
    assert_int_equal(world.last_fault, HTTP_FAULT_OVERLOADED);
    client_close(&two);
    http_free_body(world.waiting);
    client_open(&two, &world);
    client_send(&two, "POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n");
    client_send(&two, body);
    client_expect(&two, "POST 900 bytes");
    client_close(&one);
    client_close(&two);
    close_world(&world);
}

static void limits_headers(void **state)
{
    (void)state;
    struct world world;
    struct client client;
    char header[2100];
    memset(header, 'x', sizeof header - 1);
    header[sizeof header - 1] = '\0';
    open_world(&world, default_options);
    client_open(&client, &world);
    client_send(&client, "GET /get HTTP/1.1\r\nHost: x\r\nX: ");
    client_send(&client, header);
    client_send(&client, "\r\n\r\n");
    client_expect(&client, "431 Request Header Fields Too Large");
    assert_int_equal(world.n_headers, 0);
    client_close(&client);
    close_world(&world);
}

static void refuses_ambiguous_bodies(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 2\r\nContent-Length: 2\r\n",
        "Content-Length: 2\r\nContent-Length: 3\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: identity\r\n",
    };
    struct world world;
    open_world(&world, default_options);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct client client;
        char request[256];
        client_open(&client, &world);
        snprintf(request, sizeof request, "POST /now HTTP/1.1\r\nHost: x\r\n%s\r\n", rows[i]);
        world.last_fault = -1;
        client_send(&client, request);
        client_expect(&client, "400 Bad Request");
        assert_int_equal(world.last_fault, HTTP_FAULT_FRAMING);
        client_expect_end(&client);
        client_close(&client);
    }
    assert_int_equal(world.n_headers, 0);
    close_world(&world);
}

static void ends_slow_requests(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "G",                                                                   /* in the request line */
        "POST /now HTTP/1.1\r\nHost: x\r\nX-Half",                             /* in the headers */
        "POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf",     /* in the body */
        "POST /now HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", /* before the body */
    };
    struct http_options options = default_options;
    options.request_timeout_ms = 50;
    struct world world;
    open_world(&world, options);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct client client;
        client_open(&client, &world);
        client_send(&client, rows[i]);
        client_expect(&client, "408 Request Timeout");
        client_expect_end(&client);
        client_close(&client);
        PUMP_UNTIL(&world, http_server_connections(world.server) == 0);
    }
    assert_int_equal(world.n_ends, (int)ARRAY_SIZE(rows));
    assert_int_equal(world.n_complete, 0);
    close_world(&world);
}

/* Each byte would start libmicrohttpd's own timeout again. */
static void ends_requests_that_trickle(void **state)
{
    (void)state;
    struct http_options options = default_options;
    options.request_timeout_ms = 100;
    struct world world;
    struct client client;
    open_world(&world, options);
    client_open(&client, &world);
    client_send(&client, "POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n");
    uint64_t until = clock_now_ns() + WAIT_NS;
    while (!client_has(&client, "408 Request Timeout")) {
        assert_true(clock_now_ns() < until);
        send(client.fd, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        pump(&world);
    }
    client_close(&client);
    close_world(&world);
}

static void ends_idle_connections(void **state)
{
    (void)state;
    struct http_options options = default_options;
    options.idle_timeout_ms = 50;
    struct world world;
    struct client fresh, used;
    open_world(&world, options);
    client_open(&fresh, &world);
    client_open(&used, &world);
    client_send(&used, "GET /get HTTP/1.1\r\nHost: x\r\n\r\n");
    client_expect(&used, "got");
    client_expect_end(&used);
    client_expect_end(&fresh);
    assert_int_equal(fresh.got.len, 0);
    client_close(&fresh);
    client_close(&used);
    PUMP_UNTIL(&world, http_server_connections(world.server) == 0);
    close_world(&world);
}

static void replies_later(void **state)
{
    (void)state;
    struct http_options options = default_options;
    options.request_timeout_ms = options.idle_timeout_ms = 50; /* neither holds while a job runs */
    struct world world;
    struct client client;
    open_world(&world, options);
    client_open(&client, &world);
    client_send(&client, "POST /later HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi");
    PUMP_UNTIL(&world, world.waiting);
    uint64_t until = clock_now_ns() + 200 * NS_PER_MS;
    PUMP_UNTIL(&world, clock_now_ns() > until);
    assert_int_equal(http_server_busy(world.server), 1);
    assert_non_null(world.waiting);
    reply_text(world.waiting, 200, "done");
    client_expect(&client, "\r\n\r\ndone");
    client_send(&client, "GET /get HTTP/1.1\r\nHost: x\r\n\r\n");
    client_expect(&client, "got");
    client_close(&client);
    close_world(&world);
}

static void notices_who_hangs_up(void **state)
{
    (void)state;
    struct world world;
    struct client client;
    open_world(&world, default_options);
    client_open(&client, &world);
    client_send(&client, "POST /later HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi");
    PUMP_UNTIL(&world, world.waiting);
    client_close(&client);
    PUMP_UNTIL(&world, world.n_ends == 1);
    assert_int_equal(world.n_hangups, 1);
    assert_int_equal(world.n_sent, 0);
    PUMP_UNTIL(&world, http_server_connections(world.server) == 0);

    /* Gone before the server had even read the request. */
    client_open(&client, &world);
    assert_int_equal(send(client.fd, "POST /later HTTP/1.1\r\nHost: x\r\n\r\n", 33, 0), 33);
    client_close(&client);
    PUMP_UNTIL(&world, world.n_ends == 2);
    assert_int_equal(world.n_hangups, 2);
    close_world(&world);
}

static void notices_an_end_that_comes_with_the_last_bytes(void **state)
{
    (void)state;
    static const char *const rows[] = {"GET /g",
                                       "POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf",
                                       "GET /get HTTP/1.1\r\nHost: x\r\n\r\n", ""};
    struct world world;
    open_world(&world, default_options);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct client client;
        client_open(&client, &world);
        assert_int_equal(send(client.fd, rows[i], strlen(rows[i]), 0), strlen(rows[i]));
        shutdown(client.fd, SHUT_WR);
        client_expect_end(&client); /* at once, not when a deadline has passed */
        PUMP_UNTIL(&world, http_server_connections(world.server) == 0);
        assert_int_equal(client.got.len > 0, i == 2);
        client_close(&client);
    }
    close_world(&world);
}

static void forgets_secrets(void **state)
{
    (void)state;
    struct world world;
    struct client client;
    open_world(&world, default_options);
    client_open(&client, &world);
    client_send(&client, "GET /wipe HTTP/1.1\r\nHost: x\r\nX-Secret: abc\r\n\r\n");
    client_expect(&client, "GET 0 bytes");
    assert_string_equal(world.secret, "<>");
    client_close(&client);
    close_world(&world);
}

static void does_not_decode_paths(void **state)
{
    (void)state;
    struct world world;
    struct client client;
    open_world(&world, default_options);
    client_open(&client, &world);
    client_send(&client, "GET /get%00x HTTP/1.1\r\nHost: x\r\n\r\n");
    client_expect(&client, "GET 0 bytes");
    client_send(&client, "GET /get?x=%00 HTTP/1.1\r\nHost: x\r\n\r\n");
    client_expect(&client, "got");
    client_close(&client);
    close_world(&world);
}

static void drains(void **state)
{
    (void)state;
    struct world world;
    struct client idle, working, fresh, late;
    open_world(&world, default_options);
    client_open(&idle, &world);
    client_send(&idle, "GET /get HTTP/1.1\r\nHost: x\r\n\r\n");
    client_expect(&idle, "got");
    client_open(&working, &world);
    client_send(&working, "POST /later HTTP/1.1\r\nHost: x\r\n\r\n");
    PUMP_UNTIL(&world, world.waiting);
    client_open(&fresh, &world); /* the kernel has it, the server has not seen it yet */

    http_server_drain(world.server, true);
    client_expect_end(&idle);
    PUMP_UNTIL(&world, http_server_busy(world.server) == 1);
    client_send(&fresh, "GET /get HTTP/1.1\r\nHost: x\r\n\r\n");
    client_expect(&fresh, "Connection: close");
    client_expect_end(&fresh);
    client_open(&late, &world); /* still bound: the test holds the socket */
    reply_text(world.waiting, 200, "done");
    client_expect(&working, "Connection: close");
    client_expect_end(&working);
    PUMP_UNTIL(&world, http_server_connections(world.server) == 0);
    assert_int_equal(world.n_sent, 3);
    client_close(&late);
    client_close(&fresh);
    client_close(&working);
    client_close(&idle);
    close_world(&world);
}

static void frees_what_still_waits(void **state)
{
    (void)state;
    struct world world;
    struct client working, sending;
    open_world(&world, default_options);
    client_open(&working, &world);
    client_send(&working, "POST /later HTTP/1.1\r\nHost: x\r\n\r\n");
    PUMP_UNTIL(&world, world.waiting);
    client_open(&sending, &world);
    client_send(&sending, "POST /later HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n");
    PUMP_UNTIL(&world, world.n_headers == 2);
    close_world(&world);
    assert_int_equal(world.n_ends, 2);
    assert_int_equal(world.n_sent, 0);
    client_close(&working);
    client_close(&sending);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_many_requests_on_one_connection),
        cmocka_unit_test(believes_nothing_behind_what_is_ambiguous),
        cmocka_unit_test(holds_back_a_reply),
        cmocka_unit_test(forgets_what_is_held_back),
        cmocka_unit_test(closes_the_oldest_for_the_newest),
        cmocka_unit_test(takes_requests_one_behind_the_other),
        cmocka_unit_test(refuses_before_the_body),
        cmocka_unit_test(refuses_a_caller_who_goes_on_sending),
        cmocka_unit_test(asks_to_continue_only_who_may),
        cmocka_unit_test(limits_bodies),
        cmocka_unit_test(limits_all_bodies_together),
        cmocka_unit_test(limits_headers),
        cmocka_unit_test(refuses_ambiguous_bodies),
        cmocka_unit_test(ends_slow_requests),
        cmocka_unit_test(ends_requests_that_trickle),
        cmocka_unit_test(ends_idle_connections),
        cmocka_unit_test(replies_later),
        cmocka_unit_test(notices_who_hangs_up),
        cmocka_unit_test(notices_an_end_that_comes_with_the_last_bytes),
        cmocka_unit_test(forgets_secrets),
        cmocka_unit_test(does_not_decode_paths),
        cmocka_unit_test(drains),
        cmocka_unit_test(frees_what_still_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
