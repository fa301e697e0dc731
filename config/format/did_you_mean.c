/* "Did you mean": the nearest of some names. Runs where a configuration file or variable is wrong. */
#include "config/format/suggest.h"
#include "config/format/textformat.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define WORD_MAX 64

static bool same_letter(char a, char b)
{
    a = a == '-' ? '_' : a;
    b = b == '-' ? '_' : b;
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static unsigned smallest(unsigned a, unsigned b, unsigned c)
{
    unsigned m = a < b ? a : b;
    return m < c ? m : c;
}

/* Letters inserted, left out, changed or swapped with their neighbour; case and '-' for '_' cost nothing. */
static unsigned distance_between(const char *a, size_t a_len, const char *b, size_t b_len)
{
    unsigned rows[3][WORD_MAX + 1];
    unsigned *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_len; j++) {
        above[j] = (unsigned)j;
    }
    for (size_t i = 1; i <= a_len; i++) {
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_len; j++) {
            unsigned change = same_letter(a[i - 1], b[j - 1]) ? 0 : 1;
            row[j] = smallest(above[j] + 1, row[j - 1] + 1, above[j - 1] + change);
            bool swapped =
                i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]);
            if (swapped && before[j - 2] + 1 < row[j]) {
                row[j] = before[j - 2] + 1;
            }
        }
        unsigned *oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[b_len];
}

void suggestion_offer(struct suggestion *suggestion, const char *name)
{
    size_t len = strlen(name);
    size_t longer = len > suggestion->len ? len : suggestion->len;
    if (longer > WORD_MAX || suggestion->len == 0) {
        return;
    }
    unsigned distance = distance_between(suggestion->word, suggestion->len, name, len);
    unsigned worth_it = longer < 6 ? 1 : (unsigned)longer / 3;
    if (distance <= worth_it && distance < longer && (!suggestion->best || distance < suggestion->distance)) {
        suggestion->best = name;
        suggestion->distance = distance;
    }
}

const char *suggestion_text(const struct suggestion *suggestion, const char *prefix,
                            char ret[SUGGESTION_TEXT_MAX])
{
    ret[0] = '\0';
    if (suggestion->best) {
        snprintf(ret, SUGGESTION_TEXT_MAX, "; did you mean %s%s?", prefix, suggestion->best);
    }
    return ret;
}

const char *textformat_did_you_mean(const char *word, const char *const *names, size_t n_names)
{
    struct suggestion suggestion = SUGGESTION_FOR(word, strlen(word));
    for (size_t i = 0; i < n_names; i++) {
        suggestion_offer(&suggestion, names[i]);
    }
    return suggestion.best;
}
