/* Pages in a browser that call a server which asks for no key. */
#pragma once

#include <stdbool.h>

struct listen_address;

/* A Host header, or the host of an Origin: is it a name of this server, or a loopback address? */
bool page_host_is_ours(const char *host, const struct listen_address *listen);

/* An Origin header, NULL included, of a page that may call; one without a host ("null") may not. */
bool page_origin_is_ours(const char *origin, const struct listen_address *listen);
