/* HTTP/1.x requests by the letter of RFC 9112, without any of its tolerance. Shares no line with the server.
 */
#include "tests/fuzz/http_reference.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "jail/base/cleanup.h"

/* The line at `*at`, which moves behind its CRLF. */
static bool take_line(const char **at, const char *end, const char **ret, size_t *ret_size)
{
    const char *line_end = *at < end ? memmem(*at, (size_t)(end - *at), "\r\n", 2) : NULL;
    *ret = *at;
    *ret_size = line_end ? (size_t)(line_end - *at) : 0;
    *at = line_end ? line_end + 2 : end;
    return line_end;
}

static bool is_token(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\0' || !(isalnum((unsigned char)text[i]) || strchr("!#$%&'*+-.^_`|~", text[i]))) {
            return false;
        }
    }
    return size > 0;
}

static bool read_request_line(struct http_reference *reference, const char *line, size_t size)
{
    static const char *const versions[] = {" HTTP/1.1", " HTTP/1.0"};
    const char *blank = memchr(line, ' ', size);
    const size_t version_size = strlen(versions[0]);
    if (!blank || size < (size_t)(blank + 1 - line) + version_size) {
        return false;
    }
    const char *version = line + size - version_size;
    bool known = false;
    for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
        known |= memcmp(version, versions[i], version_size) == 0;
    }
    reference->method = line;
    reference->method_size = (size_t)(blank - line);
    reference->path = blank + 1;
    size_t target_size = (size_t)(version - reference->path);
    for (size_t i = 0; i < target_size; i++) {
        known &= reference->path[i] > ' ' && reference->path[i] < 0x7f;
    }
    const char *query = memchr(reference->path, '?', target_size);
    reference->path_size = query ? (size_t)(query - reference->path) : target_size;
    return known && is_token(line, reference->method_size) && target_size > 0 && reference->path[0] == '/';
}

static bool read_length(const char *value, size_t size, size_t *ret)
{
    size_t length = 0;
    for (size_t i = 0; i < size; i++) {
        if (!isdigit((unsigned char)value[i])) {
            return false;
        }
        length = length > SIZE_MAX / 20 ? SIZE_MAX : length * 10 + (size_t)(value[i] - '0');
    }
    *ret = length;
    return size > 0;
}

/* Notes where the body's end is announced. */
static bool read_header(struct http_reference *reference, const char *line, size_t size, unsigned *n_framings)
{
    const char *colon = memchr(line, ':', size);
    if (!colon || !is_token(line, (size_t)(colon - line))) {
        return false;
    }
    const char *value = colon + 1, *end = line + size;
    while (value < end && (*value == ' ' || *value == '\t')) {
        value++;
    }
    while (end > value && (end[-1] == ' ' || end[-1] == '\t')) {
        end--;
    }
    for (const char *c = value; c < end; c++) {
        if (((unsigned char)*c < ' ' && *c != '\t') || *c == 0x7f) {
            return false;
        }
    }
    size_t name_size = (size_t)(colon - line), value_size = (size_t)(end - value);
    if (name_size == 14 && strncasecmp(line, "Content-Length", name_size) == 0) {
        ++*n_framings;
        return read_length(value, value_size, &reference->body_size);
    }
    if (name_size == 17 && strncasecmp(line, "Transfer-Encoding", name_size) == 0) {
        ++*n_framings;
        reference->chunked = true;
        return value_size == 7 && strncasecmp(value, "chunked", 7) == 0;
    }
    return true;
}

/* Hexadecimal digits, and perhaps an extension. */
static bool read_chunk_size(const char *line, size_t size, uint64_t *ret)
{
    size_t n = 0;
    *ret = 0;
    for (; n < size && isxdigit((unsigned char)line[n]); n++) {
        const char digit[] = {line[n], '\0'};
        *ret = *ret * 16 + strtoul(digit, NULL, 16);
    }
    return n > 0 && n <= 16 && (n == size || line[n] == ';');
}

/* The body in chunks at `*at`, which moves behind it. False: malformed, or not whole. */
static bool read_chunks(struct http_reference *reference, const char **at)
{
    const char *line;
    size_t size;
    uint64_t chunk;
    do {
        if (!take_line(at, reference->end, &line, &size) || !read_chunk_size(line, size, &chunk) ||
            chunk > (size_t)(reference->end - *at) ||
            chunk > sizeof reference->pieces - reference->body_size) {
            return false;
        }
        memcpy(reference->pieces + reference->body_size, *at, chunk);
        reference->body_size += chunk;
        *at += chunk;
        if (chunk > 0 && (!take_line(at, reference->end, &line, &size) || size > 0)) {
            return false;
        }
    } while (chunk > 0);
    while (take_line(at, reference->end, &line, &size)) {
        const char *colon = memchr(line, ':', size);
        if (size == 0) {
            return true;
        }
        if (!colon || !is_token(line, (size_t)(colon - line))) {
            return false;
        }
    }
    return false;
}

static bool read_head(struct http_reference *reference, const char **at)
{
    const char *line = NULL, *end = reference->end;
    size_t size = 0;
    unsigned n_framings = 0;
    if (end - *at >= 2 && memcmp(*at, "\r\n", 2) == 0) {
        *at += 2; /* RFC 9112, 2.2 */
    }
    if (!take_line(at, end, &line, &size) || !read_request_line(reference, line, size)) {
        return false;
    }
    while (take_line(at, end, &line, &size)) {
        if (size == 0) {
            return n_framings <= 1;
        }
        if (!read_header(reference, line, size, &n_framings)) {
            return false;
        }
    }
    return false;
}

bool http_reference_next(struct http_reference *reference)
{
    const char *at = reference->at;
    reference->chunked = false;
    reference->body_size = 0;
    if (!at || !read_head(reference, &at)) {
        return false;
    }
    size_t left = (size_t)(reference->end - at);
    reference->body = at;
    if (reference->chunked) {
        reference->whole = read_chunks(reference, &at);
        reference->body = reference->pieces;
        reference->at = NULL; /* the connection ends with it */
    } else {
        reference->whole = reference->body_size <= left;
        reference->at = reference->whole ? at + reference->body_size : NULL;
    }
    return true;
}
