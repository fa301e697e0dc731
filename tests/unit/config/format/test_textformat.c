/* config/format/textformat.c and its parts: memory layout, places, messages. That it reads what protoc reads
 * is held by tests/config/test_textformat.py; under a sanitizer the mutations here look for what that cannot
 * see. */
#include "config/format/textformat.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/format/source.h"
#include "config/format/wire.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "tests/config/everything.pb-c.h"

#define EVERYTHING (&everything__everything__descriptor)

static Everything__Everything *parse(const char *text)
{
    struct err err = {0};
    CLEANUP(source_free) struct source source = SOURCE_NAMED("f");
    ProtobufCMessage *message = NULL;
    if (textformat_parse(EVERYTHING, &source, text, strlen(text), &message, &err) < 0) {
        fail_msg("%s: %s", err.item, err.text);
    }
    return (Everything__Everything *)message;
}

static void test_scalars_and_quantifiers(void **state)
{
    (void)state;
    Everything__Everything *e =
        parse("int32: -1 uint64: 0xffffffffffffffff double: .5 bool: t string: 'a' 'b' "
              "bytes: '\\000x' colour: BLUE r_int32: [1, 2, 3] r_string: ['x', 'y'] r_bytes: ''");
    assert_true(e->has_int32);
    assert_int_equal(e->int32, -1);
    assert_true(e->uint64 == UINT64_MAX);
    assert_false(e->has_int64);
    assert_true(e->double_ == 0.5);
    assert_int_equal(e->bool_, 1);
    assert_string_equal(e->string, "ab");
    assert_int_equal(e->bytes.len, 2);
    assert_memory_equal(e->bytes.data, "\0x", 2);
    assert_int_equal(e->colour, EVERYTHING__COLOUR__BLUE);
    assert_int_equal(e->n_r_int32, 3);
    assert_int_equal(e->r_int32[2], 3);
    assert_int_equal(e->n_r_string, 2);
    assert_string_equal(e->r_string[1], "y");
    assert_int_equal(e->n_r_bytes, 1);
    assert_int_equal(e->r_bytes[0].len, 0);
    everything__everything__free_unpacked(e, NULL);
}

static void test_amounts(void **state)
{
    (void)state;
    Everything__Everything *e =
        parse("size_bytes: 2GiB wait_ms: \"30s\" r_wait_ms: [5m, '1h', 7, \"7\", 0x10, 1ms]");
    assert_true(e->size_bytes == 2147483648);
    assert_int_equal(e->wait_ms, 30000);
    assert_int_equal(e->n_r_wait_ms, 6);
    static const uint64_t expected[] = {300000, 3600000, 7, 7, 16, 1};
    for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
        assert_int_equal(e->r_wait_ms[i], expected[i]);
    }
    everything__everything__free_unpacked(e, NULL);
}

static void test_defaults_and_oneof(void **state)
{
    (void)state;
    Everything__Everything *e =
        parse("defaults { text: 'mine' } choice { leaf { number: 4 } } nested { defaults {} }");
    assert_int_equal(e->defaults->number, -42);
    assert_false(e->defaults->has_number);
    assert_string_equal(e->defaults->text, "mine");
    assert_int_equal(e->defaults->data.len, 3);
    assert_string_equal(e->nested->defaults->text, "default \"text\"\n");
    assert_int_equal(e->choice->kind_case, EVERYTHING__CHOICE__KIND_LEAF);
    assert_int_equal(e->choice->leaf->number, 4);
    everything__everything__free_unpacked(e, NULL);
}

static void refused(const char *text, const char *item, const char *message)
{
    struct err err = {0};
    CLEANUP(source_free) struct source source = SOURCE_NAMED("f");
    ProtobufCMessage *parsed = NULL;
    assert_int_equal(textformat_parse(EVERYTHING, &source, text, strlen(text), &parsed, &err), -EINVAL);
    assert_null(parsed);
    assert_int_equal(err.kind, ERR_CONFIG);
    assert_string_equal(err.item, item);
    assert_string_equal(err.text, message);
}

