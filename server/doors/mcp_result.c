/* Results of the tool execute_code. Runs in the front.
 *
 * Clients hand all of a result to a model, `content` or `structuredContent` or both. So whatever a program
 * chooses the size of is cut in both, and each says alone how the program ended. */
#include "server/doors/mcp_result.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "config/format/digest.h"
#include "config/format/json.h"
#include "config/format/utf8.h"
#include "config/message/job.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "server/doors/content_type.h"
#include "server/doors/execute.h"
#include "server/kit/capture.h"
#include "server/kit/json_out.h"
#include "server/kit/rich_results.h"

#define LAST_WORDS_BYTES 2000

/* ---- Texts ---- */

/* The first MCP_TEXT_CHARACTERS_MAX characters. True if there are more. */
static bool append_cut(const char *text, size_t size, struct buf *ret)
{
    size_t at = 0;
    for (size_t n = 0; at < size && n < MCP_TEXT_CHARACTERS_MAX; n++) {
        bool valid;
        at += utf8_sequence(text + at, size - at, &valid);
    }
    if (at > 0) {
        buf_append(ret, text, at);
    }
    if (at < size) {
        buf_puts(ret, "\n... [output truncated]");
    }
    return at < size;
}

static void begin_line(struct buf *ret)
{
    if (ret->len > 0 && ret->data[ret->len - 1] != '\n') {
        buf_putc(ret, '\n');
    }
}

/* stdout, then stderr, on a line of its own. */
static void join_output(const struct capture *capture, struct buf *ret)
{
    const struct buf *out = &capture->streams[CAPTURE_STDOUT], *err = &capture->streams[CAPTURE_STDERR];
    if (out->len > 0) {
        buf_append(ret, out->data, out->len);
    }
    if (err->len > 0) {
        begin_line(ret);
        buf_append(ret, err->data, err->len);
    }
}

static void put_text_block(struct buf *ret, const struct buf *text)
{
    json_out_separator(ret);
    buf_puts(ret, "{\"type\":\"text\"");
    json_out_bytes(ret, "text", text->data, text->len);
    buf_putc(ret, '}');
    ret->failed = ret->failed || text->failed;
}

static void put_failure(const struct job_result *result, struct buf *ret)
{
    char sentence[EXECUTE_SENTENCE_BYTES];
    if (result->status == JOB_TIMEOUT) {
        buf_printf(ret, "Error: Execution timed out after %" PRIu64 "s",
                   (result->limits.timeout_ms + 999) / 1000);
        return;
    }
    execute_failure_sentence(result, sentence, sizeof sentence);
    buf_printf(ret, "Error: %s", sentence);
}

/* The end of what went to stderr, where a program usually says why it fails. */
static void put_last_words(const struct buf *text, struct buf *ret)
{
    size_t at = text->len > LAST_WORDS_BYTES ? text->len - LAST_WORDS_BYTES : 0;
    while (at < text->len && (text->data[at] & 0xc0) == 0x80) {
        at++;
    }
    if (at < text->len) {
        buf_puts(ret, "\n... ");
        buf_append(ret, text->data + at, text->len - at);
    }
}

/* What the program printed, with the sentence of a timeout behind it; other failures have theirs apart, with
 * what was cut off of their reason. */
static void put_output(const struct job_result *result, const struct job_texts *texts, struct buf *ret)
{
    CLEANUP(buf_free) struct buf joined = BUF_INIT;
    CLEANUP(buf_free) struct buf shown = BUF_INIT;
    CLEANUP(buf_free) struct buf failure = BUF_INIT;
    join_output(texts->capture, &joined);
    bool cut = append_cut(joined.data, joined.len, &shown);
    if (result->status != JOB_SUCCESS && (shown.len == 0 || result->status == JOB_TIMEOUT)) {
        begin_line(&shown);
        put_failure(result, &shown);
    } else if (result->status != JOB_SUCCESS) {
        put_failure(result, &failure);
        if (cut) {
            put_last_words(&texts->capture->streams[CAPTURE_STDERR], &failure);
        }
    }
    if (result->status != JOB_SUCCESS && result->hint) {
        begin_line(&failure);
        append_cut(result->hint, strlen(result->hint) - 1, &failure);
    }
    shown.failed = shown.failed || joined.failed;
    if (shown.len > 0) {
        put_text_block(ret, &shown);
    }
    if (failure.len > 0) {
        put_text_block(ret, &failure);
    }
}

