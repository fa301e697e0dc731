/* Structured lines for people and for machines. Used by warden and front, each with its own struct log. A
 * line is built in one buffer and written with one write(2), so that lines of two processes on one descriptor
 * never mix. Whatever a value holds (callers choose some), a line stays one line and no terminal obeys it.
 *
 * Nobody may stop the server by not reading its log: deadlines and memory are watched by a process that logs.
 * So a line waits for its reader for a moment; then lines are lost, and counted, until there is room again.
 */
#include "server/kit/log.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/format/utf8.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "server/kit/utc.h"

struct log {
    int fd;
    enum log_format format;
    enum log_level level;
    const char *who;
    bool loses_none;
    uint64_t lost; /* lines, since there was no room for one */
    uint64_t lost_in_all;
    struct buf line; /* kept between lines, so that a line costs no allocation */
};

/* The moment: once, not for each line. */
#define PATIENCE_MS 250

struct log *log_new(int fd, enum log_format format, enum log_level level, const char *who)
{
    struct log *log = calloc(1, sizeof *log);
    if (log) {
        *log = (struct log){.fd = fd, .format = format, .level = level, .who = who};
    }
    return log;
}

void log_lose_none(struct log *log)
{
    if (log) {
        log->loses_none = true;
    }
}

void log_free(struct log *log)
{
    if (log) {
        buf_free(&log->line);
        free(log);
    }
}

/* The code point of a character that must not reach a reader as it is, else 0xffff: C0, DEL and C1 controls,
 * and the two line separators at which viewers of JSON break lines. */
static unsigned escaped_code_point(const char *character, size_t len)
{
    const unsigned char *bytes = (const unsigned char *)character;
    if (len == 1 && (bytes[0] < 0x20 || bytes[0] == 0x7f)) {
        return bytes[0];
    }
    if (len == 2 && bytes[0] == 0xc2 && bytes[1] < 0xa0) {
        return bytes[1];
    }
    if (len == 3 && bytes[0] == 0xe2 && bytes[1] == 0x80 && (bytes[2] == 0xa8 || bytes[2] == 0xa9)) {
        return 0x2000u + (bytes[2] & 0x3fu);
    }
    return 0xffff;
}

/* A quoted JSON string, which is a quoted logfmt value as well. Bytes that are not UTF-8 become \ufffd. */
static void put_quoted(struct buf *line, const char *text)
{
    size_t length;
    buf_putc(line, '"');
    for (size_t len = strlen(text); len > 0; text += length, len -= length) {
        bool valid;
        length = utf8_sequence(text, len, &valid);
        unsigned code_point = valid ? escaped_code_point(text, length) : 0xfffd;
        if (code_point != 0xffff) {
            buf_printf(line, "\\u%04x", code_point);
            continue;
        }
        if (*text == '"' || *text == '\\') {
            buf_putc(line, '\\');
        }
        buf_append(line, text, length);
    }
    buf_putc(line, '"');
}

static bool is_plain(const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.:/+@%,[]*~";
    return *text && text[strspn(text, plain)] == '\0';
}

static void put_str(struct log *log, const char *text)
{
    bool json = log->format == LOG_FORMAT_JSON;
    if (!text) {
        buf_puts(&log->line, json ? "null" : "\"\"");
    } else if (!json && is_plain(text)) {
        buf_puts(&log->line, text);
    } else {
        put_quoted(&log->line, text);
    }
}

static void put_key(struct log *log, const char *key)
{
    if (log->format == LOG_FORMAT_JSON) {
        buf_puts(&log->line, log->line.len > 0 ? ",\"" : "{\"");
        buf_puts(&log->line, key);
        buf_puts(&log->line, "\":");
    } else {
        if (log->line.len > 0) {
            buf_putc(&log->line, ' ');
        }
        buf_puts(&log->line, key);
        buf_putc(&log->line, '=');
    }
}

static void put_field(struct log *log, const struct log_field *field)
{
    put_key(log, field->key);
    switch (field->kind) {
    case LOG_STR:
        put_str(log, field->str);
        break;
    case LOG_U64:
        buf_printf(&log->line, "%llu", (unsigned long long)field->u64);
        break;
    case LOG_I64:
        buf_printf(&log->line, "%lld", (long long)field->i64);
        break;
    case LOG_BOOL:
        buf_puts(&log->line, field->boolean ? "true" : "false");
        break;
    case LOG_F64:
        if (isfinite(field->f64)) {
            buf_printf(&log->line, "%.6g", field->f64);
        } else {
            buf_puts(&log->line, "null");
        }
        break;
    }
}

