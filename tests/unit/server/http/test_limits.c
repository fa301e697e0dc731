/* server/http/http.c: what is refused, limits and deadlines. */
#include "tests/unit/server/http_world.h"

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

/* Headers have less time than bodies. */
static void ends_slow_headers(void **state)
{
    (void)state;
    struct http_options options = default_options;
    options.header_timeout_ms = 50;
    struct world world;
    struct client slow, later;
    open_world(&world, options);
    client_open(&later, &world);
    client_send(&later, "POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nh");
    client_open(&slow, &world);
    client_send(&slow, "GET /get HTTP/1.1\r\nHost: x\r\n");
    client_expect(&slow, "408 Request Timeout");
    client_expect_end(&slow);
    client_send(&later, "i");
    client_expect(&later, "POST 2 bytes");
    client_send(&later, "GET /ge"); /* another one's, which is no first one */
    client_expect(&later, "408 Request Timeout");
    client_close(&slow);
    client_close(&later);
    close_world(&world);
}

/* No byte starts the deadline again. */
static void ends_requests_that_trickle(void **state)
{
    (void)state;
    struct http_options options = default_options;
    options.request_timeout_ms = 100;
    options.max_body_bytes = options.max_bodies_bytes = 1 << 30;
    struct world world;
    struct client client;
    open_world(&world, options);
    client_open(&client, &world);
    client_send(&client, "POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 900000000\r\n\r\n");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_before_the_body),
        cmocka_unit_test(refuses_a_caller_who_goes_on_sending),
        cmocka_unit_test(asks_to_continue_only_who_may),
        cmocka_unit_test(limits_bodies),
        cmocka_unit_test(limits_all_bodies_together),
        cmocka_unit_test(limits_headers),
        cmocka_unit_test(refuses_ambiguous_bodies),
        cmocka_unit_test(ends_slow_requests),
        cmocka_unit_test(ends_slow_headers),
        cmocka_unit_test(ends_requests_that_trickle),
        cmocka_unit_test(ends_idle_connections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
