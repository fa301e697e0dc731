/* The lines of an audit trail as links of a chain: each begins with its number and the SHA-256 of the line
 * before. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/format/digest.h"

struct buf;

/* A line of a trail, and what a front may send for one. */
#define AUDIT_LINE_MAX (256u << 10)
#define AUDIT_SENT_MAX (192u << 10)

/* The number of a line and the hash of its bytes, without the line feed. */
struct audit_link {
    uint64_t seq; /* 0: there is none before */
    char sha256[SHA256_HEX];
};

/* Before the first line of the first file. */
struct audit_link audit_chain_start(void);

/* Appends `{"seq":N,"prev":"HASH",` of the line that follows `last`. */
void audit_chain_begin_line(const struct audit_link *last, struct buf *ret);

/* Takes a line's beginning apart. `prev` is the line before; the line's own hash is left to the caller.
 * `*ret_kind` is what the trail says about itself in a line of its own ("opened", "torn", ...), of
 * `*ret_kind_size` bytes, or NULL for a line of a front. False: no line of a chain. */
bool audit_chain_parse(const char *line, size_t size, struct audit_link *ret_prev, const char **ret_kind,
                       size_t *ret_kind_size);

/* What a front sends: one line of JSON without its line feed, which begins with its time, so that none can
 * be taken for a line of the trail's own. The rest is not looked at. */
bool audit_chain_takes(const char *line, size_t size);
