/* Strict UTF-8. Runs in every process; holds no state. */
#include "config/format/utf8.h"

#include "jail/base/buf.h"

/* What may follow a first byte: how many bytes, and the bounds of the first of them. All others are 80 to BF.
 */
struct follow {
    unsigned char first_min, first_max;
    unsigned char n, min, max;
};

static const struct follow follows[] = {
    {0xc2, 0xdf, 1, 0x80, 0xbf}, {0xe0, 0xe0, 2, 0xa0, 0xbf}, {0xe1, 0xec, 2, 0x80, 0xbf},
    {0xed, 0xed, 2, 0x80, 0x9f}, {0xee, 0xef, 2, 0x80, 0xbf}, {0xf0, 0xf0, 3, 0x90, 0xbf},
    {0xf1, 0xf3, 3, 0x80, 0xbf}, {0xf4, 0xf4, 3, 0x80, 0x8f},
};

size_t utf8_sequence(const char *text, size_t len, bool *ret_valid)
{
    unsigned char first = (unsigned char)text[0];
    *ret_valid = first < 0x80;
    for (size_t row = 0; first >= 0x80 && row < sizeof follows / sizeof follows[0]; row++) {
        const struct follow *follow = &follows[row];
        if (first < follow->first_min || first > follow->first_max) {
            continue;
        }
        for (size_t i = 1; i <= follow->n; i++) {
            unsigned char min = i == 1 ? follow->min : 0x80, max = i == 1 ? follow->max : 0xbf;
            if (i >= len || (unsigned char)text[i] < min || (unsigned char)text[i] > max) {
                return i;
            }
        }
        *ret_valid = true;
        return (size_t)follow->n + 1;
    }
    return 1;
}

bool utf8_is_valid(const char *text, size_t len)
{
    bool valid = true;
    for (size_t at = 0; at < len && valid;) {
        at += utf8_sequence(text + at, len - at, &valid);
    }
    return valid;
}

static bool begins_long_character(char byte)
{
    return (unsigned char)byte >= 0xc2 && (unsigned char)byte <= 0xf4;
}

size_t utf8_unfinished(const char *text, size_t len)
{
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        const char *first = text + len - back;
        bool whole;
        if (begins_long_character(*first)) {
            return utf8_sequence(first, back, &whole) == back && !whole ? back : 0;
        }
    }
    return 0;
}

int utf8_put(uint32_t code, struct buf *ret)
{
    static const struct {
        uint32_t below, lead;
    } lengths[] = {{0x80, 0}, {0x800, 0xc0}, {0x10000, 0xe0}, {0x110000, 0xf0}};
    size_t more = 0;
    while (code >= lengths[more].below) {
        more++;
    }
    int r = buf_putc(ret, (char)(lengths[more].lead | code >> (6 * more)));
    while (more-- > 0) {
        r = buf_putc(ret, (char)(0x80 | (code >> (6 * more) & 0x3f)));
    }
    return r;
}
