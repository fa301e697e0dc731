/* config/format/bind.c and bind_write.c: what a table says is what goes to a message and what comes from one.
 */
#include "config/format/bind.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/format/check.h"
#include "config/format/digest.h"
#include "config/format/pool.h"
#include "config/format/source.h"
#include "config/format/wire.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "tests/config/everything.pb-c.h"

/* ---- Memory that runs out ---- */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTS_MEMORY 1
static long allocations_left = -1, n_alive; /* -1: any number */

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void __libc_free(void *);

static bool is_out(void)
{
    if (allocations_left == 0) {
        return true;
    }
    allocations_left -= allocations_left > 0;
    n_alive++;
    return false;
}

void *malloc(size_t size)
{
    return is_out() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return is_out() ? NULL : __libc_calloc(n, size);
}

void free(void *pointer)
{
    n_alive -= pointer != NULL;
    __libc_free(pointer);
}
#else
#define COUNTS_MEMORY 0
static long allocations_left, n_alive;
#endif

/* ---- Tables ---- */

typedef Everything__Everything Message;

struct leaf {
    int number;
    char *text;
};

struct strict {
    int fd;
    char name[4];
    struct leaf leaf;
};

enum tag { TAG_NONE, TAG_SIZED, TAG_COUNT };

struct all {
    int i32;
    uint32_t u32;
    uint64_t u64;
    bool yes, has_wait;
    uint32_t wait_ms;
    char room[4];
    char *data;
    size_t data_size;
    unsigned colour; /* from GREEN on */
    struct leaf leaf;
    struct strict *strict;
    char **texts, **raw;
    size_t n_texts, n_raw;
    struct leaf *leaves;
    size_t n_leaves;
    struct strict two[2];
    size_t n_two;
    char *url;
    int with_url;
    enum tag tag;
    uint64_t sized;
};

static bool has_no_x(const char *text)
{
    return !strchr(text, 'x');
}

static const struct bind_row leaf_rows[] = {
    BIND(struct leaf, Everything__Leaf, number, number, .least = INT32_MIN),
    BIND(struct leaf, Everything__Leaf, text, text, .most = 5, .valid = has_no_x, .why = "has an x"),
};
static const struct bind_table leaf_table = {
    .name = "all.leaf", BIND_TABLE_OF(struct leaf, everything__leaf__descriptor, leaf_rows)};

static const struct bind_row strict_rows[] = {
    BIND(struct strict, Everything__Strict, name, name),
    BIND_AS(BIND_FD, struct strict, Everything__Strict, fd, must),
    BIND_AS(BIND_ONE, struct strict, Everything__Strict, leaf, leaf, .table = &leaf_table),
};
static const struct bind_table strict_table = {
    .name = "all.strict", BIND_TABLE_OF(struct strict, everything__strict__descriptor, strict_rows)};

static int check_all(const void *object, struct err *reterr)
{
    const struct all *all = object;
    return all->u32 == 13 ? err_set(reterr, ERR_INVALID, EBADMSG, "all", "does not go together") : 0;
}

#define ROW(own, theirs, ...)         BIND(struct all, Message, own, theirs, __VA_ARGS__)
#define SOME(as, own, n, theirs, ...) BIND_SOME(as, struct all, Message, own, n, theirs, __VA_ARGS__)
static const struct bind_row all_rows[] = {
    ROW(i32, int32, .least = -5, .most = 9),
    ROW(tag, uint32, .most = TAG_COUNT - 1),
    ROW(sized, size_bytes, BIND_CASES(struct all, tag, 1u << TAG_SIZED)),
    ROW(u32, fixed32),
    ROW(u64, uint64),
    ROW(yes, bool_),
    ROW(wait_ms, wait_ms, BIND_FLAG(struct all, has_wait)),
    ROW(room, string),
    SOME(BIND_DATA, data, data_size, bytes, .most = 6),
    ROW(colour, colour, .presence = BIND_ALWAYS, .shift = 1, .least = 1, .most = 2),
    BIND_AS(BIND_ONE, struct all, Message, leaf, leaf, .table = &leaf_table),
    BIND_AS(BIND_OWN, struct all, Message, strict, strict, .table = &strict_table),
    SOME(BIND_TEXTS, texts, n_texts, r_string, .most = 2),
    SOME(BIND_TEXTS, raw, n_raw, r_bytes),
    SOME(BIND_EACH, leaves, n_leaves, r_leaf, .table = &leaf_table, .most = 3),
    SOME(BIND_EACH_ROOM, two, n_two, r_strict, .table = &strict_table),
    ROW(url, type_url),
    ROW(with_url, inf, BIND_WITH(struct all, url)),
};
static const struct bind_table all_table = {
    .name = "all",
    BIND_TABLE_OF(struct all, everything__everything__descriptor, all_rows),
    .check = check_all};

