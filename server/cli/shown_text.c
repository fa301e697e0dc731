/* Text that somebody else wrote, for a terminal. Runs in `immure approve`, whose reader has to see what a
 * program is and not what it wants to look like. Pure. */
#include "server/cli/shown_text.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "config/format/utf8.h"
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

/* What is shown as it is. All else beyond ASCII is spelled out: marks that combine with what is before them,
 * what is not to be seen or turns the direction of writing (which whole scripts do), and letters and signs
 * that look like others. */
enum looks {
    LOOKS_PLAIN,   /* like nothing else */
    LOOKS_FOREIGN, /* a letter of a script that shares its looks with Latin: as it is in a word that cannot be
                    * taken for one of Latin letters */
    LOOKS_OWN,     /* the same, and this one is like no Latin letter: such a word has one */
};

static const struct {
    uint32_t first, last;
    enum looks looks;
} shown_ranges[] = {
    /* Latin with what belongs to a letter; without dotless i, long s and the like. */
    {0x00a1, 0x00a7, LOOKS_PLAIN},
    {0x00a9, 0x00ac, LOOKS_PLAIN},
    {0x00ae, 0x00b3, LOOKS_PLAIN},
    {0x00b5, 0x00b6, LOOKS_PLAIN},
    {0x00b9, 0x00d6, LOOKS_PLAIN},
    {0x00d8, 0x00f6, LOOKS_PLAIN},
    {0x00f8, 0x0130, LOOKS_PLAIN},
    {0x0132, 0x0137, LOOKS_PLAIN},
    {0x0139, 0x013e, LOOKS_PLAIN},
    {0x0141, 0x0148, LOOKS_PLAIN},
    {0x014a, 0x017e, LOOKS_PLAIN},
    {0x0218, 0x021b, LOOKS_PLAIN},
    {0x1ea0, 0x1ef9, LOOKS_PLAIN},
    /* Greek: delta, lambda, xi, pi, sigma, phi, psi, omega; delta, lambda, xi, pi, phi, psi. */
    {0x0386, 0x0386, LOOKS_FOREIGN},
    {0x0388, 0x038a, LOOKS_FOREIGN},
    {0x038c, 0x038c, LOOKS_FOREIGN},
    {0x038e, 0x0393, LOOKS_FOREIGN},
    {0x0394, 0x0394, LOOKS_OWN},
    {0x0395, 0x039a, LOOKS_FOREIGN},
    {0x039b, 0x039b, LOOKS_OWN},
    {0x039c, 0x039d, LOOKS_FOREIGN},
    {0x039e, 0x039e, LOOKS_OWN},
    {0x039f, 0x039f, LOOKS_FOREIGN},
    {0x03a0, 0x03a0, LOOKS_OWN},
    {0x03a1, 0x03a1, LOOKS_FOREIGN},
    {0x03a3, 0x03a3, LOOKS_OWN},
    {0x03a4, 0x03a5, LOOKS_FOREIGN},
    {0x03a6, 0x03a6, LOOKS_OWN},
    {0x03a7, 0x03a7, LOOKS_FOREIGN},
    {0x03a8, 0x03a9, LOOKS_OWN},
    {0x03aa, 0x03b3, LOOKS_FOREIGN},
    {0x03b4, 0x03b4, LOOKS_OWN},
    {0x03b5, 0x03ba, LOOKS_FOREIGN},
    {0x03bb, 0x03bb, LOOKS_OWN},
    {0x03bc, 0x03bd, LOOKS_FOREIGN},
    {0x03be, 0x03be, LOOKS_OWN},
    {0x03bf, 0x03bf, LOOKS_FOREIGN},
    {0x03c0, 0x03c0, LOOKS_OWN},
    {0x03c1, 0x03c5, LOOKS_FOREIGN},
    {0x03c6, 0x03c6, LOOKS_OWN},
    {0x03c7, 0x03c7, LOOKS_FOREIGN},
    {0x03c8, 0x03c8, LOOKS_OWN},
    {0x03c9, 0x03ce, LOOKS_FOREIGN},
    /* Cyrillic, of Russian, Ukrainian, Bulgarian: de, zhe, i, el, ef, tse, sha, shcha, yery, e, yu, ya. */
    {0x0401, 0x0401, LOOKS_FOREIGN},
    {0x0404, 0x0404, LOOKS_FOREIGN},
    {0x0406, 0x0407, LOOKS_FOREIGN},
    {0x0410, 0x0413, LOOKS_FOREIGN},
    {0x0414, 0x0414, LOOKS_OWN},
    {0x0415, 0x0415, LOOKS_FOREIGN},
    {0x0416, 0x0416, LOOKS_OWN},
    {0x0417, 0x0417, LOOKS_FOREIGN},
    {0x0418, 0x0419, LOOKS_OWN},
    {0x041a, 0x041a, LOOKS_FOREIGN},
    {0x041b, 0x041b, LOOKS_OWN},
    {0x041c, 0x0423, LOOKS_FOREIGN},
    {0x0424, 0x0424, LOOKS_OWN},
    {0x0425, 0x0425, LOOKS_FOREIGN},
    {0x0426, 0x0426, LOOKS_OWN},
    {0x0427, 0x0427, LOOKS_FOREIGN},
    {0x0428, 0x0429, LOOKS_OWN},
    {0x042a, 0x042a, LOOKS_FOREIGN},
    {0x042b, 0x042b, LOOKS_OWN},
    {0x042c, 0x042c, LOOKS_FOREIGN},
    {0x042d, 0x042f, LOOKS_OWN},
    {0x0430, 0x0433, LOOKS_FOREIGN},
    {0x0434, 0x0434, LOOKS_OWN},
    {0x0435, 0x0435, LOOKS_FOREIGN},
    {0x0436, 0x0436, LOOKS_OWN},
    {0x0437, 0x0437, LOOKS_FOREIGN},
    {0x0438, 0x0439, LOOKS_OWN},
    {0x043a, 0x043a, LOOKS_FOREIGN},
    {0x043b, 0x043b, LOOKS_OWN},
    {0x043c, 0x0443, LOOKS_FOREIGN},
    {0x0444, 0x0444, LOOKS_OWN},
    {0x0445, 0x0445, LOOKS_FOREIGN},
    {0x0446, 0x0446, LOOKS_OWN},
    {0x0447, 0x0447, LOOKS_FOREIGN},
    {0x0448, 0x0449, LOOKS_OWN},
    {0x044a, 0x044a, LOOKS_FOREIGN},
    {0x044b, 0x044b, LOOKS_OWN},
    {0x044c, 0x044c, LOOKS_FOREIGN},
    {0x044d, 0x044f, LOOKS_OWN},
    {0x0451, 0x0451, LOOKS_FOREIGN},
    {0x0454, 0x0454, LOOKS_FOREIGN},
    {0x0456, 0x0457, LOOKS_FOREIGN},
    /* Chinese, Japanese, Korean, without signs that look like ASCII's. */
    {0x3001, 0x3002, LOOKS_PLAIN},
    {0x300c, 0x3011, LOOKS_PLAIN},
    {0x3041, 0x3096, LOOKS_PLAIN},
    {0x30a1, 0x30fa, LOOKS_PLAIN},
    {0x30fc, 0x30fc, LOOKS_PLAIN},
    {0x3400, 0x4dbf, LOOKS_PLAIN},
    {0x4e00, 0x9fff, LOOKS_PLAIN},
    {0xac00, 0xd7a3, LOOKS_PLAIN},
    /* Signs: currencies, arrows, not equal, at most and at least, pictures. */
    {0x20a0, 0x20c0, LOOKS_PLAIN},
    {0x2190, 0x21ff, LOOKS_PLAIN},
    {0x221e, 0x221e, LOOKS_PLAIN},
    {0x2260, 0x2260, LOOKS_PLAIN},
    {0x2264, 0x2265, LOOKS_PLAIN},
    {0x2600, 0x26ff, LOOKS_PLAIN},
    {0x2705, 0x2705, LOOKS_PLAIN},
    {0x2713, 0x2718, LOOKS_PLAIN},
    {0x1f300, 0x1f3fa, LOOKS_PLAIN},
    {0x1f400, 0x1f64f, LOOKS_PLAIN},
    {0x1f680, 0x1f6ff, LOOKS_PLAIN},
    {0x1f900, 0x1f9ff, LOOKS_PLAIN},
};

