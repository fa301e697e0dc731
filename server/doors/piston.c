/* Piston's contract. Runs in the front. A request becomes one of POST /execute, whose decoder reads it: the
 * first file is the program, the others lie beside it. Members that Piston has and a jail has no use for
 * (compilation) are left out; a limit is taken where it is one. */
#include "server/doors/piston.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/digest.h"
#include "config/format/hex_digit.h"
#include "config/format/json.h"
#include "config/format/utf8.h"
#include "config/message/job.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "server/doors/execute.h"
#include "server/kit/capture.h"
#include "server/kit/json_out.h"
#include "server/kit/signals.h"

struct piston {
    char *language, *version;
};

static int bad(struct err *reterr, const char *field, const char *why)
{
    return err_set(reterr, ERR_INVALID, EINVAL, field, "%s %s", field, why);
}

static void json_freep(struct json_doc **doc)
{
    json_free(*doc);
}

/* As it is asked for: "3.11.2", "3", "3.x", "3.11.*", "*"; a runtime whose version is not known has any. */
static bool is_version(const char *wanted, const char *version)
{
    size_t length = strcspn(wanted, "x*");
    bool is_prefix = strncmp(wanted, version, length) == 0;
    char next = is_prefix ? version[length] : 'x';
    bool ends_part = length == 0 || wanted[length - 1] == '.' || next == '.' || next == '\0';
    return *version == '\0' || (is_prefix && ends_part);
}

/* ---- The request ---- */

static int decode_hex(const char *text, size_t length, struct buf *ret)
{
    for (size_t i = 0; i + 1 < length; i += 2) {
        int high = hex_digit(text[i]), low = hex_digit(text[i + 1]);
        if (high < 0 || low < 0) {
            return -EINVAL;
        }
        buf_putc(ret, (char)(high * 16 + low));
    }
    return length % 2 == 0 ? 0 : -EINVAL;
}

static int read_content(const struct json *file, size_t index, struct buf *ret, struct err *reterr)
{
    char field[64];
    const struct json *content = json_get(file, "content");
    const char *encoding = json_string(json_get(file, "encoding"));
    snprintf(field, sizeof field, "files[%zu].content", index);
    if (json_type_of(content) != JSON_STRING) {
        return bad(reterr, field, "is required as a string");
    }
    const char *text = json_string(content);
    size_t length = json_string_length(content);
    int r = 0;
    if (encoding && strcmp(encoding, "base64") == 0) {
        r = base64_decode(text, length, ret);
    } else if (encoding && strcmp(encoding, "hex") == 0) {
        r = decode_hex(text, length, ret);
    } else {
        buf_append(ret, text, length);
    }
    return r < 0 ? bad(reterr, field, "is not what its encoding says") : 0;
}

/* A file beside the program; one without a name is file1, file2, … */
static int put_file(const struct json *file, size_t index, struct buf *ret, struct err *reterr)
{
    CLEANUP(buf_free) struct buf content = BUF_INIT, coded = BUF_INIT;
    char fallback[32];
    const char *name = json_string(json_get(file, "name"));
    int r = read_content(file, index, &content, reterr);
    if (r < 0) {
        return r;
    }
    snprintf(fallback, sizeof fallback, "file%zu", index);
    base64_encode(content.data ? content.data : "", content.len, &coded);
    json_out_separator(ret);
    buf_putc(ret, '{');
    json_out_text(ret, "name", name && *name ? name : fallback);
    json_out_bytes(ret, "data", coded.data, coded.len);
    buf_putc(ret, '}');
    ret->failed = ret->failed || content.failed || coded.failed;
    return 0;
}

