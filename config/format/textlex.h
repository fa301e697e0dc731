/* struct textlex: protobuf text format cut into tokens, each with its line and column. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;

enum text_token_kind {
    TEXT_END,
    TEXT_IDENTIFIER,
    TEXT_INTEGER, /* decimal, 0x hexadecimal or 0 octal, without a sign */
    TEXT_FLOAT,
    TEXT_AMOUNT, /* a number with letters behind it: "30s" */
    TEXT_STRING, /* with its quotes; escapes have been checked */
    TEXT_SYMBOL, /* one ASCII character */
};

struct text_token {
    enum text_token_kind kind;
    const char *start;
    size_t len;
    unsigned line, column; /* from 1; columns count characters, not bytes */
};

struct textlex {
    const char *file; /* for messages only */
    const char *pos, *end;
    unsigned line, column;
    struct text_token token; /* the current one */
};

/* Reads the first token. */
int textlex_open(struct textlex *lex, const char *file, const char *text, size_t size, struct err *reterr);
/* Moves on. ERR_CONFIG with item FILE:LINE:COLUMN where no token can begin or one is malformed. */
int textlex_next(struct textlex *lex, struct err *reterr);

bool textlex_at_symbol(const struct textlex *lex, char symbol);
/* The current token for a message: "'}'", "the end of the file". Into `ret` of `size` bytes. */
const char *textlex_describe(const struct textlex *lex, char *ret, size_t size);

/* Appends what a TEXT_STRING token stands for. 0 or -ENOMEM. */
int textlex_unescape(const struct text_token *token, struct buf *ret);

/* Fails at the current token: ERR_CONFIG, item FILE:LINE:COLUMN. */
int textlex_fail(const struct textlex *lex, struct err *reterr, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
