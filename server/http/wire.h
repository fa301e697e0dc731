/* The head of a reply, as bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct buf;

/* A header of a reply. */
struct http_header {
    const char *name, *value;
};

#define HTTP_WIRE_CHUNKED  (-1) /* the body comes in chunks */
#define HTTP_WIRE_UNBOUND  (-2) /* it ends with the connection */
#define HTTP_WIRE_CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

/* Appends status line and headers, with Date, up to the empty line. `body_bytes`: or one of the above.
 * `last`: the connection ends with this reply. What could not be appended, `ret` knows (`failed`). */
void http_wire_head(struct buf *ret, unsigned status, const struct http_header *headers, size_t n_headers,
                    ssize_t body_bytes, bool last);
