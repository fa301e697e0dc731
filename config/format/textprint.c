/* protobuf-c messages as protobuf text format, by walking their descriptors. Runs in the warden and the
 * command line. What it writes, textformat_parse() and every protobuf tool read as the same message. */
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>

#include "config/format/builder.h"
#include "config/format/textformat.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"

#define LINE_MAX_BYTES 170u
#define INDENT         2

static void put_quoted(const char *data, size_t size, struct buf *ret)
{
    buf_putc(ret, '"');
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c == '"' || c == '\\') {
            buf_printf(ret, "\\%c", c);
        } else if (c == '\n') {
            buf_puts(ret, "\\n");
        } else if (c < ' ' || c == 0x7f) {
            buf_printf(ret, "\\%03o", c);
        } else {
            buf_putc(ret, (char)c);
        }
    }
    buf_putc(ret, '"');
}

/* Bytes need not be UTF-8, which a text has to be. */
static void put_bytes(const ProtobufCBinaryData *bytes, struct buf *ret)
{
    buf_putc(ret, '"');
    for (size_t i = 0; i < bytes->len; i++) {
        unsigned char c = bytes->data[i];
        bool plain = c >= ' ' && c < 0x7f && c != '"' && c != '\\';
        buf_printf(ret, c == '\n' ? "\\n" : plain ? "%c" : "\\%03o", c);
    }
    buf_putc(ret, '"');
}

static void put_fields(const ProtobufCMessage *message, const char *separator, int indent, struct buf *ret);

/* On one line where it fits on one and is an item of a list, or in such a line. */
static void put_message(const ProtobufCMessage *message, bool item, int indent, struct buf *ret)
{
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    put_fields(message, " ", -1, &line);
    buf_puts(ret, "{");
    if (indent < 0 || (item && line.len + (size_t)indent + 20 < LINE_MAX_BYTES)) {
        buf_append(ret, line.data ? line.data : "", line.len);
        buf_puts(ret, " }");
    } else {
        put_fields(message, "\n", indent + INDENT, ret);
        buf_printf(ret, "\n%*s}", indent, "");
    }
    ret->failed = ret->failed || line.failed;
}

static void put_value(const ProtobufCFieldDescriptor *field, const void *value, int indent, struct buf *ret)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        put_message(*(ProtobufCMessage *const *)value, field->label == PROTOBUF_C_LABEL_REPEATED, indent,
                    ret);
        return;
    case PROTOBUF_C_TYPE_STRING:
        put_quoted(*(const char *const *)value, strlen(*(const char *const *)value), ret);
        return;
    case PROTOBUF_C_TYPE_BYTES:
        put_bytes(value, ret);
        return;
    case PROTOBUF_C_TYPE_BOOL:
        buf_puts(ret, *(const protobuf_c_boolean *)value ? "true" : "false");
        return;
    case PROTOBUF_C_TYPE_ENUM: {
        const ProtobufCEnumValue *named =
            protobuf_c_enum_descriptor_get_value(field->descriptor, *(const int *)value);
        named ? buf_puts(ret, named->name) : buf_printf(ret, "%d", *(const int *)value);
        return;
    }
    case PROTOBUF_C_TYPE_DOUBLE:
        buf_printf(ret, "%.17g", *(const double *)value);
        return;
    case PROTOBUF_C_TYPE_FLOAT:
        buf_printf(ret, "%.9g", (double)*(const float *)value);
        return;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        buf_printf(ret, "%" PRIu32, *(const uint32_t *)value);
        return;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        buf_printf(ret, "%" PRIu64, *(const uint64_t *)value);
        return;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        buf_printf(ret, "%" PRId64, *(const int64_t *)value);
        return;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        break;
    }
    buf_printf(ret, "%" PRId32, *(const int32_t *)value);
}

static void put_list(const ProtobufCFieldDescriptor *field, const char *items, size_t n, struct buf *ret)
{
    buf_printf(ret, "%s: [", field->name);
    for (size_t i = 0; i < n; i++) {
        buf_puts(ret, i > 0 ? ", " : "");
        put_value(field, items + i * builder_value_size(field->type), -1, ret);
    }
    buf_putc(ret, ']');
}

/* `indent` negative: all on one line. */
static void put_fields(const ProtobufCMessage *message, const char *separator, int indent, struct buf *ret)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        const char *value = (const char *)message + field->offset;
        bool list = field->label == PROTOBUF_C_LABEL_REPEATED,
             of_messages = field->type == PROTOBUF_C_TYPE_MESSAGE;
        size_t n = list ? *(const size_t *)((const char *)message + field->quantifier_offset)
                        : builder_has(message, field);
        size_t size = builder_value_size(field->type);
        for (size_t k = 0; k < n; k++) {
            buf_printf(ret, "%s%*s", separator, indent < 0 ? 0 : indent, "");
            if (list && !of_messages) {
                put_list(field, *(const char *const *)value, n, ret);
                break;
            }
            buf_printf(ret, of_messages ? "%s " : "%s: ", field->name);
            put_value(field, list ? *(const char *const *)value + k * size : value, indent, ret);
        }
    }
}

void textformat_print(const ProtobufCMessage *message, struct buf *ret)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_fields(message, "\n", 0, &text);
    buf_append(ret, text.len > 0 ? text.data + 1 : "", text.len > 0 ? text.len - 1 : 0);
    buf_putc(ret, '\n');
    ret->failed = ret->failed || text.failed;
}
