/* UTF-8: one sequence at a time, and whether a text is any, and whole. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/* How many bytes at `text` (`len` > 0) belong together: a character's, or, where `*ret_valid` is false, the
 * longest start of one that cannot go on, which is what one U+FFFD stands for. No overlong forms, no
 * surrogates, nothing above U+10FFFF. */
size_t utf8_sequence(const char *text, size_t len, bool *ret_valid);

bool utf8_is_valid(const char *text, size_t len);

/* How many bytes at the end (0 to 3) are the beginning of a character that more bytes could complete. */
size_t utf8_unfinished(const char *text, size_t len);

/* Appends the character of a code point up to U+10FFFF, or half of a surrogate pair as if it were one.
 * -ENOMEM. */
int utf8_put(uint32_t code, struct buf *ret);
