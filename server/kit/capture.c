/* The jail's output, read by the front itself so that untrusted bytes never pass through the warden. The
 * bytes are the program's own choice; nothing here looks at them but to avoid cutting a character in two. */
#include "server/kit/capture.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "config/format/utf8.h"

void capture_init(struct capture *capture, size_t limit_bytes)
{
    *capture = (struct capture){.limit_bytes = limit_bytes};
}

void capture_clear(struct capture *capture)
{
    for (int i = 0; i < CAPTURE_STREAMS; i++) {
        buf_free(&capture->streams[i]);
    }
    buf_free(&capture->logs);
}

/* Copies the stream's new bytes behind those of both. The beginning of a character is held back until its end
 * is there: the other stream's bytes must not come between. */
static void merge(struct capture *capture, enum capture_stream stream, bool last)
{
    const struct buf *from = &capture->streams[stream];
    size_t fresh = from->len - capture->logged[stream];
    if (fresh == 0) {
        return;
    }
    const char *data = from->data + capture->logged[stream];
    if (!last) {
        fresh -= utf8_unfinished(data, fresh);
    }
    size_t room = capture->limit_bytes - capture->logs.len;
    if (fresh > room) {
        fresh = room;
        capture->logs_truncated = true;
    }
    buf_append(&capture->logs, data, fresh);
    capture->logged[stream] += fresh;
}

void capture_take(struct capture *capture, enum capture_stream stream, const char *data, size_t size)
{
    struct buf *to = &capture->streams[stream];
    size_t room = capture->limit_bytes - to->len;
    if (size > room) {
        size = room;
        capture->truncated[stream] = true;
        capture->logs_truncated = true;
    }
    buf_append(to, data, size);
    merge(capture, stream, false);
}

enum capture_read capture_read(struct capture *capture, enum capture_stream stream, int fd)
{
    char data[CAPTURE_READ_BYTES];
    ssize_t n;
    do {
        n = read(fd, data, sizeof data);
    } while (n < 0 && errno == EINTR);
    if (n > 0) {
        capture_take(capture, stream, data, (size_t)n);
        return CAPTURE_MORE;
    }
    if (n < 0 && errno == EAGAIN) {
        return CAPTURE_EMPTY;
    }
    if (n < 0) {
        capture->truncated[stream] = true; /* whatever may still be in there is lost */
        capture->logs_truncated = true;
    }
    return CAPTURE_END;
}

static void cut(struct buf *buf, size_t limit_bytes, bool *truncated)
{
    if (buf->len > limit_bytes) {
        buf->len = limit_bytes;
        *truncated = true;
    }
    if (*truncated && buf->len > 0) {
        buf->len -= utf8_unfinished(buf->data, buf->len);
    }
}

int capture_finish(struct capture *capture, size_t limit_bytes)
{
    bool failed = capture->logs.failed;
    for (int i = 0; i < CAPTURE_STREAMS; i++) {
        failed = failed || capture->streams[i].failed;
        cut(&capture->streams[i], capture->limit_bytes, &capture->truncated[i]);
        merge(capture, (enum capture_stream)i, true);
    }
    if (limit_bytes > 0 && limit_bytes < capture->limit_bytes) {
        capture->limit_bytes = limit_bytes;
    }
    for (int i = 0; i < CAPTURE_STREAMS; i++) {
        cut(&capture->streams[i], capture->limit_bytes, &capture->truncated[i]);
    }
    cut(&capture->logs, capture->limit_bytes, &capture->logs_truncated);
    return failed || capture->logs.failed ? -ENOMEM : 0;
}
