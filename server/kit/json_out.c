/* JSON replies, written straight into the buffer that is sent. Used by the front. */
#include "server/kit/json_out.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "config/format/json.h"
#include "config/message/job.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "server/kit/utc.h"

/* What precedes tells whether a comma is due: no member or element ends in an opening bracket. */
void json_out_separator(struct buf *ret)
{
    char last = ret->len > 0 ? ret->data[ret->len - 1] : '{';
    if (last != '{' && last != '[') {
        buf_putc(ret, ',');
    }
}

void json_out_key(struct buf *ret, const char *key)
{
    json_out_separator(ret);
    buf_putc(ret, '"');
    buf_puts(ret, key);
    buf_puts(ret, "\":");
}

void json_out_bytes(struct buf *ret, const char *key, const char *data, size_t size)
{
    json_out_key(ret, key);
    json_write_string(ret, data ? data : "", size);
}

void json_out_text(struct buf *ret, const char *key, const char *text)
{
    if (text) {
        json_out_bytes(ret, key, text, strlen(text));
    } else {
        json_out_null(ret, key);
    }
}

void json_out_bool(struct buf *ret, const char *key, bool value)
{
    json_out_key(ret, key);
    buf_puts(ret, value ? "true" : "false");
}

void json_out_u64(struct buf *ret, const char *key, uint64_t value)
{
    json_out_key(ret, key);
    buf_printf(ret, "%" PRIu64, value);
}

void json_out_i64(struct buf *ret, const char *key, int64_t value)
{
    json_out_key(ret, key);
    buf_printf(ret, "%" PRId64, value);
}

void json_out_null(struct buf *ret, const char *key)
{
    json_out_key(ret, key);
    buf_puts(ret, "null");
}

void json_out_known(struct buf *ret, const char *key, bool known, uint64_t value)
{
    if (known) {
        json_out_u64(ret, key, value);
    } else {
        json_out_null(ret, key);
    }
}

void json_out_open(struct buf *ret, const char *key, char bracket)
{
    json_out_key(ret, key);
    buf_putc(ret, bracket);
}

void json_out_time(struct buf *ret, const char *key, uint64_t since_epoch_ms)
{
    char text[UTC_BYTES];
    if (since_epoch_ms == 0) {
        json_out_null(ret, key);
        return;
    }
    utc_write(since_epoch_ms, text);
    json_out_text(ret, key, text);
}

void json_out_limits(struct buf *ret, const struct job_limits *limits)
{
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"memory_bytes", limits->memory_bytes},   {"pids", limits->pids},
        {"cpu_percent", limits->cpu_percent},     {"cpu_ms", limits->cpu_ms},
        {"scratch_bytes", limits->scratch_bytes}, {"output_bytes", limits->output_bytes},
        {"timeout_ms", limits->timeout_ms},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        json_out_known(ret, rows[i].name, rows[i].value > 0, rows[i].value);
    }
}

void json_out_denied(struct buf *ret, const struct job_result *result)
{
    json_out_open(ret, "denied_syscalls", '[');
    for (size_t i = 0; i < result->n_denied; i++) {
        const struct job_denied *denied = &result->denied[i];
        json_out_separator(ret);
        buf_putc(ret, '{');
        json_out_text(ret, "name", denied->name);
        json_out_u64(ret, "count", denied->count);
        for (size_t n = 0; n < denied->n_calls; n++) {
            n == 0 ? json_out_open(ret, "calls", '[') : json_out_separator(ret);
            buf_putc(ret, '{');
            json_out_text(ret, "call", denied->calls[n].call);
            json_out_u64(ret, "count", denied->calls[n].count);
            buf_putc(ret, '}');
        }
        buf_puts(ret, denied->n_calls > 0 ? "]}" : "}");
    }
    buf_putc(ret, ']');
    if (result->hint) {
        json_out_text(ret, "hint", result->hint);
    }
}