static int put_files(const struct json *files, struct buf *ret, struct err *reterr)
{
    CLEANUP(buf_free) struct buf code = BUF_INIT;
    const struct json *first = json_first(files);
    if (json_type_of(files) != JSON_ARRAY || !first) {
        return bad(reterr, "files", "is required as an array with at least one element");
    }
    int r = read_content(first, 0, &code, reterr);
    if (r == 0 && !utf8_is_valid(code.data, code.len)) {
        r = bad(reterr, "files[0].content", "is not UTF-8 text");
    }
    json_out_bytes(ret, "code", code.data, code.len);
    json_out_open(ret, "files", '[');
    size_t i = 1;
    for (const struct json *file = json_next(first); file && r == 0; file = json_next(file), i++) {
        r = put_file(file, i, ret, reterr);
    }
    buf_putc(ret, ']');
    return r;
}

/* A limit of Piston's: a positive number is one, -1 is none. */
static void put_limit(const struct json *root, const char *theirs, const char *ours, struct buf *ret)
{
    uint64_t number;
    if (json_u64(json_get(root, theirs), &number) && number > 0) {
        json_out_u64(ret, ours, number);
    }
}

static void put_args(const struct json *args, struct buf *ret)
{
    json_out_open(ret, "args", '[');
    for (const struct json *item = json_first(args); item; item = json_next(item)) {
        json_out_separator(ret);
        json_write_string(ret, json_string(item) ? json_string(item) : "", json_string_length(item));
    }
    buf_putc(ret, ']');
}

static int translate(const struct json *root, struct buf *ret, struct err *reterr)
{
    const struct json *input = json_get(root, "stdin");
    buf_putc(ret, '{');
    json_out_text(ret, "language", json_string(json_get(root, "language")));
    int r = put_files(json_get(root, "files"), ret, reterr);
    if (json_type_of(input) == JSON_STRING) {
        json_out_bytes(ret, "stdin", json_string(input), json_string_length(input));
    }
    put_args(json_get(root, "args"), ret);
    put_limit(root, "run_timeout", "timeout_ms", ret);
    json_out_open(ret, "limits", '{');
    put_limit(root, "run_memory_limit", "memory_bytes", ret);
    put_limit(root, "run_cpu_time", "cpu_ms", ret);
    buf_puts(ret, "}}");
    return r < 0 ? r : ret->failed ? err_errno(reterr, ENOMEM, "reading a request") : 0;
}

static void state_free(void *state)
{
    struct piston *piston = state;
    free(piston->language);
    free(piston->version);
    free(piston);
}

static int new_state(const struct execute_request *request, const char *language, struct piston **ret,
                     struct err *reterr)
{
    struct piston *piston = calloc(1, sizeof *piston);
    if (!piston) {
        return err_errno(reterr, ENOMEM, "reading a request");
    }
    *piston = (struct piston){.language = strdup(language), .version = strdup(request->runtime->version)};
    if (!piston->language || !piston->version) {
        state_free(piston);
        return err_errno(reterr, ENOMEM, "reading a request");
    }
    *ret = piston;
    return 0;
}

static int find_runtime(const struct json *root, const struct server_config *config, struct err *reterr)
{
    const char *language = json_string(json_get(root, "language"));
    const char *version = json_string(json_get(root, "version"));
    if (!language || !*language) {
        return bad(reterr, "language", "is required as a string");
    }
    if (!version) {
        return bad(reterr, "version", "is required as a string");
    }
    const struct runtime_config *runtime = server_config_runtime(config, language);
    if (!runtime || runtime->evaluator || !is_version(version, runtime->version)) {
        return err_set(reterr, ERR_INVALID, EINVAL, "language", "%.100s-%.50s runtime is unknown", language,
                       version);
    }
    return 0;
}

static int decode(const struct json *root, const char *text, size_t size, const struct server_config *config,
                  struct execute_request *ret, struct err *reterr)
{
    (void)text;
    (void)size;
    CLEANUP(buf_free) struct buf translated = BUF_INIT;
    CLEANUP(json_freep) struct json_doc *doc = NULL;
    CLEANUP(execute_request_clear) struct execute_request request = EXECUTE_REQUEST_INIT;
    struct piston *state = NULL;
    int r = find_runtime(root, config, reterr);
    r = r < 0 ? r : translate(root, &translated, reterr);
    r = r < 0 ? r : json_parse(translated.data, translated.len, &doc, reterr);
    r = r < 0 ? r : execute_decode(json_root(doc), config, &request, reterr);
    r = r < 0 ? r : new_state(&request, json_string(json_get(root, "language")), &state, reterr);
    if (r < 0) {
        return r;
    }
    request.door = &piston_door;
    request.state = state;
    *ret = request;
    request = EXECUTE_REQUEST_INIT;
    return 0;
}

