/* The bridge of one job. Runs in the front, on its loop; what comes out of the pipe was written by a program
 * that may be out to harm.
 *
 * Two pipes rather than a socket: through a pipe no descriptor can pass. A program is slowed down by not
 * being read: while as many calls are under way as it may have, or its answers are not fetched, its frames
 * stay in the pipe. What breaks the rules of frames closes this bridge and nothing else. Calls are told apart
 * by the program's own numbers, which mean nothing beyond this bridge. */
#include "server/bridge/bridge.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "config/format/json.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/base/loop.h"
#include "server/bridge/bridge_internal.h"

#define HEADER_BYTES 4u /* the length of what follows, big-endian */
#define READ_BYTES   16384u
#define KEPT_BYTES   65536u /* of an empty buffer, so that one large frame is not paid for to the end */

static void close_bridge(struct bridge *bridge)
{
    bridge->closed = true;
    loop_remove(TAKE_PTR(bridge->in_source));
    loop_remove(TAKE_PTR(bridge->out_source));
    fd_closep(&bridge->in);
    fd_closep(&bridge->out);
}

/* ---- Frames to the program ---- */

static void on_writable(void *arg, uint32_t events);

static bool awaits_room(struct bridge *bridge)
{
    return bridge->out_source ||
           loop_add(bridge->loop, bridge->out, EPOLLOUT, on_writable, bridge, &bridge->out_source, NULL) >= 0;
}

static void write_waiting(struct bridge *bridge)
{
    while (bridge->out >= 0 && bridge->written < bridge->waiting.len) {
        ssize_t n =
            write(bridge->out, bridge->waiting.data + bridge->written, bridge->waiting.len - bridge->written);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN && awaits_room(bridge)) {
            return;
        }
        if (n < 0) {
            fd_closep(&bridge->out); /* nobody reads any more, or would be waiting for ever */
            break;
        }
        bridge->written += (size_t)n;
    }
    loop_remove(TAKE_PTR(bridge->out_source));
    bridge->waiting.len = bridge->written = 0;
    if (bridge->waiting.cap > KEPT_BYTES) {
        buf_free(&bridge->waiting);
    }
}

/* A program that never fetches quite all of it would have what is written kept for ever. */
static void forget_written(struct bridge *bridge)
{
    struct buf *waiting = &bridge->waiting;
    if (bridge->written > KEPT_BYTES && bridge->written > waiting->len / 2) {
        memmove(waiting->data, waiting->data + bridge->written, waiting->len - bridge->written);
        waiting->len -= bridge->written;
        bridge->written = 0;
    }
}

static size_t begin_frame(struct bridge *bridge)
{
    forget_written(bridge);
    size_t start = bridge->waiting.len;
    static const char room[HEADER_BYTES] = {0};
    buf_append(&bridge->waiting, room, sizeof room);
    return start;
}

/* Without memory there is no frame, and a program that waits for it would wait for ever: it sees the end. */
static void end_frame(struct bridge *bridge, size_t start)
{
    if (bridge->waiting.failed || bridge->waiting.len - start - HEADER_BYTES > UINT32_MAX) {
        close_bridge(bridge);
        return;
    }
    uint32_t size = htobe32((uint32_t)(bridge->waiting.len - start - HEADER_BYTES));
    memcpy(bridge->waiting.data + start, &size, sizeof size);
    write_waiting(bridge);
}

void bridge_send_answer(struct bridge *bridge, uint64_t id, const char *member, const char *json_text,
                        size_t size)
{
    if (bridge->out < 0 || bridge->finishing) {
        return;
    }
    size_t start = begin_frame(bridge);
    buf_printf(&bridge->waiting, "{\"op\":\"answer\",\"id\":%" PRIu64, id);
    if (member) {
        buf_printf(&bridge->waiting, ",\"%s\":\"", member);
        buf_append(&bridge->waiting, json_text, size);
        buf_putc(&bridge->waiting, '"');
    }
    buf_putc(&bridge->waiting, '}');
    end_frame(bridge, start);
}

void bridge_reply(struct bridge *bridge, uint64_t id, enum bridge_answer kind, const char *json_text,
                  size_t size)
{
    static const char *const members[] = {
        [BRIDGE_DATA] = "data", [BRIDGE_ERROR] = "error", [BRIDGE_DONE] = NULL};
    bridge_send_answer(bridge, id, members[kind], json_text, size);
}

void bridge_send(struct bridge *bridge, const void *head, size_t head_size, const void *data, size_t size)
{
    if (bridge->out < 0 || bridge->finishing) {
        return;
    }
    size_t start = begin_frame(bridge);
    buf_append(&bridge->waiting, head, head_size);
    buf_append(&bridge->waiting, data, size);
    end_frame(bridge, start);
}

