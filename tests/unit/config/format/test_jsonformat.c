/* config/format/jsonformat.c: each JSON text gives the very message that a text in protobuf's own format
 * gives. */
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

typedef int (*reader)(const ProtobufCMessageDescriptor *, struct source *, const char *, size_t,
                      ProtobufCMessage **, struct err *);

static void pack(reader read, const char *text, struct buf *ret)
{
    struct err err = {0};
    CLEANUP(source_free) struct source source = SOURCE_NAMED("f");
    ProtobufCMessage *message;
    if (read(EVERYTHING, &source, text, strlen(text), &message, &err) < 0) {
        fail_msg("%s: %s: %s", text, err.item, err.text);
    }
    assert_int_equal(wire_pack(message, ret), 0);
    protobuf_c_message_free_unpacked(message, NULL);
}

static void test_same_message_as_text(void **state)
{
    (void)state;
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"{}", ""},
        {"{\"int32\": -5, \"uint64\": 18446744073709551615}", "int32: -5 uint64: 18446744073709551615"},
        {"{\"int64\": \"-9223372036854775808\", \"uint64\": \"7\", \"int32\": \"-1\"}",
         "int64: -9223372036854775808 uint64: 7 int32: -1"},
        {"{\"int32\": 1e2, \"sint64\": -3.0}", "int32: 100 sint64: -3"},
        {"{\"sizeBytes\": \"2GiB\", \"wait_ms\": \"30s\", \"r_wait_ms\": [\"5m\", \"7\", 7]}",
         "size_bytes: 2147483648 wait_ms: 30000 r_wait_ms: [300000, 7, 7]"},
        {"{\"double\": 0.1, \"float\": 1e10}", "double: 0.1 float: 1e10"},
        {"{\"rDouble\": [\"NaN\", \"Infinity\", \"-Infinity\", \"1.5\"]}", "r_double: [nan, inf, -inf, 1.5]"},
        {"{\"float\": \"-Infinity\"}", "float: -inf"},
        {"{\"bool\": true, \"r_bool\": [false, true]}", "bool: true r_bool: [false, true]"},
        {"{\"string\": \"\\u00e4\", \"bytes\": \"AAH/\"}", "string: '\\u00e4' bytes: '\\000\\001\\377'"},
        {"{\"bytes\": \"-_8\"}", "bytes: '\\373\\377'"},
        {"{\"bytes\": \"\"}", "bytes: ''"},
        {"{\"colour\": \"LIME\", \"r_colour\": [-7, \"BLUE\", 1]}",
         "colour: LIME r_colour: [-7, BLUE, GREEN]"},
        {"{\"leaf\": {\"number\": 1}, \"rLeaf\": [{}, {\"list\": [1, 2]}]}",
         "leaf { number: 1 } r_leaf: [{}, { list: [1, 2] }]"},
        {"{\"int32\": null, \"leaf\": null, \"r_int32\": null, \"r_leaf\": []}", ""},
        {"{\"choice\": {\"before\": \"a\", \"leaf\": {}, \"number\": null}}",
         "choice { before: 'a' leaf {} }"},
        {"{\"strict\": {\"must\": 0, \"name\": \"\", \"leaf\": {}}}", "strict { must: 0 name: '' leaf {} }"},
        {"{\"defaults\": {\"text\": \"\"}}", "defaults { text: '' }"},
        {"{\"UnderScore\": 3, \"typeUrl\": \"x\", \"pInt32\": [1]}",
         "_under_score: 3 type_url: 'x' p_int32: 1"},
        {"{\"nested\": {\"rNested\": [{\"int32\": 1}]}}", "nested { r_nested { int32: 1 } }"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        CLEANUP(buf_free) struct buf from_json = BUF_INIT, from_text = BUF_INIT;
        pack(jsonformat_parse, cases[i].json, &from_json);
        pack(textformat_parse, cases[i].text, &from_text);
        if (from_json.len != from_text.len || memcmp(from_json.data, from_text.data, from_json.len) != 0) {
            fail_msg("%s is not %s", cases[i].json, cases[i].text);
        }
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *json, *item, *text;
    } cases[] = {
        {"[]", "f:1:1", "expected an object, got an array"},
        {"{\"int32\": }", "f:1:11", "expected a value"},
        {"{\n \"int33\": 1}", "f:2:11", "Everything has no field \"int33\"; did you mean int32?"},
        {"{\"leaf\": {\"x\": 1}}", "f:1:16", "leaf: Leaf has no field \"x\""},
        {"{\"int32\": \"x\"}", "f:1:11", "int32: not a whole number that this field can hold"},
        {"{\"int32\": \" 1\"}", "f:1:11", "int32: not a whole number that this field can hold"},
        {"{\"int32\": \"\"}", "f:1:11", "int32: not a whole number that this field can hold"},
        {"{\"int32\": \"1.0\"}", "f:1:11", "int32: not a whole number that this field can hold"},
        {"{\"int32\": 1.5}", "f:1:11", "int32: not a whole number that this field can hold"},
        {"{\"int32\": 2147483648}", "f:1:11", "int32: not a whole number that this field can hold"},
        {"{\"uint32\": -1}", "f:1:12", "uint32: not a whole number that this field can hold"},
        {"{\"uint64\": 18446744073709551616}", "f:1:12",
         "uint64: not a whole number that this field can hold"},
        {"{\"int32\": true}", "f:1:11", "int32: expected a whole number, got true or false"},
        {"{\"float\": 1e39}", "f:1:11", "float: not a number that this field can hold"},
        {"{\"double\": 1e400}", "f:1:12", "double: not a number that this field can hold"},
        {"{\"double\": \"inf\"}", "f:1:12", "double: not a number that this field can hold"},
        {"{\"double\": \"\"}", "f:1:12", "double: not a number that this field can hold"},
        {"{\"double\": \"0x10\"}", "f:1:12", "double: not a number that this field can hold"},
        {"{\"double\": []}", "f:1:12", "double: expected a number, got an array"},
        {"{\"bool\": \"true\"}", "f:1:10", "bool: expected true or false, got a string"},
        {"{\"bool\": 1}", "f:1:10", "bool: expected true or false, got a number"},
        {"{\"string\": 1}", "f:1:12", "string: expected a string, got a number"},
        {"{\"bytes\": \"A\"}", "f:1:11", "bytes: not base64"},
        {"{\"bytes\": \"AB=\"}", "f:1:11", "bytes: not base64"},
        {"{\"bytes\": 5}", "f:1:11", "bytes: expected base64 in a string, got a number"},
        {"{\"colour\": \"BLU\"}", "f:1:12", "colour: Colour has no value BLU; did you mean BLUE?"},
        {"{\"colour\": 9}", "f:1:12", "colour: Colour has no value of this number"},
        {"{\"colour\": false}", "f:1:12",
         "colour: expected the name or number of a value, got true or false"},
        {"{\"leaf\": []}", "f:1:10", "leaf: expected an object, got an array"},
        {"{\"r_int32\": 1}", "f:1:13", "r_int32: expected an array, got a number"},
        {"{\"r_int32\": [1, null]}", "f:1:17", "r_int32[1]: expected a whole number, got null"},
        {"{\"r_int32\": [[1]]}", "f:1:14", "r_int32[0]: expected a whole number, got an array"},
        {"{\"rInt32\": [1], \"r_int32\": [2]}", "f:1:28", "field \"r_int32\" is given twice"},
        {"{\"rInt32\": [], \"r_int32\": [2]}", "f:1:27", "field \"r_int32\" is given twice"},
        {"{\"int32\": 1, \"int32\": 1}", "f:1:23", "duplicate key \"int32\""},
        {"{\"strict\": {\"must\": 1, \"name\": null, \"leaf\": {}}}", "f:1:12",
         "strict: required field \"name\" is missing"},
        {"{\"choice\": {\"number\": 1, \"text\": \"\"}}", "f:1:34",
         "choice: field \"text\" cannot stand beside \"number\": only one of them may be given"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct err err = {0};
        CLEANUP(source_free) struct source source = SOURCE_NAMED("f");
        ProtobufCMessage *message = NULL;
        int r = jsonformat_parse(EVERYTHING, &source, cases[i].json, strlen(cases[i].json), &message, &err);
        if (r != -EINVAL || strcmp(err.item, cases[i].item) != 0 || strcmp(err.text, cases[i].text) != 0) {
            fail_msg("%s: %d %s: %s", cases[i].json, r, err.item, err.text);
        }
        assert_null(message);
        assert_int_equal(err.kind, ERR_CONFIG);
    }
}

