/* Globs of `outputs`, held against the plainest matcher that there could be. Pattern and path are divided by
 * a line break. */
#include <stdlib.h>
#include <string.h>

#include "jail/base/cleanup.h"
#include "server/run/glob.h"
#include "tests/fuzz/fuzz.h"

/* What the plain matcher can be asked without taking forever. */
#define LENGTH_MAX 48

/* Matches by trying everything, with a table of what has been tried; reads its brackets by itself. */
struct plain {
    const char *pattern, *path;
    size_t n_path;
    signed char *known; /* 0: not tried, 1: no, 2: yes */
};

static bool may_be_wild(const struct plain *plain, size_t j)
{
    char c = plain->path[j];
    bool part_start = j == 0 || plain->path[j - 1] == '/';
    return c != '\0' && c != '/' && !(part_start && c == '.');
}

/* The length of the bracket expression at `p`, or 0 if it is none. */
static size_t bracket_length(const char *p)
{
    size_t i = 1;
    i += p[i] == '!' || p[i] == '^';
    i += p[i] == ']';
    i += strcspn(p + i, "]/");
    return p[i] == ']' ? i + 1 : 0;
}

static bool bracket_holds(const char *p, size_t length, unsigned char c)
{
    bool negated = p[1] == '!' || p[1] == '^', found = false;
    for (size_t i = negated ? 2 : 1; i < length - 1; i++) {
        unsigned char low = (unsigned char)p[i], high = low;
        if (i + 2 < length - 1 && p[i + 1] == '-') {
            high = (unsigned char)p[i + 2];
            i += 2;
        }
        found |= low <= c && c <= high;
    }
    return found != negated;
}

static bool matches(struct plain *plain, size_t i, size_t j);

static bool matches_star(struct plain *plain, size_t i, size_t j)
{
    bool hidden = plain->path[j] == '.' && !may_be_wild(plain, j);
    return !hidden && (matches(plain, i + 1, j) || (may_be_wild(plain, j) && matches(plain, i, j + 1)) ||
                       (plain->path[j] == '.' && matches(plain, i, j + 1)));
}

static bool try_here(struct plain *plain, size_t i, size_t j)
{
    const char *p = plain->pattern + i;
    char c = plain->path[j];
    size_t bracket = *p == '[' ? bracket_length(p) : 0;
    if (*p == '\0') {
        return c == '\0';
    }
    if (*p == '*') {
        return matches_star(plain, i, j);
    }
    if (c == '\0') {
        return false;
    }
    if (*p == '?') {
        return may_be_wild(plain, j) && matches(plain, i + 1, j + 1);
    }
    if (bracket > 0) {
        return may_be_wild(plain, j) && bracket_holds(p, bracket, (unsigned char)c) &&
               matches(plain, i + bracket, j + 1);
    }
    size_t escaped = *p == '\\' && p[1] ? 1 : 0;
    return p[escaped] == c && matches(plain, i + escaped + 1, j + 1);
}

static bool matches(struct plain *plain, size_t i, size_t j)
{
    signed char *known = &plain->known[i * (plain->n_path + 1) + j];
    if (*known == 0) {
        *known = try_here(plain, i, j) ? 2 : 1;
    }
    return *known == 2;
}

void fuzz_one(const uint8_t *data, size_t size)
{
    CLEANUP(freep) char *pattern = strndup((const char *)data, size);
    REQUIRE(pattern);
    char *path = strchr(pattern, '\n');
    if (!path) {
        return;
    }
    *path++ = '\0';
    uint64_t steps = UINT64_MAX;
    bool matched = glob_match(pattern, path, &steps);
    if (strlen(pattern) > LENGTH_MAX || strlen(path) > LENGTH_MAX) {
        return;
    }
    CLEANUP(freep) signed char *known = calloc((strlen(pattern) + 2) * (strlen(path) + 2), 1);
    REQUIRE(known);
    struct plain plain = {.pattern = pattern, .path = path, .n_path = strlen(path), .known = known};
    REQUIRE(matched == matches(&plain, 0, 0));
}
