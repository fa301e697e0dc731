/* Protobuf text format into protobuf-c messages, by walking their descriptors. Runs where the warden and the
 * command line read configuration.
 *
 * It accepts what `protoc --encode` of protobuf 3.21 accepts and gives the same message, but for four things,
 * all refused here: a required field left out (protoc warns and goes on), NUL inside a `string` (a char
 * pointer cannot hold it), messages nested more than DEPTH_MAX deep, and reserved field names (protobuf-c's
 * descriptors do not know them; protoc skips such fields). And it accepts two things more: an amount with a
 * unit (config/format/amount.h), bare or in quotes, for a field of bytes or milliseconds, and the kernel's
 * names without quotes, for fields that take some. What is shipped has neither, so that every protobuf tool
 * reads it. tests/config holds the two against each other. */
#include "config/format/textformat.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/format/amount.h"
#include "config/format/builder.h"
#include "config/format/fieldpath.h"
#include "config/format/hex_digit.h"
#include "config/format/source.h"
#include "config/format/textlex.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"

/* protobuf's own limit for the binary format. */
#define DEPTH_MAX 100

struct parser {
    struct textlex lex;
    struct source *source;
    struct fieldpath path;
    unsigned depth;
    struct err *reterr;
};

/* Fails at the current token, with the path of the field that is being read. */
static int fail(struct parser *parser, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int fail(struct parser *parser, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return textlex_fail(&parser->lex, parser->reterr, "%s%s%s", parser->path.text,
                        parser->path.len > 0 ? ": " : "", text);
}

static int fail_expected(struct parser *parser, const char *what)
{
    char got[64];
    return fail(parser, "expected %s, got %s", what, textlex_describe(&parser->lex, got, sizeof got));
}

/* The current token's text, for "%.*s", with as much of it as a message needs. */
static int shown(const struct parser *parser)
{
    static const size_t shown_max = 60;
    return (int)(parser->lex.token.len < shown_max ? parser->lex.token.len : shown_max);
}

static int fail_memory(struct parser *parser)
{
    return err_errno(parser->reterr, ENOMEM, "while reading %s", parser->lex.file);
}

static int next(struct parser *parser)
{
    return textlex_next(&parser->lex, parser->reterr);
}

/* 1 and moved on if the current token is `symbol`, 0 if not, negative where the token behind it is malformed.
 */
static int take_symbol(struct parser *parser, char symbol)
{
    if (!textlex_at_symbol(&parser->lex, symbol)) {
        return 0;
    }
    int r = next(parser);
    return r < 0 ? r : 1;
}

static int need_symbol(struct parser *parser, char symbol)
{
    int r = take_symbol(parser, symbol);
    if (r == 0) {
        char what[] = {'\'', symbol, '\'', '\0'};
        return fail_expected(parser, what);
    }
    return r < 0 ? r : 0;
}

/* The magnitude of a TEXT_INTEGER token. False: more than 64 bits. */
static bool integer_of(const struct text_token *token, uint64_t *ret)
{
    const char *at = token->start, *end = token->start + token->len;
    uint64_t value = 0, base = 10;
    if (token->len > 1 && at[0] == '0') {
        bool hex = (at[1] | 0x20) == 'x';
        base = hex ? 16 : 8;
        at += hex ? 2 : 1;
    }
    for (; at < end; at++) {
        uint64_t digit = (uint64_t)hex_digit(*at);
        if (__builtin_mul_overflow(value, base, &value) || __builtin_add_overflow(value, digit, &value)) {
            return false;
        }
    }
    *ret = value;
    return true;
}

/* 1: there was a '-' and it has been passed. */
static int take_minus(struct parser *parser)
{
    return take_symbol(parser, '-');
}

/* "30s", or 30s, or "30". */
static int parse_amount(struct parser *parser, const ProtobufCFieldDescriptor *field, void *slot)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    const struct text_token *token = &parser->lex.token;
    uint64_t amount;
    int r = token->kind == TEXT_STRING ? textlex_unescape(token, &text)
                                       : buf_append(&text, token->start, token->len);
    if (r < 0) {
        return fail_memory(parser);
    }
    const char *wrong = amount_parse(field->name, text.data ? text.data : "", text.len, &amount);
    if (wrong) {
        return fail(parser, "%.*s %s", shown(parser), token->start, wrong);
    }
    if (!builder_put_integer(field, slot, false, amount)) {
        return fail(parser, "%.*s " AMOUNT_TOO_LARGE, shown(parser), token->start);
    }
    source_note_unit(parser->source, amount_unit(text.data ? text.data : "", text.len));
    return next(parser);
}

