/* struct body_reading: what a request's body says. */
#pragma once

#include <stddef.h>

#include "jail/base/err.h"
#include "server/doors/door.h"

struct json;
struct json_doc;
struct request;
struct server_config;

enum body_outcome {
    BODY_READ,
    BODY_NOT_JSON, /* `err` says why; ERR_INTERNAL: no memory */
    BODY_REFUSED,  /* by its door; `err` is what decode() said */
};

struct body_reading {
    enum body_outcome outcome;
    struct json_doc *doc;           /* where BODY_READ, and its door has not decoded it */
    struct execute_request execute; /* where BODY_READ, and its door has */
    struct err err;
};
#define BODY_READING_NONE ((struct body_reading){.execute = EXECUTE_REQUEST_INIT})

/* Reads JSON, and decodes it where the door (NULL: none) decodes whole bodies. Knows nothing but its
 * arguments, so that a thread may do it beside the loop. body_clear() the reading. */
void body_read(const struct door *door, const char *text, size_t size, const struct server_config *config,
               struct body_reading *ret);
void body_clear(struct body_reading *reading);

/* The request's: read now where no thread has done so. It stays the request's, but `execute` may be taken. */
struct body_reading *body_of(struct request *request);
