/* Server-sent events. Runs in the front.
 *
 * An event is written when the socket has room for it, from what is kept of the output anyway: a caller who
 * reads slowly holds up neither the program nor anybody else, and costs no more memory than one who waits for
 * the reply. The price is that stdout and stderr are each in order, but that what has piled up is told stream
 * by stream. No event cuts a character in two.
 *
 * Whole lines are told at once. The beginning of one waits some milliseconds for its end: many programs write
 * a line and its line feed one after the other. */
#include "server/jobs/stream.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/utf8.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "server/doors/door.h"
#include "server/http/http.h"
#include "server/jobs/job_io.h"
#include "server/jobs/request.h"
#include "server/kit/capture.h"
#include "server/kit/deadline.h"
#include "server/kit/json_out.h"

/* Of the program's output in one event. */
#define TEXT_BYTES_MAX 8192
/* For the end of a line. */
#define HALF_LINE_NS (5 * NS_PER_MS)
/* Of tool calls that have not been told yet. */
#define CALLS_BYTES_MAX 65536

struct streams {
    struct deadlines deadlines, half_lines;
    struct deadline_queue quiet, halves;
};

/* The beginning of a line. */
struct half_line {
    struct deadline deadline;
    struct stream *stream;
    bool due; /* its end has not come */
};

struct stream {
    struct deadline deadline;
    struct half_line halves[CAPTURE_STREAMS];
    struct streams *all;
    struct request *request;
    const struct job_io *io; /* NULL: nothing more comes */
    struct job_io *owned;    /* the same, once the job has ended */
    size_t told[CAPTURE_STREAMS];
    struct buf calls;   /* events that wait */
    struct buf pending; /* of which `sent` bytes have gone */
    size_t sent;
    struct buf reply;
    bool ended, reply_told;
    bool spoke, beats; /* since the timer last went off; a comment is due */
};

static void on_quiet(void *arg, struct deadline *deadline)
{
    struct streams *all = arg;
    struct stream *stream = CONTAINER_OF(deadline, struct stream, deadline);
    stream->beats = !stream->spoke;
    stream->spoke = false;
    deadline_join(&all->deadlines, &stream->deadline, &all->quiet);
    if (stream->beats) {
        stream_wake(stream);
    }
}

static void on_half(void *arg, struct deadline *deadline)
{
    (void)arg;
    struct half_line *half = CONTAINER_OF(deadline, struct half_line, deadline);
    half->due = true;
    stream_wake(half->stream);
}

int streams_new(struct loop *loop, uint64_t heartbeat_ms, struct streams **ret, struct err *reterr)
{
    struct streams *streams = calloc(1, sizeof *streams);
    if (!streams) {
        return err_errno(reterr, ENOMEM, "making the table of streams");
    }
    streams->quiet.timeout_ns = heartbeat_ms * NS_PER_MS;
    streams->deadlines =
        (struct deadlines){.queues = &streams->quiet, .n_queues = 1, .passed = on_quiet, .arg = streams};
    streams->halves.timeout_ns = HALF_LINE_NS;
    streams->half_lines = (struct deadlines){.queues = &streams->halves, .n_queues = 1, .passed = on_half};
    int r = deadlines_start(&streams->deadlines, loop, reterr);
    r = r < 0 ? r : deadlines_start(&streams->half_lines, loop, reterr);
    if (r < 0) {
        streams_free(streams);
        return r;
    }
    *ret = streams;
    return 0;
}

void streams_free(struct streams *streams)
{
    if (streams) {
        deadlines_stop(&streams->deadlines);
        deadlines_stop(&streams->half_lines);
        free(streams);
    }
}

int stream_new(struct streams *streams, struct request *request, const struct job_io *io, struct stream **ret,
               struct err *reterr)
{
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream) {
        return err_errno(reterr, ENOMEM, "beginning a stream of events");
    }
    *stream = (struct stream){.all = streams, .request = request, .io = io};
    for (int i = 0; i < CAPTURE_STREAMS; i++) {
        stream->halves[i].stream = stream;
    }
    deadline_join(&streams->deadlines, &stream->deadline, &streams->quiet);
    *ret = stream;
    return 0;
}

void stream_free(struct stream *stream)
{
    if (!stream) {
        return;
    }
    deadline_leave(&stream->deadline);
    for (int i = 0; i < CAPTURE_STREAMS; i++) {
        deadline_leave(&stream->halves[i].deadline);
    }
    job_io_free(stream->owned);
    buf_free(&stream->calls);
    buf_free(&stream->pending);
    buf_free(&stream->reply);
    free(stream);
}

/* What a caller has not read of it is counted; what a program that runs has printed is the job's. */
static void count_held(const struct stream *stream)
{
    size_t bytes = stream->calls.len + stream->pending.len - stream->sent + stream->reply.len;
    if (stream->owned) {
        const struct capture *capture = job_io_capture(stream->owned);
        bytes +=
            capture->streams[CAPTURE_STDOUT].len + capture->streams[CAPTURE_STDERR].len + capture->logs.len;
    }
    http_stream_holds(stream->request->http, bytes);
}

void stream_wake(struct stream *stream)
{
    if (stream) {
        http_stream_wake(stream->request->http);
    }
}

void stream_beat(struct stream *stream)
{
    if (stream) {
        stream->beats = true;
        stream_wake(stream);
    }
}

