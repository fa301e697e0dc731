/* The growing byte buffer. Used by every process but never between clone and exec. */
#include "jail/base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *buf_reserve(struct buf *buf, size_t extra)
{
    if (buf->failed || extra >= SIZE_MAX / 2 - buf->len) {
        buf->failed = true;
        return NULL;
    }
    size_t need = buf->len + extra + 1;
    if (need > buf->cap) {
        size_t cap = buf->cap ? buf->cap : 64;
        while (cap < need) {
            cap *= 2;
        }
        char *data = realloc(buf->data, cap);
        if (!data) {
            buf->failed = true;
            return NULL;
        }
        buf->data = data;
        buf->cap = cap;
    }
    return buf->data + buf->len;
}

int buf_append(struct buf *buf, const void *data, size_t len)
{
    char *to = buf_reserve(buf, len);
    if (!to) {
        return -ENOMEM;
    }
    if (len > 0) {
        memcpy(to, data, len);
    }
    buf->len += len;
    buf->data[buf->len] = '\0';
    return 0;
}

int buf_puts(struct buf *buf, const char *text)
{
    return buf_append(buf, text, strlen(text));
}

int buf_putc(struct buf *buf, char c)
{
    return buf_append(buf, &c, 1);
}

int buf_printf(struct buf *buf, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    int r = -ENOMEM;
    if (n < 0) {
        buf->failed = true;
    } else if (buf_reserve(buf, (size_t)n)) {
        vsnprintf(buf->data + buf->len, (size_t)n + 1, fmt, again);
        buf->len += (size_t)n;
        r = 0;
    }
    va_end(again);
    return r;
}

char *buf_steal(struct buf *buf)
{
    if (!buf->data && buf_append(buf, "", 0) < 0) {
        return NULL;
    }
    if (buf->failed) {
        buf_free(buf);
        return NULL;
    }
    char *data = buf->data;
    *buf = BUF_INIT;
    return data;
}

void buf_free(struct buf *buf)
{
    if (buf) {
        free(buf->data);
        *buf = BUF_INIT;
    }
}