/* What the program gave to set_result. */
static void put_value(const struct job_texts *texts, struct buf *ret)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    if (texts->output_size > 0) {
        buf_puts(&text, "Result: ");
        append_cut(texts->output, texts->output_size, &text);
        put_text_block(ret, &text);
    }
}

/* ---- Files ---- */

/* Whether a model can be shown it: one that is no picture, whatever its name, spoils the whole conversation.
 */
static bool is_image(const char *mime, const struct buf *content)
{
    static const struct {
        const char *mime, *begins;
        size_t at, size;
    } shown[] = {{"image/png", "\x89PNG\r\n\x1a\n", 0, 8},
                 {"image/jpeg", "\xff\xd8\xff", 0, 3},
                 {"image/gif", "GIF8", 0, 4},
                 {"image/webp", "WEBP", 8, 4}};
    for (size_t i = 0; i < ARRAY_SIZE(shown); i++) {
        if (strcmp(shown[i].mime, mime) == 0) {
            return content->len >= shown[i].at + shown[i].size &&
                   memcmp(content->data + shown[i].at, shown[i].begins, shown[i].size) == 0;
        }
    }
    return false;
}

static void put_base64(struct buf *ret, const char *key, const struct buf *content)
{
    json_out_key(ret, key);
    buf_putc(ret, '"');
    base64_encode(content->data, content->len, ret);
    buf_putc(ret, '"');
}

/* A name within this one reply: nothing can be fetched there. */
static void put_uri(struct buf *ret, const char *execution_id, const char *path)
{
    json_out_key(ret, "uri");
    buf_printf(ret, "\"immure://%s/", execution_id);
    for (const char *at = path; *at; at++) {
        bool plain = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9') ||
                     strchr("-._~/", *at);
        buf_printf(ret, plain ? "%c" : "%%%02X", (unsigned char)*at);
    }
    buf_putc(ret, '"');
}

/* Text that is too long is cut like all other. */
static void put_resource(struct buf *ret, const char *execution_id, const char *path, const char *mime,
                         const struct buf *content)
{
    json_out_open(ret, "resource", '{');
    put_uri(ret, execution_id, path);
    json_out_text(ret, "mimeType", mime);
    if (content->len > 0 &&
        (memchr(content->data, '\0', content->len) || !utf8_is_valid(content->data, content->len))) {
        put_base64(ret, "blob", content);
    } else {
        CLEANUP(buf_free) struct buf shown = BUF_INIT;
        append_cut(content->data, content->len, &shown);
        json_out_bytes(ret, "text", shown.data, shown.len);
        ret->failed = ret->failed || shown.failed;
    }
    buf_putc(ret, '}');
}

/* ---- What the program shows ---- */

/* Whether it was a picture, and could be shown. */
static bool put_picture(const struct json *data, struct buf *ret, uint64_t *left)
{
    static const char *const mimes[] = {"image/png", "image/jpeg", "image/gif", "image/webp"};
    for (size_t i = 0; i < ARRAY_SIZE(mimes); i++) {
        CLEANUP(buf_free) struct buf content = BUF_INIT;
        const struct json *text = json_get(data, mimes[i]);
        if (!text || base64_decode(json_string(text), json_string_length(text), &content) < 0 ||
            content.len > *left || !is_image(mimes[i], &content)) {
            continue;
        }
        *left -= content.len;
        json_out_separator(ret);
        buf_putc(ret, '{');
        json_out_text(ret, "type", "image");
        put_base64(ret, "data", &content);
        json_out_text(ret, "mimeType", mimes[i]);
        buf_putc(ret, '}');
        return true;
    }
    return false;
}

