/* Binary protobuf messages: packed into a buffer, and unpacked so strictly that one content has one encoding.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct ProtobufCMessage;
struct ProtobufCMessageDescriptor;
struct buf;
struct err;
struct pool;

/* Appends the packed message. 0 or -ENOMEM. */
int wire_pack(const struct ProtobufCMessage *message, struct buf *ret);

/* -EBADMSG for everything that wire_pack() would not have written: a required field missing, an unknown one,
 * one given twice or out of order, NUL in a string, a number longer than needed.
 * It lies in the pool; without one,
 * protobuf_c_message_free_unpacked() frees it. */
int wire_unpack(const struct ProtobufCMessageDescriptor *descriptor, const void *data, size_t size,
                struct pool *pool, struct ProtobufCMessage **ret);

/* For a field of a message that is packed: protobuf-c's structs are not const, but packing only reads. */
static inline char *wire_text(const char *text)
{
    return (char *)(uintptr_t)text;
}

/* ERR_INVALID about a field that no honest peer would have sent. */
int wire_refuse(struct err *reterr, const char *field, const char *why);
