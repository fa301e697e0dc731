/* Matching of output names: '*', '?' and '[a-z]' as in a shell, in time that grows with pattern times text,
 * never worse, and no longer than the caller allows. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* True if the whole `path` matches. No wildcard matches '/', nor a '.' at the start of a part; '\' takes the
 * next character literally; '[' without its ']' stands for itself. Bytes, not characters.
 *
 * Takes what it costs, a byte looked at each, from `*steps`; with 0 left it has given up, and nothing
 * matches. */
bool glob_match(const char *pattern, const char *path, uint64_t *steps);
