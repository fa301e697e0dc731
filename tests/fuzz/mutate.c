/* A mutator for protobuf-c messages, by their descriptors. */
#include "tests/fuzz/mutate.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/print.h"

#define TEXT_MAX  300
#define DEPTH_MAX 60

uint32_t mutate_next(uint64_t *series)
{
    *series = *series * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*series >> 33);
}

static uint64_t interesting_number(uint64_t *series)
{
    static const uint64_t numbers[] = {
        0,          1,         2,          9,          65536,         INT32_MAX, INT32_MAX + 1ull,
        UINT32_MAX, INT64_MAX, 1ull << 63, UINT64_MAX, UINT64_MAX - 1};
    uint32_t which = mutate_next(series) % 16;
    return which < ARRAY_SIZE(numbers) ? numbers[which] : mutate_next(series) % 300;
}

/* Old content, or nothing, into a new block. */
static char *changed_text(const void *old, size_t old_size, bool nul_allowed, size_t *ret_size,
                          uint64_t *series)
{
    char *text = calloc(TEXT_MAX + 1, 1);
    if (!text) {
        abort();
    }
    size_t size = old_size < TEXT_MAX ? old_size : TEXT_MAX;
    if (size > 0) {
        memcpy(text, old, size);
    }
    size = LLVMFuzzerMutate((uint8_t *)text, size, TEXT_MAX);
    for (size_t i = 0; i < size && !nul_allowed; i++) {
        text[i] = text[i] ? text[i] : (char)(1 + mutate_next(series) % 255);
    }
    text[size] = '\0';
    *ret_size = size;
    return text;
}

static ProtobufCMessage *new_message(const ProtobufCMessageDescriptor *descriptor);

/* A required member that is not there cannot be packed. */
static void fill_required(ProtobufCMessage *message)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        if (field->label == PROTOBUF_C_LABEL_REQUIRED && field->type == PROTOBUF_C_TYPE_MESSAGE) {
            *(ProtobufCMessage **)((char *)message + field->offset) = new_message(field->descriptor);
        }
    }
}

static ProtobufCMessage *new_message(const ProtobufCMessageDescriptor *descriptor)
{
    ProtobufCMessage *message = calloc(1, descriptor->sizeof_message);
    if (!message) {
        abort();
    }
    descriptor->message_init(message);
    fill_required(message);
    return message;
}

static void mutate_within(ProtobufCMessage *message, uint64_t *series, unsigned depth);

static void mutate_text(const ProtobufCFieldDescriptor *field, char **text, uint64_t *series)
{
    size_t size;
    char *old = *text;
    *text = changed_text(old, old ? strlen(old) : 0, false, &size, series);
    if (old != field->default_value && old != protobuf_c_empty_string) {
        free(old);
    }
}

static void mutate_bytes(const ProtobufCFieldDescriptor *field, ProtobufCBinaryData *bytes, uint64_t *series)
{
    const ProtobufCBinaryData *standard = field->default_value;
    uint8_t *old = bytes->data;
    bytes->data = (uint8_t *)changed_text(old, bytes->len, true, &bytes->len, series);
    if (!standard || old != standard->data) {
        free(old);
    }
}

static void mutate_value(const ProtobufCFieldDescriptor *field, void *value, uint64_t *series, unsigned depth)
{
    uint64_t number = interesting_number(series);
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        mutate_text(field, value, series);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        mutate_bytes(field, value, series);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        if (*(void **)value) {
            mutate_within(*(ProtobufCMessage **)value, series, depth + 1);
        } else {
            *(ProtobufCMessage **)value = new_message(field->descriptor);
        }
        break;
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)value = number & 1;
        break;
    case PROTOBUF_C_TYPE_ENUM: {
        const ProtobufCEnumDescriptor *descriptor = field->descriptor;
        *(int *)value = descriptor->values[mutate_next(series) % descriptor->n_values].value;
        break;
    }
    default:
        memcpy(value, &number, print_value_bytes(field));
    }
}