static void put_time(struct log *log)
{
    char text[UTC_BYTES];
    utc_write(clock_wall_ms(), text);
    put_field(log, &LOG_FIELD_STR("time", text));
}

static void compose(struct log *log, enum log_level level, const char *event, const struct log_field *fields,
                    size_t n)
{
    static const char *const names[] = {
        [LOG_ERROR] = "error", [LOG_WARNING] = "warning", [LOG_INFO] = "info", [LOG_DEBUG] = "debug"};
    log->line.len = 0;
    log->line.failed = false;
    put_time(log);
    put_field(log, &LOG_FIELD_STR("level", names[level]));
    put_field(log, &LOG_FIELD_STR("who", log->who));
    put_field(log, &LOG_FIELD_STR("event", event));
    for (size_t i = 0; i < n; i++) {
        put_field(log, &fields[i]);
    }
    buf_puts(&log->line, log->format == LOG_FORMAT_JSON ? "}\n" : "\n");
}

void log_compose(const char *who, enum log_level level, const char *event, const struct log_field *fields,
                 size_t n, struct buf *ret)
{
    struct log *log = log_new(-1, LOG_FORMAT_JSON, level, who);
    if (!log) {
        ret->failed = true;
        return;
    }
    compose(log, level, event, fields, n);
    buf_append(ret, log->line.data, log->line.len - 1);
    ret->failed = ret->failed || log->line.failed;
    log_free(log);
}

static bool has_room(const struct log *log)
{
    struct pollfd to = {.fd = log->fd, .events = POLLOUT};
    /* What cannot be asked, and what nobody will ever read, does not make a writer wait. */
    return log->loses_none || poll(&to, 1, log->lost > 0 ? 0 : PATIENCE_MS) != 0;
}

/* False: it is lost, or the end of it is. */
static bool write_whole(const struct log *log, const char *data, size_t size)
{
    ssize_t written;
    do {
        written = write(log->fd, data, size);
    } while (written < 0 && errno == EINTR);
    return written == (ssize_t)size;
}

/* Is there room for one more line? What has been lost until now is told first. */
static bool may_write(struct log *log)
{
    if (!has_room(log)) {
        return false;
    }
    if (log->lost == 0) {
        return true;
    }
    compose(log, LOG_ERROR, "log_lost", &LOG_FIELD_U64("lines", log->lost), 1);
    if (log->line.failed || !write_whole(log, log->line.data, log->line.len)) {
        return false;
    }
    log->lost = 0;
    return has_room(log);
}

void log_tell(struct log *log, enum log_level level, const char *event, const struct log_field *fields,
              size_t n)
{
    if (!log) {
        return;
    }
    bool told = may_write(log);
    if (told) {
        compose(log, level, event, fields, n);
        told = !log->line.failed && write_whole(log, log->line.data, log->line.len);
    }
    log->lost += !told;
    log->lost_in_all += !told;
}

void log_write(struct log *log, enum log_level level, const char *event, const struct log_field *fields,
               size_t n)
{
    if (log && level <= log->level) {
        log_tell(log, level, event, fields, n);
    }
}

void log_line(struct log *log, const char *line, size_t size)
{
    if (log) {
        /* Of a longer one a pipe would take the beginning, and then wait. */
        bool told = size <= PIPE_BUF && may_write(log) && write_whole(log, line, size);
        log->lost += !told;
        log->lost_in_all += !told;
    }
}

void log_succeed(struct log *log, const struct log *before)
{
    log->lost += before->lost;
    log->lost_in_all += before->lost_in_all;
}

uint64_t log_lost(const struct log *log)
{
    return log->lost_in_all;
}

void log_err(struct log *log, enum log_level level, const char *event, const struct err *err)
{
    LOG(log, level, event, LOG_FIELD_STR("kind", err_kind_to_string(err->kind)),
        LOG_FIELD_STR("step", err->step), LOG_FIELD_STR("item", err->item),
        LOG_FIELD_STR("error", err->text));
}