/* Of what is no picture: plain text, which everything has, unless its author has left that out. */
static void put_shown_text(const struct json *data, struct buf *ret)
{
    static const char *const mimes[] = {"text/plain", "text/markdown", "text/latex", "text/html",
                                        "image/svg+xml"};
    CLEANUP(buf_free) struct buf shown = BUF_INIT;
    for (size_t i = 0; i < ARRAY_SIZE(mimes) && shown.len == 0; i++) {
        const struct json *text = json_get(data, mimes[i]);
        append_cut(text ? json_string(text) : "", json_string_length(text), &shown);
    }
    if (shown.len > 0) {
        put_text_block(ret, &shown);
    }
}

/* In the order in which it was shown. An exception stands on stderr, too. */
static void put_shown(const struct rich_results *results, struct buf *ret)
{
    static const char cut[] = "(More was shown than there is room for.)";
    uint64_t left = MCP_FILES_BYTES_MAX;
    size_t n = results ? results->n : 0;
    for (size_t i = 0; i < n && i < MCP_FILES_MAX; i++) {
        size_t size;
        struct json_doc *doc;
        const char *text = rich_results_get(results, i, &size);
        if (json_parse(text, size, &doc, NULL) < 0) {
            continue;
        }
        const struct json *data = json_get(json_root(doc), "data");
        if (!put_picture(data, ret, &left)) {
            put_shown_text(data, ret);
        }
        json_free(doc);
    }
    if (n > MCP_FILES_MAX || (results && results->cut)) {
        CLEANUP(buf_free) struct buf told = BUF_INIT;
        buf_puts(&told, cut);
        put_text_block(ret, &told);
    }
}

/* From its beginning, and to its beginning again. */
static int read_file(const struct job_output_file *file, struct buf *ret, struct err *reterr)
{
    char *to = buf_reserve(ret, (size_t)file->size + 1);
    if (!to) {
        return err_errno(reterr, ENOMEM, "reading an output file");
    }
    ssize_t n = io_read_full(file->fd, to, (size_t)file->size);
    if (n < 0 || lseek(file->fd, 0, SEEK_SET) < 0) {
        return err_errno(reterr, n < 0 ? (int)-n : errno, "reading an output file");
    }
    ret->len += (size_t)n;
    ret->data[ret->len] = '\0';
    return 0;
}

static int put_file_block(struct buf *ret, const struct job_texts *texts, const struct job_output_file *file,
                          struct err *reterr)
{
    CLEANUP(buf_free) struct buf content = BUF_INIT;
    int r = read_file(file, &content, reterr);
    if (r < 0) {
        return r;
    }
    const char *mime = mime_of(texts->types, file->path, content.data, content.len);
    bool image = is_image(mime, &content);
    json_out_separator(ret);
    buf_putc(ret, '{');
    json_out_text(ret, "type", image ? "image" : "resource");
    if (image) {
        put_base64(ret, "data", &content);
        json_out_text(ret, "mimeType", mime);
    } else {
        put_resource(ret, texts->execution_id, file->path, mime, &content);
    }
    buf_putc(ret, '}');
    return 0;
}

