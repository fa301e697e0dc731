/* Policies of other launchers, read and written down as a policy of ours. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;
struct import_format;

/* What is imported. Everything is borrowed. */
struct import_request {
    const struct import_format *format;
    const char *path; /* for messages, and where included files lie beside it */
    const char *text;
    size_t size;
    const char *name; /* of the policy; NULL: the file's own, or what the path ends with */
    bool with_libc;   /* allow what a C library of today needs, too */
    bool alone;       /* open nothing else: included files are refused, the host is not looked at */
};

#define IMPORT_BYTES_MAX (1u << 20)

/* By the name of `--from`; NULL: none. */
const struct import_format *import_format_find(const char *name);

/* Appends the policy's text, which is one that loads, and lines that name what it does not cover ("not
 * covered: ...") and what it may want beside ("suggested: ...").
 * ERR_CONFIG with item FILE:LINE where the text is none of that format, or no program could run under it. */
int policy_import(const struct import_request *request, struct buf *ret_text, struct buf *ret_notes,
                  struct err *reterr);