void stream_tool_call(struct stream *stream, const char *name)
{
    if (!stream || stream->calls.len + strlen(name) > CALLS_BYTES_MAX) {
        return;
    }
    buf_puts(&stream->calls, "event: tool_call\ndata: {");
    json_out_text(&stream->calls, "name", name);
    buf_puts(&stream->calls, "}\n\n");
    count_held(stream);
    stream_wake(stream);
}

static void put_line(struct buf *ret, const char *event, const struct buf *data)
{
    buf_printf(ret, "event: %s\ndata: ", event);
    size_t line_feed = data->len > 0 && data->data[data->len - 1] == '\n';
    buf_append(ret, data->data, data->len - line_feed);
    buf_puts(ret, "\n\n");
}

void stream_event(struct stream *stream, const char *event, const struct buf *data)
{
    if (stream) {
        put_line(&stream->calls, event, data);
        count_held(stream);
        stream_wake(stream);
    }
}

void stream_end(struct stream *stream, struct job_io *io, struct buf *reply)
{
    if (!stream) {
        return;
    }
    stream->io = stream->owned = io;
    stream->ended = true;
    if (reply) {
        stream->reply = *reply;
        *reply = BUF_INIT;
    }
    stream->reply_told = !reply;
    count_held(stream);
    stream_wake(stream);
}

/* How much of so many fresh bytes is whole lines, or has waited for that long enough. */
static size_t due(struct stream *stream, struct half_line *half, const char *fresh, size_t size)
{
    if (half->due || size == TEXT_BYTES_MAX) {
        half->due = false;
        deadline_leave(&half->deadline);
        return size;
    }
    const char *end = memrchr(fresh, '\n', size);
    size_t whole = end ? (size_t)(end + 1 - fresh) : 0;
    if (whole > 0) {
        deadline_leave(&half->deadline);
    }
    if (whole < size && !half->deadline.queue) {
        deadline_join(&stream->all->half_lines, &half->deadline, &stream->all->halves);
    }
    return whole;
}

/* What has come on one stream since, up to the last whole character: an event, or none. */
static bool put_text(struct stream *stream, enum capture_stream which)
{
    static const char *const names[] = {[CAPTURE_STDOUT] = "stdout", [CAPTURE_STDERR] = "stderr"};
    const struct buf *all = &job_io_capture(stream->io)->streams[which];
    size_t told = stream->told[which];
    size_t fresh = all->len > told ? all->len - told : 0;
    bool last = stream->ended && fresh <= TEXT_BYTES_MAX;
    fresh = fresh < TEXT_BYTES_MAX ? fresh : TEXT_BYTES_MAX;
    if (fresh > 0 && !stream->ended) {
        fresh = due(stream, &stream->halves[which], all->data + told, fresh);
    }
    if (fresh > 0 && !last) {
        fresh -= utf8_unfinished(all->data + told, fresh);
    }
    if (fresh == 0) {
        return false;
    }
    buf_printf(&stream->pending, "event: %s\ndata: {", names[which]);
    json_out_bytes(&stream->pending, "text", all->data + told, fresh);
    buf_puts(&stream->pending, "}\n\n");
    stream->told[which] += fresh;
    return true;
}

/* First of all that is put: nothing is pending. */
static bool put_calls(struct stream *stream)
{
    if (stream->calls.len == 0) {
        return false;
    }
    buf_free(&stream->pending);
    stream->pending = stream->calls;
    stream->calls = BUF_INIT;
    return true;
}

/* The reply ends with the only line feed that it has. */
static bool put_reply(struct stream *stream)
{
    if (!stream->ended || stream->reply_told) {
        return false;
    }
    stream->reply_told = true;
    if (stream->reply.len > 0) {
        buf_printf(&stream->pending, "event: %s\ndata: ", stream->request->door->reply_event);
        buf_append(&stream->pending, stream->reply.data, stream->reply.len);
        buf_puts(&stream->pending, "\n");
    } else {
        buf_puts(&stream->pending,
                 "event: error\ndata: {\"error\": \"internal error\", \"code\": \"internal_error\", "
                 "\"field\": null}\n\n");
    }
    buf_free(&stream->reply);
    stream->reply = BUF_INIT;
    return true;
}

/* A comment would do for proxies, but not for a client that waits for progress. */
static void put_beat(struct stream *stream)
{
    CLEANUP(buf_free) struct buf progress = BUF_INIT;
    const struct request *request = stream->request;
    const struct door *door = request->door;
    if (door->encode_progress && door->encode_progress(request->call, "still running", &progress)) {
        put_line(&stream->pending, door->reply_event, &progress);
        stream->pending.failed = stream->pending.failed || progress.failed;
    } else {
        buf_puts(&stream->pending, ": still running\n\n");
    }
}

static bool put_event(struct stream *stream)
{
    bool put = put_calls(stream);
    put = (stream->io && put_text(stream, CAPTURE_STDOUT)) || put;
    put = (stream->io && put_text(stream, CAPTURE_STDERR)) || put;
    return put || put_reply(stream);
}

ssize_t stream_fill(struct stream *stream, char *data, size_t size)
{
    if (stream->sent == stream->pending.len) {
        buf_free(&stream->pending);
        stream->sent = 0;
        if (put_event(stream)) {
            stream->spoke = true;
        } else if (stream->ended) {
            return -1;
        } else if (stream->beats) {
            put_beat(stream);
        }
        stream->beats = false;
    }
    if (stream->pending.failed) {
        return -1;
    }
    size_t n = stream->pending.len - stream->sent;
    n = n < size ? n : size;
    if (n > 0) {
        memcpy(data, stream->pending.data + stream->sent, n);
        stream->sent += n;
    }
    count_held(stream);
    return (ssize_t)n;
}
