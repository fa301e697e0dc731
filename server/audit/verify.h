/* Reading an audit trail again: is it whole? */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "server/audit/chain.h"

struct err;

struct audit_verdict {
    uint64_t lines, faults;
    struct audit_link first_prev; /* what the first line links to */
    struct audit_link last;
    bool closed;   /* the last line says that the server stopped in order */
    bool contains; /* a line with the hash that was asked for is there */
};

struct audit_report {
    /* One sentence about a place; `fault`: something is not as it was written. */
    void (*tell)(void *arg, bool fault, const char *file, uint64_t line, const char *text);
    void *arg;
};

/* Reads the files in the order of their first lines' numbers. `contains` is a hash to look for, or NULL. A
 * file that cannot be read is an error; whatever is wrong with its lines is told and counted. */
int audit_verify(const char *const *paths, size_t n, const char *contains, const struct audit_report *report,
                 struct audit_verdict *ret, struct err *reterr);
