/* Printers for the fuzz targets: the reverse of config/format/textformat.c and config/format/jsonformat.c, by
 * the same descriptors. Sharing no line with them, so that a mistake is not made twice. */
#include "tests/fuzz/print.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>

#include "config/format/digest.h"
#include "config/format/json.h"
#include "config/format/utf8.h"
#include "jail/base/buf.h"

struct printer {
    struct buf *ret;
    bool json;
    bool unsayable; /* JSON has no words for something */
    unsigned depth;
};

static void print_message(struct printer *printer, const ProtobufCMessage *message);

static const char *enum_name(const ProtobufCFieldDescriptor *field, int value)
{
    const ProtobufCEnumDescriptor *descriptor = field->descriptor;
    for (unsigned i = 0; i < descriptor->n_values; i++) {
        if (descriptor->values[i].value == value) {
            return descriptor->values[i].name;
        }
    }
    return NULL;
}

static void print_enum(struct printer *printer, const ProtobufCFieldDescriptor *field, int value)
{
    const char *name = enum_name(field, value);
    if (!name) {
        buf_printf(printer->ret, "%d", value);
    } else {
        buf_printf(printer->ret, printer->json ? "\"%s\"" : "%s", name);
    }
}

static void print_double(struct printer *printer, double value)
{
    if (isfinite(value)) {
        buf_printf(printer->ret, "%.17g", value);
    } else if (printer->json) {
        printer->unsayable |= isnan(value) != 0; /* of which there are many */
        buf_puts(printer->ret, value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    } else {
        buf_printf(printer->ret, "%s%s", signbit(value) ? "-" : "", isnan(value) ? "nan" : "inf");
    }
}

static void print_quoted(struct printer *printer, const uint8_t *data, size_t size)
{
    buf_putc(printer->ret, '"');
    for (size_t i = 0; i < size; i++) {
        bool plain = data[i] >= ' ' && data[i] < 0x7f && data[i] != '"' && data[i] != '\\';
        buf_printf(printer->ret, plain ? "%c" : "\\%03o", data[i]);
    }
    buf_putc(printer->ret, '"');
}

static void print_string(struct printer *printer, const char *text)
{
    size_t len = text ? strlen(text) : 0;
    if (printer->json) {
        printer->unsayable |= !utf8_is_valid(text ? text : "", len);
        json_write_string(printer->ret, text ? text : "", len);
    } else {
        print_quoted(printer, (const uint8_t *)text, len);
    }
}

static void print_bytes(struct printer *printer, const ProtobufCBinaryData *bytes)
{
    if (!printer->json) {
        print_quoted(printer, bytes->data, bytes->len);
        return;
    }
    buf_putc(printer->ret, '"');
    base64_encode(bytes->len > 0 ? bytes->data : (const uint8_t *)"", bytes->len, printer->ret);
    buf_putc(printer->ret, '"');
}

static void print_value(struct printer *printer, const ProtobufCFieldDescriptor *field, const void *value)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        buf_printf(printer->ret, "%" PRId32, *(const int32_t *)value);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        buf_printf(printer->ret, "%" PRId64, *(const int64_t *)value);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        buf_printf(printer->ret, "%" PRIu32, *(const uint32_t *)value);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        buf_printf(printer->ret, "%" PRIu64, *(const uint64_t *)value);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        print_double(printer, (double)*(const float *)value);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        print_double(printer, *(const double *)value);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        buf_puts(printer->ret, *(const protobuf_c_boolean *)value ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_ENUM:
        print_enum(printer, field, *(const int *)value);
        break;
    case PROTOBUF_C_TYPE_STRING:
        print_string(printer, *(char *const *)value);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        print_bytes(printer, value);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        print_message(printer, *(ProtobufCMessage *const *)value);
        break;
    }
}

size_t print_value_bytes(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    default:
        return 4;
    }
}

/* How many values the field has: 0 or 1 where it is not repeated. */
static size_t count_of(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const char *base = (const char *)message;
    const void *value = base + field->offset, *quantifier = base + field->quantifier_offset;
    bool pointer = field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_MESSAGE;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        return *(const size_t *)quantifier;
    }
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        return *(const uint32_t *)quantifier == field->id;
    }
    if (field->label == PROTOBUF_C_LABEL_REQUIRED) {
        return 1;
    }
    if (!pointer) {
        return *(const protobuf_c_boolean *)quantifier != 0;
    }
    /* A default is not a value that was given. */
    const void *given = *(void *const *)value;
    return given && given != field->default_value;
}

static void print_field(struct printer *printer, const ProtobufCMessage *message,
                        const ProtobufCFieldDescriptor *field, bool *first)
{
    size_t n = count_of(message, field);
    bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
    const char *values = (const char *)message + field->offset;
    if (n == 0) {
        return;
    }
    if (repeated) {
        values = *(char *const *)values;
    }
    if (printer->json) {
        buf_printf(printer->ret, "%s\"%s\":%s", *first ? "" : ",", field->name, repeated ? "[" : "");
    }
    for (size_t i = 0; i < n; i++) {
        if (!printer->json) {
            buf_printf(printer->ret, "%s: ", field->name);
        } else if (i > 0) {
            buf_putc(printer->ret, ',');
        }
        print_value(printer, field, values + i * print_value_bytes(field));
        buf_puts(printer->ret, printer->json ? "" : "\n");
    }
    buf_puts(printer->ret, printer->json && repeated ? "]" : "");
    *first = false;
}

/* The message around it all has no brackets in text format. */
static void print_message(struct printer *printer, const ProtobufCMessage *message)
{
    bool brackets = printer->json || printer->depth > 0, first = true;
    printer->depth++;
    printer->unsayable |= printer->json && printer->depth > JSON_DEPTH_MAX / 2; /* arrays count, too */
    buf_puts(printer->ret, brackets ? "{" : "");
    for (unsigned i = 0; message && i < message->descriptor->n_fields; i++) {
        print_field(printer, message, &message->descriptor->fields[i], &first);
    }
    buf_puts(printer->ret, brackets ? "}" : "");
    printer->depth--;
}

void print_text(const ProtobufCMessage *message, struct buf *ret)
{
    struct printer printer = {.ret = ret};
    print_message(&printer, message);
}

bool print_json(const ProtobufCMessage *message, struct buf *ret)
{
    struct printer printer = {.ret = ret, .json = true};
    print_message(&printer, message);
    return !printer.unsayable;
}
