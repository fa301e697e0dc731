/* The frames that a program writes to the bridge: whatever they are and however they are cut into pieces, the
 * same calls and results come of them, every call ends, and what the program is sent are frames.
 *
 * The input is a list of messages (datagrams.h): each goes out as a frame, or as bare bytes if it asks for
 * BARE descriptors. */
#include <endian.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/format/json.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/loop.h"
#include "server/bridge/bridge.h"
#include "server/bridge/egress.h"
#include "server/bridge/tools.h"
#include "server/kit/log.h"
#include "server/kit/metrics.h"
#include "tests/fuzz/datagrams.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

#define BARE   DATAGRAM_FDS_MAX
#define ROUNDS 2 /* of the loop, after which everything has been read */

static const struct bridge_limits limits = {
    .frame_bytes = 1000, .total_bytes = 8000, .calls = 6, .calls_in_flight = 2, .result_bytes = 300};

/* What has come of the frames. */
struct happened {
    struct buf log;
    struct egress_job *egress;
    bool patient; /* calls are answered later */
    struct bridge_call *open[2];
    size_t n_open;
};

static void on_call(void *arg, struct bridge_call *call)
{
    struct happened *happened = arg;
    REQUIRE(call->name && *call->name && call->args && call->args_size == strlen(call->args));
    buf_printf(&happened->log, "call %llu %s %s\n", (unsigned long long)call->id, call->name, call->args);
    if (happened->patient) {
        REQUIRE(happened->n_open < limits.calls_in_flight);
        happened->open[happened->n_open++] = call;
    } else {
        bridge_answer(call, BRIDGE_DATA, "\\u0000", 6);
    }
}

static void on_cancel(void *arg, struct bridge_call *call)
{
    struct happened *happened = arg;
    for (size_t i = 0; i < happened->n_open; i++) {
        if (happened->open[i] == call) {
            happened->open[i] = happened->open[--happened->n_open];
            return;
        }
    }
    fuzz_broken(__FILE__, __LINE__, "a call that is cancelled is open");
}

static void on_outputs(void *arg, char *const *paths, size_t n)
{
    struct happened *happened = arg;
    buf_printf(&happened->log, "outputs");
    for (size_t i = 0; i < n; i++) {
        buf_printf(&happened->log, " %s", paths[i]);
    }
    buf_putc(&happened->log, '\n');
}

/* What is shown is one object on one line, whatever the program has sent. */
static void on_show(void *arg, const char *json_text, size_t size)
{
    struct happened *happened = arg;
    static const char *const names[] = {"type"};
    struct json_slice type;
    const char *why;
    REQUIRE(json_split(json_text, size, names, 1, &type, &why) == 0 && type.type == JSON_STRING);
    REQUIRE(!memchr(json_text, '\n', size));
    buf_printf(&happened->log, "shown %.*s\n", (int)size, json_text);
}

/* Connections are asked for of a front that knows no package index, so what comes of it does not depend on
 * how fast something else is. */
static const char *on_other(void *arg, const char *data, size_t size)
{
    struct happened *happened = arg;
    REQUIRE(size > 0);
    const char *why = egress_take(happened->egress, data, size);
    buf_printf(&happened->log, "other %zu: %s\n", size, why ? why : "taken");
    return why;
}

static void on_broken(void *arg, const char *why)
{
    struct happened *happened = arg;
    buf_printf(&happened->log, "broken: %s\n", why);
}

/* Whole frames of JSON objects, one behind the other. */
static void require_frames(const struct buf *received)
{
    size_t at = 0;
    while (at < received->len) {
        static const char *const names[] = {"op"};
        struct json_slice op;
        const char *why;
        uint32_t size;
        REQUIRE(received->len - at >= sizeof size);
        memcpy(&size, received->data + at, sizeof size);
        at += sizeof size;
        size = be32toh(size);
        REQUIRE(size <= received->len - at);
        REQUIRE(json_split(received->data + at, size, names, 1, &op, &why) == 0 && op.type == JSON_STRING);
        at += size;
    }
}

/* The last result is JSON. */
static void require_output(const struct bridge *bridge)
{
    static const char *const names[] = {"data"};
    CLEANUP(buf_free) struct buf object = BUF_INIT;
    struct json_slice data;
    const char *why;
    size_t size;
    const char *output = bridge_output(bridge, &size);
    REQUIRE(size <= limits.result_bytes);
    if (size > 0) {
        buf_puts(&object, "{\"data\":");
        buf_append(&object, output, size);
        buf_putc(&object, '}');
        REQUIRE(json_split(object.data, object.len, names, 1, &data, &why) == 0);
        REQUIRE(data.type != JSON_ABSENT && data.size <= size);
    }
}

