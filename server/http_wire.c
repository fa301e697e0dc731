/* Replies written by ourselves. Runs in the front. Header values are our own or checked (server/ident.h):
 * none holds a line break. */
#include "server/http_wire.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "jail/base/buf.h"
#include "server/http.h"

void http_wire_head(struct buf *ret, unsigned status, const char *reason, const struct http_header *headers,
                    size_t n_headers, size_t body_bytes)
{
    time_t now = time(NULL);
    struct tm utc;
    char date[64];
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &utc));
    buf_printf(ret, "HTTP/1.1 %u %s\r\nDate: %s\r\nConnection: close\r\nContent-Length: %zu\r\n", status,
               reason, date, body_bytes);
    for (size_t i = 0; i < n_headers; i++) {
        buf_printf(ret, "%s: %s\r\n", headers[i].name, headers[i].value);
    }
    buf_puts(ret, "\r\n");
}

void http_wire_send(int fd, const struct buf *head, const struct buf *body)
{
    struct iovec parts[2] = {{head->data, head->len}, {0}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 1};
    if (body) {
        parts[1] = (struct iovec){body->data, body->len};
        message.msg_iovlen = 2;
    }
    if (!head->failed) {
        sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}
