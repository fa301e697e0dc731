/* How a reply begins. Runs in the front. Header values are our own or checked (server/kit/ident.h): none
 * holds a line break. */
#include "server/http/wire.h"

#include <time.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"

static const char *reason_of(unsigned status)
{
    static const struct {
        unsigned status;
        const char *text;
    } reasons[] = {
        {200, "OK"},
        {202, "Accepted"},
        {204, "No Content"},
        {304, "Not Modified"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {413, "Content Too Large"},
        {415, "Unsupported Media Type"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {503, "Service Unavailable"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(reasons); i++) {
        if (reasons[i].status == status) {
            return reasons[i].text;
        }
    }
    return "";
}

void http_wire_head(struct buf *ret, unsigned status, const struct http_header *headers, size_t n_headers,
                    ssize_t body_bytes, bool last)
{
    time_t now = time(NULL);
    struct tm utc;
    char date[64];
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &utc));
    buf_printf(ret, "HTTP/1.1 %u %s\r\nDate: %s\r\n%s", status, reason_of(status), date,
               last ? "Connection: close\r\n" : "");
    if (body_bytes == HTTP_WIRE_CHUNKED) {
        buf_puts(ret, "Transfer-Encoding: chunked\r\n");
    } else if (body_bytes != HTTP_WIRE_UNBOUND && status != 204 && status != 304) {
        buf_printf(ret, "Content-Length: %zd\r\n", body_bytes);
    }
    for (size_t i = 0; i < n_headers; i++) {
        buf_printf(ret, "%s: %s\r\n", headers[i].name, headers[i].value);
    }
    buf_puts(ret, "\r\n");
}