static void test_refused_with_place_and_path(void **state)
{
    (void)state;
    refused("int32: 5\nint64: 'x'", "f:2:8", "int64: expected a whole number, got a string");
    refused("r_nested { r_leaf { number: 1 } r_leaf { number: 1.5 } }", "f:1:50",
            "r_nested[0].r_leaf[1].number: expected a whole number, got '1.5'");
    refused("strict { must: 1 }", "f:1:18", "strict: required field \"name\" is missing");
    refused("choice { number: 1 data: '' }", "f:1:20",
            "choice: field \"data\" cannot stand beside \"number\": only one of them may be given");
    refused("string: 'a\\0'", "f:1:9", "string: a string must not hold a NUL");
    refused("leaf { numbr: 1 }", "f:1:8", "leaf: Leaf has no field \"numbr\"; did you mean number?");
    refused("colour: GREE", "f:1:9", "colour: Colour has no value GREE; did you mean GREEN?");
    refused("colour: gre-en }", "f:1:9", "colour: Colour has no value gre-en; did you mean GREEN?");
    refused("colour: -9", "f:1:10", "colour: Colour has no value of number -9");
    refused("[x.y]: 1", "f:1:1", "extensions and Any are not part of this schema");
    refused("r_int32: [1 2]", "f:1:13", "r_int32: expected ',' or ']', got '2'");
    refused("int32: 99999999999", "f:1:8", "int32: 99999999999 is out of range");
    refused("uint32: -1", "f:1:9", "uint32: expected a whole number without a sign, got '-'");
    refused("double: 0x1", "f:1:9", "double: expected a decimal number, not a hexadecimal or octal one");
    refused("bool: maybe", "f:1:7", "bool: expected true or false, got 'maybe'");
    refused("uint64: 30s", "f:1:9", "uint64: expected a whole number without a sign, got '30s'");
    refused("size_bytes: 30s", "f:1:13",
            "size_bytes: 30s is a time; this is a number of bytes, alone or with B, KiB, MiB, GiB or TiB "
            "(\"512MiB\")");
    refused(
        "r_wait_ms: 1 r_wait_ms: '2MB'", "f:1:25",
        "r_wait_ms[1]: '2MB' is not a whole number of milliseconds, alone or with ms, s, m or h (\"30s\")");
    refused("size_bytes: 1.5GiB", "f:1:13",
            "size_bytes: 1.5GiB is not a whole number of bytes, alone or with B, KiB, MiB, GiB or TiB "
            "(\"512MiB\")");
    refused("wait_ms: 1200h", "f:1:10", "wait_ms: 1200h is not a whole number that the setting can hold");
    refused("size_bytes: -1KiB", "f:1:13", "size_bytes: expected a whole number without a sign, got '-'");
    refused("double: 2s", "f:1:9", "double: expected a number, got '2s'");
    refused("bool: 1s", "f:1:7", "bool: expected true or false, got '1s'");
    refused("colour: 1s", "f:1:9", "colour: expected the name or number of a value, got '1s'");
    refused("1s: 1", "f:1:1", "expected the name of a field, got '1s'");
    refused("size_bytes: 0x1KiB", "f:1:16", "a blank is needed between a number and a name");
    refused("\xc3\xa4", "f:1:1", "byte 0xc3 must not stand outside strings and comments");
}

static void test_depth(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    for (int i = 0; i < 100; i++) {
        buf_puts(&text, "nested{");
    }
    for (int i = 0; i < 100; i++) {
        buf_putc(&text, '}');
    }
    everything__everything__free_unpacked(parse(text.data), NULL);
    CLEANUP(buf_free) struct buf deeper = BUF_INIT;
    buf_printf(&deeper, "nested{%s}", text.data);
    struct err err = {0};
    CLEANUP(source_free) struct source source = SOURCE_NAMED("f");
    ProtobufCMessage *message;
    assert_int_equal(textformat_parse(EVERYTHING, &source, deeper.data, deeper.len, &message, &err), -EINVAL);
    assert_string_equal(err.item, "f:1:707");
    assert_non_null(strstr(err.text, ": nested more than 100 deep"));
}

static void test_source_knows_places(void **state)
{
    (void)state;
    static const char text[] = "leaf {\n  list: [1,\n 22]\n}\nint32: 5";
    static const struct {
        const char *path, *item;
    } cases[] = {
        {"leaf", "f:1:6"},          {"leaf.list[0]", "f:2:10"},
        {"leaf.list[1]", "f:3:2"},  {"leaf.list[1].deeper", "f:3:2"},
        {"leaf.list", "f:1:6"},     {"leaf.number", "f:1:6"},
        {"int32", "VARIABLE"},      {"int64", "f"},
        {"leaf.list[11]", "f:1:6"}, {"", "f"},
    };
    CLEANUP(source_free) struct source source = SOURCE_NAMED("f");
    ProtobufCMessage *message;
    assert_int_equal(textformat_parse(EVERYTHING, &source, text, sizeof text - 1, &message, NULL), 0);
    protobuf_c_message_free_unpacked(message, NULL);
    assert_int_equal(source_note_variable(&source, "int32", "VARIABLE"), 0);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct err err = {0};
        assert_int_equal(source_fail(&source, cases[i].path, &err, "is %s", "wrong"), -EINVAL);
        assert_string_equal(err.item, cases[i].item);
        assert_non_null(strstr(err.text, "is wrong"));
    }
}

