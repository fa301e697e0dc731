/* struct capture: what a program writes to stdout and stderr: the head is kept, the tail is counted and
 * dropped, the program is never blocked. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "jail/base/buf.h"

enum capture_stream { CAPTURE_STDOUT, CAPTURE_STDERR, CAPTURE_STREAMS };

struct capture {
    size_t limit_bytes;                  /* of each stream, and of `logs` */
    struct buf streams[CAPTURE_STREAMS]; /* the heads */
    bool truncated[CAPTURE_STREAMS];
    size_t logged[CAPTURE_STREAMS]; /* bytes of the head that are in `logs` too */
    struct buf logs;                /* both, in the order of arrival */
    bool logs_truncated;
};

void capture_init(struct capture *capture, size_t limit_bytes);
void capture_clear(struct capture *capture);

/* Takes what the program wrote. */
void capture_take(struct capture *capture, enum capture_stream stream, const char *data, size_t size);

/* The most that is read at once; a pipe's usual capacity. */
#define CAPTURE_READ_BYTES 65536

enum capture_read { CAPTURE_MORE, CAPTURE_EMPTY, CAPTURE_END };
/* Reads once from a non-blocking pipe and takes it. CAPTURE_END: end of file, or an error that will not go
 * away. */
enum capture_read capture_read(struct capture *capture, enum capture_stream stream, int fd);

/* No more will come: puts what was held back into `logs`, lowers the limit to `limit_bytes` (0: leaves it),
 * and drops the beginning of a character that the limit has cut off. -ENOMEM if anything was lost on the way.
 */
int capture_finish(struct capture *capture, size_t limit_bytes);
