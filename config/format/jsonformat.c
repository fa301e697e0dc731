/* JSON into protobuf-c messages, by walking their descriptors: protobuf's own JSON mapping for the types that
 * our schemas have. Runs where the warden and the command line read configuration. Field names are accepted
 * as in the schema and in lowerCamelCase; amounts may have a unit in their quotes; null means absent; unknown
 * fields, and one field under both names, are refused. */
#include "config/format/textformat.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/amount.h"
#include "config/format/builder.h"
#include "config/format/digest.h"
#include "config/format/fieldpath.h"
#include "config/format/json.h"
#include "config/format/source.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"

struct reader {
    const char *text;
    struct source *source;
    struct fieldpath path;
    struct err *reterr;
    size_t offset; /* how far line and column have been counted; values come in the text's order */
    unsigned line, column;
};

/* Counts on to `value`. What was passed already (a field before its members) counts from the start again. */
static void go_to(struct reader *reader, const struct json *value)
{
    size_t to = json_offset(value);
    if (to < reader->offset) {
        reader->offset = 0;
        reader->line = reader->column = 1;
    }
    for (; reader->offset < to; reader->offset++) {
        bool continues_a_character = ((unsigned char)reader->text[reader->offset] & 0xc0) == 0x80;
        if (reader->text[reader->offset] == '\n') {
            reader->line++;
            reader->column = 1;
        } else if (!continues_a_character) {
            reader->column++;
        }
    }
}

static int fail(struct reader *reader, const struct json *value, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static int fail(struct reader *reader, const struct json *value, const char *fmt, ...)
{
    char text[400], item[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    go_to(reader, value);
    snprintf(item, sizeof item, "%.200s:%u:%u", reader->source->name, reader->line, reader->column);
    return err_set(reader->reterr, ERR_CONFIG, EINVAL, item, "%s%s%s", reader->path.text,
                   reader->path.len > 0 ? ": " : "", text);
}

static int fail_memory(struct reader *reader)
{
    return err_errno(reader->reterr, ENOMEM, "while reading %s", reader->source->name);
}

static int fail_type(struct reader *reader, const struct json *value, const char *expected)
{
    return fail(reader, value, "expected %s, got %s", expected, json_type_to_string(json_type_of(value)));
}

/* A number, or the same in quotes. */
static bool integer_of(const struct json *value, bool *ret_negative, uint64_t *ret)
{
    const char *text = json_string(value);
    int64_t negative_number;
    *ret_negative = false;
    if (text) {
        *ret_negative = *text == '-';
        return io_parse_u64(text + *ret_negative, ret) == 0;
    }
    if (json_u64(value, ret)) {
        return true;
    }
    if (!json_i64(value, &negative_number)) {
        return false;
    }
    *ret_negative = true;
    *ret = 0 - (uint64_t)negative_number;
    return true;
}

static int read_integer(struct reader *reader, const ProtobufCFieldDescriptor *field,
                        const struct json *value, void *slot)
{
    bool negative;
    uint64_t magnitude;
    const char *text = json_string(value);
    if (json_type_of(value) != JSON_NUMBER && !text) {
        return fail_type(reader, value, "a whole number");
    }
    if (text && amount_is(field->name)) {
        const char *wrong = amount_parse(field->name, text, strlen(text), &magnitude);
        if (wrong) {
            return fail(reader, value, "\"%.60s\" %s", text, wrong);
        }
        if (builder_put_integer(field, slot, false, magnitude)) {
            source_note_unit(reader->source, amount_unit(text, strlen(text)));
            return 0;
        }
        return fail(reader, value, "\"%.60s\" " AMOUNT_TOO_LARGE, text);
    }
    if (!integer_of(value, &negative, &magnitude) || !builder_put_integer(field, slot, negative, magnitude)) {
        return fail(reader, value, "not a whole number that this field can hold");
    }
    return 0;
}

/* "1.5" in quotes, or one of the three names that JSON numbers lack. */
static bool quoted_double(const char *text, double *ret)
{
    static const struct {
        const char *name;
        double value;
    } names[] = {{"NaN", (double)NAN}, {"Infinity", HUGE_VAL}, {"-Infinity", -HUGE_VAL}};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (strcmp(text, names[i].name) == 0) {
            *ret = names[i].value;
            return true;
        }
    }
    char *end;
    if (*text == '\0' || strspn(text, "+-.0123456789eE") != strlen(text)) {
        return false;
    }
    *ret = strtod(text, &end);
    return *end == '\0' && isfinite(*ret);
}

static int read_double(struct reader *reader, const ProtobufCFieldDescriptor *field, const struct json *value,
                       void *slot)
{
    double number;
    const char *text = json_string(value);
    if (!text && json_type_of(value) != JSON_NUMBER) {
        return fail_type(reader, value, "a number");
    }
    bool good = text ? quoted_double(text, &number) : json_double(value, &number);
    if (!good ||
        (field->type == PROTOBUF_C_TYPE_FLOAT && isfinite(number) && fabs(number) > (double)FLT_MAX)) {
        return fail(reader, value, "not a number that this field can hold");
    }
    builder_put_double(field, slot, number);
    return 0;
}

static int read_bool(struct reader *reader, const struct json *value, void *slot)
{
    if (json_type_of(value) != JSON_BOOL) {
        return fail_type(reader, value, "true or false");
    }
    protobuf_c_boolean yes = json_bool(value);
    memcpy(slot, &yes, sizeof yes);
    return 0;
}

static int read_enum(struct reader *reader, const ProtobufCFieldDescriptor *field, const struct json *value,
                     void *slot)
{
    const ProtobufCEnumDescriptor *descriptor = field->descriptor;
    const char *name = json_string(value);
    if (!name) {
        bool negative;
        uint64_t magnitude;
        if (json_type_of(value) != JSON_NUMBER) {
            return fail_type(reader, value, "the name or number of a value");
        }
        return integer_of(value, &negative, &magnitude) &&
                       builder_put_enum_number(field, slot, negative, magnitude)
                   ? 0
                   : fail(reader, value, "%s has no value of this number", descriptor->short_name);
    }
    if (builder_put_enum_name(field, slot, name, strlen(name))) {
        return 0;
    }
    char suggestion[SUGGESTION_TEXT_MAX];
    return fail(reader, value, "%s has no value %.60s%s", descriptor->short_name, name,
                builder_suggest_value(field, name, strlen(name), suggestion));
}

/* Base64 of either alphabet, with or without padding. */
static int decode_base64(const char *text, struct buf *ret)
{
    CLEANUP(buf_free) struct buf standard = BUF_INIT;
    size_t len = strlen(text);
    buf_append(&standard, text, len);
    for (size_t i = 0; i < standard.len; i++) {
        char c = standard.data[i];
        standard.data[i] = c == '-' ? '+' : c == '_' ? '/' : c;
    }
    bool padded = len > 0 && text[len - 1] == '=';
    while (!padded && standard.len % 4 != 0) {
        if (buf_putc(&standard, '=') < 0) {
            break;
        }
    }
    return standard.failed ? -ENOMEM : base64_decode(standard.data, standard.len, ret);
}

static int read_text(struct reader *reader, const ProtobufCFieldDescriptor *field, const struct json *value,
                     void *slot)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT;
    const char *text = json_string(value);
    if (!text) {
        return fail_type(reader, value,
                         field->type == PROTOBUF_C_TYPE_BYTES ? "base64 in a string" : "a string");
    }
    int r = field->type == PROTOBUF_C_TYPE_BYTES ? decode_base64(text, &bytes) : buf_puts(&bytes, text);
    if (r == -EINVAL) {
        return fail(reader, value, "not base64");
    }
    if (r == 0) {
        r = builder_put_bytes(field, slot, bytes.data, bytes.len);
    }
    return r < 0 ? fail_memory(reader) : 0;
}

