/* What a program wrote, and a verdict, into the reply: strict JSON whatever they were, nothing in it but what
 * the program wrote, and no more of it than the limit. The first two bytes are the limit and how the output
 * comes in; the rest is written to stdout and stderr in turns. */
#include <string.h>

#include "config/format/json.h"
#include "config/format/utf8.h"
#include "config/message/job.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/doors/execute.h"
#include "server/kit/capture.h"
#include "tests/fuzz/fuzz.h"

#define HEAD_BYTES 2

static void require_stream(const struct json *reply, const char *key, const struct buf *whole, size_t limit)
{
    const struct json *value = json_get(reply, key);
    const char *text = json_string(value);
    size_t len = json_string_length(value);
    REQUIRE(text && utf8_is_valid(text, len));
    if (whole->len <= limit && !memchr(whole->data ? whole->data : "", '\0', whole->len) &&
        utf8_is_valid(whole->data ? whole->data : "", whole->len)) {
        REQUIRE(len == whole->len && (len == 0 || memcmp(text, whole->data, len) == 0));
    }
    /* A byte that is no character becomes a U+FFFD, of three. */
    REQUIRE(len <= 3 * limit);
}

static void require_reply(const struct buf *reply, const struct buf *whole, size_t limit)
{
    static const char *const keys[] = {"stdout", "stderr"};
    struct json_doc *doc = NULL;
    struct err err = {0};
    int r = json_parse(reply->data, reply->len, &doc, &err);
    /* A NUL is legal JSON, only not for us. */
    if (r < 0) {
        REQUIRE(strstr(err.text, "must not hold a NUL"));
        REQUIRE(memchr(whole[0].data ? whole[0].data : "", '\0', whole[0].len) ||
                memchr(whole[1].data ? whole[1].data : "", '\0', whole[1].len));
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        require_stream(json_root(doc), keys[i], &whole[i], limit);
    }
    json_free(doc);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    CLEANUP(buf_free) struct buf reply = BUF_INIT;
    struct buf whole[CAPTURE_STREAMS] = {BUF_INIT, BUF_INIT};
    static char policy[] = "python", sha256[] = "00", name[] = "openat";
    struct job_denied denied = {.name = name, .count = 1};
    struct job_result result = {.policy = policy, .policy_sha256 = sha256, .denied = &denied, .n_denied = 1};
    struct capture capture;
    if (size < HEAD_BYTES) {
        return;
    }
    size_t limit = data[0], piece = (size_t)data[1] % 16 + 1, turn = 0;
    result.status = (enum job_status)(data[1] % JOB_STATUS_COUNT);
    capture_init(&capture, limit);
    for (size_t at = HEAD_BYTES; at < size; at += piece, turn++) {
        size_t n = size - at < piece ? size - at : piece;
        enum capture_stream stream = turn % 3 == 1 ? CAPTURE_STDERR : CAPTURE_STDOUT;
        capture_take(&capture, stream, (const char *)data + at, n);
        buf_append(&whole[stream], data + at, n);
    }
    REQUIRE(capture_finish(&capture, 0) == 0);
    REQUIRE(capture.truncated[0] == (whole[0].len > limit) && capture.truncated[1] == (whole[1].len > limit));
    const struct job_texts texts = {
        .execution_id = "id", .capture = &capture, .output = "[1]", .output_size = 3};
    REQUIRE(execute_encode(&result, &texts, &reply, NULL) == 0);
    require_reply(&reply, whole, limit);
    capture_clear(&capture);
    buf_free(&whole[0]);
    buf_free(&whole[1]);
}