/* A text of ours, which needs no escapes. */
void bridge_send_error(struct bridge *bridge, uint64_t id, const char *text)
{
    bridge_send_answer(bridge, id, "error", text, strlen(text));
}

/* Written at once: the pipe is empty yet. */
static void send_hello(struct bridge *bridge)
{
    size_t start = begin_frame(bridge);
    buf_printf(
        &bridge->waiting,
        "{\"op\":\"hello\",\"version\":1,\"max_frame_bytes\":%zu,\"max_result_bytes\":%zu,"
        "\"max_calls_in_flight\":%u,\"max_shown\":%u,\"max_shown_bytes\":%u,\"max_all_shown_bytes\":%u}",
        bridge->limits.frame_bytes, bridge->limits.result_bytes, bridge->limits.calls_in_flight,
        RICH_RESULTS_MAX, RICH_RESULT_BYTES_MAX, RICH_RESULTS_BYTES_MAX);
    end_frame(bridge, start);
}

static void cancel_calls(struct bridge *bridge);

/* The last frame says why. */
void bridge_break_off(struct bridge *bridge, const char *why)
{
    if (bridge->finishing) {
        close_bridge(bridge);
        return;
    }
    size_t start = begin_frame(bridge);
    buf_printf(&bridge->waiting, "{\"op\":\"closed\",\"error\":\"%s\"}", why);
    end_frame(bridge, start);
    close_bridge(bridge);
    cancel_calls(bridge);
    bridge->events->broken(bridge->arg, why);
}

/* ---- Calls ---- */

static void call_free(struct bridge_call *call)
{
    if (call) {
        free(call->name);
        free(call->args);
        free(call);
    }
}

void bridge_link_call(struct bridge *bridge, struct bridge_call *call)
{
    call->next = bridge->open;
    if (call->next) {
        call->next->previous = call;
    }
    bridge->open = call;
    bridge->n_open++;
}

struct bridge_call *bridge_oldest_call(const struct bridge *bridge)
{
    struct bridge_call *call = bridge->open;
    while (call && call->next) {
        call = call->next;
    }
    return call;
}

static void unlink_call(struct bridge_call *call)
{
    struct bridge *bridge = call->bridge;
    *(call->previous ? &call->previous->next : &bridge->open) = call->next;
    if (call->next) {
        call->next->previous = call->previous;
    }
    bridge->n_open--;
}

static void cancel_calls(struct bridge *bridge)
{
    while (bridge->open) {
        struct bridge_call *call = bridge->open;
        unlink_call(call);
        bridge->events->cancel(bridge->arg, call);
        call_free(call);
    }
}

/* ---- Frames from the program ---- */

/* Nothing more is taken from the program while it has enough under way, or does not fetch its answers. */
static bool has_room(const struct bridge *bridge)
{
    return bridge->finishing ||
           (bridge->n_open < bridge->limits.calls_in_flight &&
            bridge->waiting.len - bridge->written <= bridge->limits.frame_bytes + bridge->limits.other_bytes);
}

/* The next frame's size, if it is complete. */
static bool next_frame(struct bridge *bridge, size_t *ret_size)
{
    size_t left = bridge->received.len - bridge->handled;
    uint32_t size;
    if (left < sizeof size) {
        return false;
    }
    memcpy(&size, bridge->received.data + bridge->handled, sizeof size);
    size = be32toh(size);
    if (size == 0 || size > bridge->limits.frame_bytes) {
        bridge_break_off(bridge, "a frame that is empty or too large");
        return false;
    }
    *ret_size = size;
    return left - HEADER_BYTES >= size;
}

static void forget_handled(struct bridge *bridge)
{
    struct buf *received = &bridge->received;
    if (bridge->handled == received->len && received->cap > KEPT_BYTES) {
        buf_free(received);
    } else if (bridge->handled > 0) {
        memmove(received->data, received->data + bridge->handled, received->len - bridge->handled);
        received->len -= bridge->handled;
    }
    bridge->handled = 0;
}

static void on_readable(void *arg, uint32_t events);

/* Reads from the pipe exactly as long as there is room; an end that is not read is not watched, since the
 * kernel would report its other end's closing all the time. */
static void update_reading(struct bridge *bridge)
{
    bool wanted = bridge->in >= 0 && !bridge->finishing && has_room(bridge);
    if (!wanted) {
        loop_remove(TAKE_PTR(bridge->in_source));
    } else if (!bridge->in_source && loop_add(bridge->loop, bridge->in, EPOLLIN, on_readable, bridge,
                                              &bridge->in_source, NULL) < 0) {
        close_bridge(bridge);
    }
}

