/* UTF-8, looked at byte by byte: what is a character, and what is only the beginning of one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length (1 to 4) of the character at `text`, or 0 where its first bytes are none: overlong forms,
 * surrogates, values over U+10FFFF, stray and missing continuation bytes. `ret_code_point` may be NULL. */
size_t utf8_character(const char *text, size_t len, uint32_t *ret_code_point);

bool utf8_valid(const char *text, size_t len);

/* How many bytes at the end of `text` (0 to 3) are the beginning of a character that more bytes could
 * complete. */
size_t utf8_unfinished(const char *text, size_t len);
