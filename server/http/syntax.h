/* What a request must look like: the only reader of its line, its headers and its chunks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Of one request. Each costs a walk through all whenever one is looked up. */
#define HTTP_HEADERS_MAX 100

struct http_field {
    const char *name;
    char *value; /* without the blanks around it */
};

/* A request up to its body. All text lies where the request was read, and ends with a NUL. */
struct http_head {
    const char *method;      /* NULL: nothing has been read */
    const char *path;        /* without its query, not decoded */
    char *query, *query_end; /* a NUL behind each argument; NULL: none */
    bool is_1_0;
    bool ends_connection; /* the caller wants no other request on it */
    size_t n_fields;
    struct http_field fields[HTTP_HEADERS_MAX];
};

/* The bytes of the head that `text` begins with, up to its empty line; 0: more must come; -1: no head can
 * begin like this. `scanned` is 0 at first, and the caller's to keep. */
ssize_t http_syntax_head_size(const char *text, size_t size, size_t *scanned);

enum http_syntax_verdict { HTTP_SYNTAX_SOUND, HTTP_SYNTAX_MALFORMED, HTTP_SYNTAX_TOO_MANY };

/* Reads a whole head in place; as far as it can, where it is not sound. */
enum http_syntax_verdict http_syntax_read(char *text, size_t size, struct http_head *ret);
/* The same of a request to a proxy: `path` is its whole target, of any form. */
enum http_syntax_verdict http_syntax_read_proxied(char *text, size_t size, struct http_head *ret);

/* For the log: method and target of what is none, if its first line has three parts. */
void http_syntax_guess(char *text, size_t size, struct http_head *ret);

/* How the body's end is told. */
struct http_framing {
    bool chunked;
    uint64_t length; /* if not */
};

/* False: it is not clear. */
bool http_syntax_framing(const struct http_head *head, struct http_framing *ret);

/* A header's value; NULL: there is none. Of several, the first. */
char *http_syntax_field(const struct http_head *head, const char *name);
/* Whether a header's value has this word among those between its commas. */
bool http_syntax_lists(const char *list, const char *word);

/* A body in chunks, as it arrives. All zero: at its beginning. */
struct http_chunks {
    unsigned state;
    unsigned n_digits;
    size_t line_bytes; /* of extensions, or of all trailers */
    uint64_t left;     /* of the chunk */
};

/* Takes the next bytes up to the end of a piece of the body or of all; returns how many, -1: malformed. The
 * piece, which may be empty, is at the end of what has been taken. */
ssize_t http_chunks_take(struct http_chunks *chunks, const char *data, size_t size, size_t *ret_piece);
bool http_chunks_ended(const struct http_chunks *chunks);
