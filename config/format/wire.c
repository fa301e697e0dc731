/* Strict binary protobuf. Runs in the front and the warden on each other's bytes, and on binary configuration
 * files.
 *
 * protobuf-c checks the framing and the required fields but keeps unknown fields, lets the last of two win,
 * and hands on a string with a NUL in it as if it ended there. All of that shows when the message is packed
 * again: what differs from the bytes that came was not written by wire_pack(). Unknown fields alone would
 * survive, so they are looked for. */
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

static bool has_unknown_fields(const ProtobufCMessage *message);

static bool any_has_unknown_fields(ProtobufCMessage *const *messages, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (messages[i] && has_unknown_fields(messages[i])) {
            return true;
        }
    }
    return false;
}

/* Recurses as deep as the schema nests, which holds no cycle. */
static bool has_unknown_fields(const ProtobufCMessage *message)
{
    if (message->n_unknown_fields > 0) {
        return true;
    }
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        const char *base = (const char *)message;
        if (field->type != PROTOBUF_C_TYPE_MESSAGE) {
            continue;
        }
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            ProtobufCMessage *const *items = *(ProtobufCMessage *const *const *)(base + field->offset);
            if (any_has_unknown_fields(items, *(const size_t *)(base + field->quantifier_offset))) {
                return true;
            }
            continue;
        }
        bool other_of_oneof = (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
                              *(const uint32_t *)(base + field->quantifier_offset) != field->id;
        if (!other_of_oneof && any_has_unknown_fields((ProtobufCMessage *const *)(base + field->offset), 1)) {
            return true;
        }
    }
    return false;
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
    if (size > INT_MAX) {
        return -EBADMSG;
    }
    ProtobufCMessage *message = protobuf_c_message_unpack(descriptor, pool ? &in_pool : NULL, size, data);
    if (!message) {
        return -EBADMSG;
    }
    CLEANUP(buf_free) struct buf again = BUF_INIT;
    int r = 0;
    if (has_unknown_fields(message)) {
        r = -EBADMSG;
    } else if (wire_pack(message, &again) < 0) {
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
