/* A second reader of HTTP requests, which knows one way only to write them. Whatever the server takes for a
 * request, this one must take for the same: else a proxy could see another request in it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct http_reference {
    const char *at, *end; /* what has not been read; `at` NULL: nothing more may be */
    const char *method, *path;
    size_t method_size, path_size; /* the path without its query */
    const char *body;
    size_t body_size; /* as announced, or what has come in chunks */
    bool chunked;     /* the connection ends with such a request */
    bool whole;       /* all of the body is there */
    char pieces[1024];
};

/* The next request's head. False: it is malformed or not complete. */
bool http_reference_next(struct http_reference *reference);
