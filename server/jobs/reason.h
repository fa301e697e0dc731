/* Why a caller ends a job: `?reason=`, or {"reason": "..."} as the body. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct request;

#define REASON_BYTES 513

/* "" where there is none. Answers the request and returns false where it is not a short text. */
bool reason_read(struct request *request, char ret[REASON_BYTES]);

/* A part of a URL: %XX, and + for a blank in a query. False where it is not that, holds a NUL, or does not
 * fit. */
bool reason_decode_percent(const char *text, size_t length, bool plus_is_blank, char *ret, size_t size);
