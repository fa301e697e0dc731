/* What writing and reading by tables share: where members and fields are. */
#pragma once

#include <stdint.h>
#include <stdlib.h>

#include <protobuf-c/protobuf-c.h>

#include "config/format/bind.h"
#include "config/format/wire.h"

static inline void *place(const void *base, size_t offset)
{
    return (char *)(uintptr_t)base + offset;
}

/* The field at an offset of the message; `*next` is where to look first, as rows mostly are in order. */
static inline const ProtobufCFieldDescriptor *field_at(const ProtobufCMessageDescriptor *descriptor,
                                                       size_t offset, unsigned *next)
{
    for (unsigned tried = 0; tried < descriptor->n_fields; tried++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[*next];
        *next = *next + 1 < descriptor->n_fields ? *next + 1 : 0;
        if (field->offset == offset) {
            return field;
        }
    }
    abort(); /* a table of another message */
}

static inline size_t *count_of(const struct bind_row *row, const void *object)
{
    return place(object, row->count);
}

/* What is behind a pointer, or the place itself. */
static inline void *contents_of(const struct bind_row *row, const void *object)
{
    void *at = place(object, row->offset);
    return row->kind >= BIND_TEXT ? *(void **)at : at;
}

/* One of many. */
static inline void *item_of(const struct bind_row *row, const void *items, size_t i)
{
    return row->kind == BIND_EACH_OWN ? ((void *const *)items)[i] : place(items, i * row->table->size);
}

/* Whether a field belongs to what the member beside it says. */
static inline bool belongs(const struct bind_row *row, const void *object)
{
    if (row->presence == BIND_BY_TEXT) {
        return *(char *const *)place(object, row->beside) != NULL;
    }
    uint32_t tag = *(const uint32_t *)place(object, row->beside);
    return tag < 32 && (row->cases >> tag & 1);
}

static inline ProtobufCBinaryData bytes_of(const char *text, size_t size)
{
    return (ProtobufCBinaryData){.len = size, .data = (uint8_t *)wire_text(text)};
}
