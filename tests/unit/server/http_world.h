/* A server of server/http/http.h and its clients, over real sockets and in one thread: the test pumps the
 * server's loop while it waits for what its client is to see. */
#pragma once

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
#include "server/http/http.h"

#define WAIT_NS (60 * NS_PER_S)

struct world {
    struct loop *loop;
    struct http_server *server;
    int listen_fd;
    struct sockaddr_in address;
    struct http_request *waiting;                             /* of path /later */
    ssize_t (*fill)(void *fill_arg, char *data, size_t size); /* of streams, if a test begins any */
    void *fill_arg;
    char secret[64]; /* the header X-Secret, after it was wiped */
    int n_headers, n_complete, n_hangups, n_ends, n_sent;
    int last_fault, n_dropped, last_drop;
};

static inline void reply_text(struct http_request *request, unsigned status, const char *text)
{
    struct buf body = BUF_INIT;
    buf_puts(&body, text);
    const struct http_header headers[] = {{"Content-Type", "text/plain"}};
    http_reply(request, status, headers, 1, &body);
}

/* GET /large/BYTES */
static inline void reply_large(struct http_request *request)
{
    struct buf body = BUF_INIT;
    size_t size = strtoul(http_path(request) + strlen("/large/"), NULL, 10);
    memset(buf_reserve(&body, size), 'x', size);
    body.len = size;
    http_reply(request, 200, NULL, 0, &body);
}

static inline void on_headers(void *arg, struct http_request *request)
{
    struct world *world = arg;
    const char *account = http_header(request, "X-Account");
    world->n_headers++;
    http_set_user(request, world);
    if (account) {
        http_set_account(request, (unsigned)atoi(account));
    }
    if (strncmp(http_path(request), "/large/", strlen("/large/")) == 0) {
        reply_large(request);
    }
    if (strcmp(http_path(request), "/get") == 0) {
        reply_text(request, 200, "got");
    } else if (strcmp(http_path(request), "/refuse") == 0) {
        reply_text(request, 401, "no");
    } else if (strcmp(http_path(request), "/hold") == 0) {
        http_hold(request);
        world->waiting = request;
    } else if (strcmp(http_path(request), "/trust") == 0) {
        http_trust(request);
        reply_text(request, 200, "trusted");
    } else if (strcmp(http_path(request), "/wipe") == 0) {
        http_wipe_header(request, "X-Secret");
        snprintf(world->secret, sizeof world->secret, "<%s>", http_header(request, "X-Secret"));
    }
}

static inline void on_complete(void *arg, struct http_request *request)
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

static inline ssize_t on_fill(void *arg, struct http_request *request, char *data, size_t size)
{
    struct world *world = arg;
    (void)request;
    return world->fill(world->fill_arg, data, size);
}

static inline void on_fault(void *arg, struct http_request *request, enum http_fault fault)
{
    static const unsigned statuses[] = {
        [HTTP_FAULT_SYNTAX] = 400,         [HTTP_FAULT_FRAMING] = 400,  [HTTP_FAULT_HEADERS_TOO_LARGE] = 431,
        [HTTP_FAULT_BODY_TOO_LARGE] = 413, [HTTP_FAULT_TOO_SLOW] = 408, [HTTP_FAULT_OVERLOADED] = 503,
        [HTTP_FAULT_NO_SHARE] = 429,       [HTTP_FAULT_CHUNKS] = 400,
    };
    struct world *world = arg;
    world->last_fault = (int)fault;
    reply_text(request, statuses[fault], "fault");
}

static inline void on_hangup(void *arg, struct http_request *request)
{
    struct world *world = arg;
    world->n_hangups++;
    assert_ptr_equal(world->waiting, request);
    world->waiting = NULL;
}

static inline void on_dropped(void *arg, struct http_request *request, enum http_drop why, size_t bytes)
{
    struct world *world = arg;
    (void)request;
    assert_true(bytes > 0);
    world->n_dropped++;
    world->last_drop = (int)why;
}

static inline void on_end(void *arg, struct http_request *request, bool sent)
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
    .n_accounts = 1,
    .max_bodies_bytes = 1500,
    .max_unread_bytes = 64 << 20,
    .max_unread_bytes_per_account = 64 << 20,
    .reply_stall_ms = 60000,
    .header_timeout_ms = 60000,
    .request_timeout_ms = 60000,
    .idle_timeout_ms = 60000,
    .max_connections = 10,
};

static inline void open_world(struct world *world, struct http_options options)
{
    static const struct http_events events = {.headers = on_headers,
                                              .complete = on_complete,
                                              .fill = on_fill,
                                              .fault = on_fault,
                                              .hangup = on_hangup,
                                              .dropped = on_dropped,
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

static inline void close_world(struct world *world)
{
    http_server_free(world->server);
    loop_free(world->loop);
    close(world->listen_fd);
}

static inline void pump(struct world *world)
{
    int timeout_ms = http_server_timeout_ms(world->server);
    loop_once(world->loop, timeout_ms < 0 || timeout_ms > 10 ? 10 : timeout_ms, NULL);
    http_server_run(world->server);
}

/* Pumps until the condition holds; fails after a minute. */
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

static inline void client_open(struct client *client, struct world *world)
{
    *client = (struct client){.world = world};
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(client->fd, (struct sockaddr *)&world->address, sizeof world->address), 0);
}

static inline void client_close(struct client *client)
{
    close(client->fd);
    buf_free(&client->got);
}

static inline void client_send(struct client *client, const char *text)
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

static inline bool client_has(struct client *client, const char *text)
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

static inline void client_expect(struct client *client, const char *text)
{
    PUMP_UNTIL(client->world, client_has(client, text));
    client->got.len = 0;
    client->got.data[0] = '\0';
}

static inline void client_expect_end(struct client *client)
{
    PUMP_UNTIL(client->world, (client_has(client, "\n"), client->ended));
}
