/* The Accept header. */
#pragma once

#include <stdbool.h>

/* True if the header (NULL: there is none) lists this media type, as it stands (no wildcard) and with a
 * weight other than zero. */
bool accept_lists(const char *accept, const char *type);