static int parse_integer(struct parser *parser, const ProtobufCFieldDescriptor *field, void *slot)
{
    uint64_t magnitude;
    bool is_signed = field->type != PROTOBUF_C_TYPE_UINT32 && field->type != PROTOBUF_C_TYPE_FIXED32 &&
                     field->type != PROTOBUF_C_TYPE_UINT64 && field->type != PROTOBUF_C_TYPE_FIXED64;
    int negative = is_signed ? take_minus(parser) : 0;
    if (negative < 0) {
        return negative;
    }
    const struct text_token *token = &parser->lex.token;
    if (!negative && (token->kind == TEXT_AMOUNT || token->kind == TEXT_STRING) && amount_is(field->name)) {
        return parse_amount(parser, field, slot);
    }
    if (token->kind != TEXT_INTEGER) {
        return fail_expected(parser, is_signed ? "a whole number" : "a whole number without a sign");
    }
    if (!integer_of(token, &magnitude) || !builder_put_integer(field, slot, negative, magnitude)) {
        return fail(parser, "%s%.*s is out of range", negative ? "-" : "", shown(parser), token->start);
    }
    return next(parser);
}

/* A TEXT_INTEGER or TEXT_FLOAT token, however long. */
static int decimal_of(struct parser *parser, double *ret)
{
    const struct text_token *token = &parser->lex.token;
    if (token->kind == TEXT_INTEGER && token->len > 1 && token->start[0] == '0') {
        return fail(parser, "expected a decimal number, not a hexadecimal or octal one");
    }
    char *copy = strndup(token->start, token->len);
    if (!copy) {
        return fail_memory(parser);
    }
    *ret = strtod(copy, NULL); /* stops before a final "f"; this program never leaves the C locale */
    free(copy);
    return 0;
}

static bool token_is_word(const struct text_token *token, const char *word)
{
    return token->len == strlen(word) && strncasecmp(token->start, word, token->len) == 0;
}

static int parse_double(struct parser *parser, const ProtobufCFieldDescriptor *field, void *slot)
{
    double value = 0;
    int negative = take_minus(parser);
    if (negative < 0) {
        return negative;
    }
    const struct text_token *token = &parser->lex.token;
    if (token->kind == TEXT_INTEGER || token->kind == TEXT_FLOAT) {
        int r = decimal_of(parser, &value);
        if (r < 0) {
            return r;
        }
    } else if (token->kind == TEXT_IDENTIFIER &&
               (token_is_word(token, "inf") || token_is_word(token, "infinity"))) {
        value = HUGE_VAL;
    } else if (token->kind == TEXT_IDENTIFIER && token_is_word(token, "nan")) {
        value = (double)NAN;
    } else {
        return fail_expected(parser, "a number");
    }
    builder_put_double(field, slot, negative ? -value : value);
    return next(parser);
}

static int parse_bool(struct parser *parser, void *slot)
{
    static const struct {
        const char *word;
        bool value;
    } words[] = {{"true", true},   {"True", true},   {"t", true},
                 {"false", false}, {"False", false}, {"f", false}};
    const struct text_token *token = &parser->lex.token;
    uint64_t number = 2;
    if (token->kind == TEXT_INTEGER) {
        if (!integer_of(token, &number)) {
            number = 2;
        }
    } else if (token->kind == TEXT_IDENTIFIER) {
        for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
            if (strlen(words[i].word) == token->len && memcmp(words[i].word, token->start, token->len) == 0) {
                number = words[i].value;
            }
        }
    }
    if (number > 1) {
        return fail_expected(parser, "true or false");
    }
    protobuf_c_boolean value = (protobuf_c_boolean)number;
    memcpy(slot, &value, sizeof value);
    return next(parser);
}

