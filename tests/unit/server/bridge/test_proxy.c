/* server/bridge/proxy.c, proxy_connection.c and proxy_pump.c, with this file in the places of programs and of
 * the host, over real sockets and in one thread. */
#include "server/bridge/proxy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/message/egress.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/loop.h"
#include "server/bridge/proxy_internal.h"
#include "server/bridge/tools.h"
#include "server/kit/log.h"
#include "server/kit/metrics.h"

#define ROUNDS_MAX 20000 /* of the loop, until something must have happened */

struct test {
    struct loop *loop;
    struct log *log;
    int log_fd;
    struct metrics *metrics;
    struct proxy *proxy;
    struct proxy_job *job;
    struct server_config config;
    struct egress_secret_config secret;
    struct egress_header header;
    char *method, *private;
    struct egress_rule rules[4];
    struct egress_rules policy;
    struct egress_policies policies;
    struct tools who;
    int listener; /* the host's */
    uint16_t port;
};

static char localhost[] = "localhost", get[] = "GET", x_key[] = "X-Key", api[] = "api", s3cret[] = "s3cret",
            policy[] = "p", nothing[] = "";

static int listen_on_loopback(uint16_t *ret_port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof in;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&in, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &size), 0);
    assert_int_equal(listen(fd, 256), 0);
    *ret_port = ntohs(in.sin_port);
    return fd;
}

static void turn(struct test *test)
{
    assert_int_equal(loop_once(test->loop, 1, NULL), 0);
    proxy_run(test->proxy);
}

/* Rules of one host with three ports: plain HTTP, a tunnel to the same socket, and one where nobody listens.
 */
static void make_rules(struct test *test, uint16_t tunnel_port, uint16_t unused)
{
    test->secret = (struct egress_secret_config){api, nothing, s3cret};
    test->header = (struct egress_header){x_key, api};
    test->method = get;
    test->rules[0] = (struct egress_rule){.host = localhost,
                                          .port = test->port,
                                          .mode = EGRESS_HTTP,
                                          .max_bytes = 1 << 30,
                                          .headers = &test->header,
                                          .n_headers = 1};
    test->rules[1] = (struct egress_rule){
        .host = localhost, .port = tunnel_port, .mode = EGRESS_TUNNEL, .max_bytes = 1 << 30};
    test->rules[2] =
        (struct egress_rule){.host = localhost, .port = unused, .mode = EGRESS_HTTP, .max_bytes = 1 << 30};
    test->policy = (struct egress_rules){policy, test->rules, 3};
    test->policies = (struct egress_policies){&test->policy, 1};
    test->private = localhost;
    test->config = (struct server_config){.egress_private_hosts = &test->private,
                                          .n_egress_private_hosts = 1,
                                          .egress_secrets = &test->secret,
                                          .n_egress_secrets = 1,
                                          .callback_ca_file = nothing,
                                          .max_egress_bytes = 1u << 30,
                                          .max_egress_connections = 200,
                                          .egress_timeout_ms = 600000};
}

static struct sockaddr_in address_of(int fd)
{
    struct sockaddr_in in;
    socklen_t size = sizeof in;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &size), 0);
    return in;
}

static int start_for(void **state, bool tunnel)
{
    struct test *test = calloc(1, sizeof *test);
    uint16_t unused, port;
    signal(SIGPIPE, SIG_IGN);
    test->listener = listen_on_loopback(&port);
    int other = listen_on_loopback(&unused);
    close(other);
    test->port = tunnel ? 1 : port;
    make_rules(test, tunnel ? port : 1, unused);
    test->port = port;
    test->log_fd = memfd_create("log", MFD_CLOEXEC);
    test->log = log_new(test->log_fd, LOG_FORMAT_LOGFMT, LOG_INFO, "front");
    test->metrics = metrics_new();
    test->who = (struct tools){.audit = test->log,
                               .metrics = test->metrics,
                               .execution_id = "e",
                               .key = "k",
                               .request_id = "r",
                               .traceparent = ""};
    assert_int_equal(loop_new(&test->loop, NULL), 0);
    assert_int_equal(proxy_new(test->loop, test->log, &test->config, &test->policies, &test->proxy, NULL), 0);
    int fd = listen_on_loopback(&port);
    test->job = proxy_job_new(test->proxy, &test->who, test->rules, 3, fd);
    assert_non_null(test->job);
    *state = test;
    return 0;
}