struct hashed {
    unsigned char hash[SHA256_BYTES];
    char begin[3];
    size_t begin_size;
};
static const struct bind_row hashed_rows[] = {
    BIND_AS(BIND_HASH, struct hashed, Message, hash, string),
    BIND_SOME(BIND_DATA_ROOM, struct hashed, Message, begin, begin_size, bytes),
};
static const struct bind_table hashed_table = {
    .name = "hashed", BIND_TABLE_OF(struct hashed, everything__everything__descriptor, hashed_rows)};

struct owned {
    struct leaf **leaves;
    size_t n;
};
static const struct bind_row owned_rows[] = {
    BIND_SOME(BIND_EACH_OWN, struct owned, Message, leaves, n, r_leaf, .table = &leaf_table)};
static const struct bind_table owned_table = {
    .name = "owned", BIND_TABLE_OF(struct owned, everything__everything__descriptor, owned_rows)};

static char one[] = "one", two[] = "", raw[] = "\xff\x01", leaf_text[] = "leaf", url[] = "/";
static char data[] = "a\0b";
static char *texts[] = {one, two}, *raws[] = {raw};
static struct leaf leaves[] = {{1, leaf_text}, {INT32_MIN, NULL}, {0, one}};
static struct strict strict = {.fd = -1, .name = "str", .leaf = {.number = 3}};

static struct all a_full_one(void)
{
    return (struct all){
        .i32 = -5,
        .u32 = UINT32_MAX,
        .u64 = UINT64_MAX,
        .yes = true,
        .has_wait = true, /* and it is 0 */
        .room = "abc",
        .data = data,
        .data_size = 3,
        .colour = 1,
        .leaf = {7, leaf_text},
        .strict = &strict,
        .texts = texts,
        .n_texts = 2,
        .raw = raws,
        .n_raw = 1,
        .leaves = leaves,
        .n_leaves = 3,
        .two = {{.fd = -1}, {.fd = 0, .name = "b"}},
        .n_two = 2,
        .url = url,
        .tag = TAG_SIZED,
    };
}

/* ---- Tests ---- */

