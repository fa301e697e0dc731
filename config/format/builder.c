/* Messages filled by walking protobuf-c's descriptors: offsets, quantifiers, oneof cases, growing arrays.
 * Runs wherever configuration is read. Whatever state a message is left in,
 * protobuf_c_message_free_unpacked() can free it. */
#include "config/format/builder.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int builder_open(const ProtobufCMessageDescriptor *descriptor, struct builder *ret)
{
    *ret = (struct builder){
        .message = calloc(1, descriptor->sizeof_message),
        .given = calloc(descriptor->n_fields + 1, sizeof *ret->given),
    };
    if (!ret->message || !ret->given) {
        free(ret->message);
        free(ret->given);
        *ret = BUILDER_INIT;
        return -ENOMEM;
    }
    descriptor->message_init(ret->message);
    return 0;
}

void builder_close(struct builder *builder)
{
    protobuf_c_message_free_unpacked(builder->message, NULL);
    free(builder->given);
    *builder = BUILDER_INIT;
}

ProtobufCMessage *builder_take(struct builder *builder)
{
    ProtobufCMessage *message = builder->message;
    builder->message = NULL;
    return message;
}

const ProtobufCFieldDescriptor *builder_field(const struct builder *builder, const char *name, size_t len)
{
    const ProtobufCMessageDescriptor *descriptor = builder->message->descriptor;
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const char *candidate = descriptor->fields[i].name;
        if (strlen(candidate) == len && memcmp(candidate, name, len) == 0) {
            return &descriptor->fields[i];
        }
    }
    return NULL;
}

const char *builder_suggest_field(const struct builder *builder, const char *name, size_t len,
                                  char ret[SUGGESTION_TEXT_MAX])
{
    const ProtobufCMessageDescriptor *descriptor = builder->message->descriptor;
    struct suggestion suggestion = SUGGESTION_FOR(name, len);
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        suggestion_offer(&suggestion, descriptor->fields[i].name);
    }
    return suggestion_text(&suggestion, "", ret);
}

const char *builder_suggest_value(const ProtobufCFieldDescriptor *field, const char *name, size_t len,
                                  char ret[SUGGESTION_TEXT_MAX])
{
    const ProtobufCEnumDescriptor *descriptor = field->descriptor;
    struct suggestion suggestion = SUGGESTION_FOR(name, len);
    char all[SUGGESTION_TEXT_MAX];
    int used = snprintf(all, sizeof all, "; it has ");
    for (unsigned i = 0; i < descriptor->n_value_names; i++) {
        const char *value = descriptor->values_by_name[i].name;
        size_t at = (size_t)used < sizeof all ? (size_t)used : sizeof all;
        suggestion_offer(&suggestion, value);
        used += snprintf(all + at, sizeof all - at, "%s%s", i > 0 ? ", " : "", value);
    }
    /* Where there are few, all of them. */
    if (!suggestion.best && (size_t)used < sizeof all) {
        return memcpy(ret, all, sizeof all);
    }
    return suggestion_text(&suggestion, "", ret);
}

static size_t index_of(const struct builder *builder, const ProtobufCFieldDescriptor *field)
{
    return (size_t)(field - builder->message->descriptor->fields);
}

bool builder_given(const struct builder *builder, const ProtobufCFieldDescriptor *field)
{
    return builder->given[index_of(builder, field)];
}

void builder_mark_given(struct builder *builder, const ProtobufCFieldDescriptor *field)
{
    builder->given[index_of(builder, field)] = true;
}

static void *member(const struct builder *builder, unsigned offset)
{
    return (char *)builder->message + offset;
}

const ProtobufCFieldDescriptor *builder_rival(const struct builder *builder,
                                              const ProtobufCFieldDescriptor *field)
{
    if (!(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)) {
        return NULL;
    }
    uint32_t id = *(const uint32_t *)member(builder, field->quantifier_offset);
    return id == 0 ? NULL : protobuf_c_message_descriptor_get_field(builder->message->descriptor, id);
}

const ProtobufCFieldDescriptor *builder_missing(const struct builder *builder)
{
    const ProtobufCMessageDescriptor *descriptor = builder->message->descriptor;
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        if (descriptor->fields[i].label == PROTOBUF_C_LABEL_REQUIRED && !builder->given[i]) {
            return &descriptor->fields[i];
        }
    }
    return NULL;
}

size_t builder_value_size(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return sizeof(uint32_t);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return sizeof(uint64_t);
    case PROTOBUF_C_TYPE_FLOAT:
        return sizeof(float);
    case PROTOBUF_C_TYPE_DOUBLE:
        return sizeof(double);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_ENUM:
        return sizeof(int);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        break;
    }
    return sizeof(void *);
}

bool builder_has(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const char *value = (const char *)message + field->offset;
    const char *quantifier = (const char *)message + field->quantifier_offset;
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        return *(const uint32_t *)(const void *)quantifier == field->id;
    }
    if (field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_MESSAGE) {
        const void *pointer = *(const void *const *)(const void *)value;
        return pointer && pointer != field->default_value;
    }
    return field->label == PROTOBUF_C_LABEL_REQUIRED || *(const protobuf_c_boolean *)(const void *)quantifier;
}

