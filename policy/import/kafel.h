/* Kafel between its parts: words (kafel_words.c), conditions (kafel_condition.c), statements (kafel.c). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/import/formats.h"

struct call_rule;
struct clauses;
struct draft;
struct err;

/* A constant or a policy. */
struct kafel_name {
    const char *name;
    uint64_t value;
    struct call_rule *rules;
    size_t n_rules;
};

struct kafel_names {
    struct kafel_name *rows;
    size_t n;
};

struct kafel {
    struct draft *draft;
    struct import_text from;
    const char *pos;
    unsigned at_line;
    const char *token; /* the current one; empty at the end */
    size_t length;
    unsigned line; /* of the token */
    struct kafel_names constants, policies;
    const char *call; /* that is being read, and the names that its arguments are given */
    const char *arguments[6];
    size_t n_arguments;
    unsigned n_includes;
    bool has_default;
};

int kafel_next(struct kafel *kafel, struct err *reterr);
bool kafel_is(const struct kafel *kafel, const char *word);
bool kafel_is_name(const struct kafel *kafel);
/* 1: the token was that, and is behind; 0: it is another. */
int kafel_accept(struct kafel *kafel, const char *word, struct err *reterr);
int kafel_expect(struct kafel *kafel, const char *word, struct err *reterr);
/* ERR_CONFIG at the token: WHAT, not "TOKEN". */
int kafel_fail(const struct kafel *kafel, struct err *reterr, const char *what);
/* The row of that name, or NULL. */
struct kafel_name *kafel_find(struct kafel_names *names, const char *name, size_t length);
/* The token as a number, or as a constant that was defined. */
bool kafel_constant(struct kafel *kafel, uint64_t *ret);

/* What stands between the braces behind a call. The caller frees it. */
int kafel_condition(struct kafel *kafel, struct clauses **ret, struct err *reterr);
