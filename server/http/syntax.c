/* The form of requests. Runs in the front, on bytes from anybody.
 *
 * Where two programs on a caller's way read the same bytes differently, a request can be hidden in another
 * one. So what leaves room for two readings is refused, although RFC 9112 lets a server be lenient: lines
 * that end with a bare LF or hold a bare CR, headers that go on in the next line, blanks before a colon,
 * control characters, two Hosts, a length with chunks. Nobody reads these bytes but this file. */
#include "server/http/syntax.h"

#include <string.h>
#include <strings.h>

#include "config/format/hex_digit.h"
#include "jail/base/io.h"

static bool is_token_char(char c)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    bool alphanumeric = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return alphanumeric || (c != '\0' && strchr(others, c));
}

static bool is_token(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (!is_token_char(text[i])) {
            return false;
        }
    }
    return size > 0;
}

/* Visible characters, blanks and tabs; bytes above ASCII are left to those who read the value. */
static bool is_value_char(char c)
{
    unsigned char byte = (unsigned char)c;
    return (byte >= 0x20 && byte != 0x7f) || byte == '\t';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* ---- Head ---- */

/* Broken lines are noticed as they come: whoever sends them may wait for an answer. */
ssize_t http_syntax_head_size(const char *text, size_t size, size_t *scanned)
{
    for (size_t i = *scanned; i < size; i++) {
        bool ends_line = i > 0 && text[i - 1] == '\r';
        if (text[i] == '\0' || (text[i] == '\n') != ends_line) {
            return -1;
        }
        if (ends_line && i >= 3 && text[i - 2] == '\n') {
            return (ssize_t)i + 1;
        }
        *scanned = i + 1;
    }
    return 0;
}

static bool is_target(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] <= 0x20 || text[i] >= 0x7f) {
            return false;
        }
    }
    return size > 0;
}

void http_syntax_guess(char *text, size_t size, struct http_head *ret)
{
    size_t length = 0;
    while (length < size && text[length] != '\0' && text[length] != '\r' && text[length] != '\n') {
        length++;
    }
    char *target = memchr(text, ' ', length);
    char *end = target ? memchr(target + 1, ' ', length - (size_t)(target + 1 - text)) : NULL;
    if (end) {
        *target = *end = '\0';
        *ret = (struct http_head){.method = text, .path = target + 1};
    }
}

/* The line ends at `end`. Our own server is no proxy: no absolute URL, no authority, no asterisk. */
static bool read_line(char *line, char *end, bool proxied, struct http_head *ret)
{
    char *target = memchr(line, ' ', (size_t)(end - line));
    char *version = target ? memchr(target + 1, ' ', (size_t)(end - target) - 1) : NULL;
    if (!version || end - version != 9 || !is_token(line, (size_t)(target - line)) ||
        !is_target(target + 1, (size_t)(version - target) - 1) || (!proxied && target[1] != '/')) {
        return false;
    }
    *target++ = *version++ = *end = '\0';
    ret->method = line;
    ret->path = target;
    ret->is_1_0 = strcmp(version, "HTTP/1.0") == 0;
    ret->query = proxied ? NULL : strchr(target, '?');
    if (ret->query) {
        *ret->query++ = '\0';
        ret->query_end = version - 1;
        for (char *c = ret->query; (c = strchr(c, '&'));) {
            *c++ = '\0';
        }
    }
    return ret->is_1_0 || strcmp(version, "HTTP/1.1") == 0;
}

/* What stands behind "Transfer-Encoding: chunked" decides how others read it, be it a blank. */
static bool read_field(char *line, char *end, struct http_field *ret)
{
    char *colon = memchr(line, ':', (size_t)(end - line));
    if (!colon || !is_token(line, (size_t)(colon - line))) {
        return false;
    }
    char *value = colon + 1, *value_end = end;
    while (value < value_end && is_blank(*value)) {
        value++;
    }
    while (value_end > value && is_blank(value_end[-1])) {
        value_end--;
    }
    for (const char *c = value; c < value_end; c++) {
        if (!is_value_char(*c)) {
            return false;
        }
    }
    *colon = *value_end = '\0';
    *ret = (struct http_field){line, value};
    return value_end == end || strcasecmp(line, "Transfer-Encoding") != 0;
}

