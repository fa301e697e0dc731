/* One question to a server over HTTP. Runs in commands of a person's own, against a server that this person
 * trusts with a key, and still believes no length that the server tells. */
#include "server/cli/http_ask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "server/cli/mcp_relay.h"
#include "server/host/listen.h"

#define REPLY_BYTES_MAX (64u << 20)
#define TIMEOUT_S       60

static int fail(struct err *reterr, int code, const char *what)
{
    return err_set(reterr, ERR_UNAVAILABLE, code, NULL, "%s: %s", what, strerror(code));
}

static void put_request(const struct http_question *question, struct buf *ret)
{
    size_t size = question->body ? question->body->len : 0;
    char host[LISTEN_TEXT_BYTES];
    listen_host(question->server, host);
    buf_printf(ret, "%s %s HTTP/1.0\r\nHost: %s\r\nConnection: close\r\nContent-Length: %zu\r\n",
               question->method, question->path, host, size);
    if (question->body) {
        buf_puts(ret, "Content-Type: application/json\r\n");
    }
    if (question->key[0] != '\0') {
        buf_printf(ret, "Authorization: Bearer %s\r\n", question->key);
    }
    buf_puts(ret, "\r\n");
    if (question->body) {
        buf_append(ret, question->body->data, size);
    }
}

/* "HTTP/1.x NNN ...", headers, and the body up to the end of the connection. */
static int take_reply(const struct buf *reply, unsigned *ret_status, struct buf *ret, struct err *reterr)
{
    const char *end = reply->len > 0 ? memmem(reply->data, reply->len, "\r\n\r\n", 4) : NULL;
    if (!end || reply->len < 13 || strncmp(reply->data, "HTTP/1.", 7) != 0 || reply->data[8] != ' ') {
        return err_set(reterr, ERR_UNAVAILABLE, EPROTO, NULL, "the server gave no answer over HTTP");
    }
    *ret_status = (unsigned)strtoul(reply->data + 9, NULL, 10);
    size_t head = (size_t)(end - reply->data) + 4;
    int r = buf_append(ret, reply->data + head, reply->len - head);
    return r < 0 ? err_errno(reterr, -r, "reading the server's answer") : 0;
}

int http_ask(const struct http_question *question, unsigned *ret_status, struct buf *ret, struct err *reterr)
{
    CLEANUP(buf_free) struct buf request = BUF_INIT, reply = BUF_INIT;
    if (strpbrk(question->key, "\r\n")) {
        return err_set(reterr, ERR_INVALID, EINVAL, NULL, "the key has a line break in it");
    }
    CLEANUP(fd_closep) int fd = relay_connect(question->server);
    if (fd < 0) {
        return fail(reterr, -fd, "cannot connect to the server");
    }
    const struct timeval timeout = {.tv_sec = TIMEOUT_S};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    put_request(question, &request);
    int r = request.failed ? -ENOMEM : io_write_full(fd, request.data, request.len);
    if (request.data) {
        explicit_bzero(request.data, request.len);
    }
    r = r < 0 ? r : io_read_fd(fd, REPLY_BYTES_MAX, &reply);
    return r < 0 ? fail(reterr, -r, "asking the server") : take_reply(&reply, ret_status, ret, reterr);
}