/* What the front hands in, where there is no package index. */
struct world {
    struct loop *loop;
    struct egress *egress;
    struct tools who;
};

static const struct world *open_world(void)
{
    static const struct server_config config = {.max_egress_connections = 3, .max_egress_bytes = 1000};
    static struct world world;
    if (!world.loop) {
        struct log *log = log_new(STDERR_FILENO, LOG_FORMAT_LOGFMT, LOG_ERROR, "front"); /* nothing is one */
        struct metrics *metrics = metrics_new();
        REQUIRE(log && metrics && loop_new(&world.loop, NULL) == 0);
        REQUIRE(egress_new(world.loop, log, &config, &world.egress, NULL) == 0);
        world.who = (struct tools){.audit = log,
                                   .metrics = metrics,
                                   .key = "",
                                   .request_id = "",
                                   .execution_id = "",
                                   .traceparent = ""};
    }
    return &world;
}

static void drain(int fd, struct buf *ret)
{
    char data[4096];
    for (ssize_t n; (n = read(fd, data, sizeof data)) > 0;) {
        buf_append(ret, data, (size_t)n);
    }
}

static void run(const struct world *world, const struct buf *stream, size_t piece, struct happened *happened)
{
    static const struct bridge_events events = {on_call, on_cancel, on_outputs, NULL,
                                                on_show, on_other,  on_broken};
    CLEANUP(buf_free) struct buf received = BUF_INIT;
    struct bridge *bridge = NULL;
    int ends[BRIDGE_ENDS];
    REQUIRE(bridge_new(world->loop, &limits, &events, happened, ends, &bridge, NULL) == 0);
    happened->egress = egress_job_new(world->egress, &world->who, bridge);
    REQUIRE(happened->egress);
    fcntl(ends[BRIDGE_END_IN], F_SETFL, O_NONBLOCK);
    for (size_t at = 0; at < stream->len; at += piece) {
        size_t n = stream->len - at < piece ? stream->len - at : piece;
        if (write(ends[BRIDGE_END_OUT], stream->data + at, n) != (ssize_t)n) {
            break; /* the bridge is closed */
        }
        for (int i = 0; i < ROUNDS; i++) {
            loop_once(world->loop, 0, NULL);
        }
        while (happened->n_open > 1) { /* one stays until the end */
            bridge_answer(happened->open[--happened->n_open], BRIDGE_ERROR, "late", 4);
        }
        drain(ends[BRIDGE_END_IN], &received);
    }
    close(ends[BRIDGE_END_OUT]);
    bridge_finish(bridge);
    REQUIRE(happened->n_open == 0);
    drain(ends[BRIDGE_END_IN], &received);
    close(ends[BRIDGE_END_IN]);
    size_t size;
    const char *output = bridge_output(bridge, &size);
    buf_append(&happened->log, output, size);
    require_output(bridge);
    egress_job_free(happened->egress);
    bridge_free(bridge);
    require_frames(&received);
}

static size_t change(uint8_t *data, size_t size, size_t max_size, uint64_t *series)
{
    mutate_next(series);
    return LLVMFuzzerMutate(data, size, max_size);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return datagrams_mutate(change, data, size, max_size, seed);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    const struct world *world = open_world();
    CLEANUP(buf_free) struct buf stream = BUF_INIT;
    struct datagram datagram;
    struct happened whole = {.log = BUF_INIT}, pieces = {.log = BUF_INIT}, patient = {.patient = true};
    signal(SIGPIPE, SIG_IGN); /* as in the front */
    while (datagram_next(&data, &size, &datagram)) {
        uint32_t length = htobe32((uint32_t)datagram.size);
        if (datagram.n_fds != BARE) {
            buf_append(&stream, &length, sizeof length);
        }
        buf_append(&stream, datagram.data, datagram.size);
    }
    run(world, &stream, stream.len + 1, &whole);
    run(world, &stream, stream.len / 16 + 1, &pieces);
    run(world, &stream, stream.len / 4 + 1, &patient);
    REQUIRE(whole.log.len == pieces.log.len);
    REQUIRE(whole.log.len == 0 || memcmp(whole.log.data, pieces.log.data, whole.log.len) == 0);
    buf_free(&whole.log);
    buf_free(&pieces.log);
    buf_free(&patient.log);
}
