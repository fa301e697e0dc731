/* Protobuf text format and JSON, read into protobuf-c messages by walking their descriptors.
 *
 * protobuf-c has no text format of its own. This reads the whole of it as `protoc --encode` does: nested
 * messages in {} and <>, [a, b] lists of scalars and of messages, string escapes and concatenation, bytes,
 * enums by name and number, hexadecimal and octal, floats, inf and nan, comments, ',' and ';' separators,
 * oneof, required fields; a singular field given twice is refused. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;
struct source;
struct ProtobufCMessage;
struct ProtobufCMessageDescriptor;

/* Returns a message that protobuf_c_message_free_unpacked() frees, and notes in `source` where each field
 * stands. ERR_CONFIG with item "FILE:LINE:COLUMN" and a sentence with the field's path and, for a name that
 * is nearly right, "did you mean". */
int textformat_parse(const struct ProtobufCMessageDescriptor *descriptor, struct source *source,
                     const char *text, size_t size, struct ProtobufCMessage **ret, struct err *reterr);

/* Appends the message as text: a field to a line, and an item of a list, where it fits on one. */
void textformat_print(const struct ProtobufCMessage *message, struct buf *ret);

/* The same message from JSON (field names as in the schema or in lowerCamelCase, bytes as base64, enums by
 * name or number, 64-bit numbers also as strings). */
int jsonformat_parse(const struct ProtobufCMessageDescriptor *descriptor, struct source *source,
                     const char *text, size_t size, struct ProtobufCMessage **ret, struct err *reterr);

/* The nearest of `names` within a distance worth suggesting, or NULL. */
const char *textformat_did_you_mean(const char *word, const char *const *names, size_t n_names);
