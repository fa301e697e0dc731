/* Kafel cut into words, numbers, strings and signs. Runs in the command line. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/import/kafel.h"

static bool is_word_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

int kafel_fail(const struct kafel *kafel, struct err *reterr, const char *what)
{
    size_t n = kafel->length < 40 ? kafel->length : 40;
    return import_fail(kafel->from.file, kafel->line, reterr, "%s, not %s%.*s%s", what,
                       n > 0 ? "\"" : "the end", (int)n, kafel->token, n > 0 ? "\"" : "");
}

/* Behind blanks and comments; false: a comment has no end. */
static bool skip(struct kafel *kafel)
{
    const char *end = kafel->from.text + kafel->from.size;
    while (kafel->pos < end) {
        size_t left = (size_t)(end - kafel->pos);
        if (isspace((unsigned char)*kafel->pos)) {
            kafel->at_line += *kafel->pos++ == '\n';
        } else if (left >= 2 && memcmp(kafel->pos, "//", 2) == 0) {
            while (kafel->pos < end && *kafel->pos != '\n') {
                kafel->pos++;
            }
        } else if (left >= 2 && memcmp(kafel->pos, "/*", 2) == 0) {
            const char *close = memmem(kafel->pos + 2, left - 2, "*/", 2);
            if (!close) {
                return false;
            }
            for (; kafel->pos < close + 2; kafel->pos++) {
                kafel->at_line += *kafel->pos == '\n';
            }
        } else {
            break;
        }
    }
    return true;
}

int kafel_next(struct kafel *kafel, struct err *reterr)
{
    bool closed = skip(kafel);
    const char *end = kafel->from.text + kafel->from.size, *at = kafel->pos;
    kafel->token = at;
    kafel->line = kafel->at_line;
    if (!closed) {
        kafel->length = 2;
        return kafel_fail(kafel, reterr, "a comment with an end is expected");
    }
    size_t left = (size_t)(end - at);
    bool number = left > 1 && *at == '-' && isdigit((unsigned char)at[1]);
    static const char *const pairs[] = {"==", "!=", "<=", ">=", "||", "&&"};
    kafel->length = left > 0;
    if (left > 0 && (number || is_word_byte(*at))) {
        while (kafel->length < left && is_word_byte(at[kafel->length])) {
            kafel->length++;
        }
    } else if (left > 0 && *at == '"') {
        const char *close = memchr(at + 1, '"', left - 1);
        if (!close) {
            return kafel_fail(kafel, reterr, "a string with an end is expected");
        }
        kafel->length = (size_t)(close + 1 - at);
    } else {
        for (size_t i = 0; left > 1 && i < ARRAY_SIZE(pairs); i++) {
            kafel->length = memcmp(at, pairs[i], 2) == 0 ? 2 : kafel->length;
        }
    }
    kafel->pos = at + kafel->length;
    return 0;
}

bool kafel_is(const struct kafel *kafel, const char *word)
{
    return strlen(word) == kafel->length && memcmp(word, kafel->token, kafel->length) == 0;
}

bool kafel_is_name(const struct kafel *kafel)
{
    return kafel->length > 0 && is_word_byte(*kafel->token) && !isdigit((unsigned char)*kafel->token);
}

/* 1: it was that, and is behind; 0: it is another. */
int kafel_accept(struct kafel *kafel, const char *word, struct err *reterr)
{
    if (!kafel_is(kafel, word)) {
        return 0;
    }
    int r = kafel_next(kafel, reterr);
    return r < 0 ? r : 1;
}

int kafel_expect(struct kafel *kafel, const char *word, struct err *reterr)
{
    char what[32];
    int r = kafel_accept(kafel, word, reterr);
    snprintf(what, sizeof what, "'%s' is expected", word);
    return r < 0 ? r : r == 0 ? kafel_fail(kafel, reterr, what) : 0;
}

struct kafel_name *kafel_find(struct kafel_names *names, const char *name, size_t length)
{
    for (size_t i = 0; i < names->n; i++) {
        if (strlen(names->rows[i].name) == length && memcmp(names->rows[i].name, name, length) == 0) {
            return &names->rows[i];
        }
    }
    return NULL;
}

bool kafel_constant(struct kafel *kafel, uint64_t *ret)
{
    const struct kafel_name *row = kafel_find(&kafel->constants, kafel->token, kafel->length);
    if (row) {
        *ret = row->value;
        return true;
    }
    return import_number(kafel->token, kafel->length, ret);
}

/* Kafel begins with one of its words, or with a directive, which would be a comment in the other. */
bool kafel_is_text(const char *text, size_t size)
{
    static const char *const words[] = {"POLICY", "USE",   "DEFAULT",   "ALLOW",        "LOG",
                                        "DENY",   "KILL",  "ERRNO",     "KILL_PROCESS", "KILL_THREAD",
                                        "TRAP",   "TRACE", "USER_NOTIF"};
    const char *end = text + size;
    while (text < end) {
        size_t left = (size_t)(end - text);
        const char *line = memchr(text, '\n', left);
        const char *close = left > 2 && memcmp(text, "/*", 2) == 0 ? memmem(text, left, "*/", 2) : NULL;
        if (left > 8 && (memcmp(text, "#define", 7) == 0 || memcmp(text, "#include", 8) == 0)) {
            return true;
        }
        if (close) {
            text = close + 2;
        } else if (*text == '#' || (left > 1 && memcmp(text, "//", 2) == 0)) {
            text = line ? line : end;
        } else if (strchr(" \t\r\n,", *text)) {
            text++;
        } else {
            size_t n = 0;
            while (n < left && (text[n] == '_' || (text[n] >= 'A' && text[n] <= 'Z'))) {
                n++;
            }
            for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
                if (strlen(words[i]) == n && memcmp(words[i], text, n) == 0) {
                    return true;
                }
            }
            return false;
        }
    }
    return false;
}