static int read_members(struct reader *reader, struct builder *builder, const struct json *object);

static int read_message(struct reader *reader, const ProtobufCFieldDescriptor *field,
                        const struct json *value, ProtobufCMessage **ret)
{
    CLEANUP(builder_close) struct builder builder = BUILDER_INIT;
    if (json_type_of(value) != JSON_OBJECT) {
        return fail_type(reader, value, "an object");
    }
    if (builder_open(field->descriptor, &builder) < 0) {
        return fail_memory(reader);
    }
    int r = read_members(reader, &builder, value);
    if (r < 0) {
        return r;
    }
    *ret = builder_take(&builder);
    return 0;
}

static int read_into_slot(struct reader *reader, const ProtobufCFieldDescriptor *field,
                          const struct json *value, void *slot)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        return read_message(reader, field, value, slot);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
        return read_text(reader, field, value, slot);
    case PROTOBUF_C_TYPE_ENUM:
        return read_enum(reader, field, value, slot);
    case PROTOBUF_C_TYPE_BOOL:
        return read_bool(reader, value, slot);
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
        return read_double(reader, field, value, slot);
    default:
        return read_integer(reader, field, value, slot);
    }
}

static int read_value(struct reader *reader, struct builder *builder, const ProtobufCFieldDescriptor *field,
                      const struct json *value)
{
    size_t index;
    void *slot = builder_slot(builder, field, &index);
    if (!slot) {
        return fail_memory(reader);
    }
    size_t path_len = reader->path.len;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        fieldpath_push_index(&reader->path, index);
    }
    go_to(reader, value);
    int r = source_note(reader->source, reader->path.text, reader->line, reader->column) < 0
                ? fail_memory(reader)
                : read_into_slot(reader, field, value, slot);
    fieldpath_pop(&reader->path, path_len);
    return r;
}