static const char seed[] =
    "{\"int32\": -5, \"rDouble\": [\"NaN\", 1.5e3], \"string\": \"\\u00e4\\ud83d\\ude00\", \"bytes\": "
    "\"AAH/\", \"colour\": \"LIME\", \"strict\": {\"must\": 0, \"name\": \"\", \"leaf\": {}}, \"choice\": "
    "{\"leaf\": {\"list\": [1, 2, 3]}}, \"r_nested\": [{}, {\"bool\": true}]}";

static void test_mutations(void **state)
{
    (void)state;
    uint64_t random = 0x9e3779b97f4a7c15u;
    size_t accepted = 0;
    for (int i = 0; i < 20000; i++) {
        size_t size = sizeof seed - 1;
        char *text = malloc(size);
        assert_non_null(text);
        memcpy(text, seed, size);
        for (unsigned n = 0; n < 1 + (random >> 63); n++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            text[(random >> 33) % size] =
                random & (1u << 20) ? seed[(random >> 41) % size] : (char)(random >> 50);
        }
        CLEANUP(source_free) struct source source = SOURCE_NAMED("f");
        CLEANUP(buf_free) struct buf packed = BUF_INIT;
        ProtobufCMessage *message;
        struct err err = {0};
        if (jsonformat_parse(EVERYTHING, &source, text, size, &message, &err) == 0) {
            accepted++;
            assert_int_equal(wire_pack(message, &packed), 0);
            protobuf_c_message_free_unpacked(message, NULL);
        } else {
            assert_int_equal(err.kind, ERR_CONFIG);
        }
        free(text);
    }
    assert_true(accepted > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_message_as_text),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_mutations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