static void handle_frames(struct bridge *bridge)
{
    size_t size;
    if (bridge->handling) {
        return;
    }
    bridge->handling = true;
    while (!bridge->closed && has_room(bridge) && next_frame(bridge, &size)) {
        const char *data = bridge->received.data + bridge->handled + HEADER_BYTES;
        bridge->handled += HEADER_BYTES + size;
        bridge_handle_frame(bridge, data, size);
    }
    bridge->handling = false;
    forget_handled(bridge);
    update_reading(bridge);
}

/* One read. False: nothing is there, or nothing will come any more. */
static bool receive(struct bridge *bridge)
{
    char *room = buf_reserve(&bridge->received, READ_BYTES);
    ssize_t n = room ? read(bridge->in, room, READ_BYTES) : -1;
    if (n < 0 && room && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    if (n < 0) {
        bridge_break_off(bridge, "what the program sends cannot be read"); /* it would wait for answers */
        return false;
    }
    if (n == 0) {
        loop_remove(TAKE_PTR(bridge->in_source));
        fd_closep(&bridge->in);
        return false;
    }
    bridge->received.len += (size_t)n;
    bridge->total_bytes += (size_t)n;
    if (bridge->total_bytes > bridge->limits.total_bytes) {
        bridge_break_off(bridge, "more bytes than a job may send");
        return false;
    }
    return true;
}

/* One read a round, so that a program that calls without end does not keep the others waiting. */
static void on_readable(void *arg, uint32_t events)
{
    (void)events;
    struct bridge *bridge = arg;
    if (receive(bridge)) {
        handle_frames(bridge);
    }
}

static void on_writable(void *arg, uint32_t events)
{
    (void)events;
    struct bridge *bridge = arg;
    write_waiting(bridge);
    handle_frames(bridge);
}

void bridge_answer(struct bridge_call *call, enum bridge_answer kind, const char *json_text, size_t size)
{
    struct bridge *bridge = call->bridge;
    unlink_call(call);
    bridge_send_answer(bridge, call->id, kind == BRIDGE_DATA ? "data" : "error", json_text, size);
    call_free(call);
    handle_frames(bridge);
}

/* ---- Life ---- */

/* `ours`: 0 for the reading end, 1 for the writing one. */
static int make_pipe(int ours, int *ret_ours, int *ret_theirs)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return -errno;
    }
    *ret_ours = ends[ours];
    *ret_theirs = ends[!ours];
    return fcntl(ends[ours], F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

int bridge_new(struct loop *loop, const struct bridge_limits *limits, const struct bridge_events *events,
               void *arg, int ret_ends[BRIDGE_ENDS], struct bridge **ret, struct err *reterr)
{
    struct bridge *bridge = calloc(1, sizeof *bridge);
    if (!bridge) {
        return err_errno(reterr, ENOMEM, "making a job's bridge");
    }
    *bridge =
        (struct bridge){.loop = loop, .limits = *limits, .events = events, .arg = arg, .in = -1, .out = -1};
    CLEANUP(fd_closep) int their_in = -1;
    CLEANUP(fd_closep) int their_out = -1;
    int r = make_pipe(1, &bridge->out, &their_in);
    r = r < 0 ? r : make_pipe(0, &bridge->in, &their_out);
    if (r < 0) {
        bridge_free(bridge);
        return err_errno(reterr, -r, "making a job's bridge");
    }
    r = loop_add(loop, bridge->in, EPOLLIN, on_readable, bridge, &bridge->in_source, reterr);
    if (r < 0) {
        bridge_free(bridge);
        return r;
    }
    send_hello(bridge);
    ret_ends[BRIDGE_END_IN] = TAKE_FD(their_in);
    ret_ends[BRIDGE_END_OUT] = TAKE_FD(their_out);
    *ret = bridge;
    return 0;
}

void bridge_finish(struct bridge *bridge)
{
    bridge->finishing = true;
    cancel_calls(bridge);
    handle_frames(bridge);
    /* Whoever lives on in a kernel may still write. */
    for (size_t reads = io_reads_pending(bridge->in, READ_BYTES);
         reads > 0 && bridge->in >= 0 && receive(bridge); reads--) {
        handle_frames(bridge);
    }
    close_bridge(bridge);
}

void bridge_free(struct bridge *bridge)
{
    if (bridge) {
        bridge->finishing = true;
        cancel_calls(bridge);
        close_bridge(bridge);
        buf_free(&bridge->received);
        buf_free(&bridge->waiting);
        buf_free(&bridge->output);
        buf_free(&bridge->results.json);
        free(bridge);
    }
}

const char *bridge_output(const struct bridge *bridge, size_t *ret_size)
{
    *ret_size = bridge->output.len;
    return bridge->output.data ? bridge->output.data : "";
}

const struct rich_results *bridge_results(const struct bridge *bridge)
{
    return &bridge->results;
}