static int read_field(struct reader *reader, struct builder *builder, const ProtobufCFieldDescriptor *field,
                      const struct json *value)
{
    if (field->label != PROTOBUF_C_LABEL_REPEATED) {
        return read_value(reader, builder, field, value);
    }
    if (json_type_of(value) != JSON_ARRAY) {
        return fail_type(reader, value, "an array");
    }
    builder_mark_given(builder, field);
    for (const struct json *item = json_first(value); item; item = json_next(item)) {
        int r = read_value(reader, builder, field, item);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* Whether `key` is the field's name with each "_x" written as "X". */
static bool is_camel_case_of(const char *key, const char *name)
{
    for (; *name; name++, key++) {
        char expected = *name;
        if (expected == '_') {
            name++;
            expected = (char)toupper((unsigned char)*name);
        }
        if (*key != expected || *name == '\0') {
            return *key == '\0' && *name == '\0';
        }
    }
    return *key == '\0';
}

static const ProtobufCFieldDescriptor *find_field(const struct builder *builder, const char *key)
{
    const ProtobufCFieldDescriptor *field = builder_field(builder, key, strlen(key));
    const ProtobufCMessageDescriptor *descriptor = builder->message->descriptor;
    for (unsigned i = 0; i < descriptor->n_fields && !field; i++) {
        if (is_camel_case_of(key, descriptor->fields[i].name)) {
            field = &descriptor->fields[i];
        }
    }
    return field;
}

static int fail_unknown_field(struct reader *reader, const struct builder *builder, const struct json *value)
{
    const char *key = json_key(value);
    char suggestion[SUGGESTION_TEXT_MAX];
    return fail(reader, value, "%s has no field \"%.60s\"%s", builder->message->descriptor->short_name, key,
                builder_suggest_field(builder, key, strlen(key), suggestion));
}

static int read_member(struct reader *reader, struct builder *builder, const struct json *value)
{
    const ProtobufCFieldDescriptor *field = find_field(builder, json_key(value));
    if (!field) {
        return fail_unknown_field(reader, builder, value);
    }
    if (json_type_of(value) == JSON_NULL) {
        return 0;
    }
    if (builder_given(builder, field)) {
        return fail(reader, value, "field \"%s\" is given twice", field->name);
    }
    const ProtobufCFieldDescriptor *rival = builder_rival(builder, field);
    if (rival) {
        return fail(reader, value, "field \"%s\" cannot stand beside \"%s\": only one of them may be given",
                    field->name, rival->name);
    }
    size_t path_len = fieldpath_push(&reader->path, field->name);
    int r = read_field(reader, builder, field, value);
    fieldpath_pop(&reader->path, path_len);
    return r;
}

/* cJSON's depth is bounded by json.c, and with it this recursion. */
static int read_members(struct reader *reader, struct builder *builder, const struct json *object)
{
    for (const struct json *member = json_first(object); member; member = json_next(member)) {
        size_t path_len = reader->path.len;
        int r = read_member(reader, builder, member);
        fieldpath_pop(&reader->path, path_len);
        if (r < 0 && reader->source->errors) {
            reader->source->errors->incomplete |= find_field(builder, json_key(member)) != NULL;
            r = source_go_on(reader->source, reader->reterr, r);
        }
        if (r < 0) {
            return r;
        }
    }
    const ProtobufCFieldDescriptor *missing = builder_missing(builder);
    return missing ? fail(reader, object, "required field \"%s\" is missing", missing->name) : 0;
}

static void json_freep(struct json_doc **doc)
{
    json_free(*doc);
}

int jsonformat_parse(const ProtobufCMessageDescriptor *descriptor, struct source *source, const char *text,
                     size_t size, ProtobufCMessage **ret, struct err *reterr)
{
    struct reader reader = {.text = text, .source = source, .reterr = reterr, .line = 1, .column = 1};
    CLEANUP(json_freep) struct json_doc *doc = NULL;
    int r = json_parse_file(source->name, text, size, &doc, reterr);
    if (r < 0) {
        return r;
    }
    if (json_type_of(json_root(doc)) != JSON_OBJECT) {
        return fail_type(&reader, json_root(doc), "an object");
    }
    CLEANUP(builder_close) struct builder builder = BUILDER_INIT;
    if (builder_open(descriptor, &builder) < 0) {
        return fail_memory(&reader);
    }
    r = read_members(&reader, &builder, json_root(doc));
    if (r < 0 || (source->errors && source->errors->incomplete)) {
        return r < 0 ? r : -EINVAL;
    }
    *ret = builder_take(&builder);
    return 0;
}