static int start_http(void **state)
{
    return start_for(state, false);
}

static int start_tunnel(void **state)
{
    return start_for(state, true);
}

static int stop(void **state)
{
    struct test *test = *state;
    proxy_job_free(test->job);
    proxy_free(test->proxy);
    loop_free(test->loop);
    metrics_free(test->metrics);
    log_free(test->log);
    close(test->log_fd);
    close(test->listener);
    free(test);
    return 0;
}

/* ---- The program and the host ---- */

static int program(struct test *test)
{
    struct sockaddr_in in = address_of(test->job->listen_fd);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&in, sizeof in), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static void say_all(struct test *test, int fd, const char *data, size_t size)
{
    size_t at = 0;
    for (int i = 0; at < size && i < ROUNDS_MAX; i++) {
        ssize_t n = send(fd, data + at, size - at, MSG_NOSIGNAL);
        at += n > 0 ? (size_t)n : 0;
        turn(test);
    }
    assert_int_equal(at, size);
}

static void say(struct test *test, int fd, const char *text)
{
    say_all(test, fd, text, strlen(text));
}

static int ask(struct test *test, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int ask(struct test *test, const char *fmt, ...)
{
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    int fd = program(test);
    say(test, fd, line);
    return fd;
}

static int accepted(struct test *test)
{
    for (int i = 0; i < ROUNDS_MAX; i++) {
        int fd = accept4(test->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            return fd;
        }
        turn(test);
    }
    fail_msg("nobody connects to the host");
    return -1;
}

/* What comes until the text is there, or the end. Returns whether there was one: 0, or the errno of a break.
 */
static int hear(struct test *test, int fd, const char *until, struct buf *ret)
{
    buf_puts(ret, "");
    for (int i = 0; i < ROUNDS_MAX; i++) {
        char data[65536];
        ssize_t n = recv(fd, data, sizeof data, 0);
        if (n > 0) {
            buf_append(ret, data, (size_t)n);
        } else if (n == 0) {
            return 0;
        } else if (errno != EAGAIN) {
            return errno;
        }
        if (until && strstr(ret->data, until)) {
            return EAGAIN;
        }
        turn(test);
    }
    fail_msg("nothing came but %s", ret->data);
    return -1;
}

static void expect(struct test *test, int fd, const char *text)
{
    CLEANUP(buf_free) struct buf heard = BUF_INIT;
    hear(test, fd, text, &heard);
    assert_string_equal(heard.data, text);
}

/* All of it, to an end in order. */
static void expect_end(struct test *test, int fd, const char *text)
{
    CLEANUP(buf_free) struct buf heard = BUF_INIT;
    assert_int_equal(hear(test, fd, NULL, &heard), 0);
    assert_string_equal(heard.data, text);
}

static void expect_reply(struct test *test, int fd, const char *line, const char *sentence)
{
    CLEANUP(buf_free) struct buf heard = BUF_INIT;
    assert_int_equal(hear(test, fd, NULL, &heard), 0);
    if (strncmp(heard.data, line, strlen(line)) != 0 || !strstr(heard.data, sentence)) {
        fail_msg("%s", heard.data);
    }
    close(fd);
}

/* Until the log has it. */
static void expect_line(struct test *test, const char *text)
{
    static char log[65536];
    for (int i = 0; i < ROUNDS_MAX; i++) {
        ssize_t n = pread(test->log_fd, log, sizeof log - 1, 0);
        log[n < 0 ? 0 : n] = '\0';
        if (strstr(log, text)) {
            return;
        }
        turn(test);
    }
    fail_msg("%s", log);
}

static bool counted(const struct test *test, const char *line)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    metrics_write(test->metrics, &text);
    return strstr(text.data, line) != NULL;
}

