/* Messages printed as text format and as JSON, so that a reader can be held to what it has read. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct ProtobufCFieldDescriptor;
struct ProtobufCMessage;
struct buf;

/* How many bytes one value of the field takes in its message. */
size_t print_value_bytes(const struct ProtobufCFieldDescriptor *field);

/* Appends. Writing a message and reading it again gives the same message. */
void print_text(const struct ProtobufCMessage *message, struct buf *ret);

/* The same as JSON. False where JSON cannot say it (strings that are not UTF-8, NaN, deep nesting); what is
 * in `ret` is then of no use. */
bool print_json(const struct ProtobufCMessage *message, struct buf *ret);
