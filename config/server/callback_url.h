/* struct callback_url: where tool calls may go, and where a job wants them to go. One narrow reading of a
 * URL, so that what is compared here is what is later connected to. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CALLBACK_URL_BYTES_MAX 2048u
#define CALLBACK_HOST_BYTES    256

struct callback_url {
    bool https;
    char host[CALLBACK_HOST_BYTES]; /* in lower case, without brackets */
    bool is_literal;                /* an address in numbers */
    bool is_ipv6;                   /* and which kind of address */
    uint16_t port;
    size_t path_at, path_size; /* in the text: behind host and port, up to the query */
};

/* scheme://host[:port][/path][?query]: http or https; no user, no fragment, no "." or ".." in the path,
 * however written; numbers as an address only in their usual form. -EINVAL with `*ret_why`. */
int callback_url_parse(const char *text, struct callback_url *ret, const char **ret_why);

/* Whether `url` (whose text is `text`) has scheme, host and port of `entry`, and lies at or below its path.
 */
bool callback_url_covers(const struct callback_url *entry, const char *entry_text,
                         const struct callback_url *url, const char *text);

/* A name that means this host, wherever it is asked. */
bool callback_url_is_localhost(const struct callback_url *url);
