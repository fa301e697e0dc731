/* The form of requests. Runs in the front, on bytes from anybody.
 *
 * Where two programs on a caller's way read the same bytes differently, a request can be hidden in another
 * one. So what leaves room for two readings is refused, although RFC 9112 lets a server be lenient, and
 * libmicrohttpd 0.9 is: lines that end with a bare LF or hold a bare CR, headers that go on in the next line,
 * blanks before a colon, control characters, two Hosts. The line ends cannot be asked for. But the library
 * reads in place and overwrites each byte of a line's end with a NUL: two between a value and the next name
 * are CRLF, one is a bare LF, and anything else was a header of several lines. Likewise a target in which a
 * NUL came along ends before the version begins. */
#include "server/http_syntax.h"

#include <string.h>
#include <strings.h>

#define LINE_END 2 /* CRLF */

static bool is_token(const char *text, size_t size)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        bool alphanumeric = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!alphanumeric && (c == '\0' || !strchr(others, c))) {
            return false;
        }
    }
    return size > 0;
}

/* Visible characters, blanks and tabs; bytes above ASCII are left to those who read the value. */
static bool is_field_value(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    return true;
}

/* Of our own server, which is no proxy: no absolute URL, no authority, no asterisk. */
bool http_syntax_is_target(const char *target)
{
    for (const char *p = target; *p; p++) {
        if (*p <= 0x20 || *p >= 0x7f) {
            return false;
        }
    }
    return *target == '/';
}

void http_syntax_begin(struct http_syntax *syntax, const char *method, const char *path,
                       const char *target_end, const char *version, bool in_place)
{
    *syntax = (struct http_syntax){.start = method, .end = version + strlen(version), .in_place = in_place};
    syntax->is_1_0 = strcmp(version, "HTTP/1.0") == 0;
    bool known = syntax->is_1_0 || strcmp(version, "HTTP/1.1") == 0;
    bool dense = !in_place || (path == method + strlen(method) + 1 && version == target_end + 1);
    syntax->broken = !known || !is_token(method, strlen(method)) || !http_syntax_is_target(path) || !dense;
}

void http_syntax_header(struct http_syntax *syntax, const char *name, size_t name_size, const char *value,
                        size_t value_size)
{
    bool is_host = name_size == 4 && strncasecmp(name, "Host", 4) == 0;
    bool is_encoding = name_size == 17 && strncasecmp(name, "Transfer-Encoding", 17) == 0;
    syntax->n_headers++;
    syntax->n_hosts += is_host;
    if (!is_token(name, name_size) || !is_field_value(value, value_size) || (is_encoding && syntax->is_1_0) ||
        (syntax->in_place && name != syntax->end + LINE_END)) {
        syntax->broken = true;
    }
    syntax->end = value + value_size;
}

bool http_syntax_end(const struct http_syntax *syntax, size_t size)
{
    /* The last header's line end and the empty line; a value in which a NUL came along ends before them. */
    static const char ends[2 * LINE_END] = {0};
    bool whole = !syntax->in_place || (syntax->start + size == syntax->end + sizeof ends &&
                                       memcmp(syntax->end, ends, sizeof ends) == 0);
    bool hosts = syntax->n_hosts == 1 || (syntax->n_hosts == 0 && syntax->is_1_0);
    return !syntax->broken && whole && hosts;
}
