/* UTF-8 as RFC 3629 defines it. Used by the front for logs and for output that was cut in the middle of a
 * character. Pure functions over bytes that a program or a caller chose. */
#include "server/utf8.h"

/* The length that a first byte announces, 0 for a byte that no character begins with. */
static size_t announced_length(unsigned char first)
{
    if (first < 0x80) {
        return 1;
    }
    if (first >= 0xc2 && first <= 0xdf) {
        return 2;
    }
    if (first >= 0xe0 && first <= 0xef) {
        return 3;
    }
    return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

/* The second byte's range is narrower after four of the first bytes: this is what rules out overlong forms,
 * surrogates and everything over U+10FFFF. */
static bool second_byte_fits(unsigned char first, unsigned char second)
{
    unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    return second >= low && second <= high;
}

/* How many of the first `len` bytes fit a character of the announced length. */
static size_t fitting_bytes(const unsigned char *bytes, size_t len, size_t announced)
{
    size_t fit = 1;
    while (fit < announced && fit < len) {
        bool fits = fit == 1 ? second_byte_fits(bytes[0], bytes[1]) : (bytes[fit] & 0xc0) == 0x80;
        if (!fits) {
            break;
        }
        fit++;
    }
    return fit;
}

size_t utf8_character(const char *text, size_t len, uint32_t *ret_code_point)
{
    const unsigned char *bytes = (const unsigned char *)text;
    size_t announced = len > 0 ? announced_length(bytes[0]) : 0;
    if (announced == 0 || fitting_bytes(bytes, len, announced) < announced) {
        return 0;
    }
    static const unsigned char first_mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code_point = bytes[0] & first_mask[announced];
    for (size_t i = 1; i < announced; i++) {
        code_point = code_point << 6 | (bytes[i] & 0x3fu);
    }
    if (ret_code_point) {
        *ret_code_point = code_point;
    }
    return announced;
}

bool utf8_valid(const char *text, size_t len)
{
    size_t at = 0;
    while (at < len) {
        size_t length = utf8_character(text + at, len - at, NULL);
        if (length == 0) {
            return false;
        }
        at += length;
    }
    return true;
}

size_t utf8_unfinished(const char *text, size_t len)
{
    const unsigned char *bytes = (const unsigned char *)text;
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        const unsigned char *first = bytes + len - back;
        size_t announced = announced_length(*first);
        if (announced > 0) {
            return announced > back && fitting_bytes(first, back, announced) == back ? back : 0;
        }
    }
    return 0;
}