/* False: it is spelled out. */
static bool look_up(uint32_t code, enum looks *ret)
{
    *ret = LOOKS_PLAIN;
    if (code < 0x80) {
        return code >= ' ' && code != 0x7f;
    }
    for (size_t i = 0; i < ARRAY_SIZE(shown_ranges); i++) {
        if (code >= shown_ranges[i].first && code <= shown_ranges[i].last) {
            *ret = shown_ranges[i].looks;
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

/* A text on its way to be shown. */
struct reader {
    const char *text;
    size_t size;
    size_t word_left;  /* bytes of the foreign letters that follow each other here */
    bool word_is_own;  /* they may be shown */
    bool after_letter; /* what comes before is an ASCII letter, a digit or _ */
};

static bool is_ascii_word(uint32_t code)
{
    return code < 0x80 && (isalnum((int)code) || code == '_');
}

/* The foreign letters from here on: are they a word for themselves, with a letter that is like no other? */
static void read_word(struct reader *reader)
{
    bool own = false, ends_in_latin = false;
    size_t at = 0;
    while (at < reader->size) {
        bool valid;
        enum looks looks = LOOKS_PLAIN;
        size_t n = utf8_sequence(reader->text + at, reader->size - at, &valid);
        uint32_t code = valid ? code_point_of(reader->text + at, n) : 0;
        if (!valid || !look_up(code, &looks) || looks == LOOKS_PLAIN) {
            ends_in_latin = valid && (is_ascii_word(code) || (code >= 0x80 && !look_up(code, &looks)));
            break;
        }
        own = own || looks == LOOKS_OWN;
        at += n;
    }
    reader->word_left = at;
    reader->word_is_own = own && !ends_in_latin && !reader->after_letter;
}

static void spell_out(struct shown *shown, const char *text, bool valid, uint32_t code)
{
    if (!valid) {
        for (size_t i = 0; i < shown->taken; i++) {
            snprintf(shown->text + 6 * i, sizeof shown->text - 6 * i, "<0x%02X>", (unsigned char)text[i]);
        }
    } else if (code == '\t') {
        snprintf(shown->text, sizeof shown->text, "<TAB>");
    } else {
        snprintf(shown->text, sizeof shown->text, "<U+%04X>", (unsigned)code);
    }
    shown->length = strlen(shown->text);
    shown->columns = (unsigned)shown->length;
}

/* There is one. */
static struct shown next_character(struct reader *reader)
{
    bool valid;
    enum looks looks = LOOKS_PLAIN;
    const char *text = reader->text;
    struct shown shown = {.taken = utf8_sequence(text, reader->size, &valid)};
    uint32_t code = valid ? code_point_of(text, shown.taken) : 0;
    bool plain = valid && look_up(code, &looks);
    if (plain && looks != LOOKS_PLAIN) {
        if (reader->word_left == 0) {
            read_word(reader);
        }
        reader->word_left -= shown.taken;
        plain = reader->word_is_own;
    }
    reader->after_letter = is_ascii_word(code) || (!plain && valid && code >= 0x80);
    reader->text += shown.taken;
    reader->size -= shown.taken;
    if (!plain) {
        spell_out(&shown, text, valid, code);
        return shown;
    }
    memcpy(shown.text, text, shown.taken);
    shown.length = shown.taken;
    shown.columns = code < 0x80 ? 1 : WIDEST_CHARACTER;
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
    struct reader reader = {.text = text, .size = strlen(text)};
    while (reader.size > 0) {
        struct shown shown = next_character(&reader);
        buf_append(ret, shown.text, shown.length);
    }
}

void shown_text_put_folded(const char *text, struct buf *ret)
{
    struct reader reader = {.text = text, .size = strlen(text)};
    unsigned columns = 0;
    while (reader.size > 0) {
        struct shown shown = next_character(&reader);
        put_folded(&shown, &columns, ret);
    }
}

void shown_text_put_lines(const char *text, size_t size, struct buf *ret)
{
    struct reader reader = {.text = text, .size = size};
    unsigned line = 0, columns = 0;
    bool fresh = true; /* the next character begins a line */
    while (reader.size > 0) {
        if (fresh) {
            buf_printf(ret, "%6u | ", ++line);
            columns = 0;
        }
        fresh = *reader.text == '\n';
        struct shown shown = next_character(&reader);
        if (fresh) {
            buf_putc(ret, '\n');
        } else {
            put_folded(&shown, &columns, ret);
        }
    }
    if (!fresh) {
        buf_puts(ret, "\n         (no line feed at the end)\n");
    }
}
