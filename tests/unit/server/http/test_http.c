/* server/http/http.c: requests, replies and connections. */
#include "tests/unit/server/http_world.h"

#include "server/http/connection.h"

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
            http_server_drain(world.server, HTTP_HEIR_SERVES, 1000);
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

static void ask(struct client *client, struct world *world, const char *path, const char *answer)
{
    char text[128];
    client_open(client, world);
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);
    client_send(client, text);
    client_expect(client, answer);
}

/* Whoever has shown a key stays; one that does nothing goes where there is hardly anybody else. */
static void keeps_those_with_a_key(void **state)
{
    (void)state;
    struct world world;
    struct client trusted[4], strangers[3];
    struct http_options options = default_options;
    options.max_connections = 4;
    open_world(&world, options);
    ask(&trusted[0], &world, "/trust", "trusted");
    for (size_t i = 0; i < ARRAY_SIZE(strangers); i++) {
        client_open(&strangers[i], &world);
        client_send(&strangers[i], "GET /get HTTP/1.1\r\nHo"); /* the header's deadline is far away */
    }
    for (size_t i = 1; i < ARRAY_SIZE(trusted); i++) {
        ask(&trusted[i], &world, "/trust", "trusted");
        client_expect_end(&strangers[i - 1]);
    }
    client_close(&strangers[0]);
    ask(&strangers[0], &world, "/get", "got");
    client_expect_end(&trusted[0]);
    client_close(&strangers[1]);
    ask(&strangers[1], &world, "/get", "got");
    client_expect_end(&strangers[0]);
    client_send(&trusted[1], "GET /get HTTP/1.1\r\nHost: x\r\n\r\n");
    client_expect(&trusted[1], "got");
    for (size_t i = 0; i < ARRAY_SIZE(trusted); i++) {
        client_close(&trusted[i]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(strangers); i++) {
        client_close(&strangers[i]);
    }
    close_world(&world);
}

/* A key that has most places, all of them in the middle of something, gives one up for another key's. */
static void one_key_does_not_take_all_places(void **state)
{
    (void)state;
    struct world world;
    struct client greedy[4], other;
    struct http_options options = default_options;
    options.max_connections = 4;
    options.n_accounts = 3;
    open_world(&world, options);
    for (size_t i = 0; i < ARRAY_SIZE(greedy); i++) {
        client_open(&greedy[i], &world);
        client_send(&greedy[i], "GET /trust HTTP/1.1\r\nHost: x\r\nX-Account: 1\r\n\r\n");
        client_expect(&greedy[i], "trusted");
        client_send(&greedy[i],
                    "POST /post HTTP/1.1\r\nHost: x\r\nX-Account: 1\r\nContent-Length: 9\r\n\r\n1");
    }
    client_open(&other, &world);
    client_send(&other, "GET /trust HTTP/1.1\r\nHost: x\r\nX-Account: 2\r\n\r\n");
    client_expect(&other, "trusted");
    client_expect_end(&greedy[0]);
    client_send(&greedy[1], "23456789");
    client_expect(&greedy[1], "9 bytes");
    for (size_t i = 0; i < ARRAY_SIZE(greedy); i++) {
        client_close(&greedy[i]);
    }
    client_close(&other);
    close_world(&world);
}

/* Whoever has more to say than one turn takes waits for the next round, and so does the rest of the loop's
 * work. */
static void a_round_ends(void **state)
{
    (void)state;
    enum { REQUESTS = 200 };
    struct world world;
    struct client talker, others[2];
    CLEANUP(buf_free) struct buf many = BUF_INIT;
    for (int i = 0; i < REQUESTS; i++) {
        buf_puts(&many, "GET /get HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    static const char once[] = "GET /get HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    open_world(&world, default_options);
    ask(&others[0], &world, "/trust", "trusted");
    ask(&talker, &world, "/trust", "trusted");
    ask(&others[1], &world, "/trust", "trusted");
    pump(&world); /* nobody waits for a turn any more */
    int before = world.n_headers;
    /* In whichever order they are told of, one that is closed then comes last. */
    assert_int_equal(send(others[0].fd, once, strlen(once), MSG_NOSIGNAL), (ssize_t)strlen(once));
    assert_int_equal(send(talker.fd, many.data, many.len, MSG_NOSIGNAL), (ssize_t)many.len);
    assert_int_equal(send(others[1].fd, once, strlen(once), MSG_NOSIGNAL), (ssize_t)strlen(once));
    pump(&world);
    pump(&world);
    assert_in_range(world.n_headers - before, 1, REQUESTS / 2);
    client_expect_end(&others[0]);
    client_expect_end(&others[1]);
    PUMP_UNTIL(&world, world.n_headers - before == REQUESTS + 2);
    client_close(&talker);
    client_close(&others[0]);
    client_close(&others[1]);
    close_world(&world);
}

/* A connection that has said all it had to say is there, and counted, until its caller has taken it, or takes
 * nothing. */
static void counts_what_the_kernel_still_has_to_deliver(void **state)
{
    (void)state;
    struct world world;
    struct client client;
    int small = 4096;
    open_world(&world, default_options);
    client_open(&client, &world);
    setsockopt(client.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    client_send(&client, "GET /large/60000 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    PUMP_UNTIL(&world, world.n_ends == 1);
    assert_int_equal(http_server_connections(world.server), 1);
    PUMP_UNTIL(&world, http_server_connections(world.server) == 0);
    char data[65536];
    ssize_t n;
    while ((n = recv(client.fd, data, sizeof data, MSG_DONTWAIT)) > 0) {
    }
    assert_true(n < 0 && errno == ECONNRESET);
    client_close(&client);
    close_world(&world);
}

static void limits_the_connections_of_an_address(void **state)
{
    (void)state;
    struct world world;
    struct client trusted, first, second, late;
    struct http_options options = default_options;
    options.max_connections_per_address = 2;
    open_world(&world, options);
    ask(&trusted, &world, "/trust", "trusted");
    ask(&first, &world, "/get", "got");
    ask(&second, &world, "/trust", "trusted");
    client_expect_end(&first);
    client_open(&late, &world);
    client_expect_end(&late); /* the others have all shown a key */
    assert_int_equal(http_server_connections(world.server), 2);
    client_close(&trusted);
    client_close(&first);
    client_close(&second);
    client_close(&late);
    close_world(&world);
}

static uint64_t network_of(const char *text)
{
    union http_address address = {.ip6.sin6_family = AF_INET6};
    if (inet_pton(AF_INET6, text, &address.ip6.sin6_addr) != 1) {
        address.ip4 = (struct sockaddr_in){.sin_family = AF_INET};
        assert_int_equal(inet_pton(AF_INET, text, &address.ip4.sin_addr), 1);
    }
    return http_address_network(&address);
}

static void counts_ipv6_by_network(void **state)
{
    (void)state;
    assert_true(network_of("2001:db8::1") == network_of("2001:db8::ffff:ffff:ffff:ffff"));
    assert_true(network_of("2001:db8::1") != network_of("2001:db8:0:1::1"));
    assert_true(network_of("::ffff:192.0.2.1") == network_of("192.0.2.1"));
    assert_true(network_of("192.0.2.1") != network_of("192.0.2.2"));
}

/* It is asked whether it still reads, and does; one of HTTP/1.0 cannot be asked. */
static void replies_to_who_sends_no_more(void **state)
{
    (void)state;
    for (int minor = 0; minor < 2; minor++) {
        struct world world;
        struct client client;
        char text[64];
        open_world(&world, default_options);
        client_open(&client, &world);
        snprintf(text, sizeof text, "POST /later HTTP/1.%d\r\nHost: x\r\n\r\n", minor);
        client_send(&client, text);
        PUMP_UNTIL(&world, world.waiting);
        shutdown(client.fd, SHUT_WR);
        if (minor == 1) {
            client_expect(&client, "HTTP/1.1 100 Continue\r\n\r\n");
            reply_text(world.waiting, 200, "done");
            client_expect(&client, "\r\n\r\ndone");
        }
        client_expect_end(&client);
        assert_int_equal(world.n_hangups, 1 - minor);
        assert_int_equal(world.n_sent, minor);
        client_close(&client);
        close_world(&world);
    }
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

static void replies_later(void **state)
{
    (void)state;
    struct http_options options = default_options;
    options.request_timeout_ms = options.idle_timeout_ms = 2000; /* neither holds while a job runs */
    struct world world;
    struct client client;
    open_world(&world, options);
    client_open(&client, &world);
    client_send(&client, "POST /later HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi");
    PUMP_UNTIL(&world, world.waiting);
    uint64_t until = clock_now_ns() + 3 * NS_PER_S;
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

    http_server_drain(world.server, HTTP_HEIR_NONE, 0);
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

/* Somebody else has the listening socket, or will have it. */
static void leaves_who_may_be_about_to_speak(void **state)
{
    (void)state;
    static const enum http_heir heirs[] = {HTTP_HEIR_SERVES, HTTP_HEIR_COMES};
    for (size_t i = 0; i < ARRAY_SIZE(heirs); i++) {
        struct world world;
        struct client idle, fresh, late;
        open_world(&world, default_options);
        client_open(&idle, &world);
        client_send(&idle, "GET /get HTTP/1.1\r\nHost: x\r\n\r\n");
        client_expect(&idle, "got");

        http_server_drain(world.server, heirs[i], 60000);
        client_open(&fresh, &world);
        client_send(&fresh, "GET /get HTTP/1.1\r\nHost: x\r\n\r\n");
        if (heirs[i] == HTTP_HEIR_COMES) { /* as long as it waits for somebody, it takes others */
            client_expect(&fresh, "Connection: close");
            client_expect_end(&fresh);
        }
        client_send(&idle, "GET /get HTTP/1.1\r\nHost: x\r\n\r\n");
        client_expect(&idle, "Connection: close");
        client_expect_end(&idle);
        PUMP_UNTIL(&world, http_server_connections(world.server) == 0);
        client_open(&late, &world);
        client_send(&late, "GET /get HTTP/1.1\r\nHost: x\r\n\r\n");
        pump(&world);
        pump(&world);
        assert_int_equal(http_server_connections(world.server), 0);
        assert_int_equal(world.n_sent, heirs[i] == HTTP_HEIR_COMES ? 3 : 2);
        client_close(&late);
        client_close(&fresh);
        client_close(&idle);
        close_world(&world);
    }
}

static void does_not_wait_for_ever_for_who_says_nothing(void **state)
{
    (void)state;
    struct world world;
    struct client idle, silent;
    open_world(&world, default_options);
    client_open(&silent, &world);
    client_open(&idle, &world);
    client_send(&idle, "GET /get HTTP/1.1\r\nHost: x\r\n\r\n");
    client_expect(&idle, "got");
    http_server_drain(world.server, HTTP_HEIR_COMES, 1);
    client_expect_end(&idle);
    client_expect_end(&silent);
    client_close(&idle);
    client_close(&silent);
    close_world(&world);
}

/* What it has sent has not been looked at. */
static void answers_who_has_spoken_just_in_time(void **state)
{
    (void)state;
    struct world world;
    struct client idle;
    const char request[] = "GET /get HTTP/1.1\r\nHost: x\r\n\r\n";
    open_world(&world, default_options);
    client_open(&idle, &world);
    client_send(&idle, request);
    client_expect(&idle, "got");
    assert_int_equal(send(idle.fd, request, strlen(request), 0), strlen(request));
    http_server_drain(world.server, HTTP_HEIR_NONE, 0);
    client_expect(&idle, "Connection: close");
    client_expect_end(&idle);
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
        cmocka_unit_test(keeps_those_with_a_key),
        cmocka_unit_test(one_key_does_not_take_all_places),
        cmocka_unit_test(a_round_ends),
        cmocka_unit_test(counts_what_the_kernel_still_has_to_deliver),
        cmocka_unit_test(limits_the_connections_of_an_address),
        cmocka_unit_test(counts_ipv6_by_network),
        cmocka_unit_test(replies_to_who_sends_no_more),
        cmocka_unit_test(takes_requests_one_behind_the_other),
        cmocka_unit_test(replies_later),
        cmocka_unit_test(notices_who_hangs_up),
        cmocka_unit_test(notices_an_end_that_comes_with_the_last_bytes),
        cmocka_unit_test(forgets_secrets),
        cmocka_unit_test(does_not_decode_paths),
        cmocka_unit_test(drains),
        cmocka_unit_test(leaves_who_may_be_about_to_speak),
        cmocka_unit_test(does_not_wait_for_ever_for_who_says_nothing),
        cmocka_unit_test(answers_who_has_spoken_just_in_time),
        cmocka_unit_test(frees_what_still_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
