/* Structs to messages, by tables. Runs in the front and the warden, for each other, and where configuration
 * is sent on. */
#include <errno.h>
#include <string.h>

#include "config/format/bind_internal.h"
#include "config/format/digest.h"
#include "config/format/pool.h"
#include "jail/base/cleanup.h"

static uint64_t member_number(const struct bind_row *row, const void *object)
{
    const void *at = place(object, row->offset);
    if (row->kind == BIND_BOOL) {
        return *(const bool *)at;
    }
    if (row->kind == BIND_FD) {
        return *(const int *)at >= 0;
    }
    if (row->size == sizeof(uint64_t)) {
        return *(const uint64_t *)at;
    }
    return row->kind == BIND_SIGNED ? (uint64_t)(int64_t) * (const int32_t *)at : *(const uint32_t *)at;
}

/* Whether a field that may be left out is written. */
static bool is_written(const struct bind_row *row, const void *object, bool empty)
{
    if (row->presence == BIND_BY_FLAG) {
        return *(const bool *)place(object, row->beside);
    }
    return row->presence >= BIND_BY_TEXT ? belongs(row, object) : row->presence == BIND_ALWAYS || !empty;
}

static void write_number(const struct bind_row *row, const ProtobufCFieldDescriptor *field,
                         const void *object, void *message)
{
    uint64_t number = member_number(row, object);
    if (field->label == PROTOBUF_C_LABEL_OPTIONAL) {
        bool written = is_written(row, object, number == 0);
        *(protobuf_c_boolean *)place(message, field->quantifier_offset) = written;
        if (!written) {
            return;
        }
    }
    void *to = place(message, field->offset);
    number += (uint64_t)(int64_t)row->shift;
    if (field->type == PROTOBUF_C_TYPE_BOOL) {
        *(protobuf_c_boolean *)to = number != 0;
    } else if (field->type == PROTOBUF_C_TYPE_UINT64) {
        *(uint64_t *)to = number;
    } else {
        *(uint32_t *)to = (uint32_t)number;
    }
}

static void write_text(const struct bind_row *row, const ProtobufCFieldDescriptor *field, const void *object,
                       struct pool *pool, void *message)
{
    const char *text = contents_of(row, object);
    bool empty = !text || (row->kind == BIND_ROOM && !*text);
    if (field->label == PROTOBUF_C_LABEL_OPTIONAL && !is_written(row, object, empty)) {
        return;
    }
    char *hex = row->kind == BIND_HASH ? pool_alloc(pool, 1, SHA256_HEX) : NULL;
    if (hex) {
        sha256_to_hex((const unsigned char *)text, hex);
        text = hex;
    }
    text = text ? text : protobuf_c_empty_string;
    if (field->type == PROTOBUF_C_TYPE_STRING) {
        *(char **)place(message, field->offset) = wire_text(text);
        return;
    }
    bool counted = row->kind == BIND_DATA || row->kind == BIND_DATA_ROOM;
    *(ProtobufCBinaryData *)place(message, field->offset) =
        bytes_of(text, counted ? *count_of(row, object) : strlen(text));
    if (field->label == PROTOBUF_C_LABEL_OPTIONAL) {
        *(protobuf_c_boolean *)place(message, field->quantifier_offset) = true;
    }
}

static void write_texts(const struct bind_row *row, const ProtobufCFieldDescriptor *field, const void *object,
                        struct pool *pool, void *message)
{
    char **texts = contents_of(row, object);
    size_t n = *count_of(row, object);
    *(size_t *)place(message, field->quantifier_offset) = n;
    if (field->type == PROTOBUF_C_TYPE_STRING) {
        *(char ***)place(message, field->offset) = texts;
        return;
    }
    ProtobufCBinaryData *all = pool_alloc(pool, n, sizeof *all);
    for (size_t i = 0; all && i < n; i++) {
        all[i] = bytes_of(texts[i], strlen(texts[i]));
    }
    *(ProtobufCBinaryData **)place(message, field->offset) = all;
}

static void write_nested(const struct bind_row *row, const ProtobufCFieldDescriptor *field,
                         const void *object, struct pool *pool, void *message)
{
    const char *items = contents_of(row, object);
    size_t each = row->table->descriptor->sizeof_message;
    bool repeated = row->kind == BIND_EACH || row->kind == BIND_EACH_ROOM || row->kind == BIND_EACH_OWN;
    size_t n = repeated ? *count_of(row, object) : (size_t)is_written(row, object, !items);
    char *messages = pool_alloc(pool, n, each);
    for (size_t i = 0; messages && i < n; i++) {
        bind_write(row->table, item_of(row, items, i), pool, messages + i * each);
    }
    if (!repeated) {
        *(char **)place(message, field->offset) = messages;
        return;
    }
    char **pointers = pool_alloc(pool, n, sizeof *pointers);
    for (size_t i = 0; pointers && i < n; i++) {
        pointers[i] = messages + i * each;
    }
    *(size_t *)place(message, field->quantifier_offset) = n;
    *(char ***)place(message, field->offset) = pointers;
}

/* Recurses as deep as tables nest. */
void bind_write(const struct bind_table *table, const void *object, struct pool *pool, void *ret_message)
{
    unsigned next = 0;
    table->descriptor->message_init(ret_message);
    for (size_t i = 0; i < table->n_rows; i++) {
        const struct bind_row *row = &table->rows[i];
        const ProtobufCFieldDescriptor *field = field_at(table->descriptor, row->field, &next);
        if (row->table) {
            write_nested(row, field, object, pool, ret_message);
        } else if (row->kind == BIND_TEXTS) {
            write_texts(row, field, object, pool, ret_message);
        } else if (row->kind <= BIND_FD) {
            write_number(row, field, object, ret_message);
        } else {
            write_text(row, field, object, pool, ret_message);
        }
    }
}

int bind_encode(const struct bind_table *table, const void *object, struct buf *ret)
{
    CLEANUP(pool_free) struct pool pool = POOL_INIT;
    ProtobufCMessage *message = pool_alloc(&pool, 1, table->descriptor->sizeof_message);
    if (message) {
        bind_write(table, object, &pool, message);
    }
    return pool.failed ? -ENOMEM : wire_pack(message, ret);
}