static size_t count(const struct http_head *head, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < head->n_fields; i++) {
        n += strcasecmp(head->fields[i].name, name) == 0;
    }
    return n;
}

char *http_syntax_field(const struct http_head *head, const char *name)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        if (strcasecmp(head->fields[i].name, name) == 0) {
            return head->fields[i].value;
        }
    }
    return NULL;
}

bool http_syntax_lists(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; at && *at; at += strcspn(at, ",") + (strchr(at, ',') != NULL)) {
        at += strspn(at, " \t");
        if (strncasecmp(at, word, length) == 0 && strchr(", \t", at[length])) {
            return true;
        }
    }
    return false;
}

static bool wants_end(const struct http_head *head)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        if (strcasecmp(head->fields[i].name, "Connection") == 0 &&
            http_syntax_lists(head->fields[i].value, "close")) {
            return true;
        }
    }
    return head->is_1_0;
}

/* An empty line before a request is skipped (RFC 9112, 2.2). Each line ends with CRLF, as the size says. */
static enum http_syntax_verdict read_head(char *text, size_t size, bool proxied, struct http_head *ret)
{
    char *at = text, *end = text + size - 2;
    at += size > 2 && at[0] == '\r' ? 2 : 0;
    *ret = (struct http_head){0};
    char *line_end = memchr(at, '\r', (size_t)(end - at) + 1);
    if (!line_end || !read_line(at, line_end, proxied, ret)) {
        return HTTP_SYNTAX_MALFORMED;
    }
    for (at = line_end + 2; at < end; at = line_end + 2) {
        struct http_field field;
        line_end = memchr(at, '\r', (size_t)(end - at));
        if (!line_end || !read_field(at, line_end, &field)) {
            return HTTP_SYNTAX_MALFORMED;
        }
        if (ret->n_fields == HTTP_HEADERS_MAX) {
            return HTTP_SYNTAX_TOO_MANY;
        }
        ret->fields[ret->n_fields++] = field;
    }
    size_t n_hosts = count(ret, "Host");
    bool hosts = n_hosts == 1 || (n_hosts == 0 && ret->is_1_0);
    bool foreign = ret->is_1_0 && count(ret, "Transfer-Encoding") > 0; /* 1.0 has none */
    ret->ends_connection = wants_end(ret);
    return hosts && !foreign ? HTTP_SYNTAX_SOUND : HTTP_SYNTAX_MALFORMED;
}

enum http_syntax_verdict http_syntax_read(char *text, size_t size, struct http_head *ret)
{
    return read_head(text, size, false, ret);
}

enum http_syntax_verdict http_syntax_read_proxied(char *text, size_t size, struct http_head *ret)
{
    return read_head(text, size, true, ret);
}

/* More than 64 bits is as large as can be. */
static bool read_length(const char *value, uint64_t *ret)
{
    *ret = UINT64_MAX;
    return *value && value[strspn(value, "0123456789")] == '\0' &&
           (io_parse_u64(value, ret) == 0 || *ret == UINT64_MAX);
}

/* One length or "chunked", and never two of either. */
bool http_syntax_framing(const struct http_head *head, struct http_framing *ret)
{
    size_t n_lengths = count(head, "Content-Length"), n_encodings = count(head, "Transfer-Encoding");
    *ret = (struct http_framing){.chunked = n_encodings > 0};
    if (n_lengths + n_encodings != 1) {
        return n_lengths + n_encodings == 0;
    }
    return ret->chunked ? strcasecmp(http_syntax_field(head, "Transfer-Encoding"), "chunked") == 0
                        : read_length(http_syntax_field(head, "Content-Length"), &ret->length);
}

