/* Binary, text and JSON, held against each other: what one of the readers has made of its input, the printers
 * write and all three read again. */
#include "tests/fuzz/formats.h"

#include <string.h>

#include <protobuf-c/protobuf-c.h>

#include "config/format/source.h"
#include "config/format/textformat.h"
#include "config/format/wire.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/print.h"

typedef int (*parse_fn)(const ProtobufCMessageDescriptor *descriptor, struct source *source, const char *text,
                        size_t size, ProtobufCMessage **ret, struct err *reterr);

static ProtobufCMessage *parse(parse_fn parser, const ProtobufCMessageDescriptor *descriptor,
                               const char *text, size_t size)
{
    CLEANUP(source_free) struct source source = SOURCE_NAMED("printed");
    ProtobufCMessage *message = NULL;
    return parser(descriptor, &source, text, size, &message, NULL) < 0 ? NULL : message;
}

/* Takes `again`. */
static void require_same(const struct buf *packed, ProtobufCMessage *again)
{
    CLEANUP(buf_free) struct buf repacked = BUF_INIT;
    REQUIRE(again);
    REQUIRE(wire_pack(again, &repacked) == 0);
    REQUIRE(repacked.len == packed->len);
    REQUIRE(packed->len == 0 || memcmp(repacked.data, packed->data, packed->len) == 0);
    protobuf_c_message_free_unpacked(again, NULL);
}

void formats_require_round_trip(const ProtobufCMessage *message)
{
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    CLEANUP(buf_free) struct buf json = BUF_INIT;
    ProtobufCMessage *unpacked = NULL;
    REQUIRE(wire_pack(message, &packed) == 0);
    REQUIRE(wire_unpack(message->descriptor, packed.data, packed.len, NULL, &unpacked) == 0);
    require_same(&packed, unpacked);
    print_text(message, &text);
    require_same(&packed, parse(textformat_parse, message->descriptor, text.data, text.len));
    if (print_json(message, &json)) {
        require_same(&packed, parse(jsonformat_parse, message->descriptor, json.data, json.len));
    }
}

void formats_one(const ProtobufCMessageDescriptor *descriptor, bool json, const uint8_t *data, size_t size)
{
    CLEANUP(source_free) struct source source = SOURCE_NAMED(json ? "file.json" : "file.textproto");
    ProtobufCMessage *message = NULL;
    struct err err = {0};
    int r = (json ? jsonformat_parse : textformat_parse)(descriptor, &source, (const char *)data, size,
                                                         &message, &err);
    if (r < 0) {
        REQUIRE(!message);
        fuzz_require_file_refusal((struct expected_refusal){r, &err, data, size}, source.name, false);
        return;
    }
    REQUIRE(r == 0 && !err_is_set(&err));
    formats_require_round_trip(message);
    protobuf_c_message_free_unpacked(message, NULL);
}

size_t formats_mutate(const ProtobufCMessageDescriptor *descriptor, bool json, uint8_t *data, size_t size,
                      size_t max_size, unsigned seed)
{
    uint64_t series = seed;
    bool by_field = mutate_next(&series) % 4 == 0;
    ProtobufCMessage *message =
        by_field ? parse(json ? jsonformat_parse : textformat_parse, descriptor, (const char *)data, size)
                 : NULL;
    if (!message) {
        return LLVMFuzzerMutate(data, size, max_size);
    }
    CLEANUP(buf_free) struct buf printed = BUF_INIT;
    mutate_message(message, &series);
    if (json) {
        print_json(message, &printed);
    } else {
        print_text(message, &printed);
    }
    protobuf_c_message_free_unpacked(message, NULL);
    if (printed.len > 0 && printed.len <= max_size) {
        memcpy(data, printed.data, printed.len);
        return printed.len;
    }
    return LLVMFuzzerMutate(data, size, max_size);
}
