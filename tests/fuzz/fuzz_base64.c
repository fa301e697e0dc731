/* Base64: one content has one spelling. Every text that is accepted is the spelling of what it decodes to,
 * and every content can be spelled. */
#include <string.h>

#include "config/format/digest.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "tests/fuzz/fuzz.h"

#define PREFIX "before"

static void require_equal(const struct buf *buf, const void *data, size_t size)
{
    REQUIRE(!buf->failed);
    REQUIRE(buf->len == strlen(PREFIX) + size);
    REQUIRE(memcmp(buf->data, PREFIX, strlen(PREFIX)) == 0);
    REQUIRE(size == 0 || memcmp(buf->data + strlen(PREFIX), data, size) == 0);
    REQUIRE(buf->data[buf->len] == '\0');
}

void fuzz_one(const uint8_t *data, size_t size)
{
    CLEANUP(buf_free) struct buf content = BUF_INIT, spelled = BUF_INIT;
    CLEANUP(buf_free) struct buf spelling = BUF_INIT, decoded = BUF_INIT;
    buf_puts(&content, PREFIX);
    buf_puts(&spelled, PREFIX);
    if (base64_decode((const char *)data, size, &content) == 0) {
        size_t len = content.len - strlen(PREFIX);
        REQUIRE(base64_encode(content.data + strlen(PREFIX), len, &spelled) == 0);
        require_equal(&spelled, data, size);
    } else {
        require_equal(&content, "", 0);
    }
    buf_puts(&decoded, PREFIX);
    REQUIRE(base64_encode(data, size, &spelling) == 0);
    REQUIRE(spelling.len == (size + 2) / 3 * 4);
    REQUIRE(base64_decode(spelling.data, spelling.len, &decoded) == 0);
    require_equal(&decoded, data, size);
}
