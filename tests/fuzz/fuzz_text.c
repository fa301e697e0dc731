/* Protobuf text format into messages: what is read can be written and read again, in every form; what is
 * refused is refused at a place inside the text. */
#include <string.h>

#include "config/source.h"
#include "config/textformat.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "tests/config/everything.pb-c.h"
#include "tests/fuzz/formats.h"
#include "tests/fuzz/fuzz.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return formats_mutate(&everything__everything__descriptor, false, data, size, max_size, seed);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    CLEANUP(source_free) struct source source = SOURCE_NAMED("file.textproto");
    struct ProtobufCMessage *message = NULL;
    struct err err = {0};
    int r = textformat_parse(&everything__everything__descriptor, &source, (const char *)data, size, &message,
                             &err);
    if (r < 0) {
        REQUIRE(!message);
        fuzz_require_file_refusal((struct expected_refusal){r, &err, data, size}, source.name, false);
        return;
    }
    REQUIRE(r == 0 && !err_is_set(&err));
    formats_require_round_trip(message);
    protobuf_c_message_free_unpacked(message, NULL);
}