static void test_round_trip(void **state)
{
    (void)state;
    const struct all full = a_full_one();
    struct all all;
    CLEANUP(buf_free) struct buf packed = BUF_INIT, again = BUF_INIT;
    assert_int_equal(bind_encode(&all_table, &full, &packed), 0);
    struct err err = {0};
    if (bind_decode(&all_table, packed.data, packed.len, &all, &err) != 0) {
        fail_msg("%s: %s", err.item, err.text);
    }
    assert_int_equal(all.i32, -5);
    assert_int_equal(all.u32, UINT32_MAX);
    assert_true(all.u64 == UINT64_MAX);
    assert_true(all.yes && all.has_wait && all.wait_ms == 0);
    assert_string_equal(all.room, "abc");
    assert_int_equal(all.data_size, 3);
    assert_memory_equal(all.data, "a\0b", 4); /* with a NUL behind it */
    assert_int_equal(all.colour, 1);
    assert_string_equal(all.leaf.text, "leaf");
    assert_string_equal(all.strict->name, "str");
    assert_int_equal(all.strict->leaf.number, 3);
    assert_null(all.strict->leaf.text);
    assert_int_equal(all.n_texts, 2);
    assert_string_equal(all.texts[1], "");
    assert_string_equal(all.raw[0], raw);
    assert_int_equal(all.n_leaves, 3);
    assert_int_equal(all.leaves[1].number, INT32_MIN);
    assert_int_equal(all.n_two, 2);
    assert_int_equal(all.two[0].fd, -1);
    assert_int_equal(all.two[1].fd, BIND_FD_TO_COME);
    assert_int_equal(all.tag, TAG_SIZED);
    assert_string_equal(all.url, "/");
    all.two[1].fd = dup(0);
    int fd = all.two[1].fd;
    assert_int_equal(bind_encode(&all_table, &all, &again), 0);
    assert_int_equal(again.len, packed.len);
    assert_memory_equal(again.data, packed.data, packed.len);
    bind_clear(&all_table, &all);
    assert_int_equal(close(fd), -1); /* it was closed */
    assert_memory_equal(&all, &(struct all){0}, sizeof all);
    bind_clear(&all_table, &all);
}

/* What is empty is left out, and is empty when it was left out. */
static void test_empty(void **state)
{
    (void)state;
    const struct all none = {0};
    struct all all;
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    assert_int_equal(bind_encode(&all_table, &none, &packed), 0);
    assert_int_equal(packed.len, 6); /* the colour, and an empty leaf */
    assert_int_equal(bind_decode(&all_table, packed.data, packed.len, &all, NULL), 0);
    assert_memory_equal(&all, &none, sizeof all);

    struct hashed hashed = {.hash = {0xab}, .begin = "xyz", .begin_size = 3}, same;
    packed.len = 0;
    assert_int_equal(bind_encode(&hashed_table, &hashed, &packed), 0);
    assert_int_equal(bind_decode(&hashed_table, packed.data, packed.len, &same, NULL), 0);
    assert_memory_equal(same.hash, hashed.hash, sizeof same.hash);
    assert_memory_equal(same.begin, "xyz", 3);
    assert_int_equal(same.begin_size, 3);
}

static void test_pointers(void **state)
{
    (void)state;
    struct leaf *pointers[] = {&leaves[0], &leaves[2]};
    const struct owned owned = {pointers, 2};
    struct owned same;
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    assert_int_equal(bind_encode(&owned_table, &owned, &packed), 0);
    assert_int_equal(bind_decode(&owned_table, packed.data, packed.len, &same, NULL), 0);
    assert_int_equal(same.n, 2);
    assert_int_equal(same.leaves[0]->number, 1);
    assert_string_equal(same.leaves[1]->text, "one");
    long before = n_alive;
    bind_clear(&owned_table, &same);
    assert_true(!COUNTS_MEMORY || before - n_alive == 5);
    assert_null(same.leaves);
}

static Message a_message(void)
{
    Message message;
    everything__everything__init(&message);
    message.has_colour = true;
    message.colour = EVERYTHING__COLOUR__GREEN;
    return message;
}

/* Reading the message is refused for `item` ("": nothing is wrong with it), and leaves nothing. */
static void offer(const Message *message, const char *item)
{
    struct err err = {0};
    struct all all;
    memset(&all, 0x55, sizeof all);
    assert_int_equal(bind_read(&all_table, message, &all, &err), *item ? -EBADMSG : 0);
    assert_string_equal(err.item, item);
    if (*item) {
        assert_memory_equal(&all, &(struct all){0}, sizeof all);
    }
    bind_clear(&all_table, &all);
}