static void free_value(const ProtobufCFieldDescriptor *field, void *value)
{
    const ProtobufCBinaryData *standard = field->default_value;
    if (field->type == PROTOBUF_C_TYPE_MESSAGE && *(void **)value) {
        protobuf_c_message_free_unpacked(*(ProtobufCMessage **)value, NULL);
    } else if (field->type == PROTOBUF_C_TYPE_STRING && *(void **)value != field->default_value &&
               *(void **)value != protobuf_c_empty_string) {
        free(*(void **)value);
    } else if (field->type == PROTOBUF_C_TYPE_BYTES &&
               (!standard || ((ProtobufCBinaryData *)value)->data != standard->data)) {
        free(((ProtobufCBinaryData *)value)->data);
    }
    memset(value, 0, print_value_bytes(field));
}

/* Adds an item, removes one, or changes one. */
static void mutate_repeated(const ProtobufCFieldDescriptor *field, char **items, size_t *count,
                            uint64_t *series, unsigned depth)
{
    size_t size = print_value_bytes(field);
    uint32_t what = mutate_next(series) % 4;
    if (*count == 0 || what == 0) {
        char *larger = reallocarray(*items, *count + 1, size);
        if (!larger) {
            abort();
        }
        *items = larger;
        memset(larger + *count * size, 0, size);
        mutate_value(field, larger + *count * size, series, depth);
        ++*count;
        return;
    }
    size_t index = mutate_next(series) % *count;
    char *item = *items + index * size;
    if (what == 1) {
        free_value(field, item);
        memmove(item, item + size, (--*count - index) * size);
    } else {
        mutate_value(field, item, series, depth);
    }
}

static void mutate_oneof(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, void *value,
                         uint32_t *which, uint64_t *series, unsigned depth)
{
    if (*which != 0 && *which != field->id) {
        const ProtobufCFieldDescriptor *other =
            protobuf_c_message_descriptor_get_field(message->descriptor, *which);
        free_value(other, (char *)message + other->offset);
        memset(value, 0, print_value_bytes(field));
    }
    *which = field->id;
    mutate_value(field, value, series, depth);
}

static void mutate_within(ProtobufCMessage *message, uint64_t *series, unsigned depth)
{
    const ProtobufCMessageDescriptor *descriptor = message->descriptor;
    if (descriptor->n_fields == 0 || depth > DEPTH_MAX) {
        return;
    }
    const ProtobufCFieldDescriptor *field = &descriptor->fields[mutate_next(series) % descriptor->n_fields];
    void *value = (char *)message + field->offset;
    void *quantifier = (char *)message + field->quantifier_offset;
    bool by_pointer = field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_MESSAGE;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        mutate_repeated(field, value, quantifier, series, depth);
    } else if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        mutate_oneof(message, field, value, quantifier, series, depth);
    } else if (field->label == PROTOBUF_C_LABEL_OPTIONAL && mutate_next(series) % 4 == 0) {
        free_value(field, value);
        if (!by_pointer) {
            *(protobuf_c_boolean *)quantifier = false;
        }
    } else {
        if (field->label == PROTOBUF_C_LABEL_OPTIONAL && !by_pointer) {
            *(protobuf_c_boolean *)quantifier = true;
        }
        mutate_value(field, value, series, depth);
    }
}

void mutate_message(ProtobufCMessage *message, uint64_t *series)
{
    mutate_within(message, series, 0);
}

size_t mutate_packed(const ProtobufCMessageDescriptor *descriptor, uint8_t *data, size_t size,
                     size_t max_size, uint64_t *series)
{
    ProtobufCMessage *message =
        mutate_next(series) % 2 == 0 ? protobuf_c_message_unpack(descriptor, NULL, size, data) : NULL;
    if (!message) {
        return LLVMFuzzerMutate(data, size, max_size);
    }
    for (uint32_t changes = 1 + mutate_next(series) % 4; changes > 0; changes--) {
        mutate_message(message, series);
    }
    size_t packed = protobuf_c_message_get_packed_size(message);
    if (packed <= max_size) {
        size = protobuf_c_message_pack(message, data);
    }
    protobuf_c_message_free_unpacked(message, NULL);
    return size;
}
