/* multipart/form-data. Runs in the front, on bodies that callers chose. What a part says of itself is copied,
 * its data is not. A preamble, an epilogue, folded headers and encodings have no use here, and are refused.
 */
#include "server/doors/multipart.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "config/format/utf8.h"
#include "jail/base/err.h"

/* Of one part. */
#define HEADERS_BYTES_MAX 16384u

static int malformed(struct err *reterr, const char *why)
{
    return err_set(reterr, ERR_INVALID, EINVAL, NULL, "the multipart body is malformed: %s", why);
}

static bool is_boundary_character(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c != '\0' && strchr("'()+_,-./:=?", c));
}

/* A parameter's value: a token, or quoted, where a backslash comes before '"' or '\'. Returns what is behind
 * it; NULL: it is none, or longer than that. */
static const char *read_value(const char *at, const char *end, char *ret, size_t size)
{
    size_t n = 0;
    bool quoted = at < end && *at == '"';
    for (at += quoted; at < end && (quoted ? *at != '"' : !strchr("; \t", *at)); at++) {
        at += quoted && *at == '\\' && end - at > 1 && (at[1] == '"' || at[1] == '\\');
        if (n + 1 >= size || (unsigned char)*at < ' ' || *at == 0x7f) {
            return NULL;
        }
        ret[n++] = *at;
    }
    ret[n] = '\0';
    if (!quoted) {
        return at;
    }
    return at < end ? at + 1 : NULL;
}

/* `; name=value`. NULL: malformed; `*ret_name` is in the text. */
static const char *read_parameter(const char *at, const char *end, const char **ret_name, size_t *ret_length,
                                  char *ret, size_t size)
{
    while (at < end && (*at == ' ' || *at == '\t')) {
        at++;
    }
    if (at == end || *at != ';') {
        return NULL;
    }
    at++;
    while (at < end && (*at == ' ' || *at == '\t')) {
        at++;
    }
    const char *equals = memchr(at, '=', (size_t)(end - at));
    *ret_name = at;
    *ret_length = equals ? (size_t)(equals - at) : 0;
    return equals ? read_value(equals + 1, end, ret, size) : NULL;
}

static bool is_name(const char *name, size_t length, const char *wanted)
{
    return length == strlen(wanted) && strncasecmp(name, wanted, length) == 0;
}

int multipart_begin(struct multipart *ret, const char *content_type, const char *body, size_t size,
                    struct err *reterr)
{
    static const char type[] = "multipart/form-data";
    *ret = (struct multipart){.at = body, .end = body + size};
    if (!content_type || strncasecmp(content_type, type, sizeof type - 1) != 0) {
        return err_set(reterr, ERR_INVALID, EINVAL, "Content-Type",
                       "Content-Type: must be multipart/form-data");
    }
    const char *at = content_type + sizeof type - 1, *end = at + strlen(at), *name;
    char value[MULTIPART_BOUNDARY_BYTES];
    for (size_t length; *ret->boundary == '\0' && at < end;) {
        at = read_parameter(at, end, &name, &length, value, sizeof value);
        if (!at) {
            break;
        }
        if (is_name(name, length, "boundary")) {
            memcpy(ret->boundary, value, sizeof value);
        }
    }
    size_t fit = 0;
    while (is_boundary_character(ret->boundary[fit])) {
        fit++;
    }
    if (fit == 0 || ret->boundary[fit] != '\0') {
        return err_set(reterr, ERR_INVALID, EINVAL, "Content-Type",
                       "Content-Type: multipart/form-data needs a boundary of 1 to 70 characters");
    }
    return 0;
}

/* "--BOUNDARY" at this place. NULL: something else; else what is behind it. */
static const char *behind_boundary(const struct multipart *multipart, const char *at)
{
    size_t length = strlen(multipart->boundary);
    bool is = (size_t)(multipart->end - at) >= length + 2 && memcmp(at, "--", 2) == 0 &&
              memcmp(at + 2, multipart->boundary, length) == 0;
    return is ? at + 2 + length : NULL;
}

static bool starts(const char *at, const char *end, const char *with)
{
    return (size_t)(end - at) >= strlen(with) && memcmp(at, with, strlen(with)) == 0;
}

/* The next line end and boundary. NULL: there is none. */
static const char *find_boundary(const struct multipart *multipart, const char *at)
{
    char wanted[MULTIPART_BOUNDARY_BYTES + 4] = "\r\n--";
    memcpy(wanted + 4, multipart->boundary, strlen(multipart->boundary) + 1);
    return memmem(at, (size_t)(multipart->end - at), wanted, strlen(wanted));
}

