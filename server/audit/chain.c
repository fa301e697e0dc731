/* The form of the audit trail's lines. Pure; the warden writes by it, `immure audit verify` reads by it.
 *
 *     {"seq":7,"prev":"<64 hexadecimal digits>","time":...        a front's line: a job, a tool call
 *     {"seq":8,"prev":"<64 hexadecimal digits>","chain":"opened"  the trail's own
 *
 * The beginning is compared byte by byte, so that one line can be read in one way only. */
#include "server/audit/chain.h"

#include <inttypes.h>
#include <string.h>

#include "jail/base/buf.h"

#define HEX_DIGITS (SHA256_HEX - 1)

static const char before_seq[] = "{\"seq\":";
static const char before_prev[] = ",\"prev\":\"";
static const char before_kind[] = "\",\"chain\":\"";
static const char before_rest[] = "\",\"time\":\"";
static const char front_begins[] = "{\"time\":\"";

struct audit_link audit_chain_start(void)
{
    struct audit_link link = {.seq = 0};
    memset(link.sha256, '0', HEX_DIGITS);
    return link;
}

void audit_chain_begin_line(const struct audit_link *last, struct buf *ret)
{
    buf_printf(ret, "%s%" PRIu64 "%s%s\",", before_seq, last->seq + 1, before_prev, last->sha256);
}

/* Moves on if `text` comes next. */
static bool take(const char **at, const char *end, const char *text)
{
    size_t size = strlen(text);
    if ((size_t)(end - *at) < size || memcmp(*at, text, size) != 0) {
        return false;
    }
    *at += size;
    return true;
}

/* No sign, no leading zero, not 0. */
static bool take_number(const char **at, const char *end, uint64_t *ret)
{
    uint64_t number = 0;
    const char *start = *at;
    for (; *at < end && **at >= '0' && **at <= '9'; ++*at) {
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(**at - '0'), &number)) {
            return false;
        }
    }
    *ret = number;
    return *at > start && *start != '0';
}

static bool take_hash(const char **at, const char *end, char ret[SHA256_HEX])
{
    if ((size_t)(end - *at) < HEX_DIGITS) {
        return false;
    }
    for (size_t i = 0; i < HEX_DIGITS; i++) {
        char digit = (*at)[i];
        if (!(digit >= '0' && digit <= '9') && !(digit >= 'a' && digit <= 'f')) {
            return false;
        }
        ret[i] = digit;
    }
    ret[HEX_DIGITS] = '\0';
    *at += HEX_DIGITS;
    return true;
}

bool audit_chain_parse(const char *line, size_t size, struct audit_link *ret_prev, const char **ret_kind,
                       size_t *ret_kind_size)
{
    const char *at = line, *end = line + size;
    struct audit_link prev;
    uint64_t seq;
    if (size == 0 || size > AUDIT_LINE_MAX || end[-1] != '}' || !take(&at, end, before_seq) ||
        !take_number(&at, end, &seq) || !take(&at, end, before_prev) || !take_hash(&at, end, prev.sha256)) {
        return false;
    }
    prev.seq = seq - 1;
    *ret_kind = NULL;
    *ret_kind_size = 0;
    if (take(&at, end, before_kind)) {
        *ret_kind = at;
        while (at < end && *at >= 'a' && *at <= 'z') {
            at++;
        }
        *ret_kind_size = (size_t)(at - *ret_kind);
    } else if (!take(&at, end, before_rest)) {
        return false;
    }
    *ret_prev = prev;
    return true;
}

bool audit_chain_takes(const char *line, size_t size)
{
    const char *at = line, *end = line + size;
    if (size > AUDIT_SENT_MAX || !take(&at, end, front_begins) || end[-1] != '}') {
        return false;
    }
    for (; at < end; at++) {
        if ((unsigned char)*at < 0x20) {
            return false;
        }
    }
    return true;
}
