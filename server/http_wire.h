/* A whole HTTP reply in one send, for replies that go past the HTTP library. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct http_header;

/* Appends status line and headers, with Date, "Connection: close" and Content-Length, up to the empty line.
 */
void http_wire_head(struct buf *ret, unsigned status, const char *reason, const struct http_header *headers,
                    size_t n_headers, size_t body_bytes);

/* Sends what the socket takes now; no more can be done for a caller who does not read. `body` may be NULL. */
void http_wire_send(int fd, const struct buf *head, const struct buf *body);
