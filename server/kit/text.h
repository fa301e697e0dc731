/* Text that may be none: is it UTF-8, and is its last character whole? */
#pragma once

#include <stdbool.h>
#include <stddef.h>

bool text_is_utf8(const char *text, size_t len);

/* How many bytes at the end (0 to 3) are the beginning of a character that more bytes could complete. */
size_t text_unfinished(const char *text, size_t len);
