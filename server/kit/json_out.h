/* Writing JSON objects member by member into a struct buf, whose own flag remembers a failed allocation. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct job_limits;
struct job_result;

/* The comma where one is due, and the quoted name. `key` is a constant of ours: nothing in it is escaped. */
void json_out_key(struct buf *ret, const char *key);
void json_out_text(struct buf *ret, const char *key, const char *text); /* NULL: null */
void json_out_bytes(struct buf *ret, const char *key, const char *data, size_t size);
void json_out_bool(struct buf *ret, const char *key, bool value);
void json_out_u64(struct buf *ret, const char *key, uint64_t value);
void json_out_i64(struct buf *ret, const char *key, int64_t value);
void json_out_null(struct buf *ret, const char *key);
/* A number where it is known, else null. */
void json_out_known(struct buf *ret, const char *key, bool known, uint64_t value);
/* "2026-01-31T12:00:00.123Z"; 0: null. */
void json_out_time(struct buf *ret, const char *key, uint64_t since_epoch_ms);
/* Opens `key`'s value, an object or an array: '{' or '['. */
void json_out_open(struct buf *ret, const char *key, char bracket);
/* The comma between two elements of an array. */
void json_out_separator(struct buf *ret);
/* The members of an object that is open: each of the limits, null where it is 0. */
void json_out_limits(struct buf *ret, const struct job_limits *limits);
/* The member `denied_syscalls`, and `hint` where there is one. */
void json_out_denied(struct buf *ret, const struct job_result *result);
