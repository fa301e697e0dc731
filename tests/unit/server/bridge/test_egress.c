/* server/bridge/egress.c and server/bridge/egress_connection.c, with this file in the places of the program
 * and of the package index. */
#include "server/bridge/egress.h"

#include <errno.h>
#include <sys/ioctl.h>

#include "tests/unit/server/egress_world.h"

#define ROUNDS_MAX 2000 /* of the loop, until something must have happened */

/* The next frame, behind the hello. */
static void hear(struct test *test, struct buf *ret)
{
    ret->len = 0;
    for (int i = 0; i < ROUNDS_MAX; i++) {
        char data[65536];
        uint32_t size;
        ssize_t n = read(test->in, data, sizeof data);
        if (n > 0) {
            buf_append(&test->heard, data, (size_t)n);
        }
        while (test->heard.len >= sizeof size) {
            memcpy(&size, test->heard.data, sizeof size);
            size = be32toh(size);
            if (test->heard.len < sizeof size + size) {
                break;
            }
            buf_append(ret, test->heard.data + sizeof size, size);
            test->heard.len -= sizeof size + size;
            memmove(test->heard.data, test->heard.data + sizeof size + size, test->heard.len);
            if (!strstr(ret->data, "\"hello\"")) {
                return;
            }
            ret->len = 0;
        }
        turn(test);
    }
    fail_msg("no frame came");
}

static void expect(struct test *test, const char *text)
{
    CLEANUP(buf_free) struct buf frame = BUF_INIT;
    hear(test, &frame);
    assert_string_equal(frame.data, text);
}

static void expect_data(struct test *test, const char *data)
{
    CLEANUP(buf_free) struct buf frame = BUF_INIT;
    hear(test, &frame);
    assert_int_equal(frame.data[0], 1);
    assert_int_equal(frame.len, 9 + strlen(data));
    assert_memory_equal(frame.data + 9, data, strlen(data));
}

/* A connection of the program's, as its index sees it. */
static int connected(struct test *test, uint64_t id)
{
    char answer[64];
    say(test, "{\"op\":\"open\",\"id\":%d,\"host\":\"127.0.0.1\",\"port\":%u}", (int)id, test->port);
    snprintf(answer, sizeof answer, "{\"op\":\"answer\",\"id\":%d}", (int)id);
    expect(test, answer);
    int fd = accept4(test->listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static bool counted(const struct test *test, const char *line)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    metrics_write(test->metrics, &text);
    return strstr(text.data, line) != NULL;
}

static void test_index(void **state)
{
    struct test *test = *state;
    CLEANUP(buf_free) struct buf frame = BUF_INIT;
    say(test, "{\"op\":\"index\",\"id\":1,\"installer\":\"pip\"}");
    hear(test, &frame);
    assert_non_null(strstr(frame.data, "{\"op\":\"answer\",\"id\":1,\"data\":\"{\\\"url\\\":"));
    assert_non_null(strstr(frame.data, test->urls[0]));
    say(test, "{\"op\":\"index\",\"id\":2,\"installer\":\"npm\"}");
    expect(test, "{\"op\":\"answer\",\"id\":2,\"data\":\"\"}");
    say(test, "{\"op\":\"index\",\"id\":3}");
    expect(test, "{\"op\":\"answer\",\"id\":3,\"data\":\"\"}");
}

static void test_both_ways(void **state)
{
    struct test *test = *state;
    char data[16] = "";
    int fd = connected(test, 9);
    say_data(test, 9, "ping", 4);
    expect(test, "{\"op\":\"window\",\"id\":9,\"bytes\":4}");
    assert_int_equal(read(fd, data, sizeof data), 4);
    assert_string_equal(data, "ping");
    assert_int_equal(write(fd, "pong", 4), 4);
    expect_data(test, "pong");
    say_data(test, 9, "", 0);
    shutdown(fd, SHUT_WR);
    expect_data(test, "");
    assert_int_equal(read(fd, data, sizeof data), 0);
    assert_true(counted(test, "immure_egress_connections_total{outcome=\"closed\"} 1"));
    assert_true(counted(test, "immure_egress_bytes_total{direction=\"sent\"} 4"));
    close(fd);
    fd = connected(test, 9); /* the number is free again */
    close(fd);
}

static void test_refused_hosts(void **state)
{
    struct test *test = *state;
    static const char *const hosts[] = {"127.0.0.2", "localhost", "", "::1", "127.1"};
    for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
        char answer[128];
        say(test, "{\"op\":\"open\",\"id\":%zu,\"host\":\"%s\",\"port\":%u}", i, hosts[i], test->port);
        snprintf(answer, sizeof answer,
                 "{\"op\":\"answer\",\"id\":%zu,\"error\":\"that host and port are no package index of this "
                 "server\"}",
                 i);
        expect(test, answer);
    }
    assert_true(counted(test, "immure_egress_connections_total{outcome=\"refused\"} 5"));
}

