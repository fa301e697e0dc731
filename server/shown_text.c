/* Text that somebody else wrote, for a terminal. Runs in `immure approve`, whose reader has to see what a
 * program is and not what it wants to look like. Pure. */
#include "server/shown_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "config/utf8.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"

#define LINE_CHARACTERS_MAX 120u

static uint32_t code_point_of(const char *text, size_t length)
{
    const unsigned char *bytes = (const unsigned char *)text;
    if (length == 1) {
        return bytes[0];
    }
    uint32_t code = bytes[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        code = code << 6 | (bytes[i] & 0x3fu);
    }
    return code;
}

/* What is not to be seen, or makes other characters seem to stand elsewhere or to be others. */
static bool is_deceptive(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0x00, 0x1f},       {0x7f, 0x9f},       {0xad, 0xad},        {0x034f, 0x034f},   {0x061c, 0x061c},
        {0x115f, 0x1160},   {0x17b4, 0x17b5},   {0x180b, 0x180f},    {0x2000, 0x200f},   {0x2028, 0x202f},
        {0x205f, 0x206f},   {0x2800, 0x2800},   {0x3000, 0x3000},    {0x3164, 0x3164},   {0xa0, 0xa0},
        {0xe000, 0xf8ff},   {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},    {0xffa0, 0xffa0},   {0xfff0, 0xfffb},
        {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}, {0xf0000, 0x10ffff}, {0x1bca0, 0x1bca3}, {0x13430, 0x13455},
        {0x1d159, 0x1d159},
    };
    for (size_t i = 0; i < ARRAY_SIZE(ranges); i++) {
        if (code >= ranges[i].first && code <= ranges[i].last) {
            return true;
        }
    }
    return false;
}

/* One character; returns how many bytes of the text it was. */
static size_t put_character(const char *text, size_t size, bool tabs, struct buf *ret)
{
    bool valid;
    size_t length = utf8_sequence(text, size, &valid);
    uint32_t code = valid ? code_point_of(text, length) : 0;
    if (!valid) {
        for (size_t i = 0; i < length; i++) {
            buf_printf(ret, "<0x%02X>", (unsigned char)text[i]);
        }
    } else if (is_deceptive(code) && !(tabs && code == '\t')) {
        buf_printf(ret, "<U+%04X>", (unsigned)code);
    } else {
        buf_append(ret, text, length);
    }
    return length;
}

void shown_text_put(const char *text, struct buf *ret)
{
    for (size_t size = strlen(text); size > 0;) {
        size_t length = put_character(text, size, false, ret);
        text += length;
        size -= length;
    }
}

void shown_text_put_lines(const char *text, size_t size, struct buf *ret)
{
    const char *end = text + size;
    unsigned line = 0, characters = 0;
    bool fresh = true; /* the next character begins a line */
    while (text < end) {
        if (fresh) {
            buf_printf(ret, "%6u | ", ++line);
            fresh = false;
            characters = 0;
        } else if (characters == LINE_CHARACTERS_MAX && *text != '\n') {
            buf_puts(ret, "\n     > | ");
            characters = 0;
        }
        if (*text == '\n') {
            buf_putc(ret, '\n');
            text++;
            fresh = true;
        } else {
            text += put_character(text, (size_t)(end - text), true, ret);
            characters++;
        }
    }
    if (!fresh) {
        buf_puts(ret, "\n         (no line feed at the end)\n");
    }
}