/* The array's capacity is nowhere written down: it is the power of two that holds the count. */
static void *new_item(void **array, size_t *count, size_t size)
{
    size_t n = *count;
    if ((n & (n - 1)) == 0) {
        size_t capacity = n == 0 ? 1 : 2 * n;
        void *larger = capacity > n ? reallocarray(*array, capacity, size) : NULL;
        if (!larger) {
            return NULL;
        }
        *array = larger;
    }
    void *item = (char *)*array + n * size;
    memset(item, 0, size);
    *count = n + 1;
    return item;
}

void *builder_slot(struct builder *builder, const ProtobufCFieldDescriptor *field, size_t *ret_index)
{
    size_t size = builder_value_size(field->type);
    void *value = member(builder, field->offset);
    void *quantifier = member(builder, field->quantifier_offset);
    *ret_index = 0;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        value = new_item(value, quantifier, size);
        *ret_index = *(size_t *)quantifier - 1;
    } else {
        /* A default is a pointer to static memory: overwritten, never freed. */
        memset(value, 0, size);
        bool by_pointer = field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_MESSAGE;
        if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
            *(uint32_t *)quantifier = field->id;
        } else if (field->label == PROTOBUF_C_LABEL_OPTIONAL && !by_pointer) {
            *(protobuf_c_boolean *)quantifier = true;
        }
    }
    builder_mark_given(builder, field);
    return value;
}

struct integer_range {
    uint64_t magnitude_max, negative_magnitude_max;
};

static struct integer_range range_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return (struct integer_range){UINT32_MAX, 0};
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return (struct integer_range){UINT64_MAX, 0};
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return (struct integer_range){INT64_MAX, (uint64_t)INT64_MAX + 1};
    default:
        return (struct integer_range){INT32_MAX, (uint64_t)INT32_MAX + 1};
    }
}

bool builder_put_integer(const ProtobufCFieldDescriptor *field, void *slot, bool negative, uint64_t magnitude)
{
    struct integer_range range = range_of(field->type);
    if (magnitude > (negative ? range.negative_magnitude_max : range.magnitude_max)) {
        return false;
    }
    uint64_t value = negative ? 0 - magnitude : magnitude;
    if (builder_value_size(field->type) == sizeof(uint64_t)) {
        memcpy(slot, &value, sizeof value);
    } else {
        uint32_t narrow = (uint32_t)value;
        memcpy(slot, &narrow, sizeof narrow);
    }
    return true;
}

/* Rounds to the nearest, but what lies exactly between the largest float and where infinity would begin
 * counts as the largest, as protobuf has it. */
static float narrow_to_float(double value)
{
    const double largest_rounded = 3.4028235677973366e+38;
    if (fabs(value) > (double)FLT_MAX && fabs(value) <= largest_rounded) {
        return value < 0 ? -FLT_MAX : FLT_MAX;
    }
    if (fabs(value) > (double)FLT_MAX) {
        return value < 0 ? -HUGE_VALF : HUGE_VALF;
    }
    return (float)value;
}

void builder_put_double(const ProtobufCFieldDescriptor *field, void *slot, double value)
{
    if (field->type == PROTOBUF_C_TYPE_FLOAT) {
        float narrow = narrow_to_float(value);
        memcpy(slot, &narrow, sizeof narrow);
    } else {
        memcpy(slot, &value, sizeof value);
    }
}

int builder_put_bytes(const ProtobufCFieldDescriptor *field, void *slot, const void *data, size_t size)
{
    char *copy = malloc(size + 1);
    if (!copy) {
        return -ENOMEM;
    }
    if (size > 0) {
        memcpy(copy, data, size);
    }
    copy[size] = '\0';
    if (field->type == PROTOBUF_C_TYPE_STRING) {
        memcpy(slot, &copy, sizeof copy);
    } else {
        ProtobufCBinaryData bytes = {.len = size, .data = (uint8_t *)copy};
        memcpy(slot, &bytes, sizeof bytes);
    }
    return 0;
}

bool builder_put_enum_name(const ProtobufCFieldDescriptor *field, void *slot, const char *name, size_t len)
{
    const ProtobufCEnumDescriptor *descriptor = field->descriptor;
    for (unsigned i = 0; i < descriptor->n_value_names; i++) {
        const ProtobufCEnumValueIndex *candidate = &descriptor->values_by_name[i];
        if (strlen(candidate->name) == len && memcmp(candidate->name, name, len) == 0) {
            memcpy(slot, &descriptor->values[candidate->index].value, sizeof(int));
            return true;
        }
    }
    return false;
}

/* protobuf-c's own look-up by number misses INT_MAX, where its ranges overflow. */
bool builder_put_enum_number(const ProtobufCFieldDescriptor *field, void *slot, bool negative,
                             uint64_t magnitude)
{
    const ProtobufCEnumDescriptor *descriptor = field->descriptor;
    int number;
    if (!builder_put_integer(field, &number, negative, magnitude)) {
        return false;
    }
    for (unsigned i = 0; i < descriptor->n_values; i++) {
        if (descriptor->values[i].value == number) {
            memcpy(slot, &number, sizeof number);
            return true;
        }
    }
    return false;
}