static int fail_unknown_enum_name(struct parser *parser, const ProtobufCFieldDescriptor *field)
{
    const ProtobufCEnumDescriptor *descriptor = field->descriptor;
    struct text_token *token = &parser->lex.token;
    char suggestion[SUGGESTION_TEXT_MAX];
    /* "best-effort" is three tokens, and one word to whoever wrote it. */
    while (token->start + token->len < parser->lex.end &&
           (isalnum((unsigned char)token->start[token->len]) || strchr("-_", token->start[token->len]))) {
        token->len++;
    }
    return fail(parser, "%s has no value %.*s%s", descriptor->short_name, shown(parser), token->start,
                builder_suggest_value(field, token->start, token->len, suggestion));
}

static int parse_enum(struct parser *parser, const ProtobufCFieldDescriptor *field, void *slot)
{
    const ProtobufCEnumDescriptor *descriptor = field->descriptor;
    const struct text_token *token = &parser->lex.token;
    if (token->kind == TEXT_IDENTIFIER) {
        return builder_put_enum_name(field, slot, token->start, token->len)
                   ? next(parser)
                   : fail_unknown_enum_name(parser, field);
    }
    uint64_t magnitude;
    int negative = take_minus(parser);
    if (negative < 0) {
        return negative;
    }
    if (token->kind != TEXT_INTEGER) {
        return fail_expected(parser, "the name or number of a value");
    }
    if (!integer_of(token, &magnitude) || !builder_put_enum_number(field, slot, negative, magnitude)) {
        return fail(parser, "%s has no value of number %s%.*s", descriptor->short_name, negative ? "-" : "",
                    shown(parser), token->start);
    }
    return next(parser);
}

/* Fields of names and numbers of the kernel's, which need no quotes. */
static bool takes_words(const ProtobufCFieldDescriptor *field)
{
    static const char *const names[] = {"arg",  "in",     "not_in", "all_of", "none_of", "mask",
                                        "call", "answer", "signal", "denied", "method"};
    bool found = false;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        found = found || strcmp(field->name, names[i]) == 0;
    }
    return found;
}

/* TCGETS, or 0x5401. */
static int parse_word(struct parser *parser, const ProtobufCFieldDescriptor *field, void *slot)
{
    const struct text_token *token = &parser->lex.token;
    return builder_put_bytes(field, slot, token->start, token->len) < 0 ? fail_memory(parser) : next(parser);
}

static int parse_string(struct parser *parser, const ProtobufCFieldDescriptor *field, void *slot)
{
    CLEANUP(buf_free) struct buf value = BUF_INIT;
    enum text_token_kind kind = parser->lex.token.kind;
    if ((kind == TEXT_IDENTIFIER || kind == TEXT_INTEGER) && takes_words(field)) {
        return parse_word(parser, field, slot);
    }
    if (parser->lex.token.kind != TEXT_STRING) {
        return fail_expected(parser, "a string in quotes");
    }
    while (parser->lex.token.kind == TEXT_STRING) {
        size_t before = value.len;
        if (textlex_unescape(&parser->lex.token, &value) < 0) {
            return fail_memory(parser);
        }
        if (field->type == PROTOBUF_C_TYPE_STRING && value.len > before &&
            memchr(value.data + before, '\0', value.len - before)) {
            return fail(parser, "a string must not hold a NUL");
        }
        int r = next(parser);
        if (r < 0) {
            return r;
        }
    }
    return builder_put_bytes(field, slot, value.data, value.len) < 0 ? fail_memory(parser) : 0;
}

static int parse_field(struct parser *parser, struct builder *builder);

/* Moves behind a value, however wrong, by its brackets. */
static int skip_value(struct parser *parser)
{
    unsigned depth = 0;
    do {
        bool symbol = parser->lex.token.kind == TEXT_SYMBOL;
        bool opens = symbol && strchr("{[<", *parser->lex.token.start) != NULL;
        bool closes = symbol && strchr("}]>", *parser->lex.token.start) != NULL;
        if (parser->lex.token.kind == TEXT_END || (closes && depth == 0)) {
            return -EINVAL;
        }
        bool more = textlex_at_symbol(&parser->lex, '-');
        depth = opens ? depth + 1 : closes ? depth - 1 : depth;
        bool string = parser->lex.token.kind == TEXT_STRING;
        int r = next(parser);
        if (r < 0) {
            return r;
        }
        if (depth == 0 && !more && !(string && parser->lex.token.kind == TEXT_STRING)) {
            return 0;
        }
    } while (true);
}

