/* server/http/unread.c, and the budgets of bodies in server/http/http.c: callers who do not read what they
 * have asked for, or do not end what they send. */
#include "tests/unit/server/http_world.h"

#define LARGE 16000000 /* more than the buffers of both sockets hold */

static void ask(struct client *client, struct world *world, unsigned account, const char *path)
{
    char request[256];
    client_open(client, world);
    int small = 131072; /* much smaller ones would be slow */
    setsockopt(client->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: x\r\nX-Account: %u\r\n\r\n", path, account);
    client_send(client, request);
}

/* Reset, or ended, where it begins to read while that is on its way: in either case it lacks something. */
static bool is_cut_off(struct client *client)
{
    char data[65536];
    ssize_t n;
    while ((n = recv(client->fd, data, sizeof data, MSG_DONTWAIT)) > 0) {
        buf_append(&client->got, data, (size_t)n);
    }
    assert_true(client->got.len < LARGE);
    return n == 0 || errno == ECONNRESET;
}

static void who_takes_nothing_is_dropped(void **state)
{
    (void)state;
    struct http_options options = default_options;
    options.reply_stall_ms = 300;
    struct world world;
    struct client client;
    open_world(&world, options);
    ask(&client, &world, 0, "/large/16000000");
    PUMP_UNTIL(&world, http_server_unread_bytes(world.server) == LARGE);
    PUMP_UNTIL(&world, world.n_dropped == 1);
    assert_int_equal(world.last_drop, HTTP_DROP_STALLED);
    assert_int_equal(http_server_unread_bytes(world.server), 0);
    PUMP_UNTIL(&world, world.n_ends == 1);
    assert_int_equal(world.n_sent, 0);
    assert_true(is_cut_off(&client)); /* the kernel keeps nothing either */
    assert_int_equal(errno, ECONNRESET);
    client_close(&client);
    close_world(&world);
}

/* Every few milliseconds a little: the whole takes many times as long as one may stall. */
static void who_takes_a_little_gets_all(void **state)
{
    (void)state;
    struct http_options options = default_options;
    options.reply_stall_ms = 400;
    struct world world;
    struct client client;
    char data[65536];
    open_world(&world, options);
    ask(&client, &world, 0, "/large/16000000");
    size_t got = 0;
    uint64_t start_ns = clock_now_ns();
    while (got < LARGE) {
        ssize_t n = recv(client.fd, data, sizeof data, MSG_DONTWAIT);
        assert_true(n > 0 || (n < 0 && errno == EAGAIN));
        got += n > 0 ? (size_t)n : 0;
        for (uint64_t until_ns = start_ns + got * NS_PER_S / LARGE; clock_now_ns() < until_ns;) {
            pump(&world); /* a second for all of it */
        }
        pump(&world);
    }
    assert_int_equal(world.n_dropped, 0);
    PUMP_UNTIL(&world, world.n_sent == 1);
    client_close(&client);
    close_world(&world);
}

static void over_the_budget_the_slowest_goes(void **state)
{
    (void)state;
    struct http_options options = default_options;
    options.n_accounts = 3;
    options.max_unread_bytes = 3 * LARGE + LARGE / 2;
    options.max_unread_bytes_per_account = 2 * LARGE + LARGE / 2;
    struct world world;
    struct client clients[5];
    open_world(&world, options);
    for (size_t i = 0; i < 2; i++) {
        ask(&clients[i], &world, 1, "/large/16000000");
        PUMP_UNTIL(&world, http_server_unread_bytes(world.server) == (i + 1) * LARGE);
    }
    /* A third one of the same key is beyond its share, although there is room: the first goes. */
    ask(&clients[2], &world, 1, "/large/16000000");
    PUMP_UNTIL(&world, world.n_dropped == 1);
    assert_int_equal(world.last_drop, HTTP_DROP_BUDGET);
    assert_int_equal(http_server_unread_bytes(world.server), 2 * LARGE);
    PUMP_UNTIL(&world, is_cut_off(&clients[0]));
    /* Another key's fits once. With its second all are too many, and the key that has most pays. */
    ask(&clients[3], &world, 2, "/large/16000000");
    PUMP_UNTIL(&world, http_server_unread_bytes(world.server) == 3 * LARGE);
    assert_int_equal(world.n_dropped, 1);
    ask(&clients[4], &world, 2, "/large/9000000");
    PUMP_UNTIL(&world, world.n_dropped == 2);
    PUMP_UNTIL(&world, is_cut_off(&clients[1]));
    assert_int_equal(http_server_unread_bytes(world.server), 2 * LARGE + 9000000);
    for (size_t i = 0; i < ARRAY_SIZE(clients); i++) {
        client_close(&clients[i]);
    }
    PUMP_UNTIL(&world, world.n_ends == 5);
    assert_int_equal(http_server_unread_bytes(world.server), 0);
    close_world(&world);
}

static void one_reply_may_be_larger_than_the_budget(void **state)
{
    (void)state;
    struct http_options options = default_options;
    options.max_unread_bytes = options.max_unread_bytes_per_account = 1000;
    struct world world;
    struct client client;
    open_world(&world, options);
    ask(&client, &world, 0, "/large/16000000");
    char data[65536];
    size_t got = 0;
    while (got < LARGE) {
        ssize_t n = recv(client.fd, data, sizeof data, MSG_DONTWAIT);
        assert_true(n > 0 || (n < 0 && errno == EAGAIN));
        got += n > 0 ? (size_t)n : 0;
        pump(&world);
    }
    assert_int_equal(world.n_dropped, 0);
    client_close(&client);
    close_world(&world);
}

static void begin_body(struct client *client, struct world *world, unsigned account, size_t announced,
                       size_t sent)
{
    char request[256], body[1001];
    client_open(client, world);
    snprintf(request, sizeof request,
             "POST /now HTTP/1.1\r\nHost: x\r\nX-Account: %u\r\nContent-Length: %zu\r\n\r\n", account,
             announced);
    client_send(client, request);
    memset(body, 'x', sent);
    body[sent] = '\0';
    client_send(client, body);
}

static void a_key_does_not_take_all_room_for_bodies(void **state)
{
    (void)state;
    struct http_options options = default_options;
    options.n_accounts = 3;
    options.max_bodies_bytes = 2000;
    struct world world;
    struct client first, second, other;
    open_world(&world, options);
    begin_body(&first, &world, 1, 1000, 900);
    begin_body(&second, &world, 1, 1000, 200);
    client_expect(&second, "429");
    assert_int_equal(world.last_fault, HTTP_FAULT_NO_SHARE);
    begin_body(&other, &world, 2, 500, 500);
    client_expect(&other, "POST 500 bytes");
    client_close(&first);
    client_close(&second);
    PUMP_UNTIL(&world, world.n_ends == 3);
    begin_body(&first, &world, 1, 900, 900);
    client_expect(&first, "POST 900 bytes");
    client_close(&first);
    client_close(&other);
    close_world(&world);
}

/* Also of the key that fills the room for large ones. */
static void there_is_room_for_small_bodies(void **state)
{
    (void)state;
    struct http_options options = default_options;
    options.max_bodies_bytes = 1000;
    options.max_small_bodies_bytes = 100;
    options.small_body_bytes = 60;
    struct world world;
    struct client large, second, small;
    open_world(&world, options);
    begin_body(&large, &world, 0, 1000, 990);
    begin_body(&second, &world, 0, 100, 61); /* it has been a small one until it was too large */
    client_expect(&second, "503");
    begin_body(&small, &world, 0, 60, 60);
    client_expect(&small, "POST 60 bytes");
    client_close(&large);
    client_close(&second);
    client_close(&small);
    close_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_takes_nothing_is_dropped),
        cmocka_unit_test(who_takes_a_little_gets_all),
        cmocka_unit_test(over_the_budget_the_slowest_goes),
        cmocka_unit_test(one_reply_may_be_larger_than_the_budget),
        cmocka_unit_test(a_key_does_not_take_all_room_for_bodies),
        cmocka_unit_test(there_is_room_for_small_bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
