/* Messages to structs, by tables, and what was read freed. Runs in the front and the warden on each other's
 * messages, and wherever configuration is read.
 *
 * What must hold: a struct that was read is what its writer had, or nothing; whatever a message holds, no
 * member gets more than it has room for, and nothing is left over after a failure. */
#include "config/format/bind.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/format/bind_internal.h"
#include "config/format/check.h"
#include "config/format/digest.h"
#include "jail/base/err.h"

static void set_member_number(const struct bind_row *row, uint64_t number, void *object)
{
    void *at = place(object, row->offset);
    if (row->kind == BIND_BOOL) {
        *(bool *)at = number != 0;
    } else if (row->kind == BIND_FD) {
        *(int *)at = number ? BIND_FD_TO_COME : -1;
    } else if (row->size == sizeof(uint64_t)) {
        *(uint64_t *)at = number;
    } else {
        *(uint32_t *)at = (uint32_t)number;
    }
}

/* What is being read, and where it is said what is wrong with it. */
struct reader {
    const struct bind_table *table;
    struct checker *checker; /* of a configuration; else NULL */
    struct err *reterr;
};

static int refuse(const struct reader *reader, const ProtobufCFieldDescriptor *field, const char *why)
{
    char item[128];
    if (reader->checker) {
        return check_fail(reader->checker, field->name, "%s", why);
    }
    snprintf(item, sizeof item, "%s.%s", reader->table->name, field->name);
    return wire_refuse(reader->reterr, item, why);
}

static int refuse_presence(const struct reader *reader, const ProtobufCFieldDescriptor *field)
{
    return reader->table->whole ? wire_refuse(reader->reterr, reader->table->name, "has what it needs not")
                                : refuse(reader, field, "is there without need, or missing");
}

static int fail_memory(const struct reader *reader)
{
    return reader->checker ? check_memory(reader->checker)
                           : err_errno(reader->reterr, ENOMEM, "while reading a message");
}

static uint64_t field_number(const ProtobufCFieldDescriptor *field, const void *at)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_BOOL:
        return *(const protobuf_c_boolean *)at != 0;
    case PROTOBUF_C_TYPE_UINT64:
        return *(const uint64_t *)at;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return *(const uint32_t *)at;
    default:
        return (uint64_t)(int64_t) * (const int32_t *)at; /* int32, enums */
    }
}

static uint64_t largest(const struct bind_row *row)
{
    if (row->most > 0) {
        return row->most;
    }
    if (row->kind == BIND_SIGNED && row->size == sizeof(int32_t)) {
        return INT32_MAX;
    }
    return row->kind == BIND_UNSIGNED && row->size == sizeof(uint32_t) ? UINT32_MAX : UINT64_MAX;
}

static int check_number(const struct reader *reader, const struct bind_row *row,
                        const ProtobufCFieldDescriptor *field, uint64_t number)
{
    bool has_sign = field->type == PROTOBUF_C_TYPE_INT32 || field->type == PROTOBUF_C_TYPE_ENUM;
    bool negative = has_sign && (int64_t)number < 0;
    bool too_small =
        negative ? (int64_t)number < row->least : row->least > 0 && number < (uint64_t)row->least;
    if ((!too_small && (negative || number <= largest(row))) || (number == 0 && row->or_zero)) {
        return 0;
    }
    if (reader->checker) {
        return check_range(reader->checker, field->name, number, (uint64_t)row->least, largest(row));
    }
    return refuse(reader, field, row->why ? row->why : "is out of bounds");
}