static void test_numbers_refused(void **state)
{
    (void)state;
    Message message = a_message();
    offer(&message, "");
    message.has_int32 = true;
    offer(&message, "all.int32"); /* 0 is said by leaving it out */
    message.int32 = 9;
    offer(&message, "");
    message.int32 = 10;
    offer(&message, "all.int32");
    message.int32 = -6;
    offer(&message, "all.int32");
    message.has_int32 = false;
    offer(&message, "");
    message.has_size_bytes = true;
    offer(&message, "all.size_bytes"); /* it belongs to a tag that is not there */
    message.has_uint32 = true;
    message.uint32 = TAG_SIZED;
    offer(&message, "");
    message.has_size_bytes = false;
    offer(&message, "all.size_bytes");
    message = a_message();
    message.has_bool_ = true;
    offer(&message, "all.bool");
    message = a_message();
    message.has_inf = true;
    offer(&message, "all.inf"); /* it belongs to a text that is not there */
    message = a_message();
    message.colour = EVERYTHING__COLOUR__RED;
    offer(&message, "all.colour");
    message.colour = EVERYTHING__COLOUR__NEGATIVE;
    offer(&message, "all.colour");
    message = a_message();
    message.has_fixed32 = true;
    message.fixed32 = 13;
    offer(&message, "all"); /* by the table's own check */
}

static void test_texts_refused(void **state)
{
    (void)state;
    static char empty[] = "", four[] = "four", long_text[] = "longer", x[] = "x";
    char *strings[] = {x, x, x};
    ProtobufCBinaryData nul = {.len = 3, .data = (uint8_t *)data};
    Everything__Leaf leaf = EVERYTHING__LEAF__INIT, *leaf_rows_of[] = {&leaf, &leaf, &leaf, &leaf};
    Everything__Strict row = EVERYTHING__STRICT__INIT, *rows[] = {&row, &row, &row};
    Message message = a_message();
    message.string = empty;
    offer(&message, "all.string");
    message.string = four; /* and a NUL */
    offer(&message, "all.string");
    message.string = four + 1;
    message.has_bytes = true;
    message.bytes = nul;
    offer(&message, "");
    message.bytes = (ProtobufCBinaryData){.len = 7, .data = (uint8_t *)long_text};
    offer(&message, "all.bytes");
    message.has_bytes = false;
    message.leaf = &leaf;
    leaf.text = x;
    offer(&message, "all.leaf.text");
    leaf.text = long_text;
    offer(&message, "all.leaf.text");
    leaf.text = empty;
    message.r_string = strings;
    message.n_r_string = 3;
    offer(&message, "all.r_string");
    message.n_r_string = 2;
    message.r_bytes = &nul;
    message.n_r_bytes = 1;
    offer(&message, "all.r_bytes");
    message.n_r_bytes = 0;
    message.r_leaf = leaf_rows_of;
    message.n_r_leaf = 4;
    offer(&message, "all.r_leaf");
    message.n_r_leaf = 3;
    row.name = empty;
    row.leaf = &leaf;
    message.r_strict = rows;
    message.n_r_strict = 3;
    offer(&message, "all.r_strict");
    message.n_r_strict = 2;
    offer(&message, "");
    row.name = four; /* before its descriptor is looked at: nothing is closed */
    offer(&message, "all.strict.name");
    assert_int_not_equal(dup2(0, 0), -1);

    struct hashed hashed;
    char hex[] = "00000000000000000000000000000000000000000000000000000000000000AB";
    message = a_message();
    message.string = hex;
    assert_int_equal(bind_read(&hashed_table, &message, &hashed, NULL), -EBADMSG);
    hex[62] = hex[63] = 'b';
    assert_int_equal(bind_read(&hashed_table, &message, &hashed, NULL), 0);
    hex[63] = '\0';
    assert_int_equal(bind_read(&hashed_table, &message, &hashed, NULL), -EBADMSG);
}

static void test_bytes_refused(void **state)
{
    (void)state;
    struct err err = {0};
    struct all all;
    assert_int_equal(bind_decode(&all_table, "\xf8\x3f\x01", 3, &all, &err), -EBADMSG); /* an unknown field */
    assert_int_equal(err.kind, ERR_INVALID);
    assert_string_equal(err.item, "all");
}

