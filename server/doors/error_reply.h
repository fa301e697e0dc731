/* Every error that a caller can see: its HTTP status, its code, its JSON body. The one place where err.kind
 * becomes a status. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "jail/base/err.h"

struct buf;

enum error_class {
    ERROR_NOT_JSON,
    ERROR_BAD_REQUEST, /* the request as a whole */
    ERROR_BAD_FIELD,
    ERROR_UNAUTHORIZED,
    ERROR_FORBIDDEN,
    ERROR_APPROVAL,
    ERROR_REJECTED,
    ERROR_EXPIRED,
    ERROR_NO_SUCH_PATH,
    ERROR_METHOD,
    ERROR_CONFLICT,
    ERROR_TOO_SLOW,
    ERROR_TOO_LARGE,
    ERROR_MEDIA_TYPE,
    ERROR_RATE,
    ERROR_HEADERS,
    ERROR_INTERNAL,
    ERROR_SETUP,
    ERROR_BUSY,
    ERROR_UNAVAILABLE,
    ERROR_NOT_READY,
    ERROR_CLASS_COUNT,
};

/* Which class an error of ours or of the warden's is. */
enum error_class error_class_of(const struct err *err);

unsigned error_status(enum error_class class);
const char *error_code(enum error_class class);
const char *error_sentence(enum error_class class);

/* Appends {"error", "code", "field"} and, for ERROR_SETUP, "status" and "step". `text` NULL: the class's own
 * sentence; `field` and `step` NULL or "": null. */
void error_write(struct buf *ret, enum error_class class, const char *text, const char *field,
                 const char *step);

/* The same for a struct err, whose text is a whole sentence. Tells nothing of internal errors. */
void error_write_err(struct buf *ret, const struct err *err);

/* Milliseconds as a Retry-After header's whole seconds, at least 1. */
uint64_t error_retry_after_s(uint64_t retry_after_ms);