/* Where errors are gathered, what lies behind one is read all the same. */
static void test_errors_are_gathered(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n;
        bool incomplete;
        const char *last;
    } cases[] = {
        {"int32: 5 nothing: 1 none { a: [1, {b: 2}] } leaf { zero: 'a' 'b', number: 1 }", 3, false, "f:1:52"},
        {"int32: 'five' nothing <a: -1> leaf { list: [1, 'two', 3] number: 1.5 }", 4, true, "f:1:66"},
        {"nothing: -inf; no: -5; int32: 5", 2, false, "f:1:16"},
        /* Behind these nothing can be told any more. */
        {"nothing { ( ", 1, true, "f:1:1"},
        {"nothing: ] int32: 'a'", 1, true, "f:1:1"},
        {"nothing: 'a", 1, true, "f:1:12"},
        {"int32: 'a", 1, true, "f:1:10"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        CLEANUP(source_errors_clear) struct source_errors errors = {0};
        CLEANUP(source_free) struct source source = {.name = "f", .errors = &errors};
        ProtobufCMessage *message = NULL;
        struct err err = {0};
        int r = textformat_parse(EVERYTHING, &source, cases[i].text, strlen(cases[i].text), &message, &err);
        assert_int_equal(r < 0, cases[i].incomplete);
        assert_int_equal(errors.incomplete, cases[i].incomplete);
        assert_int_equal(errors.n, cases[i].n);
        assert_string_equal(err_is_set(&err) ? err.item : errors.rows[errors.n - 1].item, cases[i].last);
        if (r == 0) {
            assert_int_equal(((Everything__Everything *)message)->int32, 5);
            protobuf_c_message_free_unpacked(message, NULL);
        }
    }
}

static void test_did_you_mean(void **state)
{
    (void)state;
    static const char *const names[] = {"memory_bytes", "pids", "cpu_percent", "cpu_ms", "timeout_ms", "a"};
    static const struct {
        const char *word, *meant;
    } cases[] = {
        {"memory_byte", "memory_bytes"},
        {"memoryBytes", "memory_bytes"},
        {"MEMORY-BYTES", "memory_bytes"},
        {"pid", "pids"},
        {"pisd", "pids"},
        {"cpu_precent", "cpu_percent"},
        {"timeout", "timeout_ms"},
        {"time_out_ms", "timeout_ms"},
        {"unrelated", NULL},
        {"", NULL},
        {"b", NULL},
        {"PIDS", "pids"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const char *meant = textformat_did_you_mean(cases[i].word, names, ARRAY_SIZE(names));
        if ((meant == NULL) != (cases[i].meant == NULL) || (meant && strcmp(meant, cases[i].meant) != 0)) {
            fail_msg("%s: %s", cases[i].word, meant ? meant : "nothing");
        }
    }
    char large[300];
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    assert_null(textformat_did_you_mean(large, names, ARRAY_SIZE(names)));
}

static const char seed[] =
    "int32: -0x7f # comment\nstring: \"a\\u00e4\\ud83d\\ude00\\x41\\101\" 'b';\n"
    "r_leaf: [{ number: 1, list: [1, 2] }, < text: 'x' >], defaults < real: -inf >\n"
    "choice { colour: BLUE } strict { must: 1 name: 'a' leaf {} } p_double: [1e5f, .5, nan]\n"
    "r_nested { r_nested { r_bytes: ['', '\\000'] } } bool: t size_bytes: 5MiB wait_ms: '7s'\n";

/* What is accepted, packs, is accepted by protobuf-c's own reader, and is freed without a trace. */
static void test_mutations(void **state)
{
    (void)state;
    uint64_t random = 0x2545f4914f6cdd1du;
    size_t accepted = 0;
    for (int i = 0; i < 20000; i++) {
        const size_t whole = sizeof seed - 1;
        size_t size = (random >> 40) % 5 == 0 ? (random >> 30) % whole : whole;
        char *text = malloc(whole);
        assert_non_null(text);
        memcpy(text, seed, whole);
        for (unsigned n = 0; n < 1 + (random >> 63); n++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            text[(random >> 33) % whole] =
                random & (1u << 20) ? seed[(random >> 41) % whole] : (char)(random >> 50);
        }
        CLEANUP(source_errors_clear) struct source_errors errors = {0};
        CLEANUP(source_free) struct source source = {.name = "f", .errors = i % 2 == 0 ? NULL : &errors};
        CLEANUP(buf_free) struct buf packed = BUF_INIT;
        ProtobufCMessage *message;
        struct err err = {0};
        /* Cut short at its front, so that it ends where its memory does and a sanitizer sees any look behind
         * that. */
        if (textformat_parse(EVERYTHING, &source, text + whole - size, size, &message, &err) == 0) {
            accepted++;
            assert_int_equal(wire_pack(message, &packed), 0);
            protobuf_c_message_free_unpacked(message, NULL);
            message = protobuf_c_message_unpack(EVERYTHING, NULL, packed.len, (uint8_t *)packed.data);
            assert_non_null(message);
            protobuf_c_message_free_unpacked(message, NULL);
        } else {
            assert_true(err.kind == ERR_CONFIG || errors.n > 0);
        }
        free(text);
    }
    assert_true(accepted > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalars_and_quantifiers),
        cmocka_unit_test(test_defaults_and_oneof),
        cmocka_unit_test(test_amounts),
        cmocka_unit_test(test_refused_with_place_and_path),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_source_knows_places),
        cmocka_unit_test(test_errors_are_gathered),
        cmocka_unit_test(test_did_you_mean),
        cmocka_unit_test(test_mutations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
