/* Text that somebody else wrote, for a terminal. Runs in `immure approve`, whose reader has to see what a
 * program is and not what it wants to look like. Pure. */
#include "server/shown_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "config/utf8.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"

/* With what stands before them, fewer than the 80 of a terminal: one that broke a line by itself would begin
 * the next one with whatever the program wants to be seen there. */
#define LINE_COLUMNS_MAX 66u
#define WIDEST_CHARACTER 2u

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

/* One character as it is shown, and the most columns that it takes on a terminal. */
struct shown {
    char text[40];
    size_t length; /* of `text` */
    unsigned columns;
    size_t taken; /* bytes of what was read */
};

static struct shown show_character(const char *text, size_t size)
{
    bool valid;
    struct shown shown = {.taken = utf8_sequence(text, size, &valid)};
    uint32_t code = valid ? code_point_of(text, shown.taken) : 0;
    if (!valid) {
        for (size_t i = 0; i < shown.taken; i++) {
            snprintf(shown.text + 6 * i, sizeof shown.text - 6 * i, "<0x%02X>", (unsigned char)text[i]);
        }
    } else if (code == '\t') {
        snprintf(shown.text, sizeof shown.text, "<TAB>");
    } else if (is_deceptive(code)) {
        snprintf(shown.text, sizeof shown.text, "<U+%04X>", (unsigned)code);
    } else {
        memcpy(shown.text, text, shown.taken);
        shown.length = shown.taken;
        shown.columns = code < 0x80 ? 1 : WIDEST_CHARACTER;
        return shown;
    }
    shown.length = strlen(shown.text);
    shown.columns = (unsigned)shown.length;
    return shown;
}

/* `columns` is how many of the line are taken. */
static void put_folded(const struct shown *shown, unsigned *columns, struct buf *ret)
{
    if (*columns + shown->columns > LINE_COLUMNS_MAX) {
        buf_puts(ret, "\n     > | ");
        *columns = 0;
    }
    buf_append(ret, shown->text, shown->length);
    *columns += shown->columns;
}

void shown_text_put(const char *text, struct buf *ret)
{
    for (size_t size = strlen(text); size > 0;) {
        struct shown shown = show_character(text, size);
        buf_append(ret, shown.text, shown.length);
        text += shown.taken;
        size -= shown.taken;
    }
}

void shown_text_put_folded(const char *text, struct buf *ret)
{
    unsigned columns = 0;
    for (size_t size = strlen(text); size > 0;) {
        struct shown shown = show_character(text, size);
        put_folded(&shown, &columns, ret);
        text += shown.taken;
        size -= shown.taken;
    }
}

void shown_text_put_lines(const char *text, size_t size, struct buf *ret)
{
    const char *end = text + size;
    unsigned line = 0, columns = 0;
    bool fresh = true; /* the next character begins a line */
    while (text < end) {
        if (fresh) {
            buf_printf(ret, "%6u | ", ++line);
            fresh = false;
            columns = 0;
        }
        if (*text == '\n') {
            buf_putc(ret, '\n');
            text++;
            fresh = true;
        } else {
            struct shown shown = show_character(text, (size_t)(end - text));
            put_folded(&shown, &columns, ret);
            text += shown.taken;
        }
    }
    if (!fresh) {
        buf_puts(ret, "\n         (no line feed at the end)\n");
    }
}
