/* A bridge with connections to package indexes, over real sockets and in one thread: the test is in the
 * places of the program and of the index. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/loop.h"
#include "server/bridge/bridge.h"
#include "server/bridge/egress.h"
#include "server/bridge/egress_internal.h"
#include "server/bridge/tools.h"
#include "server/kit/log.h"
#include "server/kit/metrics.h"

struct test {
    struct loop *loop;
    struct log *log;
    struct metrics *metrics;
    struct egress *egress;
    struct server_config config;
    struct callback_config entries[2];
    char urls[2][64], no_ca_file[1];
    struct tools who;
    struct bridge *bridge;
    struct egress_job *job;
    int in, out;         /* the program's */
    int listener, taken; /* taken: a port where nobody listens */
    uint16_t port;
    char broken[128];
    struct buf heard;
};

static inline const char *on_other(void *arg, const char *data, size_t size)
{
    struct test *test = arg;
    return egress_take(test->job, data, size);
}

static inline void on_broken(void *arg, const char *why)
{
    struct test *test = arg;
    snprintf(test->broken, sizeof test->broken, "%s", why);
    egress_job_free(TAKE_PTR(test->job));
}

static inline int bind_on_loopback(uint16_t *ret_port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof in;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&in, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &size), 0);
    *ret_port = ntohs(in.sin_port);
    return fd;
}

static inline void name_entry(struct test *test, size_t i, uint16_t port)
{
    const char *why;
    snprintf(test->urls[i], sizeof test->urls[i], "http://127.0.0.1:%u/simple", port);
    test->entries[i] = (struct callback_config){.text = test->urls[i]};
    assert_int_equal(callback_url_parse(test->urls[i], &test->entries[i].url, &why), 0);
}

static inline int start(void **state)
{
    static const struct bridge_limits limits = {.frame_bytes = 100000,
                                                .total_bytes = 1 << 24,
                                                .calls = 1,
                                                .calls_in_flight = 1,
                                                .result_bytes = 100,
                                                .other_bytes = EGRESS_WAITING_BYTES};
    static const struct bridge_events events = {.other = on_other, .broken = on_broken};
    struct test *test = calloc(1, sizeof *test);
    int ends[BRIDGE_ENDS];
    uint16_t unused;
    signal(SIGPIPE, SIG_IGN);
    test->listener = bind_on_loopback(&test->port);
    assert_int_equal(listen(test->listener, 64), 0);
    test->taken = bind_on_loopback(&unused);
    name_entry(test, 0, test->port);
    name_entry(test, 1, unused);
    test->config = (struct server_config){.egress = test->entries,
                                          .n_egress = 2,
                                          .package_index_ca_file = test->no_ca_file,
                                          .max_egress_bytes = 1000000,
                                          .max_egress_connections = 50,
                                          .egress_timeout_ms = 60000};
    test->config.package_indexes[INSTALLER_PIP].url = test->urls[0];
    test->metrics = metrics_new();
    test->log = log_new(STDERR_FILENO, LOG_FORMAT_LOGFMT, LOG_ERROR, "front");
    assert_int_equal(loop_new(&test->loop, NULL), 0);
    assert_int_equal(egress_new(test->loop, test->log, &test->config, &test->egress, NULL), 0);
    test->who = (struct tools){.audit = test->log,
                               .metrics = test->metrics,
                               .execution_id = "e",
                               .key = "k",
                               .request_id = "r",
                               .traceparent = ""};
    assert_int_equal(bridge_new(test->loop, &limits, &events, test, ends, &test->bridge, NULL), 0);
    test->job = egress_job_new(test->egress, &test->who, test->bridge);
    test->in = ends[BRIDGE_END_IN];
    test->out = ends[BRIDGE_END_OUT];
    fcntl(test->in, F_SETFL, O_NONBLOCK);
    *state = test;
    return 0;
}

static inline int stop(void **state)
{
    struct test *test = *state;
    egress_job_free(test->job);
    bridge_free(test->bridge);
    egress_free(test->egress);
    loop_free(test->loop);
    metrics_free(test->metrics);
    log_free(test->log);
    buf_free(&test->heard);
    close(test->in);
    close(test->out);
    close(test->listener);
    close(test->taken);
    free(test);
    return 0;
}

static inline void say_bytes(struct test *test, const void *data, size_t size)
{
    uint32_t length = htobe32((uint32_t)size);
    assert_int_equal(write(test->out, &length, sizeof length), sizeof length);
    assert_int_equal(write(test->out, data, size), size);
}

static inline void say(struct test *test, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    say_bytes(test, text, strlen(text));
}

static inline void say_data(struct test *test, uint64_t id, const void *data, size_t size)
{
    char frame[9 + 40000] = {1};
    uint64_t number = htobe64(id);
    memcpy(frame + 1, &number, sizeof number);
    memcpy(frame + 9, data, size);
    say_bytes(test, frame, 9 + size);
}

static inline void turn(struct test *test)
{
    assert_int_equal(loop_once(test->loop, 5, NULL), 0);
}