/* Those that the program returned, and behind them their names in the same order. */
static int put_files(const struct job_result *result, const struct job_texts *texts, struct buf *ret,
                     struct err *reterr)
{
    CLEANUP(buf_free) struct buf names = BUF_INIT;
    CLEANUP(buf_free) struct buf listing = BUF_INIT;
    uint64_t left = MCP_FILES_BYTES_MAX;
    size_t n = 0;
    for (size_t i = 0; i < result->n_files; i++) {
        const struct job_output_file *file = &result->files[i];
        if (!file->asked) {
            continue;
        }
        bool shown = file->fd >= 0 && file->size <= left && n < MCP_FILES_MAX;
        buf_printf(&names, "%s%s (%" PRIu64 " bytes%s)", names.len > 0 ? ", " : "Files: ", file->path,
                   file->size, shown ? "" : ", not shown: too many or too large");
        int r = shown ? put_file_block(ret, texts, file, reterr) : 0;
        if (r < 0) {
            return r;
        }
        left -= shown ? file->size : 0;
        n += shown;
    }
    if (names.len > 0) {
        append_cut(names.data, names.len, &listing);
        listing.failed = listing.failed || names.failed;
        put_text_block(ret, &listing);
    }
    return 0;
}

/* ---- Results ---- */

static enum job_status told_status(enum job_status status)
{
    switch (status) {
    case JOB_SUCCESS:
    case JOB_TIMEOUT:
    case JOB_SETUP_ERROR:
        return status;
    default: /* which one, `oom` and `signal` say */
        return JOB_EXECUTION_ERROR;
    }
}

static int put_content(const struct job_result *result, const struct job_texts *texts, struct buf *ret,
                       struct err *reterr)
{
    static const char nothing[] = "{\"type\":\"text\",\"text\":\"(No output)\"}";
    json_out_open(ret, "content", '[');
    put_output(result, texts, ret);
    put_value(texts, ret);
    if (texts->results_asked || result->kernel != JOB_KERNEL_NONE) {
        put_shown(texts->results, ret);
    }
    int r = put_files(result, texts, ret, reterr);
    if (ret->len > 0 && ret->data[ret->len - 1] == '[') {
        buf_puts(ret, nothing);
    }
    buf_putc(ret, ']');
    return r;
}

/* The reply of POST /execute, cut. */
static int put_structured(const struct job_result *result, const struct job_texts *texts, struct buf *ret,
                          struct err *reterr)
{
    struct buf streams[CAPTURE_STREAMS] = {BUF_INIT, BUF_INIT};
    CLEANUP(buf_free) struct buf output = BUF_INIT;
    struct capture capture = *texts->capture; /* whose parts stay the other's */
    for (size_t i = 0; i < CAPTURE_STREAMS; i++) {
        const struct buf *whole = &texts->capture->streams[i];
        capture.truncated[i] = append_cut(whole->data, whole->len, &streams[i]) || capture.truncated[i];
        capture.streams[i] = streams[i];
        ret->failed = ret->failed || streams[i].failed;
    }
    append_cut(texts->output, texts->output_size, &output);
    struct job_texts cut = *texts;
    cut.brief = true;
    cut.capture = &capture;
    cut.output = output.data;
    cut.output_size = output.len;
    json_out_key(ret, "structuredContent");
    int r = execute_encode(result, &cut, ret, reterr);
    for (size_t i = 0; i < CAPTURE_STREAMS; i++) {
        buf_free(&streams[i]);
    }
    if (r == 0) {
        ret->len--; /* its line feed */
    }
    return r;
}

int mcp_result_encode(const struct job_result *result, const struct job_texts *texts, struct buf *ret,
                      struct err *reterr)
{
    struct job_result told = *result; /* whose parts stay the other's */
    told.status = told_status(result->status);
    int r = put_content(&told, texts, ret, reterr);
    r = r < 0 ? r : put_structured(&told, texts, ret, reterr);
    if (r < 0) {
        return r;
    }
    json_out_bool(ret, "isError", told.status != JOB_SUCCESS);
    return ret->failed ? err_errno(reterr, ENOMEM, "writing a reply") : 0;
}