/* A configuration's errors have its words and its place, and numbers left out the schema's default. */
static void test_configuration(void **state)
{
    (void)state;
    static const struct bind_row rows[] = {
        BIND(struct all, Everything__Defaults, i32, number, .presence = BIND_ALWAYS, .least = -100),
        BIND(struct all, Everything__Defaults, yes, yes, .presence = BIND_ALWAYS),
        BIND(struct all, Everything__Defaults, u64, large, .presence = BIND_ALWAYS, .least = 5, .most = 7,
             .or_zero = true),
        BIND(struct all, Everything__Defaults, url, text),
    };
    static const struct bind_table table = {
        .name = "defaults", BIND_TABLE_OF(struct all, everything__defaults__descriptor, rows)};
    struct err err = {0};
    CLEANUP(source_free) struct source source = SOURCE_NAMED("file");
    struct checker checker = {.source = &source, .reterr = &err};
    Everything__Defaults message = EVERYTHING__DEFAULTS__INIT;
    struct all all = {.u32 = 3};
    message.has_large = true;
    message.large = 8;
    assert_true(bind_read_config(&table, &message, &checker, &all) < 0);
    assert_int_equal(err.kind, ERR_CONFIG);
    assert_string_equal(err.item, "file");
    assert_string_equal(err.text, "large: must be 5 to 7, not 8");
    message.large = 0;
    assert_int_equal(bind_read_config(&table, &message, &checker, &all), 0);
    assert_int_equal(all.i32, -42);
    assert_true(all.yes);
    assert_int_equal(all.u64, 0);
    assert_string_equal(all.url, "default \"text\"\n");
    assert_int_equal(all.u32, 3); /* no row's */
    bind_clear(&table, &all);
}

/* Merging what comes twice would take quadratic time: it is refused before anything is unpacked. */
static void test_twice_costs_nothing(void **state)
{
    (void)state;
    const struct all full = a_full_one();
    CLEANUP(buf_free) struct buf packed = BUF_INIT, twice = BUF_INIT;
    assert_int_equal(bind_encode(&all_table, &full, &packed), 0);
    buf_append(&twice, packed.data, packed.len);
    buf_append(&twice, packed.data, packed.len);
    assert_false(twice.failed);
    ProtobufCMessage *message;
    allocations_left = 1000;
    int r = wire_unpack(all_table.descriptor, twice.data, twice.len, NULL, &message);
    long left = allocations_left;
    allocations_left = -1;
    assert_int_equal(r, -EBADMSG);
    assert_int_equal(left, 1000);
}

/* With each allocation failing in turn, writing and reading fail, and leave nothing behind. */
static void test_out_of_memory(void **state)
{
    (void)state;
    if (!COUNTS_MEMORY) {
        skip();
    }
    const struct all full = a_full_one();
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    assert_int_equal(bind_encode(&all_table, &full, &packed), 0);
    Message *message = everything__everything__unpack(NULL, packed.len, (const uint8_t *)packed.data);
    assert_non_null(message);
    long n_failed = 0;
    for (int r = -ENOMEM; r < 0; n_failed += r < 0) {
        struct all all;
        struct err err = {0};
        long before = n_alive;
        allocations_left = n_failed;
        r = bind_read(&all_table, message, &all, &err);
        allocations_left = -1;
        assert_true(r == 0 || r == -ENOMEM);
        bind_clear(&all_table, &all);
        assert_int_equal(n_alive, before);
    }
    assert_true(n_failed > 10);
    struct buf none = BUF_INIT;
    allocations_left = 0;
    int r = bind_encode(&all_table, &full, &none);
    allocations_left = -1;
    assert_int_equal(r, -ENOMEM);
    buf_free(&none);
    everything__everything__free_unpacked(message, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_empty),
        cmocka_unit_test(test_pointers),      cmocka_unit_test(test_numbers_refused),
        cmocka_unit_test(test_texts_refused), cmocka_unit_test(test_bytes_refused),
        cmocka_unit_test(test_configuration), cmocka_unit_test(test_twice_costs_nothing),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
