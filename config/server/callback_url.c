/* URLs of tool calls. Runs in the warden on configuration and in the front on requests: one of them lists
 * what is allowed, the other is a caller's. Whatever two programs could read differently is refused rather
 * than understood. */
#include "config/server/callback_url.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/format/hex_digit.h"
#include "jail/base/io.h"

static int refuse(const char **ret_why, const char *why)
{
    *ret_why = why;
    return -EINVAL;
}

/* Visible ASCII but for what separates a URL from its surroundings, or that browsers and servers take for
 * something else. */
static bool has_odd_bytes(const char *text)
{
    for (; *text; text++) {
        if (*text <= ' ' || *text > '~' || strchr("\\\"<>^`{|}#", *text)) {
            return true;
        }
    }
    return false;
}

static int read_scheme(const char **at, struct callback_url *ret)
{
    if (strncasecmp(*at, "http://", 7) == 0) {
        *at += 7;
        ret->port = 80;
        return 0;
    }
    if (strncasecmp(*at, "https://", 8) == 0) {
        *at += 8;
        ret->https = true;
        ret->port = 443;
        return 0;
    }
    return -EINVAL;
}

static int copy_host(const char *from, size_t size, struct callback_url *ret)
{
    if (size == 0 || size >= sizeof ret->host) {
        return -EINVAL;
    }
    for (size_t i = 0; i < size; i++) {
        ret->host[i] = (char)tolower((unsigned char)from[i]);
    }
    ret->host[size] = '\0';
    return 0;
}

/* Letters, digits, '-' and '_' between dots. */
static bool is_name(const char *host)
{
    for (const char *label = host;;) {
        size_t length = strspn(label, "abcdefghijklmnopqrstuvwxyz0123456789-_");
        if (length == 0 || length > 63 || label[0] == '-') {
            return false;
        }
        if (label[length] == '\0') {
            return true;
        }
        if (label[length] != '.') {
            return false;
        }
        label += length + 1;
    }
}

/* "127.1", "0x7f000001" and "017700000001" are addresses to some and names to others. */
static bool looks_like_a_number(const char *host)
{
    const char *last = strrchr(host, '.');
    last = last ? last + 1 : host;
    return isdigit((unsigned char)last[0]) != 0;
}

static int read_host(const char **at, struct callback_url *ret, const char **ret_why)
{
    static const char no_host[] = "has no usable host";
    unsigned char address[16];
    if (**at == '[') {
        const char *end = strchr(*at, ']');
        ret->is_literal = ret->is_ipv6 = true;
        if (!end || copy_host(*at + 1, (size_t)(end - *at) - 1, ret) < 0 ||
            inet_pton(AF_INET6, ret->host, address) != 1) {
            return refuse(ret_why, no_host);
        }
        *at = end + 1;
        return 0;
    }
    size_t length = strcspn(*at, ":/?");
    if (memchr(*at, '@', strcspn(*at, "/?"))) {
        return refuse(ret_why, "must not hold a user name or a password");
    }
    if (copy_host(*at, length, ret) < 0 || !is_name(ret->host)) {
        return refuse(ret_why, no_host);
    }
    ret->is_literal = inet_pton(AF_INET, ret->host, address) == 1;
    if (!ret->is_literal && looks_like_a_number(ret->host)) {
        return refuse(ret_why, "has an address that is not written as four numbers");
    }
    *at += length;
    return 0;
}

static int read_port(const char **at, struct callback_url *ret)
{
    if (**at != ':') {
        return 0;
    }
    ++*at;
    size_t length = strspn(*at, "0123456789");
    char digits[6] = "";
    uint64_t number;
    if (length == 0 || length >= sizeof digits) {
        return -EINVAL;
    }
    memcpy(digits, *at, length);
    if (io_parse_u64(digits, &number) < 0 || number == 0 || number > UINT16_MAX) {
        return -EINVAL;
    }
    ret->port = (uint16_t)number;
    *at += length;
    return 0;
}

/* One part of the path, between slashes. Escapes for what would divide it are refused, and so are "." and
 * "..", which somebody on the way would take out. */
static bool is_plain_part(const char *part, size_t size)
{
    size_t dots = 0, length = 0;
    for (size_t i = 0; i < size; i++, length++) {
        int c = (unsigned char)part[i];
        if (c == '%') {
            int high = i + 2 < size ? hex_digit(part[i + 1]) : -1,
                low = i + 2 < size ? hex_digit(part[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return false;
            }
            c = high * 16 + low;
            i += 2;
            if (c == '/' || c == '\\' || c == '\0' || c == '%') {
                return false;
            }
        }
        dots += c == '.';
    }
    return !(dots == length && (dots == 1 || dots == 2));
}

static bool is_plain_path(const char *path, size_t size)
{
    for (size_t at = 0; at < size;) {
        const char *part = path + at + 1; /* behind its slash */
        size_t left = size - at - 1;
        const char *slash = memchr(part, '/', left);
        size_t length = slash ? (size_t)(slash - part) : left;
        if (!is_plain_part(part, length)) {
            return false;
        }
        at += length + 1;
    }
    return true;
}

int callback_url_parse(const char *text, struct callback_url *ret, const char **ret_why)
{
    struct callback_url url = {.https = false};
    const char *at = text;
    if (strlen(text) > CALLBACK_URL_BYTES_MAX) {
        return refuse(ret_why, "is too long");
    }
    if (has_odd_bytes(text)) {
        return refuse(ret_why, "holds a character that must be escaped");
    }
    if (read_scheme(&at, &url) < 0) {
        return refuse(ret_why, "must begin with http:// or https://");
    }
    int r = read_host(&at, &url, ret_why);
    if (r < 0) {
        return r;
    }
    if (read_port(&at, &url) < 0 || !strchr("/?", *at)) {
        return refuse(ret_why, "has no usable port");
    }
    url.path_at = (size_t)(at - text);
    url.path_size = strcspn(at, "?");
    if (!is_plain_path(at, url.path_size)) {
        return refuse(ret_why, "has a path with '.', '..' or an escape that is not needed");
    }
    *ret = url;
    return 0;
}

bool callback_url_covers(const struct callback_url *entry, const char *entry_text,
                         const struct callback_url *url, const char *text)
{
    if (entry->https != url->https || entry->port != url->port || strcmp(entry->host, url->host) != 0) {
        return false;
    }
    const char *prefix = entry_text + entry->path_at, *path = text + url->path_at;
    size_t size = entry->path_size;
    if (size > 0 && prefix[size - 1] == '/') {
        size--; /* "/a/" covers "/a", which servers take for the same */
    }
    return size <= url->path_size && memcmp(prefix, path, size) == 0 &&
           (size == url->path_size || path[size] == '/');
}

bool callback_url_is_localhost(const struct callback_url *url)
{
    return strcmp(url->host, "localhost") == 0;
}