static int read_number(const struct reader *reader, const struct bind_row *row,
                       const ProtobufCFieldDescriptor *field, const void *message, void *object)
{
    uint64_t number = field_number(field, place(message, field->offset));
    if (field->label == PROTOBUF_C_LABEL_OPTIONAL && row->presence != BIND_ALWAYS) {
        bool there = *(const protobuf_c_boolean *)place(message, field->quantifier_offset) != 0;
        if (row->presence >= BIND_BY_TEXT && there != belongs(row, object)) {
            return refuse_presence(reader, field);
        }
        if (row->presence == BIND_UNLESS_EMPTY && there && number == 0) {
            return refuse(reader, field, "is 0");
        }
        if (row->presence == BIND_BY_FLAG) {
            *(bool *)place(object, row->beside) = there;
        }
        if (!there) {
            return 0;
        }
    }
    int r = check_number(reader, row, field, number);
    if (r < 0) {
        return r;
    }
    set_member_number(row, number - (uint64_t)(int64_t)row->shift, object);
    return 0;
}

/* A text that is there, and how long it may be at most. */
static int check_text(const struct reader *reader, const struct bind_row *row,
                      const ProtobufCFieldDescriptor *field, ProtobufCBinaryData text)
{
    uint64_t most = row->most > 0 ? row->most : UINT64_MAX;
    if (row->kind == BIND_ROOM || row->kind == BIND_DATA_ROOM) {
        most = row->size - (row->kind == BIND_ROOM);
    }
    bool empty_is_absent = row->kind == BIND_ROOM && field->label == PROTOBUF_C_LABEL_OPTIONAL &&
                           row->presence == BIND_UNLESS_EMPTY;
    if (text.len == 0 && (row->least > 0 || empty_is_absent)) {
        return refuse(reader, field, "is empty");
    }
    if (text.len < (uint64_t)row->least || text.len > most) {
        return refuse(reader, field, text.len > most ? "is too long" : "is too short");
    }
    if (row->kind != BIND_DATA && text.len > 0 && memchr(text.data, '\0', text.len)) {
        return refuse(reader, field, "holds a NUL");
    }
    return 0;
}

static int read_hash(const struct reader *reader, const struct bind_row *row,
                     const ProtobufCFieldDescriptor *field, ProtobufCBinaryData text, void *object)
{
    char hex[SHA256_HEX];
    unsigned char *hash = contents_of(row, object);
    if (sha256_from_hex((const char *)text.data, hash) < 0) {
        return refuse(reader, field, "must be 64 hexadecimal digits");
    }
    sha256_to_hex(hash, hex);
    return !reader->checker && memcmp(hex, text.data, sizeof hex) != 0
               ? refuse(reader, field, "is not in lower case")
               : 0;
}

/* `text` with a NUL behind it; NULL: no memory. */
static char *copy_of(ProtobufCBinaryData text)
{
    char *copy = malloc(text.len + 1);
    if (!copy) {
        return NULL;
    }
    if (text.len > 0) {
        memcpy(copy, text.data, text.len);
    }
    copy[text.len] = '\0';
    return copy;
}

static int copy_text(const struct reader *reader, const struct bind_row *row,
                     const ProtobufCFieldDescriptor *field, ProtobufCBinaryData text, void *object)
{
    if (row->kind == BIND_HASH) {
        return read_hash(reader, row, field, text, object);
    }
    char *to = contents_of(row, object);
    if (row->kind == BIND_TEXT || row->kind == BIND_DATA) {
        to = copy_of(text);
        if (!to) {
            return fail_memory(reader);
        }
        *(char **)place(object, row->offset) = to;
    } else if (text.len > 0) {
        memcpy(to, text.data, text.len); /* before NULs */
    }
    if (row->kind == BIND_DATA || row->kind == BIND_DATA_ROOM) {
        *count_of(row, object) = text.len;
    }
    return row->valid && !row->valid(to) ? refuse(reader, field, row->why) : 0;
}

