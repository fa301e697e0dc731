/* struct builder: one protobuf-c message being filled field by field; what the text and the JSON reader
 * share. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "config/format/suggest.h"

struct builder {
    ProtobufCMessage *message;
    bool *given; /* per field of the descriptor; a required scalar has no other trace of having been set */
};

#define BUILDER_INIT ((struct builder){0})

/* 0 or -ENOMEM. The message belongs to the builder until builder_take(). */
int builder_open(const ProtobufCMessageDescriptor *descriptor, struct builder *ret);
void builder_close(struct builder *builder);
ProtobufCMessage *builder_take(struct builder *builder);

const ProtobufCFieldDescriptor *builder_field(const struct builder *builder, const char *name, size_t len);
/* For messages about a name that is no field, or no value of the field's enum: "; did you mean ...?" or "".
 */
const char *builder_suggest_field(const struct builder *builder, const char *name, size_t len,
                                  char ret[SUGGESTION_TEXT_MAX]);
const char *builder_suggest_value(const ProtobufCFieldDescriptor *field, const char *name, size_t len,
                                  char ret[SUGGESTION_TEXT_MAX]);

bool builder_given(const struct builder *builder, const ProtobufCFieldDescriptor *field);
/* For a list that was given without an item. */
void builder_mark_given(struct builder *builder, const ProtobufCFieldDescriptor *field);
/* The member of the same oneof that is set already, or NULL. */
const ProtobufCFieldDescriptor *builder_rival(const struct builder *builder,
                                              const ProtobufCFieldDescriptor *field);
/* The first required field that has not been given, or NULL. */
const ProtobufCFieldDescriptor *builder_missing(const struct builder *builder);

/* Whether a field that is not repeated is there in a message, however it was read. */
bool builder_has(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);
/* Bytes of one value of a field in a message. */
size_t builder_value_size(ProtobufCType type);

/* Marks the field as present and returns the zeroed place of its value: of a new last item where it is
 * repeated. NULL: out of memory. `*ret_index` is the item's number. A pointer put there belongs to the
 * message, also half-built. */
void *builder_slot(struct builder *builder, const ProtobufCFieldDescriptor *field, size_t *ret_index);

/* A whole number as sign and magnitude into the slot of a field of any integer type or an enum; false: out of
 * range. */
bool builder_put_integer(const ProtobufCFieldDescriptor *field, void *slot, bool negative,
                         uint64_t magnitude);
void builder_put_double(const ProtobufCFieldDescriptor *field, void *slot, double value);
/* Copies. The caller has made sure that a string holds no NUL. -ENOMEM. */
int builder_put_bytes(const ProtobufCFieldDescriptor *field, void *slot, const void *data, size_t size);
/* False: the enum has no value of this name or number. */
bool builder_put_enum_name(const ProtobufCFieldDescriptor *field, void *slot, const char *name, size_t len);
bool builder_put_enum_number(const ProtobufCFieldDescriptor *field, void *slot, bool negative,
                             uint64_t magnitude);
