/* The contract of Dify's sandbox. Runs in the front. A reply has a `code` of its own beside the status.
 * The network that a request asks for (Dify always does) there is not: a jail has none. */
#include "server/doors/dify.h"

#include <errno.h>
#include <string.h>

#include "config/format/json.h"
#include "config/message/job.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/doors/error_reply.h"
#include "server/doors/execute.h"
#include "server/kit/capture.h"
#include "server/kit/json_out.h"

static void json_freep(struct json_doc **doc)
{
    json_free(*doc);
}

/* `preload` goes before the program. */
static int translate(const struct json *root, struct buf *ret, struct err *reterr)
{
    CLEANUP(buf_free) struct buf code = BUF_INIT;
    const struct json *parts[] = {json_get(root, "preload"), json_get(root, "code")};
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        if (code.len > 0) {
            buf_putc(&code, '\n');
        }
        buf_append(&code, json_string(parts[i]) ? json_string(parts[i]) : "", json_string_length(parts[i]));
    }
    buf_putc(ret, '{');
    json_out_text(ret, "language", json_string(json_get(root, "language")));
    json_out_bytes(ret, "code", code.data, code.len);
    buf_putc(ret, '}');
    return ret->failed || code.failed ? err_errno(reterr, ENOMEM, "reading a request") : 0;
}

static int decode(const struct json *root, const char *text, size_t size, const struct server_config *config,
                  struct execute_request *ret, struct err *reterr)
{
    (void)text;
    (void)size;
    CLEANUP(buf_free) struct buf translated = BUF_INIT;
    CLEANUP(json_freep) struct json_doc *doc = NULL;
    if (json_string_length(json_get(root, "language")) == 0) {
        return err_set(reterr, ERR_INVALID, EINVAL, "language", "language is required");
    }
    int r = translate(root, &translated, reterr);
    r = r < 0 ? r : json_parse(translated.data, translated.len, &doc, reterr);
    r = r < 0 ? r : execute_decode(json_root(doc), config, ret, reterr);
    if (r == 0) {
        ret->door = &dify_door;
    }
    return r;
}

static void begin(struct buf *ret, int code, const char *message)
{
    buf_putc(ret, '{');
    json_out_i64(ret, "code", code);
    json_out_text(ret, "message", message);
}

static int encode(const struct job_result *result, const struct job_texts *texts, struct buf *ret,
                  struct err *reterr)
{
    const struct buf *out = &texts->capture->streams[CAPTURE_STDOUT];
    const struct buf *err = &texts->capture->streams[CAPTURE_STDERR];
    char sentence[EXECUTE_SENTENCE_BYTES] = "";
    if (result->status != JOB_SUCCESS && err->len == 0) {
        execute_failure_sentence(result, sentence, sizeof sentence);
    }
    begin(ret, 0, "success");
    json_out_open(ret, "data", '{');
    json_out_bytes(ret, "stdout", out->data, out->len);
    if (*sentence) {
        json_out_text(ret, "error", sentence);
    } else {
        json_out_bytes(ret, "error", err->data, err->len);
    }
    buf_puts(ret, "}}\n");
    return ret->failed ? err_errno(reterr, ENOMEM, "writing a reply") : 0;
}

static void encode_error(unsigned status, const char *text, struct buf *ret)
{
    begin(ret, -(int)status, text);
    json_out_null(ret, "data");
    buf_puts(ret, "}\n");
}

void dify_write_dependencies(struct buf *ret)
{
    begin(ret, 0, "success");
    buf_puts(ret, ",\"data\":{\"dependencies\":[]}}\n");
}

const struct door dify_door = {
    .name = "dify",
    .reply_event = "result",
    .decode = decode,
    .encode = encode,
    .encode_error = encode_error,
};
