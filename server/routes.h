/* The routes: method and path -> handler. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct request;

enum route_access {
    ROUTE_FOR_ANYONE,
    ROUTE_FOR_KEYS,
    ROUTE_FOR_METRICS, /* for keys, unless the configuration opens it */
};

struct route {
    const char *method;
    const char *path;
    enum route_access access;
    bool takes_body; /* JSON; the handler runs when it is complete, otherwise as soon as the headers are there
                      */
    void (*handle)(struct request *request);
};

#define ROUTE_ALLOW_BYTES 64

/* The route, or NULL. HEAD finds what GET does. `*ret_path` is any route of that path, or NULL for an unknown
 * path; `ret_allow` gets the path's methods: "GET, HEAD". */
const struct route *route_find(const char *method, const char *path, const struct route **ret_path,
                               char ret_allow[ROUTE_ALLOW_BYTES]);