static void expect_all_gone(struct test *test)
{
    for (int i = 0; i < ROUNDS_MAX && test->job->n_open > 0; i++) {
        turn(test);
    }
    assert_int_equal(test->job->n_open, 0);
}

/* ---- HTTP ---- */

static void sends_a_request_and_its_answer(void **state)
{
    struct test *test = *state;
    static const char answer[] = "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nhi";
    char want[256];
    int fd = ask(test,
                 "POST http://localhost:%u/a?b HTTP/1.1\r\nHost: x\r\nX-Key: own\r\nX+Key: "
                 "own\r\nContent-Length: 4\r\n\r\nbody",
                 test->port);
    int host = accepted(test);
    snprintf(want, sizeof want,
             "POST /a?b HTTP/1.1\r\nHost: localhost:%u\r\nX-Key: s3cret\r\nContent-Length: 4\r\nConnection: "
             "close\r\n\r\nbody",
             test->port);
    expect(test, host, want);
    say(test, host, answer);
    close(host);
    expect_end(test, fd, answer);
    close(fd);
    expect_all_gone(test);
    expect_line(test, "host=localhost");
    expect_line(test, "method=POST status=201 outcome=closed");
    assert_true(counted(test, "immure_egress_connections_total{outcome=\"closed\"} 1"));
    assert_true(counted(test, "immure_egress_bytes_total{direction=\"received\"} 45"));
}

static void hears_nothing_behind_the_request(void **state)
{
    struct test *test = *state;
    static const char *const bodies[] = {
        "Content-Length: 2\r\n\r\nokGET /admin HTTP/1.1\r\nHost: x\r\n\r\n",
        "\r\nGET /admin HTTP/1.1\r\nHost: x\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n02;a=b\r\nok\r\n0\r\nX-Key: own\r\n\r\nGET / HTTP/1.1\r\n\r\n",
    };
    static const char *const heard[] = {
        "Content-Length: 2\r\nConnection: close\r\n\r\nok", "Connection: close\r\n\r\n",
        "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nok\r\n0\r\n\r\n"};
    for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
        char want[512];
        int fd = ask(test, "GET http://localhost:%u/ HTTP/1.1\r\nHost: x\r\n%s", test->port, bodies[i]);
        int host = accepted(test);
        snprintf(want, sizeof want, "GET / HTTP/1.1\r\nHost: localhost:%u\r\nX-Key: s3cret\r\n%s", test->port,
                 heard[i]);
        expect(test, host, want);
        say(test, host, "HTTP/1.1 204 No Content\r\n\r\n");
        shutdown(host, SHUT_WR);
        expect_end(test, fd, "HTTP/1.1 204 No Content\r\n\r\n");
        expect_end(test, host, "");
        close(host);
        close(fd);
    }
    expect_all_gone(test);
}

/* A byte at a time, and a body in chunks that are cut anywhere. */
static void takes_requests_in_pieces(void **state)
{
    struct test *test = *state;
    char text[512], want[512];
    int size = snprintf(text, sizeof text,
                        "PUT http://localhost:%u/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                        "3\r\nabc\r\n00a\r\n0123456789\r\n0\r\n\r\n",
                        test->port);
    int fd = program(test);
    for (int i = 0; i < size; i++) {
        say_all(test, fd, text + i, 1);
    }
    int host = accepted(test);
    CLEANUP(buf_free) struct buf heard = BUF_INIT;
    snprintf(want, sizeof want, "\r\n0\r\n\r\n");
    hear(test, host, want, &heard);
    const char *body = strstr(heard.data, "\r\n\r\n");
    char data[64] = "";
    assert_non_null(body);
    for (body += 4; *body != '0' || body[1] != '\r';) {
        char *end;
        unsigned long n = strtoul(body, &end, 16);
        strncat(data, end + 2, n);
        body = end + 2 + n + 2;
    }
    assert_string_equal(data, "abc0123456789");
    close(fd);
    close(host);
    expect_all_gone(test);
}