static int read_text(const struct reader *reader, const struct bind_row *row,
                     const ProtobufCFieldDescriptor *field, const void *message, void *object)
{
    const void *at = place(message, field->offset);
    ProtobufCBinaryData text;
    bool there = true;
    if (field->type == PROTOBUF_C_TYPE_STRING) {
        const char *string = *(const char *const *)at;
        text = bytes_of(string, string ? strlen(string) : 0);
        there = string != NULL;
    } else {
        text = *(const ProtobufCBinaryData *)at;
        if (field->label == PROTOBUF_C_LABEL_OPTIONAL) {
            there = *(const protobuf_c_boolean *)place(message, field->quantifier_offset) != 0;
        }
    }
    if (row->presence >= BIND_BY_TEXT && there != belongs(row, object)) {
        return refuse_presence(reader, field);
    }
    if (!there) {
        return 0;
    }
    int r = check_text(reader, row, field, text);
    return r < 0 ? r : copy_text(reader, row, field, text, object);
}

/* `n` zeroed items into the member; NULL for none. */
static int new_items(const struct reader *reader, const struct bind_row *row, size_t n, size_t size,
                     void *object)
{
    void *items = n > 0 ? calloc(n, size) : NULL;
    *(void **)place(object, row->offset) = items;
    return n > 0 && !items ? fail_memory(reader) : 0;
}

static int read_texts(const struct reader *reader, const struct bind_row *row,
                      const ProtobufCFieldDescriptor *field, const void *message, void *object)
{
    size_t n = *(const size_t *)place(message, field->quantifier_offset);
    const void *all = *(void *const *)place(message, field->offset);
    if (row->most > 0 && n > row->most) {
        return refuse(reader, field, "has too many items");
    }
    int r = new_items(reader, row, n, sizeof(char *), object);
    if (r < 0) {
        return r;
    }
    char **texts = contents_of(row, object);
    for (size_t i = 0; i < n; i++) {
        const char *string = field->type == PROTOBUF_C_TYPE_STRING ? ((char *const *)all)[i] : NULL;
        ProtobufCBinaryData text =
            string ? bytes_of(string, strlen(string)) : ((const ProtobufCBinaryData *)all)[i];
        if (text.len > 0 && memchr(text.data, '\0', text.len)) {
            return refuse(reader, field, "holds a NUL");
        }
        texts[i] = copy_of(text);
        *count_of(row, object) = i + 1;
        if (!texts[i]) {
            return fail_memory(reader);
        }
    }
    return 0;
}

static int read_rows(const struct reader *reader, const void *message, void *object);

static int read_one(const struct reader *reader, const struct bind_row *row,
                    const ProtobufCFieldDescriptor *field, const void *message, void *object)
{
    const void *nested = *(void *const *)place(message, field->offset);
    struct reader within = {.table = row->table, .checker = reader->checker, .reterr = reader->reterr};
    if (!nested) {
        return 0;
    }
    int r = row->kind == BIND_OWN ? new_items(reader, row, 1, row->table->size, object) : 0;
    size_t before = reader->checker ? fieldpath_push(&reader->checker->path, field->name) : 0;
    r = r < 0 ? r : read_rows(&within, nested, contents_of(row, object));
    if (reader->checker) {
        check_leave(reader->checker, before);
    }
    return r;
}

static int read_each(const struct reader *reader, const struct bind_row *row,
                     const ProtobufCFieldDescriptor *field, const void *message, void *object)
{
    size_t n = *(const size_t *)place(message, field->quantifier_offset);
    const void *const *all = *(const void *const *const *)place(message, field->offset);
    struct reader within = {.table = row->table, .checker = reader->checker, .reterr = reader->reterr};
    size_t most = row->kind == BIND_EACH_ROOM ? row->size / row->table->size : row->most;
    if (most > 0 && n > most) {
        return refuse(reader, field, "has too many items");
    }
    bool own = row->kind == BIND_EACH_OWN;
    int r = row->kind >= BIND_EACH
                ? new_items(reader, row, n, own ? sizeof(void *) : row->table->size, object)
                : 0;
    void *items = contents_of(row, object);
    for (size_t i = 0; r == 0 && i < n; i++) {
        size_t before = reader->checker ? check_enter(reader->checker, field->name, i) : 0;
        void *item = own ? calloc(1, row->table->size) : item_of(row, items, i);
        if (own) {
            ((void **)items)[i] = item;
        }
        *count_of(row, object) = i + (item != NULL);
        r = item ? read_rows(&within, all[i], item) : fail_memory(reader);
        if (reader->checker) {
            check_leave(reader->checker, before);
        }
    }
    return r;
}

