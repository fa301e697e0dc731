/* Globs of a job's `outputs`. Runs in the warden, on patterns and names that callers and programs chose: so
 * it is not fnmatch(3), whose backtracking over several '*' takes exponential time. Since no wildcard crosses
 * a '/', only the last '*' of a part ever needs another try. */
#include "server/run/glob.h"

#include <stddef.h>
#include <string.h>

/* The end of the bracket expression that opens at `pattern` (behind its ']'), or NULL if it is not closed. */
static const char *bracket_end(const char *pattern)
{
    const char *at = pattern + 1;
    if (*at == '!' || *at == '^') {
        at++;
    }
    if (*at == ']') {
        at++;
    }
    while (*at && *at != ']' && *at != '/') {
        at++;
    }
    return *at == ']' ? at + 1 : NULL;
}

static bool bracket_match(const char *pattern, const char *end, char c)
{
    const unsigned char byte = (unsigned char)c;
    const char *at = pattern + 1;
    bool negated = *at == '!' || *at == '^';
    at += negated;
    bool found = false;
    for (const char *first = at; at == first || at < end - 1; at++) {
        unsigned char low = (unsigned char)*at;
        unsigned char high = low;
        if (at + 2 < end - 1 && at[1] == '-') {
            high = (unsigned char)at[2];
            at += 2;
        }
        found = found || (low <= byte && byte <= high);
    }
    return found != negated;
}

/* Matches one pattern character, other than '*', against one byte. Returns what follows in the pattern, or
 * NULL. */
static const char *match_one(const char *pattern, const char *path, bool part_start)
{
    char c = *path;
    if (c == '\0') {
        return NULL;
    }
    bool wild = c != '/' && !(part_start && c == '.');
    if (*pattern == '?') {
        return wild ? pattern + 1 : NULL;
    }
    if (*pattern == '[') {
        const char *end = bracket_end(pattern);
        if (end) {
            return wild && bracket_match(pattern, end, c) ? end : NULL;
        }
    }
    if (*pattern == '\\' && pattern[1]) {
        pattern++;
    }
    return *pattern == c ? pattern + 1 : NULL;
}

/* What match_one() looks at. */
static uint64_t cost_of(const char *pattern)
{
    if (*pattern != '[') {
        return 1;
    }
    const char *end = bracket_end(pattern);
    return 1 + (end ? (size_t)(end - pattern) : strcspn(pattern, "/"));
}

static bool spend(uint64_t *steps, uint64_t cost)
{
    *steps -= cost < *steps ? cost : *steps;
    return *steps > 0;
}

bool glob_match(const char *pattern, const char *path, uint64_t *steps)
{
    const char *start = path;
    const char *star = NULL;  /* behind the last '*' seen */
    const char *retry = NULL; /* what that '*' ends before */
    while (spend(steps, cost_of(pattern))) {
        bool part_start = path == start || path[-1] == '/';
        if (*pattern == '*') {
            if (part_start && *path == '.') {
                return false;
            }
            star = ++pattern;
            retry = path;
            continue;
        }
        if (*pattern == '\0' && *path == '\0') {
            return true;
        }
        const char *next = *pattern ? match_one(pattern, path, part_start) : NULL;
        if (next) {
            pattern = next;
            path++;
            continue;
        }
        if (!star || *retry == '\0' || *retry == '/') {
            return false;
        }
        pattern = star;
        path = ++retry;
    }
    return false;
}
