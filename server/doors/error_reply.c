/* Errors as replies. Used by the front. An internal error is told as "internal error": what went wrong is in
 * the log, under the request's id. */
#include "server/doors/error_reply.h"

#include <stdio.h>
#include <string.h>

#include "config/format/json.h"
#include "jail/base/buf.h"

static const struct {
    unsigned status;
    const char *code, *text;
} classes[] = {
    [ERROR_NOT_JSON] = {400, "invalid_json", "the body is not JSON"},
    [ERROR_BAD_REQUEST] = {400, "invalid_request", "malformed request"},
    [ERROR_BAD_FIELD] = {400, "invalid_field", "invalid field"},
    [ERROR_UNAUTHORIZED] = {401, "unauthorized",
                            "a valid API key is required: send it as X-Service-API-Key: KEY, as "
                            "Authorization: Bearer KEY, or as "
                            "the password of HTTP Basic"},
    [ERROR_FORBIDDEN] = {403, "forbidden", "this key may not do that"},
    [ERROR_APPROVAL] = {403, "approval_required", "the job needs an approval"},
    [ERROR_REJECTED] = {403, "approval_rejected", "the job was rejected"},
    [ERROR_EXPIRED] = {403, "approval_expired", "nobody has decided about the job in time"},
    [ERROR_NO_SUCH_PATH] = {404, "not_found", "no such path"},
    [ERROR_METHOD] = {405, "method_not_allowed", "this path does not take this method"},
    [ERROR_CONFLICT] = {409, "conflict", "that has been decided already"},
    [ERROR_TOO_SLOW] = {408, "request_timeout", "the request took too long to arrive"},
    [ERROR_TOO_LARGE] = {413, "too_large", "the request is too large"},
    [ERROR_MEDIA_TYPE] = {415, "unsupported_media_type", "the body must be application/json"},
    [ERROR_RATE] = {429, "rate_limited", "too many jobs of this key at once"},
    [ERROR_HEADERS] = {431, "headers_too_large", "the request's headers are too large"},
    [ERROR_INTERNAL] = {500, "internal_error", "internal error"},
    [ERROR_SETUP] = {500, "setup_error", "the jail could not be built"},
    [ERROR_BUSY] = {503, "busy", "server busy: execution capacity reached"},
    [ERROR_UNAVAILABLE] = {503, "unavailable", "the server is shutting down"},
    [ERROR_NOT_READY] = {503, "not_ready", "the server is not ready"},
};

enum error_class error_class_of(const struct err *err)
{
    bool names_field = err->item[0] != '\0';
    switch (err->kind) {
    case ERR_INVALID:
        return names_field ? ERROR_BAD_FIELD : ERROR_BAD_REQUEST;
    case ERR_NOT_FOUND:
        /* A field that names something unknown is a bad field; only an unknown path is 404. */
        return names_field ? ERROR_BAD_FIELD : ERROR_NO_SUCH_PATH;
    case ERR_DENIED:
        return ERROR_FORBIDDEN;
    case ERR_BUSY:
        return ERROR_BUSY;
    case ERR_RATE:
        return ERROR_RATE;
    case ERR_TOO_LARGE:
        return ERROR_TOO_LARGE;
    case ERR_SETUP:
        return ERROR_SETUP;
    case ERR_APPROVAL:
        return ERROR_APPROVAL;
    case ERR_CONFLICT:
        return ERROR_CONFLICT;
    case ERR_UNAVAILABLE:
        return ERROR_UNAVAILABLE;
    case ERR_NONE:
    case ERR_INTERNAL:
    case ERR_CONFIG:
    case ERR_HOST:
        break;
    }
    return ERROR_INTERNAL;
}

unsigned error_status(enum error_class class)
{
    return classes[class].status;
}

const char *error_code(enum error_class class)
{
    return classes[class].code;
}

const char *error_sentence(enum error_class class)
{
    return classes[class].text;
}

static void write_member(struct buf *ret, const char *name, const char *value)
{
    buf_printf(ret, "\"%s\": ", name);
    if (value && *value) {
        json_write_string(ret, value, strlen(value));
    } else {
        buf_puts(ret, "null");
    }
}

void error_write(struct buf *ret, enum error_class class, const char *text, const char *field,
                 const char *step)
{
    buf_putc(ret, '{');
    write_member(ret, "error", text && *text ? text : classes[class].text);
    buf_puts(ret, ", ");
    write_member(ret, "code", classes[class].code);
    buf_puts(ret, ", ");
    write_member(ret, "field", field);
    if (class == ERROR_SETUP) {
        buf_puts(ret, ", \"status\": \"setup_error\", ");
        write_member(ret, "step", step);
    }
    buf_puts(ret, "}\n");
}

static bool names_field(enum error_class class)
{
    return class == ERROR_BAD_FIELD || class == ERROR_FORBIDDEN || class == ERROR_APPROVAL;
}

void error_write_err(struct buf *ret, const struct err *err)
{
    enum error_class class = error_class_of(err);
    if (class == ERROR_INTERNAL) {
        error_write(ret, class, NULL, NULL, NULL);
        return;
    }
    char text[sizeof err->step + sizeof err->text + 2];
    bool prefixed = err->step[0] == '\0' || strncmp(err->text, err->step, strlen(err->step)) == 0;
    snprintf(text, sizeof text, "%s%s%s", prefixed ? "" : err->step, prefixed ? "" : ": ", err->text);
    error_write(ret, class, text, names_field(class) ? err->item : NULL, err->step);
}

uint64_t error_retry_after_s(uint64_t retry_after_ms)
{
    uint64_t seconds = retry_after_ms / 1000 + (retry_after_ms % 1000 != 0);
    return seconds > 0 ? seconds : 1;
}