static void refuses_by_a_sentence(void **state)
{
    struct test *test = *state;
    test->rules[0].methods = &test->method;
    test->rules[0].n_methods = 1;
    char big[PROXY_BUFFER_BYTES + 100];
    memset(big, 'a', sizeof big);
    expect_reply(test, ask(test, "GET http://other.example:8/ HTTP/1.1\r\nHost: x\r\n\r\n"),
                 "HTTP/1.1 403 Forbidden\r\n",
                 "host \"other.example\" port 8 is not in this job's policy (egress)\n");
    expect_line(test, "host=other.example port=8 method=GET status=403 outcome=refused");
    expect_reply(test,
                 ask(test, "POST http://localhost:%u/ HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
                     test->port),
                 "HTTP/1.1 403 Forbidden\r\n", "method \"POST\" is not among those");
    expect_reply(test, ask(test, "CONNECT localhost:%u HTTP/1.1\r\nHost: x\r\n\r\n", test->port),
                 "HTTP/1.1 403 Forbidden\r\n", "in plain HTTP");
    expect_reply(test, ask(test, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "HTTP/1.1 400 Bad Request\r\n",
                 "this is a proxy");
    expect_reply(test, ask(test, "\x16\x03\x01\x02\x01\n\n"), "HTTP/1.1 400 Bad Request\r\n",
                 "no sound HTTP/1.1");
    expect_reply(test, ask(test, "GET http://localhost:%u/ HTTP/1.1\r\nHost: x\r\n\r\n", test->rules[2].port),
                 "HTTP/1.1 502 Bad Gateway\r\n", "connect");
    int fd = program(test);
    say_all(test, fd, big, sizeof big);
    expect_reply(test, fd, "HTTP/1.1 431 Request Header Fields Too Large\r\n", "longer than 16384 bytes");
    assert_true(counted(test, "immure_egress_connections_total{outcome=\"refused\"} 6"));
    assert_true(counted(test, "immure_egress_connections_total{outcome=\"failed\"} 1"));
    assert_int_equal(accept4(test->listener, NULL, NULL, 0), -1);
}

static void cuts_a_body_that_is_no_chunks(void **state)
{
    struct test *test = *state;
    int fd =
        ask(test, "POST http://localhost:%u/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            test->port);
    CLEANUP(buf_free) struct buf heard = BUF_INIT;
    int host = accepted(test);
    expect_reply(test, fd, "HTTP/1.1 400 Bad Request\r\n", "not in sound chunks");
    hear(test, host, NULL, &heard); /* ends, and with no body that looks whole */
    assert_null(strstr(heard.data, "0\r\n\r\n"));
    close(host);
}

static void tells_of_hosts_that_do_not_answer(void **state)
{
    struct test *test = *state;
    int fd = ask(test, "GET http://localhost:%u/ HTTP/1.1\r\nHost: x\r\n\r\n", test->port);
    close(accepted(test));
    expect_reply(test, fd, "HTTP/1.1 502 Bad Gateway\r\n", "host \"localhost\"");
    expect_line(test, "status=502 outcome=failed");
}

/* It answers and ends while the program still sends. */
static void passes_an_early_answer_on(void **state)
{
    struct test *test = *state;
    static char much[100000];
    static const char answer[] = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n";
    int fd = ask(test, "PUT http://localhost:%u/ HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n",
                 test->port);
    int host = accepted(test);
    say(test, host, answer);
    shutdown(host, SHUT_WR);
    send(fd, much, sizeof much, MSG_NOSIGNAL);
    expect_end(test, fd, answer);
    expect_line(test, "method=PUT status=413 outcome=closed");
    close(host);
    close(fd);
    expect_all_gone(test);
}

/* What was cut short must not look complete: there is no length that would tell. */
static void breaks_off_what_was_cut_short(void **state)
{
    struct test *test = *state;
    const struct linger at_once = {1, 0};
    CLEANUP(buf_free) struct buf heard = BUF_INIT;
    int fd = ask(test, "GET http://localhost:%u/ HTTP/1.1\r\nHost: x\r\n\r\n", test->port);
    int host = accepted(test);
    say(test, host, "HTTP/1.1 200 OK\r\n\r\nhalf");
    expect(test, fd, "HTTP/1.1 200 OK\r\n\r\nhalf");
    setsockopt(host, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(host);
    assert_int_equal(hear(test, fd, NULL, &heard), ECONNRESET);
    close(fd);
}

static void ends_with_a_program_that_leaves(void **state)
{
    struct test *test = *state;
    CLEANUP(buf_free) struct buf heard = BUF_INIT;
    int fd = ask(test, "POST http://localhost:%u/ HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345",
                 test->port);
    int host = accepted(test);
    close(fd);
    hear(test, host, NULL, &heard);
    close(host);
    close(ask(test, "GET http://local"));
    expect_all_gone(test);
    assert_true(counted(test, "immure_egress_connections_total{outcome=\"closed\"} 2"));
}

/* ---- Limits ---- */

static void limits_bytes_of_a_rule(void **state)
{
    struct test *test = *state;
    CLEANUP(buf_free) struct buf heard = BUF_INIT;
    test->rules[0].max_bytes = 500;
    char body[1000] = "HTTP/1.1 200 OK\r\n\r\n", head[600];
    memset(head, 'h', sizeof head - 1);
    head[sizeof head - 1] = '\0';
    expect_reply(test, ask(test, "GET http://localhost:%u/%s HTTP/1.1\r\nHost: x\r\n\r\n", test->port, head),
                 "HTTP/1.1 403 Forbidden\r\n", "as many bytes as it may");
    assert_false(counted(test, "immure_egress_bytes_total{direction=\"sent\"}"));
    memset(body + strlen(body), 'x', sizeof body - 1 - strlen(body));
    int fd = ask(test, "GET http://localhost:%u/ HTTP/1.1\r\nHost: x\r\n\r\n", test->port);
    int refused = accepted(test), host = accepted(test);
    close(refused);
    say(test, host, body);
    hear(test, fd, NULL, &heard);
    assert_true(heard.len < 500);
    close(fd);
    close(host);
    expect_line(test, "outcome=limit");
    expect_reply(test, ask(test, "GET http://localhost:%u/ HTTP/1.1\r\nHost: x\r\n\r\n", test->port),
                 "HTTP/1.1 403 Forbidden\r\n", "as many bytes as it may");
}

static void limits_connections(void **state)
{
    struct test *test = *state;
    test->config.max_egress_connections = 2;
    for (int i = 0; i < 2; i++) {
        expect_reply(test, ask(test, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "HTTP/1.1 400", "proxy");
    }
    for (int i = 0; i < 2; i++) {
        expect_reply(test, program(test), "HTTP/1.1 503 Service Unavailable\r\n",
                     "as many connections as it may");
    }
    assert_true(counted(test, "immure_egress_connections_total{outcome=\"refused\"} 2"));
    assert_false(counted(test, "outcome=\"limit\""));
}

static void holds_no_more_than_it_may_at_once(void **state)
{
    struct test *test = *state;
    int fds[PROXY_CONNECTIONS_MAX + 10];
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        fds[i] = program(test);
    }
    for (int i = 0; i < ROUNDS_MAX && test->job->n_open < PROXY_CONNECTIONS_MAX; i++) {
        turn(test);
    }
    for (int i = 0; i < 300; i++) { /* longer than the pause between two lots */
        turn(test);
        assert_true(test->job->n_open <= PROXY_CONNECTIONS_MAX);
    }
    for (size_t i = 0; i < PROXY_CONNECTIONS_MAX; i++) {
        close(fds[i]);
    }
    for (size_t i = PROXY_CONNECTIONS_MAX; i < ARRAY_SIZE(fds); i++) {
        say(test, fds[i], "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        expect_reply(test, fds[i], "HTTP/1.1 400", "proxy");
    }
}

static void ends_after_its_time(void **state)
{
    struct test *test = *state;
    test->config.egress_timeout_ms = 1;
    int fd = ask(test, "GET http://localhost:%u/ HTTP/1.1\r\nHost: x\r\n\r\n", test->port);
    int host = accepted(test);
    expect_reply(test, fd, "HTTP/1.1 504 Gateway Timeout\r\n", "no answer in time");
    expect_line(test, "status=504 outcome=timeout");
    close(host);
}

/* ---- Tunnels ---- */

static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";

static int tunnel(struct test *test, int *ret_host)
{
    int fd = ask(test, "CONNECT localhost:%u HTTP/1.1\r\nHost: x\r\n\r\n", test->port);
    *ret_host = accepted(test);
    expect(test, fd, established);
    return fd;
}

static void tunnels_both_ways(void **state)
{
    struct test *test = *state;
    int host, fd = ask(test, "CONNECT localhost:%u HTTP/1.1\r\nHost: x\r\n\r\nearly", test->port);
    host = accepted(test);
    expect(test, fd, established);
    expect(test, host, "early");
    say(test, host, "GET / HTTP/1.1\n\n");
    expect(test, fd, "GET / HTTP/1.1\n\n");
    shutdown(fd, SHUT_WR); /* half: the other direction goes on */
    expect_end(test, host, "");
    say(test, host, "rest");
    close(host);
    expect_end(test, fd, "rest");
    close(fd);
    expect_all_gone(test);
    expect_line(test, "method=CONNECT status=200 outcome=closed bytes_sent=5 bytes_received=20");
}

static void tunnels_on_when_the_host_has_ended(void **state)
{
    struct test *test = *state;
    int host, fd = tunnel(test, &host);
    shutdown(host, SHUT_WR);
    expect_end(test, fd, "");
    say(test, fd, "more");
    expect(test, host, "more");
    close(fd);
    expect_end(test, host, "");
    close(host);
    expect_all_gone(test);
}

/* Neither a program nor a host that does not read makes the front hold more than a buffer. */
static void holds_one_buffer_for_slow_readers(void **state)
{
    struct test *test = *state;
    static char much[1 << 16], got[1 << 16];
    int host, fd = tunnel(test, &host);
    int from[] = {host, fd}, to[] = {fd, host};
    for (size_t way = 0; way < 2; way++) {
        uint64_t sent = 0, received = 0;
        for (int idle = 0; idle < 200;) {
            ssize_t n = send(from[way], much, sizeof much, MSG_NOSIGNAL);
            sent += n > 0 ? (uint64_t)n : 0;
            idle = n > 0 ? 0 : idle + 1;
            turn(test);
        }
        const struct proxy_connection *connection = test->job->connections;
        assert_true(connection->up.buf.len <= PROXY_BUFFER_BYTES &&
                    connection->in.buf.len <= PROXY_BUFFER_BYTES);
        assert_true(connection->down.buf.len <= PROXY_BUFFER_BYTES);
        for (int i = 0; received < sent && i < ROUNDS_MAX; i++) {
            ssize_t n = recv(to[way], got, sizeof got, 0);
            received += n > 0 ? (uint64_t)n : 0;
            turn(test);
        }
        assert_int_equal(received, sent);
    }
    close(fd);
    close(host);
    expect_all_gone(test);
}

static void breaks_tunnels_off(void **state)
{
    struct test *test = *state;
    const struct linger at_once = {1, 0};
    CLEANUP(buf_free) struct buf heard = BUF_INIT;
    int host, fd = tunnel(test, &host);
    setsockopt(host, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(host);
    assert_int_equal(hear(test, fd, NULL, &heard), ECONNRESET);
    close(fd);
    fd = tunnel(test, &host);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
    hear(test, host, NULL, &heard);
    close(host);
    expect_all_gone(test);
}

/* As many as a job may have at once, each silent until the last one is there. */
static void keeps_tunnels_that_are_silent(void **state)
{
    struct test *test = *state;
    int hosts[PROXY_CONNECTIONS_MAX], fds[PROXY_CONNECTIONS_MAX];
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        fds[i] = tunnel(test, &hosts[i]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        say(test, fds[i], "ping");
        expect(test, hosts[i], "ping");
        say(test, hosts[i], "pong");
        expect(test, fds[i], "pong");
        close(fds[i]);
        close(hosts[i]);
    }
    expect_all_gone(test);
}

/* ---- The end of the job ---- */

static void frees_everything_anywhere(void **state)
{
    struct test *test = *state;
    static char much[1 << 16];
    int host, open = tunnel(test, &host), silent = program(test), half = ask(test, "CONNECT local"),
              refused = ask(test, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"), connecting = program(test),
              full = tunnel(test, &(int){0});
    for (int i = 0; i < 100; i++) {
        send(full, much, sizeof much, MSG_NOSIGNAL);
        turn(test);
    }
    char text[128];
    snprintf(text, sizeof text, "CONNECT localhost:%u HTTP/1.1\r\nHost: x\r\n\r\n", test->port);
    assert_true(send(connecting, text, strlen(text), 0) > 0);
    assert_int_equal(loop_once(test->loop, 100, NULL), 0);
    proxy_job_free(TAKE_PTR(test->job));
    turn(test);
    int fds[] = {open, silent, half, refused, connecting, full, host};
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        CLEANUP(buf_free) struct buf heard = BUF_INIT;
        assert_true(hear(test, fds[i], NULL, &heard) != EAGAIN);
        close(fds[i]);
    }
    expect_line(test, "outcome=cancelled");
}

static void connects_to_nothing_but_what_was_looked_up(void **state)
{
    struct test *test = *state;
    static char unknown[] = "unknown.invalid";
    struct egress_rule other = {
        .host = unknown, .port = test->port, .mode = EGRESS_TUNNEL, .max_bytes = 1000};
    test->rules[1] = other; /* after the front has started */
    expect_reply(test, ask(test, "CONNECT unknown.invalid:%u HTTP/1.1\r\nHost: x\r\n\r\n", test->port),
                 "HTTP/1.1 502", "the server may not reach it");
}

#define HTTP(test)   cmocka_unit_test_setup_teardown(test, start_http, stop)
#define TUNNEL(test) cmocka_unit_test_setup_teardown(test, start_tunnel, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HTTP(sends_a_request_and_its_answer),
        HTTP(hears_nothing_behind_the_request),
        HTTP(takes_requests_in_pieces),
        HTTP(refuses_by_a_sentence),
        HTTP(cuts_a_body_that_is_no_chunks),
        HTTP(tells_of_hosts_that_do_not_answer),
        HTTP(passes_an_early_answer_on),
        HTTP(breaks_off_what_was_cut_short),
        HTTP(ends_with_a_program_that_leaves),
        HTTP(limits_bytes_of_a_rule),
        HTTP(limits_connections),
        HTTP(holds_no_more_than_it_may_at_once),
        HTTP(ends_after_its_time),
        TUNNEL(tunnels_both_ways),
        TUNNEL(tunnels_on_when_the_host_has_ended),
        TUNNEL(holds_one_buffer_for_slow_readers),
        TUNNEL(breaks_tunnels_off),
        TUNNEL(keeps_tunnels_that_are_silent),
        TUNNEL(frees_everything_anywhere),
        TUNNEL(connects_to_nothing_but_what_was_looked_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
