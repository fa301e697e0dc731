/* Strict binary protobuf. Runs in the front and the warden on each other's bytes, and on binary configuration
 * files.
 *
 * protobuf-c checks the framing and the required fields but hands on a string with a NUL in it as if it ended
 * there, among other things. That shows when the message is packed again: what differs from the bytes that
 * came was not written by wire_pack(). It also keeps unknown fields and merges those that come twice, in
 * quadratic time: those are looked for before. */
#include "config/format/wire.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>

#include "config/format/pool.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"

int wire_pack(const ProtobufCMessage *message, struct buf *ret)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    char *to = buf_reserve(ret, size);
    if (!to) {
        return -ENOMEM;
    }
    ret->len += protobuf_c_message_pack(message, (uint8_t *)to);
    ret->data[ret->len] = '\0';
    return 0;
}

static bool take_number(const uint8_t **at, const uint8_t *end, uint64_t *ret)
{
    *ret = 0;
    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        uint8_t byte = *(*at)++;
        *ret |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return true;
        }
    }
    return false;
}

/* Fields that there are, in the order of their numbers, none twice that is not repeated: protobuf-c would
 * merge those, copying all that it has so far each time. Recurses as deep as the schema nests, which holds no
 * cycle. */
static bool is_in_order(const ProtobufCMessageDescriptor *descriptor, const uint8_t *at, const uint8_t *end)
{
    uint32_t last = 0;
    while (at < end) {
        uint64_t tag, n;
        if (!take_number(&at, end, &tag) || tag >> 3 > INT_MAX) {
            return false;
        }
        const ProtobufCFieldDescriptor *field =
            protobuf_c_message_descriptor_get_field(descriptor, (unsigned)(tag >> 3));
        if (!field || field->id < last || (field->id == last && field->label != PROTOBUF_C_LABEL_REPEATED)) {
            return false;
        }
        last = field->id;
        n = 0;
        switch (tag & 7) {
        case PROTOBUF_C_WIRE_TYPE_VARINT:
            if (!take_number(&at, end, &n)) {
                return false;
            }
            n = 0;
            break;
        case PROTOBUF_C_WIRE_TYPE_64BIT:
            n = 8;
            break;
        case PROTOBUF_C_WIRE_TYPE_32BIT:
            n = 4;
            break;
        case PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED:
            if (!take_number(&at, end, &n)) {
                return false;
            }
            break;
        default:
            return false;
        }
        if (n > (size_t)(end - at) ||
            (field->type == PROTOBUF_C_TYPE_MESSAGE && !is_in_order(field->descriptor, at, at + n))) {
            return false;
        }
        at += n;
    }
    return true;
}

static void *alloc_in_pool(void *pool, size_t size)
{
    return pool_alloc(pool, 1, size);
}

static void free_with_pool(void *pool, void *pointer)
{
    (void)pool, (void)pointer;
}

int wire_unpack(const ProtobufCMessageDescriptor *descriptor, const void *data, size_t size,
                struct pool *pool, ProtobufCMessage **ret)
{
    ProtobufCAllocator in_pool = {.alloc = alloc_in_pool, .free = free_with_pool, .allocator_data = pool};
    const uint8_t *bytes = data;
    if (size > INT_MAX || (size > 0 && !is_in_order(descriptor, bytes, bytes + size))) {
        return -EBADMSG;
    }
    ProtobufCMessage *message = protobuf_c_message_unpack(descriptor, pool ? &in_pool : NULL, size, data);
    if (!message) {
        return -EBADMSG;
    }
    CLEANUP(buf_free) struct buf again = BUF_INIT;
    int r = 0;
    if (wire_pack(message, &again) < 0) {
        r = -ENOMEM;
    } else if (again.len != size || (size > 0 && memcmp(again.data, data, size) != 0)) {
        r = -EBADMSG;
    }
    if (r < 0) {
        protobuf_c_message_free_unpacked(message, pool ? &in_pool : NULL);
        return r;
    }
    *ret = message;
    return 0;
}

int wire_refuse(struct err *reterr, const char *field, const char *why)
{
    return err_set(reterr, ERR_INVALID, EBADMSG, field, "%s", why);
}