/* Where errors are gathered, moves behind the field that began at `start` and was not understood. */
static int skip_field(struct parser *parser, const struct textlex *start, int r)
{
    if (!parser->source->errors || start->token.kind != TEXT_IDENTIFIER ||
        source_go_on(parser->source, parser->reterr, r) < 0) {
        return r;
    }
    parser->lex = *start;
    int skipped = next(parser);
    skipped = skipped < 0 ? skipped : take_symbol(parser, ':');
    skipped = skipped < 0 ? skipped : skip_value(parser);
    skipped = skipped < 0 ? skipped : take_symbol(parser, ';');
    skipped = skipped != 0 ? skipped : take_symbol(parser, ',');
    const struct source_errors *errors = parser->source->errors;
    if (skipped < 0 && strcmp(parser->reterr->item, errors->rows[errors->n - 1].item) == 0) {
        err_clear(parser->reterr); /* a token that is none is met twice */
    }
    return skipped < 0 ? skipped : 0;
}

/* One field; of one that is wrong what lies behind it is read all the same where errors are gathered. */
static int parse_or_skip_field(struct parser *parser, struct builder *builder)
{
    struct textlex start = parser->lex;
    size_t path_len = parser->path.len;
    bool known = start.token.kind == TEXT_IDENTIFIER &&
                 builder_field(builder, start.token.start, start.token.len) != NULL;
    int r = parse_field(parser, builder);
    if (r == 0 || !parser->source->errors) {
        return r;
    }
    fieldpath_pop(&parser->path, path_len);
    parser->source->errors->incomplete |= known;
    r = skip_field(parser, &start, r);
    parser->source->errors->incomplete |= r < 0;
    return r;
}

/* `closer` is '}', '>', or NUL for the whole file. */
static int parse_fields(struct parser *parser, struct builder *builder, char closer)
{
    for (;;) {
        if (closer ? textlex_at_symbol(&parser->lex, '}') || textlex_at_symbol(&parser->lex, '>')
                   : parser->lex.token.kind == TEXT_END) {
            break;
        }
        int r = parse_or_skip_field(parser, builder);
        if (r < 0) {
            return r;
        }
    }
    if (closer && !textlex_at_symbol(&parser->lex, closer)) {
        char what[] = {'\'', closer, '\'', '\0'};
        return fail_expected(parser, what);
    }
    const ProtobufCFieldDescriptor *missing = builder_missing(builder);
    if (missing) {
        return fail(parser, "required field \"%s\" is missing", missing->name);
    }
    return closer ? next(parser) : 0;
}

static int parse_message(struct parser *parser, const ProtobufCMessageDescriptor *descriptor,
                         ProtobufCMessage **ret)
{
    bool angled = textlex_at_symbol(&parser->lex, '<');
    if (!angled && !textlex_at_symbol(&parser->lex, '{')) {
        return fail_expected(parser, "'{'");
    }
    if (parser->depth == DEPTH_MAX) {
        return fail(parser, "nested more than %d deep", DEPTH_MAX);
    }
    int r = next(parser);
    if (r < 0) {
        return r;
    }
    CLEANUP(builder_close) struct builder builder = BUILDER_INIT;
    if (builder_open(descriptor, &builder) < 0) {
        return fail_memory(parser);
    }
    parser->depth++;
    r = parse_fields(parser, &builder, angled ? '>' : '}');
    parser->depth--;
    if (r < 0) {
        return r;
    }
    *ret = builder_take(&builder);
    return 0;
}

static int parse_into_slot(struct parser *parser, const ProtobufCFieldDescriptor *field, void *slot)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        return parse_message(parser, field->descriptor, slot);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
        return parse_string(parser, field, slot);
    case PROTOBUF_C_TYPE_ENUM:
        return parse_enum(parser, field, slot);
    case PROTOBUF_C_TYPE_BOOL:
        return parse_bool(parser, slot);
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
        return parse_double(parser, field, slot);
    default:
        return parse_integer(parser, field, slot);
    }
}

static int parse_value(struct parser *parser, struct builder *builder, const ProtobufCFieldDescriptor *field)
{
    size_t index;
    void *slot = builder_slot(builder, field, &index);
    if (!slot) {
        return fail_memory(parser);
    }
    size_t path_len = parser->path.len;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        fieldpath_push_index(&parser->path, index);
    }
    const struct text_token *token = &parser->lex.token;
    int r = source_note(parser->source, parser->path.text, token->line, token->column) < 0
                ? fail_memory(parser)
                : parse_into_slot(parser, field, slot);
    fieldpath_pop(&parser->path, path_len);
    return r;
}