/* ---- The reply ---- */

/* Piston's two letters for an end, and its sentence; NULL: a good one. */
static const char *status_of(const struct job_result *result, char *ret_message, size_t size)
{
    if (result->status == JOB_TIMEOUT) {
        snprintf(ret_message, size, "Time limit exceeded");
        return "TO";
    }
    if (result->status == JOB_SETUP_ERROR || result->status == JOB_CANCELLED) {
        execute_failure_sentence(result, ret_message, size);
        return "XX";
    }
    if (result->signal || result->oom) {
        snprintf(ret_message, size, "Caught fatal signal %d", result->signal);
        return "SG";
    }
    if (result->exit_code != 0) {
        snprintf(ret_message, size, "Exited with error status %d", result->exit_code);
        return "RE";
    }
    return NULL;
}

static int encode(const struct job_result *result, const struct job_texts *texts, struct buf *ret,
                  struct err *reterr)
{
    const struct piston *piston = texts->state;
    const struct capture *capture = texts->capture;
    const struct buf *out = &capture->streams[CAPTURE_STDOUT], *err = &capture->streams[CAPTURE_STDERR];
    char message[EXECUTE_SENTENCE_BYTES], name[SIGNAL_NAME_BYTES];
    const char *status = status_of(result, message, sizeof message);
    const char *signal = result->signal   ? signal_name(result->signal, name)
                         : result->killed ? "SIGKILL"
                                          : NULL;
    buf_putc(ret, '{');
    json_out_text(ret, "language", piston->language);
    json_out_text(ret, "version", piston->version);
    json_out_open(ret, "run", '{');
    json_out_bytes(ret, "stdout", out->data, out->len);
    json_out_bytes(ret, "stderr", err->data, err->len);
    json_out_bytes(ret, "output", capture->logs.data, capture->logs.len);
    json_out_known(ret, "code", !signal && result->exit_code >= 0, (uint64_t)result->exit_code);
    json_out_text(ret, "signal", signal);
    json_out_text(ret, "message", status ? message : NULL);
    json_out_text(ret, "status", status);
    json_out_known(ret, "cpu_time", result->has_cpu, result->cpu_ns / NS_PER_MS);
    json_out_u64(ret, "wall_time", result->duration_ns / NS_PER_MS);
    json_out_known(ret, "memory", result->has_memory_peak, result->memory_peak_bytes);
    buf_puts(ret, "}}\n");
    return ret->failed ? err_errno(reterr, ENOMEM, "writing a reply") : 0;
}

static void encode_error(unsigned status, const char *text, struct buf *ret)
{
    (void)status;
    buf_putc(ret, '{');
    json_out_text(ret, "message", text);
    buf_puts(ret, "}\n");
}

void piston_write_runtime(const struct runtime_config *runtime, struct buf *ret)
{
    json_out_separator(ret);
    buf_putc(ret, '{');
    json_out_text(ret, "language", runtime->name);
    json_out_text(ret, "version", *runtime->version ? runtime->version : "0.0.0");
    json_out_open(ret, "aliases", '[');
    for (size_t i = 0; i < runtime->n_aliases; i++) {
        json_out_separator(ret);
        json_write_string(ret, runtime->aliases[i], strlen(runtime->aliases[i]));
    }
    buf_puts(ret, "]}");
}

const struct door piston_door = {
    .name = "piston",
    .reply_event = "result",
    .decode = decode,
    .encode = encode,
    .encode_error = encode_error,
    .state_free = state_free,
};
