/* The routes: method and path -> handler. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct door;
struct request;

enum route_access {
    ROUTE_FOR_ANYONE,
    ROUTE_FOR_KEYS,
    ROUTE_FOR_WARDEN,  /* for keys, which the warden looks at itself */
    ROUTE_FOR_METRICS, /* for keys, unless the configuration opens it */
};

enum route_when {
    ROUTE_AT_HEADERS,         /* the handler answers as soon as they are there */
    ROUTE_AT_END,             /* it runs when the body, which is JSON if there is any, is complete */
    ROUTE_AT_END_OF_ANYTHING, /* the same, whatever type the body has */
};

struct route {
    const char *method;
    const char *path; /* a name in braces stands for one part, {execution_id} and {path}, which come last,
                         for any text; neither for none */
    enum route_access access;
    enum route_when when;
    const struct door *door; /* whose job it starts; NULL: none, or its handler says */
    void (*handle)(struct request *request);
    const char *only; /* where the configuration opens the door of that name, or the console; NULL: always */
};

#define ROUTE_ALLOW_BYTES    64
#define ROUTE_NEAR_BYTES     128
#define ROUTE_PARAMETERS_MAX 8

/* The routes in order; NULL past the last. */
const struct route *route_at(size_t index);

/* What stands in a path in the place of the names in braces, from the first one's to the last one's value,
 * and in `*ret_length` its length; "" where the route has none. */
const char *route_argument(const struct route *route, const char *path, size_t *ret_length);

/* The route, or NULL. HEAD finds what GET does. `*ret_path` is any route of that path, or NULL for an unknown
 * path; `ret_allow` gets the path's methods: "GET, HEAD". */
const struct route *route_find(const char *method, const char *path, const struct route **ret_path,
                               char ret_allow[ROUTE_ALLOW_BYTES]);

/* The names that the route's query may have, and how many. */
size_t route_parameters(const struct route *route, const char *ret[ROUTE_PARAMETERS_MAX]);

/* For an unknown path the one that may be meant, into `ret`: without a slash at its end, without what stands
 * before it ("/v1"), or spelt right. NULL: none is near. */
const char *route_near(const char *path, char ret[ROUTE_NEAR_BYTES]);
