/* Binary protobuf messages: packed into a buffer, and unpacked so strictly that one content has one encoding.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct ProtobufCMessage;
struct ProtobufCMessageDescriptor;
struct buf;

/* Appends the packed message. 0 or -ENOMEM. */
int wire_pack(const struct ProtobufCMessage *message, struct buf *ret);

/* -EBADMSG for everything that wire_pack() would not have written: a required field missing, an unknown one,
 * one given twice or out of order, NUL in a string, a number longer than needed.
 * protobuf_c_message_free_unpacked() frees it. */
int wire_unpack(const struct ProtobufCMessageDescriptor *descriptor, const void *data, size_t size,
                struct ProtobufCMessage **ret);
