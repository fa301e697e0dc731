/* The one error object. Used in every process; never allocates, never logs, never exits. */
#include "jail/base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int err_return(int code)
{
    return code > 0 ? -code : -EINVAL;
}

int err_set(struct err *reterr, enum err_kind kind, int code, const char *item, const char *fmt, ...)
{
    if (!reterr || err_is_set(reterr)) {
        return err_return(code);
    }
    *reterr = (struct err){.kind = kind, .code = code};
    if (item) {
        snprintf(reterr->item, sizeof reterr->item, "%s", item);
    }
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(reterr->text, sizeof reterr->text, fmt, ap);
    va_end(ap);
    return err_return(code);
}

int err_errno(struct err *reterr, int code, const char *fmt, ...)
{
    if (!reterr || err_is_set(reterr)) {
        return err_return(code);
    }
    char what[384];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return err_set(reterr, ERR_INTERNAL, code, NULL, "%s: %s", what, strerror(code));
}

int err_wrap(struct err *reterr, const char *fmt, ...)
{
    if (!reterr) {
        return -EINVAL;
    }
    char context[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(context, sizeof context, fmt, ap);
    va_end(ap);
    char cause[sizeof reterr->text];
    memcpy(cause, reterr->text, sizeof cause);
    snprintf(reterr->text, sizeof reterr->text, "%s: %.*s", context, (int)(sizeof cause - sizeof context - 3),
             cause);
    return err_return(reterr->code);
}

void err_clear(struct err *err)
{
    if (err) {
        *err = (struct err){.kind = ERR_NONE};
    }
}

bool err_is_set(const struct err *err)
{
    return err && err->kind != ERR_NONE;
}

const char *err_kind_to_string(enum err_kind kind)
{
    static const char *const names[] = {
        [ERR_NONE] = "none",         [ERR_INTERNAL] = "internal", [ERR_INVALID] = "invalid",
        [ERR_CONFIG] = "config",     [ERR_DENIED] = "denied",     [ERR_NOT_FOUND] = "not_found",
        [ERR_BUSY] = "busy",         [ERR_RATE] = "rate",         [ERR_TOO_LARGE] = "too_large",
        [ERR_HOST] = "host",         [ERR_SETUP] = "setup",       [ERR_UNAVAILABLE] = "unavailable",
        [ERR_CONFLICT] = "conflict", [ERR_APPROVAL] = "approval",
    };
    return (size_t)kind < sizeof names / sizeof names[0] ? names[kind] : "unknown";
}
