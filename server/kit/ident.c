/* Request and execution ids. Used by the front. What a caller sends is kept only if it cannot break a log
 * line or a header; anything else is replaced, never repaired. */
#include "server/kit/ident.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

bool ident_is_sane(const char *text)
{
    static const char sane[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-:/+=@~";
    size_t len = strlen(text);
    return len > 0 && len < IDENT_BYTES && strspn(text, sane) == len;
}

/* True for `len` lower-case hexadecimal digits, not all of them 0. */
static bool is_hex(const char *text, size_t len, bool zero_allowed)
{
    bool zero = true;
    for (size_t i = 0; i < len; i++) {
        if (!text[i] || !strchr("0123456789abcdef", text[i])) {
            return false;
        }
        zero = zero && text[i] == '0';
    }
    return zero_allowed || !zero;
}

bool ident_is_traceparent(const char *text)
{
    return strlen(text) == 55 && memcmp(text, "00-", 3) == 0 && is_hex(text + 3, 32, false) &&
           text[35] == '-' && is_hex(text + 36, 16, false) && text[52] == '-' && is_hex(text + 53, 2, true);
}

void ident_fresh(char ret[IDENT_BYTES])
{
    unsigned char bytes[16];
    /* Up to 256 bytes getrandom(2) neither fails nor is cut short; were it to, a predictable id would be no
     * danger, but a repeated one would mislead whoever reads the logs. */
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        abort();
    }
    bytes[6] = (unsigned char)((bytes[6] & 0x0f) | 0x40);
    bytes[8] = (unsigned char)((bytes[8] & 0x3f) | 0x80);
    char *to = ret;
    for (size_t i = 0; i < sizeof bytes; i++) {
        to += sprintf(to, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", bytes[i]);
    }
}

void ident_choose(const char *text, char ret[IDENT_BYTES])
{
    if (text && ident_is_sane(text)) {
        snprintf(ret, IDENT_BYTES, "%s", text);
    } else {
        ident_fresh(ret);
    }
}
