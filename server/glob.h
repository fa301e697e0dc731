/* Matching of output names: '*', '?' and '[a-z]' as in a shell, in time that grows with pattern times text,
 * never worse. */
#pragma once

#include <stdbool.h>

/* True if the whole `path` matches. No wildcard matches '/', nor a '.' at the start of a part; '\' takes the
 * next character literally; '[' without its ']' stands for itself. Bytes, not characters. */
bool glob_match(const char *pattern, const char *path);