/* ---- Chunks ---- */

#define CHUNK_DIGITS_MAX    16
#define CHUNK_EXTENSION_MAX 256
#define TRAILER_BYTES_MAX   4096

/* What the next byte belongs to. */
enum {
    CHUNK_SIZE,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    TRAILER_LINE,
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    TRAILERS_LF,
    CHUNKS_ENDED,
};

/* One or more digits, then an extension or the line's end. */
static int take_size(struct http_chunks *chunks, char c)
{
    int digit = hex_digit(c);
    if (digit >= 0) {
        chunks->left = chunks->left * 16 + (unsigned)digit;
        return ++chunks->n_digits <= CHUNK_DIGITS_MAX ? CHUNK_SIZE : -1;
    }
    chunks->line_bytes = 0;
    return chunks->n_digits == 0 ? -1 : c == ';' ? CHUNK_EXTENSION : c == '\r' ? CHUNK_SIZE_LF : -1;
}

static int end_size(struct http_chunks *chunks, char c)
{
    chunks->n_digits = 0;
    chunks->line_bytes = 0;
    return c != '\n' ? -1 : chunks->left > 0 ? CHUNK_DATA : TRAILER_LINE;
}

static int take_trailer(const struct http_chunks *chunks, char c)
{
    switch (chunks->state) {
    case TRAILER_LINE:
        return c == '\r' ? TRAILERS_LF : is_token_char(c) ? TRAILER_NAME : -1;
    case TRAILER_NAME:
        return c == ':' ? TRAILER_VALUE : is_token_char(c) ? TRAILER_NAME : -1;
    default:
        return c == '\r' ? TRAILER_LF : is_value_char(c) ? TRAILER_VALUE : -1;
    }
}

/* The state behind this byte, which is none of the body; -1: malformed. */
static int take_byte(struct http_chunks *chunks, char c)
{
    chunks->line_bytes++;
    switch (chunks->state) {
    case CHUNK_SIZE:
        return take_size(chunks, c);
    case CHUNK_EXTENSION:
        return chunks->line_bytes > CHUNK_EXTENSION_MAX ? -1
               : c == '\r'                              ? CHUNK_SIZE_LF
               : is_value_char(c)                       ? CHUNK_EXTENSION
                                                        : -1;
    case CHUNK_SIZE_LF:
        return end_size(chunks, c);
    case CHUNK_DATA_CR:
        return c == '\r' ? CHUNK_DATA_LF : -1;
    case CHUNK_DATA_LF:
        return c == '\n' ? CHUNK_SIZE : -1;
    case TRAILER_LF:
        return c == '\n' ? TRAILER_LINE : -1;
    case TRAILERS_LF:
        return c == '\n' ? CHUNKS_ENDED : -1;
    default:
        return chunks->line_bytes > TRAILER_BYTES_MAX ? -1 : take_trailer(chunks, c);
    }
}

ssize_t http_chunks_take(struct http_chunks *chunks, const char *data, size_t size, size_t *ret_piece)
{
    size_t at = 0;
    *ret_piece = 0;
    while (at < size && chunks->state != CHUNKS_ENDED && chunks->state != CHUNK_DATA) {
        int next = take_byte(chunks, data[at++]);
        if (next < 0) {
            return -1;
        }
        chunks->state = (unsigned)next;
    }
    if (chunks->state == CHUNK_DATA) {
        size_t rest = size - at;
        *ret_piece = rest < chunks->left ? rest : (size_t)chunks->left;
        chunks->left -= *ret_piece;
        chunks->state = chunks->left == 0 ? CHUNK_DATA_CR : CHUNK_DATA;
    }
    return (ssize_t)(at + *ret_piece);
}

bool http_chunks_ended(const struct http_chunks *chunks)
{
    return chunks->state == CHUNKS_ENDED;
}
