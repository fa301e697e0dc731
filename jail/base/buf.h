/* struct buf: a byte buffer that grows. Errors stick, so that a caller may append many times and check once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
    char *data; /* always NUL-terminated after the first successful append; NULL before */
    size_t len; /* bytes without the NUL */
    size_t cap;
    bool failed; /* an allocation failed; the content is incomplete */
};

#define BUF_INIT ((struct buf){0})

/* Each returns 0 or -ENOMEM, and remembers the failure in `failed`. */
int buf_append(struct buf *buf, const void *data, size_t len);
int buf_puts(struct buf *buf, const char *text);
int buf_putc(struct buf *buf, char c);
int buf_printf(struct buf *buf, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Makes room for `extra` more bytes behind len and returns where they go, or NULL. The caller then adds to
 * len. */
char *buf_reserve(struct buf *buf, size_t extra);

/* Hands the NUL-terminated text on (never NULL unless an allocation failed) and leaves an empty buffer. */
char *buf_steal(struct buf *buf);
void buf_free(struct buf *buf);
