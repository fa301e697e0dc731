/* Pages in a browser that call a server which asks for no key. */
#pragma once

#include <stdbool.h>

struct listen_address;
struct request;

/* A Host header, or the host of an Origin: is it a name of this server, or a loopback address? */
bool page_host_is_ours(const char *host, const struct listen_address *listen);

/* An Origin header, NULL included, of a page that may call; one without a host ("null") may not. */
bool page_origin_is_ours(const char *origin, const struct listen_address *listen);

/* Each false: it has been refused. */
/* A page of another host does not send it. */
bool page_origin_fits(struct request *request);
/* It may ask a server that asks for no key. Others ask for one. */
bool page_fits(struct request *request);
