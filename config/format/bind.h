/* struct bind_table: what a plain struct and a protobuf-c message have in common, as rows, so that nobody
 * copies from one to the other by hand. A row names a member and a field; the descriptor says how the field
 * is encoded, and the row what it may hold. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ProtobufCMessageDescriptor;
struct buf;
struct checker;
struct err;
struct pool;

enum bind_kind {
    BIND_BOOL,
    BIND_UNSIGNED, /* and enums; of 4 or 8 bytes, as the next one */
    BIND_SIGNED,
    BIND_FD, /* int; in the message whether it travels beside it */
    /* In place: */
    BIND_ROOM,      /* char[N] with a NUL at its end */
    BIND_DATA_ROOM, /* char[N] and a count: no NUL in it, nor behind it */
    BIND_HASH,      /* unsigned char[SHA256_BYTES]; in the message its digits */
    BIND_ONE,       /* a struct */
    BIND_EACH_ROOM, /* T[N] and a count */
    /* Owned, behind a pointer: */
    BIND_TEXT,     /* char * */
    BIND_DATA,     /* char * and a count: any bytes, and a NUL behind them */
    BIND_TEXTS,    /* char ** and a count */
    BIND_OWN,      /* a struct * */
    BIND_EACH,     /* T * and a count */
    BIND_EACH_OWN, /* T ** and a count: each owned for itself */
};

/* As a descriptor that was read: it has come beside the message and is to be put into its place. */
#define BIND_FD_TO_COME (-2)

/* When an optional field is there. */
enum bind_presence {
    BIND_UNLESS_EMPTY, /* 0, false, NULL and, for BIND_ROOM, "" are said by leaving it out, and in no other
                          way */
    BIND_ALWAYS,       /* written in any case; one that is left out has the schema's default */
    BIND_BY_FLAG,      /* as the bool at `beside` says */
    BIND_BY_TEXT,      /* where the text at `beside` is not NULL, and in no other case */
    BIND_BY_CASE,      /* where the enum at `beside` has one of `cases`, and in no other case */
};

struct bind_row {
    size_t field;        /* offset in the message's struct */
    size_t offset, size; /* of the member */
    enum bind_kind kind;
    enum bind_presence presence;
    size_t count; /* offset of the size_t */
    size_t beside;
    uint32_t cases;                 /* bits */
    const struct bind_table *table; /* of what is nested */
    int shift;                      /* what the message's number is greater by than the member's */
    bool or_zero;                   /* 0 is allowed as well as what the bounds allow */
    int64_t least;                  /* of numbers, in the message's terms; of texts, bytes */
    uint64_t most;                  /* the same; of lists, items; 0: as many as the member can hold */
    bool (*valid)(const char *text);
    const char *why; /* what is said of a text that is not valid, or of a number out of bounds */
};

struct bind_table {
    const char *name; /* errors about a field have it before the field's own, and a dot between */
    const struct ProtobufCMessageDescriptor *descriptor;
    size_t size; /* of the struct */
    const struct bind_row *rows;
    size_t n_rows;
    int (*check)(const void *object, struct err *reterr); /* what belongs together, once all rows are read */
    bool whole; /* that a field is there without need, or missing, is said of the message and not of the field
                 */
};

#define BIND_TABLE_OF(type, fields, all_rows)                                                                \
    .descriptor = &(fields), .size = sizeof(type), .rows = (all_rows),                                       \
    .n_rows = sizeof(all_rows) / sizeof *(all_rows)

#define BIND_KIND_OF(type, member)                                                                           \
    _Generic(&((type *)0)->member,                                                                           \
        bool *: BIND_BOOL,                                                                                   \
        uint32_t *: BIND_UNSIGNED,                                                                           \
        uint64_t *: BIND_UNSIGNED,                                                                           \
        int32_t *: BIND_SIGNED,                                                                              \
        char **: BIND_TEXT,                                                                                  \
        default: BIND_ROOM)

#define BIND_PLACE(type, message, own, theirs)                                                               \
    .field = offsetof(message, theirs), .offset = offsetof(type, own), .size = sizeof(((type *)0)->own)

/* A number, an enum, or a text, by the member's type. */
#define BIND(type, message, own, theirs, ...)                                                                \
    {                                                                                                        \
        BIND_PLACE(type, message, own, theirs), .kind = BIND_KIND_OF(type, own), __VA_ARGS__                 \
    }
/* Of another kind, without a count and with one. */
#define BIND_AS(as, type, message, own, theirs, ...)                                                         \
    {                                                                                                        \
        BIND_PLACE(type, message, own, theirs), .kind = (as), __VA_ARGS__                                    \
    }
#define BIND_SOME(as, type, message, own, number, theirs, ...)                                               \
    {                                                                                                        \
        BIND_PLACE(type, message, own, theirs), .kind = (as), .count = offsetof(type, number), __VA_ARGS__   \
    }
/* As the last arguments of a row. */
#define BIND_FLAG(type, flag) .presence = BIND_BY_FLAG, .beside = offsetof(type, flag)
#define BIND_WITH(type, text) .presence = BIND_BY_TEXT, .beside = offsetof(type, text)
#define BIND_CASES(type, tag, ...)                                                                           \
    .presence = BIND_BY_CASE, .beside = offsetof(type, tag), .cases = (__VA_ARGS__)

/* Fills the message, with all that it was. Texts stay the struct's own, the rest lies in the pool, where a
 * failure sticks. */
void bind_write(const struct bind_table *table, const void *object, struct pool *pool, void *ret_message);
/* Fills the struct with copies. ERR_INVALID names the field that no honest peer would have sent; all of
 * `*ret` is zero then. */
int bind_read(const struct bind_table *table, const void *message, void *ret, struct err *reterr);
/* The same of a configuration: ERR_CONFIG at the field's place, in the words of check.h. Other members of
 * `*ret` are left as they are, and what was read before a failure is there to be freed. */
int bind_read_config(const struct bind_table *table, const void *message, struct checker *checker, void *ret);
/* Frees what the rows own, closes their descriptors, and makes the whole struct zero. */
void bind_clear(const struct bind_table *table, void *object);

/* Appends it packed. -ENOMEM. */
int bind_encode(const struct bind_table *table, const void *object, struct buf *ret);
/* ERR_INVALID also for bytes that bind_encode() would not have written. */
int bind_decode(const struct bind_table *table, const void *data, size_t size, void *ret, struct err *reterr);
