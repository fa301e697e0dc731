/* Structured lines on stderr: logfmt or JSON, one event each. Never code, output or keys. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/server/config.h"

struct buf;
struct err;
struct log;

/* `who` is "warden" or "front"; `fd` is where lines go (one write(2) each). */
struct log *log_new(int fd, enum log_format format, enum log_level level, const char *who);
/* Where the reader is one of ours: lines wait for it. */
void log_lose_none(struct log *log);
void log_free(struct log *log);

enum log_value_kind { LOG_STR, LOG_U64, LOG_I64, LOG_BOOL, LOG_F64 };
struct log_field {
    const char *key;
    enum log_value_kind kind;
    const char *str; /* NULL is written as null or "" */
    uint64_t u64;
    int64_t i64;
    bool boolean;
    double f64;
};
#define LOG_FIELD_STR(k, v)  ((struct log_field){.key = (k), .kind = LOG_STR, .str = (v)})
#define LOG_FIELD_U64(k, v)  ((struct log_field){.key = (k), .kind = LOG_U64, .u64 = (v)})
#define LOG_FIELD_I64(k, v)  ((struct log_field){.key = (k), .kind = LOG_I64, .i64 = (v)})
#define LOG_FIELD_BOOL(k, v) ((struct log_field){.key = (k), .kind = LOG_BOOL, .boolean = (v)})
#define LOG_FIELD_F64(k, v)  ((struct log_field){.key = (k), .kind = LOG_F64, .f64 = (v)})

/* One line: time, level, who, event, then the fields in order. Control characters and invalid UTF-8 are
 * escaped. Where nobody reads, the line is lost, and how many were is the first that is told after. */
void log_write(struct log *log, enum log_level level, const char *event, const struct log_field *fields,
               size_t n);
/* The same, whatever the log's level. */
void log_tell(struct log *log, enum log_level level, const char *event, const struct log_field *fields,
              size_t n);
/* A line that another process has composed, with its line feed. One of more than PIPE_BUF bytes is lost. */
void log_line(struct log *log, const char *line, size_t size);
/* `before` ends, and what it has lost and not told of is `log`'s to tell and count. */
void log_succeed(struct log *log, const struct log *before);
/* Lines that nobody has read, since its start. */
uint64_t log_lost(const struct log *log);
/* Appends the line of JSON that log_write() would write, without its line feed. */
void log_compose(const char *who, enum log_level level, const char *event, const struct log_field *fields,
                 size_t n, struct buf *ret);

#define LOG(log, level, event, ...)                                                                          \
    log_write((log), (level), (event), (const struct log_field[]){__VA_ARGS__},                              \
              sizeof((const struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field))
/* An error as one line, with kind, step, item and text as fields. */
void log_err(struct log *log, enum log_level level, const char *event, const struct err *err);
