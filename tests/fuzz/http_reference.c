/* HTTP/1.x requests by the letter of RFC 9112, without any of its tolerance. Shares no line with the server.
 */
#include "tests/fuzz/http_reference.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "jail/base/cleanup.h"

static bool is_cut(char c)
{
    return c == '\0' || c == '\r' || c == '\n';
}

/* The last line's end and the empty line. Once libmicrohttpd has cut the text up, each byte of them is a NUL,
 * and so is a colon without a name, which it takes for an empty line: of any four bytes in which it sees both
 * line ends, nobody could tell that they were no CRLF CRLF. */
static bool ends_head(const char *at, const char *end)
{
    if (end - at < 4 || at[3] != '\n' || !memchr(at, '\n', 3)) {
        return false;
    }
    for (int i = 0; i < 3; i++) {
        if (!is_cut(at[i]) && !(i > 0 && at[i] == ':' && at[i - 1] == '\n')) {
            return false;
        }
    }
    return true;
}

/* The line at `*at`, which moves behind its CRLF, or behind the head. Of a NUL before the LF nobody could
 * tell that it was no CR; who ends lines with a bare LF sees the same line, others none at all. */
static bool take_line(const char **at, const char *end, const char **ret, size_t *ret_size, bool *ret_last)
{
    const char *line_end = *at;
    while (line_end < end && !is_cut(*line_end)) {
        line_end++;
    }
    *ret = *at;
    *ret_size = (size_t)(line_end - *at);
    *ret_last = ends_head(line_end, end);
    *at = line_end + (*ret_last ? 4 : 2);
    return *ret_last || (end - line_end >= 2 && line_end[0] != '\n' && line_end[1] == '\n');
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
        if (!isdigit((unsigned char)value[i]) || length > SIZE_MAX / 20) {
            return false;
        }
        length = length * 10 + (size_t)(value[i] - '0');
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

bool http_reference_next(struct http_reference *reference)
{
    const char *line = NULL, *at = reference->at, *end = reference->end;
    size_t size = 0;
    unsigned n_framings = 0;
    reference->chunked = false;
    reference->body_size = 0;
    /* Empty lines before a request are skipped everywhere. To libmicrohttpd a line is empty that begins with
     * a NUL, too; nobody would pass one on. */
    while (at && at < end && (*at == '\0' || *at == '\r' || *at == '\n')) {
        const char *lf = memchr(at, '\n', (size_t)(end - at));
        at = lf ? lf + 1 : NULL;
    }
    bool last = false;
    if (!at || !take_line(&at, end, &line, &size, &last) || !read_request_line(reference, line, size)) {
        return false;
    }
    while (!last) {
        if (!take_line(&at, end, &line, &size, &last) || !read_header(reference, line, size, &n_framings)) {
            return false;
        }
    }
    reference->body = at;
    size_t left = (size_t)(end - at);
    bool ends_here = !reference->chunked && reference->body_size <= left;
    reference->at = ends_here ? at + reference->body_size : NULL;
    return n_framings <= 1;
}
