/* What a request's line and headers must look like, held more strictly than libmicrohttpd does. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* One request: begin, each header in its order, end. */
struct http_syntax {
    const char *start, *end; /* of what has been seen, where it was read */
    bool in_place, broken;
    bool is_1_0;
    size_t n_headers, n_hosts;
};

/* Of the request's line; `target` is the path with its query. False: malformed. */
bool http_syntax_is_target(const char *target);
/* `in_place`: name and value of each header still lie where the request was read, with a NUL for each byte of
 * the line ends between them, so that these can be told apart. `target_end` is then where the target ends as
 * a string: a NUL that the caller has put into it ends it early. */
void http_syntax_begin(struct http_syntax *syntax, const char *method, const char *path,
                       const char *target_end, const char *version, bool in_place);
void http_syntax_header(struct http_syntax *syntax, const char *name, size_t name_size, const char *value,
                        size_t value_size);
/* `size`: of the request up to its body, as read. False: malformed. */
bool http_syntax_end(const struct http_syntax *syntax, size_t size);
