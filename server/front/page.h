/* Pages in a browser that call a server which asks for no key. */
#pragma once

#include <stdbool.h>

struct listen_address;
struct request;

/* A Host header, or the host of an Origin: is it a name of this server, or a loopback address? */
bool page_host_is_ours(const char *host, const struct listen_address *listen);

/* An Origin header, NULL included, of a page that may call; one without a host ("null") may not. */
bool page_origin_is_ours(const char *origin, const struct listen_address *listen);

/* False: a page of another host sends it, and has been refused. */
bool page_origin_fits(struct request *request);
/* The same, and what it calls this server; where keys are asked for, any page fits. */
bool page_fits(struct request *request);
