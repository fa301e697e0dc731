/* server/cli/shown_text.c: nothing that a program holds reaches the terminal as more than letters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/format/utf8.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "server/cli/shown_text.h"

static void test_words(void **state)
{
    (void)state;
    static const struct {
        const char *text, *shown;
    } rows[] = {
        {"plain", "plain"},
        {"\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80", "\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80"},
        {"\x1b[31m", "<U+001B>[31m"},
        {"a\tb\nc\rd\x7f", "a<TAB>b<U+000A>c<U+000D>d<U+007F>"},
        {"\xc2\x9b"
         "31m",
         "<U+009B>31m"},
        {"\xe2\x80\xac"
         "x",
         "<U+202C>x"},
        {"\xe2\x80\x8b", "<U+200B>"},
        {"\xef\xbb\xbf", "<U+FEFF>"},
        {"\xf3\xa0\x81\x81", "<U+E0041>"},
        {"\xff\xc3", "<0xFF><0xC3>"},
        {"\xc0\x9b", "<0xC0><0x9B>"},
        {"\xed\xa0\x80", "<0xED><0xA0><0x80>"},
        /* Marks. */
        {"e\xcc\x81val", "e<U+0301>val"},
        {"a\xe0\xb8\xb1\xe2\x83\x9d", "a<U+0E31><U+20DD>"},
        /* Cyrillic and Greek letters that look like Latin ones: among those, and by themselves. */
        {"\xd0\xb0"
         "dmin",
         "<U+0430>dmin"},
        {"adm\xd1\x96n", "adm<U+0456>n"},
        {"\xd1\x81\xd0\xbe\xd1\x80\xd1\x83 (\xd0\xb0)", "<U+0441><U+043E><U+0440><U+0443> (<U+0430>)"},
        {"\xce\x9f\xce\x9a", "<U+039F><U+039A>"},
        /* Words that cannot be taken for others, unless something is added to them. */
        {"# \xd1\x84\xd0\xb0\xd0\xb9\xd0\xbb, \xcf\x80", "# \xd1\x84\xd0\xb0\xd0\xb9\xd0\xbb, \xcf\x80"},
        {"\xd1\x84\xd0\xb0_x", "<U+0444><U+0430>_x"},
        {"x\xd1\x84", "x<U+0444>"},
        {"\xd1\x84\xcc\x81", "<U+0444><U+0301>"},
        {"\xd1\x84\xff", "\xd1\x84<0xFF>"},
        /* Other letters and signs that pass for ASCII: full width, mathematical, dotless, dashes, quotes. */
        {"\xef\xbd\x85\xf0\x9d\x90\x9e\xc4\xb1\xe2\x88\x92\xe2\x80\x99\xcd\xbe\xc3\x97",
         "<U+FF45><U+1D41E><U+0131><U+2212><U+2019><U+037E><U+00D7>"},
        /* From right to left. */
        {"\xd7\x90 = \xd8\xa7", "<U+05D0> = <U+0627>"},
        {"na\xc3\xafve \xe2\x82\xac \xe3\x81\x82\xed\x95\x9c \xe2\x86\x92",
         "na\xc3\xafve \xe2\x82\xac \xe3\x81\x82\xed\x95\x9c \xe2\x86\x92"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        CLEANUP(buf_free) struct buf shown = BUF_INIT;
        shown_text_put(rows[i].text, &shown);
        assert_string_equal(shown.data, rows[i].shown);
    }
}

static void test_lines(void **state)
{
    (void)state;
    static const struct {
        const char *text, *shown;
    } rows[] = {
        {"a\n\nb\n", "     1 | a\n     2 | \n     3 | b\n"},
        {"a", "     1 | a\n         (no line feed at the end)\n"},
        {"\tx\r\n", "     1 | <TAB>x<U+000D>\n"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        CLEANUP(buf_free) struct buf shown = BUF_INIT;
        shown_text_put_lines(rows[i].text, strlen(rows[i].text), &shown);
        assert_string_equal(shown.data, rows[i].shown);
    }
}

#define X66 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define W11                                                                                                  \
    "\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad\xe4"   \
    "\xb8\xad\xe4\xb8\xad\xe4\xb8\xad"
#define W33 W11 W11 W11

/* A terminal of 80 columns never breaks one by itself. */
static void test_long_lines(void **state)
{
    (void)state;
    static const struct {
        const char *text, *shown;
    } rows[] = {
        {X66, X66},
        {X66 "     2 | safe()", X66 "\n     > |      2 | safe()"},
        {X66 X66 "y", X66 "\n     > | " X66 "\n     > | y"},
        {W33 "x", W33 "\n     > | x"},
        {"x" W33,
         "x" W11 W11 "\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad"
         "\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad\n     > | \xe4\xb8\xad"},
        {"\t\t\t\t\t\t\t\t\t\t\t\t\t\tx",
         "<TAB><TAB><TAB><TAB><TAB><TAB><TAB><TAB><TAB><TAB><TAB><TAB><TAB>\n     > | <TAB>x"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        CLEANUP(buf_free) struct buf shown = BUF_INIT, expected = BUF_INIT, folded = BUF_INIT;
        shown_text_put_lines(rows[i].text, strlen(rows[i].text), &shown);
        buf_printf(&expected, "     1 | %s\n         (no line feed at the end)\n", rows[i].shown);
        assert_string_equal(shown.data, expected.data);
        shown_text_put_folded(rows[i].text, &folded);
        assert_string_equal(folded.data, rows[i].shown);
    }
}

/* Whatever the bytes are: no control character but our own line feeds, valid UTF-8, and lines that fit. */
static void test_any_bytes(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (int round = 0; round < 2000; round++) {
        CLEANUP(buf_free) struct buf shown = BUF_INIT;
        char text[64];
        for (size_t i = 0; i < sizeof text; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            text[i] = (char)(random >> 56);
        }
        shown_text_put_lines(text, sizeof text, &shown);
        unsigned columns = 0;
        for (size_t at = 0; at < shown.len;) {
            bool valid;
            unsigned char first = (unsigned char)shown.data[at];
            size_t length = utf8_sequence(shown.data + at, shown.len - at, &valid);
            assert_true(valid);
            assert_true(first >= 0x20 || first == '\n');
            columns = first == '\n' ? 0 : columns + (first < 0x80 ? 1 : 2);
            assert_true(columns <= 80);
            assert_int_not_equal(first, 0x7f);
            assert_false(first == 0xc2 && (unsigned char)shown.data[at + 1] < 0xa0);
            at += length;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