void mcp_result_encode_refusal(const char *text, const char *code, struct buf *ret)
{
    CLEANUP(buf_free) struct buf shown = BUF_INIT;
    buf_printf(&shown, "Error: %s", text);
    json_out_open(ret, "content", '[');
    put_text_block(ret, &shown);
    buf_putc(ret, ']');
    json_out_open(ret, "structuredContent", '{');
    json_out_text(ret, "status", "setup_error");
    json_out_i64(ret, "exit_code", -1);
    json_out_text(ret, "stdout", "");
    json_out_text(ret, "stderr", "");
    json_out_u64(ret, "execution_time", 0);
    json_out_text(ret, "error_message", text);
    json_out_text(ret, "error", text);
    json_out_text(ret, "code", code);
    buf_putc(ret, '}');
    json_out_bool(ret, "isError", true);
}

/* ---- What they are made of ---- */

#define STRING  "\"type\":\"string\""
#define INTEGER "\"type\":\"integer\""
#define BOOLEAN "\"type\":\"boolean\""
#define OBJECT  "\"type\":\"object\""
#define ARRAY   "\"type\":\"array\",\"items\":{\"type\":\"object\"}"

static const struct {
    const char *name, *schema, *description;
} fields[] = {
    {"status", STRING ",\"enum\":[\"success\",\"timeout\",\"execution_error\",\"setup_error\"]",
     "How the program ended; setup_error: it did not begin."},
    {"exit_code", INTEGER, "The program's; 128 and the signal's number if one ended it; -1 if it has none."},
    {"stdout", STRING, "What it printed, cut after 10000 characters."},
    {"stderr", STRING, "What it printed on standard error, cut likewise."},
    {"execution_time", "\"type\":\"number\"", "Seconds of wall-clock time."},
    {"error_message", "\"type\":[\"string\",\"null\"]", "One sentence if status is not success."},
    {"output", STRING, "JSON text of what it gave to set_result, cut likewise; empty if nothing."},
    {"files", ARRAY, "The files it returned, with name and mime; content shows them."},
    {"output_files", ARRAY, "The first 100 files that it wrote, with name, size and truncated."},
    {"output_files_truncated", BOOLEAN, "It wrote more files than are listed."},
    {"truncated", BOOLEAN, "Something that it printed was cut off."},
    {"stdout_truncated", BOOLEAN, "Of stdout."},
    {"stderr_truncated", BOOLEAN, "Of stderr."},
    {"duration_ms", INTEGER, "execution_time in milliseconds."},
    {"queued_ms", INTEGER, "How long it waited for a slot."},
    {"signal", "\"type\":[\"string\",\"null\"]", "The signal that ended it."},
    {"killed", BOOLEAN, "Its time was over."},
    {"oom", BOOLEAN, "Its memory was used up."},
    {"usage", OBJECT, "cpu_ms, memory_peak_bytes and pids_peak; null where unknown."},
    {"denied_syscalls", ARRAY, "System calls that it may not make and made, with name, count and calls."},
    {"hint", STRING, "The rules of a policy that would allow them, or why none should."},
    {"limits", OBJECT, "What applied."},
    {"policy", STRING, "The policy that it ran under."},
    {"policy_sha256", STRING, "Which version of that."},
    {"image", STRING, "The image that it ran in, if any."},
    {"session", STRING, "new or kept: whether its session was there before, if it has one."},
    {"kernel", STRING, "new, kept or ended: what became of its session's interpreter, if it has one."},
    {"execution_id", STRING, "Names this run in the server's log."},
    {"error", STRING, "error_message, where the program did not begin."},
    {"code", STRING, "Why it did not begin, in one word."},
};

void mcp_result_schema(struct buf *ret)
{
    json_out_open(ret, "outputSchema", '{');
    json_out_text(ret, "type", "object");
    json_out_open(ret, "properties", '{');
    for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
        json_out_open(ret, fields[i].name, '{');
        buf_puts(ret, fields[i].schema);
        json_out_text(ret, "description", fields[i].description);
        buf_putc(ret, '}');
    }
    buf_putc(ret, '}');
    json_out_key(ret, "required");
    buf_puts(ret, "[\"status\",\"exit_code\",\"stdout\",\"stderr\",\"execution_time\",\"error_message\"]}");
}
