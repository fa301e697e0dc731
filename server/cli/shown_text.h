/* Text that somebody else wrote, made fit to be looked at on a terminal. */
#pragma once

#include <stddef.h>

struct buf;

/* Appends the text with its lines numbered. What a terminal would not show as what it is (control
 * characters, invalid UTF-8, characters that are invisible, combine with others, turn the direction of
 * writing or look like others) is spelled out: <U+202E>, <0xFF>, <TAB>; lines longer than a terminal's 80
 * columns are cut where everybody sees it. */
void shown_text_put_lines(const char *text, size_t size, struct buf *ret);
/* One word or sentence, in which a line feed is spelled out, too. */
void shown_text_put(const char *text, struct buf *ret);
/* The same after a title of at most 14 columns, cut like a line. */
void shown_text_put_folded(const char *text, struct buf *ret);
