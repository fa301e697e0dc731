/* Bytes that a program chose, looked at as text. Used by the front. */
#include "server/kit/text.h"

#include "config/format/utf8.h"

bool text_is_utf8(const char *text, size_t len)
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

size_t text_unfinished(const char *text, size_t len)
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