static void test_nobody_listens(void **state)
{
    struct test *test = *state;
    say(test, "{\"op\":\"open\",\"id\":1,\"host\":\"127.0.0.1\",\"port\":%u}", test->entries[1].url.port);
    expect(test, "{\"op\":\"answer\",\"id\":1,\"error\":\"Connection refused\"}");
    assert_true(counted(test, "immure_egress_connections_total{outcome=\"failed\"} 1"));
}

/* An index that does not read, and one that sends and sends. */
static void test_windows(void **state)
{
    struct test *test = *state;
    static char much[40000];
    size_t got = 0;
    int fd = connected(test, 1);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    while (write(fd, much, sizeof much) > 0) {
    }
    while (got < EGRESS_WINDOW_BYTES) {
        CLEANUP(buf_free) struct buf frame = BUF_INIT;
        hear(test, &frame);
        got += frame.len - 9;
    }
    assert_int_equal(got, EGRESS_WINDOW_BYTES);
    for (int i = 0; i < 10; i++) {
        turn(test);
    }
    assert_int_equal(read(test->in, much, sizeof much), -1); /* not a byte more */
    say(test, "{\"op\":\"window\",\"id\":1,\"bytes\":5}");
    CLEANUP(buf_free) struct buf frame = BUF_INIT;
    hear(test, &frame);
    assert_int_equal(frame.len, 9 + 5);
    close(fd);
}

/* A program that asks for more and more and fetches nothing is not heard any more at some point. */
static void test_nobody_fetches(void **state)
{
    struct test *test = *state;
    static char much[40000];
    test->config.max_egress_bytes = UINT64_MAX;
    int fd = connected(test, 1);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    const struct egress_connection *connection = test->job->connections;
    for (bool heard = true; heard;) {
        while (connection->credit > 0) {
            while (write(fd, much, sizeof much) > 0) {
            }
            turn(test);
        }
        assert_true(connection->received < 100000 + EGRESS_WAITING_BYTES + 4 * EGRESS_WINDOW_BYTES);
        say(test, "{\"op\":\"window\",\"id\":1,\"bytes\":%u}", EGRESS_WINDOW_BYTES);
        for (int i = 0; i < 5 && connection->credit == 0; i++) {
            turn(test);
        }
        heard = connection->credit > 0;
    }
    assert_string_equal(test->broken, "");
    close(fd);
}

static void test_reset(void **state)
{
    struct test *test = *state;
    const struct linger at_once = {1, 0};
    int fd = connected(test, 3);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
    expect(test, "{\"op\":\"gone\",\"id\":3,\"error\":\"Connection reset by peer\"}");
}

static void test_too_many_bytes(void **state)
{
    struct test *test = *state;
    CLEANUP(buf_free) struct buf frame = BUF_INIT;
    test->config.max_egress_bytes = 10;
    int fd = connected(test, 3);
    assert_int_equal(write(fd, "01234567890", 11), 11);
    hear(test, &frame); /* those that have come */
    expect(test, "{\"op\":\"gone\",\"id\":3,\"error\":\"this job has moved as many bytes as it may\"}");
    say(test, "{\"op\":\"open\",\"id\":4,\"host\":\"127.0.0.1\",\"port\":%u}", test->port);
    expect(test, "{\"op\":\"answer\",\"id\":4,\"error\":\"this job has moved as many bytes as it may\"}");
    close(fd);
}

static void test_too_long(void **state)
{
    struct test *test = *state;
    test->config.egress_timeout_ms = 1;
    int fd = connected(test, 3);
    expect(test, "{\"op\":\"gone\",\"id\":3,\"error\":\"the connection has lasted as long as it may\"}");
    assert_true(counted(test, "immure_egress_connections_total{outcome=\"timeout\"} 1"));
    close(fd);
}

static void test_broken_rules(void **state)
{
    struct test *test = *state;
    static char much[40000];
    test->config.max_egress_bytes = UINT64_MAX;
    int fd = connected(test, 1);
    int small = 1;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    for (int i = 0; i < 1000 && !test->broken[0]; i++) { /* granted or not */
        char data[65536];
        say_data(test, 1, much, sizeof much);
        for (int left = 1; left > 0;) { /* until it has been fetched */
            turn(test);
            assert_int_equal(ioctl(test->out, FIONREAD, &left), 0);
        }
        while (read(test->in, data, sizeof data) > 0) {
        }
    }
    assert_string_equal(test->broken, "more bytes for a connection than its window");
    assert_true(counted(test, "immure_egress_connections_total{outcome=\"cancelled\"} 1"));
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_index, start, stop),
        cmocka_unit_test_setup_teardown(test_both_ways, start, stop),
        cmocka_unit_test_setup_teardown(test_refused_hosts, start, stop),
        cmocka_unit_test_setup_teardown(test_nobody_listens, start, stop),
        cmocka_unit_test_setup_teardown(test_windows, start, stop),
        cmocka_unit_test_setup_teardown(test_nobody_fetches, start, stop),
        cmocka_unit_test_setup_teardown(test_reset, start, stop),
        cmocka_unit_test_setup_teardown(test_too_many_bytes, start, stop),
        cmocka_unit_test_setup_teardown(test_too_long, start, stop),
        cmocka_unit_test_setup_teardown(test_broken_rules, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
