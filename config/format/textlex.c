/* The tokens of protobuf text format, as protobuf's own tokenizer of version 3.21 cuts them, and TEXT_AMOUNT,
 * which it refuses. Runs wherever
 * configuration is read. Looks at no byte behind `end`; a malformed token is an error at once, so the walker
 * sees well-formed ones only. */
#include "config/format/textlex.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "config/format/hex_digit.h"
#include "config/format/utf8.h"
#include "jail/base/buf.h"
#include "jail/base/err.h"

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static bool is_octal(int c)
{
    return c >= '0' && c <= '7';
}

static bool is_letter(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_blank(int c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f' || c == '\n';
}

/* The byte `ahead` of the current position, or -1 behind the end. */
static int peek(const struct textlex *lex, size_t ahead)
{
    return (size_t)(lex->end - lex->pos) > ahead ? (unsigned char)lex->pos[ahead] : -1;
}

static void advance(struct textlex *lex)
{
    unsigned char c = (unsigned char)*lex->pos++;
    bool continues_a_character = (c & 0xc0) == 0x80;
    if (c == '\n') {
        lex->line++;
        lex->column = 1;
    } else if (!continues_a_character) {
        lex->column++;
    }
}

static bool accept(struct textlex *lex, int c)
{
    if (peek(lex, 0) != c) {
        return false;
    }
    advance(lex);
    return true;
}

static int fail_at(const struct textlex *lex, unsigned line, unsigned column, struct err *reterr,
                   const char *text)
{
    char item[256];
    snprintf(item, sizeof item, "%.200s:%u:%u", lex->file, line, column);
    return err_set(reterr, ERR_CONFIG, EINVAL, item, "%s", text);
}

int textlex_fail(const struct textlex *lex, struct err *reterr, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return fail_at(lex, lex->token.line, lex->token.column, reterr, text);
}

/* Fails at the next character instead. */
static int fail_here(const struct textlex *lex, struct err *reterr, const char *text)
{
    return fail_at(lex, lex->line, lex->column, reterr, text);
}

static void skip_blanks_and_comments(struct textlex *lex)
{
    for (;;) {
        int c = peek(lex, 0);
        if (is_blank(c)) {
            advance(lex);
        } else if (c == '#') {
            /* A NUL ends a comment too, for protobuf; then it stands where no token can begin. */
            while (peek(lex, 0) > 0 && peek(lex, 0) != '\n') {
                advance(lex);
            }
        } else {
            return;
        }
    }
}

static void skip_digits(struct textlex *lex)
{
    while (is_digit(peek(lex, 0))) {
        advance(lex);
    }
}

/* "0x1F" and "017". */
static int lex_prefixed_integer(struct textlex *lex, struct err *reterr)
{
    advance(lex);
    lex->token.kind = TEXT_INTEGER;
    if (accept(lex, 'x') || accept(lex, 'X')) {
        if (hex_digit(peek(lex, 0)) < 0) {
            return fail_here(lex, reterr, "\"0x\" must be followed by hexadecimal digits");
        }
        while (hex_digit(peek(lex, 0)) >= 0) {
            advance(lex);
        }
        return 0;
    }
    while (is_octal(peek(lex, 0))) {
        advance(lex);
    }
    if (is_digit(peek(lex, 0))) {
        return fail_here(lex, reterr, "a number that begins with 0 is octal and has no digits 8 and 9");
    }
    return 0;
}

/* "12", "1.5", ".5", "5.", "1e-3", "2f". */
static int lex_decimal(struct textlex *lex, struct err *reterr)
{
    lex->token.kind = TEXT_INTEGER;
    skip_digits(lex);
    if (accept(lex, '.')) {
        lex->token.kind = TEXT_FLOAT;
        skip_digits(lex);
    }
    if (accept(lex, 'e') || accept(lex, 'E')) {
        lex->token.kind = TEXT_FLOAT;
        if (!accept(lex, '-')) {
            accept(lex, '+');
        }
        if (!is_digit(peek(lex, 0))) {
            return fail_here(lex, reterr, "\"e\" must be followed by an exponent");
        }
        skip_digits(lex);
    }
    if (accept(lex, 'f') || accept(lex, 'F')) {
        lex->token.kind = TEXT_FLOAT;
    }
    return 0;
}

static int lex_number(struct textlex *lex, struct err *reterr)
{
    int second = peek(lex, 1);
    bool prefixed = peek(lex, 0) == '0' && (second == 'x' || second == 'X' || is_digit(second));
    int r = prefixed ? lex_prefixed_integer(lex, reterr) : lex_decimal(lex, reterr);
    if (r < 0) {
        return r;
    }
    if (is_letter(peek(lex, 0)) && prefixed) {
        return fail_here(lex, reterr, "a blank is needed between a number and a name");
    }
    while (is_letter(peek(lex, 0)) || (lex->token.kind == TEXT_AMOUNT && is_digit(peek(lex, 0)))) {
        lex->token.kind = TEXT_AMOUNT;
        advance(lex);
    }
    if (peek(lex, 0) == '.') {
        return fail_here(lex, reterr,
                         prefixed ? "a hexadecimal or octal number must be whole"
                                  : "a number has one decimal point, before its exponent");
    }
    return 0;
}

static bool accept_hex_digits(struct textlex *lex, int n)
{
    for (int i = 0; i < n; i++) {
        if (hex_digit(peek(lex, 0)) < 0) {
            return false;
        }
        advance(lex);
    }
    return true;
}

/* Behind the backslash. */
static int lex_escape(struct textlex *lex, struct err *reterr)
{
    int c = peek(lex, 0);
    if (c > 0 && strchr("abfnrtv\\?'\"", c)) {
        advance(lex);
        return 0;
    }
    if (is_octal(c)) {
        /* Further digits are ordinary characters here; textlex_unescape() takes up to three. */
        advance(lex);
        return 0;
    }
    if (accept(lex, 'x')) {
        return accept_hex_digits(lex, 1)
                   ? 0
                   : fail_here(lex, reterr, "\"\\x\" must be followed by hexadecimal digits");
    }
    if (accept(lex, 'u')) {
        return accept_hex_digits(lex, 4)
                   ? 0
                   : fail_here(lex, reterr, "\"\\u\" must be followed by four hexadecimal digits");
    }
    if (accept(lex, 'U')) {
        bool fits = accept(lex, '0') && accept(lex, '0') && (accept(lex, '0') || accept(lex, '1'));
        return fits && accept_hex_digits(lex, 5)
                   ? 0
                   : fail_here(lex, reterr,
                               "\"\\U\" must be followed by eight hexadecimal digits up to 0010ffff");
    }
    return fail_here(lex, reterr, "there is no such escape sequence");
}

static int lex_string(struct textlex *lex, struct err *reterr)
{
    int quote = peek(lex, 0);
    lex->token.kind = TEXT_STRING;
    advance(lex);
    for (;;) {
        int c = peek(lex, 0);
        if (c == -1 || c == '\n') {
            return fail_here(lex, reterr, "a string must end on the line it began on");
        }
        if (c == '\0') {
            return fail_here(lex, reterr, "a NUL must be written as \\0");
        }
        advance(lex);
        if (c == quote) {
            return 0;
        }
        if (c == '\\') {
            int r = lex_escape(lex, reterr);
            if (r < 0) {
                return r;
            }
        }
    }
}

static int lex_token(struct textlex *lex, struct err *reterr)
{
    int c = peek(lex, 0);
    if (c == -1) {
        lex->token.kind = TEXT_END;
        return 0;
    }
    if (is_letter(c)) {
        lex->token.kind = TEXT_IDENTIFIER;
        while (is_letter(peek(lex, 0)) || is_digit(peek(lex, 0))) {
            advance(lex);
        }
        return 0;
    }
    if (is_digit(c) || (c == '.' && is_digit(peek(lex, 1)))) {
        return lex_number(lex, reterr);
    }
    if (c == '"' || c == '\'') {
        return lex_string(lex, reterr);
    }
    if (c < ' ' || c >= 0x7f) {
        char text[64];
        snprintf(text, sizeof text, "byte 0x%02x must not stand outside strings and comments", (unsigned)c);
        return fail_here(lex, reterr, text);
    }
    lex->token.kind = TEXT_SYMBOL;
    advance(lex);
    return 0;
}

int textlex_next(struct textlex *lex, struct err *reterr)
{
    struct text_token before = lex->token;
    skip_blanks_and_comments(lex);
    lex->token = (struct text_token){.start = lex->pos, .line = lex->line, .column = lex->column};
    int r = lex_token(lex, reterr);
    if (r < 0) {
        return r;
    }
    lex->token.len = (size_t)(lex->pos - lex->token.start);
    bool touches = before.kind == TEXT_IDENTIFIER && before.start + before.len == lex->token.start;
    if (touches && lex->token.kind == TEXT_FLOAT) {
        return textlex_fail(lex, reterr, "a blank is needed between a name and a decimal point");
    }
    return 0;
}

int textlex_open(struct textlex *lex, const char *file, const char *text, size_t size, struct err *reterr)
{
    *lex = (struct textlex){.file = file, .pos = text, .end = text + size, .line = 1, .column = 1};
    return textlex_next(lex, reterr);
}

bool textlex_at_symbol(const struct textlex *lex, char symbol)
{
    return lex->token.kind == TEXT_SYMBOL && *lex->token.start == symbol;
}

const char *textlex_describe(const struct textlex *lex, char *ret, size_t size)
{
    static const size_t shown_max = 40;
    const struct text_token *token = &lex->token;
    if (token->kind == TEXT_END) {
        snprintf(ret, size, "the end of the file");
    } else if (token->kind == TEXT_STRING) {
        snprintf(ret, size, "a string");
    } else if (token->len > shown_max) {
        snprintf(ret, size, "'%.*s...'", (int)shown_max, token->start);
    } else {
        snprintf(ret, size, "'%.*s'", (int)token->len, token->start);
    }
    return ret;
}

/* Reads at most `n` digits of `base`, moving `*at`. */
static uint32_t read_digits(const char **at, const char *end, int n, unsigned base)
{
    uint32_t value = 0;
    for (; n > 0 && *at < end; n--, ++*at) {
        int digit = hex_digit(**at);
        if (digit < 0 || (unsigned)digit >= base) {
            break;
        }
        value = value * base + (uint32_t)digit;
    }
    return value;
}

/* Surrogates that belong to no pair are written like any other code point, as protobuf does; what is above
 * the last code point stays the escape it was. */
static int append_code_point(struct buf *ret, uint32_t code)
{
    return code > 0x10ffff ? buf_printf(ret, "\\U%08x", code) : utf8_put(code, ret);
}

/* `*at` is behind the 'u' or 'U'. A high surrogate joins with a low one if that follows as \u. */
static int unescape_code_point(const char **at, const char *end, int digits, struct buf *ret)
{
    uint32_t code = read_digits(at, end, digits, 16);
    bool high = code >= 0xd800 && code <= 0xdbff;
    if (high && end - *at >= 6 && (*at)[0] == '\\' && (*at)[1] == 'u') {
        const char *behind = *at + 2;
        uint32_t low = read_digits(&behind, end, 4, 16);
        if (low >= 0xdc00 && low <= 0xdfff) {
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            *at = behind;
        }
    }
    return append_code_point(ret, code);
}

/* `*at` is behind the backslash of an escape that lex_escape() accepted. */
static int unescape_one(const char **at, const char *end, struct buf *ret)
{
    static const char letters[] = "abfnrtv", values[] = "\a\b\f\n\r\t\v";
    char c = *(*at)++;
    if (is_octal(c)) {
        --*at;
        return buf_putc(ret, (char)read_digits(at, end, 3, 8));
    }
    if (c == 'x') {
        return buf_putc(ret, (char)read_digits(at, end, 2, 16));
    }
    if (c == 'u' || c == 'U') {
        return unescape_code_point(at, end, c == 'u' ? 4 : 8, ret);
    }
    const char *letter = strchr(letters, c);
    return buf_putc(ret, letter ? values[letter - letters] : c);
}

int textlex_unescape(const struct text_token *token, struct buf *ret)
{
    const char *end = token->start + token->len - 1;
    const char *at = token->start + 1;
    int r = 0;
    while (r == 0 && at < end) {
        const char *backslash = memchr(at, '\\', (size_t)(end - at));
        const char *plain_end = backslash ? backslash : end;
        r = buf_append(ret, at, (size_t)(plain_end - at));
        at = plain_end;
        if (r == 0 && backslash) {
            at++;
            r = unescape_one(&at, end, ret);
        }
    }
    return r;
}