static int read_disposition(const char *at, const char *end, struct multipart_part *ret, struct err *reterr)
{
    static const char type[] = "form-data";
    if (!starts(at, end, type)) {
        return malformed(reterr, "a part's Content-Disposition is not form-data");
    }
    at += sizeof type - 1;
    while (at < end) {
        char value[MULTIPART_NAME_BYTES];
        const char *name;
        size_t length;
        at = read_parameter(at, end, &name, &length, value, sizeof value);
        if (!at || !utf8_is_valid(value, strlen(value))) {
            return malformed(reterr, "a name is not closed, too long, or has control characters");
        }
        char *to = is_name(name, length, "name")       ? ret->name
                   : is_name(name, length, "filename") ? ret->filename
                                                       : NULL;
        if (!to || *to || (to == ret->filename && !*value)) {
            return malformed(reterr, "Content-Disposition has `name` and `filename`, each once");
        }
        memcpy(to, value, strlen(value) + 1);
    }
    return 0;
}

static int read_header(const char *at, const char *end, bool *has_disposition, struct multipart_part *ret,
                       struct err *reterr)
{
    const char *colon = memchr(at, ':', (size_t)(end - at));
    if (!colon || colon == at || memchr(at, '\0', (size_t)(end - at))) {
        return malformed(reterr, "a part's header is none");
    }
    const char *value = colon + 1;
    while (value < end && (*value == ' ' || *value == '\t')) {
        value++;
    }
    if (is_name(at, (size_t)(colon - at), "Content-Transfer-Encoding")) {
        size_t length = (size_t)(end - value);
        return is_name(value, length, "binary") || is_name(value, length, "8bit") ||
                       is_name(value, length, "7bit")
                   ? 0
                   : malformed(reterr, "its parts must not be encoded");
    }
    if (!is_name(at, (size_t)(colon - at), "Content-Disposition")) {
        return 0;
    }
    if (*has_disposition) {
        return malformed(reterr, "a part has two Content-Disposition");
    }
    *has_disposition = true;
    return read_disposition(value, end, ret, reterr);
}

/* Up to the empty line; `*at` is behind it then. */
static int read_headers(const char **at, const char *end, struct multipart_part *ret, struct err *reterr)
{
    bool has_disposition = false;
    const char *line = *at, *last = (size_t)(end - line) > HEADERS_BYTES_MAX ? line + HEADERS_BYTES_MAX : end;
    ret->name[0] = ret->filename[0] = '\0';
    for (;;) {
        const char *next = memmem(line, (size_t)(last - line), "\r\n", 2);
        if (!next) {
            return malformed(reterr, "a part's headers do not end, or are too long");
        }
        if (next == line) {
            *at = next + 2;
            break;
        }
        int r = read_header(line, next, &has_disposition, ret, reterr);
        if (r < 0) {
            return r;
        }
        line = next + 2;
    }
    return *ret->name ? 0 : malformed(reterr, "a part has no name");
}

int multipart_next(struct multipart *multipart, struct multipart_part *ret, struct err *reterr)
{
    const char *at = behind_boundary(multipart, multipart->at), *end = multipart->end;
    if (!at) {
        return malformed(reterr, "it does not begin with its boundary");
    }
    if (starts(at, end, "--")) {
        at += 2;
        return at == end || (end - at == 2 && starts(at, end, "\r\n"))
                   ? 0
                   : malformed(reterr, "there is something behind its end");
    }
    if (++multipart->n_parts > MULTIPART_PARTS_MAX) {
        return err_set(reterr, ERR_INVALID, E2BIG, NULL, "the multipart body must have at most %u parts",
                       MULTIPART_PARTS_MAX);
    }
    while (at < end && (*at == ' ' || *at == '\t')) {
        at++;
    }
    if (!starts(at, end, "\r\n")) {
        return malformed(reterr, "a boundary does not end its line");
    }
    at += 2;
    int r = read_headers(&at, end, ret, reterr);
    if (r < 0) {
        return r;
    }
    /* Without data the line end of the headers is the boundary's, too. */
    const char *behind = find_boundary(multipart, at - 2);
    if (!behind) {
        return malformed(reterr, "a part does not end with the boundary");
    }
    ret->data = at;
    ret->size = behind < at ? 0 : (size_t)(behind - at);
    multipart->at = behind + 2;
    return 1;
}