/* "[a, b]", of scalars or messages. The opening bracket has been passed. */
static int parse_list(struct parser *parser, struct builder *builder, const ProtobufCFieldDescriptor *field)
{
    int r = take_symbol(parser, ']');
    if (r != 0) {
        return r < 0 ? r : 0;
    }
    for (;;) {
        r = parse_value(parser, builder, field);
        if (r < 0) {
            return r;
        }
        r = take_symbol(parser, ']');
        if (r != 0) {
            return r < 0 ? r : 0;
        }
        if (!textlex_at_symbol(&parser->lex, ',')) {
            return fail_expected(parser, "',' or ']'");
        }
        r = next(parser);
        if (r < 0) {
            return r;
        }
    }
}

static int fail_unknown_field(struct parser *parser, const struct builder *builder)
{
    const struct text_token *token = &parser->lex.token;
    char suggestion[SUGGESTION_TEXT_MAX];
    return fail(parser, "%s has no field \"%.*s\"%s", builder->message->descriptor->short_name, shown(parser),
                token->start, builder_suggest_field(builder, token->start, token->len, suggestion));
}

/* The name of a field that may be given here and now. */
static int parse_field_name(struct parser *parser, const struct builder *builder,
                            const ProtobufCFieldDescriptor **ret)
{
    const struct text_token *token = &parser->lex.token;
    if (textlex_at_symbol(&parser->lex, '[')) {
        return fail(parser, "extensions and Any are not part of this schema");
    }
    if (token->kind != TEXT_IDENTIFIER) {
        return fail_expected(parser, "the name of a field");
    }
    const ProtobufCFieldDescriptor *field = builder_field(builder, token->start, token->len);
    if (!field) {
        return fail_unknown_field(parser, builder);
    }
    if (field->label != PROTOBUF_C_LABEL_REPEATED && builder_given(builder, field)) {
        return fail(parser, "field \"%s\" is given twice", field->name);
    }
    const ProtobufCFieldDescriptor *rival = builder_rival(builder, field);
    if (rival) {
        return fail(parser, "field \"%s\" cannot stand beside \"%s\": only one of them may be given",
                    field->name, rival->name);
    }
    *ret = field;
    return next(parser);
}

static int parse_field_value(struct parser *parser, struct builder *builder,
                             const ProtobufCFieldDescriptor *field)
{
    int r = field->type == PROTOBUF_C_TYPE_MESSAGE ? take_symbol(parser, ':') : need_symbol(parser, ':');
    if (r < 0) {
        return r;
    }
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        r = take_symbol(parser, '[');
        if (r != 0) {
            return r < 0 ? r : parse_list(parser, builder, field);
        }
    }
    return parse_value(parser, builder, field);
}

static int parse_field(struct parser *parser, struct builder *builder)
{
    const ProtobufCFieldDescriptor *field = NULL;
    int r = parse_field_name(parser, builder, &field);
    if (r < 0) {
        return r;
    }
    size_t path_len = fieldpath_push(&parser->path, field->name);
    r = parse_field_value(parser, builder, field);
    fieldpath_pop(&parser->path, path_len);
    if (r < 0) {
        return r;
    }
    r = take_symbol(parser, ';');
    if (r == 0) {
        r = take_symbol(parser, ',');
    }
    return r < 0 ? r : 0;
}

int textformat_parse(const ProtobufCMessageDescriptor *descriptor, struct source *source, const char *text,
                     size_t size, ProtobufCMessage **ret, struct err *reterr)
{
    struct parser parser = {.source = source, .reterr = reterr};
    int r = textlex_open(&parser.lex, source->name, text, size, reterr);
    if (r < 0) {
        return r;
    }
    CLEANUP(builder_close) struct builder builder = BUILDER_INIT;
    if (builder_open(descriptor, &builder) < 0) {
        return fail_memory(&parser);
    }
    r = parse_fields(&parser, &builder, '\0');
    if (r < 0 || (source->errors && source->errors->incomplete)) {
        return r < 0 ? r : -EINVAL;
    }
    *ret = builder_take(&builder);
    return 0;
}
