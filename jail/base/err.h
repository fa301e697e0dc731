/* struct err: what went wrong, as plain data on the caller's stack. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Every kind of failure. server/ derives an HTTP status from it in one place, the command line an exit code.
 */
enum err_kind {
    ERR_NONE,
    ERR_INTERNAL,  /* a system call or an invariant failed; nobody's input is to blame */
    ERR_INVALID,   /* a caller's value; `item` is the field's name */
    ERR_CONFIG,    /* the operator's or the policy author's value; `item` is file:line:column or the field */
    ERR_DENIED,    /* the caller may not use this */
    ERR_NOT_FOUND, /* no such thing */
    ERR_BUSY,      /* no capacity now; try again */
    ERR_RATE,      /* this caller's own limit */
    ERR_TOO_LARGE, /* over a size limit */
    ERR_HOST,      /* the host does not offer what the configuration requires */
    ERR_SETUP,     /* the jail could not be built; `step` names the step */
    ERR_CONFLICT,  /* it has been decided otherwise meanwhile */
    ERR_APPROVAL,  /* somebody has to agree first */
    ERR_UNAVAILABLE, /* shutting down, or the other process is gone */
};

struct err {
    enum err_kind kind;
    int code;       /* a positive errno value, 0 where none applies */
    char step[64];  /* jail steps: "step 7 (bind /usr)"; "" elsewhere */
    char item[256]; /* field, file:line:column or path; "" where none applies */
    char text[512]; /* one sentence without a final full stop */
};

/* Fills `reterr` (NULL is allowed) unless it already holds an error: the first cause wins. Returns -code, or
 * -EINVAL where code is 0, so that `return err_set(...)` is how a function fails. */
int err_set(struct err *reterr, enum err_kind kind, int code, const char *item, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* As err_set() with kind ERR_INTERNAL and strerror(code) appended: "while WHAT: Permission denied". */
int err_errno(struct err *reterr, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Puts "CONTEXT: " before the text of an error that is already there. Returns -code like err_set(). */
int err_wrap(struct err *reterr, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Forgets the error, so that the struct can be used again. Takes NULL. */
void err_clear(struct err *err);

bool err_is_set(const struct err *err);

/* A stable lower-case word for each kind: "invalid", "host", ... */
const char *err_kind_to_string(enum err_kind kind);
