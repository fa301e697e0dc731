/* POST /executions/{execution_id}/answers: what a caller answers to tool calls that it was told of. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;
struct json;

#define ANSWERS_MAX 1024u /* in one request */

/* An answer: of the document that it was decoded from. */
struct answer {
    const char *id;
    bool failed;             /* the text says why */
    const struct json *text; /* a string */
};

/* [{"id": ..., "data": TEXT} or {"id": ..., "error": TEXT}, ...], all or nothing: `ret` is the caller's to
 * free. ERR_INVALID names the field. */
int answers_decode(const struct json *root, struct answer **ret, size_t *ret_n, struct err *reterr);
/* Appends a member of the reply's `refused`. */
void answer_write_refused(const char *id, struct buf *ret);