static int read_row(const struct reader *reader, const struct bind_row *row,
                    const ProtobufCFieldDescriptor *field, const void *message, void *object)
{
    if (row->kind <= BIND_FD) {
        return read_number(reader, row, field, message, object);
    }
    if (row->kind == BIND_TEXTS) {
        return read_texts(reader, row, field, message, object);
    }
    if (row->kind == BIND_ONE || row->kind == BIND_OWN) {
        return read_one(reader, row, field, message, object);
    }
    return row->table ? read_each(reader, row, field, message, object)
                      : read_text(reader, row, field, message, object);
}

/* Recurses as deep as tables nest. */
static int read_rows(const struct reader *reader, const void *message, void *object)
{
    const struct bind_table *table = reader->table;
    unsigned next = 0;
    for (size_t i = 0; i < table->n_rows; i++) {
        if (table->rows[i].kind == BIND_FD) {
            set_member_number(&table->rows[i], 0, object); /* nothing that a failure would close */
        }
    }
    for (size_t i = 0; i < table->n_rows; i++) {
        const ProtobufCFieldDescriptor *field = field_at(table->descriptor, table->rows[i].field, &next);
        int r = read_row(reader, &table->rows[i], field, message, object);
        if (r < 0) {
            return r;
        }
    }
    return table->check ? table->check(object, reader->reterr) : 0;
}

int bind_read(const struct bind_table *table, const void *message, void *ret, struct err *reterr)
{
    const struct reader reader = {.table = table, .reterr = reterr};
    memset(ret, 0, table->size);
    int r = read_rows(&reader, message, ret);
    if (r < 0) {
        bind_clear(table, ret);
    }
    return r;
}

int bind_read_config(const struct bind_table *table, const void *message, struct checker *checker, void *ret)
{
    const struct reader reader = {.table = table, .checker = checker, .reterr = checker->reterr};
    return read_rows(&reader, message, ret);
}

int bind_decode(const struct bind_table *table, const void *data, size_t size, void *ret, struct err *reterr)
{
    const struct reader reader = {.table = table, .reterr = reterr};
    ProtobufCMessage *message;
    int r = wire_unpack(table->descriptor, data, size, NULL, &message);
    if (r < 0) {
        return r == -ENOMEM ? fail_memory(&reader)
                            : wire_refuse(reterr, table->name, "is not what these bytes are");
    }
    r = bind_read(table, message, ret, reterr);
    protobuf_c_message_free_unpacked(message, NULL);
    return r;
}

static void clear_row(const struct bind_row *row, void *object)
{
    char *contents = contents_of(row, object);
    bool counted = row->kind >= BIND_EACH || row->kind == BIND_EACH_ROOM || row->kind == BIND_TEXTS;
    size_t n = !contents ? 0 : counted ? *count_of(row, object) : 1;
    for (size_t i = 0; row->table && i < n; i++) {
        bind_clear(row->table, item_of(row, contents, i));
        if (row->kind == BIND_EACH_OWN) {
            free(item_of(row, contents, i));
        }
    }
    for (size_t i = 0; row->kind == BIND_TEXTS && i < n; i++) {
        free(((char **)(void *)contents)[i]);
    }
    if (row->kind >= BIND_TEXT) {
        free(contents);
    } else if (row->kind == BIND_FD && *(int *)(void *)contents >= 0) {
        close(*(int *)(void *)contents);
    }
}

/* Recurses as deep as tables nest. */
void bind_clear(const struct bind_table *table, void *object)
{
    for (size_t i = 0; i < table->n_rows; i++) {
        const struct bind_row *row = &table->rows[i];
        if (row->kind >= BIND_FD) {
            clear_row(row, object);
        }
    }
    memset(object, 0, table->size);
}
